//! Random histories against the files' rules: see `kennel_tests::attack`.
//!
//! It is a role and not a list of tests. It runs for `KENNEL_ATTACK_SECONDS` (30), prints its seed, and ends
//! with a line that `cargo xtask attack` and `cargo xtask test` read. CONTRIBUTING.md says how to use it.

use kennel_tests::attack::{attacker, by_library, session};

kennel_tests::roles! {
    "attack_files" => session::main,
    "attacker" => attacker::run,
    "kennel-by-library" => by_library::run,
    "replay" => session::replay_role,
}
