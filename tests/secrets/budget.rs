//! Budgets on traffic where TLS ends at the gate, in both versions of HTTP, and on the way to models.

use serde_json::{Value, json};

use crate::secrets::{Setup, Told, have, upstream};

/// What went to a host.
#[track_caller]
fn sent(told: &Told, host: &str) -> u64 {
    let hosts = told.report["traffic"]["hosts"].as_array().cloned().unwrap_or_default();
    let found = hosts.iter().find(|one| one["host"] == host).and_then(|one| one["egress"].as_u64());
    found.unwrap_or_else(|| panic!("nothing was counted for {host}: {}\n{:#?}", told.text, told.ran))
}

/// Whether a connection to a host was ended by this limit.
fn ended_by(told: &Told, host: &str, limit: &str) -> bool {
    let reason = format!("the budget is used up ({limit})");
    let decisions: &[Value] = told.report["network"].as_array().map(Vec::as_slice).unwrap_or_default();
    decisions.iter().any(|one| one["host"] == host && one["reason"] == reason.as_str())
}

#[test]
fn what_the_gate_encrypts_itself_is_counted_in_both_versions_of_http() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    for version in ["--http1.1", "--http2"] {
        let host = format!("budget-{}.web.test", version.trim_start_matches(['-', '.']).replace('.', "-"));
        let limit = format!("{host}=50K");
        let setup = Setup::new(upstream, &[])
            .secret("KEY", upstream.key("other"), &[&host])
            .set("network.budget", json!({"egress": [limit, "1G"]}));
        let script = format!(
            "head -c 2000000 /dev/zero > /tmp/big
             curl -s {version} -o /dev/null -w '%{{http_code}} %{{http_version}}\\n' -H \"private-token: $KEY\" https://{host}/
             curl -s {version} -m 60 -H 'content-type: text/plain' --data-binary @/tmp/big https://{host}/; echo
             curl -sv {version} -m 60 https://{host}/ 2>&1"
        );
        let told = setup.sh(&script);
        let first = told.ran.stdout.lines().next().unwrap_or_default().to_owned();
        assert!(first.ends_with(if version == "--http2" { " 2" } else { " 1.1" }), "{told:#?}");
        assert_eq!(sent(&told, &host), 50 << 10, "{told:#?}");
        assert!(ended_by(&told, &host, &format!("egress {limit}")), "{}", told.text);
        assert!(told.ran.stdout.contains(&format!("the budget is used up (egress {limit})")), "{told:#?}");
        upstream.assert_clean("the report", &told.text);
    }
}

#[test]
fn requests_to_models_count_as_well() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let rule = json!({"key": "env:ANTHROPIC_API_KEY"});
    let setup = Setup::new(upstream, &[])
        .variable("ANTHROPIC_API_KEY", upstream.key("anthropic"))
        .set("gateway.anthropic", rule)
        .set("network.budget", json!({"egress": "api.anthropic.com=30K", "ingress": "1G"}));
    let script = r#"
        ask() { curl -s -m 60 -o "/tmp/$1" -w '%{http_code}\n' -H "x-api-key: $ANTHROPIC_API_KEY" -H 'content-type: application/json' \
            -H 'anthropic-version: 2023-06-01' --data-binary @/tmp/body "$ANTHROPIC_BASE_URL/v1/messages"; }
        body() { printf '{"model":"budget","max_tokens":5,"messages":[{"role":"user","content":"%s"}]}' "$1" > /tmp/body; }
        body hello; ask one; body "$(head -c 60000 /dev/zero | tr '\0' x)"; ask two; body hello; ask three; cat /tmp/two /tmp/three"#;
    let told = setup.sh(script);
    let codes: Vec<&str> = told.ran.stdout.lines().take(3).collect();
    assert_eq!(codes.first(), Some(&"200"), "{told:#?}");
    assert!(codes[1..].iter().all(|code| *code != "200"), "{told:#?}");
    let sent = sent(&told, "api.anthropic.com");
    // What is less than a connection costs is left.
    assert!(sent <= 30 << 10 && sent > (30 << 10) - 100, "{sent}: {told:#?}");
    assert!(ended_by(&told, "api.anthropic.com", "egress api.anthropic.com=30K"), "{}", told.text);
    assert!(told.ran.stdout.contains("the budget is used up (egress api.anthropic.com=30K)"), "{told:#?}");
}
