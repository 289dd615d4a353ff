//! Tokens that programs look into (JSON Web Tokens): whether a text is one, and stand-ins that read like one.
//!
//! A stand-in says `HS256` and has a signature that fits nothing, so that whoever checks it refuses it. The real signature is
//! never shown: with a public key, a guess of a hidden claim could be checked against it.

use std::io;
use std::ops::Range;

use zeroize::Zeroizing;

use super::stand_in::letters;

/// Lists and objects within each other.
const MAX_DEPTH: usize = 64;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// As long as one of HS256.
const SIGNATURE: usize = 43;

/// Whether a text is a token: three parts, of which the first is an object that names an algorithm and the second is JSON.
pub(super) fn is_jwt(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let [header, payload, _] = parts.as_slice() else { return false };
    let (Some(header), Some(payload)) = (decode(header), decode(payload)) else { return false };
    let names_algorithm = Scan::members(&header).is_some_and(|members| {
        members.iter().any(|(key, _)| unescaped(&header[key.clone()]).is_some_and(|key| *key == b"alg"))
    });
    names_algorithm && Scan::is_valid(&payload)
}

/// A token that says nothing, and that nobody accepts.
pub(super) fn stand_in() -> io::Result<String> {
    let payload = format!(r#"{{"sub":"{}","exp":9999999999}}"#, letters(32)?);
    Ok(format!(
        "{}.{}.{}",
        encode(br#"{"alg":"HS256","typ":"JWT"}"#),
        encode(payload.as_bytes()),
        letters(SIGNATURE)?
    ))
}

/// A string of a token's payload that is secret.
pub(super) struct Claim {
    /// Where it is written, with its quotes.
    at: Range<usize>,
    /// What it says.
    pub(super) value: Zeroizing<Vec<u8>>,
}

/// The payload of a token, and its claims of these names. A claim that is no string is not secret.
pub(super) fn claims(token: &str, names: &[String]) -> Option<(Zeroizing<Vec<u8>>, Vec<Claim>)> {
    let payload = decode(token.split('.').nth(1)?)?;
    let mut claims = Vec::new();
    for (key, value) in Scan::members(&payload)? {
        let key = unescaped(&payload[key])?;
        if !names.iter().any(|name| name.as_bytes() == key.as_slice()) || payload[value.start] != b'"' {
            continue;
        }
        let text = unescaped(&payload[value.start + 1..value.end - 1])?;
        claims.push(Claim { at: value, value: text });
    }
    Some((payload, claims))
}

/// The same token with other texts for the claims, and another signature. All else is as it was, letter by letter.
pub(super) fn rebuilt(token: &str, payload: &[u8], claims: &[(Claim, String)]) -> io::Result<String> {
    let header = token.split('.').next().unwrap_or_default();
    let mut text = Vec::with_capacity(payload.len());
    let mut from = 0;
    for (claim, stand_in) in claims {
        text.extend_from_slice(&payload[from..claim.at.start]);
        text.push(b'"');
        text.extend_from_slice(stand_in.as_bytes());
        text.push(b'"');
        from = claim.at.end;
    }
    text.extend_from_slice(&payload[from..]);
    Ok(format!("{header}.{}.{}", encode(&text), letters(SIGNATURE)?))
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for at in 0..=group.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * at)) as usize & 63]));
        }
    }
    text
}

/// With either alphabet, and padding or none.
fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let text = text.trim_end_matches('=');
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len() / 4 * 3 + 3));
    let (mut bits, mut count) = (0u32, 0);
    for letter in text.bytes() {
        let letter = match letter {
            b'+' => b'-',
            b'/' => b'_',
            letter => letter,
        };
        bits = bits << 6 | u32::try_from(ALPHABET.iter().position(|own| *own == letter)?).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

/// Reads JSON without copying any of it: what it holds may be secret.
struct Scan<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Scan<'t> {
    fn is_valid(text: &'t [u8]) -> bool {
        let mut scan = Scan { text, at: 0 };
        std::str::from_utf8(text).is_ok() && scan.value(0).is_some() && scan.is_at_end()
    }

    /// The keys, without quotes, and the values of an object; `None` where it is none.
    fn members(text: &'t [u8]) -> Option<Vec<(Range<usize>, Range<usize>)>> {
        std::str::from_utf8(text).ok()?;
        let mut scan = Scan { text, at: 0 };
        let mut members = Vec::new();
        scan.space();
        scan.object(0, &mut |key, value| members.push((key, value)))?;
        scan.is_at_end().then_some(members)
    }

    fn is_at_end(&mut self) -> bool {
        self.space();
        self.at == self.text.len()
    }

    fn space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.text.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    fn value(&mut self, depth: usize) -> Option<Range<usize>> {
        self.space();
        let start = self.at;
        match self.text.get(self.at)? {
            b'{' => self.object(depth, &mut |_, _| {})?,
            b'[' => self.list(depth)?,
            b'"' => {
                self.string()?;
            }
            b't' => self.word(b"true")?,
            b'f' => self.word(b"false")?,
            b'n' => self.word(b"null")?,
            _ => self.number()?,
        }
        Some(start..self.at)
    }

    fn object(&mut self, depth: usize, member: &mut dyn FnMut(Range<usize>, Range<usize>)) -> Option<()> {
        self.take(b'{')?;
        if depth >= MAX_DEPTH {
            return None;
        }
        self.space();
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.take(b':')?;
            let value = self.value(depth + 1)?;
            member(key, value);
            self.space();
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    fn list(&mut self, depth: usize) -> Option<()> {
        self.take(b'[')?;
        if depth >= MAX_DEPTH {
            return None;
        }
        self.space();
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            self.value(depth + 1)?;
            self.space();
            if self.take(b',').is_none() {
                return self.take(b']');
            }
        }
    }

    fn string(&mut self) -> Option<Range<usize>> {
        self.take(b'"')?;
        let start = self.at;
        loop {
            match self.text.get(self.at)? {
                b'"' => {
                    self.at += 1;
                    return Some(start..self.at - 1);
                }
                b'\\' => match self.text.get(self.at + 1)? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
                    b'u' => {
                        let digits = self.text.get(self.at + 2..self.at + 6)?;
                        digits.iter().all(u8::is_ascii_hexdigit).then(|| self.at += 6)?;
                    }
                    _ => return None,
                },
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.take(b'-');
        if self.take(b'0').is_none() {
            self.digits()?;
        }
        if self.take(b'.').is_some() {
            self.digits()?;
        }
        if self.take(b'e').or_else(|| self.take(b'E')).is_some() {
            let _ = self.take(b'+').or_else(|| self.take(b'-'));
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let count = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(())
    }
}

/// What a string says that was found valid; `None` where it is no text (half a character).
fn unescaped(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut out = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        if *first != b'\\' {
            out.push(*first);
            rest = after;
            continue;
        }
        let (escape, mut after) = after.split_first()?;
        match escape {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let (mut code, left) = unit(after)?;
                after = left;
                if (0xd800..0xdc00).contains(&code) {
                    let (low, left) = unit(after.strip_prefix(b"\\u")?)?;
                    code = 0x10000
                        + ((code - 0xd800) << 10)
                        + low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
                    after = left;
                }
                let mut buffer = [0; 4];
                out.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut buffer).as_bytes());
            }
            other => out.push(*other),
        }
        rest = after;
    }
    Some(out)
}

/// Four hexadecimal digits, and what follows.
fn unit(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, after) = text.split_at_checked(4)?;
    Some((u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(header: &str, payload: &str) -> String {
        format!("{}.{}.c2ln", encode(header.as_bytes()), encode(payload.as_bytes()))
    }

    #[test]
    fn tokens_are_told_from_what_looks_like_one() {
        assert!(is_jwt(&token(r#"{"alg":"RS256"}"#, r#"{"sub":"x"}"#)));
        assert!(is_jwt(&token(r#" { "a\u006cg" : null } "#, "1")));
        for (header, payload) in
            [(r#"{"typ":"JWT"}"#, "{}"), (r#"["alg"]"#, "{}"), (r#"{"alg":1}"#, "{"), (r#"{"alg":1}x"#, "{}")]
        {
            assert!(!is_jwt(&token(header, payload)), "{header} {payload}");
        }
        assert!(!is_jwt("eyJhbGciOiJIUzI1NiJ9.e30") && !is_jwt("a.b.c") && !is_jwt(""));
    }

    #[test]
    #[kennel_claim::claim("secrets/tokens-in-place-of-tokens")]
    fn a_stand_in_reads_like_a_token() {
        let text = stand_in().unwrap();
        assert!(is_jwt(&text) && text.starts_with("eyJ"), "{text}");
        assert_ne!(text, stand_in().unwrap());
    }

    #[test]
    #[kennel_claim::claim("secrets/tokens-in-place-of-tokens")]
    fn claims_are_replaced_and_the_rest_stays() {
        let payload =
            r#"{"iss":"me", "key" : "s\u00e9cret\n", "n": 12345678901234567890, "other":{"key":"x"}}"#;
        let real = token(r#"{"alg":"RS256","kid":"7"}"#, payload);
        let (decoded, found) = claims(&real, &["key".into(), "n".into()]).unwrap();
        assert_eq!(found.len(), 1, "a number is not masked");
        assert_eq!(found[0].value.as_slice(), "sécret\n".as_bytes());
        let named: Vec<(Claim, String)> =
            found.into_iter().map(|claim| (claim, "STAND-IN".to_owned())).collect();
        let shown = rebuilt(&real, &decoded, &named).unwrap();
        assert!(is_jwt(&shown));
        assert_eq!(shown.split('.').next(), real.split('.').next());
        let shown_payload = decode(shown.split('.').nth(1).unwrap()).unwrap();
        let expected = payload.replace(r#""s\u00e9cret\n""#, r#""STAND-IN""#);
        assert_eq!(String::from_utf8(shown_payload.to_vec()).unwrap(), expected);
        assert_ne!(shown.split('.').nth(2), Some("c2ln"), "the signature is never shown");
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::vec((any::<String>(), inner), 0..4)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_json_to_others_is_json_here(value in json(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.unwrap();
            prop_assert!(Scan::is_valid(text.as_bytes()), "{}", text);
            if let serde_json::Value::Object(members) = &value {
                let found = Scan::members(text.as_bytes()).unwrap();
                let keys: Vec<String> = found
                    .iter()
                    .map(|(key, _)| String::from_utf8(unescaped(&text.as_bytes()[key.clone()]).unwrap().to_vec()).unwrap())
                    .collect();
                prop_assert_eq!(keys, members.keys().cloned().collect::<Vec<_>>());
            }
        }

        #[test]
        fn what_is_no_json_to_others_is_none_here(text in r#"[\[\]{}",:0-9a-z\\ -]{0,12}"#) {
            let theirs = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            let own = Scan::is_valid(text.as_bytes());
            // Numbers that are too large for others, and halves of characters, are only letters here.
            prop_assert!(own == theirs || own && text.contains(['e', '\\']), "{}", text);
        }

        #[test]
        fn what_is_encoded_is_decoded(bytes: Vec<u8>) {
            let decoded = decode(&encode(&bytes)).unwrap();
            prop_assert_eq!(decoded.as_slice(), bytes.as_slice());
        }
    }
}
