//! Where the standard streams of a command lead, and what of them is arranged on this side.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use kennel_policy::policy::Policy;

use super::{Error, Started, Watch, system};
use crate::signals::{Signals, WritesFailQuietly};
use crate::supervise::listening::Listening;
use crate::supervise::standard::{Standard, StreamRules};
use crate::supervise::streams::Streams;
use crate::supervise::{Running, Supervisor, WaitOptions};
use crate::sys::files::numbered;

/// Where the standard streams of a command lead.
pub enum Given {
    /// To this process's own streams and terminal; signals to this process are forwarded.
    Callers,
    /// Elsewhere. What is needed of these becomes the command's: pipes and sockets themselves, files and devices by way of
    /// the controller.
    Streams {
        /// Input, output and errors.
        ends: [OwnedFd; 3],
        /// The other ends, where the controller feeds and captures.
        captured: Option<Streams>,
    },
    /// To a terminal of the sandbox's own, of this many rows and columns, whose other side is the caller's.
    Terminal(u16, u16),
}

/// The streams of a command, as far as they are arranged outside.
pub(super) struct Arranged {
    /// Whether they are this process's own.
    pub(super) attached: bool,
    /// What was given, where they are not.
    pub(super) given: Option<[OwnedFd; 3]>,
    captured: Option<Streams>,
    pub(super) standard: Standard,
}

impl Arranged {
    /// `late` says that the sandbox stands already.
    pub(super) fn new(policy: &Policy, streams: Given, late: bool) -> Result<Arranged, Error> {
        let attached = matches!(streams, Given::Callers);
        let (given, captured, standard) = match streams {
            Given::Callers => (None, None, standard_streams(policy, None, late)?),
            Given::Streams { ends, captured } => {
                let standard = standard_streams(policy, Some(&ends), late)?;
                (Some(ends), captured, standard)
            }
            Given::Terminal(rows, columns) => {
                // Until the terminal is there.
                let ends = match late {
                    true => None,
                    false => Some(nothing_thrice().map_err(system("opening /dev/null"))?),
                };
                (ends, None, Standard::terminal((rows, columns)))
            }
        };
        Ok(Arranged { attached, given, captured, standard })
    }

    pub(super) fn take_signals(&self) -> Result<Option<Signals>, Error> {
        self.attached.then(Signals::take).transpose().map_err(system("taking over signals"))
    }

    /// Takes part in all that the streams and `watch` ask for while it runs.
    pub(super) fn attend(
        self,
        mut running: Running,
        watch: Watch,
        options: WaitOptions,
        not_enforced: Vec<String>,
    ) -> Started {
        let Arranged { attached, captured, standard, .. } = self;
        let terminal = if attached { None } else { running.take_terminal() };
        let pid = running.init_pid();
        let carries = standard.carried.is_some() || standard.terminal.is_some();
        let options = WaitOptions {
            quietly: (attached && carries).then(WritesFailQuietly::new),
            terminal: standard.terminal,
            carried: standard.carried,
            streams: captured,
            questions: watch.questions,
            ticker: watch.ticker,
            listening: watch.listening.map(|told| Listening::new(told, pid)),
            ..options
        };
        Started { supervisor: Supervisor::new(running, options), not_enforced, terminal }
    }
}

/// What the command gets in the place of the streams that were given, or of this process's own.
fn standard_streams(policy: &Policy, given: Option<&[OwnedFd; 3]>, late: bool) -> Result<Standard, Error> {
    let rules = StreamRules {
        // How much is captured of what is given is the business of whoever gave it.
        output: policy.limits.output.filter(|_| given.is_none()),
        file_size: policy.limits.file_size,
        keep: policy.process.keep_fds.clone(),
        late,
    };
    let standard = match given {
        None => {
            (0..3).try_for_each(refuse_folder)?;
            (0..3).try_for_each(|fd| refuse_uncounted(policy, fd, true))?;
            Standard::of_this_process(&rules)
        }
        Some(given) => {
            for fd in given {
                refuse_folder(fd.as_raw_fd().cast_unsigned())?;
                refuse_uncounted(policy, fd.as_raw_fd().cast_unsigned(), true)?;
            }
            Standard::of(given.each_ref().map(AsFd::as_fd), &rules)
        }
    };
    standard.map_err(system("looking at the standard streams"))
}

/// A descriptor of a folder leads past every mount: what is opened below it is opened in the host's tree.
pub(super) fn refuse_folder(fd: u32) -> Result<(), Error> {
    let named = numbered(i32::try_from(fd).unwrap_or(-1)).ok_or(rustix::io::Errno::BADF);
    let (borrowed, stat) = named.and_then(|named| Ok((named, rustix::fs::fstat(named)?))).map_err(|error| {
        Error::NotEnforced(format!(
            "keeping descriptor {fd}: {}\nhelp: open it before the sandbox starts, or leave it out of `keep_fds`",
            io::Error::from(error)
        ))
    })?;
    let folder = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory;
    let path_only =
        rustix::fs::fcntl_getfl(borrowed).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::PATH));
    if folder || path_only {
        return Err(Error::NotEnforced(format!(
            "descriptor {fd} is {}, which would bypass the file rules\nhelp: open it inside, or close it",
            if folder { "an open folder" } else { "an O_PATH handle" }
        )));
    }
    Ok(())
}

/// What goes to a socket that was handed over does not come by the gate, which is to count it. A standard stream that is a unix socket
/// is the caller's own end, as a pipe is.
pub(super) fn refuse_uncounted(policy: &Policy, fd: u32, is_standard: bool) -> Result<(), Error> {
    let Some(limit) = policy.network.budget.first() else { return Ok(()) };
    let Some(named) = numbered(i32::try_from(fd).unwrap_or(-1)) else { return Ok(()) };
    match rustix::net::sockopt::socket_domain(named) {
        Err(_) => Ok(()),
        Ok(rustix::net::AddressFamily::UNIX) if is_standard => Ok(()),
        Ok(_) => Err(Error::NotEnforced(format!(
            "network.budget `{} = {limit}` ({}) cannot be kept with descriptor {fd}: it is a socket, and kennel does not count what \
             goes there\nhelp: hand over a pipe, or close it",
            limit.measure.key(),
            limit.origin
        ))),
    }
}

pub(super) fn nothing_thrice() -> io::Result<[OwnedFd; 3]> {
    let nothing = OwnedFd::from(std::fs::File::options().read(true).write(true).open("/dev/null")?);
    Ok([nothing.try_clone()?, nothing.try_clone()?, nothing])
}
