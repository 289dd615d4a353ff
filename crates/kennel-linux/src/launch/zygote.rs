//! The zygote, as its controller holds it: a small process that clones inits on request (see [`kennel_init::child::zygote`]).
//!
//! A process has at most one. While it has one, every sandbox whose init would be a program of its own is cloned from it.
//! A zygote that has died is replaced with the next request; its sandboxes are children of this process and run on.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kennel_init::child::clone::flag;
use kennel_init::child::zygote::{ANSWER_LENGTH, Answer, MAP_LENGTH, Request, give_back};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::thread::{CapabilitySets, SecureComputingMode};

use super::{Init, Launch, LaunchError, exec, link};

/// The zygote of this process. It ends with the last reference to it.
#[derive(Debug)]
pub struct Zygote {
    caller: CallerIdentity,
    /// The number of the one that lends nothing, to look at.
    pid: AtomicI32,
    /// Requests are made one after the other.
    process: Mutex<Option<Init>>,
    /// One that lends networks. It lives in a user namespace of its own, which has power over these networks and maps no user
    /// but the caller; so it is another process, started when it is first asked.
    lender: Mutex<Option<Init>>,
}

/// A network with a loopback and nothing else that a zygote has lent, and takes back when this is dropped: when the sandbox has
/// ended, whose it was. Unless it is known that nobody has had a socket in it, it is thrown away then.
#[derive(Debug)]
pub struct LentNetwork {
    untouched: bool,
    number: u32,
    zygote: Weak<Zygote>,
    /// Which process has lent it.
    lender: i32,
}

impl LentNetwork {
    /// All that could have made a socket in it has ended, and none was asked for.
    pub fn nobody_touched_it(&mut self) {
        self.untouched = true;
    }
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
            let _ = rustix::net::send(&lender.link, &give_back(self.number, self.untouched), flags);
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
    if let Some(zygote) = current.upgrade().filter(|zygote| zygote.serves_this_thread()) {
        return Ok(zygote);
    }
    let caller = CallerIdentity::of_this_process()?;
    let process = start_process()?;
    let pid = AtomicI32::new(process.pid);
    let zygote =
        Arc::new(Zygote { caller, pid, process: Mutex::new(Some(process)), lender: Mutex::new(None) });
    *current = Arc::downgrade(&zygote);
    Ok(zygote)
}

/// The one that runs, if it can stand in for this thread.
#[must_use]
pub fn current() -> Option<Arc<Zygote>> {
    let zygote = locked(&CURRENT).upgrade()?;
    zygote.serves_this_thread().then_some(zygote)
}

/// What a process shares with its zygote for as long as the zygote can make sandboxes for it.
#[derive(Debug, PartialEq, Eq)]
struct CallerIdentity {
    pid: u32,
    user: u32,
    group: u32,
    /// The mount and the user namespace, and `/`.
    places: [(u64, u64); 3],
    /// What this thread has been deprived of.
    confinement: Confinement,
}

/// What a thread has taken from itself, as far as the kernel tells it. Its Landlock domain the kernel does not tell; see
/// [`Zygote::is_outside`].
#[derive(Debug, PartialEq, Eq)]
struct Confinement {
    no_new_privileges: bool,
    /// How many seccomp filters it has, or that it may not ask.
    filters: Option<u32>,
    capabilities: CapabilitySets,
}

impl Confinement {
    fn of_this_thread() -> io::Result<Confinement> {
        let has_filter = rustix::thread::secure_computing_mode() != Ok(SecureComputingMode::Disabled);
        Ok(Confinement {
            no_new_privileges: rustix::thread::no_new_privs()?,
            filters: if has_filter { filters() } else { Some(0) },
            capabilities: rustix::thread::capabilities(None)?,
        })
    }
}

/// How many seccomp filters this thread has. A line of Linux 5.9.
fn filters() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"))?.trim().parse().ok()
}

impl CallerIdentity {
    fn of_this_process() -> io::Result<CallerIdentity> {
        let place = |path: &str| rustix::fs::stat(path).map(|stat| (stat.st_dev, stat.st_ino));
        Ok(CallerIdentity {
            pid: std::process::id(),
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            places: [place("/proc/thread-self/ns/mnt")?, place("/proc/thread-self/ns/user")?, place("/")?],
            confinement: Confinement::of_this_thread()?,
        })
    }
}

impl Zygote {
    /// Whether it can stand in for the thread that asks: not after a fork, nor for one that has become somebody else, gone
    /// elsewhere or confined itself since.
    #[must_use]
    pub fn serves_this_thread(&self) -> bool {
        CallerIdentity::of_this_process().is_ok_and(|own| own == self.caller) && !self.is_outside()
    }

    /// Whether the zygote is outside of what this thread may look into. A thread that enters a Landlock domain of its own may not
    /// trace, nor see the program of, a process that is not in it: the zygote was started before. (One that was confined
    /// already when it started the zygote has handed its domain down.) A zygote that is dead is outside of nothing, and the next is
    /// this thread's child, in its domain.
    fn is_outside(&self) -> bool {
        let exe = format!("/proc/{}/exe", self.pid.load(Ordering::Relaxed));
        matches!(rustix::fs::readlink(exe, Vec::new()), Err(Errno::ACCESS | Errno::PERM))
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
        // With a link of its own each time: one that was cloned for an answer that did not come ends when its link does.
        let ask = |zygote: &Init| -> io::Result<_> {
            let (ours, theirs) = link()?;
            let mut fds = vec![theirs.as_fd(), input, output, errors];
            fds.extend(launch.cgroup);
            Ok((ask(&zygote.link, &request, &fds)?, ours))
        };
        let ((answer, pidfd), ours) = match process.as_ref().map(ask) {
            Some(Ok(answered)) => answered,
            // It is not the zygote's fault.
            Some(Err(error)) if error.kind() == io::ErrorKind::QuotaExceeded => return Err(error.into()),
            // It has died, was killed or stands still: whatever it was asked last, nobody has heard of.
            Some(Err(_)) | None => {
                if let Some(dead) = process.take() {
                    end(dead);
                }
                let fresh = process.insert(start_process()?);
                if !launch.network {
                    self.pid.store(fresh.pid, Ordering::Relaxed);
                }
                ask(fresh)?
            }
        };
        match answer {
            Answer::Cloned { pid, network } => {
                let pidfd = pidfd.map_or_else(|| child(pid), Ok)?;
                let lender = process.as_ref().map_or(0, |process| process.pid);
                // Not one that is dropped here, under the lock that its end takes.
                let lent = || LentNetwork {
                    untouched: false,
                    number: network,
                    zygote: Arc::downgrade(self),
                    lender,
                };
                let network = (network != 0).then(lent);
                let namespaced = launch.namespaces & flag::NEWPID != 0;
                Ok(Init { pid, pidfd, link: ours, namespaced, network })
            }
            Answer::Refused(errno) => Err(LaunchError::Clone(io::Error::from_raw_os_error(errno))),
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

/// Nobody waits for a zygote without an end: one that neither takes a request nor answers for so long is replaced.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

fn start_process() -> Result<Init, LaunchError> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    let process = exec::zygote()?;
    for way in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&process.link, way, Some(ANSWERS_WITHIN)).map_err(io::Error::from)?;
    }
    Ok(process)
}

/// A descriptor for a child of this process. Where the system waits for children by itself, because nobody else does, another
/// process may have the number by now: that is nobody's child here.
fn child(pid: i32) -> io::Result<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    waitid(
        WaitId::PidFd(pidfd.as_fd()),
        WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
    )?;
    Ok(pidfd)
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
    crate::link::passing(|| sendmsg(link, &[io::IoSlice::new(&request)], &mut control, SendFlags::NOSIGNAL))?;
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
