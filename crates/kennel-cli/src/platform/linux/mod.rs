//! Linux, where this process becomes PID 1 of the sandbox by a clone of itself: so it has a heap that the clone can give up
//! and knows where its memory lies, and nothing that costs time happens before `main`.

mod heap;
mod start;
mod terminal;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub use start::{arguments, environment, inherited, take_descriptor};
pub use terminal::{die_of_terminal_signal, terminal_size, write_error};

/// Whether two paths lead to one file.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|data| (data.dev(), data.ino())).ok();
    identity(one).is_some_and(|found| Some(found) == identity(other))
}

/// Whether the process file system is one that kennel made for a sandbox. What cannot be read says no.
pub fn has_kennels_proc() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(4) == Some("/proc") && line.contains(" - proc kennel "))
}
