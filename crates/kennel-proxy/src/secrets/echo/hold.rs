//! Where a stream may be cut, decided without looking at any value.
//!
//! Whoever writes the text that a server sends back sees where the gate holds it up. So that must tell nothing of what is looked
//! for: it goes by the classes of bytes alone, which are the same for every value. Two kinds of forms are searched for:
//!
//! - **in a line**: the value as it is or with characters escaped. No value has a control character, so a control character
//!   other than NUL (UTF-16) ends it;
//! - **spaced**: base64 and hexadecimal digits, between whose letters line breaks, blanks, colons and commas may stand, and
//!   which may be escaped. Every other byte ends it, and so does an empty line.
//!
//! The end of a text that is in neither kind cannot be the beginning of anything that is searched for. Model tokens come as
//! events that end in `}` and an empty line, and pass at once.

use std::ops::Range;

/// What a byte can be.
const ENDS_LINE: u8 = 1;
const SPACED: u8 = 2;
const SEPARATES: u8 = 4;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let separates = matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b':' | b',' | 0);
        let other = matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=' | b'%' | b'\\' | b'&' | b'#' | b';');
        if byte != 0 && (byte < b' ' || byte == 0x7f) {
            classes[at] |= ENDS_LINE;
        }
        if separates {
            classes[at] |= SEPARATES;
        }
        if separates || other || byte.is_ascii_alphanumeric() {
            classes[at] |= SPACED;
        }
        at += 1;
    }
    classes
};

/// A byte that is in no value and in no escaped form of one.
pub(super) fn ends_line_form(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & ENDS_LINE != 0
}

/// A byte between the letters of base64 or hexadecimal digits, with which neither begins.
pub(super) fn separates(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & SEPARATES != 0
}

/// A byte that can be in base64 or hexadecimal digits, as they are or escaped.
pub(super) fn in_spaced_form(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & SPACED != 0
}

/// The next part of a text, from here on, that has at least this length and no byte that ends it. Most of a text is never looked at:
/// where a byte ends a part, nothing as long can begin before it.
pub(super) fn next_run(
    text: &[u8],
    mut from: usize,
    least: usize,
    ends: impl Fn(u8) -> bool,
) -> Option<Range<usize>> {
    let least = least.max(1);
    loop {
        let window = text.get(from..from.checked_add(least)?)?;
        match window.iter().rposition(|byte| ends(*byte)) {
            Some(at) => from += at + 1,
            None => {
                let more = text[from + least..].iter().position(|byte| ends(*byte));
                return Some(from..more.map_or(text.len(), |more| from + least + more));
            }
        }
    }
}

/// Sees the empty lines of a text, byte by byte: `\n\n`, `\r\n\r\n`, `\r\r`, and such with blanks between.
#[derive(Clone, Copy, Default)]
pub(super) struct Lines {
    feeds: u8,
    returns: u8,
}

impl Lines {
    /// Whether an empty line ends, or goes on, with this byte.
    pub(super) fn is_empty_line(&mut self, byte: u8) -> bool {
        match byte {
            b'\n' => self.feeds = self.feeds.saturating_add(1),
            b'\r' => self.returns = self.returns.saturating_add(1),
            b' ' | b'\t' | 0 => {}
            _ => *self = Lines::default(),
        }
        self.feeds > 1 || self.returns > 1
    }
}

/// From where on the end of a text may be the beginning of a form, whatever the value is; its length if nowhere. At most the last
/// `most` bytes are looked at.
pub(super) fn open_from(text: &[u8], most: usize) -> usize {
    let floor = text.len().saturating_sub(most);
    let tail = &text[floor..];
    let line = tail.iter().rposition(|byte| ends_line_form(*byte)).map_or(0, |at| at + 1);
    let mut spaced = tail.iter().rposition(|byte| !in_spaced_form(*byte)).map_or(0, |at| at + 1);
    let mut lines = Lines::default();
    let first = spaced;
    for (at, byte) in tail.iter().enumerate().skip(first) {
        if lines.is_empty_line(*byte) {
            spaced = at + 1;
        }
    }
    spaced += tail[spaced..].iter().take_while(|byte| separates(**byte)).count();
    // A NUL in front may be half of a character of UTF-16, and belongs to no form otherwise.
    floor + line.min(spaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> &str {
        &text[open_from(text.as_bytes(), 1000)..]
    }

    #[test]
    fn events_and_lines_that_end_in_punctuation_are_decided_at_once() {
        for text in [
            "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n",
            "data: Hello\n\n",
            "event: ping\r\n\r\n",
            "event: ping\r\r",
            "{\"done\":false}\n",
            "<p>Hello</p>\n",
            "A sentence.\n",
            "",
        ] {
            assert_eq!(open(text), "", "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_run_that_is_long_enough_is_found(text in "[ab|]{0,60}", least in 0usize..8) {
            let (mut runs, mut from) = (Vec::new(), 0);
            while let Some(run) = next_run(text.as_bytes(), from, least, |byte| byte == b'|') {
                runs.push(&text[run.clone()]);
                from = run.end;
            }
            let wanted: Vec<&str> = text.split('|').filter(|run| run.len() >= least.max(1)).collect();
            proptest::prop_assert_eq!(runs, wanted);
        }
    }

    #[test]
    fn the_rest_of_a_line_and_words_before_a_line_break_are_held() {
        assert_eq!(open("{\"a\":1}\n{\"b\":\"ghp_"), "{\"b\":\"ghp_");
        assert_eq!(open("a sentence. Zm9v\n"), "Zm9v\n");
        assert_eq!(open("Zm9v\r\n  YmFy\r\n"), "Zm9v\r\n  YmFy\r\n");
        assert_eq!(open("old\n\nZm9v\n"), "Zm9v\n");
        assert_eq!(open("\n\n 47:48"), " 47:48");
        assert_eq!(open_from(&[b'a'; 50], 20), 30);
    }
}
