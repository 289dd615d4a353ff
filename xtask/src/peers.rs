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
    let complete = is_ours(folder) && WANTED.iter().all(|(_, file)| folder.join(file).exists());
    complete.then(|| folder.to_path_buf())
}

/// Whether a folder is ours. Anybody can make one in a place that all can write; what we run is our own.
pub fn is_ours(folder: &Path) -> bool {
    folder.symlink_metadata().is_ok_and(|data| data.is_dir() && data.uid() == user())
}

/// Installs what is missing. A failure is told, not returned: the comparisons are then skipped.
pub fn install() {
    if folder().is_some() {
        return;
    }
    if !by_npm(Path::new(FOLDER), WANTED) || folder().is_none() {
        println!("note: npm could not install them; the comparisons with srt and Codex are skipped");
    }
}

/// Installs packages into a folder of ours. Returns whether npm says that it did.
pub fn by_npm(folder: &Path, wanted: &[(&str, &str)]) -> bool {
    println!("installing {}", wanted.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" "));
    let ours = fs::create_dir(folder).is_ok() || is_ours(folder);
    let mut npm = Command::new("npm");
    npm.args(["install", "--save-exact", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
        .arg(folder);
    npm.args(["--fetch-retries=1", "--fetch-timeout=60000"]).args(wanted.iter().map(|(name, _)| *name));
    npm.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    ours && npm.status().is_ok_and(|end| end.success())
}

/// Another sandbox whose processes are clones of one, for `bench`: by pip, because it is a library for Python.
const SANDLOCK: &str = "sandlock==0.9.0";

/// The folder that it is installed in, if it is.
pub fn sandlock() -> Option<PathBuf> {
    let folder = Path::new(FOLDER).join("sandlock");
    (is_ours(Path::new(FOLDER)) && folder.join("sandlock/__init__.py").exists()).then_some(folder)
}

/// Installs it. A failure is told, not returned: the comparison is then skipped.
pub fn install_sandlock() {
    let folder = Path::new(FOLDER);
    if sandlock().is_some() {
        return;
    }
    println!("installing {SANDLOCK}");
    let ours = fs::create_dir(folder).is_ok() || is_ours(folder);
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1", "--no-deps"]);
    pip.arg("--target").arg(folder.join("sandlock")).arg(SANDLOCK);
    pip.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !ours || !pip.status().is_ok_and(|end| end.success()) {
        println!("note: pip could not install it; the comparison with it is skipped");
    }
}

/// /proc/self belongs to the effective user of the process that looks.
pub fn user() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |process| process.uid())
}
