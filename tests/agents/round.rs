//! One round of an agent: what it is given, what it is asked, and what has to have come of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kennel_tests::{Scratch, am_root, kennel_bin, program, skipped};
use serde_json::{Value, json};

use crate::agents::Agent;
use crate::model::{FINAL, Model};
use crate::screen::Screen;

/// Real hosts, which no test contacts: those that the profiles allow, and those that agents look for news at.
const REAL_HOSTS: &[&str] = &[
    "*.anthropic.com",
    "*.claude.com",
    "claude.ai",
    "*.claude.ai",
    "*.openai.com",
    "chatgpt.com",
    "*.googleapis.com",
    "*.google.com",
    "opencode.ai",
    "models.dev",
    "openrouter.ai",
    "*.deepseek.com",
    "github.com",
    "*.github.com",
    "*.githubusercontent.com",
    "registry.npmjs.org",
    "pypi.org",
];

/// Where an agent lives during its round.
pub struct World {
    scratch: Scratch,
    /// Its home.
    pub home: PathBuf,
    /// The project, where it starts.
    pub work: PathBuf,
    /// Where its model is, as seen from inside.
    pub base: String,
}

impl World {
    fn outside(&self, name: &str) -> PathBuf {
        self.scratch.join("outside").join(name)
    }

    /// Writes a file in its home.
    pub fn in_home(&self, name: &str, contents: &str) {
        let path = self.home.join(name);
        fs::create_dir_all(path.parent().expect("it is below the home")).expect("a scratch folder is writable");
        fs::write(path, contents).expect("a scratch folder is writable");
    }
}

/// Does a round, or says why not.
pub fn of(agent: &Agent) {
    let Some(installed) = std::env::var_os("KENNEL_AGENTS").map(PathBuf::from) else {
        return skipped(&format!("{}: the agents are not installed (KENNEL_AGENTS)", agent.name));
    };
    let file = installed.join(agent.program);
    if !file.exists() {
        return skipped(&format!("{}: {} is not installed", agent.name, file.display()));
    }
    if let Some(lacking) = ["tmux", "python3", "git", "curl"].iter().find(|name| program(name).is_none()) {
        return skipped(&format!("{}: {lacking} is not installed", agent.name));
    }
    let scratch = Scratch::new();
    let (home, work) = (scratch.dir("home"), scratch.dir("project"));
    project(&scratch);
    let script = script(&scratch);
    let model = Model::start(scratch.path(), &script);
    let base = format!("http://host.kennel.internal:{}", model.port);
    let world = World { scratch, home, work, base };
    (agent.configure)(&world);
    let report = world.scratch.join("report.json");
    let command = command(agent, &world, &installed, model.port, &report);
    let screen = Screen::start(world.scratch.path(), &command, agent.answers);
    let show = |what: &str, screen: &str| println!("=== {} {what}\n{screen}", agent.name);

    show("shows first", &screen.wait_for(&[agent.first_screen]));
    screen.type_text(agent.question);
    screen.wait("the question", |screen| screen.contains(agent.question));
    // Some take a line that comes in one piece with its end for one that was pasted.
    std::thread::sleep(std::time::Duration::from_millis(500));
    screen.press("Enter");
    show("has done the round", &screen.wait(FINAL, |screen| screen.contains(FINAL) && (agent.is_done)(screen)));
    for keys in agent.leave {
        match keys.strip_prefix("press:") {
            Some(key) => screen.press(key),
            None => screen.type_text(keys),
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    let (code, last) = screen.end();
    show("has left", &last);
    assert_eq!(code, 0, "it leaves as it does outside:\n{last}");
    check(agent, &world, &model, &report);
}

/// The project, a repository, and what is beside it.
fn project(scratch: &Scratch) {
    scratch.write("project/notes.txt", "The secret word is marmalade.\n");
    scratch.write("project/settings.ini", "colour = red\n");
    scratch.write("outside/kept.txt", "the host's\n");
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=A User", "-c", "user.email=user@example.com"]).args(words);
        git.current_dir(scratch.join("project")).env("GIT_CONFIG_GLOBAL", "/dev/null");
        assert!(git.output().expect("git can be started").status.success(), "git {words:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "The project"]);
}

fn script(scratch: &Scratch) -> Value {
    let path = |name: &str| scratch.join(name).display().to_string();
    json!([
        {"do": "read", "path": path("project/notes.txt")},
        {"do": "run", "command": format!("echo ran-it | tee {}", path("project/ran.txt"))},
        {"do": "edit", "path": path("project/settings.ini"), "old": "colour = red", "new": "colour = blue"},
        {"do": "write", "path": path("outside/planted.txt"), "content": "planted"},
        {"do": "run", "command": format!(
            "echo overwritten > {}; curl -sS -m 20 http://refused.example/", path("outside/kept.txt"))},
    ])
}

fn command(agent: &Agent, world: &World, installed: &Path, port: u16, report: &Path) -> Command {
    let mut command = Command::new(kennel_bin());
    command.current_dir(&world.work);
    let path = format!("{}:/usr/bin:/bin", installed.join("node_modules/.bin").display());
    let user = if am_root() { "root" } else { "nobody" };
    for (name, value) in [("PATH", path.as_str()), ("USER", user), ("LANG", "C.UTF-8"), ("TERM", "tmux-256color")] {
        command.env(name, value);
    }
    command.env("HOME", &world.home).env("COLORTERM", "truecolor");
    for (name, value) in (agent.environment)(world) {
        command.env(name, value);
    }
    command.args(["run", "--profile", agent.name, "--allow-domain", &format!("host.kennel.internal:{port}")]);
    for host in REAL_HOSTS {
        command.args(["--deny-domain", host]);
    }
    command.arg("--report").arg(report).arg("--").arg(installed.join(agent.program)).args(agent.arguments);
    command
}

/// What has to have come of it.
fn check(agent: &Agent, world: &World, model: &Model, report: &Path) {
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| format!("{error}"));
    // What the agent was allowed to do it did.
    let seen = format!("{:?}", model.requests());
    assert!(seen.contains("marmalade"), "it read the file and sent it: {seen}");
    assert_eq!(read(&world.work.join("ran.txt")), "ran-it\n", "it ran the command: {}", model.result_of(1));
    assert_eq!(read(&world.work.join("settings.ini")), "colour = blue\n", "{}", model.result_of(2));
    // What it was not allowed to do it was refused.
    assert!(!world.outside("planted.txt").exists(), "it wrote outside: {}", model.result_of(3));
    assert_eq!(read(&world.outside("kept.txt")), "the host's\n", "{}", model.result_of(4));
    let report: Value = serde_json::from_str(&read(report)).expect("a report is JSON");
    let decisions = report["network"].as_array().expect("it has decisions");
    let refused = decisions.iter().find(|decision| decision["host"] == "refused.example");
    assert_eq!(refused.expect("the host was tried")["allowed"], false, "{decisions:?}");
    for decision in decisions.iter().filter(|decision| decision["allowed"] == true) {
        assert_eq!(decision["host"], "host.kennel.internal", "only the stand-in was reached: {decision}");
    }
    // Its state is there for the next time.
    let kept = files(&world.home);
    println!("=== {} keeps\n{}", agent.name, kept.iter().map(|name| format!("  ~/{name}\n")).collect::<String>());
    for state in agent.state {
        assert!(
            kept.iter().any(|name| name.starts_with(state.0) && name.ends_with(state.1)),
            "nothing like ~/{}…{} was kept: {kept:?}",
            state.0,
            state.1
        );
    }
}

/// The files below a folder, by their paths in it.
fn files(folder: &Path) -> Vec<String> {
    fn walk(top: &Path, folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => walk(top, &path, found),
                _ => found.extend(path.strip_prefix(top).map(|name| name.display().to_string())),
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}
