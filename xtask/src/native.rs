//! `cargo xtask native-test`: what is tested on a machine of the system it is, macOS or Windows: lints, and the unit, doc and
//! end-to-end tests of the crates that have something to do there. On Linux that is `cargo xtask test`.
//!
//! This task alone has to build everywhere, as the rest of the workshop needs a Unix.

use std::process::Command;

use crate::Failure;

/// The crates that do something on macOS or Windows.
const PACKAGES: [&str; 6] =
    ["kennel-policy", "kennel-macos", "kennel-windows", "kennel-proxy", "kennel", "kennel-cli"];

/// Runs it. Returns whether all is well.
///
/// # Errors
/// When cargo cannot be started.
pub fn native_test(words: &[String]) -> Result<bool, Failure> {
    if let [word, ..] = words {
        return Err(format!("native-test: unexpected argument {word}").into());
    }
    let mut is_well = true;
    // The command itself, which end-to-end tests run, and the program that they run in it.
    const PROBE: [&str; 2] = ["--features", "kennel-windows/probe"];
    let [features, probe] = PROBE;
    for (task, rest) in [
        ("clippy", [features, probe, "--all-targets", "--", "-D", "warnings"].as_slice()),
        ("build", &PROBE),
        ("test", &[features, probe, "--no-fail-fast"]),
    ] {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args([task, "--locked"])
            .args(PACKAGES.iter().flat_map(|package| ["--package", package]))
            .args(rest);
        println!("cargo {task}");
        is_well &= cargo.status().map_err(|error| format!("running cargo: {error}"))?.success();
    }
    Ok(is_well)
}
