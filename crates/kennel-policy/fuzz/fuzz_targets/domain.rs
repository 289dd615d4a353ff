//! Hosts and host rules: no panic, and a canonical spelling reads as itself.
#![no_main]

use kennel_policy::domain::{Host, HostRule, ListKind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(host) = Host::parse(text) {
        assert_eq!(Host::parse(&host.to_string()), Ok(host));
    }
    if let Ok(rule) = HostRule::parse(text, ListKind::Deny) {
        assert_eq!(HostRule::parse(&rule.to_string(), ListKind::Deny), Ok(rule));
    }
});
