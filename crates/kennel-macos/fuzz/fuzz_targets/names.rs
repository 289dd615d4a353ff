//! Names in a profile: whatever a path holds, the profile is read as it was meant, or is an error.
#![no_main]

use kennel_macos::evaluator::{Profile, Vnode};
use kennel_macos::profile::{Access, Network, Point, Resolved, profile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|name: &str| {
    let path = std::path::Path::new("/w").join(name.trim_start_matches('/'));
    let point = Point { path: path.clone(), access: Access::None, nearest: None, reason: name.to_owned().into() };
    let resolved = Resolved { points: vec![point], ..Resolved::default() };
    if let Ok(profile) = profile(&resolved, &Network::default(), "t") {
        let read = Profile::parse(&profile.text).expect("a profile that was written can be read");
        assert!(!read.may_read(path.to_str().expect("it was written"), Vnode::Regular));
        assert!(read.may_read("/w-beside", Vnode::Regular));
    }
});
