//! The program that the tests on Windows start in a sandbox: it does one thing, by name, and prints what came of it.

#[cfg(windows)]
mod verbs;

#[cfg(windows)]
fn main() {
    let mut words = std::env::args_os().skip(1);
    let verb = words.next().unwrap_or_default();
    std::process::exit(verbs::perform(&verb.to_string_lossy(), &words.collect::<Vec<_>>()));
}

#[cfg(not(windows))]
fn main() {}
