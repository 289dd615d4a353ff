//! The portable part with an ordinary process of this system, in a process group of its own: no sandbox, but everything
//! else that a run is.

use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::*;
use crate::job::Streams;
use crate::stdio::Bell;
use crate::{SandboxError, Stdio};

/// A process in a group of its own.
#[derive(Debug)]
struct Plain {
    child: std::process::Child,
    pidfd: OwnedFd,
    timer: OwnedFd,
    ready: OwnedFd,
    /// The group, until the process has been waited for.
    group: Arc<Mutex<Option<Pid>>>,
    watch: Option<(Duration, u64)>,
}

impl Plain {
    fn start(words: &[&str], ends: [Handle; 3], watch: Option<(Duration, u64)>) -> Plain {
        let [input, output, errors] = ends;
        let mut command = std::process::Command::new(words[0]);
        command.args(&words[1..]).process_group(0);
        let child = command.stdin(input).stdout(output).stderr(errors).spawn().expect("it starts");
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("a pidfd");
        use rustix::event::epoll;
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).expect("a timer");
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
        for fd in [&pidfd, &timer] {
            epoll::add(&ready, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN).expect("added");
        }
        Plain { child, pidfd, timer, ready, group: Arc::new(Mutex::new(Some(pid))), watch }
    }
}

fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

impl Process for Plain {
    fn wait(&mut self, until: Option<Instant>) -> Result<Option<Exit>> {
        let left = until.map(|until| {
            Timespec::try_from(until.saturating_duration_since(Instant::now())).expect("it is no year")
        });
        poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], left.as_ref()).map_err(io::Error::from)?;
        let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(status) = self.child.try_wait()? else { return Ok(None) };
        if let Some(pid) = group.take() {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let code = status.code().map(Ended::Exited);
        Ok(Some(Exit {
            ended: code.unwrap_or_else(|| Ended::Signalled(status.signal().unwrap_or(0))),
            cpu_user: Duration::ZERO,
            cpu_system: Duration::ZERO,
            peak_memory: 7,
            memory_counted: false,
            max_pids_seen: None,
            oom_kills: 0,
            pids_refused: 0,
        }))
    }

    fn end_rest(&mut self) -> Option<String> {
        None
    }

    fn killer(&self) -> Arc<dyn Fn() + Send + Sync> {
        let group = Arc::clone(&self.group);
        Arc::new(move || {
            if let Some(pid) = *group.lock().unwrap_or_else(PoisonError::into_inner) {
                let _ = kill_process_group(pid, Signal::KILL);
            }
        })
    }

    fn signaller(&self) -> Signaller {
        let group = Arc::clone(&self.group);
        Box::new(move |signal| {
            let group = group.lock().unwrap_or_else(PoisonError::into_inner);
            let ended = || SandboxError::from(io::Error::from(rustix::io::Errno::SRCH));
            let signal = Signal::from_named_raw(signal).ok_or_else(ended)?;
            Ok(kill_process_group(group.ok_or_else(ended)?, signal).map_err(io::Error::from)?)
        })
    }

    fn meter(&self) -> Arc<dyn Fn() -> Usage + Send + Sync> {
        let pid = self.child.id();
        Arc::new(move || Usage { memory: Some(resident(pid)), ..Usage::default() })
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn watch_every(&self) -> Option<Duration> {
        Some(self.watch?.0)
    }

    fn watch(&mut self) -> Option<Ended> {
        let (_, limit) = self.watch?;
        (resident(self.pid()) > limit).then_some(Ended::OutOfMemory)
    }

    fn complete(&mut self, outcome: &mut Outcome) {
        outcome.network.blocked = "completed".into();
    }

    fn descriptor(&mut self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.ready.as_fd())
    }

    fn wake_at(&mut self, at: Option<Instant>) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, timerfd_settime};
        let left = at.map_or(Duration::ZERO, |at| {
            at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1))
        });
        let it_value = rustix::time::Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        let once = Itimerspec { it_value, it_interval: Timespec { tv_sec: 0, tv_nsec: 0 } };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

struct Run<'p> {
    words: &'p [&'p str],
    streams: Streams,
    limits: Limits,
    watch: Option<(Duration, u64)>,
    audience: Option<(Box<dyn UsageSink>, Duration)>,
}

impl<'p> Run<'p> {
    fn captured(words: &'p [&'p str]) -> Run<'p> {
        let streams =
            Streams::Captured { streams: [Stdio::null(), Stdio::piped(), Stdio::piped()], input: None };
        Run { words, streams, limits: Limits::default(), watch: None, audience: None }
    }

    fn given(words: &'p [&'p str], streams: [Stdio; 3]) -> Run<'p> {
        Run { streams: Streams::Given(streams), ..Run::captured(words) }
    }

    fn start(self) -> Portable<Plain> {
        let streams::Arranged { ends, mut carried, pipes } =
            streams::arrange(self.streams, &self.limits).expect("streams");
        let process = Plain::start(self.words, ends, self.watch);
        carried.start().expect("threads");
        let not_enforced = vec!["the rules for files".to_owned()];
        let options =
            RunOptions { limits: &self.limits, audience: self.audience, not_enforced, carried, pipes };
        Portable::new(process, options).expect("it runs")
    }
}

fn wait(running: &mut Portable<Plain>) -> Outcome {
    loop {
        if let Some(outcome) = running.turn().expect("a turn") {
            return outcome;
        }
    }
}

fn shell(text: &str) -> [&str; 3] {
    ["sh", "-c", text]
}

fn long() -> Duration {
    Duration::from_secs(600)
}

#[test]
fn output_is_captured_input_fed_and_the_code_told() {
    let mut run = Run::captured(&["sh", "-c", "tr a-z A-Z; echo wrong >&2; exit 3"]);
    let input = vec![b'a'; 1 << 20];
    run.streams = Streams::Captured {
        streams: [Stdio::null(), Stdio::piped(), Stdio::piped()],
        input: Some(input.clone()),
    };
    let mut running = run.start();
    let outcome = wait(&mut running);
    assert_eq!((outcome.ended, outcome.exit_code()), (Ended::Exited(3), 3));
    let [output, errors] = running.take_output();
    assert!(output == input.to_ascii_uppercase() && errors == b"wrong\n");
    assert_eq!(outcome.not_enforced, ["the rules for files"]);
    assert_eq!((outcome.peak_memory, outcome.network.blocked.as_str()), (7, "completed"));
    assert!(!outcome.output_truncated && outcome.stream_failure.is_none());
}

#[test]
fn input_that_nobody_reads_keeps_nobody_waiting() {
    let mut run = Run::captured(&["true"]);
    run.streams = Streams::Captured {
        streams: [Stdio::null(), Stdio::piped(), Stdio::piped()],
        input: Some(vec![0; 4 << 20]),
    };
    assert_eq!(wait(&mut run.start()).exit_code(), 0);
}

#[test]
fn output_beyond_the_cap_is_dropped_and_the_command_goes_on() {
    let words = shell("head -c 3000000 /dev/zero; echo end >&2; exit 5");
    let mut run = Run::captured(&words);
    run.limits.output = Some(1000);
    let mut running = run.start();
    let outcome = wait(&mut running);
    let [output, errors] = running.take_output();
    assert_eq!((outcome.exit_code(), output.len(), errors.as_slice()), (5, 1000, &b"end\n"[..]));
    assert!(outcome.output_truncated);
}

#[test]
fn time_runs_out_for_all_of_the_group() {
    let words = shell("sleep 600 & sleep 600");
    let mut run = Run::captured(&words);
    run.limits.wall_time = Some(Duration::from_millis(50));
    let mut running = run.start();
    let outcome = wait(&mut running);
    // The one in the background holds the pipe: had it lived, the output would not have ended.
    assert_eq!((outcome.ended, outcome.exit_code()), (Ended::TimedOut, 124));
    assert!(outcome.wall_time < Duration::from_secs(60));
}

#[test]
fn a_command_that_ends_in_time_is_not_said_to_be_killed() {
    let words = shell("exit 9");
    let mut run = Run::captured(&words);
    run.limits.wall_time = Some(long());
    let mut running = run.start();
    while rustix::event::poll(&mut [PollFd::new(&running.process.pidfd, PollFlags::IN)], None) != Ok(1) {}
    running.kill();
    assert_eq!(wait(&mut running).ended, Ended::Exited(9));
}

#[test]
#[kennel_claim::claim("macos/limits-by-looking")]
fn a_limit_that_is_kept_by_looking_ends_it() {
    let words = ["sh", "-c", "x=1; while :; do x=$x$x; done"];
    let mut run = Run::captured(&words);
    run.watch = Some((Duration::from_millis(5), 64 << 20));
    let outcome = wait(&mut run.start());
    assert_eq!((outcome.ended, outcome.oom_kills), (Ended::OutOfMemory, 1));
}

#[test]
fn a_bell_ends_it_from_another_thread_and_a_signal_reaches_it() {
    let words = ["sleep", "600"];
    let mut running = Run::captured(&words).start();
    let (heard, bell) = Bell::new().expect("a bell");
    running.end_by(heard);
    let ringer = std::thread::spawn(move || bell.ring());
    assert_eq!(wait(&mut running).ended, Ended::Killed);
    ringer.join().expect("it rang");

    let mut running = Run::captured(&words).start();
    let signal = running.signaller().expect("a signaller");
    signal(15).expect("it is there");
    assert_eq!(wait(&mut running).ended, Ended::Signalled(15));
    assert!(signal(15).is_err(), "nobody is there any more");
}

#[test]
fn dropping_ends_everything_and_says_so() {
    let words = shell("sleep 600 & exec sleep 600");
    let running = Run::captured(&words).start();
    let (end, pid) = (running.process().expect("a handle"), running.init_pid());
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_over = || poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&now)).expect("it can be asked") > 0;
    assert!(!is_over());
    drop(running);
    assert!(is_over());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn an_event_loop_is_woken_by_the_clock_and_by_the_end() {
    let words = ["sleep", "600"];
    let mut run = Run::captured(&words);
    run.limits.wall_time = Some(Duration::from_millis(50));
    let mut running = run.start();
    let descriptor = running.descriptor().expect("one").try_clone_to_owned().expect("a copy");
    let outcome = loop {
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).expect("it becomes ready");
        if let Some(outcome) = running.on_ready().expect("a turn") {
            break outcome;
        }
    };
    assert_eq!(outcome.ended, Ended::TimedOut);
}

#[test]
fn an_audience_is_told_what_is_used() {
    struct Teller(std::sync::mpsc::Sender<u64>);
    impl UsageSink for Teller {
        fn tell(&mut self, usage: &Usage) {
            let _ = self.0.send(usage.memory.unwrap_or(0));
        }
    }
    let (sender, told) = std::sync::mpsc::channel();
    let words = ["sleep", "600"];
    let mut run = Run::captured(&words);
    run.audience = Some((Box::new(Teller(sender)), Duration::from_millis(10)));
    let mut running = run.start();
    while running.turn().expect("a turn").is_none() {
        if told.try_recv().is_ok_and(|bytes| bytes > 0) {
            running.kill();
        }
    }
}

#[test]
fn pipes_are_the_callers_own() {
    let words = ["cat"];
    let mut running = Run::given(&words, [Stdio::piped(), Stdio::piped(), Stdio::null()]).start();
    let mut pipes = running.take_pipes();
    pipes.stdin.take().expect("a pipe").write_all(b"there and back").expect("it reads");
    let mut text = String::new();
    pipes.stdout.take().expect("a pipe").read_to_string(&mut text).expect("it writes");
    assert_eq!((text.as_str(), wait(&mut running).exit_code()), ("there and back", 0));
}

/// A file without a name.
fn scratch() -> std::fs::File {
    let fd = rustix::fs::memfd_create(c"scratch", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
    fd.into()
}

fn content(mut file: std::fs::File) -> String {
    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("it can be read");
    text
}

#[test]
#[kennel_claim::claim("macos/no-descriptors-leak")]
fn a_file_is_read_and_written_through_pipes_in_the_order_of_both_streams() {
    let (mut input, output) = (scratch(), scratch());
    input.write_all(b"passed on\n").and_then(|()| input.rewind()).expect("written");
    let text = "readlink /proc/self/fd/0 /proc/self/fd/1 | cut -c1-5; cat; for i in 1 2 3; do echo o; echo e >&2; done";
    let words = shell(text);
    let copy = |file: &std::fs::File| Stdio::from(file.try_clone().expect("a copy"));
    let mut running = Run::given(&words, [copy(&input), copy(&output), copy(&output)]).start();
    assert_eq!(wait(&mut running).stream_failure, None);
    assert_eq!(content(output), "pipe:\npipe:\npassed on\no\ne\no\ne\no\ne\n");
}

#[test]
fn a_file_that_gets_too_large_is_a_failure_that_is_told() {
    let output = scratch();
    let words = shell("head -c 300000 /dev/zero");
    let copy = Stdio::from(output.try_clone().expect("a copy"));
    let mut run = Run::given(&words, [Stdio::null(), copy, Stdio::null()]);
    run.limits.file_size = Some(100_000);
    let outcome = wait(&mut run.start());
    let failure = outcome.stream_failure.expect("it did not all arrive");
    assert!(failure.starts_with("writing standard output: "), "{failure}");
    assert!(output.metadata().expect("it is there").len() <= 100_000);
}

#[test]
fn a_folder_is_no_stream() {
    let folder = || Stdio::from(std::fs::File::open("/").expect("a folder"));
    let arranged =
        streams::arrange(Streams::Given([folder(), Stdio::null(), Stdio::null()]), &Limits::default());
    assert!(arranged.is_err_and(|error| error.to_string().starts_with("reading standard input: ")));
}

#[test]
fn what_passes_is_capped_where_the_policy_says_so() {
    let (mut ours, theirs) = io::pipe().expect("a pipe");
    let words = shell("echo 123456789");
    let mut run = Run::given(&words, [Stdio::null(), theirs.into(), Stdio::null()]);
    run.limits.output = Some(4);
    let mut running = run.start();
    let outcome = wait(&mut running);
    let mut text = String::new();
    ours.read_to_string(&mut text).expect("it ends");
    assert_eq!((text.as_str(), outcome.output_truncated), ("1234", true));
}

/// Both sides of a terminal.
fn terminal() -> (std::fs::File, std::fs::File) {
    use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    unlockpt(&ours).expect("it can be opened");
    let name = ptsname(&ours, Vec::new()).expect("a name").into_string().expect("text");
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let theirs = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).expect("its other side");
    (ours.into(), theirs.into())
}

#[test]
#[kennel_claim::claim("macos/no-descriptors-leak")]
fn a_terminal_of_the_callers_is_carried_and_what_is_typed_later_is_left() {
    let (mut ours, mut theirs) = terminal();
    let words = shell("test -t 0 && echo input; test -t 1 && echo output; read line; echo \"got $line\"");
    let copy = || Stdio::from(theirs.try_clone().expect("a copy"));
    let mut running = Run::given(&words, [copy(), copy(), Stdio::null()]).start();
    ours.write_all(b"hello\n").expect("typed");
    assert_eq!(wait(&mut running).exit_code(), 0);
    ours.write_all(b"later\n").expect("typed");
    let mut line = [0; 64];
    let count = theirs.read(&mut line).expect("it was not taken away");
    assert_eq!(&line[..count], b"later\n");
    let mut shown = [0; 256];
    let count = ours.read(&mut shown).expect("something was shown");
    let shown = String::from_utf8_lossy(&shown[..count]).into_owned();
    assert!(shown.contains("got hello") && !shown.contains("put"), "{shown}");
}

#[test]
fn a_terminal_of_the_commands_own_is_shown_to_its_end() {
    let (ours, theirs) = terminal();
    let (mut seen, to) = io::pipe().expect("a pipe");
    let limits = Limits::default();
    let given = Streams::Given([Stdio::null(), Stdio::null(), Stdio::null()]);
    let streams::Arranged { mut ends, mut carried, pipes } =
        streams::arrange(given, &limits).expect("streams");
    ends[1] = theirs.into();
    carried.show(ours.into(), to.into());
    let process = Plain::start(&shell("test -t 1 && echo end"), ends, None);
    carried.start().expect("threads");
    let options = RunOptions { limits: &limits, audience: None, not_enforced: Vec::new(), carried, pipes };
    let outcome = wait(&mut Portable::new(process, options).expect("it runs"));
    let mut text = String::new();
    seen.read_to_string(&mut text).expect("it ends");
    // What Linux says of a terminal without its other side is no failure.
    assert_eq!((text.as_str(), outcome.stream_failure), ("end\r\n", None));
}
