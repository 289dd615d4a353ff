//! Reading JSON as it comes, in memory that does not grow with it.
//!
//! What the gateway wants of a text of megabytes is a few numbers and names. A [`Scanner`] takes the text in parts that are cut
//! anywhere, knows where in the structure it is, and tells each value that is no object and no array, once. Texts are told by their
//! length and their beginning. One text may hold several values one behind the other, as lines of JSON do.

/// The deepest nesting that is followed. Requests of clients have a dozen levels.
const MAX_DEPTH: usize = 128;
/// The most of a name that is kept. What is longer is none that anybody asks for.
const MAX_NAME: usize = 64;
/// The most of a text that is kept.
const MAX_TEXT: usize = 512;
const MAX_NUMBER: usize = 40;

/// What is not JSON, or nested too deeply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A text: its beginning, and how many bytes it has in all.
    Text(&'a str, u64),
    /// A number as it was written.
    Number(&'a str),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
    /// An object begins.
    Object,
    /// An array begins.
    Array,
}

/// One level of the structure.
#[derive(Clone, Debug, Default)]
pub struct Level {
    is_object: bool,
    /// The name of the member that is being read.
    name: Name,
}

#[derive(Clone, Debug, Default)]
struct Name {
    text: Vec<u8>,
    /// It was longer than what is kept.
    cut: bool,
}

impl Level {
    /// The member of an object; `None` in an array, and for names that are too long.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        if !self.is_object || self.name.cut {
            return None;
        }
        str::from_utf8(&self.name.text).ok()
    }

    /// Whether it is an array.
    #[must_use]
    pub fn is_array(&self) -> bool {
        !self.is_object
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value, or where the flag is set the end of an array.
    Value(bool),
    /// The name of a member, or where the flag is set the end of an object.
    Name(bool),
    Colon,
    /// A comma or an end.
    After,
    Text,
    Escape,
    /// So many digits of an escape are left.
    Unicode(u8),
    Number,
    /// The rest of `true`, `false` or `null`.
    Word(&'static [u8]),
    Broken,
}

/// Reads one stream of JSON.
#[derive(Debug)]
pub struct Scanner {
    state: State,
    levels: Vec<Level>,
    depth: usize,
    /// What is being read is the name of a member.
    in_name: bool,
    text: Vec<u8>,
    length: u64,
    /// The digits of an escape, and the first half of a pair of them.
    code: u16,
    high: Option<u16>,
    /// How many whole values there were at the top.
    values: u64,
}

impl Default for Scanner {
    fn default() -> Self {
        Scanner {
            state: State::Value(false),
            levels: Vec::new(),
            depth: 0,
            in_name: false,
            text: Vec::new(),
            length: 0,
            code: 0,
            high: None,
            values: 0,
        }
    }
}

impl Scanner {
    /// Takes a part, and tells each value with the levels that it is in. After an error nothing more is told.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn push(&mut self, part: &[u8], tell: &mut impl FnMut(&[Level], Value<'_>)) -> Result<(), Malformed> {
        let mut rest = part;
        while !rest.is_empty() {
            match self.step(rest, tell) {
                Ok(used) => rest = &rest[used..],
                Err(error) => {
                    self.state = State::Broken;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The end of the text, or of one of several. Returns how many values it held; the next part begins a new text.
    ///
    /// # Errors
    /// When it is no JSON, or not all of it.
    pub fn finish(&mut self, tell: &mut impl FnMut(&[Level], Value<'_>)) -> Result<u64, Malformed> {
        if self.state == State::Number && self.depth == 0 {
            self.end_of_number(tell);
        }
        let ended = self.state == State::Value(false) && self.depth == 0;
        let values = self.values;
        (self.state, self.depth, self.values, self.in_name, self.high) =
            (State::Value(false), 0, 0, false, None);
        if ended { Ok(values) } else { Err(Malformed) }
    }

    /// Returns how many bytes were used.
    fn step(&mut self, rest: &[u8], tell: &mut impl FnMut(&[Level], Value<'_>)) -> Result<usize, Malformed> {
        let byte = rest[0];
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match self.state {
            State::Value(_) | State::Name(_) | State::Colon | State::After if is_space => {}
            State::Value(may_end) => match byte {
                b'{' => self.open(true, tell)?,
                b'[' => self.open(false, tell)?,
                b']' if may_end => self.close(false)?,
                b'"' => self.begin_text(false),
                b't' => self.state = State::Word(b"rue"),
                b'f' => self.state = State::Word(b"alse"),
                b'n' => self.state = State::Word(b"ull"),
                b'-' | b'0'..=b'9' => {
                    self.text.clear();
                    self.text.push(byte);
                    self.state = State::Number;
                }
                _ => return Err(Malformed),
            },
            State::Name(may_end) => match byte {
                b'"' => self.begin_text(true),
                b'}' if may_end => self.close(true)?,
                _ => return Err(Malformed),
            },
            State::Colon if byte == b':' => self.state = State::Value(false),
            State::Colon => return Err(Malformed),
            State::After => match byte {
                b',' => {
                    let is_object = self.levels[self.depth - 1].is_object;
                    self.state = if is_object { State::Name(false) } else { State::Value(false) };
                }
                b'}' => self.close(true)?,
                b']' => self.close(false)?,
                _ => return Err(Malformed),
            },
            State::Text => match byte {
                b'"' => self.end_of_text(tell),
                b'\\' => self.state = State::Escape,
                _ => {
                    self.lone_half();
                    let plain = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    self.add(&rest[..plain]);
                    return Ok(plain);
                }
            },
            State::Escape => {
                let plain = match byte {
                    b'"' | b'\\' | b'/' => byte,
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'u' => {
                        (self.state, self.code) = (State::Unicode(4), 0);
                        return Ok(1);
                    }
                    _ => return Err(Malformed),
                };
                self.lone_half();
                self.add(&[plain]);
                self.state = State::Text;
            }
            State::Unicode(left) => {
                let digit = char::from(byte).to_digit(16).ok_or(Malformed)?;
                self.code = self.code << 4 | digit as u16;
                self.state = State::Unicode(left - 1);
                if left == 1 {
                    self.end_of_escape();
                    self.state = State::Text;
                }
            }
            State::Number => match byte {
                b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E' => {
                    if self.text.len() < MAX_NUMBER {
                        self.text.push(byte);
                    }
                }
                _ => {
                    self.end_of_number(tell);
                    return Ok(0);
                }
            },
            State::Word(wanted) => match wanted.split_first() {
                Some((first, after)) if *first == byte => {
                    self.state = State::Word(after);
                    if after.is_empty() {
                        let value = match wanted {
                            b"l" => Value::Null,
                            // The last letter of `true` and of `false` is the same; their first one is remembered.
                            _ => Value::Bool(self.code == 1),
                        };
                        tell(&self.levels[..self.depth], value);
                        self.after_value();
                    } else if matches!(after, b"ue" | b"lse") {
                        self.code = u16::from(after == b"ue");
                    }
                }
                _ => return Err(Malformed),
            },
            State::Broken => return Err(Malformed),
        }
        Ok(1)
    }

    fn open(&mut self, is_object: bool, tell: &mut impl FnMut(&[Level], Value<'_>)) -> Result<(), Malformed> {
        tell(&self.levels[..self.depth], if is_object { Value::Object } else { Value::Array });
        if self.depth == MAX_DEPTH {
            return Err(Malformed);
        }
        if self.levels.len() == self.depth {
            self.levels.push(Level::default());
        }
        let level = &mut self.levels[self.depth];
        level.is_object = is_object;
        level.name.text.clear();
        level.name.cut = false;
        self.depth += 1;
        self.state = if is_object { State::Name(true) } else { State::Value(true) };
        Ok(())
    }

    fn close(&mut self, is_object: bool) -> Result<(), Malformed> {
        if self.depth == 0 || self.levels[self.depth - 1].is_object != is_object {
            return Err(Malformed);
        }
        self.depth -= 1;
        self.after_value();
        Ok(())
    }

    fn after_value(&mut self) {
        if self.depth == 0 {
            self.values += 1;
            self.state = State::Value(false);
        } else {
            self.state = State::After;
        }
    }

    fn begin_text(&mut self, in_name: bool) {
        self.state = State::Text;
        self.in_name = in_name;
        self.length = 0;
        self.text.clear();
        if in_name {
            let name = &mut self.levels[self.depth - 1].name;
            name.text.clear();
            name.cut = false;
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let (kept, most) = match self.in_name {
            true => (&mut self.levels[self.depth - 1].name.text, MAX_NAME),
            false => (&mut self.text, MAX_TEXT),
        };
        let room = most - kept.len();
        kept.extend_from_slice(&bytes[..room.min(bytes.len())]);
        if self.in_name && room < bytes.len() {
            self.levels[self.depth - 1].name.cut = true;
        }
    }

    fn add_char(&mut self, char: char) {
        self.add(char.encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// A half of a pair without its other half stands for nothing.
    fn lone_half(&mut self) {
        if self.high.take().is_some() {
            self.add_char(char::REPLACEMENT_CHARACTER);
        }
    }

    fn end_of_escape(&mut self) {
        let code = self.code;
        match (self.high.take(), code) {
            (Some(high), 0xdc00..=0xdfff) => {
                let pair = char::decode_utf16([high, code]).next();
                self.add_char(pair.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            (before, _) => {
                if before.is_some() {
                    self.add_char(char::REPLACEMENT_CHARACTER);
                }
                match code {
                    0xd800..=0xdbff => self.high = Some(code),
                    _ => self.add_char(char::from_u32(code.into()).unwrap_or(char::REPLACEMENT_CHARACTER)),
                }
            }
        }
    }

    fn end_of_text(&mut self, tell: &mut impl FnMut(&[Level], Value<'_>)) {
        self.lone_half();
        if self.in_name {
            self.state = State::Colon;
            return;
        }
        let text = String::from_utf8_lossy(&self.text);
        tell(&self.levels[..self.depth], Value::Text(&text, self.length));
        self.after_value();
    }

    fn end_of_number(&mut self, tell: &mut impl FnMut(&[Level], Value<'_>)) {
        let text = str::from_utf8(&self.text).unwrap_or_default();
        tell(&self.levels[..self.depth], Value::Number(text));
        self.after_value();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scan(parts: &[&[u8]]) -> (Vec<String>, Result<u64, Malformed>) {
        let mut scanner = Scanner::default();
        let mut told = Vec::new();
        let mut tell = |levels: &[Level], value: Value<'_>| {
            let path: Vec<&str> = levels.iter().map(|level| level.name().unwrap_or("[]")).collect();
            told.push(format!("{}={value:?}", path.join(".")));
        };
        for part in parts {
            if scanner.push(part, &mut tell).is_err() {
                return (told, Err(Malformed));
            }
        }
        let end = scanner.finish(&mut tell);
        (told, end)
    }

    #[test]
    fn every_value_is_told_with_its_place() {
        let text = br#" {"a":{"b":[1,-2.5e3,{"c":"x\u0041\n\ud83d\ude00"}]},"t":true,"f":false,"n":null,"e":{},"l":[]}7 "z" "#;
        let (told, end) = scan(&[text]);
        let wanted = [
            "=Object",
            "a=Object",
            "a.b=Array",
            "a.b.[]=Number(\"1\")",
            "a.b.[]=Number(\"-2.5e3\")",
            "a.b.[]=Object",
            "a.b.[].c=Text(\"xA\\n😀\", 7)",
            "t=Bool(true)",
            "f=Bool(false)",
            "n=Null",
            "e=Object",
            "l=Array",
            "=Number(\"7\")",
            "=Text(\"z\", 1)",
        ];
        assert_eq!(told, wanted);
        assert_eq!(end, Ok(3));
    }

    #[test]
    fn what_is_no_json_is_known_as_such() {
        for text in [
            "{",
            "}",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "{\"a\":1,}",
            "[1}",
            "{\"a\":1]",
            "tru",
            "nul",
            "\"",
            "truE",
            "[1 2]",
            "{\"a\" 1}",
            "\"\\x\"",
            "\"\\u12g4\"",
            "data: {}",
            "]",
            ",",
        ] {
            assert!(scan(&[text.as_bytes()]).1.is_err(), "{text}");
        }
        assert_eq!(scan(&[b""]).1, Ok(0));
        let deep = "[".repeat(MAX_DEPTH + 1);
        assert!(scan(&[deep.as_bytes()]).1.is_err());
    }

    #[test]
    #[kennel_claim::claim("gateway/bodies-are-bounded")]
    fn long_texts_and_names_take_no_memory() {
        let mut scanner = Scanner::default();
        let mut lengths = Vec::new();
        let mut tell = |levels: &[Level], value: Value<'_>| {
            if let Value::Text(text, length) = value {
                lengths.push((levels[0].name().map(str::len), text.len(), length));
            }
        };
        scanner.push(b"{\"", &mut tell).unwrap();
        for _ in 0..1000 {
            scanner.push(&[b'n'; 100], &mut tell).unwrap();
        }
        scanner.push(b"\":\"", &mut tell).unwrap();
        for _ in 0..1000 {
            scanner.push(&[b't'; 100], &mut tell).unwrap();
        }
        scanner.push(b"\"}", &mut tell).unwrap();
        assert_eq!(scanner.finish(&mut tell), Ok(1));
        assert_eq!(lengths, [(None, MAX_TEXT, 100_000)]);
        assert!(scanner.text.capacity() <= 2 * MAX_TEXT);
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(text in "[\\[\\]{}:,\"\\\\a-fntrue0-9 .u-]{0,60}", cuts in prop::collection::vec(1usize..5, 1..20)) {
            let whole = scan(&[text.as_bytes()]);
            let (mut parts, mut rest, mut cuts) = (Vec::new(), text.as_bytes(), cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (part, after) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                parts.push(part);
                rest = after;
            }
            prop_assert_eq!(scan(&parts), whole);
        }

        #[test]
        fn what_others_write_is_read(numbers in prop::collection::vec(any::<i64>(), 0..5), text in ".{0,40}", name in ".{1,20}") {
            let value = serde_json::json!({ name: [numbers, text, {"x": text}] });
            let (told, end) = scan(&[value.to_string().as_bytes()]);
            prop_assert_eq!(end, Ok(1));
            let wanted = format!("Text({text:?}, {})", text.len());
            prop_assert_eq!(told.iter().filter(|line| line.ends_with(&wanted)).count(), 2);
        }

        #[test]
        fn anything_ends(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = scan(&[&bytes]);
        }
    }
}
