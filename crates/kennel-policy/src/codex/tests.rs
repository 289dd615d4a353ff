use std::ffi::OsString;

use super::*;
use crate::policy::{GitLevel, Missing, NetworkMode, Policy, ReadModel, UnixSockets};

fn around() -> CodexContext {
    CodexContext {
        policy_folder: "/repo".into(),
        tmpdir: Some("/var/t".into()),
        home: Some("/home/me".into()),
    }
}

fn policy(permissions: &Permissions) -> Policy {
    permissions.policy(&around())
}

fn paths(rules: &[crate::policy::PathRule]) -> Vec<String> {
    rules.iter().map(|rule| rule.pattern.to_string()).collect()
}

fn words(words: &[&str]) -> Result<Invocation, CodexError> {
    command_line(words.iter().map(OsString::from))
}

const READ_ONLY: &str = r#"{"type":"read-only"}"#;

#[test]
fn a_workspace_is_the_policys_folder_and_the_temporary_ones() {
    let policy = policy(&sandbox_policy(r#"{"type":"workspace-write","writable_roots":["/more"]}"#).unwrap());
    assert_eq!(paths(&policy.files.allow_write), ["/repo", "/more", "/tmp", "/var/t"]);
    let kept = |root: &str, names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("{root}/{name}")).collect()
    };
    let (named, with_git) = ([".codex", ".agents", ".aws"], [".codex", ".agents", ".aws", ".git"]);
    let all =
        [kept("/repo", &named), kept("/more", &named), kept("/tmp", &with_git), kept("/var/t", &with_git)];
    assert_eq!(paths(&policy.files.deny_write), all.concat());
    assert_eq!((policy.files.reads, policy.files.git), (ReadModel::Open, GitLevel::MetadataReadOnly));
    assert_eq!((policy.network.mode, policy.network.unix_sockets), (NetworkMode::None, UnixSockets::Listed));
    let text = r#"{"type":"workspace-write","exclude_tmpdir_env_var":true,"exclude_slash_tmp":true,"network_access":true}"#;
    let policy = super::tests::policy(&sandbox_policy(text).unwrap());
    assert_eq!(paths(&policy.files.allow_write), ["/repo"]);
    assert_eq!(policy.network.mode, NetworkMode::Host);
}

#[test]
fn the_forms_of_all_releases_mean_the_same() {
    let entries = r#"[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
        {"path":{"type":"special","value":{"kind":"current_working_directory"}},"access":"write"},
        {"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"},
        {"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"}]"#;
    let legacy = sandbox_policy(r#"{"type":"workspace-write"}"#).unwrap();
    let split =
        split_policies(&format!(r#"{{"kind":"restricted","entries":{entries}}}"#), "\"restricted\"").unwrap();
    let profile = permission_profile(&format!(
        r#"{{"type":"managed","file_system":{{"type":"restricted","entries":{entries}}},"network":"restricted"}}"#
    ));
    assert_eq!(split, legacy);
    assert_eq!(profile.unwrap(), legacy);
    let open = sandbox_policy(r#"{"type":"danger-full-access"}"#).unwrap();
    assert_eq!(split_policies(r#"{"kind":"unrestricted"}"#, "\"enabled\"").unwrap(), open);
    assert_eq!(permission_profile(r#"{"type":"disabled"}"#).unwrap(), open);
    assert_eq!(permission_profile(r#"{"type":"external","network":"enabled"}"#).unwrap(), open);
    assert_eq!(sandbox_policy(r#"{"type":"external-sandbox","network_access":"enabled"}"#).unwrap(), open);
}

#[test]
fn entries_become_rules_of_the_same_rank() {
    let text = r#"{"type":"managed","file_system":{"type":"restricted","entries":[
        {"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"},
        {"path":{"type":"special","value":{"kind":"project_roots","subpath":"src"}},"access":"write"},
        {"path":{"type":"path","path":"/repo/src/kept"},"access":"read"},
        {"path":{"type":"path","path":"/repo/both"},"access":"read"},
        {"path":{"type":"path","path":"/repo/both"},"access":"write"},
        {"path":{"type":"path","path":"/repo/no"},"access":"none"},
        {"path":{"type":"path","path":"/repo/later"},"access":"deny","missing_path_behavior":"skip"},
        {"path":{"type":"glob_pattern","pattern":"/repo/**/*.pem"},"access":"deny"},
        {"path":{"type":"special","value":{"kind":"unknown","path":"x"}},"access":"write"}]},"network":"restricted"}"#;
    let files = policy(&permission_profile(text).unwrap()).files;
    assert_eq!(files.reads, ReadModel::Listed);
    assert!(!files.system && paths(&files.allow_read).contains(&"/usr".to_owned()));
    assert_eq!(paths(&files.allow_write), ["/repo/src", "/repo/both"]);
    assert!(paths(&files.deny_write).contains(&"/repo/src/kept".to_owned()));
    assert!(!paths(&files.deny_write).contains(&"/repo/both".to_owned()));
    assert_eq!(paths(&files.deny_read), ["/repo/no", "/repo/later", "/repo/**/*.pem"]);
    assert_eq!(files.deny_read[0].missing, Missing::Skip);
    assert_eq!(files.deny_read[1].missing, Missing::Ignore);
}

#[test]
fn an_entry_that_names_a_protected_folder_opens_it() {
    let text =
        r#"{"file_system":{"read":["/"],"write":["/repo","/repo/.codex"]},"network":{"enabled":false}}"#;
    let files = policy(&permission_profile(text).unwrap()).files;
    assert!(!paths(&files.deny_write).contains(&"/repo/.codex".to_owned()));
    assert!(paths(&files.deny_write).contains(&"/repo/.agents".to_owned()));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for text in [
        "\"read-only\"",
        "{}",
        "[]",
        "{",
        r#"{"type":"nothing"}"#,
        r#"{"type":"workspace-write","writable_roots":["relative"]}"#,
        r#"{"type":"workspace-write","writable_roots":"/x"}"#,
        r#"{"type":"workspace-write","network_access":"x"}"#,
        r#"{"type":"external-sandbox","network_access":true}"#,
    ] {
        assert!(sandbox_policy(text).is_err(), "{text}");
    }
    for text in [
        "{}",
        r#"{"type":"managed"}"#,
        r#"{"type":"managed","file_system":{"type":"restricted","entries":[{"access":"read"}]}}"#,
        r#"{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"path","path":"x"},"access":"read"}]}}"#,
        r#"{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"glob_pattern","pattern":"/x/*"},"access":"read"}]}}"#,
        r#"{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"project_roots","subpath":"../x"}},"access":"write"}]}}"#,
        r#"{"type":"managed","file_system":{"type":"unrestricted"},"network":"some"}"#,
    ] {
        assert!(permission_profile(text).is_err(), "{text}");
    }
}

#[test]
fn the_command_line_is_read() {
    let run = words(&["--sandbox-policy-cwd", "/repo", "--sandbox-policy", READ_ONLY, "--", "ls", "--help"])
        .unwrap();
    let Invocation::Run { policy_folder, command, managed, .. } = run else { panic!("a run") };
    assert_eq!(policy_folder.to_str(), Some("/repo"));
    assert_eq!(command, ["ls", "--help"]);
    assert_eq!(managed, None);
    let policy = format!("--sandbox-policy={READ_ONLY}");
    let attached =
        ["--sandbox-policy-cwd=/repo", policy.as_str(), "--no-proc", "--proxy-route-spec", "{}", "ls", "-l"];
    let Invocation::Run { command, .. } = words(&attached).unwrap() else { panic!("a run") };
    assert_eq!(command, ["ls", "-l"]);
    assert_eq!(words(&["--help"]), Ok(Invocation::Help));
    for wrong in [
        &["--sandbox-policy", READ_ONLY, "ls"][..],
        &["--sandbox-policy-cwd", "/repo", "ls"],
        &["--sandbox-policy-cwd", "repo", "--sandbox-policy", READ_ONLY, "ls"],
        &["--sandbox-policy-cwd", "/repo", "--sandbox-policy", READ_ONLY],
        &["--sandbox-policy-cwd", "/repo", "--sandbox-policy"],
        &["--sandbox-policy-cwd", "/repo", "--network-sandbox-policy", "\"enabled\"", "ls"],
        &["--what"],
    ] {
        assert!(words(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_managed_network_is_read() {
    let managed = |context: &str| {
        let words = words(&[
            "--sandbox-policy-cwd",
            "/",
            "--sandbox-policy",
            READ_ONLY,
            "--managed-network",
            context,
            "ls",
        ]);
        words.map(|run| match run {
            Invocation::Run { managed, .. } => managed.map(|managed| managed.all_unix_sockets),
            _ => panic!("a run"),
        })
    };
    assert_eq!(managed("{}"), Ok(Some(false)));
    assert_eq!(managed("null"), Ok(None));
    assert_eq!(
        managed(r#"{"loopbackPorts":[1],"allowLocalBinding":false,"dangerouslyAllowAllUnixSockets":true}"#),
        Ok(Some(true))
    );
    for wrong in ["x", "[]", "true", r#"{"dangerouslyAllowAllUnixSockets":"yes"}"#] {
        assert!(managed(wrong).is_err(), "{wrong}");
    }
    let flag = words(&[
        "--sandbox-policy-cwd",
        "/",
        "--sandbox-policy",
        READ_ONLY,
        "--allow-network-for-proxy",
        "ls",
    ]);
    let Ok(Invocation::Run { managed, .. }) = flag else { panic!("a run") };
    assert_eq!(managed, Some(ManagedNetwork::default()));
}

#[test]
fn shared_memory_is_the_hosts_where_an_entry_is_about_it() {
    let shm = |root: &str, entry: &str| {
        let text = format!(
            r#"{{"type":"managed","file_system":{{"type":"restricted","entries":[
                {{"path":{{"type":"special","value":{{"kind":"{root}"}}}},"access":"read"}}{entry}]}},"network":"restricted"}}"#
        );
        let files = policy(&permission_profile(&text).unwrap()).files;
        let written = paths(&files.allow_write).iter().any(|path| path.starts_with("/dev/shm"));
        (files.host_shm, written)
    };
    let entry = |path: &str, access: &str| {
        format!(r#",{{"path":{{"type":"path","path":"{path}"}},"access":"{access}"}}"#)
    };
    for path in ["/", "/dev", "/dev/shm", "/dev/shm/x"] {
        assert_eq!(shm("root", &entry(path, "write")), (true, true), "{path}");
    }
    assert_eq!(shm("root", ""), (false, false));
    assert_eq!(shm("root", &entry("/dev/shm", "read")), (false, false));
    assert_eq!(shm("minimal", &entry("/dev/shm", "read")), (true, false));
    assert_eq!(shm("root", &entry("/dev/shm", "deny")), (false, false));
    assert!(policy(&permission_profile(r#"{"type":"disabled"}"#).unwrap()).files.host_shm);
}
