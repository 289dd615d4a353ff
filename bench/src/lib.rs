//! What the benchmarks share: taking turns, medians, tables, and folders to work in.
//!
//! Every benchmark runs all that it compares in turn, round by round, so that a change of the machine's mood meets all
//! alike; and prints medians and their ratios. None of them fails because of a time: a busy machine is no bug.

pub mod fixture;
pub mod large;
pub mod programs;
pub mod rounds;
pub mod table;

use std::process::ExitCode;

/// Why a benchmark could not be run.
pub type Failure = Box<dyn std::error::Error>;

/// Whether only a few rounds are wanted, to see that it works.
#[must_use]
pub fn quick() -> bool {
    std::env::args().any(|argument| argument == "--quick")
}

/// The `main` of a benchmark: says what went wrong, if something did.
pub fn run(benchmark: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    match benchmark() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
