//! `cargo xtask wine-test`: the tests of what kennel does on Windows, run by Wine.
//!
//! Wine creates real processes, job objects and tokens, but enforces only a part of what Windows does: tests ask whether they
//! run under Wine and skip the rest. A green run says that the calls are right, not that they confine anything.
//!
//! Wine and a linker for Windows are Debian's packages, installed where we may. The rest is kept in the user's cache folder.
//! Where something cannot be had, the lane is skipped and says why.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Failure;
use crate::debian::run;
use crate::foreign::standard_library::{self, Purpose, StandardLibrary};
use crate::packages::{self, in_path};
use crate::suite;
use crate::test;
use crate::who::Who;
use crate::{cache, cargo};

const TARGET: &str = "x86_64-pc-windows-gnu";
const COMPILER: &str = "x86_64-w64-mingw32-gcc";

/// Debian's packages: Wine without its desktop parts, and the compiler that links for Windows.
const PACKAGES: [&str; 2] = ["wine64", "gcc-mingw-w64-x86-64-win32"];

/// Where Debian has the loader; it is not in `PATH` without the package of scripts around it.
const WINE: [&str; 2] = ["/usr/lib/wine/wine64", "/usr/bin/wine64"];
const SERVER: [&str; 2] = ["/usr/lib/wine/wineserver64", "/usr/lib/wine/wineserver"];

/// The tests take half a minute.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// What is tested: cargo's words for it.
const TESTED: &[&[&str]] = &[&["--package", "kennel-windows", "--features", "kennel-windows/probe"]];

/// Runs the tests. Returns whether all is well.
///
/// # Errors
/// When something could not even be tried.
pub fn wine_test(words: &[String]) -> Result<bool, Failure> {
    let install = match words {
        [] => true,
        [flag] if flag == "--no-install" => false,
        [word, ..] => return Err(format!("wine-test: unexpected argument {word}").into()),
    };
    let lane = match Lane::prepare(install) {
        Ok(lane) => lane,
        Err(reason) => {
            println!("SKIPPED: wine-test: {reason}");
            return Ok(true);
        }
    };
    let kennel = lane.build_kennel()?;
    let mut reports = Vec::new();
    for words in TESTED {
        let mut command = lane.cargo();
        command.arg("test").args(["--no-run", "--quiet"]).args(*words);
        reports.push(suite::run("build for Windows", "", &mut command, suite::BUILD)?);
        let mut command = lane.cargo();
        command.arg("test").args(["--no-fail-fast"]).args(*words);
        command.args(["--", "--show-output", "--test-threads", "2"]);
        command.env("KENNEL_BIN", windows_path(&kennel));
        command.env("KENNEL_ARGUMENTS", windows_path(&lane.arguments));
        reports.push(suite::run(words[1], "wine", &mut command, LONGEST)?);
    }
    lane.end();
    test::sum_up(&reports)
}

/// What the tests need of this host.
struct Lane {
    wine: PathBuf,
    server: PathBuf,
    library: StandardLibrary,
    /// Wine's C: drive and registry.
    prefix: PathBuf,
    /// A program of C that prints its arguments.
    arguments: PathBuf,
    /// Held while the prefix is in use, so that the end of one run does not end another.
    _lock: File,
}

impl Lane {
    fn prepare(install: bool) -> Result<Lane, String> {
        if install && Who::all().contains(&Who::Root) {
            packages::install_only(&PACKAGES);
        }
        let lacking = |what: &str| format!("no {what} (apt-get install {})", PACKAGES.join(" "));
        let wine = first(&WINE).or_else(|| in_path("wine64")).ok_or_else(|| lacking("Wine"))?;
        let server = first(&SERVER).or_else(|| in_path("wineserver")).ok_or_else(|| lacking("wineserver"))?;
        if in_path(COMPILER).is_none() {
            return Err(lacking(COMPILER));
        }
        let library = standard_library::find(TARGET, Purpose::Link, install)?;
        let state = cache::folder("wine")?;
        let failed = |error: std::io::Error| format!("{}: {error}", state.display());
        fs::create_dir_all(&state).map_err(failed)?;
        let lock = File::create(state.join("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let prefix = state.join("prefix");
        let arguments = state.join("arguments.exe");
        let lane = Lane { wine, server, library, prefix, arguments, _lock: lock };
        lane.make_prefix()?;
        compile(&["-municode"], "arguments.c", &lane.arguments, &[])?;
        Ok(lane)
    }

    /// Makes the prefix; one that is complete says so with a file.
    fn make_prefix(&self) -> Result<(), String> {
        let complete = self.prefix.join("complete");
        if !complete.is_file() {
            let _ = fs::remove_dir_all(&self.prefix);
            println!("preparing Wine in {}", self.prefix.display());
            let mut boot = Command::new(&self.wine);
            // Not `run`, which would wait for the server that inherits the pipe.
            boot.args(["wineboot", "--init"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let end = self.environment(&mut boot).status().map_err(|error| format!("wine: {error}"))?;
            if !end.success() {
                return Err(format!("wineboot: {end}"));
            }
            run(self.environment(Command::new(&self.server).arg("-w")))?;
            fs::write(&complete, "").map_err(|error| format!("{}: {error}", complete.display()))?;
        }
        let random = self.prefix.join("drive_c/windows/system32/bcryptprimitives.dll");
        if random.is_file() {
            Ok(())
        } else {
            compile(&["-shared"], "bcryptprimitives.c", &random, &["-ladvapi32"])
        }
    }

    fn environment<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("WINEPREFIX", &self.prefix).env("WINEDEBUG", "-all").env_remove("DISPLAY");
        // Without a browser engine and .NET, which Wine would offer to install, and without menus on this host's desktop.
        command.env("WINEDLLOVERRIDES", "mscoree,mshtml=;winemenubuilder.exe=d")
    }

    fn cargo(&self) -> Command {
        let mut command = cargo::cargo();
        self.environment(&mut command);
        command.env("CARGO_BUILD_TARGET", TARGET);
        command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", COMPILER);
        command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", &self.wine);
        if let StandardLibrary::Built { sysroot } = &self.library {
            let mut flags = OsString::from("--sysroot=");
            flags.push(sysroot);
            command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUSTFLAGS", flags);
        }
        command
    }

    /// The command line of kennel for Windows.
    fn build_kennel(&self) -> Result<PathBuf, Failure> {
        let mut build = self.cargo();
        build.args(["build", "--package", "kennel-cli", "--message-format=json-render-diagnostics"]);
        let output = build.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("building kennel for Windows: {}", output.status).into());
        }
        let programs = cargo::programs(&output.stdout);
        Ok(cargo::binary(&programs, "kennel")?.path.clone())
    }

    /// Ends Wine's processes that a test has left.
    fn end(&self) {
        let _ = run(self.environment(Command::new(&self.server).arg("-k")));
    }
}

fn first(paths: &[&str]) -> Option<PathBuf> {
    paths.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// Compiles one of the files of C beside this one.
fn compile(flags: &[&str], file: &str, result: &Path, libraries: &[&str]) -> Result<(), String> {
    let source = cargo::root().join("xtask/wine").join(file);
    let mut compiler = Command::new(COMPILER);
    compiler.args(flags).args(["-s", "-O1", "-o"]).arg(result).arg(source).args(libraries);
    run(&mut compiler).map(drop)
}

/// A path of this host as Wine shows it.
fn windows_path(path: &Path) -> OsString {
    let mut shown = OsString::from("Z:");
    shown.push(path.to_string_lossy().replace('/', "\\"));
    shown
}
