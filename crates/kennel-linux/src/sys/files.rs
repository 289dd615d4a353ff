//! Open files: numbers that stand for some, requests about them, and what the kernel writes about files.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::Statx;
use rustix::io::Errno;

use super::last_error;

/// What a call returned that gives a number, or -1 for an error.
fn returned(number: libc::c_int) -> Result<libc::c_int, Errno> {
    if number < 0 { Err(last_error()) } else { Ok(number) }
}

/// The open file that somebody names by its number, to be asked about and copied. Whoever opened it leaves it open; should it be
/// closed all the same, calls fail.
#[must_use]
pub fn numbered(number: i32) -> Option<BorrowedFd<'static>> {
    // SAFETY: not the one number that means none; no more is done with it than what fails where it is not open.
    (number >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) })
}

/// Takes over a descriptor that init's calls have made.
#[must_use]
pub fn owned(fd: kennel_init::child::sys::Fd) -> OwnedFd {
    // SAFETY: its only owner gives it up.
    unsafe { OwnedFd::from_raw_fd(fd.into_raw()) }
}

/// A request that returns a fresh descriptor.
fn opened(of: impl AsFd, request: libc::Ioctl, argument: libc::c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: the requests below take a number, if anything.
    let fd = returned(unsafe { libc::ioctl(of.as_fd().as_raw_fd(), request, argument) })?;
    // SAFETY: the kernel has just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A request that reads or writes a value, or both.
///
/// # Safety
/// `T` must be what the request takes.
unsafe fn exchange<T>(of: impl AsFd, request: libc::Ioctl, value: &mut T) -> Result<i32, Errno> {
    // SAFETY: the caller's promise.
    returned(unsafe { libc::ioctl(of.as_fd().as_raw_fd(), request, &raw mut *value) })
}

/// The user namespace that a namespace belongs to.
pub fn owner_of_namespace(namespace: &OwnedFd) -> Result<OwnedFd, Errno> {
    const NS_GET_USERNS: u32 = 0xb701;
    opened(namespace, NS_GET_USERNS as _, 0)
}

/// The network that a socket belongs to.
pub fn network_of_socket(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    const SIOCGSKNS: u32 = 0x894c;
    opened(socket, SIOCGSKNS as _, 0)
}

/// The file by whose name a unix socket is reached.
pub fn file_of_socket(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    const SIOCUNIXFILE: u32 = 0x89e0;
    opened(socket, SIOCUNIXFILE as _, 0)
}

/// The side that programs use of the pseudo-terminal whose other side this is.
pub fn side_of_programs(other_side: impl AsFd) -> Result<OwnedFd, Errno> {
    opened(other_side, libc::TIOCGPTPEER, libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC)
}

/// Whether this is the side of a pseudo-terminal that programs do not use.
#[must_use]
pub fn is_other_side(terminal: BorrowedFd) -> bool {
    // SAFETY: the kernel fills in a number, for that side only.
    unsafe { exchange(terminal, libc::TIOCGPTN, &mut 0u32) }.is_ok()
}

/// The kernel's `struct termios`: the modes of a terminal. It is not the C library's, which is longer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    pub(crate) input: u32,
    pub(crate) output: u32,
    pub(crate) control: u32,
    pub(crate) local: u32,
    pub(crate) line: u8,
    pub(crate) keys: [u8; 19],
}

/// The modes of a terminal.
pub fn modes(terminal: impl AsFd) -> Result<Modes, Errno> {
    let mut modes = Modes::default();
    // SAFETY: the kernel fills in a structure of this layout.
    unsafe { exchange(terminal, libc::TCGETS, &mut modes) }?;
    Ok(modes)
}

/// Sets the modes of a terminal, at once.
pub fn set_modes(terminal: impl AsFd, mut modes: Modes) -> Result<(), Errno> {
    // SAFETY: the kernel reads a structure of this layout.
    unsafe { exchange(terminal, libc::TCSETS, &mut modes) }.map(drop)
}

/// Has a seccomp filter's listener hand one CPU to and fro with its callers (Linux 6.6).
pub fn wake_on_same_cpu(listener: &OwnedFd) -> Result<(), Errno> {
    const SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP: u64 = 1;
    let (fd, request) = (listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS);
    // SAFETY: for this request the argument is the flags themselves.
    returned(unsafe { libc::ioctl(fd, request, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) }).map(drop)
}

/// A call that waits at a seccomp filter's listener.
pub fn receive_notification(listener: &OwnedFd) -> Result<libc::seccomp_notif, Errno> {
    // SAFETY: a structure of numbers; the kernel insists on zeros, and fills it in.
    unsafe {
        let mut notification = std::mem::zeroed();
        exchange(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, &mut notification)?;
        Ok(notification)
    }
}

/// Answers such a call.
pub fn answer_notification(listener: &OwnedFd, mut answer: libc::seccomp_notif_resp) -> Result<(), Errno> {
    // SAFETY: the request reads the structure.
    unsafe { exchange(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &mut answer) }.map(drop)
}

/// Gives the caller of such a call a descriptor; returns its number there (Linux 5.9).
pub fn add_descriptor(listener: &OwnedFd, mut added: libc::seccomp_notif_addfd) -> Result<i32, Errno> {
    // SAFETY: the request reads the structure, and returns a number of the caller's.
    unsafe { exchange(listener, libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut added) }
}

/// Whether such a call still waits.
#[must_use]
pub fn notification_waits(listener: &OwnedFd, mut id: u64) -> bool {
    // SAFETY: the request reads a number.
    unsafe { exchange(listener, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id) }.is_ok()
}

/// Takes a lease to write on a file, which is granted only where nobody else has it open, and ends with this descriptor.
pub fn lease(file: &OwnedFd) -> Result<(), Errno> {
    // SAFETY: a lease is a number.
    returned(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) }).map(drop)
}

/// Connects a socket to an address as the kernel lays it out.
pub fn connect(socket: &OwnedFd, address: &[u8]) -> Result<(), Errno> {
    let length = address.len() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of the address.
    returned(unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), length) }).map(drop)
}

/// What `statx` has written at the start of these bytes.
#[must_use]
pub fn statx_in(bytes: &[u8]) -> Option<Statx> {
    let bytes = bytes.get(..size_of::<Statx>())?;
    // SAFETY: as many bytes as the structure has, which is numbers alone and need not be aligned to be read so.
    Some(unsafe { bytes.as_ptr().cast::<Statx>().read_unaligned() })
}
