//! The programs that are compared.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;

/// A program that was built together with this one, and lies beside it.
///
/// # Errors
/// When it is not there.
pub fn beside(name: &str) -> Result<PathBuf, Failure> {
    let path = std::env::current_exe()?.with_file_name(name);
    let help = "run the benchmarks with `cargo xtask bench`, which builds all of them";
    if path.is_file() { Ok(path) } else { Err(format!("{}: no such file; {help}", path.display()).into()) }
}

/// Where an installed program is.
#[must_use]
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Where `cargo xtask bench` put the peers; `None`, and said so, without them.
#[must_use]
pub fn peers(what: &str) -> Option<PathBuf> {
    let modules = std::env::var_os("KENNEL_PEERS").map(|peers| PathBuf::from(peers).join("node_modules"));
    let modules = modules.filter(|modules| modules.is_dir());
    if modules.is_none() {
        println!("SKIPPED: {what} is not installed\n");
    }
    modules
}

/// srt, the real one; its words are still to be added.
#[must_use]
pub fn srt() -> Option<Command> {
    let modules = peers("srt")?;
    let mut command = quiet(&modules.join(".bin/node"), &[]);
    command.arg(modules.join("@anthropic-ai/sandbox-runtime/dist/cli.js"));
    Some(command)
}

/// A command with empty standard streams. Errors show.
#[must_use]
pub fn quiet(program: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// `kennel run FLAGS -- …`; the command is still to be added.
///
/// # Errors
/// When kennel was not built.
pub fn kennel<S: AsRef<OsStr>>(flags: &[S]) -> Result<Command, Failure> {
    let mut command = quiet(&beside("kennel")?, &["run", "--no-settings"]);
    command.args(flags).arg("--");
    Ok(command)
}

/// The same with another kennel, such as one from before a change, that `KENNEL_BENCH_BEFORE` names.
#[must_use]
pub fn kennel_before<S: AsRef<OsStr>>(flags: &[S]) -> Option<Command> {
    let before = PathBuf::from(std::env::var_os("KENNEL_BENCH_BEFORE")?);
    let mut command = quiet(&before, &["run", "--no-settings"]);
    command.args(flags).arg("--");
    Some(command)
}

/// What bwrap has to be told to come near kennel's default policy. There is no filter of system calls, and no
/// Landlock, in it.
pub const BWRAP: &[&str] = &[
    "--unshare-all",
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--tmpfs",
    "/tmp",
    "--die-with-parent",
];

/// bwrap with a policy as near to kennel's default as it goes; `None` where it is not installed.
#[must_use]
pub fn bwrap(more: &[&str]) -> Option<Command> {
    let mut command = quiet(&installed("bwrap")?, BWRAP);
    command.args(more);
    Some(command)
}
