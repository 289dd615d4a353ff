//! A test executable that is somebody else for once: what a test needs to run inside a sandbox, or around kennel, it
//! runs as another role of its own file. So a suite stays one executable, and needs no compiler where it runs.

use std::ffi::OsString;
use std::process::Command;

/// The variable that names the role.
pub const VARIABLE: &str = "KENNEL_TEST_ROLE";

/// What a role does with its arguments; returns its exit code.
pub type Role = fn(&[OsString]) -> i32;

/// Declares the roles of a suite, in its `main.rs`: `roles! { "name" => function }`.
///
/// They are looked up before `main`, since that belongs to the test harness.
#[macro_export]
macro_rules! roles {
    ($($name:literal => $function:path),* $(,)?) => {
        extern "C" fn take_a_role() {
            $crate::role::take(&[$(($name, $function)),*]);
        }
        #[used]
        #[unsafe(link_section = ".init_array")]
        static TAKE_A_ROLE: extern "C" fn() = take_a_role;
    };
}

/// Plays the role that the environment names, if it names one, and exits.
pub fn take(roles: &[(&str, Role)]) {
    let Some(wanted) = std::env::var_os(VARIABLE) else { return };
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let code = match roles.iter().find(|(name, _)| *name == wanted) {
        // Nothing may unwind out of what runs before main; the message has been printed by then.
        Some((_, role)) => std::panic::catch_unwind(|| role(&arguments)).unwrap_or(101),
        None => {
            eprintln!("no such role: {}", wanted.display());
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
