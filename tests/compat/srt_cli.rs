//! srt's command line, settings files and exit codes.

use crate::compat::world::{Place, Which, run, srt};

const EMPTY: &str = r#"{"network": {"allowedDomains": [], "deniedDomains": []},
    "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}"#;

/// The words, and what both have to end with.
#[track_caller]
fn both(settings: Option<&str>, words: &[&str], make: fn(&Place)) -> Option<[kennel_tests::Ran; 2]> {
    let one = |which| {
        let place = Place::new();
        make(&place);
        Some(run(srt(which, &place, settings)?.args(words)))
    };
    let kennel = one(Which::Kennel).expect("kennel");
    let real = one(Which::Real)?;
    assert_eq!(kennel.code, real.code, "{words:?}\nkennel: {}\nsrt: {}", kennel.stderr, real.stderr);
    assert_eq!(kennel.stdout, real.stdout, "{words:?}");
    Some([kennel, real])
}

#[test]
fn exit_codes_are_the_commands() {
    for words in [
        &["-c", "exit 7"][..],
        &["-c", "kill -TERM $$"],
        &["-c", "kill -KILL $$"],
        &["-c", "no-such-command-anywhere"],
        &["no-such-command-anywhere"],
        &["-c", "echo out; echo err >&2; exit 3"],
        &["true"],
        &["false"],
    ] {
        both(Some(EMPTY), words, |_| {});
    }
}

/// 42
#[test]
fn words_and_texts_arrive_as_they_are() {
    for words in [
        &["-c", "echo 'hello!' \"a  b\" \\! !"][..],
        &["echo", "hello!", "a  b", "$HOME", "`x`", "'", "\"", "!", "*", ""],
        &["printf", "%s|", "a\nb", "tab\there", "ünï", "\\"],
        &["--", "echo", "-n", "x"],
        &["-c", "echo \"$0\" | sed 's/.*bash/bash/'"],
        &["type", "cd"],
    ] {
        both(Some(EMPTY), words, |_| {});
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for settings in [
        "",
        "   \n",
        "{",
        "[]",
        "{}",
        r#"{"network": {}, "filesystem": {}}"#,
        r#"{"network": {"allowedDomains": [], "deniedDomains": []}}"#,
        r#"{"network": {"allowedDomains": ["*"], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#,
        r#"{"network": {"allowedDomains": ["*.com"], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#,
        r#"{"network": {"allowedDomains": ["http://x.com"], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#,
        r#"{"network": {"allowedDomains": ["x.com:0"], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#,
        r#"{"network": {"allowedDomains": ["single"], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#,
        r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {"denyRead": [""], "allowWrite": [], "denyWrite": []}}"#,
        r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {"denyRead": [{"path": "x"}], "allowWrite": [], "denyWrite": []}}"#,
        r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {"denyRead": "x", "allowWrite": [], "denyWrite": []}}"#,
        r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}, "mandatoryDenySearchDepth": 11}"#,
    ] {
        let place = Place::new();
        let ran = run(srt(Which::Kennel, &place, Some(settings)).expect("kennel").args(["-c", "echo ran"]));
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{settings}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("Error: "), "{}", ran.stderr);
    }
    // Of the real one, one of each kind: its start takes half a second.
    for settings in [
        "",
        "{",
        "{}",
        r#"{"network": {"allowedDomains": ["*"], "deniedDomains": []}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#,
    ] {
        both(Some(settings), &["-c", "echo ran"], |_| {});
    }
    both(None, &["-s", "no-such-file.json", "-c", "echo ran"], |_| {});
    both(Some(EMPTY), &[], |_| {});
}

#[test]
fn a_key_that_is_not_known_is_passed_over_and_one_that_would_protect_is_not() {
    let with = |network: &str, top: &str| {
        format!(
            r#"{{"network": {{"allowedDomains": [], "deniedDomains": [] {network}}}, "filesystem": {{"denyRead": [], "allowWrite": [], "denyWrite": []}} {top}}}"#
        )
    };
    let helpers = with(
        r#", "strictAllowlist": true, "allowLocalBinding": true, "somethingNew": 1"#,
        r#", "ripgrep": {"command": "rg"}, "bwrapPath": "/usr/bin/bwrap", "socatPath": "/usr/bin/socat", "other": {}, "ignoreViolations": {"*": ["/x"]}"#,
    );
    both(Some(&helpers), &["-c", "echo ran"], |_| {});
    let place = Place::new();
    let noted =
        run(srt(Which::Kennel, &place, Some(&helpers)).expect("kennel").args(["-d", "-c", "echo ran"])).ok();
    assert!(noted.stderr.contains("ripgrep has no effect here"), "{}", noted.stderr);
    for known in [
        with(r#", "tlsTerminate": {}"#, ""),
        with(r#", "refuseOpaqueTunnels": true"#, ""),
        with(r#", "stripResponseHeaders": ["set-cookie"]"#, ""),
    ] {
        both(Some(&known), &["-c", "echo ran"], |_| {});
    }
    let protects = with(r#", "mitmProxy": {"socketPath": "/x", "domains": ["a.b"]}"#, "");
    let ran = run(srt(Which::Kennel, &place, Some(&protects)).expect("kennel").args(["-c", "echo ran"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{protects}");
    assert!(ran.stderr.contains("is not supported"), "{}", ran.stderr);
}

#[test]
fn without_a_file_nothing_is_written_and_everything_read() {
    both(None, &["-c", "cat one; echo x > two 2>/dev/null || echo refused"], |place| {
        place.write("work/one", "one\n");
    });
    both(None, &["-c", "cat one; echo x > two && echo written"], |place| {
        place.write("work/one", "one\n");
        place.write("home/.srt-settings.json", EMPTY);
    });
}

/// There, these are taken for srt's own.
#[test]
fn options_behind_the_command_are_the_commands() {
    let place = Place::new();
    let mut python = srt(Which::Kennel, &place, Some(EMPTY)).expect("kennel");
    assert_eq!(run(python.args(["/usr/bin/python3", "-c", "print(1)"])).ok().stdout, "1\n");
    let mut ls = srt(Which::Kennel, &place, Some(EMPTY)).expect("kennel");
    assert_eq!(run(ls.args(["ls", "-d", "."])).ok().stdout, ".\n");
    let mut echo = srt(Which::Kennel, &place, Some(EMPTY)).expect("kennel");
    assert_eq!(run(echo.args(["echo", "--", "-s", "x"])).ok().stdout, "-- -s x\n");
    let mut unknown = srt(Which::Kennel, &place, Some(EMPTY)).expect("kennel");
    assert_eq!(run(unknown.args(["--no-such-option", "true"])).code, 1);
    let mut as_a_command = kennel_tests::kennel(["srt", "echo", "-s", "x"]);
    assert_eq!(run(place.dressed(&mut as_a_command)).ok().stdout, "-s x\n");
}

#[test]
#[kennel_claim::claim("handed-back/project-settings-only-tighten")]
fn a_file_of_the_working_directory_only_tightens() {
    let place = Place::new();
    place.write("work/secret", "text");
    place.dir("outside");
    place.write(
        "work/.srt-settings.json",
        r#"{"network": {"allowedDomains": ["example.com"], "deniedDomains": []}, "filesystem": {"disabled": true, "denyRead": ["secret"],
            "allowWrite": ["../outside"], "denyWrite": ["kept"]}, "enableWeakerNestedSandbox": true}"#,
    );
    let script = "echo x > new; echo x > ../outside/new; echo x > kept; test -s secret || echo hidden; cat .srt-settings.json > /dev/null && echo read";
    let ran = run(srt(Which::Kennel, &place, Some(EMPTY)).expect("kennel").args(["-c", script]));
    assert_eq!(ran.stdout, "hidden\nread\n", "{}", ran.stderr);
    assert!(place.work().join("new").exists() && !place.work().join("kept").exists());
    assert!(!place.top().join("outside/new").exists());
    // Named, it is trusted.
    let ran = run(srt(Which::Kennel, &place, None).expect("kennel").args([
        "-s",
        ".srt-settings.json",
        "-c",
        "echo x > ../outside/new",
    ]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // And one that makes no sense is passed over, with a note.
    place.write("work/.srt-settings.json", "{");
    let ran = run(srt(Which::Kennel, &place, Some(EMPTY)).expect("kennel").args(["-c", "echo ran"])).ok();
    assert!(ran.stderr.contains("note: passed over"), "{}", ran.stderr);
}

#[test]
fn a_control_descriptor_has_to_be_one() {
    for fd in ["2", "x", "0x5", "9"] {
        both(Some(EMPTY), &["--control-fd", fd, "-c", "echo ran"], |_| {});
    }
}
