//! The outcome as JSON, for `--report`.

use std::io;
use std::path::Path;
use std::time::Duration;

use kennel::attached::{Ended, Error, Outcome};
use serde_json::{Value, json};

/// Writes the outcome to a file.
pub fn write(path: &Path, result: &Result<Outcome, Error>, exit_code: i32) -> io::Result<()> {
    let mut text = format!("{:#}", report(result, exit_code));
    text.push('\n');
    std::fs::write(path, text)
}

fn report(result: &Result<Outcome, Error>, exit_code: i32) -> Value {
    match result {
        Ok(outcome) => {
            let (ended, signal) = match outcome.ended {
                Ended::Exited(_) => ("exited", None),
                Ended::Signalled(signal) => ("signalled", Some(signal)),
                Ended::TimedOut => ("timed-out", Some(9)),
                Ended::Killed => ("killed", Some(9)),
            };
            json!({
                "exit_code": exit_code,
                "ended": ended,
                "signal": signal,
                "killed_by_timeout": outcome.ended == Ended::TimedOut,
                "wall_time_ms": milliseconds(outcome.wall_time),
                "cpu_user_ms": milliseconds(outcome.cpu_user),
                "cpu_system_ms": milliseconds(outcome.cpu_system),
                "peak_memory_bytes": outcome.peak_memory,
                "not_enforced": outcome.not_enforced,
                "error": null,
            })
        }
        Err(error) => json!({ "exit_code": exit_code, "ended": "not-started", "error": error.to_string() }),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
