//! srt's globs, said in patterns of kennel's.
//!
//! srt compares the text of a whole path, and knows neither escapes nor negation. `*` and `?` stay within a name; `**` does
//! not, and it can stand in the middle of one (`a**b`). A set runs from a `[` to the next `]`: `[!a]` are two characters,
//! and `[+-9]` holds the slash. Brackets that spell no set (`[user-id]`, whose `r-i` runs backwards, and `[]`) mean
//! themselves. A pattern of kennel's matches name by name instead, so that one glob of srt's can take several.
//!
//! A folder can be called `[WIP] project` or `[slug]`, and whoever writes a rule about it writes just that. So the leading
//! components that have special characters are read as names as well, as there. And where something is denied, brackets
//! anywhere are also read as text: a rule that denies nothing because of its spelling protects nobody.

use std::path::{Path, PathBuf};

use crate::pattern::{PathPattern, PatternError};
use crate::settings::Sense;

/// As many patterns one glob may take. Each `**` within a name, and each set that holds the slash, doubles them.
const MAX_PATTERNS: usize = 64;

/// The characters that make a glob of a text.
pub(super) const SPECIAL: [char; 4] = ['*', '?', '[', ']'];

/// All patterns that a text stands for in a folder, besides the path of that name.
pub(super) fn patterns(folder: &Path, text: &str, sense: Sense) -> Result<Vec<PathPattern>, PatternError> {
    let mut patterns = Vec::new();
    let own = folder.join(text);
    let mut add = |folder: &Path, texts: Vec<String>| {
        // What has a `.` or an empty name in it is the text of no path.
        let odd = |text: &&String| !text.split('/').any(|name| matches!(name, "" | "." | ".."));
        for text in texts.iter().filter(odd) {
            let pattern = PathPattern::parse_in(folder, text)?.in_utf16();
            if (pattern.is_glob() || pattern.as_path() != own) && !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        Ok(())
    };
    add(folder, spellings(&tokens(text, Brackets::Sets))?)?;
    if sense == Sense::Deny && text.contains('[') {
        add(folder, spellings(&tokens(text, Brackets::Text))?)?;
    }
    let names: Vec<&str> = text.split('/').collect();
    let special: Vec<usize> = (0..names.len()).filter(|at| names[*at].contains(SPECIAL)).collect();
    // Where all of them are names, it is no glob.
    for at in special.iter().take(special.len().saturating_sub(1)) {
        let above: PathBuf = names[..=*at].iter().collect();
        add(&folder.join(above), spellings(&tokens(&names[at + 1..].join("/"), Brackets::Sets))?)?;
    }
    Ok(patterns)
}

/// What brackets are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Brackets {
    Sets,
    Text,
}

#[derive(Debug, PartialEq)]
enum Token {
    Text(char),
    Separator,
    /// `?`
    One,
    /// `*`
    Star,
    /// `**`
    Globstar,
    /// `**/`
    GlobstarSlash,
    Set(Vec<(char, char)>),
}

fn tokens(text: &str, brackets: Brackets) -> Vec<Token> {
    let text: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    // Brackets before this were found to spell no set.
    let mut text_until = if brackets == Brackets::Text { text.len() } else { 0 };
    while let Some(character) = text.get(at) {
        let token = match character {
            '/' => Token::Separator,
            '?' => Token::One,
            '*' => {
                let run = text[at..].iter().take_while(|next| **next == '*').count();
                at += run;
                let slash = run > 1 && text.get(at) == Some(&'/');
                at += usize::from(slash);
                match run - if slash { 2 } else { 0 } {
                    0 => {}
                    1 => wildcard(&mut tokens, Token::Star),
                    _ => wildcard(&mut tokens, Token::Globstar),
                }
                if slash {
                    wildcard(&mut tokens, Token::GlobstarSlash);
                }
                continue;
            }
            '[' if at >= text_until => {
                let close = text[at + 1..].iter().position(|next| *next == ']').map(|length| at + 1 + length);
                match close.map(|close| (close, ranges(&text[at + 1..close]))) {
                    Some((close, Some(ranges))) => {
                        at = close;
                        Token::Set(ranges)
                    }
                    Some((close, None)) => {
                        text_until = close;
                        Token::Text('[')
                    }
                    None => {
                        text_until = text.len();
                        Token::Text('[')
                    }
                }
            }
            other => Token::Text(*other),
        };
        tokens.push(token);
        at += 1;
    }
    tokens
}

/// Adds a wildcard. Side by side with another that says the same it adds nothing.
fn wildcard(tokens: &mut Vec<Token>, token: Token) {
    match (tokens.last(), &token) {
        (Some(Token::Globstar), _) => {}
        (Some(last), _) if *last == token => {}
        (Some(Token::Star | Token::GlobstarSlash), Token::Globstar) => {
            tokens.pop();
            wildcard(tokens, Token::Globstar);
        }
        _ => tokens.push(token),
    }
}

/// The members of a set; `None` where they make none. A `-` that is first or last is one of them.
fn ranges(members: &[char]) -> Option<Vec<(char, char)>> {
    let mut ranges = Vec::new();
    let mut rest = members;
    while let Some((low, after)) = rest.split_first() {
        let (high, after) = match after {
            ['-', high, after @ ..] => (high, after),
            _ => (low, after),
        };
        if high < low {
            return None;
        }
        ranges.push((*low, *high));
        rest = after;
    }
    (!ranges.is_empty()).then_some(ranges)
}

/// The same in kennel's grammar, in which `**` is a name of its own and no set holds the slash: several texts, one of which
/// has to match.
fn spellings(tokens: &[Token]) -> Result<Vec<String>, PatternError> {
    let mut texts = vec![String::new()];
    for token in tokens {
        let mut next = Vec::with_capacity(texts.len());
        for text in texts {
            match token {
                Token::Text(character @ ('*' | '?' | '[')) => next.push(format!("{text}[{character}]")),
                Token::Text(character) => next.push(format!("{text}{character}")),
                Token::Separator => next.push(text + "/"),
                Token::One => next.push(text + "?"),
                Token::Star => next.push(with_star(&text)),
                Token::Globstar => {
                    let within = with_star(&text);
                    next.push(format!("{within}/**/*"));
                    next.push(within);
                }
                Token::GlobstarSlash if text.is_empty() || text.ends_with('/') => next.push(text + "**/"),
                Token::GlobstarSlash => {
                    next.push(with_star(&text) + "/**/");
                    next.push(text);
                }
                Token::Set(ranges) => {
                    if ranges.iter().any(|(low, high)| (*low..=*high).contains(&'/')) {
                        next.push(format!("{text}/"));
                    }
                    next.extend(sets(ranges).into_iter().map(|set| format!("{text}{set}")));
                }
            }
        }
        if next.len() > MAX_PATTERNS {
            return Err(PatternError::TooManyReadings);
        }
        texts = next;
    }
    Ok(texts)
}

/// With a star at the end, and not two: these would be a name of their own.
fn with_star(text: &str) -> String {
    if text.ends_with('*') { text.to_owned() } else { format!("{text}*") }
}

/// A set without the slash, in kennel's grammar: a `!` or `^` at its start would negate it there. None where nothing is
/// left, and two where there is no other way to say it.
fn sets(ranges: &[(char, char)]) -> Vec<String> {
    let (mut first, mut negators, mut dash) = (String::new(), Vec::new(), false);
    for (low, high) in ranges.iter().flat_map(|range| without_slash(*range)) {
        match low {
            '-' if high == '-' => dash = true,
            '!' | '^' => {
                negators.push(low);
                if high > low {
                    first.push_str(&said(after(low), high));
                }
            }
            _ => first.push_str(&said(low, high)),
        }
    }
    if first.is_empty() && !dash {
        return negators.iter().map(char::to_string).collect();
    }
    let others: String = negators.into_iter().collect();
    match (first.is_empty(), dash) {
        (true, _) if others.is_empty() => vec!["-".into()],
        (true, _) => vec![format!("[-{others}]")],
        (false, true) => vec![format!("[{first}{others}-]")],
        (false, false) => vec![format!("[{first}{others}]")],
    }
}

fn said(low: char, high: char) -> String {
    if low == high { low.to_string() } else { format!("{low}-{high}") }
}

fn without_slash((low, high): (char, char)) -> Vec<(char, char)> {
    if !(low..=high).contains(&'/') {
        return vec![(low, high)];
    }
    [(low, '.'), ('0', high)].into_iter().filter(|(low, high)| low <= high).collect()
}

/// The next ASCII character.
fn after(character: char) -> char {
    char::from(character as u8 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(text: &str, path: &str) -> bool {
        let patterns = patterns(Path::new("/w"), text, Sense::Deny).unwrap();
        patterns.iter().any(|pattern| pattern.matches(&Path::new("/w").join(path)))
    }

    fn allowed(text: &str, path: &str) -> bool {
        let patterns = patterns(Path::new("/w"), text, Sense::Allow).unwrap();
        patterns.iter().any(|pattern| pattern.matches(&Path::new("/w").join(path)))
    }

    #[test]
    fn brackets_that_spell_no_set_mean_themselves() {
        for sense in [denied, allowed] {
            assert!(sense("**/[user-id]/*.env", "a/b/[user-id]/x.env"));
            assert!(sense("*/[]x", "a/[]x"));
            assert!(sense("*[", "a["));
            assert!(sense("*/[z-*]", "a/[z-9]"), "and what is between them keeps its meaning");
            assert!(!sense("**/[user-id]/*.env", "a/u/x.env"));
        }
    }

    #[test]
    fn a_set_has_no_negation_and_no_escapes() {
        assert!(allowed("[!a]x", "!x") && allowed("[!a]x", "ax") && !allowed("[!a]x", "bx"));
        assert!(allowed("[^]x", "^x") && !allowed("[^]x", "bx"));
        assert!(allowed("[!^]x", "!x") && allowed("[!^]x", "^x") && !allowed("[!^]x", "ax"));
        assert!(allowed("[!-~]x", "!x") && allowed("[!-~]x", "ax") && !allowed("[!-~]x", " x"));
        assert!(allowed("[-!]x", "-x") && allowed("[-!]x", "!x") && !allowed("[-!]x", "ax"));
        assert!(allowed("[a-]x", "-x") && allowed("[-]x*", "-xy"));
        assert!(allowed(r"a\*", r"a\b") && !allowed(r"a\*", "a*"));
        assert!(allowed("[[]x", "[x") && allowed("[*]x", "*x") && !allowed("[*]x", "ax"));
        assert!(allowed("[]a]*", "[]a]b") && !allowed("[]a]*", "ab"));
    }

    #[test]
    fn a_set_can_hold_the_slash() {
        assert!(allowed("a[+-9]b*", "a/b") && allowed("a[+-9]b*", "a.bc") && allowed("a[+-9]b*", "a0b"));
        assert!(allowed("a[/]b*", "a/bc") && !allowed("a[/]b*", "axbc"));
    }

    #[test]
    fn two_stars_span_names_wherever_they_stand() {
        for path in ["ab", "axb", "ax/yb", "a/b", "a/x/y/b"] {
            assert!(allowed("a**b", path), "{path}");
        }
        assert!(!allowed("a**b", "b") && !allowed("a**b", "a/bc"));
        for path in ["ab", "ax/b", "a/b", "a/x/y/b"] {
            assert!(allowed("a**/b*", path), "{path}");
        }
        assert!(!allowed("a**/b*", "axb"));
        assert!(allowed("a/**/b*", "a/b") && allowed("a/**/b*", "a/x/y/bc"));
        assert!(allowed("a/***/b", "a/x/b") && allowed("a/***/b", "a/xb") && !allowed("a/***/b", "x/b"));
    }

    #[test]
    fn leading_components_are_names_as_well() {
        assert!(allowed("[WIP] project/**/.env", "[WIP] project/a/.env"));
        assert!(allowed("v/[v1.2]/*", "v/[v1.2]/x") && allowed("v/[v1.2]/*", "v/2/x"));
        assert!(allowed("**/x/*", "**/x/y"));
        assert!(!allowed("*/[id]/*", "a/[id]/x"), "only from the first on");
    }

    #[test]
    fn what_is_denied_is_denied_in_brackets_too() {
        assert!(denied("**/[id]/*.env", "a/[id]/x.env") && denied("**/[id]/*.env", "a/d/x.env"));
        assert!(denied("*/[id]/[slug].ts", "a/[id]/[slug].ts"));
    }

    #[test]
    fn a_question_mark_is_one_unit_of_utf_16() {
        assert!(!allowed("?", "😀") && allowed("??", "😀") && !allowed("???", "😀"));
        assert!(allowed("?", "ü") && allowed("???", "a😀") && allowed("???", "😀a") && !allowed("??", "a😀"));
        assert!(allowed("*?", "😀") && allowed("?*", "😀") && allowed("??*", "a😀") && !allowed("?x", "😀x"));
        assert!(allowed("?x*", "axb") && allowed("*?x", "aüx") && !allowed("?", ""));
    }

    #[test]
    fn a_glob_with_too_many_meanings_is_refused() {
        let text = "a**".repeat(20);
        assert_eq!(patterns(Path::new("/w"), &text, Sense::Deny), Err(PatternError::TooManyReadings));
    }
}
