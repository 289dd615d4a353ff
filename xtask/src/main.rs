//! The workshop: what is done with kennel's source besides building it.
//!
//! It needs a Unix, but for one task that tests kennel on the system that this is.

#[cfg(unix)]
mod agents;
#[cfg(unix)]
mod attack;
#[cfg(unix)]
mod bench;
#[cfg(unix)]
mod cache;
#[cfg(unix)]
mod cargo;
#[cfg(unix)]
mod claims;
#[cfg(unix)]
mod clients;
#[cfg(unix)]
mod cpio;
#[cfg(unix)]
mod debian;
#[cfg(unix)]
mod dist;
#[cfg(unix)]
mod elf;
#[cfg(unix)]
mod foreign;
mod native;
#[cfg(unix)]
mod packages;
#[cfg(unix)]
mod peers;
#[cfg(unix)]
mod stage;
#[cfg(unix)]
mod static_linux;
#[cfg(all(test, unix))]
mod structure;
#[cfg(unix)]
mod subordinate;
#[cfg(unix)]
mod suite;
#[cfg(unix)]
mod tally;
#[cfg(unix)]
mod test;
#[cfg(unix)]
mod vm;
#[cfg(unix)]
mod who;
#[cfg(unix)]
mod wine;
#[cfg(all(test, unix))]
mod workflows;

use std::process::ExitCode;

/// Why a task could not be done.
type Failure = Box<dyn std::error::Error>;

const HELP: &str = "\
Usage: cargo xtask TASK

Tasks:
  test [SUITE…] [--no-install]   formatting, lints (for macOS and Windows too), docs, unit and doc tests, and the
                                 end-to-end suites as root and as an ordinary user; with names only those suites
  claims                         writes docs/claims.md from tests/claim/claims.toml and the tests that name its claims
  attack [PART…] [--seconds N] [--seed S] [--replay FILE]
                                 random attacks, N seconds as root and N as an ordinary user; the parts are files and
                                 gate; writes what it finds
  gpu-test                       the tests of graphics cards, on a machine that has one
  check-foreign [--no-install]   lints for macOS and Windows, without their linkers and SDKs
  wine-test [--no-install]       the tests of what runs on Windows, under Wine
  link-foreign [--no-install]    kennel linked for macOS, without its SDK; it cannot be run here
  package-test [SYSTEM…]         Debian's package, installed, used and removed in fresh systems in virtual machines
  vm-test [SUITE…] [--all] [--kernel V] [--arch A] [--as WHO] [--filter TEXT]
                                 the suites on other kernels, in virtual machines: a quick choice of tests, or all
  bench [NAME…] [--quick]        the side-by-side benchmarks; writes bench/RESULTS.md
  native-test                    on macOS or Windows: lints, unit, doc and end-to-end tests of what runs there
  dist [x86_64|aarch64]… [--no-install] [--tag TAG] [--twice]
                                 a release in dist/: static Linux binaries, packages, bill of materials, checksums;
                                 with --twice built again elsewhere and compared
  publish --tag TAG              dist/ as a release of this repository on GitHub, by its command line tool
";

fn main() -> ExitCode {
    #[cfg(unix)]
    heed_signals();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = words.split_first().map_or(("", [].as_slice()), |(task, rest)| (task.as_str(), rest));
    let done = match task {
        "native-test" => native::native_test(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        #[cfg(unix)]
        task => unix_task(task, rest),
        #[cfg(not(unix))]
        task => Err(format!("no task called {task:?} on this system\n\n{HELP}").into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        // What failed has been said, and the last line is its sum.
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(unix)]
fn unix_task(task: &str, rest: &[String]) -> Result<bool, Failure> {
    match task {
        "test" => test::test(rest),
        "gpu-test" => test::test(&["--no-install".to_owned(), "gpu".to_owned()]),
        "claims" => claims::write(),
        "attack" => attack::attack(rest),
        "check-foreign" => foreign::check_foreign(rest),
        "link-foreign" => foreign::link::link_foreign(rest),
        "wine-test" => wine::wine_test(rest),
        "vm-test" => vm::vm_test(rest),
        "package-test" => vm::package::package_test(rest),
        "bench" => bench::bench(rest).map(|()| true),
        "dist" => dist::dist(rest).map(|()| true),
        "publish" => dist::publish(rest).map(|()| true),
        _ => Err(format!("no task called {task:?}\n\n{HELP}").into()),
    }
}

/// A shell's background job, or a CI runner, may have been started with signals ignored, and what is ignored stays so
/// in every program that is started from here: tests that send a signal would wait for ever.
#[cfg(unix)]
fn heed_signals() {
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
    ] {
        // SAFETY: the default action is no handler of ours that could run at a wrong time.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
