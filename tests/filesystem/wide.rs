//! Large trees and long lists: a glob over 200,000 files is one walk, and thousands of rules are no hardship.

use std::ffi::OsString;
use std::process::Command;
use std::time::Instant;

use kennel_tests::{Scratch, kennel_bin, program, ran, skipped};

use crate::filesystem::{can_read, cannot_read, flags, inside};

const FOLDERS: usize = 200;
const FILES: usize = 1000;

fn make(scratch: &Scratch) {
    for folder in 0..FOLDERS {
        let first = scratch.write(&format!("tree/{folder:03}/0000.txt"), "x");
        for file in 1..FILES {
            // Names are what a walk looks at; links to one inode are the quickest to make.
            std::fs::hard_link(&first, first.with_file_name(format!("{file:04}.txt"))).unwrap();
        }
    }
}

#[test]
fn five_globs_over_200_000_files_cost_one_walk() {
    let scratch = Scratch::new();
    make(&scratch);
    let key = scratch.write("tree/199/site.key", "x");
    scratch.write("tree/100/log.lock", "x");
    let rules = flags([
        ("--deny-read", scratch.join("tree/**/*.key")),
        ("--deny-read", scratch.join("tree/*/.env*")),
        ("--allow-read", scratch.join("tree/**/*.pub")),
        ("--allow-write", scratch.join("tree/**/out")),
        ("--deny-write", scratch.join("tree/**/*.lock")),
    ]);
    let started = Instant::now();
    cannot_read(&rules, &key);
    let took = started.elapsed();
    can_read(&rules, &scratch.join("tree/100/0000.txt"));
    let started = Instant::now();
    can_read(&[], &scratch.join("tree/100/0000.txt"));
    println!(
        "a run with five globs over {} files took {took:?}, one without {:?}",
        FOLDERS * FILES,
        started.elapsed()
    );
    let Some(five) = calls(&rules) else { return };
    let Some(one) = calls(&flags([("--deny-read", scratch.join("tree/**/*.key"))])) else { return };
    println!("calls with five globs {five:?}, with one {one:?}");
    assert!(one.list >= FOLDERS, "the walk was not counted: {one:?}");
    assert_eq!(five.list, one.list, "more globs walked more");
    // Nothing is asked about a file that matches nothing.
    assert!(five.ask < FOLDERS, "{five:?}");
}

#[test]
fn more_write_roots_than_can_be_held_end_no_run() {
    let scratch = Scratch::new();
    let mut rules = Vec::new();
    for root in 0..100 {
        let hidden = scratch.write(&format!("{root}/hidden"), "x");
        rules.extend(flags([
            ("--allow-write", hidden.parent().unwrap().to_path_buf()),
            ("--deny-read", hidden.clone()),
        ]));
    }
    // Long enough for names to be watched, and for what stands at them to be covered for the first time.
    let last = scratch.join("99/hidden");
    let ran = inside(&rules, "sleep 1; test ! -r \"$1\" && echo x > \"$1-beside\"", &[&last]).ok();
    assert!(!ran.stderr.contains("guard"), "{}", ran.stderr);
}

/// How often the planner listed a folder, and asked about a single file.
#[derive(Debug)]
struct Calls {
    list: usize,
    ask: usize,
}

/// Counts the calls of `kennel plan`; `None`, after saying so, where that cannot be done.
fn calls(rules: &[OsString]) -> Option<Calls> {
    let scratch = Scratch::new();
    let Some(strace) = program("strace") else {
        skipped("strace, which counts the calls, is not installed");
        return None;
    };
    let mut traced = Command::new(strace);
    traced
        .args(["-f", "-c", "-e", "trace=getdents64,newfstatat,statx,readlink,readlinkat", "-o"])
        .arg(scratch.join("calls"));
    traced.arg(kennel_bin()).arg("plan").args(rules).args(["--", "true"]);
    if ran(traced.env("XDG_CONFIG_HOME", "/nonexistent")).code != 0 {
        skipped("strace cannot trace here");
        return None;
    }
    let table = std::fs::read_to_string(scratch.join("calls")).unwrap();
    let count = |name: &str| -> usize {
        let line = table.lines().find(|line| line.split_whitespace().last() == Some(name));
        line.map_or(0, |line| line.split_whitespace().nth(3).unwrap().parse().unwrap())
    };
    let asked = ["newfstatat", "statx", "readlink", "readlinkat"];
    Some(Calls { list: count("getdents64"), ask: asked.into_iter().map(count).sum() })
}

#[test]
fn a_glob_leaves_out_what_cannot_hold_a_match() {
    let Some(strace) = program("strace") else {
        return skipped("strace, which shows the calls, is not installed");
    };
    let scratch = Scratch::new();
    for name in ["src/a/x.key", "node_modules/b/c/x.key", "target/d/x.key"] {
        scratch.write(name, "x");
    }
    let log = scratch.join("calls");
    let mut traced = Command::new(strace);
    traced.args(["-e", "trace=openat", "-o"]).arg(&log).arg(kennel_bin()).args(["plan", "--deny-read"]);
    traced.arg(scratch.join("src/*/*.key")).args(["--", "true"]).env("XDG_CONFIG_HOME", "/nonexistent");
    if ran(&mut traced).code != 0 {
        return skipped("strace cannot trace here");
    }
    let calls = std::fs::read_to_string(&log).unwrap();
    assert!(calls.contains("\"a\""), "the walk was not seen:\n{calls}");
    assert!(!calls.contains("node_modules") && !calls.contains("target/d"), "{calls}");
}

#[test]
fn five_thousand_rules_over_all_lists_work() {
    let scratch = Scratch::new();
    let mut text = String::from("[files]\n");
    for list in ["deny_read", "allow_read", "allow_write", "deny_write"] {
        let folder = scratch.dir(list);
        let names: Vec<String> = (0..1250).map(|n| format!("\"{list}/{n:04}\"")).collect();
        (0..1250).for_each(|n| std::fs::write(folder.join(format!("{n:04}")), "x").unwrap());
        text.push_str(&format!("{list} = [{}]\n", names.join(", ")));
    }
    let rules = flags([("--settings", scratch.write("many.toml", &text))]);
    let started = Instant::now();
    let script =
        "cd \"$1\" && ! cat deny_read/1249 2>/dev/null && cat allow_read/1249 && echo y > allow_write/1249 &&
                  ! (echo y > deny_write/1249) 2>/dev/null";
    inside(&rules, script, &[scratch.path()]).ok();
    println!("a run with 5,000 rules took {:?}", started.elapsed());
    assert_eq!(std::fs::read_to_string(scratch.join("allow_write/1249")).unwrap(), "y\n");
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}
