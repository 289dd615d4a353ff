//! Hosts and the rules about them: one entry of a domain list, and the host it is asked about.
//!
//! Both sides are brought to one spelling before they are compared, because a list is only as good as its worst
//! spelling: names are folded to lower-case A-labels without the trailing dot, and every way in which a resolver
//! would read an address (`127.1`, `0x7f000001`, `0177.0.0.1`, `::ffff:127.0.0.1`) becomes that address. What
//! cannot be a host at all (a NUL, a line break, a percent sign, an empty label) is refused, never cleaned up: the
//! gate compares names that a program inside chose, and connects to exactly the name that was compared.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::origin::Origin;
use crate::printed::show;

/// The name under which a sandbox reaches the loopback of its host, when a rule allows it.
pub const HOST_ALIAS: &str = "host.kennel.internal";

mod address;
mod name;
mod protocol;

pub use protocol::Protocol;

/// Which list an entry is for. What is too broad to allow can still be denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Hosts that can be reached.
    Allow,
    /// Hosts that cannot.
    Deny,
}

/// One entry of a domain list.
///
/// ```
/// use kennel_policy::domain::{Host, HostRule, ListKind};
///
/// let rule = HostRule::parse("*.Example.COM:443", ListKind::Allow)?;
/// assert_eq!(rule.to_string(), "*.example.com:443");
/// assert!(rule.matches(&Host::parse("api.example.com.")?, 443));
/// assert!(!rule.matches(&Host::parse("example.com")?, 443));
/// assert!(!rule.matches(&Host::parse("evilexample.com")?, 443));
/// # Ok::<(), kennel_policy::domain::HostRuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRule {
    /// What may be spoken to them beside what the gate knows on every port; only in an allow list.
    pub protocol: Option<Protocol>,
    /// Which hosts it matches.
    pub host: HostPattern,
    /// The one port it matches; every port when `None`.
    pub port: Option<u16>,
    /// Why, in the user's words; shown in the message of a refused connection.
    pub reason: Option<String>,
    /// Where the rule came from.
    pub origin: Origin,
}

/// Which hosts a rule matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// One name.
    Exact(String),
    /// Every name below this one, and not this one: `*.example.com` is `Suffix("example.com")`.
    Suffix(String),
    /// One address.
    Ip(IpAddr),
    /// The addresses that share this many leading bits.
    Net(IpAddr, u8),
    /// Every host.
    Any,
}

/// A host that a program wants to reach, normalized.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name: lower case, A-labels, no trailing dot.
    Name(String),
    /// An address; one of IPv4 that was written as IPv6 is of IPv4.
    Ip(IpAddr),
}

/// Why a text is no host, or no entry of a domain list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostRuleError {
    /// Nothing at all.
    #[error("the host is empty")]
    Empty,
    /// A scheme, a path or a user name.
    #[error("`{0}` is a URL; write only its host, such as `example.com` or `example.com:443`")]
    Url(String),
    /// A character that no host has.
    #[error("{0} cannot be part of a host")]
    Character(String),
    /// Two dots in a row, or a dot in front.
    #[error("the host has an empty label")]
    EmptyLabel,
    /// More than 253 characters, or a label of more than 63.
    #[error("the host is too long: a name has at most 253 characters and each of its labels 63")]
    TooLong,
    /// Characters beyond ASCII that make no valid international name.
    #[error("the host is not a valid international name")]
    International,
    /// The last label is a number and the whole is no address.
    #[error("the host ends in a number but is not an IPv4 address")]
    Address,
    /// Brackets or colons around what is no IPv6 address.
    #[error("`{0}` is not an IPv6 address")]
    Address6(String),
    /// An IPv6 address that could as well be one and a port.
    #[error("`{0}`: write an IPv6 address in brackets, as in `[::1]` or `[::1]:443`")]
    Unbracketed(String),
    /// Not a number from 1 to 65535.
    #[error("`{0}` is not a port; a port is a number from 1 to 65535")]
    Port(String),
    /// What is behind the slash is no prefix length.
    #[error("`{0}` is not a network; write one as `10.0.0.0/8` or `fd00::/8`")]
    Network(String),
    /// An address of the network instead of the network.
    #[error("`{given}` is an address within a network; write `{network}` for the network")]
    HostBits {
        /// What was written.
        given: String,
        /// The network it is in.
        network: String,
    },
    /// A `*` that is not the whole first label.
    #[error("a `*` can only be the whole first label, as in `*.example.com`")]
    Wildcard,
    /// `*` or `0.0.0.0/0` in an allow list.
    #[error("`{0}` would allow every host; use network mode `host` for that")]
    AllowsAll(String),
    /// `*.com` in an allow list.
    #[error(
        "`*.{0}` is too broad; in an allow list at least two labels must follow the `*`, as in `*.example.com`"
    )]
    TooBroad(String),
    /// A name of one label in an allow list.
    #[error("`{0}` has one label only; write the full name (`localhost` is the one exception)")]
    SingleLabel(String),
    /// A protocol in a deny list.
    #[error("a deny entry applies to every protocol; write it without `{0}://`")]
    DeniesProtocol(Protocol),
    /// A protocol without a port.
    #[error("`{0}://` needs a port, as in `{0}://db.example.com:5433`")]
    ProtocolWithoutPort(Protocol),
}

impl HostRule {
    /// Reads one entry: a name, `*.suffix`, an address or a network, each with `:port` or without; in a deny list
    /// also `*`, in an allow list also `protocol://host:port`.
    pub fn parse(text: &str, list: ListKind) -> Result<Self, HostRuleError> {
        let (protocol, place) = split_protocol(text);
        let (host, port) = split_port(place).map_err(|error| match error {
            // The whole of it, as it was written.
            HostRuleError::Url(_) => HostRuleError::Url(without_password(text)),
            error => error,
        })?;
        let port = port.map(parse_port).transpose()?;
        match protocol {
            Some(protocol) if list == ListKind::Deny => return Err(HostRuleError::DeniesProtocol(protocol)),
            Some(protocol) if port.is_none() => return Err(HostRuleError::ProtocolWithoutPort(protocol)),
            _ => {}
        }
        let host = HostPattern::parse(host, list)?;
        Ok(HostRule { protocol, host, port, reason: None, origin: Origin::default() })
    }

    /// A rule that matches every host.
    #[must_use]
    pub fn any(origin: Origin) -> Self {
        HostRule { protocol: None, host: HostPattern::Any, port: None, reason: None, origin }
    }

    /// The rule with its origin.
    #[must_use]
    pub fn from_origin(self, origin: Origin) -> Self {
        HostRule { origin, ..self }
    }

    /// Whether the rule matches this host and port.
    #[must_use]
    pub fn matches(&self, host: &Host, port: u16) -> bool {
        self.port.is_none_or(|own| own == port) && self.host.matches(host)
    }
}

impl HostPattern {
    fn parse(text: &str, list: ListKind) -> Result<Self, HostRuleError> {
        if text == "*" {
            return match list {
                ListKind::Deny => Ok(HostPattern::Any),
                ListKind::Allow => Err(HostRuleError::AllowsAll(text.to_owned())),
            };
        }
        if let Some(suffix) = text.strip_prefix("*.") {
            return match Host::parse(suffix)? {
                Host::Ip(_) => Err(HostRuleError::Wildcard),
                Host::Name(name) if list == ListKind::Allow && !name.contains('.') => {
                    Err(HostRuleError::TooBroad(name))
                }
                Host::Name(name) => Ok(HostPattern::Suffix(name)),
            };
        }
        if text.contains('*') {
            return Err(HostRuleError::Wildcard);
        }
        if text.contains('/') {
            let (address, bits) = address::network(text)?;
            return match list {
                ListKind::Allow if bits == 0 => Err(HostRuleError::AllowsAll(text.to_owned())),
                _ => Ok(HostPattern::Net(address, bits)),
            };
        }
        match Host::parse(text)? {
            Host::Ip(address) => Ok(HostPattern::Ip(address)),
            Host::Name(name) if list == ListKind::Allow && !name.contains('.') && name != "localhost" => {
                Err(HostRuleError::SingleLabel(name))
            }
            Host::Name(name) => Ok(HostPattern::Exact(name)),
        }
    }

    /// Whether it matches every host that the other one matches.
    pub(crate) fn covers(&self, other: &HostPattern) -> bool {
        match (self, other) {
            (HostPattern::Any, _) => true,
            (_, HostPattern::Exact(name)) => self.matches(&Host::Name(name.clone())),
            (_, HostPattern::Ip(address)) => self.matches(&Host::Ip(*address)),
            (HostPattern::Suffix(own), HostPattern::Suffix(name)) => {
                own == name || self.matches(&Host::Name(name.clone()))
            }
            _ => self == other,
        }
    }

    /// Whether it matches this host. A name never matches an address: a caller that has resolved a name checks both.
    #[must_use]
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (HostPattern::Any, _) => true,
            (HostPattern::Exact(own), Host::Name(name)) => own == name,
            (HostPattern::Suffix(suffix), Host::Name(name)) => name
                .strip_suffix(suffix.as_str())
                .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
            (HostPattern::Ip(own), Host::Ip(address)) => *own == address.to_canonical(),
            (HostPattern::Net(network, bits), Host::Ip(address)) => {
                address::contains(*network, *bits, address.to_canonical())
            }
            _ => false,
        }
    }
}

impl Host {
    /// Reads a host in any of its spellings. IPv6 addresses come with brackets or without.
    pub fn parse(text: &str) -> Result<Self, HostRuleError> {
        if text.is_empty() {
            return Err(HostRuleError::Empty);
        }
        if let Some(address) = address::bracketed(text)? {
            return Ok(Host::Ip(address.to_canonical()));
        }
        let name = name::fold(text)?;
        // After folding, so that full-width digits and dots are seen for what a resolver would make of them.
        match address::ipv4(&name) {
            address::Reading::Address(address) => Ok(Host::Ip(address.into())),
            address::Reading::Invalid => Err(HostRuleError::Address),
            address::Reading::Name => Ok(Host::Name(name)),
        }
    }
}

impl FromStr for Host {
    type Err = HostRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Host::parse(text)
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Host::Ip(address.to_canonical())
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Ip(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Suffix(name) => write!(f, "*.{name}"),
            HostPattern::Ip(address) => address.fmt(f),
            HostPattern::Net(address, bits) => write!(f, "{address}/{bits}"),
            HostPattern::Any => f.write_str("*"),
        }
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(protocol) = self.protocol {
            write!(f, "{protocol}://")?;
        }
        match (&self.host, self.port) {
            (host, None) => host.fmt(f),
            (host @ (HostPattern::Ip(IpAddr::V6(_)) | HostPattern::Net(IpAddr::V6(_), _)), Some(port)) => {
                write!(f, "[{host}]:{port}")
            }
            (host, Some(port)) => write!(f, "{host}:{port}"),
        }
    }
}

/// The protocol of an entry, where it names one that is known, and the rest.
fn split_protocol(text: &str) -> (Option<Protocol>, &str) {
    match text.split_once("://").map(|(name, rest)| (Protocol::by_name(name), rest)) {
        Some((Some(protocol), rest)) => (Some(protocol), rest),
        _ => (None, text),
    }
}

/// What was written, for an error. A URL may hold a password, which is not for the screen.
#[must_use]
pub fn without_password(url: &str) -> String {
    let text = match url.rsplit_once('@') {
        Some((before, host)) => {
            let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
            let plain = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if plain { format!("{scheme}://…@{host}") } else { format!("…@{host}") }
        }
        None => url.to_owned(),
    };
    show(text.as_bytes())
}

/// The host and the port of an entry. More than one colon outside brackets is an IPv6 address without a port.
fn split_port(text: &str) -> Result<(&str, Option<&str>), HostRuleError> {
    let url = || HostRuleError::Url(without_password(text));
    if text.contains("://") || text.contains(['@', '?', '#', '\\']) {
        return Err(url());
    }
    let is_a_path = |host: &str| host.contains('/') && !address::looks_like_a_network(host);
    if let Some(inner) = text.strip_prefix('[') {
        let bad = || HostRuleError::Address6(show(text.as_bytes()));
        let (address, after) = inner.split_once(']').ok_or_else(bad)?;
        return match after.strip_prefix(':') {
            // `[fd00::/8]:443` is a network with a port, so what is inside goes on without its brackets.
            Some(port) if address.contains(':') => Ok((address, Some(port))),
            None if after.is_empty() && address.contains(':') => Ok((address, None)),
            _ => Err(bad()),
        };
    }
    match text.split_once(':') {
        Some((_, after)) if after.contains(':') => Ok((text, None)),
        Some((host, port)) if is_a_path(host) || port.contains('/') => Err(url()),
        Some((host, port)) => Ok((host, Some(port))),
        None if is_a_path(text) => Err(url()),
        None => Ok((text, None)),
    }
}

fn parse_port(text: &str) -> Result<u16, HostRuleError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits && port != 0 => Ok(port),
        _ => Err(HostRuleError::Port(show(text.as_bytes()))),
    }
}

#[cfg(test)]
mod tests;
