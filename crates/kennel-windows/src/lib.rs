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
