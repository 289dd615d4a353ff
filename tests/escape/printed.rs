//! What kennel prints: names come from whoever made the files, and a terminal obeys what it is shown.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use kennel_tests::{Ran, Scratch, kennel, ran};

/// Resets the terminal, sets its title, and a byte that begins a sequence by itself in some. No bracket opens: a path
/// with one would be a glob.
const EVIL: &[u8] = b"x\x1bc\x1b]0;owned\x07\x9b31m\r\x08y";

#[track_caller]
fn harmless(told: &Ran) {
    for text in [&told.stdout, &told.stderr] {
        let bad: Vec<char> = text.chars().filter(|c| c.is_control() && *c != '\n' && *c != '\t').collect();
        assert!(bad.is_empty(), "{bad:?} in {text:?}");
    }
    assert!(!told.stderr.is_empty() || !told.stdout.is_empty(), "something was said");
}

#[test]
fn escape_sequences_in_a_commands_name_reach_no_terminal() {
    let evil = OsStr::from_bytes(EVIL);
    harmless(&ran(kennel(["run", "--"]).arg(evil)).expect_code(127));
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path().join(evil)).unwrap();
    harmless(&ran(kennel(["run", "--"]).arg(scratch.path().join(evil))).expect_code(126));
    harmless(&ran(kennel(["plan", "--", "true"]).arg(evil)).ok());
    harmless(&ran(kennel(["plan", "--json", "--", "true"]).arg(evil)).ok());
}

#[test]
fn escape_sequences_in_paths_and_flags_reach_no_terminal() {
    let scratch = Scratch::new();
    let evil = scratch.path().join(OsStr::from_bytes(EVIL));
    for flag in ["--allow-write", "--settings", "--workdir", "--mount", "--device"] {
        let told = ran(kennel(["run", flag]).arg(&evil).args(["--", "true"]));
        assert_ne!(told.code, 0, "{flag}: {told:?}");
        harmless(&told);
    }
    for flag in ["--profile", "--seccomp", "--memory", "--allow-domain", "--net"] {
        harmless(&ran(kennel(["run", flag]).arg(OsStr::from_bytes(EVIL)).args(["--", "true"])));
    }
    harmless(&ran(&mut kennel([OsStr::from_bytes(EVIL)])));
    let mut unknown = b"--".to_vec();
    unknown.extend(EVIL);
    harmless(&ran(kennel(["run"]).arg(OsStr::from_bytes(&unknown))));
}

#[test]
fn escape_sequences_in_a_projects_settings_reach_no_terminal() {
    let scratch = Scratch::new();
    let keys = [
        "\"\\u001b[2Jx\" = 1\n".to_owned(),
        "[files]\nallow_write = [\"\\u001b]0;owned\\u0007\"]\n".to_owned(),
        "profile = \"\\u001b[2J\"\n".to_owned(),
        "a = \"\u{1b}[2J\"\n".to_owned(),
        "[files]\ndeny_read = [\"\\u001b[2J/[\"]\n[network]\nallow = [\"\\u001b[2J\"]\n".to_owned(),
    ];
    for text in keys {
        scratch.write("kennel.toml", &text);
        let told = ran(kennel(["run", "--", "true"]).current_dir(scratch.path()));
        assert!(told.code == 125 || told.code == 0, "{told:?}");
        harmless(&told);
    }
    // A folder whose own name is evil, with settings that are found in it and refused.
    let folder = scratch.path().join(OsStr::from_bytes(EVIL));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("kennel.toml"), "no_such_key = 1\n").unwrap();
    harmless(&ran(kennel(["run", "--", "true"]).current_dir(&folder)));
    // And a file of that name that a rule stumbles over.
    let folder = scratch.dir("tree");
    let link = folder.join(OsStr::from_bytes(EVIL));
    std::fs::write(&link, "x").unwrap();
    std::fs::hard_link(&link, folder.join("second")).unwrap();
    let told = ran(&mut kennel(["run", "--deny-read", &format!("{}/x*", folder.display()), "--", "true"]));
    harmless(&told);
}
