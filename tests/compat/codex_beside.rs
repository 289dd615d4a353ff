//! The permission profiles of Codex's helper 0.166 beside the helper itself.

use crate::compat::peers::Codex;
use crate::compat::world::{Place, Told, Try, World, installed};

/// A repository with what Codex protects, another below it, and files around.
pub fn repository(place: &Place) {
    place.host(
        "git init -q . && git commit -q --allow-empty -m one && mkdir .codex && echo x > .codex/config.toml
         git init -q nested && mkdir -p docs/inner other secret && echo x > docs/inner/x && echo x > other/x && echo x > secret/x
         echo x > a.key && echo x > file && ln -s ../outside/x link-out",
    );
    place.write("outside/x", "text");
}

#[test]
fn a_workspace() {
    if !installed(&["git", "bash"]) {
        return;
    }
    World {
        told: Told::Codex(Codex::Profile, &["--permission-profile", r#"{"type":"managed","file_system":{"type":"restricted","entries":[
                {"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
                {"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}]},"network":"restricted"}"#]),
        make: repository,
        tries: &[
            ("a file", "echo x > new"),
            ("a folder", "mkdir -p a/b/c && echo x > a/b/c/d"),
            ("outside", "echo x > ../outside/new"),
            ("outside, by a link", "echo x > link-out"),
            ("reading outside", "cat ../outside/x /etc/passwd"),
            ("/tmp", "echo x > /tmp/kennel-compat-codex"),
            (".git/config", "echo x > .git/config"),
            (".git/hooks", "echo x > .git/hooks/pre-commit"),
            (".git/index.lock", "echo x > .git/index.lock"),
            ("a commit", "git commit -q --allow-empty -m two"),
            ("git status", "git status --short"),
            ("mv .git", "mv .git gone"),
            ("rm -rf .git", "rm -rf .git"),
            (".codex", "echo x > .codex/config.toml"),
            ("mv .codex", "mv .codex gone && mkdir .codex"),
            (".agents, which is not there", "mkdir .agents && echo x > .agents/x"),
            (".agents by a link", "ln -s other .agents"),
            (".aws, which is not there", "mkdir .aws && echo x > .aws/config"),
            ("a nested repository's hooks", "echo x > nested/.git/hooks/pre-commit"),
            ("/dev/null", "echo x > /dev/null"),
            ("/dev/shm", "echo x > /dev/shm/x"),
            ("a FIFO", "mkfifo fifo"),
            ("a device", "mknod null c 1 3"),
            ("a socket to the outside", "exec 3<>/dev/tcp/127.0.0.1/9"),
            ("a process outside", "kill -0 $PPID && test $PPID -ne 1 && test $PPID -ne 2"),
            ("mounting", "mount -t tmpfs none a"),
        ],
        differences: &[("a nested repository's hooks", "ok", "EROFS")],
        disk_differs: &["nested/.git"],
    }
    .compare();
}

/// Where entries of a policy overrule each other.
pub const OVERRULING: &[Try] = &[
    ("the workspace", "echo x > new"),
    ("read in write", "echo x > docs/new"),
    ("write in read in write", "echo x > docs/inner/new"),
    ("denied, read", "cat secret/x"),
    ("denied, listed", "ls secret | grep x"),
    ("denied, written", "echo x > secret/new"),
    ("denied by a glob", "test -s a.key"),
    ("a file that can be read", "cat file"),
    ("a file that can only be read", "echo x > file"),
    ("replacing it", "echo x > t && mv t file"),
    ("moving what is denied", "mv secret gone"),
    (".git", "echo x > .git/x"),
];

#[test]
fn entries_that_overrule_each_other() {
    if !installed(&["git", "bash"]) {
        return;
    }
    World {
        told: Told::Codex(Codex::Profile, &["--permission-profile", r#"{"type":"managed","file_system":{"type":"restricted","entries":[
                {"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
                {"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"},
                {"path":{"type":"special","value":{"kind":"project_roots","subpath":"docs"}},"access":"read"},
                {"path":{"type":"path","path":"TOP/work/docs/inner"},"access":"write"},
                {"path":{"type":"path","path":"TOP/work/secret"},"access":"deny"},
                {"path":{"type":"path","path":"TOP/work/file"},"access":"read"},
                {"path":{"type":"glob_pattern","pattern":"TOP/work/*.key"},"access":"deny"},
                {"path":{"type":"path","path":"TOP/not/there"},"access":"write","missing_path_behavior":"skip"}]},"network":"restricted"}"#]),
        make: repository,
        tries: OVERRULING,
        differences: &[],
        disk_differs: &[],
    }
    .compare();
}

#[test]
fn reading_only() {
    if !installed(&["git", "bash"]) {
        return;
    }
    World {
        told: Told::Codex(Codex::Profile, &["--permission-profile", r#"{"type":"managed","file_system":{"type":"restricted","entries":[
                {"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"}"#]),
        make: repository,
        tries: &[
            ("reading", "cat file /etc/passwd"),
            ("writing", "echo x > new"),
            ("/tmp", "echo x > /tmp/kennel-compat-codex"),
            ("/dev/null", "echo x > /dev/null"),
            ("git log", "git log -1"),
            ("git status", "git status --short"),
        ],
        differences: &[],
        disk_differs: &[],
    }
    .compare();
}

#[test]
fn listed_reads() {
    if !installed(&["git", "bash"]) {
        return;
    }
    World {
        told: Told::Codex(Codex::Profile, &["--permission-profile", r#"{"type":"managed","file_system":{"type":"restricted","entries":[
                {"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"},
                {"path":{"type":"path","path":"TOP/real"},"access":"read"},
                {"path":{"type":"path","path":"PEERS"},"access":"read","missing_path_behavior":"skip"},
                {"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}]},"network":"restricted"}"#]),
        make: repository,
        tries: &[
            ("the workspace", "echo x > new && cat file"),
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

#[test]
fn no_limits_at_all() {
    if !installed(&["git", "bash"]) {
        return;
    }
    for profile in [
        r#"{"type":"disabled"}"#,
        r#"{"type":"external","network":"enabled"}"#,
        r#"{"type":"managed","file_system":{"type":"unrestricted"},"network":"enabled"}"#,
    ] {
        World {
            told: Told::Codex(Codex::Profile, &["--permission-profile", profile]),
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
