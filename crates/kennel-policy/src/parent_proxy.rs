//! The address of a proxy between this host and the world, as settings and variables write it.

use crate::domain::Host;

/// Where a proxy that speaks HTTP is, and what it wants to see.
#[derive(Clone, PartialEq, Eq)]
pub struct ParentAddress {
    /// Its host.
    pub host: Host,
    /// Its port.
    pub port: u16,
    /// A name and a password.
    pub login: Option<(String, String)>,
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

impl ParentAddress {
    /// Reads `http://user:password@host:port`; the scheme, the login and the port (80) can be left out.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<ParentAddress, ParentProxyError> {
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
        let login = userinfo.map(|userinfo| {
            let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
            (unescape(user), unescape(password))
        });
        Ok(ParentAddress { host, port, login })
    }
}

fn is_scheme(text: &str) -> bool {
    (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`. Without a default the port has to be there.
#[must_use]
pub fn split_authority(text: &str, default: Option<u16>) -> Option<(Host, u16)> {
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
