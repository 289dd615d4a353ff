//! A sandbox that a thread of kennel's attends to, because its caller goes on with something else: without one
//! nobody would keep the clock or see to a sandbox that is short of memory while the caller reads its output.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Signal;

use super::carry::Carried;
use super::{Attended, Meter, Running};
use crate::cgroup::Usage;
use crate::outcome::Outcome;

/// The thread, and what its sandbox is known by. Dropping it ends the sandbox and waits until nothing is left.
#[derive(Debug)]
pub struct Attendant {
    init: i32,
    pidfd: OwnedFd,
    /// Tells the thread to end the sandbox.
    end_it: OwnedFd,
    meter: Meter,
    end: Receiver<io::Result<Outcome>>,
    thread: Option<JoinHandle<()>>,
    outcome: Option<Outcome>,
}

impl Attendant {
    /// Takes a running sandbox over.
    ///
    /// # Errors
    /// When the system gives no thread or descriptor; the sandbox is ended then.
    pub fn new(mut running: Running, mut carried: Option<Carried>) -> io::Result<Attendant> {
        let (init, meter) = (running.init_pid(), running.meter());
        let pidfd = running.init.pidfd.try_clone()?;
        let end_it = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let told = end_it.try_clone()?;
        let (sender, end) = sync_channel(1);
        let thread = std::thread::Builder::new().name("kennel".into()).spawn(move || {
            block_signals();
            let attended = Attended { end: Some(&told), carried: carried.as_mut(), ..Attended::default() };
            let mut outcome = running.wait(attended);
            if let Ok(outcome) = &mut outcome {
                running.finish_without_namespace(outcome);
            }
            // Before the outcome is told, so that whoever has it finds nothing of the sandbox any more.
            drop(running);
            let _ = sender.send(outcome);
        })?;
        Ok(Attendant { init, pidfd, end_it, meter, end, thread: Some(thread), outcome: None })
    }

    /// PID 1's pid in this process's namespace.
    #[must_use]
    pub fn init_pid(&self) -> i32 {
        self.init
    }

    /// Ready to read when everything inside has ended.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Sends a signal to the command's process group, through PID 1.
    ///
    /// # Errors
    /// When there is no such signal, or everything has ended.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(rustix::process::pidfd_send_signal(&self.pidfd, signal)?)
    }

    /// What the sandbox uses now; `None` when it has ended, and where nothing counts.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.meter.usage()
    }

    /// Kills everything inside.
    pub fn kill(&self) {
        // It can only be full when it has been told often enough.
        let _ = rustix::io::write(self.end_it.as_fd(), &1u64.to_ne_bytes());
    }

    /// Waits for the end, at most so long; `None` if it has not come.
    ///
    /// # Errors
    /// When the system failed this process itself.
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<Option<Outcome>> {
        if self.outcome.is_none() {
            let end = match limit {
                None => self.end.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(limit) => self.end.recv_timeout(limit),
            };
            self.outcome = match end {
                Ok(end) => Some(end?),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("the thread that attended to the sandbox has gone"));
                }
            };
        }
        Ok(self.outcome.clone())
    }
}

impl Drop for Attendant {
    fn drop(&mut self) {
        self.kill();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The caller's signals are for the caller's own threads.
fn block_signals() {
    // SAFETY: the set is filled in before it is used; only this thread's mask changes.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}
