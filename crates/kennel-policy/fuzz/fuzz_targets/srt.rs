//! The settings of srt: no panic, every error names a line of the text, and a file that was merely found adds no allows.
#![no_main]

use kennel_policy::settings::Base;
use kennel_policy::srt::{SrtSettings, SrtContext, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let base = Base::new("/work", Some("/home/me".into()));
    match parse(data, "srt.json", &base) {
        Ok(settings) => {
            let around = SrtContext { folder: "/work".into(), ..SrtContext::default() };
            let _ = settings.policy(&around);
            let mut own = SrtSettings::default();
            own.tighten(settings);
            let (own, default) = (own.policy(&around), SrtSettings::default().policy(&around));
            assert_eq!(own.files.allow_write, default.files.allow_write);
            assert_eq!(own.files.allow_read, default.files.allow_read);
            assert_eq!(own.network.allow, default.network.allow);
            assert_eq!(own.process, default.process);
        }
        Err(error) => {
            let lines = data.iter().filter(|byte| **byte == b'\n').count() + 1;
            assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)));
        }
    }
});
