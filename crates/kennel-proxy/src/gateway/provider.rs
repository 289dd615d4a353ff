//! Providers of models: where they are, and what opens them.

use std::fmt;

use kennel_policy::domain::Host;
use kennel_policy::gateway::{Api, Budget, ProviderRule};

use super::api;
use super::request::KnownMembers;
use crate::secrets::SecretValue;

/// A provider of models.
#[derive(Debug)]
pub struct Provider {
    /// Its name in the policy.
    pub name: String,
    /// Which protocol it speaks.
    pub api: Api,
    /// What clients inside show in place of the key.
    pub token: String,
    /// The real key; `None` for one that wants none.
    pub key: Option<SecretValue>,
    /// Where requests go.
    pub upstream: Upstream,
    /// The models that can be used, each perhaps with a `*`; all where the list is empty.
    pub models: Vec<String>,
    /// Members of a body that pass beside those of its protocol.
    pub members: Vec<String>,
    /// What it may use.
    pub budget: Budget,
}

impl Provider {
    /// The provider of a rule, with the key that was read for it.
    ///
    /// # Errors
    /// When its upstream is no address.
    pub fn of_rule(
        rule: &ProviderRule,
        token: String,
        key: Option<SecretValue>,
    ) -> Result<Provider, GatewayError> {
        Ok(Provider {
            name: rule.name.clone(),
            api: rule.api,
            token,
            key,
            upstream: Upstream::parse(&rule.upstream)?,
            models: rule.models.clone(),
            members: rule.members.clone(),
            budget: rule.budget,
        })
    }

    /// Whether its clients have to show the token. Where there is no key, and none is wanted, they send none.
    #[must_use]
    pub fn wants_token(&self) -> bool {
        self.key.is_some() || self.api.needs_key()
    }

    /// What is known of the bodies of requests for this path.
    pub(crate) fn known(&self, path: &str) -> KnownMembers<'_> {
        let api = api::of(self.api);
        KnownMembers { tables: api.members(), more: &self.members, limits: api.limits(path) }
    }

    pub(crate) fn check(&self) -> Result<(), GatewayError> {
        let sendable = |value: &[u8]| !value.is_empty() && value.iter().all(u8::is_ascii_graphic);
        if !sendable(self.token.as_bytes()) {
            return Err(GatewayError::Token(self.name.clone()));
        }
        let holds = |key: &SecretValue| sendable(key.expose()) && api::of(self.api).finds_key(key.expose());
        match &self.key {
            Some(key) if !holds(key) => Err(GatewayError::Key(self.name.clone())),
            _ => Ok(()),
        }
    }
}

/// Where a provider is: `https://openrouter.ai/api/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Whether it is spoken to by TLS.
    pub tls: bool,
    /// Its host.
    pub host: Host,
    /// Its port.
    pub port: u16,
    /// What comes before each path, without a slash at its end; mostly empty.
    pub path: String,
}

impl Upstream {
    /// Reads an address of `http` or `https`.
    ///
    /// # Errors
    /// When it is none, or has a user, a query or a fragment.
    pub fn parse(text: &str) -> Result<Upstream, GatewayError> {
        let wrong = |why| GatewayError::Upstream { text: shown(text), why };
        let (tls, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            _ => return Err(wrong("it does not begin with https:// or http://")),
        };
        if rest.contains(['?', '#']) {
            return Err(wrong("it has a query or a fragment"));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(wrong("it has a user name or a password; give the key by `key`"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let port = match port {
            None => {
                if tls {
                    443
                } else {
                    80
                }
            }
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or_else(|| wrong("its port is not a number from 1 to 65535"))?,
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = Host::parse(bare).map_err(|_| wrong("it has no valid host"))?;
        let path = path.trim_end_matches('/');
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        if !path.bytes().all(plain) || path.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
            return Err(wrong("its path has characters that are not letters, digits, `-._~/`"));
        }
        Ok(Upstream { tls, host, port, path: path.to_owned() })
    }

    /// What a `Host` field says.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = match &self.host {
            Host::Ip(std::net::IpAddr::V6(address)) => format!("[{address}]"),
            host => host.to_string(),
        };
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

/// An address may hold a password, which an error must not show.
fn shown(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((before, after)) => {
            let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
            format!("{scheme}://…@{after}")
        }
        None => text.to_owned(),
    }
}

/// Why there is no gateway.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// Its address is none.
    #[error(
        "setting up the model gateway: upstream `{text}`: {why}\nhelp: write it like `https://api.anthropic.com`"
    )]
    Upstream {
        /// As it was written.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Its key cannot be sent.
    #[error(
        "setting up the model gateway: {0}: the key is empty, or has a space, a line break or another character that no header field can hold\nhelp: check what the key's source gives"
    )]
    Key(String),
    /// There is no token.
    #[error("setting up the model gateway: {0}: the session's token is empty or no plain text")]
    Token(String),
    /// No memory to keep keys in.
    #[error("setting up the model gateway: taking memory for keys: {0}")]
    Memory(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_an_address_without_a_password() {
        for (text, shown) in [
            ("https://api.anthropic.com", "https://api.anthropic.com"),
            ("https://openrouter.ai/api/v1/", "https://openrouter.ai/api/v1"),
            ("HTTP://127.0.0.1:11434", "http://127.0.0.1:11434"),
            ("http://[::1]:80/", "http://[::1]"),
            ("https://API.Example.com:443", "https://api.example.com"),
        ] {
            assert_eq!(Upstream::parse(text).unwrap().to_string(), shown);
        }
        for text in [
            "api.anthropic.com",
            "ftp://a.test",
            "https://",
            "https://a.test:0",
            "https://a.test:x",
            "https://a.test/?a=1",
            "https://a.test/#a",
            "https://a.test/../b",
            "https://a.test/a%2fb",
            "https://a.test//b",
        ] {
            assert!(Upstream::parse(text).is_err(), "{text}");
        }
        let error = Upstream::parse("https://me:hunter2@a.test").unwrap_err().to_string();
        assert!(!error.contains("hunter2") && error.contains("a.test"), "{error}");
    }

    #[test]
    fn a_key_that_no_field_can_hold_is_an_error_that_does_not_show_it() {
        let provider = |key: &[u8]| Provider {
            name: "a".into(),
            api: Api::OpenAi,
            token: "t".into(),
            key: Some(SecretValue::from_bytes(key.to_vec()).unwrap()),
            upstream: Upstream::parse("https://a.test").unwrap(),
            models: vec![],
            members: vec![],
            budget: Budget::default(),
        };
        assert!(provider(b"sk-good").check().is_ok());
        for key in [&b""[..], b"hunter2\r\nx: y", b"hunter2\0", b"hunter2 x"] {
            let error = provider(key).check().unwrap_err();
            assert!(!format!("{error} {error:?} {:?}", provider(key)).contains("hunter2"));
        }
        let braces = provider(b"hunter2}");
        assert!(braces.check().is_ok());
        assert!(Provider { api: Api::Gemini, ..braces }.check().is_err());
    }
}
