//! Secrets and the model gateway on the command line: what plans and errors tell of them, and who can name them.

use kennel_tests::{Ran, Scratch, kennel, ran};

const CANARY: &str = "ghp_canary0123456789ABCDEFGHIJ0123456789";

/// `kennel WORDS` in a folder, with a real value among the caller's variables.
fn with_value(folder: &Scratch, words: &[&str]) -> Ran {
    let mut command = kennel(words);
    command.current_dir(folder.path()).env("HOME", folder.path()).env("GITHUB_TOKEN", CANARY);
    ran(&mut command)
}

#[test]
#[kennel_claim::claim("inherited/plans-and-errors-show-no-secret")]
fn a_plan_tells_where_a_secret_goes_and_not_what_it_is() {
    let folder = Scratch::new();
    let words = ["plan", "--steps", "--secret", "GITHUB_TOKEN", "--gateway", "anthropic", "--", "true"];
    for more in [&[][..], &["--json"]] {
        let words: Vec<&str> = words[..1].iter().chain(more).chain(&words[1..]).copied().collect();
        let planned = with_value(&folder, &words).ok();
        let said = format!("{}{}", planned.stdout, planned.stderr);
        assert!(said.contains("the secret GITHUB_TOKEN from env:GITHUB_TOKEN"), "{said}");
        assert!(said.contains("requests to github.com, api.github.com"), "{said}");
        assert!(said.contains("https://api.anthropic.com with the key from env:ANTHROPIC_API_KEY"), "{said}");
        assert!(!said.contains("canary"), "{said}");
    }
}

#[test]
#[kennel_claim::claim("inherited/plans-and-errors-show-no-secret")]
fn a_value_in_the_place_of_its_source_is_not_repeated() {
    let folder = Scratch::new();
    folder.write("s.toml", &format!("[secrets.T]\nfrom = \"{CANARY}\"\nhosts = [\"a.test\"]"));
    folder.write("g.toml", &format!("[gateway.openai]\nkey = \"{CANARY}\""));
    let given = format!("T={CANARY}@a.test");
    let cases: [&[&str]; 5] = [
        &["run", "--secret", &given, "--", "true"],
        &["run", "--secret", CANARY, "--", "true"],
        &["run", "--gateway", CANARY, "--", "true"],
        &["run", "--settings", "s.toml", "--", "true"],
        &["run", "--settings", "g.toml", "--", "true"],
    ];
    for words in cases {
        let refused = with_value(&folder, words);
        assert_eq!(refused.code, 125, "{words:?}");
        assert!(!refused.stderr.contains("canary") && !refused.stderr.is_empty(), "{}", refused.stderr);
    }
}

#[test]
#[kennel_claim::claim("inherited/project-settings-name-no-secret")]
fn a_project_file_names_no_secret_and_no_gateway() {
    let folder = Scratch::new();
    let text = "[secrets.GITHUB_TOKEN]\nhosts = [\"evil.test\"]\n[gateway.openai]\n\
                [network]\nallow = [\"GET evil.test/*\"]\nterminate = [\"*\"]\nextra_ca = [\"evil.pem\"]";
    folder.write("kennel.toml", text);
    let planned = with_value(&folder, &["plan", "--steps", "--", "true"]).ok();
    assert!(
        !planned.stdout.contains("evil.test") && !planned.stdout.contains("secret"),
        "{}",
        planned.stdout
    );
    for key in ["secrets", "gateway.NAME", "network.allow", "network.terminate", "network.extra_ca"] {
        let (_, noted) = planned.stderr.split_once("; not applied: ").expect("a note");
        assert!(noted.contains(key), "{key}: {}", planned.stderr);
    }
    // Who names it trusts it.
    let trusted = with_value(&folder, &["plan", "--steps", "--settings", "kennel.toml", "--", "true"]).ok();
    assert!(trusted.stdout.contains("requests to evil.test"), "{}", trusted.stdout);
}

#[test]
#[kennel_claim::claim("secrets/other-proxies-are-an-error")]
fn nothing_is_promised_of_requests_that_a_proxy_of_the_hosts_carries() {
    let folder = Scratch::new();
    for what in [&["--secret", "GITHUB_TOKEN"][..], &["--allow-domain", "GET docs.rs/*"]] {
        for proxy in ["--http-proxy-port", "--socks-proxy-port"] {
            let words = [&["run", proxy, "3128"], what, &["--", "echo", "started"]].concat();
            let refused = with_value(&folder, &words);
            assert!(refused.code != 0 && !refused.stdout.contains("started"), "{words:?}: {refused:?}");
            assert!(refused.stderr.contains("network.http_proxy_port"), "{words:?}: {refused:?}");
        }
    }
}

/// It runs outside of the sandbox, so an earlier command could have it do anything.
#[test]
#[kennel_claim::claim("inherited/no-source-of-the-commands-own")]
fn a_program_that_tells_a_secret_does_not_lie_where_the_command_can_write() {
    let folder = Scratch::new();
    folder.dir("work/bin");
    let script = "#!/bin/sh\necho ran >> \"$(dirname \"$0\")/../../ran\"\necho value\n";
    for place in ["work/bin/tell", "kept/bin/tell"] {
        let path = folder.write(place, script);
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::os::unix::fs::symlink("../work/bin/tell", folder.join("kept/link")).unwrap();
    std::os::unix::fs::symlink("../kept/bin/tell", folder.join("work/planted")).unwrap();
    let run = |words: &[&str]| {
        let words: Vec<String> =
            words.iter().map(|word| word.replace('@', &folder.path().display().to_string())).collect();
        let text = format!("[secrets.T]\nfrom = {{ command = {words:?} }}\nmode = \"inject\"\n");
        folder.write("s.toml", &text);
        with_value(&folder, &["run", "--settings", "s.toml", "--allow-write", "work", "--", "printenv", "T"])
    };
    for words in [
        &["@/work/bin/tell"][..],
        &["@/kept/link"],
        &["@/kept/../work/bin/tell"],
        &["sh", "@/work/bin/tell"],
        &["@/work/planted"],
    ] {
        let refused = run(words).expect_code(125);
        assert!(refused.stderr.contains("lies where the command can write"), "{words:?}: {refused:?}");
        assert!(!folder.join("ran").exists(), "{words:?}");
    }
    for words in [&["@/kept/bin/tell"][..], &["sh", "@/kept/bin/tell"]] {
        assert_eq!(run(words).ok().stdout, "value\n", "{words:?}");
    }
    assert!(folder.join("ran").exists());
}
