//! What kennel prints: names come from whoever made the files, and a terminal obeys what it is shown.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use kennel_tests::{Ran, Scratch, kennel, ran};

/// Resets the terminal, sets its title, and a byte that begins a sequence by itself in some; then the same as a character,
/// and those that reorder a line or do not show. No bracket opens: a path with one would be a glob.
const EVIL: &[u8] = b"x\x1bc\x1b]0;owned\x07\x9b31m\r\x08y\xc2\x9b\xe2\x80\xae\xe2\x81\xa6z\xe2\x81\xa9\xe2\x80\x8b\xef\xbb\xbf";

/// Whether a character obeys nobody and shows as what it is.
fn is_harmless(c: char) -> bool {
    let reorders =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let hides = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{2060}' | '\u{feff}' | '\u{e0001}'..='\u{e007f}');
    c == '\n' || c == '\t' || !(c.is_control() || reorders || hides)
}

#[track_caller]
fn harmless(told: &Ran) {
    for text in [&told.stdout, &told.stderr] {
        let bad: Vec<char> = text.chars().filter(|c| !is_harmless(*c)).collect();
        assert!(bad.is_empty(), "{bad:?} in {text:?}");
    }
    assert!(!told.stderr.is_empty() || !told.stdout.is_empty(), "something was said");
}

#[test]
#[kennel_claim::claim("itself/no-escape-sequences")]
fn escape_sequences_in_a_commands_name_reach_no_terminal() {
    let evil = OsStr::from_bytes(EVIL);
    harmless(&ran(kennel(["run", "--"]).arg(evil)).expect_code(127));
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path().join(evil)).unwrap();
    harmless(&ran(kennel(["run", "--"]).arg(scratch.path().join(evil))).expect_code(126));
    harmless(&ran(kennel(["plan", "--steps", "--", "true"]).arg(evil)).ok());
    harmless(&ran(kennel(["plan", "--json", "--", "true"]).arg(evil)).ok());
}

#[test]
#[kennel_claim::claim("itself/no-escape-sequences")]
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
#[kennel_claim::claim("itself/no-escape-sequences")]
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

/// Every character of JSON that is not ASCII stands in a string, where an escape says the same.
#[track_caller]
fn harmless_json(text: &str) -> serde_json::Value {
    let bad: Vec<char> = text.chars().filter(|c| !is_harmless(*c)).collect();
    assert!(bad.is_empty(), "{bad:?} in {text:?}");
    serde_json::from_str(text).unwrap()
}

#[test]
#[kennel_claim::claim("itself/no-reordered-text")]
fn names_that_the_command_chose_are_harmless_in_the_report_and_on_the_terminal() {
    let scratch = Scratch::new();
    let evil = OsStr::from_bytes("\u{2066}\u{202e}txt.exe\u{9b}2J\u{2069}\u{e0041}".as_bytes());
    let (work, report) = (scratch.dir("work"), scratch.join("report.json"));
    let mut command = kennel(["run", "--allow-write"]);
    command.arg(&work).arg("--deny-write").arg(work.join(evil)).arg("--report").arg(&report);
    let told = ran(command.args(["--", "sh", "-c", "echo x > \"$1\"", "sh"]).arg(work.join(evil)));
    assert!(!told.stderr.is_empty() && told.code != 0, "{told:?}");
    // The shell speaks for itself; what kennel says comes on lines of its own.
    let own: String = told.stderr.lines().filter(|line| line.starts_with("kennel:")).collect();
    assert!(own.chars().all(is_harmless) && own.contains("\\u{202e}"), "{own:?}");
    let value = harmless_json(&std::fs::read_to_string(&report).unwrap());
    let path = value["violations"][0]["path"].as_str().unwrap();
    assert!(path.ends_with(evil.to_str().unwrap()), "an escape says the same: {path:?}");
}

#[test]
#[kennel_claim::claim("itself/no-reordered-text")]
fn programs_that_name_themselves_are_harmless_in_what_is_told_of_the_network() {
    let Some(python) = kennel_tests::program("python3") else {
        return kennel_tests::skipped("python3 is not installed");
    };
    let scratch = Scratch::new();
    let report = scratch.join("report.json");
    let connect = "import ctypes, socket
ctypes.CDLL(None).prctl(15, '\\u202e\\u2066x\\x9b'.encode())
try: socket.create_connection(('evil.example', 443), 2)
except OSError: pass";
    let mut command = kennel(["run", "--allow-domain", "example.com", "--report"]);
    let told = ran(command.arg(&report).arg("--").arg(&python).args(["-c", connect])).ok();
    assert!(told.stderr.contains("evil.example"), "{told:?}");
    harmless(&told);
    harmless_json(&std::fs::read_to_string(&report).unwrap());
}

#[test]
#[kennel_claim::claim("itself/no-reordered-text")]
fn a_plan_in_json_is_harmless_and_says_the_same() {
    let scratch = Scratch::new();
    let evil = scratch.path().join(OsStr::from_bytes("a\u{2067}b\u{9b}".as_bytes()));
    std::fs::create_dir(&evil).unwrap();
    let told = ran(kennel(["plan", "--json", "--allow-write"]).arg(&evil).args(["--", "true"])).ok();
    harmless_json(&told.stdout);
    harmless(&ran(kennel(["plan", "--steps", "--allow-write"]).arg(&evil).args(["--", "true"])).ok());
}
