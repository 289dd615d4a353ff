//! Systems other than Linux: what the standard library offers everywhere.

use std::ffi::{OsStr, OsString};
#[cfg(not(target_os = "macos"))]
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::path::Path;
#[cfg(not(unix))]
use std::path::PathBuf;
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
pub fn inherited() -> Option<InheritedMemory> {
    None
}

/// Takes over a descriptor that the caller left open to be read.
///
/// # Errors
/// Always: programs are not started with such numbers everywhere, and nothing here could use what it says.
#[cfg(not(target_os = "macos"))]
pub fn take_descriptor(_: i32) -> io::Result<File> {
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

/// Whether the process file system is one that kennel made for a sandbox: there is none here that could tell.
pub fn has_kennels_proc() -> bool {
    true
}

/// Has a program take the place of this one, or waits for it where nothing can.
#[cfg(not(unix))]
pub fn become_program(program: &Path, _: &OsStr, arguments: &[OsString]) -> io::Error {
    match std::process::Command::new(program).args(arguments).status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

/// Whether a file may be executed: its name says that here, and is not looked at.
#[cfg(not(unix))]
pub fn is_executable(data: &Metadata) -> bool {
    data.is_file()
}

/// Whether a file has one name only.
#[cfg(not(unix))]
pub fn has_one_name(_: &Metadata) -> bool {
    true
}

/// Writes a file.
#[cfg(not(unix))]
pub fn write_whole(path: &Path, contents: &[u8], _: Option<&Metadata>, _: u32) -> io::Result<()> {
    std::fs::write(path, contents)
}

/// Whether a file or folder can be a stranger's work. Who owns it is not asked here, so it may be anybody's.
#[cfg(not(unix))]
pub fn is_strangers(_: &Metadata, _: u32) -> bool {
    true
}

/// A path that was noted as its bytes.
#[cfg(not(unix))]
pub fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// The file system that a file is on.
#[cfg(not(unix))]
pub fn device(_: &Metadata) -> u64 {
    0
}

/// Who runs this program.
#[cfg(not(unix))]
pub fn user() -> u32 {
    0
}
