//! What it costs that the controller carries the terminal: a start on one, and `cat` of 100 MB to it.

use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use kennel_bench::fixture::Folder;
use kennel_bench::rounds::{Sample, Way, take_turns};
use kennel_bench::{Failure, programs, quick, table};

const TRUE: &str = "/bin/true";
const BYTES: usize = 100 << 20;

fn main() -> std::process::ExitCode {
    kennel_bench::run(terminal)
}

fn terminal() -> Result<(), Failure> {
    start()?;
    show()
}

/// `/bin/true` on a terminal and without one.
fn start() -> Result<(), Failure> {
    let kennel = || -> Result<Command, Failure> {
        let mut command = programs::kennel::<&str>(&[])?;
        command.arg(TRUE);
        Ok(command)
    };
    let mut ways = vec![
        Way::command("plain", programs::quiet(TRUE.as_ref(), &[])),
        on_terminal("plain, on a terminal", || Ok(Command::new(TRUE))),
        Way::command("kennel", kennel()?),
        on_terminal("kennel, on a terminal", kennel),
    ];
    let rounds = if quick() { 20 } else { 1000 };
    take_turns(&mut ways, rounds)?;
    println!("`{TRUE}`, on a terminal and without one, {rounds} rounds.\n");
    println!("{}", table::of(&ways, &[0]));
    let [plain, plain_on, kennel, kennel_on] = [0, 1, 2, 3].map(|way| ways[way].median().as_secs_f64() * 1e3);
    let more = (kennel_on - kennel) - (plain_on - plain);
    print!("{}", table::goal("what a terminal adds to kennel's start, in ms", more, 0.2));
    Ok(())
}

/// `cat` of a file in lines to a terminal that reads as fast as it can.
fn show() -> Result<(), Failure> {
    let folder = Folder::new("terminal")?;
    let line = format!("{}\n", "a line of a text that somebody reads. ".repeat(2).trim_end());
    let size = if quick() { BYTES / 10 } else { BYTES };
    std::fs::write(folder.path().join("text"), line.repeat(size / line.len()))?;
    let text = folder.text("text");
    let plain = || {
        let mut command = Command::new("/bin/cat");
        command.arg(&text);
        Ok(command)
    };
    let kennel = || {
        let mut command = programs::kennel::<&str>(&[])?;
        command.args(["/bin/cat", &text]);
        Ok(command)
    };
    let mut ways = vec![on_terminal("plain", plain), on_terminal("kennel", kennel)];
    let rounds = if quick() { 3 } else { 20 };
    take_turns(&mut ways, rounds)?;
    println!("\n`cat` of {} MB to a terminal, {rounds} rounds.\n", size >> 20);
    println!("{}", table::of(&ways, &[0]));
    print!("{}", table::goal("kennel × plain", table::ratio(&ways[1], &ways[0]), 2.0));
    Ok(())
}

/// A command on a terminal of its own, measured until it has ended and everything has been read.
fn on_terminal<'a>(name: &str, command: impl Fn() -> Result<Command, Failure> + 'a) -> Way<'a> {
    Way::new(name, move || {
        let started = Instant::now();
        let mut command = command()?;
        let (user, program) = pseudo_terminal()?;
        let stream = || -> Result<Stdio, Failure> { Ok(Stdio::from(program.try_clone()?)) };
        let fd = program.as_raw_fd();
        command.stdin(stream()?).stdout(stream()?).stderr(stream()?);
        // SAFETY: both calls are safe between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::setsid();
                libc::ioctl(fd, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let mut child = command.spawn()?;
        // Nobody but the child is to hold it: the terminal ends with its last program.
        drop((command, program));
        let mut user = std::fs::File::from(user);
        let mut buffer = vec![0; 64 << 10];
        // It ends with an error, as terminals do whose last program has gone.
        while matches!(user.read(&mut buffer), Ok(1..)) {}
        let status = child.wait()?;
        let time = started.elapsed();
        if status.success() {
            Ok(Sample { time, peak_memory: None })
        } else {
            Err(format!("{status}").into())
        }
    })
}

/// The side that a user looks at, and the side that programs get.
fn pseudo_terminal() -> Result<(OwnedFd, OwnedFd), Failure> {
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut user, mut program) = (-1, -1);
    // SAFETY: the call fills in two descriptors, which are taken over.
    unsafe {
        let null = std::ptr::null_mut();
        if libc::openpty(&raw mut user, &raw mut program, null, std::ptr::null(), &raw const size) != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        libc::fcntl(user, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(program, libc::F_SETFD, libc::FD_CLOEXEC);
        Ok((OwnedFd::from_raw_fd(user), OwnedFd::from_raw_fd(program)))
    }
}
