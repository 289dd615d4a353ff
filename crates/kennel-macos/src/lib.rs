//! macOS: from a policy to a Seatbelt profile, and to a running command.
//!
//! [`profile`] is pure: it looks at a disk through a small trait and writes a text. So are the decisions of the executor:
//! [`command_line`], [`limits`], [`ledger`], [`exit`], [`support`], [`units`] and [`violations`]. They are compiled and tested on every system with such
//! paths. What calls macOS itself is in `sys`, `spawn`, `process`, `terminal`, `violation_log` and `host`, and is there
//! on macOS alone.

#[cfg(unix)]
pub mod command_line;
#[cfg(all(unix, any(test, feature = "evaluator")))]
pub mod evaluator;
#[cfg(unix)]
pub mod exit;
#[cfg(unix)]
pub mod ledger;
#[cfg(unix)]
pub mod limits;
#[cfg(unix)]
pub mod profile;
#[cfg(unix)]
pub mod support;
#[cfg(unix)]
pub mod units;
#[cfg(unix)]
pub mod violations;

#[cfg(target_os = "macos")]
pub mod host;
#[cfg(target_os = "macos")]
pub mod process;
#[cfg(target_os = "macos")]
pub mod spawn;
#[cfg(target_os = "macos")]
mod sys;
#[cfg(target_os = "macos")]
pub mod terminal;
#[cfg(target_os = "macos")]
pub mod violation_log;
