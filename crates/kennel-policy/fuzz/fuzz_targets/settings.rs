//! Settings in both formats: no panic, and every error names a line of the text. The first byte picks the format.
#![no_main]

use kennel_policy::settings::{Base, Format, Provenance, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, text)) = data.split_first() else { return };
    let format = if choice % 2 == 0 { Format::Toml } else { Format::Json };
    let base = Base::new("/work", Some("/home/me".into()));
    if let Err(error) = parse(text, format, Provenance::File("f"), &base) {
        let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
        assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error}");
    }
});
