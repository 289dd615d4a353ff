//! The log of requests: one line of JSON each, without what was said unless the policy asks for it.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kennel_policy::outcome::ModelCounts;
use serde_json::{Value, json};

/// The most of a request or a response that is logged.
const MAX_CONTENTS: usize = 1 << 20;
/// The most of what was said that is kept in memory until its lines are written, of all requests together.
const MAX_KEPT: usize = 64 << 20;
/// The most that one run writes. A command that asks without end fills no disk.
const MAX_LOG: u64 = 1 << 30;

/// Where lines go.
pub struct Log {
    out: Option<Mutex<Out>>,
    contents: bool,
    /// How much of what was said may still be kept.
    room: Arc<AtomicUsize>,
}

struct Out {
    to: Box<dyn Write + Send>,
    /// How much may still be written.
    room: u64,
    is_full: bool,
}

/// What was said in one request, as far as it is logged.
#[derive(Debug)]
pub struct Kept {
    bytes: Vec<u8>,
    room: Arc<AtomicUsize>,
}

impl Kept {
    /// Takes another part, up to what one text and all together may have.
    pub fn push(&mut self, part: &[u8]) {
        let wanted = part.len().min(MAX_CONTENTS.saturating_sub(self.bytes.len()));
        let mut granted = 0;
        let _ = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| {
            granted = wanted.min(room);
            Some(room - granted)
        });
        self.bytes.extend_from_slice(&part[..granted]);
    }

    /// What there is of it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.room.fetch_add(self.bytes.len(), Ordering::Relaxed);
    }
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
        Log::with_room(out, contents, MAX_KEPT, MAX_LOG)
    }

    fn with_room(out: Option<Box<dyn Write + Send>>, contents: bool, kept: usize, room: u64) -> Log {
        let out = out.map(|to| Mutex::new(Out { to, room, is_full: false }));
        Log { out, contents, room: Arc::new(AtomicUsize::new(kept)) }
    }

    /// Where what is said is kept until its line is written; `None` where it is not logged.
    #[must_use]
    pub fn kept(&self) -> Option<Kept> {
        let wants = self.contents && self.out.is_some();
        wants.then(|| Kept { bytes: Vec::new(), room: Arc::clone(&self.room) })
    }

    /// Writes a line, in one call. A disk that is full stops no request, and neither does a log that is.
    pub fn write(&self, entry: &Entry<'_>) {
        let Some(out) = &self.out else { return };
        if out.lock().unwrap_or_else(PoisonError::into_inner).is_full {
            return;
        }
        let mut line = line(entry, SystemTime::now()).to_string();
        line.push('\n');
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        if line.len() as u64 > out.room && !out.is_full {
            // The last one.
            line = json!({"full": "the log has as much as one run may write"}).to_string() + "\n";
            out.is_full = true;
        } else if out.is_full {
            return;
        }
        out.room = out.room.saturating_sub(line.len() as u64);
        let _ = out.to.write_all(line.as_bytes());
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
        assert!(log.kept().is_none());
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

    #[test]
    #[kennel_claim::claim("gateway/bodies-are-bounded")]
    fn what_is_kept_for_the_log_and_what_is_written_have_bounds() {
        let memory = Memory::default();
        let log = Log::with_room(Some(Box::new(memory.clone())), true, 3 << 20, 1 << 20);
        let mega = vec![b'x'; 1 << 20];
        let mut all: Vec<Kept> = (0..8).filter_map(|_| log.kept()).collect();
        for kept in &mut all {
            (0..4).for_each(|_| kept.push(&mega));
            assert!(kept.bytes().len() <= MAX_CONTENTS);
        }
        let held = |all: &[Kept]| all.iter().map(|kept| kept.bytes().len()).sum::<usize>();
        assert_eq!(held(&all), 3 << 20, "all together");
        all.truncate(1);
        let mut next = log.kept().unwrap();
        next.push(&mega);
        assert_eq!(next.bytes().len(), 1 << 20, "what was written makes room");
        // Without contents too, and whatever is in a line.
        for contents in [false, true] {
            let memory = Memory::default();
            let log = Log::with_room(Some(Box::new(memory.clone())), contents, 1 << 20, 10_000);
            let request = vec![1; if contents { 4000 } else { 0 }];
            for _ in 0..200 {
                log.write(&Entry { path: "/v1/files", request: Some(&request), ..Entry::default() });
            }
            let writes = memory.0.lock().unwrap();
            let written: usize = writes.iter().map(Vec::len).sum();
            assert!(written < 10_000 + 100, "{written}");
            let last: Value = serde_json::from_slice(writes.last().unwrap()).unwrap();
            assert!(last.get("full").is_some() && writes.len() < 200);
        }
    }
}
