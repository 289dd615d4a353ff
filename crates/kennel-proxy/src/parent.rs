//! A proxy between this host and the world: how to use it, and which hosts it is not used for.
//!
//! Where one is used it also looks names up, so the check of resolved addresses is its business for names; an
//! address that is given as such is checked here all the same.

use std::net::IpAddr;

use kennel_policy::domain::{Host, HostPattern, HostRule, ListKind};
use kennel_policy::parent_proxy::ParentAddress;
pub use kennel_policy::parent_proxy::ParentProxyError;
pub(crate) use kennel_policy::parent_proxy::split_authority;

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

impl ParentProxy {
    /// Reads `http://user:password@host:port`; the scheme, the credentials and the port (80) can be left out.
    pub fn parse(text: &str) -> Result<Self, ParentProxyError> {
        let ParentAddress { host, port, login } = ParentAddress::parse(text)?;
        let credentials = login.map(|(user, password)| Credentials { user, password });
        Ok(ParentProxy { host, port, credentials })
    }
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
