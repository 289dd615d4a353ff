//! The builder says what the command line says, and means the same.

use kennel_policy::merge::merge;
use kennel_policy::profiles;
use kennel_policy::settings::Base;
use kennel_policy::settings::keys::{self, Key};

use super::*;

/// What a program would do to say a setting.
type Say = fn(SandboxBuilder) -> SandboxBuilder;

/// Every setting but switches, how the builder says it, and what a flag would say in its place.
const ALL: &[(&str, Say, &str)] = &[
    ("profile", |b| b.profile("judge"), "judge"),
    ("files.rootfs", |b| b.rootfs("/a"), "/a"),
    ("files.rootfs_write", |b| b.rootfs_write(RootFsWrite::None), "none"),
    ("files.reads", |b| b.reads(ReadModel::Listed), "listed"),
    ("files.deny_read", |b| b.deny_read("/a/*.key"), "/a/*.key"),
    ("files.allow_read", |b| b.allow_read("/a"), "/a"),
    ("files.allow_write", |b| b.allow_write("/a"), "/a"),
    ("files.deny_write", |b| b.deny_write("/a"), "/a"),
    ("only", |b| b.setting("only", "files.allow_write"), "files.allow_write"),
    ("files.precedence", |b| b.precedence(Precedence::DenyWrite), "deny-write"),
    ("files.git", |b| b.git(GitLevel::HooksReadOnly), "hooks-read-only"),
    ("files.on_replace", |b| b.on_replace(OnReplace::End), "end"),
    ("files.protect_dotfiles", |b| b.protect_dotfiles(true), "true"),
    ("files.mounts", |b| b.mount(MountPoint::read_write("/a", "/b")), "/a:/b:rw"),
    ("files.tmpfs", |b| b.tmpfs_of_size("/a", 4096), "/a:4096"),
    ("files.tmp", |b| b.tmp(TmpMode::Host), "host"),
    ("files.home", |b| b.home(HomeMode::Private), "private"),
    ("files.devices", |b| b.device("/dev/kvm"), "/dev/kvm"),
    ("files.gpus", |b| b.gpu("amd:0"), "amd:0"),
    ("network.mode", |b| b.network_mode(NetworkMode::Host), "host"),
    ("network.allow", |b| b.allow_domain("example.com:443"), "example.com:443"),
    ("network.allow_registries", |b| b.allow_registry("npm,pypi"), "npm,pypi"),
    ("secrets", |b| b.secret("A=file:/a@a.test"), "A=file:/a@a.test"),
    ("gateway.NAME", |b| b.gateway("anthropic,openai"), "anthropic,openai"),
    ("gateway.budget", |b| b.gateway_budget(Budget { requests: Some(5), ..Budget::default() }), "requests=5"),
    ("gateway.prices", |b| b.gateway_price("m*=1/2"), "m*=1/2"),
    ("gateway.log", |b| b.gateway_log("/a"), "/a"),
    ("gateway.log_contents", |b| b.gateway_log_contents(true), "true"),
    ("network.terminate", |b| b.terminate("*"), "*"),
    ("network.no_terminate", |b| b.no_terminate("a.test"), "a.test"),
    ("network.extra_ca", |b| b.extra_ca("/a.pem"), "/a.pem"),
    ("network.deny", |b| b.deny_domain("*.example.com"), "*.example.com"),
    ("network.ask_timeout", |b| b.ask_timeout(Duration::from_millis(1500)), "1.5s"),
    ("network.publish", |b| b.publish(0, 80), "0:80"),
    ("network.parent_proxy", |b| b.parent_proxy("http://p:1", "x"), "http://p:1"),
    ("network.no_proxy", |b| b.parent_proxy("http://p:1", "x"), "x"),
    ("network.http_proxy_port", |b| b.http_proxy_port(3128), "3128"),
    ("network.socks_proxy_port", |b| b.socks_proxy_port(1080), "1080"),
    ("network.unix_sockets", |b| b.unix_sockets(UnixSockets::All), "all"),
    ("network.allow_unix_sockets", |b| b.allow_unix_socket("/run/x"), "/run/x"),
    ("network.budget", |b| b.traffic_budget("egress=a.test=5M"), "egress=a.test=5M"),
    ("limits.memory", |b| b.memory_limit(512 << 20), "512M"),
    ("limits.swap", |b| b.swap_limit(0), "0"),
    ("limits.cpus", |b| b.cpu_limit(0.1), "0.1"),
    ("limits.timeout", |b| b.wall_time_limit(Duration::from_nanos(1)), "0.000000001s"),
    ("limits.cpu_time", |b| b.cpu_time_limit(Duration::from_secs(90)), "1m30s"),
    ("limits.pids", |b| b.max_pids(5), "5"),
    ("limits.open_files", |b| b.max_open_files(5), "5"),
    ("limits.file_size", |b| b.max_file_size(5), "5"),
    ("limits.output", |b| b.max_output(5), "5"),
    ("limits.tmp_size", |b| b.tmp_size(5), "5"),
    ("environment.clear", |b| b.clear_env(true), "true"),
    ("environment.pass", |b| b.pass_env("A"), "A"),
    ("environment.unset", |b| b.unset_env("A"), "A"),
    ("environment.secrets", |b| b.secret_variables(SecretVariables::Withhold), "withhold"),
    ("environment.secret_names", |b| b.secret_name("A_*"), "A_*"),
    ("environment.set", |b| b.env("A", "b=c"), "A=b=c"),
    ("process.workdir", |b| b.working_dir("/a"), "/a"),
    ("process.user", |b| b.root_inside(true), "root"),
    ("process.users", |b| b.users(["root", "builder:500"]), "root,builder:500"),
    ("process.run_as", |b| b.run_as("builder"), "builder"),
    ("process.hostname", |b| b.hostname("h"), "h"),
    ("process.seccomp", |b| b.seccomp_profile(SeccompProfile::Strict), "strict"),
    ("process.nested", |b| b.nested(true), "true"),
];

/// The settings without where they were said.
fn substance(mut settings: Settings) -> String {
    settings.file = None;
    let text = format!("{settings:?}");
    // Origins are printed as `Origin("…")`, and nothing else here has such a word.
    let mut parts = text.split("Origin(\"");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once("\")").map_or(part, |(_, rest)| rest))
}

#[test]
fn every_setting_of_the_table_has_a_method_that_says_the_same_as_a_flag() {
    for (name, key) in keys::all() {
        // Who is asked is a function, which no text can be.
        if name == "network.ask" {
            continue;
        }
        let (built, text) = said(SandboxBuilder::default(), &name, key);
        assert_eq!(built.mistake, None, "{name}");
        let mut flags = Settings::default();
        key.kind
            .state(&mut flags, text.as_ref(), &Base::new("/", None), Origin::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        // One method says both of these.
        if name == "network.parent_proxy" || name == "network.no_proxy" {
            let network = &built.settings.network;
            assert!(network.parent_proxy.is_some() && network.no_proxy.is_some());
            continue;
        }
        assert_eq!(substance(built.settings), substance(flags), "{name}");
    }
    let known: Vec<String> = keys::all().map(|(name, _)| name).collect();
    for (name, ..) in ALL {
        assert!(known.iter().any(|own| own == name), "{name} is not in the table of keys");
    }
}

/// Has a builder say a setting, other than it is by default.
fn said(builder: SandboxBuilder, name: &str, key: &Key) -> (SandboxBuilder, &'static str) {
    if let Some((_, say)) = SandboxBuilder::SWITCHES.iter().find(|(own, _)| *own == name) {
        let on = key.default == "false";
        return (say(builder, on), if on { "true" } else { "false" });
    }
    let found = ALL.iter().find(|(own, ..)| *own == name);
    let (_, say, text) = found.unwrap_or_else(|| panic!("no method of the builder says {name}"));
    (say(builder), text)
}

#[test]
fn every_setting_reaches_the_policy() {
    for (name, key) in keys::all().filter(|(name, _)| name != "network.ask") {
        let before = SandboxBuilder::default();
        let before = match name.as_str() {
            "files.rootfs_write" => before.rootfs("/a"),
            "only" => before.profile("agent"),
            "limits.swap" => before.memory_limit(1 << 20),
            "process.run_as" => before.users(["root", "builder:500"]),
            "gateway.log_contents" => before.gateway_log("/a"),
            "network.terminate" => before.allow_domain("a.test"),
            _ => before,
        };
        let after = said(before.clone(), &name, key).0;
        let (before, after) =
            (before.policy().unwrap(), after.policy().unwrap_or_else(|error| panic!("{name}: {error}")));
        assert_ne!(before, after, "{name} is lost on the way");
    }
}

/// What a policy cannot ask for together: as settings, and as a policy that no settings made.
#[test]
fn what_would_not_start_is_not_built() {
    type Change = fn(&mut kennel_policy::policy::Policy);
    let cases: &[(&str, Change, &str)] = &[
        (
            "[network]\nallow = [\"GET a.test/*\"]\nhttp_proxy_port = 3128",
            |policy| policy.network.http_proxy_port = Some(3128),
            "the rule `GET a.test/*`: nothing can be put into requests, or compared with rules, that a proxy of the host's carries\n\
             help: leave out network.http_proxy_port and network.socks_proxy_port",
        ),
        (
            "[secrets.A]\nfrom = \"env:HOME\"\nhosts = [\"a.test\"]\n[network]\nsocks_proxy_port = 1080",
            |policy| policy.network.socks_proxy_port = Some(1080),
            "the secret A: nothing can be put into requests, or compared with rules, that a proxy of the host's carries\n\
             help: leave out network.http_proxy_port and network.socks_proxy_port",
        ),
        (
            "[network]\nallow = [\"a.test\"]\nparent_proxy = \"socks5://p.test\"",
            |policy| policy.network.parent_proxy = Some("socks5://p.test".into()),
            "network.parent_proxy: kennel connects to a parent proxy by plain HTTP; `socks5` is not supported\n\
             help: write an address such as http://proxy.example.com:3128, or none",
        ),
    ];
    for (text, change, expected) in cases {
        let built = crate::Sandbox::from_settings_text(text).expect_err(text);
        assert_eq!(built.to_string(), *expected);
        assert!(matches!(built, SandboxError::ConfigValidation(_)), "{built:?}");
        // The same without what makes it one.
        let lines = text.lines().filter(|line| {
            !["http_proxy_port", "socks_proxy_port", "parent_proxy"].iter().any(|key| line.starts_with(key))
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        let mut policy = SandboxBuilder::from_settings_text(&text).unwrap().policy().unwrap();
        kennel_policy::merge::check(&policy).unwrap_or_else(|error| panic!("{text}: {error}"));
        change(&mut policy);
        #[cfg(all(target_os = "linux", feature = "network"))]
        {
            let job = crate::job::Job::new(policy.into(), vec!["true".into()]);
            assert_eq!(job.start().expect_err(&text).to_string(), *expected);
        }
    }
}

#[test]
fn whoever_is_to_be_asked_makes_it_an_allow_list() {
    let builder = SandboxBuilder::default().ask_about_hosts(|_| crate::HostAnswer::Deny);
    let policy = builder.policy().unwrap();
    assert_eq!((policy.network.ask, policy.network.mode), (true, NetworkMode::AllowList));
}

#[test]
fn any_setting_can_be_said_by_its_name() {
    let judge = SandboxBuilder::default().profile("judge");
    assert!(judge.clone().policy().unwrap().limits.wall_time.is_some());
    let free = judge.setting("limits.timeout", "unlimited").policy().unwrap();
    assert_eq!(free.limits.wall_time, None);
    let error = SandboxBuilder::default().setting("limits.memroy", "1").policy().unwrap_err();
    assert_eq!(
        error.to_string(),
        "limits.memroy: there is no setting `limits.memroy`; did you mean `limits.memory`?"
    );
}

#[test]
fn a_profile_means_the_same_as_on_the_command_line() {
    for name in profiles::NAMES {
        let base = Homes::of_this_process().base(std::env::current_dir().unwrap());
        let flags = Settings { profiles: vec![stated(name.to_owned(), "profile")], ..Settings::default() };
        let expected = merge(Sources::flags(base, flags)).unwrap().policy;
        assert_eq!(SandboxBuilder::default().profile(name).policy().unwrap(), expected, "{name}");
    }
    let wrong = SandboxBuilder::default().profile("jugde").policy().unwrap_err();
    assert!(wrong.to_string().contains("no profile `jugde`; did you mean `judge`"), "{wrong}");
}

#[test]
fn what_else_is_said_replaces_the_profile_before_and_after_it() {
    for builder in [
        SandboxBuilder::default().profile("judge").memory_limit(1 << 30),
        SandboxBuilder::default().memory_limit(1 << 30).profile("judge"),
    ] {
        let policy = builder.policy().unwrap();
        assert_eq!((policy.limits.memory, policy.limits.pids), (Some(1 << 30), Some(64)));
    }
}

#[test]
fn hosts_that_no_gate_would_see_are_an_error() {
    let error = |builder: SandboxBuilder| builder.policy().unwrap_err().to_string();
    let host = SandboxBuilder::default().network_mode(NetworkMode::Host);
    assert_eq!(
        error(host.clone().deny_domain("x.com")),
        "network.deny `x.com` (deny_domain) cannot be used with network mode `host` (network_mode); \
         use mode `allow-list` to allow only listed hosts"
    );
    assert!(error(host.clone().allow_domain("x.com")).contains("network.allow `x.com`"));
    assert!(error(host.publish(1, 1)).contains("network.publish `1:1`"));
    let none = SandboxBuilder::default().network_mode(NetworkMode::None);
    assert!(error(none.allow_domain("x.com")).contains("network mode `none`"));
}

#[test]
fn a_host_that_is_allowed_makes_it_an_allow_list() {
    let policy = SandboxBuilder::default().allow_domain("x.com").policy().unwrap();
    assert_eq!(policy.network.mode, NetworkMode::AllowList);
}

#[test]
fn what_is_listed_and_missing_is_an_error_where_nothing_else_can_be_read() {
    use kennel_policy::policy::Missing;
    let policy = |reads| SandboxBuilder::default().reads(reads).allow_read("/no/such").policy().unwrap();
    assert_eq!(policy(ReadModel::Listed).files.allow_read[0].missing, Missing::Error);
    assert_eq!(policy(ReadModel::Open).files.allow_read[0].missing, Missing::Skip);
}

#[test]
fn values_that_mean_nothing_are_errors_that_name_the_method() {
    let cases: &[(Say, &str)] = &[
        (|b| b.memory_limit(0), "memory_limit: must be greater than 0"),
        (|b| b.cpu_limit(f64::NAN), "cpu_limit: `NaN` is not a number of CPUs"),
        (|b| b.cpu_limit(1e6), "cpu_limit: `1000000` is not a number of CPUs"),
        (|b| b.max_pids(0), "max_pids: `0` is not a whole number"),
        (|b| b.tmpfs_of_size("/a", 0), "tmpfs_of_size: must be greater than 0"),
        (|b| b.tmpfs("a"), "tmpfs: `a` is not a path inside the sandbox"),
        (|b| b.mount(MountPoint::read_only("/a", "b")), "mount: `b` is not a path inside"),
        (|b| b.env("A=", "x"), "env: `A=` is not a variable's name"),
        (|b| b.publish(80, 0), "publish: `80:0` is not a port to publish"),
        (|b| b.hostname("a b"), "hostname: `a b` is not a host name"),
        (|b| b.keep_fd(2), "keep_fd: `2` is not a descriptor"),
        (|b| b.swap_limit(1), "limits.swap (swap_limit) requires limits.memory"),
        (|b| b.deny_read("$KEYS/x"), "deny_read: `$KEYS/x`"),
    ];
    for (say, expected) in cases {
        let error = say(SandboxBuilder::default()).policy().unwrap_err();
        assert!(matches!(error, SandboxError::ConfigValidation(_)));
        assert!(error.to_string().starts_with(expected), "{error}, not {expected}");
    }
}

#[test]
fn no_secret_is_in_what_debug_prints() {
    let config =
        crate::SandboxConfig { env_vars: [("TOKEN".into(), "hunter2".into())].into(), ..Default::default() };
    let builder = SandboxBuilder::from(config.clone()).parent_proxy("http://me:hunter2@p:1", "");
    let shown = format!("{config:?} {builder:?}");
    assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
}
