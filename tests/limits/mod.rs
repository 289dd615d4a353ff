//! Limits, each hit for real: what happens to the command, what is told about it, and that the kernel is left as it
//! was. On cgroup v1, v2 and both; as root, as a user with a cgroup of their own, and as one without.

mod cgroups;
mod cpu;
mod granted;
mod memory;
mod mixed;
mod output;
mod per_process;
mod processes;
mod refusals;
mod roles;
mod shares;
mod stats;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use kennel_tests::probe::probe_inside;
use kennel_tests::{Ran, Scratch, kennel, ran_within, skipped};
use serde_json::Value;

kennel_tests::roles! {
    "hog" => roles::hog,
    "hog-child" => roles::hog_child,
    "fill-tmp" => roles::fill_tmp,
    "fill-sockets" => roles::fill_sockets,
    "spin" => roles::spin,
    "burn" => roles::burn,
    "stubborn-spin" => roles::stubborn_spin,
    "flood" => roles::flood,
    "fork-until-refused" => roles::fork_until_refused,
    "threads-until-refused" => roles::threads_until_refused,
    "open-until-refused" => roles::open_until_refused,
    "many" => cgroups::many,
}

/// Nothing here takes nearly as long, but in an emulated machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A run and the report that kennel wrote about it.
struct Told {
    ran: Ran,
    report: Value,
}

impl Told {
    /// The reported number under `key`.
    #[track_caller]
    fn number(&self, key: &str) -> f64 {
        self.report[key].as_f64().unwrap_or_else(|| panic!("{key}: {:#}", self.report))
    }

    /// Fails the test unless the run ended with `code` and, of the causes that can be told apart, for this one.
    #[track_caller]
    fn ended(self, code: i32, cause: &str) -> Told {
        let causes = ["killed_by_timeout", "killed_by_oom", "killed_by_cpu_time"];
        let told: Vec<&str> = causes.into_iter().filter(|key| self.report[key] == true).collect();
        let expected: Vec<&str> = causes.into_iter().filter(|key| *key == cause).collect();
        let Told { ran, report } = &self;
        assert_eq!((ran.code, told), (code, expected), "{}\n{report:#}", ran.stderr);
        assert_eq!(report["exit_code"], code, "{report:#}");
        self
    }

    /// Fails the test unless kennel said this on standard error.
    #[track_caller]
    fn said(self, words: &str) -> Told {
        assert!(self.ran.stderr.contains(words), "not said: {words}\n{}", self.ran.stderr);
        self
    }
}

/// The command with a report, to its end.
#[track_caller]
fn told(command: impl FnOnce(&Path) -> Command) -> Told {
    let scratch = Scratch::new();
    let path = scratch.join("report");
    let ran = ran_within(PATIENCE, &mut command(&path));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr));
    Told { report: serde_json::from_str(&text).expect("a report is JSON"), ran }
}

/// A role of this suite inside a sandbox with these flags.
#[track_caller]
fn told_of<W: AsRef<OsStr>>(role: &str, flags: &[&str], words: &[W]) -> Told {
    told(|report| {
        let path = report.to_str().expect("our paths are text");
        probe_inside(role, &[flags, &["--report", path]].concat(), words)
    })
}

/// A shell's script inside a sandbox with these flags.
#[track_caller]
fn told_of_sh(flags: &[&str], script: &str) -> Told {
    told(|report| {
        let mut command = kennel(["run"]);
        command.args(flags).arg("--report").arg(report).args(["--", "sh", "-c", script]);
        command
    })
}

/// Whether this user can have limits on whole sandboxes here; if not, that is said.
fn cannot_limit() -> bool {
    static WHY: LazyLock<Option<String>> = LazyLock::new(|| {
        let mut command = kennel(["run", "--memory", "64M", "--pids", "9", "--cpus", "1", "--", "true"]);
        let ran = ran_within(PATIENCE, &mut command);
        (ran.code != 0).then_some(ran.stderr)
    });
    if let Some(why) = &*WHY {
        // Set where the place was made for it: then this is what is being tested.
        assert!(std::env::var_os("KENNEL_TEST_NEEDS_CGROUPS").is_none(), "{why}");
        skipped(&format!("no cgroup can be had here: {}", why.lines().next().unwrap_or_default()));
    }
    WHY.is_some()
}

/// Whether all controllers are on cgroup v2, where the out-of-memory killer takes everything at once.
fn is_unified() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// So many, or a tenth of it on a machine that is emulated.
fn scaled(count: usize) -> usize {
    if kennel_tests::is_emulated() { count / 10 } else { count }
}
