//! `kennel-entrypoint`: PID 1 of a container. The boot sequence is in the library, [`kennel_entrypoint::boot`]; what a
//! program without a C library needs to run at all is in [`start`].
#![cfg_attr(target_os = "linux", no_std, no_main)]

#[cfg(target_os = "linux")]
#[path = "../../kennel-init/init/no_libc.rs"]
mod no_libc;
#[cfg(target_os = "linux")]
mod start;

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("[entrypoint] fatal: kennel-entrypoint is PID 1 of Linux containers and runs only there");
    std::process::exit(1);
}
