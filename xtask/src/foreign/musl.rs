//! The C library musl for a standard library that was built here: rustup's has it with it. It is a few files of Debian's
//! package for the target's own architecture, which is unpacked and not installed.

use std::fs;
use std::path::Path;

use crate::cache;
use crate::cargo;
use crate::debian::{self, find_file, run};

/// Debian's suite: the standard library expects musl 1.2.5.
const SUITE: &str = "trixie";

/// Stands for LLVM's library that unwinds, which is in C++. Programs are released without unwinding, and need it for
/// one thing: a panic's message tries to show where it came from, and is told that there is nothing to show.
const NO_UNWINDING: &str = r#"#![no_std]
#[unsafe(no_mangle)]
pub extern "C" fn _Unwind_Backtrace(_trace: usize, _argument: usize) -> i32 { 5 }
#[unsafe(no_mangle)]
pub extern "C" fn _Unwind_GetIP(_context: usize) -> usize { 0 }
"#;

/// Puts the files beside the standard library of a musl target, where the compiler looks for them, unless they are there. Does
/// nothing for other targets.
///
/// # Errors
/// When they cannot be had.
pub fn complete(target: &str, sysroot: &Path, library: &Path) -> Result<(), String> {
    let folder = library.join("self-contained");
    if !target.ends_with("-musl") || folder.is_dir() {
        return Ok(());
    }
    let debian = match target.split('-').next() {
        Some("x86_64") => "amd64",
        Some("aarch64") => "arm64",
        _ => return Err(format!("no musl is known here for {target}")),
    };
    let package = debian::unpacked(&cache::folder("foreign-std")?, SUITE, debian, "musl-dev")?;
    let partial = library.join("self-contained.partial");
    let failed = |error: std::io::Error| format!("{}: {error}", partial.display());
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).map_err(failed)?;
    for name in ["crt1.o", "rcrt1.o", "Scrt1.o", "crti.o", "crtn.o", "libc.a"] {
        let found = find_file(&package, &|path| path.file_name().is_some_and(|file| file == name));
        let found = found.ok_or_else(|| format!("Debian's musl has no {name}"))?;
        fs::copy(found, partial.join(name)).map_err(failed)?;
    }
    let compile = |text: &str, name: &str| {
        let source = partial.join("source.rs");
        fs::write(&source, text).map_err(failed)?;
        let mut compile = cargo::rustc();
        compile.args(["--edition", "2024", "--crate-type", "lib", "--emit", "obj", "-C", "panic=abort"]);
        compile.args(["--target", target]).arg("--sysroot").arg(sysroot);
        run(compile.arg("-o").arg(partial.join(name)).arg(&source))?;
        fs::remove_file(&source).map_err(failed)
    };
    // A C compiler's own start files call constructors of C++, of which there are none.
    for name in ["crtbegin.o", "crtbeginS.o", "crtend.o", "crtendS.o"] {
        compile("#![no_std]\n", name)?;
    }
    compile(NO_UNWINDING, "unwind.o")?;
    let object = fs::read(partial.join("unwind.o")).map_err(failed)?;
    fs::write(partial.join("libunwind.a"), archive("unwind.o", &object)).map_err(failed)?;
    fs::rename(&partial, &folder).map_err(failed)
}

/// An archive of one object.
fn archive(name: &str, object: &[u8]) -> Vec<u8> {
    let name = format!("{name}/");
    let mut archive =
        format!("!<arch>\n{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "100644", object.len())
            .into_bytes();
    archive.extend(object);
    archive.resize(archive.len().next_multiple_of(2), b'\n');
    archive
}
