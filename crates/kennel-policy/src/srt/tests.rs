use std::path::Path;

use super::*;
use crate::policy::{
    GitLevel, KeptIn, Missing, NetworkMode, Policy, Precedence, SeccompProfile, UnixSockets,
};
use crate::settings::Base;

fn base() -> Base {
    Base::new("/work", Some("/home/me".into()))
}

fn around() -> Surroundings {
    Surroundings {
        folder: "/work".into(),
        home: Some("/home/me".into()),
        shared_tmp: "/tmp/claude".into(),
        ..Surroundings::default()
    }
}

/// A whole file, with more keys in each of its parts.
fn file(network: &str, files: &str, top: &str) -> String {
    format!(
        r#"{{"network": {{"allowedDomains": [], "deniedDomains": [] {network}}},
            "filesystem": {{"denyRead": [], "allowWrite": [], "denyWrite": [] {files}}} {top}}}"#
    )
}

fn read(text: &str) -> SrtSettings {
    parse(text.as_bytes(), "srt.json", &base()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn wrong(text: &str) -> String {
    parse(text.as_bytes(), "srt.json", &base()).expect_err(text).to_string()
}

fn policy(text: &str) -> Policy {
    read(text).policy(&around())
}

fn entry(text: &str) -> Entry {
    let settings = read(&format!(
        r#"{{"network": {{"allowedDomains": [], "deniedDomains": []}}, "filesystem": {{"denyRead": [{text}], "allowWrite": [], "denyWrite": []}}}}"#
    ));
    settings.deny_read[0].clone()
}

#[test]
fn without_settings_nothing_is_written_and_no_host_reached() {
    let policy = SrtSettings::default().policy(&around());
    assert!(policy.files.allow_write.iter().all(|rule| rule.origin.to_string() == "always writable"));
    assert!(policy.files.deny_read.is_empty());
    assert_eq!(policy.network.mode, NetworkMode::AllowList);
    assert!(policy.network.allow.is_empty());
    assert_eq!(policy.network.unix_sockets, UnixSockets::None);
    assert_eq!(policy.files.precedence, Precedence::DenyWrite);
    assert_eq!(policy.files.git, GitLevel::HooksAndConfigReadOnly);
    assert!(!policy.best_effort);
    assert_eq!(policy.process.seccomp, SeccompProfile::Default);
}

#[test]
fn paths_are_read_as_srt_reads_them() {
    let path = |text: &str| entry(text).path.display().to_string();
    assert_eq!(path(r#""~/.ssh""#), "/home/me/.ssh");
    assert_eq!(path(r#""a/""#), "/work/a");
    assert_eq!(path(r#""a/**""#), "/work/a");
    assert_eq!(path(r#""../x""#), "/x");
    assert_eq!(path(r#""/**""#), "/");
    assert_eq!(path(r#"{"path": "a/**", "literal": true}"#), "/work/a/**");
    assert!(entry(r#""a/**""#).globs.is_empty());
    assert!(entry(r#"{"path": "*.pem", "literal": true}"#).globs.is_empty());
    let glob = entry(r#""**/*.pem""#).globs[0].clone();
    assert!(glob.matches(Path::new("/work/a/b.pem")) && !glob.matches(Path::new("/a.pem")));
    let up = entry(r#""../*.pem""#).globs[0].clone();
    assert!(up.matches(Path::new("/x.pem")));
    // Both: the path of that name, and what the pattern matches.
    let both = entry(r#""app/[slug]""#);
    assert_eq!(both.path, Path::new("/work/app/[slug]"));
    assert!(both.globs[0].clone().matches(Path::new("/work/app/s")));
    assert!(entry(r#""a[b""#).globs.is_empty(), "brackets that spell no set mean themselves");
}

#[test]
fn denies_that_are_not_there_are_kept_from_being_made_but_not_hidden_ones() {
    let text = r#"{"network": {"allowedDomains": [], "deniedDomains": []},
        "filesystem": {"denyRead": ["r", "*.x"], "allowWrite": ["w"], "denyWrite": ["d", "*.y"]}}"#;
    let files = policy(text).files;
    assert_eq!(files.deny_read[0].missing, Missing::Ignore);
    assert_eq!(files.deny_write[0].missing, Missing::Skip);
    assert_eq!(files.deny_write[1].missing, Missing::Ignore, "a glob's own text need not be a path");
    assert!(!files.allow_write[0].follow_link);
    assert_eq!(files.allow_write[0].missing, Missing::Skip);
    assert_eq!(files.allow_write[0].origin.to_string(), "srt.json:2");
}

#[test]
fn dangerous_names_are_denied_in_and_below_the_working_directory() {
    let kept = |depth: &str| policy(&file("", "", depth)).files.kept_names.unwrap();
    let usual = kept("");
    for name in [".bashrc", ".claude/agents", ".vscode", ".mcp.json"] {
        assert!(usual.names.contains(&name), "{name}: {usual:?}");
    }
    assert_eq!((usual.folders, usual.depth), (KeptIn::Start, 3));
    assert_eq!(kept(r#", "mandatoryDenySearchDepth": 1"#).depth, 1);
    assert_eq!(kept(r#", "mandatoryDenySearchDepth": 10"#).depth, 10);
}

#[test]
fn the_settings_themselves_stay_as_they_are() {
    let around = Surroundings { settings_files: vec!["/home/me/.srt-settings.json".into()], ..around() };
    let files = SrtSettings::default().policy(&around).files;
    assert_eq!(files.deny_write.last().unwrap().pattern.to_string(), "/home/me/.srt-settings.json");
}

#[test]
fn switches_do_what_they_say() {
    assert_eq!(policy(&file("", r#", "allowGitConfig": true"#, "")).files.git, GitLevel::HooksReadOnly);
    assert_eq!(
        policy(&file("", "", r#", "allowNestedUserNamespaces": true"#)).process.seccomp,
        SeccompProfile::Permissive
    );
    assert!(policy(&file("", "", r#", "enableWeakerNestedSandbox": true"#)).best_effort);
    assert_eq!(
        policy(&file(r#", "allowAllUnixSockets": true"#, "", "")).network.unix_sockets,
        UnixSockets::All
    );
    let listed = policy(&file(r#", "allowUnixSockets": ["/run/x.sock"]"#, "", "")).network;
    assert_eq!(listed.unix_sockets, UnixSockets::Listed);
    assert_eq!(listed.allow_unix_sockets[0].pattern.to_string(), "/run/x.sock");
    let proxies = r#", "httpProxyPort": 8080, "socksProxyPort": 1080, "parentProxy": {"http": "http://p:1", "noProxy": "x"}"#;
    let network = policy(&file(proxies, "", "")).network;
    assert_eq!((network.http_proxy_port, network.socks_proxy_port), (Some(8080), Some(1080)));
    assert_eq!(
        (network.parent_proxy.as_ref().map(|proxy| proxy.expose()), network.no_proxy.as_deref()),
        (Some("http://p:1"), Some("x"))
    );
    let open = policy(&file("", r#", "disabled": true"#, "")).files;
    assert_eq!(open.allow_write[0].pattern.to_string(), "/");
    assert!(open.deny_write.is_empty() && open.git == GitLevel::Off);
}

#[test]
fn denied_hosts_have_their_reasons() {
    let text = r#"{"network": {"allowedDomains": ["a.com"], "deniedDomains": ["b.com", "*:22"], "deniedResolvedAddresses": ["10.0.0.0/8"],
        "deniedDomainReasons": {"b.com": "ask first"}}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#;
    let network = policy(text).network;
    assert_eq!(network.deny[0].reason.as_deref(), Some("ask first"));
    assert_eq!(
        network.deny.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["b.com", "*:22", "10.0.0.0/8"]
    );
}

#[test]
fn what_would_protect_and_is_not_served_is_refused() {
    for (network, top) in [
        (r#", "tlsTerminate": {}"#, ""),
        (r#", "mitmProxy": {"socketPath": "/x", "domains": ["a.b"]}"#, ""),
        (r#", "refuseOpaqueTunnels": true"#, ""),
        (r#", "stripResponseHeaders": ["x"]"#, ""),
        (r#", "parentProxy": {"http": "http://a:1", "https": "http://b:1"}"#, ""),
        ("", r#", "credentials": {"files": [{"path": "x", "mode": "mask"}]}"#),
        ("", r#", "credentials": {"awsPairs": [{}]}"#),
    ] {
        let error = wrong(&file(network, "", top));
        assert!(error.contains("is not supported"), "{error}");
    }
    // These say nothing.
    read(&file(r#", "refuseOpaqueTunnels": false, "stripResponseHeaders": []"#, "", ""));
}

#[test]
fn mistakes_are_named_with_their_line() {
    assert_eq!(wrong("{\n\"network\": 3}"), "srt.json:2: `network` is a number, but must be an object");
    assert_eq!(wrong("{}"), "srt.json:1: `the file` has an entry without `network`");
    assert!(wrong(&file(r#", "httpProxyPort": 0"#, "", "")).contains("a whole number from 1 to 65535"));
    assert!(wrong(&file("", "", r#", "mandatoryDenySearchDepth": 0"#)).contains("from 1 to 10"));
    assert!(wrong(&file("", r#", "allowGitConfig": "yes""#, "")).contains("true or false"));
    assert!(
        wrong(&file("", "", r#", "credentials": {"envVars": [{"name": "A-B", "mode": "deny"}]}"#))
            .contains("A-B")
    );
}

#[test]
fn a_found_file_only_takes_away() {
    let mut own = read(&file("", "", ""));
    let found = r#"{"network": {"allowedDomains": ["a.com"], "deniedDomains": ["b.com"], "allowAllUnixSockets": true},
        "filesystem": {"disabled": true, "denyRead": ["r"], "allowRead": ["r/x"], "allowWrite": ["w"], "denyWrite": ["d"], "allowGitConfig": true},
        "enableWeakerNestedSandbox": true, "allowNestedUserNamespaces": true, "mandatoryDenySearchDepth": 1,
        "credentials": {"envVars": [{"name": "TOKEN", "mode": "deny"}]}}"#;
    own.tighten(read(found));
    let expected = SrtSettings {
        deny_read: read(found).deny_read,
        deny_write: read(found).deny_write,
        denied: read(found).denied,
        unset: vec!["TOKEN".into()],
        ..SrtSettings::default()
    };
    assert_eq!(own, expected);
}

#[test]
fn variables_are_srts() {
    let text = file(
        "",
        "",
        r#", "git": {"safeDirectories": ["/repo"]}, "credentials": {"envVars": [{"name": "TOKEN", "mode": "deny"}]}"#,
    );
    let around = Surroundings { git_config_count: 2, ..around() };
    let environment = read(&text).policy(&around).environment;
    let value = |name: &str| {
        environment
            .set
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.to_string_lossy().into_owned())
    };
    assert_eq!(value("SANDBOX_RUNTIME").as_deref(), Some("1"));
    assert_eq!(value("TMPDIR").as_deref(), Some("/dev/shm"));
    assert_eq!(value("GIT_CONFIG_COUNT").as_deref(), Some("4"));
    assert_eq!(value("GIT_CONFIG_VALUE_2").as_deref(), Some("/repo"));
    assert_eq!(environment.unset, ["TOKEN"]);
    let shared = Surroundings { shared_tmp_exists: true, ..around };
    let policy = read(&text).policy(&shared);
    assert!(policy.environment.set.contains(&("TMPDIR".into(), "/tmp/claude".into())));
    assert!(
        policy
            .files
            .allow_write
            .iter()
            .any(|rule| rule.pattern.to_string() == "/tmp/claude" && !rule.follow_link)
    );
}

#[test]
fn a_deny_of_the_home_is_one_of_every_home_and_a_dollar_means_itself_besides() {
    let base = Base { other_homes: vec!["/root".into()], ..base() };
    let lists = r#"{"denyRead": ["~/.ssh", "$HOME/.aws", "$(x)"], "allowWrite": ["~/a", "$HOME/b"], "denyWrite": ["~/*.c"]}"#;
    let text =
        format!(r#"{{"network": {{"allowedDomains": [], "deniedDomains": []}}, "filesystem": {lists}}}"#);
    let settings = parse(text.as_bytes(), "srt.json", &base).unwrap();
    let paths =
        |list: &[Entry]| list.iter().map(|entry| entry.path.display().to_string()).collect::<Vec<_>>();
    assert_eq!(
        paths(&settings.deny_read),
        ["/home/me/.ssh", "/root/.ssh", "/home/me/.aws", "/root/.aws", "/work/$HOME/.aws", "/work/$(x)"]
    );
    assert_eq!(paths(&settings.allow_write), ["/home/me/a", "/work/$HOME/b"]);
    let globs: Vec<_> = settings.deny_write.iter().map(|entry| entry.globs[0].clone().to_string()).collect();
    assert_eq!(globs, ["/home/me/*.c", "/root/*.c"]);
}
