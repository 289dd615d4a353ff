//! Rules about HTTP requests: `GET docs.rs/*`, `POST api.github.com/repos/me/*/issues`.
//!
//! As with hosts, both sides are brought to one spelling before they are compared, and what servers read in different ways
//! (`..`, `%2e`, `\`, an escaped slash) is refused where a rule speaks of paths: the gate sends exactly what was compared.

use std::fmt;

use crate::domain::{Host, HostRule, HostRuleError, ListKind};
use crate::origin::Origin;
use crate::wildcard;

/// Requests that can be made.
///
/// ```
/// use kennel_policy::domain::Host;
/// use kennel_policy::http_rule::{HttpRule, RequestTarget};
///
/// let rule = HttpRule::parse("POST api.github.com/repos/me/*/issues")?;
/// let host = Host::parse("api.github.com").unwrap();
/// let asks = |method, target| rule.allows(method, &host, 443, &RequestTarget::parse(target).unwrap());
/// assert!(asks("POST", "/repos/me/kennel/issues"));
/// assert!(!asks("POST", "/repos/me/a/b/issues") && !asks("GET", "/repos/me/kennel/issues"));
/// assert!(RequestTarget::parse("/repos/me/../you/issues").is_err());
/// # Ok::<(), kennel_policy::http_rule::HttpRuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRule {
    /// The methods, in upper case; every method where there is none.
    pub methods: Vec<String>,
    /// The host and port.
    pub host: HostRule,
    /// The path, by its parts; the whole host when `None`.
    path: Option<Vec<Part>>,
    /// What the query has to say; anything when `None`.
    query: Option<Vec<(String, Text)>>,
    /// As it was written.
    text: String,
}

/// One part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// One name. Where the text has a `*` beside other characters, only names that everybody reads alike.
    Name(Text),
    /// Any number of names, also none: `**`, and `*` at the end.
    Rest,
}

/// A text in which each `*` stands for anything.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Text(String);

impl Text {
    fn matches(&self, text: &str) -> bool {
        wildcard::fits(&self.0, text)
    }

    /// Whether it stands for this part of a path. A text without `*` is what was meant, whatever a server makes of it, and a `*` alone
    /// means everything. But `*.json` must not stand for `secret;.json`, which some servers take for `secret`.
    fn stands_for(&self, name: &str) -> bool {
        let is_whole = self.0 == "*" || !self.0.contains('*');
        self.matches(name) && (is_whole || keeps_its_ends(name))
    }
}

/// Why a text is no rule about requests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpRuleError {
    /// No space.
    #[error("a rule about requests is a method, a space, and a host with a path: `GET docs.rs/*`")]
    Form,
    /// A method that is none.
    #[error("`{0}` is not an HTTP method")]
    Method(String),
    /// A host that is none.
    #[error(transparent)]
    Host(#[from] HostRuleError),
    /// A path that could be read in two ways.
    #[error("the path: {0}")]
    Path(#[from] TargetError),
}

/// Why a request's target is not compared with rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is not a path.
    #[error("it does not begin with `/`")]
    NoPath,
    /// `.` or `..`, or a part that a server may take for one.
    #[error("it has a part `.` or `..`, or dots beside nothing that every server reads as part of a name")]
    Dots,
    /// A part of which some servers leave nothing, and then take the parts beside it for neighbours.
    #[error("it has a part of which some servers leave nothing")]
    Nothing,
    /// `\`, or an escaped `/` or `\`.
    #[error("it has a backslash or an escaped slash, which servers read in different ways")]
    Slash,
    /// `%` without two digits.
    #[error("it has a `%` that escapes nothing")]
    Escape,
    /// An escape of an escape, which some servers undo twice.
    #[error("it has an escaped `%` before two digits, which some servers undo twice")]
    Twice,
    /// Escapes that are no UTF-8, or a character that some servers take for one of `.`, `/`, `\`, `%`, `;`, `?`, `#`; in a path also an
    /// escaped `?` or `#`, where those cut it off that undo escapes first.
    #[error("it has an escaped character that servers read in different ways")]
    Text,
    /// A `;` in the query, which some servers take for `&`.
    #[error("its query has a `;`, which some servers take for `&`")]
    Semicolon,
    /// More parts than are compared.
    #[error("its path has more than {MAX_PARTS} parts")]
    Long,
    /// What no target may have.
    #[error("it has a character that an address cannot have")]
    Character,
}

/// As many parts of a path are compared.
const MAX_PARTS: usize = 1024;

/// The target of a request in one spelling: what is compared is what is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTarget {
    path: String,
    query: Option<String>,
}

impl RequestTarget {
    /// Reads `/path?query`. Characters that need no escape lose theirs, digits of escapes are upper case, and empty parts of the
    /// path are left out.
    pub fn parse(target: &str) -> Result<RequestTarget, TargetError> {
        RequestTarget::read(target, is_of_a_name)
    }

    fn read(target: &str, is_of_a_name: fn(char) -> bool) -> Result<RequestTarget, TargetError> {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        if !path.starts_with('/') {
            return Err(TargetError::NoPath);
        }
        if path.contains('\\') {
            return Err(TargetError::Slash);
        }
        let path = unescaped(path)?;
        if ["%2F", "%5C"].iter().any(|escape| path.contains(escape)) {
            return Err(TargetError::Slash);
        }
        let text = plain(&path)?;
        if text.contains(LIKE_SLASHES) {
            return Err(TargetError::Text);
        }
        for part in text.split('/').filter(|part| !part.is_empty()) {
            if !has_plain_dots(part, is_of_a_name) {
                return Err(TargetError::Dots);
            }
            if part.split(';').next().unwrap_or_default().chars().all(is_unseen) {
                return Err(TargetError::Nothing);
            }
        }
        if text.contains(['?', '#']) {
            return Err(TargetError::Text);
        }
        if path.split('/').filter(|part| !part.is_empty()).count() > MAX_PARTS {
            return Err(TargetError::Long);
        }
        let mut clean = String::with_capacity(path.len());
        for part in path.split('/').filter(|part| !part.is_empty()) {
            clean.push('/');
            clean.push_str(part);
        }
        if clean.is_empty() || path.ends_with('/') {
            clean.push('/');
        }
        let query = query.map(unescaped).transpose()?;
        if let Some(query) = &query {
            if query.contains(';') {
                return Err(TargetError::Semicolon);
            }
            plain(query)?;
        }
        Ok(RequestTarget { path: clean, query })
    }

    /// The parts of the path. A slash at its end is no part.
    fn parts(&self) -> Vec<&str> {
        self.path.split('/').filter(|part| !part.is_empty()).collect()
    }

    /// Whether the query has a parameter that some servers take for the method.
    fn names_a_method(&self) -> bool {
        let mut names = self.query.iter().flat_map(|query| query.split('&'));
        names.any(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            name != "method" && stands_for_a_method(&String::from_utf8_lossy(&bytes_of(name)))
        })
    }

    /// The query alone, without its `?`.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// The path alone.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for RequestTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        match &self.query {
            Some(query) => write!(f, "?{query}"),
            None => Ok(()),
        }
    }
}

/// Whether a server may take a field or a parameter of this name for one that stands for the method: by its letters alone, since
/// some take any other character for `_` or for nothing.
#[must_use]
pub fn stands_for_a_method(name: &str) -> bool {
    let letters: String = name.chars().filter(char::is_ascii_alphabetic).collect();
    let letters = letters.to_ascii_lowercase();
    ["method", "override", "httpverb"].iter().any(|part| letters.contains(part))
}

/// Characters that every server takes for part of a name: none cuts a name off there, or takes them out.
fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '~')
}

/// Whether all dots of a part stand in a name. Servers cut a part off at what separates something for them (`..;x`, `..:x`), and take
/// out what they do not see (white space, format characters, control characters), so only dots beside a character of a name do.
fn has_plain_dots(part: &str, is_of_a_name: fn(char) -> bool) -> bool {
    let mut rest = part;
    while let Some(start) = rest.find('.') {
        let before = rest[..start].chars().next_back();
        rest = rest[start..].trim_start_matches('.');
        if !before.into_iter().chain(rest.chars().next()).any(is_of_a_name) {
            return false;
        }
    }
    true
}

/// Whether every server takes a part of a path for the same name, from its first character to its last: some cut it off at a `;`, some
/// leave out what is not seen, or blanks and dots at its ends.
fn keeps_its_ends(name: &str) -> bool {
    let name = String::from_utf8_lossy(&bytes_of(name)).into_owned();
    let is_blank = |c: char| c == '+' || c.is_whitespace();
    !name.contains(';')
        && !name.ends_with('.')
        && !name.starts_with(is_blank)
        && !name.ends_with(is_blank)
        && !name.chars().any(|c| !c.is_whitespace() && is_unseen(c))
}

/// What tables of Windows' code pages take for `/` or `\`, though Unicode does not.
const LIKE_SLASHES: [char; 8] =
    ['\u{a5}', '\u{20a9}', '\u{20e5}', '\u{2044}', '\u{2215}', '\u{2216}', '\u{29f8}', '\u{29f9}'];

/// Whether a server may leave a character out.
fn is_unseen(c: char) -> bool {
    c.is_whitespace() || !c.is_ascii() && folded(c).trim_end() == "a"
}

/// An `a` and a character, as Unicode's table for names of hosts has them: what is compatible with ASCII is that, and what is not
/// seen is nothing.
fn folded(c: char) -> String {
    let one = format!("a{c}");
    let (text, _) = idna::uts46::Uts46::new().to_unicode(
        one.as_bytes(),
        idna::AsciiDenyList::EMPTY,
        idna::uts46::Hyphens::Allow,
    );
    text.into_owned()
}

/// What a text with escapes stands for.
fn bytes_of(text: &str) -> Vec<u8> {
    let mut read = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%'
            && let [high, low, after @ ..] = rest
        {
            let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or_default();
            read.push(u8::try_from(digit(high) * 16 + digit(low)).unwrap_or_default());
            rest = after;
        } else {
            read.push(*first);
        }
    }
    read
}

/// What a text with escapes stands for, where all servers read it in one way: UTF-8, in which no character stands for one that
/// separates, and none that becomes another by being read twice.
fn plain(text: &str) -> Result<String, TargetError> {
    let after_percent = text.split("%25").skip(1);
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    for after in after_percent {
        let bytes = after.as_bytes();
        // `%u002e` is one too, of a kind that only some servers know.
        if is_digit(bytes.first()) && is_digit(bytes.get(1)) || matches!(bytes.first(), Some(b'u' | b'U')) {
            return Err(TargetError::Twice);
        }
    }
    let read = String::from_utf8(bytes_of(text)).map_err(|_| TargetError::Text)?;
    // What Unicode takes for compatible with ASCII, a server may take for ASCII. What it takes for nothing (a replacement character)
    // nobody has in a name.
    let separates = |c: char| {
        folded(c).contains(['.', '/', '\\', '%', ';', '?', '&', '=', '#', char::REPLACEMENT_CHARACTER])
    };
    if read.chars().any(|c| !c.is_ascii() && separates(c)) {
        return Err(TargetError::Text);
    }
    Ok(read)
}

/// One spelling for each character: unreserved ones as themselves (RFC 3986 §6.2.2).
fn unescaped(text: &str) -> Result<String, TargetError> {
    let mut out = String::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                let (Some(high), Some(low)) = (digit(), digit()) else { return Err(TargetError::Escape) };
                let byte = u8::try_from(high * 16 + low).map_err(|_| TargetError::Escape)?;
                match byte {
                    b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                        out.push(char::from(byte));
                    }
                    0..=0x1f | 0x7f => return Err(TargetError::Character),
                    _ => out.push_str(&format!("%{byte:02X}")),
                }
            }
            0x21..=0x7e if byte != b'#' => out.push(char::from(byte)),
            _ => return Err(TargetError::Character),
        }
    }
    Ok(out)
}

impl HttpRule {
    /// Whether an entry of a list of hosts is a rule about requests.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        text.trim().contains(' ')
    }

    /// Reads `METHOD[,METHOD…] HOST[:PORT][/PATH][?QUERY]`; the method may be `*`.
    pub fn parse(text: &str) -> Result<HttpRule, HttpRuleError> {
        let text = text.trim();
        let (methods, place) = text.split_once(' ').ok_or(HttpRuleError::Form)?;
        let methods: Vec<String> = match methods {
            "*" => Vec::new(),
            methods => methods.split(',').map(method).collect::<Result<_, _>>()?,
        };
        let place = place.trim_start();
        let place = place.strip_prefix("https://").unwrap_or(place);
        let end = place.find(['/', '?']).unwrap_or(place.len());
        let (host, target) = place.split_at(end);
        let host = HostRule::parse(host, ListKind::Allow)?;
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let path = match path {
            "" => None,
            path => Some(parts(path)?),
        };
        let query = query.map(parameters).transpose()?;
        Ok(HttpRule { methods, host, path, query, text: text.to_owned() })
    }

    /// The same rule with an origin.
    #[must_use]
    pub fn with_origin(mut self, origin: Origin) -> HttpRule {
        self.host.origin = origin;
        self
    }

    /// Whether it speaks of this host and port at all.
    #[must_use]
    pub fn covers(&self, host: &Host, port: u16) -> bool {
        self.host.matches(host, port)
    }

    /// Whether it allows a request.
    #[must_use]
    pub fn allows(&self, method: &str, host: &Host, port: u16, target: &RequestTarget) -> bool {
        self.covers(host, port)
            && (self.methods.is_empty()
                // A rule that says which parameters there are has said so of these.
                || self.methods.iter().any(|own| own == method)
                    && (self.query.is_some() || !target.names_a_method()))
            && self.path.as_ref().is_none_or(|parts| fits(parts, &target.parts()))
            && self.query.as_ref().is_none_or(|wanted| says(wanted, target.query.as_deref()))
    }
}

impl fmt::Display for HttpRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Methods are told apart by case (RFC 9110 §9.1); all that are in use are in upper case.
fn method(text: &str) -> Result<String, HttpRuleError> {
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') {
        true => Ok(text.to_ascii_uppercase()),
        false => Err(HttpRuleError::Method(text.to_owned())),
    }
}

fn parts(path: &str) -> Result<Vec<Part>, HttpRuleError> {
    let clean = RequestTarget::read(path, |c| c == '*' || is_of_a_name(c))?;
    let names = clean.parts();
    let last = names.len().saturating_sub(1);
    let part = |(number, name): (usize, &&str)| match *name {
        "**" => Part::Rest,
        "*" if number == last => Part::Rest,
        name => Part::Name(Text(name.to_owned())),
    };
    Ok(names.iter().enumerate().map(part).collect())
}

fn parameters(query: &str) -> Result<Vec<(String, Text)>, HttpRuleError> {
    let clean = unescaped(query)?;
    let one = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), Text(value.to_owned()))
    };
    Ok(clean.split('&').filter(|pair| !pair.is_empty()).map(one).collect())
}

/// In time that grows with both, one by the other: what comes first after a [`Part::Rest`] is the best that can, so only the
/// last one is ever gone back to.
fn fits(parts: &[Part], names: &[&str]) -> bool {
    let (mut part, mut name) = (0, 0);
    // The last `Rest`, and how many names it and those before it have taken.
    let mut rest: Option<(usize, usize)> = None;
    while name < names.len() {
        match parts.get(part) {
            Some(Part::Rest) => {
                rest = Some((part, name));
                part += 1;
            }
            Some(Part::Name(text)) if text.stands_for(names[name]) => {
                part += 1;
                name += 1;
            }
            _ => {
                let Some((at, taken)) = &mut rest else { return false };
                *taken += 1;
                (part, name) = (*at + 1, *taken);
            }
        }
    }
    parts[part..].iter().all(|part| *part == Part::Rest)
}

/// Each parameter that a rule names is there once and says what it should, and there is no other.
fn says(wanted: &[(String, Text)], query: Option<&str>) -> bool {
    let pairs: Vec<(&str, &str)> = query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect();
    pairs.len() == wanted.len()
        && wanted.iter().all(|(name, text)| {
            let mut named = pairs.iter().filter(|(own, _)| own == name);
            matches!((named.next(), named.next()), (Some((_, value)), None) if text.matches(value))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(rule: &str, method: &str, host: &str, port: u16, target: &str) -> bool {
        let rule = HttpRule::parse(rule).unwrap();
        let target = RequestTarget::parse(target).unwrap();
        rule.allows(method, &Host::parse(host).unwrap(), port, &target)
    }

    #[test]
    fn methods_hosts_and_paths_are_compared() {
        for (rule, method, host, target, expected) in [
            ("GET docs.rs/*", "GET", "docs.rs", "/", true),
            ("GET docs.rs/*", "GET", "docs.rs", "/tokio/latest?q=1", true),
            ("GET docs.rs/*", "HEAD", "docs.rs", "/tokio", false),
            ("GET,HEAD docs.rs/*", "HEAD", "docs.rs", "/tokio", true),
            ("GET docs.rs", "GET", "docs.rs", "/a/b", true),
            ("GET docs.rs/", "GET", "docs.rs", "/a", false),
            ("GET docs.rs/", "GET", "docs.rs", "/", true),
            ("* *.docs.rs/a/**/z", "PUT", "x.docs.rs", "/a/b/c/z", true),
            ("* *.docs.rs/a/**/z", "PUT", "x.docs.rs", "/a/z", true),
            ("* *.docs.rs/a/**/z", "PUT", "docs.rs", "/a/z", false),
            ("GET a.test/repos/me/*/issues", "GET", "a.test", "/repos/me/x/issues", true),
            ("GET a.test/repos/me/*/issues", "GET", "a.test", "/repos/me//issues", false),
            ("GET a.test/repos/me/*/issues", "GET", "a.test", "/repos/you/x/issues", false),
            ("GET a.test/v*/x", "GET", "a.test", "/v12/x", true),
            ("GET a.test/x?a=1", "GET", "a.test", "/x?a=1", true),
            ("GET a.test/x?a=1", "GET", "a.test", "/x?a=1&b=2", false),
            ("GET a.test/x?a=1", "GET", "a.test", "/x?a=1&a=2", false),
            ("GET a.test/x?a=*", "GET", "a.test", "/x?a=%41", true),
            ("GET a.test/x", "GET", "a.test", "//x", true),
            ("GET a.test/x", "GET", "a.test", "/%78", true),
        ] {
            assert_eq!(allows(rule, method, host, 443, target), expected, "{rule}: {method} {host}{target}");
        }
        assert!(!allows("GET a.test:443/*", "GET", "a.test", 80, "/"));
    }

    #[test]
    fn what_servers_read_in_different_ways_is_refused() {
        for (target, expected) in [
            ("/a/../b", TargetError::Dots),
            ("/a/%2e%2E/b", TargetError::Dots),
            ("/a/.%2e;x/b", TargetError::Dots),
            ("/a/./b", TargetError::Dots),
            ("/a\\b", TargetError::Slash),
            ("/a%2fb", TargetError::Slash),
            ("/a%5Cb", TargetError::Slash),
            ("/a%00", TargetError::Character),
            ("/a b", TargetError::Character),
            ("/a%zz", TargetError::Escape),
            ("a", TargetError::NoPath),
            ("*", TargetError::NoPath),
            ("http://b.test/", TargetError::NoPath),
        ] {
            assert_eq!(RequestTarget::parse(target), Err(expected), "{target}");
        }
        assert_eq!(RequestTarget::parse("//%7Ea//b/?x=%3d").unwrap().to_string(), "/~a/b/?x=%3D");
    }

    #[test]
    #[kennel_claim::claim("secrets/one-reading-of-a-request")]
    fn what_a_server_could_take_for_a_separator_is_refused() {
        for (target, expected) in [
            ("/a/..%20/b", TargetError::Dots),
            ("/a/.%20./b", TargetError::Dots),
            ("/a/.../b", TargetError::Dots),
            ("/a/%20./b", TargetError::Dots),
            ("/a/..%20;x/b", TargetError::Dots),
            ("/a/%C0%AE%C0%AE/b", TargetError::Text),
            ("/a/%E0%80%AE/b", TargetError::Text),
            ("/a%C0%AFb", TargetError::Text),
            ("/a/%EF%BC%8E%EF%BC%8E/b", TargetError::Text),
            ("/a%EF%BC%8Fb", TargetError::Text),
            ("/a%EF%BC%BCb", TargetError::Text),
            ("/a/%E2%80%A5/b", TargetError::Text),
            ("/a/%252e%252e/b", TargetError::Twice),
            ("/a%252Fb", TargetError::Twice),
            ("/a%25u002eb", TargetError::Twice),
            ("/a%u002eb", TargetError::Escape),
            ("/a?page=1;admin=1", TargetError::Semicolon),
            ("/a?page=%EF%BC%9Badmin", TargetError::Text),
            ("/a?page=%FF", TargetError::Text),
            ("/a?page=1%2526admin=1", TargetError::Twice),
            // White space and what is not seen, behind the dots, before and between them.
            ("/a/..%C2%A0/b", TargetError::Dots),
            ("/a/..%E3%80%80/b", TargetError::Dots),
            ("/a/..%E2%80%8B/b", TargetError::Dots),
            ("/a/..%EF%BB%BF/b", TargetError::Dots),
            ("/a/..%C2%AD/b", TargetError::Dots),
            ("/a/..+/b", TargetError::Dots),
            ("/a/.%20./b", TargetError::Dots),
            ("/a/.%20.%20./b", TargetError::Dots),
            ("/a/.%E2%81%A0./b", TargetError::Dots),
            ("/a/%EF%B8%8F../b", TargetError::Dots),
            ("/a/+.+/b", TargetError::Dots),
            ("/a/..%E3%85%A4/b", TargetError::Dots),
            ("/a/..%C2%85/b", TargetError::Text),
            // What a name is cut off at.
            ("/a/..%3Bx/b", TargetError::Dots),
            ("/a/..;/b", TargetError::Dots),
            ("/a/..:x/b", TargetError::Dots),
            ("/a/..::$DATA/b", TargetError::Dots),
            ("/a/..%3Fx/b", TargetError::Dots),
            ("/a/..%23x/b", TargetError::Dots),
            ("/a/..,x/b", TargetError::Dots),
            ("/a/..*/b", TargetError::Dots),
            ("/a/..%22/b", TargetError::Dots),
            ("/a/..%7Cx/b", TargetError::Dots),
            ("/a/..%25/b", TargetError::Dots),
            ("/a/..%00x/b", TargetError::Character),
            ("/a/..%09/b", TargetError::Character),
            ("/a/..%E6%97%A5/b", TargetError::Dots),
            ("/a/c:../b", TargetError::Dots),
            // Nothing is left of it.
            ("/a/%20/b", TargetError::Nothing),
            ("/a/;x=1/b", TargetError::Nothing),
            ("/a/%3B/b", TargetError::Nothing),
            ("/a/%E2%80%8B%C2%AD;x/b", TargetError::Nothing),
            ("/a/%C2%A0/b", TargetError::Nothing),
            // Where the path ends for who undoes escapes first.
            ("/a/b%3Fx", TargetError::Text),
            ("/a/b%23x.json", TargetError::Text),
            // Slashes of other tables.
            ("/a%E2%81%84b", TargetError::Text),
            ("/a%E2%88%95b", TargetError::Text),
            ("/a%E2%88%96b", TargetError::Text),
        ] {
            assert_eq!(RequestTarget::parse(target), Err(expected), "{target}");
        }
        assert_eq!(RequestTarget::parse(&"/a".repeat(1025)), Err(TargetError::Long));
        for target in [
            "/wiki/%E2%98%83",
            "/e%CC%81t%C3%A9",
            "/wiki/Z%C3%BCrich",
            "/100%25",
            "/a/.well-known/x",
            "/a/..b",
            "/a/...b",
            "/a/b...c/main..x",
            "/a/%E6%97%A5.txt",
            "/a/+/refs/heads",
            "/a/@b/c.d",
            "/a/b.$x",
            "/a/.~x",
            "/a%20b",
            "/x?a=%3B&b=%26",
            "/%F0%9F%98%80",
            "/a/b.c.",
            "/%E6%97%A5%E6%9C%AC",
        ] {
            assert!(RequestTarget::parse(target).is_ok(), "{target}");
        }
        assert!(!allows("GET a.test/x?page=*", "GET", "a.test", 443, "/x?page=1&admin=1"));
        assert!(allows("GET a.test/x?page=*", "GET", "a.test", 443, "/x?page=1%3Badmin%3D1"));
    }

    #[test]
    #[kennel_claim::claim("secrets/one-reading-of-a-request")]
    fn a_star_in_a_name_stands_for_what_everybody_reads_alike() {
        for (rule, target) in [
            ("*.json", "/secret;.json"),
            ("*.json", "/secret%3B.json"),
            ("a*b", "/a;x=b"),
            ("a.*", "/a."),
            ("a.*", "/a.%20"),
            ("a-*", "/a-+"),
            ("*-b", "/%20-b"),
            ("a*c", "/ab%E2%80%8Bc"),
            ("x/*.json", "/x/secret%E2%80%8B;.json"),
        ] {
            assert!(!allows(&format!("GET a.test/{rule}"), "GET", "a.test", 443, target), "{rule}: {target}");
            assert!(allows("GET a.test/*/*", "GET", "a.test", 443, &format!("/x{target}")), "{target}");
        }
        for (rule, target) in [
            ("*.json", "/a.b.json"),
            ("report*", "/report%202024.pdf"),
            ("a;v=1", "/a;v=1"),
            ("Inc.", "/Inc."),
        ] {
            assert!(allows(&format!("GET a.test/{rule}"), "GET", "a.test", 443, target), "{rule}: {target}");
        }
    }

    #[test]
    #[kennel_claim::claim("secrets/one-reading-of-a-request")]
    fn a_parameter_that_stands_for_the_method_is_not_let_through() {
        for query in [
            "_method=DELETE",
            "a=1&_Method=put",
            "%5Fmethod=x",
            "X-HTTP-Method-Override=PUT",
            "$httpMethod=PUT",
            "_method[]=PUT",
            "%5Fmethod%5B%5D=PUT",
            ".method=PUT",
            "%20_Method=PUT",
            "+_method",
            "http.method=PUT",
            "x=1&request-method=PUT",
            "METHOD=PUT",
            "_httpVerb=PUT",
        ] {
            let target = format!("/x?{query}");
            assert!(!allows("GET a.test/*", "GET", "a.test", 443, &target), "{query}");
            assert!(allows("* a.test/*", "GET", "a.test", 443, &target), "{query}");
        }
        assert!(allows("GET a.test/*", "GET", "a.test", 443, "/x?method=y"));
        let named = "GET a.test/x?payment_method=*";
        assert!(allows(named, "GET", "a.test", 443, "/x?payment_method=card"), "the rule names it");
        assert!(!allows("GET a.test/*", "GET", "a.test", 443, "/x?payment_method=card"));
    }

    /// What the rule says, tried in every way.
    fn fits_slowly(parts: &[Part], names: &[&str]) -> bool {
        match parts.split_first() {
            None => names.is_empty(),
            Some((Part::Rest, rest)) => (0..=names.len()).any(|skip| fits_slowly(rest, &names[skip..])),
            Some((Part::Name(text), rest)) => names
                .split_first()
                .is_some_and(|(name, after)| text.stands_for(name) && fits_slowly(rest, after)),
        }
    }

    proptest::proptest! {
        #[test]
        #[kennel_claim::claim("secrets/one-reading-of-a-request")]
        fn paths_fit_as_when_every_way_is_tried(
            rule in "(/(a|b|ab|\\*\\*|a\\*|\\*b|\\*)){1,7}",
            path in "(/(a|b|ab|ba|aab)){0,8}",
        ) {
            let parts = parts(&rule).unwrap();
            let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
            proptest::prop_assert_eq!(fits(&parts, &names), fits_slowly(&parts, &names));
        }
    }

    #[test]
    #[kennel_claim::claim("secrets/one-reading-of-a-request")]
    fn a_rule_with_many_wildcards_is_compared_soon() {
        let rule = HttpRule::parse("GET a.test/**/a/**/a/**/a/**/a/**/b").unwrap();
        let target = RequestTarget::parse(&"/a".repeat(MAX_PARTS)).unwrap();
        assert!(!rule.allows("GET", &Host::parse("a.test").unwrap(), 443, &target));
        let pattern = Text("*a".repeat(500) + "b");
        assert!(!pattern.matches(&"a".repeat(60_000)));
    }

    #[test]
    fn mistakes_have_names() {
        assert_eq!(HttpRule::parse("docs.rs/*"), Err(HttpRuleError::Form));
        assert_eq!(HttpRule::parse("G=T docs.rs/*"), Err(HttpRuleError::Method("G=T".into())));
        assert!(matches!(HttpRule::parse("GET a..b/*"), Err(HttpRuleError::Host(_))));
        assert!(matches!(HttpRule::parse("GET a.test/../b"), Err(HttpRuleError::Path(TargetError::Dots))));
        assert!(allows("GET a.test/*.*", "GET", "a.test", 443, "/a.b"), "a star may stand for a name");
    }
}
