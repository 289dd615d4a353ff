//! What belongs to the whole machine: mounts, cgroups, /proc, and locks that others wait for.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::call::{Fd, HERE, call, flags, text, write};
use super::{Actor, Answer};
use crate::attack::canary;
use crate::attack::script::Op;
use crate::attack::wire::{MAX_DATA, now};

impl Actor {
    pub(super) fn system(&mut self, op: &Op) -> Answer {
        let first = self.path(op.word(0));
        match op.verb.as_str() {
            "chdir" => Answer::of(call(libc::SYS_chdir, &[text(&first)])),
            "mount" => {
                let onto = self.path(op.word(1));
                let how = libc::MS_BIND as usize;
                Answer::of(call(libc::SYS_mount, &[text(&first), text(&onto), text(c"none"), how, 0]))
            }
            "umount" => Answer::of(call(libc::SYS_umount2, &[text(&first), libc::MNT_DETACH as usize])),
            "unshare" => {
                Answer::of(call(libc::SYS_unshare, &[flags(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)]))
            }
            "cgroup" => leave_cgroups(),
            "procs" => processes(),
            "memory" => memory(),
            "procwrite" => write_proc(),
            "lease" => {
                // Held until this process ends. A read lease is broken by a writer, a write lease by anybody.
                let how = [
                    (libc::O_RDWR, libc::F_WRLCK),
                    (libc::O_RDONLY, libc::F_WRLCK),
                    (libc::O_RDONLY, libc::F_RDLCK),
                ];
                self.hold(
                    &how.map(|(how, kind)| (how, libc::SYS_fcntl, [libc::F_SETLEASE as usize, flags(kind)])),
                    &first,
                )
            }
            "flock" => self.hold(
                &[(libc::O_RDONLY, libc::SYS_flock, [flags(libc::LOCK_EX | libc::LOCK_NB), 0])],
                &first,
            ),
            "inotify" => {
                let made = (0..op.number(0)).take_while(|_| call(libc::SYS_inotify_init1, &[0]) >= 0).count();
                Answer::of(made as i64)
            }
            // Held until this process ends.
            "hog" => Answer::of(crate::hog::take(op.word(0)).count as i64),
            _ => Answer::of(-i64::from(libc::ENOSYS)),
        }
    }

    /// Opens a file and locks it in one of some ways; the first that succeeds stays.
    fn hold(&self, ways: &[(i32, libc::c_long, [usize; 2])], path: &CString) -> Answer {
        let mut last = Answer::of(-i64::from(libc::ENOENT));
        for (how, number, [one, two]) in ways {
            let Ok(fd) = Fd::open(HERE, path, *how) else { continue };
            last = Answer::of(call(*number, &[fd.arg(), *one, *two]));
            if last.result >= 0 {
                fd.keep();
                return last;
            }
        }
        last
    }
}

/// Tries to move this process to every cgroup that shows; tells how many took it.
fn leave_cgroups() -> Answer {
    let mut taken = 0;
    let mut folders = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for name in ["tasks", "cgroup.procs"] {
            let Ok(file) = CString::new(folder.join(name).as_os_str().as_bytes()) else { continue };
            if let Ok(fd) = Fd::open(HERE, &file, libc::O_WRONLY)
                && write(fd.arg(), b"0\n") >= 0
            {
                taken += 1;
            }
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let below = entries.filter(|entry| depth < 2 && entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(below.map(|entry| (entry.path(), depth + 1)));
    }
    Answer::of(taken)
}

/// Reads what /proc tells about processes; the host's own have canaries among their arguments.
fn processes() -> Answer {
    let since = now();
    let mut data = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        for name in ["cmdline", "environ"] {
            let text = std::fs::read(entry.path().join(name)).unwrap_or_default();
            for canary in canary::find(&text) {
                data.extend(canary.text().as_bytes());
                data.push(b'\n');
            }
        }
    }
    data.truncate(MAX_DATA);
    Answer::read(since, 0, data)
}

/// Reads the memory of every process that it can, its own too: what it was given is there, wherever it has it from.
fn memory() -> Answer {
    const PIECE: u64 = 1 << 20;
    let since = now();
    let mut data = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(maps) = std::fs::read_to_string(entry.path().join("maps")) else { continue };
        let Ok(file) = std::fs::File::open(entry.path().join("mem")) else { continue };
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap_or(0);
        let written = maps.lines().filter(|line| line.contains(" rw"));
        for (start, end) in written.filter_map(|line| line.split(' ').next()?.split_once('-')) {
            let (mut at, end) = (number(start), number(end));
            while at < end {
                let mut piece = vec![0; usize::try_from(PIECE.min(end - at)).unwrap_or(0)];
                let Ok(count) = file.read_at(&mut piece, at) else { break };
                for canary in canary::find(&piece[..count]) {
                    data.extend(canary.text().as_bytes());
                    data.push(b'\n');
                }
                at += PIECE;
            }
        }
    }
    data.truncate(MAX_DATA);
    Answer::read(since, 0, data)
}

/// Tries to write a setting of the kernel, with the value that it has already.
fn write_proc() -> Answer {
    let files = ["/proc/sys/vm/swappiness", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/panic"];
    let mut written = 0;
    for file in files {
        let Ok(value) = std::fs::read(Path::new(file)) else { continue };
        let name = CString::new(file).unwrap_or_default();
        if let Ok(fd) = Fd::open(HERE, &name, libc::O_WRONLY)
            && write(fd.arg(), &value) >= 0
        {
            written += 1;
        }
    }
    Answer::of(written)
}
