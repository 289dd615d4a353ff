//! The `kennel` command.
//!
//! `main` is C's, not Rust's: the runtime's own start reads /proc/self/maps and installs a handler for stack
//! overflows, which costs a tenth of a millisecond that every sandbox would pay.

// Tests have a `main` of their own, which this one would take the place of.
#![cfg_attr(not(test), no_main)]

mod commands;
mod flags;
mod memory;

use std::ffi::c_int;

/// Where the C library's start-up code goes.
#[cfg_attr(not(test), unsafe(export_name = "main"))]
#[cfg_attr(test, allow(dead_code, reason = "the tests' own `main` is there"))]
pub extern "C" fn start(_count: c_int, _arguments: *const *const u8) -> c_int {
    memory::open_standard_streams();
    commands::dispatch(std::env::args_os().skip(1))
}
