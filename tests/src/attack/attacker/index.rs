//! An index of git's, written byte by byte: with paths that git itself would never put there.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Actor, Answer};
use crate::attack::script::Op;
use crate::attack::word;

impl Actor {
    /// `FILE MODE:NAME…`. What an entry holds follows from its mode: a script, a configuration, or the text of a link.
    pub(super) fn index(&mut self, op: &Op) -> Answer {
        let file = word::place(&self.top, op.word(0));
        let Some(folder) = file.parent() else { return Answer::of(-i64::from(libc::ENOENT)) };
        let mut entries: Vec<(u32, Vec<u8>, String)> = Vec::new();
        for entry in &op.words[1..] {
            let (mode, name) = entry.split_once(':').unwrap_or(("100644", entry));
            let mode = u32::from_str_radix(mode, 8).unwrap_or(0o100_644);
            let text = match mode {
                0o100_755 => format!("#!/bin/sh\ntouch {}\n", self.mark),
                0o120_000 => "../out".into(),
                0o160_000 => String::new(),
                _ => format!("[core]\n\tfsmonitor = \"touch {};false\"\n", self.mark),
            };
            entries.push((mode, word::unescape(name), text));
        }
        entries.sort_by(|one, other| one.1.cmp(&other.1));
        let mut data = b"DIRC\0\0\0\x02".to_vec();
        data.extend((entries.len() as u32).to_be_bytes());
        for (mode, name, text) in entries {
            let Some(id) = blob(folder, text.as_bytes()) else { return Answer::of(-i64::from(libc::EIO)) };
            let start = data.len();
            data.extend([0; 24]);
            data.extend(mode.to_be_bytes());
            data.extend([0; 12]);
            data.extend(id);
            data.extend((name.len().min(0xfff) as u16).to_be_bytes());
            data.extend(&name);
            let length = data.len() - start;
            data.extend(std::iter::repeat_n(0, 8 - length % 8));
        }
        // Zeros in place of the sum: git takes them for one that was left out (2.40).
        data.extend([0; 20]);
        let written = std::fs::write(&file, data);
        Answer::of(written.map_or_else(|error| -i64::from(error.raw_os_error().unwrap_or(1)), |()| 0))
    }
}

/// Writes an object, and returns its name.
fn blob(folder: &Path, text: &[u8]) -> Option<Vec<u8>> {
    let mut command = Command::new("git");
    command.args(["hash-object", "-w", "--stdin"]).current_dir(folder).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    child.stdin.take()?.write_all(text).ok()?;
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let digits = text.trim();
    (0..20).map(|at| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok()).collect()
}
