//! What this program takes from the system that it runs on: how it starts, its words and variables, its terminal.
//!
//! Each system's file has the same functions, so that nothing else has to ask which it is. Only what a clone of this process
//! needs, and descriptors, are Linux's alone.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as system;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
use other as system;

#[cfg(unix)]
mod unix;

use std::ffi::OsStr;

use kennel::job::Environment;

pub use system::*;
#[cfg(unix)]
pub use unix::*;

/// The caller's variables for a job. None of the strings is copied.
pub fn variables() -> Environment {
    environment().map(|(name, value)| (name.into(), value.into())).collect()
}

/// A variable of the caller's.
pub fn variable(name: &str) -> Option<&'static OsStr> {
    environment().find(|(own, _)| *own == name).map(|(_, value)| value)
}

/// Whether this program runs in a sandbox of kennel's: the variable says so, which anybody can set, and where the kernel can say it
/// too, it must.
pub fn is_inside() -> bool {
    variable(MARK).is_some_and(|value| !value.is_empty()) && has_kennels_proc()
}

/// The variable that is set in every sandbox of `kennel run`.
pub const MARK: &str = "KENNEL";
