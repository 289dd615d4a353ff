//! Finds the secret parts of a text by a regular expression of ECMAScript, as srt's `extract` does.

use std::fmt;
use std::ops::Range;

use regress::{Flags, Regex};
use zeroize::Zeroizing;

/// A regular expression whose first group is a secret.
///
/// ```
/// use kennel_policy::extract::ExtractPattern;
///
/// let pattern = ExtractPattern::parse(r"password\s+(\S+)")?;
/// let text = "machine a.test password hunter2\nmachine b.test password abc";
/// let found: Vec<&str> = pattern.find(text)?.into_iter().map(|span| &text[span]).collect();
/// assert_eq!(found, ["hunter2", "abc"]);
/// assert!(ExtractPattern::parse("password").is_err());
/// # Ok::<(), kennel_policy::extract::ExtractError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ExtractPattern(String);

/// Why a text is no such expression, or why one cannot be used on a text. It never quotes the text that was searched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// It cannot be read.
    #[error("the regular expression is not valid: {0}")]
    Syntax(String),
    /// It has no group.
    #[error(
        "the regular expression has no group; put the secret's part in parentheses, as in `token: (\\S+)`"
    )]
    NoGroup,
    /// It matched, and the first group did not.
    #[error(
        "the regular expression matched at offset {0} without its first group, which must hold the secret in every match"
    )]
    GroupNotMatched(usize),
}

impl ExtractPattern {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<ExtractPattern, ExtractError> {
        compiled(text)?;
        // Beside an empty alternative it matches everything, with all its groups.
        let beside = compiled(&format!("{text}|"))?;
        match beside.find("").is_some_and(|found| found.captures.is_empty()) {
            true => Err(ExtractError::NoGroup),
            false => Ok(ExtractPattern(text.to_owned())),
        }
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where in a text the first group is, for each match, in order. Empty ones are left out.
    ///
    /// JavaScript searches units of UTF-16, and so does this; a match that cuts a character in two is widened to the whole of it.
    pub fn find(&self, text: &str) -> Result<Vec<Range<usize>>, ExtractError> {
        let regex = compiled(&self.0)?;
        let units = Units::of(text);
        let mut spans: Vec<Range<usize>> = Vec::new();
        for found in regex.find_from_ucs2(&units.text, 0) {
            let Some(group) = found.group(1) else {
                return Err(ExtractError::GroupNotMatched(units.byte(found.start())));
            };
            if group.is_empty() {
                continue;
            }
            let span = units.byte(group.start)..units.end(group.end);
            match spans.last_mut() {
                Some(Range { end, .. }) if *end > span.start => *end = span.end.max(*end),
                _ => spans.push(span),
            }
        }
        Ok(spans)
    }
}

fn compiled(text: &str) -> Result<Regex, ExtractError> {
    Regex::with_flags(text, Flags::default()).map_err(|error| ExtractError::Syntax(error.text))
}

impl fmt::Debug for ExtractPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.0)
    }
}

impl fmt::Display for ExtractPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text in units of UTF-16, and where each unit is in UTF-8. The text may hold secrets, and is wiped when it is given up.
struct Units {
    text: Zeroizing<Vec<u16>>,
    bytes: Vec<usize>,
    length: usize,
}

impl Units {
    fn of(text: &str) -> Units {
        // Never moved to a larger place, which would leave a copy behind.
        let count = text.encode_utf16().count();
        let mut units = Units {
            text: Zeroizing::new(Vec::with_capacity(count)),
            bytes: Vec::with_capacity(count),
            length: text.len(),
        };
        for (at, character) in text.char_indices() {
            let mut buffer = [0; 2];
            for unit in character.encode_utf16(&mut buffer) {
                units.text.push(*unit);
                units.bytes.push(at);
            }
        }
        units
    }

    /// Where the character of this unit starts.
    fn byte(&self, unit: usize) -> usize {
        self.bytes.get(unit).copied().unwrap_or(self.length)
    }

    /// Where the character before this unit ends.
    fn end(&self, unit: usize) -> usize {
        let last = self.bytes[unit - 1];
        self.bytes[unit..].iter().copied().find(|at| *at > last).unwrap_or(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'t>(pattern: &str, text: &'t str) -> Vec<&'t str> {
        let spans = ExtractPattern::parse(pattern).unwrap().find(text).unwrap();
        spans.into_iter().map(|span| &text[span]).collect()
    }

    #[test]
    fn the_first_group_of_each_match_is_found() {
        assert_eq!(found(r"//[^:]+:([^@]+)@", "postgres://u:p1@h/d postgres://u:p2@h/d"), ["p1", "p2"]);
        assert_eq!(found(r#""(?:token|key)":\s*"([^"]+)""#, r#"{"token": "a", "key":"b"}"#), ["a", "b"]);
        assert_eq!(found(r"(?<name>x+)y(z)", "xxyz"), ["xx"]);
        assert_eq!(found(r"(?<=token=)(\w+)", "token=abc;other=def"), ["abc"]);
        assert_eq!(found(r"(a)\1", "aa a"), ["a"]);
        assert_eq!(found(r"x(.*?)y", "xy xay"), ["a"], "empty ones are left out");
        assert_eq!(found(r"^(\w+)$", "one\ntwo"), Vec::<&str>::new(), "`^` is the start of the text");
    }

    #[test]
    fn characters_beyond_the_basic_plane_are_two_units() {
        assert_eq!(found("^(..)$", "😀"), ["😀"]);
        assert_eq!(found("ü(.)", "aü😀b"), ["😀"], "a half is widened to the whole");
        assert_eq!(found("(b)", "aü😀b"), ["b"]);
        assert_eq!(found("(.)", "😀b"), ["😀", "b"], "both halves are one");
    }

    #[test]
    fn mistakes_have_names() {
        assert_eq!(ExtractPattern::parse("x"), Err(ExtractError::NoGroup));
        assert_eq!(ExtractPattern::parse("(?:x)"), Err(ExtractError::NoGroup));
        assert!(matches!(ExtractPattern::parse("(x"), Err(ExtractError::Syntax(_))));
        let optional = ExtractPattern::parse("token: (\\S+)?").unwrap();
        assert_eq!(optional.find("ü token: "), Err(ExtractError::GroupNotMatched(3)));
    }
}
