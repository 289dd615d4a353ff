//! The command line: what it accepts, what it says to mistakes, and what its exit codes and reports mean.

mod advice;
mod bad_settings;
mod commands;
mod enable;
mod endings;
mod environment;
mod limits;
mod pages;
mod plans;
mod process;
mod secrets;
mod sources;
mod streams;
mod trust;

use std::ffi::OsStr;
use std::path::Path;

use kennel_tests::{Ran, Scratch, kennel, ran};

/// Where commands are looked for: the caller's own may hold folders that an ordinary user may not look into.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// `kennel run WORDS` in `folder`, with no settings but those that the test makes there.
fn run_in<I: AsRef<OsStr>>(folder: &Path, words: impl IntoIterator<Item = I>) -> Ran {
    ran(kennel(["run"]).args(words).current_dir(folder).env("LC_ALL", "C").env("PATH", PATH))
}

/// The same in a folder that holds nothing.
fn run<I: AsRef<OsStr>>(words: impl IntoIterator<Item = I>) -> Ran {
    run_in(Scratch::new().path(), words)
}

/// Compares messages word for word: they are part of the product.
trait Said {
    /// Fails the test unless exactly this was said on standard error.
    fn says(self, message: &str) -> Self;
}

impl Said for Ran {
    #[track_caller]
    fn says(self, message: &str) -> Ran {
        assert_eq!(self.stderr, message, "exit code {}", self.code);
        self
    }
}
