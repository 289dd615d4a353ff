//! Covers names again in a sandbox that runs, by a process that enters its namespaces.
//!
//! PID 1 has no capabilities any more, and cannot be entered through /proc because it is not dumpable. So the namespaces
//! are held open from the start, and init's program is started a second time as a helper that waits in them; see
//! [`kennel_init::child::mend`].

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use kennel_init::encode::{encode_bases, encode_coverings};
use kennel_init::plan::{Base, Covering};
use kennel_init::report::Report;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::net::RecvFlags;

use crate::clock::timespec;
use crate::launch;
use crate::link::{self, Received};

/// A file system that does not answer holds the helper; the sandbox is not held with it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The namespaces of a sandbox that names are covered in.
#[derive(Debug)]
pub struct Namespaces {
    user: OwnedFd,
    mounts: OwnedFd,
}

impl Namespaces {
    /// Takes hold of those that init, which is still setting up, was born in.
    ///
    /// # Errors
    /// When there is no /proc, or init is gone.
    pub fn of(init: i32) -> io::Result<Namespaces> {
        let open = |which: &str| {
            let path = format!("/proc/{init}/ns/{which}");
            rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        };
        Ok(Namespaces { user: open("user")?, mounts: open("mnt")? })
    }
}

/// A name that is covered.
#[derive(Clone, Copy, Debug)]
pub struct CoveredNow {
    /// Its place in the request.
    pub index: usize,
    /// The mount that covers it.
    pub mount: u64,
    /// Whether it was not, before.
    pub again: bool,
}

/// The helper that covers names. It runs for as long as this value lives.
#[derive(Debug)]
pub struct Mender(launch::Init);

impl Mender {
    /// Starts it for a sandbox with these namespaces, and this store of what hides things.
    ///
    /// # Errors
    /// When there is no process to be had.
    pub fn start(namespaces: &Namespaces, store: &OwnedFd) -> io::Result<Mender> {
        let Namespaces { user, mounts } = namespaces;
        launch::exec::mender(user.as_fd(), mounts.as_fd(), store.as_fd())
            .map(Mender)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    /// Has it take hold of folders; returns which of them show inside. The first request.
    ///
    /// # Errors
    /// When the helper is gone.
    pub fn hold(&self, bases: &[Base]) -> io::Result<Vec<usize>> {
        let held = self.ask(&encode_bases(bases))?;
        Ok(held.into_iter().map(|covered| covered.index).collect())
    }

    /// Covers the names that are not covered; returns what covers each that stands there.
    ///
    /// # Errors
    /// When one could not be covered, or the helper is gone.
    pub fn cover(&self, coverings: &[Covering]) -> io::Result<Vec<CoveredNow>> {
        self.ask(&encode_coverings(coverings))
    }

    fn ask(&self, request: &[u8]) -> io::Result<Vec<CoveredNow>> {
        link::send_part(&self.0.link, request)?;
        let mut covered = Vec::new();
        loop {
            self.wait()?;
            match link::receive(&self.0.link, RecvFlags::DONTWAIT)? {
                Received::Report(Some(Report::Covered { index, mount, again }), _) => {
                    covered.push(CoveredNow { index: index as usize, mount, again });
                }
                Received::Report(Some(Report::Mended), _) => return Ok(covered),
                Received::Report(Some(Report::Failed { errno, .. }), _) => {
                    return Err(io::Error::from_raw_os_error(errno));
                }
                Received::Report(..) => {}
                Received::End => return Err(io::Error::other("the helper that covers names was killed")),
            }
        }
    }

    /// Waits until the helper says something or is gone.
    fn wait(&self) -> io::Result<()> {
        let mut said = [PollFd::new(&self.0.link, PollFlags::IN)];
        match rustix::io::retry_on_intr(|| poll(&mut said, Some(&timespec(PATIENCE))))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

impl Drop for Mender {
    fn drop(&mut self) {
        self.0.end();
    }
}
