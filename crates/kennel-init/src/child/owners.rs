//! Giving the caller what other users of a sandbox have left in folders of the host's.
//!
//! What they make in a folder that can be written belongs, outside, to subordinate ids of the caller's, who could neither
//! change nor remove it. Only a process in the same user namespace can give it to the caller. So the controller starts this
//! program as a helper before the command runs. It waits in the user namespace, outside of all others, until nothing of the
//! sandbox is left; that is also when the controller has been killed. Then it goes through the folders.
//!
//! Nobody inside is left by then, but other sandboxes of the same caller may write to the same folders. So no path is
//! followed: each folder is opened from the one above without following links, and owners are changed of what a name is,
//! never of what it leads to. A change of owner takes set-user-ID bits off, as the kernel has it.

use core::ffi::CStr;

use super::clone::flag;
use super::sys::memory::{List, map};
use super::sys::{self, Errno, Fd, Ownership, POLLIN, PollFd, Result, UNCHANGED, open};
use crate::report::{LENGTH, Order, Report};

/// What the controller passes, as the numbers of descriptors: the user namespace, PID 1, and the link by which the guard has
/// calls made.
const USER_NAMESPACE: i32 = 0;
const INIT: i32 = 1;
const CALLS: i32 = 2;

/// The most folders that can be written.
const MAX_ROOTS: usize = 1024;
/// How deep a tree is gone through. Memory that is not reached is not used.
const MAX_LEVELS: usize = 65536;
/// How long the whole may take.
const PATIENCE: u64 = 30 * 1_000_000_000;
/// What the kernel shows for an id that has none inside.
const NO_ID: u32 = 65534;
const BUFFER: usize = 32 * 1024;
/// The least that is read of a folder.
const SMALL: usize = 512;

/// Waits for the end of the sandbox and gives the caller what it left.
pub fn run(link: i32) -> ! {
    let _ = sys::set_signal_mask(u64::MAX);
    let (left, Errno(errno)) = match serve(link) {
        Ok(left) => (left, Errno(0)),
        Err(errno) => (0, errno),
    };
    let report = match (left, errno) {
        (0, 0) => Report::Mended,
        (left, errno) => Report::Failed { step: left, errno },
    };
    let _ = sys::send(link, &report.encode());
    sys::exit(0)
}

fn serve(link: i32) -> Result<u32> {
    sys::enter_namespace(USER_NAMESPACE, flag::NEWUSER)?;
    let began = clock();
    let mut roots = List::with_room(MAX_ROOTS)?;
    let buffer = map(BUFFER)?;
    let mut calls = CALLS;
    // Until the controller says go or is gone.
    loop {
        let mut ready = [link, calls].map(|fd| PollFd { fd, events: POLLIN, revents: 0 });
        match sys::poll(&mut ready) {
            Err(Errno::EINTR) => continue,
            other => other?,
        };
        if ready[1].revents != 0 {
            // A guard that is gone is not waited for: poll passes over a negative number.
            calls = if call(buffer).is_ok() { CALLS } else { -1 };
            continue;
        }
        let mut message = [0; LENGTH];
        let (length, fds) = match sys::recv_with_fds(link, &mut message) {
            Err(Errno::EINTR) => continue,
            other => other?,
        };
        if length == 0 || Order::decode(&message[..length]) == Some(Order::Go) {
            break;
        }
        for fd in fds.into_iter().flatten() {
            roots.push(fd.into_raw())?;
        }
        sys::send(link, &Report::Begun.encode())?;
    }
    let mut init = [PollFd { fd: INIT, events: POLLIN, revents: 0 }];
    while let Err(Errno::EINTR) = sys::poll(&mut init) {}
    let mut walk = Walk::new(began)?;
    roots.iter().try_for_each(|root| walk.root(*root, buffer))?;
    Ok(walk.left)
}

/// A system call that the guard has made here, with the rights of this namespace's root: it looks where the caller may not.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The kernel's number of it.
    pub number: u32,
    /// Whether it returns a descriptor, to be handed over.
    pub makes_descriptor: bool,
    /// Its arguments.
    pub arguments: [Argument; 6],
}

/// An argument of such a call.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// A number.
    Value(u64),
    /// One of the descriptors that come with the call.
    Descriptor(u64),
    /// A place in the bytes that come with it, and go back.
    Offset(u64),
    /// The path by which the kernel leads to one of the descriptors.
    PathOfDescriptor(u64),
}

/// What came of it: what the kernel returned. The bytes follow.
#[derive(Clone, Copy, Debug)]
pub struct Reply(pub i64);

impl Reply {
    /// How long it is.
    pub const LENGTH: usize = 8;

    /// From what arrived.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Reply> {
        Some(Reply(i64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?)))
    }
}

impl Call {
    const LENGTH: usize = 8 + 6 * 16;

    /// As it travels, before the bytes that its arguments refer to.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(&self.number.to_ne_bytes());
        bytes[4] = u8::from(self.makes_descriptor);
        for (place, argument) in bytes[8..].chunks_exact_mut(16).zip(self.arguments) {
            let (kind, value) = match argument {
                Argument::Value(value) => (0, value),
                Argument::Descriptor(index) => (1, index),
                Argument::Offset(offset) => (2, offset),
                Argument::PathOfDescriptor(index) => (3, index),
            };
            place[0] = kind;
            place[8..].copy_from_slice(&u64::to_ne_bytes(value));
        }
        bytes
    }
}

/// Makes the call that waits. The guard is the caller's own thread: what it asks for is not doubted.
fn call(buffer: &mut [u8]) -> Result<()> {
    let (length, fds) = sys::recv_with_fds(CALLS, buffer)?;
    let (head, data) = buffer
        .get_mut(..length)
        .ok_or(Errno::EPROTO)?
        .split_at_mut_checked(Call::LENGTH)
        .ok_or(Errno::EPROTO)?;
    let mut arguments = [0usize; 6];
    let mut path = [0u8; 40];
    for (argument, place) in arguments.iter_mut().zip(head[8..].chunks_exact(16)) {
        let value = u64::from_ne_bytes(place[8..].try_into().map_err(|_| Errno::EPROTO)?) as usize;
        let descriptor = || fds.get(value).and_then(Option::as_ref).map(Fd::raw).ok_or(Errno::EPROTO);
        *argument = match place[0] {
            0 => value,
            1 => descriptor()? as usize,
            2 if value <= data.len() => data.as_mut_ptr() as usize + value,
            3 => {
                const FOLDER: &[u8] = b"/proc/self/fd/";
                let mut digits = [0; 24];
                let digits = super::mounts::number(descriptor()? as u64, 10, &mut digits).to_bytes_with_nul();
                path[..FOLDER.len()].copy_from_slice(FOLDER);
                path[FOLDER.len()..FOLDER.len() + digits.len()].copy_from_slice(digits);
                path.as_ptr() as usize
            }
            _ => return Err(Errno::EPROTO),
        };
    }
    let number = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
    // SAFETY: the guard names calls that stay within the bytes it sends.
    let returned = unsafe { sys::syscall(number, arguments) };
    let made = (head[4] != 0).then_some(returned).and_then(Result::ok).map(|fd| Fd(fd as i32));
    let reply = match returned {
        Ok(value) => value as i64,
        Err(Errno(errno)) => -i64::from(errno),
    };
    // Where the last argument was: right before the bytes.
    head[Call::LENGTH - Reply::LENGTH..].copy_from_slice(&reply.to_ne_bytes());
    let answer = &buffer[Call::LENGTH - Reply::LENGTH..length];
    match made {
        Some(fd) => sys::send_with_fd(CALLS, answer, fd.raw()),
        None => sys::send(CALLS, answer).map(drop),
    }
}

/// The time of day in seconds, as files have it; a little less, because they have it by a coarser clock.
fn clock() -> i64 {
    sys::time_of_day() - 2
}

/// A folder above the one that is being gone through.
#[derive(Clone, Copy)]
struct Level {
    device: u64,
    inode: u64,
    /// Where to read on.
    offset: u64,
}

struct Walk {
    uid: u32,
    gid: u32,
    /// What was not changed since then is as it was before the sandbox.
    began: i64,
    until: u64,
    /// How many could not be given to the caller.
    left: u32,
    levels: List<Level>,
}

impl Walk {
    fn new(began: i64) -> Result<Walk> {
        let [uid, gid] = sys::own_ids();
        let levels = List::with_room(MAX_LEVELS)?;
        Ok(Walk { uid, gid, began, until: sys::now() + PATIENCE, left: 0, levels })
    }

    /// Goes through what can be written as a whole: a folder, or a file.
    fn root(&mut self, root: i32, buffer: &mut [u8]) -> Result<()> {
        let about = sys::ownership(root, c"")?;
        self.give(root, c"", &about);
        if !about.folder {
            return Ok(());
        }
        let flags = open::DIRECTORY | open::NOFOLLOW | open::NONBLOCK;
        let mut here = match sys::openat(root, c".", flags) {
            Ok(here) => here,
            Err(_) => return Ok(()),
        };
        let (mut about, mut offset) = (about, 0);
        loop {
            if sys::now() > self.until {
                return Err(Errno(110));
            }
            match self.folder(&here, offset, about.device, buffer)? {
                Some((below, below_about, next)) if self.levels.len() < MAX_LEVELS => {
                    self.levels.push(Level { device: about.device, inode: about.inode, offset: next })?;
                    (about, offset, here) = (below_about, 0, below);
                }
                Some((_, _, next)) => {
                    self.left = self.left.saturating_add(1);
                    offset = next;
                }
                None => {
                    let Some(level) = self.levels.pop() else { return Ok(()) };
                    here = sys::openat(here.raw(), c"..", flags)?;
                    about = sys::ownership(here.raw(), c"")?;
                    if (about.device, about.inode) != (level.device, level.inode) {
                        // Somebody else has moved it meanwhile.
                        return Err(Errno::ESTALE);
                    }
                    offset = level.offset;
                }
            }
        }
    }

    /// Goes through the entries of a folder from `offset` on, up to the next folder in it: returns that one, open, and where to
    /// read on.
    fn folder(
        &mut self,
        here: &Fd,
        offset: u64,
        device: u64,
        buffer: &mut [u8],
    ) -> Result<Option<(Fd, Ownership, u64)>> {
        sys::seek(here, offset)?;
        // In a folder of folders little of what is read is used before the next begins, and the rest is read again. So reads begin
        // small, with room for one name of any length, and grow.
        let mut size = if offset == 0 { BUFFER } else { SMALL };
        loop {
            if sys::now() > self.until {
                return Err(Errno(110));
            }
            let buffer = buffer.get_mut(..size).unwrap_or_default();
            size = (size * 4).min(BUFFER);
            let length = match sys::getdents(here, buffer) {
                Ok(0) => return Ok(None),
                Ok(length) => length,
                // What was removed meanwhile has no entries.
                Err(Errno::ENOENT) => return Ok(None),
                Err(error) => return Err(error),
            };
            let mut at = 0;
            // struct linux_dirent64: d_ino, d_off, d_reclen (2 bytes), d_type, d_name.
            while let Some(entry) = buffer.get(at..length).filter(|rest| rest.len() > 19) {
                let next = u64::from_ne_bytes(entry[8..16].try_into().map_err(|_| Errno::EPROTO)?);
                let size = usize::from(u16::from_ne_bytes([entry[16], entry[17]]));
                let name = CStr::from_bytes_until_nul(&entry[19..]).map_err(|_| Errno::EPROTO)?;
                at += size.max(20);
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                let Ok(about) = sys::ownership(here.raw(), name) else { continue };
                self.give(here.raw(), name, &about);
                if about.folder
                    && let Some(below) = open_below(here, name, device)
                {
                    let about = sys::ownership(below.raw(), c"")?;
                    return Ok(Some((below, about, next)));
                }
            }
        }
    }

    /// Gives one thing to the caller, if one of the other users has it and the sandbox may have made or changed it.
    fn give(&mut self, folder: i32, name: &CStr, about: &Ownership) {
        let Ownership { uid, gid, changed, .. } = *about;
        if changed < self.began || (uid == self.uid && gid == self.gid) {
            return;
        }
        let new = |id, own| if id == own { UNCHANGED } else { own };
        match sys::chown(folder, name, new(uid, self.uid), new(gid, self.gid)) {
            Ok(()) | Err(Errno::ENOENT) => {}
            // Somebody's who is not in this namespace, or a group's that the caller is in.
            Err(_) if uid == NO_ID || (uid == self.uid && gid == NO_ID) => {}
            Err(_) => self.left = self.left.saturating_add(1),
        }
    }
}

/// Opens a folder in another, unless it is one of the kernel's own file systems.
fn open_below(here: &Fd, name: &CStr, device: u64) -> Option<Fd> {
    // proc, sysfs, cgroup, cgroup2, devpts, debugfs, tracefs, securityfs, mqueue, bpf, autofs.
    const KERNELS: [u64; 11] = [
        0x9fa0,
        0x6265_6572,
        0x0027_e0eb,
        0x6367_7270,
        0x1cd1,
        0x6462_6720,
        0x7472_6163,
        0x7363_6673,
        0x1980_0202,
        0xcafe_4a11,
        0x0187,
    ];
    // A folder that this namespace's root may not open is nobody's inside, and nobody else could write to it.
    let below = sys::openat(here.raw(), name, open::DIRECTORY | open::NOFOLLOW | open::NONBLOCK).ok()?;
    let same = sys::ownership(below.raw(), c"").is_ok_and(|about| about.device == device);
    let kernels = !same && sys::file_system(below.raw()).is_ok_and(|kind| KERNELS.contains(&kind));
    (!kernels).then_some(below)
}
