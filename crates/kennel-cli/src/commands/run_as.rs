//! A run for a front end that stands in for another program: `kennel run` without its flags, with that program's exit codes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use kennel::ControlLines;
use kennel::job::Job;
use kennel_policy::policy::Policy;

use super::{FAILED, run, variables};
use crate::platform;

/// A run under another name.
pub struct RunAs {
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

impl RunAs {
    /// Runs it; the exit code is the command's own, or says what became of it.
    pub fn go(self) -> i32 {
        let RunAs { policy, command, folder, control, advice, failed } = self;
        let policy = Arc::new(policy);
        let mut job = Job::bare(policy.clone(), command);
        (job.environment, job.cwd) = (variables(), folder);
        (job.hooks.control, job.hooks.advice) = (control, advice);
        job.hooks.warn = Some(run::tell_warning);
        job.clone_this_process(platform::inherited());
        match job.run() {
            Ok(outcome) => {
                run::tell(&outcome, &policy.limits);
                run::end_like(&outcome)
            }
            Err(error) => match run::not_started(&error) {
                FAILED => failed,
                code => code,
            },
        }
    }
}
