//! Answers of name servers: bounded, and only to the question that was asked.
#![no_main]

use kennel_proxy::dns::answer::{self, Family, Reply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // As they come, and behind a header and question that fit, which no fuzzer guesses soon.
    let mut fitting = answer::question(7, "a.test", Family::V4);
    fitting.truncate(fitting.len() - 11);
    fitting[2] = 0x81;
    fitting[7] = bytes.first().copied().unwrap_or(0) % 32;
    fitting.extend_from_slice(bytes.get(1..).unwrap_or_default());
    for message in [bytes, &fitting] {
        if let Some(Reply::Addresses(addresses, _)) = answer::parse(message, 7, "a.test", Family::V4) {
            assert!(addresses.len() <= 16 && addresses.iter().all(std::net::IpAddr::is_ipv4));
        }
    }
});
