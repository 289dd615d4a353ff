//! Hundreds of sandboxes at the same time.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use kennel::{Sandbox, Stdio, Zygote};
use kennel_tests::leftovers::{Host, children_of, processes_left_with, processes_with, unique_sleep};
use kennel_tests::{eventually, ran_within, role};

use crate::endurance::holdings::Holdings;
use crate::endurance::{alone, patience, scaled};

/// The most that a sandbox may take beyond its command, in kB.
const MAX: u64 = 700;

/// The role: starts so many sandboxes of `sleep`, looks at what they take, ends them and looks at what is left.
pub fn holder(arguments: &[OsString]) -> i32 {
    let count: usize = arguments[0].to_string_lossy().parse().expect("a number");
    let host = Host::now();
    let zygote = Zygote::start().expect("a zygote");
    let sandbox = Sandbox::builder().build().expect("plain");
    // What is opened once and kept is there from now on.
    let mut first = sandbox.command("true");
    first.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(first.spawn().and_then(|mut child| child.wait()).expect("it runs").success());
    let zygotes = || {
        let ids = zygote.ids();
        [("zygote", ids.first().copied()), ("lender of networks", ids.get(1).copied())]
    };
    let before = Holdings::now(&zygotes());
    let sleep = unique_sleep();
    let began = Instant::now();
    let running: Vec<_> = (0..count)
        .map(|number| {
            let mut command = sandbox.command("sleep");
            command.arg(&*sleep).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap_or_else(|error| panic!("sandbox {number}: {error}"))
        })
        .collect();
    let took = began.elapsed();
    // A process is called `sleep` a moment after its sandbox has started.
    eventually("all of them sleep", || (processes_with(&sleep).len() == count).then_some(()));
    println!("{count} sandboxes started in {took:?}");
    let inits: Vec<u32> = running.iter().map(kennel::Child::init_pid).collect();
    // Only root may read it of PID 1.
    if let Some(shares) = inits.iter().map(|pid| share(*pid)).collect::<Option<Vec<u64>>>() {
        let of_controller = share(std::process::id()).unwrap_or(0);
        let each = (shares.iter().sum::<u64>() + of_controller) / count as u64;
        println!("{each} kB each beyond the command, all of the controller's included");
        assert!(each <= MAX, "{each} kB");
    }
    let own = children_of(std::process::id());
    assert!(inits.iter().all(|init| own.contains(init)), "each is a child of this process");
    running.iter().for_each(kennel::Child::kill);
    for mut child in running {
        assert_eq!(child.wait().expect("it ends").ended, kennel::Ended::Killed);
    }
    assert_eq!(processes_left_with(&sleep), Vec::<String>::new());
    assert_eq!(host.left(), Vec::<String>::new());
    // Threads that have been joined are gone from /proc a moment later. Of memory the C library keeps a store for hundreds of
    // them; that it does not grow with every sandbox is for thousands in a row to show.
    eventually("what they took is given back", || {
        let grown = Holdings::now(&zygotes()).grown_since(&before);
        let kept =
            |what: &String| what.contains("kB of memory of the con") || what.contains("mappings of the con");
        grown.iter().filter(|what| !kept(what)).for_each(|what| println!("still: {what}"));
        grown.iter().all(kept).then_some(())
    });
    0
}

fn share(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find(|line| line.starts_with("Pss:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
#[kennel_claim::claim("ends/numbers-use-nothing-up")]
fn hundreds_run_at_once_take_little_and_leave_nothing() {
    let _alone = alone();
    let count = scaled(100, 500);
    let mut command = role::play("holder");
    let ran = ran_within(patience().max(Duration::from_secs(60)), command.arg(count.to_string()));
    print!("{}", ran.ok().stdout);
}
