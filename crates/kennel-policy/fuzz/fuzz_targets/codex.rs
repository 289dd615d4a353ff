//! The policies of Codex's helper, in all forms: no panic, and a policy of what was read.
#![no_main]

use kennel_policy::codex::{
    CodexContext, managed_network, permission_profile, sandbox_policy, split_policies,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let around = CodexContext { policy_folder: "/work".into(), ..CodexContext::default() };
    let _ = managed_network(text);
    let (first, second) = text.split_once('\0').unwrap_or((text, ""));
    for read in [sandbox_policy(text), permission_profile(text), split_policies(first, second)] {
        if let Ok(permissions) = read {
            let _ = permissions.policy(&around);
        }
    }
});
