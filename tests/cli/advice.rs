//! What kennel says is true where it says it, and what it advises can be done there.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use kennel_tests::{Ran, Scratch, kennel, ran, text};

use crate::cli::{PATH, Said, run_in};

/// `kennel run WORDS` in the folder `work` of a yard whose home is `home`.
fn run_at_home(yard: &Scratch, words: &[&str]) -> Ran {
    let mut command = kennel(["run"]);
    command.args(words).current_dir(yard.join("work")).env("HOME", yard.join("home"));
    ran(command.env("XDG_CONFIG_HOME", yard.join("config")).env("PATH", PATH).env("LC_ALL", "C"))
}

/// A home with keys in it, a working directory, and profiles of one's own.
fn yard() -> Scratch {
    let yard = Scratch::new();
    yard.dir("work");
    yard.write("home/.npmrc", "registry = here\n");
    yard.write("home/.aws/config", "own\n");
    yard
}

#[test]
fn profiles_add_up_and_keep_what_each_of_them_protects() {
    let yard = yard();
    yard.write("config/kennel/profiles/hide.toml", "[files]\ndeny_read = [\"~/.npmrc\"]\n");
    yard.write("config/kennel/profiles/few.toml", "[limits]\nopen_files = 50\n");
    let script = "cat ~/.npmrc; ulimit -n";
    for words in [
        &["--profile", "hide", "--profile", "few"][..],
        &["--profile", "few", "--profile", "hide"],
        &["--settings", "both.toml"],
        &["--settings", "one.toml", "--profile", "few"],
    ] {
        yard.write("work/both.toml", "profile = [\"hide\", \"few\"]\n");
        yard.write("work/one.toml", "profile = \"hide\"\n");
        let said = run_at_home(&yard, &[words, &["--", "sh", "-c", script]].concat()).ok();
        assert_eq!(said.stdout, "50\n", "{words:?}: {}", said.stderr);
    }
    yard.write("config/kennel/profiles/more.toml", "[limits]\nopen_files = 60\n");
    let both = ["--profile", "few", "--profile", "more"];
    let refused = run_at_home(&yard, &[&both[..], &["--", "true"]].concat()).expect_code(125);
    let profiles = yard.join("config/kennel/profiles");
    let file = |name: &str| format!("{}:2", text(&profiles.join(name)));
    refused.says(&format!(
        "kennel: limits.open_files: the profiles contradict each other ({}; {}); set limits.open_files yourself, or use one of \
         them\n",
        file("few.toml"),
        file("more.toml")
    ));
    let decided = [&both[..], &["--open-files", "70", "--", "sh", "-c", "ulimit -n"]].concat();
    assert_eq!(run_at_home(&yard, &decided).ok().stdout, "70\n");
}

#[test]
fn what_the_caller_allows_wins_over_a_profile_that_denies_just_that_and_else_says_what_would() {
    let yard = yard();
    yard.write("config/kennel/profiles/deny.toml", "[files]\ndeny_read = [\"~/.npmrc\", \"~/.aws\", \"~/*.key\", \"~/link\"]\ndeny_write = [\"~/kept\"]\n");
    yard.write("home/a.key", "key\n");
    yard.write("home/dotfiles/real", "real\n");
    yard.dir("home/kept");
    symlink("dotfiles/real", yard.join("home/link")).unwrap();
    yard.write("work/allow.toml", "profile = \"deny\"\nfiles.allow_read = [\"~/.npmrc\"]\n");
    for words in [&["--profile", "deny", "--allow-read", "~/.npmrc"][..], &["--settings", "allow.toml"]] {
        let shown =
            run_at_home(&yard, &[words, &["--", "cat", &text(&yard.join("home/.npmrc"))]].concat()).ok();
        assert_eq!((shown.stdout.as_str(), shown.stderr.as_str()), ("registry = here\n", ""), "{words:?}");
    }
    let kept = ["--profile", "deny", "--allow-write", "~/kept", "--", "sh", "-c", "> ~/kept/x"];
    run_at_home(&yard, &kept).ok().says("");
    let inner = [
        "--profile",
        "deny",
        "--allow-read",
        "~/.aws",
        "--allow-write",
        "~/.aws",
        "--",
        "sh",
        "-c",
        "> ~/.aws/x",
    ];
    run_at_home(&yard, &inner).ok().says("");
    let home = text(&yard.join("home"));
    let profile = text(&yard.join("config/kennel/profiles/deny.toml"));
    let without_effect = [
        (
            ["--allow-write", "~/.aws"],
            format!(
                "resolving allow_write {home}/.aws (--allow-write): it has no effect: deny_read {home}/.aws ({profile}:2) wins\n\
                 help: what is hidden cannot be written; show it too: `--allow-read {home}/.aws`\n"
            ),
        ),
        (
            ["--allow-read", "~/dotfiles/real"],
            format!(
                "resolving allow_read {home}/dotfiles/real (--allow-read): it has no effect: deny_read {home}/link ({profile}:2) wins\n\
                 help: name it as that rule does: `--allow-read {home}/link`\n"
            ),
        ),
        (
            ["--allow-read", "~/a.key"],
            format!(
                "resolving allow_read {home}/a.key (--allow-read): it has no effect: deny_read {home}/*.key ({profile}:2) wins\n\
                 help: `--precedence deny-write` lets what is shown win over what is hidden, where both name it\n"
            ),
        ),
    ];
    for (flag, message) in without_effect {
        let words = [&["--profile", "deny"][..], &flag, &["--", "true"]].concat();
        run_at_home(&yard, &words).expect_code(125).says(&format!("kennel: {message}"));
    }
    // What it advises helps.
    let advised =
        ["--profile", "deny", "--allow-read", "~/link", "--", "cat", &format!("{home}/dotfiles/real")];
    assert_eq!(run_at_home(&yard, &advised).ok().stdout, "real\n");
    let advised = [
        "--profile",
        "deny",
        "--precedence",
        "deny-write",
        "--allow-read",
        "~/a.key",
        "--",
        "cat",
        &format!("{home}/a.key"),
    ];
    assert_eq!(run_at_home(&yard, &advised).ok().stdout, "key\n");
    // A file that was found opens nothing.
    yard.write("work/kennel.toml", "files.allow_read = [\"../home/.npmrc\"]\n");
    let found =
        run_at_home(&yard, &["--profile", "deny", "--", "cat", &format!("{home}/.npmrc")]).expect_code(1);
    assert!(found.stdout.is_empty() && found.stderr.contains("not applied: files.allow_read;"), "{found:?}");
}

#[test]
fn a_program_that_is_on_the_host_and_not_inside_says_what_keeps_it_away() {
    let yard = yard();
    let script = "#!/bin/sh\necho runs\n";
    for name in ["bin/prog", "home/tool/prog", "work/prog"] {
        let file = yard.write(name, script);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let program = text(&yard.join("bin/prog"));
    // Scratch folders are in /tmp, which is private inside.
    if program.starts_with("/tmp/") {
        let folder = text(&yard.join("bin"));
        run_at_home(&yard, &["--", &program]).expect_code(127).says(&format!(
            "kennel: {program}: command not found\n\
             kennel: {program} exists on the host, but /tmp is private in this sandbox\n\
             help: --allow-read {folder} shows it, --host-tmp shows all of /tmp\n"
        ));
        for shown in [&["--allow-read", &folder][..], &["--host-tmp"]] {
            assert_eq!(run_at_home(&yard, &[shown, &["--", &program]].concat()).ok().stdout, "runs\n");
        }
    }
    let ls = ["/usr/bin/ls", "/bin/ls"].map(Path::new).into_iter().find_map(|path| path.canonicalize().ok());
    if let Some(ls) = ls.filter(|ls| ls.ends_with("ls")) {
        let rule = format!("{}/**", text(ls.parent().unwrap()));
        yard.write("work/kennel.toml", &format!("files.deny_read = [\"{rule}\"]\n"));
        run_at_home(&yard, &["--", "ls"]).expect_code(127).says(&format!(
            "kennel: ls: command not found\n\
             kennel: {} exists on the host, and is hidden by deny_read {rule} (kennel.toml:1)\n",
            text(&ls)
        ));
        std::fs::remove_file(yard.join("work/kennel.toml")).unwrap();
    }
    run_at_home(&yard, &["--", "ls -la"]).expect_code(127).says(
        "kennel: ls -la: command not found\n\
         help: this is one word with blanks in it; a shell splits it: sh -c 'ls -la'\n",
    );
    run_at_home(&yard, &["--", "no-such-program"])
        .expect_code(127)
        .says("kennel: no-such-program: command not found\n");
}

#[test]
fn a_run_that_does_not_start_leaves_no_folders_behind() {
    let yard = yard();
    let all = |folder: &Path| -> Vec<String> {
        let found = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = found.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let before = all(&yard.join("home"));
    for profile in ["claude", "codex", "gemini"] {
        let words = ["--profile", profile, "--", "no-such-program"];
        let failed = run_at_home(&yard, &words);
        if failed.code != 127 {
            return kennel_tests::skipped(&format!("no sandbox here: {}", failed.stderr));
        }
        assert_eq!(all(&yard.join("home")), before, "{profile}");
    }
    // Nor does one that is refused when the disk was looked at.
    let mut refused = kennel(["run", "--profile", "claude", "--", "true"]);
    refused.current_dir(yard.join("home")).env("HOME", yard.join("home")).env("PATH", PATH);
    let refused = ran(&mut refused).expect_code(125);
    assert!(refused.stderr.contains("is a home folder"), "{}", refused.stderr);
    assert_eq!(all(&yard.join("home")), before);
    // What a run that starts needs stays, and what was there before is not touched.
    run_at_home(&yard, &["--profile", "codex", "--", "true"]).ok();
    assert!(yard.join("home/.codex").is_dir());
    let state = all(&yard.join("home/.local/state/kennel/agents/codex"));
    run_at_home(&yard, &["--profile", "codex", "--", "no-such-program"]).expect_code(127);
    assert_eq!(all(&yard.join("home/.local/state/kennel/agents/codex")), state);
}

#[test]
fn a_host_that_means_the_sandbox_itself_is_told_with_the_name_of_the_real_one() {
    let scratch = Scratch::new();
    for (host, shown, port) in [
        ("localhost:8181", "localhost:8181", ":8181"),
        ("127.0.0.1:8181", "127.0.0.1:8181", ":8181"),
        ("[::1]:8181", "[::1]:8181", ":8181"),
        ("localhost", "localhost", ""),
    ] {
        let ran =
            run_in(scratch.path(), ["--allow-domain", host, "--env-secrets", "pass", "--", "true"]).ok();
        ran.says(&format!(
            "kennel: note: {shown} (--allow-domain) opens this host's loopback to programs that use the proxy; to all others it is \
             the sandbox's own. By a name that all understand: --allow-domain host.kennel.internal{port}\n"
        ));
    }
    run_in(
        scratch.path(),
        ["--allow-domain", "host.kennel.internal:8181", "--env-secrets", "pass", "--", "true"],
    )
    .ok()
    .says("");
}

#[test]
fn a_missing_entry_of_a_file_says_what_a_file_can_say_and_a_flag_what_a_flag_can() {
    let scratch = Scratch::new();
    scratch.write("write.toml", "\n[files]\nallow_write = [\"absent\"]\n");
    scratch.write("read.toml", "files.reads = \"listed\"\nfiles.allow_read = [\"absent\"]\n");
    let absent = text(&scratch.join("absent"));
    let said = |words: &[&str]| run_in(scratch.path(), [words, &["--", "true"]].concat()).expect_code(125);
    said(&["--allow-write", "absent"]).says(&format!(
        "kennel: resolving allow_write {absent} (--allow-write): {absent}: no such file or directory\nhelp: create it first\n"
    ));
    said(&["-s", "write.toml"]).says(&format!(
        "kennel: resolving allow_write {absent} (write.toml:3): {absent}: no such file or directory\n\
         help: create it first, or mark the entry `missing = \"create\"` or `\"skip\"`\n"
    ));
    said(&["-s", "read.toml"]).says(&format!(
        "kennel: resolving allow_read {absent} (read.toml:2): {absent}: no such file or directory\n\
         help: create it first, or mark the entry `missing = \"skip\"`\n"
    ));
}

#[test]
fn the_socket_of_an_ssh_agent_that_is_allowed_comes_with_its_variable() {
    let scratch = Scratch::new();
    let socket = scratch.join("agent.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let look = |flags: &[&str]| {
        let mut command = kennel(["run", "--no-settings"]);
        command.args(flags).args(["--", "sh", "-c", "echo ${SSH_AUTH_SOCK-none}"]);
        let ran = ran(command.current_dir(scratch.path()).env("SSH_AUTH_SOCK", &socket)).ok();
        (ran.stdout.trim().to_owned(), ran.stderr.contains("SSH_AUTH_SOCK"))
    };
    let path = text(&socket);
    let open = ["--env-secrets", "withhold", "--allow-unix-socket", &path];
    assert_eq!(look(&open), (path.clone(), false));
    assert_eq!(look(&[&open[..], &["--clear-env"]].concat()), (path.clone(), false));
    assert_eq!(look(&[&open[..], &["--unset-env", "SSH_AUTH_SOCK"]].concat()).0, "none");
    let other = text(&scratch.join("other.sock"));
    assert_eq!(
        look(&["--env-secrets", "withhold", "--allow-unix-socket", &other]),
        ("none".to_owned(), true)
    );
    assert_eq!(look(&["--env-secrets", "withhold"]), ("none".to_owned(), true));
}

#[test]
fn ports_are_published_on_the_loopback_and_an_address_says_so() {
    let scratch = Scratch::new();
    let said = run_in(scratch.path(), ["--publish", "0.0.0.0:8080:3000", "--", "true"]).expect_code(125);
    assert!(said.stderr.contains("on this host's loopback"), "{}", said.stderr);
}
