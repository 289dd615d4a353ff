//! A stream that is one JSON array, as Gemini's without `alt=sse` is: a line for each element.
//!
//! What is searched for a key goes on where a line ends, and is held back before ([`crate::secrets`]). Gemini sends an element without
//! the line break behind it, so each would wait for the next. White space between elements means nothing, so one is put there. That
//! tells nothing of the key: it goes by the structure alone, and no key that goes to Gemini has a `}` ([`super::Provider::check`]).

/// Follows the structure.
#[derive(Debug, Default)]
pub struct ElementLines {
    depth: u64,
    in_array: bool,
    in_text: bool,
    escaped: bool,
}

impl ElementLines {
    /// The next part, cut anywhere, with a line break behind each element that ends in it.
    pub fn push(&mut self, part: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(part.len() + 1);
        for &byte in part {
            out.push(byte);
            if self.in_text {
                self.in_text = self.escaped || byte != b'"';
                self.escaped = !self.escaped && byte == b'\\';
                continue;
            }
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => {
                    self.in_array = if self.depth == 0 { byte == b'[' } else { self.in_array };
                    self.depth += 1;
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            if byte == b'}' && self.depth == 1 && self.in_array {
                out.push(b'\n');
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use kennel_policy::secrets::SwapIn;

    use super::*;
    use crate::secrets::{Redaction, SecretValue, Swap};

    const PARTS: [&str; 4] =
        ["[{\"a\":[{\"b\":\"}\\\"}\"}]}", ",\r\n{\"a\":{}}", ", {\"c\":\"\\\\\"},{\"d\":1}", "\n]"];

    #[test]
    fn an_element_ends_in_a_line_break_however_it_is_cut() {
        let whole = PARTS.concat();
        let wanted = "[{\"a\":[{\"b\":\"}\\\"}\"}]}\n,\r\n{\"a\":{}}\n, {\"c\":\"\\\\\"}\n,{\"d\":1}\n\n]";
        for size in 1..whole.len() {
            let mut lines = ElementLines::default();
            let out: Vec<u8> = whole.as_bytes().chunks(size).flat_map(|part| lines.push(part)).collect();
            assert_eq!(String::from_utf8(out).unwrap(), wanted, "in parts of {size}");
        }
        // What is no array has no elements.
        let object = b"{\"a\":{\"b\":{}}}";
        assert_eq!(ElementLines::default().push(object), object);
    }

    #[test]
    fn an_element_is_passed_on_without_waiting_for_the_next() {
        let swap = Swap {
            name: "gemini".into(),
            stand_in: "AIza-only-inside".into(),
            value: SecretValue::from_bytes(b"AIzaSyREAL0123456789".to_vec()).unwrap(),
            hosts: Vec::new(),
            swap_in: SwapIn::default(),
        };
        let redaction = Redaction::new(&[swap]).unwrap();
        let holds = |with_lines: bool, part: &str| {
            let mut stream = redaction.body();
            let part = if with_lines { ElementLines::default().push(part.as_bytes()) } else { part.into() };
            let _ = stream.push(&part).unwrap();
            stream.holds()
        };
        let part = "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hello\"}]}}]}";
        assert!(holds(false, part), "without the line break it waits");
        assert!(!holds(true, part));
        assert!(
            holds(true, "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"AIzaSyRE"),
            "what is not whole"
        );
    }
}
