//! `kennel run`: a command in a sandbox, on this terminal.

use std::io;

use kennel::attached::{self, Ended, Error, Outcome, StartError};

use super::{FAILED, policy, report, say};
use crate::flags::RunArgs;
use crate::memory;

/// Runs the command; the exit code is its own, or says what became of it.
pub fn run(args: &RunArgs) -> i32 {
    let (merged, cwd) = match policy::policy(args) {
        Ok(found) => found,
        Err(error) => return fail(&error.to_string()),
    };
    if !args.quiet {
        merged.notes.iter().for_each(|note| say(&format!("kennel: note: {note}")));
    }
    let limit = merged.policy.limits.wall_time;
    // SAFETY: no thread has been started, and the memory is this process's own.
    let result =
        unsafe { attached::run(&merged.policy, &args.command, &cwd, memory::environment(), memory::inherited()) };
    let code = match &result {
        Ok(outcome) => {
            if !args.quiet {
                explain(outcome, limit);
            }
            outcome.exit_code()
        }
        Err(error) => fail_to_start(error),
    };
    if let Some(path) = &args.report {
        if let Err(error) = report::write(path, &result, code) {
            return fail(&format!("writing the report: {}: {error}", path.display()));
        }
    }
    if let Ok(Outcome { ended: Ended::Signalled(signal @ (libc::SIGINT | libc::SIGQUIT)), .. }) = result {
        die_of(signal);
    }
    code
}

fn explain(outcome: &Outcome, limit: Option<std::time::Duration>) {
    for lack in &outcome.not_enforced {
        say(&format!("kennel: not enforced: {lack}"));
    }
    match outcome.ended {
        Ended::TimedOut => {
            say(&format!("kennel: time was up after {:?}; everything inside was killed", limit.unwrap_or_default()));
        }
        Ended::Killed => say("kennel: the sandbox was killed from outside"),
        Ended::Exited(_) | Ended::Signalled(_) => {}
    }
}

fn fail(message: &str) -> i32 {
    say(&format!("kennel: {message}"));
    FAILED
}

/// 127 and 126 as shells have it; 125 when it is kennel that failed.
fn fail_to_start(error: &Error) -> i32 {
    match error {
        Error::Start(StartError::NotExecuted { command, source }) => match source.kind() {
            io::ErrorKind::NotFound => {
                say(&format!("kennel: {command}: command not found"));
                127
            }
            _ => {
                say(&format!("kennel: {command}: {source}"));
                126
            }
        },
        error => fail(&error.to_string()),
    }
}

/// Ctrl-C ended the command, which had the terminal to itself. Dying of the same signal is what tells a shell's loop
/// to stop; the shell shows the same exit code either way.
fn die_of(signal: i32) {
    // SAFETY: plain signal calls; this process has nothing left to do.
    unsafe {
        if libc::isatty(0) == 0 && libc::isatty(2) == 0 {
            return;
        }
        // A core dump of kennel would help nobody.
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
}
