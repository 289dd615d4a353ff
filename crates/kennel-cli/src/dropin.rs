//! kennel under other names: what it answers to, and what these names share.
//!
//! Programs call `srt` and `codex-linux-sandbox` with settings of their own. Each is a reader that ends in the same
//! policy as everything else, and differs from `kennel run` only in its command line, its words and its exit codes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kennel::ControlLines;
use kennel::home::Homes;
use kennel::job::Job;
use kennel_policy::policy::Policy;

use crate::commands;
use crate::memory;

/// Does what the name that this program was called by asks for; `None` for its own.
pub fn by_name(called: &OsStr, words: impl Iterator<Item = OsString>) -> Option<i32> {
    match Path::new(called).file_name()?.to_str()? {
        "srt" => Some(crate::srt::main(words)),
        "codex-linux-sandbox" => Some(crate::codex::main(words)),
        _ => None,
    }
}

/// A run under another name.
pub struct Run {
    /// What is allowed.
    pub policy: Policy,
    /// What is run.
    pub command: Vec<OsString>,
    /// Where.
    pub folder: PathBuf,
    /// Where new rules for the network come from.
    pub control: Option<ControlLines>,
    /// How a host that was blocked is allowed; the host follows.
    pub advice: &'static str,
    /// The exit code when there is no sandbox.
    pub failed: i32,
}

impl Run {
    /// Runs it; the exit code is the command's own, or says what became of it.
    pub fn go(self) -> i32 {
        let Run { policy, command, folder, control, advice, failed } = self;
        let policy = Arc::new(policy);
        let mut job = Job::bare(policy.clone(), command);
        (job.environment, job.cwd) = (memory::environment_of_job(), folder);
        (job.hooks.control, job.hooks.advice) = (control, advice);
        // SAFETY: no thread has been started, and the memory is this process's own.
        unsafe { job.clone_this_process(memory::inherited()) };
        match job.start().and_then(|mut running| running.wait()) {
            Ok(outcome) => {
                commands::tell(&outcome, &policy.limits);
                commands::end_like(&outcome)
            }
            Err(error) => match commands::not_started(&error) {
                commands::FAILED => failed,
                code => code,
            },
        }
    }
}

/// Where the caller is.
pub fn folder() -> Result<PathBuf, String> {
    std::env::current_dir().map_err(|error| format!("reading the working directory: {error}"))
}

/// A variable of the caller's.
pub fn variable(name: &str) -> Option<&'static OsStr> {
    memory::environment().find(|(own, _)| *own == name).map(|(_, value)| value)
}

/// The caller's homes.
pub fn homes() -> Homes {
    Homes::of_caller(variable)
}
