//! Why a command was not started.

use std::io;

use crate::environment::BlockError;
use crate::quote::QuoteError;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call of Windows' failed.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: String,
        /// What Windows said.
        source: io::Error,
    },
    /// There is no such program.
    #[error("{0}")]
    NotFound(String),
    /// It is there and cannot be executed.
    #[error("{program}: {source}")]
    NotExecuted {
        /// Its path.
        program: String,
        /// What Windows said.
        source: io::Error,
    },
    /// The words cannot be passed on.
    #[error("preparing the command line: {0}")]
    Quote(#[from] QuoteError),
    /// The variables cannot be passed on.
    #[error("preparing the environment: {0}")]
    Environment(#[from] BlockError),
}

/// What Windows said last on this thread, and what was being done.
pub(crate) fn failed(doing: impl Into<String>) -> Error {
    Error::System { doing: doing.into(), source: io::Error::last_os_error() }
}

/// The result of a call that returns whether it succeeded.
pub(crate) fn check(succeeded: i32, doing: &str) -> Result<(), Error> {
    if succeeded == 0 { Err(failed(doing)) } else { Ok(()) }
}
