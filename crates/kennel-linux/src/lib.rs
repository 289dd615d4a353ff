//! Linux: from a policy to a running sandbox.
//!
//! The rooms, in order: [`resolve`] looks at the disk, [`plan`] turns what it found into steps, [`launch`] clones PID
//! 1 into its namespaces, [`supervise`] waits for the end. [`sandbox`] walks through all of them. Elsewhere than on
//! Linux this crate is empty.

#![cfg(target_os = "linux")]

pub mod additions;
pub mod caches;
pub mod cgroup;
mod clock;
pub mod describe;
pub mod guard;
pub mod handback;
pub mod held;
pub mod holder;
mod home;
pub mod host;
pub mod keyring;
pub mod landlock;
pub mod launch;
pub mod limits;
mod link;
pub mod mounts;
pub mod network;
pub mod plan;
mod read;
mod reap;
pub mod resolve;
pub mod sandbox;
pub mod seccomp;
pub mod shared;
pub mod signals;
pub mod supervise;
mod sys;
pub mod tier;
pub mod users;
