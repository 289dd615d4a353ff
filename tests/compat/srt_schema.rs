//! Which settings are accepted: hundreds of files, each asked of srt's own schema and of kennel.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::compat::peers;
use crate::compat::world::{Place, Which, run, srt};

/// Values for keys of `network`, as JSON.
const NETWORK: &[(&str, &[&str])] = &[
    ("strictAllowlist", BOOLEANS),
    ("allowAllUnixSockets", BOOLEANS),
    ("allowLocalBinding", BOOLEANS),
    ("allowPlaintextHeaderSet", BOOLEANS),
    ("requireHostMatch", BOOLEANS),
    ("refuseOpaqueTunnels", BOOLEANS),
    (
        "allowUnixSockets",
        &["[]", r#"["/a"]"#, r#"[""]"#, "[1]", r#"[{"path": "/a", "literal": true}]"#, r#""/a""#],
    ),
    ("allowMachLookup", &[r#"["a.b", "a.*", "*"]"#, r#"["*.a"]"#, r#"["a*b"]"#, r#"["**"]"#, "[1]", "{}"]),
    ("httpProxyPort", PORTS),
    ("socksProxyPort", PORTS),
    ("deniedDomainReasons", &["{}", r#"{"a.b": "why"}"#, r#"{"a.b": ""}"#, r#"{"a.b": 1}"#, "[]", "null"]),
    ("deniedResolvedAddresses", ADDRESSES),
    (
        "ambiguousRequestTarget",
        &[r#""refuse""#, r#""asSpelled""#, r#""normalize""#, r#""other""#, "1", "null"],
    ),
    (
        "stripResponseHeaders",
        &["[]", r#"["set-cookie"]"#, r#"["no header"]"#, r#"[""]"#, "[1]", "null", "{}"],
    ),
    ("filterRequest", &["null", "false", "{}", r#""x""#]),
    (
        "tlsTerminate",
        &[
            "{}",
            "null",
            "false",
            "[]",
            r#"{"more": 1}"#,
            r#"{"caCertPath": "/a"}"#,
            r#"{"caKeyPath": "/a"}"#,
            r#"{"caCertPath": "", "caKeyPath": ""}"#,
            r#"{"caCertPath": 1, "caKeyPath": "/a"}"#,
            r#"{"excludeDomains": []}"#,
            r#"{"excludeDomains": ["a.b", "*.c.d", "localhost", "127.0.0.1", "::1"]}"#,
            r#"{"excludeDomains": ["[::1]"]}"#,
            r#"{"excludeDomains": ["a.b:443"]}"#,
            r#"{"excludeDomains": ["*"]}"#,
            r#"{"excludeDomains": ["*.com"]}"#,
            r#"{"excludeDomains": "a.b"}"#,
            r#"{"extraCaCertPaths": ["/no/such/file"]}"#,
            r#"{"extraCaCertPaths": [""]}"#,
            r#"{"extraCaCertPaths": "/a"}"#,
            r#"{"maxTunnels": 1}"#,
            r#"{"maxTunnels": 65536}"#,
            r#"{"maxTunnels": 0}"#,
            r#"{"maxTunnels": 65537}"#,
            r#"{"maxTunnels": 1.5}"#,
            r#"{"handshakeTimeoutMs": 100}"#,
            r#"{"handshakeTimeoutMs": 600000}"#,
            r#"{"handshakeTimeoutMs": 99}"#,
            r#"{"handshakeTimeoutMs": 600001}"#,
            r#"{"handshakeTimeoutMs": "100"}"#,
        ],
    ),
    (
        "mitmProxy",
        &[
            "null",
            "{}",
            r#"{"socketPath": "", "domains": ["a.b"]}"#,
            r#"{"socketPath": "/x", "domains": []}"#,
        ],
    ),
    (
        "parentProxy",
        &[
            "{}",
            r#"{"http": "http://a.b:1"}"#,
            r#"{"http": "http://u:p@a.b:1/"}"#,
            r#"{"http": "a.b"}"#,
            r#"{"http": ""}"#,
            r#"{"http": "http://"}"#,
            r#"{"http": "http://a.b:99999"}"#,
            r#"{"https": 1}"#,
            r#"{"noProxy": "a,b"}"#,
            r#"{"noProxy": []}"#,
            "null",
            "[]",
        ],
    ),
    ("noSuchKey", &["1", "null"]),
];

const BOOLEANS: &[&str] = &["true", "false", "null", "0", r#""true""#, "[]"];
const PORTS: &[&str] = &["1", "65535", "3128.0", "0", "65536", "-1", "1.5", r#""3128""#, "null", "1e3"];
const ADDRESSES: &[&str] = &[
    r#"["10.0.0.0/8"]"#,
    r#"["10.1.2.3/8"]"#,
    r#"["10.0.0.1"]"#,
    r#"["fc00::/7"]"#,
    r#"["::1"]"#,
    r#"["[::1]"]"#,
    r#"["10.0.0.0/33"]"#,
    r#"["10.0.0.0/"]"#,
    r#"["10.0.0"]"#,
    r#"["example.com"]"#,
    r#"["10.0.0.1:80"]"#,
    r#"["*"]"#,
    r#"[""]"#,
    "[1]",
    "null",
];

/// Entries of `allowedDomains` and of `deniedDomains`.
const HOSTS: &[&str] = &[
    "example.com",
    "Example.COM",
    "example.com.",
    ".example.com",
    "*.example.com",
    "*.com",
    "*.example.com.",
    "*.",
    "*",
    "*:22",
    "*:022",
    "a.*.com",
    "ex*mple.com",
    "localhost",
    "LOCALHOST",
    "localhost:80",
    "intranet",
    "intranet:80",
    "example.com:443",
    "example.com:080",
    "example.com:0",
    "example.com:65536",
    "example.com:",
    "example.com: 80",
    "example.com:+80",
    "*.example.com:8443",
    "1.2.3.4",
    "1.2.3.4:80",
    "2130706433",
    "0x7f.1",
    "::1",
    "::1:443",
    "2001:db8::1",
    "2001:db8::1:443",
    "[::1]",
    "[::1]:443",
    "[::1]:0443",
    "[::1]:0",
    "[::1]x",
    "[::1",
    "[2001:db8::1]:8443",
    "[fe80::1%eth0]",
    "[fe80::1%eth0]:22",
    "[1.2.3.4]",
    "[example.com]:80",
    "[nonsense]",
    "https://example.com",
    "example.com/path",
    "user@example.com:80:80",
    "",
    "evil.com:443.allowed.com",
];

/// Entries of the path lists, as JSON.
const PATHS: &[&str] = &[
    r#""/a""#,
    r#""a""#,
    r#""~""#,
    r#""~/a""#,
    r#""~other/a""#,
    r#""$HOME/a""#,
    r#""""#,
    r#""/a/""#,
    r#""/a/*""#,
    r#""/a/*/""#,
    r#""~/a*/""#,
    r#""~/a[1]/""#,
    r#""/a]/""#,
    r#""a/*/""#,
    r#""/a/**/""#,
    r#""/a[b-a]""#,
    r#""/[""#,
    r#""/[]""#,
    r#""/a/../b/*""#,
    r#""a/../b/*""#,
    r#"{"path": "/a", "literal": true}"#,
    r#"{"path": "/a/*/", "literal": true}"#,
    r#"{"path": "", "literal": true}"#,
    r#"{"path": "/a", "literal": false}"#,
    r#"{"path": "/a"}"#,
    r#"{"path": "/a", "literal": true, "more": 1}"#,
    r#"{"literal": true}"#,
    "1",
    "null",
    "[]",
];

/// Keys of the top level.
const TOP: &[(&str, &[&str])] = &[
    ("enableWeakerNestedSandbox", BOOLEANS),
    ("allowNestedUserNamespaces", BOOLEANS),
    ("enableWeakerNetworkIsolation", BOOLEANS),
    ("allowAppleEvents", BOOLEANS),
    ("allowPty", BOOLEANS),
    ("bwrapPath", BINARIES),
    ("socatPath", BINARIES),
    ("javaAgentJarPath", BINARIES),
    ("mandatoryDenySearchDepth", &["1", "10", "3.0", "0", "11", "1.5", r#""3""#, "null"]),
    ("ignoreViolations", &["{}", r#"{"*": ["/a"]}"#, r#"{"*": "/a"}"#, r#"{"*": [1]}"#, "[]", "null"]),
    (
        "ripgrep",
        &[
            r#"{"command": "rg"}"#,
            r#"{"command": "rg", "args": ["-x"], "argv0": "rg"}"#,
            "{}",
            r#"{"command": 1}"#,
            r#"{"command": "rg", "args": "x"}"#,
            "null",
        ],
    ),
    ("seccomp", &["{}", r#"{"applyPath": "x", "argv0": "y"}"#, r#"{"applyPath": 1}"#, "null", "[]"]),
    (
        "git",
        &[
            "{}",
            r#"{"safeDirectories": []}"#,
            r#"{"safeDirectories": ["/a"]}"#,
            r#"{"safeDirectories": [1]}"#,
            r#"{"safeDirectories": null}"#,
            "null",
        ],
    ),
    (
        "windows",
        &[
            "{}",
            r#"{"backend": "mxc"}"#,
            r#"{"backend": "other"}"#,
            r#"{"sandboxUser": "srt"}"#,
            r#"{"sandboxUser": ""}"#,
            r#"{"sandboxUser": "aaaaaaaaaaaaaaaaaaaaa"}"#,
            r#"{"sublayerGuid": "12345678-1234-1234-1234-123456789abc"}"#,
            r#"{"wfpSublayerGuid": "12345678"}"#,
            r#"{"proxyPortRange": [60080, 60089]}"#,
            r#"{"proxyPortRange": [60089, 60080]}"#,
            r#"{"proxyPortRange": [1, 100]}"#,
            r#"{"proxyPortRange": [0, 1]}"#,
            r#"{"proxyPortRange": [1]}"#,
            r#"{"srtWin": {"path": "x"}}"#,
            r#"{"srtWin": {}}"#,
            "null",
        ],
    ),
    ("noSuchKey", &["1", "null"]),
];

const BINARIES: &[&str] = &[r#""/usr/bin/x""#, r#""x""#, r#""./x""#, r#""~/x""#, r#""""#, "1", "null"];

/// Objects for `credentials`, none of which masks anything.
const CREDENTIALS: &[&str] = &[
    "{}",
    "null",
    "[]",
    r#"{"injectHosts": []}"#,
    r#"{"files": null}"#,
    r#"{"files": [{"path": "/a", "mode": "deny"}]}"#,
    r#"{"files": [{"path": "", "mode": "deny"}]}"#,
    r#"{"files": [{"path": "/a*/", "mode": "deny"}]}"#,
    r#"{"files": [{"mode": "deny"}]}"#,
    r#"{"files": [{"path": "/a"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "hide"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "more": 1}]}"#,
    r#"{"files": [{"path": {"path": "/a", "literal": true}, "mode": "deny"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "extract": "token: (.*)"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "extract": "token: .*"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "extract": "(?:x)"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "extract": "(?<name>x)"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "extract": "(?<=x)y"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "extract": "\\(x\\)"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "extract": "[(]x"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "extract": "(x"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "extract": "x)"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "extract": 1}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "onExtractNoMatch": "warn"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "onExtractNoMatch": "ignore"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "decode": "jwt", "maskClaims": ["sub"]}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "maskClaims": ["sub"]}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "decode": "jwt", "maskClaims": []}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "decode": "jwt", "maskClaims": [""]}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "decode": "base64"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "maskDuplicates": true}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "maskDuplicates": "x"}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "injectHosts": ["allowed.example.com"]}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "injectHosts": ["x.wild.example.com"]}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "injectHosts": ["*.wild.example.com"]}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "injectHosts": ["*.x.wild.example.com"]}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "injectHosts": ["*.example.com"]}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "injectHosts": ["other.example.com"]}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "injectHosts": ["allowed.example.com:443"]}]}"#,
    r#"{"files": [{"path": "/a", "mode": "deny", "injectHosts": [1]}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "deny"}]}"#,
    r#"{"envVars": [{"name": "_foo1", "mode": "deny"}]}"#,
    r#"{"envVars": [{"name": "1FOO", "mode": "deny"}]}"#,
    r#"{"envVars": [{"name": "A-B", "mode": "deny"}]}"#,
    r#"{"envVars": [{"name": "", "mode": "deny"}]}"#,
    r#"{"envVars": [{"name": "A=B", "mode": "deny"}]}"#,
    r#"{"envVars": [{"name": "É", "mode": "deny"}]}"#,
    r#"{"envVars": [{"mode": "deny"}]}"#,
    r#"{"envVars": [{"name": "FOO"}]}"#,
    r#"{"envVars": {"FOO": "deny"}}"#,
    r#"{"allowPlaintextInject": true}"#,
    r#"{"allowPlaintextInject": 1}"#,
    r#"{"awsPairs": []}"#,
    r#"{"awsPairs": null}"#,
    r#"{"sigv4": {}}"#,
    r#"{"sigv4": {"more": 1}}"#,
    r#"{"sigv4": null}"#,
];

/// Objects for `credentials` beside `tlsTerminate`, in which `excluded.wild.example.com` is left alone.
const MASKS: &[&str] = &[
    "{}",
    r#"{"envVars": [{"name": "FOO", "mode": "mask"}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask"}, {"name": "FOO", "mode": "mask"}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask"}, {"name": "FOO", "mode": "deny"}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask", "injectHosts": []}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "deny", "injectHosts": []}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask", "injectHosts": ["allowed.example.com"]}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask", "injectHosts": ["ALLOWED.example.com"]}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask", "injectHosts": ["*.wild.example.com"]}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask", "injectHosts": ["other.example.com"]}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask", "injectHosts": ["excluded.wild.example.com"]}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "deny", "injectHosts": ["excluded.wild.example.com"]}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask", "injectHosts": ["a.excluded.wild.example.com"]}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask", "extract": "x(y"}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask", "decode": "jwt", "maskClaims": ["sub"]}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask", "maskClaims": ["sub"]}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask", "decode": "jwt", "maskClaims": []}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask", "maskDuplicates": true}]}"#,
    r#"{"files": [{"path": "/no/such/file", "mode": "mask"}]}"#,
    r#"{"files": [{"path": "/no/such/folder/", "mode": "mask"}]}"#,
    r#"{"files": [{"path": "/no/such/[file]*", "mode": "mask"}]}"#,
    r#"{"files": [{"path": "/no/such/file", "mode": "mask", "injectHosts": []}]}"#,
    r#"{"envVars": [{"name": "FOO", "mode": "mask"}], "allowPlaintextInject": true}"#,
    r#"{"awsPairs": []}"#,
    r#"{"awsPairs": [{}]}"#,
    r#"{"awsPairs": [{"accessKeyIdVar": "A", "secretAccessKeyVar": "B"}]}"#,
    r#"{"envVars": [{"name": "A", "mode": "mask"}, {"name": "B", "mode": "mask"}], "awsPairs": [{"accessKeyIdVar": "A", "secretAccessKeyVar": "B"}]}"#,
    r#"{"envVars": [{"name": "A", "mode": "mask"}, {"name": "B", "mode": "mask"}], "awsPairs": [{"accessKeyIdVar": "A"}]}"#,
    r#"{"envVars": [{"name": "A", "mode": "mask"}, {"name": "B", "mode": "mask"}], "awsPairs": [{"accessKeyIdVar": "A", "secretAccessKeyVar": "B", "more": 1}]}"#,
    r#"{"envVars": [{"name": "A", "mode": "mask"}, {"name": "B", "mode": "mask"}], "awsPairs": [{"accessKeyIdVar": "A", "secretAccessKeyVar": "A"}]}"#,
    r#"{"envVars": [{"name": "A", "mode": "mask"}, {"name": "B", "mode": "mask"}], "awsPairs": [{"accessKeyIdVar": "A", "secretAccessKeyVar": "B", "sessionTokenVar": "C"}]}"#,
    r#"{"envVars": [{"name": "A", "mode": "mask"}, {"name": "B", "mode": "deny"}], "awsPairs": [{"accessKeyIdVar": "A", "secretAccessKeyVar": "B"}]}"#,
    r#"{"envVars": [{"name": "A", "mode": "mask"}, {"name": "B", "mode": "mask", "extract": "(x)"}], "awsPairs": [{"accessKeyIdVar": "A", "secretAccessKeyVar": "B"}]}"#,
    r#"{"envVars": [{"name": "A", "mode": "mask"}, {"name": "B", "mode": "mask"}], "awsPairs": [{"accessKeyIdVar": "A", "secretAccessKeyVar": "B"}, {"accessKeyIdVar": "A", "secretAccessKeyVar": "B"}]}"#,
    r#"{"sigv4": {"streaming": "deny", "presigned": "passthrough", "sigv4a": "passthrough"}}"#,
    r#"{"sigv4": {"streaming": "allow"}}"#,
];

/// Regular expressions for `extract`. Without the flag `u`, JavaScript takes much for text that is no expression. What
/// releases of node disagree about (`(?i:x)`, a name in two alternatives) is left out; kennel accepts it.
const EXTRACTS: &[&str] = &[
    "(x)",
    "x",
    "",
    "()",
    "(?:x)",
    "(?<name>x)",
    "(?<1>x)",
    "(?<name>x)(?<name>y)",
    "(?<=x)y",
    "(?<=(x))y",
    "(?<!x)(y)",
    "(?=(x))y",
    r"\(x\)",
    "[(]x",
    "[]()",
    "[^](x)",
    "(x",
    "x)",
    "(x)]",
    "(x)}",
    "(x){",
    "(x){1",
    "(x){,2}",
    "(x){2,1}",
    "(x)**",
    "*(x)",
    "(x)+?",
    "(x)++",
    r"(x)\",
    r"(\d+)\1",
    r"(x)\2",
    r"(\p{L})",
    r"(\u{61})",
    r"(\u00e9)",
    r"(\x4)",
    r"(\c)",
    r"(\k<a>)",
    r"(?<a>x)\k<a>",
    r"(?<a>x)\k<b>",
    "([z-a])",
    r"([\w-a])",
    "(?i)(x)",
    "(?P<name>x)",
    "(?>x)(y)",
    r"token:\s*(\S+)",
    r#"\"key\":\s*\"([^\"]+)\""#,
];

/// Whole files.
const WHOLE: &[&str] = &[
    "{}",
    "[]",
    "null",
    "1",
    r#"{"network": {}, "filesystem": {}}"#,
    r#"{"network": {"allowedDomains": [], "deniedDomains": []}}"#,
    r#"{"filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#,
    r#"{"network": {"allowedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#,
    r#"{"network": {"allowedDomains": [], "deniedDomains": null}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#,
    r#"{"network": {"allowedDomains": "a.b", "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#,
    r#"{"network": {"allowedDomains": [1], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#,
    r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": []}}"#,
    r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {"denyRead": ["/a*/"], "allowWrite": [], "denyWrite": [], "disabled": true}}"#,
];

/// What kennel accepts as an allowed host and srt does not.
const MORE: &[&str] = &["10.0.0.0/8", "10.0.0.0/8:443", "[fd00::/8]:443", "tcp://db.example.com:5433"];

fn documents() -> Vec<String> {
    let file = |network: &str, files: &str, top: &str| {
        format!(r#"{{"network": {{{network}}}, "filesystem": {{{files}}}{top}}}"#)
    };
    let lists = |allowed: &str, denied: &str, more: &str| {
        format!(
            r#""allowedDomains": ["allowed.example.com", "*.wild.example.com"{allowed}], "deniedDomains": [{denied}]{more}"#
        )
    };
    let plain = lists("", "", "");
    let paths = |deny_read: &str, allow_read: &str, allow_write: &str, deny_write: &str| {
        format!(
            r#""denyRead": [{deny_read}], "allowRead": [{allow_read}], "allowWrite": [{allow_write}], "denyWrite": [{deny_write}]"#
        )
    };
    let none = paths("", "", "", "");
    let mut all: Vec<String> = WHOLE.iter().map(|text| (*text).to_owned()).collect();
    for (key, values) in NETWORK {
        let more = |value: &&str| file(&lists("", "", &format!(r#", "{key}": {value}"#)), &none, "");
        all.extend(values.iter().map(more));
    }
    for host in HOSTS {
        let quoted = serde_json::Value::from(*host);
        all.push(file(&lists(&format!(", {quoted}"), "", ""), &none, ""));
        all.push(file(&lists("", &quoted.to_string(), ""), &none, ""));
    }
    for path in PATHS {
        all.push(file(&plain, &paths(path, "", "", ""), ""));
        all.push(file(&plain, &paths("", path, "", ""), ""));
        all.push(file(&plain, &paths("", "", path, ""), ""));
        all.push(file(&plain, &paths("", "", "", path), ""));
    }
    for key in ["disabled", "allowGitConfig"] {
        all.extend(BOOLEANS.iter().map(|value| file(&plain, &format!(r#"{none}, "{key}": {value}"#), "")));
    }
    for (key, values) in TOP {
        all.extend(values.iter().map(|value| file(&plain, &none, &format!(r#", "{key}": {value}"#))));
    }
    all.extend(CREDENTIALS.iter().map(|value| file(&plain, &none, &format!(r#", "credentials": {value}"#))));
    let terminated = lists("", "", r#", "tlsTerminate": {"excludeDomains": ["excluded.wild.example.com"]}"#);
    let excluded = r#""allowedDomains": ["a.example.com:443"], "deniedDomains": [], "tlsTerminate": {"excludeDomains": ["a.example.com"]}"#;
    for credentials in MASKS {
        let credentials = format!(r#", "credentials": {credentials}"#);
        for network in [plain.as_str(), &terminated, excluded] {
            all.push(file(network, &none, &credentials));
        }
    }
    for extract in EXTRACTS {
        let extract = serde_json::Value::from(*extract);
        let credentials = format!(
            r#", "credentials": {{"envVars": [{{"name": "FOO", "mode": "mask", "extract": {extract}}}]}}"#
        );
        all.push(file(&terminated, &none, &credentials));
    }
    all
}

/// What srt's own schema says of each; `None` where it is not installed.
fn real(documents: &[String]) -> Option<Vec<bool>> {
    let (node, schema) = peers::srt_schema()?;
    let script = format!(
        "import {{ SandboxRuntimeConfigSchema as schema }} from {:?};
         let text = ''; for await (const chunk of process.stdin) text += chunk;
         for (const line of JSON.parse(text)) {{
           console.log(schema.safeParse(JSON.parse(line)).success ? 1 : 0) }}",
        schema.display().to_string()
    );
    let mut child = Command::new(node)
        .args(["--input-type=module", "-e", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node starts");
    let text = serde_json::to_string(documents).expect("texts are JSON");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("node reads");
    let output = child.wait_with_output().expect("node ends");
    let verdicts: Vec<bool> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| line == "1").collect();
    assert_eq!(verdicts.len(), documents.len(), "{}", String::from_utf8_lossy(&output.stdout));
    Some(verdicts)
}

#[test]
fn networks_and_protocols_are_accepted_besides() {
    let file = |host: &str| {
        format!(
            r#"{{"network": {{"allowedDomains": [{host:?}], "deniedDomains": []}},
                "filesystem": {{"denyRead": [], "allowWrite": [], "denyWrite": []}}}}"#
        )
    };
    let documents: Vec<String> = MORE.iter().map(|host| file(host)).collect();
    let place = Place::new();
    for document in &documents {
        run(srt(Which::Kennel, &place, Some(document)).expect("kennel").args(["-c", "true"])).ok();
    }
    if let Some(real) = real(&documents) {
        assert_eq!(real, vec![false; MORE.len()]);
    }
}

#[test]
fn settings_are_accepted_where_srt_accepts_them() {
    let documents = documents();
    let Some(real) = real(&documents) else { return };
    let place = Place::new();
    let mut odd = Vec::new();
    for (document, real) in documents.iter().zip(real) {
        let ran = run(srt(Which::Kennel, &place, Some(document)).expect("kennel").args(["-c", "true"]));
        let own = ran.code == 0;
        if own != real {
            let who = if own { "kennel alone accepts" } else { "srt alone accepts" };
            odd.push(format!("{who} {document}\n    {}", ran.stderr.lines().next().unwrap_or_default()));
        }
    }
    assert!(odd.is_empty(), "{} of {}:\n{}", odd.len(), documents.len(), odd.join("\n"));
}
