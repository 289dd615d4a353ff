//! Rules about HTTP requests: `GET docs.rs/*`, `POST api.github.com/repos/me/*/issues`.
//!
//! As with hosts, both sides are brought to one spelling before they are compared, and what servers read in different ways
//! (`..`, `%2e`, `\`, an escaped slash) is refused where a rule speaks of paths: the gate sends exactly what was compared.

use std::fmt;

use crate::domain::{Host, HostRule, HostRuleError, ListKind};
use crate::policy::Origin;
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
    /// One name.
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
    /// `.` or `..`, also escaped.
    #[error("it has a part `.` or `..`, which servers resolve in different ways")]
    Dots,
    /// `\`, or an escaped `/` or `\`.
    #[error("it has a backslash or an escaped slash, which servers read in different ways")]
    Slash,
    /// `%` without two digits.
    #[error("it has a `%` that escapes nothing")]
    Escape,
    /// What no target may have.
    #[error("it has a character that an address cannot have")]
    Character,
}

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
        if path.split('/').any(|part| matches!(before_parameters(part), "." | "..")) {
            return Err(TargetError::Dots);
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
        Ok(RequestTarget { path: clean, query })
    }

    /// The parts of the path. A slash at its end is no part.
    fn parts(&self) -> Vec<&str> {
        self.path.split('/').filter(|part| !part.is_empty()).collect()
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

/// Some servers cut parameters off a part (`..;x`) before they resolve it.
fn before_parameters(part: &str) -> &str {
    part.split(';').next().unwrap_or_default()
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
            && (self.methods.is_empty() || self.methods.iter().any(|own| own == method))
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
    let clean = RequestTarget::parse(path)?;
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

fn fits(parts: &[Part], names: &[&str]) -> bool {
    match parts.split_first() {
        None => names.is_empty(),
        Some((Part::Rest, rest)) => (0..=names.len()).any(|skip| fits(rest, &names[skip..])),
        Some((Part::Name(text), rest)) => {
            names.split_first().is_some_and(|(name, after)| text.matches(name) && fits(rest, after))
        }
    }
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
    fn mistakes_have_names() {
        assert_eq!(HttpRule::parse("docs.rs/*"), Err(HttpRuleError::Form));
        assert_eq!(HttpRule::parse("G=T docs.rs/*"), Err(HttpRuleError::Method("G=T".into())));
        assert!(matches!(HttpRule::parse("GET a..b/*"), Err(HttpRuleError::Host(_))));
        assert!(matches!(HttpRule::parse("GET a.test/../b"), Err(HttpRuleError::Path(TargetError::Dots))));
    }
}
