use std::ffi::OsString;
use std::time::Duration;

use super::*;
use crate::profiles::{NAMES, OwnProfile};
use crate::registries::NoMirrors;
use crate::settings::{Format, Provenance, parse};

fn base() -> Base {
    Base::new("/work", Some("/home/me".into()))
}

fn file(name: &str, text: &str) -> Settings {
    parse(text.as_bytes(), Format::Toml, Provenance::File(name), &base())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn sources() -> Sources {
    Sources::flags(base(), Settings::default())
}

fn merged(sources: Sources) -> Merged {
    merge(sources).unwrap_or_else(|error| panic!("{error}"))
}

/// What a project's file makes of a trusted one, and what it notes.
fn tightened(trusted: &str, project: &str) -> (Policy, Vec<String>) {
    let merged = merged(Sources {
        files: vec![file("trusted.toml", trusted)],
        project: vec![file("kennel.toml", project)],
        ..sources()
    });
    (merged.policy, merged.notes.iter().map(ToString::to_string).collect())
}

fn paths(rules: &[PathRule]) -> Vec<String> {
    rules.iter().map(|rule| rule.pattern.to_string()).collect()
}

#[test]
fn nothing_said_is_the_default_policy() {
    assert_eq!(merged(sources()).policy, Policy::default());
}

#[test]
fn stronger_sources_replace_values_and_lists_grow() {
    let policy = merged(Sources {
        user: Some(file("user.toml", "[limits]\nmemory = 1\npids = 1\n[files]\nallow_write = [\"/u\"]")),
        files: vec![
            file("a.toml", "[limits]\nmemory = 2\ncpus = 2\n[files]\nallow_write = [\"/a\"]"),
            file("b.toml", "[limits]\nmemory = 3\n[environment]\nset = { A = \"b\", B = \"b\" }"),
        ],
        flags: file("flags", "[limits]\nmemory = 4\n[environment]\nset = { A = \"f\" }"),
        ..sources()
    })
    .policy;
    assert_eq!((policy.limits.memory, policy.limits.pids, policy.limits.cpus), (Some(4), Some(1), Some(2.0)));
    assert_eq!(paths(&policy.files.allow_write), ["/u", "/a"]);
    assert_eq!(policy.files.allow_write[1].origin.to_string(), "a.toml:5");
    assert_eq!(policy.environment.set, [("A".into(), "f".into()), ("B".into(), "b".into())]);
}

#[test]
fn a_profile_is_below_all_other_sources() {
    let policy = merged(Sources {
        user: Some(file(
            "user.toml",
            "profile = \"judge\"\n[limits]\nmemory = \"1G\"\ntimeout = \"unlimited\"",
        )),
        ..sources()
    })
    .policy;
    assert_eq!(policy.limits.memory, Some(1 << 30));
    assert_eq!(policy.limits.wall_time, None);
    assert_eq!(policy.limits.cpu_time, Some(Duration::from_secs(10)));
    assert_eq!(policy.files.reads, ReadModel::Listed);
    assert_eq!(policy.process.seccomp, SeccompProfile::Strict);
}

#[test]
fn a_profile_speaks_of_where_the_command_starts() {
    let with = |text: &str| {
        let policy = merged(Sources { flags: file("flags", text), ..sources() }).policy;
        paths(&policy.files.allow_write)
    };
    assert_eq!(with("profile = \"build\""), ["/work"]);
    assert_eq!(with("profile = \"build\"\n[process]\nworkdir = \"/other\""), ["/other"]);
}

#[test]
fn a_variable_that_a_weaker_source_takes_away_can_be_passed_and_the_other_way_round() {
    let unset = |text: &str| {
        let user = Some(file("user.toml", "[environment]\nunset = [\"GITHUB_TOKEN\"]"));
        let policy = merged(Sources { flags: file("flags", text), user, ..sources() }).policy;
        let has = |list: &[OsString], name: &str| list.iter().any(|own| own == name);
        let environment = policy.environment;
        (has(&environment.unset, "GITHUB_TOKEN"), has(&environment.pass, "GITHUB_TOKEN"))
    };
    assert_eq!(unset("profile = \"agent\""), (true, false));
    assert_eq!(unset("profile = \"agent\"\n[environment]\npass = [\"GITHUB_TOKEN\"]"), (false, true));
    let project = file("kennel.toml", "[environment]\nunset = [\"GITHUB_TOKEN\"]");
    let flags = file("flags", "[environment]\npass = [\"GITHUB_TOKEN\"]");
    let merged = merged(Sources { flags, project: vec![project], ..sources() });
    assert_eq!(merged.policy.environment.unset, ["GITHUB_TOKEN"]);
}

#[test]
fn an_unknown_profile_names_the_nearest() {
    let error = |name: &str| {
        merge(Sources { user: Some(file("u.toml", &format!("profile = \"{name}\""))), ..sources() })
            .unwrap_err()
            .to_string()
    };
    assert_eq!(error("agnet"), "u.toml:1: there is no profile `agnet`; did you mean `agent`?");
    assert_eq!(
        error("kubernetes"),
        format!("u.toml:1: there is no profile `kubernetes`; the profiles are {}", NAMES.join(", "))
    );
}

/// The user's own profiles, by name.
struct Own(&'static [(&'static str, &'static str)]);

impl OwnProfiles for Own {
    fn find(&self, name: &str) -> Result<Option<OwnProfile>, String> {
        let found = self.0.iter().find(|(own, _)| *own == name);
        if let Some((_, "unreadable")) = found {
            return Err(format!("{name}.toml: permission denied"));
        }
        Ok(found.map(|(_, text)| OwnProfile { file: format!("{name}.toml"), text: text.as_bytes().into() }))
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| (*name).to_owned()).collect()
    }
}

fn with_own(name: &str, own: &'static [(&'static str, &'static str)]) -> Result<Merged, MergeError> {
    let flags = file("flags", &format!("profile = \"{name}\""));
    merge_with(Sources { flags, ..sources() }, &Own(own), &NoMirrors)
}

#[test]
fn a_profile_of_the_users_builds_on_others_and_replaces_what_they_say() {
    let own = &[
        ("mine", "profile = \"base\"\n[limits]\npids = 3\n[files]\nallow_write = [\"out\", \"~/state\"]"),
        ("base", "profile = \"judge\"\n[limits]\npids = 2\nmemory = \"1G\""),
    ];
    let merged = with_own("mine", own).unwrap();
    let limits = &merged.policy.limits;
    assert_eq!((limits.pids, limits.memory, limits.open_files), (Some(3), Some(1 << 30), Some(64)));
    // Relative to where the command starts, as in built-in profiles; and rules tell their line.
    assert_eq!(paths(&merged.policy.files.allow_write), ["/work/out", "/home/me/state"]);
    assert_eq!(merged.policy.files.allow_write[0].origin.to_string(), "mine.toml:5");
    assert_eq!(merged.profiles.first().map(String::as_str), Some("mine"));
}

#[test]
fn a_profile_of_the_users_comes_before_a_built_in_one_and_can_build_on_it() {
    let extends = &[("codex", "profile = \"codex\"\n[files]\nallow_write = [\"/mnt/cache\"]")];
    let policy = with_own("codex", extends).unwrap().policy;
    let written = paths(&policy.files.allow_write);
    assert_eq!(written[..2], ["/work", "/home/me/.local/state/kennel/agents/codex/skills"]);
    assert_eq!(written.last().map(String::as_str), Some("/mnt/cache"));
    let replaces = &[("codex", "[limits]\npids = 1")];
    assert_eq!(paths(&with_own("codex", replaces).unwrap().policy.files.allow_write), [""; 0]);
    // What a built-in profile builds on is the user's too.
    let below = &[("agent", "profile = \"agent\"\n[limits]\npids = 7")];
    let policy = with_own("codex", below).unwrap().policy;
    assert_eq!((policy.limits.pids, policy.files.refuse_home), (Some(7), true));
}

/// What two of the user's profiles become, with what flags say besides.
fn together(first: &'static str, second: &'static str, flags: &str) -> Result<Policy, String> {
    let flags = file("flags", &format!("profile = [\"a\", \"b\"]\n{flags}"));
    let own: &'static [_] = Vec::leak(vec![("a", first), ("b", second)]);
    merge_with(Sources { flags, ..sources() }, &Own(own), &NoMirrors)
        .map(|merged| merged.policy)
        .map_err(|error| error.to_string())
}

#[test]
fn profiles_add_up_wherever_they_are_named() {
    let user = file("u.toml", "profile = \"agent\"");
    let named = file("f.toml", "profile = [\"build\", \"data\"]");
    let flags = file("flags", "profile = \"claude\"");
    let merged = merge(Sources { user: Some(user), files: vec![named], flags, ..sources() }).unwrap();
    // Each once: `claude` builds on `agent`.
    assert_eq!(merged.profiles, ["claude", "data", "build", "agent"]);
    let files = &merged.policy.files;
    assert_eq!(files.reads, ReadModel::Listed);
    let npmrc =
        |files: &FilePolicy| paths(&files.deny_read).iter().filter(|path| *path == "/home/me/.npmrc").count();
    assert_eq!((npmrc(files), merged.policy.limits.memory), (1, Some(4 << 30)));
    for both in ["[\"agent\", \"build\"]", "[\"build\", \"agent\"]"] {
        let flags = file("flags", &format!("profile = {both}"));
        let merged = merge(Sources { flags, ..sources() }).unwrap();
        assert_eq!(npmrc(&merged.policy.files), 1);
        assert!(merged.policy.files.refuse_home);
    }
    let policy = together("[limits]\npids = 3", "profile = \"a\"\n[limits]\npids = 4", "").unwrap();
    assert_eq!(policy.limits.pids, Some(4), "b builds on a");
    let policy = together("limits.pids = 3", "limits.pids = 3\nfiles.deny_read = [\"/x\"]", "").unwrap();
    assert_eq!((policy.limits.pids, paths(&policy.files.deny_read)), (Some(3), vec!["/x".to_owned()]));
}

#[test]
fn profiles_that_contradict_each_other_are_an_error_that_names_both_unless_somebody_decides() {
    for (first, second, key, decides) in [
        ("limits.pids = 3", "limits.pids = 4", "limits.pids", "limits.pids = 9"),
        ("files.git = \"off\"", "files.git = \"hooks-read-only\"", "files.git", "files.git = \"off\""),
        ("best_effort = true", "best_effort = false", "best_effort", "best_effort = true"),
        (
            "environment.set = { A = \"1\" }",
            "environment.set = { A = \"2\" }",
            "environment.set",
            "environment.set = { A = \"3\" }",
        ),
        (
            "environment.pass = [\"A\"]",
            "environment.unset = [\"A\"]",
            "environment.pass and environment.unset `A`",
            "environment.unset = [\"A\"]",
        ),
        (
            "files.allow_read = [\"/x\"]",
            "files.deny_read = [\"/x\"]",
            "files.allow_read and files.deny_read `/x`",
            "files.deny_read = [\"/x\"]",
        ),
        (
            "files.allow_write = [\"/x\"]",
            "files.deny_write = [\"/x\"]",
            "files.allow_write and files.deny_write `/x`",
            "files.deny_write = [\"/x\"]",
        ),
        (
            "gateway.budget = { requests = 1 }",
            "gateway.budget = { requests = 2 }",
            "gateway.budget",
            "gateway.budget = { requests = 3 }",
        ),
        ("[gateway.openai]\nmodels = [\"x\"]", "[gateway.openai]", "gateway.NAME", "gateway.openai = {}"),
    ] {
        for (first, second) in [(first, second), (second, first)] {
            let error = together(first, second, "").unwrap_err();
            let start = format!("{key}: the profiles contradict each other (");
            assert!(
                error.starts_with(&start) && error.contains("a.toml:") && error.contains("b.toml:"),
                "{error}"
            );
            assert_eq!(together(first, second, decides).map(drop), Ok(()), "{key}");
        }
    }
    let error = |first: &str, second: &str| {
        let flags = file("flags", &format!("profile = [\"{first}\", \"{second}\"]"));
        merge(Sources { flags, ..sources() }).unwrap_err().to_string()
    };
    assert_eq!(
        error("judge", "data"),
        "limits.memory: the profiles contradict each other (profile judge; profile data); set limits.memory yourself, or use one of them"
    );
    let error = error("judge", "claude");
    // Which of its own settings is the first is no matter.
    let of_claude = ["(profile claude;", "; profile claude)", "(profile agent;", "; profile agent)"];
    assert!(error.contains("profile judge") && of_claude.iter().any(|own| error.contains(own)), "{error}");
}

/// What profiles `a` and `b` become that both build on `base`.
fn on_one_base(base: &str, a: &str, b: &str, flags: &str) -> Result<Policy, String> {
    let leak = |text: String| -> &'static str { String::leak(text) };
    let own: &'static [_] = Vec::leak(vec![
        ("base", leak(base.to_owned())),
        ("a", leak(format!("profile = \"base\"\n{a}"))),
        ("b", leak(format!("profile = \"base\"\n{b}"))),
    ]);
    let named = |names: &str| {
        let flags = file("flags", &format!("profile = {names}\n{flags}"));
        let merged = merge_with(Sources { flags, ..sources() }, &Own(own), &NoMirrors);
        merged.map(|merged| merged.policy).map_err(|error| error.to_string())
    };
    for alone in ["[\"a\"]", "[\"b\"]", "[\"base\", \"a\"]"] {
        named(alone).unwrap_or_else(|error| panic!("{alone}: {error}"));
    }
    assert_eq!(named("[\"a\", \"b\"]").is_ok(), named("[\"b\", \"a\"]").is_ok());
    named("[\"a\", \"b\"]")
}

#[test]
fn of_two_profiles_on_one_base_neither_loses_what_the_base_closes() {
    // The base closes it, one of the two opens it, and the other says nothing.
    for (base, opens, key, decides) in [
        (
            "files.deny_read = [\"/key\"]",
            "files.allow_read = [\"/key\"]",
            "files.allow_read and files.deny_read `/key`",
            "files.allow_read = [\"/key\"]",
        ),
        (
            "files.deny_write = [\"/w\"]",
            "files.allow_write = [\"/w\"]",
            "files.allow_write and files.deny_write `/w`",
            "files.deny_write = [\"/w\"]",
        ),
        (
            "environment.unset = [\"A\"]",
            "environment.pass = [\"A\"]",
            "environment.pass and environment.unset `A`",
            "environment.pass = [\"A\"]",
        ),
        ("files.git = \"metadata-read-only\"", "files.git = \"off\"", "files.git", "files.git = \"off\""),
        ("best_effort = false", "best_effort = true", "best_effort", "best_effort = false"),
        ("limits.memory = 5", "limits.memory = \"unlimited\"", "limits.memory", "limits.memory = 6"),
        (
            "environment.set = { A = \"1\" }",
            "environment.set = { A = \"2\" }",
            "environment.set",
            "environment.set = { A = \"3\" }",
        ),
        ("network.mode = \"none\"", "network.mode = \"host\"", "network.mode", "network.mode = \"none\""),
    ] {
        let error = on_one_base(base, opens, "limits.pids = 3", "").unwrap_err();
        let start = format!("{key}: the profiles contradict each other (");
        assert!(
            error.starts_with(&start) && error.contains("a.toml:") && error.contains("base.toml:"),
            "{error}"
        );
        assert_eq!(on_one_base(base, opens, "limits.pids = 3", decides).map(drop), Ok(()), "{key}");
        // What both open is open, and is there once.
        assert_eq!(on_one_base(base, opens, opens, "").map(drop), Ok(()), "{key}");
    }
    let policy = on_one_base("files.deny_read = [\"/key\"]", "", "", "").unwrap();
    assert_eq!(paths(&policy.files.deny_read), ["/key"], "an entry of the common base is one entry");
}

#[test]
fn what_one_profile_passes_no_other_calls_a_secret() {
    let key = "environment.pass and environment.secret_names `MY_KEY`: the profiles contradict each other";
    let secret = "environment.secret_names = [\"my_*\"]";
    for (first, second) in
        [("environment.pass = [\"MY_KEY\"]", secret), (secret, "environment.pass = [\"MY_KEY\"]")]
    {
        let error = together(first, second, "").unwrap_err();
        assert!(error.starts_with(key), "{error}");
        assert_eq!(
            together(first, second, "environment.pass = [\"MY_KEY\"]").unwrap().environment.pass,
            ["MY_KEY", "MY_KEY"]
        );
        assert_eq!(
            together(first, second, secret).unwrap().environment.pass,
            [""; 0],
            "the stronger one is heard"
        );
    }
    // Somebody else's variable decides nothing.
    let set = |value: &str| String::leak(format!("environment.set = {{ A = \"{value}\" }}"));
    assert!(together(set("1"), set("2"), "environment.set = { B = \"1\" }").is_err());
}

#[test]
fn a_profile_does_not_change_what_the_lists_of_another_mean() {
    for (says, implies, key, decides) in [
        (
            "files.precedence = \"deny-write\"",
            "files.deny_read = [\"/x\"]",
            "files.precedence",
            "files.precedence = \"specific\"",
        ),
        (
            "network.mode = \"public\"",
            "network.allow = [\"example.com\"]",
            "network.mode",
            "network.mode = \"allow-list\"",
        ),
        (
            "environment.secrets = \"pass\"",
            "network.allow = [\"example.com\"]",
            "environment.secrets",
            "environment.secrets = \"withhold\"",
        ),
    ] {
        for (first, second) in [(says, implies), (implies, says)] {
            let error = together(first, second, "").unwrap_err();
            let start = format!("{key}: the profiles contradict each other (");
            assert!(
                error.starts_with(&start) && error.contains("a.toml:") && error.contains("b.toml:"),
                "{error}"
            );
            assert_eq!(together(first, second, decides).map(drop), Ok(()), "{key}");
        }
        assert_eq!(together(says, "limits.pids = 3", "").map(drop), Ok(()), "{key}");
    }
}

#[test]
fn a_list_that_starts_anew_has_nothing_of_weaker_sources_and_all_of_stronger_ones() {
    let user =
        file("u.toml", "profile = \"build\"\nfiles.allow_write = [\"/u\"]\nfiles.deny_write = [\"/u/kept\"]");
    let named = file("f.toml", "only = \"files.allow_write\"\nfiles.allow_write = [\"/f\"]");
    let flags = file("flags", "files.allow_write = [\"/g\"]");
    let merged = merge(Sources { user: Some(user), files: vec![named], flags, ..sources() }).unwrap();
    assert_eq!(paths(&merged.policy.files.allow_write), ["/f", "/g"]);
    assert_eq!(
        paths(&merged.policy.files.deny_write).last().unwrap(),
        "/u/kept",
        "other lists are as they were"
    );
    assert!(!merged.policy.files.allow_write[0].of_profile);
    let only: Vec<String> =
        merged.only.iter().map(|list| format!("{} ({})", list.value, list.origin)).collect();
    assert_eq!(only, ["files.allow_write (f.toml:1)"]);
    // What another profile adds to such a list would be lost, or open what this one closes.
    let anew = "only = \"files.allow_write\"\nfiles.allow_write = [\"/a\"]";
    let error = on_one_base("files.allow_write = [\"/base\"]", anew, "limits.pids = 3", "").unwrap_err();
    assert!(
        error.starts_with("files.allow_write: the profiles contradict each other (a.toml:2; base.toml:1)"),
        "{error}"
    );
    let decides = "only = \"files.allow_write\"";
    let policy = on_one_base("files.allow_write = [\"/base\"]", anew, "limits.pids = 3", decides).unwrap();
    assert_eq!(paths(&policy.files.allow_write), [""; 0]);
    // The base's denies stay for the profile that does not start them anew.
    let error =
        on_one_base("files.deny_read = [\"/key\"]", "only = \"files.deny_read\"", "", "").unwrap_err();
    assert!(error.starts_with("files.deny_read: "), "{error}");
}

#[test]
fn profiles_that_build_on_each_other_or_on_nothing_are_errors() {
    let error = |name: &str, own| with_own(name, own).unwrap_err().to_string();
    let circle = &[("a", "# A.\nprofile = \"b\""), ("b", "profile = \"a\"")];
    assert_eq!(error("a", circle), "b.toml:1: this profile builds on itself: a -> b -> a");
    assert_eq!(
        error("me", &[("me", "profile = \"me\"")]),
        "me.toml:1: this profile builds on itself: me -> me"
    );
    let twice = &[("agent", "profile = \"b\""), ("b", "profile = \"claude\"")];
    assert!(with_own("agent", twice).is_ok(), "the built-in one that claude builds on is another one");
    assert_eq!(
        error("mine", &[("mine", "\nprofile = \"agnet\"")]),
        "mine.toml:2: there is no profile `agnet`; did you mean `agent`?"
    );
    assert_eq!(error("mien", &[("mine", "")]), "flags:1: there is no profile `mien`; did you mean `mine`?");
    assert_eq!(
        error("mine", &[("mine", "[files]\nalow_write = []")]),
        "mine.toml:2: unknown key `alow_write` in `files`; did you mean `allow_write`?"
    );
    assert_eq!(error("x", &[("x", "unreadable")]), "reading a profile: x.toml: permission denied");
}

#[test]
fn a_network_mode_that_is_asked_for_replaces_the_hosts_of_a_profile() {
    let network = |more: &str| {
        let flags = file("flags", &format!("profile = \"codex\"\n[network]\n{more}"));
        merge(Sources { flags, ..sources() }).map(|merged| merged.policy.network)
    };
    assert_eq!(network("").unwrap().mode, NetworkMode::AllowList);
    for mode in ["host", "none"] {
        assert_eq!(network(&format!("mode = \"{mode}\"")).unwrap().allow, [], "{mode}");
    }
    let more = network("mode = \"allow-list\"\nallow = [\"x.com\"]").unwrap();
    assert!(more.allow.len() > 1);
    // What somebody says beside it is still a contradiction.
    assert!(network("mode = \"host\"\nallow = [\"x.com\"]").is_err());
}

#[test]
fn no_found_file_names_a_profile_or_has_a_folder_created() {
    let (policy, notes) = tightened(
        "",
        "profile = \"claude\"\n[files]\nallow_write = [{ path = \"/x\", missing = \"create\" }]",
    );
    assert_eq!(policy, Policy::default());
    assert_eq!(notes.len(), 2);
}

#[test]
fn missing_paths_have_a_default_for_each_list() {
    let lists =
        "allow_read = [\"/r\"]\nallow_write = [\"/w\"]\ndevices = [\"/dev/kvm\"]\ndeny_read = [\"/d\"]";
    let with = |reads: &str| {
        merged(Sources { flags: file("f", &format!("[files]\n{reads}\n{lists}")), ..sources() }).policy.files
    };
    let open = with("");
    assert_eq!(open.allow_read[0].missing, Missing::Skip);
    assert_eq!(open.allow_write[0].missing, Missing::Error);
    assert_eq!(open.devices[0].missing, Missing::Error);
    let listed = with("reads = \"listed\"");
    assert_eq!(listed.allow_read[0].missing, Missing::Error);
}

#[test]
fn allowed_hosts_make_an_allow_list() {
    let mode =
        |text: &str| merge(Sources { flags: file("f", text), ..sources() }).map(|m| m.policy.network.mode);
    assert_eq!(mode("[network]\nallow = [\"x.com\"]"), Ok(NetworkMode::AllowList));
    assert_eq!(mode("[network]\ndeny = [\"x.com\"]"), Ok(NetworkMode::None));
    assert_eq!(mode("[network]\nmode = \"allow-list\""), Ok(NetworkMode::AllowList));
    assert_eq!(mode("profile = \"agent\"\n[network]\nallow = [\"x.com\"]"), Ok(NetworkMode::AllowList));
}

#[test]
fn hosts_that_no_gate_would_see_are_an_error() {
    let error = |text: &str| merge(Sources { flags: file("f", text), ..sources() }).unwrap_err().to_string();
    assert_eq!(
        error("[network]\nmode = \"none\"\nallow = [\"x.com\"]"),
        "network.allow `x.com` (f:3) cannot be used with network mode `none` (f:2); \
         use mode `allow-list` to allow only listed hosts"
    );
    assert!(error("[network]\nmode = \"host\"\nallow = [\"x.com\"]").contains("mode `host` (f:2)"));
    assert!(error("[network]\nmode = \"host\"\ndeny = [\"x.com\"]").contains("network.deny `x.com` (f:3)"));
    assert!(error("profile = \"judge\"\n[network]\nallow = [\"x.com\"]").contains("(profile judge)"));
}

#[test]
fn unlimited_swap_is_not_the_same_as_unsaid() {
    let swap = |text: &str| merged(Sources { flags: file("f", text), ..sources() }).policy.limits.swap;
    assert_eq!(swap("[limits]\nmemory = \"1G\""), None);
    assert_eq!(swap("[limits]\nswap = \"unlimited\""), Some(u64::MAX));
}

#[test]
fn a_found_file_adds_denies_and_lowers_limits() {
    let trusted = "[files]\nallow_write = [\"/work\"]\nreads = \"open\"\ntmp = \"host\"\nhost_run = true\n\
                   [network]\nmode = \"allow-list\"\nallow = [\"x.com\"]\nunix_sockets = \"all\"\n\
                   [limits]\nmemory = \"1G\"\ncpus = 2\n\
                   [process]\nseccomp = \"permissive\"\nuser = \"root\"";
    let project = "best_effort = false\n\
                   [files]\ndeny_read = [\"/s\"]\ndeny_write = [\"/work/.git\"]\nreads = \"listed\"\ntmp = \"private\"\nhost_run = false\n\
                   git = \"metadata-read-only\"\n\
                   [network]\ndeny = [\"*\"]\nunix_sockets = \"none\"\n\
                   [limits]\nmemory = \"512M\"\ncpus = 1\npids = 10\ntimeout = 5\n\
                   [environment]\nunset = [\"TOKEN\"]\nclear = true\n\
                   [process]\nseccomp = \"strict\"\nuser = \"self\"";
    let (policy, notes) = tightened(trusted, project);
    assert_eq!(notes, [""; 0]);
    assert_eq!(paths(&policy.files.deny_read), ["/s"]);
    assert_eq!(paths(&policy.files.deny_write), ["/work/.git"]);
    assert_eq!(
        (policy.files.reads, policy.files.tmp, policy.files.host_run),
        (ReadModel::Listed, TmpMode::Private, false)
    );
    assert_eq!(policy.files.git, GitLevel::MetadataReadOnly);
    assert_eq!(policy.network.deny.len(), 1);
    assert_eq!(policy.network.unix_sockets, UnixSockets::None);
    assert_eq!(
        (policy.limits.memory, policy.limits.cpus, policy.limits.pids),
        (Some(512 << 20), Some(1.0), Some(10))
    );
    assert_eq!(policy.limits.wall_time, Some(Duration::from_secs(5)));
    assert_eq!(policy.environment.unset, ["TOKEN"]);
    assert_eq!(policy.environment.base, EnvironmentBase::Clear);
    assert_eq!((policy.process.seccomp, policy.process.user), (SeccompProfile::Strict, UserMode::Self_));
}

#[test]
fn a_found_file_can_loosen_nothing() {
    // Every key, each with a value that is looser than what is trusted.
    let trusted = "[files]\nreads = \"listed\"\nsystem = false\ngit = \"hooks-read-only\"\non_replace = \"end\"\nprotect_dotfiles = true\nrefuse_home = true\nhome = \"private\"\nrootfs = \"/srv/root\"\nrootfs_write = \"none\"\n[limits]\nmemory = 10\nswap = 10\ncpus = 1\ntimeout = 1\n\
                   cpu_time = 1\npids = 1\nopen_files = 1\nfile_size = 1\noutput = 1\ntmp_size = 1\n\
                   [environment]\nclear = true\nsecrets = \"withhold\"\n[process]\nseccomp = \"strict\"\n[network.budget]\negress = 10\n[gateway.budget]\nrequests = 1";
    let project = "profile = \"agent\"\nonly = \"files.deny_read\"\nbest_effort = true\n\
                   [files]\nreads = \"open\"\nallow_read = [\"/r\"]\nallow_write = [\"/w\", \"/x\"]\n\
                   mounts = [{ source = \"/\", target = \"/m\" }]\ntmpfs = [\"/t\"]\ncaches = true\ntmp = \"host\"\nhome = \"host\"\nhost_run = true\n\
                   system = true\ndevices = [\"/dev/kvm\"]\ngpus = [\"all\"]\ngit = \"off\"\nprecedence = \"deny-write\"\non_replace = \"mend\"\n\
                   protect_dotfiles = false\nrefuse_home = false\nrootfs = \"/srv/other\"\nrootfs_write = \"layer\"\n\
                   [network]\nmode = \"host\"\nallow = [\"x.com\"]\nallow_registries = [\"npm\"]\nunix_sockets = \"all\"\nallow_unix_sockets = [\"/run/x\"]\nask = true\nbudget.egress = 11\n\
                   ask_timeout = \"unlimited\"\nallow_sni_mismatch = true\nallow_ech = true\npublish = [80]\nparent_proxy = \"p\"\n\
                   no_proxy = \"*\"\nhttp_proxy_port = 1\nsocks_proxy_port = 1\nterminate = [\"*\"]\nno_terminate = [\"x.com\"]\n\
                   extra_ca = [\"/x.pem\"]\nsystem_bundles = true\n[secrets.GH_TOKEN]\n\
                   [gateway]\nlog = \"/x\"\nlog_contents = true\nbudget.requests = 2\nprices.x = { input = 0, output = 0 }\n[gateway.openai]\n\
                   [limits]\nmemory = 11\nswap = 11\ncpus = 2\ntimeout = \"unlimited\"\ncpu_time = 2\npids = 2\n\
                   open_files = 2\nfile_size = 2\noutput = 2\ntmp_size = 2\n\
                   [environment]\nclear = false\nsecrets = \"pass\"\npass = [\"A\"]\nset = { LD_PRELOAD = \"x\" }\n\
                   [process]\nworkdir = \"/\"\nuser = \"root\"\nusers = [\"root\"]\nrun_as = \"root\"\nhostname = \"h\"\nseccomp = \"none\"\nnested = true";
    let (policy, notes) = tightened(trusted, project);
    assert_eq!(policy, merged(Sources { files: vec![file("trusted.toml", trusted)], ..sources() }).policy);

    let tightening = [
        "files.deny_read",
        "files.deny_write",
        "network.deny",
        "environment.unset",
        "environment.secret_names",
    ];
    for (name, _) in keys::all() {
        let noted = notes.iter().any(|note| note.contains(&format!(": {name} is not applied")));
        assert_eq!(noted, !tightening.contains(&name.as_str()), "{name}: {notes:#?}");
    }
    let note = "kennel.toml:7: files.allow_write is not applied: a settings file found in the working directory may \
                only tighten";
    assert!(notes.contains(&note.to_owned()), "{notes:#?}");
}

#[test]
fn a_found_file_that_agrees_says_nothing() {
    let same = "[limits]\nmemory = 10\n[network]\nmode = \"none\"\nunix_sockets = \"none\"\n[files]\nhost_run = false";
    assert_eq!(tightened(same, same).1, [""; 0]);
}

#[test]
fn a_found_file_can_take_the_network_away() {
    let (policy, notes) = tightened("[network]\nallow = [\"x.com\"]", "[network]\nmode = \"none\"");
    assert_eq!(policy.network.mode, NetworkMode::None);
    assert!(policy.network.allow.is_empty());
    assert!(notes.is_empty());
}

#[test]
fn with_an_allow_list_secrets_stay_outside_unless_somebody_passes_them() {
    let secrets =
        |text: &str| merged(Sources { files: vec![file("t.toml", text)], ..sources() }).policy.environment;
    assert_eq!(secrets("").secrets, SecretVariables::Pass);
    assert_eq!(secrets("[network]\nmode = \"host\"").secrets, SecretVariables::Pass);
    assert_eq!(secrets("[network]\nallow = [\"x.com\"]").secrets, SecretVariables::Withhold);
    let said = "[network]\nallow = [\"x.com\"]\n[environment]\nsecrets = \"pass\"";
    assert_eq!(secrets(said).secrets, SecretVariables::Pass);
    assert_eq!(secrets("profile = \"agent\"\n[network]\nmode = \"host\"").secrets, SecretVariables::Withhold);
    // A file that was found cannot pass them, whether anybody has said something or not.
    let found = "[environment]\nsecrets = \"pass\"";
    for trusted in ["[network]\nallow = [\"x.com\"]", "[environment]\nsecrets = \"withhold\""] {
        let (policy, notes) = tightened(trusted, found);
        assert_eq!((policy.environment.secrets, notes.len()), (SecretVariables::Withhold, 1), "{notes:?}");
    }
    let (policy, _) = tightened("", "[environment]\nsecrets = \"withhold\"");
    assert_eq!(policy.environment.secrets, SecretVariables::Withhold);
}

#[test]
fn sockets_that_are_listed_make_it_a_list() {
    let policy =
        |text: &str| merge(Sources { flags: file("f", text), ..sources() }).map(|it| it.policy.network);
    let listed = policy("[network]\nallow_unix_sockets = [\"/run/x\"]").unwrap();
    assert_eq!(listed.unix_sockets, UnixSockets::Listed);
    assert_eq!(paths(&listed.allow_unix_sockets), ["/run/x"]);
    assert_eq!(policy("").unwrap().unix_sockets, UnixSockets::None);
    assert_eq!(policy("[network]\nunix_sockets = \"listed\"").unwrap().unix_sockets, UnixSockets::Listed);
    for mode in ["none", "all"] {
        let text = format!("[network]\nunix_sockets = \"{mode}\"\nallow_unix_sockets = [\"/run/x\"]");
        assert_eq!(
            policy(&text).unwrap_err().to_string(),
            format!(
                "network.allow_unix_sockets `/run/x` (f:3) cannot be used with unix_sockets `{mode}` (f:2); \
                 use `listed` to allow only listed sockets"
            )
        );
    }
}

#[test]
fn a_found_file_can_take_listed_sockets_away_and_cannot_list_more() {
    let trusted = "[network]\nallow_unix_sockets = [\"/run/x\"]";
    let (policy, notes) = tightened(trusted, "[network]\nunix_sockets = \"none\"");
    assert_eq!(policy.network.unix_sockets, UnixSockets::None);
    assert!(policy.network.allow_unix_sockets.is_empty() && notes.is_empty());
    let (policy, notes) = tightened(trusted, "[network]\nallow_unix_sockets = [\"/run/y\"]");
    assert_eq!(paths(&policy.network.allow_unix_sockets), ["/run/x"]);
    assert_eq!(notes.len(), 1);
}

#[test]
fn a_deny_that_no_gate_would_see_is_an_error_also_when_found() {
    let error = merge(Sources {
        flags: file("f", "[network]\nmode = \"host\""),
        project: vec![file("kennel.toml", "[network]\ndeny = [\"x.com\"]")],
        ..sources()
    });
    assert!(matches!(error, Err(MergeError::Ungated(ungated)) if ungated.list == "network.deny"));
}

#[test]
fn a_found_file_cannot_add_swap_to_bounded_memory() {
    let (policy, notes) = tightened("[limits]\nmemory = \"1G\"", "[limits]\nswap = \"1G\"");
    assert_eq!(policy.limits.swap, Some(0));
    assert_eq!(notes.len(), 1);
    let (policy, notes) = tightened("", "[limits]\nswap = \"1G\"\nmemory = \"1G\"");
    assert_eq!((policy.limits.memory, policy.limits.swap), (Some(1 << 30), Some(1 << 30)));
    assert!(notes.is_empty());
}

#[test]
fn several_users_exclude_what_means_only_one() {
    let process = |text: &str| {
        let sources = Sources { flags: file("f", &format!("[process]\n{text}")), ..sources() };
        merge(sources).map(|it| it.policy.process).map_err(|error| error.to_string())
    };
    let users = process("users = [\"root\", \"builder\", \"web:33\"]").unwrap();
    assert_eq!(users.callers_user().unwrap().name, "builder");
    assert_eq!(users.starts_as().unwrap().name, "root");
    let chosen = process("users = [\"root\", \"builder\"]\nrun_as = \"builder\"").unwrap();
    assert_eq!(chosen.starts_as().unwrap().uid, 1000);
    // A root alone is the caller.
    assert_eq!(process("users = [\"root\"]").unwrap().callers_user().unwrap().uid, 0);
    for (text, expected) in [
        ("run_as = \"x\"", "process.run_as (f:2): `x` is not one of `process.users`"),
        (
            "users = [\"root\"]\nrun_as = \"x\"",
            "process.run_as (f:3): `x` is not one of `process.users`: root",
        ),
        (
            "users = [\"a:5\", \"b:5\"]",
            "process.users: `a` and `b` have the same number, 5; write NAME:UID to choose another",
        ),
        (
            "users = [\"a\"]\nuser = \"root\"",
            "process.users (f:2) cannot be used with process.user `root` (f:3)",
        ),
        ("users = [\"a\"]\nnested = true", "process.users (f:2) cannot be used with process.nested (f:3)"),
        (
            "users = [\"a\"]\nseccomp = \"none\"",
            "process.users (f:2) cannot be used with seccomp `none` (f:3)",
        ),
    ] {
        let error = process(text).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

fn flags(text: &str) -> Result<Policy, String> {
    merge(Sources { flags: file("f", text), ..sources() })
        .map(|merged| merged.policy)
        .map_err(|error| error.to_string())
}

fn hosts(rules: &[HostRule]) -> Vec<String> {
    rules.iter().map(ToString::to_string).collect()
}

#[test]
fn a_known_secret_needs_no_more_than_its_name() {
    let policy = flags("[secrets.GITHUB_TOKEN]").unwrap();
    let secret = &policy.secrets[0];
    assert_eq!(secret.source.to_string(), "env:GITHUB_TOKEN");
    assert_eq!(hosts(&secret.hosts), ["github.com", "api.github.com"]);
    assert_eq!(secret.variable.as_deref(), Some("GITHUB_TOKEN".as_ref()));
    assert_eq!(policy.network.mode, NetworkMode::AllowList);
    // Where nothing but requests goes.
    assert_eq!(hosts(&policy.network.allow), ["github.com:443", "api.github.com:443"]);
    assert_eq!(policy.environment.secrets, SecretVariables::Withhold);
    assert_eq!(policy.environment.unset, ["GITHUB_TOKEN"]);
}

#[test]
fn a_secrets_hosts_are_allowed_unless_a_rule_covers_them() {
    let allowed = |more: &str| {
        let text = format!("[secrets.GITHUB_TOKEN]\n[network]\nallow = [{more}]");
        hosts(&flags(&text).unwrap().network.allow)
    };
    assert_eq!(allowed("\"*.github.com\", \"x.test\""), ["*.github.com", "x.test", "github.com:443"]);
    assert_eq!(allowed("\"github.com:22\""), ["github.com:22", "github.com:443", "api.github.com:443"]);
    let text = "[secrets.X]\nhosts = [\"a.test\", \"b.test:8443\"]\nplaintext = true";
    assert_eq!(hosts(&flags(text).unwrap().network.allow), ["a.test:443", "a.test:80", "b.test:8443"]);
    // The rule about requests stays all that is allowed there.
    assert_eq!(allowed("\"POST api.github.com/repos/me/*/issues\""), ["github.com:443"]);
}

#[test]
#[kennel_claim::claim("inherited/named-secrets-leave-the-variables")]
fn the_real_value_of_a_secret_is_taken_out_of_the_variables() {
    let text = "[secrets.key]\nfrom = \"env:ACME_TOKEN\"\nhosts = [\"a.test\"]\nvariable = \"ACME\"\n\
                [environment]\nsecrets = \"pass\"\npass = [\"ACME_TOKEN\", \"OTHER\"]";
    let environment = flags(text).unwrap().environment;
    assert_eq!(environment.unset, ["ACME_TOKEN", "ACME"]);
    assert_eq!(environment.pass, ["OTHER"]);
    // What a profile passes on for its agent is no exception.
    let policy = flags("profile = \"claude\"\n[secrets.ANTHROPIC_API_KEY]").unwrap();
    assert!(policy.environment.unset.contains(&"ANTHROPIC_API_KEY".into()));
    assert!(!policy.environment.pass.contains(&"ANTHROPIC_API_KEY".into()));
}

#[test]
fn a_file_as_a_secret_needs_no_variable_and_is_its_own_source() {
    let policy = flags("[secrets.acme]\nfiles = [\"/home/me/.acme\"]\nhosts = [\"a.test\"]").unwrap();
    let secret = &policy.secrets[0];
    assert_eq!((secret.source.to_string().as_str(), &secret.variable), ("file:/home/me/.acme", &None));
    assert_eq!(secret.files[0].path.to_str(), Some("/home/me/.acme"));
}

#[test]
fn an_injected_secret_needs_no_network() {
    let policy = flags("[secrets.A]\nmode = \"inject\"").unwrap();
    assert_eq!(policy.network.mode, NetworkMode::None);
    assert_eq!(policy.secrets[0].hosts, []);
    assert!(flags("[secrets.A]\nmode = \"inject\"\n[network]\nmode = \"host\"").is_ok());
}

#[test]
fn a_secret_that_cannot_be_used_so_says_why() {
    for (text, message) in [
        (
            "[secrets.ACME]",
            "secrets.ACME (f:1): kennel does not know where it belongs; list the hosts that it is sent to in its `hosts` (ACME@HOST in one word), or set its `mode` to `inject` to let the command see it",
        ),
        (
            "[secrets.A]\nmode = \"inject\"\nhosts = [\"a.test\"]",
            "secrets.A (f:1): `hosts` means nothing with mode `inject`: the command holds the value and sends it wherever it can",
        ),
        (
            "[secrets.GH_TOKEN]\n[network]\nmode = \"host\"",
            "secrets.GH_TOKEN (f:1): mode `swap` cannot be used with network mode `host` (f:3): the gate puts the real value in; use network mode `allow-list`",
        ),
        (
            "[secrets.GH_TOKEN]\n[network]\nno_terminate = [\"*.github.com\"]",
            "secrets.GH_TOKEN (f:1): it is sent to `api.github.com`, whose TLS connections `network.no_terminate` (f:3) leaves as they are, so that no stand-in is exchanged there",
        ),
        (
            "[secrets.GH_TOKEN]\n[secrets.two]\nhosts = [\"a.test\"]\nvariable = \"GH_TOKEN\"",
            "secrets.two (f:2): its variable `GH_TOKEN` is also set by secrets.GH_TOKEN (f:1)",
        ),
        (
            "[secrets.GH_TOKEN]\n[environment]\nset = { GH_TOKEN = \"x\" }",
            "secrets.GH_TOKEN (f:1): its variable `GH_TOKEN` is also set by environment.set (f:3)",
        ),
        (
            "[network]\nallow = [\"GET docs.rs/*\"]\nno_terminate = [\"docs.rs\"]",
            "network.allow `GET docs.rs/*` (f:2) cannot be used with network.no_terminate `docs.rs` (f:3): requests are not compared where TLS does not end at the gate",
        ),
        (
            "[network]\nmode = \"none\"\nallow = [\"GET docs.rs/*\"]",
            "network.allow `GET docs.rs/*` (f:3) cannot be used with network mode `none` (f:2); use mode `allow-list` to allow only listed hosts",
        ),
        (
            "[network]\nterminate = [\"*\"]",
            "network.terminate `*` (f:2) cannot be used with network mode `none` (default); use mode `allow-list` to allow only listed hosts",
        ),
    ] {
        assert_eq!(flags(text).unwrap_err(), message);
    }
}

#[test]
fn a_stronger_source_replaces_all_of_a_secret() {
    let policy = merged(Sources {
        user: Some(file("user.toml", "[secrets.A]\nfrom = \"file:/u\"\nhosts = [\"a.test\"]\nbody = true")),
        flags: file("f", "[secrets.A]\nhosts = [\"b.test\"]\n[secrets.GH_TOKEN]"),
        ..sources()
    })
    .policy;
    let names: Vec<_> = policy.secrets.iter().map(|secret| secret.name.as_str()).collect();
    assert_eq!(names, ["A", "GH_TOKEN"]);
    assert_eq!(policy.secrets[0].source.to_string(), "env:A");
    assert_eq!(hosts(&policy.secrets[0].hosts), ["b.test"]);
    assert!(!policy.secrets[0].swap_in.body);
}

#[test]
#[kennel_claim::claim("inherited/project-settings-name-no-secret")]
fn a_found_file_names_no_secret_no_request_and_no_certificate() {
    let trusted = "[secrets.GH_TOKEN]\n[network]\nallow = [\"x.test\"]\nsystem_bundles = true";
    let (expected, _) = tightened(trusted, "");
    let project = "[secrets.GH_TOKEN]\nhosts = [\"evil.test\"]\n[secrets.B]\nfrom = \"command:evil\"\nhosts = [\"evil.test\"]\n\
                   [network]\nallow = [\"GET evil.test/*\"]\nterminate = [\"*\"]\nno_terminate = [\"github.com\"]\n\
                   extra_ca = [\"/evil.pem\"]\nsystem_bundles = true";
    let (policy, notes) = tightened(trusted, project);
    assert_eq!(policy, expected);
    let keys: Vec<&str> = notes.iter().filter_map(|note| note.split(' ').nth(1)).collect();
    assert_eq!(
        keys,
        ["secrets", "network.allow", "network.terminate", "network.no_terminate", "network.extra_ca"]
    );
    assert!(notes[0].starts_with("kennel.toml:1: secrets is not applied"), "{}", notes[0]);
}

#[test]
fn rules_about_requests_and_termination_reach_the_policy() {
    let text = "[network]\nallow = [{ host = \"GET docs.rs/*\", reason = \"docs\" }]\nterminate = [\"x.test\"]\n\
                no_terminate = [\"y.test\"]\nextra_ca = [\"ca.pem\"]\nsystem_bundles = true";
    let network = flags(text).unwrap().network;
    assert_eq!((network.mode, network.allow.len()), (NetworkMode::AllowList, 0));
    assert_eq!(network.http[0].host.origin.to_string(), "f:2");
    assert_eq!(network.http[0].host.reason.as_deref(), Some("docs"));
    assert_eq!(hosts(&network.tls.terminate), ["x.test"]);
    assert_eq!(hosts(&network.tls.exclude), ["y.test"]);
    assert_eq!(network.tls.extra_ca, [std::path::Path::new("/work/ca.pem")]);
    assert!(network.tls.system_bundles);
}

#[test]
#[kennel_claim::claim("inherited/named-secrets-leave-the-variables")]
fn a_known_provider_needs_no_more_than_its_name() {
    use crate::gateway::Api;
    let policy = flags("[gateway.anthropic]\n[gateway.ollama]").unwrap();
    let [anthropic, ollama] = &policy.gateway.providers[..] else { panic!("two providers") };
    assert_eq!((anthropic.api, anthropic.upstream.as_str()), (Api::Anthropic, "https://api.anthropic.com"));
    assert_eq!(anthropic.key.as_ref().map(ToString::to_string).as_deref(), Some("env:ANTHROPIC_API_KEY"));
    assert_eq!((ollama.api, &ollama.key), (Api::Ollama, &None));
    // Nothing but the gateway can be reached, and no secret is said to it.
    assert_eq!(policy.network.mode, NetworkMode::None);
    assert_eq!(policy.environment.secrets, SecretVariables::Withhold);
    assert_eq!(policy.environment.unset, ["ANTHROPIC_API_KEY"]);
    let policy = flags("profile = \"claude\"\n[gateway.anthropic]").unwrap();
    assert!(!policy.environment.pass.contains(&"ANTHROPIC_API_KEY".into()));
    assert!(policy.environment.unset.contains(&"ANTHROPIC_API_KEY".into()));
}

#[test]
#[kennel_claim::claim("inherited/provider-keys-are-encrypted")]
fn a_gateway_that_cannot_be_says_why() {
    let known = "anthropic, openai, gemini, ollama, openrouter, groq, mistral, deepseek, xai";
    for (text, message) in [
        (
            "[gateway.antropic]",
            format!("gateway.antropic (f:1): kennel knows no provider of this name (did you mean `anthropic`?); set its `api`, or use one of {known}"),
        ),
        (
            "[gateway.corp]\napi = \"openai\"\nupstream = \"https://a.test\"",
            format!("gateway.corp (f:1): kennel knows no provider of this name; set its `key`, or use one of {known}"),
        ),
        (
            "[gateway.openai]\nupstream = \"http://a.test\"",
            "gateway.openai (f:1): `http://a.test` is not encrypted, and the key would be sent to it; use `https://`".to_owned(),
        ),
        (
            "[gateway.openai]\n[network]\nmode = \"host\"",
            "gateway.openai (f:1) cannot be used with network mode `host` (f:3): the gateway's address exists only in a network of the sandbox's own".to_owned(),
        ),
        (
            "[gateway.openai]\nbudget.cost = 1",
            "a budget for `cost` (f:1) requires `gateway.prices`".to_owned(),
        ),
        (
            "[gateway]\nlog_contents = true",
            "gateway.log_contents (f:2) requires `gateway.log`".to_owned(),
        ),
        (
            "[gateway.openai]\n[secrets.OPENAI_API_KEY]",
            "gateway.openai (f:1) sets the variable `OPENAI_API_KEY`, which secrets.OPENAI_API_KEY sets too; leave one out".to_owned(),
        ),
    ] {
        assert_eq!(flags(text).unwrap_err(), message);
    }
    // Without a key there is nothing to keep from others.
    assert!(flags("[gateway.openai]\nkey = \"none\"\nupstream = \"http://a.test\"").is_ok());
}

#[test]
fn limits_of_a_budget_replace_each_other_one_by_one_and_a_found_file_lowers_them() {
    let with = |project: &str| {
        let merged = merged(Sources {
            user: Some(file("u", "[gateway.budget]\nrequests = 10\ntokens = 1000")),
            flags: file("f", "[gateway.budget]\nrequests = 20\nbytes = 5"),
            project: vec![file("kennel.toml", project)],
            ..sources()
        });
        let budget = merged.policy.gateway.budget;
        ((budget.requests, budget.tokens, budget.bytes), merged.notes.len())
    };
    assert_eq!(with(""), ((Some(20), Some(1000), Some(5)), 0));
    assert_eq!(with("[gateway.budget]\nrequests = 1"), ((Some(1), Some(1000), Some(5)), 0));
    assert_eq!(with("[gateway.budget]\nrequests = 1\nbytes = 6"), ((Some(20), Some(1000), Some(5)), 1));
}

/// The limits on traffic, each with what it counts.
fn budget(policy: &Policy) -> Vec<String> {
    policy.network.budget.iter().map(|limit| format!("{} {limit}", limit.measure.key())).collect()
}

#[test]
fn a_found_file_lowers_each_limit_on_traffic_by_itself() {
    let trusted =
        "[network]\nmode = \"allow-list\"\n[network.budget]\negress = [100, \"a.test=50\"]\ningress_rate = 9";
    let (policy, notes) = tightened(
        trusted,
        "[network.budget]\negress = [70, \"a.test=51\", \"b.test=1000\"]\ningress_rate = \"unlimited\"\ningress = 5",
    );
    assert_eq!(
        budget(&policy),
        ["egress 70", "egress a.test=50", "ingress_rate 9/s", "egress b.test=1000", "ingress 5"]
    );
    assert!(
        notes.len() == 1 && notes[0].starts_with("kennel.toml:2: network.budget is not applied"),
        "{notes:?}"
    );
}

#[test]
fn a_stronger_source_replaces_a_limit_on_traffic_and_of_two_profiles_the_lower_holds() {
    let one = "network.budget = { egress = [100, \"a.test=5\"] }";
    let other = "network.budget = { egress = [70, \"a.test=6\"], ingress = 8 }";
    for (one, other) in [(one, other), (other, one)] {
        let mut limits = budget(&together(one, other, "network.mode = \"allow-list\"").unwrap());
        limits.sort();
        assert_eq!(limits, ["egress 70", "egress a.test=5", "ingress 8"]);
    }
    let flags = "network.mode = \"allow-list\"\nnetwork.budget = { egress = [\"1K\", \"a.test=unlimited\"] }";
    assert_eq!(budget(&together(one, "limits.pids = 5", flags).unwrap()), ["egress 1K"]);
}

#[test]
fn a_budget_and_a_way_out_that_is_not_counted_contradict_each_other() {
    let error = |text: &str| {
        let flags =
            file("f", &format!("network.budget = {{ ingress = 7, egress = [\"a.test=5\"] }}\n{text}"));
        merge(Sources { flags, ..sources() }).map(drop).map_err(|error| error.to_string())
    };
    for (text, what) in [
        ("network.mode = \"host\"", "network mode `host`"),
        ("network.unix_sockets = \"all\"", "network.unix_sockets `all`"),
        ("network.allow_unix_sockets = [\"/x\"]", "network.allow_unix_sockets `/x` (f:2)"),
        ("process.seccomp = \"none\"", "process.seccomp `none`"),
        ("best_effort = true", "best_effort"),
    ] {
        let start = format!("network.budget `egress = a.test=5` (f:1) cannot be kept with {what}: ");
        assert!(error(text).unwrap_err().starts_with(&start), "{text}: {:?}", error(text));
    }
    for (text, what) in [
        ("network.mode = \"public\"", "network mode `public`"),
        ("network.mode = \"allow-list\"\nnetwork.socks_proxy_port = 5", "a proxy in the gate's place"),
    ] {
        let start = format!("network.budget `egress = a.test=5` (f:1) cannot be kept with {what}: ");
        assert!(error(text).unwrap_err().starts_with(&start), "{text}: {:?}", error(text));
    }
    for text in
        ["network.mode = \"none\"", "network.allow = [\"a.test\"]", "network.unix_sockets = \"listed\""]
    {
        assert_eq!(error(text), Ok(()), "{text}");
    }
}
