//! Unix sockets by path: the guard connects on the caller's behalf.
//!
//! A call that goes on reads its address again, and its descriptor's number may by then be another socket's; so no
//! `connect` ever goes on. The guard copies the address once, takes a copy of the caller's socket, and connects that:
//! what was looked at is what is used. Sockets of the internet families are connected to the copied address as it is.
//!
//! The socket is made non-blocking meanwhile, so that one that waits for its peer keeps nobody else waiting.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kennel_init::plan::Identity;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, CWD, FileType, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};

use super::caller::Caller;
use super::calls::Address;
use super::listener::{Answer, Listener, Notification};
use super::own::{self, OwnSockets};
use super::walk::{self, Start};
use super::watch::{is_born_since, now};
use crate::resolve::guard_rules::{AllowedSocket, Sockets};
use crate::sys::files::connect;

/// What became of a call.
#[derive(Debug)]
pub enum Outcome {
    /// It can be answered.
    Answered(Answer),
    /// It is answered later, by [`Connector::go_on`].
    Waits,
    /// The path that the caller named is not listed.
    Refused(PathBuf),
}

/// Connects on behalf of callers.
#[derive(Debug)]
pub struct Connector {
    allowed: Vec<Allowed>,
    host_devices: Vec<u64>,
    /// Whether the sandbox's network is its own, and with it all abstract names.
    own_network: bool,
    own: OwnSockets,
    started: Duration,
    waiting: Vec<Waiting>,
}

/// A listed socket, and the one that stood there at the start: held, so that its number is given to no other.
#[derive(Debug)]
struct Allowed {
    rule: AllowedSocket,
    first: Option<(OwnedFd, Identity)>,
}

/// A call that waits for its peer.
#[derive(Debug)]
struct Waiting {
    id: u64,
    socket: OwnedFd,
    peer: Peer,
    deadline: Option<Instant>,
    /// The listener's queue is full, and it has to be tried again; otherwise the connection is on its way.
    again: bool,
}

/// Whom to connect to.
#[derive(Debug)]
enum Peer {
    /// This file.
    File(OwnedFd),
    /// This address, as the caller gave it.
    Address(Vec<u8>),
}

/// A sandbox could have any number of threads connect.
const MAX_WAITING: usize = 128;
/// How often a call that waits is looked after.
pub const PATIENCE: Duration = Duration::from_millis(20);

impl Connector {
    /// Takes hold of the listed sockets.
    ///
    /// # Errors
    /// When one is not what was resolved any more.
    pub fn new(sockets: &Sockets, own_network: bool) -> Result<Connector, (PathBuf, std::io::Error)> {
        let mut allowed = Vec::new();
        for rule in &sockets.allowed {
            let first = match rule.identity {
                None => None,
                Some(identity) => {
                    let failed = |error: Errno| (rule.path.clone(), error.into());
                    let found = standing(&rule.path).map_err(failed)?;
                    if found.1 != identity {
                        return Err(failed(Errno::STALE));
                    }
                    Some(found)
                }
            };
            allowed.push(Allowed { rule: rule.clone(), first });
        }
        let host_devices = sockets.host_devices.clone();
        let (own, waiting) = (OwnSockets::default(), Vec::new());
        Ok(Connector { allowed, host_devices, own_network, own, started: now(), waiting })
    }

    /// Makes the call that `notification` is about.
    pub fn connect(&mut self, listener: &Listener, notification: &Notification, address: Address) -> Outcome {
        let caller = Caller::new(notification.pid);
        let peer = match self.peer(caller, address) {
            Ok(Ok(peer)) => peer,
            Ok(Err(path)) if listener.still_waits(notification.id) => return Outcome::Refused(path),
            Ok(Err(_)) => return refuse(Errno::ACCESS),
            Err(errno) => return refuse(errno),
        };
        let socket = match caller.descriptor(address.socket) {
            Ok(socket) => socket,
            Err(Errno::BADF) => return refuse(Errno::BADF),
            Err(_) => return refuse(Errno::ACCESS),
        };
        // Otherwise the thread may be gone and its number another's, whose memory and socket these were.
        if !listener.still_waits(notification.id) {
            return refuse(Errno::INTR);
        }
        // An abstract name belongs to the network that the socket was made in. One that somebody passed in may be of the
        // host's, and Landlock, which would refuse the caller, does not hold this process.
        if peer.is_abstract() && !own::is_of_the_callers_network(caller, &socket).unwrap_or(false) {
            return refuse(Errno::PERM);
        }
        self.start(notification.id, socket, peer)
    }

    /// Takes note of a socket that the sandbox is about to listen on.
    pub fn listens(&mut self, listener: &Listener, notification: &Notification, socket: i32) {
        // On the host's network nobody could tell it from one of the host's.
        if !self.own_network {
            return;
        }
        let file = own::own_file(Caller::new(notification.pid), socket);
        // Otherwise the thread may be gone and its number another's, whose socket this was.
        if let Ok(Some(file)) = file
            && listener.still_waits(notification.id)
        {
            self.own.add(file);
        }
    }

    fn start(&mut self, id: u64, socket: OwnedFd, peer: Peer) -> Outcome {
        // Other families ask for a capability of whoever connects (netlink does), and this process may have it.
        match sockopt::socket_domain(&socket) {
            Ok(AddressFamily::UNIX | AddressFamily::INET | AddressFamily::INET6) => {}
            Ok(_) => return refuse(Errno::ACCESS),
            Err(errno) => return refuse(errno),
        }
        let flags = match rustix::fs::fcntl_getfl(&socket) {
            Ok(flags) => flags,
            Err(errno) => return refuse(errno),
        };
        if flags.contains(OFlags::NONBLOCK) {
            return answer(peer.connect(&socket));
        }
        if let Err(errno) = rustix::fs::fcntl_setfl(&socket, flags | OFlags::NONBLOCK) {
            return refuse(errno);
        }
        let again = match peer.connect(&socket) {
            Err(Errno::AGAIN) => true,
            Err(Errno::INPROGRESS) => false,
            done => {
                blocking_again(&socket);
                return answer(done);
            }
        };
        if self.waiting.len() >= MAX_WAITING {
            blocking_again(&socket);
            return refuse(Errno::AGAIN);
        }
        let timeout = sockopt::socket_timeout(&socket, sockopt::Timeout::Send).ok().flatten();
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.waiting.push(Waiting { id, socket, peer, deadline, again });
        Outcome::Waits
    }

    /// The sockets whose connection is on its way, to be polled together with all else.
    pub fn register<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let on_the_way = self.waiting.iter().filter(|waiting| !waiting.again);
        fds.extend(on_the_way.map(|waiting| PollFd::new(&waiting.socket, PollFlags::OUT)));
    }

    /// Whether any call waits.
    #[must_use]
    pub fn any_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Answers the calls that wait no longer.
    pub fn go_on(&mut self, listener: &Listener) {
        self.waiting.retain(|waiting| {
            let result = waiting.result();
            // A caller that was killed waits for nothing any more.
            if result.is_none() && listener.still_waits(waiting.id) {
                return true;
            }
            blocking_again(&waiting.socket);
            if let Some(result) = result {
                let _ = listener.answer(waiting.id, result.map_or_else(refusal, |()| Answer::Done));
            }
            false
        });
    }

    /// Whom a caller's address leads to; or the path, if it may not be connected to.
    fn peer(&self, caller: Caller, address: Address) -> Result<Result<Peer, PathBuf>, Errno> {
        let mut bytes = [0u8; size_of::<libc::sockaddr_storage>()];
        let length = usize::try_from(address.length).unwrap_or(usize::MAX);
        let bytes = bytes.get_mut(..length).ok_or(Errno::INVAL)?;
        caller.memory(address.address, bytes).map_err(|_| Errno::FAULT)?;
        let is_unix =
            bytes.len() >= 2 && i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) == libc::AF_UNIX;
        if !is_unix || bytes.len() == 2 {
            return Ok(Ok(Peer::Address(bytes.to_vec())));
        }
        if bytes.len() > size_of::<libc::sockaddr_un>() {
            return Err(Errno::INVAL);
        }
        let name = &bytes[2..];
        if name[0] == 0 {
            // An abstract name, which belongs to the network. This process is not held by the sandbox's Landlock, so it
            // must not ask for one of the host's.
            let shown = PathBuf::from(OsStr::from_bytes(&[b"@", &name[1..]].concat()));
            return Ok(if self.own_network { Ok(Peer::Address(bytes.to_vec())) } else { Err(shown) });
        }
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        self.file(caller, &name[..end])
    }

    fn file(&self, caller: Caller, path: &[u8]) -> Result<Result<Peer, PathBuf>, Errno> {
        let start = Start { folder: libc::AT_FDCWD, scoped: false };
        let spot = match walk::spot(caller, start, path, true) {
            // Names no entry of a folder: not a socket.
            Err(Errno::EXIST) => return Err(Errno::CONNREFUSED),
            other => other?,
        };
        let file = walk::open(&spot.folder, &spot.name)?;
        if walk::kind(file.as_fd())? != FileType::Socket {
            return Err(Errno::CONNREFUSED);
        }
        let identity = walk::identity(file.as_fd())?;
        if let Some(allowed) =
            self.allowed.iter().find_map(|allowed| allowed.stands_for(identity, self.started))
        {
            return Ok(Ok(Peer::File(allowed)));
        }
        if self.own.hold(identity) {
            return Ok(Ok(Peer::File(file)));
        }
        // The sandbox's own /tmp and the like hold nothing of the host's.
        const TMPFS_MAGIC: u64 = 0x0102_1994;
        // The layer above a root of its own. A socket in the folder below it is none that anybody listens on.
        const OVERLAYFS_MAGIC: u64 = 0x794c_7630;
        let kind = rustix::fs::fstatfs(&file)?.f_type as u64;
        let in_memory = kind == TMPFS_MAGIC || kind == OVERLAYFS_MAGIC;
        if in_memory && !self.host_devices.contains(&identity.device) {
            return Ok(Ok(Peer::File(file)));
        }
        Ok(Err(PathBuf::from(OsStr::from_bytes(path))))
    }
}

impl Allowed {
    /// The socket to connect to for a caller that named the file `named`: what stands at the listed path now. The caller
    /// may see the one from the start, by a mount, when a daemon that was started anew has long made another.
    fn stands_for(&self, named: Identity, started: Duration) -> Option<OwnedFd> {
        let first = self.first.as_ref().map(|(_, identity)| *identity);
        let (file, identity) = match standing(&self.rule.path) {
            Ok(found) => found,
            // Moved elsewhere, it is still the one that was meant.
            Err(_) if first == Some(named) => {
                return self.first.as_ref().and_then(|(file, _)| file.try_clone().ok());
            }
            Err(_) => return None,
        };
        if named != identity && first != Some(named) {
            return None;
        }
        // Where the sandbox can write it could have moved a socket of the host's here.
        let meant = first == Some(identity) || !self.rule.replaceable || is_young(file.as_fd(), started);
        meant.then_some(file)
    }
}

/// What stands at a path of the host's that was free of symlinks, and has to be still.
fn standing(path: &Path) -> Result<(OwnedFd, Identity), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = crate::resolve::open_strictly(CWD, path, flags, ResolveFlags::NO_SYMLINKS)?;
    if walk::kind(file.as_fd())? != FileType::Socket {
        return Err(Errno::NOTSOCK);
    }
    let identity = walk::identity(file.as_fd())?;
    Ok((file, identity))
}

fn is_young(file: BorrowedFd, started: Duration) -> bool {
    let wanted = StatxFlags::BTIME;
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted).is_ok_and(|stat| is_born_since(&stat, started))
}

impl Waiting {
    /// How it ended; `None` while it has not.
    fn result(&self) -> Option<Result<(), Errno>> {
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if self.again {
            return match self.peer.connect(&self.socket) {
                Err(Errno::AGAIN) if !late => None,
                done => Some(done),
            };
        }
        let mut ready = [PollFd::new(&self.socket, PollFlags::OUT)];
        match rustix::event::poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(0) if late => Some(Err(Errno::INPROGRESS)),
            Ok(0) | Err(Errno::INTR) => None,
            Ok(_) => Some(sockopt::socket_error(&self.socket).and_then(|result| result)),
            Err(errno) => Some(Err(errno)),
        }
    }
}

impl Peer {
    /// Whether it is a unix socket's name that no file has.
    fn is_abstract(&self) -> bool {
        let unix = (libc::AF_UNIX as u16).to_ne_bytes();
        matches!(self, Peer::Address(bytes) if bytes.starts_with(&unix) && bytes.get(2) == Some(&0))
    }

    fn connect(&self, socket: &OwnedFd) -> Result<(), Errno> {
        match self {
            Peer::Address(bytes) => connect(socket, bytes),
            Peer::File(file) => {
                // By way of the descriptor: the path may lead elsewhere by now.
                let mut bytes = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
                bytes.extend_from_slice(format!("/proc/self/fd/{}\0", file.as_raw_fd()).as_bytes());
                connect(socket, &bytes)
            }
        }
    }
}

/// Takes back what [`Connector::start`] did to a caller's socket.
fn blocking_again(socket: &OwnedFd) {
    if let Ok(flags) = rustix::fs::fcntl_getfl(socket) {
        let _ = rustix::fs::fcntl_setfl(socket, flags - OFlags::NONBLOCK);
    }
}

fn refusal(errno: Errno) -> Answer {
    Answer::Refuse(errno.raw_os_error())
}

fn refuse(errno: Errno) -> Outcome {
    Outcome::Answered(refusal(errno))
}

fn answer(result: Result<(), Errno>) -> Outcome {
    Outcome::Answered(result.map_or_else(refusal, |()| Answer::Done))
}
