//! `cargo xtask check-foreign`: clippy for systems that this one is not.
//!
//! A crate that does not compile on macOS or Windows would otherwise be noticed by the first person who builds it there.
//! Checking needs neither a linker nor an SDK of the other system, only the metadata of its standard library: see
//! [`standard_library`]. Where that cannot be had, the check is skipped, with the reason.

pub mod link;
mod musl;
pub mod standard_library;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::Failure;
use crate::cargo;
use crate::suite::{self, Report};
use crate::tally::{Skip, Tally};
use crate::test;
use standard_library::{Purpose, StandardLibrary};

/// The systems.
const TARGETS: [&str; 3] = ["aarch64-apple-darwin", "x86_64-apple-darwin", "x86_64-pc-windows-msvc"];

/// The packages that have to compile there without a warning. What they depend on has to compile.
const PACKAGES: [&str; 8] = [
    "kennel",
    "kennel-cli",
    "kennel-entrypoint",
    "kennel-macos",
    "kennel-policy",
    "kennel-resolve",
    "kennel-windows",
    "xtask",
];

/// Packages whose tests and benchmarks are Linux's alone.
const LIBRARIES: [&str; 1] = ["kennel-proxy"];

/// Checks for every target. Returns whether all is well.
///
/// # Errors
/// When something could not even be tried.
pub fn check_foreign(words: &[String]) -> Result<bool, Failure> {
    let install = match words {
        [] => true,
        [flag] if flag == "--no-install" => false,
        [word, ..] => return Err(format!("check-foreign: unexpected argument {word}").into()),
    };
    let mut reports = Vec::new();
    check(install, &mut reports)?;
    test::sum_up(&reports)
}

/// Does the same as a part of the tests. Unless `install`, a standard library that is missing stays missing.
///
/// # Errors
/// When cargo cannot be started.
pub fn check(install: bool, reports: &mut Vec<Report>) -> Result<(), Failure> {
    for target in TARGETS {
        match standard_library::find(target, Purpose::Check, install) {
            Ok(found) => {
                for (part, packages, which) in
                    [("", &PACKAGES[..], "--all-targets"), ("libraries", &LIBRARIES, "--lib")]
                {
                    let mut clippy = clippy(target, &found, packages, which);
                    reports.push(suite::run(target, part, &mut clippy, suite::BUILD)?);
                }
            }
            Err(reason) => reports.push(skipped(target, &reason)),
        }
    }
    Ok(())
}

fn clippy(target: &str, library: &StandardLibrary, packages: &[&str], which: &str) -> Command {
    let mut command = cargo::cargo();
    command.args(["clippy", "--quiet", which, "--no-deps", "--target", target]);
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    if packages.contains(&"kennel-windows") {
        // With the program that its tests start, and so with these.
        command.args(["--features", "kennel-windows/probe"]);
    }
    command.args(["--", "-D", "warnings"]);
    // A folder of its own: with other flags cargo would build everything in the usual one again, each time.
    command.env("CARGO_TARGET_DIR", cargo::root().join("target").join("check-foreign"));
    match no_compiler() {
        Ok(script) => {
            command.env(format!("CC_{}", target.replace('-', "_")), script);
        }
        Err(error) => eprintln!("check-foreign: writing a stand-in for a C compiler: {error}"),
    }
    if let Some(flags) = library.encoded_flags() {
        // Build scripts and procedural macros are for this system and get none of these flags.
        command.env("CARGO_ENCODED_RUSTFLAGS", flags);
    }
    command
}

/// A program that passes for a C compiler of another system: ring's build script wants one, and what it compiles is only looked
/// at when something is linked, which a check never does. It
/// fails when it is asked who it is, and is then taken for one like GCC.
fn no_compiler() -> std::io::Result<PathBuf> {
    const SCRIPT: &str = "#!/bin/sh\n\
        case \"$1\" in -E|-\\?) exit 1;; esac\n\
        while [ $# -gt 0 ]; do\n\
        case \"$1\" in -o) : > \"$2\";; -o*) : > \"${1#-o}\";; esac\n\
        shift\n\
        done\n";
    let folder = cargo::root().join("target").join("check-foreign");
    std::fs::create_dir_all(&folder)?;
    let script = folder.join("no-compiler");
    if std::fs::read_to_string(&script).is_ok_and(|text| text == SCRIPT) {
        return Ok(script);
    }
    std::fs::write(&script, SCRIPT)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(script)
}

fn skipped(target: &str, reason: &str) -> Report {
    println!("{target:<28} SKIPPED: {reason}");
    let skip = Skip { reason: reason.to_owned(), test: "lints".to_owned() };
    let tally = Tally { skipped: [skip].into(), ..Tally::default() };
    Report { name: target.to_owned(), time: Duration::ZERO, tally }
}
