//! Lines of the system's log: no panic, and bounded text.
#![no_main]

use kennel_macos::violations::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Some(refusal) = parse(text, "kennel-1") {
        assert!(refusal.target.as_os_str().len() <= 1024);
    }
});
