//! Where the real programs are. `cargo xtask test` installs them and says where, in `KENNEL_PEERS`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use kennel_tests::{Scratch, kennel_bin, program, skipped};

/// The version of srt whose behaviour is compared.
pub const SRT: &str = "0.0.83";

fn modules() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("KENNEL_PEERS")?).join("node_modules");
    folder.is_dir().then_some(folder)
}

/// The real srt, as a command that still lacks its arguments; `None`, and said so, where it cannot run.
pub fn srt() -> Option<Command> {
    static WHY_NOT: OnceLock<Option<String>> = OnceLock::new();
    let missing = WHY_NOT.get_or_init(|| {
        let Some(modules) = modules() else { return Some("it is not installed (KENNEL_PEERS)".into()) };
        for helper in ["bwrap", "socat", "rg"] {
            if program(helper).is_none() {
                return Some(format!("it needs {helper}, which is not installed"));
            }
        }
        let version = srt_in(&modules).arg("--version").output();
        let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        match version {
            Ok(version) if version == SRT => try_it(&modules),
            Ok(version) => Some(format!("it is version {version:?}, not {SRT}")),
            Err(error) => Some(error.to_string()),
        }
    });
    match missing {
        None => Some(srt_in(&modules()?)),
        Some(why) => {
            skipped(&format!("the comparison with srt: {why}"));
            None
        }
    }
}

fn srt_in(modules: &Path) -> Command {
    let mut command = Command::new(modules.join(".bin/node"));
    command.arg(modules.join("@anthropic-ai/sandbox-runtime/dist/cli.js"));
    command
}

/// node, and the module of srt's that checks settings; `None`, and said so, where it is not installed.
pub fn srt_schema() -> Option<(PathBuf, PathBuf)> {
    let Some(modules) = modules() else {
        skipped("the comparison with srt's schema: it is not installed (KENNEL_PEERS)");
        return None;
    };
    let schema = modules.join("@anthropic-ai/sandbox-runtime/dist/sandbox/sandbox-config.js");
    Some((modules.join(".bin/node"), schema))
}

/// Whether this host lets srt's helpers make a sandbox.
fn try_it(modules: &Path) -> Option<String> {
    let home = Scratch::new();
    let output =
        srt_in(modules).args(["-c", "true"]).env("HOME", home.path()).current_dir(home.path()).output();
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("it fails here: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Some(error.to_string()),
    }
}

/// The releases of Codex that kennel is compared with: one for each form in which they hand a policy to their helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codex {
    /// 0.80: `--sandbox-policy`, kept by Landlock alone. The releases that had mounts instead, 0.81 to 0.84, are not
    /// to be had from npm.
    Landlock,
    /// 0.111: the same, and bwrap for who asks for it.
    OptionalBwrap,
    /// 0.125: `--file-system-sandbox-policy` and `--network-sandbox-policy`.
    Pair,
    /// 0.166: `--permission-profile`.
    Profile,
}

impl Codex {
    /// The command; `None`, and said so, where it is not installed.
    pub fn path(self) -> Option<PathBuf> {
        let short = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        let (package, folder) = match self {
            Codex::Landlock => ("codex-0.80".to_owned(), "codex"),
            Codex::OptionalBwrap => ("codex-0.111".to_owned(), "codex"),
            Codex::Pair => ("codex-0.125".to_owned(), "codex"),
            Codex::Profile => (format!("@openai/codex-linux-{short}"), "bin"),
        };
        let below = format!("{package}/vendor/{}-unknown-linux-musl/{folder}/codex", std::env::consts::ARCH);
        let path = modules().map(|modules| modules.join(below)).filter(|path| path.is_file());
        if path.is_none() {
            skipped(&format!("the comparison with Codex: {package} is not installed (KENNEL_PEERS)"));
        }
        path
    }
}

/// kennel under another name, by a link in `folder`.
pub fn kennel_as(name: &str, folder: &Path) -> PathBuf {
    let link = folder.join(name);
    if !link.exists() {
        std::os::unix::fs::symlink(kennel_bin(), &link).expect("a scratch folder takes a link");
    }
    link
}
