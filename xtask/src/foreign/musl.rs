//! The C library musl for a standard library that was built here: rustup's has it with it. It is a dozen files, of Debian's
//! package for the target's own architecture, which is unpacked and not installed.

use std::fs;
use std::path::Path;

use crate::cache;
use crate::cargo;
use crate::debian::{self, find_file, run};

/// Debian's suite: the standard library expects musl 1.2.5.
const SUITE: &str = "trixie";

/// Puts the files beside a standard library, where the compiler looks for them.
///
/// # Errors
/// When they cannot be had.
pub fn put_files(target: &str, library: &Path) -> Result<(), String> {
    let debian = match target.split('-').next() {
        Some("x86_64") => "amd64",
        Some("aarch64") => "arm64",
        _ => return Err(format!("no musl is known here for {target}")),
    };
    let package = debian::unpacked(&cache::folder("foreign-std")?, SUITE, debian, "musl-dev")?;
    let folder = library.join("self-contained");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    for name in ["crt1.o", "rcrt1.o", "Scrt1.o", "crti.o", "crtn.o", "libc.a"] {
        let found = find_file(&package, &|path| path.file_name().is_some_and(|file| file == name));
        let found = found.ok_or_else(|| format!("Debian's musl has no {name}"))?;
        fs::copy(found, folder.join(name)).map_err(failed)?;
    }
    // A compiler's own start files call constructors of C++, of which there are none.
    let empty = folder.join("empty.rs");
    fs::write(&empty, "#![feature(no_core)]\n#![no_core]\n#![allow(internal_features)]\n").map_err(failed)?;
    for name in ["crtbegin.o", "crtbeginS.o", "crtend.o", "crtendS.o"] {
        let mut compile = cargo::rustc();
        compile.env("RUSTC_BOOTSTRAP", "1").args([
            "--target",
            target,
            "--crate-type",
            "lib",
            "--emit",
            "obj",
        ]);
        run(compile.args(["--cap-lints", "allow", "-o"]).arg(folder.join(name)).arg(&empty))?;
    }
    fs::remove_file(&empty).map_err(failed)?;
    // Named by the standard library; nothing in it is used by a program that does not unwind.
    fs::write(folder.join("libunwind.a"), "!<arch>\n").map_err(failed)
}
