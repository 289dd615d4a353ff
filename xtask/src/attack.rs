//! `cargo xtask attack`: the programs that look for ways out by themselves, as everybody we can be.
//!
//! Each part is a role of the program of the suites. It is told what to do by its environment, prints a seed, writes what
//! it finds as files, and ends with one line that sums it up. `cargo xtask test` runs the same parts for a short time.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Failure;
use crate::cargo;
use crate::stage::Stage;
use crate::suite;
use crate::test::PROGRAM;
use crate::who::Who;

/// What a part is called on the command line, and its role.
const PARTS: &[(&str, &str)] = &[
    ("files", "attack_files"),
    ("gate", "attack_gate"),
    ("gate", "attack_guess"),
    ("gate", "attack_rules"),
    ("gate", "attack_budget"),
];

/// How long all parts take together in `cargo xtask test`, in seconds.
pub const IN_ALL: u64 = 60;

/// What the reports call them.
pub fn targets() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|(_, target)| *target)
}

/// Whether a suite is one of these.
pub fn is_part(target: &str) -> bool {
    targets().any(|name| name == target)
}

/// What the command line says.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    /// For each part, as each user.
    seconds: u64,
    seed: Option<u64>,
    replay: Option<PathBuf>,
    /// Targets; empty means all.
    parts: Vec<&'static str>,
}

impl Wanted {
    fn read(words: &[String]) -> Result<Wanted, Failure> {
        let mut wanted = Wanted { seconds: 60, seed: None, replay: None, parts: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (flag, value) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let mut value =
                || value.clone().or_else(|| words.next().cloned()).ok_or(format!("{flag} takes a value"));
            match flag {
                "--seconds" => wanted.seconds = value()?.parse().map_err(|_| "--seconds takes a number")?,
                "--seed" => wanted.seed = Some(value()?.parse().map_err(|_| "--seed takes a number")?),
                "--replay" => wanted.replay = Some(value()?.into()),
                name => {
                    let targets = PARTS.iter().filter(|(part, _)| *part == name).map(|(_, target)| *target);
                    let before = wanted.parts.len();
                    wanted.parts.extend(targets);
                    if wanted.parts.len() == before {
                        return Err(format!("attack: no part or flag called {name}").into());
                    }
                }
            }
        }
        Ok(wanted)
    }
}

/// Runs all parts, or those that are named. Returns whether nothing was found.
///
/// # Errors
/// When something does not build or cannot be started.
pub fn attack(words: &[String]) -> Result<bool, Failure> {
    let wanted = Wanted::read(words)?;
    let built = cargo::build(&["build", "--package", "kennel-cli", "--bins", "--test", PROGRAM])?;
    let stage = Stage::new()?;
    let kennel = stage.add(&cargo::binary(&built, "kennel")?.path, "kennel")?;
    let replay = match &wanted.replay {
        Some(file) => Some(stage.add(file, "replayed.history")?),
        None => None,
    };
    let program = built.iter().find(|program| program.name == PROGRAM).ok_or("cargo built no suites")?;
    let place = stage.add(&program.path, &format!("{PROGRAM}-tests"))?;
    let mut sums = Vec::new();
    let mut well = true;
    for target in targets() {
        let named = wanted.parts.is_empty() || wanted.parts.contains(&target);
        // A history is about files unless it is said to be about something else.
        // Guesses, readings and budgets have no history.
        let has_history = !["attack_guess", "attack_rules", "attack_budget"].contains(&target);
        if !named
            || (replay.is_some() && !has_history)
            || (replay.is_some() && wanted.parts.is_empty() && target != PARTS[0].1)
        {
            continue;
        }
        for who in Who::all() {
            println!("\n== {target}, as {}", who.name());
            let mut command = who.command(&place, &who.home(stage.path())?);
            command.env("KENNEL_BIN", &kennel);
            environment(&mut command, target, *who, &stage)?;
            duration(&mut command, wanted.seconds, wanted.seed);
            if let Some(file) = &replay {
                command.env("KENNEL_ATTACK_REPLAY", file);
            }
            let (sum, succeeded) = run(&mut command, target)?;
            sums.push(format!("as {}: {sum}", who.name()));
            well &= succeeded;
            keep_findings(target, *who, &stage)?;
        }
    }
    println!();
    sums.iter().for_each(|sum| println!("{sum}"));
    if sums.is_empty() {
        return Err("there is no such part to run".into());
    }
    Ok(well)
}

/// How long a part takes, and what its attacks are made from.
pub fn duration(command: &mut Command, seconds: u64, seed: Option<u64>) {
    let seed = seed.unwrap_or_else(random_seed);
    command.env("KENNEL_ATTACK_SECONDS", seconds.to_string()).env("KENNEL_ATTACK_SEED", seed.to_string());
}

/// What a part is told besides.
///
/// # Errors
/// When its folder for findings cannot be made.
pub fn environment(command: &mut Command, target: &str, who: Who, stage: &Stage) -> Result<(), Failure> {
    command.env("KENNEL_TEST_ROLE", target);
    command.env("KENNEL_ATTACK_FINDINGS", who.home(stage.path())?.join(FINDINGS));
    // What the caller says about the rest is passed on.
    for name in [
        "KENNEL_ATTACK_ONLY",
        "KENNEL_ATTACK_JOBS",
        "KENNEL_ATTACK_TIMES",
        "KENNEL_ATTACK_LOG",
        "KENNEL_ATTACK_SHRINK",
        "KENNEL_ATTACK_STRICT",
        "KENNEL_ATTACK_WAY",
        "KENNEL_ATTACK_GUESSES",
        "KENNEL_ATTACK_FIGURES",
        "KENNEL_ATTACK_ROUND",
    ] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    Ok(())
}

/// In a user's home.
const FINDINGS: &str = "findings";

/// A seed that is another for each commit, and the same for everybody who tests that one: what a change is refused for can
/// be tried by whoever wrote it. Outside of a repository it is random.
pub fn seed_of_commit() -> u64 {
    let mut git = Command::new("git");
    git.args(["rev-parse", "HEAD"]).current_dir(cargo::root()).stderr(Stdio::null());
    let commit = git.output().ok().filter(|output| output.status.success());
    let digits = commit.and_then(|output| String::from_utf8(output.stdout).ok());
    let seed = digits.and_then(|digits| u64::from_str_radix(digits.get(..12)?, 16).ok());
    seed.unwrap_or_else(random_seed)
}

/// A seed that is short enough to be typed.
pub fn random_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64 ^ u64::from(std::process::id()) << 20) % 1_000_000_007
}

/// Copies what was found to where it stays, since the stage does not, and says how it is tried again.
///
/// # Errors
/// When it cannot be copied.
pub fn keep_findings(target: &str, who: Who, stage: &Stage) -> Result<(), Failure> {
    let kept = suite::logs()?.join("attack-findings");
    let part = PARTS.iter().find(|(_, name)| *name == target).map_or(target, |(part, _)| part);
    for entry in fs::read_dir(who.home(stage.path())?.join(FINDINGS)).into_iter().flatten() {
        let entry = entry?;
        fs::create_dir_all(&kept)?;
        let name = format!("{}-{}", who.name(), entry.file_name().to_string_lossy());
        let place = kept.join(name);
        fs::copy(entry.path(), &place)?;
        // The next part's findings are not these again.
        fs::remove_file(entry.path())?;
        println!(
            "to try it again, here and after a repair: cargo xtask attack {part} --replay {}",
            place.display()
        );
    }
    Ok(())
}

/// Runs one, passes on what it prints, and returns the line that sums it up.
fn run(command: &mut Command, name: &str) -> Result<(String, bool), Failure> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("starting {name}: {error}"))?;
    let mut last = format!("{name}: it did not say what came of it");
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            println!("{line}");
            if line.starts_with(&format!("{name}: ")) {
                last = line;
            }
        }
    }
    Ok((last, child.wait()?.success()))
}

/// How long each part of a test run takes: they share the time.
pub fn share_of_time() -> u64 {
    (IN_ALL / (PARTS.len() * Who::all().len()) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_parts_are_read_in_any_order() {
        let words = ["gate", "--seconds", "5", "--seed=7"].map(str::to_owned);
        let wanted = Wanted::read(&words).unwrap();
        assert_eq!(
            wanted,
            Wanted {
                seconds: 5,
                seed: Some(7),
                replay: None,
                parts: vec!["attack_gate", "attack_guess", "attack_rules", "attack_budget"]
            }
        );
        for wrong in [&["door"][..], &["--seconds"], &["--seed", "x"]] {
            let words: Vec<String> = wrong.iter().map(|word| (*word).to_owned()).collect();
            assert!(Wanted::read(&words).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_parts_of_a_test_run_share_its_time() {
        let runs = (PARTS.len() * Who::all().len()) as u64;
        assert!((IN_ALL - runs..=IN_ALL).contains(&(share_of_time() * runs)));
    }
}
