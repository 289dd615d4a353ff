//! Secrets that never enter the sandbox: real SDKs, curl, git, gh and agents, unmodified, talk to an upstream that wants the
//! real keys, while the sandbox holds none of them.
//!
//! The upstream (`upstream.mjs`) and a name server that leads every name to it are at the other end of a cable, as in the suite
//! `network`: clients use the names and ports that they use everywhere. `cargo xtask test` installs the clients and says where, in
//! `KENNEL_CLIENTS` and `KENNEL_AGENTS`.

mod agents;
mod budget;
mod clients;
mod direct;
mod echoes;
mod elsewhere;
mod forms;
mod found;
mod gateway;
mod git;
mod places;
mod search;
mod sources;
mod swapped;
pub mod there;
mod trust;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use kennel_tests::{Ran, Scratch, kennel, program, ran_within, skipped};
use serde_json::{Value, json};

use kennel_tests::world::{World, world};

/// Longer than anything here takes; a test that reaches it hangs.
pub const LONG: Duration = Duration::from_secs(120);

/// Leaves this host's network, before anything else.
pub fn enter() {
    kennel_tests::world::stand(there::serve);
}

/// The world with its upstream, and the real keys.
pub struct Upstream {
    /// The world.
    pub world: &'static World,
    keys: BTreeMap<String, String>,
    /// A moment before the keys were made, in seconds since 1970.
    since: f64,
}

/// The upstream, or a word that there is none.
pub fn upstream() -> Option<&'static Upstream> {
    static UPSTREAM: OnceLock<Option<Upstream>> = OnceLock::new();
    let world = world()?;
    let found = UPSTREAM.get_or_init(|| {
        let file = world.file("keys.json");
        let text = std::fs::read_to_string(&file).ok()?;
        let made = std::fs::metadata(&file).and_then(|data| data.modified()).ok()?;
        let since = made.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs_f64() - 1.0;
        // From here on nothing on the disk holds them.
        std::fs::remove_file(&file).expect("it was just read");
        Some(Upstream { world, keys: serde_json::from_str(&text).expect("it is JSON"), since })
    });
    if found.is_none() {
        skipped("the upstream needs node and openssl");
    }
    found.as_ref()
}

impl Upstream {
    /// A real key, by its maker's name.
    pub fn key(&self, name: &str) -> &str {
        &self.keys[name]
    }

    /// The requests that the upstream has seen and that have this text somewhere.
    pub fn requests(&self, text: &str) -> Vec<Value> {
        let lines = self.world.log().into_iter().filter(|line| line.contains(text));
        lines.map(|line| serde_json::from_str(&line).expect("the log is JSON")).collect()
    }

    /// The authority that has signed the upstream's certificate.
    pub fn authority(&self) -> PathBuf {
        self.world.file("ca.pem")
    }
}

/// Variables that every command here starts with, and nothing else of the caller's.
pub fn plain(command: &mut Command, home: &Scratch) {
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .env_clear()
        .env("PATH", path)
        .env("HOME", home.path())
        .env("LANG", "C.UTF-8")
        .env("USER", "nobody");
    command.env("XDG_CONFIG_HOME", "/nonexistent").current_dir(home.path());
    command.envs(clients::variables());
}

/// A sandbox with secrets: its settings, the caller's variables, and the command.
pub struct Setup {
    /// Its folder, which is also the home; nothing in it can be written inside.
    pub home: Scratch,
    /// Its settings.
    pub settings: Value,
    /// The caller's variables.
    pub variables: Vec<(String, String)>,
}

/// What came of a sandbox.
#[derive(Debug)]
pub struct Told {
    /// The run.
    pub ran: Ran,
    /// Its report, as text.
    pub text: String,
    /// Its report.
    pub report: Value,
}

impl Setup {
    /// A sandbox that trusts the test's authority, allows these hosts and has nothing else.
    pub fn new(upstream: &Upstream, hosts: &[&str]) -> Setup {
        let settings = json!({"network": {"allow": hosts, "extra_ca": [upstream.authority()]}});
        Setup { home: Scratch::new(), settings, variables: Vec::new() }
    }

    /// With a variable of the caller's.
    pub fn variable(mut self, name: &str, value: &str) -> Setup {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With something else in its settings: `path` is `network.terminate` or the like.
    pub fn set(mut self, path: &str, value: Value) -> Setup {
        let mut place = &mut self.settings;
        for part in path.split('.') {
            place = &mut place[part];
        }
        *place = value;
        self
    }

    /// With a secret from a variable of the same name, whose stand-in is swapped in requests to these hosts.
    pub fn secret(self, name: &str, value: &str, hosts: &[&str]) -> Setup {
        let rule = json!({"from": format!("env:{name}"), "mode": "swap", "hosts": hosts});
        self.variable(name, value).set(&format!("secrets.{name}"), rule)
    }

    /// The command line up to `--`.
    pub fn command(&self) -> Command {
        let settings = self.home.write("settings.json", &self.settings.to_string());
        let mut command = kennel(["run", "--no-settings", "--settings"]);
        command.arg(settings).arg("--report").arg(self.home.join("report.json"));
        plain(&mut command, &self.home);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command in it.
    pub fn run(&self, words: &[&str]) -> Told {
        self.finish(self.command().arg("--").args(words))
    }

    /// Runs a shell's script in it.
    pub fn sh(&self, script: &str) -> Told {
        self.run(&["sh", "-c", script])
    }

    /// Runs a command line made by [`Setup::command`].
    pub fn finish(&self, command: &mut Command) -> Told {
        let ran = ran_within(LONG, command);
        let text = std::fs::read_to_string(self.home.join("report.json")).unwrap_or_default();
        let report = serde_json::from_str(&text).unwrap_or_default();
        Told { ran, text, report }
    }
}

impl Told {
    /// Fails the test unless the command ended well.
    #[track_caller]
    pub fn ok(self) -> Told {
        assert_eq!(self.ran.code, 0, "{self:#?}");
        self
    }

    /// What the command printed, line by line, as JSON.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        clients::lines(&self.ran)
    }
}

/// Whether programs are there; else says which one is not.
pub fn have(programs: &[&str]) -> bool {
    let lacking = programs.iter().find(|name| program(name).is_none());
    if let Some(name) = lacking {
        skipped(&format!("{name} is not installed"));
    }
    lacking.is_none()
}
