//! A finding as a file, to be tried again.

use std::fs;
use std::path::Path;

use crate::attack_gate::tries::{DOORS, Door, Part, Try};

/// Writes it.
pub fn write(path: &Path, attempt: &Try, found: &str) -> std::io::Result<()> {
    let door = DOORS.iter().find(|(_, door)| *door == attempt.door).map_or("", |(word, _)| word);
    let mut text = format!("# {found}\nport {}\ndoor {door}\n", attempt.port);
    for part in &attempt.parts {
        let hex: String = part.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = part.bytes[..part.bytes.len().min(400)].escape_ascii();
        text.push_str(&format!("# {shown}\nsend {hex}\n"));
        if part.pause > 0 {
            text.push_str(&format!("pause {}\n", part.pause));
        }
    }
    fs::write(path, text)
}

/// Reads it.
pub fn read(path: &Path) -> Result<Try, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut attempt = Try { port: 0, door: Door::Direct, parts: Vec::new() };
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let wrong = || format!("{}: {line}", path.display());
        let (word, value) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "port" => attempt.port = value.parse().map_err(|_| wrong())?,
            "door" => attempt.door = DOORS.iter().find(|(own, _)| *own == value).ok_or_else(wrong)?.1,
            "send" => attempt.parts.push(Part { bytes: bytes(value).ok_or_else(wrong)?, pause: 0 }),
            "pause" => {
                let last = attempt.parts.last_mut().ok_or_else(wrong)?;
                last.pause = value.parse().map_err(|_| wrong())?;
            }
            _ => return Err(wrong()),
        }
    }
    Ok(attempt)
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    digits.len().is_multiple_of(2).then_some(())?;
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
