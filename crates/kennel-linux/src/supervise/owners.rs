//! The helper that gives the caller what other users of a sandbox leave in folders of the host's; see
//! [`kennel_init::child::owners`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use kennel_init::child::sys::MAX_FDS;
use kennel_init::plan::Identity;
use kennel_init::report::{Order, Report};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::net::RecvFlags;

use crate::clock::timespec;
use crate::launch::{self, Init};
use crate::link::{self, Received};
use crate::resolve::{Source, open_strictly};

/// How long the helper has: longer than it gives itself.
const PATIENCE: Duration = Duration::from_secs(45);

/// The helper, which waits for the end of the sandbox. Where this process is killed, it does its work all the same.
#[derive(Debug)]
pub struct Owners(Init);

impl Owners {
    /// Starts it for the sandbox of this PID 1, which has not come far. Returns also the link by which the guard has it make
    /// calls.
    ///
    /// # Errors
    /// When there is no process to be had, or a root is not what it was.
    pub fn start(init: &Init, roots: &[&Source]) -> io::Result<(Owners, OwnedFd)> {
        let path = format!("/proc/{}/ns/user", init.pid);
        let users = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let (ours, theirs) = link::pair()?;
        let helper = launch::exec::owners(users.as_fd(), init.pidfd.as_fd(), theirs.as_fd())
            .map_err(|error| io::Error::other(error.to_string()))?;
        let owners = Owners(helper);
        for roots in roots.chunks(MAX_FDS) {
            let mut held = Vec::with_capacity(roots.len());
            for root in roots {
                held.push(hold(root)?);
            }
            let fds: Vec<BorrowedFd> = held.iter().map(AsFd::as_fd).collect();
            link::order(&owners.0.link, Order::Enter, &fds)?;
            // It has them, and stands where it has to.
            match owners.hear()? {
                Report::Begun => {}
                Report::Failed { errno, .. } => return Err(io::Error::from_raw_os_error(errno)),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        Ok((owners, ours))
    }

    /// Has it do its work, now that nothing inside is left. Returns what could not be done.
    #[must_use]
    pub fn finish(self) -> Option<String> {
        let done = link::order(&self.0.link, Order::Go, &[]).and_then(|()| self.hear());
        let why = match done {
            Ok(Report::Mended) => return None,
            Ok(Report::Failed { step: 0, errno }) => io::Error::from_raw_os_error(errno).to_string(),
            Ok(Report::Failed { step, .. }) => format!("{step} of them could not be changed"),
            Ok(_) => "the helper said something else".into(),
            Err(error) => error.to_string(),
        };
        Some(format!(
            "owners of files: what other users inside made in writable folders may still belong to subordinate ids: {why}"
        ))
    }

    fn hear(&self) -> io::Result<Report> {
        let mut said = [PollFd::new(&self.0.link, PollFlags::IN)];
        if rustix::io::retry_on_intr(|| poll(&mut said, Some(&timespec(PATIENCE))))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match link::receive(&self.0.link, RecvFlags::DONTWAIT)? {
            Received::Report(Some(report), _) => Ok(report),
            Received::Report(None, _) => Err(io::ErrorKind::InvalidData.into()),
            Received::End => Err(io::Error::other("the helper was killed")),
        }
    }
}

/// Takes hold of a root, if it is what it was when the policy was resolved.
fn hold(root: &Source) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let strict = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let fd = open_strictly(CWD, &root.path, flags, strict)?;
    let quiet = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(&fd, c"", quiet, StatxFlags::INO)?;
    let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
    match (Identity { device, inode: stat.stx_ino }) == root.identity {
        true => Ok(fd),
        false => Err(io::Error::from_raw_os_error(libc::ESTALE)),
    }
}

impl Drop for Owners {
    fn drop(&mut self) {
        self.0.end();
    }
}
