//! `--nested`: sandboxes in a sandbox. Its rules hold in there, whatever the inner ones say; and kennel in kennel works.

use std::process::Command;

use kennel_tests::{Ran, Scratch, am_root, kennel, kennel_bin, program, ran, skipped};

/// A project with a repository, and `kennel run --nested FLAGS -- sh -c SCRIPT` in it, with the path of kennel in `$K`.
struct Project(Scratch);

impl Project {
    fn new() -> Project {
        let scratch = Scratch::new();
        for (name, text) in [
            ("work/secret/key", "hidden-text"),
            ("work/kept/file", "text"),
            ("work/.git/HEAD", "ref: refs/heads/main\n"),
            ("work/.git/config", "[core]\n"),
            ("work/.git/hooks/sample", ""),
            ("outside/file", "text"),
        ] {
            scratch.write(name, text);
        }
        for name in ["work/.git/objects", "work/.git/refs", "work/open", "work/layer"] {
            scratch.dir(name);
        }
        Project(scratch)
    }

    fn command(&self, flags: &[&str], script: &str) -> Command {
        let mut command = kennel(["run", "--nested"]);
        command.args(flags).args(["--", "sh", "-c", script]).env("K", kennel_bin());
        command.current_dir(self.0.join("work"));
        command
    }

    fn run(&self, flags: &[&str], script: &str) -> Ran {
        ran(&mut self.command(flags, script))
    }
}

const RULES: &[&str] =
    &["--allow-write", ".", "--deny-read", "secret", "--deny-write", "kept", "--deny-write", ".mcp.json"];

/// Root's command has no capability, and Linux maps user 0 for nobody without one.
fn is_possible() -> bool {
    if !am_root() {
        return true;
    }
    let told = ran(&mut kennel(["run", "--nested", "--", "true"])).expect_code(125);
    assert!(told.stderr.contains("as an ordinary user"), "{told:?}");
    false
}

#[test]
#[kennel_claim::claim("privileges/nested-rules-hold", "privileges/nested-limits-hold")]
fn a_sandboxs_rules_hold_in_namespaces_of_the_commands_own() {
    if !is_possible() {
        return;
    }
    if program("unshare").is_none() {
        return skipped("unshare is not installed");
    }
    let project = Project::new();
    for works in [
        "test $(unshare -Ur id -u) = 0",
        "unshare -Urm sh -c 'mount -t tmpfs none open && touch open/x'",
        "unshare -Urm sh -c 'mount --rbind / open && chroot open true'",
        "unshare -Urn true",
        "unshare -Uru hostname inner",
        "unshare -Urpf --mount-proc true",
    ] {
        project.run(RULES, works).ok();
    }
    for fails in [
        "unshare -Urm umount secret",
        "unshare -Urm sh -c 'umount -l / && cat secret/key'",
        "unshare -Urm sh -c 'mount --bind . open && cat open/secret/key'",
        "unshare -Urm sh -c 'mount -o remount,bind,rw kept && touch kept/x'",
        "unshare -Urm sh -c 'mount --rbind . open && touch open/kept/x'",
        "unshare -Urm sh -c 'mount -t overlay none -o lowerdir=open,upperdir=kept,workdir=layer open && touch open/x'",
        "unshare -Urm sh -c 'mount --rbind . open && touch open/.mcp.json'",
        "unshare -Urm sh -c 'mount --rbind / open && chroot open sh -c \"cd $PWD && touch .mcp.json\"'",
        "unshare -Urm sh -c 'touch ../outside/x'",
        "unshare -Ur sh -c 'echo x > /proc/sys/kernel/core_pattern'",
        // Who could mount the cgroup file system could lift limits, and stop what the caller runs elsewhere.
        "unshare -UrmC true",
        "unshare -Urm sh -c 'mount -t cgroup2 none open'",
        "unshare -Urm sh -c 'mount -t cgroup -o pids none open'",
    ] {
        let told = project.run(RULES, fails);
        assert_ne!(told.code, 0, "{fails}: {told:?}");
    }
    assert!(!project.0.join("work/.mcp.json").exists() && !project.0.join("outside/x").exists());
    assert_eq!(project.0.join("work/kept").read_dir().unwrap().count(), 1);
}

#[test]
fn bwrap_works_inside() {
    if !is_possible() {
        return;
    }
    if program("bwrap").is_none() {
        return skipped("bwrap is not installed");
    }
    let namespaces = "--unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts";
    let script = format!(
        "bwrap --ro-bind / / --dev /dev --proc /proc --bind $PWD $PWD --chdir $PWD {namespaces} sh -c 'echo made > made; cat secret/key; ls /proc'"
    );
    let told = Project::new().run(RULES, &script);
    assert!(!told.stdout.contains("hidden-text") && told.stderr.contains("No such file"), "{told:?}");
    assert!(told.stdout.starts_with("1\n2\n"), "{told:?}");
}

#[test]
#[kennel_claim::claim("privileges/nested-rules-hold")]
fn kennel_in_kennel_tightens_only() {
    if !is_possible() {
        return;
    }
    let project = Project::new();
    let inner = |outer: &[&str], script: &str| project.run(outer, script);
    // It works, in several layers, and what the outer guard keeps, the inner sandbox does not have to.
    let agent = &["--profile", "agent"];
    let told = inner(
        agent,
        "$K run --profile agent -- sh -c 'echo made > made; touch .bashrc .git/hooks/x; cat made'",
    );
    assert_eq!((told.code, told.stdout.as_str()), (0, "made\n"), "{told:?}");
    assert!(
        told.stderr.contains(".bashrc': Read-only") && told.stderr.contains("hooks/x': Read-only"),
        "{told:?}"
    );
    let told = inner(
        agent,
        "$K run --nested --profile agent -- $K run --profile agent -- sh -c 'echo three; touch .bashrc'",
    );
    assert!(told.stdout == "three\n" && told.stderr.contains("Read-only"), "{told:?}");
    // A question about a name is no attempt to make it.
    let report = project.0.join("report.json");
    let told = inner(
        &["--profile", "agent", "--report", report.to_str().unwrap()],
        "$K run --quiet --profile agent -- true",
    )
    .ok();
    assert_eq!(told.stderr, "");
    assert!(!std::fs::read_to_string(&report).unwrap().contains("mcp.json"));
    // What an inner policy allows, the outer may still deny.
    let told = inner(
        RULES,
        "$K run --allow-read secret --allow-write kept -- sh -c 'cat secret/key; echo x > kept/file'",
    );
    assert!(told.code != 0 && !told.stdout.contains("hidden-text"), "{told:?}");
    assert_eq!(std::fs::read_to_string(project.0.join("work/kept/file")).unwrap(), "text");
    // And the inner tightens.
    let told =
        inner(&["--allow-write", "."], "$K run --deny-read secret -- sh -c 'cat secret/key; echo x > new'");
    assert!(told.stderr.contains("No such file") && told.stderr.contains("Read-only"), "{told:?}");
    assert!(!project.0.join("work/new").exists());
}

#[test]
#[kennel_claim::claim("privileges/nested-guard-or-nothing")]
fn an_inner_sandbox_that_nobody_could_guard_does_not_start() {
    if !is_possible() {
        return;
    }
    let project = Project::new();
    let socket = project.0.join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let listed = format!("--unix-sockets listed --allow-unix-socket {}", socket.display());
    for inner in ["--deny-write nothing-here", "--deny-write .claude/other", &listed] {
        let told = project
            .run(&["--profile", "agent"], &format!("$K run --allow-write . {inner} -- touch nothing-here"));
        assert_eq!(told.code, 125, "{inner}: {told:?}");
        assert!(told.stderr.contains("no second guard"), "{inner}: {told:?}");
    }
    assert!(!project.0.join("work/nothing-here").exists());
    // Where the outer sandbox needs no guard, the inner has its own.
    let told = project.run(
        &["--allow-write", "."],
        "$K run --allow-write . --deny-write nothing-here -- touch nothing-here",
    );
    assert!(told.stderr.contains("refused to create") || told.stderr.contains("no second guard"), "{told:?}");
    assert!(!project.0.join("work/nothing-here").exists());
}

#[test]
fn without_it_the_error_names_the_flag() {
    let mut command = kennel(["run", "--"]);
    let told = ran(command.arg(kennel_bin()).args(["run", "--", "true"])).expect_code(125);
    assert!(told.stderr.contains("--nested"), "{told:?}");
}
