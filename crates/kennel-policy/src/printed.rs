//! Names as they may be printed: a stranger may have chosen them, and a terminal, a pager or an editor obeys what it is
//! shown.
//!
//! Everything that kennel prints goes through here: plans, errors, notes, reports. Escaped are control characters, of
//! which U+009B begins a sequence by itself, and all characters that reorder a line or do not show: a path must not read
//! as another one.

use std::fmt::{self, Write as _};

/// Characters that do not show, or change how others show, besides control characters: Unicode's format characters (Cf),
/// its separators of lines and paragraphs, and what it calls ignorable by default (Unicode 16).
const HIDDEN: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether a character shows as itself, wherever it is printed.
#[must_use]
pub fn is_plain(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    let after = HIDDEN.partition_point(|(_, last)| *last < character);
    let hidden = HIDDEN.get(after).is_some_and(|(first, _)| *first <= character);
    !hidden && !character.is_control()
}

/// A name, safe to print: what does not show as itself becomes an escape, and so does a byte that is no text.
///
/// ```
/// use kennel_policy::printed::show;
/// assert_eq!(show("a\u{202e}b".as_bytes()), "a\\u{202e}b");
/// assert_eq!(show(b"\x1b[2J\xff"), "\\u{1b}[2J\\xff");
/// ```
#[must_use]
pub fn show(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_plain(character) {
                out.push(character);
            } else {
                out.extend(character.escape_default());
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// A name in ASCII alone, for places that take nothing else, such as the first line of an HTTP answer. A backslash is
/// escaped as well, so that a program reads it in one way only.
///
/// ```
/// use kennel_policy::printed::Ascii;
/// assert_eq!(Ascii("é\\\r\n").to_string(), "\\u{e9}\\\\\\r\\n");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ascii<'a>(pub &'a str);

impl fmt::Display for Ascii<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if character.is_ascii() && is_plain(character) && character != '\\' {
                f.write_char(character)?;
            } else {
                write!(f, "{}", character.escape_default())?;
            }
        }
        Ok(())
    }
}

/// A message of several lines, which stay lines, safe to print.
#[must_use]
pub fn show_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| show(line.as_bytes())).collect();
    lines.join("\n")
}

/// JSON in which every character shows: outside of strings it is ASCII, and in them an escape says the same.
#[must_use]
pub fn show_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        // The writer of the JSON has escaped those of ASCII; what is left of them are its own line ends.
        if character.is_ascii() || is_plain(character) {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    // U+007F is the one control character that JSON does not ask to be escaped.
    if out.contains('\u{7f}') { out.replace('\u{7f}', "\\u007f") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(HIDDEN.iter().all(|(first, last)| first <= last));
        assert!(HIDDEN.windows(2).all(|two| two[0].1 < two[1].0));
    }

    #[test]
    fn what_moves_reorders_or_hides_is_escaped() {
        for hidden in [
            '\0',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{9b}',
            '\u{ad}',
            '\u{200b}',
            '\u{200f}',
            '\u{2028}',
            '\u{202a}',
            '\u{202e}',
            '\u{2066}',
            '\u{2067}',
            '\u{2068}',
            '\u{2069}',
            '\u{61c}',
            '\u{feff}',
            '\u{e0041}',
            '\u{fe0f}',
            '\u{3164}',
        ] {
            assert!(!is_plain(hidden), "{hidden:?}");
            let shown = show(format!("a{hidden}b").as_bytes());
            assert!(shown.starts_with("a\\u{") && shown.ends_with("}b"), "{shown:?}");
        }
    }

    #[test]
    fn ordinary_names_of_all_scripts_stay_as_they_are() {
        for plain in
            ["/srv/a b", "naïve", "Straße", "日本語", "имя", "عربى", "שלום", "हिन्दी", "😀", "\u{301}"]
        {
            assert_eq!(show(plain.as_bytes()), plain);
        }
    }

    #[test]
    fn json_says_the_same_in_plain_characters() {
        let value = serde_json::json!({ "a\u{202e}": "x\u{9b}\u{7f}\u{e0041}\n\"ü" });
        let text = show_json(&format!("{value:#}"));
        assert!(text.chars().all(|c| c == '\n' || is_plain(c)), "{text:?}");
        assert!(text.contains('ü') && text.contains("\\udb40\\udc41"), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn what_a_program_chose_cannot_drive_a_terminal_or_end_a_header() {
        let text = Ascii("a\x1b[31m\r\n\u{202e}b\\\"'").to_string();
        assert_eq!(text, "a\\u{1b}[31m\\r\\n\\u{202e}b\\\\\"'");
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(show_lines("a\rb\nc\u{2028}"), "a\\rb\nc\\u{2028}");
    }
}
