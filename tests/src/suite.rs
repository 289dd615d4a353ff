//! The suites of the one program of tests, and a process for each of them.
//!
//! Some suites leave this host's network, some count what the machine or their process holds, some wait for any child. So
//! whatever is asked for, by Cargo, by hand or by `cargo xtask`, this program looks first which tests those are, and
//! runs itself once for each suite that has some.
//!
//! A filter `SUITE::TEXT` means the tests of the suite with `TEXT` in their names, which is how SECURITY.md names tests;
//! any other filter means what it means to Rust's test runner.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;

use crate::role::{self, Role};

/// Names the suite that this process is for.
const VARIABLE: &str = "KENNEL_TEST_SUITE";

/// Flags of the test runner that are followed by a value.
const WITH_VALUE: [&str; 8] =
    ["--color", "--format", "--logfile", "--shuffle-seed", "--skip", "--test-threads", "--report-time", "-Z"];

pub(crate) static KENNEL: OnceLock<&str> = OnceLock::new();

/// A suite: a module of the program's root.
#[derive(Clone, Copy)]
pub struct Suite {
    name: &'static str,
    roles: &'static [(&'static str, Role)],
    enter: Option<fn()>,
}

impl Suite {
    /// The one in the module `name`.
    #[must_use]
    pub const fn new(name: &'static str) -> Suite {
        Suite { name, roles: &[], enter: None }
    }

    /// With roles that its tests play.
    #[must_use]
    pub const fn with_roles(self, roles: &'static [(&'static str, Role)]) -> Suite {
        Suite { roles, ..self }
    }

    /// With what its process does first, while it has one thread.
    #[must_use]
    pub const fn entered_by(self, enter: fn()) -> Suite {
        Suite { enter: Some(enter), ..self }
    }
}

/// Calls [`begin`] before `main`, which belongs to the test runner: `suites! { KENNEL, SUITES }`, with the binary under test
/// as Cargo names it to the tests of its own package.
#[macro_export]
macro_rules! suites {
    ($kennel:expr, $suites:expr) => {
        extern "C" fn begin() {
            $crate::suite::begin($kennel, $suites);
        }
        #[used]
        #[unsafe(link_section = ".init_array")]
        static BEGIN: extern "C" fn() = begin;
    };
}

/// Plays a role, or enters a suite and returns to run its tests, or runs this program for each suite that is asked for
/// and exits.
pub fn begin(kennel: &'static str, suites: &[Suite]) {
    let _ = KENNEL.set(kennel);
    let roles = suites.iter().flat_map(|suite| suite.roles).chain(role::SHARED);
    role::take(roles);
    if let Some(name) = std::env::var_os(VARIABLE) {
        // SAFETY: before main there is one thread. What the tests start is not told: it may be this program again.
        unsafe { std::env::remove_var(VARIABLE) };
        if let Some(enter) = suites.iter().find(|suite| *suite.name == *name).and_then(|suite| suite.enter) {
            enter();
        }
        return;
    }
    if let Some(asked) = Asked::read(std::env::args_os().skip(1)) {
        std::process::exit(asked.run(suites));
    }
}

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    filters: Vec<String>,
    skips: Vec<String>,
    is_exact: bool,
    flags: Vec<OsString>,
}

impl Asked {
    /// `None` for what needs no suite: help, and the list of tests.
    fn read(words: impl Iterator<Item = OsString>) -> Option<Asked> {
        let mut asked = Asked::default();
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy().into_owned();
            match text.as_str() {
                "--list" | "--help" | "-h" => return None,
                "--exact" => asked.is_exact = true,
                "--skip" => asked.skips.extend(words.next().map(|word| word.to_string_lossy().into_owned())),
                flag if WITH_VALUE.contains(&flag) => {
                    asked.flags.push(word);
                    asked.flags.extend(words.next());
                }
                flag if flag.starts_with("--skip=") => asked.skips.push(flag["--skip=".len()..].to_owned()),
                flag if flag.starts_with('-') => asked.flags.push(word),
                _ => asked.filters.push(text),
            }
        }
        Some(asked)
    }

    fn wants(&self, test: &str, suites: &[Suite]) -> bool {
        let holds = |filter: &String| {
            if self.is_exact {
                return test == filter;
            }
            let (suite, text) = filter.split_once("::").unwrap_or_default();
            if suites.iter().any(|known| known.name == suite) {
                let rest = test.strip_prefix(suite).and_then(|rest| rest.strip_prefix("::"));
                return rest.is_some_and(|rest| rest.contains(text));
            }
            test.contains(filter)
        };
        (self.filters.is_empty() || self.filters.iter().any(holds)) && !self.skips.iter().any(holds)
    }

    /// Runs the tests that are wanted; returns the exit code.
    fn run(&self, suites: &[Suite]) -> i32 {
        let all = match tests() {
            Ok(all) => all,
            Err(error) => {
                eprintln!("listing the tests of this program: {error}");
                return 101;
            }
        };
        let wanted: Vec<&str> = all.lines().filter_map(|line| line.strip_suffix(": test")).collect();
        let of = |suite: &Suite| -> Vec<&str> {
            let is_own = |test: &&&str| test.split_once("::").is_some_and(|(name, _)| name == suite.name);
            wanted.iter().filter(is_own).copied().filter(|test| self.wants(test, suites)).collect()
        };
        let parts: Vec<(&str, Vec<&str>)> = suites
            .iter()
            .map(|suite| (suite.name, of(suite)))
            .filter(|(_, tests)| !tests.is_empty())
            .collect();
        match parts.as_slice() {
            // The runner says so.
            [] => failure(&self.command("", &["none is called so"]).exec()),
            [(suite, tests)] => failure(&self.command(suite, tests).exec()),
            parts => {
                let mut worst = 0;
                for (suite, tests) in parts {
                    println!("\nsuite {suite}");
                    worst = worst
                        .max(self.command(suite, tests).status().map_or_else(|error| failure(&error), code));
                }
                worst
            }
        }
    }

    fn command(&self, suite: &str, tests: &[&str]) -> Command {
        let mut command = own_program();
        command.arg("--exact").args(tests).args(&self.flags).env(VARIABLE, suite);
        command
    }
}

fn own_program() -> Command {
    Command::new(std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into()))
}

/// The names of all tests of this program, a line each.
fn tests() -> std::io::Result<String> {
    let mut list = own_program();
    let output = list.args(["--list", "--format", "terse"]).env(VARIABLE, OsStr::new("")).output()?;
    if !output.status.success() {
        return Err(std::io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn failure(error: &std::io::Error) -> i32 {
    eprintln!("running this program again: {error}");
    101
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(101)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUITES: [Suite; 2] = [Suite::new("git"), Suite::new("secrets")];

    fn asked(words: &[&str]) -> Asked {
        Asked::read(words.iter().map(OsString::from)).unwrap()
    }

    #[test]
    fn values_of_flags_are_no_filters() {
        let words = ["--test-threads", "2", "git::", "--skip", "slow", "--nocapture"];
        let flags = ["--test-threads", "2", "--nocapture"].map(OsString::from).to_vec();
        let (filters, skips) = (vec!["git::".into()], vec!["slow".into()]);
        assert_eq!(asked(&words), Asked { filters, skips, is_exact: false, flags });
        assert_eq!(Asked::read(["--list"].map(OsString::from).into_iter()), None);
    }

    #[test]
    fn a_filter_that_begins_with_a_suite_means_that_suite_alone() {
        let wants = |filter: &str, test: &str| asked(&[filter]).wants(test, &SUITES);
        assert!(wants("git::", "git::shapes::a_link"));
        assert!(!wants("git::", "secrets::git::a_token"));
        assert!(wants("git::a_link", "git::shapes::a_link"));
        assert!(wants("token", "secrets::git::a_token"));
        assert!(!asked(&["git::a_link", "--exact"]).wants("git::shapes::a_link", &SUITES));
        assert!(!asked(&["--skip", "git::"]).wants("git::shapes::a_link", &SUITES));
    }
}
