//! From a line of the system's log to a violation.
//!
//! The message of a refusal is `Sandbox: NAME(PID) deny(1) OPERATION TARGET`, perhaps with `5 duplicate reports for ` before it, and
//! ends with the sandbox's tag. The name and the target are the sandbox's to choose, so nothing is made of them but words for a person.

use std::path::{Path, PathBuf};

use kennel_policy::outcome::Violation;

use crate::profile::{Access, Point};

/// The longest line that is looked at.
const LONGEST_LINE: usize = 16 << 10;
/// The longest path of macOS.
const LONGEST_TARGET: usize = 1024;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was to be done, in a word.
    pub call: &'static str,
    /// On what.
    pub target: PathBuf,
    /// How often.
    pub times: u64,
}

/// The refusal in a line of the log (`--style ndjson`), if it is one of the sandbox with this tag and worth telling: what programs
/// only ask about (metadata, services, settings of the system) is refused by the dozen, and they go on.
#[must_use]
pub fn parse(line: &str, tag: &str) -> Option<Refusal> {
    if line.len() > LONGEST_LINE {
        return None;
    }
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let message = line.get("eventMessage")?.as_str()?;
    let message = message.trim_end().strip_suffix(tag)?.trim_end();
    let (before, refusal) = message.split_once("Sandbox: ")?;
    let times = match before.split_once(" duplicate report") {
        Some((count, _)) => count.trim().parse().ok()?,
        None => 1,
    };
    // The process's name may hold anything, even what looks like the rest: the last of these counts.
    let (_, rest) = refusal.rsplit_once(" deny(")?;
    let (_, rest) = rest.split_once(") ")?;
    let (operation, target) = rest.split_once(' ')?;
    let call = call(operation)?;
    let end = (0..=LONGEST_TARGET.min(target.len())).rev().find(|end| target.is_char_boundary(*end));
    let target = &target[..end.unwrap_or(0)];
    Some(Refusal { call, target: PathBuf::from(target), times })
}

/// A word for an operation; `None` for those that are not told.
fn call(operation: &str) -> Option<&'static str> {
    Some(match operation {
        "file-read-metadata" | "file-read-xattr" => return None,
        "file-write-create" => "create",
        "file-write-unlink" => "remove",
        "process-exec" | "process-exec*" => "execute",
        "network-outbound" => "connect",
        "network-bind" | "network-inbound" => "listen",
        other if other.starts_with("file-read") => "read",
        other if other.starts_with("file-write") || other == "file-link" || other == "file-clone" => "write",
        _ => return None,
    })
}

/// The violation, with the rule behind it. `points` are those of the profile.
#[must_use]
pub fn violation(refusal: Refusal, points: &[Point]) -> Violation {
    let rule = match refusal.call {
        "connect" | "listen" => "network.mode".to_owned(),
        _ => rule(&refusal.target, points),
    };
    Violation::Refused { call: refusal.call, path: Some(refusal.target), rule, times: refusal.times }
}

/// The rule of the deepest point on the way that denies something.
fn rule(path: &Path, points: &[Point]) -> String {
    let on_the_way = points.iter().filter(|point| path.starts_with(&point.path));
    let closing = on_the_way.filter(|point| point.access != Access::Write);
    let deepest = closing.max_by_key(|point| point.path.components().count());
    deepest.map_or_else(|| "no rule allows it".to_owned(), |point| point.reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    const TAG: &str = "kennel-7f3a";

    #[test]
    #[kennel_claim::claim("macos/log-lines-are-text")]
    fn what_is_told_is_bounded() {
        let long = format!("Sandbox: x(1) deny(1) file-read-data /{} {TAG}", "é".repeat(3000));
        let told = parse(&line(&long), TAG).unwrap();
        assert!((1000..=LONGEST_TARGET).contains(&told.target.as_os_str().len()));
        assert_eq!(parse(&line(&"x".repeat(LONGEST_LINE)), TAG), None);
    }

    proptest! {
        #[test]
        fn any_line_is_read_to_its_end(text in ".{0,200}") {
            let _ = parse(&text, TAG);
            let _ = parse(&line(&format!("Sandbox: {text} {TAG}")), TAG);
            let _ = parse(&line(&format!("Sandbox: x(1) deny(1) {text} {TAG}")), TAG);
        }
    }

    fn line(message: &str) -> String {
        serde_json::json!({ "eventMessage": message, "processID": 0 }).to_string()
    }

    fn told(message: &str) -> Option<(&'static str, String, u64)> {
        let refusal = parse(&line(message), TAG)?;
        Some((refusal.call, refusal.target.to_string_lossy().into_owned(), refusal.times))
    }

    #[test]
    fn a_refusal_is_told_by_what_and_where() {
        let found = told("Sandbox: cat(812) deny(1) file-read-data /private/etc/a b\nkennel-7f3a");
        assert_eq!(found, Some(("read", "/private/etc/a b".into(), 1)));
        let found = told(
            "7 duplicate reports for Sandbox: git(9) deny(1) file-write-create /w/.git/hooks kennel-7f3a",
        );
        assert_eq!(found, Some(("create", "/w/.git/hooks".into(), 7)));
        let found = told("Sandbox: curl(5) deny(1) network-outbound 93.184.216.34:443 kennel-7f3a");
        assert_eq!(found, Some(("connect", "93.184.216.34:443".into(), 1)));
    }

    #[test]
    fn others_and_what_programs_only_ask_about_are_passed_over() {
        for message in [
            "Sandbox: cat(812) deny(1) file-read-data /etc/passwd kennel-0000",
            "Sandbox: cat(812) deny(1) file-read-metadata /x kennel-7f3a",
            "Sandbox: cat(812) deny(1) mach-lookup com.apple.x kennel-7f3a",
            "System Policy: cat(812) deny(1) file-read-data /x kennel-7f3a",
            "Sandbox: cat(812) allow file-read-data /x kennel-7f3a",
            "kennel-7f3a",
            "",
        ] {
            assert_eq!(told(message), None, "{message}");
        }
        assert_eq!(parse("Filtering the log data using \"…\"", TAG), None);
        assert_eq!(parse("{}", TAG), None);
    }

    #[test]
    #[kennel_claim::claim("macos/log-lines-are-text")]
    fn a_name_that_looks_like_a_refusal_is_only_a_name() {
        let found = told("Sandbox: x deny(1) file-read-data /y(3) deny(1) file-write-data /z kennel-7f3a");
        assert_eq!(found, Some(("write", "/z".into(), 1)));
    }

    #[test]
    fn the_deepest_rule_that_closes_something_is_the_reason() {
        let point = |path: &str, access, reason: &'static str| Point {
            path: path.into(),
            access,
            nearest: None,
            reason: reason.into(),
        };
        let points = [
            point("/w", Access::Write, "--allow-write ."),
            point("/w/.git", Access::Read, "files.git"),
            point("/w/.git/hooks/x", Access::Write, "named"),
        ];
        let told = |path: &str| {
            let refusal = Refusal { call: "write", target: path.into(), times: 1 };
            let Violation::Refused { rule, .. } = violation(refusal, &points) else { panic!("it is one") };
            rule
        };
        assert_eq!(told("/w/.git/config"), "files.git");
        assert_eq!(told("/etc/hosts"), "no rule allows it");
    }
}
