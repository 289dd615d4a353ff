//! `cargo xtask bench`: the benchmarks of `bench/`, in release builds, as everybody we can be. What they print, with
//! the machine it was measured on, becomes `bench/RESULTS.md`.

use std::fs;

use crate::Failure;
use crate::cargo;
use crate::peers;
use crate::stage::Stage;
use crate::who::Who;

/// In the order in which they stand in the results.
const BENCHMARKS: &[&str] =
    &["startup", "terminal", "library", "pool", "overhead", "git", "globs", "network", "dropins"];

/// Runs all, or those that are named. Only a run of all of them, in earnest, is written down.
///
/// # Errors
/// When something does not build or a benchmark fails. No time that it measures is a failure.
pub fn bench(words: &[String]) -> Result<(), Failure> {
    let (flags, names): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.starts_with("--"));
    if let Some(flag) = flags.iter().find(|flag| **flag != "--quick") {
        return Err(format!("bench: no flag called {flag}").into());
    }
    if let Some(unknown) = names.iter().find(|name| !BENCHMARKS.contains(&name.as_str())) {
        return Err(format!("no benchmark called {unknown}; there are {}", BENCHMARKS.join(", ")).into());
    }
    let mut programs = cargo::build(&["build", "--release", "--package", "kennel-bench"])?;
    programs.extend(cargo::build_release(&["kennel-cli"])?);
    if names.is_empty() || names.iter().any(|name| *name == "dropins") {
        peers::install();
    }
    if names.is_empty() || names.iter().any(|name| *name == "pool") {
        peers::install_sandlock();
    }
    let stage = Stage::new()?;
    if names.is_empty() || names.iter().any(|name| *name == "startup") {
        let plain = cargo::build(&["build", "--release", "--package", "kennel-cli"])?;
        stage.add(&cargo::binary(&plain, "kennel")?.path, "kennel-plain-build")?;
    }
    for name in ["kennel", "probe", "machine"].iter().chain(BENCHMARKS) {
        stage.add(&cargo::binary(&programs, name)?.path, name)?;
    }
    let mut results = run("machine", Who::all()[0], &stage, &flags)?;
    for name in BENCHMARKS {
        if !names.is_empty() && names.iter().all(|wanted| wanted != name) {
            continue;
        }
        for who in Who::all() {
            let heading =
                if Who::all().len() > 1 { format!("{name}, as {}", who.name()) } else { (*name).into() };
            results += &format!("\n## {heading}\n\n{}", run(name, *who, &stage, &flags)?);
        }
    }
    if names.is_empty() && flags.is_empty() {
        let path = cargo::root().join("bench/RESULTS.md");
        fs::write(&path, format!("# Results\n\nWritten by `cargo xtask bench`.\n\n{results}"))?;
        println!("\nwrote {}", path.display());
    }
    Ok(())
}

/// Runs one as `who` and passes on what it prints.
fn run(name: &str, who: Who, stage: &Stage, flags: &[&String]) -> Result<String, Failure> {
    println!("\n== {name}, as {}", who.name());
    let mut command = who.command(&stage.path().join(name), &who.home(stage.path())?);
    if let Some(peers) = peers::folder() {
        command.env("KENNEL_PEERS", peers);
    }
    if let Some(sandlock) = peers::sandlock() {
        command.env("KENNEL_SANDLOCK", sandlock);
    }
    let output = command.args(flags).stderr(std::process::Stdio::inherit()).output()?;
    let said = String::from_utf8(output.stdout)?;
    print!("{said}");
    if output.status.success() { Ok(said) } else { Err(format!("bench {name}: {}", output.status).into()) }
}
