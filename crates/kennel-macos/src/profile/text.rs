//! How a profile is written: strings, rules, and the bounds of both.
//!
//! A name on disk is chosen by strangers. It gets into a profile only as a string, with the two characters escaped that mean
//! something in one; what a string cannot hold is an error, since a deny that is written wrongly protects nothing.

use std::fmt::Write;
use std::path::Path;

use kennel_policy::printed::show;

use super::ProfileError;

/// The longest string that the system's compiler takes.
pub const LONGEST_STRING: usize = 1024;
/// As many filters stand in one rule; a list of some 64 KiB is too long for the compiler.
const MAX_IN_A_RULE: usize = 128;
/// As many bytes of filters.
const MAX_BYTES_IN_A_RULE: usize = 32 << 10;
/// As many rules; the compiler crashes at some 17,700.
const MAX_RULES: usize = 12_000;
/// As many bytes: as much as an argument list holds on macOS, less what else is in it.
const MAX_BYTES: usize = 768 << 10;

/// A filter, and the rule of the policy that is its reason.
#[derive(Clone, Debug)]
pub struct Filters {
    pub reason: String,
    pub text: Vec<String>,
}

/// Whether a rule allows or denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    Deny,
}

/// A profile that is being written.
pub struct Writer<'a> {
    text: String,
    rules: usize,
    tag: &'a str,
    open: Option<Open>,
}

/// A rule that further filters may join: those that follow it at once with the same decision and operations.
struct Open {
    decision: Decision,
    operations: &'static str,
    filters: usize,
    body: String,
    reason: String,
}

impl<'a> Writer<'a> {
    pub fn new(tag: &'a str) -> Result<Writer<'a>, ProfileError> {
        let sound = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if tag.is_empty() || tag.len() > 64 || !tag.bytes().all(sound) {
            return Err(ProfileError::Tag(tag.to_owned()));
        }
        let text = format!("(version 1)\n(deny default (with message \"{tag}\"))\n");
        Ok(Writer { text, rules: 1, tag, open: None })
    }

    /// A heading, for people.
    pub fn section(&mut self, title: &str) {
        self.close();
        let _ = writeln!(self.text, "\n;; {title}");
    }

    /// A rule without a filter.
    pub fn all(&mut self, decision: Decision, operations: &'static str, reason: &str) {
        self.close();
        self.open(decision, operations);
        self.reason(reason);
        self.close();
    }

    /// A rule for what a filter matches; it joins the last rule, if that is of the same kind.
    pub fn rule(&mut self, decision: Decision, operations: &'static str, filters: Filters) {
        let joins = |open: &Open| {
            (open.decision, open.operations) == (decision, operations)
                && open.filters < MAX_IN_A_RULE
                && open.body.len() < MAX_BYTES_IN_A_RULE
        };
        if !self.open.as_ref().is_some_and(joins) {
            self.close();
            self.open(decision, operations);
        }
        self.reason(&filters.reason);
        if let Some(open) = &mut self.open {
            open.filters += filters.text.len();
            for filter in filters.text {
                let _ = write!(open.body, "\n  {filter}");
            }
        }
    }

    fn open(&mut self, decision: Decision, operations: &'static str) {
        let (body, reason) = (String::new(), String::new());
        self.open = Some(Open { decision, operations, filters: 0, body, reason });
    }

    /// Says why, once for filters that follow each other. Nothing that a stranger chose can end the comment.
    fn reason(&mut self, reason: &str) {
        if let Some(open) = &mut self.open
            && open.reason != reason
        {
            reason.clone_into(&mut open.reason);
            let _ = write!(open.body, "\n  ; {}", show(reason.as_bytes()));
        }
    }

    fn close(&mut self) {
        let Some(Open { decision, operations, body, .. }) = self.open.take() else { return };
        self.rules += 1;
        let _ = match decision {
            Decision::Allow => writeln!(self.text, "(allow {operations}{body}\n)"),
            Decision::Deny => {
                writeln!(self.text, "(deny {operations}{body}\n  (with message \"{}\"))", self.tag)
            }
        };
    }

    pub fn finish(mut self) -> Result<String, ProfileError> {
        self.close();
        let (rules, bytes) = (self.rules, self.text.len());
        if rules > MAX_RULES {
            return Err(ProfileError::TooMuch { what: "rules", count: rules, most: MAX_RULES });
        }
        if bytes > MAX_BYTES {
            return Err(ProfileError::TooMuch { what: "bytes", count: bytes, most: MAX_BYTES });
        }
        Ok(self.text)
    }
}

/// A path as text, if a profile can hold it.
pub fn path_text<'p>(path: &'p Path, rule: &str) -> Result<&'p str, ProfileError> {
    let error = |what| ProfileError::Path { rule: rule.to_owned(), path: path.to_path_buf(), what };
    let text = path.to_str().ok_or_else(|| error("its name is not UTF-8"))?;
    if text.chars().any(char::is_control) {
        return Err(error("its name holds a control character"));
    }
    if text.len() > LONGEST_STRING {
        return Err(error("it is longer than the 1024 bytes that a profile can hold"));
    }
    Ok(text)
}

/// A string of a profile. The text has been checked.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_a_string_is_escaped() {
        assert_eq!(quoted(r#"/a "b"\c"#), r#""/a \"b\"\\c""#);
        assert_eq!(quoted("/é(;)"), "\"/é(;)\"");
    }

    #[test]
    #[kennel_claim::claim("macos/names-write-no-rules")]
    fn what_a_string_cannot_hold_is_an_error() {
        use std::os::unix::ffi::OsStrExt;
        let wrong = |bytes: &[u8]| {
            let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
            path_text(path, "deny_read x (settings)").unwrap_err().to_string()
        };
        assert!(wrong(b"/a\nb").contains("control character"));
        assert!(wrong(b"/a\x7fb").contains("control character"));
        assert!(wrong("/a\u{85}b".as_bytes()).contains("control character"));
        assert!(wrong(b"/a\xffb").contains("not UTF-8"));
        assert!(wrong(&[b"/".as_slice(), &[b'a'; 1024]].concat()).contains("1024 bytes"));
        assert!(!wrong(b"/a\x1b[2Jb").contains('\u{1b}'));
    }

    #[test]
    fn a_tag_is_a_word() {
        for wrong in ["", "a b", "a\"b", "a\nb", "é", &"a".repeat(65)] {
            assert!(Writer::new(wrong).is_err(), "{wrong:?}");
        }
        assert!(Writer::new("kennel-7f3a").is_ok());
    }

    #[test]
    #[kennel_claim::claim("macos/names-write-no-rules")]
    fn a_reason_cannot_end_its_comment() {
        let mut writer = Writer::new("t").unwrap();
        let reason = "x\n(allow default)".to_owned();
        writer.rule(Decision::Deny, "file-read*", Filters { reason, text: vec!["(literal \"/a\")".into()] });
        let text = writer.finish().unwrap();
        assert!(text.lines().all(|line| !line.starts_with("(allow")), "{text}");
    }
}
