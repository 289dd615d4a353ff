//! What a policy means on a disk: what is the same on every system.
//!
//! A system shows its disk through a trait, and says what its own places mean. All that is read of a disk may be the work of an
//! earlier run.

#![forbid(unsafe_code)]
// A path is bytes here, as it is on every Unix; empty, not broken, elsewhere.
#![cfg(unix)]

pub mod disk;
pub mod error;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod git;
pub mod precedence;
pub mod resolver;
pub mod walk;
