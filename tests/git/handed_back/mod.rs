//! What a sandbox leaves does not run on the host: after a run at any level, by any name, git's everyday commands execute
//! nothing that was made inside, in no folder of the workspace. Each way in is first shown to work without a level.

mod attacks;
mod before;
mod bounded;
mod honest;
mod reader;
mod shapes;
mod told;
mod written;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use kennel_tests::{Ran, Scratch, is_full, kennel, kennel_bin, program, ran_within, skipped};

/// How a sandbox is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Level(&'static str),
    Agent,
    Srt,
    Codex,
}

/// All that promise something.
pub const WAYS: &[Way] = &[
    Way::Level("hooks-and-config-read-only"),
    Way::Level("hooks-read-only"),
    Way::Level("metadata-read-only"),
    Way::Agent,
    Way::Srt,
    Way::Codex,
];
/// Those of them that are tried with something called `name`. Where root and an ordinary user both run the suites, each of the
/// two tries every other way, and which ones depends on the name, unless all numbers are asked to be full.
pub fn ways(name: &str) -> impl Iterator<Item = Way> {
    let share = match std::env::var("KENNEL_TEST_SHARE").as_deref() {
        Ok("first") if !is_full() => Some(0),
        Ok("second") if !is_full() => Some(1),
        _ => None,
    };
    let turn = name.len();
    let is_own = move |at: usize| share.is_none_or(|share| (at + turn) % 2 == share);
    WAYS.iter().enumerate().filter(move |(at, _)| is_own(*at)).map(|(_, way)| *way)
}

/// The one that does not.
pub const OFF: Way = Way::Level("off");

/// Git's everyday commands, wherever git finds a repository: in a folder with neither `.git` nor `HEAD` it does what it
/// would do in the one above, and so it does beside a `HEAD` that has neither `objects` nor `commondir` with it, as in
/// `.git/logs`. The place `d/evil` is known also where the user may not list `d`.
const EVERYDAY: &str = r#"
(printf '.\0'; test -d d/evil && printf 'd/evil\0'; find . \( -iname .git -o -iname head \) -printf '%h\0') | sort -zu | while IFS= read -r -d '' place; do (
    cd "$place" || exit 0
    if test -r . && test "$place" != . && ! find . -maxdepth 1 \( -iname .git -o -iname objects -o -iname commondir \) | grep -q .; then
        exit 0
    fi
    for words in status diff 'log -1 -p' 'commit -q -m x --allow-empty' 'checkout -q -f' 'add -A .' 'commit -q -m x' 'submodule status' st; do
        timeout 20 "$GIT" $words </dev/null >/dev/null 2>&1
        test -e "$CANARY" && exit
    done
) && test -e "$CANARY" && break; done
true
"#;

/// A home, and a workspace that is a repository.
pub struct World {
    pub scratch: Scratch,
    _first: Option<Arc<World>>,
}

impl World {
    /// `None`, and said so, where there is no git.
    pub fn new() -> Option<World> {
        if program("git").is_none() || program("bash").is_none() {
            skipped("git or bash is not installed");
            return None;
        }
        // Made once, and copied as long as one is in use.
        static FIRST: Mutex<Weak<World>> = Mutex::new(Weak::new());
        let first = {
            let mut kept = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
            kept.upgrade().unwrap_or_else(|| {
                let first = Arc::new(World::first());
                *kept = Arc::downgrade(&first);
                first
            })
        };
        let world = World { scratch: Scratch::new(), _first: Some(Arc::clone(&first)) };
        let folders = ["home", "work"].map(|name| first.scratch.join(name));
        let copied = Command::new("cp").arg("-a").args(folders).arg(world.scratch.path()).status();
        assert!(copied.is_ok_and(|status| status.success()), "a world can be copied");
        Some(world)
    }

    fn first() -> World {
        let world = World { scratch: Scratch::new(), _first: None };
        world.scratch.write(
            "home/.gitconfig",
            "[user]\n\tname = a\n\temail = a@example.org\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n",
        );
        world.scratch.dir("work");
        world.host("git init -q . && echo 1 > one && git add one && git commit -qm one && echo 2 > two && git add two && git commit -qm two");
        world
    }

    pub fn work(&self) -> PathBuf {
        self.scratch.join("work")
    }

    fn canary(&self) -> PathBuf {
        self.scratch.join("canary")
    }

    /// A text with this world's paths: `RUN` is a command that leaves a trace on the host.
    pub fn fill_in(&self, text: &str) -> String {
        text.replace("RUN", &format!("touch {}", self.canary().display()))
            .replace("TOP", &self.scratch.path().display().to_string())
    }

    fn dressed<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        for own in ["TMPDIR", "XDG_CONFIG_HOME", "EDITOR", "VISUAL", "GIT_EDITOR", "PAGER", "GIT_PAGER"] {
            command.env_remove(own);
        }
        command
            .current_dir(self.work())
            .env("HOME", self.scratch.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null())
    }

    /// Runs a script outside, in the workspace; it has to succeed.
    #[track_caller]
    pub fn host(&self, script: &str) -> String {
        let mut command = Command::new("bash");
        command.args(["-ec", &self.fill_in(script)]);
        ran_within(Duration::from_secs(120), self.dressed(&mut command)).ok().stdout
    }

    /// Runs a script inside.
    #[track_caller]
    pub fn inside(&self, way: Way, script: &str) -> Ran {
        self.inside_with(way, &[], script)
    }

    /// The same with further flags.
    #[track_caller]
    pub fn inside_with(&self, way: Way, flags: &[&str], script: &str) -> Ran {
        let mut command = match way {
            Way::Level(level) => {
                let mut command = kennel(["run", "--no-settings", "--allow-write", ".", "--git", level]);
                command.args(flags).args(["--", "bash"]);
                command
            }
            Way::Agent => {
                let mut command = kennel(["run", "--no-settings", "--profile", "agent"]);
                command.args(flags).args(["--", "bash"]);
                command
            }
            Way::Srt => {
                let settings = self.scratch.write(
                    "settings.json",
                    r#"{"network": {"allowedDomains": [], "deniedDomains": []},
                        "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}"#,
                );
                let mut command = Command::new(kennel_bin());
                command.args(["srt", "-s"]).arg(settings).args(["--", "bash"]);
                command
            }
            Way::Codex => {
                let profile = r#"{"type":"managed","file_system":{"type":"restricted","entries":[
                    {"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
                    {"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}]},"network":"restricted"}"#;
                let mut command = Command::new(kennel_bin());
                command.args(["codex-linux-sandbox", "--sandbox-policy-cwd"]).arg(self.work());
                command.args(["--permission-profile", profile, "--", "bash"]);
                command
            }
        };
        command.args(["-c", &self.fill_in(script)]);
        ran_within(Duration::from_secs(120), self.dressed(&mut command))
    }

    /// Whether git on the host runs what was left, by any of its everyday commands in any folder. Of two versions, which
    /// do not take the same for a repository, both are asked.
    pub fn runs_something(&self) -> bool {
        self.one_runs_something(2)
    }

    /// The same with at most so many versions of git.
    fn one_runs_something(&self, most: usize) -> bool {
        let gits = ["/usr/bin/git", "/usr/local/bin/git"].map(PathBuf::from);
        let mut gits: Vec<PathBuf> =
            gits.into_iter().chain(program("git")).filter_map(|git| git.canonicalize().ok()).collect();
        gits.dedup();
        gits.truncate(most);
        gits.iter().any(|git| {
            let mut command = Command::new("bash");
            command.args(["-c", EVERYDAY]).env("GIT", git).env("CANARY", self.canary());
            ran_within(Duration::from_secs(300), self.dressed(&mut command));
            std::fs::remove_file(self.canary()).is_ok()
        })
    }
}

/// A way to have the host run something.
pub struct Attack {
    pub name: &'static str,
    /// What the host has done before.
    pub before: &'static str,
    /// What is done inside. At some levels parts of it fail.
    pub inside: &'static str,
}

/// Shows that an attack works without a level, and not with any.
#[track_caller]
pub fn fails(attack: &Attack) {
    works(attack);
    for way in ways(attack.name) {
        let Some(world) = World::new() else { return };
        world.host(attack.before);
        let ran = world.inside(way, attack.inside);
        assert_ne!(ran.code, 125, "{}: {way:?}: kennel itself failed\n{}", attack.name, ran.stderr);
        // What is set aside is the same at all levels, so the second version need not look at each.
        let versions = if matches!(way, Way::Agent | Way::Codex) { 2 } else { 1 };
        assert!(!world.one_runs_something(versions), "{}: {way:?}: it ran\n{}", attack.name, ran.stderr);
    }
}

#[track_caller]
pub fn works(attack: &Attack) {
    let Some(world) = World::new() else { return };
    world.host(attack.before);
    let ran = world.inside(OFF, attack.inside);
    assert!(
        world.runs_something(),
        "{}: it does not work without a level either\n{}",
        attack.name,
        ran.stderr
    );
}
