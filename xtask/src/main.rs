//! The workshop: what is done with kennel's source besides building it.

mod agents;
mod attack;
mod bench;
mod cache;
mod cargo;
mod claims;
mod clients;
mod cpio;
mod debian;
mod dist;
mod elf;
mod foreign;
mod packages;
mod peers;
mod stage;
mod static_linux;
mod subordinate;
mod suite;
mod tally;
mod test;
mod vm;
mod who;
mod wine;

use std::process::ExitCode;

/// Why a task could not be done.
type Failure = Box<dyn std::error::Error>;

const HELP: &str = "\
Usage: cargo xtask TASK

Tasks:
  test [SUITE…] [--no-install]   formatting, lints (for macOS and Windows too), docs, unit and doc tests, and the
                                 end-to-end suites as root and as an ordinary user; with names only those suites
  attack [PART…] [--seconds N] [--seed S] [--replay FILE]
                                 random attacks, N seconds as root and N as an ordinary user; the parts are files and
                                 gate; writes what it finds
  check-foreign [--no-install]   lints for macOS and Windows, without their linkers and SDKs
  wine-test [--no-install]       the tests of what runs on Windows, under Wine
  package-test [SYSTEM…]         Debian's package, installed, used and removed in fresh systems in virtual machines
  vm-test [SUITE…] [--all] [--kernel V] [--arch A] [--as WHO] [--filter TEXT]
                                 the suites on other kernels, in virtual machines: a quick choice of tests, or all
  bench [NAME…] [--quick]        the side-by-side benchmarks; writes bench/RESULTS.md
  dist [x86_64|aarch64]… [--no-install]
                                 a release in dist/: static Linux binaries, packages, bill of materials, checksums
";

fn main() -> ExitCode {
    heed_signals();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = words.split_first().map_or(("", [].as_slice()), |(task, rest)| (task.as_str(), rest));
    let done = match task {
        "test" => test::test(rest),
        "attack" => attack::attack(rest),
        "check-foreign" => foreign::check_foreign(rest),
        "wine-test" => wine::wine_test(rest),
        "package-test" => vm::package::package_test(rest),
        "vm-test" => vm::vm_test(rest),
        "bench" => bench::bench(rest).map(|()| true),
        "dist" => dist::dist(rest).map(|()| true),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        _ => Err(format!("no task called {task:?}\n\n{HELP}").into()),
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

/// A shell's background job, or a CI runner, may have been started with signals ignored, and what is ignored stays so
/// in every program that is started from here: tests that send a signal would wait for ever.
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
