//! Static Linux programs, for this machine's processor and for the other one.
//!
//! They are linked with musl by rust-lld. Both come with Rust: the standard library of a musl target has the C library and
//! the start files in it, and the linker knows every processor. So nothing of the other architecture has to be
//! installed but a C compiler, for the few files of ring's that are not Rust. musl also starts sooner: glibc's start asks
//! the processor about itself some forty times, which in a virtual machine takes half a millisecond.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use crate::Failure;
use crate::cargo::{self, Program};
use crate::debian::run;
use crate::foreign::standard_library::{self, Purpose, StandardLibrary};

/// How programs for one architecture are built here.
#[derive(Clone, Debug)]
pub struct StaticLinux {
    /// As in `x86_64-unknown-linux-musl`.
    pub target: String,
    /// What the compiler has to be told besides.
    flags: Vec<String>,
    /// Another linker than the target's own.
    linker: Option<&'static str>,
    /// Who compiles ring's C and assembler: it uses no library, so any compiler for this processor will do.
    c_compiler: Option<&'static str>,
}

/// Debian's compiler for the other processor.
const ARM_COMPILER: &str = "aarch64-linux-gnu-gcc";

impl StaticLinux {
    /// Finds out how to build for an architecture (`x86_64`, `aarch64`). Unless `install`, a standard library that is
    /// missing stays missing. `KENNEL_RELEASE_TARGET` names another target for this machine's own architecture.
    ///
    /// # Errors
    /// Why it cannot be done.
    pub fn find(architecture: &str, install: bool) -> Result<StaticLinux, String> {
        let is_ours = architecture == std::env::consts::ARCH;
        if let Some(target) = std::env::var("KENNEL_RELEASE_TARGET").ok().filter(|_| is_ours) {
            return Ok(StaticLinux::plain(target));
        }
        let target = format!("{architecture}-unknown-linux-musl");
        let no_musl = match standard_library::find(&target, Purpose::Link, install) {
            Ok(library) => return StaticLinux::musl(target, &library),
            Err(reason) => reason,
        };
        // glibc's target is there with the compiler, and is static too if it is told so.
        let target = format!("{architecture}-unknown-linux-gnu");
        if is_ours && cargo::has_standard_library(&target) {
            println!("no musl: {no_musl}");
            return Ok(StaticLinux::plain(target));
        }
        Err(no_musl)
    }

    fn musl(target: String, library: &StandardLibrary) -> Result<StaticLinux, String> {
        let is_ours = target.starts_with(std::env::consts::ARCH);
        let linker = match rust_lld() {
            Ok(_) => Some("rust-lld"),
            // The C compiler of this machine can link what is for this machine.
            Err(_) if is_ours => None,
            Err(reason) => return Err(reason),
        };
        let flags = match library {
            StandardLibrary::Installed => Vec::new(),
            StandardLibrary::Built { sysroot } => vec!["--sysroot".to_owned(), sysroot.display().to_string()],
        };
        let c_compiler = match is_ours {
            true => "cc",
            false if target.starts_with("aarch64") => ARM_COMPILER,
            false => return Err(format!("no C compiler is known for {target}")),
        };
        if Command::new(c_compiler).arg("--version").output().is_err() {
            return Err(format!(
                "{c_compiler} is missing; Debian has it in gcc, and in gcc-aarch64-linux-gnu"
            ));
        }
        Ok(StaticLinux { target, flags, linker, c_compiler: Some(c_compiler) })
    }

    /// A target as cargo's configuration has it; for glibc that says in `.cargo/config.toml` that it is static.
    fn plain(target: String) -> StaticLinux {
        let is_glibc = target.ends_with("-linux-gnu");
        let flags = if is_glibc { vec!["-Ctarget-feature=+crt-static".to_owned()] } else { Vec::new() };
        StaticLinux { target, flags, linker: None, c_compiler: None }
    }

    /// A call of cargo that builds for this architecture. It still has to be told what: `build`, `test --no-run`.
    pub fn cargo(&self, more_flags: &[String]) -> Command {
        let mut command = cargo::cargo();
        command.env("CARGO_BUILD_TARGET", &self.target);
        if let Some(linker) = self.linker {
            let name = self.target.to_uppercase().replace('-', "_");
            command.env(format!("CARGO_TARGET_{name}_LINKER"), linker);
        }
        if let Some(compiler) = self.c_compiler {
            command.env(format!("CC_{}", self.target.replace('-', "_")), compiler);
        }
        let flags: Vec<&str> = self.flags.iter().chain(more_flags).map(String::as_str).collect();
        if !flags.is_empty() {
            command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        }
        command
    }

    /// Builds packages as they are released: optimised, and with the same bytes wherever they are built.
    ///
    /// # Errors
    /// When something does not compile.
    pub fn build_release(&self, packages: &[&str]) -> Result<Built, Failure> {
        let mut built = Built::default();
        for package in packages {
            let mut flags = remapped_paths()?;
            let mut folder = None;
            if *package == "kennel-entrypoint" && self.target.ends_with("-musl") {
                // It starts itself; the start files that come with the target would be linked all the same.
                flags.push("-Clink-self-contained=no".to_owned());
                // With other flags cargo would build everything in the usual folder again, each time.
                folder = Some(cargo::root().join("target").join("entrypoint"));
            }
            if *package == "kennel-cli" && self.target.ends_with("-musl") {
                // For glibc its build script says so.
                flags.push("-Crelocation-model=static".to_owned());
            }
            let mut command = self.cargo(&flags);
            command.envs(folder.map(|folder| ("CARGO_TARGET_DIR", folder)));
            let arguments = ["build", "--release", "--locked", "--package", package];
            let messages = cargo::build_messages(command, &arguments)?;
            built.programs.extend(cargo::programs(&messages));
            built.libraries.extend(cargo::registry_libraries(&messages, &self.target));
        }
        Ok(built)
    }
}

/// What came of a release's build.
#[derive(Debug, Default)]
pub struct Built {
    pub programs: Vec<Program>,
    /// The crates of registries that were linked: names and versions.
    pub libraries: BTreeSet<(String, String)>,
}

/// Programs hold paths of the source, for messages of panics. Those of this workspace are relative; those of other crates
/// begin with the folder where this user's cargo keeps them, and have to begin with something that is the same everywhere.
/// Those of the standard library do so already, unless its source is installed (`rust-src`).
fn remapped_paths() -> Result<Vec<String>, Failure> {
    let sysroot = run(cargo::rustc().args(["--print", "sysroot"]))?;
    let about = run(cargo::rustc().arg("-vV"))?;
    let commit = about.lines().find_map(|line| line.strip_prefix("commit-hash: ")).unwrap_or("unknown");
    let pairs = [
        (cargo_home()?, "/cargo".to_owned()),
        (cargo::root(), "/kennel".to_owned()),
        (PathBuf::from(sysroot.trim()).join("lib/rustlib/src/rust"), format!("/rustc/{commit}")),
    ];
    Ok(pairs.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect())
}

/// Where this user's cargo keeps crates.
///
/// # Errors
/// When nothing says where.
pub fn cargo_home() -> Result<PathBuf, Failure> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    home.ok_or_else(|| "neither CARGO_HOME nor HOME is set".into())
}

/// The linker that comes with Rust, which is found by its name.
fn rust_lld() -> Result<PathBuf, String> {
    let sysroot = run(cargo::rustc().args(["--print", "sysroot"]))?;
    let about = run(cargo::rustc().arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let path = PathBuf::from(sysroot.trim()).join("lib/rustlib").join(host).join("bin/rust-lld");
    if path.is_file() { Ok(path) } else { Err(format!("Rust came without its linker ({})", path.display())) }
}
