//! A container that masks parts of /proc: everything but a fresh /proc.

use kennel_tests::{Ran, Scratch, eventually, ran};

use crate::hosts::world::{Lack, best_effort_in, landlock_at_least};

fn run(lacks: &[Lack], flags: &[&str], script: &str) -> Option<Ran> {
    Some(ran(&mut best_effort_in(lacks, flags.iter().copied(), script)?))
}

#[test]
fn best_effort_goes_on_with_the_host_s_proc_and_says_so() {
    let Some(run) = run(&[Lack::WholeProc], &[], "echo $$; test -r /proc/self/status && echo proc; exit 4")
    else {
        return;
    };
    let run = run.expect_code(4);
    let lines: Vec<_> = run.stdout.lines().collect();
    assert!(
        lines[0].parse::<u32>().is_ok_and(|pid| pid < 10),
        "a PID namespace all the same: {}",
        run.stdout
    );
    assert_eq!(lines[1], "proc");
    assert!(run.stderr.contains("not enforced: a /proc of the sandbox's own"), "{}", run.stderr);
    assert!(!run.stderr.contains("not enforced: namespaces"), "{}", run.stderr);
}

#[test]
fn the_file_rules_hold_in_full() {
    let scratch = Scratch::new();
    scratch.write("work/open", "x\n");
    scratch.write("work/kept", "x\n");
    scratch.write("work/secret", "x\n");
    let at = |name: &str| scratch.join(name).display().to_string();
    let (work, kept, secret) = (at("work"), at("work/kept"), at("work/secret"));
    let flags = ["--allow-write", &work, "--deny-write", &kept, "--deny-read", &secret, "-C", &work];
    let script = "echo y > open && echo open; echo y > kept || echo kept; cat secret || echo secret; echo y > /tmp/y && echo tmp";
    let Some(run) = run(&[Lack::WholeProc], &flags, script) else { return };
    assert_eq!(run.ok().stdout, "open\nkept\nsecret\ntmp\n");
    assert!(!std::path::Path::new("/tmp/y").exists());
}

/// Another process of the same user, whose root is the way around every mount.
fn neighbour() -> (std::process::Child, String) {
    let child =
        std::process::Command::new("sleep").arg("600").env("SECRET", "hunter2").spawn().expect("sleep");
    let proc = format!("/proc/{}", child.id());
    eventually("its environment", || {
        std::fs::read_to_string(format!("{proc}/environ")).ok()?.contains("hunter2").then_some(())
    });
    (child, proc)
}

fn tries_the_neighbour(lacks: &[Lack]) {
    let scratch = Scratch::new();
    let file = scratch.write("file", "before\n");
    let (mut child, proc) = neighbour();
    let script = format!(
        "cat {proc}/environ || echo refused; echo x > {proc}/root{file} || echo refused; echo x > {proc}/cwd/x || echo refused",
        file = file.display()
    );
    // The same user can, without a sandbox.
    let open = std::fs::read_to_string(format!("{proc}/root{}", file.display()));
    let run = run(lacks, &[], &script);
    child.kill().expect("a child");
    child.wait().expect("a child");
    let Some(run) = run else { return };
    assert_eq!(open.expect("the try itself is right"), "before\n");
    assert!(!run.stdout.contains("hunter2"), "the neighbour's environment was read");
    assert_eq!(
        std::fs::read_to_string(file).expect("it stayed"),
        "before\n",
        "written through the neighbour's root"
    );
    if run.code != 125 {
        assert_eq!(run.ok().stdout, "refused\nrefused\nrefused\n");
    }
}

#[test]
fn the_processes_it_shows_are_no_way_out() {
    if landlock_at_least(1) {
        tries_the_neighbour(&[Lack::WholeProc]);
    }
}

#[test]
fn nor_are_they_without_landlock() {
    tries_the_neighbour(&[Lack::WholeProc, Lack::Landlock]);
}

#[test]
fn the_kernel_s_switches_in_it_cannot_be_written() {
    let script = "for f in /proc/sys/kernel/hostname /proc/sys/vm/drop_caches /proc/sysrq-trigger /proc/self/oom_score_adj; do [ -e $f ] || continue; (echo 1 > $f) 2>/dev/null && echo \"wrote $f\"; done; true";
    let Some(run) = run(&[Lack::WholeProc], &[], script) else { return };
    let wrote = run.ok().stdout;
    assert!(!wrote.contains("/proc/sys"), "{wrote}");
}
