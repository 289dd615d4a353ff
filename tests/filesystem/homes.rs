//! What `~` and `$HOME` stand for: the home that `HOME` says, and for denies the one of the user database too. A deny that
//! stood for nothing would protect nothing, so that is an error.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use kennel_tests::{Ran, Scratch, kennel, ran};

use crate::filesystem::host_mounts::{Host, among};
use crate::filesystem::{can_read, cannot_read, command, flags};

/// Two homes with a key in each, and a user database that says the second.
struct Homes {
    scratch: Scratch,
}

impl Homes {
    fn new() -> Homes {
        let scratch = Scratch::new();
        for name in ["by-variable/.ssh/id", "by-database/.ssh/id", "caller/.ssh/id", "work/file"] {
            scratch.write(name, name);
        }
        let at = |name: &str| scratch.join(name).display().to_string();
        // In the namespace that stands around kennel an ordinary user is user 0 as well.
        let database =
            format!("root:x:0:0::{}:/bin/sh\nme:x:1000:1000::{}:/bin/sh\n", at("by-database"), at("caller"));
        scratch.write("passwd", &database);
        Homes { scratch }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.scratch.join(name)
    }

    /// Runs where the user database is this one.
    fn run(&self, command: &mut Command) -> Option<Ran> {
        among(command, [("/etc/passwd", Host::Bind(self.at("passwd")))])
    }

    /// Which of the keys a sandbox with these flags can read.
    fn readable(
        &self,
        rules: &[OsString],
        home: Option<&Path>,
        more: &[(&str, &str)],
    ) -> Option<Vec<String>> {
        let script = "for home; do cat \"$home/.ssh/id\" 2>/dev/null && echo; done; exit 0";
        let homes = ["by-variable", "by-database", "caller"].map(|name| self.at(name));
        let mut command = command(rules, script, &[&homes[0], &homes[1], &homes[2]]);
        command.env_remove("HOME").env_remove("SUDO_UID").envs(more.iter().copied());
        if let Some(home) = home {
            command.env("HOME", home);
        }
        let ran = self.run(command.current_dir(self.at("work")))?.ok();
        Some(ran.stdout.lines().map(|line| line.split('/').next().unwrap().to_owned()).collect())
    }
}

#[test]
#[kennel_claim::claim("files/wrong-home-shows-no-keys")]
fn a_wrong_home_does_not_show_the_keys_of_the_users_own() {
    let homes = Homes::new();
    let nothing: [OsString; 0] = [];
    let Some(all) = homes.readable(&nothing, None, &[]) else { return };
    assert_eq!(all, ["by-variable", "by-database", "caller"], "without a rule all of them can be read");
    let missing = homes.at("no/such/folder");
    for deny in [&["--profile", "agent"][..], &["--deny-read", "~/.ssh"], &["--deny-read", "$HOME/.ssh"]] {
        let rules: Vec<OsString> = deny.iter().map(OsString::from).collect();
        // Profile agent closes other users' homes too.
        let without_others = |shown: &[&'static str]| {
            shown
                .iter()
                .copied()
                .filter(|home| deny[0] != "--profile" || *home != "caller")
                .collect::<Vec<_>>()
        };
        let Some(shown) = homes.readable(&rules, Some(&homes.at("by-variable")), &[]) else { return };
        assert_eq!(shown, without_others(&["caller"]), "{deny:?}");
        for wrong in [None, Some(Path::new("")), Some(Path::new("by-variable")), Some(&missing)] {
            let Some(shown) = homes.readable(&rules, wrong, &[]) else { return };
            assert_eq!(shown, without_others(&["by-variable", "caller"]), "{deny:?} with HOME {wrong:?}");
        }
        let Some(shown) = homes.readable(&rules, Some(&homes.at("by-variable")), &[("SUDO_UID", "1000")])
        else {
            return;
        };
        assert_eq!(shown, [""; 0], "{deny:?} below sudo");
    }
}

#[test]
#[kennel_claim::claim("files/wrong-home-shows-no-keys")]
fn denies_of_a_settings_file_and_of_srts_cover_both_homes() {
    let homes = Homes::new();
    homes.scratch.write("deny.toml", "[files]\ndeny_read = [\"~/.ssh\"]\n");
    let rules = [OsString::from("--settings"), homes.at("deny.toml").into()];
    let home = homes.at("by-variable");
    let Some(shown) = homes.readable(&rules, Some(&home), &[]) else { return };
    assert_eq!(shown, ["caller"]);
    let settings = r#"{"network": {"allowedDomains": [], "deniedDomains": []},
                       "filesystem": {"denyRead": ["~/.ssh"], "allowWrite": [], "denyWrite": []}}"#;
    let settings = homes.scratch.write("srt.json", settings);
    let mut srt = kennel(["srt", "-s"]);
    srt.arg(settings).args(["sh", "-c", "cat \"$1/.ssh/id\" \"$2/.ssh/id\" && exit 9; exit 7", "sh"]);
    srt.arg(&home).arg(homes.at("by-database")).env("HOME", &home).current_dir(homes.scratch.path());
    let Some(ran) = homes.run(&mut srt) else { return };
    assert_eq!((ran.code, ran.stdout.as_str()), (7, ""), "{}", ran.stderr);
}

#[test]
fn an_allow_below_the_home_opens_one_home() {
    let homes = Homes::new();
    let rules: Vec<OsString> = ["--reads", "listed", "--allow-read", "~/.ssh"].map(Into::into).to_vec();
    let Some(shown) = homes.readable(&rules, Some(&homes.at("by-variable")), &[]) else { return };
    assert_eq!(shown, ["by-variable"]);
    let Some(shown) = homes.readable(&rules, None, &[]) else { return };
    assert_eq!(shown, ["by-database"]);
}

#[test]
#[kennel_claim::claim("files/unexpanded-rules-are-errors")]
fn a_rule_that_nobody_expanded_is_an_error_and_not_a_rule_about_nothing() {
    let scratch = Scratch::new();
    let id = scratch.write("home/.ssh/id", "key");
    can_read(&[], &id);
    for (flag, rule) in [
        ("--deny-read", "$XDG_CONFIG_HOME/gh"),
        ("--deny-read", "/home/$USER/.ssh"),
        ("--deny-write", "${PROJECT}/x"),
        ("--deny-read", "~root/.ssh"),
        ("--deny-read", "$(echo ~)/.ssh"),
        ("--allow-write", "$OUT"),
        ("--mount", "$DATA:/data"),
        ("--workdir", "$WORK"),
        ("--deny-read", " ~/.ssh"),
    ] {
        let ran = ran(kennel(["run", flag, rule, "--", "true"]).current_dir(scratch.path())).expect_code(125);
        assert!(ran.stderr.contains("--help") || ran.stderr.contains('`'), "{}", ran.stderr);
    }
    // And one that was meant to be the home is.
    let home = scratch.join("home");
    for rule in ["~/.ssh", "$HOME/.ssh", "${HOME}/.ssh/id", "$HOME/.ssh/*", "~/*/id"] {
        let mut command = command(&flags([("--deny-read", rule)]), "cat \"$1\" && exit 9; exit 7", &[&id]);
        ran_with_home(&mut command, &home).expect_code(7);
    }
}

fn ran_with_home(command: &mut Command, home: &Path) -> Ran {
    ran(command.env("HOME", home))
}

#[test]
fn names_that_only_look_like_variables_can_be_denied() {
    let scratch = Scratch::new();
    let odd = scratch.write("$Recycle.Bin/x", "x");
    let inner = scratch.write("Outer$Inner.class", "x");
    cannot_read(&flags([("--deny-read", &inner)]), &inner);
    cannot_read(&flags([("--deny-read", scratch.join("[$]Recycle.Bin"))]), &odd);
    let settings = scratch.write("s.toml", "files.deny_read = [{ path = \"$Recycle.Bin\", literal = true }]");
    cannot_read(&flags([("--settings", settings)]), &odd);
}

#[test]
fn the_users_own_settings_are_found_without_a_home() {
    let homes = Homes::new();
    homes.scratch.write("by-database/.config/kennel/settings.toml", "[process]\nhostname = \"found\"\n");
    let mut command = Command::new(kennel_tests::kennel_bin());
    command.args(["run", "--", "uname", "-n"]).env_remove("HOME").env_remove("XDG_CONFIG_HOME");
    let Some(ran) = homes.run(command.current_dir(homes.scratch.path())) else { return };
    assert_eq!(ran.ok().stdout, "found\n");
}
