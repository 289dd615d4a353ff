//! The log of requests: one line of JSON each, without what was said unless the policy asks for it.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kennel_policy::outcome::ModelCounts;
use serde_json::{Value, json};

/// The most of a request or a response that is logged.
pub const MOST_CONTENTS: usize = 1 << 20;

/// Where lines go.
pub struct Log {
    out: Option<Mutex<Box<dyn Write + Send>>>,
    contents: bool,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("contents", &self.contents).finish_non_exhaustive()
    }
}

/// What a line tells.
#[derive(Debug, Default)]
pub struct Entry<'a> {
    /// The provider's name.
    pub provider: &'a str,
    /// The method and the path, without a query.
    pub method: &'a str,
    /// The path.
    pub path: &'a str,
    /// The model.
    pub model: Option<&'a str>,
    /// The status that the client got.
    pub status: u16,
    /// Why kennel refused it.
    pub refused: Option<&'a str>,
    /// What it used.
    pub counts: ModelCounts,
    /// How long it took.
    pub took: Duration,
    /// Until the first byte of the response.
    pub first_byte: Option<Duration>,
    /// Whether the response came to its end.
    pub whole: bool,
    /// What was said, where that is logged.
    pub request: Option<&'a [u8]>,
    /// What was answered, where that is logged.
    pub response: Option<&'a [u8]>,
}

impl Log {
    /// A log that writes to `out`, if there is one.
    #[must_use]
    pub fn new(out: Option<Box<dyn Write + Send>>, contents: bool) -> Log {
        Log { out: out.map(Mutex::new), contents }
    }

    /// Whether it wants to know what was said.
    #[must_use]
    pub fn wants_contents(&self) -> bool {
        self.contents && self.out.is_some()
    }

    /// Writes a line, in one call. A disk that is full stops no request.
    pub fn write(&self, entry: &Entry<'_>) {
        let Some(out) = &self.out else { return };
        let mut line = line(entry, SystemTime::now()).to_string();
        line.push('\n');
        let _ = out.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}

fn line(entry: &Entry<'_>, now: SystemTime) -> Value {
    let counts = &entry.counts;
    let time = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut value = json!({
        "time": time.as_millis() as u64,
        "provider": entry.provider,
        "method": entry.method,
        "path": entry.path,
        "model": entry.model,
        "status": entry.status,
        "input_tokens": counts.input_tokens,
        "output_tokens": counts.output_tokens,
        "cache_read_tokens": counts.cache_read_tokens,
        "cache_write_tokens": counts.cache_write_tokens,
        "estimated": counts.estimated > 0,
        "bytes_sent": counts.bytes_sent,
        "bytes_received": counts.bytes_received,
        "cost": counts.cost,
        "milliseconds": entry.took.as_millis() as u64,
        "first_byte_milliseconds": entry.first_byte.map(|time| time.as_millis() as u64),
        "whole": entry.whole,
    });
    let mut add = |name: &str, more: Value| {
        if let Some(members) = value.as_object_mut() {
            members.insert(name.to_owned(), more);
        }
    };
    if let Some(why) = entry.refused {
        add("refused", json!(why));
    }
    for (name, said) in [("request", entry.request), ("response", entry.response)] {
        if let Some(said) = said {
            add(name, json!(String::from_utf8_lossy(said)));
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().push(bytes.to_vec());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_request_is_one_line_and_one_write() {
        let memory = Memory::default();
        let log = Log::new(Some(Box::new(memory.clone())), false);
        assert!(!log.wants_contents());
        log.write(&Entry { provider: "anthropic", path: "/v1/messages", status: 200, ..Entry::default() });
        let entry = Entry { refused: Some("budget"), request: Some(b"hi\n\"\xff"), ..Entry::default() };
        log.write(&entry);
        let writes = memory.0.lock().unwrap();
        assert_eq!(writes.len(), 2);
        for line in &*writes {
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            let value: Value = serde_json::from_slice(line).unwrap();
            assert!(value["time"].as_u64().unwrap() > 1_600_000_000_000);
        }
        let first: Value = serde_json::from_slice(&writes[0]).unwrap();
        assert_eq!((first["status"].as_u64(), first.get("request")), (Some(200), None));
        let second: Value = serde_json::from_slice(&writes[1]).unwrap();
        assert_eq!(
            (second["refused"].as_str(), second["request"].as_str()),
            (Some("budget"), Some("hi\n\"\u{fffd}"))
        );
    }
}
