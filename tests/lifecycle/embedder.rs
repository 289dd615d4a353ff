//! The death of a program that uses the library, with sandboxes at every stage of their lives.

use std::ffi::OsString;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use kennel::Sandbox;
use kennel_tests::leftovers::{Host, adopt_orphans, processes_left_with, reap_everything, unique_sleep};
use kennel_tests::{Scratch, ran_within, role};

use crate::lifecycle::kills::Dice;

/// The role: a program that starts sandboxes from four threads and never ends by itself.
pub fn embedder(arguments: &[OsString]) -> i32 {
    let (work, sleep) = (&arguments[0], arguments[1].to_string_lossy().into_owned());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let sleep = &sleep;
            scope.spawn(move || {
                let mut builder = Sandbox::builder().allow_write(work);
                builder = builder.deny_write(std::path::Path::new(work).join("hooks"));
                let sandbox = builder.build().expect("a plain configuration");
                let script = format!("sleep {sleep} & setsid sleep {sleep} & exec sleep {sleep}");
                let mut running = Vec::new();
                for _ in 0..6 {
                    running.push(sandbox.spawn("sh", &["-c", &script]).expect("a sandbox"));
                    print!(".");
                    let _ = std::io::Write::flush(&mut std::io::stdout());
                }
                std::thread::sleep(Duration::from_secs(600));
            });
        }
    });
    0
}

/// The role that kills those.
pub fn killer(arguments: &[OsString]) -> i32 {
    adopt_orphans();
    let seed = arguments[0].to_string_lossy().parse().expect("a number");
    let mut dice = Dice::new(seed);
    let scratch = Scratch::new();
    let hooks = scratch.dir("hooks");
    let host = Host::now();
    let before = scratch.listing();
    let sleep = unique_sleep();
    let (mut started, mut wrong) = (0, Vec::new());
    for _ in 0..40 {
        let mut command = role::play("lifecycle-embedder");
        command.arg(hooks.parent().expect("it has one")).arg(&*sleep).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this executable");
        std::thread::sleep(dice.moment(Duration::from_millis(80)));
        child.kill().expect("a child");
        child.wait().expect("a child");
        let mut dots = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut dots).expect("dots");
        started += dots.len();
    }
    wrong.extend(reap_everything(Duration::from_secs(10)));
    wrong.extend(processes_left_with(&sleep));
    wrong.extend(host.left());
    if scratch.listing() != before {
        wrong.push(format!("files: {:?}", scratch.listing()));
    }
    println!("seed {seed}: {started} sandboxes of 40 programs were running");
    if started == 0 || started == 40 * 24 {
        wrong.push("the moments did not cover both set-up and run".into());
    }
    wrong.iter().take(20).for_each(|line| println!("WRONG: {line}"));
    i32::from(!wrong.is_empty())
}

#[test]
#[kennel_claim::claim("ends/nothing-after-a-library-caller")]
fn nothing_is_left_when_a_program_that_uses_the_library_is_killed_at_any_moment() {
    let seed = std::time::UNIX_EPOCH.elapsed().expect("after 1970").subsec_nanos();
    let mut command = role::play("embedder-killer");
    print!("{}", ran_within(Duration::from_secs(120), command.arg(seed.to_string())).ok().stdout);
}
