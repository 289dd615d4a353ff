//! sandlock (PyPI) beside kennel: a sandbox for each run, and clones of one sandbox. It has Landlock and a filter, and no
//! namespaces. Its clones are made many at a time; what is measured is the share of one.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use kennel_bench::Failure;

const PROGRAM: &str = include_str!("sandlock.py");

/// A Python that runs sandboxes when it is told to.
pub struct Sandlock {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Sandlock {
    /// Starts it, where `cargo xtask bench` has installed it and it works.
    pub fn start() -> Option<Sandlock> {
        let packages = std::env::var_os("KENNEL_SANDLOCK")?;
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM]).env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take()?));
        let mut started = Sandlock { child, to, from };
        ["run", "clone"].iter().all(|way| started.run(way).is_ok()).then_some(started)
    }

    /// Has it run `/bin/true` one way.
    pub fn run(&mut self, way: &str) -> Result<Duration, Failure> {
        writeln!(self.to.as_mut().ok_or("sandlock has ended")?, "{way}")?;
        let mut answer = String::new();
        self.from.read_line(&mut answer)?;
        Ok(Duration::from_nanos(answer.trim().parse().map_err(|_| "sandlock did not answer")?))
    }
}

impl Drop for Sandlock {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.child.wait();
    }
}
