//! `Job` and `Running`: one thread attends to many sandboxes by their descriptors, without a runtime.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use kennel::job::{Job, Streams};
use kennel::{Ended, Running, Sandbox, Stdio};
use rustix::event::{PollFd, PollFlags, poll};

fn captured(sandbox: &Sandbox, script: &str) -> Running {
    let command = ["sh", "-c", script].map(Into::into).to_vec();
    let mut job = Job::new(sandbox.policy().clone().into(), command);
    job.streams = Streams::Captured { streams: [Stdio::null(), Stdio::piped(), Stdio::piped()], input: None };
    job.start().expect("it starts")
}

#[test]
fn one_thread_attends_to_fifty() {
    let sandbox = Sandbox::builder().wall_time_limit(Duration::from_secs(2)).build().unwrap();
    let script = |number| match number % 3 {
        0 => format!("echo {number}"),
        1 => format!("head -c 300000 /dev/zero; exit {number}"),
        _ => "sleep 60".to_owned(),
    };
    let mut all: Vec<(usize, Running, OwnedFd)> = Vec::new();
    for number in 0..50 {
        let mut running = captured(&sandbox, &script(number));
        let descriptor = running.descriptor().unwrap().try_clone_to_owned().unwrap();
        all.push((number, running, descriptor));
    }
    let mut ended = 0;
    while !all.is_empty() {
        let mut fds: Vec<PollFd> =
            all.iter().map(|(_, _, fd)| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
        poll(&mut fds, None).unwrap();
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        assert!(ready.contains(&true));
        let mut at = ready.into_iter();
        all.retain_mut(|(number, running, _)| {
            if at.next() != Some(true) {
                return true;
            }
            let Some(outcome) = running.on_ready().unwrap() else { return true };
            let [stdout, _] = running.take_output();
            match *number % 3 {
                0 => assert_eq!(stdout, format!("{number}\n").into_bytes()),
                1 => assert_eq!(
                    (stdout.len(), outcome.exit_code()),
                    (300_000, i32::try_from(*number).unwrap())
                ),
                _ => assert_eq!(outcome.ended, Ended::TimedOut),
            }
            // Whoever asks again is told the same.
            assert_eq!(running.on_ready().unwrap().as_ref(), Some(&outcome));
            assert_eq!(running.wait().unwrap(), outcome);
            ended += 1;
            false
        });
    }
    assert_eq!(ended, 50);
}

#[test]
fn dropping_one_ends_it() {
    let sandbox = Sandbox::builder().build().unwrap();
    let running = captured(&sandbox, "sleep 60");
    let pid = running.init_pid();
    drop(running);
    // SAFETY: no signal is sent; the process is only looked for.
    assert_ne!(unsafe { libc::kill(pid.cast_signed(), 0) }, 0);
}

/// A descriptor that is always ready, such as a file, must not keep an event loop from seeing the rest.
#[test]
fn a_file_among_the_streams_is_attended_to_as_well() {
    let scratch = kennel_tests::Scratch::new();
    let (input, output) = (scratch.write("in", &"x".repeat(200_000)), scratch.join("out"));
    let sandbox = Sandbox::builder().build().unwrap();
    let mut job = Job::new(sandbox.policy().clone().into(), vec!["cat".into()]);
    let file = std::fs::File::create(&output).unwrap();
    job.streams = Streams::Given([std::fs::File::open(input).unwrap().into(), file.into(), Stdio::null()]);
    let mut running = job.start().unwrap();
    let descriptor = running.descriptor().unwrap().try_clone_to_owned().unwrap();
    let outcome = loop {
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).unwrap();
        if let Some(outcome) = running.on_ready().unwrap() {
            break outcome;
        }
    };
    assert_eq!(outcome.exit_code(), 0);
    assert_eq!(std::fs::metadata(output).unwrap().len(), 200_000);
}

#[test]
fn a_result_can_be_serialised() {
    let sandbox = Sandbox::builder().build().unwrap();
    let result = sandbox.run("sh", &["-c", "echo hello; exit 3"]).unwrap();
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!((&json["stdout"], &json["exit_code"]), (&"hello\n".into(), &3.into()));
    assert_eq!(json["ended"]["exited"], 3);
}
