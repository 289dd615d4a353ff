//! kennel as `codex-linux-sandbox`. The library does it, so that other programs can answer to that name too.

use std::ffi::OsString;

use crate::platform;

/// Runs what the words ask for and returns the exit code.
pub fn main(words: Vec<OsString>) -> i32 {
    // SAFETY: no thread has been started, and the memory is this process's own.
    unsafe { kennel::codex::main(words.into_iter(), platform::variables(), Some(platform::inherited())) }
}
