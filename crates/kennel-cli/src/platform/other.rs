//! Systems other than Linux: what the standard library offers everywhere.

use std::ffi::{OsStr, OsString};
#[cfg(not(target_os = "macos"))]
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

use kennel::job::InheritedMemory;

/// What was typed, the program's own name first.
pub fn arguments() -> impl Iterator<Item = OsString> {
    std::env::args_os()
}

/// The caller's variables.
pub fn environment() -> impl Iterator<Item = (&'static OsStr, &'static OsStr)> + Clone {
    static VARIABLES: OnceLock<Vec<(OsString, OsString)>> = OnceLock::new();
    let variables = VARIABLES.get_or_init(|| std::env::vars_os().collect());
    variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
}

/// What a clone of this process would have to forget. There are no such clones here.
pub fn inherited() -> InheritedMemory {
    InheritedMemory
}

/// Takes over a descriptor that the caller left open to be read.
///
/// # Safety
/// Nothing of this process's may use it.
///
/// # Errors
/// Always: programs are not started with such numbers everywhere, and nothing here could use what it says.
#[cfg(not(target_os = "macos"))]
pub unsafe fn take_descriptor(_: i32) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes to standard error.
pub fn write_error(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Whether two paths lead to one file.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| path.canonicalize().ok();
    place(one).is_some_and(|found| Some(found) == place(other))
}

/// Rows and columns of the terminal behind standard error; none, since nothing here asks it.
#[cfg(not(target_os = "macos"))]
pub fn terminal_size() -> (u16, u16) {
    (0, 0)
}

/// Ends this process by the signal that ended the command, where systems have such signals.
#[cfg(not(target_os = "macos"))]
pub fn die_of_terminal_signal(_: i32) {}
