//! The agents that `tests/agents` runs under their profiles: from npm and PyPI, in the versions that the profiles were tried
//! with, in a folder that stays for the next run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::peers;

/// Where, because an ordinary user has to reach it.
const FOLDER: &str = "/var/tmp/kennel-agents";

/// goose's package for this platform.
#[cfg(target_arch = "aarch64")]
macro_rules! goose {
    () => {
        "@aaif/goose-binary-linux-arm64"
    };
}
#[cfg(not(target_arch = "aarch64"))]
macro_rules! goose {
    () => {
        "@aaif/goose-binary-linux-x64"
    };
}

/// What npm has, and the file by which it is known to be there. Most of them want a newer node than most systems have.
const WANTED: &[(&str, &str)] = &[
    ("node@22", "node_modules/.bin/node"),
    ("@anthropic-ai/claude-code@2.1.325", "node_modules/.bin/claude"),
    ("@openai/codex@0.166.0", "node_modules/.bin/codex"),
    ("@google/gemini-cli@0.61.0", "node_modules/.bin/gemini"),
    ("opencode-ai@1.18.33", "node_modules/.bin/opencode"),
    (concat!(goose!(), "@1.52.0"), concat!("node_modules/", goose!(), "/bin/goose")),
];

/// What PyPI has, in an environment of its own, and the program in it.
const AIDER: (&str, &str) = ("aider-chat==0.86.2", "aider/bin/aider");

/// goose under its own name: its package calls the command by the platform's.
const GOOSE: (&str, &str) = (concat!("../node_modules/", goose!(), "/bin/goose"), "goose/goose");

/// The folder, if there is one: a test of an agent that is missing in it is skipped.
pub fn folder() -> Option<PathBuf> {
    let folder = Path::new(FOLDER);
    peers::is_ours(folder).then(|| folder.to_path_buf())
}

/// Installs what is missing. A failure is told, not returned: the tests are then skipped.
pub fn install() {
    let folder = Path::new(FOLDER);
    let is_there = |file: &str| peers::is_ours(folder) && folder.join(file).exists();
    if !WANTED.iter().all(|(_, file)| is_there(file)) && !peers::by_npm(folder, WANTED) {
        println!("note: npm could not install them all; the tests with the others are skipped");
    }
    if !is_there(GOOSE.1) && peers::is_ours(folder) {
        let made = std::fs::create_dir_all(folder.join("goose"));
        let linked = made.and_then(|()| std::os::unix::fs::symlink(GOOSE.0, folder.join(GOOSE.1)));
        if let Err(error) = linked {
            println!("note: linking {FOLDER}/{}: {error}", GOOSE.1);
        }
    }
    if !is_there(AIDER.1) && peers::is_ours(folder) && !by_pip(&folder.join("aider")) {
        println!("note: pip could not install {}; the tests with it are skipped", AIDER.0);
    }
}

fn by_pip(place: &Path) -> bool {
    println!("installing into {}: {}", place.display(), AIDER.0);
    let quietly = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|end| end.success())
    };
    // The system's own interpreter: one in somebody's home is not to be had for other users.
    let made = quietly(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(place));
    let mut pip = Command::new(place.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", AIDER.0]);
    made && quietly(&mut pip)
}
