//! Processes, signals and sockets where there is no PID namespace: nothing outlives the sandbox, nothing reaches out
//! of it.

use std::ffi::OsString;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use kennel_tests::leftovers::{
    adopt_orphans, processes_left_with, processes_with, reap_everything, unique_sleep,
};
use kennel_tests::{Ran, eventually, ran, ran_within, role};

use crate::hosts::world::{Lack, kennel_in, landlock_at_least, plain};

const LACK: &[Lack] = &[Lack::UserNamespaces];
const LONG: Duration = Duration::from_secs(25);

fn words<'a>(flags: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let mut words = vec!["run", "--no-settings", "--best-effort"];
    words.extend(flags);
    words.extend(["--", "sh", "-c", script]);
    words
}

fn run(flags: &[&str], script: &str) -> Option<Ran> {
    Some(ran_within(LONG, &mut kennel_in(LACK, words(flags, script))?))
}

fn none() -> Vec<String> {
    Vec::new()
}

#[test]
fn background_processes_are_gone_when_the_command_exits() {
    if !landlock_at_least(1) {
        return;
    }
    let sleep = unique_sleep();
    let script = format!(
        "sleep {sleep} & setsid sleep {sleep} & (setsid sh -c 'trap \"\" TERM; sleep {sleep} & sleep {sleep}' &); echo done; exit 3"
    );
    let Some(run) = run(&[], &script) else { return };
    assert_eq!(run.expect_code(3).stdout, "done\n");
    // At once, not soon: kennel has ended.
    assert_eq!(processes_with(&sleep), none());
}

#[test]
fn they_are_gone_when_time_is_up() {
    if !landlock_at_least(1) {
        return;
    }
    let sleep = unique_sleep();
    let script = format!("sleep {sleep} & (setsid sleep {sleep} &); kill -STOP $$; sleep {sleep}");
    let Some(run) = run(&["--timeout", "1s"], &script) else { return };
    run.expect_code(124);
    assert_eq!(processes_left_with(&sleep), none());
}

#[test]
fn a_crowd_that_keeps_forking_is_gone_when_time_is_up() {
    if !landlock_at_least(1) {
        return;
    }
    let marker = unique_sleep();
    let mut words = vec![OsString::from("run")];
    words.extend(role::inside(
        "crowd",
        &["--no-settings", "--best-effort", "--timeout", "2s"],
        &[&marker, "40"],
    ));
    let Some(mut command) = kennel_in(LACK, words) else { return };
    let begun = Instant::now();
    ran_within(LONG, &mut command).expect_code(124);
    let left = processes_left_with(&marker);
    assert_eq!(left, none());
    assert!(begun.elapsed() < Duration::from_secs(40));
}

/// The role: starts sandboxes in this tier and kills one of their processes; prints what is left. A process of its
/// own, because it adopts all orphans below it.
pub fn killer(arguments: &[OsString]) -> i32 {
    adopt_orphans();
    let target = arguments[0].to_string_lossy().into_owned();
    let sleep = unique_sleep();
    let inside = if target == "inside" { "kill -KILL $PPID;" } else { "" };
    let script = format!(
        "sleep {sleep} & (setsid sleep {sleep} &); setsid sh -c 'sleep {sleep} & sleep {sleep}' & sleep 0.1; echo started; {inside} exec sleep {sleep}"
    );
    for _ in 0..8 {
        let Some(mut command) = kennel_in(LACK, words(&[], &script)) else { return 77 };
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("kennel");
        let mut word = [0; 8];
        child.stdout.take().expect("piped").read_exact(&mut word).expect("the command starts");
        let controller = child.id().cast_signed();
        let init = std::fs::read_to_string(format!("/proc/{controller}/task/{controller}/children"))
            .unwrap_or_default();
        let init = init.split_whitespace().next().and_then(|pid| pid.parse::<i32>().ok());
        // SAFETY: plain calls on a child that has not been waited for, and on its own child.
        unsafe {
            match (target.as_str(), init) {
                ("controller", _) => libc::kill(controller, libc::SIGKILL),
                ("init", Some(init)) => libc::kill(init, libc::SIGKILL),
                ("both", Some(init)) => {
                    libc::kill(controller, libc::SIGKILL) + libc::kill(init, libc::SIGKILL)
                }
                _ => 0,
            };
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while child.try_wait().expect("a child").is_none() {
            if Instant::now() > deadline {
                println!("kennel did not end after the SIGKILL of the {target}");
                let _ = child.kill();
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let left = reap_everything(Duration::from_secs(5));
    left.iter().for_each(|line| println!("left: {line}"));
    i32::from(!left.is_empty())
}

fn nothing_is_left_after(target: &str) {
    if !landlock_at_least(1) {
        return;
    }
    let ran = ran_within(Duration::from_secs(120), role::play("tier-killer").arg(target));
    if ran.code == 77 {
        return print!("{}", ran.stdout);
    }
    assert_eq!(ran.ok().stdout, "");
}

#[test]
fn they_are_gone_when_the_controller_is_killed() {
    nothing_is_left_after("controller");
}

#[test]
fn they_are_gone_when_init_is_killed() {
    nothing_is_left_after("init");
}

#[test]
fn they_are_gone_when_the_command_kills_init() {
    nothing_is_left_after("inside");
}

#[test]
fn signals_to_the_controller_reach_the_command() {
    if !landlock_at_least(1) {
        return;
    }
    let script = "trap 'echo heard; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let Some(mut command) = kennel_in(LACK, words(&["--timeout", "50s"], script)) else { return };
    let mut child = command.stdout(Stdio::piped()).spawn().expect("kennel");
    let mut stdout = child.stdout.take().expect("piped");
    let mut word = [0; 6];
    stdout.read_exact(&mut word).expect("the command starts");
    // SAFETY: a plain call on a child that has not been waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("text");
    assert_eq!((rest.as_str(), child.wait().expect("a child").code()), ("heard\n", Some(9)));
}

#[test]
fn the_command_cannot_signal_processes_outside() {
    if !landlock_at_least(6) {
        return;
    }
    let mut outside = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
    let script = format!("kill -TERM {} && echo sent || echo refused", outside.id());
    // The same user may, without a sandbox: signal 0 only asks.
    let may = std::process::Command::new("sh").args(["-c", &format!("kill -0 {}", outside.id())]).status();
    assert!(may.expect("sh").success());
    let ran = run(&[], &script);
    let alive = outside.try_wait().expect("a child").is_none();
    outside.kill().expect("a child");
    outside.wait().expect("a child");
    let Some(ran) = ran else { return };
    assert_eq!((ran.ok().stdout.as_str(), alive), ("refused\n", true));
}

#[test]
fn the_command_cannot_look_into_processes_outside() {
    if !landlock_at_least(1) {
        return;
    }
    let mut outside =
        std::process::Command::new("sleep").arg("600").env("SECRET", "hunter2").spawn().expect("sleep");
    let environ = format!("/proc/{}/environ", outside.id());
    eventually("its environment", || {
        std::fs::read_to_string(&environ).ok()?.contains("hunter2").then_some(())
    });
    let script = format!("cat {environ} || echo refused; ls /proc/{}/root/ || echo refused", outside.id());
    let ran = run(&[], &script);
    outside.kill().expect("a child");
    outside.wait().expect("a child");
    let Some(ran) = ran else { return };
    assert_eq!(ran.ok().stdout, "refused\nrefused\n");
}

/// The role, inside: tries to make sockets and prints the errno of each, 0 for success.
pub fn sockets(_: &[OsString]) -> i32 {
    let families = [
        ("inet", libc::AF_INET),
        ("inet6", libc::AF_INET6),
        ("unix", libc::AF_UNIX),
        ("netlink", libc::AF_NETLINK),
        ("packet", libc::AF_PACKET),
    ];
    for (name, family) in families {
        for (kind, number) in
            [("stream", libc::SOCK_STREAM), ("datagram", libc::SOCK_DGRAM), ("raw", libc::SOCK_RAW)]
        {
            // SAFETY: plain calls on numbers.
            let fd = unsafe { libc::socket(family, number, 0) };
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            println!("{name} {kind} {}", if fd >= 0 { 0 } else { errno });
        }
    }
    0
}

#[test]
fn without_a_network_no_socket_of_the_internet_can_be_made() {
    if !landlock_at_least(1) {
        return;
    }
    let inside = |flags: &[&str]| {
        let mut all = vec!["--no-settings", "--best-effort"];
        all.extend(flags);
        let mut words = vec![OsString::from("run")];
        words.extend(role::inside("sockets", &all, &[]));
        Some(ran(&mut kennel_in(LACK, words)?).ok().stdout)
    };
    let Some(without) = inside(&[]) else { return };
    let refused =
        |name: &str| without.lines().filter(|line| line.starts_with(name)).all(|line| !line.ends_with(" 0"));
    for name in ["inet ", "inet6 ", "unix ", "netlink ", "packet "] {
        assert!(refused(name), "{without}");
    }
    assert!(without.contains(&format!("inet stream {}", libc::EAFNOSUPPORT)), "{without}");
    // With the host's network the same calls work, so it was kennel that refused them.
    let Some(with) = inside(&["--net", "host"]) else { return };
    assert!(with.contains("inet stream 0\n") && with.contains("inet datagram 0\n"), "{with}");
}

#[test]
fn outside_of_such_a_world_the_same_command_has_a_pid_namespace() {
    // The tests above would say nothing if they ran with namespaces after all.
    let inside = "grep NSpid /proc/self/status | wc -w; echo $$";
    let full = ran(&mut plain(["--best-effort"], inside)).ok();
    let pid: u32 = full.stdout.lines().last().and_then(|pid| pid.parse().ok()).expect("a pid");
    assert!(pid < 10, "{}", full.stdout);
    if !landlock_at_least(1) {
        return;
    }
    let Some(lacking) = run(&[], "echo $$; readlink /proc/self/ns/pid") else { return };
    let lacking = lacking.ok().stdout;
    let own = std::fs::read_link("/proc/self/ns/pid").expect("/proc").display().to_string();
    assert_eq!(lacking.lines().last(), Some(own.as_str()));
}
