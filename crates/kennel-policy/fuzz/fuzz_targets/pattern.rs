//! Patterns: no panic, and a walk that is pruned never misses a match. The pattern ends at the first NUL; the rest is
//! the path.
#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kennel_policy::pattern::PathPattern;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (Some(pattern), Some(path)) = (parts.next(), parts.next()) else { return };
    let path = Path::new(OsStr::from_bytes(path));
    let Ok(pattern) = PathPattern::parse(OsStr::from_bytes(pattern)) else { return };
    if path.has_root() && pattern.matches(path) {
        for folder in path.ancestors().skip(1) {
            assert!(pattern.could_match_below(folder));
        }
    }
});
