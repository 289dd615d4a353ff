//! kennel as `codex-linux-sandbox`, the helper that Codex runs its commands with on Linux.
//!
//! A program that is built on kennel can answer to that name too, as Codex's own command does:
//!
//! ```no_run
//! let called = std::env::args_os().next().unwrap_or_default();
//! if std::path::Path::new(&called).ends_with("codex-linux-sandbox") {
//!     kennel::codex::run_main();
//! }
//! // … what the program does under its own name.
//! ```

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};

use kennel_policy::codex::{ATTRIBUTION, CodexContext, Invocation, USAGE, command_line, manage};
use kennel_policy::printed::show_lines;

use crate::job::{Environment, InheritedMemory, Job};

/// The release whose behaviour is meant.
const LIKE: &str = "0.166.0";

/// A mistake on the command line or in a policy.
const USAGE_ERROR: i32 = 2;
/// There is no sandbox.
const NO_SANDBOX: i32 = 1;

/// Acts as `codex-linux-sandbox` with this process's own arguments, and ends it with the command's exit code. To be
/// called before any thread is started; with more than one it says so and ends with 1.
pub fn run_main() -> ! {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    let code = if threads == 1 {
        let environment = std::env::vars_os().map(|(name, value)| (name.into(), value.into())).collect();
        main(std::env::args_os().skip(1), environment, None)
    } else {
        say("cannot make a sandbox: run_main has to be called before any thread is started");
        NO_SANDBOX
    };
    std::process::exit(code)
}

/// Does what the words ask for and returns the exit code. With `memory` PID 1 is a clone of this process, without it a
/// program of its own.
pub fn main(
    words: impl Iterator<Item = OsString>,
    environment: Environment,
    memory: Option<InheritedMemory>,
) -> i32 {
    let run = match command_line(words) {
        Ok(Invocation::Help) => return print(USAGE),
        Ok(Invocation::Version) => {
            return print(&format!("codex-linux-sandbox {LIKE} (kennel {})\n", env!("CARGO_PKG_VERSION")));
        }
        Ok(Invocation::Run { permissions, policy_folder, command_folder, managed, command }) => {
            let absolute =
                |name| variable(&environment, name).map(PathBuf::from).filter(|path| path.is_absolute());
            let (tmpdir, home) = (absolute("TMPDIR"), absolute("HOME"));
            let cwd = start(command_folder.as_deref().unwrap_or(&policy_folder), home.as_deref());
            let mut policy = permissions.policy(&CodexContext { policy_folder, tmpdir, home });
            policy.environment.unset.push(ATTRIBUTION.into());
            let variables = environment.iter().map(|(name, value)| (&**name, &**value));
            if let Some(managed) = managed
                && let Err(error) = manage(&mut policy, managed, variables)
            {
                say(&error.to_string());
                return NO_SANDBOX;
            }
            (policy, command, cwd)
        }
        Err(error) => {
            say(&format!("error: {error}\n\n{USAGE}"));
            return USAGE_ERROR;
        }
    };
    let (policy, command, cwd) = run;
    let mut job = Job { environment, cwd, alone: true, ..Job::bare(policy.into(), command) };
    job.hooks.warn = Some(|warning| say(&format!("warning: {warning}")));
    job.clone_this_process(memory);
    match job.run() {
        Ok(outcome) => {
            let handed_back = &outcome.handed_back;
            handed_back.list.iter().for_each(|found| say(&found.to_string()));
            if handed_back.more > 0 {
                say(&format!("{} more were set aside", handed_back.more));
            }
            outcome.exit_code()
        }
        Err(error) => {
            say(&error.to_string());
            error.exit_code().unwrap_or(NO_SANDBOX)
        }
    }
}

/// Where the command is to start: in this process's own folder. The caller's name for it, `told`, matters only where it
/// leads through links: then the folder that it leads to is meant. What does not exist inside is not started in.
fn start(told: &Path, home: Option<&Path>) -> PathBuf {
    match std::fs::canonicalize(told) {
        Ok(folder) if folder != told => folder,
        _ => std::env::current_dir().unwrap_or_else(|_| home.unwrap_or(Path::new("/")).to_owned()),
    }
}

fn variable<'e>(environment: &'e Environment, name: &str) -> Option<&'e OsStr> {
    environment.iter().find(|(own, _)| **own == *name).map(|(_, value)| &**value)
}

fn print(text: &str) -> i32 {
    i32::from(std::io::stdout().write_all(text.as_bytes()).is_err())
}

/// Writes a message to standard error. Codex takes a failed run for one that the sandbox denied if its output speaks of
/// a sandbox, and this name does.
fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "codex-linux-sandbox: {}", show_lines(message));
}
