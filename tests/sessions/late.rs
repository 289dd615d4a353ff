//! A sandbox that is prepared first and given its command later.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kennel_linux::additions::Additions;
use kennel_linux::sandbox::{
    Beginning, Birth, Error, Fit, Given, Late, Purpose, Ready, Started, Wanted, Watch, begin,
};
use kennel_linux::supervise::Turn;
use kennel_linux::supervise::streams::Streams;
use kennel_policy::outcome::{Ended, Outcome};
use kennel_policy::policy::Policy;
use kennel_tests::Scratch;
use kennel_tests::leftovers::{processes_left_with, unique_sleep};

fn policy(settings: &str) -> Arc<Policy> {
    let sandbox = kennel::Sandbox::from_settings_text(settings).unwrap();
    Arc::new(sandbox.policy().clone())
}

fn prepared(policy: &Arc<Policy>) -> Ready {
    let beginning = Beginning {
        policy: Arc::clone(policy),
        cwd: "/".into(),
        birth: Birth::program(),
        purpose: Purpose::Later,
        network: None,
        count: false,
        explain: Default::default(),
    };
    let looked = begin(beginning).and_then(|begun| begun.look(Additions::default()));
    looked.and_then(|looked| looked.wait(false)).unwrap()
}

fn late(policy: &Arc<Policy>, words: &[&str], streams: Given) -> Late {
    Late {
        policy: Arc::clone(policy),
        wanted: Wanted {
            words: words.iter().map(Into::into).collect(),
            environment: vec![(OsStr::new("PATH").into(), OsStr::new("/usr/bin:/bin").into())],
        },
        workdir: None,
        streams,
        watch: Watch::default(),
        at_report: true,
        silently: false,
    }
}

fn captured(input: Option<Vec<u8>>) -> Given {
    let (captured, ends) = Streams::new(input, 1 << 20).unwrap();
    Given::Streams { ends: ends.fds, captured: Some(captured) }
}

fn finish(mut started: Started) -> (Outcome, String) {
    let outcome = loop {
        if let Turn::Ended(outcome) = started.supervisor.wait().unwrap() {
            break *outcome;
        }
    };
    let output = started.supervisor.take_streams().map(Streams::into_captured).unwrap_or_default();
    drop(started.supervisor.into_remains());
    let [output, errors] = output.map(|captured| String::from_utf8(captured.bytes).unwrap());
    (outcome, output + &errors)
}

fn ran(ready: Ready, late: Late) -> (Outcome, String) {
    finish(ready.start(Fit::default(), late).unwrap())
}

#[test]
fn a_prepared_sandbox_runs_a_command_with_streams_that_came_later() {
    let policy = policy("");
    let ready = prepared(&policy);
    let (outcome, output) =
        ran(ready, late(&policy, &["tr", "a-z", "A-Z"], captured(Some(b"shout".to_vec()))));
    assert_eq!((outcome.ended, output.as_str()), (Ended::Exited(0), "SHOUT"));
}

#[test]
#[kennel_claim::claim("sessions/own-descriptors-only")]
fn only_the_three_streams_are_open_in_a_late_command() {
    let policy = policy("");
    let script = "for fd in /proc/self/fd/*; do readlink $fd; done; ls -l /proc/1/fd 2>&1";
    let (_, output) = ran(prepared(&policy), late(&policy, &["sh", "-c", script], captured(None)));
    let (streams, init) = output.split_once("ls: ").unwrap_or((&output, ""));
    assert_eq!(streams.lines().filter(|line| line.starts_with("pipe:")).count(), 3, "{output}");
    assert!(!streams.contains("socket:"), "{output}");
    assert!(init.contains("ermission denied"), "{output}");
}

#[test]
fn a_null_stream_of_a_late_command_is_the_sandboxs_own() {
    let policy = policy("");
    let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").unwrap());
    let (from, to) = rustix::pipe::pipe().unwrap();
    let streams = Given::Streams { ends: [null(), to, null()], captured: None };
    let script = "read line; echo $?; echo lost >&2; stat -L -c %t:%T /dev/fd/0; chmod 600 /dev/fd/0 2>/dev/null || echo kept";
    let (outcome, _) = ran(prepared(&policy), late(&policy, &["sh", "-c", script], streams));
    assert_eq!(outcome.ended, Ended::Exited(0));
    let mut text = String::new();
    File::from(from).read_to_string(&mut text).unwrap();
    assert_eq!(text, "1\n1:3\nkept\n");
}

#[test]
fn files_behind_the_streams_of_a_late_command_are_carried() {
    let (policy, scratch) = (policy(""), Scratch::new());
    let mut input = File::options().read(true).open(scratch.write("in", "skip read me\n")).unwrap();
    input.seek(std::io::SeekFrom::Start(5)).unwrap();
    let output = File::create(scratch.join("out")).unwrap();
    let streams = Given::Streams {
        ends: [input.into(), output.try_clone().unwrap().into(), output.into()],
        captured: None,
    };
    let script = "cat; [ -p /dev/fd/1 ] && echo a pipe";
    let (outcome, _) = ran(prepared(&policy), late(&policy, &["sh", "-c", script], streams));
    assert_eq!(outcome.ended, Ended::Exited(0));
    assert_eq!(std::fs::read_to_string(scratch.join("out")).unwrap(), "read me\na pipe\n");
}

#[test]
fn devices_behind_the_streams_of_a_late_command_are_the_sandboxs_own() {
    let policy = policy("");
    let (from, to) = rustix::pipe::pipe().unwrap();
    let zero = OwnedFd::from(File::open("/dev/zero").unwrap());
    let full = OwnedFd::from(File::options().write(true).open("/dev/full").unwrap());
    let streams = Given::Streams { ends: [zero, to, full], captured: None };
    let script = "head -c 3 | od -An -tx1; echo x >&2 || echo no room";
    ran(prepared(&policy), late(&policy, &["sh", "-c", script], streams));
    let mut text = String::new();
    File::from(from).read_to_string(&mut text).unwrap();
    assert_eq!(text, " 00 00 00\nno room\n");
}

#[test]
fn a_late_command_has_a_terminal_of_the_sandboxs_own() {
    let policy = policy("");
    let words = ["sh", "-c", "tty; stty size; ps -o tty= -p $$"];
    let mut started =
        prepared(&policy).start(Fit::default(), late(&policy, &words, Given::Terminal(33, 77))).unwrap();
    let terminal = started.terminal.take().unwrap();
    let (outcome, _) = finish(started);
    let mut shown = [0; 4096];
    let length = rustix::io::read(&terminal, &mut shown).unwrap();
    let shown = String::from_utf8_lossy(&shown[..length]);
    assert_eq!(outcome.ended, Ended::Exited(0));
    assert!(shown.contains("/dev/pts/0") && shown.contains("33 77"), "{shown}");
}

#[test]
#[kennel_claim::claim("sessions/own-descriptors-only")]
fn kept_descriptors_reach_a_late_command_at_their_own_numbers_whatever_stands_there() {
    // In a process of its own, because it puts descriptors at low numbers: where PID 1 has its link, its root and what it
    // receives.
    let played = kennel_tests::ran(&mut kennel_tests::role::play("low-numbers-caller"));
    assert_eq!(played.ok().stdout, "as kept\n");
}

pub fn low_numbers(_: &[std::ffi::OsString]) -> i32 {
    let mut policy = policy("");
    let (from, to) = std::io::pipe().unwrap();
    let ready = prepared(&policy);
    let mut numbers = Vec::new();
    for number in 3..30 {
        // SAFETY: nothing is replaced: only a number that is free is taken.
        unsafe {
            if libc::fcntl(number, libc::F_GETFD) < 0 {
                let own = if number % 2 == 0 { from.as_raw_fd() } else { to.as_raw_fd() };
                assert_eq!(libc::dup2(own, number), number);
                numbers.push(number.cast_unsigned());
            }
        }
    }
    assert!(numbers[0] < 10 && numbers.len() > 16, "{numbers:?}");
    // Not in their order, so that one comes on the place of another.
    numbers.reverse();
    Arc::make_mut(&mut policy).process.keep_fds = numbers.clone();
    let script = "cd /proc/self/fd && for fd in *; do [ -p $fd ] && echo $fd $(readlink $fd) $(grep -m1 flags /proc/self/fdinfo/$fd); done";
    let (outcome, output) = ran(ready, late(&policy, &["bash", "-c", script], captured(None)));
    assert_eq!(outcome.ended, Ended::Exited(0), "{output}");
    let pipe = std::fs::read_link(format!("/proc/self/fd/{}", from.as_raw_fd())).unwrap();
    let seen: Vec<&str> = output.lines().filter(|line| line.contains(pipe.to_str().unwrap())).collect();
    numbers.sort_unstable();
    assert_eq!(seen.len(), numbers.len(), "{output}");
    for number in numbers {
        let line = seen.iter().find(|line| line.starts_with(&format!("{number} "))).expect(&output);
        assert_eq!(line.ends_with("01"), number % 2 == 1, "a reader or a writer: {line}");
    }
    println!("as kept");
    0
}

#[test]
#[kennel_claim::claim("sessions/nothing-enters-later")]
fn no_folder_and_no_handle_of_a_path_passes_late() {
    let policy = policy("");
    let folder = OwnedFd::from(File::open("/etc").unwrap());
    let flags = rustix::fs::OFlags::PATH;
    let handle = rustix::fs::open("/etc/passwd", flags, rustix::fs::Mode::empty()).unwrap();
    for fd in [folder, handle] {
        let mut with = Arc::clone(&policy);
        Arc::make_mut(&mut with).process.keep_fds = vec![fd.as_raw_fd().cast_unsigned()];
        let kept =
            prepared(&policy).start(Fit::default(), late(&with, &["true"], captured(None))).unwrap_err();
        let Given::Streams { mut ends, captured } = captured(None) else { unreachable!() };
        ends[0] = fd;
        let stream = prepared(&policy)
            .start(Fit::default(), late(&policy, &["true"], Given::Streams { ends, captured }))
            .unwrap_err();
        for error in [kept, stream] {
            assert!(matches!(&error, Error::NotEnforced(why) if why.contains("bypass")), "{error}");
        }
    }
}

#[test]
fn a_late_command_starts_where_it_is_told() {
    let (policy, scratch) = (policy(""), Scratch::new());
    let mut here = late(&policy, &["pwd", "-P"], captured(None));
    here.workdir = Some(scratch.path().to_owned());
    let (_, output) = ran(prepared(&policy), here);
    assert_eq!(PathBuf::from(output.trim_end()), scratch.path().canonicalize().unwrap());
    let mut nowhere = late(&policy, &["pwd"], captured(None));
    nowhere.workdir = Some("/nowhere at all".into());
    let error = prepared(&policy).start(Fit::default(), nowhere).unwrap_err().to_string();
    assert!(
        error.starts_with("change to '/nowhere at all': No such file")
            || error.starts_with("change to /nowhere at all: No such file"),
        "{error}"
    );
}

#[test]
fn a_late_command_that_cannot_be_executed_is_an_error() {
    let policy = policy("");
    let error = prepared(&policy)
        .start(Fit::default(), late(&policy, &["no-such-program"], captured(None)))
        .unwrap_err();
    assert!(error.to_string().starts_with("executing no-such-program: No such file"), "{error}");
}

#[test]
fn the_clock_of_a_late_command_starts_with_it() {
    let mut policy = policy("");
    let ready = prepared(&policy);
    std::thread::sleep(Duration::from_millis(600));
    Arc::make_mut(&mut policy).limits.wall_time = Some(Duration::from_millis(500));
    let (outcome, output) =
        ran(ready, late(&policy, &["sh", "-c", "sleep .1; echo in time; sleep 20"], captured(None)));
    assert_eq!((outcome.ended, output.as_str()), (Ended::TimedOut, "in time\n"));
}

#[test]
fn the_outcome_comes_when_everything_inside_but_init_is_gone() {
    let (policy, sleep) = (policy(""), unique_sleep());
    let script = format!("setsid sleep {sleep} & sleep {sleep} & exit 7");
    let mut started = prepared(&policy)
        .start(Fit::default(), late(&policy, &["sh", "-c", &script], captured(None)))
        .unwrap();
    let outcome = loop {
        if let Turn::Ended(outcome) = started.supervisor.wait().unwrap() {
            break outcome;
        }
    };
    let found = kennel_tests::leftovers::processes_with(&sleep.to_string());
    assert_eq!((outcome.ended, found), (Ended::Exited(7), Vec::new()));
    let remains = started.supervisor.into_remains();
    let pidfd = remains.as_fd().try_clone_to_owned().unwrap();
    drop(remains);
    let mut gone = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut gone, Some(&now)), Ok(1), "init was not waited for");
}

#[test]
fn what_is_prepared_and_never_used_leaves_nothing() {
    let policy = policy("");
    let ready = prepared(&policy);
    let init = ready.init_pid();
    assert!(PathBuf::from(format!("/proc/{init}")).exists());
    drop(ready);
    assert!(!PathBuf::from(format!("/proc/{init}")).exists());
}

#[test]
fn a_late_command_that_is_given_up_leaves_nothing() {
    let (policy, sleep) = (policy(""), unique_sleep());
    let script = format!("setsid sleep {sleep} & sleep {sleep}");
    let started = prepared(&policy)
        .start(Fit::default(), late(&policy, &["sh", "-c", &script], captured(None)))
        .unwrap();
    drop(started);
    assert_eq!(processes_left_with(&sleep.to_string()), Vec::<String>::new());
}
