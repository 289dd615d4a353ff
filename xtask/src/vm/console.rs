//! What a machine prints on its console: when it is up, where each job begins and ends, and how it ended.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::suite::{self, Report};
use crate::tally::Tally;

/// How a machine ended.
pub enum Ending {
    /// All jobs were run; their reports say what came of them.
    Done,
    /// It did not come up; what its console showed.
    NoBoot(Vec<String>),
    /// It came up and did not come to an end.
    NoEnd(String),
}

/// The console, line by line, so that it can be waited for with a limit.
pub fn lines_of(qemu: &mut Child) -> Result<Receiver<String>, Failure> {
    let console = qemu.stdout.take().ok_or("qemu without a console")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(console).split(b'\n') {
            let Ok(line) = line else { break };
            if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                break;
            }
        }
    });
    Ok(receiver)
}

/// A job that runs.
struct Current {
    name: String,
    started: Instant,
    said: String,
}

/// Reads what the machine prints until it ends, keeps all of it in `log`, and reports each job.
pub fn watch(
    machine: &str,
    lines: &Receiver<String>,
    (boot_time, run_time): (Duration, Duration),
    log: &Path,
    reports: &mut Vec<Report>,
) -> Result<Ending, Failure> {
    let started = Instant::now();
    let mut deadline = started + boot_time;
    let mut is_up = false;
    let mut console = Vec::new();
    let mut current: Option<Current> = None;
    let mut kept = File::create(log).map_err(|error| format!("writing {}: {error}", log.display()))?;
    let ending = loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let _ = writeln!(kept, "{line}");
                if line.starts_with("KENNEL-VM-END") {
                    break Ending::Done;
                } else if let Some(kernel) = line.strip_prefix("KENNEL-VM-UP ") {
                    is_up = true;
                    deadline = Instant::now() + run_time;
                    println!(
                        "{machine}: Linux {kernel} is up after {:.1} s",
                        started.elapsed().as_secs_f64()
                    );
                } else if let Some((name, who)) =
                    line.strip_prefix("KENNEL-VM-JOB ").and_then(|job| job.split_once(' '))
                {
                    let name = format!("{name} on {machine} ({who})");
                    current = Some(Current { name, started: Instant::now(), said: String::new() });
                } else if let Some(status) = line.strip_prefix("KENNEL-VM-DONE ") {
                    if let Some(job) = current.take() {
                        reports.push(report(job, status == "0", log));
                    }
                } else if let Some(job) = &mut current {
                    let _ = writeln!(job.said, "{line}");
                } else if !is_up {
                    console.push(line);
                }
            }
            Err(_) if !is_up => break Ending::NoBoot(console),
            Err(RecvTimeoutError::Timeout) => break Ending::NoEnd(format!("no end after {run_time:?}")),
            Err(RecvTimeoutError::Disconnected) => break Ending::NoEnd("it stopped too early".to_owned()),
        }
    };
    if let Some(job) = current {
        reports.push(report(job, false, log));
    }
    Ok(ending)
}

fn report(job: Current, succeeded: bool, log: &Path) -> Report {
    let mut tally = Tally::read(&job.said);
    let has_none = tally.passed == 0 && tally.skipped.is_empty();
    if tally.failed == 0 && (!succeeded || has_none) {
        // A filter that fits no test would pass for ever.
        tally.failed = 1;
    }
    let time = job.started.elapsed();
    println!(
        "{:<28} {:>5} passed {:>4} failed {:>4} skipped {:>8.1} s",
        job.name,
        tally.passed,
        tally.failed,
        tally.skipped.len(),
        time.as_secs_f64()
    );
    if tally.failed > 0 {
        println!("{}\n{}: all it said is in {}", suite::failures(&job.said), job.name, log.display());
    }
    Report { name: job.name, time, tally }
}
