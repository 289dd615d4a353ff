//! The stand-in for models' APIs, `model.py`, as a process of the test's.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// What it says at the end.
pub const FINAL: &str = "The kennel round is over.";

/// The stand-in. It ends with the value.
pub struct Model {
    child: Child,
    log: PathBuf,
    /// Its port, on the host's loopback.
    pub port: u16,
}

impl Model {
    /// Starts it with a script.
    pub fn start(folder: &Path, script: &Value) -> Model {
        let (program, steps, log) = (folder.join("model.py"), folder.join("script.json"), folder.join("log"));
        std::fs::write(&program, include_str!("model.py")).expect("a scratch folder is writable");
        std::fs::write(&steps, script.to_string()).expect("a scratch folder is writable");
        let mut command = Command::new("python3");
        command.arg(program).arg(steps).arg(&log).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 can be started");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is a pipe");
        BufReader::new(output).read_line(&mut line).expect("it says its port");
        let port = line.trim().parse().expect("it says its port");
        Model { child, log, port }
    }

    /// All requests that it got, in order.
    pub fn requests(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().map(|line| serde_json::from_str(line).expect("it writes JSON")).collect()
    }

    /// What the agent sent back after the step of this number.
    pub fn result_of(&self, step: u64) -> String {
        let next = |request: &&Value| request["answer"]["step"] == step + 1;
        let request = self.requests().iter().find(next).map(|request| request["result"].to_string());
        request.unwrap_or_default()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
