//! What this Mac offers, and where its folders are.

use std::path::{Path, PathBuf};

use kennel_policy::host::{Finding, State};

use crate::command_line::SANDBOX_EXEC;
use crate::sys;

/// Whether this process runs in a sandbox already. A second profile cannot be applied then.
#[must_use]
pub fn is_sandboxed() -> bool {
    sys::is_sandboxed(std::process::id().cast_signed()).unwrap_or(false)
}

/// What is said of that.
pub const SANDBOXED: &str = "this process already runs in a sandbox, and macOS applies no second one inside";

/// Whether this process may read the system's log: an administrator, and not in a sandbox.
#[must_use]
pub fn may_read_log() -> bool {
    !is_sandboxed() && (sys::user() == 0 || is_administrator())
}

/// The group `admin`.
fn is_administrator() -> bool {
    const ADMIN: u32 = 80;
    rustix::process::getgroups().is_ok_and(|groups| groups.iter().any(|group| group.as_raw() == ADMIN))
}

/// The user's own folder for temporary files, with its links resolved.
#[must_use]
pub fn user_temp() -> Option<PathBuf> {
    let folder = sys::user_folder(libc::_CS_DARWIN_USER_TEMP_DIR)?;
    folder.canonicalize().ok()
}

/// The folder of the developer tools that `git`, `cc` and `python3` lead to. `xcode-select -p` prints where this link leads.
#[must_use]
pub fn developer_folder() -> Option<PathBuf> {
    let chosen = std::fs::read_link("/var/db/xcode_select_link").ok();
    let usual = ["/Applications/Xcode.app/Contents/Developer", "/Library/Developer/CommandLineTools"];
    let found = chosen.into_iter().chain(usual.map(PathBuf::from)).find(|folder| folder.is_dir())?;
    found.canonicalize().ok()
}

/// What this host offers. `trial` runs a command that does nothing in a sandbox with the default policy.
pub fn findings(trial: impl FnOnce() -> Result<(), String>) -> Vec<Finding> {
    let finding = |subject, state, detail: String, remedy: Option<&str>| Finding {
        subject,
        state,
        detail,
        remedy: remedy.map(str::to_owned),
    };
    let mut findings = Vec::new();
    let there = Path::new(SANDBOX_EXEC).is_file();
    findings.push(match there {
        true => finding("Seatbelt", State::Good, format!("{SANDBOX_EXEC} is there"), None),
        false => finding("Seatbelt", State::Missing, format!("{SANDBOX_EXEC} is not there"), None),
    });
    if is_sandboxed() {
        let remedy = "start kennel outside of other sandboxes, or have the outer one allow everything";
        findings.push(finding("nesting", State::Missing, SANDBOXED.to_owned(), Some(remedy)));
    } else {
        match trial() {
            Ok(()) => findings.push(finding("sandbox", State::Good, "a command ran in one".to_owned(), None)),
            Err(error) => findings.push(finding("sandbox", State::Missing, error, None)),
        }
    }
    findings.push(match may_read_log() {
        true => finding("log", State::Good, "refusals are read from the system's log".to_owned(), None),
        false => finding(
            "log",
            State::Weaker,
            "refusals are not told: only administrators may read the system's log".to_owned(),
            None,
        ),
    });
    let watched = "memory, CPU time and processes are looked at ten times a second, and everything is killed when it is too much";
    findings.push(finding("limits", State::Weaker, watched.to_owned(), None));
    let shared = "there is one loopback: an allow list of hosts is for programs that use proxies";
    findings.push(finding("network", State::Weaker, shared.to_owned(), None));
    findings
}
