//! The machine that looks for ways out: random trees, policies and histories, against the real program, and an oracle that
//! asks a small model of the policy and never kennel.
//!
//! - [`script`]: what a history is, and its text; [`word`]: names in it
//! - [`tree`], [`snapshot`]: a tree on the disk, and how it looks; [`canary`]: its secrets
//! - [`model`]: what a policy permits at most
//! - [`attacker`]: the program inside; [`wire`]: what it tells
//! - [`host`]: what the user's own programs do meanwhile; [`ledger`]: the books about it
//! - [`perform`], [`play`]: one run, and a whole history
//! - [`by_library`]: the same by the library, in pooled sandboxes and sessions
//! - [`oracle`]: whether something is wrong
//! - [`generate`]: random histories; [`shrink`]: small ones
//! - [`session`]: the loop around all of it

pub mod attacker;
pub mod by_library;
pub mod canary;
pub mod generate;
pub mod host;
pub mod ledger;
pub mod listener;
pub mod model;
pub mod oracle;
pub mod perform;
pub mod play;
pub mod rng;
pub mod script;
pub mod session;
pub mod shrink;
pub mod snapshot;
pub mod tree;
pub mod wire;
pub mod word;
