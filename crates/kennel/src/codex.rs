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
use std::path::PathBuf;

use kennel_policy::codex::{Invocation, Surroundings, USAGE, command_line, through_proxies};
use kennel_policy::policy::Policy;
use kennel_policy::printed::show_lines;

use crate::attached::{self, BY_FLAG, Company, Error, Memory, StartError, Watch};

/// The release whose behaviour is meant.
const LIKE: &str = "0.166.0";

/// Where the caller says which proxy of its own leads out.
const PROXIES: &[&str] =
    &["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// A mistake on the command line or in a policy.
const USAGE_ERROR: i32 = 2;
/// There is no sandbox.
const NO_SANDBOX: i32 = 1;

/// Acts as `codex-linux-sandbox` with this process's own arguments, and ends it with the command's exit code. To be
/// called before any thread is started; with more than one it says so and ends with 1.
pub fn run_main() -> ! {
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let environment = variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    let code = if threads == 1 {
        // SAFETY: this is the only thread; no memory is named, so none is wiped.
        unsafe { main(std::env::args_os().skip(1), environment, None) }
    } else {
        say("cannot make a sandbox: run_main has to be called before any thread is started");
        NO_SANDBOX
    };
    std::process::exit(code)
}

/// Does what the words ask for and returns the exit code.
///
/// # Safety
/// As for [`attached::run`].
pub unsafe fn main<'e, E>(
    words: impl Iterator<Item = OsString>,
    environment: E,
    memory: Option<Memory>,
) -> i32
where
    E: Iterator<Item = (&'e OsStr, &'e OsStr)> + Clone,
{
    let run = match command_line(words) {
        Ok(Invocation::Help) => return print(USAGE),
        Ok(Invocation::Version) => {
            return print(&format!("codex-linux-sandbox {LIKE} (kennel {})\n", env!("CARGO_PKG_VERSION")));
        }
        Ok(Invocation::Run { permissions, policy_folder, command_folder, through_proxy, command }) => {
            let tmpdir =
                variable(&environment, "TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
            let around = Surroundings { policy_folder, workdir: command_folder, tmpdir };
            let mut policy = permissions.policy(&around);
            if through_proxy {
                let proxies = PROXIES.iter().filter_map(|name| variable(&environment, name)?.to_str());
                if let Err(error) = through_proxies(&mut policy, proxies) {
                    say(&error.to_string());
                    return NO_SANDBOX;
                }
            }
            Run { policy, command }
        }
        Err(error) => {
            say(&format!("error: {error}\n\n{USAGE}"));
            return USAGE_ERROR;
        }
    };
    // SAFETY: the caller's promises.
    unsafe { run.go(environment, memory) }
}

struct Run {
    policy: Policy,
    command: Vec<OsString>,
}

impl Run {
    unsafe fn go<'e, E>(self, environment: E, memory: Option<Memory>) -> i32
    where
        E: Iterator<Item = (&'e OsStr, &'e OsStr)> + Clone,
    {
        let folder = match std::env::current_dir() {
            Ok(folder) => folder,
            Err(error) => {
                say(&format!("reading the working directory: {error}"));
                return NO_SANDBOX;
            }
        };
        let Run { policy, command } = self;
        let company = Company { control: None, ask: None, tell: |_| {}, advice: BY_FLAG };
        // SAFETY: the caller's promises.
        let result = unsafe {
            attached::run(&policy, &command, &folder, environment, memory, Watch::default(), company)
        };
        match result {
            Ok(ran) => {
                let handed_back = &ran.outcome.handed_back;
                handed_back.list.iter().for_each(|found| say(&found.to_string()));
                if handed_back.more > 0 {
                    say(&format!("{} more were set aside", handed_back.more));
                }
                ran.outcome.exit_code()
            }
            Err(Error::Start(StartError::NotExecuted { command, source })) => {
                let missing = source.kind() == std::io::ErrorKind::NotFound;
                let why = if missing { "command not found".to_owned() } else { source.to_string() };
                say(&format!("{command}: {why}"));
                if missing { 127 } else { 126 }
            }
            Err(error) => {
                say(&error.to_string());
                NO_SANDBOX
            }
        }
    }
}

fn variable<'e>(
    environment: &(impl Iterator<Item = (&'e OsStr, &'e OsStr)> + Clone),
    name: &str,
) -> Option<&'e OsStr> {
    environment.clone().find(|(own, _)| *own == name).map(|(_, value)| value)
}

fn print(text: &str) -> i32 {
    i32::from(std::io::stdout().write_all(text.as_bytes()).is_err())
}

/// Writes a message to standard error. Codex takes a failed run for one that the sandbox denied if its output speaks of
/// a sandbox, and this name does.
fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "codex-linux-sandbox: {}", show_lines(message));
}
