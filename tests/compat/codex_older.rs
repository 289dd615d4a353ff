//! The policies of Codex's older releases beside the helpers of these releases.
//!
//! What these helpers leave open and kennel does not, whatever the release whose form it is given: what is in `.git` and
//! `.codex` where Landlock alone keeps a workspace, `.codex` and `.agents` where they do not exist yet, and nested repositories.

use kennel_tests::am_root;

use crate::compat::codex_beside::{OVERRULING, repository};
use crate::compat::peers::Codex;
use crate::compat::world::{Difference, Told, Try, World, installed};

const WORKSPACE: &str =
    r#"{"type":"workspace-write","exclude_slash_tmp":true,"exclude_tmpdir_env_var":true}"#;

const TRIES: &[Try] = &[
    ("a file", "echo x > new"),
    ("a folder", "mkdir -p a/b/c && echo x > a/b/c/d"),
    ("outside", "echo x > ../outside/new"),
    ("outside, by a link", "echo x > link-out"),
    ("reading outside", "cat ../outside/x /etc/passwd"),
    ("/tmp", "echo x > /tmp/kennel-compat-codex"),
    (".git/config", "echo x >> .git/config"),
    (".git/hooks", "echo x > .git/hooks/pre-commit"),
    (".git/index.lock", "echo x > .git/index.lock && rm .git/index.lock"),
    ("git status", "git status --short"),
    ("git log", "git log -1"),
    (".codex", "echo x > .codex/config.toml"),
    (".agents, which is not there", "mkdir .agents && echo x > .agents/x"),
    ("a nested repository's hooks", "echo x > nested/.git/hooks/pre-commit"),
    ("/dev/null", "echo x > /dev/null"),
    ("a device", "mknod null c 1 3"),
    ("a socket to the outside", "exec 3<>/dev/tcp/127.0.0.1/9"),
    ("mounting", "mount -t tmpfs none a"),
];

/// What a helper leaves open and kennel does not.
struct Open {
    tries: &'static [Difference],
    /// And to root, which keeps its capabilities there.
    to_root: &'static [Difference],
    /// What is on the disk because of that.
    written: &'static [&'static str],
}

/// Landlock can allow a folder, and cannot take back a part of it.
const LANDLOCK: Open = Open {
    tries: &[
        (".git/config", "ok", "EROFS"),
        (".git/hooks", "ok", "EROFS"),
        (".git/index.lock", "ok", "EROFS"),
        (".codex", "ok", "EROFS"),
        (".agents, which is not there", "ok", "EROFS"),
        ("a nested repository's hooks", "ok", "EROFS"),
    ],
    to_root: &[("a device", "ok", "EPERM")],
    written: &[".git", ".codex", ".agents", "nested/.git", "null"],
};

/// bwrap needs something to mount on, and is not told of nested repositories.
const BWRAP: Open = Open {
    tries: &[(".agents, which is not there", "ok", "EROFS"), ("a nested repository's hooks", "ok", "EROFS")],
    to_root: &[("mounting", "ok", "fails")],
    written: &[".agents", "nested/.git"],
};

/// Before 0.125 it had no user namespace of its own where root called it.
const EARLY_BWRAP: Open = Open {
    to_root: &[("a device", "ok", "EPERM"), ("mounting", "ok", "fails")],
    written: &[".agents", "nested/.git", "null"],
    ..BWRAP
};

fn workspace(release: Codex, policy: &[&str], open: &Open) {
    if !installed(&["git", "bash"]) {
        return;
    }
    let to_root = if am_root() { open.to_root } else { &[] };
    World {
        told: Told::Codex(release, policy),
        make: repository,
        tries: TRIES,
        differences: &[open.tries, to_root].concat(),
        disk_differs: open.written,
    }
    .compare();
}

#[test]
fn a_workspace_of_0_80() {
    workspace(Codex::Landlock, &["--sandbox-policy", WORKSPACE], &LANDLOCK);
}

#[test]
fn a_workspace_of_0_111() {
    workspace(Codex::OptionalBwrap, &["--sandbox-policy", WORKSPACE], &LANDLOCK);
}

#[test]
fn a_workspace_of_0_111_with_bwrap() {
    let policy = &["--sandbox-policy", WORKSPACE, "--use-bwrap-sandbox"];
    workspace(Codex::OptionalBwrap, policy, &EARLY_BWRAP);
}

#[test]
fn a_workspace_of_0_125_in_the_older_form() {
    workspace(Codex::Pair, &["--sandbox-policy", WORKSPACE], &BWRAP);
}

#[test]
fn a_workspace_of_0_125() {
    let policy = &[
        "--file-system-sandbox-policy",
        r#"{"kind":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
            {"path":{"type":"special","value":{"kind":"current_working_directory"}},"access":"write"}]}"#,
        "--network-sandbox-policy",
        r#""restricted""#,
    ];
    workspace(Codex::Pair, policy, &BWRAP);
}

#[test]
fn entries_of_0_125_that_overrule_each_other() {
    if !installed(&["git", "bash"]) {
        return;
    }
    World {
        told: Told::Codex(
            Codex::Pair,
            &[
                "--file-system-sandbox-policy",
                r#"{"kind":"restricted","entries":[
                    {"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
                    {"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"},
                    {"path":{"type":"special","value":{"kind":"project_roots","subpath":"docs"}},"access":"read"},
                    {"path":{"type":"path","path":"TOP/work/docs/inner"},"access":"write"},
                    {"path":{"type":"path","path":"TOP/work/secret"},"access":"none"},
                    {"path":{"type":"path","path":"TOP/work/file"},"access":"read"}]}"#,
                "--network-sandbox-policy",
                r#""restricted""#,
            ],
        ),
        make: repository,
        tries: OVERRULING,
        differences: &[],
        disk_differs: &[],
    }
    .compare();
}

#[test]
fn more_roots_and_a_network() {
    if !installed(&["git", "bash"]) {
        return;
    }
    for release in [Codex::Landlock, Codex::OptionalBwrap, Codex::Pair] {
        World {
            told: Told::Codex(
                release,
                &[
                    "--sandbox-policy",
                    r#"{"type":"workspace-write","writable_roots":["TOP/outside"],"network_access":true,"future":1}"#,
                ],
            ),
            make: repository,
            tries: &[
                ("the workspace", "echo x > new"),
                ("the root", "echo x > ../outside/new"),
                ("above", "echo x > ../new"),
                ("/tmp", "t=$(mktemp /tmp/kennel-compat-XXXXXX) && rm $t"),
                ("the network", "exec 3<>/dev/udp/127.0.0.1/9"),
            ],
            differences: &[],
            disk_differs: &[],
        }
        .compare();
    }
}

#[test]
fn reading_only() {
    if !installed(&["git", "bash"]) {
        return;
    }
    let legacy = &["--sandbox-policy", r#"{"type":"read-only"}"#][..];
    let pair = &[
        "--file-system-sandbox-policy",
        r#"{"kind":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]}"#,
        "--network-sandbox-policy",
        r#""restricted""#,
    ][..];
    for (release, policy) in [
        (Codex::Landlock, legacy),
        (Codex::OptionalBwrap, legacy),
        (Codex::OptionalBwrap, &["--use-bwrap-sandbox", "--sandbox-policy", r#"{"type":"read-only"}"#]),
        (Codex::Pair, legacy),
        (Codex::Pair, pair),
    ] {
        World {
            told: Told::Codex(release, policy),
            make: repository,
            tries: &[
                ("reading", "cat file /etc/passwd"),
                ("writing", "echo x > new"),
                ("/tmp", "echo x > /tmp/kennel-compat-codex"),
                ("/dev/null", "echo x > /dev/null"),
                ("git status", "git status --short"),
                ("a socket to the outside", "exec 3<>/dev/tcp/127.0.0.1/9"),
            ],
            differences: &[],
            disk_differs: &[],
        }
        .compare();
    }
}

#[test]
fn no_limits_at_all() {
    if !installed(&["git", "bash"]) {
        return;
    }
    let full = &["--sandbox-policy", r#"{"type":"danger-full-access"}"#][..];
    let external = &["--sandbox-policy", r#"{"type":"external-sandbox","network_access":"enabled"}"#][..];
    let pair = &[
        "--file-system-sandbox-policy",
        r#"{"kind":"unrestricted"}"#,
        "--network-sandbox-policy",
        r#""enabled""#,
    ];
    for (release, policy) in [
        (Codex::Landlock, full),
        (Codex::Landlock, external),
        (Codex::OptionalBwrap, full),
        (Codex::OptionalBwrap, external),
        (Codex::Pair, full),
        (Codex::Pair, external),
        (Codex::Pair, pair),
    ] {
        World {
            told: Told::Codex(release, policy),
            make: repository,
            tries: &[
                ("the workspace", "echo x > new"),
                (".git", "git commit -q --allow-empty -m two"),
                ("outside", "echo x > ../outside/new"),
            ],
            differences: &[],
            disk_differs: &[],
        }
        .compare();
    }
}

#[test]
fn listed_reads() {
    if !installed(&["git", "bash"]) {
        return;
    }
    let legacy = r#"{"type":"read-only","access":{"type":"restricted","include_platform_defaults":true,
        "readable_roots":["TOP/work","TOP/real","PEERS"]}}"#;
    let pair = r#"{"kind":"restricted","entries":[
        {"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"},
        {"path":{"type":"path","path":"TOP/real"},"access":"read"},
        {"path":{"type":"path","path":"PEERS"},"access":"read"},
        {"path":{"type":"special","value":{"kind":"project_roots"}},"access":"read"}]}"#;
    for (release, policy) in [
        (Codex::OptionalBwrap, &["--use-bwrap-sandbox", "--sandbox-policy", legacy][..]),
        (Codex::Pair, &["--sandbox-policy", legacy]),
        (Codex::Pair, &["--file-system-sandbox-policy", pair, "--network-sandbox-policy", r#""restricted""#]),
    ] {
        World {
            told: Told::Codex(release, policy),
            make: repository,
            tries: &[
                ("the workspace", "cat file"),
                ("writing", "echo x > new"),
                ("outside", "cat ../outside/x"),
                ("programs", "ls /usr/bin"),
                ("/etc", "cat /etc/passwd"),
                ("the home", "ls \"$HOME\""),
                ("/var", "ls /var/log"),
            ],
            differences: &[],
            disk_differs: &[],
        }
        .compare();
    }
}
