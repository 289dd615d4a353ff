//! Values that a program prints: a password manager's, say. It is started without a shell, with the caller's variables and
//! terminal, and ended when it takes too long or prints too much.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use zeroize::Zeroize;

use super::source::until_end;

/// Why a program gave no value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("no program is named\nhelp: write command:PROGRAM, with its arguments behind it")]
    NoProgram,
    #[error("starting `{program}`: {source}\nhelp: it is looked for in PATH, and no shell is used")]
    Start { program: String, source: io::Error },
    #[error("reading what `{program}` prints: {source}\nhelp: run it by hand")]
    Read { program: String, source: io::Error },
    #[error("`{program}` took longer than {} s and was killed\nhelp: run it by hand", limit.as_secs())]
    TooLong { program: String, limit: Duration },
    #[error("`{program}` {how}\nhelp: run it by hand; what it has to say is above")]
    Failed { program: String, how: String },
}

/// What a program prints until its end.
pub(super) fn output(words: &[OsString], limit: Duration) -> Result<Vec<u8>, ProgramError> {
    let (first, arguments) = words.split_first().ok_or(ProgramError::NoProgram)?;
    let program = || first.display().to_string();
    // Its errors are the user's to read, and it may ask for a password on the terminal.
    let started = Command::new(first).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = Ending(started.map_err(|source| ProgramError::Start { program: program(), source })?);
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::TimedOut => ProgramError::TooLong { program: program(), limit },
        _ => ProgramError::Read { program: program(), source },
    };
    let deadline = Instant::now() + limit;
    let Some(pipe) = child.0.stdout.take() else { return Err(failed(io::ErrorKind::BrokenPipe.into())) };
    let mut printed = until_end(pipe.as_fd(), deadline).map_err(failed)?;
    // More than a value is: it need not come to its end.
    if printed.capacity() == printed.len() {
        return Ok(printed);
    }
    drop(pipe);
    let ended = child.wait(deadline);
    match ended {
        Ok(status) if status.success() => Ok(printed),
        ended => {
            printed.zeroize();
            Err(match ended {
                Ok(status) => ProgramError::Failed { program: program(), how: how(status) },
                Err(error) => failed(error),
            })
        }
    }
}

fn how(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exited with {code}"),
        None => "was killed by a signal".to_owned(),
    }
}

/// A program that does not outlive this value.
struct Ending(Child);

impl Ending {
    #[cfg(target_os = "linux")]
    fn wait(&mut self, deadline: Instant) -> io::Result<ExitStatus> {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            super::source::wait(pidfd_open(pid, PidfdFlags::empty())?.as_fd(), deadline)?;
        }
        self.0.wait()
    }

    /// It has closed its output, which programs do at their end.
    #[cfg(not(target_os = "linux"))]
    fn wait(&mut self, _: Instant) -> io::Result<ExitStatus> {
        self.0.wait()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_takes_too_long_is_killed() {
        let words = ["sleep", "600"].map(OsString::from);
        let start = Instant::now();
        let error = output(&words, Duration::from_millis(50)).expect_err("it takes too long").to_string();
        assert!(error.contains("`sleep` took longer") && error.contains("help: "), "{error}");
        // It closes what it prints to, and goes on.
        let words = ["sh", "-c", "exec >&-; exec sleep 600"].map(OsString::from);
        let error = output(&words, Duration::from_millis(50)).expect_err("it takes too long").to_string();
        assert!(error.contains("took longer"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
