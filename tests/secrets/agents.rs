//! The programs `claude` and `codex`, unmodified, as far as they go without an account: they ask their model by the gateway, and by
//! a stand-in that is swapped.

use std::path::PathBuf;

use kennel_tests::skipped;
use serde_json::json;

use crate::secrets::clients::{ANTHROPIC, OPENAI, TEXT};
use crate::secrets::{Setup, upstream};

/// Where an agent is installed, with a PATH that leads to what it needs.
fn agent(name: &str) -> Option<(PathBuf, String)> {
    let folder = std::env::var_os("KENNEL_AGENTS").map(PathBuf::from).filter(|folder| folder.is_dir());
    let found = folder.map(|folder| folder.join("node_modules/.bin")).filter(|bin| bin.join(name).exists());
    if found.is_none() {
        skipped(&format!("{name} is not installed (KENNEL_AGENTS)"));
    }
    found.map(|bin| (bin.join(name), format!("{}:/usr/bin:/bin", bin.display())))
}

/// Both live in a folder that they can write, and look for news nowhere.
fn lively(setup: Setup, path: &str) -> Setup {
    let home = setup.home.dir("home").display().to_string();
    setup
        .set("files.allow_write", json!([home]))
        .variable("HOME", &home)
        .variable("PATH", path)
        .variable("DISABLE_TELEMETRY", "1")
        .variable("DISABLE_ERROR_REPORTING", "1")
        .variable("DISABLE_AUTOUPDATER", "1")
        .variable("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
}

#[test]
#[kennel_claim::claim("secrets/no-real-key-inside")]
fn claude_talks_to_its_model_without_the_key() {
    let Some(upstream) = upstream() else { return };
    let Some((claude, path)) = agent("claude") else { return };
    let claude = claude.display().to_string();
    for (way, setup) in [
        ("gateway", Setup::new(upstream, &[]).gateway(upstream, &ANTHROPIC)),
        (
            "swapped",
            Setup::new(upstream, &[]).secret(ANTHROPIC.key, upstream.key("anthropic"), &[ANTHROPIC.host]),
        ),
    ] {
        let model = format!("claude-{way}-stand-in");
        let setup = lively(setup, &path);
        let told = setup.run(&[&claude, "-p", "--model", &model, "Say something"]);
        assert!(told.ran.stdout.contains(TEXT), "{way}: {told:#?}");
        let seen = upstream.requests(&model);
        assert!(
            !seen.is_empty() && seen.iter().all(|request| request["real"] == "anthropic"),
            "{way}: {seen:#?}"
        );
        upstream.assert_clean("what claude says", &told.ran.stdout);
        upstream.assert_clean("the report", &told.text);
        for file in setup.home.listing() {
            let text = std::fs::read(&file).unwrap_or_default();
            upstream.assert_clean(&file, &String::from_utf8_lossy(&text));
        }
    }
}

#[test]
#[kennel_claim::claim("secrets/no-real-key-inside")]
fn codex_talks_to_its_model_without_the_key() {
    let Some(upstream) = upstream() else { return };
    let Some((codex, path)) = agent("codex") else { return };
    let codex = codex.display().to_string();
    for (way, setup, base) in [
        ("gateway", Setup::new(upstream, &[]).gateway(upstream, &OPENAI), "$OPENAI_BASE_URL"),
        (
            "swapped",
            Setup::new(upstream, &[]).secret(OPENAI.key, upstream.key("openai"), &[OPENAI.host]),
            "https://api.openai.com/v1",
        ),
    ] {
        let model = format!("codex-{way}-stand-in");
        let setup = lively(setup, &path);
        // Its own sandbox is kennel's.
        let script = format!(
            "exec {codex} exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -m {model} \
             -c model_provider='\"own\"' -c model_providers.own='{{name=\"own\",base_url=\"'\"{base}\"'\",env_key=\"OPENAI_API_KEY\",wire_api=\"responses\"}}' \
             -c analytics.enabled=false -c check_for_update_on_startup=false 'Say something' < /dev/null"
        );
        let told = setup.sh(&script);
        assert!(told.ran.stdout.contains(TEXT), "{way}: {told:#?}");
        let seen = upstream.requests(&model);
        assert!(
            !seen.is_empty() && seen.iter().all(|request| request["real"] == "openai"),
            "{way}: {seen:#?}"
        );
        upstream.assert_clean("what codex says", &told.ran.stdout);
        for file in setup.home.listing() {
            let text = std::fs::read(&file).unwrap_or_default();
            upstream.assert_clean(&file, &String::from_utf8_lossy(&text));
        }
    }
}
