//! What the next run goes by cannot be planted in this one: kennel's own settings, and in a project the files from which
//! shells, editors and agents take commands. A home folder is no project.

use std::path::Path;
use std::process::Command;

use kennel_tests::{Ran, Scratch, am_root, kennel, ran, skipped};

/// A home with a project in it.
struct Home {
    scratch: Scratch,
}

impl Home {
    fn new() -> Home {
        let home = Home { scratch: Scratch::new() };
        home.scratch.dir("home/project");
        home
    }

    fn at(&self, name: &str) -> String {
        self.scratch.join(name).display().to_string()
    }

    /// kennel as the owner of this home calls it.
    fn kennel(&self, words: &[&str]) -> Command {
        let mut command = kennel(["run", "--no-settings"]);
        command.args(words).env("HOME", self.scratch.join("home")).env_remove("XDG_CONFIG_HOME");
        command.current_dir(self.scratch.join("home"));
        command
    }

    fn inside(&self, flags: &[&str], script: &str) -> Ran {
        ran(self.kennel(flags).args(["--", "sh", "-c", script]))
    }

    fn outside(&self, script: &str) {
        let mut command = Command::new("sh");
        ran(command.args(["-ec", script]).current_dir(self.scratch.join("home"))).ok();
    }

    /// Every try fails inside, leaves nothing, and works outside.
    #[track_caller]
    fn cannot(&self, flags: &[&str], tries: &[&str]) {
        let folder = self.scratch.join("home");
        let picture = || {
            let mut command = Command::new("sh");
            ran(command.args(["-c", "find . | sort; find . -type f -exec cat {} +"]).current_dir(&folder))
                .stdout
        };
        let before = picture();
        for line in tries {
            let tried = self.inside(flags, line);
            assert!(tried.code != 0 && tried.code != 125, "{flags:?}: this worked: {line}\n{}", tried.stderr);
            assert_eq!(picture(), before, "{flags:?}: {line}");
        }
        for line in tries {
            let copy = self.scratch.dir("copy");
            let copied = Command::new("cp").arg("-a").arg(folder.join(".")).arg(&copy).status();
            assert!(copied.is_ok_and(|status| status.success()));
            let mut command = Command::new("sh");
            ran(command.args(["-ec", line]).current_dir(&copy)).ok();
            std::fs::remove_dir_all(copy).expect("it was just made");
        }
    }
}

const PLANT: &str = "mkdir -p .config/kennel && echo > .config/kennel/settings.toml";

#[test]
#[kennel_claim::claim("handed-back/kennel-settings-are-not-writable")]
fn settings_of_kennel_that_do_not_exist_cannot_be_made() {
    let home = Home::new();
    let tries = [
        PLANT,
        "mkdir -p x/kennel && echo > x/kennel/settings.toml && mv -T x .config || { rm -rf x; false; }",
        "mkdir -p project/c/kennel && ln -s project/c .config || { rm -rf project/c; false; }",
        "echo > .srt-settings.json",
        "echo x > y; mv y .srt-settings.json || { rm y; false; }",
    ];
    // Folders on the way can be made, and stay.
    home.scratch.dir("home/.config");
    for flags in [
        &["--allow-write", "."][..],
        &["--allow-write", "..", "--git", "metadata-read-only"],
        &["--allow-write", "/", "--host-tmp"],
    ] {
        home.cannot(flags, &[tries[0], tries[3], tries[4]]);
    }
    std::fs::remove_dir(home.scratch.join("home/.config")).expect("it is empty");
    home.cannot(&["--allow-write", "."], &tries[1..]);
}

#[test]
#[kennel_claim::claim("handed-back/kennel-settings-are-not-writable")]
fn settings_of_kennel_stay_as_they_are() {
    let home = Home::new();
    home.scratch.write("home/.config/kennel/settings.toml", "[limits]\nmemory = \"1G\"\n");
    let tries = [
        "echo x >> .config/kennel/settings.toml",
        "echo x > .config/kennel/settings.json",
        "rm .config/kennel/settings.toml",
        "mv .config/kennel .config/k",
        "mv .config c",
        "echo x > n && mv n .config/kennel/settings.toml || { rm n; false; }",
    ];
    home.cannot(&["--allow-write", "."], &tries);
    let glob = home.at("home/.config/*");
    home.cannot(&["--allow-write", &glob, "--allow-write", "project"], &tries[..4]);
    let mount = format!("{}:/mnt:rw", home.at("home"));
    for line in ["echo x >> /mnt/.config/kennel/settings.toml", "mv /mnt/.config/kennel /mnt/k"] {
        let tried = home.inside(&["--mount", &mount], line);
        assert!(tried.code != 0 && tried.code != 125, "{line}: {}", tried.stderr);
    }
    // The rest of the folder is as open as was said.
    home.inside(&["--allow-write", "."], "echo x > .config/other").ok();
}

#[test]
#[kennel_claim::claim("handed-back/kennel-settings-are-not-writable")]
fn links_on_the_way_to_kennels_settings_and_what_they_lead_to_stay() {
    let home = Home::new();
    home.scratch.write("home/dotfiles/config/kennel/settings.toml", "");
    home.outside("ln -s dotfiles/config .config");
    home.cannot(
        &["--allow-write", "."],
        &[
            "echo x >> dotfiles/config/kennel/settings.toml",
            "rm .config",
            "mv dotfiles d",
            "ln -sfn project .config",
        ],
    );
    let home = Home::new();
    home.scratch.write("home/dotfiles/kennel.toml", "");
    home.outside("mkdir -p .config/kennel; ln -s ../../dotfiles/kennel.toml .config/kennel/settings.toml");
    home.cannot(
        &["--allow-write", "."],
        &[
            "echo x >> dotfiles/kennel.toml",
            "rm dotfiles/kennel.toml",
            "mv dotfiles d",
            "rm .config/kennel/settings.toml",
        ],
    );
}

#[test]
fn settings_of_kennel_stay_where_the_variable_says_they_are() {
    let home = Home::new();
    let config = home.scratch.dir("home/project/config");
    for line in
        ["mkdir project/config/kennel", "mkdir -p x && mv -T x project/config/kennel || { rmdir x; false; }"]
    {
        let mut command = home.kennel(&["--allow-write", "."]);
        let tried = ran(command.args(["--", "sh", "-c", line]).env("XDG_CONFIG_HOME", &config));
        assert!(tried.code != 0 && tried.code != 125, "{line}: {}", tried.stderr);
    }
}

#[test]
#[kennel_claim::claim("handed-back/kennel-settings-are-not-writable")]
fn the_home_of_the_user_database_counts_whatever_the_variable_says() {
    if !am_root() {
        return skipped("another user database can be put in place by root only");
    }
    let home = Home::new();
    let database = home.scratch.write("passwd", &format!("root:x:0:0::{}:/bin/sh\n", home.at("home")));
    let binary = kennel_tests::kennel_bin().display().to_string();
    let run = |flags: &str, script: &str| {
        let script = format!(
            "mount --bind {} /etc/passwd && exec env HOME=/nonexistent {binary} run --no-settings {flags} -- sh -c '{script}'",
            database.display()
        );
        ran(Command::new("unshare").args(["-m", "sh", "-c", &script]).current_dir(home.scratch.join("home")))
    };
    let tried = run("--allow-write .", PLANT);
    assert!(tried.code != 0 && tried.code != 125, "{}", tried.stderr);
    assert!(!home.scratch.join("home/.config/kennel").exists());
    run("--profile agent", "true").expect_code(125);
    run("--allow-write .", "echo x > other").ok();
}

#[test]
#[kennel_claim::claim("handed-back/kennel-settings-are-not-writable")]
fn a_rule_that_names_kennels_settings_is_an_error() {
    let home = Home::new();
    home.scratch.write("home/.config/kennel/settings.toml", "");
    for flags in [
        &["--allow-write", ".config/kennel"][..],
        &["--allow-write", ".config/kennel/settings.toml"],
        &["--allow-write", ".", "--allow-write", ".config/kennel"],
    ] {
        let refused = home.inside(flags, "true").expect_code(125);
        assert!(refused.stderr.contains("kennel's own settings are never writable"), "{}", refused.stderr);
    }
    let mount = format!("{}:/mnt:rw", home.at("home/.config/kennel"));
    let refused = home.inside(&["--mount", &mount], "true").expect_code(125);
    assert!(refused.stderr.contains("kennel's own settings are never writable"), "{}", refused.stderr);
    home.inside(&["--mount", &mount[..mount.len() - 3]], "true").ok();
}

#[test]
#[kennel_claim::claim("handed-back/homes-are-no-write-roots")]
fn an_agent_does_not_start_in_a_home_or_above_it() {
    let home = Home::new();
    home.outside("ln -s . itself; ln -s home ../link");
    let agent = |folder: &str, more: &[&str]| {
        let mut command = home.kennel(&["--profile", "agent"]);
        ran(command.args(more).args(["--", "true"]).current_dir(Path::new(folder)))
    };
    for (folder, more) in [
        (home.at("home"), &[][..]),
        (home.at("link"), &[]),
        (home.at("home/itself"), &[]),
        (home.at(""), &[]),
        ("/".to_owned(), &[]),
        (home.at("home/project"), &["-C", "../../home"]),
        (home.at("home/project"), &["-C", ".."]),
        (home.at("home/project"), &["--allow-write", "../.."]),
    ] {
        let refused = agent(&folder, more).expect_code(125);
        assert!(refused.stderr.contains("is a home folder, or holds one"), "{folder}: {}", refused.stderr);
        assert!(refused.stderr.contains("help: start in a project's folder"), "{}", refused.stderr);
    }
    agent(&home.at("home/project"), &[]).ok();
    // Whoever means it can say so.
    let settings = home.scratch.write("mine.toml", "profile = \"agent\"\n[files]\nrefuse_home = false\n");
    let settings = settings.display().to_string();
    ran(kennel(["run", "--no-settings", "--settings", &settings, "--", "true"])
        .env("HOME", home.at("home"))
        .current_dir(home.at("home")))
    .ok();
    // The library too.
    let refused = kennel::Sandbox::builder()
        .working_dir("/")
        .profile("agent")
        .build()
        .expect("it can be built")
        .run("true", &[]);
    let error = refused.expect_err("/ holds every home").to_string();
    assert!(error.contains("holds one"), "{error}");
}

const NAMES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".zshrc",
    ".zprofile",
    ".profile",
    ".gitconfig",
    ".ripgreprc",
    ".mcp.json",
    ".vscode/settings.json",
    ".idea/workspace.xml",
    ".claude/commands/x.md",
    ".claude/agents/x.md",
    ".claude/settings.json",
    ".cursor/mcp.json",
    ".aider.conf.yml",
    ".aider.tags.cache.v4/cache.db",
    ".amp/settings.json",
    ".opencode/plugin/x.js",
    "opencode.json",
];

#[test]
#[kennel_claim::claim("handed-back/obeyed-names-stay")]
fn an_agent_plants_no_commands_for_shells_editors_and_agents() {
    let home = Home::new();
    let agent = |script: &str| {
        let mut command = home.kennel(&["--profile", "agent"]);
        ran(command.args(["--", "sh", "-c", script]).current_dir(home.scratch.join("home/project")))
    };
    for name in NAMES {
        let plant = format!("mkdir -p $(dirname {name}) && echo x > {name}");
        let tried = agent(&plant);
        assert!(tried.code != 0 && tried.code != 125, "absent {name}: {}", tried.stderr);
        let kept = match name.split('/').collect::<Vec<_>>()[..] {
            [first, second, ..] if kennel_policy::dotfiles::is_first_part(first.as_bytes()) => {
                format!("{first}/{second}")
            }
            [first, ..] => first.to_owned(),
            [] => unreachable!("a name has a part"),
        };
        assert!(!home.scratch.join("home/project").join(&kept).exists(), "{name} was made");
        home.outside(&format!("cd project && {plant}"));
        home.outside(&format!("mkdir -p project/a/b && cd project/a/b && {plant}"));
        for place in ["", "a/b/"] {
            for line in [
                format!("echo y > {place}{name}"),
                format!("rm {place}{name}"),
                format!("mv {place}{kept} {place}z"),
            ] {
                let tried = agent(&line);
                assert!(tried.code != 0 && tried.code != 125, "{line}: {}", tried.stderr);
            }
            let text = std::fs::read_to_string(home.scratch.join("home/project").join(place).join(name));
            assert_eq!(text.expect("it is still there"), "x\n", "{place}{name}");
        }
    }
    agent(
        "echo x > src; mkdir -p .claude && echo x > .claude/notes; mkdir a/b/.github; echo x > .gitmodules",
    )
    .ok();
    // Without the profile they are files like any other.
    home.inside(&["--allow-write", "project"], "echo y > project/.bashrc").ok();
}

/// A second folder that can be written, and one that shows at another place, are as good a place to plant as the first.
#[test]
#[kennel_claim::claim("handed-back/obeyed-names-stay")]
fn an_agent_plants_none_in_other_write_roots_either() {
    let home = Home::new();
    home.outside("mkdir -p ../other/sub; echo own > ../other/.zshrc; echo own > ../other/sub/.profile");
    let (other, mount) = (home.at("other"), format!("{}:/mnt:rw", home.at("other")));
    let script = "cd \"$0\" && for name in .zshrc .bashrc sub/.profile; do (echo evil >> $name) 2>/dev/null; done; \
                  mkdir .vscode 2>/dev/null; mkdir made && mv -T made .idea 2>/dev/null; echo fine > file; ls -A; cat .zshrc sub/.profile";
    let shown = |flags: &[&str], place: &str| {
        let mut command = home.kennel(flags);
        ran(command.args(["--", "sh", "-c", script, place]).current_dir(home.at("home/project"))).stdout
    };
    let agent = |flags: &[&str], place: &str| shown(&[&["--profile", "agent"], flags].concat(), place);
    let kept = ".zshrc\nfile\nmade\nsub\nown\nown\n";
    for (flags, place) in [(["--allow-write", &other], other.as_str()), (["--mount", &mount], "/mnt")] {
        assert_eq!(agent(&flags, place), kept, "{flags:?}");
        home.outside("rm -r ../other/made ../other/file");
    }
    let open = shown(&["--allow-write", &other], &other);
    assert!(open.contains(".bashrc\n.idea\n.vscode\n"), "without the profile they are made: {open}");
}
