//! Random histories against the files' rules: see `kennel_tests::attack`.
//!
//! It is a program of its own and not a list of tests. It runs for `KENNEL_ATTACK_SECONDS` (30), prints its seed, and ends
//! with a line that `cargo xtask attack` and `cargo xtask test` read. CONTRIBUTING.md says how to use it.

use kennel_tests::{attack, role};

fn main() {
    role::take(&[
        (attack::attacker::ROLE, attack::attacker::run),
        (attack::by_library::ROLE, attack::by_library::run),
    ]);
    std::process::exit(attack::session::main());
}
