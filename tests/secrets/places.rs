//! Files that a policy names: whose links are followed, and what of them shows. And where a bound host can be reached.

use serde_json::json;

use crate::secrets::{Setup, have, skipped, upstream};

const DENIED: &str = "denied-contents-of-the-users-own";

/// A sandbox that can write `w` in its home and not read `denied`, with a secret's rule.
fn with_rule(rule: serde_json::Value) -> Option<Setup> {
    let upstream = upstream()?;
    let setup = Setup::new(upstream, &[]);
    setup.home.write("denied/key", &format!("{DENIED}\n"));
    setup.home.write("w/plain", "plain");
    let (w, denied) = (setup.home.join("w"), setup.home.join("denied"));
    Some(
        setup
            .set("files", json!({"allow_write": [w], "deny_read": [denied]}))
            .set("secrets.FILED", rule)
            .variable("FILED", "ghp_0123456789abcdefghijklmnopqrstuvwxyz"),
    )
}

fn link(to: &str, at: std::path::PathBuf) {
    std::os::unix::fs::symlink(to, at).expect("a link is made");
}

#[test]
fn a_mount_that_can_be_written_is_not_followed_either() {
    for masked in [false, true] {
        let Some(setup) = with_rule(json!({"hosts": ["planted.web.test"]})) else { return };
        std::fs::create_dir(setup.home.join("mounted")).expect("a folder is made");
        link("../denied/key", setup.home.join("mounted/key"));
        let full = setup.home.join("mounted/key").display().to_string();
        let mount = json!([{"source": setup.home.join("mounted"), "target": "/mnt", "access": "read-write"}]);
        let setup = match masked {
            true => {
                setup.set("secrets.FILED.files", json!([full])).set("secrets.FILED.from", json!("env:FILED"))
            }
            false => setup.set("secrets.FILED.from", json!(format!("file:{full}"))),
        };
        let told = setup.set("files.mounts", mount).sh(&format!("cat {full}; printenv FILED"));
        assert!(!told.ran.stdout.contains(DENIED) && told.ran.code != 0, "masked {masked}: {told:#?}");
        let why = "is a link in a folder that the command can write";
        assert!(told.ran.stderr.contains(why), "masked {masked}: {told:#?}");
    }
}

#[test]
fn the_gateways_log_is_where_the_command_cannot_reach_it() {
    let Some(upstream) = upstream() else { return };
    let start = |log: &dyn Fn(&Setup) -> String| {
        let setup = Setup::new(upstream, &[]).gateway(upstream, &crate::secrets::clients::OPENAI);
        std::fs::create_dir_all(setup.home.join("w")).expect("a folder is made");
        let log = log(&setup);
        let writable = setup.home.join("w");
        setup.set("files.allow_write", json!([writable])).set("gateway.log", json!(log)).sh("true")
    };
    let told = start(&|setup| setup.home.join("gateway.log").display().to_string());
    assert_eq!(told.ran.code, 0, "{told:#?}");
    let told = start(&|setup| setup.home.join("w/gateway.log").display().to_string());
    assert!(told.ran.code != 0 && told.ran.stderr.contains("can write"), "{told:#?}");
    let told = start(&|setup| {
        link("..", setup.home.join("w/logs"));
        setup.home.join("w/logs/gateway.log").display().to_string()
    });
    assert!(told.ran.code != 0 && told.ran.stderr.contains("is a link in a folder"), "{told:#?}");
}

#[test]
#[kennel_claim::claim("secrets/files-show-the-secrets-place")]
fn a_planted_link_shows_and_sends_no_other_file() {
    let base = || json!({"hosts": ["planted.web.test"]});
    type Plant = fn(&Setup) -> &'static str;
    let plants: [Plant; 5] = [
        |setup| {
            link("../denied/key", setup.home.join("w/key"));
            "w/key"
        },
        |setup| {
            link(&setup.home.join("denied").display().to_string(), setup.home.join("w/folder"));
            "w/folder/key"
        },
        // From the user's own link into what can be written, and on.
        |setup| {
            link("w/onward", setup.home.join("own"));
            link("../denied/key", setup.home.join("w/onward"));
            "own"
        },
        |setup| {
            link("w", setup.home.join("own"));
            link("../denied", setup.home.join("w/below"));
            "own/below/key"
        },
        |setup| {
            std::fs::create_dir(setup.home.join("w/deep")).expect("a folder is made");
            link("../../w/deep/second", setup.home.join("w/deep/first"));
            link("../../denied/key", setup.home.join("w/deep/second"));
            "w/deep/../deep/first"
        },
    ];
    for plant in plants {
        for masked in [false, true] {
            let Some(setup) = with_rule(base()) else { return };
            let path = plant(&setup);
            let full = setup.home.path().join(path).display().to_string();
            let setup = match masked {
                true => setup
                    .set("secrets.FILED.files", json!([full]))
                    .set("secrets.FILED.from", json!("env:FILED")),
                false => setup.set("secrets.FILED.from", json!(format!("file:{full}"))),
            };
            let told = setup.sh(&format!("cat {full}; printenv FILED"));
            assert!(!told.ran.stdout.contains(DENIED), "{path}, masked {masked}: {told:#?}");
            assert_ne!(told.ran.code, 0, "{path}, masked {masked}: {told:#?}");
            let why = "is a link in a folder that the command can write";
            assert!(told.ran.stderr.contains(why), "{path}, masked {masked}: {told:#?}");
        }
    }
}

#[test]
#[kennel_claim::claim("secrets/files-show-the-secrets-place")]
fn the_users_own_links_are_followed() {
    let Some(setup) = with_rule(json!({"hosts": ["own.web.test"]})) else { return };
    let key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    setup.home.write("dotfiles/netrc", &format!("machine own.web.test login me password {key}\n"));
    link("dotfiles/netrc", setup.home.join(".netrc"));
    link("dotfiles", setup.home.join("settings"));
    setup.home.write("dotfiles/key", &format!("{key}\n"));
    for from in [".netrc", "settings/netrc"] {
        let netrc = setup.home.join(from);
        let source = setup.home.join("settings/key").display().to_string();
        let files = json!({"hosts": ["own.web.test"], "from": format!("file:{source}"), "files": [netrc], "variable": "FILED"});
        let home = &setup.home;
        let own =
            Setup { home: kennel_tests::Scratch::new(), settings: setup.settings.clone(), variables: vec![] };
        let told = own
            .set("secrets.FILED", files)
            .sh(&format!("cat {}; printenv FILED", home.join(from).display()))
            .ok();
        assert!(
            told.ran.stdout.starts_with("machine own.web.test login me password ghp_"),
            "{from}: {told:#?}"
        );
        assert!(!told.ran.stdout.contains(key), "{from}: {told:#?}");
    }
}

#[test]
#[kennel_claim::claim("secrets/files-show-the-secrets-place")]
fn a_masked_file_shows_the_secrets_place_and_the_rest_only_if_told() {
    let Some(upstream) = upstream() else { return };
    let (key, other) = (upstream.key("github"), "another-token-of-the-same-file");
    let cases = [
        (
            "hosts.yml",
            format!(
                "github.com:\n    user: me\n    oauth_token: {key}\nother.test:\n    oauth_token: {other}\n"
            ),
            "    oauth_token: ",
        ),
        (
            "npmrc",
            format!("//a.test/:_authToken={other}\n//b.test/:_authToken={key}\n"),
            "//b.test/:_authToken=",
        ),
        (
            "netrc",
            format!("machine a.test login me password {other}\nmachine b.test login me password {key}\n"),
            "machine b.test login me password ",
        ),
        (
            "config.json",
            json!({"auths": {"a": {"auth": other}, "b": {"auth": key, "extra": other}}}).to_string(),
            "\"auth\": \"",
        ),
        (
            "credentials",
            format!("[default]\nkey = {other}\n[work]\nid = {other}\nkey = {key}\n"),
            "[work]\nkey = ",
        ),
        ("binary", format!("\u{1}{other}\u{2}{key}\u{3}"), "ghp_"),
    ];
    for (name, text, place) in cases {
        let setup = Setup::new(upstream, &[]);
        let file = setup.home.write(name, &text);
        let rule = json!({"from": "env:KEY", "hosts": ["masked.web.test"], "files": [file]});
        let setup = setup.variable("KEY", key).set("secrets.KEY", rule);
        let told = setup.run(&["cat", &file.display().to_string()]).ok();
        let shown = &told.ran.stdout;
        assert!(shown.contains(place) && shown.contains("ghp_"), "{name}: {told:#?}");
        assert!(!shown.contains(other) && !shown.contains(key), "{name}: {told:#?}");
        let told =
            setup.set("secrets.KEY.whole_files", json!(true)).run(&["cat", &file.display().to_string()]).ok();
        let shown = &told.ran.stdout;
        assert!(shown.contains(other) && !shown.contains(key), "{name}: {told:#?}");
        let places = |text: &str| text.matches("ghp_").count();
        assert_eq!((shown.len(), places(shown)), (text.len(), 1), "{name}: {told:#?}");
    }
}

#[test]
#[kennel_claim::claim("secrets/keys-go-where-the-policy-says")]
fn a_bound_host_is_open_for_requests_on_its_own_ports_only() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let Some(python) = kennel_tests::world::python() else { return skipped("python3 is not installed") };
    let host = "ports.web.test";
    let setup = Setup::new(upstream, &[]).secret("KEY", upstream.key("github"), &[host]);
    let script = r#"
import socket, sys
host, port, words = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode().decode("unicode_escape").encode("latin1")
try:
    stream = socket.create_connection((host, port), timeout=20)
    stream.sendall(words)
    print("came:", stream.recv(100))
except OSError as error:
    print("closed:", error)
"#;
    // What another protocol says, what a client without TLS asks, and what is no protocol.
    for (port, words) in [
        (22, "SSH-2.0-OpenSSH_9.2\\r\\n"),
        (80, "GET /unencrypted-page HTTP/1.0\\r\\nHost: ports.web.test\\r\\n\\r\\n"),
        (8443, "\\x16\\x03\\x01"),
        (443, "SSH-2.0-OpenSSH_9.2\\r\\n"),
        (443, "\\x00\\x00\\x00\\x01anything"),
    ] {
        let told = setup.run(&[&python.display().to_string(), "-c", script, host, &port.to_string(), words]);
        let answered = told.ran.stdout.contains("came: b'HTTP/1.1 200");
        assert!(!answered, "{port} {words}: {told:#?}");
        let network = told.report["network"].as_array().cloned().unwrap_or_default();
        assert!(
            network.iter().any(|one| one["port"] == port && one["allowed"] == false),
            "{port} {words}: {told:#?}"
        );
    }
    assert_eq!(upstream.requests("/unencrypted-page"), Vec::<serde_json::Value>::new());
    let told = setup.sh(&format!("curl -sS https://{host}/hello")).ok();
    assert!(told.ran.stdout.contains("hello from"), "{told:#?}");
}

#[test]
#[kennel_claim::claim("secrets/keys-go-where-the-policy-says")]
fn what_else_says_who_a_client_is_is_refused_or_left_out() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let host = "accounts.web.test";
    let setup = Setup::new(upstream, &[]).secret("KEY", upstream.key("github"), &[host]);
    let curl = |words: &str| format!("curl -sS -o /dev/null -w '%{{http_code}}' {words}");
    for words in [
        r#"-H "Authorization: Bearer else, Bearer $KEY""#,
        r#"-H "Authorization: token else$KEY""#,
        r#"-u "me:else$KEY""#,
        r#"-H "Authorization: Bearer $KEY" -H 'Authorization: Bearer else'"#,
        r#"-H "Authorization: Bearer $KEY" -H 'X-GitHub-Token: else'"#,
        "-H 'Ocp-Apim-Subscription-Key: else'",
        "-H 'X-Client-Secret: else'",
    ] {
        let told = setup.sh(&curl(&format!("{words} https://{host}/refused")));
        assert_eq!(told.ran.stdout, "403", "{words}: {told:#?}");
    }
    for query in ["access_token=else", "a=b&private%5Ftoken=else", "sig=else", "X-Amz-Signature=else"] {
        let told = setup.sh(&curl(&format!("'https://{host}/refused?{query}'")));
        assert_eq!(told.ran.stdout, "403", "{query}: {told:#?}");
    }
    assert_eq!(upstream.requests("/refused"), Vec::<serde_json::Value>::new());
    // What servers give every client, and what only sounds like a credential.
    let words = format!(
        r#"-H "Authorization: Bearer $KEY" -b 'session=else; __cf=x' -H 'X-CSRF-Token: x' 'https://{host}/accounts-hello?page_token=2'"#
    );
    let told = setup.sh(&curl(&words)).ok();
    assert_eq!(told.ran.stdout, "404", "{told:#?}");
    let seen = upstream.requests("/accounts-hello");
    assert!(seen[0]["fields"]["cookie"].is_null() && seen[0]["real"] == "github", "{seen:#?}");
}
