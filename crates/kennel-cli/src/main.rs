//! The `kennel` command.
//!
//! `main` is C's, not Rust's: the runtime's own start reads /proc/self/maps and installs a handler for stack
//! overflows, which costs a tenth of a millisecond that every sandbox would pay.

// Tests have a `main` of their own, which this one would take the place of.
#![cfg_attr(not(test), no_main)]

mod codex;
mod commands;
mod dropin;
mod flags;
mod heap;
mod memory;
mod srt;

use std::ffi::{c_char, c_int};

/// Where the C library's start-up code goes.
///
/// # Safety
/// `arguments` must be the array that the kernel made, `count` long, with the environment behind it.
#[cfg_attr(not(test), unsafe(export_name = "main"))]
#[cfg_attr(test, allow(dead_code, reason = "the tests' own `main` is there"))]
pub unsafe extern "C" fn start(count: c_int, arguments: *const *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { memory::begin(count, arguments) };
    memory::open_standard_streams();
    memory::heed_children();
    let mut words = memory::arguments();
    let called = words.next().unwrap_or_default();
    match dropin::by_name(&called, memory::arguments().skip(1)) {
        Some(code) => code,
        None => commands::dispatch(words),
    }
}
