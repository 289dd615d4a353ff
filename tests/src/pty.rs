//! A terminal that a test plays: it shows what programs write, answers what they ask it, and types.
//!
//! Real terminals differ in what they answer. This one says to each request what a test has it say, and keeps track of the
//! cursor as far as it takes to say where that is.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

const PATIENCE: Duration = Duration::from_secs(20);

/// What a terminal says to what programs send.
pub type Replies = &'static [(&'static [u8], &'static [u8])];

/// The terminal: the side that a user looks at, and the side that programs get.
pub struct Pty {
    user: Arc<OwnedFd>,
    program: OwnedFd,
    shown: Arc<Mutex<Vec<u8>>>,
    /// Whether it has stopped reading: a window that hangs.
    stuck: Arc<AtomicBool>,
}

impl Pty {
    /// A terminal of 24 rows and 80 columns that says where its cursor is, and otherwise `replies`.
    #[must_use]
    pub fn new(replies: Replies) -> Pty {
        let user = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::CLOEXEC).expect("a pseudo-terminal");
        rustix::pty::grantpt(&user).expect("it is ours");
        rustix::pty::unlockpt(&user).expect("it is ours");
        let name = rustix::pty::ptsname(&user, Vec::new()).expect("it has a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let program = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).expect("it is ours");
        let user = Arc::new(user);
        let (shown, stuck) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let emulator = Emulator { row: 1, column: 1, saved: (1, 1), pending: Vec::new(), replies };
        let pty = Pty { user, program, shown, stuck };
        pty.resize(24, 80);
        let (user, shown, stuck) =
            (Arc::downgrade(&pty.user), Arc::clone(&pty.shown), Arc::clone(&pty.stuck));
        std::thread::spawn(move || emulator.run(&user, &shown, &stuck));
        pty
    }

    /// The side that programs get.
    #[must_use]
    pub fn program(&self) -> &OwnedFd {
        &self.program
    }

    /// The side that a user looks at.
    #[must_use]
    pub fn user_side(&self) -> &OwnedFd {
        &self.user
    }

    /// Changes the window's size.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&*self.user, size).expect("it is ours");
    }

    /// Starts a command on it, all streams that the command does not have otherwise, as the leader of a session.
    pub fn spawn(&self, command: &mut Command, streams: [bool; 3]) -> Child {
        let [input, output, error] = streams;
        let stream = || Stdio::from(self.program.try_clone().expect("a descriptor"));
        if input {
            command.stdin(stream());
        }
        if output {
            command.stdout(stream());
        }
        if error {
            command.stderr(stream());
        }
        let fd = self.program.as_raw_fd();
        // SAFETY: both calls are safe between fork and exec.
        unsafe {
            command.pre_exec(move || {
                if libc::setsid() < 0 || libc::ioctl(fd, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        command.env("TERM", "xterm").spawn().expect("the command can be started")
    }

    /// Types.
    pub fn type_bytes(&self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = &rest[rustix::io::write(&*self.user, rest).expect("somebody may type")..];
        }
    }

    /// All that was shown so far.
    #[must_use]
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("the emulator does not panic")).into_owned()
    }

    /// Waits until it has shown `text`.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("{text:?}"), |shown| shown.contains(text))
    }

    /// Waits until what it has shown is as `wanted` says.
    #[track_caller]
    pub fn wait_until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = self.shown();
            if wanted(&shown) {
                return shown;
            }
            assert!(Instant::now() < deadline, "the terminal never showed {what}:\n{shown:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// From now on it shows nothing, as a window that hangs; or goes on.
    pub fn hang(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }
}

/// Waits for the end of a child; fails the test if it does not come in time. Returns its exit code.
#[track_caller]
pub fn exit_code(child: &mut Child) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        }
        if Instant::now() >= deadline {
            let _ = child.kill();
            panic!("it still ran after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What the terminal does with what it is sent.
struct Emulator {
    row: u32,
    column: u32,
    saved: (u32, u32),
    /// What may be the beginning of something.
    pending: Vec<u8>,
    replies: Replies,
}

impl Emulator {
    fn run(
        mut self,
        user: &std::sync::Weak<OwnedFd>,
        shown: &Mutex<Vec<u8>>,
        stuck: &AtomicBool,
    ) -> Option<()> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        loop {
            // Held for a moment at a time: the terminal goes with the test's value.
            let user = user.upgrade()?;
            let mut ready = [PollFd::new(&*user, PollFlags::IN)];
            let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let hangs = stuck.load(Ordering::Relaxed);
            if hangs || poll(&mut ready, Some(&moment)) != Ok(1) {
                drop(user);
                std::thread::sleep(Duration::from_millis(if hangs { 20 } else { 0 }));
                continue;
            }
            let mut buffer = [0; 4096];
            let count = rustix::io::read(&*user, &mut buffer).unwrap_or(0);
            if count == 0 {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            shown.lock().ok()?.extend_from_slice(&buffer[..count]);
            for reply in self.take(&buffer[..count]) {
                // What nobody takes is dropped: a terminal that waited would show nothing more.
                let mut takes = [PollFd::new(&*user, PollFlags::OUT)];
                if poll(&mut takes, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1) {
                    let _ = rustix::io::write(&*user, &reply);
                }
            }
        }
    }

    /// Obeys what it knows; returns what it says.
    fn take(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut said = Vec::new();
        self.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_slice();
        while !rest.is_empty() {
            if let Some((asked, reply)) = self.replies.iter().find(|(asked, _)| rest.starts_with(asked)) {
                said.push(reply.to_vec());
                rest = &rest[asked.len()..];
                continue;
            }
            match rest {
                [0x1b, b'7', ..] => (self.saved, rest) = ((self.row, self.column), &rest[2..]),
                [0x1b, b'8', ..] => ((self.row, self.column), rest) = (self.saved, &rest[2..]),
                [0x1b, b'[', tail @ ..] => {
                    let Some(end) = tail.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                        break;
                    };
                    let words = String::from_utf8_lossy(&tail[..end]).into_owned();
                    match (tail[end], words.as_str()) {
                        (b'n', "6") => said.push(format!("\x1b[{};{}R", self.row, self.column).into_bytes()),
                        (b'H', place) => {
                            let mut numbers = place.split(';').map(|number| number.parse().unwrap_or(1));
                            self.row = numbers.next().unwrap_or(1);
                            self.column = numbers.next().unwrap_or(1);
                        }
                        _ => {}
                    }
                    rest = &tail[end + 1..];
                }
                [0x1b] => break,
                _ => rest = &rest[1..],
            }
        }
        self.pending = rest.to_vec();
        said
    }
}

/// Reads everything from a stream in the background, for a command whose other streams are on a terminal.
pub fn collect(mut stream: impl Read + Send + 'static) -> Arc<Mutex<Vec<u8>>> {
    let all = Arc::new(Mutex::new(Vec::new()));
    let copy = Arc::clone(&all);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            let _ = copy.lock().map(|mut all| all.write_all(&buffer[..count]));
        }
    });
    all
}

/// Whether `fd` is this terminal, whatever its name.
#[must_use]
pub fn is_terminal(pty: &Pty, path: &std::path::Path) -> bool {
    let own = rustix::fs::fstat(pty.program().as_fd()).expect("it is open");
    let other = rustix::fs::stat(path);
    other.is_ok_and(|other| (other.st_dev, other.st_ino) == (own.st_dev, own.st_ino))
}
