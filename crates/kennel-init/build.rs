//! Compiles init as a program of its own, for the library to carry.
//!
//! Cargo has no stable way to depend on another crate's executable, and init depends on nothing, so one call of the
//! compiler does it.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=init");
    println!("cargo::rerun-if-changed=src");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("kennel-init");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        std::fs::write(out, b"").expect("an empty stand-in for other systems");
        return;
    }
    let mut rustc = Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"));
    rustc
        .args(["--edition", "2024", "--crate-name", "kennel_init", "--crate-type", "bin", "init/main.rs"])
        .args(["--target", &env::var("TARGET").expect("cargo sets TARGET")])
        .args(["-C", "opt-level=s", "-C", "panic=abort", "-C", "strip=symbols", "-C", "codegen-units=1"])
        .args(["-C", "relocation-model=static", "-C", "target-feature=+crt-static"])
        .args(["-C", "link-arg=-nostdlib", "-C", "link-arg=-static"])
        .arg("-o")
        .arg(&out);
    let linker = env::var_os("RUSTC_LINKER");
    // A compiler links by default, and adds files of its own; rust-lld, which needs no compiler for the target, does not.
    let is_plain_linker = linker.as_ref().is_some_and(|linker| linker.to_string_lossy().ends_with("lld"));
    let link_arguments: &[&str] = if is_plain_linker {
        &["--build-id=none", "-znoexecstack"]
    } else {
        &["-nostartfiles", "-Wl,--build-id=none", "-Wl,-z,noexecstack"]
    };
    for argument in link_arguments {
        rustc.arg("-C").arg(format!("link-arg={argument}"));
    }
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("musl") {
        // rustup's target brings start-up objects of its own, and links them whatever the linker is told.
        rustc.args(["-C", "link-self-contained=no"]);
    }
    if let Some(linker) = linker {
        rustc.arg("-C").arg({
            let mut argument = std::ffi::OsString::from("linker=");
            argument.push(linker);
            argument
        });
    }
    // Flags that say where the target's own libraries are; others (coverage, sanitizers) are not for a program without
    // a runtime.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let flags: Vec<&str> = flags.split('\u{1f}').collect();
    for pair in flags.windows(2) {
        if pair[0] == "--sysroot" || (pair[0] == "-C" && pair[1].starts_with("link-self-contained")) {
            rustc.args(pair);
        }
    }
    let status = rustc.status().expect("the compiler that cargo runs can be run");
    assert!(status.success(), "compiling init failed");
}
