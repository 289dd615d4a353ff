//! Agents' own sandboxes. Inside one of kennel's they fail: they create namespaces, and place empty files at names that an
//! agent's profile protects. Under its profile an agent is therefore started with its own sandbox turned off, in the way
//! that it documents, and kennel says so.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;

use kennel_policy::merge::Merged;
use kennel_policy::policy::{NestedNamespaces, NetworkMode, Policy};

use super::{policy, say};
use crate::flags::RunArgs;

/// What an agent is given in addition.
#[derive(Debug, PartialEq, Eq)]
pub struct Switch {
    /// Arguments that follow the command's name.
    pub arguments: &'static [&'static str],
    /// What kennel says about it.
    pub note: &'static str,
}

const CODEX: Switch = Switch {
    arguments: &["-c", r#"sandbox_mode="danger-full-access""#],
    note: "codex runs with -c sandbox_mode=\"danger-full-access\": its own sandbox cannot run in this one, which protects \
           instead",
};

const CLAUDE: Switch = Switch {
    arguments: &["--settings", r#"{"sandbox":{"enabled":false}}"#],
    note: "claude runs with --settings '{\"sandbox\":{\"enabled\":false}}': its own sandbox cannot run in this one, which \
           protects instead",
};

/// No settings of an agent's are longer.
const MAX_BYTES: u64 = 1 << 20;

/// The command of a run; that of an agent under its own profile with the agent's own sandbox turned off. It is left on for whoever
/// allows sandboxes in the sandbox, and where kennel may protect less than the agent's own would: with the host's network, and
/// with best effort.
pub fn without(args: &RunArgs, merged: &Merged, cwd: &Path) -> Vec<OsString> {
    let mut command = args.command.clone();
    let name = command.first().and_then(|first| Path::new(first).file_name()).map(OsStr::to_owned);
    let under_its_profile =
        merged.profiles.iter().any(|profile| name.as_deref() == Some(OsStr::new(profile)));
    let Policy { process, network, best_effort, .. } = &merged.policy;
    let protects_less = *best_effort || network.mode == NetworkMode::Host;
    if !under_its_profile || process.nested != NestedNamespaces::Denied || protects_less {
        return command;
    }
    let home = policy::Lazy::default().base(cwd).home;
    if let Some(Switch { arguments, note }) = switch(&command, home.as_deref(), cwd) {
        command.splice(1..1, arguments.iter().map(OsString::from));
        if !args.quiet {
            say(&format!("kennel: note: {note}"));
        }
    }
    command
}

/// How to turn the own sandbox of the agent `command` off; `None` if it has none, or the caller says himself what to do.
pub fn switch(command: &[OsString], home: Option<&Path>, cwd: &Path) -> Option<Switch> {
    let (first, arguments) = command.split_first()?;
    match Path::new(first).file_name()?.to_str()? {
        "codex" if !arguments.iter().any(|argument| chooses_codex_sandbox(argument)) => Some(CODEX),
        // Its sandbox is off unless its settings turn it on.
        "claude" if !arguments.iter().any(|argument| is_flag(argument, "--settings")) => {
            let user = home.map(|home| home.join(".claude/settings.json"));
            let project = ["settings.json", "settings.local.json"].map(|name| cwd.join(".claude").join(name));
            user.into_iter().chain(project).any(|path| turns_sandbox_on(&path)).then_some(CLAUDE)
        }
        _ => None,
    }
}

fn is_flag(argument: &OsStr, flag: &str) -> bool {
    let rest = argument.as_encoded_bytes().strip_prefix(flag.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'=')
}

/// Whether an argument of Codex's is about its sandbox: `-s`, `--sandbox`, a configuration, or what implies one.
fn chooses_codex_sandbox(argument: &OsStr) -> bool {
    const FLAGS: [&str; 5] = [
        "--sandbox",
        "--full-auto",
        "--dangerously-bypass-approvals-and-sandbox",
        "--yolo",
        "--permission-profile",
    ];
    let text = argument.as_encoded_bytes();
    let configures = |key: &[u8]| text.windows(key.len()).any(|part| part == key);
    text.starts_with(b"-s") || FLAGS.iter().any(|flag| is_flag(argument, flag)) || configures(b"sandbox_mode")
}

/// Whether Claude Code's settings at a path turn its sandbox on. What cannot be read turns nothing on.
fn turns_sandbox_on(path: &Path) -> bool {
    // Not a FIFO, which would have to be waited for.
    if !path.metadata().is_ok_and(|found| found.is_file()) {
        return false;
    }
    let mut text = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text));
    let settings = read.ok().and_then(|_| serde_json::from_slice::<serde_json::Value>(&text).ok());
    settings.is_some_and(|settings| settings["sandbox"]["enabled"] == serde_json::Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str, home: Option<&Path>) -> Option<Switch> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        switch(&words, home, Path::new("/nothing"))
    }

    #[test]
    fn codex_runs_without_its_own_unless_told_otherwise() {
        for line in [
            "codex",
            "/opt/bin/codex exec hello",
            "codex resume",
            "codex -m o9 -c model=x",
            "codex exec --skip-git-repo-check x",
        ] {
            assert_eq!(of(line, None), Some(CODEX), "{line}");
        }
        for line in [
            "codex -s read-only",
            "codex -sread-only",
            "codex exec --sandbox workspace-write x",
            "codex --sandbox=workspace-write",
            "codex --full-auto",
            "codex -c sandbox_mode=read-only",
            "codex --dangerously-bypass-approvals-and-sandbox",
            "codex-other",
            "sh codex",
        ] {
            assert_eq!(of(line, None), None, "{line}");
        }
    }

    #[test]
    fn claudes_is_turned_off_where_its_settings_turn_it_on() {
        let home = std::env::temp_dir().join(format!("kennel-claude-{}", std::process::id()));
        std::fs::create_dir_all(home.join(".claude")).unwrap();
        let settings = home.join(".claude/settings.json");
        let mut told = Vec::new();
        for text in
            ["{}", "not json", r#"{"sandbox": {"enabled": false}}"#, r#"{"sandbox": {"enabled": true}}"#]
        {
            std::fs::write(&settings, text).unwrap();
            told.push(of("claude -p hello", Some(&home)).is_some());
        }
        let says_himself = of("claude --settings x.json", Some(&home));
        std::fs::remove_dir_all(&home).unwrap();
        assert_eq!(told, [false, false, false, true]);
        assert_eq!((of("claude", Some(&home)), says_himself, of("claude", None)), (None, None, None));
    }
}
