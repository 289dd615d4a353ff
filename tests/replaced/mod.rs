//! Rules are about names for the whole run: the host replaces, removes, makes and renames what a rule hides or keeps,
//! while a command inside waits for it.

mod absent;
mod mounts;
mod moved;
mod ways;
mod window;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use kennel_tests::{Ran, Scratch, kennel, text};
use serde_json::Value;

kennel_tests::roles! {
    "read-on" => window::read_on,
}

/// A shell inside a sandbox that does what it is asked, one line after the other.
struct Inside {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Inside {
    /// Starts it, and waits until the watches must be in place.
    fn start(mut command: Command) -> Inside {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kennel can be started");
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut inside = Inside { child, to, from };
        assert_eq!(inside.ask("echo ready"), "ready\n");
        kennel_tests::watches_names(inside.child.id());
        inside
    }

    /// `kennel run FLAGS -- sh`, with a report.
    fn run(yard: &Scratch, flags: &[&str]) -> Inside {
        let mut command = kennel(["run", "--report"]);
        command.arg(yard.join("report.json")).args(flags).args(["--", "sh"]).current_dir(yard.join("work"));
        command.env("LC_ALL", "C");
        Inside::start(command)
    }

    /// What a line of shell prints, errors included.
    fn ask(&mut self, line: &str) -> String {
        let to = self.to.as_mut().expect("the shell still listens");
        writeln!(to, "{{ {line}; }} 2>&1; echo; echo '--over--'").expect("the shell still listens");
        let mut said = String::new();
        loop {
            let before = said.len();
            assert!(self.from.read_line(&mut said).expect("the shell answers") > 0, "it ended: {said}");
            if &said[before..] == "--over--\n" {
                said.truncate(before.saturating_sub(1));
                return said;
            }
        }
    }

    /// Asks again and again until what is said no longer has `word` in it; fails after a while.
    #[track_caller]
    fn until_without(&mut self, line: &str, word: &str) {
        let began = Instant::now();
        loop {
            let said = self.ask(line);
            if !said.contains(word) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "it still says: {said}");
        }
    }

    /// Ends the shell; returns what kennel said.
    fn end(mut self) -> Ran {
        drop(self.to.take());
        let output = self.child.wait_with_output().expect("a child can be waited for");
        Ran::from(output)
    }
}

fn report(yard: &Scratch) -> Value {
    let text = std::fs::read_to_string(yard.join("report.json")).expect("there is a report");
    serde_json::from_str(&text).expect("the report is JSON")
}

/// What the report says was exposed at a path.
fn exposed<'a>(report: &'a Value, path: &Path) -> Option<&'a Value> {
    let violations = report["violations"].as_array()?;
    violations.iter().find(|one| one["what"] == "exposed" && one["path"] == text(path).as_str())
}
