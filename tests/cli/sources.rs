//! Where settings come from, which of them wins, and what a file that was merely found may do.

use std::path::Path;
use std::process::Command;

use kennel_tests::{Ran, Scratch, kennel, ran};

use crate::cli::{Said, run_in};

const NAME: &str = "uname -n";

fn host_name(folder: &Path, words: &[&str], config: &Path) -> Ran {
    let mut command = kennel(["run"]);
    command.args(words).args(["--", "sh", "-c", NAME]).current_dir(folder).env("XDG_CONFIG_HOME", config);
    ran(&mut command)
}

#[test]
fn each_source_overrides_those_before_it() {
    let scratch = Scratch::new();
    let config = scratch.dir("config");
    scratch.write("config/kennel/settings.toml", "[process]\nhostname = \"user\"");
    scratch.write("a.toml", "[process]\nhostname = \"first\"");
    scratch.write("b.json", "{\"process\": {\"hostname\": \"second\"}}");
    let named = |words: &[&str]| host_name(scratch.path(), words, &config).ok().stdout;
    assert_eq!(named(&[]), "user\n");
    assert_eq!(named(&["-s", "a.toml"]), "first\n");
    assert_eq!(named(&["-s", "a.toml", "-s", "b.json"]), "second\n");
    assert_eq!(named(&["-s", "b.json", "-s", "a.toml"]), "first\n");
    assert_eq!(named(&["--hostname", "flag", "-s", "a.toml"]), "flag\n");
    assert_eq!(named(&["--hostname", "flag", "--hostname", "later"]), "later\n");
    assert_ne!(named(&["--no-settings"]), "user\n");
}

#[test]
fn the_users_file_is_found_by_xdg_config_home_or_home_in_toml_or_json() {
    let scratch = Scratch::new();
    scratch.write("home/.config/kennel/settings.json", "{\"process\": {\"hostname\": \"by-home\"}}");
    scratch.write("xdg/kennel/settings.json", "{\"process\": {\"hostname\": \"by-xdg\"}}");
    let look = |home: &str, xdg: Option<&str>| {
        let mut command = Command::new(kennel_tests::kennel_bin());
        command
            .args(["run", "--", "sh", "-c", NAME])
            .env("HOME", scratch.join(home))
            .env_remove("XDG_CONFIG_HOME");
        if let Some(xdg) = xdg {
            command.env("XDG_CONFIG_HOME", if xdg.is_empty() { xdg.into() } else { scratch.join(xdg) });
        }
        ran(command.current_dir(scratch.path())).ok().stdout
    };
    assert_eq!(look("home", None), "by-home\n");
    assert_eq!(look("home", Some("xdg")), "by-xdg\n");
    // The specification: a path that is not absolute, or empty, is ignored.
    assert_eq!(look("home", Some("")), "by-home\n");
    // Of two, the TOML.
    scratch.write("xdg/kennel/settings.toml", "process.hostname = \"toml\"");
    assert_eq!(look("home", Some("xdg")), "toml\n");
}

#[test]
fn lists_grow_over_all_sources() {
    let scratch = Scratch::new();
    for name in ["a", "b", "c", "d"] {
        scratch.dir(name);
    }
    scratch.write("config/kennel/settings.toml", "[files]\nallow_write = [\"../../a\"]");
    scratch.write("one.toml", "[files]\nallow_write = [\"b\"]");
    scratch.write("two.toml", "[files]\nallow_write = [\"c\"]\ndeny_write = [\"a\"]");
    let mut command = kennel(["run", "-s", "one.toml", "-s", "two.toml", "--allow-write", "d", "--"]);
    command.args(["sh", "-c", "for d in a b c d; do (> $d/x) 2>/dev/null && echo $d; done"]);
    let ran = ran(command.current_dir(scratch.path()).env("XDG_CONFIG_HOME", scratch.join("config"))).ok();
    assert_eq!(ran.stdout, "b\nc\nd\n");
}

#[test]
fn relative_paths_belong_to_the_file_that_says_them() {
    let scratch = Scratch::new();
    scratch.write("conf/s.toml", "[files]\nallow_write = [\"out\", \"../beside\"]");
    scratch.dir("conf/out");
    scratch.dir("beside");
    scratch.dir("work/out");
    let script = "for d in ../conf/out ../beside out; do (> $d/x) 2>/dev/null && echo $d; done; true";
    let ran = run_in(&scratch.join("work"), ["-s", "../conf/s.toml", "--", "sh", "-c", script]).ok();
    assert_eq!(ran.stdout, "../conf/out\n../beside\n");
}

#[test]
fn a_tilde_is_the_home() {
    let scratch = Scratch::new();
    scratch.dir("home/out");
    scratch.write("s.toml", "[files]\nallow_write = [\"~/out\"]");
    for words in [&["-s", "s.toml"][..], &["--allow-write", "~/out"]] {
        let mut command = kennel(["run"]);
        command.args(words).args(["--", "sh", "-c", "> ~/out/x"]).env("HOME", scratch.join("home"));
        ran(command.current_dir(scratch.path())).ok();
    }
}

#[test]
#[kennel_claim::claim("handed-back/project-settings-only-tighten")]
fn a_project_file_tightens_without_a_word() {
    let scratch = Scratch::new();
    scratch.write("secret", "x");
    scratch.write("out/file", "x");
    scratch.write("kennel.toml", "[files]\ndeny_read = [\"secret\"]\ndeny_write = [\"out\"]\n[limits]\ntimeout = \"2s\"\nopen_files = 40\n");
    let script = "cat secret && exit 3; (> out/file) && exit 4; test $(ulimit -n) = 40 || exit 5; exit 0";
    let ran =
        run_in(scratch.path(), ["--allow-write", ".", "--open-files", "100", "--", "sh", "-c", script]).ok();
    assert!(!ran.stderr.contains("note"), "{}", ran.stderr);
    run_in(scratch.path(), ["--timeout", "1h", "--", "sleep", "60"]).expect_code(124);
    // A flag that is tighter still wins.
    let tighter = run_in(scratch.path(), ["--open-files", "30", "--", "sh", "-c", "ulimit -n"]).ok();
    assert_eq!(tighter.stdout, "30\n");
}

#[test]
#[kennel_claim::claim("itself/found-settings-only-tighten")]
fn a_project_file_cannot_loosen_and_each_try_is_told() {
    let scratch = Scratch::new();
    let lines = [
        ("profile = \"build\"", "profile"),
        ("best_effort = true", "best_effort"),
        ("files.allow_write = [\".\"]", "files.allow_write"),
        ("files.allow_read = [\"/\"]", "files.allow_read"),
        ("files.mounts = [{ source = \"/etc\", target = \"/workspace\" }]", "files.mounts"),
        ("files.tmp = \"host\"", "files.tmp"),
        ("files.host_run = true", "files.host_run"),
        ("network.mode = \"host\"", "network.mode"),
        ("network.unix_sockets = \"all\"", "network.unix_sockets"),
        ("limits.open_files = 1000", "limits.open_files"),
        ("environment.pass = [\"TOKEN\"]", "environment.pass"),
        ("environment.set = { LD_PRELOAD = \"evil.so\" }", "environment.set"),
        ("process.workdir = \"/\"", "process.workdir"),
        ("process.user = \"root\"", "process.user"),
        ("process.hostname = \"evil\"", "process.hostname"),
        ("process.seccomp = \"none\"", "process.seccomp"),
    ];
    for (text, key) in lines {
        scratch.write("kennel.toml", text);
        let ran = run_in(scratch.path(), ["--open-files", "100", "--", "true"]).ok();
        let note = format!(
            "kennel: note: kennel.toml was merely found and may only tighten; not applied: {key}; to accept it: kennel trust \
             kennel.toml\n"
        );
        assert_eq!(ran.stderr, note, "{text}");
    }
    scratch.write("kennel.toml", "files.allow_write = [\".\"]");
    run_in(scratch.path(), ["--", "sh", "-c", "> new"]).expect_code(2);
    run_in(scratch.path(), ["--settings", "kennel.toml", "--", "sh", "-c", "> new"]).ok();
    run_in(scratch.path(), ["-q", "--", "true"]).ok().says("");
    run_in(scratch.path(), ["--no-settings", "--", "true"]).ok().says("");
}

#[test]
fn a_project_file_that_is_named_is_trusted_by_whatever_path_and_applied_once() {
    let scratch = Scratch::new();
    scratch.dir("src");
    std::os::unix::fs::symlink("kennel.toml", scratch.join("link.toml")).unwrap();
    let absolute = scratch.join("kennel.toml");
    scratch.write("kennel.toml", "files.allow_write = [\".\"]\nlimits.open_files = 1000\n");
    for name in
        ["kennel.toml", "./kennel.toml", "src/../kennel.toml", "link.toml", absolute.to_str().unwrap()]
    {
        run_in(scratch.path(), ["--settings", name, "--", "sh", "-c", "> new"]).ok().says("");
    }
    // A flag is stronger than a named file, which a file that was found would be applied after.
    let flag = ["-s", "kennel.toml", "--open-files", "2000", "--", "sh", "-c", "ulimit -n"];
    run_in(scratch.path(), flag).ok().says("");
    // A file beside it was not named.
    scratch.write("kennel.json", "{\"limits\": {\"open_files\": 50}}");
    let named = ["-s", "kennel.json", "--open-files", "100", "--", "sh", "-c", "ulimit -n; > new"];
    let ran = run_in(scratch.path(), named);
    assert!(ran.stderr.contains("not applied: files.allow_write"), "{}", ran.stderr);
}

#[test]
fn the_project_is_where_the_command_starts() {
    let scratch = Scratch::new();
    scratch.write("project/kennel.json", "{\"files\": {\"deny_read\": [\"secret\"]}}");
    scratch.write("project/secret", "x");
    run_in(scratch.path(), ["--workdir", "project", "--", "cat", "secret"]).expect_code(1);
    run_in(scratch.path(), ["--", "cat", "project/secret"]).ok();
}

#[test]
#[kennel_claim::claim("itself/found-settings-only-tighten")]
fn the_sandbox_cannot_leave_a_project_file_that_loosens_the_next_run() {
    let scratch = Scratch::new();
    let plant = "printf '[files]\\nallow_write = [\"/\"]\\n[network]\\nmode = \"host\"\\n' > kennel.toml";
    run_in(scratch.path(), ["--allow-write", ".", "--", "sh", "-c", plant]).ok();
    let ran = run_in(scratch.path(), ["--", "sh", "-c", "> new"]).expect_code(2);
    assert!(ran.stderr.contains("; not applied: files.allow_write, network.mode; "), "{}", ran.stderr);
}

#[test]
fn profiles_are_as_documented() {
    let scratch = Scratch::new();
    scratch.write("home/.ssh/id", "x");
    scratch.dir("work");
    let run = |profile: &str, script: &str| {
        let mut command = kennel(["run", "--profile", profile, "--", "sh", "-c", script]);
        ran(command.current_dir(scratch.join("work")).env("HOME", scratch.join("home")))
    };
    run("agent", "> made && ! cat ~/.ssh/id").ok();
    run("build", "> made && ! cat ~/.ssh/id").ok();
    run("default", "> made").expect_code(2);
    for profile in ["judge", "data"] {
        let ran = run(profile, "test ! -e ~/.ssh && ! (> made)");
        // These ask for limits, which not every host can enforce.
        assert!(ran.code == 0 || (ran.code == 125 && ran.stderr.contains("help: ")), "{profile}: {ran:?}");
    }
}

#[test]
fn a_list_can_start_anew_in_a_stronger_source() {
    let scratch = Scratch::new();
    for folder in ["home", "work/src", "work/other"] {
        scratch.dir(folder);
    }
    let writes = |words: &[&str]| {
        let script = "for name in src other; do (> $name/x) 2>/dev/null && echo $name; done; rm -f */x; true";
        let mut command = kennel(["run", "-q"]);
        command.args(words).args(["--", "sh", "-c", script]).current_dir(scratch.join("work"));
        ran(command.env("HOME", scratch.join("home"))).ok().stdout
    };
    let agent = ["--profile", "agent", "--allow-write", "src"];
    assert_eq!(writes(&agent), "src\nother\n", "lists grow");
    let only = [&agent[..], &["--only", "files.allow_write"]].concat();
    assert_eq!(writes(&only), "src\n");
    scratch.write(
        "s.toml",
        "profile = \"agent\"\nonly = [\"files.allow_write\"]\nfiles.allow_write = [\"work/src\"]\n",
    );
    let file = scratch.join("s.toml").display().to_string();
    assert_eq!(writes(&["--settings", &file]), "src\n");
    assert_eq!(
        writes(&["--settings", &file, "--allow-write", "other"]),
        "src\nother\n",
        "flags are stronger"
    );
    // A file that is merely found starts nothing anew.
    scratch.write("work/kennel.toml", "only = \"files.deny_write\"\n");
    let mut command =
        kennel(["run", "--allow-write", ".", "--deny-write", "other", "--", "sh", "-c", "> other/x"]);
    let told = ran(command.current_dir(scratch.join("work")));
    assert!(told.code != 0 && told.stderr.contains("not applied: only;"), "{told:?}");
    let plan = |words: &[&str]| {
        let mut command = kennel(["plan"]);
        command.args(words).args(["--", "true"]).current_dir(scratch.join("work"));
        ran(command.env("HOME", scratch.join("home")))
    };
    let shown = plan(&only).ok().stdout;
    assert!(shown.contains("anew         files.allow_write (--only): "), "{shown}");
    let wrong = plan(&["--only", "files.allow_wirte"]);
    assert!(wrong.stderr.contains("files.allow_write"), "{wrong:?}");
    plan(&["--only", "limits.memory"]).expect_code(125);
}

#[test]
#[kennel_claim::claim("handed-back/profiles-keep-what-they-close")]
fn two_profiles_on_one_base_keep_what_the_base_closes() {
    let scratch = Scratch::new();
    scratch.write("home/.config/kennel/profiles/base.toml", "[files]\ndeny_read = [\"~/key\"]\n");
    scratch.write(
        "home/.config/kennel/profiles/opens.toml",
        "profile = \"base\"\n[files]\nallow_read = [\"~/key\"]\n",
    );
    scratch
        .write("home/.config/kennel/profiles/other.toml", "profile = \"base\"\n[limits]\nopen_files = 100\n");
    scratch.write("home/key", "key");
    let run = |words: &[&str]| {
        let mut command = kennel(["run"]);
        command.args(words).args(["--", "cat", "key"]).current_dir(scratch.join("home"));
        ran(command.env("HOME", scratch.join("home")).env_remove("XDG_CONFIG_HOME"))
    };
    assert_eq!(run(&["--profile", "opens"]).ok().stdout, "key");
    run(&["--profile", "other"]).expect_code(1);
    for both in [["opens", "other"], ["other", "opens"]] {
        let words = ["--profile", both[0], "--profile", both[1]];
        let told = run(&words).expect_code(125);
        for name in ["files.allow_read and files.deny_read", "opens.toml:3", "base.toml:2"] {
            assert!(told.stderr.contains(name), "{told:?}");
        }
        // Who says which it is to be has it so.
        assert_eq!(run(&[&words[..], &["--allow-read", "key"]].concat()).ok().stdout, "key");
        run(&[&words[..], &["--deny-read", "key"]].concat()).expect_code(1);
    }
}
