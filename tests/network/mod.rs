//! The filtered network: real programs inside, real servers outside, and every way around that we know of.

mod asking;
mod budget;
mod control;
mod fallback;
mod library;
mod loads;
mod names;
mod none;
mod online;
mod parents;
mod programs;
mod protocols;
mod publish;
mod refusals;
mod registries;
pub mod there;
mod tricks;
mod unconfined;

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use kennel_tests::{Ran, Scratch, kennel, probe, ran_within, role, world};
use serde_json::Value;

kennel_tests::roles! {
    "dial" => programs::dial,
    "network-crowd" => loads::crowd,
    "ask-once" => control::ask_once,
    "embed" => library::embed,
    "budget-of-a-session" => budget::session,
    "host-four" => library::host_four,
    "serve" => publish::serve,
}

/// Leaves this host's network, before anything else.
pub fn enter() {
    world::stand(|folder, ipv6| there::serve(folder, ipv6, include_str!("servers.py")));
}

/// Longer than anything here takes; a test that reaches it hangs.
pub const LONG: Duration = Duration::from_secs(90);

/// Takes every variable away that would lead a program to a proxy, whatever it is called.
const WITHOUT_PROXY: &str = r#"
    for name in $(env | sed -n 's/^\([A-Za-z_]*\)=.*/\1/p' | grep -i -e proxy -e GIT_SSH -e GIT_CONFIG); do
        unset "$name"
    done
    exec "$@""#;

/// By which way a program is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the variables that kennel sets.
    Proxy,
    /// As if it had the network to itself.
    Plain,
}

/// One after the other.
pub const BOTH: [Way; 2] = [Way::Proxy, Way::Plain];

/// A run with a filtered network, and what its report says of the network.
#[derive(Debug)]
pub struct Told {
    /// The run.
    pub ran: Ran,
    /// What was decided about hosts.
    pub network: Vec<Value>,
    /// How many decisions there were beyond those.
    pub not_listed: u64,
    /// How many bytes left and came in, where that was counted.
    pub traffic: Value,
}

impl Told {
    /// Fails the test unless the command ended well.
    #[track_caller]
    pub fn ok(self) -> Told {
        assert_eq!(self.ran.code, 0, "{self:#?}");
        self
    }

    /// The decisions about a host, as `door allowed`.
    pub fn about(&self, host: &str) -> Vec<(String, bool)> {
        let about = self.network.iter().filter(|one| one["host"] == host);
        about
            .map(|one| {
                let door = one["door"].as_str().unwrap_or_default().to_owned();
                (door, one["allowed"] == true)
            })
            .collect()
    }

    /// Whether some connection to a host was let through by this door.
    pub fn passed(&self, host: &str, door: &str) -> bool {
        self.about(host).iter().any(|(own, allowed)| own == door && *allowed)
    }

    /// Why a host was refused.
    #[track_caller]
    pub fn reason(&self, host: &str) -> String {
        let found = self.network.iter().find(|one| one["host"] == host && one["allowed"] == false);
        let found = found.unwrap_or_else(|| panic!("{host} was not refused: {self:#?}"));
        found["reason"].as_str().unwrap_or_default().to_owned()
    }
}

/// `kennel run FLAGS -- WORDS` with a report.
pub fn told<F: AsRef<OsStr>, W: AsRef<OsStr>>(flags: &[F], words: &[W]) -> Told {
    told_by(flags, words, |_| {})
}

/// The same with something done to the command before it is started.
pub fn told_by<F: AsRef<OsStr>, W: AsRef<OsStr>>(
    flags: &[F],
    words: &[W],
    arrange: impl FnOnce(&mut std::process::Command),
) -> Told {
    let scratch = Scratch::new();
    let report = scratch.join("report.json");
    let mut command = kennel(["run", "--no-settings", "--report"]);
    command.arg(&report).args(flags).arg("--").args(words);
    // The tests' own caller may live behind a proxy.
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    arrange(&mut command);
    let ran = ran_within(LONG, &mut command);
    let text = std::fs::read_to_string(report).unwrap_or_default();
    let report: Value = serde_json::from_str(&text).unwrap_or_default();
    let not_listed = report["network_not_listed"].as_u64().unwrap_or_default();
    Told {
        network: report["network"].as_array().cloned().unwrap_or_default(),
        not_listed,
        traffic: report["traffic"].clone(),
        ran,
    }
}

/// A command that may reach these hosts, by this way.
pub fn allowed<W: AsRef<OsStr>>(way: Way, hosts: &[&str], words: &[W]) -> Told {
    told(&allowing(hosts), &by(way, words))
}

/// The same with a shell's script.
pub fn allowed_sh(way: Way, hosts: &[&str], script: &str) -> Told {
    allowed(way, hosts, &["sh", "-c", script])
}

/// The flags that allow hosts.
pub fn allowing(hosts: &[&str]) -> Vec<String> {
    hosts.iter().flat_map(|host| ["--allow-domain".to_owned(), (*host).to_owned()]).collect()
}

/// The words that run a command by a way.
pub fn by<W: AsRef<OsStr>>(way: Way, words: &[W]) -> Vec<OsString> {
    let mut all: Vec<OsString> = Vec::new();
    if way == Way::Plain {
        all.extend(["sh", "-c", WITHOUT_PROXY, "sh"].map(OsString::from));
    }
    all.extend(words.iter().map(|word| word.as_ref().to_owned()));
    all
}

/// A Python script inside, or a word that there is no Python.
pub fn python_inside(way: Way, hosts: &[&str], script: &str) -> Option<Told> {
    let Some(python) = world::python() else {
        kennel_tests::skipped("python3 is not installed");
        return None;
    };
    Some(allowed(way, hosts, &[python.as_os_str(), OsStr::new("-c"), OsStr::new(script)]))
}

/// This executable in a role inside, statically linked.
pub fn role_inside(way: Way, name: &str, hosts: &[&str], words: &[&str]) -> Told {
    let mut flags = allowing(hosts);
    flags.extend(["--env".to_owned(), format!("{}={name}", role::VARIABLE)]);
    let mut all = vec![probe::executable().as_os_str().to_owned()];
    all.extend(words.iter().map(OsString::from));
    told(&flags, &by(way, &all))
}
