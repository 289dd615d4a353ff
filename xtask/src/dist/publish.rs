//! Signing a release and putting it on GitHub, by tools that their runners have: `ssh-keygen` and `gh`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::expect_tag;
use super::release::Release;
use crate::Failure;
use crate::cargo;
use crate::debian::run;
use crate::stage::Stage;

/// The name under which releases are signed; a signature for something else does not count.
const NAMESPACE: &str = "kennel-release";

/// Signs `SHA256SUMS` with the private SSH key in `KENNEL_RELEASE_KEY`, if there is one.
///
/// # Errors
/// When the key does not sign.
pub fn sign(folder: &Path) -> Result<(), Failure> {
    let Some(key) = std::env::var("KENNEL_RELEASE_KEY").ok().filter(|key| !key.trim().is_empty()) else {
        println!("note: not signed, since KENNEL_RELEASE_KEY has no key");
        return Ok(());
    };
    let stage = Stage::new()?;
    let place = stage.path().join("key");
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place)?;
    writeln!(file, "{}", key.trim())?;
    let mut sign = Command::new("ssh-keygen");
    sign.args(["-q", "-Y", "sign", "-n", NAMESPACE, "-f"]).arg(&place).arg(folder.join("SHA256SUMS"));
    run(&mut sign)?;
    println!("SHA256SUMS.sig");
    Ok(())
}

/// Makes a release of `dist/` on GitHub.
///
/// # Errors
/// When the tag is not this version's, or `gh` fails.
pub fn publish(words: &[String]) -> Result<(), Failure> {
    let [flag, tag] = words else { return Err("publish: say --tag TAG".into()) };
    if flag != "--tag" {
        return Err(format!("publish: unexpected argument {flag}").into());
    }
    expect_tag(&Release::read()?, tag)?;
    let folder = cargo::root().join("dist");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    let mut gh = Command::new("gh");
    gh.args(["release", "create", tag, "--verify-tag", "--title", tag]);
    gh.args(["--notes", "See CHANGELOG.md."]).args(&files).current_dir(cargo::root());
    let status = gh.status().map_err(|error| format!("gh: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("gh release create: {status}").into()) }
}
