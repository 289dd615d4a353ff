//! The zygote, as its controller holds it: a small process that clones inits on request (see [`kennel_init::child::zygote`]).
//!
//! A process has at most one. While it has one, every sandbox whose init would be a program of its own is cloned from it.
//! A zygote that has died is replaced with the next request; its sandboxes are children of this process and run on.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use kennel_init::child::clone::flag;
use kennel_init::child::zygote::{ANSWER_LENGTH, Answer, MAP_LENGTH, Request, give_back};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::{Init, Launch, LaunchError, exec, link};

/// The zygote of this process. It ends with the last reference to it.
#[derive(Debug)]
pub struct Zygote {
    caller: CallerIdentity,
    /// Requests are made one after the other.
    process: Mutex<Option<Init>>,
    /// One that lends networks. It lives in a user namespace of its own, which has power over these networks and maps no user
    /// but the caller; so it is another process, started when it is first asked.
    lender: Mutex<Option<Init>>,
}

/// A network with a loopback and nothing else that a zygote has lent, and takes back when this is dropped: when the sandbox has
/// ended, whose it was.
#[derive(Debug)]
pub struct LentNetwork {
    number: u32,
    zygote: Weak<Zygote>,
    /// Which process has lent it.
    lender: i32,
}

impl Drop for LentNetwork {
    fn drop(&mut self) {
        let Some(zygote) = self.zygote.upgrade().filter(|zygote| zygote.caller.pid == std::process::id())
        else {
            return;
        };
        let lender = locked(&zygote.lender);
        if let Some(lender) = lender.as_ref().filter(|lender| lender.pid == self.lender) {
            // Should there be no room for the message, the network is not used again.
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let _ = rustix::net::send(&lender.link, &give_back(self.number), flags);
        }
    }
}

static CURRENT: Mutex<Weak<Zygote>> = Mutex::new(Weak::new());

/// Starts it, unless it runs already.
///
/// # Errors
/// When there is no process to be had.
pub fn start() -> Result<Arc<Zygote>, LaunchError> {
    let mut current = locked(&CURRENT);
    if let Some(zygote) = current.upgrade().filter(|zygote| zygote.serves_this_process()) {
        return Ok(zygote);
    }
    let caller = CallerIdentity::of_this_process()?;
    let process = Mutex::new(Some(exec::zygote()?));
    let zygote = Arc::new(Zygote { caller, process, lender: Mutex::new(None) });
    *current = Arc::downgrade(&zygote);
    Ok(zygote)
}

/// The one that runs, if it can stand in for this process: not after a fork, nor for a process that has become somebody
/// else or gone elsewhere since.
#[must_use]
pub fn current() -> Option<Arc<Zygote>> {
    let zygote = locked(&CURRENT).upgrade()?;
    zygote.serves_this_process().then_some(zygote)
}

/// What a process shares with its zygote for as long as the zygote can make sandboxes for it.
#[derive(Debug, PartialEq, Eq)]
struct CallerIdentity {
    pid: u32,
    user: u32,
    group: u32,
    /// The mount namespace, and `/` in it.
    places: [(u64, u64); 2],
}

impl CallerIdentity {
    fn of_this_process() -> io::Result<CallerIdentity> {
        let place = |path: &str| rustix::fs::stat(path).map(|stat| (stat.st_dev, stat.st_ino));
        Ok(CallerIdentity {
            pid: std::process::id(),
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            places: [place("/proc/thread-self/ns/mnt")?, place("/")?],
        })
    }
}

impl Zygote {
    fn serves_this_process(&self) -> bool {
        CallerIdentity::of_this_process().is_ok_and(|own| own == self.caller)
    }

    /// The numbers of its processes, for whoever watches them.
    #[must_use]
    pub fn pids(&self) -> Vec<i32> {
        let pid = |process: &Mutex<Option<Init>>| locked(process).as_ref().map(|process| process.pid);
        [&self.process, &self.lender].into_iter().filter_map(pid).collect()
    }

    /// Whether it can clone such an init: not one whose id maps others have to write.
    #[must_use]
    pub fn serves(launch: &Launch) -> bool {
        launch.ids.texts().is_some()
    }

    /// Has it clone an init, with these standard streams.
    ///
    /// # Errors
    /// When the kernel refuses the namespaces, or there is no zygote to be had any more.
    pub fn launch(
        self: &Arc<Zygote>,
        launch: &Launch,
        streams: [BorrowedFd; 3],
    ) -> Result<Init, LaunchError> {
        let mut process = locked(if launch.network { &self.lender } else { &self.process });
        let (ours, theirs) = link()?;
        // Several users are mapped by others; [`Zygote::serves`] says so.
        let (user, group) = launch.ids.texts().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let request = Request {
            namespaces: launch.namespaces,
            cgroup: launch.cgroup.is_some(),
            network: launch.network,
            user: padded(user)?,
            group: padded(group)?,
        };
        let [input, output, errors] = streams;
        let mut fds = vec![theirs.as_fd(), input, output, errors];
        fds.extend(launch.cgroup);
        let answered = match process.as_ref().map(|process| ask(&process.link, &request, &fds)) {
            Some(Ok(answered)) => answered,
            // It has died, or was killed: whatever it was asked last, nobody has heard of.
            Some(Err(_)) | None => {
                if let Some(dead) = process.take() {
                    end(dead);
                }
                let fresh = process.insert(exec::zygote()?);
                ask(&fresh.link, &request, &fds)?
            }
        };
        match answered {
            (Answer::Cloned { pid, network }, Some(pidfd)) => {
                let lender = process.as_ref().map_or(0, |process| process.pid);
                // Not one that is dropped here, under the lock that its end takes.
                let lent = || LentNetwork { number: network, zygote: Arc::downgrade(self), lender };
                let network = (network != 0).then(lent);
                let namespaced = launch.namespaces & flag::NEWPID != 0;
                Ok(Init { pid, pidfd, link: ours, namespaced, network })
            }
            (Answer::Cloned { .. }, None) => Err(LaunchError::Prepare(io::ErrorKind::InvalidData.into())),
            (Answer::Refused(errno), _) => Err(LaunchError::Clone(io::Error::from_raw_os_error(errno))),
        }
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // In a process that was forked it is somebody else's child, and goes on for them.
        if self.caller.pid == std::process::id() {
            for process in [&self.process, &self.lender] {
                if let Some(process) = locked(process).take() {
                    end(process);
                }
            }
        }
    }
}

/// Ends a zygote. The end of its link tells it to; one that stands still is killed, by whoever still may.
fn end(process: Init) {
    const PATIENCE: Timespec = Timespec { tv_sec: 3, tv_nsec: 0 };
    let Init { pidfd, link, .. } = process;
    drop(link);
    let _ = rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL);
    let mut gone = [PollFd::new(&pidfd, PollFlags::IN)];
    if retry_on_intr(|| poll(&mut gone, Some(&PATIENCE))) == Ok(1) {
        let _ = crate::reap::reap(pidfd.as_fd());
    }
}

fn padded(text: &[u8]) -> io::Result<[u8; MAP_LENGTH]> {
    let mut padded = [b' '; MAP_LENGTH];
    padded.get_mut(..text.len()).ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(text);
    Ok(padded)
}

/// One request and its answer.
fn ask(link: &OwnedFd, request: &Request, fds: &[BorrowedFd]) -> io::Result<(Answer, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let request = request.encode();
    retry_on_intr(|| sendmsg(link, &[io::IoSlice::new(&request)], &mut control, SendFlags::NOSIGNAL))?;
    let mut message = [0; ANSWER_LENGTH];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [io::IoSliceMut::new(&mut message)];
    let received = retry_on_intr(|| recvmsg(link, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let pidfd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    match Answer::decode(&message[..received.bytes]) {
        Some(answer) => Ok((answer, pidfd)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
