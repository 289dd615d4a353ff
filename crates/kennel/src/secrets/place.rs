//! A secret's place in a file, without the rest of the file: what else is in it may be another secret, also on the same line.
//!
//! Shown is what is on a list. Of JSON the members that lead to the secret; of other text the secret and the name before it, and
//! what programs need to find that: a section's head, the keys above it by their indentation, what netrc says of the same
//! machine, and the host of an address whose user or password it is. A name that looks like a token is none.

use serde_json::{Map, Value};

/// What of a text shows, which has these stand-ins in it.
pub(super) fn of(text: &[u8], stand_ins: &[&str]) -> Vec<u8> {
    // What is not text is shown by its stand-in alone.
    let is_text = |text: &&str| !text.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r'));
    let Some(text) = std::str::from_utf8(text).ok().filter(is_text) else {
        let shown: Vec<&[u8]> = stand_ins
            .iter()
            .map(|stand_in| stand_in.as_bytes())
            .filter(|stand_in| text.windows(stand_in.len()).any(|part| part == *stand_in))
            .collect();
        return shown.join(&b'\n');
    };
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let kept = in_json(value, stand_ins).unwrap_or(Value::Null);
        let mut shown = serde_json::to_string_pretty(&kept).unwrap_or_default();
        shown.push('\n');
        return shown.into_bytes();
    }
    in_lines(text, stand_ins).into_bytes()
}

fn has(text: &str, stand_ins: &[&str]) -> bool {
    stand_ins.iter().any(|stand_in| text.contains(stand_in))
}

/// In the place of a member's name that may be a token.
const UNNAMED: &str = "\u{2026}";

/// Only what leads to a stand-in. Its neighbours in a list are left out, so that it may be another in number.
fn in_json(value: Value, stand_ins: &[&str]) -> Option<Value> {
    match value {
        Value::String(text) => has(&text, stand_ins).then(|| Value::String(in_value(&text, stand_ins))),
        Value::Array(items) => {
            let kept: Vec<Value> = items.into_iter().filter_map(|item| in_json(item, stand_ins)).collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        Value::Object(members) => {
            let kept: Map<String, Value> = members
                .into_iter()
                .filter_map(|(name, member)| {
                    let named = has(&name, stand_ins);
                    let member = in_json(member, stand_ins).or(named.then_some(Value::Null))?;
                    let name = match named {
                        true => in_value(&name, stand_ins),
                        false if is_name(&name) => name,
                        false => UNNAMED.to_owned(),
                    };
                    Some((name, member))
                })
                .collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        _ => None,
    }
}

/// The longest part of a name between dots, dashes and the like.
const MAX_PART: usize = 24;
/// A part of a name with letters and digits is shorter than tokens are.
const MAX_MIXED: usize = 9;

/// Whether a text can be a name, of a setting, a host or a user, and no token.
fn is_name(text: &str) -> bool {
    let part_is_short = |part: &str| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        part.len() <= if digits == 0 || digits == part.len() { MAX_PART } else { MAX_MIXED }
    };
    let letters = text.strip_prefix('@').unwrap_or(text);
    !letters.is_empty()
        && letters.chars().all(|c| c.is_ascii_alphanumeric() || "._-/:$".contains(c))
        && letters.split(|c: char| !c.is_ascii_alphanumeric()).all(part_is_short)
}

/// A user's name, which may be an address of mail.
fn is_user(text: &str) -> bool {
    text.split('@').count() <= 2 && text.split('@').all(is_name)
}

/// A value without what else is in it.
fn in_value(text: &str, stand_ins: &[&str]) -> String {
    let shown: Vec<String> = places(text, stand_ins).map(|place| Shown::of(text, place).value).collect();
    shown.join(" ")
}

/// Where the stand-ins are, none within another.
fn places<'t>(text: &'t str, stand_ins: &'t [&str]) -> impl Iterator<Item = std::ops::Range<usize>> + 't {
    let mut from = 0;
    std::iter::from_fn(move || {
        let found = stand_ins.iter().filter(|stand_in| !stand_in.is_empty());
        let found = found.filter_map(|stand_in| Some((from + text[from..].find(stand_in)?, stand_in.len())));
        let (start, length) = found.min_by_key(|(start, length)| (*start, usize::MAX - length))?;
        from = start + length;
        Some(start..from)
    })
}

/// A secret in a line, as it is shown.
struct Shown {
    /// With its scheme, or the address that it is in.
    value: String,
    /// Where that begins and ends in the line.
    place: std::ops::Range<usize>,
}

/// What may stand between a field's name and its credential, in any case.
const SCHEMES: [&str; 3] = ["bearer ", "basic ", "token "];

fn ends_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | '=' | ',' | '(' | '{' | '[')
}

impl Shown {
    fn of(line: &str, place: std::ops::Range<usize>) -> Shown {
        let before = &line[..place.start];
        let word = before
            .rfind(ends_word)
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        if let Some(shown) = Shown::in_address(line, word, &place) {
            return shown;
        }
        let scheme = SCHEMES.iter().find(|scheme| {
            let start = before.len().checked_sub(scheme.len());
            let tail = start.and_then(|start| before.get(start..));
            tail.is_some_and(|tail| tail.eq_ignore_ascii_case(scheme))
                && start.is_some_and(|start| before[..start].chars().next_back().is_none_or(ends_word))
        });
        let start = place.start - scheme.map_or(0, |scheme| scheme.len());
        Shown { value: line[start..place.end].to_owned(), place: start..place.end }
    }

    /// `https://USER:SECRET@host/path`: its host, and its user if the secret is the password.
    fn in_address(line: &str, word: usize, place: &std::ops::Range<usize>) -> Option<Shown> {
        let (scheme, user) = line[word..place.start].split_once("://")?;
        let rest = &line[place.end..];
        let rest = &rest[..rest.find(ends_word).unwrap_or(rest.len())];
        let (more, host) = rest.split_once('@')?;
        if !is_name(scheme) || user.contains(['/', '?', '#']) || more.contains(['/', '?', '#']) {
            return None;
        }
        let user = user
            .strip_suffix(':')
            .filter(|user| is_user(user))
            .map_or(String::new(), |user| format!("{user}:"));
        // GitHub's word for a token in the place of the user.
        let more = Some(more).filter(|more| *more == ":x-oauth-basic").unwrap_or_default();
        let host_end = host.find(['?', '#']).unwrap_or(host.len());
        let whole = Some(&host[..host_end]).filter(|host| is_name(host));
        let host = whole.or_else(|| host.split('/').next().filter(|host| is_name(host)))?;
        let secret = &line[place.clone()];
        let value = format!("{scheme}://{user}{secret}{more}@{host}");
        Some(Shown { value, place: word..place.end + rest.len() })
    }

    /// With its quotes, and the name before it; and where that begins.
    fn with_name(self, line: &str) -> (usize, String) {
        let (mut before, after) = (&line[..self.place.start], &line[self.place.end..]);
        let mut value = self.value;
        let quote = before.chars().next_back().filter(|c| matches!(c, '"' | '\''));
        if let Some(quote) = quote.filter(|quote| after.starts_with(*quote)) {
            before = &before[..before.len() - 1];
            value = format!("{quote}{value}{quote}");
        }
        let start = named_from(before, quote.is_some());
        (start, format!("{}{value}", &before[start..]))
    }
}

/// Words that stand before a secret without a sign between them.
const WORDS: [&str; 6] = ["password", "passwd", "token", "secret", "key", "_password"];

/// Where the name begins that ends this text with its sign: `NAME=`, `NAME: `, `"NAME": `, `//host/:NAME=`, `password `. The end of
/// the text if there is none.
fn named_from(before: &str, quoted: bool) -> usize {
    let trimmed = before.trim_end();
    let has_blank = trimmed.len() < before.len();
    let name_of = |text: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._-/:$@".contains(c);
        let start = text
            .rfind(|c| !is_part(c))
            .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
        Some(start).filter(|start| is_name(&text[*start..]))
    };
    let named = |sign: char| {
        let text = trimmed.strip_suffix(sign)?.trim_end();
        let unquoted = text.strip_suffix(['"', '\'']);
        let start = name_of(unquoted.unwrap_or(text))?;
        let name = &text[start..];
        // `user:SECRET` and `a:b=SECRET` may be two secrets; npm's names begin with a host.
        let inner_is_fine = !name.contains(':') || name.starts_with("//") && name.contains("/:");
        if !inner_is_fine || sign == ':' && !(has_blank || quoted) {
            return None;
        }
        match unquoted {
            None => Some(start),
            Some(_) => start.checked_sub(1).filter(|at| text[*at..].starts_with(['"', '\''])),
        }
    };
    let word = || {
        let start = trimmed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let is_known =
            trimmed.get(start..).is_some_and(|word| WORDS.contains(&word.to_ascii_lowercase().as_str()));
        Some(start).filter(|_| has_blank && is_known)
    };
    named('=').or_else(|| named(':')).or_else(word).unwrap_or(before.len())
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// What may stand before a name at the beginning of a line.
const BEGINNINGS: [&str; 7] = ["- ", "export ", "set ", "setenv ", "# ", "#", "; "];

fn in_line(line: &str, stand_ins: &[&str]) -> String {
    let (indented, text) = line.split_at(indentation(line));
    if is_netrc(text) {
        return format!("{indented}{}", in_netrc(text, stand_ins));
    }
    let mut shown = String::from(indented);
    for (number, place) in places(text, stand_ins).enumerate() {
        let (start, piece) = Shown::of(text, place).with_name(text);
        if number > 0 {
            shown.push(' ');
        } else if BEGINNINGS.contains(&&text[..start]) {
            shown.push_str(&text[..start]);
        }
        shown.push_str(&piece);
    }
    shown
}

const OF_NETRC: [&str; 5] = ["machine", "default", "login", "password", "account"];

fn is_netrc(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next().is_some_and(|word| OF_NETRC.contains(&word))
        && !words.next().is_some_and(|word| word.starts_with(['=', ':']))
}

/// The machine and the login of the secret, and the secret.
fn in_netrc(line: &str, stand_ins: &[&str]) -> String {
    let (mut shown, mut words, mut found) = (Vec::new(), line.split_whitespace(), false);
    while let Some(word) = words.next() {
        if matches!(word, "machine" | "default") {
            if found {
                break;
            }
            shown.clear();
        }
        match word {
            "default" => shown.push(word),
            "machine" | "login" | "password" => {
                let Some(value) = words.next() else { break };
                let is_secret = stand_ins.contains(&value);
                found |= is_secret;
                if is_secret || word == "machine" && is_name(value) || word == "login" && is_user(value) {
                    shown.extend([word, value]);
                }
            }
            _ => {}
        }
    }
    shown.join(" ")
}

fn in_lines(text: &str, stand_ins: &[&str]) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut shown: Vec<Option<String>> = vec![None; lines.len()];
    for at in (0..lines.len()).filter(|at| has(lines[*at], stand_ins)) {
        shown[at] = Some(in_line(lines[at], stand_ins));
        let (mut level, mut in_section) = (indentation(lines[at]), true);
        let mut in_machine = is_netrc(lines[at]) && !starts_machine(lines[at]);
        for above in (0..at).rev() {
            let line = lines[above].trim();
            if line.is_empty() || has(line, stand_ins) {
                continue;
            }
            let (indented, _) = lines[above].split_at(indentation(lines[above]));
            if let Some(head) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                let words = head.trim_matches(['[', ']']).split([' ', '"']);
                if in_section && words.filter(|word| !word.is_empty()).all(is_name) {
                    shown[above].get_or_insert_with(|| lines[above].to_owned());
                }
                in_section = false;
            }
            // A name alone: `github.com:`. What has a value may be a secret.
            if let Some(key) = line.strip_suffix(':')
                && indented.len() < level
            {
                level = indented.len();
                if is_name(key.trim_start_matches("- ").trim_matches(['"', '\''])) {
                    shown[above].get_or_insert_with(|| lines[above].to_owned());
                }
            }
            if in_machine && is_netrc(line) {
                shown[above].get_or_insert_with(|| format!("{indented}{}", in_netrc(line, stand_ins)));
                in_machine = !starts_machine(line);
            }
        }
    }
    let shown: Vec<String> = shown.into_iter().flatten().filter(|line| !line.trim().is_empty()).collect();
    let mut shown = shown.join("\n");
    if text.ends_with('\n') {
        shown.push('\n');
    }
    shown
}

fn starts_machine(line: &str) -> bool {
    line.split_whitespace().any(|word| matches!(word, "machine" | "default"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        String::from_utf8(of(text.as_bytes(), &["STAND-IN"])).unwrap()
    }

    #[test]
    fn a_file_shows_where_the_secret_is_and_nothing_else() {
        assert_eq!(shown("STAND-IN\n"), "STAND-IN\n");
        assert_eq!(
            shown("//a/:_authToken=STAND-IN\n//b/:_authToken=other\nemail=me\n"),
            "//a/:_authToken=STAND-IN\n"
        );
        assert_eq!(
            shown("github.com:\n    user: me\n    oauth_token: STAND-IN\ngitlab.com:\n    token: other\n"),
            "github.com:\n    oauth_token: STAND-IN\n"
        );
        assert_eq!(
            shown("[a]\nkey = other\n\n[b]\nid = x\nkey = STAND-IN\n[c]\nkey = other"),
            "[b]\nkey = STAND-IN"
        );
        assert_eq!(
            shown("machine a\nlogin me\npassword other\nmachine b\n  login you\n  password STAND-IN\n"),
            "machine b\n  login you\n  password STAND-IN\n"
        );
        assert_eq!(
            shown("machine a login me password other\nmachine b login you password STAND-IN\n"),
            "machine b login you password STAND-IN\n"
        );
        assert_eq!(
            shown(r#"{"a": {"token": "STAND-IN", "id": 1}, "b": [{"key": "other"}, {"key": "x STAND-IN"}]}"#),
            "{\n  \"a\": {\n    \"token\": \"STAND-IN\"\n  },\n  \"b\": [\n    {\n      \"key\": \"STAND-IN\"\n    }\n  ]\n}\n"
        );
        for text in [&b"\xff key=STAND-IN other"[..], b"other\x01STAND-IN\x02"] {
            assert_eq!(of(text, &["STAND-IN", "ANOTHER"]), b"STAND-IN");
        }
    }

    #[test]
    fn what_else_is_on_its_line_is_not_shown() {
        for (text, wanted) in [
            ("A=other B=STAND-IN C=another", "B=STAND-IN"),
            ("export A=other; export B=\"STAND-IN\" # other", "B=\"STAND-IN\""),
            ("export B='STAND-IN' # other", "export B='STAND-IN'"),
            ("other STAND-IN", "STAND-IN"),
            ("other:STAND-IN", "STAND-IN"),
            ("other,STAND-IN,another", "STAND-IN"),
            ("localhost:5432:db:me:STAND-IN", "STAND-IN"),
            ("ghp_0123456789abcdefghij=STAND-IN", "STAND-IN"),
            ("0123456789abcdef0123: STAND-IN", "STAND-IN"),
            ("key = otherSTAND-INanother", "STAND-IN"),
            ("header = \"Authorization: Bearer STAND-IN\"", "Authorization: Bearer STAND-IN"),
            ("  - token: STAND-IN # other", "  - token: STAND-IN"),
            ("\"a\": \"other\", \"b\": \"STAND-IN\",", "\"b\": \"STAND-IN\""),
            ("https://me:STAND-IN@git.test", "https://me:STAND-IN@git.test"),
            (
                "url = https://STAND-IN:other@git.test/me/it?key=other",
                "url = https://STAND-IN@git.test/me/it",
            ),
            ("https://0123456789abcdef0123:STAND-IN@git.test", "https://STAND-IN@git.test"),
            ("https://git.test/?a=other&key=STAND-IN&b=another", "key=STAND-IN"),
            ("machine a login me account other password STAND-IN", "machine a login me password STAND-IN"),
            (
                "machine a password other machine b password STAND-IN machine c password other",
                "machine b password STAND-IN",
            ),
            ("password = STAND-IN", "password = STAND-IN"),
            ("password STAND-IN", "password STAND-IN"),
            ("STAND-IN STAND-IN", "STAND-IN STAND-IN"),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
        for (text, wanted) in [
            ("[remote \"https://me:other@a.test\"]\nkey = STAND-IN", "key = STAND-IN"),
            ("[profile work]\nkey = STAND-IN", "[profile work]\nkey = STAND-IN"),
            ("ghp_0123456789abcdefghij:\n  key: STAND-IN", "  key: STAND-IN"),
            ("machine a login me account other\npassword STAND-IN", "machine a login me\npassword STAND-IN"),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
        for (text, wanted) in [
            (r#"{"a": "other STAND-IN another"}"#, r#"{"a":"STAND-IN"}"#),
            (
                r#"{"a": "https://other0123456789:STAND-IN@b.test/?k=other"}"#,
                r#"{"a":"https://STAND-IN@b.test/"}"#,
            ),
            (r#"{"ghp_0123456789abcdefghij": "STAND-IN"}"#, "{\"\u{2026}\":\"STAND-IN\"}"),
            (
                r#"{"auths": {"https://index.docker.io/v1/": {"auth": "STAND-IN"}}}"#,
                r#"{"auths":{"https://index.docker.io/v1/":{"auth":"STAND-IN"}}}"#,
            ),
        ] {
            let value: Value = serde_json::from_str(&shown(text)).unwrap();
            assert_eq!(value.to_string(), wanted, "{text}");
        }
    }
}
