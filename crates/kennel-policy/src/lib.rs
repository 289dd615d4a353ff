//! What a sandbox may do, the grammars in which people say it, and what came of a run.
//!
//! This crate is pure: text goes in, values come out, and nothing here looks at a disk, a clock or an operating
//! system. Every front end ends in one [`policy::Policy`], and nothing that comes after can tell which it was.

pub mod caches;
pub mod codex;
pub mod credentials;
mod device;
pub mod domain;
pub mod dotfiles;
pub mod environment;
pub mod extract;
pub mod gate_work;
pub mod gateway;
#[cfg(unix)]
pub mod git_config;
pub mod gpu;
pub mod home;
pub mod host;
pub mod http_rule;
pub mod listeners;
pub mod merge;
pub mod nearest;
mod origin;
pub mod ostext;
pub mod outcome;
pub mod parent_proxy;
pub mod passwd;
pub mod pattern;
pub mod platforms;
pub mod policy;
pub mod printed;
pub mod profiles;
pub mod quantity;
pub mod registries;
mod rows;
pub mod secret_files;
pub mod secret_variables;
pub mod secrets;
pub mod settings;
pub mod srt;
pub mod traffic;
pub mod users;
pub mod wildcard;
