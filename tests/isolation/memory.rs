//! PID 1 holds nothing of its caller's memory: its pages are searched, from outside and as root, for secrets that the
//! caller held in its environment, its arguments, its settings, its heap and its stack.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

use kennel_tests::probe::probe_outside;
use kennel_tests::{Scratch, am_root, eventually, kennel, skipped};

/// A secret that occurs nowhere else: made anew for each place, and never printed.
fn secret(place: &str) -> String {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("zq{place}{:08x}{count}{:08x}qz", std::process::id(), std::process::id().reverse_bits())
}

/// How often `needle` occurs in the readable memory of a process.
fn occurrences(pid: u32, needle: &[u8]) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut count = 0;
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ').unwrap();
        if !rest.starts_with('r') || rest.contains("[vsyscall]") || rest.contains("[vvar") {
            continue;
        }
        let (start, end) = range.split_once('-').unwrap();
        let (start, end) = (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
        let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
        let Ok(read) = memory.read_at(&mut bytes, start) else { continue };
        bytes.truncate(read);
        count += bytes.windows(needle.len()).filter(|part| *part == needle).count();
    }
    count
}

/// PID 1 of a kennel's sandbox, once its command runs and PID 1 only waits.
fn settled_init(controller: &mut Child) -> u32 {
    let mut line = String::new();
    BufReader::new(controller.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    let pid = controller.id();
    let init = eventually("kennel has a child", || {
        let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        list.split_whitespace().next()?.parse::<u32>().ok()
    });
    eventually("PID 1 waits for signals", || {
        let files = std::fs::read_dir(format!("/proc/{init}/fd")).ok()?.flatten();
        let mut links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        links.any(|link| link.display().to_string().contains("signalfd")).then_some(())
    });
    init
}

const WAIT: &str = "echo started; exec sleep 600";

/// Starts a kennel, searches its PID 1, and checks that the search finds what is there.
fn search(command: &mut Command, needles: &[&str]) {
    let mut controller = command.stdout(Stdio::piped()).spawn().unwrap();
    let init = settled_init(&mut controller);
    // Part of the code that PID 1 runs.
    assert!(occurrences(init, b"/proc/thread-self/children") > 0, "the search sees PID 1's memory");
    for needle in needles {
        assert!(
            occurrences(controller.id(), needle.as_bytes()) > 0,
            "the caller holds its own secret: {needle:.6}"
        );
        assert_eq!(occurrences(init, needle.as_bytes()), 0, "PID 1 holds {needle:.6}…");
        for file in ["environ", "cmdline"] {
            let text = std::fs::read(format!("/proc/{init}/{file}")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&text).contains(needle), "/proc/PID/{file} shows {needle:.6}…");
        }
    }
    controller.kill().unwrap();
    controller.wait().unwrap();
}

#[test]
#[kennel_claim::claim("processes/pid-1-holds-no-memory")]
fn pid_1_holds_nothing_of_the_callers_environment() {
    if !am_root() {
        return skipped("searching another process's memory needs root");
    }
    let (kept_out, passed) = (secret("environment"), secret("passed"));
    search(kennel(["run", "--clear-env", "--", "sh", "-c", WAIT]).env("TOKEN", &kept_out), &[&kept_out]);
    search(kennel(["run", "--", "sh", "-c", WAIT]).env("TOKEN", &passed), &[&passed]);
}

#[test]
#[kennel_claim::claim("processes/pid-1-holds-no-memory")]
fn pid_1_holds_nothing_of_the_callers_arguments() {
    if !am_root() {
        return skipped("searching another process's memory needs root");
    }
    let (variable, path, word) = (secret("variable"), secret("path"), secret("word"));
    let scratch = Scratch::new();
    scratch.write(&path, "");
    let script = format!("{WAIT}; : {word}");
    let mut command = kennel(["run", "--env"]);
    command
        .arg(format!("TOKEN={variable}"))
        .arg("--deny-read")
        .arg(scratch.join(&path))
        .args(["--", "sh", "-c", &script]);
    search(&mut command, &[&variable, &path, &word]);
}

/// What is larger than 128 KiB malloc maps by itself, outside the heap that PID 1 gives up.
#[test]
fn pid_1_holds_nothing_of_large_settings_or_a_large_environment() {
    if !am_root() {
        return skipped("searching another process's memory needs root");
    }
    let (setting, variable) = (secret("setting"), secret("large"));
    let scratch = Scratch::new();
    let filler = "# filler\n".repeat(40_000);
    let settings =
        scratch.write("settings.toml", &format!("{filler}[environment]\nset = {{ A = \"{setting}\" }}\n"));
    let mut command = kennel(["run", "--settings"]);
    command.arg(&settings).args(["--", "sh", "-c", WAIT]);
    for index in 0..8 {
        command.env(format!("LARGE{index}"), format!("{variable}{}", "x".repeat(60_000)));
    }
    search(&mut command, &[&variable]);
    let mut command = kennel(["run", "--settings"]);
    search_only(command.arg(&settings).args(["--", "sh", "-c", WAIT]), &setting);
}

/// For what the caller itself need not hold any more.
fn search_only(command: &mut Command, needle: &str) {
    let mut controller = command.stdout(Stdio::piped()).spawn().unwrap();
    let init = settled_init(&mut controller);
    assert_eq!(occurrences(init, needle.as_bytes()), 0, "PID 1 holds {needle:.6}…");
    controller.kill().unwrap();
    controller.wait().unwrap();
}

#[test]
#[kennel_claim::claim("processes/pid-1-holds-no-memory")]
fn pid_1_holds_nothing_of_a_library_callers_heap_stack_or_environment() {
    if !am_root() {
        return skipped("searching another process's memory needs root");
    }
    let (heap, variable) = (secret("heap"), secret("embedder"));
    let mut embedder = probe_outside("isolation-embedder", &[""])
        .env("TOKEN", &variable)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = embedder.stdin.take().unwrap();
    writeln!(input, "{heap}").unwrap();
    let mut line = String::new();
    BufReader::new(embedder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let init: u32 = line.trim().parse().expect("the embedder says its PID 1");
    eventually("PID 1 waits for signals", || {
        let files = std::fs::read_dir(format!("/proc/{init}/fd")).ok()?.flatten();
        let mut links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        links.any(|link| link.display().to_string().contains("signalfd")).then_some(())
    });
    assert!(occurrences(embedder.id(), heap.as_bytes()) > 10, "the caller's heap is full of it");
    assert!(occurrences(embedder.id(), variable.as_bytes()) > 0);
    assert!(occurrences(init, b"/proc/thread-self/children") > 0, "the search sees PID 1's memory");
    for needle in [&heap, &variable] {
        assert_eq!(occurrences(init, needle.as_bytes()), 0, "PID 1 holds {needle:.6}…");
        for file in ["environ", "cmdline"] {
            let mut text = Vec::new();
            File::open(format!("/proc/{init}/{file}")).unwrap().read_to_end(&mut text).unwrap();
            assert!(!String::from_utf8_lossy(&text).contains(needle.as_str()), "{file}");
        }
    }
    drop(input);
    assert!(embedder.wait().unwrap().success());
}
