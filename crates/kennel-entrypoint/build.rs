//! Links the binary without the C library's start files: it starts itself, see `src/start.rs`.
//!
//! Its address is fixed. A static executable that can be loaded anywhere has to relocate itself first, which is more
//! code before `main` than a program that execve replaces after a tenth of a millisecond is worth.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // rust-lld, which needs no compiler for the target, adds no start files, and takes a linker's own words.
        let linker = std::env::var("RUSTC_LINKER").unwrap_or_default();
        let arguments: &[&str] = if linker.ends_with("lld") {
            &["-static", "-no-pie", "-znoexecstack"]
        } else {
            &["-nostartfiles", "-static", "-no-pie", "-Wl,-z,noexecstack"]
        };
        for argument in arguments {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}
