//! Programs that do unusual things: that close their standard streams, fork, or leave SIGPIPE as it is.

use std::ffi::OsString;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

use kennel::{Ended, Sandbox, Stdio};
use kennel_tests::{Scratch, plain_sandbox, ran_within, role};

const LIMIT: Duration = Duration::from_secs(60);

#[track_caller]
fn plays(name: &str) {
    role::plays(name, LIMIT);
}

/// The role: without standard streams the published port's listener, and whatever else is opened, would get their numbers.
pub fn closed(_: &[OsString]) -> i32 {
    let scratch = Scratch::new();
    let told = scratch.join("told");
    // SAFETY: nothing of this process's uses them from here on but what is tested.
    (0..3).for_each(|fd| assert_eq!(unsafe { libc::close(fd) }, 0));
    let script = "all=$(for fd in 0 1 2; do readlink /proc/$$/fd/$fd; done); echo \"$all\" >&9";
    let file = std::fs::File::create(&told).expect("a scratch file");
    // SAFETY: plain calls on descriptors of this process.
    unsafe {
        libc::dup2(file.as_raw_fd(), 9);
        drop(file);
    }
    let policy = Sandbox::builder().publish(0, 8000).keep_fd(9).build().expect("a sandbox");
    let result = policy.command("sh").args(["-c", script]).spawn().and_then(|mut child| child.wait());
    let text = std::fs::read_to_string(told).unwrap_or_default();
    let fine = result.is_ok_and(|result| result.success())
        && text.lines().count() == 3
        && text.lines().all(|line| line == "/dev/null");
    // SAFETY: a plain call; nobody else has the number.
    let still_closed = (0..3).all(|fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0);
    // Nothing can be said: the exit code has to do.
    i32::from(!fine) + 2 * i32::from(!still_closed)
}

#[test]
#[kennel_claim::claim("processes/closed-streams")]
fn streams_that_the_caller_has_closed_lead_nowhere_and_stay_closed() {
    plays("closed-caller");
}

/// The role: a forked copy of this process holds copies of everything.
pub fn forked(_: &[OsString]) -> i32 {
    let mut child =
        plain_sandbox().command("sleep").arg("60").stdin(Stdio::null()).spawn().expect("it starts");
    // SAFETY: the copy only waits to be killed.
    let copy = unsafe { libc::fork() };
    if copy == 0 {
        loop {
            // SAFETY: a plain call.
            unsafe { libc::pause() };
        }
    }
    let began = Instant::now();
    child.kill();
    let killed = child.wait().expect("it ends").ended;
    drop(child);
    // SAFETY: this process's own child, which is waited for right after.
    unsafe {
        libc::kill(copy, libc::SIGKILL);
        libc::waitpid(copy, std::ptr::null_mut(), 0);
    }
    assert_eq!(killed, Ended::Killed);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    0
}

#[test]
fn a_program_that_has_forked_can_still_kill() {
    plays("forking-caller");
}

/// The role: SIGPIPE as C programs have it.
pub fn pipe_signal(_: &[OsString]) -> i32 {
    // SAFETY: the default action of a signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let input = vec![0u8; 4 << 20];
    let result = plain_sandbox().run_with_input("true", &[], &input).expect("it runs");
    assert!(result.success());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let result =
        runtime.block_on(plain_sandbox().command("true").input(input).output_async()).expect("it runs");
    assert!(result.success());
    // SAFETY: a plain call; the set is filled in.
    let pending = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigpending(&raw mut set);
        libc::sigismember(&raw const set, libc::SIGPIPE)
    };
    assert_eq!(pending, 0);
    0
}

#[test]
fn a_command_that_closes_its_input_does_not_kill_its_caller() {
    plays("default-sigpipe-caller");
}

/// The role: what the command reads of a file that was given must not move standard input.
pub fn given_file(words: &[OsString]) -> i32 {
    let given = std::fs::File::open(&words[0]).expect("a file");
    let result = plain_sandbox().command("cat").stdin(given).output().expect("it runs");
    assert_eq!(result.stdout_bytes.len(), 100_000);
    let mut stdin = std::io::stdin();
    let mut own = String::new();
    stdin.read_to_string(&mut own).expect("standard input");
    assert_eq!(own, "mine");
    0
}

#[test]
fn a_file_that_is_given_does_not_move_the_callers_own_input() {
    let scratch = Scratch::new();
    let (given, own) = (scratch.write("given", &"x".repeat(100_000)), scratch.write("own", "mine"));
    let mut command = role::play("giving-caller");
    command.arg(given).stdin(std::fs::File::open(own).unwrap());
    let ran = ran_within(LIMIT, &mut command);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
}

#[test]
fn a_file_that_is_given_stands_where_the_command_has_left_it() {
    let scratch = Scratch::new();
    let mut file = std::fs::File::open(scratch.write("lines", "one\ntwo\n")).unwrap();
    let result = plain_sandbox()
        .command("sh")
        .args(["-c", "read x; echo $x"])
        .stdin(file.try_clone().unwrap())
        .output();
    assert_eq!(result.unwrap().stdout, "one\n");
    assert_eq!(file.stream_position().unwrap(), 4);
    file.seek(SeekFrom::Start(0)).unwrap();
}

/// A FIFO that is full and that nobody reads is a terminal on which somebody has pressed Ctrl-S.
#[test]
fn an_ordered_end_does_not_wait_for_a_reader() {
    let scratch = Scratch::new();
    let fifo = std::ffi::CString::new(scratch.join("fifo").to_str().unwrap()).unwrap();
    // SAFETY: a path that lives for the call; then a descriptor that is taken over once.
    let (reader, writer) = unsafe {
        assert_eq!(libc::mkfifo(fifo.as_ptr(), 0o600), 0);
        let reader = libc::open(fifo.as_ptr(), libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC);
        let writer = libc::open(fifo.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        (std::fs::File::from_raw_fd(reader), std::fs::File::from_raw_fd(writer))
    };
    let mut child =
        plain_sandbox().command("yes").stdin(Stdio::null()).stdout(writer).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    child.kill();
    assert_eq!(child.wait().unwrap().ended, Ended::Killed);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    drop(reader);
}

#[test]
fn waiting_reads_a_terminal_dry() {
    let mut child = plain_sandbox().command("seq").arg("100000").terminal(24, 80).spawn().expect("it starts");
    assert!(child.wait().expect("it ends").success());
}

/// The role: a program that may not write large files, and gives one.
pub fn small_files(args: &[OsString]) -> i32 {
    let limit = libc::rlimit { rlim_cur: 4 << 20, rlim_max: 4 << 20 };
    // SAFETY: a signal is ignored, and a limit is set from a structure that lives long enough.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
    }
    let given = std::fs::File::create(&args[0]).expect("a file");
    let script = "head -c 8000000 /dev/zero; exit 7";
    let result = plain_sandbox().command("sh").args(["-c", script]).stdout(given).status().expect("it runs");
    assert_eq!(result.exit_code, 7);
    assert!(result.stream_failure.as_deref().is_some_and(|why| why.contains("File too large")), "{result:?}");
    0
}

/// What could not be written is told beside what became of the command.
#[test]
fn output_that_does_not_arrive_hides_no_outcome() {
    let scratch = Scratch::new();
    let mut command = role::play("small-files-caller");
    let ran = ran_within(LIMIT, command.arg(scratch.join("given")));
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
}
