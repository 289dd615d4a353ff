//! Secrets of sandboxes that a program makes: what the command holds of them, by every way to run one.

use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::path::Path;

use kennel::policy::domain::{HostRule, ListKind};
use kennel::policy::policy::{Origin, Policy};
use kennel::policy::secrets::{AbsentSecret, MaskedFile, SecretMode, SecretRule, SecretSource, SwapIn};
use kennel::{NetworkMode, Sandbox, SandboxError};
use kennel_tests::Scratch;

/// It holds a prefix that makers use, and letters that no other text here has.
const REAL: &str = "ghp_aReALvaLueThatNobodyInsideMaySee00";

fn secret(name: &str, source: SecretSource, mode: SecretMode) -> SecretRule {
    let host = HostRule::parse("api.test", ListKind::Allow).expect("a rule");
    SecretRule {
        name: name.into(),
        source,
        mode,
        hosts: if mode == SecretMode::Swap { vec![host] } else { Vec::new() },
        variable: Some(name.into()),
        files: Vec::new(),
        swap_in: SwapIn::default(),
        parts: None,
        absent: AbsentSecret::Error,
        origin: Origin("the test".into()),
    }
}

fn policy(secrets: Vec<SecretRule>) -> Policy {
    let mut policy = Policy::default();
    policy.network.mode = NetworkMode::AllowList;
    policy.network.allow = secrets.iter().flat_map(|secret| secret.hosts.clone()).collect();
    policy.secrets = secrets;
    policy
}

fn of_value(name: &str) -> SecretRule {
    secret(name, SecretSource::Value(REAL.into()), SecretMode::Swap)
}

/// Looks everywhere that a command can look for the real value, and says where it is.
const SEARCH: &str = r#"
    tr '\0' '\n' </proc/self/environ | grep -c "$1" >&2 && exit 1
    for file in /proc/[0-9]*/environ /proc/[0-9]*/cmdline /run/kennel/*; do
        grep -q "$1" "$file" 2>/dev/null && echo "$file" >&2 && exit 1
    done
    printf '%s' "$TOKEN"
"#;

fn searched(command: kennel::Command) -> String {
    let mut command = command;
    let pattern = "aReALvaLue[T]hat";
    let result = command.args(["-c", SEARCH, "sh", pattern]).output().expect("it runs");
    assert!(result.success(), "{}", result.stderr);
    result.stdout
}

fn check_stand_in(text: &str) {
    assert!(text.starts_with("ghp_") && text.len() == REAL.len() && text != REAL, "{text}");
}

#[test]
#[kennel_claim::claim("secrets/library-holds-stand-ins")]
fn a_command_a_session_and_a_pool_hold_stand_ins_only() {
    let sandbox = Sandbox::from_policy(policy(vec![of_value("TOKEN")])).expect("a sandbox");
    let one = searched(sandbox.command("sh"));
    check_stand_in(&one);
    let session = sandbox.session().expect("a session");
    let (first, second) = (searched(session.command("sh")), searched(session.command("sh")));
    check_stand_in(&first);
    assert_eq!(first, second, "one sandbox has one stand-in");
    assert_ne!(one, first, "and another one another");
    session.end().expect("it ends");
    let zygote = kennel::Zygote::start().expect("a zygote");
    let pool = zygote.pool(&sandbox, 1).expect("a pool");
    for _ in 0..3 {
        check_stand_in(&searched(pool.command("sh")));
    }
}

#[test]
#[kennel_claim::claim("secrets/library-holds-stand-ins")]
fn the_search_finds_a_value_that_is_injected() {
    let inject = secret("TOKEN", SecretSource::Value(REAL.into()), SecretMode::Inject);
    let sandbox = Sandbox::from_policy(policy(vec![inject])).expect("a sandbox");
    let mut command = sandbox.command("sh");
    let result = command.args(["-c", SEARCH, "sh", "aReALvaLue[T]hat"]).output().expect("it runs");
    assert!(!result.success());
}

#[test]
#[kennel_claim::claim("secrets/library-holds-stand-ins")]
fn no_other_variable_and_no_argument_holds_the_value() {
    let sandbox = Sandbox::from_policy(policy(vec![of_value("TOKEN")])).expect("a sandbox");
    let script = r#"echo "$OTHER"; echo "$BASIC"; echo "$1"; echo "$TOKEN""#;
    let mut command = sandbox.command("sh");
    // `x:` and the value, as a program's Basic login has it.
    let basic = "eDpnaHBfYVJlQUx2YUx1ZVRoYXROb2JvZHlJbnNpZGVNYXlTZWUwMA==";
    command.args(["-c", script, "sh"]).arg(format!("--token={REAL}"));
    command.env("OTHER", format!("Authorization: token {REAL}")).env("BASIC", basic);
    let result = command.output().expect("it runs");
    let lines: Vec<&str> = result.stdout.lines().collect();
    let stand_in = lines[3];
    check_stand_in(stand_in);
    assert_eq!(lines[0], format!("Authorization: token {stand_in}"));
    assert_ne!(lines[1], basic);
    assert_eq!(lines[2], format!("--token={stand_in}"));
}

#[test]
#[kennel_claim::claim("secrets/source-files-are-hidden")]
fn a_file_that_holds_the_value_is_hidden_or_shows_the_stand_in() {
    let scratch = Scratch::new();
    let (source, masked) = (scratch.path().join("source"), scratch.path().join("npmrc"));
    std::fs::write(&source, format!("{REAL}\n")).expect("written");
    std::fs::write(&masked, format!("//registry/:_authToken={REAL}\nemail=me\n")).expect("written");
    let mut rule = secret("TOKEN", SecretSource::File(source.clone()), SecretMode::Swap);
    rule.files = vec![MaskedFile { path: masked.clone(), rest: true }];
    let mut policy = policy(vec![rule]);
    // Whatever else shows them.
    let allow = kennel::Sandbox::builder().allow_write(scratch.path()).build().expect("a sandbox");
    policy.files = allow.policy().files.clone();
    let sandbox = Sandbox::from_policy(policy).expect("a sandbox");
    let read = |path: &Path| {
        let result = sandbox.command("cat").arg(path).output().expect("it runs");
        result.stdout
    };
    assert_eq!(read(&source), "");
    let shown = read(&masked);
    assert!(shown.starts_with("//registry/:_authToken=ghp_") && shown.ends_with("\nemail=me\n"), "{shown}");
    assert!(!shown.contains(REAL), "{shown}");
    let script = format!("echo x > {0}; rm -f {0}; mv {0} {0}2; cat {1}", masked.display(), source.display());
    sandbox.command("sh").args(["-c", &script]).output().expect("it runs");
    let kept = std::fs::read_to_string(&masked).expect("it is there");
    assert!(kept.contains(REAL), "the host's file is as it was");
}

#[test]
#[kennel_claim::claim("secrets/certificate-stays")]
fn programs_are_led_to_a_bundle_that_holds_the_sandboxs_certificate() {
    let sandbox = Sandbox::from_policy(policy(vec![of_value("TOKEN")])).expect("a sandbox");
    let script = r#"
        for name in SSL_CERT_FILE NODE_EXTRA_CA_CERTS CURL_CA_BUNDLE REQUESTS_CA_BUNDLE GIT_SSL_CAINFO PIP_CERT \
            CARGO_HTTP_CAINFO DENO_CERT AWS_CA_BUNDLE NIX_SSL_CERT_FILE npm_config_cafile; do
            eval "test -r \"\$$name\"" || { echo "$name"; exit 1; }
        done
        grep -c BEGIN "$SSL_CERT_FILE"; grep -l PRIVATE /run/kennel/*; echo x > "$SSL_CERT_FILE" || rm -f "$SSL_CERT_FILE"
    "#;
    let result = sandbox.command("sh").args(["-c", script]).output().expect("it runs");
    assert!(!result.success(), "it cannot be changed: {}", result.stdout);
    let count: usize = result.stdout.lines().next().and_then(|line| line.parse().ok()).unwrap_or(0);
    assert!(count >= 1, "{} {}", result.stdout, result.stderr);
    assert!(!result.stdout.contains("/run/kennel"), "{}", result.stdout);
    // A sandbox without secrets has none of it.
    let plain = Sandbox::from_policy(Policy::default()).expect("a sandbox");
    let result = plain.command("sh").args(["-c", "ls /run/kennel"]).output().expect("it runs");
    assert!(!result.success());
}

#[test]
fn what_cannot_be_is_an_error_that_says_what_to_do() {
    let error = |policy: Policy| {
        let sandbox = Sandbox::from_policy(policy).expect("a sandbox");
        sandbox.command("true").output().expect_err("it does not start")
    };
    let mut on_host = policy(vec![of_value("TOKEN")]);
    on_host.network.mode = NetworkMode::Host;
    let said = error(on_host);
    assert!(matches!(said, SandboxError::ConfigValidation(_)), "{said:?}");
    assert!(said.to_string().contains("help: "), "{said}");
    for (source, expected) in [
        (SecretSource::Env("KENNEL_TEST_NO_SUCH".into()), "not set"),
        (SecretSource::File("/nowhere".into()), "No such file"),
        (SecretSource::Command(vec![OsString::from("false")]), "exited with 1"),
        (SecretSource::Value(b"short".to_vec()), "less than"),
        (SecretSource::Value(b"with\r\na-line-break".to_vec()), "line break"),
    ] {
        let said = error(policy(vec![secret("TOKEN", source, SecretMode::Swap)])).to_string();
        assert!(said.contains("TOKEN") && said.contains(expected) && said.contains("help: "), "{said}");
        assert!(!said.contains("a-line-break"), "{said}");
    }
}

#[test]
#[kennel_claim::claim("secrets/source-files-are-hidden")]
fn a_masked_file_that_the_host_replaces_is_hidden() {
    let scratch = Scratch::new();
    let masked = scratch.write("token", &format!("{REAL}\n"));
    let mut rule = of_value("TOKEN");
    rule.files = vec![MaskedFile { path: masked.clone(), rest: true }];
    let sandbox = Sandbox::from_policy(policy(vec![rule])).expect("a sandbox");
    let script = format!(
        "cat {0}; echo ready; read -r line; for i in $(seq 200); do cat {0} 2>/dev/null; sleep 0.01; done",
        masked.display()
    );
    let mut command = sandbox.command("sh");
    command.args(["-c", &script]).stdin(kennel::Stdio::piped()).stdout(kennel::Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut lines = std::io::BufReader::new(child.take_stdout().expect("a pipe")).lines();
    check_stand_in(&lines.next().expect("a line").expect("text"));
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    // Names are watched after a tenth of a second.
    std::thread::sleep(std::time::Duration::from_millis(400));
    let other = scratch.write("other", &format!("{REAL}\n"));
    let mut input = child.take_stdin().expect("a pipe");
    std::fs::rename(&other, &masked).expect("replaced");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    input.write_all(b"go\n").expect("it reads");
    let shown: Vec<String> = lines.map(|line| line.expect("text")).collect();
    assert!(shown.iter().all(|line| line != REAL), "{} lines show the new file", shown.len());
    child.wait().expect("it ends");
}
