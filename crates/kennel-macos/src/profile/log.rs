//! What the system's log says that a sandbox was refused: `Sandbox: cat(4242) deny(1) file-read-data /private/etc/x`, and the
//! sandbox's tag behind it.
//!
//! The name of the program and the path are the command's own choice, so a line is a claim: it is bounded, told with the rules
//! that hold at the path, and acted on by nobody.

use std::path::{Path, PathBuf};

use kennel_policy::outcome::Violation;

use super::resolve::Resolved;

/// The longest line that is looked at.
const LONGEST_LINE: usize = 16 << 10;
/// The longest path of macOS.
const LONGEST_TARGET: usize = 1024;
/// The longest name of an operation, and of a program.
const LONGEST_NAME: usize = 64;

/// A refusal, as the log tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The program's name.
    pub program: String,
    /// Its number.
    pub pid: u32,
    /// The operation: `file-read-data`.
    pub operation: String,
    /// What it was tried on: a path, an address, a service.
    pub target: Option<String>,
}

/// The refusal that a line of the log (`--style ndjson`) tells, if it is one of the sandbox with this tag.
///
/// ```
/// use kennel_macos::profile::refusal;
/// let line = r#"{"eventMessage":"Sandbox: cat(42) deny(1) file-read-data /private/x y\nkennel-1"}"#;
/// let refusal = refusal(line, "kennel-1").unwrap();
/// assert_eq!((refusal.pid, refusal.target.as_deref()), (42, Some("/private/x y")));
/// ```
#[must_use]
pub fn refusal(line: &str, tag: &str) -> Option<Refusal> {
    if line.len() > LONGEST_LINE {
        return None;
    }
    let event: serde_json::Value = serde_json::from_str(line.trim()).ok()?;
    let message = event.get("eventMessage")?.as_str()?;
    // Those of the system's own policy are about something else.
    let message = message.trim_end().strip_suffix(tag)?.trim_end();
    let told = message.strip_prefix("Sandbox: ")?;
    let (at, rest) = told.match_indices(") deny(").find_map(|(at, mark)| {
        let (number, rest) = told[at + mark.len()..].split_once(") ")?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then_some((at, rest))
    })?;
    let (program, pid) = told[..at].rsplit_once('(')?;
    let (operation, target) = match rest.split_once(' ') {
        Some((operation, target)) => (operation, Some(target.trim_end())),
        None => (rest, None),
    };
    let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'*');
    if operation.is_empty() || operation.len() > LONGEST_NAME || !operation.bytes().all(word) {
        return None;
    }
    Some(Refusal {
        program: cut(program, LONGEST_NAME),
        pid: pid.parse().ok()?,
        operation: operation.to_owned(),
        target: target.filter(|target| !target.is_empty()).map(|target| cut(target, LONGEST_TARGET)),
    })
}

impl Refusal {
    /// The same as it is told on every system.
    #[must_use]
    pub fn violation(&self, resolved: &Resolved) -> Violation {
        let path = self.target.as_ref().map(PathBuf::from);
        let rule = match &path {
            Some(path) if path.is_absolute() => resolved.rule_at(path),
            Some(_) => self.operation.clone(),
            None => String::new(),
        };
        Violation::Refused { call: self.call(), path, rule, times: 1 }
    }

    /// The call, in words.
    fn call(&self) -> &'static str {
        match self.operation.as_str() {
            "file-write-unlink" => "remove",
            "file-write-create" | "file-link" | "file-clone" => "create",
            "network-outbound" => "connect",
            "network-bind" | "network-inbound" => "listen",
            "mach-lookup" | "mach-register" => "look up",
            "process-exec" | "process-exec*" | "forbidden-exec-sugid" => "run",
            operation if operation.starts_with("file-read") => "read",
            operation if operation.starts_with("file-write") => "write",
            _ => "use",
        }
    }
}

impl Resolved {
    /// The rule that holds at a path, in the user's words.
    #[must_use]
    pub fn rule_at(&self, path: &Path) -> String {
        let glob =
            self.patterns.iter().find(|glob| path.ancestors().any(|above| glob.pattern.matches(above)));
        let at = |above: &Path| self.points.iter().rev().find(|point| point.path == above);
        match (glob, path.ancestors().find_map(at)) {
            (Some(glob), _) => glob.reason.to_string(),
            (None, Some(point)) => point.reason.to_string(),
            (None, None) => "no rule allows it".to_owned(),
        }
    }
}

/// A text, no longer than `most` bytes.
fn cut(text: &str, most: usize) -> String {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(message: &str) -> String {
        serde_json::json!({ "eventMessage": message, "processID": 0 }).to_string()
    }

    #[test]
    fn a_line_tells_who_what_and_where() {
        let told = |message: &str| refusal(&line(message), "kennel-1");
        let one = told("Sandbox: my prog (x)(17) deny(1) file-write-create /Users/me/a) deny(2) b\nkennel-1")
            .unwrap();
        assert_eq!((one.program.as_str(), one.pid), ("my prog (x)", 17));
        assert_eq!(
            (one.operation.as_str(), one.target.as_deref()),
            ("file-write-create", Some("/Users/me/a) deny(2) b"))
        );
        let two = told("Sandbox: curl(9) deny(1) network-outbound /private/var/run/mDNSResponder kennel-1")
            .unwrap();
        assert_eq!(two.call(), "connect");
        let three = told("Sandbox: x(9) deny(1) process-fork kennel-1").unwrap();
        assert_eq!(three.target, None);
        for other in [
            "System Policy: x(9) deny(1) file-read-data /a kennel-1",
            "Sandbox: x(9) allow(1) file-read-data /a kennel-1",
            "Sandbox: x(9) deny(1) file-read-data /a kennel-2",
            "Sandbox: x(y) deny(1) file-read-data /a kennel-1",
            "Sandbox: x(9) deny(1) b\u{e4}d /a kennel-1",
            "kennel-1",
            "",
        ] {
            assert_eq!(told(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_told_is_bounded() {
        let long = format!("Sandbox: {}(1) deny(1) file-read-data /{} t", "n".repeat(300), "é".repeat(3000));
        let told = refusal(&line(&long), "t").unwrap();
        assert!(told.program.len() <= LONGEST_NAME && told.target.unwrap().len() <= LONGEST_TARGET);
        assert_eq!(refusal(&line(&"x".repeat(LONGEST_LINE)), "t"), None);
    }

    proptest! {
        #[test]
        fn any_line_is_read_to_its_end(text in ".{0,200}") {
            let _ = refusal(&text, "t");
            let _ = refusal(&line(&format!("Sandbox: {text} t")), "t");
            let _ = refusal(&line(&format!("Sandbox: x(1) deny(1) {text} t")), "t");
        }
    }
}
