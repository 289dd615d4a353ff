//! The sandboxes that the attack is made from.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use kennel_tests::{Scratch, kennel, role};

use crate::attack_gate::file;
use crate::attack_gate::tries::{ALLOWED, Try};

/// `kennel run` with the allowed host, and this program in it.
pub fn kennel_with(words: &[&str]) -> Command {
    let flags = ["--no-settings", "--quiet", "--allow-domain", ALLOWED];
    let mut command = kennel(["run"]);
    command.args(role::inside("attack_gate_inside", &flags, words));
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command
}

/// A sandbox that sends what it is told to.
pub struct Sandbox {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    file: PathBuf,
}

impl Sandbox {
    /// Starts it.
    pub fn start(scratch: &Scratch) -> std::io::Result<Sandbox> {
        let mut child = kennel_with(&["serve"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        Ok(Sandbox { child, lines: BufReader::new(stdout), file: scratch.join("try.txt") })
    }

    /// What came back, and whether it was the other host's. It may be nothing.
    pub fn send(&mut self, attempt: &Try) -> Result<(bool, String), String> {
        let broken = |error: std::io::Error| format!("the sandbox ended: {error}");
        file::write(&self.file, attempt, "").map_err(|error| format!("{}: {error}", self.file.display()))?;
        let stdin = self.child.stdin.as_mut().ok_or("the sandbox hears nothing")?;
        writeln!(stdin, "{}", self.file.display()).map_err(broken)?;
        let mut line = String::new();
        if self.lines.read_line(&mut line).map_err(broken)? == 0 {
            return Err("the sandbox ended".into());
        }
        match line.trim_end_matches('\n').split_once(' ') {
            Some(("canary", answer)) => Ok((true, answer.to_owned())),
            Some(("other", answer)) => Ok((false, answer.to_owned())),
            _ => Err(format!("the sandbox said: {line:?}")),
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
