//! Profiles of the user's own, and `kennel profiles`.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use kennel_tests::{Ran, ran, ran_within};

use crate::profiles::Home;

const MINE: &str = "# My own agent.\nprofile = \"agent\"\n\n[process]\nhostname = \"mine\"\n";

fn host_name(home: &Home, flags: &[&str]) -> Ran {
    home.inside(flags, "uname -n")
}

#[test]
fn a_profile_of_ones_own_is_found_by_its_name_in_the_configuration_folder() {
    let home = Home::new();
    home.write(".config/kennel/profiles/mine.toml", MINE);
    home.write("xdg/kennel/profiles/mine.toml", "[process]\nhostname = \"by-xdg\"");
    assert_eq!(host_name(&home, &["--profile", "mine"]).ok().stdout, "mine\n");
    // It builds on agent.
    home.inside(&["--profile", "mine"], "touch here ~/there").ok();
    assert!(home.at("project/here").exists() && !home.at("there").exists());
    let mut command = home.kennel(["run", "--profile", "mine", "--", "uname", "-n"]);
    assert_eq!(ran(command.env("XDG_CONFIG_HOME", home.at("xdg"))).ok().stdout, "by-xdg\n");
    // A settings file can name it, and flags come before it.
    home.write("project/s.toml", "profile = \"mine\"");
    assert_eq!(host_name(&home, &["-s", "s.toml"]).ok().stdout, "mine\n");
    assert_eq!(host_name(&home, &["-s", "s.toml", "--hostname", "flag"]).ok().stdout, "flag\n");
}

#[test]
fn a_profile_of_ones_own_comes_before_a_built_in_one_and_can_build_on_it() {
    let home = Home::new();
    home.write(".config/kennel/profiles/codex.toml", "profile = \"codex\"\n[process]\nhostname = \"both\"");
    let ran = home.inside(&["--profile", "codex"], "uname -n; touch ~/.codex/x && echo written").ok();
    assert_eq!(ran.stdout, "both\nwritten\n");
    home.write(".config/kennel/profiles/codex.toml", "[process]\nhostname = \"alone\"");
    let ran =
        home.inside(&["--profile", "codex"], "uname -n; touch ~/.codex/x 2>/dev/null || echo closed").ok();
    assert_eq!(ran.stdout, "alone\nclosed\n");
    // What the user has of one's own is ignored where that is asked for.
    let ran = home.inside(&["--no-settings", "--profile", "codex"], "touch ~/.codex/x && echo written").ok();
    assert_eq!(ran.stdout, "written\n");
}

#[test]
#[kennel_claim::claim("handed-back/profiles-cannot-be-planted")]
fn mistakes_in_profiles_name_the_file_and_the_line() {
    let home = Home::new();
    let folder = home.at(".config/kennel/profiles").display().to_string();
    home.write(".config/kennel/profiles/bad.toml", "# Bad.\n[files]\nalow_write = []");
    home.write(".config/kennel/profiles/circle.toml", "profile = \"back\"");
    home.write(".config/kennel/profiles/back.toml", "profile = \"circle\"");
    home.write(".config/kennel/profiles/lost.toml", "profile = \"agnet\"");
    std::fs::create_dir(home.at(".config/kennel/profiles/folder.toml")).unwrap();
    for (name, message) in [
        (
            "bad",
            format!("{folder}/bad.toml:3: unknown key `alow_write` in `files`; did you mean `allow_write`?"),
        ),
        ("circle", format!("{folder}/back.toml:1: this profile builds on itself: circle -> back -> circle")),
        ("lost", format!("{folder}/lost.toml:1: there is no profile `agnet`; did you mean `agent`?")),
        ("folder", format!("reading a profile: {folder}/folder.toml: not a regular file")),
        ("cirlce", "--profile: there is no profile `cirlce`; did you mean `circle`?".to_owned()),
        ("cluade", "--profile: there is no profile `cluade`; did you mean `claude`?".to_owned()),
    ] {
        let ran = home.inside(&["--profile", name], "true").expect_code(125);
        assert_eq!(ran.stderr, format!("kennel: {message}\n"), "{name}");
    }
    for name in ["../../../project/planted", "a/b", "..", ".hidden", ""] {
        home.write("project/planted.toml", "");
        let ran = home.inside(&[&format!("--profile={name}")], "true").expect_code(125);
        assert!(ran.stderr.contains("is not a profile's name"), "{name}: {}", ran.stderr);
    }
    // One that never ends is not waited for.
    ran(Command::new("mkfifo").arg(home.at(".config/kennel/profiles/fifo.toml"))).ok();
    let mut command = home.kennel(["run", "--profile", "fifo", "--", "true"]);
    ran_within(Duration::from_secs(20), &mut command).expect_code(125);
}

#[test]
fn profiles_are_listed_with_where_they_come_from() {
    let home = Home::new();
    let list = || ran(&mut home.kennel(["profiles"])).ok().stdout;
    let alone = list();
    for name in kennel_policy::profiles::NAMES {
        let line = format!("\n  {name:<8}  For ");
        assert!(alone.contains(&line), "{name}: {alone}");
    }
    assert!(!alone.contains("Yours"), "{alone}");
    home.write(".config/kennel/profiles/mine.toml", MINE);
    home.write(".config/kennel/profiles/claude.toml", "# My Claude.\nprofile = \"claude\"");
    home.write(".config/kennel/profiles/bad.toml", "# Bad.\nx = 1");
    let folder = home.at(".config/kennel/profiles").display().to_string();
    let all = list();
    let (built_in, yours) = all.split_once(&format!("\nYours, in {folder}:\n")).expect("a heading");
    assert!(!built_in.contains("  claude "), "{built_in}");
    assert!(yours.contains("  mine      My own agent.\n"), "{yours}");
    assert!(yours.contains("  claude    My Claude. (instead of the built-in one)\n"), "{yours}");
    assert!(yours.contains(&format!("cannot be used: {folder}/bad.toml:2: unknown key `x`")), "{yours}");

    let json = ran(&mut home.kennel(["profiles", "--json"])).ok().stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let find = |name: &str| {
        let list = json["profiles"].as_array().unwrap();
        list.iter().find(|one| one["name"] == name).unwrap().clone()
    };
    assert_eq!(find("agent")["from"], "built-in");
    assert_eq!(find("claude")["replaces_built_in"], true);
    assert_eq!(find("claude")["file"], format!("{folder}/claude.toml"));
    assert!(find("bad")["error"].as_str().unwrap().contains("unknown key"));
}

#[test]
fn a_printed_profile_can_be_copied_and_used() {
    let home = Home::new();
    let text = ran(&mut home.kennel(["profiles", "codex"])).ok().stdout;
    assert_eq!(Some(text.as_str()), kennel_policy::profiles::text("codex"));
    home.write(".config/kennel/profiles/copy.toml", &text);
    let plan = |name: &str| {
        let plan = ran(&mut home.kennel(["plan", "--steps", "--profile", name, "--", "true"])).ok().stdout;
        // Without the reasons.
        plan.lines().map(|line| line.split("  # ").next().unwrap().trim_end().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(plan("copy"), plan("codex"));
    assert_eq!(ran(&mut home.kennel(["profiles", "copy"])).ok().stdout, text);
    let wrong = ran(&mut home.kennel(["profiles", "codx"])).expect_code(125);
    assert_eq!(wrong.stderr, "kennel: there is no profile `codx`; did you mean `codex`?\n");
    assert_eq!(ran(&mut home.kennel(["profiles", "../x"])).code, 125);
    assert_eq!(ran(&mut home.kennel(["profiles", "a", "b"])).code, 2);
}

/// The next run goes by them.
#[test]
#[kennel_claim::claim("handed-back/profiles-cannot-be-planted")]
fn no_profile_can_be_planted_or_changed_from_inside() {
    let home = Home::new();
    home.write("dotfiles/mine.toml", MINE);
    home.write(".config/kennel/profiles/own.toml", MINE);
    symlink("../../../dotfiles/mine.toml", home.at(".config/kennel/profiles/mine.toml")).unwrap();
    let open = home.at("").display().to_string();
    for line in [
        "echo x > ~/.config/kennel/profiles/claude.toml",
        "echo x >> ~/.config/kennel/profiles/own.toml",
        "mv ~/.config/kennel/profiles ~/.config/kennel/p",
        "mv ~/.config ~/c",
        "echo x >> ~/dotfiles/mine.toml",
        "rm ~/dotfiles/mine.toml",
        "echo x > ~/new; mv ~/new ~/dotfiles/mine.toml || { rm ~/new; false; }",
    ] {
        let tried = home.inside(&["--allow-write", &open], line);
        assert!(tried.code != 0 && tried.code != 125, "this worked: {line}: {}", tried.stderr);
    }
    assert_eq!(home.read("dotfiles/mine.toml").as_deref(), Some(MINE));
    assert_eq!(home.read(".config/kennel/profiles/own.toml").as_deref(), Some(MINE));
    // Others of the same folders are as open as was said.
    home.inside(&["--allow-write", &open], "echo x > ~/dotfiles/other").ok();
    // And where there are none yet.
    let home = Home::new();
    let open = home.at("").display().to_string();
    let plant = "mkdir -p ~/.config/kennel/profiles && echo x > ~/.config/kennel/profiles/agent.toml";
    assert_ne!(home.inside(&["--allow-write", &open], plant).code, 0);
    assert!(!home.at(".config/kennel").exists());
}

/// A program that uses the library was written with the built-in profiles in mind.
#[test]
fn the_library_finds_profiles_of_the_users_besides_the_built_in_ones() {
    let home = Home::new();
    home.write(".config/kennel/profiles/mine.toml", MINE);
    home.write(".config/kennel/profiles/judge.toml", "# Nothing.");
    let me = std::env::current_exe().unwrap();
    let look = |profile: &str| {
        let mut command = Command::new(&me);
        command
            .args(["--exact", "profiles::own::role_of_a_program", "--nocapture"])
            .env("KENNEL_TEST_PROFILE", profile);
        ran(command.env("HOME", home.at("")).env_remove("XDG_CONFIG_HOME")).stdout
    };
    assert!(look("mine").contains("hostname Some(\"mine\") pids None"), "{}", look("mine"));
    assert!(look("judge").contains("hostname None pids Some(64)"), "{}", look("judge"));
    assert!(look("mien").contains("did you mean `mine`?"), "{}", look("mien"));
}

#[test]
fn role_of_a_program() {
    let Ok(profile) = std::env::var("KENNEL_TEST_PROFILE") else { return };
    match kennel::Sandbox::builder().profile(&profile).policy() {
        Ok(policy) => println!("hostname {:?} pids {:?}", policy.process.hostname, policy.limits.pids),
        Err(error) => println!("{error}"),
    }
}
