//! What an earlier run left: no rule that allows something is led elsewhere by its links, and none around a deny, nor does a folder
//! that it shut hide what is denied in there from the next.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use kennel_tests::{Ran, ran};

use crate::filesystem::{Tree, can_read, can_write, cannot_read, cannot_write, command, flags, inside};

/// `kennel run RULES -- sh -c SCRIPT` in the project.
fn in_project(tree: &Tree, rules: &[OsString], script: &str, paths: &[&Path]) -> Ran {
    ran(command(rules, script, paths).current_dir(tree.at("project")))
}

#[track_caller]
fn refused(told: &Ran, link: &Path) {
    let named =
        format!("leads through the symlink {}, which the command could have created, to ", link.display());
    assert_eq!((told.code, told.stdout.as_str()), (125, ""), "{told:?}");
    assert!(told.stderr.contains(&named) && told.stderr.contains("\nhelp: "), "{}", told.stderr);
}

/// Runs a first sandbox that may write the project, in which `script` plants something.
fn plant(tree: &Tree, script: &str) {
    let rules = flags([("--allow-write", tree.at("project"))]);
    in_project(tree, &rules, script, &[&tree.at("home/.ssh"), &tree.at("other")]).ok();
}

#[test]
#[kennel_claim::claim("files/planted-links-are-not-followed")]
fn what_one_run_plants_does_not_show_keys_to_the_next() {
    for (planting, link) in [
        ("rm -r sub; ln -s \"$1\" sub", "project/sub"),
        ("rm -r sub; ln -s ../home/.ssh sub", "project/sub"),
        ("rm -r sub; ln -s deeper sub; mkdir real; ln -s \"$1\" deeper", "project/sub"),
        // A link in the middle, and one to a folder above what is denied.
        ("rm -r sub/deep; ln -s \"$1\" sub/deep", "project/sub/deep"),
        ("rm -r sub; ln -s ../home sub; mkdir -p x", "project/sub"),
        // Made in a folder that is shut afterwards.
        ("rm -r sub/deep; ln -s \"$1\" sub/deep; chmod 555 sub", "project/sub/deep"),
    ] {
        let tree = Tree::new();
        let named = if planting.contains("ln -s ../home sub") { "project/sub/.ssh" } else { link };
        let rules = flags([
            ("--deny-read", tree.at("home/.ssh")),
            ("--allow-write", tree.at("project")),
            ("--allow-read", tree.at(named)),
        ]);
        tree.scratch.dir("project/sub/.ssh");
        // Before, the rules are fine; and without the last the keys stay hidden.
        in_project(&tree, &rules, "true", &[]).ok();
        plant(&tree, planting);
        cannot_read(&rules[..4], &tree.at("home/.ssh/id"));
        let told = in_project(&tree, &rules, "cat \"$1\"", &[&tree.at("home/.ssh/id")]);
        refused(&told, &tree.at(link));
    }
}

#[test]
#[kennel_claim::claim("files/planted-links-are-not-followed")]
fn a_path_that_is_named_alone_is_not_led_elsewhere_by_what_an_earlier_run_planted() {
    let tree = Tree::new();
    plant(&tree, "ln -s \"$2\" target; ln -s \"$2\" data; ln -s /dev/zero zero");
    let listening = tree.scratch.join("other/socket");
    let _listener = UnixListener::bind(&listening).unwrap();
    plant(&tree, "ln -s \"$2/socket\" socket; ln -s \"$2/later\" later");
    // Relative to the project, where the command starts: the rules of the run before are not known any more.
    for (rule, link) in [
        (&["--allow-write", "target"][..], "target"),
        (&["--allow-write", "./target/"], "target"),
        (&["--reads", "listed", "--allow-read", "data"], "data"),
        (&["--reads", "listed", "--allow-read", "data/file"], "data"),
        (&["--mount", "data:/mnt"], "data"),
        (&["--mount", "data:/mnt:rw"], "data"),
        (&["--allow-unix-socket", "socket"], "socket"),
        (&["--allow-unix-socket", "later"], "later"),
        (&["--device", "zero"], "zero"),
        (&["--profile", "agent", "--workdir", "target"], "target"),
        (&["--profile", "build", "--workdir", "target"], "target"),
    ] {
        let rules: Vec<OsString> = rule.iter().map(OsString::from).collect();
        let told = in_project(&tree, &rules, "echo evil > \"$1/new\"; echo it ran", &[&tree.at("other")]);
        refused(&told, &tree.at("project").join(link));
        assert!(!tree.at("other/new").exists(), "{rule:?}");
    }
    // From elsewhere too, as long as a rule lets the command write there.
    let rules = flags([("--allow-write", tree.at("project")), ("--allow-write", tree.at("project/target"))]);
    refused(&inside(&rules, "true", &[]), &tree.at("project/target"));
    let mount = format!("{}:/mnt:rw", tree.at("project").display());
    let rules =
        flags([("--mount", mount.as_ref()), ("--allow-write", tree.at("project/target").as_os_str())]);
    refused(&inside(&rules, "true", &[]), &tree.at("project/target"));
    let rules = flags([("--allow-write", tree.at("projec*")), ("--allow-write", tree.at("project/target"))]);
    refused(&inside(&rules, "true", &[]), &tree.at("project/target"));
}

#[test]
#[kennel_claim::claim("files/planted-links-are-not-followed")]
fn a_settings_file_is_not_led_elsewhere_either() {
    let tree = Tree::new();
    plant(&tree, "ln -s \"$2\" target");
    let settings = tree.scratch.write("s.toml", "[files]\nallow_write = [\"project\", \"project/target\"]\n");
    let told = inside(&flags([("--settings", settings)]), "true", &[]);
    refused(&told, &tree.at("project/target"));
}

#[test]
fn a_link_that_opens_nothing_is_no_error() {
    let tree = Tree::new();
    tree.scratch.dir("project/build/out");
    symlink("build/out", tree.at("project/out")).unwrap();
    symlink("../other", tree.at("project/other")).unwrap();
    let rules = flags([
        ("--allow-write", tree.at("project")),
        ("--allow-write", tree.at("project/out")),
        // Everything can be read anyway.
        ("--allow-read", tree.at("project/other")),
    ]);
    inside(&rules, "> \"$1/out/new\"", &[&tree.at("project")]).ok();
    cannot_write(&rules, &tree.at("other/file"));
}

#[test]
fn links_elsewhere_are_followed_as_ever() {
    let tree = Tree::new();
    symlink("home", tree.at("me")).unwrap();
    symlink("other", tree.at("current")).unwrap();
    can_write(&flags([("--allow-write", tree.at("current"))]), &tree.at("other/file"));
    // A home that is a link: what is carved out of it by its own name is meant.
    tree.scratch.write("home/work/file", "x");
    let rules = flags([("--deny-read", tree.at("me")), ("--allow-read", tree.at("me/work"))]);
    can_read(&rules, &tree.at("home/work/file"));
    can_read(&rules, &tree.at("me/work/file"));
    cannot_read(&rules, &tree.at("home/profile"));
    let rules = flags([("--deny-read", tree.at("m[e]")), ("--allow-read", tree.at("me/work"))]);
    can_read(&rules, &tree.at("home/work/file"));
    cannot_read(&rules, &tree.at("home/profile"));
}

#[test]
#[kennel_claim::claim("files/no-link-bypasses-a-deny")]
fn a_deny_of_what_a_link_leads_to_wins_wherever_the_link_is() {
    let tree = Tree::new();
    symlink("../home/.ssh", tree.at("other/keys")).unwrap();
    symlink("../home/.ssh/known", tree.at("other/known")).unwrap();
    for (deny, allow) in [
        ("home/.ssh", "other/keys"),
        ("home/.ssh", "other/known"),
        ("home/.ssh", "other/keys/known"),
        ("home", "other/known"),
        ("home/.s*", "other/known"),
        ("*/.ssh", "other/keys"),
    ] {
        let rules = flags([("--deny-read", tree.at(deny)), ("--allow-read", tree.at(allow))]);
        let told = inside(&rules, "cat \"$1\"", &[&tree.at("home/.ssh/known/hosts")]).expect_code(125);
        assert!(
            told.stderr.contains("leads through the symlink") && told.stderr.contains("denied by deny_read"),
            "{told:?}"
        );
        // Who names the place itself means it.
        if deny == "home/.ssh" {
            let rules = flags([("--deny-read", tree.at(deny)), ("--allow-read", tree.at("home/.ssh/known"))]);
            can_read(&rules, &tree.at("home/.ssh/known/hosts"));
        }
    }
    symlink("../project/sub", tree.at("other/sub")).unwrap();
    let rules = flags([
        ("--allow-write", tree.at("home")),
        ("--deny-write", tree.at("project")),
        ("--allow-write", tree.at("other/sub")),
    ]);
    let told = inside(&rules, "true", &[]).expect_code(125);
    assert!(told.stderr.contains("denied by deny_write"), "{told:?}");
}

/// There the allow wins at a tie, and links in `allowRead` are followed.
#[test]
#[kennel_claim::claim("files/no-link-bypasses-a-deny")]
fn srts_lists_are_not_led_around_a_deny() {
    let tree = Tree::new();
    let home = tree.at("home").display().to_string();
    let settings = format!(
        r#"{{"network": {{"allowedDomains": [], "deniedDomains": []}}, "filesystem": {{"denyRead": ["{home}/.ssh"],
            "allowRead": ["data", "{home}/../other/link"], "allowWrite": ["."], "denyWrite": []}}}}"#
    );
    let settings = tree.scratch.write("srt.json", &settings);
    let cat = |script: &str| {
        let mut srt = kennel_tests::kennel(["srt", "-s"]);
        srt.arg(&settings).args(["-c", script]).env("HOME", tree.at("home")).current_dir(tree.at("project"));
        ran(&mut srt)
    };
    let read = format!("cat {home}/.ssh/id {home}/.ssh/known/hosts");
    assert_eq!(cat(&read).stdout, "");
    cat(&format!("ln -s {home}/.ssh data")).ok();
    symlink("../home/.ssh/known", tree.at("other/link")).unwrap();
    let told = cat(&read);
    assert!(told.stdout.is_empty() && told.code == 1, "{told:?}");
}

/// Root looks into every folder; an ordinary user does not, but can open its own again from inside.
#[test]
#[kennel_claim::claim("files/shut-folders-hide-nothing")]
fn a_denied_file_in_a_folder_that_an_earlier_run_shut_stays_denied() {
    for mode in ["0000", "0100", "0200", "0300", "0400", "0600"] {
        for rule in [
            "project/sub/notes",
            "project/**/notes",
            "project/**/n*tes",
            "project/sub/*",
            "project/*/not[e]s",
        ] {
            let tree = Tree::new();
            let writable = ("--allow-write", tree.at("project"));
            plant(&tree, &format!("chmod {mode} sub"));
            let script =
                "chmod 755 sub; cat sub/notes; echo new > sub/notes; mv sub/notes elsewhere; cat elsewhere";
            let hidden = flags([writable.clone(), ("--deny-read", tree.at(rule))]);
            let told = in_project(&tree, &hidden, script, &[]);
            assert!(!told.stdout.contains("project/sub/notes"), "{mode} {rule}: {told:?}");
            let kept = flags([writable, ("--deny-write", tree.at(rule))]);
            in_project(&tree, &kept, script, &[]);
            open_all(&tree.at("project/sub"));
            let text = std::fs::read_to_string(tree.at("project/sub/notes"));
            assert_eq!(text.ok().as_deref(), Some("project/sub/notes"), "{mode} {rule}");
        }
    }
}

/// A repository at `folder`, with a hook. Returns the hook.
fn repository(tree: &Tree, folder: &str) -> PathBuf {
    for (name, text) in [("HEAD", "ref: refs/heads/main\n"), ("config", "[core]\n")] {
        tree.scratch.write(&format!("{folder}/{name}"), text);
    }
    for name in ["objects", "refs"] {
        tree.scratch.dir(&format!("{folder}/{name}"));
    }
    tree.scratch.write(&format!("{folder}/hooks/pre-commit"), "hook")
}

#[test]
#[kennel_claim::claim("files/shut-folders-hide-nothing")]
fn dotfiles_and_hooks_in_folders_that_an_earlier_run_shut_stay_as_they_are() {
    const SHUT: &[&[&str]] = &[
        &[".vscode", "sub/repo/.git/hooks", "sub/repo/.git", "sub/repo"],
        &["sub/repo/.git", "node_modules/one/.git", "sub/bare.git"],
        &["sub/repo", "node_modules/one"],
        &["sub", "node_modules"],
        &["top/.git/modules/inner"],
        &["top/.git/modules"],
    ];
    for (mode, shut) in ["0000", "0100", "0300", "0400", "0600"]
        .iter()
        .flat_map(|mode| SHUT.iter().map(move |shut| (mode, shut)))
    {
        let tree = Tree::new();
        tree.scratch.write("project/.vscode/tasks.json", "tasks");
        let repositories =
            ["sub/repo/.git", "node_modules/one/.git", "sub/bare.git", "top/.git", "top/.git/modules/inner"];
        let hooks = repositories.map(|at| repository(&tree, &format!("project/{at}")));
        plant(&tree, &format!("chmod {mode} {}", shut.join(" ")));
        let mut rules = flags([("--allow-write", tree.at("project"))]);
        rules.extend(["--protect-dotfiles", "--git", "hooks-and-config-read-only"].map(OsString::from));
        let opened: Vec<&str> = shut.iter().rev().copied().collect();
        let mut script = format!("chmod 755 {}; echo evil > .vscode/tasks.json;", opened.join(" "));
        repositories.iter().for_each(|at| script.push_str(&format!("echo evil > {at}/hooks/pre-commit;")));
        in_project(&tree, &rules, &script, &[]);
        opened.iter().for_each(|folder| open_all(&tree.at("project").join(folder)));
        assert_eq!(
            std::fs::read_to_string(tree.at("project/.vscode/tasks.json")).unwrap(),
            "tasks",
            "{mode} {shut:?}"
        );
        for hook in hooks {
            assert_eq!(std::fs::read_to_string(&hook).unwrap(), "hook", "{mode} {shut:?} {}", hook.display());
        }
    }
}

fn open_all(folder: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder, mode).unwrap();
}

/// A run that still goes on may swap a link in and out while the next one looks.
#[test]
#[kennel_claim::claim("files/planted-links-are-not-followed")]
fn a_link_that_is_swapped_during_the_look_leads_no_named_path_elsewhere() {
    let tree = Tree::new();
    let victim = tree.scratch.dir("victim");
    let (target, link) = (tree.scratch.dir("project/target"), tree.at("project/link"));
    symlink(&victim, &link).unwrap();
    symlink("project", tree.at("current")).unwrap();
    let names =
        [&target, &link].map(|path| std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap());
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                // SAFETY: two strings with their NULs.
                unsafe {
                    libc::renameat2(
                        libc::AT_FDCWD,
                        names[0].as_ptr(),
                        libc::AT_FDCWD,
                        names[1].as_ptr(),
                        libc::RENAME_EXCHANGE,
                    );
                }
            }
        });
        let mut began = 0;
        for round in 0..80 {
            // Straight, in a roundabout way, and by a link that is nobody's.
            let named = ["project/target", "other/../project/target", "current/target"][round % 3];
            let rules = flags([("--allow-write", tree.at("project")), ("--allow-write", tree.at(named))]);
            let told = inside(&rules, "echo stolen > \"$1/file\"", &[&victim]);
            began += usize::from(told.code != 125);
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        println!("{began} of 80 runs began");
    });
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0, "the victim was written");
}
