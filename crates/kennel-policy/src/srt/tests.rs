use std::path::Path;
use std::time::Duration;

use super::*;
use crate::domain::HostPattern;
use crate::policy::{
    GitLevel, KeptIn, Missing, NetworkMode, Policy, Precedence, Reach, SeccompProfile, UnixSockets,
};
use crate::secrets::{AbsentSecret, AwsPair, CannotSign, NoMatch, SecretRule, SecretSource};
use crate::settings::Base;

fn base() -> Base {
    Base::new("/work", Some("/home/me".into()))
}

fn around() -> SrtContext {
    SrtContext {
        folder: "/work".into(),
        home: Some("/home/me".into()),
        shared_tmp: "/tmp/claude".into(),
        ..SrtContext::default()
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
    assert_eq!((usual.folders, usual.reach), (KeptIn::Start, Reach::Levels(3)));
    assert_eq!(kept(r#", "mandatoryDenySearchDepth": 1"#).reach, Reach::Levels(1));
    assert_eq!(kept(r#", "mandatoryDenySearchDepth": 10"#).reach, Reach::Levels(10));
}

#[test]
fn the_settings_themselves_stay_as_they_are() {
    let around = SrtContext { settings_files: vec!["/home/me/.srt-settings.json".into()], ..around() };
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
    let proxies = r#", "httpProxyPort": 8080, "socksProxyPort": 1080, "parentProxy": {"http": "http://p:1", "https": "http://p:1", "noProxy": "x"}"#;
    let network = policy(&file(proxies, "", "")).network;
    assert_eq!((network.http_proxy_port, network.socks_proxy_port), (Some(8080), Some(1080)));
    assert_eq!(
        (network.parent_proxy.as_ref().map(|proxy| proxy.expose()), network.no_proxy.as_deref()),
        (Some("http://p:1"), Some("x"))
    );
    let network = policy(&file(r#", "parentProxy": {"https": "http://q:2"}"#, "", "")).network;
    let kinds = network.parent_proxy_by_kind.unwrap();
    assert!(network.parent_proxy.is_none() && kinds.http.is_none());
    assert_eq!(kinds.https.as_ref().map(|proxy| proxy.expose()), Some("http://q:2"));
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
    let error = wrong(&file(r#", "mitmProxy": {"socketPath": "/x", "domains": ["a.b"]}"#, "", ""));
    assert!(error.contains("is not supported"), "{error}");
}

/// A whole file with allowed hosts, more keys in `network`, and `credentials`.
fn masking(allowed: &str, network: &str, credentials: &str) -> String {
    format!(
        r#"{{"network": {{"allowedDomains": [{allowed}], "deniedDomains": [] {network}}},
            "filesystem": {{"denyRead": [], "allowWrite": [], "denyWrite": []}}, "credentials": {credentials}}}"#
    )
}

#[test]
fn masks_are_secrets_that_are_swapped_on_the_way_out() {
    let text = masking(
        r#""a.com:443", "a.com", "*.b.com""#,
        r#", "tlsTerminate": {"excludeDomains": ["a.com"], "extraCaCertPaths": ["ca.pem"], "maxTunnels": 3, "handshakeTimeoutMs": 500},
            "stripResponseHeaders": ["Set-Cookie"], "refuseOpaqueTunnels": true, "requireHostMatch": true"#,
        r#"{"envVars": [{"name": "TOKEN", "mode": "mask"},
                        {"name": "URL", "mode": "mask", "extract": ":([^@]+)@", "onExtractNoMatch": "error", "injectHosts": ["x.b.com"]}],
            "files": [{"path": "~/[t].json", "mode": "mask", "decode": "jwt", "maskClaims": ["sub"], "maskDuplicates": true},
                      {"path": "/other", "mode": "deny"}]}"#,
    );
    let policy = policy(&text);
    let [file, token, url] = policy.secrets.as_slice() else { panic!("{:?}", policy.secrets) };
    let hosts = |rule: &SecretRule| rule.hosts.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!((token.name.as_str(), &token.source), ("TOKEN", &SecretSource::Env("TOKEN".into())));
    assert_eq!((token.variable.as_deref(), &token.parts), (Some("TOKEN".as_ref()), &None));
    assert_eq!(hosts(token), ["a.com", "*.b.com"], "without ports, each once");
    assert!(token.swap_in.body && token.swap_in.pass_encoded && !token.swap_in.query);
    assert!(!token.swap_in.plaintext && token.absent == AbsentSecret::Skip);
    assert_eq!(hosts(url), ["x.b.com"]);
    let parts = url.parts.as_ref().unwrap();
    assert_eq!(parts.pattern.as_ref().unwrap().as_str(), ":([^@]+)@");
    assert_eq!(parts.no_match, NoMatch::Error);
    assert_eq!(file.source, SecretSource::File("/home/me/[t].json".into()));
    assert_eq!(file.files[0].path, Path::new("/home/me/[t].json"));
    let parts = file.parts.as_ref().unwrap();
    assert!(parts.jwt && parts.pattern.is_none() && parts.claims == ["sub"]);
    assert_eq!(parts.no_match, NoMatch::Withhold, "where srt shows the real value");
    let tls = &policy.network.tls;
    assert_eq!((tls.terminate[0].host.clone(), tls.exclude.len()), (HostPattern::Any, 1));
    assert_eq!(tls.extra_ca, [Path::new("/work/ca.pem")]);
    assert_eq!((tls.max_connections, tls.handshake_timeout), (Some(3), Some(Duration::from_millis(500))));
    assert!(tls.refuse_opaque && tls.require_host_match && tls.strip_response_headers == ["Set-Cookie"]);
}

#[test]
fn without_termination_secrets_go_only_where_nothing_is_encrypted() {
    let policy = policy(&masking(
        r#""a.com""#,
        "",
        r#"{"allowPlaintextInject": true, "envVars": [{"name": "T", "mode": "mask"}]}"#,
    ));
    assert!(policy.secrets[0].swap_in.plaintext);
    assert_eq!(policy.network.tls.exclude[0].host, HostPattern::Any);
    assert!(policy.network.tls.terminate.is_empty());
}

#[test]
fn masks_that_contradict_themselves_are_refused() {
    let tls = r#", "tlsTerminate": {"excludeDomains": ["a.com"]}"#;
    for (allowed, network, credentials, expected) in [
        (r#""a.com""#, "", r#"{"envVars": [{"name": "T", "mode": "mask"}]}"#, "needs network.tlsTerminate"),
        (r#""a.com""#, tls, r#"{"envVars": [{"name": "T", "mode": "mask"}]}"#, "has every allowed host"),
        (
            r#""a.com", "b.com""#,
            tls,
            r#"{"envVars": [{"name": "T", "mode": "mask", "injectHosts": ["b.com", "a.com"]}]}"#,
            "has this host",
        ),
        (r#""b.com""#, tls, r#"{"envVars": [{"name": "T", "mode": "mask", "injectHosts": []}]}"#, "is empty"),
        (r#""b.com""#, tls, r#"{"files": [{"path": "x/", "mode": "mask"}]}"#, "for a folder"),
        (
            r#""b.com""#,
            tls,
            r#"{"envVars": [{"name": "T", "mode": "mask"}], "awsPairs": [{"accessKeyIdVar": "T", "secretAccessKeyVar": "U"}]}"#,
            "does not mask `U`",
        ),
        (
            r#""b.com""#,
            tls,
            r#"{"envVars": [{"name": "T", "mode": "mask"}], "awsPairs": [{"accessKeyIdVar": "T", "secretAccessKeyVar": "T"}]}"#,
            "already part of a pair",
        ),
        (r#""b.com""#, r#", "tlsTerminate": {"caCertPath": "x"}"#, "{}", "used together"),
        (
            r#""b.com""#,
            tls,
            r#"{"files": [{"path": "x", "mode": "mask", "extract": "x"}]}"#,
            "in parentheses",
        ),
    ] {
        let error = wrong(&masking(allowed, network, credentials));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn awss_own_variables_are_a_pair() {
    let tls = r#", "tlsTerminate": {}"#;
    let variables =
        r#"{"name": "AWS_ACCESS_KEY_ID", "mode": "mask"}, {"name": "AWS_SECRET_ACCESS_KEY", "mode": "mask"}"#;
    let of = |variables: &str, more: &str| {
        let credentials = format!(r#"{{"envVars": [{variables}] {more}}}"#);
        read(&masking(r#""b.com""#, tls, &credentials))
    };
    let usual = of(variables, r#", "sigv4": {"presigned": "passthrough"}"#);
    let pair = AwsPair {
        access_key_id: "AWS_ACCESS_KEY_ID".into(),
        secret_access_key: "AWS_SECRET_ACCESS_KEY".into(),
        session_token: None,
    };
    assert_eq!(usual.aws.pairs, [pair]);
    assert_eq!((usual.aws.presigned, usual.aws.streaming), (CannotSign::Pass, CannotSign::Refuse));
    let token = format!(r#"{variables}, {{"name": "AWS_SESSION_TOKEN", "mode": "mask"}}"#);
    assert_eq!(of(&token, "").aws.pairs[0].session_token.as_deref(), Some("AWS_SESSION_TOKEN"));
    let half = of(r#"{"name": "AWS_SECRET_ACCESS_KEY", "mode": "mask"}"#, "");
    assert!(half.aws.pairs.is_empty() && half.warnings[0].contains("mask both"));
    let named = r#", "awsPairs": [{"accessKeyIdVar": "AWS_ACCESS_KEY_ID", "secretAccessKeyVar": "AWS_SECRET_ACCESS_KEY"}]"#;
    assert_eq!(of(&token, named).aws.pairs[0].session_token, None, "what is named is not guessed");
}

#[test]
#[kennel_claim::claim("secrets/srt-masks")]
fn what_a_found_file_masks_is_withheld() {
    let mut own = read(&file("", "", ""));
    own.tighten(read(&masking(
        r#""a.com""#,
        r#", "tlsTerminate": {}"#,
        r#"{"envVars": [{"name": "T", "mode": "mask"}], "files": [{"path": "k", "mode": "mask"}]}"#,
    )));
    assert!(own.masks.is_empty() && own.tls.is_none() && own.allowed.is_empty());
    assert_eq!(
        (own.unset.as_slice(), own.credentials[0].path.as_path()),
        (["T".into()].as_slice(), Path::new("/work/k"))
    );
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
    let around = SrtContext { git_config_count: 2, ..around() };
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
    let shared = SrtContext { shared_tmp_exists: true, ..around };
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
