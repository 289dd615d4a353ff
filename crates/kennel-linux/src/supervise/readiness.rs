//! One descriptor for all that a sandbox waits for, for event loops.
//!
//! It is an epoll that holds a clock and a second epoll, which in turn holds the descriptors. The second is made anew
//! whenever the list changes: a descriptor that was closed here while a copy of it lives elsewhere could not be taken out of
//! it, and would be told about for ever.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

use crate::clock::timespec;

/// Something that is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interest<'a> {
    fd: BorrowedFd<'a>,
    flags: PollFlags,
}

impl<'a> Interest<'a> {
    pub(super) fn new(fd: &'a impl AsFd, flags: PollFlags) -> Interest<'a> {
        Interest { fd: fd.as_fd(), flags }
    }

    pub(super) fn from_borrowed(fd: BorrowedFd<'a>, flags: PollFlags) -> Interest<'a> {
        Interest { fd, flags }
    }

    pub(super) fn poll_fd(self) -> PollFd<'a> {
        PollFd::from_borrowed_fd(self.fd, self.flags)
    }
}

#[derive(Debug)]
pub(super) struct Readiness {
    all: OwnedFd,
    clock: OwnedFd,
    streams: Option<OwnedFd>,
    /// What `streams` holds: the numbers, and what is waited for.
    listed: Vec<(i32, PollFlags)>,
    /// Whether one of them is always ready, such as a file on a disk, which epoll does not take.
    always: bool,
}

impl Readiness {
    pub(super) fn new() -> io::Result<Readiness> {
        let all = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let clock = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(&all, &clock, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Readiness { all, clock, streams: None, listed: Vec::new(), always: false })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }

    /// Is ready from now on when one of `fds` is, or when it is time for what is next.
    pub(super) fn update(&mut self, interests: &[Interest], next: Option<Instant>) -> io::Result<()> {
        let listed: Vec<_> = interests.iter().map(|one| (one.fd.as_raw_fd(), one.flags)).collect();
        if self.streams.is_none() || listed != self.listed {
            self.list(interests, &listed)?;
            self.listed = listed;
        }
        self.set_clock(if self.always { Some(Instant::now()) } else { next })
    }

    fn list(&mut self, interests: &[Interest], listed: &[(i32, PollFlags)]) -> io::Result<()> {
        let streams = epoll::create(CreateFlags::CLOEXEC)?;
        self.always = false;
        for (index, one) in interests.iter().enumerate() {
            let number = listed[index].0;
            // The same descriptor may be listed more than once, for several ends.
            if listed[..index].iter().any(|(own, _)| *own == number) {
                continue;
            }
            let all = listed.iter().filter(|(own, _)| *own == number);
            let flags = all.fold(0, |all, (_, flags)| all | u32::from(flags.bits()));
            let flags = EventFlags::from_bits_retain(flags);
            match epoll::add(&streams, one.fd, EventData::new_u64(0), flags) {
                Ok(()) => {}
                Err(Errno::PERM) => self.always = true,
                Err(error) => return Err(error.into()),
            }
        }
        epoll::add(&self.all, &streams, EventData::new_u64(1), EventFlags::IN)?;
        if let Some(old) = self.streams.replace(streams) {
            // By hand: where a process was forked off meanwhile, closing it here is not the end of it.
            epoll::delete(&self.all, &old)?;
        }
        Ok(())
    }

    fn set_clock(&self, next: Option<Instant>) -> io::Result<()> {
        // Zero would stop the clock.
        const NOW: Duration = Duration::from_nanos(1);
        let left = next.map(|next| next.saturating_duration_since(Instant::now()).max(NOW));
        let value = timespec(left.unwrap_or_default());
        let time = Itimerspec { it_interval: timespec(Duration::ZERO), it_value: value };
        rustix::time::timerfd_settime(&self.clock, TimerfdTimerFlags::empty(), &time)?;
        Ok(())
    }
}
