//! git and gh with a token that the sandbox does not hold.

use std::process::Command;

use kennel_tests::{Scratch, program, ran, ran_within};
use serde_json::{Value, json};

use crate::secrets::{LONG, Setup, Upstream, have, plain, upstream};

/// A repository of the upstream's, `https://github.com/me/NAME.git`, with one commit.
fn repository(upstream: &Upstream, name: &str) {
    let place = upstream.world.file("git/me").join(format!("{name}.git"));
    let script = "set -e; mkdir -p \"$(dirname \"$1\")\"; git init -q --bare \"$1\"; git -C \"$1\" config http.receivepack true
        git -C \"$1\" symbolic-ref HEAD refs/heads/main
        git init -q \"$2\"; cd \"$2\"; echo text > file; git add file
        git -c user.name=t -c user.email=t@t commit -q -m first; git push -q \"$1\" HEAD:refs/heads/main";
    let work = Scratch::new();
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .arg(&place)
        .arg(work.join("work"))
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    ran(&mut command).ok();
}

/// What is in the upstream's repository.
fn pushed(upstream: &Upstream, name: &str) -> String {
    let place = upstream.world.file("git/me").join(format!("{name}.git"));
    let mut command = Command::new("git");
    command.args(["log", "--format=%s", "main"]).current_dir(place).env("GIT_CONFIG_GLOBAL", "/dev/null");
    ran(&mut command).ok().stdout
}

/// Clones, commits and pushes, with the token in the place where git's users put it.
const PUSH: &str = r#"set -e
    git config --global user.name t; git config --global user.email t@t
    git clone -q "$URL" /tmp/clone 2>&1; cd /tmp/clone
    echo more >> file; git commit -qam second; git push -q origin HEAD:main 2>&1
    grep -rl "$GITHUB_TOKEN" /tmp/clone/.git/config || true"#;

/// The ways in which a token gets into git's requests: as the password, as the user, by a helper, by a header field of the
/// configuration.
const WAYS: [(&str, &str); 4] = [
    ("password", r#"URL=https://x-access-token:$GITHUB_TOKEN@github.com/me/NAME.git"#),
    ("user", r#"URL=https://$GITHUB_TOKEN:x-oauth-basic@github.com/me/NAME.git"#),
    (
        "helper",
        r#"URL=https://github.com/me/NAME.git
           git config --global credential.helper '!f() { echo username=x; echo password=$GITHUB_TOKEN; }; f'"#,
    ),
    (
        "field",
        r#"URL=https://github.com/me/NAME.git
           git config --global http.https://github.com/.extraheader "Authorization: Bearer $GITHUB_TOKEN""#,
    ),
];

fn script(way: &str, name: &str) -> String {
    format!("export HOME=/tmp GIT_TERMINAL_PROMPT=0\n{}\nexport URL\n{PUSH}", way.replace("NAME", name))
}

#[test]
#[kennel_claim::claim("secrets/no-real-key-inside")]
fn git_pushes_with_a_token_that_the_sandbox_does_not_hold() {
    let Some(upstream) = upstream() else { return };
    if !have(&["git"]) {
        return;
    }
    for (word, way) in WAYS {
        let name = format!("push-{word}");
        repository(upstream, &name);
        let setup = Setup::new(upstream, &[]).secret("GITHUB_TOKEN", upstream.key("github"), &["github.com"]);
        let told = setup.sh(&script(way, &name)).ok();
        assert_eq!(pushed(upstream, &name), "second\nfirst\n", "{word}: {told:#?}");
        upstream.assert_clean("what git says", &told.ran.stdout);
        upstream.assert_clean("the report", &told.text);
    }
}

#[test]
fn git_pushes_outside_with_the_token_itself() {
    let Some(upstream) = upstream() else { return };
    if !have(&["git"]) {
        return;
    }
    for (word, way) in WAYS {
        let name = format!("outside-{word}");
        repository(upstream, &name);
        let home = Scratch::new();
        let mut command = Command::new("sh");
        let script = script(way, &name).replace("/tmp", &home.path().display().to_string());
        plain(&mut command, &home);
        command.args(["-c", &script]).env("GITHUB_TOKEN", upstream.key("github"));
        command.env("GIT_SSL_CAINFO", upstream.authority());
        ran_within(LONG, &mut command).ok();
        assert_eq!(pushed(upstream, &name), "second\nfirst\n", "{word}");
    }
}

#[test]
#[kennel_claim::claim("secrets/request-rules-hold")]
fn a_token_for_one_repository_pushes_to_no_other() {
    let Some(upstream) = upstream() else { return };
    if !have(&["git"]) {
        return;
    }
    for name in ["named", "another"] {
        repository(upstream, name);
    }
    let setup = Setup::new(upstream, &["* github.com/me/named.git/**"]).secret(
        "GITHUB_TOKEN",
        upstream.key("github"),
        &["github.com"],
    );
    setup.sh(&script(WAYS[0].1, "named")).ok();
    assert_eq!(pushed(upstream, "named"), "second\nfirst\n");
    let told = setup.sh(&script(WAYS[0].1, "another"));
    assert_ne!(told.ran.code, 0, "{told:#?}");
    assert_eq!(pushed(upstream, "another"), "first\n");
    let seen: Vec<Value> = upstream.requests("/me/another.git/");
    assert_eq!(seen, Vec::<Value>::new(), "nothing was passed on");
}

#[test]
#[kennel_claim::claim("secrets/no-real-key-inside")]
fn gh_uses_the_api_with_a_token_that_the_sandbox_does_not_hold() {
    let Some(upstream) = upstream() else { return };
    if !have(&["gh"]) {
        return;
    }
    let gh = program("gh").unwrap_or_default().display().to_string();
    let outside = {
        let home = Scratch::new();
        let mut command = Command::new(&gh);
        plain(&mut command, &home);
        command.args(["api", "user", "--jq", ".login"]).env("GH_TOKEN", upstream.key("github"));
        ran_within(LONG, command.env("SSL_CERT_FILE", upstream.authority()).env("GH_NO_UPDATE_NOTIFIER", "1"))
            .ok()
            .stdout
    };
    assert_eq!(outside, "kennel\n");
    let hosts = ["api.github.com"];
    let setup = Setup::new(upstream, &[])
        .secret("GH_TOKEN", upstream.key("github"), &hosts)
        .variable("GH_NO_UPDATE_NOTIFIER", "1");
    let told = setup.sh(&format!("export HOME=/tmp; {gh} api user --jq .login && {gh} api repos/me/x/issues -f title=gh-issue --jq .number")).ok();
    assert_eq!(told.ran.stdout, "kennel\n1\n", "{told:#?}");
    assert!(upstream.requests("gh-issue").iter().all(|request| request["real"] == "github"));
    upstream.assert_clean("the report", &told.text);
    // Known by its name alone.
    let mut command = setup.command();
    command.args(["--secret", "GH_TOKEN", "--", "sh", "-c", &format!("HOME=/tmp {gh} api user --jq .login")]);
    let setup = setup.set("secrets", json!({}));
    let told = setup.finish(&mut command).ok();
    assert_eq!(told.ran.stdout, "kennel\n", "{told:#?}");
}
