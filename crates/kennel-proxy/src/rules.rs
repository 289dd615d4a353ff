//! The decision itself: rules in, one answer out. Pure, so that every door can ask it and every case can be tested
//! without a socket.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

pub use kennel_policy::domain::HOST_ALIAS;
use kennel_policy::domain::{Host, HostPattern, HostRule, Protocol};
use kennel_policy::printed::Ascii;

use crate::address::{self, AddressClass};

/// The most characters of a text that a program inside chose: a name has 253, and what is none is not worth more.
const MAX_TEXT: usize = 260;

/// A text that a program inside chose, as it is kept.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What is allowed and denied, as the gate applies it. A new value replaces the old one for the next connection.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Hosts that can be reached.
    pub allow: Vec<Arc<HostRule>>,
    /// Hosts that cannot be reached even so; looked at first.
    pub deny: Vec<Arc<HostRule>>,
    /// What happens to a host that no rule speaks of.
    pub unlisted: Unlisted,
    /// Whether a TLS or HTTP client may name another host than the one it connected to.
    pub allow_sni_mismatch: bool,
    /// Whether a TLS client may encrypt the name of the server it wants.
    pub allow_ech: bool,
}

/// What happens to a host that no rule speaks of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unlisted {
    /// It is refused.
    #[default]
    Deny,
    /// Someone is asked.
    Ask,
    /// Its public addresses may be connected to.
    Public,
}

/// What the rules say about one host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A rule allows it.
    Allow {
        /// That rule.
        rule: Arc<HostRule>,
    },
    /// It is refused.
    Deny {
        /// Why.
        reason: DenyReason,
        /// The rule that did it, where one did.
        rule: Option<Arc<HostRule>>,
    },
    /// No rule speaks of it, and someone is to be asked.
    Ask,
    /// No rule speaks of it, and it may be connected to where it leads to a public address.
    Public,
}

/// Why a connection was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DenyReason {
    /// No rule allows the host.
    NotListed,
    /// The host is allowed, but not this port.
    PortNotListed,
    /// A deny rule names it; its own words follow where it has some.
    DenyRule(Option<String>),
    /// The name leads to an address that only a rule with that address can open.
    Address(IpAddr, AddressClass),
    /// No rule speaks of the host, and what it leads to is no public address. The address itself stays untold: whoever could read
    /// it could look up the names of the networks around this host.
    NotPublic(AddressClass),
    /// The name leads to an address that a rule denies.
    DeniedAddress(IpAddr),
    /// What was given is no host name, for this reason.
    Malformed(String),
    /// A TLS, HTTP or git client named another host than the one it had connected to.
    NameMismatch(String),
    /// A TLS client named no server.
    NoServerName,
    /// A TLS client encrypted the name of the server, perhaps.
    EncryptedName,
    /// A TLS client broke the rules of TLS.
    Tls(&'static str),
    /// An HTTP client sent a request that is not carried.
    Request(String),
    /// No rule about requests allows it; the rule that would.
    HttpRule(String),
    /// A stand-in was sent where its secret is not bound, or a secret could not be kept apart.
    Secret(String),
    /// The client speaks what the gate cannot read, to a host where it has to.
    Unread(&'static str),
    /// The client does not accept the sandbox's certificate.
    NotTrusted,
    /// As many connections are read as the policy allows.
    TooMany,
    /// The client speaks what the gate does not carry to a name.
    Protocol(&'static str),
    /// The server did not answer in the protocol of its client.
    Answer(&'static str),
    /// The answer held the password of the parent proxy.
    Leak,
    /// A connection to an address of the gate's own that stands for no name (any more).
    UnknownName,
    /// Whoever was asked said no.
    Refused,
    /// Whoever was asked did not answer in time.
    NoAnswer,
    /// As many bytes have moved as this limit of the budget allows.
    Budget(String),
}

impl DenyReason {
    /// Without the rest of a text that is longer than anybody reads.
    pub(crate) fn cut(self) -> Self {
        match self {
            DenyReason::Malformed(why) => DenyReason::Malformed(cut(&why)),
            DenyReason::NameMismatch(told) => DenyReason::NameMismatch(cut(&told)),
            DenyReason::Request(why) => DenyReason::Request(cut(&why)),
            DenyReason::HttpRule(rule) => DenyReason::HttpRule(cut(&rule)),
            other => other,
        }
    }
}

impl fmt::Display for DenyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DenyReason::NotListed => f.write_str("not on the allow list"),
            DenyReason::Budget(limit) => write!(f, "the budget is used up ({limit})"),
            DenyReason::PortNotListed => f.write_str("allowed only on other ports"),
            DenyReason::DenyRule(None) => f.write_str("on the deny list"),
            DenyReason::DenyRule(Some(why)) => write!(f, "on the deny list: {}", Ascii(why)),
            DenyReason::Address(address, class) => write!(f, "it resolves to {address}, {class}"),
            DenyReason::NotPublic(class) => write!(f, "it leads to {class}, and only public ones are open"),
            DenyReason::DeniedAddress(address) => write!(f, "it resolves to {address}, which is denied"),
            DenyReason::Malformed(why) => write!(f, "not a valid host: {}", Ascii(why)),
            DenyReason::NameMismatch(told) => {
                write!(f, "the client asked this host for {}", Ascii(told))
            }
            DenyReason::NoServerName => {
                f.write_str("the TLS client names no server, which only a tcp:// rule allows")
            }
            DenyReason::EncryptedName => f.write_str(
                "the TLS client hides the server's name (ECH), which only network.allow_ech allows",
            ),
            DenyReason::Tls(why) => write!(f, "the TLS hello is malformed: {why}"),
            DenyReason::Request(why) => write!(f, "the HTTP request is not allowed: {}", Ascii(why)),
            DenyReason::HttpRule(rule) => {
                write!(f, "no rule allows the request {}", Ascii(rule))
            }
            DenyReason::Secret(why) => write!(f, "{}", Ascii(why)),
            DenyReason::Unread(what) => {
                write!(f, "the client speaks {what}, and only requests that can be read go to this host")
            }
            DenyReason::NotTrusted => f.write_str(
                "the client does not accept the sandbox's certificate; network.no_terminate carries its connections unread",
            ),
            DenyReason::TooMany => f.write_str("as many connections are read as the policy allows"),
            DenyReason::Protocol(what) => {
                write!(f, "the client speaks {what}, which only a tcp:// rule allows")
            }
            DenyReason::Answer(what) => write!(f, "the server does not answer in {what}"),
            DenyReason::Leak => f.write_str("the answer held the parent proxy's password"),
            DenyReason::UnknownName => f.write_str("that address belongs to no name"),
            DenyReason::Refused => f.write_str("refused when asked"),
            DenyReason::NoAnswer => f.write_str("no answer to the question in time"),
        }
    }
}

impl Rules {
    /// Rules with these two lists and nothing special.
    #[must_use]
    pub fn new(allow: Vec<HostRule>, deny: Vec<HostRule>) -> Self {
        Rules {
            allow: allow.into_iter().map(Arc::new).collect(),
            deny: deny.into_iter().map(Arc::new).collect(),
            ..Rules::default()
        }
    }

    /// What the rules say about this host and port. The deny list is looked at first.
    ///
    /// An allow rule means the address itself: anybody can have IPv6 addresses that contain an allowed IPv4 address. A deny rule
    /// means every reading of it.
    #[must_use]
    pub fn decide(&self, host: &Host, port: u16) -> Decision {
        let readings = readings(host);
        let denies = |rule: &&Arc<HostRule>| readings.iter().any(|reading| rule.matches(reading, port));
        if let Some(rule) = self.deny.iter().find(denies) {
            let reason = DenyReason::DenyRule(rule.reason.clone());
            return Decision::Deny { reason, rule: Some(Arc::clone(rule)) };
        }
        if let Some(rule) = self.allow.iter().find(|rule| rule.matches(host, port)) {
            return Decision::Allow { rule: Arc::clone(rule) };
        }
        match self.unlisted {
            Unlisted::Ask => return Decision::Ask,
            Unlisted::Public => return public(host),
            Unlisted::Deny => {}
        }
        let on_another_port = self.allow.iter().find(|rule| rule.host.matches(host));
        let reason =
            if on_another_port.is_some() { DenyReason::PortNotListed } else { DenyReason::NotListed };
        Decision::Deny { reason, rule: on_another_port.map(Arc::clone) }
    }

    /// The protocols that rules name for this host and port.
    #[must_use]
    pub fn protocols(&self, host: &Host, port: u16) -> Vec<Protocol> {
        let named = self.allow.iter().filter(|rule| rule.matches(host, port));
        named.filter_map(|rule| rule.protocol).collect()
    }

    /// Whether a name can be looked up: some port of it could be allowed. The port is not known yet when a program
    /// asks for an address, and nothing leaves the host for it either way.
    #[must_use]
    pub fn decide_name(&self, host: &Host) -> Decision {
        let every_port = |rule: &&Arc<HostRule>| rule.port.is_none() && rule.host.matches(host);
        if let Some(rule) = self.deny.iter().find(every_port) {
            let reason = DenyReason::DenyRule(rule.reason.clone());
            return Decision::Deny { reason, rule: Some(Arc::clone(rule)) };
        }
        match self.allow.iter().find(|rule| rule.host.matches(host)) {
            Some(rule) => Decision::Allow { rule: Arc::clone(rule) },
            None if self.unlisted == Unlisted::Ask => Decision::Ask,
            None if self.unlisted == Unlisted::Public => public(host),
            None => Decision::Deny { reason: DenyReason::NotListed, rule: None },
        }
    }

    /// Whether an address that an allowed name resolved to may be connected to. `is_own` tells the
    /// addresses of this host. Deny rules for addresses and networks hold for resolved addresses too; `*` is no
    /// such rule, since it has been asked about the name already.
    pub fn check_address(
        &self,
        address: IpAddr,
        port: u16,
        is_own: impl Fn(IpAddr) -> bool,
    ) -> Result<(), DenyReason> {
        let class = |address| address::classify(address, is_own);
        self.check_class(address, port, class, |class| DenyReason::Address(address, class))
    }

    /// The same for a host that no rule speaks of, under [`Unlisted::Public`].
    pub fn check_public_address(
        &self,
        address: IpAddr,
        port: u16,
        is_own: impl Fn(IpAddr) -> bool,
    ) -> Result<(), DenyReason> {
        self.check_class(address, port, |address| address::not_public(address, is_own), DenyReason::NotPublic)
    }

    fn check_class(
        &self,
        address: IpAddr,
        port: u16,
        class: impl FnOnce(IpAddr) -> Option<AddressClass>,
        reason: impl FnOnce(AddressClass) -> DenyReason,
    ) -> Result<(), DenyReason> {
        let itself = Host::from(address);
        let readings = readings(&itself);
        let is_address =
            |rule: &&Arc<HostRule>| matches!(rule.host, HostPattern::Ip(_) | HostPattern::Net(..));
        let mut denies = self.deny.iter().filter(is_address);
        if denies.any(|rule| readings.iter().any(|reading| rule.matches(reading, port))) {
            return Err(DenyReason::DeniedAddress(address));
        }
        if self.allow.iter().filter(is_address).any(|rule| rule.matches(&itself, port)) {
            return Ok(());
        }
        class(address).map_or(Ok(()), |class| Err(reason(class)))
    }
}

/// What is said about a host that no rule speaks of where every public address is open. The names of this host are none.
fn public(host: &Host) -> Decision {
    match host {
        Host::Name(name) if is_this_host(name) => {
            let reason = DenyReason::NotPublic(AddressClass::Loopback);
            Decision::Deny { reason, rule: None }
        }
        _ => Decision::Public,
    }
}

/// Whether a name *means* the host's loopback: who allows one of them wants just that.
pub(crate) fn is_this_host(name: &str) -> bool {
    name == HOST_ALIAS || name == "localhost"
}

/// A host and, where it is an IPv6 address with an IPv4 one inside, that one too: for rules that deny.
fn readings(host: &Host) -> Vec<Host> {
    match host {
        Host::Name(_) => vec![host.clone()],
        Host::Ip(address) => address::readings(*address).map(Host::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kennel_policy::domain::ListKind;

    fn rules(allow: &[&str], deny: &[&str]) -> Rules {
        let parse = |list: &[&str], kind| {
            list.iter().map(|text| HostRule::parse(text, kind).unwrap()).collect::<Vec<_>>()
        };
        Rules::new(parse(allow, ListKind::Allow), parse(deny, ListKind::Deny))
    }

    fn allowed(rules: &Rules, host: &str, port: u16) -> bool {
        matches!(rules.decide(&Host::parse(host).unwrap(), port), Decision::Allow { .. })
    }

    fn reason(rules: &Rules, host: &str, port: u16) -> DenyReason {
        match rules.decide(&Host::parse(host).unwrap(), port) {
            Decision::Deny { reason, .. } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_empty_allow_list_allows_nothing() {
        let rules = rules(&[], &[]);
        assert_eq!(reason(&rules, "example.com", 443), DenyReason::NotListed);
        assert_eq!(reason(&rules, "127.0.0.1", 443), DenyReason::NotListed);
        assert!(matches!(
            rules.decide_name(&Host::parse("example.com").unwrap()),
            Decision::Deny { reason: DenyReason::NotListed, .. }
        ));
    }

    #[test]
    fn the_deny_list_wins() {
        let rules = rules(&["*.example.com"], &["secret.example.com", "*:22"]);
        assert!(allowed(&rules, "www.example.com", 443));
        assert_eq!(reason(&rules, "secret.example.com", 443), DenyReason::DenyRule(None));
        assert_eq!(reason(&rules, "www.example.com", 22), DenyReason::DenyRule(None));
        assert_eq!(reason(&rules, "example.com", 443), DenyReason::NotListed);
    }

    #[test]
    fn a_name_that_only_ends_or_begins_alike_is_another_name() {
        let rules = rules(&["github.com", "*.github.com"], &[]);
        for host in ["evilgithub.com", "github.com.evil.com", "xgithub.com", "github.co"] {
            assert_eq!(reason(&rules, host, 443), DenyReason::NotListed, "{host}");
        }
    }

    #[test]
    fn a_port_that_is_not_listed_is_told_apart_from_a_host_that_is_not() {
        let rules = rules(&["example.com:443"], &[]);
        assert!(allowed(&rules, "EXAMPLE.com.", 443));
        assert_eq!(reason(&rules, "example.com", 80), DenyReason::PortNotListed);
    }

    #[test]
    fn addresses_match_in_every_spelling() {
        let rules = rules(&["127.0.0.1:8080"], &["10.0.0.0/8"]);
        for host in ["127.1", "0x7f.1", "2130706433", "0177.0.0.1", "[::ffff:127.0.0.1]"] {
            assert!(allowed(&rules, host, 8080), "{host}");
        }
        assert_eq!(reason(&rules, "[64:ff9b::a00:1]", 80), DenyReason::DenyRule(None));
    }

    /// IPv6 addresses that contain 10.0.0.5, in every form that [`address::readings`] knows.
    const WITH_TEN: [&str; 10] = [
        "[2a00:1:2:3:0:5efe:a00:5]",
        "[2a00:1:2:3:200:5efe:a00:5]",
        "[2001:0:a00:5::1]",
        "[2001:0:102:304::f5ff:fffa]",
        "[2002:a00:5::1]",
        "[64:ff9b::a00:5]",
        "[64:ff9b:1::a00:5]",
        "[64:ff9b:1:a00:0:500::]",
        "[::a00:5]",
        "[::ffff:0:a00:5]",
    ];

    #[test]
    #[kennel_claim::claim("network/an-address-is-itself")]
    fn an_allowed_address_is_no_other_address_that_contains_it() {
        let exact = rules(&["10.0.0.5", "example.com"], &[]);
        let network = rules(&["10.0.0.0/8", "tcp://10.0.0.5:22", "example.com"], &[]);
        for text in WITH_TEN {
            for rules in [&exact, &network] {
                assert_eq!(reason(rules, text, 443), DenyReason::NotListed, "{text}");
                assert_eq!(reason(rules, text, 22), DenyReason::NotListed, "{text}");
                assert_eq!(rules.protocols(&Host::parse(text).unwrap(), 22), [], "{text}");
            }
        }
        // The same address in an IPv6 socket's spelling.
        for text in ["[::ffff:10.0.0.5]", "[::ffff:a00:5]", "10.5"] {
            assert!(allowed(&exact, text, 443), "{text}");
        }
    }

    #[test]
    fn a_denied_address_is_every_other_address_that_contains_it() {
        let denied = rules(&["2000::/3", "::/3", "example.com"], &["10.0.0.0/8"]);
        for text in WITH_TEN {
            assert_eq!(reason(&denied, text, 443), DenyReason::DenyRule(None), "{text}");
            let Host::Ip(address) = Host::parse(text).unwrap() else { panic!("{text}") };
            let checked = denied.check_address(address, 443, |_| false);
            assert_eq!(checked, Err(DenyReason::DeniedAddress(address)), "{text}");
        }
    }

    #[test]
    #[kennel_claim::claim("network/an-address-is-itself")]
    fn an_allowed_loopback_opens_no_other_address_that_contains_it() {
        let rules = rules(&["127.0.0.1", "example.com"], &[]);
        for text in ["64:ff9b::7f00:1", "2002:7f00:1::", "::7f00:1", "::ffff:0:7f00:1", "2a00::5efe:7f00:1"] {
            let checked = rules.check_address(text.parse().unwrap(), 443, |_| false);
            assert!(matches!(checked, Err(DenyReason::Address(..))), "{text}: {checked:?}");
        }
        assert_eq!(rules.check_address("::ffff:127.0.0.1".parse().unwrap(), 443, |_| false), Ok(()));
    }

    #[test]
    fn a_name_is_looked_up_when_some_port_of_it_is_allowed() {
        let rules = rules(&["example.com:443", "other.com"], &["*:22", "other.com"]);
        let name = |host: &str| rules.decide_name(&Host::parse(host).unwrap());
        assert!(matches!(name("example.com"), Decision::Allow { .. }));
        assert!(matches!(name("other.com"), Decision::Deny { reason: DenyReason::DenyRule(_), .. }));
        assert!(matches!(name("third.com"), Decision::Deny { reason: DenyReason::NotListed, .. }));
    }

    #[test]
    fn a_resolved_address_is_refused_unless_a_rule_names_it() {
        let closed = rules(&["example.com"], &["*"]);
        let open = rules(&["example.com", "127.0.0.1:80", "169.254.0.0/16"], &["10.0.0.0/8"]);
        let loopback = "127.0.0.1".parse().unwrap();
        assert!(matches!(closed.check_address(loopback, 80, |_| false), Err(DenyReason::Address(..))));
        assert_eq!(open.check_address(loopback, 80, |_| false), Ok(()));
        assert!(open.check_address(loopback, 81, |_| false).is_err());
        assert_eq!(open.check_address("169.254.169.254".parse().unwrap(), 80, |_| false), Ok(()));
        assert!(matches!(
            open.check_address("10.1.2.3".parse().unwrap(), 80, |_| false),
            Err(DenyReason::DeniedAddress(_))
        ));
        assert_eq!(closed.check_address("93.184.216.34".parse().unwrap(), 80, |_| false), Ok(()));
    }

    #[test]
    fn where_the_internet_is_open_a_rule_still_comes_first() {
        let mut rules =
            rules(&["db.corp.example", "host.kennel.internal:5432"], &["evil.example.com", "9.9.9.0/24"]);
        rules.unlisted = Unlisted::Public;
        let decide = |host: &str, port| rules.decide(&Host::parse(host).unwrap(), port);
        assert!(matches!(decide("db.corp.example", 5432), Decision::Allow { .. }));
        assert!(matches!(decide("host.kennel.internal", 5432), Decision::Allow { .. }));
        assert_eq!(decide("any.example.com", 1), Decision::Public);
        assert_eq!(decide("8.8.8.8", 1), Decision::Public);
        assert_eq!(reason(&rules, "evil.example.com", 443), DenyReason::DenyRule(None));
        for host in ["host.kennel.internal", "localhost"] {
            assert_eq!(reason(&rules, host, 80), DenyReason::NotPublic(AddressClass::Loopback), "{host}");
        }
        let lookup = |host: &str| rules.decide_name(&Host::parse(host).unwrap());
        assert_eq!(lookup("any.example.com"), Decision::Public);
        assert!(matches!(lookup("evil.example.com"), Decision::Deny { .. }));
        let check = |address: &str| rules.check_public_address(address.parse().unwrap(), 443, |_| false);
        assert_eq!(check("8.8.8.8"), Ok(()));
        assert_eq!(check("9.9.9.9"), Err(DenyReason::DeniedAddress("9.9.9.9".parse().unwrap())));
        assert_eq!(check("10.0.0.1"), Err(DenyReason::NotPublic(AddressClass::Private)));
    }

    #[test]
    fn long_texts_are_cut() {
        let long = "ä".repeat(100_000);
        assert_eq!(cut(&long).chars().count(), MAX_TEXT + 1);
        assert_eq!(cut("short"), "short");
    }
}
