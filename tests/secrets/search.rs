//! The search for real keys, in every encoding: inside by `search.py`, in what a sandbox leaves behind by this file. The same
//! search finds them outside, so it can fail.

use std::fmt::Write as _;

use kennel_tests::Scratch;
use serde_json::{Value, json};

use crate::secrets::Upstream;

/// A text in the encodings in which it could hide.
pub fn forms(secret: &str) -> Vec<(&'static str, String)> {
    let bytes = secret.as_bytes();
    let each = |write: fn(&mut String, u8)| {
        let mut out = String::new();
        bytes.iter().for_each(|byte| write(&mut out, *byte));
        out
    };
    let hex = each(|out, byte| {
        let _ = write!(out, "{byte:02x}");
    });
    let percent = each(|out, byte| {
        let _ = write!(out, "%{byte:02X}");
    });
    let escaped = each(|out, byte| {
        let _ = write!(out, "\\u{byte:04x}");
    });
    let mut all = vec![
        ("raw", secret.to_owned()),
        ("hex", hex.clone()),
        ("hex in upper case", hex.to_uppercase()),
        ("percent", percent.clone()),
        ("percent in lower case", percent.to_lowercase()),
        ("JSON's escapes", escaped),
        ("backwards", secret.chars().rev().collect()),
    ];
    for (before, name) in
        ["base64", "base64 after one byte", "base64 after two bytes"].into_iter().enumerate()
    {
        let text = base64(&[&vec![0; before], bytes].concat());
        let skip = (before * 8).div_ceil(6);
        let kept = &text[skip..(before + bytes.len()) * 8 / 6];
        all.push((name, kept.to_owned()));
        all.push((name, kept.replace('+', "-").replace('/', "_")));
    }
    all
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let three = [group[0], group.get(1).copied().unwrap_or(0), group.get(2).copied().unwrap_or(0)];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for at in 0..=group.len() {
            out.push(char::from(ALPHABET[(bits >> (18 - 6 * at)) as usize & 63]));
        }
    }
    out
}

impl Upstream {
    /// Which real keys a text holds, and in which encoding.
    pub fn found_in(&self, text: &str) -> Vec<String> {
        let all =
            self.keys.iter().flat_map(|(name, key)| forms(key).into_iter().map(move |form| (name, form)));
        let hits = all.filter(|(_, (_, needle))| text.contains(needle.as_str()));
        hits.map(|(name, (form, _))| format!("{name}, {form}")).collect()
    }

    /// Fails the test if a text holds a real key.
    #[track_caller]
    pub fn assert_clean(&self, what: &str, text: &str) {
        assert_eq!(self.found_in(text), Vec::<String>::new(), "{what} holds a real key:\n{text}");
    }

    /// Writes the search and what it looks for into a folder; returns the command that searches. It looks at every file below
    /// these folders, and at every process where the folder is `/`; else at those that have started it.
    pub fn search_command(&self, home: &Scratch, below: &[&str]) -> String {
        let masked: serde_json::Map<String, Value> = self
            .keys
            .iter()
            .map(|(name, key)| {
                let mut text = String::new();
                for byte in key.bytes() {
                    let _ = write!(text, "{:02x}", byte ^ 0x5a);
                }
                (name.clone(), text.into())
            })
            .collect();
        let asked =
            json!({"since": self.since, "masked": masked, "below": below, "everybody": below == ["/"]});
        let script = home.write("search.py", include_str!("search.py"));
        let needles = home.write("needles.json", &asked.to_string());
        let python = kennel_tests::world::python().unwrap_or_default();
        format!("{} {} < {}", python.display(), script.display(), needles.display())
    }
}

#[test]
fn the_forms_of_a_key_are_those_of_the_usual_programs() {
    let all = forms("ab~?");
    let has = |text: &str| all.iter().any(|(_, form)| form == text);
    assert!(has("61627e3f") && has("%61%62%7E%3F") && has("\\u0061\\u0062\\u007e\\u003f"), "{all:?}");
    // printf 'ab~?' | base64 is YWJ+Pw==, of which the last character depends on what follows.
    assert!(has("YWJ+P") && has("YWJ-P"), "{all:?}");
    // printf 'xab~?' | base64 is eGFifj8=, printf 'xyab~?' | base64 is eHlhYn4/.
    assert!(has("Fifj") && has("hYn4/"), "{all:?}");
}
