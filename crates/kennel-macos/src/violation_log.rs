//! What a sandbox was refused, as the system's log tells it.
//!
//! Every refusal of a profile is logged with the sandbox's tag. Only administrators may read the log, and nobody inside a
//! sandbox; without it a run is the same, and tells no violations. `log` is a program of the system's, and takes a moment to start: refusals
//! of a command that ends sooner are not told.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::sys;

/// The system's reader of its log.
const LOG: &str = "/usr/bin/log";

/// The most lines that are kept, and the longest that is.
const MAX: usize = 1000;
const LONGEST: usize = 16 * 1024;

/// Reads the log while a sandbox runs.
#[derive(Debug)]
pub struct ViolationLog {
    reader: Child,
    found: Arc<(Mutex<Lines>, Condvar)>,
}

#[derive(Debug, Default)]
struct Lines {
    kept: Vec<String>,
    more: u64,
}

impl ViolationLog {
    /// Starts to read, where this process may. `tag` has letters, digits and dashes only.
    #[must_use]
    pub fn start(tag: &str) -> Option<ViolationLog> {
        if !crate::host::may_read_log() {
            return None;
        }
        let predicate = format!("eventMessage ENDSWITH \"{tag}\"");
        let mut reader = Command::new(LOG)
            .args(["stream", "--style", "ndjson", "--predicate", &predicate])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let output = reader.stdout.take();
        let found = Arc::new((Mutex::new(Lines::default()), Condvar::new()));
        let shared = Arc::clone(&found);
        let read = move || {
            sys::block_signals();
            let Some(output) = output else { return };
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while let Ok(1..) = std::io::Read::take(&mut output, LONGEST as u64).read_until(b'\n', &mut line)
            {
                let (lines, news) = &*shared;
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                if lines.kept.len() < MAX {
                    lines.kept.push(String::from_utf8_lossy(&line).into_owned());
                } else {
                    lines.more += 1;
                }
                news.notify_all();
                line.clear();
            }
        };
        if std::thread::Builder::new().name("kennel-log".into()).spawn(read).is_err() {
            let _ = reader.kill();
            let _ = reader.wait();
            return None;
        }
        Some(ViolationLog { reader, found })
    }

    /// What was logged, each line as JSON, and how many more there were. Waits `late` for what comes late.
    #[must_use]
    pub fn finish(&mut self, late: Duration) -> (Vec<String>, u64) {
        let (lines, news) = &*self.found;
        let lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = match news.wait_timeout(lines, late) {
            Ok((lines, _)) => lines,
            Err(poisoned) => poisoned.into_inner().0,
        };
        (std::mem::take(&mut lines.kept), std::mem::take(&mut lines.more))
    }
}

impl Drop for ViolationLog {
    fn drop(&mut self) {
        let _ = self.reader.kill();
        let _ = self.reader.wait();
    }
}
