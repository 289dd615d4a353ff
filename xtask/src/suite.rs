//! Running one program of tests: its output goes to a file, its time is limited, and what came of it is read.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::tally::Tally;

/// No suite needs nearly as long; one that does hangs.
pub const SUITE: Duration = Duration::from_secs(20 * 60);
/// No build needs nearly as long, on a busy machine either.
pub const BUILD: Duration = Duration::from_secs(60 * 60);

/// What came of a suite.
#[derive(Debug)]
pub struct Report {
    /// Its name, and who ran it.
    pub name: String,
    /// How long it took.
    pub time: Duration,
    /// What came of it.
    pub tally: Tally,
}

/// Where the full outputs are kept: beside this program.
///
/// # Errors
/// When the folder cannot be made.
pub fn logs() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new(".")).join("xtask-logs");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// How a suite that somebody runs is called.
pub fn shown(name: &str, who: &str) -> String {
    if who.is_empty() { name.to_owned() } else { format!("{name} ({who})") }
}

/// Runs `command` to its end, or for as long as `longest`, and prints a line about it; where something failed, also what
/// was said.
///
/// # Errors
/// When it cannot be started or its output cannot be kept.
pub fn run(
    name: &str,
    who: &'static str,
    command: &mut Command,
    longest: Duration,
) -> Result<Report, Failure> {
    let shown = shown(name, who);
    let log = logs()?.join(format!("{}.log", shown.replace(' ', "-").replace(['(', ')'], "")));
    let output = File::create(&log).map_err(|error| format!("writing {}: {error}", log.display()))?;
    command.stdout(output.try_clone()?).stderr(output);
    // A group of its own, so that whatever a suite that hangs has started ends with it.
    let started = Instant::now();
    let mut child = command.process_group(0).spawn().map_err(|error| format!("starting {name}: {error}"))?;
    let end = wait(&mut child, started + longest)?;
    let time = started.elapsed();
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let mut tally = Tally::read(&said);
    let succeeded = end.is_some_and(|end| end.success());
    if !succeeded && tally.failed == 0 {
        // It did not live to say which test it was.
        tally.failed = 1;
    }
    println!(
        "{shown:<28} {:>5} passed {:>4} failed {:>4} skipped {:>8.1} s",
        tally.passed,
        tally.failed,
        tally.skipped.len(),
        time.as_secs_f64()
    );
    if !succeeded {
        let how = end.map_or(format!("was killed after {longest:?}"), |end| format!("ended with {end}"));
        println!("{}\n{shown} {how}; all it said is in {}", failures(&said), log.display());
    }
    Ok(Report { name: shown, time, tally })
}

/// Waits, but not for ever: `None` when the time was up and it was killed.
fn wait(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>, Failure> {
    loop {
        if let Some(end) = child.try_wait()? {
            return Ok(Some(end));
        }
        if Instant::now() >= deadline {
            Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The part of the output that speaks of failures; else, as when a program crashed or did not compile, the end of it.
pub fn failures(said: &str) -> String {
    let start = said.find("\nfailures:\n");
    let part = start.map_or(said, |start| &said[start..]);
    let lines: Vec<&str> = part.lines().collect();
    let shown = if start.is_some() {
        &lines[..lines.len().min(400)]
    } else {
        &lines[lines.len().saturating_sub(60)..]
    };
    shown.join("\n")
}
