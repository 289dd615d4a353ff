//! How long a file that the host has just replaced can be read: a program inside reads as fast as it can while the
//! host replaces it a thousand times.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use kennel_tests::{Scratch, am_root, kennel, text};

use crate::replaced::{exposed, report};

const ROUNDS: u64 = 1000;

/// The kernel's clock, which is the same inside.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Asks the guard about a path that takes as long as one can: forty links, of which each goes down and up again.
fn ask_slowly(work: &Path) -> ! {
    std::fs::create_dir_all(work.join("d")).expect("it can be written");
    let up_and_down = "d/../".repeat(800);
    for number in 0..39 {
        let next = if number == 0 { "d".to_owned() } else { format!("link{}", number - 1) };
        let _ =
            std::os::unix::fs::symlink(format!("{up_and_down}{next}"), work.join(format!("link{number}")));
    }
    loop {
        let _ = std::fs::create_dir(work.join("link38/absent"));
    }
}

/// The role: reads a file over and over, and tells which texts it saw, and when each was seen last. Ends when its
/// standard input does. With a folder to write to, it asks the guard slow questions meanwhile.
pub fn read_on(words: &[OsString]) -> i32 {
    if let Some(work) = words.get(1).cloned() {
        std::thread::spawn(move || ask_slowly(Path::new(&work)));
    }
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    println!("ready");
    let over = std::thread::spawn(|| std::io::stdin().lines().count());
    while !over.is_finished() {
        for _ in 0..256 {
            // Whoever is kept from a processor in the middle of this says too little rather than too much.
            let when = now();
            if let Ok(text) = std::fs::read_to_string(&words[0]) {
                seen.insert(text, when);
            }
        }
    }
    let mut out = std::io::stdout().lock();
    for (text, when) in seen {
        let _ = writeln!(out, "{text} {when}");
    }
    0
}

#[test]
fn a_file_that_is_replaced_a_thousand_times_shows_for_a_moment_each_time_at_most() {
    measure("quiet", false);
}

#[test]
#[kennel_claim::claim("files/nothing-delays-the-guard")]
fn no_slow_question_to_the_guard_keeps_a_replaced_file_open() {
    measure("while the guard is asked slow questions", true);
}

fn measure(when: &str, asks: bool) {
    let yard = Scratch::new();
    let file = yard.write("home/.env", "0");
    let work = text(&yard.dir("work"));
    // In the folder to which the links lead.
    let absent = format!("{work}/d/absent");
    let file_text = text(&file);
    let mut flags = vec!["--deny-read", &file_text];
    let mut words = vec![file_text.as_str()];
    if asks {
        flags.extend(["--allow-write", &work, "--deny-write", &absent]);
        words.push(&work);
    }
    let mut command = kennel(["run", "--report"]);
    command.arg(yard.join("report.json")).args(kennel_tests::role::inside("read-on", &flags, &words));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("kennel can be started");
    let mut from = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    kennel_tests::watches_names(child.id());
    let mut replaced = BTreeMap::new();
    for round in 1..=ROUNDS {
        let fresh = yard.write("home/.env.new", &round.to_string());
        std::fs::rename(fresh, &file).unwrap();
        replaced.insert(round, now());
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(300));
    drop(child.stdin.take());
    let mut windows: Vec<Duration> = Vec::new();
    for line in from.lines() {
        let line = line.unwrap();
        let (text, when) = line.split_once(' ').expect("a text and a time");
        let (round, when): (u64, u64) = (text.parse().unwrap(), when.parse().unwrap());
        // The kernel takes the mount off a moment before the new file has the name: the old one shows then, too.
        let since =
            [round + 1, round].iter().filter_map(|round| replaced.get(round)).find(|since| **since <= when);
        // What was seen before the call returned was seen for no time that could be told.
        windows.push(Duration::from_nanos(when - since.copied().unwrap_or(when)));
    }
    child.wait().unwrap();
    windows.sort_unstable();
    let at = |part: usize| windows.get((windows.len() * part / 100).min(windows.len().saturating_sub(1)));
    println!(
        "{when}, as {}: of {ROUNDS} new files {} were seen; each for {:?} at the median, {:?} in 99 of 100, {:?} at most",
        if am_root() { "root" } else { "a user" },
        windows.len(),
        at(50).copied().unwrap_or_default(),
        at(99).copied().unwrap_or_default(),
        windows.last().copied().unwrap_or_default()
    );
    assert!(windows.last().is_none_or(|longest| *longest < Duration::from_secs(5)), "{windows:?}");
    let report = report(&yard);
    println!(
        "{when}: the report says {} µs at most",
        exposed(&report, &file).expect("it is told")["longest_us"]
    );
    let exposed = exposed(&report, &file).expect("it is told");
    assert!(exposed["count"].as_u64().unwrap() > ROUNDS / 2, "{exposed}");
    assert!(exposed["longest_us"].as_u64().unwrap() > 0);
}
