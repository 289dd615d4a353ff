//! `kennel run`: a command in a sandbox, on this terminal.

use std::io;

use kennel::attached::{self, Audience, Ended, Error, Outcome, StartError, Ticker, Watch};

use kennel_policy::policy::Limits;

use super::{FAILED, policy, report, say, stats};
use crate::flags::{RunArgs, Stats};
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
    let mut row = (args.stats == Some(Stats::Live)).then(stats::LiveRow::new).flatten();
    let ticker = row.as_mut().map(|row| Ticker::new(row as &mut dyn Audience, stats::EVERY));
    let watch = Watch { count: args.stats.is_some(), ticker };
    // SAFETY: no thread has been started, and the memory is this process's own.
    let result = unsafe {
        attached::run(&merged.policy, &args.command, &cwd, memory::environment(), memory::inherited(), watch)
    };
    drop(row);
    let code = match &result {
        Ok(ran) => {
            if !args.quiet {
                explain(&ran.outcome, &merged.policy.limits);
                eprint!("{}", ran.blocked);
            }
            if args.stats.is_some() {
                say(&stats::at_exit(&ran.outcome));
            }
            ran.outcome.exit_code()
        }
        Err(error) => fail_to_start(error),
    };
    if let Some(path) = &args.report {
        if let Err(error) = report::write(path, &result, code) {
            return fail(&format!("writing the report: {}: {error}", path.display()));
        }
    }
    if let Ok(Ended::Signalled(signal @ (libc::SIGINT | libc::SIGQUIT))) = result.map(|ran| ran.outcome.ended)
    {
        die_of(signal);
    }
    code
}

/// Says what limit was hit, and what its value was.
fn explain(outcome: &Outcome, limits: &Limits) {
    for lack in &outcome.not_enforced {
        say(&format!("kennel: not enforced: {lack}"));
    }
    let bytes = stats::bytes(limits.memory.unwrap_or_default());
    match outcome.ended {
        Ended::TimedOut => say(&format!(
            "kennel: time was up after {:?} (limits.timeout); everything inside was killed",
            limits.wall_time.unwrap_or_default()
        )),
        Ended::CpuTimeUsedUp => say(&format!(
            "kennel: the command had used up its {:?} of CPU time (limits.cpu_time)",
            limits.cpu_time.unwrap_or_default()
        )),
        Ended::OutOfMemory => {
            say(&format!("kennel: memory ran out at {bytes} (limits.memory); the command was killed"));
        }
        Ended::Killed => say("kennel: the sandbox was killed from outside"),
        Ended::Exited(_) | Ended::Signalled(_) if outcome.oom_kills > 0 => say(&format!(
            "kennel: memory ran out at {bytes} (limits.memory); {} killed, the command went on",
            counted(outcome.oom_kills, "process was", "processes were")
        )),
        Ended::Exited(_) | Ended::Signalled(_) => {}
    }
    if let (1.., Some(pids)) = (outcome.pids_refused, limits.pids) {
        say(&format!(
            "kennel: at most {} allowed (limits.pids); {} refused",
            counted(pids.into(), "process was", "processes were"),
            counted(outcome.pids_refused, "more was", "more were"),
        ));
    }
    if let (true, Some(output)) = (outcome.output_truncated, limits.output) {
        let cap = stats::bytes(output);
        say(&format!("kennel: there was more than {cap} of output (limits.output); the rest was dropped"));
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
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
