//! Windows: a command in a Job Object, with a restricted token, a sanitised environment and only the handles that it was
//! given.
//!
//! What Windows enforces this way is less than what Linux does, and [`verdict`] says which part of a policy it is, key by key.
//! That, [`quote`], [`environment`], [`limits`] and [`exit`] are pure: they are built and tested on every system. The rest
//! calls Windows and is empty elsewhere.

pub mod environment;
pub mod exit;
pub mod limits;
pub mod quote;
pub mod verdict;

#[cfg(windows)]
mod attributes;
#[cfg(windows)]
pub mod console;
#[cfg(windows)]
mod error;
#[cfg(windows)]
pub mod host;
#[cfg(windows)]
mod job;
#[cfg(windows)]
mod private_temp;
#[cfg(windows)]
mod program;
#[cfg(windows)]
mod sid;
#[cfg(windows)]
mod start;
#[cfg(windows)]
mod token;
#[cfg(windows)]
mod wide;

#[cfg(windows)]
pub use error::Error;
#[cfg(windows)]
pub use start::{End, KILLED, Launch, Prepared, Sandboxed, start};
