//! SSH (RFC 4253 §4.2): each side begins with a line that says so.
//!
//! The client's line may go at once, since many servers and what stands before them wait for it. What follows waits for
//! the server's line.

use crate::rules::DenyReason;

use super::{MAX_HEARD, Seen, State, Step};

/// With its line end.
const MAX_LINE: usize = 255;
const BEGINNINGS: [&[u8]; 2] = [b"SSH-2.0-", b"SSH-1.99-"];

#[derive(Debug, Default)]
pub(super) struct Exchange {
    sent: bool,
}

pub(super) fn first(bytes: &[u8]) -> Seen {
    let fits = |own: &&&[u8]| bytes.iter().zip(own.iter()).all(|(a, b)| a == b);
    match BEGINNINGS.iter().find(fits) {
        Some(own) if bytes.len() >= own.len() => Seen::Mine(State::Ssh(Exchange::default())),
        Some(_) => Seen::Perhaps,
        None => Seen::NotMine,
    }
}

impl Exchange {
    pub(super) fn client(&mut self, bytes: &[u8], heard: &[u8]) -> Step {
        let unlike = Step::Refuse(DenyReason::Protocol("an SSH greeting that is none"));
        if !self.sent {
            let line = &bytes[..bytes.len().min(MAX_LINE)];
            let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
                let text = line.strip_suffix(b"\r").unwrap_or(line);
                return if line.len() == MAX_LINE || !is_text(text) { unlike } else { Step::More };
            };
            let text = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
            if !is_text(text) {
                return unlike;
            }
            self.sent = true;
            return Step::Pass(end + 1);
        }
        // Other lines may come before it.
        let greeted = heard.split_inclusive(|byte| *byte == b'\n').any(|line| line.starts_with(b"SSH-"));
        match greeted {
            true => Step::Open,
            false if heard.len() >= MAX_HEARD => Step::Refuse(DenyReason::Answer("SSH")),
            // Where the client waits, so does everybody.
            false if bytes.is_empty() => Step::More,
            false => Step::Hold,
        }
    }
}

/// Software, version and comment, as everybody writes them: without what an address has, since a line with one could be a
/// request to somebody.
fn is_text(line: &[u8]) -> bool {
    line.iter().all(|byte| byte.is_ascii_alphanumeric() || b" -_.,+~()".contains(byte))
}
