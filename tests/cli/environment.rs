//! Which variables the command sees.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use kennel_tests::{kennel, kennel_bin};

/// The variables inside, sorted, for a caller that has these and PATH.
fn variables(flags: &[&OsStr], caller: &[(&str, &OsStr)]) -> Vec<OsString> {
    let mut command = kennel(["run"]);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").envs(caller.iter().copied());
    let output = command.args(flags).args(["--", "env", "-0"]).output().expect("kennel can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut list: Vec<OsString> = output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|pair| !pair.is_empty())
        .map(|pair| OsString::from_vec(pair.to_vec()))
        .collect();
    list.sort();
    list
}

fn with(flags: &[&str]) -> Vec<OsString> {
    let flags: Vec<&OsStr> = flags.iter().map(OsStr::new).collect();
    variables(
        &flags,
        &[
            ("TOKEN", OsStr::new("secret")),
            ("LANG", OsStr::new("C")),
            ("LC_TIME", OsStr::new("C")),
            ("KEEP", OsStr::new("1")),
        ],
    )
}

#[test]
fn the_callers_variables_pass_by_default() {
    assert_eq!(
        with(&[]),
        [
            "HOME=/nonexistent",
            "KEEP=1",
            "KENNEL=1",
            "LANG=C",
            "LC_TIME=C",
            "PATH=/usr/bin:/bin",
            "TMPDIR=/tmp",
            "TOKEN=secret"
        ]
    );
}

#[test]
fn a_cleared_environment_keeps_only_the_basics() {
    assert_eq!(
        with(&["--clear-env"]),
        ["HOME=/nonexistent", "KENNEL=1", "LANG=C", "LC_TIME=C", "PATH=/usr/bin:/bin", "TMPDIR=/tmp"]
    );
}

#[test]
fn variables_can_be_passed_set_and_left_out_by_name() {
    assert_eq!(
        with(&["--clear-env", "--pass-env", "KEEP", "--pass-env", "ABSENT"]),
        [
            "HOME=/nonexistent",
            "KEEP=1",
            "KENNEL=1",
            "LANG=C",
            "LC_TIME=C",
            "PATH=/usr/bin:/bin",
            "TMPDIR=/tmp"
        ]
    );
    assert_eq!(
        with(&["--unset-env", "TOKEN", "--unset-env", "LANG"]),
        ["HOME=/nonexistent", "KEEP=1", "KENNEL=1", "LC_TIME=C", "PATH=/usr/bin:/bin", "TMPDIR=/tmp"]
    );
    let set = with(&["--env", "KEEP=a=b c", "--env", "NEW=", "--env", "NEW=last", "--unset-env", "TOKEN"]);
    assert_eq!(
        set,
        [
            "HOME=/nonexistent",
            "KEEP=a=b c",
            "KENNEL=1",
            "LANG=C",
            "LC_TIME=C",
            "NEW=last",
            "PATH=/usr/bin:/bin",
            "TMPDIR=/tmp"
        ]
    );
    // Never passed on, even if it is passed on by name; but a value that is set wins.
    assert!(!with(&["--pass-env", "TOKEN", "--unset-env", "TOKEN"]).contains(&"TOKEN=secret".into()));
    assert!(with(&["--unset-env", "TOKEN", "--env", "TOKEN=other"]).contains(&"TOKEN=other".into()));
}

#[test]
fn a_variable_that_is_not_text_passes_as_it_is() {
    let bytes = OsStr::from_bytes(b"\xff\xfe\n");
    let mut pair = OsString::from("RAW=");
    pair.push(bytes);
    assert!(variables(&[], &[("RAW", bytes)]).contains(&pair));
    let set = variables(&[OsStr::new("--env"), &pair], &[]);
    assert!(set.contains(&pair));
}

#[test]
fn the_path_that_the_command_gets_is_where_it_is_looked_for() {
    let scratch = kennel_tests::Scratch::new();
    let tool = scratch.write("tool", "#!/bin/sh\necho found");
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut path = OsString::from("PATH=");
    path.push(scratch.path());
    let mut command = kennel(["run", "--env"]);
    assert_eq!(kennel_tests::ran(command.arg(&path).args(["--", "tool"])).ok().stdout, "found\n");
    // Without any PATH the usual folders are searched.
    kennel_tests::ran(kennel(["run", "--unset-env", "PATH", "--", "true"]).env_remove("PATH")).ok();
}

#[test]
fn the_environment_of_kennel_itself_is_not_needed() {
    let mut bare = std::process::Command::new(kennel_bin());
    bare.env_clear().args(["run", "--", "/bin/sh", "-c", "echo ok"]);
    assert_eq!(kennel_tests::ran(&mut bare).ok().stdout, "ok\n");
}

#[test]
fn the_inside_is_marked_unless_somebody_says_otherwise() {
    let marks = |flags: &[&str]| -> Vec<String> {
        let all = with(flags).into_iter().filter_map(|pair| pair.into_string().ok());
        all.filter(|pair| pair.starts_with("KENNEL=")).collect()
    };
    assert_eq!(marks(&["--clear-env"]), ["KENNEL=1"]);
    assert_eq!(marks(&["--env", "KENNEL=mine"]), ["KENNEL=mine"]);
    assert_eq!(marks(&["--unset-env", "KENNEL"]), [""; 0]);
}

#[test]
fn variables_from_settings_files_grow_by_name() {
    let scratch = kennel_tests::Scratch::new();
    scratch.write("a.toml", "[environment]\nset = { A = \"1\", B = \"1\" }\nunset = [\"TOKEN\"]");
    scratch.write(
        "b.json",
        "{\"environment\": {\"set\": {\"B\": \"2\"}, \"clear\": true, \"pass\": [\"KEEP\"]}}",
    );
    let (a, b) = (scratch.join("a.toml"), scratch.join("b.json"));
    let list = with(&["-s", a.to_str().unwrap(), "-s", b.to_str().unwrap()]);
    assert_eq!(
        list,
        [
            "A=1",
            "B=2",
            "HOME=/nonexistent",
            "KEEP=1",
            "KENNEL=1",
            "LANG=C",
            "LC_TIME=C",
            "PATH=/usr/bin:/bin",
            "TMPDIR=/tmp"
        ]
    );
}

/// What `env` shows and kennel says of a command with these variables.
fn with_secrets(flags: &[&str]) -> (String, String) {
    let scratch = kennel_tests::Scratch::new();
    let mut command = kennel_tests::kennel(["run", "--no-settings"]);
    command.args(flags).args(["--", "env"]).current_dir(scratch.path()).envs([
        ("GITHUB_TOKEN", "canary"),
        ("AWS_SECRET_ACCESS_KEY", "canary"),
        ("ANTHROPIC_API_KEY", "canary"),
        ("SSH_AUTH_SOCK", "/canary"),
        // By its value, whatever the name.
        ("DATABASE", "postgres://me:canary@db.example/x"),
        ("PLAIN", "stays"),
    ]);
    let ran = kennel_tests::ran(&mut command).ok();
    (ran.stdout, ran.stderr)
}

#[test]
#[kennel_claim::claim("inherited/secret-variables-stay-outside")]
fn profile_agent_keeps_secrets_outside_and_one_can_be_passed() {
    let (shown, said) = with_secrets(&[]);
    assert_eq!(shown.matches("canary").count(), 5, "without the profile they pass: {shown}");
    assert!(!said.contains("outside"), "{said}");
    let (shown, said) = with_secrets(&["--profile", "agent"]);
    assert!(!shown.contains("canary") && shown.contains("PLAIN=stays\n"), "{shown}");
    let line = "kennel: note: kept ANTHROPIC_API_KEY, AWS_SECRET_ACCESS_KEY, DATABASE, GITHUB_TOKEN, SSH_AUTH_SOCK outside: \
                look like secrets; to let it be used: --secret ANTHROPIC_API_KEY; to pass one on: --pass-env ANTHROPIC_API_KEY";
    assert!(said.lines().any(|said| said == line) && !said.contains("canary"), "{said}");
    let (shown, _) = with_secrets(&["--profile", "agent", "--net", "host"]);
    assert!(!shown.contains("canary"), "{shown}");
    let (shown, said) = with_secrets(&["--profile", "agent", "--pass-env", "GITHUB_TOKEN", "--quiet"]);
    assert_eq!((shown.matches("canary").count(), said.as_str()), (1, ""), "{shown}");
    assert!(shown.contains("GITHUB_TOKEN=canary\n"), "{shown}");
    let (shown, _) = with_secrets(&["--profile", "agent", "--env-secrets", "pass"]);
    assert_eq!(shown.matches("canary").count(), 5, "{shown}");
    // An agent's own profile passes the agent's own key.
    let (shown, _) = with_secrets(&["--profile", "claude", "--best-effort"]);
    assert_eq!(shown.matches("canary").count(), 1, "{shown}");
    assert!(shown.contains("ANTHROPIC_API_KEY=canary\n"), "{shown}");
}

#[test]
#[kennel_claim::claim("inherited/secret-variables-stay-outside")]
fn with_an_allow_list_secrets_stay_outside() {
    let (shown, said) = with_secrets(&["--allow-domain", "example.com"]);
    assert!(!shown.contains("canary") && said.contains("--pass-env"), "{shown}{said}");
    let (shown, _) = with_secrets(&["--allow-domain", "example.com", "--env-secrets", "pass"]);
    assert_eq!(shown.matches("canary").count(), 5, "{shown}");
    let (shown, _) = with_secrets(&["--env-secrets", "withhold", "--secret-name", "pl*n"]);
    assert!(!shown.contains("canary") && !shown.contains("PLAIN"), "{shown}");
    // What the policy sets is what somebody wanted.
    let (shown, _) = with_secrets(&["--allow-domain", "example.com", "--env", "GITHUB_TOKEN=chosen"]);
    assert!(shown.contains("GITHUB_TOKEN=chosen\n"), "{shown}");
}

#[test]
fn the_list_of_secrets_can_be_printed() {
    let scratch = kennel_tests::Scratch::new();
    let mut command = kennel_tests::kennel(["secrets"]);
    command.current_dir(scratch.path()).env("HOME", scratch.path()).env("MY_TOKEN", "canary");
    let text = kennel_tests::ran(&mut command).ok().stdout;
    assert!(
        text.contains("  *_TOKEN\n") && text.contains("  MY_TOKEN\n") && !text.contains("canary"),
        "{text}"
    );
    command.arg("--json");
    let json = kennel_tests::ran(&mut command).ok().stdout;
    assert!(json.contains("\"found\": [") && json.contains("\"MY_TOKEN\""), "{json}");
}
