//! Arguments arrive as they were given, whoever splits them.

use std::ffi::OsString;
use std::os::windows::ffi::OsStringExt;

use kennel_windows::Error;
use kennel_windows::quote::QuoteError;

use super::*;

/// What has been taken apart wrongly by somebody, somewhere.
fn hard_words() -> Vec<OsString> {
    let mut hard: Vec<OsString> = [
        "",
        " ",
        "a b",
        "a\tb",
        "\"",
        "\"\"",
        "a\"b",
        "\\",
        "\\\\",
        "a\\",
        "a b\\",
        "a b\\\\",
        "\\\"",
        "\\\\\"",
        "a\\\"b c",
        "C:\\Program Files\\x\\",
        "--flag=a b",
        "'a b'",
        "%PATH%",
        "^",
        "a^b",
        "&",
        "a&b|c<d>e",
        "(x)",
        "!x!",
        "*",
        "?",
        "*.rs",
        "@file",
        "-",
        "/?",
        "ä ö",
        "日本語",
        "a\nb",
        "a\r\nb",
        "\u{1F600}",
        "~",
        "`",
        "$x",
        ";",
        ",",
        "=",
    ]
    .into_iter()
    .map(OsString::from)
    .collect();
    // Half of a pair: no text, but a name that Windows allows.
    hard.push(OsString::from_wide(&[0x61, 0xd800, 0x20, 0x62]));
    hard
}

fn hex(word: &OsString) -> String {
    use std::os::windows::ffi::OsStrExt;
    word.encode_wide().map(|unit| format!("{unit:04x}")).collect()
}

fn arrive(program: Vec<OsString>) {
    let hard = hard_words();
    let all: Vec<OsString> = program.into_iter().chain(hard.iter().cloned()).collect();
    let mut run = try_launch(&policy(), &all).expect("it starts");
    let mut text = String::new();
    run.output.read_to_string(&mut text).expect("it prints");
    assert_eq!(run.end().code, 0, "{text}");
    let expected: Vec<String> = hard.iter().map(hex).collect();
    assert_eq!(text.lines().map(str::to_owned).collect::<Vec<_>>(), expected);
}

#[test]
#[kennel_claim::claim("windows/arguments-stay-arguments")]
fn a_program_of_rust_gets_every_argument_unchanged() {
    arrive(words(&[probe_path(), "arguments"]));
}

#[test]
#[kennel_claim::claim("windows/arguments-stay-arguments")]
fn a_program_of_c_gets_every_argument_unchanged() {
    let Some(program) = std::env::var_os("KENNEL_ARGUMENTS") else {
        println!("SKIPPED: no program of C (KENNEL_ARGUMENTS)");
        return;
    };
    arrive(vec![program]);
}

#[test]
#[kennel_claim::claim("windows/arguments-stay-arguments")]
fn a_batch_file_gets_words_and_runs_no_other_command() {
    let folder = std::env::temp_dir().join(format!("kennel-test-batch-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("made");
    let script = folder.join("say it.bat");
    std::fs::write(&script, "@echo off\r\necho [%1]\r\n").expect("written");
    let run = |argument: &str| {
        let words = vec![script.clone().into_os_string(), argument.into()];
        let mut run = try_launch(&policy(), &words)?;
        let mut text = String::new();
        run.output.read_to_string(&mut text).expect("it prints");
        run.end();
        Ok::<String, Error>(text.trim_end().to_owned())
    };
    assert_eq!(run("a b").expect("it starts"), "[\"a b\"]");
    // Not what echo prints of it, which is its own affair, but that nothing else runs.
    let said = run("x&echo injected").expect("it starts");
    assert!(!said.lines().any(|line| line.trim() == "injected"), "{said}");
    for refused in ["\"&echo injected", "%CMDCMDLINE%", "a\r\necho injected"] {
        let error = run(refused).expect_err("cmd.exe would run it");
        assert!(matches!(error, Error::Quote(QuoteError::Batch { index: 1, .. })), "{error}");
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn a_program_that_is_not_there_or_cannot_be_run_is_told_apart() {
    let start = |name: &str| try_launch(&policy(), &words(&[name])).err().expect("it cannot start");
    assert!(matches!(start("no-such-program"), Error::NotFound(name) if name == "no-such-program"));
    let file = std::env::temp_dir().join(format!("kennel-test-text-{}.exe", std::process::id()));
    std::fs::write(&file, "no program").expect("written");
    assert!(matches!(start(&file.to_string_lossy()), Error::NotExecuted { .. }));
    std::fs::remove_file(&file).expect("removed");
}
