//! The policies of `codex-linux-sandbox`, in the form of each line of releases.

use std::path::Path;
use std::process::Command;

use kennel_tests::{Ran, Scratch, program, ran, skipped};

use crate::compat::peers;
use crate::compat::seatbelt;

/// A repository to work in.
pub struct Yard {
    scratch: Scratch,
}

impl Yard {
    pub fn new() -> Option<Yard> {
        if program("git").is_none() {
            skipped("git is not installed");
            return None;
        }
        let yard = Yard { scratch: Scratch::new() };
        yard.scratch.dir("repo/.codex");
        yard.scratch.dir("outside");
        yard.scratch.dir("tmp");
        let mut git = Command::new("git");
        ran(git.args(["init", "-q"]).current_dir(yard.repo()).env("HOME", yard.scratch.path())).ok();
        Some(yard)
    }

    pub fn repo(&self) -> std::path::PathBuf {
        self.scratch.join("repo")
    }

    pub fn at(&self, name: &str) -> std::path::PathBuf {
        self.scratch.join(name)
    }

    /// The helper, with its policy's working directory; the policy is still to be added.
    pub fn helper(&self) -> Command {
        let mut command = Command::new(peers::kennel_as("codex-linux-sandbox", self.scratch.path()));
        command.arg("--sandbox-policy-cwd").arg(self.repo()).current_dir(self.repo());
        command
            .env("HOME", self.scratch.path())
            .env("TMPDIR", self.at("tmp"))
            .stdin(std::process::Stdio::null());
        command
    }

    pub fn sh(&self, policy: &[&str], script: &str) -> Ran {
        let top = self.scratch.path().display().to_string();
        let policy: Vec<String> = policy.iter().map(|word| word.replace("TOP", &top)).collect();
        ran(self.helper().args(policy).args(["--", "bash", "-c", script]))
    }

    /// Tries the same under the profile that a Mac would get, if it is about files alone.
    #[track_caller]
    fn compare_with_macos(&self, policy: &[&str], script: &str, works: bool) {
        let (top, repo) = (self.scratch.path(), self.repo());
        let policy: Vec<String> =
            policy.iter().map(|word| word.replace("TOP", &top.display().to_string())).collect();
        let policy = seatbelt::policy_of_codex(&policy, &repo, top, Some(&self.at("tmp")));
        if let Some(mac) = policy.and_then(|policy| seatbelt::Mac::new(&policy, top, &repo, top)) {
            mac.compare(script, works);
        }
    }

    #[track_caller]
    fn can(&self, policy: &[&str], script: &str) {
        self.compare_with_macos(policy, script, true);
        let ran = self.sh(policy, script);
        assert_eq!(ran.code, 0, "{policy:?}: {script}: {}", ran.stderr);
    }

    #[track_caller]
    fn cannot(&self, policy: &[&str], script: &str) {
        self.compare_with_macos(policy, script, false);
        let ran = self.sh(policy, script);
        assert!(ran.code != 0, "{policy:?}: this worked: {script}");
        let said = ran.stderr.to_lowercase();
        let words = [
            "permission denied",
            "read-only file system",
            "operation not permitted",
            "sandbox",
            "no such file",
            "unreachable",
            "refused",
            "resource busy",
        ];
        assert!(words.iter().any(|word| said.contains(word)), "{script}: {}", ran.stderr);
    }
}

/// The seed's own quick manual test, word for word.
#[test]
fn the_quick_manual_test() {
    let Some(yard) = Yard::new() else { return };
    let folder = yard.scratch.path().display().to_string();
    let script = r#"
codex-linux-sandbox \
  --sandbox-policy-cwd "$PWD" \
  --sandbox-policy '{"type":"workspace-write"}' \
  -- bash -lc '
set -euo pipefail

echo "should fail" > .git/config && exit 1 || true
echo "should fail" > .git/hooks/pre-commit && exit 1 || true
echo "should fail" > .git/index.lock && exit 1 || true
echo "should fail" > .codex/config.toml && exit 1 || true
echo "ok" > sandbox-write-test.txt
'
"#;
    drop(yard.helper());
    let mut bash = Command::new("bash");
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    bash.args(["-c", script]).current_dir(yard.repo()).env("PATH", path).env("HOME", &folder);
    let ran = ran(bash.stdin(std::process::Stdio::null())).ok();
    assert_eq!(ran.stderr.matches("Read-only file system").count(), 4, "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(yard.repo().join("sandbox-write-test.txt")).unwrap(), "ok\n");
}

const WORKSPACE: &[&[&str]] = &[
    &["--sandbox-policy", r#"{"type":"workspace-write"}"#],
    &["--sandbox-policy", r#"{"mode":"workspace-write","network_access":false}"#],
    &[
        "--use-legacy-landlock",
        "--sandbox-policy",
        r#"{"type":"workspace-write","writable_roots":[],"network_access":false,"exclude_tmpdir_env_var":false,"exclude_slash_tmp":false,"future":1}"#,
    ],
    &[
        "--file-system-sandbox-policy",
        r#"{"kind":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"special","value":{"kind":"current_working_directory"}},"access":"write"},{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"},{"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"}]}"#,
        "--network-sandbox-policy",
        r#""restricted""#,
    ],
    &[
        "--permission-profile",
        r#"{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"},{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"},{"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"},{"path":{"type":"special","value":{"kind":"something_new"}},"access":"read"}]},"network":"restricted"}"#,
        "--inherit-pid-namespace",
        "--no-proc",
    ],
];

#[test]
fn a_workspace_can_be_written_in_every_form() {
    let Some(yard) = Yard::new() else { return };
    for policy in WORKSPACE {
        yard.can(
            policy,
            "echo x > file && mkdir -p a/b && echo x > \"$TMPDIR/x\" && cat /etc/passwd > /dev/null",
        );
        yard.can(policy, "t=$(mktemp /tmp/kennel-compat-XXXXXX) && rm $t");
        for line in [
            "echo x > ../outside/x",
            "echo x > .git/config",
            "echo x > .git/hooks/x",
            "echo x > .codex/x",
            "mkdir .agents",
            "mv .git gone",
            "mv .codex gone",
            "rm -rf .codex",
            "ln -s /tmp .agents",
            "echo x > /etc/x",
        ] {
            yard.cannot(policy, line);
        }
    }
    let left: Vec<_> =
        std::fs::read_dir(yard.repo()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 4, "nothing but .git, .codex, a and file: {left:?}");
}

#[test]
fn nothing_is_written_when_all_is_read_only() {
    let Some(yard) = Yard::new() else { return };
    for policy in [
        &["--sandbox-policy", r#"{"type":"read-only"}"#][..],
        &[
            "--sandbox-policy",
            r#"{"type":"read-only","access":{"type":"full-access"},"network_access":false}"#,
        ],
        &[
            "--file-system-sandbox-policy",
            r#"{"kind":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]}"#,
            "--network-sandbox-policy",
            r#""restricted""#,
        ],
        &[
            "--permission-profile",
            r#"{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"path","path":"/"},"access":"read"}]},"network":"restricted"}"#,
        ],
    ] {
        yard.can(policy, "cat .git/config /etc/passwd > /dev/null && echo x > /dev/null");
        yard.cannot(policy, "echo x > file");
        yard.cannot(policy, "echo x > /tmp/kennel-compat-ro");
        yard.cannot(policy, "echo x > \"$TMPDIR/x\"");
    }
}

#[test]
fn everything_is_allowed_where_the_policy_says_so() {
    let Some(yard) = Yard::new() else { return };
    for policy in [
        &["--sandbox-policy", r#"{"type":"danger-full-access"}"#][..],
        &["--sandbox-policy", r#"{"type":"external-sandbox","network_access":"enabled"}"#],
        &[
            "--file-system-sandbox-policy",
            r#"{"kind":"unrestricted"}"#,
            "--network-sandbox-policy",
            r#""enabled""#,
        ],
        &["--permission-profile", r#"{"type":"disabled"}"#],
        &["--permission-profile", r#"{"type":"external","network":"enabled"}"#],
        &[
            "--permission-profile",
            r#"{"type":"managed","file_system":{"type":"unrestricted"},"network":"enabled"}"#,
        ],
    ] {
        yard.can(
            policy,
            "echo x > ../outside/x && git config user.name x && test \"$(ls /sys/class/net | wc -l)\" -ge 1",
        );
    }
}

#[test]
fn the_most_specific_entry_wins() {
    let Some(yard) = Yard::new() else { return };
    for name in ["repo/a/kept/open", "repo/secret"] {
        std::fs::create_dir_all(yard.at(name)).unwrap();
    }
    std::fs::write(yard.at("repo/secret/key"), "key").unwrap();
    std::fs::write(yard.at("repo/x.pem"), "key").unwrap();
    let entries = r#"[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
        {"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"},
        {"path":{"type":"special","value":{"kind":"project_roots","subpath":"a/kept"}},"access":"read"},
        {"path":{"type":"path","path":"TOP/repo/a/kept/open"},"access":"write"},
        {"path":{"type":"path","path":"TOP/repo/secret"},"access":"none"},
        {"path":{"type":"path","path":"TOP/repo/later"},"access":"deny"},
        {"path":{"type":"path","path":"TOP/repo/whatever"},"access":"deny","missing_path_behavior":"skip"},
        {"path":{"type":"glob_pattern","pattern":"TOP/repo/**/*.pem"},"access":"deny"}]"#;
    let profile = format!(
        r#"{{"type":"managed","file_system":{{"type":"restricted","entries":{entries},"glob_scan_max_depth":4}},"network":"restricted"}}"#
    );
    let split = format!(r#"{{"kind":"restricted","entries":{entries}}}"#);
    for policy in [
        &["--permission-profile", &profile][..],
        &["--file-system-sandbox-policy", &split, "--network-sandbox-policy", r#""restricted""#],
    ] {
        yard.can(policy, "echo x > a/x && echo x > a/kept/open/x && echo x > whatever && rm whatever");
        yard.cannot(policy, "echo x > a/kept/x");
        yard.cannot(policy, "cat secret/key");
        yard.cannot(policy, "echo x > later");
        let ran = yard.sh(policy, "cat x.pem");
        assert!(!ran.stdout.contains("key"), "{}", ran.stdout);
    }
    let by_name = r#"{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
        {"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"},{"path":{"type":"path","path":"TOP/repo/.git"},"access":"write"}]},"network":"restricted"}"#;
    yard.can(&["--permission-profile", by_name], "git config user.name x");
}

#[test]
fn reads_can_be_listed() {
    let Some(yard) = Yard::new() else { return };
    std::fs::write(yard.at("outside/x"), "text").unwrap();
    for policy in [
        &[
            "--sandbox-policy",
            r#"{"type":"read-only","access":{"type":"restricted","include_platform_defaults":true,"readable_roots":["TOP/repo"]}}"#,
        ][..],
        &[
            "--permission-profile",
            r#"{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"},{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"read"}]},"network":"restricted"}"#,
        ],
        &[
            "--permission-profile",
            r#"{"file_system":{"read":["/usr","/bin","/lib","/lib64","/etc","TOP/repo"],"write":[]},"network":{"enabled":false}}"#,
        ],
    ] {
        yard.can(policy, "cat .git/config > /dev/null && ls /usr > /dev/null");
        yard.cannot(policy, "cat ../outside/x");
        yard.cannot(policy, "echo x > file");
    }
}

#[test]
fn mistakes_end_with_2_and_are_said() {
    let Some(yard) = Yard::new() else { return };
    for policy in [
        &[][..],
        &["--sandbox-policy", r#""read-only""#],
        &["--sandbox-policy", "{"],
        &["--sandbox-policy", r#"{"type":"no-such"}"#],
        &["--sandbox-policy", r#"{"type":"workspace-write","writable_roots":["relative"]}"#],
        &["--sandbox-policy", r#"{"type":"workspace-write","network_access":"yes"}"#],
        &["--file-system-sandbox-policy", r#"{"kind":"unrestricted"}"#],
        &["--network-sandbox-policy", r#""enabled""#],
        &["--permission-profile", r#"{"type":"managed"}"#],
        &[
            "--permission-profile",
            r#"{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"path","path":"rel"},"access":"read"}]},"network":"restricted"}"#,
        ],
        &[
            "--permission-profile",
            r#"{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"glob_pattern","pattern":"/x/*"},"access":"write"}]},"network":"restricted"}"#,
        ],
        &["--permission-profile", r#"{"type":"disabled"}"#, "--sandbox-policy", r#"{"type":"read-only"}"#],
        &["--no-such-flag", "--sandbox-policy", r#"{"type":"read-only"}"#],
    ] {
        let ran = yard.sh(policy, "echo ran");
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{policy:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("error:") && !ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
    let no_command = ran(yard.helper().args(["--sandbox-policy", r#"{"type":"read-only"}"#]));
    assert_eq!(no_command.code, 2);
}

#[test]
fn exit_codes_are_the_commands() {
    let Some(yard) = Yard::new() else { return };
    let policy = ["--sandbox-policy", r#"{"type":"read-only"}"#];
    assert_eq!(yard.sh(&policy, "exit 7").code, 7);
    assert_eq!(yard.sh(&policy, "kill -TERM $$").code, 143);
    assert_eq!(ran(yard.helper().args(policy).args(["--", "no-such-command"])).code, 127);
    assert_eq!(ran(yard.helper().args(policy).args(["--", "/etc/passwd"])).code, 126);
    let closed = r#"exec 0<&- 1>&-; exec "$0" --sandbox-policy-cwd / --sandbox-policy '{"type":"read-only"}' -- sh -c 'exit 5'"#;
    let helper = yard.helper();
    let mut bash = Command::new("bash");
    bash.args(["-c", closed]).arg(helper.get_program()).current_dir(yard.repo());
    assert_eq!(ran(&mut bash).code, 5, "with standard streams closed");
}

/// A private network, in which programs can talk to themselves, by unix sockets too.
#[test]
fn without_a_network_programs_still_talk_to_themselves() {
    if !Path::new("/usr/bin/python3").exists() {
        return skipped("there is no /usr/bin/python3");
    }
    let Some(yard) = Yard::new() else { return };
    let policy = ["--sandbox-policy", r#"{"type":"workspace-write"}"#];
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let daemon = std::os::unix::net::UnixListener::bind(yard.at("daemon.sock")).unwrap();
    yard.cannot(
        &policy,
        &format!("/usr/bin/python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 3)'"),
    );
    yard.cannot(&policy, "/usr/bin/python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"../daemon.sock\")'");
    drop((host, daemon));
    let own = r#"
import socket, asyncio
for name in "own.sock", "/dev/shm/own.sock", "\0own":
    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen()
    c = socket.socket(socket.AF_UNIX); c.connect(name)
t = socket.socket(); t.bind(("127.0.0.1", 0)); t.listen()
socket.create_connection(t.getsockname(), 3)
asyncio.run(asyncio.sleep(0))
"#;
    std::fs::write(yard.repo().join("own.py"), own).unwrap();
    yard.can(&policy, "/usr/bin/python3 own.py");
}

#[test]
fn no_capability_is_left_and_ptrace_and_io_uring_are_denied() {
    let Some(yard) = Yard::new() else { return };
    let policy = ["--sandbox-policy", r#"{"type":"workspace-write"}"#];
    let ran = yard.sh(&policy, "grep -E '^Cap(Prm|Eff)|NoNewPrivs' /proc/self/status | tr -d '\\t '; test -w /dev/shm && echo shm").ok();
    assert_eq!(ran.stdout, "CapPrm:0000000000000000\nCapEff:0000000000000000\nNoNewPrivs:1\nshm\n");
    if Path::new("/usr/bin/python3").exists() {
        let calls = "import ctypes; l = ctypes.CDLL(None); exit(1 if l.syscall(425, 1, 0) >= 0 or l.ptrace(16, 1, 0, 0) == 0 else 0)";
        yard.can(&policy, &format!("/usr/bin/python3 -c '{calls}'"));
    }
}

/// A device of the host's that no sandbox has unless it is named.
pub fn device() -> Option<&'static str> {
    let found = ["/dev/net/tun", "/dev/fuse", "/dev/kvm"].into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        skipped("there is no device that could be named");
    }
    found
}

#[test]
fn a_device_is_there_when_it_is_named() {
    let (Some(yard), Some(device)) = (Yard::new(), device()) else { return };
    let named = format!(r#"{{"type":"workspace-write","writable_roots":["{device}","/dev/not-there"]}}"#);
    yard.can(&["--sandbox-policy", &named], &format!("test -c {device} && echo x > /dev/null"));
    let not = yard.sh(&["--sandbox-policy", r#"{"type":"workspace-write"}"#], &format!("test -c {device}"));
    assert_ne!(not.code, 0);
}

#[test]
fn nested_repositories_are_kept_too() {
    let Some(yard) = Yard::new() else { return };
    let script =
        "git init -q nested && git init -q ../outside/real && echo gitdir: ../../outside/real/.git > sub";
    let mut bash = Command::new("bash");
    ran(bash.args(["-c", script]).current_dir(yard.repo())).ok();
    let policy = ["--sandbox-policy", r#"{"type":"workspace-write"}"#];
    yard.cannot(&policy, "echo x >> nested/.git/config");
    yard.cannot(&policy, "mv nested gone");
    yard.can(&policy, "git init -q /tmp/kennel-compat-$$ && cd /tmp/kennel-compat-$$ && git config user.name x && rm -rf /tmp/kennel-compat-$$");
}

#[test]
fn a_pointers_target_is_kept() {
    let Some(yard) = Yard::new() else { return };
    let script = "rm -rf .git && git init -q --separate-git-dir real .";
    ran(Command::new("bash").args(["-c", script]).current_dir(yard.repo())).ok();
    let policy = ["--sandbox-policy", r#"{"type":"workspace-write"}"#];
    for line in
        ["echo x > .git", "echo x >> real/config", "mv real gone", "rm .git", "echo x > real/index.lock"]
    {
        yard.cannot(&policy, line);
    }
    std::fs::write(yard.repo().join(".git"), "nonsense").unwrap_or_default();
    yard.cannot(&policy, "echo gitdir: x > .git");
}

#[test]
fn a_proxy_that_is_asked_for_and_not_there_fails_closed() {
    let Some(yard) = Yard::new() else { return };
    let mut command = yard.helper();
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env_remove(name);
    }
    let ran = ran(command.args([
        "--allow-network-for-proxy",
        "--sandbox-policy",
        r#"{"type":"read-only"}"#,
        "--",
        "echo",
        "ran",
    ]));
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("sandbox"));
}

/// As a command of kennel's, and from a program that is built on the library.
#[test]
fn the_other_ways_to_the_same() {
    let Some(yard) = Yard::new() else { return };
    let repo = yard.repo().display().to_string();
    let words = [
        "codex-linux-sandbox",
        "--sandbox-policy-cwd",
        &repo,
        "--sandbox-policy",
        r#"{"type":"workspace-write"}"#,
        "--",
        "sh",
        "-c",
        "echo x > made; echo x > .git/config",
    ];
    let ran = ran(kennel_tests::kennel(words).current_dir(yard.repo()));
    assert!(ran.code != 0 && yard.repo().join("made").exists(), "{}", ran.stderr);
}
