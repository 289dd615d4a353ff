//! Paths of requests, as servers read them: each in its own order.

use kennel_policy::domain::Host;
use kennel_policy::http_rule::{HttpRule, RequestTarget};

use super::Judgement;
use crate::attack_gate::rng::Rng;

/// What targets are made of.
const PIECES: &[&str] = &[
    "a",
    "b",
    "c",
    "json",
    "a",
    "b",
    "/",
    "/",
    "/",
    ".",
    "..",
    ".json",
    "%2e",
    "%2E%2e",
    ";",
    ";x=1",
    "%3B",
    "%3bx",
    "%3F",
    "%3Fx",
    "%23",
    "%23x",
    "%2F",
    "%5C",
    "\\",
    "%20",
    "+",
    "%00",
    "%09",
    "%0A",
    "%C2%A0",
    "%E2%80%8B",
    "%C2%AD",
    "%EF%BB%BF",
    "%C0%AE",
    "%C0%AF",
    "%E0%80%AE",
    "%EF%BC%8E",
    "%EF%BC%8F",
    "%E2%80%A5",
    "%E2%88%95",
    "%25",
    "%252e",
    "%252F",
    "%2525",
    "%u002e",
    "%",
    ":",
    "::$DATA",
    "~",
    "-",
    "_",
    "*",
    "%2A",
    "%61",
    "%41",
    "//",
    "/./",
    "/../",
    "/..;/",
    "%EF%BC%9B",
    "%EF%BC%9F",
    "%26",
    "&",
    "=",
    "@",
    ",",
    "'",
    "%27",
    "%22",
    "%7C",
    "|",
    "\u{e9}",
];

/// What a server makes of the text of a path.
type Reading = fn(&str) -> String;

/// The ways that are known of servers, frameworks and proxies.
const READINGS: &[(&str, Reading)] = &[
    ("undoes escapes", |path| {
        let bytes = unescaped(path);
        match String::from_utf8(bytes) {
            Ok(text) => text,
            // By Latin-1, as servers without an encoding do.
            Err(error) => error.as_bytes().iter().map(|byte| char::from(*byte)).collect(),
        }
    }),
    ("undoes escapes of UTF-8 that is too long", |path| too_long(&unescaped(path))),
    ("cuts at ? and #", |path| path.split(['?', '#']).next().unwrap_or_default().to_owned()),
    ("takes \\ for /", |path| path.replace('\\', "/")),
    ("leaves parameters out", |path| {
        each_part(path, |part| part.split(';').next().unwrap_or_default().to_owned())
    }),
    ("trims blanks", |path| each_part(path, |part| part.trim().to_owned())),
    ("trims dots and blanks at the end", |path| {
        each_part(path, |part| match part {
            "." | ".." => part.to_owned(),
            part => part.trim_end_matches(['.', ' ']).to_owned(),
        })
    }),
    ("leaves out what is not seen", |path| {
        path.chars().filter(|c| !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{feff}')).collect()
    }),
    ("folds full width", |path| {
        let fold = |c: char| match c {
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0).unwrap().to_string(),
            '\u{2025}' => "..".to_owned(),
            '\u{2044}' | '\u{2215}' => "/".to_owned(),
            c => c.to_string(),
        };
        path.chars().map(fold).collect()
    }),
    // But not where it is a name of its own, as in addresses of Gerrit's.
    ("takes + for a blank", |path| {
        each_part(path, |part| {
            if part.trim_matches('+').is_empty() { part.to_owned() } else { part.replace('+', " ") }
        })
    }),
];

fn each_part(path: &str, change: impl Fn(&str) -> String) -> String {
    path.split('/').map(change).collect::<Vec<_>>().join("/")
}

fn unescaped(path: &str) -> Vec<u8> {
    let bytes = path.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut read, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                read.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                read.push(byte);
                at += 1;
            }
        }
    }
    read
}

/// Two and three bytes for a character that needs one.
fn too_long(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (0xc0 | 0xc1, [second, after @ ..]) => {
                text.push((first & 1) << 6 | second & 0x3f);
                after
            }
            (0xe0, [second @ 0x80..=0x9f, third, after @ ..]) => {
                text.push((second & 1) << 6 | third & 0x3f);
                after
            }
            _ => {
                text.push(*first);
                after
            }
        };
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The names that a path leads along, without `.`, `..` and what is empty.
fn names(path: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(names.pop()),
            part => names.push(part.to_owned()),
        }
    }
    names
}

/// Whether a name fits a pattern: each way is tried.
fn fits_name(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skip| fits_name(rest, &name[skip..])),
        Some((byte, rest)) => {
            name.split_first().is_some_and(|(first, after)| first == byte && fits_name(rest, after))
        }
    }
}

fn fits(parts: &[&str], names: &[String]) -> bool {
    match parts.split_first() {
        None => names.is_empty(),
        Some((&"**", rest)) => (0..=names.len()).any(|skip| fits(rest, &names[skip..])),
        Some((&"*", [])) => true,
        Some((part, rest)) => names
            .split_first()
            .is_some_and(|(name, after)| fits_name(part.as_bytes(), name.as_bytes()) && fits(rest, after)),
    }
}

/// The parts of a random rule's path.
fn some_rule(rng: &mut Rng) -> Vec<&'static str> {
    const PARTS: &[&str] = &["a", "b", "c", "*", "**", "a*", "*.json", "*b", "a.*", "a*b", "*-*"];
    (0..1 + rng.below(4)).map(|_| PARTS[rng.below(PARTS.len())]).collect()
}

/// Something that is near to what a rule allows.
fn some_target(rng: &mut Rng, parts: &[&str]) -> String {
    let mut target = String::new();
    let piece = |rng: &mut Rng| PIECES[rng.below(PIECES.len())];
    for part in parts {
        target.push('/');
        for letter in part.chars() {
            match letter {
                '*' => (0..rng.below(3)).for_each(|_| target.push_str(piece(rng))),
                letter => target.push(letter),
            }
        }
        if rng.one_in(12) {
            target.push_str(piece(rng));
        }
    }
    if rng.one_in(6) {
        let at = target.char_indices().map(|(at, _)| at).nth(1 + rng.below(target.len()));
        target.insert_str(at.unwrap_or(target.len()), piece(rng));
    }
    target
}

fn allows(parts: &[&str], target: &str) -> Option<RequestTarget> {
    let rule = HttpRule::parse(&format!("GET a.test/{}", parts.join("/"))).unwrap();
    let target = RequestTarget::parse(target).ok()?;
    rule.allows("GET", &Host::parse("a.test").unwrap(), 443, &target).then_some(target)
}

/// What kennel sends on is allowed by the rule, whoever reads it.
pub fn decide(rng: &mut Rng) -> Judgement {
    let parts = some_rule(rng);
    let target = some_target(rng, &parts);
    let Some(sent) = allows(&parts, &target) else { return Judgement::Refused };
    // A server cuts the query off before it reads anything.
    let sent = sent.to_string();
    let path = sent.split('?').next().unwrap_or_default();
    for _ in 0..8 {
        let (mut read, mut ways) = (path.to_owned(), Vec::new());
        for _ in 0..1 + rng.below(4) {
            let (way, reading) = READINGS[rng.below(READINGS.len())];
            read = reading(&read);
            ways.push(way);
        }
        let names = names(&read);
        if !fits(&parts, &names) {
            return Judgement::Finding(format!(
                "/{} allows {target}, which is sent as {sent}; one that {} reads {names:?}",
                parts.join("/"),
                ways.join(", then ")
            ));
        }
    }
    Judgement::Allowed
}

/// What everybody reads in one way is allowed where a rule allows it, and only there.
pub fn plain(rng: &mut Rng) -> Judgement {
    const NAMES: &[&str] = &["a", "b", "c", "ab", "aab", "x.json", "a.b", "a-b", "%61", "d"];
    let parts = some_rule(rng);
    let target: String = (0..rng.below(5)).map(|_| format!("/{}", NAMES[rng.below(NAMES.len())])).collect();
    let target = if target.is_empty() { "/".to_owned() } else { target };
    let expected = fits(&parts, &names(&target.replace("%61", "a")));
    match (expected, allows(&parts, &target).is_some()) {
        (true, true) => Judgement::Allowed,
        (false, false) => Judgement::Refused,
        (_, allowed) => Judgement::Finding(format!("/{} allows {target}: {allowed}", parts.join("/"))),
    }
}
