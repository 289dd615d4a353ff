//! The real Codex, which runs its commands through kennel.

use std::process::Command;
use std::time::Duration;

use kennel_tests::{Ran, ran_within};

use crate::compat::codex_policies::Yard;
use crate::compat::peers;

/// `codex sandbox` with kennel for its helper.
fn codex(yard: &Yard, profile: &str, script: &str) -> Option<Ran> {
    let codex = peers::Codex::Profile.path()?;
    let helper = yard.helper();
    let state = serde_json::json!({
        "permissionProfile": serde_json::from_str::<serde_json::Value>(profile).expect("JSON"),
        "codexLinuxSandboxExe": helper.get_program().to_str(),
        "sandboxCwd": format!("file://{}", yard.repo().display()),
    });
    let mut command = Command::new(codex);
    command.args(["sandbox", "--sandbox-state-json", &state.to_string(), "--", "bash", "-c", script]);
    command.current_dir(yard.repo()).env("HOME", yard.at("")).env("CODEX_HOME", yard.at("codex-home"));
    std::fs::create_dir_all(yard.at("codex-home")).expect("a scratch folder is writable");
    Some(ran_within(Duration::from_secs(60), command.stdin(std::process::Stdio::null())))
}

const WORKSPACE: &str = r#"{"type":"managed","file_system":{"type":"restricted","entries":[
    {"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
    {"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}]},"network":"restricted"}"#;

#[test]
fn codex_runs_its_commands_through_kennel() {
    let Some(yard) = Yard::new() else { return };
    let script = "echo ok > made; echo x > .git/config; echo x > ../outside/x; cat /proc/1/comm; exit 9";
    let Some(ran) = codex(&yard, WORKSPACE, script) else { return };
    assert_eq!(ran.code, 9, "{}{}", ran.stdout, ran.stderr);
    assert!(yard.repo().join("made").exists());
    assert!(!yard.at("outside/x").exists());
    assert_eq!(ran.stderr.matches("Read-only file system").count(), 2, "{}", ran.stderr);
    assert!(ran.stdout.contains("kennel") || ran.stdout.contains("codex-linux"), "PID 1 is {}", ran.stdout);
}

#[test]
fn codex_reads_only_where_its_profile_says_so() {
    let Some(yard) = Yard::new() else { return };
    let profile = r#"{"type":"managed","file_system":{"type":"restricted","entries":[
        {"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"}"#;
    let Some(ran) = codex(&yard, profile, "cat .git/HEAD; echo x > made") else { return };
    assert!(ran.code != 0 && ran.stdout.contains("ref:"), "{}{}", ran.stdout, ran.stderr);
    assert!(!yard.repo().join("made").exists());
}

/// Codex passes the folder that a command starts in, whether its profile shows it or not.
#[test]
fn codex_runs_a_command_whose_folder_is_hidden() {
    let Some(yard) = Yard::new() else { return };
    let profile = r#"{"type":"managed","file_system":{"type":"restricted","entries":[
        {"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"}]},"network":"restricted"}"#;
    let Some(ran) = codex(&yard, profile, "/bin/pwd; ls / | grep -c var") else { return };
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "/\n0\n"), "{}", ran.stderr);
}
