//! The `kennel` command.
//!
//! On Linux `main` is C's, not Rust's: see [`platform`].

// Tests have a `main` of their own, which the platform's would take the place of.
#![cfg_attr(all(target_os = "linux", not(test)), no_main)]

mod commands;
mod flags;
mod frontends;
mod platform;

/// Does what was typed, by the name that this program was called by, and returns the exit code.
fn kennel() -> i32 {
    let mut words = platform::arguments();
    let called = words.next().unwrap_or_default();
    (frontends::called(&called).main)(words.collect())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    std::process::exit(kennel());
}
