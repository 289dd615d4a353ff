//! The thread whose call waits: its memory, and where its paths start.
//!
//! Everything read here can be changed by the caller's other threads a moment later; see [`super::watch`] for what is
//! done about that.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use super::as_root;
use crate::sys::processes::read_memory;

/// The longest path that the kernel takes, with its NUL.
pub const PATH_MAX: usize = 4096;
const PAGE: u64 = 4096;

/// A thread, by its number in this process's PID namespace.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    tid: u32,
}

/// Why a path could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// No such memory, as far as another process can see. The call has to fail: the kernel itself may see more, since
    /// memory of memfd_secret(2) is hidden from every other process.
    Fault,
    /// The caller may not be looked into.
    Denied,
    /// Longer than any path; the call fails by itself.
    TooLong,
    /// The thread is gone.
    Gone,
}

impl Caller {
    /// The thread numbered `tid`.
    #[must_use]
    pub fn new(tid: u32) -> Caller {
        Caller { tid }
    }

    /// Reads what can be read of `buffer.len()` bytes at `address`, which lie within one page.
    fn read_within_page(self, address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        read_memory(self.tid, address, buffer)
    }

    /// Reads exactly `buffer.len()` bytes.
    pub fn memory(self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        let mut done = 0;
        while done < buffer.len() {
            let at = address.wrapping_add(done as u64);
            let end = buffer.len().min(done + (PAGE - at % PAGE) as usize);
            match self.read_within_page(at, &mut buffer[done..end]) {
                Ok(0) => return Err(Unreadable::Fault),
                Ok(read) => done += read,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads the path at `address`, without its NUL.
    pub fn path(self, address: u64, buffer: &mut [u8; PATH_MAX]) -> Result<&[u8], Unreadable> {
        // Most paths are short, and the kernel looks up each page it copies from.
        const FIRST: usize = 256;
        let mut done = 0;
        while done < PATH_MAX {
            let at = address.wrapping_add(done as u64);
            let most = if done == 0 { FIRST } else { PATH_MAX - done };
            let end = done + most.min((PAGE - at % PAGE) as usize);
            let read = self.read_within_page(at, &mut buffer[done..end])?;
            if read == 0 {
                return Err(Unreadable::Fault);
            }
            if let Some(nul) = buffer[done..done + read].iter().position(|byte| *byte == 0) {
                return Ok(&buffer[..done + nul]);
            }
            done += read;
        }
        Err(Unreadable::TooLong)
    }

    /// The thread's own root.
    pub fn root(self) -> Result<OwnedFd, Errno> {
        self.open_folder("root")
    }

    /// The thread's network namespace.
    pub fn network(self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::open(format!("/proc/{}/ns/net", self.tid), flags, Mode::empty())
    }

    /// The folder that a path relative to `folder` (a descriptor, or AT_FDCWD) starts from.
    pub fn folder(self, folder: i32) -> Result<OwnedFd, Errno> {
        if folder == libc::AT_FDCWD {
            self.open_folder("cwd")
        } else {
            self.open_folder(&format!("fd/{folder}"))
        }
    }

    /// The path of the folder that a path relative to `folder` starts from, as the kernel has it for the caller's mounts.
    pub fn place(self, folder: i32) -> Result<Vec<u8>, Errno> {
        let link = match folder {
            libc::AT_FDCWD => format!("/proc/{}/cwd", self.tid),
            _ => format!("/proc/{}/fd/{folder}", self.tid),
        };
        rustix::fs::readlink(link, Vec::new()).map(CString::into_bytes)
    }

    /// What the symlink `name` in the folder `folder` says, where `name` is a single component.
    pub fn link_in(self, folder: i32, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut path = Vec::with_capacity(name.len() + 32);
        path.extend_from_slice(format!("/proc/{}/", self.tid).as_bytes());
        if folder == libc::AT_FDCWD {
            path.extend_from_slice(b"cwd/");
        } else {
            path.extend_from_slice(format!("fd/{folder}/").as_bytes());
        }
        path.extend_from_slice(name);
        let path = CString::new(path).map_err(|_| Errno::INVAL)?;
        rustix::fs::readlinkat(CWD, path, Vec::new()).map(CString::into_bytes)
    }

    /// What `/proc/self` or `/proc/thread-self` is to the caller, as this process sees it.
    pub fn itself(self, thread: bool) -> Result<OwnedFd, Errno> {
        let group = self.group()?;
        let path = if thread { format!("/proc/{group}/task/{}", self.tid) } else { format!("/proc/{group}") };
        open_path(&path)
    }

    /// A copy of the thread's descriptor `number`, which refers to the same open file.
    pub fn descriptor(self, number: i32) -> Result<OwnedFd, Errno> {
        // Linux 6.9; before, a process can be named only as a whole, whose threads share their descriptors but for rare
        // exceptions.
        const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL.cast_unsigned());
        let thread = match pidfd_open(self.tid, PIDFD_THREAD) {
            Err(Errno::INVAL) => pidfd_open(self.group()?, PidfdFlags::empty()),
            other => other,
        }?;
        rustix::process::pidfd_getfd(thread, number, PidfdGetfdFlags::empty())
    }

    /// The number of the process that the thread belongs to.
    pub fn group(self) -> Result<u32, Errno> {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.tid)).map_err(|_| Errno::SRCH)?;
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        line.and_then(|number| number.trim().parse().ok()).ok_or(Errno::SRCH)
    }

    /// The thread's number.
    #[must_use]
    pub fn tid(self) -> u32 {
        self.tid
    }

    fn open_folder(self, what: &str) -> Result<OwnedFd, Errno> {
        open_path(&format!("/proc/{}/{what}", self.tid))
    }
}

fn pidfd_open(pid: u32, flags: PidfdFlags) -> Result<OwnedFd, Errno> {
    let pid = Pid::from_raw(pid.cast_signed()).ok_or(Errno::SRCH)?;
    rustix::process::pidfd_open(pid, flags)
}

fn open_path(path: &str) -> Result<OwnedFd, Errno> {
    as_root::open_proc(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC)
}

impl From<Errno> for Unreadable {
    fn from(error: Errno) -> Unreadable {
        match error {
            Errno::FAULT => Unreadable::Fault,
            Errno::SRCH => Unreadable::Gone,
            _ => Unreadable::Denied,
        }
    }
}
