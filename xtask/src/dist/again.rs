//! Whether a release can be built again: another copy of the source, in another folder, by a cargo with another home.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Failure;
use crate::cargo;
use crate::debian::run;
use crate::stage::Stage;

/// Builds the last commit elsewhere and compares the checksums.
///
/// # Errors
/// When one differs, or it does not build there.
pub fn compare(architectures: &[&str], sums: &str) -> Result<(), Failure> {
    let stage = Stage::new()?;
    let copy = stage.path().join("another/copy of the source");
    run(Command::new("git")
        .args(["clone", "--quiet", "--no-local", "."])
        .arg(&copy)
        .current_dir(cargo::root()))?;
    let home = other_home(stage.path())?;
    println!("building again in {}", copy.display());
    let mut again = cargo::cargo();
    again.current_dir(&copy).env("CARGO_HOME", home).env_remove("KENNEL_RELEASE_KEY");
    again.args(["run", "--quiet", "--package", "xtask", "--", "dist"]).args(architectures);
    let status = again.status()?;
    if !status.success() {
        return Err(format!("building again: {status}").into());
    }
    let others = fs::read_to_string(copy.join("dist/SHA256SUMS"))?;
    let differing: Vec<&str> =
        sums.lines().filter(|line| !others.lines().any(|other| other == *line)).collect();
    if differing.is_empty() && sums.lines().count() == others.lines().count() {
        println!("the same bytes, built twice: {} files", sums.lines().count());
        return Ok(());
    }
    Err(format!("built again, these have other bytes:\n{}", differing.join("\n")).into())
}

/// A home for cargo with this one's settings and downloads, under another path.
fn other_home(stage: &Path) -> Result<std::path::PathBuf, Failure> {
    let home = stage.join("another home");
    fs::create_dir_all(&home)?;
    let ours = crate::static_linux::cargo_home()?;
    for name in ["config.toml", "registry", "git"] {
        // Where crates come from, and what was downloaded; not what signs in.
        if ours.join(name).exists() {
            run(Command::new("cp").arg("-a").arg(ours.join(name)).arg(home.join(name)))?;
        }
    }
    Ok(home)
}
