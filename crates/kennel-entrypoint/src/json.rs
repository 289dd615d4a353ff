//! `AGENT_ARGS` as JSON (RFC 8259): one array of strings and nothing else, so nothing here nests or recurses.
//!
//! Bytes inside a string pass through as they are, UTF-8 or not, because arguments are bytes; only control characters
//! are refused, as JSON asks. The input is one environment string, which the kernel limits to 128 KiB.

use alloc::vec::Vec;

/// Where and why a text is not an array of strings.
#[derive(Debug, PartialEq)]
pub struct NotStrings {
    /// Offset of the offending byte.
    pub at: usize,
    pub why: &'static str,
}

/// Parses `["…", …]`.
pub fn strings(text: &[u8]) -> Result<Vec<Vec<u8>>, NotStrings> {
    let mut reader = Reader { text, at: 0 };
    let mut strings = Vec::new();
    reader.expect(b'[', "an array starts with [")?;
    if !reader.skip(b']') {
        loop {
            reader.expect(b'"', "expected a string in double quotes")?;
            strings.push(reader.string()?);
            if reader.skip(b']') {
                break;
            }
            reader.expect(b',', "expected a comma or ] after a string")?;
        }
    }
    reader.skip_blanks();
    if reader.at == text.len() { Ok(strings) } else { reader.refuse("something follows the closing ]") }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn refuse<T>(&self, why: &'static str) -> Result<T, NotStrings> {
        Err(NotStrings { at: self.at, why })
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    fn skip(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, why: &'static str) -> Result<(), NotStrings> {
        if self.skip(byte) { Ok(()) } else { self.refuse(why) }
    }

    fn next(&mut self) -> Result<u8, NotStrings> {
        let Some(&byte) = self.text.get(self.at) else { return self.refuse("a string is not closed") };
        self.at += 1;
        Ok(byte)
    }

    /// The rest of a string whose opening quote has been read.
    fn string(&mut self) -> Result<Vec<u8>, NotStrings> {
        let mut string = Vec::new();
        loop {
            match self.next()? {
                b'"' => return Ok(string),
                b'\\' => self.escape(&mut string)?,
                0..0x20 => {
                    self.at -= 1;
                    return self.refuse("a control character in a string has to be escaped");
                }
                byte => string.push(byte),
            }
        }
    }

    fn escape(&mut self, string: &mut Vec<u8>) -> Result<(), NotStrings> {
        let byte = match self.next()? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let character = self.unicode_escape()?;
                string.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => {
                self.at -= 1;
                return self.refuse("no such escape");
            }
        };
        string.push(byte);
        Ok(())
    }

    /// `\uXXXX`, or the two of them that make one character outside the basic plane.
    fn unicode_escape(&mut self) -> Result<char, NotStrings> {
        const LONE: &str = "half of a surrogate pair";
        let first = self.four_hex_digits()?;
        let code = match first {
            0 => return self.refuse("an argument cannot hold a NUL"),
            0xd800..0xdc00 => {
                if !self.text[self.at..].starts_with(b"\\u") {
                    return self.refuse(LONE);
                }
                self.at += 2;
                let second @ 0xdc00..0xe000 = self.four_hex_digits()? else { return self.refuse(LONE) };
                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            }
            code => code,
        };
        char::from_u32(code).map_or_else(|| self.refuse(LONE), Ok)
    }

    fn four_hex_digits(&mut self) -> Result<u32, NotStrings> {
        let mut number = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.next()?).to_digit(16) else {
                self.at -= 1;
                return self.refuse("expected four hexadecimal digits");
            };
            number = number << 4 | digit;
        }
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &[u8]) -> &'static str {
        strings(text).unwrap_err().why
    }

    #[test]
    fn an_array_of_strings_is_read_with_all_its_escapes() {
        assert_eq!(
            strings(br#" [ "a b" ,"","\"\\\/\b\f\n\r\t","\u00e9\ud83d\udc15" ] "#).unwrap(),
            [b"a b".as_slice(), b"", b"\"\\/\x08\x0c\n\r\t", "é🐕".as_bytes()]
        );
        assert_eq!(strings(b"[]").unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn bytes_that_are_not_utf8_pass_through() {
        assert_eq!(strings(b"[\"\xff\"]").unwrap(), [b"\xff"]);
    }

    #[test]
    fn anything_but_an_array_of_strings_is_refused() {
        assert_eq!(refusal(b"{}"), "an array starts with [");
        assert_eq!(refusal(b"[1]"), "expected a string in double quotes");
        assert_eq!(refusal(b"[[]]"), "expected a string in double quotes");
        assert_eq!(refusal(b"[\"a\",]"), "expected a string in double quotes");
        assert_eq!(refusal(b"[\"a\" \"b\"]"), "expected a comma or ] after a string");
        assert_eq!(refusal(b"[\"a\""), "expected a comma or ] after a string");
        assert_eq!(refusal(b"[\"a\"] x"), "something follows the closing ]");
        assert_eq!(refusal(b"["), "expected a string in double quotes");
    }

    #[test]
    fn a_string_that_is_not_one_is_refused() {
        assert_eq!(refusal(b"[\"a"), "a string is not closed");
        assert_eq!(refusal(b"[\"a\\"), "a string is not closed");
        assert_eq!(refusal(b"[\"\n\"]"), "a control character in a string has to be escaped");
        assert_eq!(refusal(br#"["\x"]"#), "no such escape");
        assert_eq!(refusal(br#"["\u12g4"]"#), "expected four hexadecimal digits");
        assert_eq!(refusal(br#"["\u12"#), "a string is not closed");
        assert_eq!(refusal(br#"["\u0000"]"#), "an argument cannot hold a NUL");
        for half in [r#"["\ud83d"]"#, r#"["\ud83dx"]"#, r#"["\ud83d\u0041"]"#, r#"["\udc15"]"#] {
            assert_eq!(refusal(half.as_bytes()), "half of a surrogate pair", "{half}");
        }
    }

    #[test]
    fn a_refusal_says_where() {
        assert_eq!(strings(b"[\"a\", 7]").unwrap_err().at, 6);
    }

    /// No text may make the parser panic: every prefix of a rich one, and every single-byte change of it.
    #[test]
    fn damaged_arrays_are_refused_or_read_but_never_a_panic() {
        let rich = br#" ["a","\ud83d\udc15\n", "" ] "#;
        for end in 0..rich.len() {
            let _ = strings(&rich[..end]);
        }
        for at in 0..rich.len() {
            for byte in 0..=255 {
                let mut damaged = rich.to_vec();
                damaged[at] = byte;
                let _ = strings(&damaged);
            }
        }
    }
}
