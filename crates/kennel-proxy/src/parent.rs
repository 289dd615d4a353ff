//! A proxy between this host and the world: how to use it, and which hosts it is not used for.
//!
//! Where one is used it also looks names up, so the check of resolved addresses is its business for names; an
//! address that is given as such is checked here all the same.

use std::net::IpAddr;

use kennel_policy::domain::{Host, HostPattern, HostRule, ListKind};

use crate::auth::Credentials;

/// The proxies to use, by the kind of request, and the hosts that need none.
#[derive(Clone, Debug, Default)]
pub struct ParentProxies {
    /// For plain HTTP requests.
    pub http: Option<ParentProxy>,
    /// For everything else, by `CONNECT`.
    pub https: Option<ParentProxy>,
    /// Which hosts are reached without it.
    pub bypass: Bypass,
}

/// A proxy that speaks HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentProxy {
    /// Its host.
    pub host: Host,
    /// Its port.
    pub port: u16,
    /// What it wants to see.
    pub credentials: Option<Credentials>,
}

/// Why a text is no proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParentProxyError {
    /// `https://`, `socks5://` and others.
    #[error("kennel connects to a parent proxy by plain HTTP; `{0}` is not supported")]
    Scheme(String),
    /// No host, or none that is valid.
    #[error("the parent proxy has no valid host; write `http://proxy.example.com:3128`")]
    Host,
}

impl ParentProxy {
    /// Reads `http://user:password@host:port`; the scheme, the credentials and the port (80) can be left out.
    pub fn parse(text: &str) -> Result<Self, ParentProxyError> {
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            // Only a word: what stands before the first `://` could hold the password.
            Some((scheme, _)) if is_scheme(scheme) => {
                return Err(ParentProxyError::Scheme(scheme.to_owned()));
            }
            Some(_) => return Err(ParentProxyError::Host),
            None => text,
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (userinfo, place) = match authority.rsplit_once('@') {
            Some((userinfo, place)) => (Some(userinfo), place),
            None => (None, authority),
        };
        let (host, port) = split_authority(place, Some(80)).ok_or(ParentProxyError::Host)?;
        let credentials = userinfo.map(|userinfo| {
            let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
            Credentials { user: unescape(user), password: unescape(password) }
        });
        Ok(ParentProxy { host, port, credentials })
    }
}

fn is_scheme(text: &str) -> bool {
    (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`. Without a default the port has to be there.
pub(crate) fn split_authority(text: &str, default: Option<u16>) -> Option<(Host, u16)> {
    let (host, port) = match text.rfind(']') {
        Some(end) => (
            &text[..=end],
            text[end + 1..].strip_prefix(':').or_else(|| text[end + 1..].is_empty().then_some(""))?,
        ),
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let port = match port {
        "" => default?,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port != 0)?
        }
        _ => return None,
    };
    Some((Host::parse(host).ok()?, port))
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The rules of `NO_PROXY`.
#[derive(Clone, Debug, Default)]
pub struct Bypass {
    everything: bool,
    rules: Vec<HostRule>,
}

impl Bypass {
    /// Reads a `NO_PROXY` list: `*`, a name (which stands for itself and all below it, with or without a leading
    /// dot or `*.`), an address or a network, each with an optional port. What is none of these is left out, as
    /// every program does that reads this variable.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut bypass = Bypass::default();
        for entry in text.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()) {
            if entry == "*" {
                bypass.everything = true;
                continue;
            }
            let name = entry.trim_start_matches("*.").trim_start_matches('.');
            let Ok(exact) = HostRule::parse(name, ListKind::Deny) else { continue };
            if let HostPattern::Exact(name) = &exact.host {
                let below = HostPattern::Suffix(name.clone());
                bypass.rules.push(HostRule { host: below, ..exact.clone() });
            }
            bypass.rules.push(exact);
        }
        bypass
    }

    /// Whether this host is reached without a proxy. The loopback always is.
    #[must_use]
    pub fn covers(&self, host: &Host, port: u16) -> bool {
        let loopback = match host {
            Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Ip(IpAddr::V4(address)) => address.is_loopback(),
            Host::Ip(IpAddr::V6(address)) => address.is_loopback(),
        };
        loopback || self.everything || self.rules.iter().any(|rule| rule.matches(host, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_with_and_without_its_parts() {
        let full = ParentProxy::parse("http://us%65r:p%3Aw@proxy.test:3128/").unwrap();
        assert_eq!((full.host.to_string().as_str(), full.port), ("proxy.test", 3128));
        assert_eq!(full.credentials.unwrap(), Credentials { user: "user".into(), password: "p:w".into() });
        assert_eq!(ParentProxy::parse("proxy.test").unwrap().port, 80);
        assert_eq!(ParentProxy::parse("[::1]:8080").unwrap().port, 8080);
        assert!(matches!(ParentProxy::parse("socks5://p"), Err(ParentProxyError::Scheme(_))));
        for strange in ["me:secret@p.test://", "me:secret@p.test/?u=http://x", "secret+x://p"] {
            let error = ParentProxy::parse(strange).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        for bad in ["http://", "http://p:x", "http://p:0", "http://a b", "[::1"] {
            assert_eq!(ParentProxy::parse(bad), Err(ParentProxyError::Host), "{bad}");
        }
    }

    #[test]
    fn bypass_rules_are_suffixes_networks_and_ports() {
        let bypass =
            Bypass::parse("corp.test, .dot.test *.star.test,10.0.0.0/8,192.0.2.1:8080,odd.test:81,::::");
        let covers = |host: &str, port| bypass.covers(&Host::parse(host).unwrap(), port);
        for (host, port, expected) in [
            ("corp.test", 443, true),
            ("git.corp.test", 443, true),
            ("notcorp.test", 443, false),
            ("dot.test", 80, true),
            ("a.dot.test", 80, true),
            ("a.star.test", 80, true),
            ("10.1.2.3", 80, true),
            ("11.1.2.3", 80, false),
            ("192.0.2.1", 8080, true),
            ("192.0.2.1", 80, false),
            ("odd.test", 81, true),
            ("odd.test", 80, false),
            ("localhost", 80, true),
            ("127.5.5.5", 80, true),
            ("::1", 80, true),
            ("other.test", 80, false),
        ] {
            assert_eq!(covers(host, port), expected, "{host}:{port}");
        }
        assert!(Bypass::parse("*").covers(&Host::parse("any.test").unwrap(), 1));
    }
}
