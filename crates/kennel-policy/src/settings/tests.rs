use std::path::Path;

use proptest::prelude::*;

use super::keys::{Choices, Kind, SECTIONS, Shape};
use super::*;
use crate::policy::MountAccess;

fn base() -> Base {
    Base::new("/work/app", Some("/home/me".into()))
}

fn toml(text: &str) -> Settings {
    parse(text.as_bytes(), Format::Toml, Provenance::File("kennel.toml"), &base())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    let format = Format::of(Path::new("settings"), text.as_bytes());
    let name = if format == Format::Json { "kennel.json" } else { "kennel.toml" };
    parse(text.as_bytes(), format, Provenance::File(name), &base()).unwrap_err().to_string()
}

/// Every key, in both spellings.
const WHOLE_TOML: &str = r#"
"$schema" = "https://example.com/kennel.json"
profile = "agent"
only = ["files.tmpfs", "network.allow"]
best_effort = true

[files]
reads = "listed"
deny_read = ["~/.ssh", { path = "/srv/**/*.pem" }]
allow_read = ["data", { path = "/app/[slug]", literal = true, missing = "skip" }]
allow_write = [".", "~"]
deny_write = [".git/hooks"]
precedence = "deny-write"
on_replace = "end"
protect_dotfiles = true
refuse_home = true
git = "hooks-and-config-read-only"
mounts = [
    { source = "models", target = "/models" },
    { source = "/srv/cache", target = "/cache", access = "read-write" },
]
tmpfs = ["/scratch", { target = "/big", size = "1G" }, { target = "/small", size = 4096, missing = "create" }]
rootfs = "/srv/root"
rootfs_write = "none"
tmp = "host"
home = "private"
caches = true
host_run = true
system = false
devices = ["/dev/kvm"]
gpus = [0, "amd:1"]

[network]
mode = "allow-list"
allow = ["Example.com", { host = "*.example.org:443", reason = "the API" }, "GET,HEAD docs.rs/*"]
allow_registries = ["npm", "pypi"]
deny = ["169.254.0.0/16"]
terminate = ["*.example.org"]
no_terminate = ["pinned.example.org"]
extra_ca = ["corp.pem"]
system_bundles = true
ask = true
ask_timeout = "30s"
allow_sni_mismatch = true
allow_ech = true
publish = [3000, "8080:80"]
parent_proxy = "http://proxy.example.com:3128"
no_proxy = "corp.example.com,10.0.0.0/8"
http_proxy_port = 3129
socks_proxy_port = 1080
unix_sockets = "listed"
allow_unix_sockets = ["/run/daemon.sock"]
budget = { egress = ["50M", "*.github.com=5M"], ingress = 1000, egress_rate = "1M/s", ingress_rate = [2000] }

[limits]
memory = "1.5G"
swap = 0
cpus = 1.5
timeout = "1m30s"
cpu_time = 10
pids = 64
open_files = 256
file_size = "100M"
output = "unlimited"
tmp_size = 0x100000

[environment]
clear = true
pass = ["LANG"]
unset = ["SECRET"]
secrets = "withhold"
secret_names = ["MY_*_CODE"]
set = { MODE = "test", EMPTY = "", STATE = { path = "~/s" } }

[process]
workdir = "sub"
user = "root"
hostname = "box"
users = ["root", "builder:500"]
run_as = "builder"
seccomp = "strict"
nested = false

[secrets.GITHUB_TOKEN]

[secrets.acme]
from = "file:~/.acme"
mode = "swap"
hosts = ["api.acme.test:443", "*.acme.example"]
variable = "ACME_KEY"
files = ["~/.acme/token"]
whole_files = true
query = true
body = true
plaintext = true
other_credentials = true

[secrets.vault]
from = { command = ["pass", "show", "a b"] }
mode = "inject"

[gateway]
budget = { requests = 100, input_tokens = 1000, output_tokens = 2000, tokens = 3000, bytes = "1M", cost = 2.5 }
log = "gateway.log"
log_contents = true

[gateway.prices]
"claude-*" = { input = 3, output = 15, cache_read = 0.3, cache_write = 3.75 }

[gateway.anthropic]

[gateway.corp]
api = "openai"
key = "file:~/key"
upstream = "https://models.corp.example/v1"
models = ["gpt-*", "o5"]
members = ["corp_team"]
budget.requests = 10
variables = ["CORP_BASE_URL"]
"#;

const WHOLE_JSON: &str = r#"{
    "$schema": "https://example.com/kennel.json",
    "profile": "agent",
    "only": ["files.tmpfs", "network.allow"],
    "best_effort": true,
    "files": {
        "reads": "listed",
        "deny_read": ["~/.ssh", { "path": "/srv/**/*.pem" }],
        "allow_read": ["data", { "path": "/app/[slug]", "literal": true, "missing": "skip" }],
        "allow_write": [".", "~"],
        "deny_write": [".git/hooks"],
        "precedence": "deny-write",
        "on_replace": "end",
        "protect_dotfiles": true,
        "refuse_home": true,
        "git": "hooks-and-config-read-only",
        "mounts": [
            { "source": "models", "target": "/models" },
            { "source": "/srv/cache", "target": "/cache", "access": "read-write" }
        ],
        "tmpfs": ["/scratch", { "target": "/big", "size": "1G" }, { "target": "/small", "size": 4096, "missing": "create" }],
        "rootfs": "/srv/root",
        "rootfs_write": "none",
        "tmp": "host",
        "home": "private",
        "caches": true,
        "host_run": true,
        "system": false,
        "devices": ["/dev/kvm"],
        "gpus": [0, "amd:1"]
    },
    "network": {
        "mode": "allow-list",
        "allow": ["Example.com", { "host": "*.example.org:443", "reason": "the API" }, "GET,HEAD docs.rs/*"],
        "allow_registries": ["npm", "pypi"],
        "deny": ["169.254.0.0/16"],
        "terminate": ["*.example.org"],
        "no_terminate": ["pinned.example.org"],
        "extra_ca": ["corp.pem"],
        "system_bundles": true,
        "ask": true,
        "ask_timeout": "30s",
        "allow_sni_mismatch": true,
        "allow_ech": true,
        "publish": [3000, "8080:80"],
        "parent_proxy": "http://proxy.example.com:3128",
        "no_proxy": "corp.example.com,10.0.0.0/8",
        "http_proxy_port": 3129,
        "socks_proxy_port": 1080,
        "unix_sockets": "listed",
        "allow_unix_sockets": ["/run/daemon.sock"],
        "budget": { "egress": ["50M", "*.github.com=5M"], "ingress": 1000, "egress_rate": "1M/s", "ingress_rate": [2000] }
    },
    "limits": {
        "memory": "1.5G",
        "swap": 0,
        "cpus": 1.5,
        "timeout": "1m30s",
        "cpu_time": 10,
        "pids": 64,
        "open_files": 256,
        "file_size": "100M",
        "output": "unlimited",
        "tmp_size": 1048576
    },
    "environment": {
        "clear": true,
        "pass": ["LANG"],
        "unset": ["SECRET"],
        "secrets": "withhold",
        "secret_names": ["MY_*_CODE"],
        "set": { "MODE": "test", "EMPTY": "", "STATE": { "path": "~/s" } }
    },
    "process": { "workdir": "sub", "user": "root", "users": ["root", "builder:500"], "run_as": "builder", "hostname": "box", "seccomp": "strict", "nested": false },
    "secrets": {
        "GITHUB_TOKEN": {},
        "acme": {
            "from": "file:~/.acme",
            "mode": "swap",
            "hosts": ["api.acme.test:443", "*.acme.example"],
            "variable": "ACME_KEY",
            "files": ["~/.acme/token"],
            "whole_files": true,
            "query": true,
            "body": true,
            "plaintext": true,
            "other_credentials": true
        },
        "vault": { "from": { "command": ["pass", "show", "a b"] }, "mode": "inject" }
    },
    "gateway": {
        "budget": { "requests": 100, "input_tokens": 1000, "output_tokens": 2000, "tokens": 3000, "bytes": "1M", "cost": 2.5 },
        "log": "gateway.log",
        "log_contents": true,
        "prices": { "claude-*": { "input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75 } },
        "anthropic": {},
        "corp": {
            "api": "openai",
            "key": "file:~/key",
            "upstream": "https://models.corp.example/v1",
            "models": ["gpt-*", "o5"],
            "members": ["corp_team"],
            "budget": { "requests": 10 },
            "variables": ["CORP_BASE_URL"]
        }
    }
}"#;

#[test]
fn every_key_is_read() {
    let settings = toml(WHOLE_TOML);
    let files = &settings.files;
    let paths = |list: &[PathEntry]| -> Vec<String> { list.iter().map(|e| e.pattern.to_string()).collect() };
    assert_eq!(paths(&files.deny_read), ["/home/me/.ssh", "/srv/**/*.pem"]);
    assert_eq!(paths(&files.allow_read), ["/work/app/data", "/app/[slug]"]);
    assert!(files.deny_read[1].pattern.is_glob());
    assert!(!files.allow_read[1].pattern.is_glob());
    assert_eq!(files.allow_read[1].missing, Some(Missing::Skip));
    assert_eq!(paths(&files.allow_write), ["/work/app", "/home/me"]);
    assert_eq!(files.mounts[0].source, Path::new("/work/app/models"));
    assert_eq!(files.mounts[0].access, MountAccess::ReadOnly);
    assert_eq!(files.mounts[1].access, MountAccess::ReadWrite);
    let tmpfs: Vec<_> = files.tmpfs.iter().map(|t| (t.target.to_str().unwrap(), t.size)).collect();
    assert_eq!(tmpfs, [("/scratch", None), ("/big", Some(1 << 30)), ("/small", Some(4096))]);
    assert_eq!(settings.network.allow[0].to_string(), "example.com");
    assert_eq!(settings.network.allow[1].reason.as_deref(), Some("the API"));
    assert_eq!(settings.network.mode.as_ref().unwrap().value, NetworkMode::AllowList);
    let published: Vec<String> = settings.network.publish.iter().map(ToString::to_string).collect();
    assert_eq!(published, ["3000:3000", "8080:80"]);
    assert_eq!(settings.network.http_proxy_port.as_ref().unwrap().value, 3129);
    let limits = &settings.limits;
    assert_eq!(limits.memory.as_ref().unwrap().value, Some(3 << 29));
    assert_eq!(limits.timeout.as_ref().unwrap().value, Some(Duration::from_secs(90)));
    assert_eq!(limits.cpu_time.as_ref().unwrap().value, Some(Duration::from_secs(10)));
    assert_eq!(limits.output.as_ref().unwrap().value, None);
    assert_eq!(limits.tmp_size.as_ref().unwrap().value, Some(1 << 20));
    assert_eq!(settings.process.workdir.as_ref().unwrap().value, Path::new("/work/app/sub"));
    assert_eq!(settings.environment.set[0].value, ("MODE".into(), "test".into()));
}

#[test]
fn secrets_and_rules_about_requests_are_read() {
    let settings = toml(WHOLE_TOML);
    assert_eq!(settings.network.http[0].to_string(), "GET,HEAD docs.rs/*");
    assert_eq!(settings.network.allow.len(), 2);
    assert_eq!(settings.network.extra_ca[0].value, Path::new("/work/app/corp.pem"));
    let [github, acme, vault] = &settings.secrets[..] else { panic!("three secrets") };
    assert_eq!((github.name.as_str(), &github.from, github.hosts.len()), ("GITHUB_TOKEN", &None, 0));
    assert_eq!(acme.from.as_ref().unwrap().to_string(), "file:/home/me/.acme");
    assert_eq!(acme.hosts[0].to_string(), "api.acme.test:443");
    assert_eq!(
        (acme.files[0].to_str(), acme.variable.as_deref()),
        (Some("/home/me/.acme/token"), Some("ACME_KEY".as_ref()))
    );
    assert!(acme.swap_in.query && acme.swap_in.body && acme.swap_in.plaintext && acme.swap_in.others);
    assert_eq!(vault.from.as_ref().unwrap().to_string(), "command:pass …");
    assert_eq!(vault.mode, crate::secrets::SecretMode::Inject);
    // Each knows its line, also where its table is spread over several.
    let settings =
        toml("\n[secrets.A]\n\n[secrets.B]\nhosts = [\n\"x.test\"]\n[secrets]\nC.from = \"env:D\"");
    let lines: Vec<_> = settings.secrets.iter().map(|secret| secret.origin.to_string()).collect();
    assert_eq!(lines, ["kennel.toml:2", "kennel.toml:4", "kennel.toml:8"]);
    assert_eq!(settings.secrets[1].hosts[0].origin.to_string(), "kennel.toml:6");
}

#[test]
fn a_mistake_in_a_secret_has_its_line_and_never_its_value() {
    for (text, message) in [
        ("secrets = 1", "kennel.toml:1: `secrets` is a number, but must be a table"),
        ("[secrets]\nA = \"x\"", "kennel.toml:2: `secrets.A` is a string, but must be a table"),
        (
            "[secrets.A]\nform = \"env:A\"",
            "kennel.toml:2: unknown key `form` in `secrets.A`; did you mean `from`?",
        ),
        (
            "[secrets.A]\nmode = \"swop\"",
            "kennel.toml:2: `secrets.A.mode`: `swop` is not one of `swap`, `inject`; did you mean `swap`?",
        ),
        (
            "[secrets.A]\nhosts = \"x.test\"",
            "kennel.toml:2: `secrets.A.hosts` is a string, but must be a list of strings",
        ),
        (
            "[secrets.A]\nhosts = [\n\"x.test\",\n\"https://x.test/\"]",
            "kennel.toml:4: `secrets.A.hosts`: `https://x.test/` is a URL; write only its host, such as `example.com` or `example.com:443`",
        ),
        (
            "[secrets.A]\nvariable = \"\"",
            "kennel.toml:2: `secrets.A.variable`: `` is not a variable's name; it cannot be empty or contain `=` or NUL",
        ),
        (
            "[secrets.A]\nfrom = 1",
            "kennel.toml:2: `secrets.A.from` is a number, but must be a string, or a table with `command`",
        ),
        (
            "[secrets.A]\nfrom = { command = \"x\" }",
            "kennel.toml:2: `secrets.A.from.command` is a string, but must be a list of strings",
        ),
        (
            "[secrets.A]\nfrom = \"hunter2\"",
            "kennel.toml:2: `secrets.A.from`: write where the value comes from, as env:NAME, file:PATH, fd:N, command:PROGRAM or keyring:SERVICE/ACCOUNT; what was written is not shown, since it may be the value itself",
        ),
        (
            "[secrets.\"a b\"]",
            "kennel.toml:1: `secrets`: `a b` is not a secret's name; write letters, digits, `-`, `_` and `.`, at most 64",
        ),
        (
            "[network]\nallow = [\"GET a.test/../b\"]",
            "kennel.toml:2: `network.allow`: the path: it has a part `.` or `..`, or dots beside nothing that every server reads as part of a name",
        ),
    ] {
        assert_eq!(error(text), message);
    }
}

#[test]
fn a_gateway_is_read() {
    use crate::gateway::Api;
    let gateway = toml(WHOLE_TOML).gateway;
    let budget = gateway.budget.unwrap().value;
    assert_eq!((budget.requests, budget.bytes, budget.cost), (Some(100), Some(1 << 20), Some(2.5)));
    assert_eq!(
        (budget.input_tokens, budget.output_tokens, budget.tokens),
        (Some(1000), Some(2000), Some(3000))
    );
    let (model, price) = &gateway.prices[0].value;
    assert_eq!((model.as_str(), price.input, price.cache_write), ("claude-*", 3.0, Some(3.75)));
    assert_eq!(gateway.log.unwrap().value, Path::new("/work/app/gateway.log"));
    let [anthropic, corp] = &gateway.providers[..] else { panic!("two providers") };
    assert_eq!((anthropic.name.as_str(), anthropic.api), ("anthropic", None));
    assert_eq!((corp.api, corp.budget.requests), (Some(Api::OpenAi), Some(10)));
    assert_eq!(
        corp.origin.to_string(),
        format!("kennel.toml:{}", 1 + WHOLE_TOML.lines().position(|line| line == "[gateway.corp]").unwrap())
    );
    for (text, message) in [
        ("[gateway]\nlgo = \"x\"", "kennel.toml:2: unknown key `lgo` in `gateway`; did you mean `log`?"),
        (
            "[gateway.openai]\nmodel = []",
            "kennel.toml:2: unknown key `model` in `gateway.openai`; did you mean `models`?",
        ),
        (
            "[gateway.openai]\napi = \"claude\"",
            "kennel.toml:2: `gateway.openai.api`: `claude` is not one of `anthropic`, `openai`, `gemini`, `ollama`",
        ),
        (
            "[gateway.openai]\nkey = \"hunter2\"",
            "kennel.toml:2: `gateway.openai.key`: write where the value comes from, as env:NAME, file:PATH, fd:N, command:PROGRAM or keyring:SERVICE/ACCOUNT; what was written is not shown, since it may be the value itself",
        ),
        (
            "[gateway.openai]\nupstream = \"api.openai.com\"",
            "kennel.toml:2: `gateway.openai.upstream`: `api.openai.com` is not an address of a provider; write it like https://api.example.com, without a login or a query",
        ),
        (
            "[gateway.openai]\nbudget.tokens = \"many\"",
            "kennel.toml:2: `gateway.openai.budget.tokens` is a string, but must be a number",
        ),
        (
            "[gateway.budget]\nrequests = 1.5",
            "kennel.toml:2: `gateway.budget.requests`: `1.5` must be a whole number",
        ),
        (
            "[gateway.prices]\nx = { input = 1 }",
            "kennel.toml:2: `gateway.prices.x` has an entry without `output`",
        ),
        (
            "[gateway.\"a/b\"]",
            "kennel.toml:1: `gateway`: `a/b` is not a provider's name; write letters, digits, `-`, `_` and `.`, at most 64",
        ),
    ] {
        assert_eq!(error(text), message);
    }
}

#[test]
fn toml_and_json_say_the_same() {
    let json = parse(WHOLE_JSON.as_bytes(), Format::Json, Provenance::Profile("x"), &base()).unwrap();
    let toml = parse(WHOLE_TOML.as_bytes(), Format::Toml, Provenance::Profile("x"), &base()).unwrap();
    assert_eq!(json, toml);
}

#[test]
fn rules_know_their_line() {
    let settings =
        toml("\n[files]\nallow_write = [\n    \"a\",\n    { path = \"b\" },\n]\ndeny_read = [\"c\"]\n");
    let lines: Vec<_> = settings.files.allow_write.iter().map(|e| e.origin.to_string()).collect();
    assert_eq!(lines, ["kennel.toml:4", "kennel.toml:5"]);
    assert_eq!(settings.files.deny_read[0].origin.to_string(), "kennel.toml:7");
}

#[test]
fn an_unknown_key_names_the_nearest() {
    let cases = [
        ("profil = \"agent\"", "kennel.toml:1: unknown key `profil`; did you mean `profile`?"),
        ("[file]\nx = 1", "kennel.toml:1: unknown key `file`; did you mean `files`?"),
        (
            "[files]\n\nalow_write = []",
            "kennel.toml:3: unknown key `alow_write` in `files`; did you mean `allow_write`?",
        ),
        (
            "[network]\nmemory = 1",
            "kennel.toml:2: unknown key `memory` in `network`; `memory` belongs in `limits`",
        ),
        ("memory = 1", "kennel.toml:1: unknown key `memory`; `memory` belongs in `limits`"),
        (
            "[files]\nprofile = \"x\"",
            "kennel.toml:2: unknown key `profile` in `files`; `profile` belongs at the top",
        ),
        ("memry = 1", "kennel.toml:1: unknown key `memry`; did you mean `memory` in `limits`?"),
        ("colour = 1", "kennel.toml:1: unknown key `colour`"),
        (
            "[files]\nallow_read = [{ path = \"a\", mising = \"skip\" }]",
            "kennel.toml:2: unknown key `mising` in `files.allow_read`; did you mean `missing`?",
        ),
        (
            "{\n\"limits\": {\n\"mem\\nory\": 1}}",
            "kennel.json:3: unknown key `mem\\nory` in `limits`; did you mean `memory`?",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(error(text), message);
    }
}

#[test]
fn the_first_mistake_of_a_file_is_reported() {
    assert_eq!(error("zzz = 1\naaa = 1"), "kennel.toml:1: unknown key `zzz`");
}

#[test]
fn a_wrong_type_says_what_belongs_there() {
    let cases = [
        ("files = 1", "kennel.toml:1: `files` is a number, but must be a table"),
        (
            "[files]\nallow_write = \"x\"",
            "kennel.toml:2: `files.allow_write` is a string, but must be a list",
        ),
        (
            "[files]\nallow_write = [1]",
            "kennel.toml:2: `files.allow_write` is a number, but must be a list of strings or tables",
        ),
        (
            "[files]\nmounts = [\"x\"]",
            "kennel.toml:2: `files.mounts` is a string, but must be a list of tables",
        ),
        (
            "[files]\nmounts = [{ source = \"x\" }]",
            "kennel.toml:2: `files.mounts` has an entry without `target`",
        ),
        (
            "[files]\nhost_run = \"yes\"",
            "kennel.toml:2: `files.host_run` is a string, but must be true or false",
        ),
        (
            "[limits]\nmemory = true",
            "kennel.toml:2: `limits.memory` is a boolean, but must be a size such as \"512M\", or a number of bytes",
        ),
        (
            "[limits]\ntimeout = 1979-05-27",
            "kennel.toml:2: `limits.timeout` is a date, but must be a duration such as \"30s\", or a number of seconds",
        ),
        (
            "[limits]\npids = \"64\"",
            "kennel.toml:2: `limits.pids` is a string, but must be a number, or \"unlimited\"",
        ),
        (
            "[environment]\nset = { A = 1 }",
            "kennel.toml:2: `environment.set.A` is a number, but must be a string, or a table with `path`",
        ),
        (
            "{\"limits\": {\"memory\": null}}",
            "kennel.json:1: `limits.memory` is null, but must be a size such as \"512M\", or a number of bytes",
        ),
        (
            "[files]\nallow_read = [{ path = \"a\", literal = 1 }]",
            "kennel.toml:2: `files.allow_read.literal` is a number, but must be true or false",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(error(text), message);
    }
}

#[test]
fn a_value_that_makes_no_sense_says_why() {
    let cases = [
        (
            "[files]\nreads = \"opne\"",
            "kennel.toml:2: `files.reads`: `opne` is not one of `listed`, `open`; did you mean `open`?",
        ),
        ("[files]\nallow_write = [\"\"]", "kennel.toml:2: `files.allow_write`: ``: the path is empty"),
        (
            "[files]\nallow_write = [\"a/../*\"]",
            "kennel.toml:2: `files.allow_write`: `a/../*`: a glob cannot contain `..`; write the actual folder",
        ),
        (
            "[files]\nallow_write = [\"~you/x\"]",
            "kennel.toml:2: `files.allow_write`: `~you/x`: only `~` and `~/…` are supported; write another user's home in full, or `./~…` for such a name",
        ),
        (
            "[files]\ntmpfs = [\"x\"]",
            "kennel.toml:2: `files.tmpfs`: `x` is not a path inside the sandbox; write an absolute path without `..`",
        ),
        (
            "[files]\ntmpfs = [{ target = \"/x\", size = 0 }]",
            "kennel.toml:2: `files.tmpfs`: must be greater than 0; leave it out for no limit",
        ),
        (
            "[limits]\nmemory = 0",
            "kennel.toml:2: `limits.memory`: must be greater than 0; leave it out for no limit",
        ),
        (
            "[limits]\npids = 1.5",
            "kennel.toml:2: `limits.pids`: `1.5` is not a whole number from 1 to 4194304",
        ),
        (
            "[limits]\nmemory = -1",
            "kennel.toml:2: `limits.memory`: `-1` is not a size; write bytes, or a number with K, M, G or T, such as `512M` or `1.5G`",
        ),
        (
            "[limits]\ncpus = inf",
            "kennel.toml:2: `limits.cpus`: `inf` is not a number of CPUs; write a number such as `1.5`, from 0.01 to 65536",
        ),
        (
            "[network]\nallow = [\"https://x.com\"]",
            "kennel.toml:2: `network.allow`: `https://x.com` is a URL; write only its host, such as `example.com` or `example.com:443`",
        ),
        (
            "[environment]\npass = [\"A=B\"]",
            "kennel.toml:2: `environment.pass`: `A=B` is not a variable's name; it cannot be empty or contain `=` or NUL",
        ),
        (
            "[process]\nhostname = \"a b\"",
            "kennel.toml:2: `process.hostname`: `a b` is not a host name; write at most 64 letters, digits, `-` and `.`",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(error(text), message);
    }
}

#[test]
fn broken_files_are_refused_with_the_line() {
    assert!(error("a = [\n1,\n").starts_with("kennel.toml:"));
    assert_eq!(
        error("{\n\"profile\": \"a\",\n\"profile\": \"b\"}"),
        "kennel.json:3: the key `profile` is given twice"
    );
    assert!(error("profile = \"a\"\nprofile = \"b\"").starts_with("kennel.toml:2: "));
    let read =
        |bytes: &[u8]| parse(bytes, Format::Toml, Provenance::File("f"), &base()).unwrap_err().to_string();
    assert_eq!(read(b"\xff"), "f: the file is not UTF-8 text");
    assert_eq!(read(&vec![b'\n'; (1 << 20) + 1]), "f: the file is larger than 1 MiB, the limit for settings");
    let deep = |n: usize| format!("x = {}{}", "[".repeat(n), "]".repeat(n));
    for levels in [70, 100, 100_000] {
        assert_eq!(
            error(&deep(levels)),
            "kennel.toml:1: the values are nested more than 64 deep",
            "{levels}"
        );
    }
    assert_eq!(
        error(&format!("{} = 1", vec!["a"; 70].join("."))),
        "kennel.toml:1: the values are nested more than 64 deep"
    );
}

#[test]
fn no_home_is_an_error_only_where_it_is_needed() {
    let base = Base::new("/", None);
    let read = |text: &str| parse(text.as_bytes(), Format::Toml, Provenance::File("f"), &base);
    assert!(read("[files]\nallow_write = [\"/x\"]").is_ok());
    let message = read("[files]\nallow_write = [\"~/x\"]").unwrap_err().to_string();
    assert_eq!(
        message,
        "f:2: `files.allow_write`: `~` means the home folder, but neither HOME nor the user database says where it is"
    );
}

#[test]
fn the_home_is_expanded_however_it_is_spelt_and_other_variables_are_refused() {
    let settings = toml("[files]\ndeny_read = [\"$HOME/.ssh\", \"${HOME}/.aws/*\", \"$HOME\", \"~\"]");
    let paths: Vec<_> = settings.files.deny_read.iter().map(|entry| entry.pattern.to_string()).collect();
    assert_eq!(paths, ["/home/me/.ssh", "/home/me/.aws/*", "/home/me", "/home/me"]);
    for (text, name) in [
        ("$XDG_CONFIG_HOME/x", "$XDG_CONFIG_HOME"),
        ("${XDG_DATA_HOME}", "${XDG_DATA_HOME}"),
        ("/home/$USER/.ssh", "$USER"),
        ("$HOME.bak", "$HOME.bak"),
        ("~/$DIR", "$DIR"),
        ("$(pwd)/x", "$(pwd)"),
        ("${X:-y}", "${X:-y}"),
        ("$HOME/*/$KEYS", "$KEYS"),
    ] {
        for list in ["deny_read", "deny_write", "allow_read", "allow_write"] {
            let message = error(&format!("files.{list} = [\"{text}\"]"));
            let told = format!(
                "kennel.toml:1: `files.{list}`: `{text}`: kennel expands `$HOME` at the start and no other variable; write out the value of `{name}`, or `[$]` for the character itself"
            );
            assert_eq!(message, told);
        }
    }
    // Names that only hold a `$` are names, and so is what is said literally.
    let plain = toml(
        "files.deny_read = [\"a$b.class\", \"$\", \"[$]x\", { path = \"$x\", literal = true }, \"/1/$2\"]",
    );
    let paths: Vec<_> = plain.files.deny_read.iter().map(|entry| entry.pattern.to_string()).collect();
    assert_eq!(paths, ["/work/app/a$b.class", "/work/app/$", "/work/app/$x", "/work/app/$x", "/1/$2"]);
    assert!(error("files.deny_read = [\" ~/.ssh\"]").contains("starts with a blank"));
    assert!(error("files.deny_read = [\"\\n/x\"]").contains("starts with a blank"));
    assert!(error("files.deny_read = [\"~me/.ssh\"]").contains("only `~` and `~/…` are supported"));
}

#[test]
fn a_deny_below_the_home_holds_in_every_home_and_an_allow_in_one() {
    let base = Base { other_homes: vec!["/root".into()], ..base() };
    let text = "[files]\ndeny_read = [\"~/.ssh\", { path = \"$HOME/*\", literal = true }, \"x\"]\nallow_read = [\"~/a\"]";
    let files = parse(text.as_bytes(), Format::Toml, Provenance::File("f"), &base).unwrap().files;
    let paths = |list: &[PathEntry]| list.iter().map(|entry| entry.pattern.to_string()).collect::<Vec<_>>();
    assert_eq!(
        paths(&files.deny_read),
        ["/home/me/.ssh", "/root/.ssh", "/home/me/*", "/root/*", "/work/app/x"]
    );
    assert!(files.deny_read.iter().all(|entry| entry.origin.to_string() == "f:2"));
    assert!(!files.deny_read[3].pattern.is_glob());
    assert_eq!(paths(&files.allow_read), ["/home/me/a"]);
}

#[test]
fn many_rules_cost_one_pass() {
    let lines: Vec<String> = (0..20_000).map(|i| format!("    \"/srv/{i}\",")).collect();
    let text = format!("[files]\nallow_read = [\n{}\n]\n", lines.join("\n"));
    let start = std::time::Instant::now();
    let settings = toml(&text);
    assert_eq!(settings.files.allow_read[19_999].origin.to_string(), "kennel.toml:20002");
    // Counting lines from the top for each rule would take about 4 G steps.
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn a_flag_says_what_a_file_says() {
    let mut flags = Settings::default();
    for (key, text) in [
        ("files.mounts", "models:/models"),
        ("files.mounts", "/srv/cache:/cache:rw"),
        ("files.tmpfs", "/big:1G"),
        ("environment.set", "MODE=a=b"),
        ("limits.memory", "1.5G"),
        ("best_effort", "true"),
    ] {
        let kind = &keys::find(key).unwrap().kind;
        kind.state(&mut flags, text.as_ref(), &base(), Origin("--x".to_owned())).unwrap();
    }
    let file = toml(WHOLE_TOML);
    assert_eq!(flags.files.mounts.len(), 2);
    for (flag, file) in flags.files.mounts.iter().zip(&file.files.mounts) {
        assert_eq!((&flag.source, &flag.target, flag.access), (&file.source, &file.target, file.access));
    }
    assert_eq!(flags.files.tmpfs[0].size, Some(1 << 30));
    assert_eq!(flags.environment.set[0].value, ("MODE".into(), "a=b".into()));
    assert_eq!(flags.limits.memory.unwrap().value, Some(3 << 29));

    let fail = |key: &str, text: &str| {
        let kind = &keys::find(key).unwrap().kind;
        kind.state(&mut Settings::default(), text.as_ref(), &base(), Origin::default())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        fail("files.mounts", "/a"),
        "`/a` is not a mount; write SOURCE:TARGET, or SOURCE:TARGET:rw to make it writable"
    );
    assert!(fail("files.mounts", "/a:/b:/c").contains("is not a mount"));
    assert!(fail("files.mounts", "/a:b").contains("not a path inside"));
    assert!(fail("files.tmpfs", "/a:lots").contains("is not a size"));
    assert_eq!(fail("environment.set", "NAME"), "`NAME` is not a variable; write NAME=VALUE");
}

#[cfg(unix)]
#[test]
fn paths_and_variables_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let mut flags = Settings::default();
    let mut say = |key: &str, bytes: &[u8]| {
        keys::find(key).unwrap().kind.state(&mut flags, OsStr::from_bytes(bytes), &base(), Origin::default())
    };
    say("files.allow_write", b"\xff/x").unwrap();
    say("environment.set", b"A=\xff").unwrap();
    assert!(say("limits.memory", b"\xff").unwrap_err().to_string().contains("is not UTF-8 text"));
    assert_eq!(flags.files.allow_write[0].pattern.as_path().as_os_str().as_bytes(), b"/work/app/\xff/x");
    assert_eq!(flags.environment.set[0].value.1.as_bytes(), b"\xff");
}

#[test]
fn descriptors_to_keep_are_above_two() {
    let mut flags = Settings::default();
    flags.keep_fd("3".as_ref()).unwrap();
    assert_eq!(flags.process.keep_fds, [3]);
    for text in ["2", "-1", "x", "99999999999"] {
        assert!(flags.keep_fd(text.as_ref()).is_err(), "{text}");
    }
}

/// Checks a value against the parts of JSON Schema that ours uses.
fn conforms(
    value: &serde_json::Value,
    schema: &serde_json::Value,
    root: &serde_json::Value,
) -> Result<(), String> {
    use serde_json::Value::{Array, Bool, Number, Object, String};
    if let Some(reference) = schema["$ref"].as_str() {
        let target =
            root.pointer(reference.trim_start_matches('#')).ok_or(format!("{reference} leads nowhere"))?;
        return conforms(value, target, root);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let fit = any.iter().any(|schema| conforms(value, schema, root).is_ok());
        return if fit { Ok(()) } else { Err(format!("{value} fits none of {schema}")) };
    }
    if let Some(words) = schema["enum"].as_array() {
        return if words.contains(value) { Ok(()) } else { Err(format!("{value} is not among {schema}")) };
    }
    if !schema["const"].is_null() {
        return if *value == schema["const"] { Ok(()) } else { Err(format!("{value} is not {schema}")) };
    }
    match (schema["type"].as_str(), value) {
        (Some("object"), Object(entries)) => {
            for (key, value) in entries {
                let additional = &schema["additionalProperties"];
                match schema["properties"].get(key) {
                    Some(schema) => conforms(value, schema, root)?,
                    None if additional.is_object() => conforms(value, additional, root)?,
                    None => return Err(format!("{key} is not in the schema")),
                }
            }
            Ok(())
        }
        (Some("array"), Array(items)) => {
            items.iter().try_for_each(|item| conforms(item, &schema["items"], root))
        }
        (Some("string"), String(_)) | (Some("boolean"), Bool(_)) | (Some("number"), Number(_)) => Ok(()),
        (Some("integer"), Number(number)) if number.is_u64() => Ok(()),
        _ => Err(format!("{value} is not {schema}")),
    }
}

#[test]
fn what_the_reader_accepts_is_in_the_schema() {
    let sample: serde_json::Value = serde_json::from_str(WHOLE_JSON).unwrap();
    let schema = schema();
    conforms(&sample, &schema, &schema).unwrap();
    let wrong = serde_json::json!({ "files": { "alow_write": [] } });
    assert!(conforms(&wrong, &schema, &schema).is_err());
}

#[test]
fn what_is_in_the_schema_is_in_the_sample_that_the_reader_accepts() {
    let sample: serde_json::Value = serde_json::from_str(WHOLE_JSON).unwrap();
    let schema = schema();
    for (name, property) in schema["properties"].as_object().unwrap() {
        assert!(sample.get(name).is_some(), "{name} is not in the sample");
        for key in property["properties"].as_object().into_iter().flat_map(|p| p.keys()) {
            assert!(sample[name].get(key).is_some(), "{name}.{key} is not in the sample");
        }
    }
    let shapes: [&Shape; 11] = [
        &keys::PATH,
        &keys::HOST,
        &keys::MOUNT,
        &keys::TMPFS,
        &keys::VARIABLE,
        &keys::SECRET,
        &keys::COMMAND,
        &keys::PROVIDER,
        &keys::BUDGET,
        &keys::PRICE,
        &keys::TRAFFIC,
    ];
    for field in shapes.iter().flat_map(|shape| shape.fields) {
        assert!(WHOLE_JSON.contains(&format!("\"{}\":", field.name)), "{} is not in the sample", field.name);
    }
}

#[test]
fn every_word_of_a_choice_is_read() {
    for section in SECTIONS {
        for key in section.keys {
            let Kind::Choice(choices) = &key.kind else { continue };
            let choices: &dyn Choices = *choices;
            for (index, word) in choices.words().iter().enumerate() {
                let mut settings = toml(&format!("[{}]\n{} = \"{word}\"", section.name, key.name));
                assert_eq!(choices.stated(&mut settings), Some(index));
            }
        }
    }
}

#[test]
fn a_file_is_known_by_its_extension_or_its_first_character() {
    assert_eq!(Format::of(Path::new("a.json"), b""), Format::Json);
    assert_eq!(Format::of(Path::new("a.toml"), b"{"), Format::Toml);
    assert_eq!(Format::of(Path::new("/dev/stdin"), b"\n {"), Format::Json);
    assert_eq!(Format::of(Path::new("/dev/stdin"), b"[files]"), Format::Toml);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for format in [Format::Toml, Format::Json] {
            let _ = parse(&bytes, format, Provenance::File("f"), &base());
        }
    }

    #[test]
    fn cut_and_spliced_settings_never_panic(
        from in 0..WHOLE_TOML.len(),
        length in 0..80usize,
        insert in "[\\[\\]{}=\",.a-z0-9\\n\\\\]{0,12}",
    ) {
        for (text, format) in [(WHOLE_TOML, Format::Toml), (WHOLE_JSON, Format::Json)] {
            let from = from.min(text.len());
            let to = (from + length).min(text.len());
            let spliced = [&text[..from], &insert, &text[to..]].concat();
            if let Err(error) = parse(spliced.as_bytes(), format, Provenance::File("f"), &base()) {
                let line = error.line.unwrap_or(1);
                prop_assert!((1..=spliced.matches('\n').count() + 1).contains(&line), "{error}");
            }
        }
    }
}

#[test]
fn a_variable_can_be_a_path() {
    let text =
        "[environment.set]\nSTATE = { path = \"~/.state\" }\nHERE = { path = \"x\" }\nPLAIN = \"~/.state\"";
    let settings = parse(text.as_bytes(), Format::Toml, Provenance::File("kennel.toml"), &base()).unwrap();
    let set: Vec<_> =
        settings.environment.set.iter().map(|one| one.value.1.to_string_lossy().into_owned()).collect();
    assert_eq!(set, ["/home/me/.state", "/work/app/x", "~/.state"]);
    for (text, message) in [
        (
            "STATE = { path = 1 }",
            "kennel.toml:2: `environment.set.STATE.path` is a number, but must be a string",
        ),
        ("STATE = { file = \"x\" }", "kennel.toml:2: unknown key `file` in `environment.set.STATE`"),
        ("STATE = {}", "kennel.toml:2: `environment.set.STATE` has an entry without `path`"),
    ] {
        assert_eq!(error(&format!("[environment.set]\n{text}")), message);
    }
}

#[test]
fn only_a_place_to_write_that_is_no_glob_can_be_created() {
    let create = |list: &str, path: &str| {
        error(&format!("[files]\n{list} = [{{ path = \"{path}\", missing = \"create\" }}]"))
    };
    let refused = "only a path in `files.allow_write` that is not a glob can be created";
    for (list, path) in [("deny_read", "x"), ("allow_read", "x"), ("deny_write", "x"), ("allow_write", "x/*")]
    {
        assert_eq!(create(list, path), format!("kennel.toml:2: `files.{list}`: {refused}"));
    }
    let text = "[files]\nallow_write = [{ path = \"x\", missing = \"create\" }]";
    let settings = parse(text.as_bytes(), Format::Toml, Provenance::File("kennel.toml"), &base()).unwrap();
    assert_eq!(settings.files.allow_write[0].missing, Some(Missing::Create));
}

#[test]
fn a_profiles_name_leads_to_no_other_folder() {
    for name in ["../x", "a/b", "", ".hidden", "..", "a b", "a\\nb"] {
        let message = error(&format!("profile = \"{name}\""));
        assert!(message.contains("is not a profile's name"), "{message}");
    }
}

#[test]
fn a_row_is_found_by_its_name_and_a_switch_has_that_of_its_row() {
    let mut policy = crate::policy::Policy::default();
    for (name, key) in keys::all() {
        assert!(std::ptr::eq(keys::named(&name), key), "{name}");
        if let keys::Kind::Switch(switch) = &key.kind {
            assert_eq!(switch.name(), name);
            assert_eq!(switch.of(&mut policy).to_string(), key.default, "{name}");
        }
    }
    for wrong in ["files", "files.", "memory", "limits.memor", "limits.memoryy", "network.memory", ""] {
        assert!(std::panic::catch_unwind(|| keys::named(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn limits_on_traffic_are_read_as_the_flags_write_them() {
    let shown = |text: &str| -> Vec<String> {
        let limits = toml(text).network.budget;
        limits.iter().map(|limit| format!("{} {limit} {}", limit.measure.key(), limit.origin)).collect()
    };
    assert_eq!(
        shown("[network.budget]\negress = [\"50M\", \"A.test=5M\",\n\"a.test=4M\"]\ningress_rate = 1024"),
        ["egress 50M kennel.toml:2", "egress a.test=4M kennel.toml:3", "ingress_rate 1K/s kennel.toml:4"]
    );
    for (value, said) in [
        (
            "egress = true",
            "`network.budget.egress` is a boolean, but must be a size such as \"50M\", or a list",
        ),
        ("egress = [{}]", "`network.budget.egress` is a table, but must be a size"),
        ("egress = \"5M/s\"", "a limit for each second is egress_rate or ingress_rate"),
        ("egress = 0", "must be greater than 0"),
        ("egress = \"a.test:443=5M\"", "a budget is for a host, whatever the port"),
        ("egres = 5", "unknown key `egres` in `network.budget`; did you mean `egress`?"),
    ] {
        let error = error(&format!("[network.budget]\n{value}"));
        assert!(error.contains(said), "{error}");
    }
    let many: Vec<String> = (0..300).map(|number| format!("\"h{number}.test=5\"")).collect();
    let error = error(&format!("[network.budget]\negress = [{}]", many.join(",")));
    assert!(error.contains("at most 256"), "{error}");
}
