//! SIGKILL of the controller, of PID 1 and of both, at random moments from the first instruction to well after the
//! command's start.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kennel_tests::leftovers::{Host, adopt_orphans, processes_left_with, reap_everything, unique_sleep};
use kennel_tests::{Scratch, kennel, ran_within, role, skipped};

/// Limits that need a cgroup.
const LIMITS: [&str; 4] = ["--memory", "256M", "--pids", "100"];
/// The variable that tells the role to set them.
const LIMITED: &str = "KENNEL_TEST_LIMITED";

/// Numbers that look random and are the same again for the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Below `limit`.
    pub fn throw(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }

    pub fn moment(&mut self, longest: Duration) -> Duration {
        Duration::from_micros(self.throw(longest.as_micros().try_into().unwrap_or(u64::MAX)))
    }
}

/// A tree with everything that a policy can speak of: write roots, denied files and folders, and globs that find
/// some of both.
fn tree() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("work/src/main.rs", "fn main() {}\n");
    scratch.write("work/secret/key", "secret\n");
    scratch.write("work/hooks/pre-commit", "#!/bin/sh\n");
    scratch.write("work/config", "[core]\n");
    scratch.write("work/token", "token\n");
    for name in ["a/one.pem", "a/b/two.pem", "a/b/c/three.pem"] {
        scratch.write(&format!("work/{name}"), "pem\n");
    }
    scratch.dir("cache");
    scratch
}

/// `kennel run` over that tree, with a command that leaves processes of every kind behind itself.
fn victim(tree: &Path, sleep: &str) -> Command {
    let work = tree.join("work");
    let limits = std::env::var_os(LIMITED).map_or(&[][..], |_| &LIMITS);
    let at = |path: &str| work.join(path).into_os_string();
    let mut command = kennel(["run", "--no-settings"]);
    command.args(limits);
    for (flag, path) in [
        ("--allow-write", at("")),
        ("--allow-write", tree.join("cache").into_os_string()),
        ("--deny-read", at("secret")),
        ("--deny-read", at("token")),
        ("--deny-write", at("hooks")),
        ("--deny-write", at("config")),
        ("--deny-read", at("**/*.pem")),
        ("--deny-write", at("a/*")),
        ("--deny-write", at(".git")),
        ("--deny-read", at("absent/and/deep")),
    ] {
        command.arg(flag).arg(path);
    }
    let script = format!(
        "sleep {sleep} & setsid sleep {sleep} & (trap '' TERM; sleep {sleep} &) ; echo started; exec sleep {sleep}"
    );
    command.args(["--", "sh", "-c", &script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// PID 1 of the sandbox that `controller` has made, once there is one.
fn init_of(controller: u32) -> Option<i32> {
    let children = std::fs::read_to_string(format!("/proc/{controller}/task/{controller}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn kill(pid: i32) {
    // SAFETY: a plain call. The pids are of children that nobody has waited for, or of theirs a moment ago.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// How long a sandbox takes here from its launch to its command.
fn start_up_time(tree: &Path, sleep: &str) -> Duration {
    let mut times: Vec<Duration> = (0..5)
        .map(|_| {
            let begun = Instant::now();
            let mut child = victim(tree, sleep).spawn().expect("kennel can be started");
            let mut word = [0; 8];
            child.stdout.take().expect("piped").read_exact(&mut word).expect("the command starts");
            let time = begun.elapsed();
            kill(child.id().cast_signed());
            child.wait().expect("a child can be waited for");
            time
        })
        .collect();
    times.sort();
    times[2]
}

/// One run, killed. Says whether the command had started by then, or what was wrong.
fn one(target: &str, tree: &Path, sleep: &str, dice: &mut Dice, longest: Duration) -> Result<bool, String> {
    let mut child = victim(tree, sleep).spawn().map_err(|error| format!("starting kennel: {error}"))?;
    let controller = child.id().cast_signed();
    match target {
        "controller" => {
            std::thread::sleep(dice.moment(longest));
            kill(controller);
        }
        "init" => {
            let init = await_init(&mut child)?;
            std::thread::sleep(dice.moment(longest));
            kill(init);
        }
        _ => {
            let init = await_init(&mut child)?;
            std::thread::sleep(dice.moment(longest));
            let (first, second) = if dice.throw(2) == 0 { (init, controller) } else { (controller, init) };
            kill(first);
            std::thread::sleep(dice.moment(Duration::from_micros(300)));
            if second == controller || std::fs::metadata(format!("/proc/{second}")).is_ok() {
                kill(second);
            }
        }
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                kill(controller);
                return Err(format!("kennel did not end within 20 s of the SIGKILL of the {target}"));
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let (mut out, mut said) = (String::new(), String::new());
    // Both end only when every process that held them is gone.
    child.stdout.take().expect("piped").read_to_string(&mut out).map_err(|error| error.to_string())?;
    child.stderr.take().expect("piped").read_to_string(&mut said).map_err(|error| error.to_string())?;
    let started = out == "started\n";
    // Which of the two codes is right is the next test's question.
    if target == "init" && !status.code().is_some_and(|code| [125, 137].contains(&code)) {
        return Err(format!("PID 1 was killed (started: {started}) and kennel ended with {status}: {said}"));
    }
    if target == "controller" && status.signal() != Some(libc::SIGKILL) {
        return Err(format!("the controller was killed, but ended with {status}: {said}"));
    }
    Ok(started)
}

fn await_init(child: &mut Child) -> Result<i32, String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(init) = init_of(child.id()) {
            return Ok(init);
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("kennel ended before it had a PID 1: {status}"));
        }
        if Instant::now() > deadline {
            return Err("kennel made no PID 1 within 20 s".into());
        }
    }
}

/// The role: runs, kills, and looks at what is left. A process of its own, because it adopts all orphans below it.
pub fn killer(arguments: &[OsString]) -> i32 {
    let word = |at: usize| arguments[at].to_string_lossy().into_owned();
    let (target, runs, seed) =
        (word(0), word(1).parse::<u32>().expect("a number"), word(2).parse::<u64>().expect("a number"));
    adopt_orphans();
    let tree = tree();
    let before = tree.listing();
    let host = Host::now();
    let sleep = unique_sleep();
    let longest = start_up_time(tree.path(), &sleep) * 5 / 2;
    let (left, late) = (AtomicU32::new(runs), AtomicU32::new(0));
    let mut wrong: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let (target, tree, sleep, left, late) = (&target, tree.path(), &sleep, &left, &late);
                scope.spawn(move || {
                    let mut dice = Dice::new(seed + worker);
                    let mut wrong = Vec::new();
                    while left
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                        .is_ok()
                    {
                        match one(target, tree, sleep, &mut dice, longest) {
                            Ok(started) => drop(late.fetch_add(u32::from(started), Ordering::Relaxed)),
                            Err(error) => wrong.push(error),
                        }
                    }
                    wrong
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends")).collect()
    });
    wrong.extend(
        reap_everything(Duration::from_secs(10)).into_iter().map(|found| format!("process left: {found}")),
    );
    wrong.extend(processes_left_with(&sleep).into_iter().map(|found| format!("process left: {found}")));
    if std::env::var_os(LIMITED).is_some() {
        // Nobody is left to remove the cgroup of a killed controller. It is empty, and the next run removes it.
        let next = kennel(["run", "--no-settings"]).args(LIMITS).args(["--", "true"]).output();
        wrong.extend(next.err().map(|error| error.to_string()));
    }
    wrong.extend(host.left().into_iter().map(|found| format!("left: {found}")));
    if tree.listing() != before {
        wrong.push(format!("files: {:?} became {:?}", before, tree.listing()));
    }
    let late = late.into_inner();
    println!("{runs} runs, seed {seed}, moments up to {longest:?}, {late} killed after the command's start");
    // The moments have to have covered the set-up as well as the command's life.
    if late < runs / 20 || late > runs - runs / 20 {
        wrong.push("the moments did not cover both set-up and run".into());
    }
    wrong.iter().take(20).for_each(|line| println!("WRONG: {line}"));
    i32::from(!wrong.is_empty())
}

fn driver(target: &str, runs: u32) -> Command {
    let seed = std::time::UNIX_EPOCH.elapsed().expect("after 1970").subsec_nanos();
    let mut driver = role::play("lifecycle-killer");
    driver.args([target, &runs.to_string(), &seed.to_string()]);
    driver
}

fn nothing_is_left_after(mut driver: Command) {
    let ran = ran_within(Duration::from_secs(180), &mut driver).ok();
    print!("{}", ran.stdout);
}

#[test]
#[kennel_claim::claim("ends/nothing-after-sigkill")]
fn nothing_is_left_when_the_controller_is_killed_at_any_moment() {
    nothing_is_left_after(driver("controller", 300));
}

#[test]
#[kennel_claim::claim("ends/nothing-after-sigkill")]
fn nothing_is_left_when_pid_1_is_killed_at_any_moment() {
    nothing_is_left_after(driver("init", 300));
}

#[test]
#[kennel_claim::claim("ends/nothing-after-sigkill")]
fn nothing_is_left_when_both_are_killed_at_any_moment() {
    nothing_is_left_after(driver("both", 150));
}

#[test]
fn nothing_is_left_of_sandboxes_with_limits_after_the_next_run() {
    let tried = ran_within(
        Duration::from_secs(60),
        kennel(["run", "--no-settings"]).args(LIMITS).args(["--", "true"]),
    );
    if tried.code == 125 {
        return skipped(&format!(
            "no cgroup can be made here: {}",
            tried.stderr.lines().next().unwrap_or_default()
        ));
    }
    tried.ok();
    for target in ["controller", "init", "both"] {
        let mut driver = driver(target, 60);
        driver.env(LIMITED, "1");
        nothing_is_left_after(driver);
    }
}

#[test]
fn a_command_that_ran_when_pid_1_was_killed_is_not_reported_as_never_started() {
    let tree = tree();
    let sleep = unique_sleep();
    for _ in 0..60 {
        let mut child = victim(tree.path(), &sleep).spawn().expect("kennel can be started");
        let mut word = [0; 8];
        child.stdout.take().expect("piped").read_exact(&mut word).expect("the command starts");
        let init = init_of(child.id()).expect("the command runs, so there is a PID 1");
        kill(init);
        let output = child.wait_with_output().expect("a child can be waited for");
        let said = String::from_utf8_lossy(&output.stderr);
        // 125 says that nothing was run and that it may be tried again.
        assert_eq!(output.status.code(), Some(137), "{said}");
        assert!(said.contains("killed from outside"), "{said}");
    }
}
