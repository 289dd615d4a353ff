//! The programs and libraries that agents use to reach a network: each makes one request through an allow list, with the
//! variables that kennel sets and with none of them, and one to a host that is not allowed. What came of it is a table in
//! docs/network.md, and each test compares its row with what it saw.

mod installed;
mod loopback;
mod programs;
mod ssh;
mod table;

use std::path::Path;
use std::time::Duration;

use kennel_tests::{Scratch, kennel, ran_within, world};
use serde_json::Value;

use crate::network::there;

/// Leaves this host's network, before anything else.
pub fn enter() {
    world::stand(|folder, ipv6| there::serve(folder, ipv6, include_str!("servers.py")));
}

/// Longer than anything here takes; a test that reaches it hangs.
const LONG: Duration = Duration::from_secs(120);

/// Whether a client sees the variables that kennel sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As kennel starts it.
    Variables,
    /// With all of them taken away.
    Nothing,
}

/// Runs the script in `$REQUEST` for each host in the arguments, each in a home of its own, and tells after a line of
/// dashes what it said and how it ended. With `$BARE` it first takes away all that kennel has set: these variables are
/// the ones that were not there outside.
const ASK: &str = r#"
    if [ -n "$BARE" ]; then
        for name in $(env | sed -n 's/^\([A-Za-z_]*\)=.*/\1/p'); do
            case " $OUTSIDE " in *" $name "*) ;; *) unset "$name" ;; esac
        done
    fi
    for host in "$@"; do
        export HOST="$host" HOME="/tmp/home-$host"
        mkdir -p "$HOME" && cd "$HOME"
        echo "--- $host"
        sh -c "set -e; $REQUEST" 2>&1 < /dev/null
        printf '\n--- %s\n' "$?"
    done"#;

/// What came of a client's requests in one sandbox.
#[derive(Debug)]
pub struct Seen {
    /// For each host, its output and its exit code.
    pub answers: Vec<(String, i32)>,
    /// What the report says of the network.
    network: Vec<Value>,
    /// All that was said, for the message of a failure.
    pub all: String,
}

impl Seen {
    /// The doors by which something got to a host, or was refused it.
    pub fn doors(&self, host: &str, allowed: bool) -> Vec<&str> {
        let about = self.network.iter().filter(|one| one["host"] == host && one["allowed"] == allowed);
        let mut doors: Vec<&str> = about.filter_map(|one| one["door"].as_str()).collect();
        doors.sort_unstable();
        doors.dedup();
        doors
    }
}

/// Makes the requests of a script to these hosts, of which the first is allowed, in one sandbox.
pub fn ask(way: Way, request: &str, hosts: &[&str], variables: &[(&str, &str)], flags: &[&str]) -> Seen {
    let scratch = Scratch::new();
    let report = scratch.join("report.json");
    let mut command = kennel(["run", "--no-settings", "--report"]);
    command.arg(&report).args(["--allow-domain", hosts[0]]).args(flags);
    command.args(["--", "sh", "-c", ASK, "sh"]).args(hosts);
    let path = std::env::var("PATH").unwrap_or_default();
    let home = scratch.path().display().to_string();
    let bare = if way == Way::Nothing { "1" } else { "" };
    let own =
        [("PATH", path.as_str()), ("HOME", &home), ("LANG", "C.UTF-8"), ("USER", "nobody"), ("BARE", bare)];
    // rustup's cargo looks for its toolchain in the home of its user.
    let rustup = std::env::var_os("RUSTUP_HOME").map(std::path::PathBuf::from);
    let rustup = rustup.or_else(|| std::env::home_dir().map(|home| home.join(".rustup")));
    let rustup = rustup.unwrap_or_default();
    let names = own.iter().chain(variables).map(|(name, _)| *name).chain([
        "REQUEST",
        "OUTSIDE",
        "PWD",
        "TMPDIR",
        "RUSTUP_HOME",
    ]);
    let names = names.collect::<Vec<_>>().join(" ");
    command.env_clear().env("XDG_CONFIG_HOME", "/nonexistent").current_dir(scratch.path());
    command.envs(own).envs(variables.iter().copied()).env("REQUEST", request).env("OUTSIDE", names);
    command.env("RUSTUP_HOME", rustup);
    let begun = std::time::Instant::now();
    let ran = ran_within(LONG, &mut command);
    let time = begun.elapsed();
    let text = std::fs::read_to_string(&report).unwrap_or_default();
    let report: Value = serde_json::from_str(&text).unwrap_or_default();
    let network = report["network"].as_array().cloned().unwrap_or_default();
    let all = format!("{way:?}, {time:.1?}\n{}\n{}\n{network:#?}", ran.stdout, ran.stderr);
    Seen { answers: hosts.iter().map(|host| answer(&ran.stdout, host)).collect(), network, all }
}

/// What a script said and how it ended, from between the dashes.
fn answer(output: &str, host: &str) -> (String, i32) {
    let begin = format!("--- {host}\n");
    let rest = output.find(&begin).map_or("", |at| &output[at + begin.len()..]);
    let mut said = String::new();
    for line in rest.lines() {
        if let Some(code) = line.strip_prefix("--- ").and_then(|code| code.parse().ok()) {
            return (said, code);
        }
        said.push_str(line);
        said.push('\n');
    }
    (said, -1)
}

/// The page with the table.
pub fn page() -> std::path::PathBuf {
    Path::new(kennel_tests::SOURCE).join("../docs/network.md")
}
