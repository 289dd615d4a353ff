//! JSON by RFC 8259, with the place of every value, and without the freedoms that others take: a key that comes
//! twice is an error, because which of the two counts differs from reader to reader, and a policy that means two
//! things means nothing.

use std::borrow::Cow;
use std::collections::HashSet;

use super::Problem;
use super::tree::{Entry, Fault, MAX_DEPTH, Node, Value};

pub(crate) fn read(text: &str) -> Result<Node<'_>, Fault> {
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut reader = Reader { text, at: start };
    reader.skip_space();
    let node = reader.value(0)?;
    reader.skip_space();
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.syntax("something follows the end of the document")),
    }
}

struct Reader<'i> {
    text: &'i str,
    at: usize,
}

impl<'i> Reader<'i> {
    fn value(&mut self, depth: usize) -> Result<Node<'i>, Fault> {
        let at = self.at;
        if depth > MAX_DEPTH {
            return Err(Fault { at, problem: Problem::TooDeep });
        }
        let value = match self.peek() {
            Some(b'{') => self.table(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => Value::Number(self.number()?.into()),
            Some(b't') if self.take("true") => Value::Bool(true),
            Some(b'f') if self.take("false") => Value::Bool(false),
            Some(b'n') if self.take("null") => Value::Null,
            Some(b'/') => return Err(self.syntax("JSON does not allow comments; TOML does")),
            Some(_) => return Err(self.syntax("a value is expected here")),
            None => return Err(self.syntax("the file ends where a value is expected")),
        };
        Ok(Node { at, value })
    }

    fn table(&mut self, depth: usize) -> Result<Value<'i>, Fault> {
        self.at += 1;
        let mut entries: Vec<Entry<'i>> = Vec::new();
        let mut seen: HashSet<Cow<'i, str>> = HashSet::new();
        self.skip_space();
        if self.take("}") {
            return Ok(Value::Table(entries));
        }
        loop {
            self.skip_space();
            let at = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.syntax("a key in double quotes is expected here"));
            }
            let key = self.string()?;
            if !seen.insert(key.clone()) {
                return Err(Fault { at, problem: Problem::DuplicateKey(key.into_owned()) });
            }
            self.skip_space();
            if !self.take(":") {
                return Err(self.syntax("`:` is expected after a key"));
            }
            self.skip_space();
            let node = self.value(depth + 1)?;
            entries.push(Entry { at, key, node });
            self.skip_space();
            if self.take("}") {
                return Ok(Value::Table(entries));
            }
            if !self.take(",") {
                return Err(self.syntax("`,` or `}` is expected here"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value<'i>, Fault> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.take("]") {
            return Ok(Value::List(items));
        }
        loop {
            self.skip_space();
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take("]") {
                return Ok(Value::List(items));
            }
            if !self.take(",") {
                return Err(self.syntax("`,` or `]` is expected here"));
            }
        }
    }

    fn number(&mut self) -> Result<&'i str, Fault> {
        let start = self.at;
        self.take("-");
        if self.take("0") {
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.syntax("a number cannot start with 0"));
            }
        } else {
            self.digits()?;
        }
        if self.take(".") {
            self.digits()?;
        }
        if self.take("e") || self.take("E") {
            let _signed = self.take("+") || self.take("-");
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.syntax("a digit is expected here")) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<Cow<'i, str>, Fault> {
        self.at += 1;
        let start = self.at;
        let mut unescaped: Option<String> = None;
        let mut run = start;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let last = &self.text[run..self.at];
                    self.at += 1;
                    return Ok(match unescaped {
                        None => last.into(),
                        Some(text) => (text + last).into(),
                    });
                }
                Some(b'\\') => {
                    let text = unescaped.get_or_insert_default();
                    text.push_str(&self.text[run..self.at]);
                    self.at += 1;
                    let character = self.escape()?;
                    unescaped.get_or_insert_default().push(character);
                    run = self.at;
                }
                Some(0..0x20) => return Err(self.syntax("a control character in a string must be escaped")),
                Some(_) => self.at += 1,
                None => return Err(self.syntax("a string is not closed")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let character = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let first = self.hex4()?;
                // Characters beyond the first 65536 come as two escapes.
                let code = match first {
                    0xd800..0xdc00 if self.take("\\u") => {
                        let second = self.hex4()?;
                        match second {
                            0xdc00..0xe000 => 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                            _ => first,
                        }
                    }
                    _ => first,
                };
                return char::from_u32(code)
                    .ok_or_else(|| self.syntax("half of a surrogate pair is not a character"));
            }
            _ => return Err(self.syntax("unknown escape in a string")),
        };
        self.at += 1;
        Ok(character)
    }

    fn hex4(&mut self) -> Result<u32, Fault> {
        let digits = self.text.get(self.at..self.at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => Err(self.syntax("`\\u` is followed by four hexadecimal digits")),
        }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        if found {
            self.at += word.len();
        }
        found
    }

    fn syntax(&self, message: &str) -> Fault {
        Fault { at: self.at, problem: Problem::Syntax(message.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The tree in the terms of another reader, to compare the two.
    fn plain(node: &Node<'_>) -> serde_json::Value {
        match &node.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Number(text) => serde_json::from_str(text).unwrap(),
            Value::Text(text) => text.as_ref().into(),
            Value::List(items) => items.iter().map(plain).collect(),
            Value::Table(entries) => {
                entries.iter().map(|e| (e.key.as_ref().to_owned(), plain(&e.node))).collect()
            }
            Value::Date => unreachable!("JSON has no dates"),
        }
    }

    fn message(text: &str) -> (usize, String) {
        let fault = read(text).unwrap_err();
        (fault.at, fault.problem.to_string())
    }

    #[test]
    fn values_know_where_they_start() {
        let node = read(" { \"a\" : [1, \"x\\u00e9\\ud83d\\ude00\\n\"] }").unwrap();
        assert_eq!(node.at, 1);
        let Value::Table(entries) = &node.value else { panic!("a table") };
        assert_eq!((entries[0].at, entries[0].node.at), (3, 9));
        assert_eq!(plain(&node), serde_json::json!({"a": [1, "xé😀\n"]}));
    }

    #[test]
    fn mistakes_are_named_where_they_are() {
        assert_eq!(message("{\"a\":1,\"a\":2}"), (7, "the key `a` is given twice".to_owned()));
        assert_eq!(message("{\"a\":1,}").0, 7);
        assert_eq!(message("{a:1}").1, "a key in double quotes is expected here");
        assert_eq!(message("// hi").1, "JSON does not allow comments; TOML does");
        assert_eq!(message("\"\\ud800\"").1, "half of a surrogate pair is not a character");
        assert_eq!(message("[1] 2").1, "something follows the end of the document");
        assert_eq!(message("").1, "the file ends where a value is expected");
        for text in
            ["01", "1.", "-", "+1", ".5", "1e", "[1 2]", "{\"a\" 1}", "\"\n\"", "\"\\x\"", "tru", "\"\\u12\""]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(read(&deep(MAX_DEPTH)).is_ok());
        assert_eq!(read(&deep(500_000)).unwrap_err().problem, Problem::TooDeep);
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_another_reader_reads(text in "[\\[\\]{},:\"\\\\a0-9.eE+ \\-ué\\n]{0,30}") {
            match (read(&text), serde_json::from_str::<serde_json::Value>(&text)) {
                (Ok(ours), Ok(theirs)) => prop_assert_eq!(plain(&ours), theirs),
                (Err(_), Err(_)) => {}
                // The two differences that are meant: keys given twice, and numbers that no f64 holds.
                (Err(fault), Ok(_)) => prop_assert!(matches!(fault.problem, Problem::DuplicateKey(_))),
                (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("out of range"), "{text}: {error}"),
            }
        }

        #[test]
        fn written_json_reads_back(
            keys in proptest::collection::hash_map(any::<String>(), any::<(String, i64, bool)>(), 0..5),
        ) {
            let value = serde_json::json!(keys);
            let text = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(plain(&read(&text).unwrap()), value);
        }
    }
}
