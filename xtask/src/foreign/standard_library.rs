//! The standard library of another target: installed by rustup, or else built here from its source.
//!
//! For clippy metadata is made, as `cargo check` does. That takes half a minute and needs no linker. What is to be linked
//! needs the whole library, which takes twice as long. The source comes with rustup (`rust-src`), or from Debian, whose
//! package of the same version has it too.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::musl;
use crate::debian::{self, run};
use crate::{cache, cargo};

/// Longer than it takes to download a standard library; rustup without a network would try for minutes.
const SECONDS: &str = "120";

/// What a standard library is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To check code: its metadata is enough.
    Check,
    /// To link programs.
    Link,
}

/// Where the compiler finds a standard library.
#[derive(Debug)]
pub enum StandardLibrary {
    /// Among its own.
    Installed,
    /// In another folder.
    Built {
        /// What `--sysroot` has to name.
        sysroot: PathBuf,
    },
}

impl StandardLibrary {
    /// The flags that make the compiler find it, as `CARGO_ENCODED_RUSTFLAGS` has them.
    pub fn encoded_flags(&self) -> Option<OsString> {
        let StandardLibrary::Built { sysroot } = self else { return None };
        let mut flags = OsString::from("--sysroot\u{1f}");
        flags.push(sysroot);
        Some(flags)
    }
}

/// Finds the standard library of a target, or if `install` gets it by what means there are.
///
/// # Errors
/// Why there is none.
pub fn find(target: &str, purpose: Purpose, install: bool) -> Result<StandardLibrary, String> {
    // For trying the way that hosts without rustup go.
    let only_source = std::env::var("KENNEL_STANDARD_LIBRARY").is_ok_and(|word| word == "source");
    if !only_source && cargo::has_standard_library(target) {
        return Ok(StandardLibrary::Installed);
    }
    let compiler = Compiler::ask()?;
    let state = cache::folder("foreign-std")?;
    let sysroot = match purpose {
        Purpose::Check => state.join(compiler.name()),
        Purpose::Link => state.join(format!("{}-linked", compiler.name())),
    };
    let library = sysroot.join("lib/rustlib").join(target).join("lib");
    if library.is_dir() {
        if purpose == Purpose::Link && install {
            musl::complete(target, &sysroot, &library)?;
        }
        return Ok(StandardLibrary::Built { sysroot });
    }
    if !install {
        return Err(format!("no standard library of this target (rustup target add {target})"));
    }
    let no_target = match rustup(&["target", "add", target]) {
        _ if only_source => "as KENNEL_STANDARD_LIBRARY says".to_owned(),
        Ok(()) => return Ok(StandardLibrary::Installed),
        Err(error) => error,
    };
    println!("{target}: building its standard library ({no_target})");
    let source = source(&compiler, &state)?;
    build(&source, target, purpose, &library)?;
    if purpose == Purpose::Link {
        musl::complete(target, &sysroot, &library)?;
    }
    Ok(StandardLibrary::Built { sysroot })
}

/// Has rustup install the standard library of a target, unless it is there; only if `install`.
///
/// # Errors
/// Why there is none.
pub fn find_installed(target: &str, install: bool) -> Result<(), String> {
    if cargo::has_standard_library(target) {
        return Ok(());
    }
    if !install {
        return Err(format!("no standard library of this target (rustup target add {target})"));
    }
    rustup(&["target", "add", target]).map_err(|error| format!("no standard library of {target}: {error}"))
}

/// Has rustup install something for the compiler in use.
fn rustup(words: &[&str]) -> Result<(), String> {
    // Set for whatever rustup starts: without it the compiler is another one than rustup would add to.
    if std::env::var_os("RUSTUP_TOOLCHAIN").is_none() {
        return Err("the compiler is not rustup's".to_owned());
    }
    let said = run(Command::new("timeout").args([SECONDS, "rustup"]).args(words));
    said.map(drop).map_err(|error| error.replacen("timeout: ", "rustup: ", 1))
}

/// Which compiler this is. Metadata is of use only to the compiler that made it.
struct Compiler {
    /// As in `1.95.0`.
    release: String,
    commit: String,
    sysroot: PathBuf,
}

impl Compiler {
    fn ask() -> Result<Compiler, String> {
        let about = run(cargo::rustc().arg("-vV"))?;
        let of = |key: &str| {
            let line = about.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
            line.map(str::to_owned).ok_or_else(|| format!("rustc -vV does not tell its {key}"))
        };
        let sysroot = run(cargo::rustc().args(["--print", "sysroot"]))?.trim().into();
        Ok(Compiler { release: of("release")?, commit: of("commit-hash")?, sysroot })
    }

    /// The name of its folder.
    fn name(&self) -> String {
        format!("{}-{}", self.release, self.commit.get(..9).unwrap_or(&self.commit))
    }

    /// The source that rustup installs beside it.
    fn own_source(&self) -> Option<PathBuf> {
        Some(self.sysroot.join("lib/rustlib/src/rust/library")).filter(|folder| is_source(folder))
    }
}

/// The folder with the standard library's source, fetched where it is not there.
fn source(compiler: &Compiler, state: &Path) -> Result<PathBuf, String> {
    if let Some(folder) = compiler.own_source() {
        return Ok(folder);
    }
    let from_rustup = rustup(&["component", "add", "rust-src"])
        .and_then(|()| compiler.own_source().ok_or_else(|| "rust-src has no library in it".to_owned()));
    let no_component = match from_rustup {
        Ok(folder) => return Ok(folder),
        Err(error) => error,
    };
    let part = format!("usr/src/rustc-{}/library", compiler.release);
    let folder = debian::unpacked_folder(state, "rust-src", &compiler.release, &part)
        .map_err(|error| format!("no source of the standard library: {no_component}; {error}"))?;
    if is_source(&folder) { Ok(folder) } else { Err(format!("{}: not what it was", folder.display())) }
}

/// `sysroot` is the package that depends on all that a compiler expects.
fn is_source(library: &Path) -> bool {
    library.join("sysroot/Cargo.toml").is_file()
}

/// Builds it and puts it into the folder `library`, all at once: one that exists is complete.
fn build(source: &Path, target: &str, purpose: Purpose, library: &Path) -> Result<(), String> {
    let partial = library.with_extension("partial");
    let _ = fs::remove_dir_all(&partial);
    let (built, kept) = (partial.join("target"), partial.join("lib"));
    let failed = |error: std::io::Error| format!("{}: {error}", kept.display());
    fs::create_dir_all(&kept).map_err(failed)?;
    // A copy, since the manifest is changed: as a dynamic library, which nobody needs, it would have to be linked.
    let copy = partial.join("source");
    run(Command::new("cp").arg("-R").arg(source).arg(&copy))?;
    let manifest = copy.join("std/Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(failed)?;
    fs::write(&manifest, text.replace("[\"dylib\", \"rlib\"]", "[\"rlib\"]")).map_err(failed)?;
    let (task, suffix) = match purpose {
        Purpose::Check => ("check", ".rmeta"),
        Purpose::Link => ("build", ".rlib"),
    };
    let mut check = cargo::cargo();
    check.args([task, "--release", "--quiet", "--locked", "--target", target]);
    // Nothing here unwinds on musl: the library that does it is LLVM's, in C++, and programs are released without.
    let is_musl = target.ends_with("-musl");
    check.args(["--no-default-features", "--features", if is_musl { "" } else { "panic-unwind,backtrace" }]);
    check.current_dir(copy.join("sysroot")).env("CARGO_TARGET_DIR", &built);
    // The standard library is written in unstable Rust, and its dependencies have to count as a part of it.
    let flags = ["-Zforce-unstable-if-unmarked", "-Cpanic=abort"];
    let flags = flags[..if is_musl { 2 } else { 1 }].join("\u{1f}");
    check.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", flags);
    run(&mut check).map_err(|error| format!("building the standard library: {error}"))?;
    let made = built.join(target).join("release/deps");
    for entry in fs::read_dir(&made).map_err(failed)?.flatten() {
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if text.ends_with(suffix) && !text.starts_with("libsysroot-") {
            fs::copy(entry.path(), kept.join(&name)).map_err(failed)?;
        }
    }
    if purpose == Purpose::Link && target.ends_with("-windows-gnu") {
        start_objects(&copy, target, &kept)?;
    }
    fs::rename(&kept, library).map_err(failed)?;
    let _ = fs::remove_dir_all(&partial);
    Ok(())
}

/// The objects that programs for Windows begin and end with when mingw links them: they register the tables for unwinding.
fn start_objects(source: &Path, target: &str, library: &Path) -> Result<(), String> {
    // Where the compiler looks for a library that is not in its place yet.
    let sysroot = library.with_extension("sysroot");
    let place = sysroot.join("lib/rustlib").join(target);
    fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let link = place.join("lib");
    std::os::unix::fs::symlink(library, &link).map_err(|error| format!("{}: {error}", link.display()))?;
    for name in ["rsbegin", "rsend"] {
        let mut compile = cargo::rustc();
        compile.env("RUSTC_BOOTSTRAP", "1").arg("--sysroot").arg(&sysroot);
        compile.args(["--target", target, "--edition", "2024", "--cap-lints", "allow", "--emit", "obj"]);
        compile.args(["-C", "panic=abort", "-o"]).arg(library.join(format!("{name}.o")));
        run(compile.arg(source.join("rtstartup").join(format!("{name}.rs"))))?;
    }
    Ok(())
}
