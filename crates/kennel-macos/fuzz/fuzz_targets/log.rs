//! Lines of the system's log: no panic, and bounded text.
#![no_main]

use kennel_macos::profile::refusal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Some(refusal) = refusal(text, "kennel-1") {
        assert!(refusal.program.len() <= 64 && refusal.target.is_none_or(|target| target.len() <= 1024));
    }
});
