//! Texts as they read once escapes are undone: `%2B`, `\u002B`, `\/`, `&#43;`, `&amp;`, and the NULs of UTF-16.
//!
//! Each letter of a view remembers which bytes of the text it came from. A view of one kind undoes what one encoder did. The nested
//! view undoes whatever is there, also what only then reads as an escape (`%252B`, `\\u002B`): it works on its own output.

use std::ops::Range;

/// What is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Percent,
    Html,
    /// All of them, as deep as they go.
    Nested,
}

/// A text without its escapes.
#[derive(Default)]
pub(super) struct View {
    pub(super) letters: Vec<u8>,
    /// Where each letter starts and ends in the text.
    starts: Vec<u32>,
    ends: Vec<u32>,
    /// Which letters were escaped.
    pub(super) escaped: Vec<u32>,
}

/// The longest escape: `&#x` with up to seven digits, `&` with a name, and `;`.
pub(super) const LONGEST: usize = 11;

impl View {
    /// Where one letter is in the text.
    pub(super) fn place_of(&self, letter: usize) -> Range<usize> {
        self.starts[letter] as usize..self.ends[letter] as usize
    }

    /// Where letters of the view are in the text.
    pub(super) fn place(&self, letters: Range<usize>) -> Range<usize> {
        match letters.is_empty() {
            true => 0..0,
            false => self.starts[letters.start] as usize..self.ends[letters.end - 1] as usize,
        }
    }

    fn clear(&mut self) {
        self.letters.clear();
        self.starts.clear();
        self.ends.clear();
        self.escaped.clear();
    }

    fn put(&mut self, letter: u8, start: u32, end: u32) {
        self.letters.push(letter);
        self.starts.push(start);
        self.ends.push(end);
    }

    fn put_escaped(&mut self, undone: Undone, start: u32, end: u32) {
        for letter in undone.bytes() {
            self.escaped.push(self.letters.len() as u32);
            self.put(*letter, start, end);
        }
    }

    /// Reads a text. It is shorter than 4 GiB.
    pub(super) fn read(&mut self, text: &[u8], kind: Kind) {
        self.clear();
        if kind == Kind::Nested {
            return self.read_nested(text);
        }
        let mut at = 0;
        while at < text.len() {
            let undone = match (kind, text[at]) {
                (Kind::Json, b'\\') => json(&text[at..]),
                (Kind::Percent, b'%') => percent(&text[at..]),
                (Kind::Html, b'&') => html(&text[at..]),
                _ => None,
            };
            match undone {
                Some((undone, used)) => {
                    self.put_escaped(undone, at as u32, (at + used) as u32);
                    at += used;
                }
                None => {
                    self.put(text[at], at as u32, at as u32 + 1);
                    at += 1;
                }
            }
        }
    }

    fn read_nested(&mut self, text: &[u8]) {
        for (at, byte) in text.iter().enumerate() {
            if *byte == 0 {
                // Half of a character of UTF-16.
                if let (Some(end), true) = (self.ends.last_mut(), at > 0) {
                    *end = at as u32 + 1;
                    let last = self.letters.len() as u32 - 1;
                    if self.escaped.last() != Some(&last) {
                        self.escaped.push(last);
                    }
                }
                continue;
            }
            self.put(*byte, at as u32, at as u32 + 1);
            while self.undo_last() {}
        }
    }

    /// Undoes an escape that the last letter completes. Each time there are fewer letters.
    fn undo_last(&mut self) -> bool {
        let Some(last) = self.letters.last() else { return false };
        let ends_one = last.is_ascii_hexdigit()
            || matches!(last, b';' | b'"' | b'\\' | b'/' | b'\'')
            || matches!(last, b'n' | b'r' | b't');
        if !ends_one {
            return false;
        }
        let length = self.letters.len();
        for used in 2..=LONGEST.min(length) {
            let tail = &self.letters[length - used..];
            let undone = match tail[0] {
                b'\\' => json(tail),
                b'%' => percent(tail),
                b'&' => html(tail),
                _ => continue,
            };
            if let Some((undone, all)) = undone
                && all == used
                && undone.count < used
            {
                let (start, end) = (self.starts[length - used], self.ends[length - 1]);
                self.letters.truncate(length - used);
                self.starts.truncate(length - used);
                self.ends.truncate(length - used);
                while self.escaped.last().is_some_and(|last| *last as usize >= length - used) {
                    self.escaped.pop();
                }
                self.put_escaped(undone, start, end);
                return true;
            }
        }
        false
    }
}

/// What an escape stands for: a byte, or a character.
#[derive(Clone, Copy)]
struct Undone {
    bytes: [u8; 4],
    count: usize,
}

impl Undone {
    fn byte(byte: u8) -> Undone {
        Undone { bytes: [byte, 0, 0, 0], count: 1 }
    }

    fn character(code: u32) -> Option<Undone> {
        let mut bytes = [0; 4];
        let count = char::from_u32(code)?.encode_utf8(&mut bytes).len();
        Some(Undone { bytes, count })
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.count]
    }
}

fn digits(text: &[u8], radix: u32) -> Option<u32> {
    let digit = |byte: &u8| char::from(*byte).to_digit(radix);
    text.iter().try_fold(0u32, |sum, byte| sum.checked_mul(radix)?.checked_add(digit(byte)?))
}

fn json(text: &[u8]) -> Option<(Undone, usize)> {
    let hex = |count: usize| digits(text.get(2..2 + count)?, 16);
    match text.get(1)? {
        letter @ (b'"' | b'\\' | b'/' | b'\'') => Some((Undone::byte(*letter), 2)),
        b'n' => Some((Undone::byte(b'\n'), 2)),
        b'r' => Some((Undone::byte(b'\r'), 2)),
        b't' => Some((Undone::byte(b'\t'), 2)),
        b'x' => Some((Undone::byte(u8::try_from(hex(2)?).ok()?), 4)),
        b'u' => Some((Undone::character(hex(4)?)?, 6)),
        _ => None,
    }
}

fn percent(text: &[u8]) -> Option<(Undone, usize)> {
    Some((Undone::byte(u8::try_from(digits(text.get(1..3)?, 16)?).ok()?), 3))
}

/// Names of characters that programs escape, and of those that values have.
const NAMES: [(&[u8], u8); 17] = [
    (b"amp", b'&'),
    (b"lt", b'<'),
    (b"gt", b'>'),
    (b"quot", b'"'),
    (b"apos", b'\''),
    (b"plus", b'+'),
    (b"sol", b'/'),
    (b"bsol", b'\\'),
    (b"equals", b'='),
    (b"lowbar", b'_'),
    (b"period", b'.'),
    (b"colon", b':'),
    (b"comma", b','),
    (b"semi", b';'),
    (b"num", b'#'),
    (b"percnt", b'%'),
    (b"commat", b'@'),
];

fn html(text: &[u8]) -> Option<(Undone, usize)> {
    let end = text.iter().take(LONGEST).position(|byte| *byte == b';')?;
    let name = text.get(1..end)?;
    let undone = match name {
        [b'#', b'x' | b'X', hex @ ..] if !hex.is_empty() => Undone::character(digits(hex, 16)?)?,
        [b'#', decimal @ ..] if !decimal.is_empty() => Undone::character(digits(decimal, 10)?)?,
        name => Undone::byte(NAMES.iter().find(|(own, _)| *own == name)?.1),
    };
    Some((undone, end + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, kind: Kind) -> String {
        let mut view = View::default();
        view.read(text.as_bytes(), kind);
        String::from_utf8_lossy(&view.letters).into_owned()
    }

    #[test]
    fn one_kind_undoes_what_one_encoder_did() {
        assert_eq!(read(r#"a\u002Bb\/c\x2b\\u002B"#, Kind::Json), r#"a+b/c+\u002B"#);
        assert_eq!(read("%61%2B%252B%4", Kind::Percent), "a+%2B%4");
        assert_eq!(read("&#43;&#x2b;&plus;&amp;plus;&nothing;", Kind::Html), "+++&plus;&nothing;");
    }

    #[test]
    fn the_nested_view_undoes_all() {
        assert_eq!(read(r"%252B \\u002B \u0025\u0032B &amp;#43; %26%2343;", Kind::Nested), "+ + + + +");
        assert_eq!(read("k\0e\0y\0", Kind::Nested), "key");
    }

    proptest! {
        #[test]
        fn places_are_in_order_and_within(text in r"[%\\u0-9a-fx&#;\n/]{0,60}") {
            let mut view = View::default();
            for kind in [Kind::Json, Kind::Percent, Kind::Html, Kind::Nested] {
                view.read(text.as_bytes(), kind);
                let mut before = 0;
                for letter in 0..view.letters.len() {
                    let place = view.place(letter..letter + 1);
                    prop_assert!(place.start < place.end && place.end <= text.len());
                    prop_assert!(place.start >= before || place.start + 4 > before);
                    before = place.start;
                }
                prop_assert!(view.escaped.iter().all(|at| (*at as usize) < view.letters.len()));
            }
        }
    }
}
