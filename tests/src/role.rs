//! A test executable that is somebody else for once: what a test needs to run inside a sandbox, or around kennel, it
//! runs as another role of its own file. So a suite stays one executable, and needs no compiler where it runs.

use std::ffi::OsString;
use std::process::Command;

/// The variable that names the role.
pub const VARIABLE: &str = "KENNEL_TEST_ROLE";

/// What a role does with its arguments; returns its exit code.
pub type Role = fn(&[OsString]) -> i32;

/// Those that several suites play.
pub const SHARED: &[(&str, Role)] = &[
    ("calls", crate::probe::calls::run),
    ("crowd", crate::crowd::crowd),
    ("take", crate::hog::take_role),
    ("need", crate::hog::need_role),
];

/// Declares the roles of a suite, in its `mod.rs`: `roles! { "name" => function }`. All suites are one executable, so no
/// two have the same name.
#[macro_export]
macro_rules! roles {
    ($($name:literal => $function:path),* $(,)?) => {
        /// What this executable is for the tests here.
        pub const ROLES: &[(&str, $crate::role::Role)] = &[$(($name, $function)),*];
    };
}

/// Plays the role that the environment names, if it names one, and exits. Before `main`, since that belongs to the test
/// runner.
pub(crate) fn take<'r>(roles: impl Iterator<Item = &'r (&'r str, Role)>) {
    let Some(wanted) = std::env::var_os(VARIABLE) else { return };
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let found: Vec<Role> = roles.filter(|(name, _)| *name == wanted).map(|(_, role)| *role).collect();
    let code = match found[..] {
        // Nothing may unwind out of what runs before main; the message has been printed by then.
        [role] => std::panic::catch_unwind(|| role(&arguments)).unwrap_or(101),
        _ => {
            eprintln!("{} roles are called {}", found.len(), wanted.display());
            99
        }
    };
    std::process::exit(code);
}

/// This executable in that role.
#[must_use]
pub fn play(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test knows its own path"));
    command.env(VARIABLE, role);
    command
}

/// Plays it to its end, which must be a good one.
#[track_caller]
pub fn plays(role: &str, limit: std::time::Duration) {
    let ran = crate::ran_within(limit, &mut play(role));
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
}

/// The words after `kennel run` that play a role inside, with flags before them.
#[must_use]
pub fn inside(role: &str, flags: &[&str], arguments: &[&str]) -> Vec<OsString> {
    let mut words: Vec<OsString> = flags.iter().map(OsString::from).collect();
    words.extend(["--env".into(), format!("{VARIABLE}={role}").into(), "--".into()]);
    words.push(std::env::current_exe().expect("a test knows its own path").into());
    words.extend(arguments.iter().map(OsString::from));
    words
}
