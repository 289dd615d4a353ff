//! How a command ended, and whether it ever started.
//!
//! `sandbox-exec` becomes the command, so both have one exit status. When the profile cannot be compiled it ends with 65, when
//! it cannot be applied or the command not be executed with 71, for wrong words with 64; a command may end with the same. What tells them apart
//! is whether the process executed a second program ([`Executed`]).

use std::time::Duration;

use kennel_policy::outcome::Ended;

/// Whether the process became the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Executed {
    /// It did: the kernel said so, or its program was another one already.
    Yes,
    /// It was still `sandbox-exec` when it was looked at, and nothing came after that.
    No,
    /// It had ended before anybody could look.
    #[default]
    Unknown,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The command ran, and ended so.
    Ran(Ended),
    /// The command was not started.
    NotStarted(Reason),
}

/// Why a command was not started. `sandbox-exec` has said more on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The system does not understand the profile.
    Profile,
    /// The profile was not applied, or the command not executed.
    ApplyOrExecute,
    /// `sandbox-exec` does not understand its words.
    Usage,
}

const EX_USAGE: i32 = 64;
const EX_DATAERR: i32 = 65;
const EX_OSERR: i32 = 71;
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// How a process ended, as `wait4` tells it: its code, or the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

/// Takes apart what `wait4` says of a process that has ended.
#[must_use]
pub fn status(raw: i32) -> Status {
    match raw & 0x7f {
        0 => Status::Code(raw >> 8 & 0xff),
        signal => Status::Signal(signal),
    }
}

/// What became of a process that ended with `status`. `cpu_limit` is the limit on CPU time, of which a SIGXCPU tells.
#[must_use]
pub fn fate(status: Status, executed: Executed, cpu_limit: Option<Duration>) -> Fate {
    match (status, executed) {
        (Status::Code(code), Executed::Yes) => Fate::Ran(Ended::Exited(code)),
        (Status::Code(EX_DATAERR), _) => Fate::NotStarted(Reason::Profile),
        (Status::Code(EX_OSERR), _) => Fate::NotStarted(Reason::ApplyOrExecute),
        (Status::Code(EX_USAGE), _) => Fate::NotStarted(Reason::Usage),
        // None of its own: should the kernel have kept the second program from us, this is still the command's.
        (Status::Code(code), _) => Fate::Ran(Ended::Exited(code)),
        (Status::Signal(SIGXCPU), _) if cpu_limit.is_some() => Fate::Ran(Ended::CpuTimeUsedUp),
        // Whoever killed it did so before it had become anything.
        (Status::Signal(signal), _) => Fate::Ran(Ended::Signalled(signal)),
    }
}

/// Whether an end by SIGKILL that kennel did not send may be the kernel's, for want of memory.
#[must_use]
pub fn is_kill(status: Status) -> bool {
    status == Status::Signal(SIGKILL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_status_is_a_code_or_a_signal() {
        assert_eq!(status(0), Status::Code(0));
        assert_eq!(status(71 << 8), Status::Code(71));
        assert_eq!(status(15), Status::Signal(15));
        // With a core file.
        assert_eq!(status(11 | 0x80), Status::Signal(11));
        assert!(is_kill(status(9)) && !is_kill(status(9 << 8)));
    }

    #[test]
    fn the_codes_of_sandbox_exec_are_its_own_only_before_it_became_the_command() {
        let tell = |code, executed| fate(Status::Code(code), executed, None);
        for code in [0, 1, 64, 65, 71, 127] {
            assert_eq!(tell(code, Executed::Yes), Fate::Ran(Ended::Exited(code)));
        }
        for executed in [Executed::No, Executed::Unknown] {
            assert_eq!(tell(65, executed), Fate::NotStarted(Reason::Profile));
            assert_eq!(tell(71, executed), Fate::NotStarted(Reason::ApplyOrExecute));
            assert_eq!(tell(64, executed), Fate::NotStarted(Reason::Usage));
            assert_eq!(tell(3, executed), Fate::Ran(Ended::Exited(3)));
        }
    }

    #[test]
    fn cpu_time_is_used_up_only_where_there_is_a_limit() {
        let limit = Some(Duration::from_secs(1));
        assert_eq!(fate(Status::Signal(24), Executed::Yes, limit), Fate::Ran(Ended::CpuTimeUsedUp));
        assert_eq!(fate(Status::Signal(24), Executed::Yes, None), Fate::Ran(Ended::Signalled(24)));
        assert_eq!(fate(Status::Signal(9), Executed::Unknown, limit), Fate::Ran(Ended::Signalled(9)));
    }
}
