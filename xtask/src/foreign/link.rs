//! `cargo xtask link-foreign`: the real `kennel` for macOS, linked.
//!
//! Clippy does not see a function that the system does not have: a linker does. `zig` comes with what macOS' own C library
//! exports (libSystem, no frameworks), so its linker needs no SDK. It comes from PyPI, with the wrapper that cargo calls it by,
//! in fixed versions, into the user's cache folder. What was linked cannot be run here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::standard_library::{self, Purpose, StandardLibrary};
use crate::debian::run;
use crate::suite::{self, Report};
use crate::tally::Tally;
use crate::{Failure, cache, cargo, test};

/// The targets, each with the number of its processor in a Mach-O file.
const TARGETS: [(&str, u32); 2] =
    [("aarch64-apple-darwin", 0x0100_000c), ("x86_64-apple-darwin", 0x0100_0007)];

/// The linker and the wrapper around it.
const PACKAGES: [&str; 2] = ["ziglang==0.17.0", "cargo-zigbuild==0.24.0"];

/// Links for both targets. Returns whether all is well.
///
/// # Errors
/// When something could not even be tried.
pub fn link_foreign(words: &[String]) -> Result<bool, Failure> {
    let install = match words {
        [] => true,
        [flag] if flag == "--no-install" => false,
        [word, ..] => return Err(format!("link-foreign: unexpected argument {word}").into()),
    };
    let mut reports = Vec::new();
    for (target, processor) in TARGETS {
        let name = format!("link {target}");
        let tools =
            zig(install).and_then(|zig| Ok((zig, standard_library::find(target, Purpose::Link, install)?)));
        let mut report = match tools {
            Ok((zig, library)) => suite::run(&name, "", &mut link(target, &zig, &library), suite::BUILD)?,
            Err(reason) => super::skipped(&name, &reason),
        };
        // A build that succeeds says nothing about what it made.
        if report.tally.failed == 0 && report.tally.skipped.is_empty() {
            check(target, processor, &mut report);
        }
        reports.push(report);
    }
    test::sum_up(&reports)
}

fn link(target: &str, zig: &Path, library: &StandardLibrary) -> Command {
    let mut command = cargo::cargo();
    command.args(["zigbuild", "--quiet", "--package", "kennel-cli", "--target", target]);
    command.env("CARGO_TARGET_DIR", folder());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let parts = [zig.join("bin")].into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(parts).unwrap_or(path.clone()));
    command.env("ZIG_GLOBAL_CACHE_DIR", zig.join("cache"));
    command.env("CARGO_ZIGBUILD_CACHE_DIR", zig.join("wrapper"));
    if let Some(flags) = library.encoded_flags() {
        command.env("CARGO_ENCODED_RUSTFLAGS", flags);
    }
    command
}

fn folder() -> PathBuf {
    cargo::root().join("target").join("link-foreign")
}

/// The folder of the linker and its wrapper; fetched where it is not there and `install` says so.
fn zig(install: bool) -> Result<PathBuf, String> {
    let folder = cache::folder("zig")?.join(PACKAGES.join("-").replace("==", "-"));
    if folder.join("complete").is_file() {
        return Ok(folder);
    }
    if !install {
        return Err("no zig in the cache folder".to_owned());
    }
    println!("fetching {}", PACKAGES.join(" and "));
    let _ = fs::remove_dir_all(&folder);
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    run(Command::new(folder.join("bin/pip")).args(["install", "--quiet"]).args(PACKAGES))?;
    // Written last: a folder without it is not whole.
    fs::write(folder.join("complete"), "").map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Looks at what was linked: a program for that processor.
fn check(target: &str, processor: u32, report: &mut Report) {
    const MAGIC: u32 = 0xfeed_facf;
    const EXECUTE: u32 = 2;
    let program = folder().join(target).join("debug/kennel");
    let word = |bytes: &[u8], index: usize| {
        let four = bytes.get(4 * index..4 * index + 4)?;
        Some(u32::from_le_bytes(four.try_into().ok()?))
    };
    let bytes = fs::read(&program).unwrap_or_default();
    let found = [0, 1, 3].map(|index| word(&bytes, index).unwrap_or(0));
    let failed = found != [MAGIC, processor, EXECUTE];
    if failed {
        println!("{}: not a program for {target}: {found:x?}", program.display());
    } else {
        println!("{:28} {} bytes", "", bytes.len());
    }
    report.tally = Tally { passed: usize::from(!failed), failed: usize::from(failed), ..Tally::default() };
}
