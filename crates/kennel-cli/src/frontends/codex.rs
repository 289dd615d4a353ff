//! kennel as `codex-linux-sandbox`. The library does it, so that other programs can answer to that name too.

use std::ffi::OsString;

use crate::commands::variables;
use crate::platform;

/// Runs what the words ask for and returns the exit code.
pub fn main(words: Vec<OsString>) -> i32 {
    kennel::codex::main(words.into_iter(), variables(), platform::inherited())
}
