//! What `overhead` runs inside and outside: does one thing many times and prints how long one of them took, in
//! nanoseconds. Small and static, so that it runs in any sandbox.

use std::ffi::CString;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let time = match words.as_slice() {
        ["getppid", count] => count.parse().ok().map(getppid),
        ["open", count, path] => count.parse().ok().and_then(|count| open(count, path)),
        ["create", count, folder] => count.parse().ok().and_then(|count| create(count, folder)),
        ["run", count, command @ ..] => count.parse().ok().and_then(|count| run(count, command)),
        _ => None,
    };
    match time {
        Some(time) => {
            println!("{}", time.as_nanos());
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("probe: {words:?} failed");
            ExitCode::FAILURE
        }
    }
}

/// The cheapest call there is: what is left is the way in and out, with the filter on it.
fn getppid(count: u32) -> Duration {
    let started = Instant::now();
    for _ in 0..count {
        // SAFETY: takes nothing and cannot fail. By number, so that no C library answers from memory.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }
    started.elapsed() / count
}

fn open(count: u32, path: &str) -> Option<Duration> {
    let path = CString::new(path).ok()?;
    let started = Instant::now();
    for _ in 0..count {
        // SAFETY: a C string; the descriptor is closed at once.
        unsafe {
            let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            if file < 0 {
                return None;
            }
            libc::close(file);
        }
    }
    Some(started.elapsed() / count)
}

/// Makes so many empty files, a hundred in each of many folders, as unpacking does, and tells the median time of one: on a
/// busy machine the mean is the scheduler's.
fn create(count: u32, folder: &str) -> Option<Duration> {
    let top = format!("{folder}/created");
    std::fs::create_dir(&top).ok()?;
    let mut times = Vec::with_capacity(count as usize);
    for part in 0..count.div_ceil(100) {
        let place = format!("{top}/{part}");
        std::fs::create_dir(&place).ok()?;
        for file in 0..100 {
            let name = CString::new(format!("{place}/file-{file}.txt")).ok()?;
            let started = Instant::now();
            // SAFETY: a C string; the descriptor is closed at once.
            unsafe {
                let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
                let file = libc::open(name.as_ptr(), flags, 0o644);
                if file < 0 {
                    return None;
                }
                libc::close(file);
            }
            times.push(started.elapsed());
        }
        std::fs::remove_dir_all(&place).ok()?;
    }
    std::fs::remove_dir(&top).ok()?;
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// The median of so many runs.
fn run(count: usize, command: &[&str]) -> Option<Duration> {
    let (program, words) = command.split_first()?;
    let mut times = Vec::new();
    for _ in 0..count {
        let started = Instant::now();
        let end = Command::new(program).args(words).stdin(Stdio::null()).stdout(Stdio::null()).status();
        times.push(started.elapsed());
        end.ok().filter(std::process::ExitStatus::success)?;
    }
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}
