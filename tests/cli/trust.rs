//! Settings files of a project: found upward to the repository's root, and trusted by what is in them.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use kennel_tests::pty::{Pty, exit_code};
use kennel_tests::{Ran, Scratch, am_root, kennel_bin, ran};

/// A repository with a file that tightens and loosens, and a folder in it.
struct Repository(Scratch);

const SETTINGS: &str = "[files]\ndeny_read = [\"secret\"]\nallow_write = [\"src\"]\n";

impl Repository {
    fn new() -> Repository {
        let scratch = Scratch::new();
        scratch.dir("home/project/.git");
        scratch.dir("home/project/src/deep");
        scratch.write("home/project/secret", "hidden");
        scratch.write("home/project/kennel.toml", SETTINGS);
        Repository(scratch)
    }

    fn command(&self, folder: &str, words: &[&str]) -> Command {
        let mut command = Command::new(kennel_bin());
        command.args(words).stdin(Stdio::null()).current_dir(self.0.join(folder));
        command.env("HOME", self.0.join("home")).env_remove("XDG_CONFIG_HOME").env("LC_ALL", "C");
        command
    }

    fn kennel(&self, folder: &str, words: &[&str]) -> Ran {
        ran(&mut self.command(folder, words))
    }

    /// Whether the file that is denied can be read from a folder, and the folder that is opened can be written.
    fn can(&self, folder: &str) -> (bool, bool) {
        let secret = self.0.join("home/project/secret");
        let made = self.0.join("home/project/src/made");
        let script = "cat \"$0\" >/dev/null 2>&1 && echo read; (> \"$1\") 2>/dev/null && echo wrote; true";
        let paths = [secret.to_str().unwrap(), made.to_str().unwrap()];
        let ran = self.kennel(folder, &[&["run", "--", "sh", "-c", script][..], &paths].concat()).ok();
        (ran.stdout.contains("read"), ran.stdout.contains("wrote"))
    }
}

const PROJECT: &str = "home/project";
const CLOSED: (bool, bool) = (false, false);
const OPEN: (bool, bool) = (true, false);
const TRUSTED: (bool, bool) = (false, true);

#[test]
#[kennel_claim::claim("handed-back/project-settings-only-tighten")]
fn a_project_file_holds_in_every_folder_of_the_repository() {
    let repository = Repository::new();
    for folder in [PROJECT, "home/project/src", "home/project/src/deep"] {
        assert_eq!(repository.can(folder), CLOSED, "{folder}");
    }
    let note = repository.kennel("home/project/src/deep", &["run", "--", "true"]).ok().stderr;
    let file = "../../kennel.toml";
    assert_eq!(
        note,
        format!(
            "kennel: note: {file} was merely found and may only tighten; not applied: files.allow_write; to accept it: \
             kennel trust {file}\n"
        )
    );
    // A file further down adds to it, and takes nothing away.
    repository.0.write("home/project/src/kennel.toml", "limits.open_files = 50\n");
    assert_eq!(repository.can("home/project/src/deep"), CLOSED);
    let limit =
        repository.kennel("home/project/src/deep", &["run", "--", "sh", "-c", "ulimit -n"]).ok().stdout;
    assert_eq!(limit, "50\n");
    // A worktree has a file there.
    std::fs::remove_dir(repository.0.join("home/project/.git")).unwrap();
    repository.0.write("home/project/.git", "gitdir: elsewhere\n");
    assert_eq!(repository.can("home/project/src"), CLOSED);
}

#[test]
fn no_file_is_looked_for_above_a_repository_or_without_one_or_above_the_home() {
    let repository = Repository::new();
    repository.0.dir("home/project/src/.git");
    assert_eq!(repository.can("home/project/src/deep"), CLOSED, "a repository in the repository");
    std::fs::remove_dir(repository.0.join("home/project/src/.git")).unwrap();
    std::fs::remove_dir(repository.0.join("home/project/.git")).unwrap();
    assert_eq!(repository.can("home/project/src"), OPEN, "no repository");
    assert_eq!(repository.can(PROJECT), CLOSED, "the folder itself");
    // Above the home nothing is a repository of this user's.
    repository.0.dir(".git");
    repository.0.write("kennel.toml", "files.deny_read = [\"home/project/secret\"]\n");
    assert_eq!(repository.can("home/project/src"), OPEN, "above the home");
    let mut outside = repository.command("home/project/src", &["run", "--", "cat", "../secret"]);
    ran(outside.env("HOME", "/nonexistent")).expect_code(1);
}

#[test]
#[kennel_claim::claim("itself/found-settings-only-tighten")]
fn what_a_stranger_may_have_put_above_does_not_count() {
    let repository = Repository::new();
    let mode = |path: &str, mode: u32| {
        std::fs::set_permissions(repository.0.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("home/project/kennel.toml", 0o666);
    assert_eq!(repository.can("home/project/src"), OPEN, "everybody may write the file");
    mode("home/project/kennel.toml", 0o644);
    mode(PROJECT, 0o777);
    assert_eq!(repository.can("home/project/src"), OPEN, "everybody may write the folder");
    mode(PROJECT, 0o1777);
    mode("home/project/.git", 0o755);
    assert_eq!(
        repository.can("home/project/src"),
        CLOSED,
        "names of others stay in a folder with the sticky bit"
    );
    if am_root() {
        std::os::unix::fs::chown(repository.0.join("home/project/kennel.toml"), Some(4711), None).unwrap();
        assert_eq!(repository.can("home/project/src"), OPEN, "another user's file");
        std::os::unix::fs::chown(repository.0.join("home/project/kennel.toml"), Some(0), None).unwrap();
        std::os::unix::fs::chown(repository.0.join("home/project/.git"), Some(4711), None).unwrap();
        assert_eq!(repository.can("home/project/src"), OPEN, "another user's repository");
    }
    // Links lead nowhere from above.
    let linked = Repository::new();
    std::fs::rename(linked.0.join("home/project/kennel.toml"), linked.0.join("home/project/other.toml"))
        .unwrap();
    symlink("other.toml", linked.0.join("home/project/kennel.toml")).unwrap();
    assert_eq!(linked.can("home/project/src"), OPEN);
    assert_eq!(linked.can(PROJECT), CLOSED);
}

#[test]
fn a_trusted_file_is_applied_until_anything_in_it_changes() {
    let repository = Repository::new();
    let file = repository.0.join("home/project/kennel.toml");
    let shown = file.display();
    let said = repository.kennel("home/project/src", &["trust", "--yes"]).ok().stdout;
    assert_eq!(
        said,
        format!(
            "{shown}:\n    [files]\n    deny_read = [\"secret\"]\n    allow_write = [\"src\"]\n\nIt asks for what a file may \
             not have that was merely found:\n    files.allow_write (../kennel.toml:3)\n{shown} is trusted, until something \
             in it changes.\n"
        )
    );
    for folder in [PROJECT, "home/project/src", "home/project/src/deep"] {
        assert_eq!(repository.can(folder), TRUSTED, "{folder}");
        assert_eq!(repository.kennel(folder, &["run", "--", "true"]).ok().stderr, "");
    }
    assert_eq!(repository.kennel("home", &["trust", "--list"]).ok().stdout, format!("{shown}  trusted\n"));
    let again = repository.kennel(PROJECT, &["trust"]).ok().stdout;
    assert_eq!(again, format!("{shown} is trusted already, as it is.\n"));
    // One more byte, and back again: what was agreed to is what is there.
    repository.0.write("home/project/kennel.toml", &format!("{SETTINGS}\n"));
    assert_eq!(repository.can(PROJECT), CLOSED);
    assert_eq!(
        repository.kennel("home", &["trust", "--list"]).ok().stdout,
        format!("{shown}  changed since, not trusted\n")
    );
    repository.kennel(PROJECT, &["trust", "--yes", "kennel.toml"]).ok();
    assert_eq!(repository.can(PROJECT), TRUSTED);
    repository.0.write("home/project/kennel.toml", SETTINGS);
    assert_eq!(repository.can(PROJECT), CLOSED, "what was trusted before the last question is not any more");
    // The same file elsewhere is another one.
    repository.0.dir("home/copy/.git");
    repository.0.dir("home/copy/src");
    repository.0.write("home/copy/kennel.toml", &format!("{SETTINGS}\n"));
    let copied = repository.kennel("home/copy", &["run", "--", "sh", "-c", "> src/made"]);
    assert_eq!(copied.code, 2, "{copied:?}");
    repository.kennel(PROJECT, &["trust", "--remove"]).ok();
    assert_eq!(repository.kennel("home", &["trust", "--list"]).ok().stdout, "Nothing is trusted.\n");
    repository.kennel(PROJECT, &["trust", "--remove"]).expect_code(125);
}

#[test]
fn a_file_is_shown_and_asked_about_and_only_yes_is_yes() {
    let repository = Repository::new();
    let hostile = "# \u{9b}2J\u{202e}owned\n[files]\nallow_write = [\"src\"]\n";
    repository.0.write("home/project/kennel.toml", hostile);
    for (answer, code, can) in [("\r", 125, OPEN), ("no\r", 125, OPEN), ("yes\r", 0, (true, true))] {
        let terminal = Pty::new(&[]);
        let mut child = terminal.spawn(&mut repository.command(PROJECT, &["trust"]), [true; 3]);
        let shown = terminal.wait_for("Trust it, as it is? [y/N] ");
        assert!(shown.contains("owned") && !shown.contains(['\u{9b}', '\u{202e}']), "{shown:?}");
        terminal.type_bytes(answer.as_bytes());
        assert_eq!(exit_code(&mut child), code, "{answer:?}: {}", terminal.shown());
        assert_eq!(repository.can(PROJECT), can, "{answer:?}");
    }
    let other = Repository::new();
    let nobody = other.kennel(PROJECT, &["trust"]).expect_code(125).stderr;
    assert_eq!(
        nobody,
        "kennel trust: there is no terminal to ask on\nhelp: --yes agrees to what is shown above\n"
    );
    assert_eq!(other.can(PROJECT), CLOSED);
}

#[test]
fn what_cannot_be_trusted_says_why() {
    let repository = Repository::new();
    let none = repository.kennel("home", &["trust", "-y"]).expect_code(125).stderr;
    assert_eq!(
        none,
        "kennel trust: there is no kennel.toml and no kennel.json here, nor above up to the repository's root\n"
    );
    let absent = repository.kennel("home", &["trust", "-y", "absent.toml"]).expect_code(125).stderr;
    assert_eq!(absent, "kennel trust: absent.toml: no such file\n");
    repository.0.write("home/project/kennel.toml", "files.allow_wriet = [\".\"]\n");
    let wrong = repository.kennel(PROJECT, &["trust", "-y"]).expect_code(125).stderr;
    assert!(wrong.starts_with("kennel trust: kennel.toml:1: "), "{wrong}");
    repository.0.write("home/project/kennel.toml", "files.deny_read = [\"secret\"]\n");
    let tightens = repository.kennel(PROJECT, &["trust", "-y"]).ok().stdout;
    assert!(tightens.ends_with("\nIt only tightens, which needs no trust.\n"), "{tightens}");
    assert!(!repository.0.join("home/.config").exists());
    repository.kennel(PROJECT, &["trust", "--list", "x"]).expect_code(2);
}

#[test]
#[kennel_claim::claim("itself/found-settings-only-tighten")]
fn a_sandbox_cannot_have_a_file_trusted() {
    let repository = Repository::new();
    let own = kennel_bin().display().to_string();
    let script = format!("{own} trust --yes project/kennel.toml; mkdir -p .config/kennel/trusted");
    let ran = repository.kennel("home", &["run", "--allow-write", ".", "--", "sh", "-c", &script]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(!repository.0.join("home/.config/kennel/trusted").exists(), "{ran:?}");
    assert_eq!(repository.can(PROJECT), CLOSED);
    // Nor give the trust that there is to another text.
    repository.kennel(PROJECT, &["trust", "-y"]).ok();
    let script = "cd .config/kennel/trusted && cp * x; mv * y; rm *; true";
    repository.kennel("home", &["run", "--allow-write", ".", "--", "sh", "-c", script]).ok();
    assert_eq!(std::fs::read_dir(repository.0.join("home/.config/kennel/trusted")).unwrap().count(), 1);
    assert_eq!(repository.can(PROJECT), TRUSTED);
}

#[test]
fn a_link_to_a_trusted_file_is_another_file() {
    let repository = Repository::new();
    repository.kennel(PROJECT, &["trust", "--yes"]).ok();
    assert_eq!(repository.can(PROJECT), TRUSTED);
    let other = repository.0.dir("home/other/src");
    symlink("../project/kennel.toml", other.parent().unwrap().join("kennel.toml")).unwrap();
    let told = repository.kennel("home/other", &["run", "--", "sh", "-c", "> src/x"]);
    assert!(told.code != 0 && told.stderr.contains("not applied: files.allow_write"), "{told:?}");
}

/// What a sandbox can do to a project's own files must not take away what they say.
#[test]
fn neither_a_repository_in_it_nor_a_second_file_takes_away_what_a_project_says() {
    let repository = Repository::new();
    repository.0.dir("home/project/src/.git");
    assert_eq!(repository.can("home/project/src"), CLOSED);
    repository.0.write("home/project/kennel.json", "{}");
    assert_eq!(repository.can(PROJECT), CLOSED);
}

/// The agents' profiles close more than the default does.
#[test]
fn what_a_file_opens_of_a_profile_is_listed_before_it_is_trusted() {
    let repository = Repository::new();
    let text = "[files]\nhome = \"host\"\ngit = \"off\"\nprotect_dotfiles = false\n[environment]\nsecrets = \"pass\"\n";
    repository.0.write("home/project/kennel.toml", text);
    let shown = repository.kennel(PROJECT, &["trust", "--yes"]).ok().stdout;
    for key in ["files.home", "files.git", "files.protect_dotfiles", "environment.secrets"] {
        assert!(shown.contains(&format!("    {key} (")), "{key}: {shown}");
    }
}

#[test]
#[kennel_claim::claim("handed-back/project-settings-stay")]
fn a_sandbox_neither_changes_nor_removes_nor_replaces_the_settings_that_were_found() {
    let repository = Repository::new();
    let root = repository.0.join(PROJECT).display().to_string();
    repository.0.write("home/project/src/kennel.json", "{}");
    let tries = [
        "echo > ../kennel.toml",
        "rm -f ../kennel.toml",
        "mv ../kennel.toml ../k",
        "echo > k && mv k ../kennel.toml",
        "rm kennel.json",
        "cd .. && mv src s && mkdir src",
        "ln -f secret ../kennel.toml",
    ];
    for flags in [&[][..], &["--profile", "agent"], &["--git", "off", "--mount", &format!("{root}:/mnt:rw")]]
    {
        for line in tries {
            let words = [&["run", "--allow-write", &root][..], flags, &["--", "sh", "-c", line]].concat();
            let tried = repository.kennel("home/project/src", &words);
            assert!(tried.code != 0 && tried.code != 125, "{flags:?} {line}: {tried:?}");
            assert_eq!(
                std::fs::read_to_string(repository.0.join("home/project/kennel.toml")).unwrap(),
                SETTINGS
            );
            assert_eq!(
                std::fs::read_to_string(repository.0.join("home/project/src/kennel.json")).unwrap(),
                "{}"
            );
        }
    }
    // Who names it can write it; and so can all without settings.
    let file = format!("{root}/kennel.toml");
    for flags in [["--allow-write", &file].as_slice(), &["--allow-write", &root, "--no-settings"]] {
        let words = [&["run"][..], flags, &["--", "sh", "-c", "echo >> ../kennel.toml"]].concat();
        repository.kennel("home/project/src", &words).ok();
    }
}

#[test]
#[kennel_claim::claim("handed-back/project-settings-stay")]
fn settings_that_come_into_being_in_a_run_are_told() {
    let repository = Repository::new();
    std::fs::remove_file(repository.0.join("home/project/kennel.toml")).unwrap();
    let root = repository.0.join(PROJECT).display().to_string();
    let made =
        ["run", "--allow-write", &root, "--", "sh", "-c", "echo > ../kennel.toml; echo '{}' > kennel.json"];
    let told = repository.kennel("home/project/src", &made).ok().stderr;
    for name in ["kennel.toml", "src/kennel.json"] {
        let line = format!(
            "kennel: {root}/{name} came into being during the run; the next one finds it, and it may only tighten"
        );
        assert!(told.contains(&line), "{told}");
    }
    assert!(!repository.kennel("home/project/src", &made).stderr.contains("came into being"));
    // What an agent leaves at such a name does not stay.
    for name in ["kennel.toml", "src/kennel.json"] {
        std::fs::remove_file(repository.0.join(PROJECT).join(name)).unwrap();
    }
    let agents = [&["run", "--profile", "agent"][..], &made[1..]].concat();
    repository.kennel("home/project/src", &agents);
    for name in ["kennel.toml", "src/kennel.json"] {
        assert!(!repository.0.join(PROJECT).join(name).exists(), "{name}");
    }
}
