//! Operations on files by their names.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use super::call::{Fd, HERE, call, contents, text, write};
use super::paths::{Given, plain};
use super::{Actor, Answer};
use crate::attack::script::Op;
use crate::attack::snapshot::TOP;
use crate::attack::wire::now;
use crate::attack::{canary, word};

/// A value that the kernel takes for a file capability, and any other attribute for what it is.
pub(super) const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Long ago.
pub(super) const TIMES: [libc::timespec; 2] = [libc::timespec { tv_sec: 1, tv_nsec: 0 }; 2];

impl Actor {
    /// What this process writes, so that it is known where it turns up.
    pub(super) fn evil(&self) -> Vec<u8> {
        format!("EVIL {}.{}\n", self.index, self.op).into_bytes()
    }

    pub(super) fn files(&mut self, op: &Op) -> Answer {
        let way = op.words.last().filter(|word| word.starts_with('@')).map_or("", String::as_str);
        let first = self.give(op.word(0), way);
        let (at, path) = (first.at, text(&first.path));
        let mode = |other: usize| usize::from_str_radix(op.word(1), 8).unwrap_or(other);
        let two = |number: libc::c_long, flags: usize| {
            let second = self.give(op.word(1), way);
            Answer::of(call(number, &[at, path, second.at, text(&second.path), flags]))
        };
        match op.verb.as_str() {
            "read" => read(&first),
            "poll" => self.poll(&first, op.number(1)),
            "sweep" => self.sweep(op.number(0)),
            "readlink" => {
                let mut data = vec![0u8; 512];
                let length = call(libc::SYS_readlinkat, &[at, path, data.as_mut_ptr() as usize, data.len()]);
                data.truncate(usize::try_from(length).unwrap_or(0));
                Answer::read(now(), length.min(0), data)
            }
            "list" => list(&word::place(&self.top, op.word(0))),
            "write" => self.write(&first, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC),
            "append" => self.write(&first, libc::O_WRONLY | libc::O_APPEND),
            "create" => self.write(&first, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL),
            "trunc" => Answer::of(call(libc::SYS_truncate, &[path, 0])),
            "mmap" => map(&first),
            "put" => put(&first.path, &self.expand(op.word(1))),
            "copy" => {
                let read = read(&first);
                if read.result >= 0 {
                    put(&self.path(op.word(1)), &read.data);
                }
                read
            }
            "tmpfile" => self.nameless(&first, op.word(1)),
            "mkdir" => Answer::of(call(libc::SYS_mkdirat, &[at, path, mode(0o755)])),
            "fifo" => Answer::of(call(libc::SYS_mknodat, &[at, path, (libc::S_IFIFO | 0o600) as usize, 0])),
            "node" => {
                Answer::of(call(libc::SYS_mknodat, &[at, path, (libc::S_IFCHR | 0o600) as usize, 0x103]))
            }
            "rmdir" => Answer::of(call(libc::SYS_unlinkat, &[at, path, libc::AT_REMOVEDIR as usize])),
            "unlink" => Answer::of(call(libc::SYS_unlinkat, &[at, path, 0])),
            "chmod" => Answer::of(call(libc::SYS_fchmodat, &[at, path, mode(0o4755)])),
            "utimes" => Answer::of(call(libc::SYS_utimensat, &[at, path, TIMES.as_ptr() as usize, 0])),
            "rename" => two(libc::SYS_renameat2, 0),
            "noreplace" => two(libc::SYS_renameat2, libc::RENAME_NOREPLACE as usize),
            "exchange" => two(libc::SYS_renameat2, libc::RENAME_EXCHANGE as usize),
            "link" => two(libc::SYS_linkat, 0),
            "symlink" => {
                let leads_to = CString::new(self.expand(op.word(0))).unwrap_or_default();
                let second = self.give(op.word(1), way);
                Answer::of(call(libc::SYS_symlinkat, &[text(&leads_to), second.at, text(&second.path)]))
            }
            "xattr" | "caps" => {
                let name = if op.verb == "caps" { "security.capability" } else { op.word(1) };
                let name = CString::new(name).unwrap_or_default();
                let value = CAPABILITY.as_ptr() as usize;
                Answer::of(call(libc::SYS_setxattr, &[path, text(&name), value, CAPABILITY.len(), 0]))
            }
            _ => Answer::of(-i64::from(libc::ENOSYS)),
        }
    }

    /// A text of a history, with what is known only now.
    fn expand(&self, text: &str) -> Vec<u8> {
        let top = self.top.to_string_lossy();
        word::unescape(&text.replace("{mark}", &self.mark).replace(TOP, &top))
    }

    /// Tells each time that something else is there than before.
    fn poll(&self, given: &Given, microseconds: u64) -> Answer {
        let end = now() + microseconds * 1000;
        let mut last = Vec::new();
        let mut result = -1;
        while now() < end {
            let read = read(given);
            if read.result >= 0 && read.data != last {
                last.clone_from(&read.data);
                self.note(&read);
                result = 0;
            }
        }
        Answer::of(result)
    }

    /// Reads everything in the scratch area, and at the places where mounts show parts of it.
    fn sweep(&self, microseconds: u64) -> Answer {
        let end = now() + microseconds * 1000;
        loop {
            for place in [self.top.as_path(), Path::new("/mnt/a"), Path::new("/mnt/b")] {
                self.sweep_below(place, 0);
            }
            if now() >= end {
                return Answer::of(0);
            }
        }
    }

    fn sweep_below(&self, folder: &Path, depth: usize) {
        let names = list(folder);
        if !canary::find(&names.data).is_empty() {
            self.note(&names);
        }
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let place = entry.path();
            if depth < 12 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.sweep_below(&place, depth + 1);
                continue;
            }
            let read = read(&plain(&place));
            if !canary::find(&read.data).is_empty() {
                self.note(&read);
            }
        }
    }

    fn write(&self, given: &Given, flags: i32) -> Answer {
        match Fd::open(given.at, &given.path, flags) {
            Ok(fd) => Answer::of(write(fd.arg(), &self.evil()).min(0)),
            Err(error) => Answer::of(error),
        }
    }

    /// Makes a file without a name, and then names it.
    fn nameless(&self, folder: &Given, path: &str) -> Answer {
        let fd = match Fd::open(folder.at, &folder.path, libc::O_TMPFILE | libc::O_RDWR) {
            Ok(fd) => fd,
            Err(error) => return Answer::of(error),
        };
        write(fd.arg(), &self.evil());
        self.link_descriptor(fd.0, path)
    }

    /// Gives a name to what a descriptor has open.
    pub(super) fn link_descriptor(&self, fd: i32, path: &str) -> Answer {
        let from = CString::new(format!("/proc/self/fd/{fd}")).unwrap_or_default();
        let to = self.path(path);
        let follow = libc::AT_SYMLINK_FOLLOW as usize;
        Answer::of(call(libc::SYS_linkat, &[HERE, text(&from), HERE, text(&to), follow]))
    }
}

fn read(given: &Given) -> Answer {
    let since = now();
    match Fd::open(given.at, &given.path, libc::O_RDONLY) {
        Ok(fd) => Answer::read(since, 0, contents(fd.arg())),
        Err(error) => Answer::of(error),
    }
}

fn list(folder: &Path) -> Answer {
    let since = now();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        names.extend(entry.file_name().into_vec());
        names.push(b'\n');
    }
    Answer::read(since, 0, names)
}

fn put(path: &CStr, text: &[u8]) -> Answer {
    match Fd::open(HERE, path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC) {
        Ok(fd) => {
            call(libc::SYS_fchmod, &[fd.arg(), 0o755]);
            Answer::of(write(fd.arg(), text).min(0))
        }
        Err(error) => Answer::of(error),
    }
}

/// Writes through memory.
fn map(given: &Given) -> Answer {
    let fd = match Fd::open(given.at, &given.path, libc::O_RDWR) {
        Ok(fd) => fd,
        Err(error) => return Answer::of(error),
    };
    if contents(fd.arg()).len() < 8 {
        return Answer::of(-i64::from(libc::EINVAL));
    }
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let place = call(libc::SYS_mmap, &[0, 4096, access, libc::MAP_SHARED as usize, fd.arg(), 0]);
    if place < 0 && place > -4096 {
        return Answer::of(place);
    }
    // SAFETY: a fresh mapping of a file that was just seen to hold eight bytes. Somebody may cut it short at this very
    // moment, and the attacker then ends by a signal.
    unsafe { std::ptr::copy_nonoverlapping(b"EVILmap\n".as_ptr(), place as *mut u8, 8) };
    call(libc::SYS_munmap, &[place as usize, 4096]);
    Answer::of(0)
}
