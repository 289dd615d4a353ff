//! Regular expressions of a profile: globs, and names in all the spellings that a volume takes for the same.
//!
//! The expressions only ever deny, so where the two languages differ they match rather more. Seatbelt's compares bytes; a
//! character beyond ASCII is written as the bytes of all its forms.

use std::path::Path;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use kennel_policy::pattern::{Component, PathPattern, Piece};

use super::ProfileError;
use super::text::{LONGEST_STRING, path_text, quoted};

/// What a path matches that is below another, or is it.
const AND_BELOW: &str = "(/.*)?";
/// One character: a byte, or two to four that are not of ASCII's printable ones.
const ONE: &str = "([^/]|[^ -~][^ -~]|[^ -~][^ -~][^ -~]|[^ -~][^ -~][^ -~][^ -~])";
/// Letters that fold to more than one: the fold, and expressions for what folds to it. The longest come first.
const FOLDS: &[(&str, &[&str])] = &[
    ("ffi", &["\u{fb03}", "[fF]\u{fb01}", "\u{fb00}[iI]"]),
    ("ffl", &["\u{fb04}", "[fF]\u{fb02}", "\u{fb00}[lL]"]),
    ("sss", &["(\u{df}|\u{1e9e})([sS]|\u{17f})", "([sS]|\u{17f})(\u{df}|\u{1e9e})"]),
    ("sst", &["(\u{df}|\u{1e9e})[tT]", "([sS]|\u{17f})(\u{fb05}|\u{fb06})"]),
    ("ff", &["\u{fb00}"]),
    ("fi", &["\u{fb01}"]),
    ("fl", &["\u{fb02}"]),
    ("ss", &["\u{df}", "\u{1e9e}"]),
    ("st", &["\u{fb05}", "\u{fb06}"]),
];

/// How names are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Byte by byte.
    Exact,
    /// Without regard to case and to the form of accents.
    Folded,
}

/// A filter for `path` and all below it, with the names below `nearest` in every spelling.
pub fn any_spelling(path: &Path, nearest: &Path, rule: &str) -> Result<String, ProfileError> {
    let text = path_text(path, rule)?;
    let known = path_text(nearest, rule)?;
    let (known, rest) = match text.strip_prefix(known) {
        Some(rest) if known == "/" => ("", text.strip_prefix('/').map_or(rest, |_| text)),
        Some(rest) if rest.starts_with('/') => (known, rest),
        _ => ("", text),
    };
    let mut regex = format!("^{}", plain(known));
    for name in rest.split('/').filter(|name| !name.is_empty()) {
        regex.push('/');
        regex.push_str(&folded(name));
    }
    regex.push_str(AND_BELOW);
    regex.push('$');
    filter(&regex, path, rule)
}

/// A filter for what a glob matches, and all below it.
pub fn glob(pattern: &PathPattern, nearest: &Path, names: Names, rule: &str) -> Result<String, ProfileError> {
    let path = pattern.as_path();
    path_text(path, rule)?;
    // The folders that exist are spelled as they are.
    let known = nearest.components().filter(|part| matches!(part, std::path::Component::Normal(_))).count();
    let mut regex = "^".to_owned();
    for (index, component) in pattern.pieces().iter().enumerate() {
        match component {
            // Before a name it is the slash in front of that which ends it.
            Component::AnyDepth => regex.push_str(AND_BELOW),
            Component::Name(pieces) => {
                let names = if index < known { Names::Exact } else { names };
                regex.push('/');
                for piece in pieces {
                    regex.push_str(&self::piece(piece, names, path, rule)?);
                }
            }
        }
    }
    if !regex.ends_with(AND_BELOW) {
        regex.push_str(AND_BELOW);
    }
    regex.push('$');
    filter(&regex, path, rule)
}

/// The glob itself, without what is below what it matches.
pub fn glob_itself(
    pattern: &PathPattern,
    nearest: &Path,
    names: Names,
    rule: &str,
) -> Result<String, ProfileError> {
    let below = glob(pattern, nearest, names, rule)?;
    Ok(below.replace(&quoted_end(AND_BELOW), &quoted_end("")))
}

/// Only what is below what a glob matches.
pub fn glob_below(
    pattern: &PathPattern,
    nearest: &Path,
    names: Names,
    rule: &str,
) -> Result<String, ProfileError> {
    let below = glob(pattern, nearest, names, rule)?;
    Ok(below.replace(&quoted_end(AND_BELOW), &quoted_end("/.*")))
}

fn quoted_end(end: &str) -> String {
    format!("{end}$\")")
}

fn filter(regex: &str, path: &Path, rule: &str) -> Result<String, ProfileError> {
    if regex.len() > LONGEST_STRING {
        let what = "its regular expression is longer than the 1024 bytes that a profile can hold";
        return Err(ProfileError::Path { rule: rule.to_owned(), path: path.to_path_buf(), what });
    }
    Ok(format!("(regex {})", quoted(regex)))
}

fn piece(piece: &Piece, names: Names, path: &Path, rule: &str) -> Result<String, ProfileError> {
    Ok(match piece {
        Piece::Literal(bytes) => {
            let what = "its name is not UTF-8";
            let error = |_| ProfileError::Path { rule: rule.to_owned(), path: path.to_path_buf(), what };
            let text = std::str::from_utf8(bytes).map_err(error)?;
            if names == Names::Folded { folded(text) } else { plain(text) }
        }
        Piece::Run => "[^/]*".to_owned(),
        Piece::Characters { count, or_more } => {
            let more = if *or_more { "[^/]*" } else { "" };
            format!("{}{more}", ONE.repeat(*count))
        }
        Piece::Set { negated, ranges } => {
            let ranges: Vec<(u32, u32)> = ranges.iter().map(|range| (*range.start(), *range.end())).collect();
            set(*negated, &ranges, names)
        }
    })
}

/// One character of a set. Beyond ASCII it is any character of a range, not only those in it.
fn set(negated: bool, ranges: &[(u32, u32)], names: Names) -> String {
    let holds = |byte: u8| ranges.iter().any(|(low, high)| (*low..=*high).contains(&u32::from(byte)));
    let takes = |byte: u8| holds(byte) != negated;
    let in_a_case = |byte: u8| {
        let folded = names == Names::Folded;
        takes(byte) || (folded && (takes(byte.to_ascii_lowercase()) || takes(byte.to_ascii_uppercase())))
    };
    let ascii: Vec<u8> = (b' '..=b'~').filter(|byte| *byte != b'/' && in_a_case(*byte)).collect();
    let beyond = negated || ranges.iter().any(|(_, high)| *high > 0x7e);
    let mut choices: Vec<String> = Vec::new();
    let mut at = 0;
    while at < ascii.len() {
        let mut end = at;
        while ascii.get(end + 1) == Some(&(ascii[end] + 1)) {
            end += 1;
        }
        let (low, high) = (char::from(ascii[at]), char::from(ascii[end]));
        // Only letters and digits mean themselves in brackets wherever they stand.
        let simple = low.is_ascii_alphanumeric() && high.is_ascii_alphanumeric();
        if simple && low != high {
            choices.push(format!("[{low}-{high}]"));
        } else {
            choices.extend(ascii[at..=end].iter().map(|byte| plain(&char::from(*byte).to_string())));
        }
        at = end + 1;
    }
    if beyond {
        choices.push("[^ -~]".to_owned());
        choices.extend((2..=4).map(|count| "[^ -~]".repeat(count)));
    }
    // A set of nothing that could be in a name.
    if choices.is_empty() { "[^ -~]".to_owned() } else { format!("({})", choices.join("|")) }
}

/// Text that means itself.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if "\\^$.|?*+()[]{}".contains(character) {
            plain.push('\\');
        }
        plain.push(character);
    }
    plain
}

/// A name in every spelling that a volume which folds names takes for the same.
fn folded(name: &str) -> String {
    let name = ComposingNormalizerBorrowed::new_nfc().normalize(name);
    let lower: Vec<char> = name.chars().collect();
    let mut folded = String::new();
    let mut at = 0;
    while at < lower.len() {
        let rest = &lower[at..];
        let starts = |fold: &str| {
            fold.chars().count() <= rest.len()
                && fold.chars().zip(rest).all(|(one, other)| one == other.to_ascii_lowercase())
        };
        let (taken, others): (usize, &[&str]) = FOLDS
            .iter()
            .find(|(fold, _)| starts(fold))
            .map_or((1, &[]), |(fold, others)| (fold.len(), others));
        let own: String = rest[..taken].iter().map(|one| spellings(*one)).collect();
        if others.is_empty() {
            folded.push_str(&own);
        } else {
            folded.push_str(&format!("({own}|{})", others.join("|")));
        }
        at += taken;
    }
    folded
}

/// A character in both cases, and composed or not.
fn spellings(character: char) -> String {
    if character.is_ascii_alphabetic() {
        let (lower, upper) = (character.to_ascii_lowercase(), character.to_ascii_uppercase());
        return match lower {
            // The sign for kelvin, and the long s.
            'k' => "([kK]|\u{212a})".to_owned(),
            's' => "([sS]|\u{17f})".to_owned(),
            _ => format!("[{lower}{upper}]"),
        };
    }
    if character.is_ascii() {
        return plain(&character.to_string());
    }
    let decompose = DecomposingNormalizerBorrowed::new_nfd();
    let mut all: Vec<String> = Vec::new();
    let cases =
        [character.to_string(), character.to_lowercase().collect(), character.to_uppercase().collect()];
    for form in cases.iter().flat_map(|case: &String| [case.clone(), decompose.normalize(case).into_owned()])
    {
        if !all.contains(&form) {
            all.push(form);
        }
    }
    if all.len() == 1 {
        plain(&all[0])
    } else {
        format!("({})", all.iter().map(|form| plain(form)).collect::<Vec<_>>().join("|"))
    }
}
