use super::*;
use proptest::prelude::*;

fn allow(text: &str) -> Result<String, String> {
    HostRule::parse(text, ListKind::Allow).map(|r| r.to_string()).map_err(|e| e.to_string())
}

fn deny(text: &str) -> Result<String, String> {
    HostRule::parse(text, ListKind::Deny).map(|r| r.to_string()).map_err(|e| e.to_string())
}

fn matches(rule: &str, host: &str, port: u16) -> bool {
    HostRule::parse(rule, ListKind::Deny).unwrap().matches(&Host::parse(host).unwrap(), port)
}

#[test]
fn names_have_one_spelling() {
    assert_eq!(allow("Example.COM.").unwrap(), "example.com");
    assert_eq!(allow("*.Example.com:443").unwrap(), "*.example.com:443");
    assert_eq!(allow("bücher.example").unwrap(), "xn--bcher-kva.example");
    assert_eq!(allow("BÜCHER。example").unwrap(), "xn--bcher-kva.example");
    assert_eq!(allow("ｅｘａｍｐｌｅ.com").unwrap(), "example.com");
    assert_eq!(allow("XN--Bcher-KVA.example").unwrap(), "xn--bcher-kva.example");
    assert_eq!(allow("my_bucket.s3.example").unwrap(), "my_bucket.s3.example");
    assert_eq!(allow("localhost:8080").unwrap(), "localhost:8080");
    assert_eq!(allow("host.kennel.internal:5432").unwrap(), "host.kennel.internal:5432");
}

#[test]
fn addresses_have_one_spelling() {
    let spellings = [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0x7F.0.0.0x1",
        "１２７.0.0.1",
    ];
    for text in spellings {
        assert_eq!(allow(text).unwrap(), "127.0.0.1", "{text}");
    }
    assert_eq!(allow("127.0.0.1.:80").unwrap(), "127.0.0.1:80");
    for text in ["::ffff:127.0.0.1", "[::ffff:7f00:1]", "0:0:0:0:0:ffff:7f00:0001"] {
        assert_eq!(allow(text).unwrap(), "127.0.0.1", "{text}");
    }
    assert_eq!(allow("2001:DB8:0::1").unwrap(), "2001:db8::1");
    assert_eq!(allow("[2001:db8::1]:443").unwrap(), "[2001:db8::1]:443");
}

#[test]
fn networks_are_read_as_they_are_written() {
    assert_eq!(allow("10.0.0.0/8").unwrap(), "10.0.0.0/8");
    assert_eq!(allow("10.0.0.0/8:443").unwrap(), "10.0.0.0/8:443");
    assert_eq!(allow("fd00::/8").unwrap(), "fd00::/8");
    assert_eq!(allow("[fd00::/8]:443").unwrap(), "[fd00::/8]:443");
    assert_eq!(allow("::ffff:10.0.0.0/104").unwrap(), "10.0.0.0/8");
    assert_eq!(deny("0.0.0.0/0").unwrap(), "0.0.0.0/0");
    assert_eq!(
        allow("10.1.2.3/8").unwrap_err(),
        "`10.1.2.3/8` is an address within a network; write `10.0.0.0/8` for the network"
    );
    for text in ["10/8", "10.0.0.0/33", "10.0.0.0/", "fd00::/+8", "fd00::/129"] {
        assert!(allow(text).unwrap_err().contains("is not a network"), "{text}");
    }
}

#[test]
fn a_protocol_can_be_named_with_a_port_in_an_allow_list() {
    assert_eq!(allow("tcp://DB.example.com:5433").unwrap(), "tcp://db.example.com:5433");
    assert_eq!(allow("postgresql://*.example.com:5433").unwrap(), "postgres://*.example.com:5433");
    assert_eq!(allow("redis://[2001:db8::1]:6380").unwrap(), "redis://[2001:db8::1]:6380");
    assert_eq!(allow("tcp://10.0.0.0/8:9000").unwrap(), "tcp://10.0.0.0/8:9000");
    assert_eq!(
        allow("tcp://db.example.com").unwrap_err(),
        "`tcp://` needs a port, as in `tcp://db.example.com:5433`"
    );
    assert_eq!(
        deny("tcp://db.example.com:1").unwrap_err(),
        "a deny entry applies to every protocol; write it without `tcp://`"
    );
    for text in
        ["tcp://db.example.com:1/x", "tcp://u@db.example.com:1", "tcp://tcp://x.test:1", "http://x.test:80"]
    {
        assert!(allow(text).unwrap_err().contains("is a URL"), "{text}");
    }
    assert!(allow("tcp://*:9000").unwrap_err().contains("would allow every host"));
    for port in 0..=u16::MAX {
        if let Some(protocol) = Protocol::of_port(port) {
            assert_eq!(Protocol::by_name(protocol.name()), Some(protocol));
        }
    }
}

#[test]
fn an_error_shows_no_password() {
    for text in [
        "postgres://me:secret@db.example.com:5432/app",
        "me:secret@db.example.com",
        "https://me:se@secret@db.example.com",
        "me:secret@x://db.example.com@y",
    ] {
        for error in [allow(text).unwrap_err(), deny(text).unwrap_err()] {
            assert!(!error.contains("secret") && error.contains("is a URL"), "{error}");
        }
    }
    assert!(
        allow("postgres://me:secret@db.example.com:5432/app")
            .unwrap_err()
            .contains("postgres://…@db.example.com")
    );
}

#[test]
fn what_is_too_broad_to_allow_can_be_denied() {
    for (text, canonical) in
        [("*", "*"), ("*:25", "*:25"), ("*.com", "*.com"), ("intranet", "intranet"), ("::/0", "::/0")]
    {
        assert_eq!(deny(text).unwrap(), canonical);
    }
    assert_eq!(allow("*").unwrap_err(), "`*` would allow every host; use network mode `host` for that");
    assert_eq!(allow("*:443").unwrap_err(), "`*` would allow every host; use network mode `host` for that");
    assert!(allow("0.0.0.0/0").unwrap_err().contains("would allow every host"));
    assert_eq!(
        allow("*.com").unwrap_err(),
        "`*.com` is too broad; in an allow list at least two labels must follow the `*`, as in `*.example.com`"
    );
    assert_eq!(
        allow("intranet").unwrap_err(),
        "`intranet` has one label only; write the full name (`localhost` is the one exception)"
    );
}

#[test]
fn mistakes_are_named() {
    let url = |text: &str| {
        format!("`{text}` is a URL; write only its host, such as `example.com` or `example.com:443`")
    };
    for text in ["https://example.com", "example.com/path", "example.com:443/path", "example.com/a:1"] {
        assert_eq!(deny(text).unwrap_err(), url(text));
    }
    for port in ["0", "65536", "", "+80", "http", "80 "] {
        let text = format!("example.com:{port}");
        assert_eq!(
            deny(&text).unwrap_err(),
            format!("`{port}` is not a port; a port is a number from 1 to 65535")
        );
    }
    for text in ["a.*.com", "*example.com", "**.example.com", "*.*.example.com", "*.127.0.0.1"] {
        let error = deny(text).unwrap_err();
        assert!(error.contains('*'), "{text}: {error}");
    }
    assert_eq!(deny("").unwrap_err(), "the host is empty");
    assert_eq!(deny("*.").unwrap_err(), "the host is empty");
    assert_eq!(deny(":443").unwrap_err(), "the host is empty");
    assert_eq!(deny("[::1").unwrap_err(), "`[::1` is not an IPv6 address");
    assert_eq!(deny("[127.0.0.1]").unwrap_err(), "`[127.0.0.1]` is not an IPv6 address");
    assert_eq!(deny("fe80::1%eth0").unwrap_err(), "`fe80::1%eth0` is not an IPv6 address");
}

#[test]
fn what_is_no_host_is_refused() {
    let error = |text: &str| Host::parse(text).unwrap_err().to_string();
    assert_eq!(error("a\0.com"), "`\\u{0}` cannot be part of a host");
    assert_eq!(error("a\r\n.com"), "`\\r` cannot be part of a host");
    assert_eq!(error("a b.com"), "a space cannot be part of a host");
    assert_eq!(error("a%2ecom"), "`%` cannot be part of a host");
    assert_eq!(error("a％00.com"), "the host is not a valid international name");
    assert_eq!(error("a..com"), "the host has an empty label");
    assert_eq!(error(".com"), "the host has an empty label");
    assert_eq!(error("a.com.."), "the host has an empty label");
    assert_eq!(error("."), "the host has an empty label");
    let numbers = [
        "256.0.0.1",
        "1.2.3.4.5",
        "example.09",
        "127.0.0.0x",
        "0xfffffffffffffffffffff",
        "99999999999999999999999",
    ];
    for text in numbers {
        assert_eq!(error(text), "the host ends in a number but is not an IPv4 address", "{text}");
    }
    assert!(error(&format!("{}.com", "a".repeat(64))).contains("too long"));
    assert!(error(&"a.".repeat(200)).contains("too long"));
    assert!(error(&"ü.".repeat(200_000)).contains("too long"));
    assert!(error("*.example.com").contains("cannot be part"));
    assert!(Host::parse("xn--a.com").is_err());
}

#[test]
fn a_wildcard_matches_below_its_suffix_only() {
    assert!(matches("*.x.com", "a.x.com", 1));
    assert!(matches("*.x.com", "a.b.x.com", 1));
    assert!(!matches("*.x.com", "x.com", 1));
    assert!(!matches("*.x.com", "evilx.com", 1));
    assert!(!matches("*.x.com", "x.com.evil.org", 1));
}

#[test]
fn an_exact_name_matches_itself_in_any_spelling() {
    assert!(matches("x.com", "X.com.", 1));
    assert!(!matches("x.com", "a.x.com", 1));
    assert!(!matches("x.com", "x.co", 1));
}

#[test]
fn a_port_narrows_a_rule() {
    assert!(matches("x.com:443", "x.com", 443));
    assert!(!matches("x.com:443", "x.com", 80));
    assert!(matches("*:25", "1.2.3.4", 25));
    assert!(!matches("*:25", "1.2.3.4", 26));
}

#[test]
fn addresses_match_addresses_only() {
    assert!(matches("127.0.0.1", "0x7f.1", 1));
    assert!(matches("127.0.0.0/8", "::ffff:127.9.9.9", 1));
    assert!(!matches("127.0.0.0/8", "128.0.0.1", 1));
    assert!(matches("fd00::/8", "fdff::1", 1));
    assert!(!matches("fd00::/8", "fe00::1", 1));
    assert!(!matches("0.0.0.0/0", "::1", 1));
    assert!(matches("::/0", "2001:db8::1", 1));
    assert!(!matches("127.0.0.1", "localhost", 1));
    let mapped = Host::Ip("::ffff:127.0.0.1".parse().unwrap());
    assert!(HostRule::parse("127.0.0.1", ListKind::Deny).unwrap().matches(&mapped, 1));
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        let _ = Host::parse(&text);
        let _ = HostRule::parse(&text, ListKind::Deny);
    }

    #[test]
    fn text_that_is_almost_a_host_never_panics(text in "[a0-9x.:/*\\[\\]üＡ。%-]{0,24}") {
        let _ = Host::parse(&text);
        let _ = HostRule::parse(&text, ListKind::Allow);
    }

    #[test]
    fn a_canonical_rule_reads_as_itself(text in "(\\*\\.)?[a-zA-Zü0-9.-]{1,20}(:[0-9]{1,5})?") {
        if let Ok(rule) = HostRule::parse(&text, ListKind::Deny) {
            prop_assert_eq!(HostRule::parse(&rule.to_string(), ListKind::Deny), Ok(rule));
        }
    }

    #[test]
    fn a_canonical_host_reads_as_itself(text in "[a-zA-Züß0-9x.:-]{1,20}") {
        if let Ok(host) = Host::parse(&text) {
            prop_assert_eq!(Host::parse(&host.to_string()), Ok(host));
        }
    }

    #[test]
    fn a_wildcard_needs_a_label_in_front(label in "[a-z]{1,8}", suffix in "[a-z]{1,8}\\.[a-z]{2,4}") {
        let rule = HostRule::parse(&format!("*.{suffix}"), ListKind::Allow).unwrap();
        let (below, beside) = (format!("{label}.{suffix}"), format!("{label}{suffix}"));
        prop_assert!(rule.matches(&Host::Name(below), 1));
        prop_assert!(!rule.matches(&Host::Name(beside), 1));
        prop_assert!(!rule.matches(&Host::Name(suffix), 1));
    }
}
