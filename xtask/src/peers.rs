//! The programs whose names kennel answers to, for the comparisons in `tests/compat` and `bench`: by npm, in the versions
//! that the documents speak of, in a folder that stays for the next run.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where, because an ordinary user has to reach it.
const FOLDER: &str = "/var/tmp/kennel-peers";

/// How Codex calls this platform.
#[cfg(target_arch = "aarch64")]
macro_rules! platform {
    () => {
        "linux-arm64"
    };
}
#[cfg(not(target_arch = "aarch64"))]
macro_rules! platform {
    () => {
        "linux-x64"
    };
}

/// What, and the file by which it is known to be there. srt wants a newer node than most systems have. Of Codex, one
/// release for each form that its policies have had; before 0.99 a package holds all platforms.
const WANTED: &[(&str, &str)] = &[
    ("@anthropic-ai/sandbox-runtime@0.0.83", "node_modules/@anthropic-ai/sandbox-runtime/dist/cli.js"),
    ("node@22", "node_modules/.bin/node"),
    ("@openai/codex@0.166.0", "node_modules/@openai/codex/package.json"),
    ("codex-0.80@npm:@openai/codex@0.80.0", "node_modules/codex-0.80/package.json"),
    (concat!("codex-0.111@npm:@openai/codex@0.111.0-", platform!()), "node_modules/codex-0.111/package.json"),
    (concat!("codex-0.125@npm:@openai/codex@0.125.0-", platform!()), "node_modules/codex-0.125/package.json"),
];

/// The folder, if everything is there.
pub fn folder() -> Option<PathBuf> {
    let folder = Path::new(FOLDER);
    // Anybody can make a folder there; what we run is our own.
    let own = |path: &Path| path.symlink_metadata().is_ok_and(|data| data.uid() == user());
    let complete = own(folder) && WANTED.iter().all(|(_, file)| folder.join(file).exists());
    complete.then(|| folder.to_path_buf())
}

/// Installs what is missing. A failure is told, not returned: the comparisons are then skipped.
pub fn install() {
    if folder().is_some() {
        return;
    }
    println!("installing {}", WANTED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" "));
    let made = fs::create_dir(FOLDER);
    let ours =
        made.is_ok() || fs::symlink_metadata(FOLDER).is_ok_and(|data| data.is_dir() && data.uid() == user());
    let mut npm = Command::new("npm");
    npm.args(["install", "--prefix", FOLDER, "--save-exact", "--no-audit", "--no-fund", "--loglevel=error"]);
    npm.args(["--fetch-retries=1", "--fetch-timeout=60000"]).args(WANTED.iter().map(|(name, _)| *name));
    npm.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !ours || !npm.status().is_ok_and(|end| end.success()) || folder().is_none() {
        println!("note: npm could not install them; the comparisons with srt and Codex are skipped");
    }
}

/// /proc/self belongs to the effective user of the process that looks.
pub fn user() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |process| process.uid())
}
