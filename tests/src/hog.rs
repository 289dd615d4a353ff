//! Takes all that it can of what the kernel counts for a user or for the whole machine, and keeps it; and what an ordinary program
//! needs one of each for.
//!
//! Each stops at an end of its own, should nothing hold it: on a machine that others work on too.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use crate::probe::probe_inside;

/// How much a sandbox may have of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// None at all.
    None,
    /// Up to so many.
    UpTo(usize),
}

/// What can be taken, and how much a sandbox may have of it by default.
pub const RESOURCES: &[(&str, Share)] = &[
    ("terminals", Share::UpTo(128)),
    ("signals", Share::UpTo(4096)),
    ("timers", Share::UpTo(4096)),
    ("aio", Share::None),
    ("inotify", Share::UpTo(64)),
    // Landlock refuses them: their file system is none that a rule could name.
    ("queues", Share::None),
    ("locked-memory", Share::None),
    // As many as there can be descriptors open, and one message more.
    ("in-flight", Share::UpTo(4096 + 253)),
    ("socket-filters", Share::None),
    ("port-filters", Share::None),
    ("flow-labels", Share::None),
    ("keys", Share::None),
    ("namespaces", Share::None),
    ("fanotify", Share::None),
    ("io-uring", Share::None),
    ("perf-events", Share::None),
    ("userfaults", Share::None),
];

/// What the host's programs can have, as this process found when it first asked.
pub static HOST_HAS: LazyLock<Vec<&str>> =
    LazyLock::new(|| RESOURCES.iter().map(|(name, _)| *name).filter(|name| need(name).is_ok()).collect());

/// What came of taking all.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// How many there were.
    pub count: usize,
    /// What ended it; 0 for its own end.
    pub errno: i32,
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Does it again and again until it fails, at most so often.
fn until_refused(most: usize, mut one: impl FnMut() -> bool) -> Taken {
    let count = (0..most).take_while(|_| one()).count();
    Taken { count, errno: if count == most { 0 } else { errno() } }
}

fn call(number: libc::c_long, args: [usize; 6]) -> i64 {
    let [a, b, c, d, e, f] = args;
    // SAFETY: what the callers below pass is theirs for as long as the call runs.
    unsafe { libc::syscall(number, a, b, c, d, e, f) }
}

/// Raises the limit on open files as far as this process may.
fn raise_open_files() {
    // SAFETY: reads and writes a structure.
    unsafe {
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

/// Takes one, or some, of `what` and keeps it for as long as this process lives. Fails with errno set.
fn one(what: &str) -> bool {
    let zeros = [0u8; 128];
    let nothing = zeros.as_ptr() as usize;
    match what {
        "terminals" => {
            let path = c"/dev/ptmx".as_ptr();
            // SAFETY: a string.
            unsafe { libc::open(path, libc::O_RDWR | libc::O_NOCTTY) >= 0 }
        }
        "signals" => {
            // SAFETY: the signal is blocked, so that it waits.
            unsafe {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, libc::SIGRTMIN());
                libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
                let value = libc::sigval { sival_ptr: std::ptr::null_mut() };
                libc::sigqueue(libc::getpid(), libc::SIGRTMIN(), value) == 0
            }
        }
        "timers" => {
            let mut timer = 0i32;
            call(libc::SYS_timer_create, [1, 0, &raw mut timer as usize, 0, 0, 0]) == 0
        }
        "inotify" => call(libc::SYS_inotify_init1, [0; 6]) >= 0,
        "queues" => {
            static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
            let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let name =
                std::ffi::CString::new(format!("kennel-{}-{count}", std::process::id())).expect("no NUL");
            let flags = (libc::O_CREAT | libc::O_RDWR) as usize;
            let opened = call(libc::SYS_mq_open, [name.as_ptr() as usize, flags, 0o600, 0, 0, 0]) >= 0;
            if opened {
                // It is there for as long as it is open.
                call(libc::SYS_mq_unlink, [name.as_ptr() as usize, 0, 0, 0, 0, 0]);
            }
            opened
        }
        "locked-memory" => {
            let id = call(libc::SYS_shmget, [0, 65536, 0o1600, 0, 0, 0]);
            let locked = id >= 0 && call(libc::SYS_shmctl, [id as usize, 11, 0, 0, 0, 0]) == 0;
            let error = errno();
            // It goes with its last user, which is this process.
            if locked {
                call(libc::SYS_shmat, [id as usize, 0, 0, 0, 0, 0]);
            }
            call(libc::SYS_shmctl, [id as usize, 0, 0, 0, 0, 0]);
            // SAFETY: this thread's own.
            unsafe { *libc::__errno_location() = error };
            locked
        }
        "socket-filters" => attach(libc::AF_INET, libc::SOCK_DGRAM, libc::SO_ATTACH_FILTER),
        "port-filters" => attach(libc::AF_INET, libc::SOCK_DGRAM, 51),
        "flow-labels" => {
            let socket =
                call(libc::SYS_socket, [libc::AF_INET6 as usize, libc::SOCK_DGRAM as usize, 0, 0, 0, 0]);
            // struct in6_flowlabel_req: to ::1, label 0 (any), get, exclusive, to be made.
            let mut request = [0u8; 32];
            request[15] = 1;
            request[21] = 1;
            request[22..24].copy_from_slice(&1u16.to_ne_bytes());
            let request = request.as_ptr() as usize;
            socket >= 0
                && call(
                    libc::SYS_setsockopt,
                    [socket as usize, libc::IPPROTO_IPV6 as usize, 32, request, 32, 0],
                ) == 0
        }
        "keys" => {
            let (kind, name) = (c"user".as_ptr() as usize, c"kennel-hog".as_ptr() as usize);
            call(libc::SYS_add_key, [kind, name, nothing, 8, -1i32 as usize, 0]) >= 0
        }
        "namespaces" => {
            let flags = libc::CLONE_NEWUTS as usize;
            let made = call(libc::SYS_unshare, [flags, 0, 0, 0, 0, 0]) == 0;
            // SAFETY: a string. The namespace is there for as long as it is open.
            made && unsafe { libc::open(c"/proc/self/ns/uts".as_ptr(), libc::O_RDONLY) >= 0 }
        }
        "fanotify" => call(libc::SYS_fanotify_init, [0x200, 0, 0, 0, 0, 0]) >= 0,
        "io-uring" => call(libc::SYS_io_uring_setup, [8, nothing, 0, 0, 0, 0]) >= 0,
        "perf-events" => {
            let mut attributes = [0u32; 32];
            // A software counter of this process alone, without the kernel.
            (attributes[0], attributes[1], attributes[10]) = (1, 128, 0x60);
            call(
                libc::SYS_perf_event_open,
                [attributes.as_ptr() as usize, 0, -1i32 as usize, -1i32 as usize, 0, 0],
            ) >= 0
        }
        "userfaults" => call(libc::SYS_userfaultfd, [1, 0, 0, 0, 0, 0]) >= 0,
        _ => panic!("nothing is called {what}"),
    }
}

/// A program of classic BPF on a socket of its own.
fn attach(family: i32, kind: i32, option: i32) -> bool {
    const RETURN: libc::sock_filter = libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0xffff };
    const LOAD: libc::sock_filter = libc::sock_filter { code: 0, jt: 0, jf: 0, k: 1 };
    let mut program = vec![LOAD; 1023];
    program.push(RETURN);
    let program = libc::sock_fprog { len: 1024, filter: program.as_mut_ptr() };
    let socket = call(libc::SYS_socket, [family as usize, kind as usize, 0, 0, 0, 0]);
    let (program, length) = (&raw const program as usize, size_of::<libc::sock_fprog>());
    socket >= 0
        && call(
            libc::SYS_setsockopt,
            [socket as usize, libc::SOL_SOCKET as usize, option as usize, program, length, 0],
        ) == 0
}

/// Sends `count` copies of standard error on their way, and leaves them there; tells whether all are.
fn send(socket: i32, count: usize, wait: bool) -> bool {
    let fds = vec![2i32; count];
    let mut byte = [0u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let size = size_of_val(&*fds);
    // SAFETY: computes lengths, and fills a message that is as long as they say.
    unsafe {
        let mut space = vec![0u64; libc::CMSG_SPACE(size as u32) as usize / 8 + 1];
        let mut header = std::mem::zeroed::<libc::msghdr>();
        (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
        header.msg_control = space.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(size as u32) as _;
        let control = libc::CMSG_FIRSTHDR(&raw const header);
        (*control).cmsg_level = libc::SOL_SOCKET;
        (*control).cmsg_type = libc::SCM_RIGHTS;
        (*control).cmsg_len = libc::CMSG_LEN(size as u32) as _;
        std::ptr::copy_nonoverlapping(fds.as_ptr().cast(), libc::CMSG_DATA(control), size);
        let flags = libc::MSG_NOSIGNAL | if wait { 0 } else { libc::MSG_DONTWAIT };
        libc::sendmsg(socket, &raw const header, flags) == 1
    }
}

fn pair() -> Option<[i32; 2]> {
    let mut pair = [0; 2];
    // SAFETY: writes two numbers.
    (unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) } == 0).then_some(pair)
}

/// Descriptors on their way, by messages with as many as there can be and then by smaller ones.
fn in_flight(most: usize) -> Taken {
    let mut taken = Taken { count: 0, errno: 0 };
    let mut socket = pair();
    while taken.count < most {
        let Some([from, _]) = socket else { break };
        if send(from, 253, false) {
            taken.count += 253;
            continue;
        }
        match errno() {
            libc::EAGAIN => socket = pair(),
            error => {
                taken.errno = error;
                break;
            }
        }
    }
    taken
}

/// Reserves the slots of asynchronous I/O by calls for many and then for few.
fn asynchronous() -> Taken {
    let mut taken = Taken { count: 0, errno: 0 };
    let mut slots = 65536usize;
    while slots > 0 {
        let mut context = 0usize;
        if call(libc::SYS_io_setup, [slots, &raw mut context as usize, 0, 0, 0, 0]) == 0 {
            taken.count += slots;
        } else {
            taken.errno = errno();
            slots /= 2;
        }
    }
    taken
}

/// Takes all that there is for this process, at most some more than the shares above.
#[must_use]
pub fn take(what: &str) -> Taken {
    raise_open_files();
    match what {
        "aio" => asynchronous(),
        "in-flight" => in_flight(30_000),
        "signals" | "timers" => until_refused(120_000, || one(what)),
        "socket-filters" | "port-filters" => until_refused(16, || one(what)),
        _ => until_refused(5000, || one(what)),
    }
}

/// Does what an ordinary program does with one of `what`, and gives it back.
///
/// # Errors
/// With what the kernel said.
pub fn need(what: &str) -> Result<(), String> {
    // In a process of its own: what is taken ends with it.
    // SAFETY: the child makes system calls and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        raise_open_files();
        let had = match what {
            "aio" => call(libc::SYS_io_setup, [8, &raw mut *Box::new(0usize) as usize, 0, 0, 0, 0]) == 0,
            "in-flight" => pair().is_some_and(|[from, _]| send(from, 1, true)),
            _ => one(what),
        };
        let code = if had { 0 } else { errno().max(1) };
        // SAFETY: ends this process.
        unsafe { libc::_exit(code) }
    }
    let mut status = 0;
    // SAFETY: waits for a child of this process.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => Ok(()),
        error => Err(format!("{what}: {}", std::io::Error::from_raw_os_error(error))),
    }
}

/// The role `take WHAT`: takes all, says how much, and keeps it until standard input ends.
pub fn take_role(words: &[OsString]) -> i32 {
    let taken = take(&words[0].to_string_lossy());
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{} {}", taken.count, taken.errno);
    let _ = out.flush();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    0
}

/// The role `need WHAT`.
pub fn need_role(words: &[OsString]) -> i32 {
    match need(&words[0].to_string_lossy()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

/// A sandbox that has taken all it can, and keeps it until this is dropped. Its program has the role `take`.
#[derive(Debug)]
pub struct Hog {
    child: Child,
    /// What it has.
    pub taken: Taken,
}

impl Hog {
    /// Starts one with these flags.
    ///
    /// # Panics
    /// When it does not start.
    #[track_caller]
    #[must_use]
    pub fn start(what: &str, flags: &[&str]) -> Hog {
        let mut command: Command = probe_inside("take", flags, &[what]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let said = BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line);
        said.expect("a line");
        let mut numbers = line.split_whitespace().map(|number| number.parse::<i64>().expect("a number"));
        let mut next = || numbers.next().unwrap_or_else(|| panic!("{what} {flags:?}: it said {line:?}"));
        let taken = Taken { count: next() as usize, errno: next() as i32 };
        Hog { child, taken }
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
