//! The program inside: it interprets the `inside` parts of a history, one process for each, and tells the host what
//! every operation returned and everything that it could read.
//!
//! It is a role of the test's own executable, and knows nothing about the policy: it tries all it is told to, by plain
//! system calls, and goes on when they fail. A process that hangs is ended by its own alarm, so that whatever hangs
//! after that is kennel.

mod call;
mod descriptors;
mod files;
mod index;
mod network;
mod paths;
mod processes;
mod race;
mod system;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::script::{History, Op};
use super::wire::{self, About, Record};

/// The name of the role.
pub const ROLE: &str = "attacker";
/// The exit code of an attacker that did all it was told to.
pub const DONE: i32 = 40;
/// Points of synchronisation that a history can have.
pub const POINTS: usize = 64;
/// Seconds after which a process inside ends itself.
const PATIENCE: u32 = 4;

/// What came of an operation.
pub(super) struct Answer {
    result: i32,
    /// When the deciding call began, if that was not the beginning of the operation.
    since: Option<u64>,
    data: Vec<u8>,
}

impl Answer {
    /// What a system call returned.
    fn of(result: i64) -> Answer {
        Answer { result: i32::try_from(result).unwrap_or(0), since: None, data: Vec::new() }
    }

    fn read(since: u64, result: i64, data: Vec<u8>) -> Answer {
        Answer { result: i32::try_from(result).unwrap_or(0), since: Some(since), data }
    }
}

/// Memory that all processes inside share.
struct Shared([AtomicU32; POINTS]);

/// A process inside.
pub(super) struct Actor {
    index: u8,
    op: u16,
    top: PathBuf,
    mark: String,
    port: String,
    /// Descriptors by the numbers that histories have for them.
    slots: [i32; 16],
    /// Through which descriptors are passed between processes.
    pair: [i32; 2],
    shared: &'static Shared,
}

/// The role: `TOP MARK PORT`; the script comes by the descriptor.
pub fn run(words: &[OsString]) -> i32 {
    let word =
        |index: usize| words.get(index).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let Ok(history) = History::parse(&script()) else { return 41 };
    let Some(run) = history.runs.first() else { return 42 };
    tell(About::Started, 0, 0, &Answer::of(0), wire::now());
    let mut pair = [-1; 2];
    // SAFETY: the kernel writes two descriptors; where it does not, passing them fails later.
    unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0, pair.as_mut_ptr()) };
    let shared = share();
    let mut slots = [-1; 16];
    slots[..3].copy_from_slice(&[0, 1, 2]);
    let mut children = Vec::new();
    for (index, ops) in run.inside.iter().enumerate() {
        let actor = Actor {
            index: u8::try_from(index).unwrap_or(u8::MAX),
            op: 0,
            top: PathBuf::from(&words[0]),
            mark: word(1),
            port: word(2),
            slots,
            pair,
            shared,
        };
        // SAFETY: this process has a single thread until all have been forked.
        match unsafe { libc::fork() } {
            0 => {
                actor.perform(ops);
                // SAFETY: ends the child, which shares its parent's handlers and should not run them.
                unsafe { libc::_exit(0) };
            }
            -1 => {}
            child => children.push(child),
        }
    }
    // SAFETY: the alarm's default action ends the process.
    unsafe { libc::alarm(PATIENCE + 2) };
    std::thread::spawn(move || relay(shared));
    for child in children {
        // SAFETY: takes no pointer but a null one.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
    tell(About::Ended, 0, 0, &Answer::of(0), wire::now());
    DONE
}

/// Reads the script: its length in four bytes, then its text.
fn script() -> String {
    let mut bytes = Vec::new();
    let mut wanted = 4;
    while bytes.len() < wanted {
        let mut buffer = [0u8; 4096];
        let room = buffer.len().min(wanted - bytes.len());
        // SAFETY: the kernel writes at most that many bytes.
        let got = unsafe { libc::read(wire::HEARS, buffer.as_mut_ptr().cast(), room) };
        if got <= 0 {
            break;
        }
        bytes.extend_from_slice(&buffer[..got.cast_unsigned()]);
        if wanted == 4 && bytes.len() == 4 {
            wanted += u32::from_ne_bytes(bytes[..4].try_into().expect("four bytes")) as usize;
        }
    }
    String::from_utf8_lossy(bytes.get(4..).unwrap_or_default()).into_owned()
}

fn share() -> &'static Shared {
    // SAFETY: a fresh mapping of zeroes, which are valid atomics; it lives as long as the process.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(page, libc::MAP_FAILED, "a page of memory");
        &*page.cast::<Shared>()
    }
}

/// Passes on the host's word that a point is free. When the host says no more, all points are.
fn relay(shared: &Shared) {
    loop {
        let mut point = 0u8;
        // SAFETY: the kernel writes one byte.
        let got = unsafe { libc::read(wire::HEARS, (&raw mut point).cast(), 1) };
        let free = if got == 1 {
            shared.0.get(usize::from(point)..=usize::from(point)).unwrap_or_default()
        } else {
            &shared.0[..]
        };
        for point in free {
            point.store(1, Ordering::SeqCst);
            // SAFETY: wakes whoever waits on this word of shared memory.
            unsafe { libc::syscall(libc::SYS_futex, point.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
        }
        if got != 1 {
            return;
        }
    }
}

fn tell(about: About, actor: u8, op: u16, answer: &Answer, began: u64) {
    let record = Record {
        about,
        actor,
        op,
        result: answer.result,
        since: answer.since.unwrap_or(began),
        until: wire::now(),
        data: answer.data.clone(),
    };
    let bytes = record.encode();
    // SAFETY: reads the buffer. A host that is gone is nobody to tell.
    unsafe { libc::write(wire::TELLS, bytes.as_ptr().cast(), bytes.len()) };
}

impl Actor {
    fn perform(mut self, ops: &[Op]) {
        // SAFETY: the alarm's default action ends the process.
        unsafe { libc::alarm(PATIENCE) };
        for (number, op) in ops.iter().enumerate() {
            self.op = u16::try_from(number).unwrap_or(u16::MAX);
            let began = wire::now();
            let answer = self.act(op);
            tell(About::Done, self.index, self.op, &answer, began);
        }
    }

    /// Tells of a part of an operation that goes on.
    fn note(&self, answer: &Answer) {
        tell(About::Done, self.index, self.op, answer, wire::now());
    }

    fn act(&mut self, op: &Op) -> Answer {
        match op.verb.as_str() {
            "sync" => self.sync(op.number(0)),
            "pause" => {
                std::thread::sleep(std::time::Duration::from_micros(op.number(0)));
                Answer::of(0)
            }
            "open" | "reopen" | "fdread" | "fdwrite" | "fdchmod" | "fdtrunc" | "fdutimes" | "fdxattr"
            | "fdlink" | "pass" | "take" => self.descriptors(op),
            "race" | "flood" | "deep" | "flip" | "repeat" => self.race(op),
            "daemon" | "ptrace" | "kill" | "git" | "gitindex" => self.processes(op),
            "mount" | "umount" | "unshare" | "cgroup" | "procs" | "memory" | "procwrite" | "lease"
            | "flock" | "inotify" | "hog" | "chdir" => self.system(op),
            "tcp" | "udp" | "proxy" | "unix" | "sock" => self.network(op),
            _ => self.files(op),
        }
    }

    fn sync(&self, point: u64) -> Answer {
        let Some(word) = usize::try_from(point).ok().and_then(|point| self.shared.0.get(point)) else {
            return Answer::of(0);
        };
        tell(About::Waits, self.index, self.op, &Answer::of(i64::try_from(point).unwrap_or(0)), wire::now());
        while word.load(Ordering::SeqCst) == 0 {
            let none = std::ptr::null::<libc::timespec>();
            // SAFETY: waits on a word of shared memory while it is 0.
            unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, 0, none) };
        }
        Answer::of(0)
    }
}
