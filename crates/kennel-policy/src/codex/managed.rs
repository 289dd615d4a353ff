//! A managed network: the proxies that Codex itself runs on the host's loopback are the only way out.
//!
//! Codex names them in the variables that programs look for. Inside they are found at the same ports of the loopback, and
//! every byte is carried to the host's. Whose connection it is, Codex's proxy learns from a frame that is sent before the
//! first of these bytes; the token in it never reaches the command.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use crate::policy::{Greeting, NetworkMode, NetworkPolicy, Policy, Relay, UnixSockets};

/// Variables that can name such a proxy, in whatever case.
const PROXIES: [&str; 16] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "WS_PROXY",
    "WSS_PROXY",
    "ALL_PROXY",
    "FTP_PROXY",
    "YARN_HTTP_PROXY",
    "YARN_HTTPS_PROXY",
    "NPM_CONFIG_HTTP_PROXY",
    "NPM_CONFIG_HTTPS_PROXY",
    "NPM_CONFIG_PROXY",
    "BUNDLE_HTTP_PROXY",
    "BUNDLE_HTTPS_PROXY",
    "PIP_PROXY",
    "DOCKER_HTTP_PROXY",
    "DOCKER_HTTPS_PROXY",
];

/// The variable that holds the token by which Codex's proxy knows whose connection it is. It is not the command's.
pub const ATTRIBUTION: &str = "CODEX_NETWORK_PROXY_ATTRIBUTION";

/// What the frame that holds the token begins with.
const FRAME: &[u8] = b"\0CDXPXY1";
const LONGEST_TOKEN: usize = 128;

/// What `--managed-network` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagedNetwork {
    /// Whether the command can make unix sockets, and connect to those of the host that it sees.
    pub all_unix_sockets: bool,
    /// Whether servers may listen on the host's loopback, where a sandbox has none of its own (macOS).
    pub local_binding: bool,
}

/// Why there is no managed network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedError {
    /// No variable names a proxy.
    #[error(
        "the sandbox's managed proxy mode requires proxy environment variables\n\
         help: set HTTP_PROXY to http://127.0.0.1:PORT"
    )]
    NoProxy,
    /// What they name cannot be used.
    #[error(
        "the sandbox's managed proxy mode requires parseable loopback proxy endpoints\n\
         help: set HTTP_PROXY to http://127.0.0.1:PORT"
    )]
    NotOnTheLoopback,
    /// Codex's proxy would refuse every connection.
    #[error(
        "the sandbox cannot attribute its connections: the token in {ATTRIBUTION} is empty, too long or not text"
    )]
    Token,
}

/// Leaves the proxies that `variables`, the caller's, name as the only way out.
///
/// # Errors
/// When none of them can be used: then nothing would lead out, and nothing would say so.
pub fn manage<'v>(
    policy: &mut Policy,
    managed: ManagedNetwork,
    variables: impl Iterator<Item = (&'v OsStr, &'v OsStr)>,
) -> Result<(), ManagedError> {
    let (mut token, mut named) = (None, false);
    let mut ports = BTreeSet::new();
    for (name, value) in variables {
        if name == ATTRIBUTION {
            token = Some(value.to_str().ok_or(ManagedError::Token)?);
        }
        if !PROXIES.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            continue;
        }
        let Some(value) = value.to_str().map(str::trim).filter(|value| !value.is_empty()) else { continue };
        named = true;
        if let Some(Proxy { port, address }) = Proxy::on_the_loopback(value) {
            ports.insert(port);
            policy.environment.set.push((name.to_owned(), OsString::from(address)));
        }
    }
    if ports.is_empty() {
        return Err(if named { ManagedError::NotOnTheLoopback } else { ManagedError::NoProxy });
    }
    let greeting = token.map(frame).transpose()?.unwrap_or_default();
    policy.network = NetworkPolicy {
        mode: NetworkMode::None,
        relays: ports.into_iter().map(|port| Relay { port, greeting: greeting.clone() }).collect(),
        unix_sockets: if managed.all_unix_sockets { UnixSockets::All } else { UnixSockets::None },
        no_network: policy.network.no_network,
        local_binding: managed.local_binding,
        ..NetworkPolicy::default()
    };
    Ok(())
}

fn frame(token: &str) -> Result<Greeting, ManagedError> {
    let length = u16::try_from(token.len()).map_err(|_| ManagedError::Token)?;
    if !(1..=LONGEST_TOKEN).contains(&token.len()) {
        return Err(ManagedError::Token);
    }
    Ok([FRAME, &length.to_be_bytes(), token.as_bytes()].concat().into())
}

/// A proxy on the host's loopback.
#[derive(Debug, PartialEq, Eq)]
struct Proxy {
    port: u16,
    /// Where it is found inside: what the variable says, with the loopback's address in place of its name.
    address: String,
}

impl Proxy {
    fn on_the_loopback(value: &str) -> Option<Proxy> {
        let (scheme, rest) = match value.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, value),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        let (login, host) = match authority.rfind('@') {
            Some(at) => authority.split_at(at + 1),
            None => ("", authority),
        };
        let (host, port) = match host.split_once(':') {
            Some((host, port)) if !port.is_empty() => (host, port.parse().ok()?),
            Some((host, _)) => (host, default_port(scheme)),
            None => (host, default_port(scheme)),
        };
        if port == 0 || !(host == "127.0.0.1" || host.eq_ignore_ascii_case("localhost")) {
            return None;
        }
        let scheme = scheme.map(|scheme| format!("{scheme}://")).unwrap_or_default();
        Some(Proxy { port, address: format!("{scheme}{login}127.0.0.1:{port}{tail}") })
    }
}

fn default_port(scheme: Option<&str>) -> u16 {
    match scheme.map(str::to_ascii_lowercase).as_deref() {
        Some("https") => 443,
        Some("socks4" | "socks4a" | "socks5" | "socks5h") => 1080,
        _ => 80,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn managed(variables: &[(&str, &str)]) -> Result<Policy, ManagedError> {
        let mut policy = Policy::default();
        let variables = variables.iter().map(|(name, value)| (OsStr::new(*name), OsStr::new(*value)));
        manage(&mut policy, ManagedNetwork::default(), variables).map(|()| policy)
    }

    #[test]
    fn every_spelling_of_every_variable_leads_to_the_proxy() {
        for known in PROXIES {
            for name in [known.to_owned(), known.to_lowercase(), known.replace("PROXY", "Proxy")] {
                let policy = managed(&[(&name, " http://LocalHost:8080/ "), ("NO_PROXY", "x")]).unwrap();
                assert_eq!(policy.environment.set, [(name.into(), "http://127.0.0.1:8080/".into())]);
                assert_eq!(policy.network.relays.iter().map(|relay| relay.port).collect::<Vec<_>>(), [8080]);
            }
        }
        assert_eq!(managed(&[("GRPC_PROXY", "http://127.0.0.1:1")]), Err(ManagedError::NoProxy));
    }

    #[test]
    fn an_address_keeps_all_but_its_host() {
        let found = |value| Proxy::on_the_loopback(value).map(|proxy| (proxy.port, proxy.address));
        for (value, port, address) in [
            ("http://127.0.0.1:8080", 8080, "http://127.0.0.1:8080"),
            ("localhost:8080", 8080, "127.0.0.1:8080"),
            ("http://u:p@w@localhost:1/?a#b", 1, "http://u:p@w@127.0.0.1:1/?a#b"),
            ("socks5h://LOCALHOST", 1080, "socks5h://127.0.0.1:1080"),
            ("https://127.0.0.1", 443, "https://127.0.0.1:443"),
            ("http://127.0.0.1:", 80, "http://127.0.0.1:80"),
        ] {
            assert_eq!(found(value), Some((port, address.to_owned())), "{value}");
        }
        for value in [
            "http://proxy.example.com:8080",
            "http://[::1]:8080",
            "http://127.0.0.1:0",
            "http://127.0.0.1:65536",
            "http://127.0.0.1@example.com:80",
            "http://127.0.0.1.example.com:80",
            "http://",
            "",
        ] {
            assert_eq!(found(value), None, "{value}");
        }
    }

    #[test]
    fn each_proxy_is_told_whose_connection_it_is() {
        let variables = [
            ("HTTP_PROXY", "http://127.0.0.1:1"),
            ("https_proxy", "http://localhost:1"),
            ("ALL_PROXY", "socks5h://127.0.0.1:2"),
            (ATTRIBUTION, "token-1"),
        ];
        let relays = managed(&variables).unwrap().network.relays;
        assert_eq!(relays.iter().map(|relay| relay.port).collect::<Vec<_>>(), [1, 2]);
        assert!(relays.iter().all(|relay| relay.greeting.expose() == b"\0CDXPXY1\0\x07token-1"));
        assert!(!format!("{relays:?}").contains("116"), "the token is not shown");
        for token in ["".to_owned(), "x".repeat(129)] {
            assert_eq!(
                managed(&[("HTTP_PROXY", "http://127.0.0.1:1"), (ATTRIBUTION, &token)]),
                Err(ManagedError::Token)
            );
        }
    }

    #[test]
    fn without_a_proxy_of_the_loopback_nothing_starts() {
        assert_eq!(managed(&[("HTTP_PROXY", " ")]), Err(ManagedError::NoProxy));
        assert_eq!(managed(&[("HTTP_PROXY", "http://corp:1")]), Err(ManagedError::NotOnTheLoopback));
    }
}
