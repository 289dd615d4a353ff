//! What srt says and sets: debug lines, refused updates, the text of a block, variables.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::Command;

use kennel_tests::{Ran, eventually, program, skipped};

use crate::compat::world::{Place, Which, run, srt};

const PLAIN: &str = r#"{"network": {"allowedDomains": [], "deniedDomains": []},
    "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}"#;

/// Runs it under both, with more variables; the real one's last, if it is there.
fn both(settings: Option<&str>, words: &[&str], variables: &[(&str, &str)]) -> Vec<Ran> {
    let one = |which| {
        let place = Place::new();
        let mut command = srt(which, &place, settings)?;
        Some(run(command.args(words).envs(variables.iter().copied())))
    };
    [Which::Kennel, Which::Real].into_iter().filter_map(one).collect()
}

#[test]
fn debug_lines_are_said() {
    for (words, variables) in [
        (&["-d", "-c", "echo $SRT_DEBUG"][..], &[][..]),
        (&["--debug", "-c", "echo $SRT_DEBUG"], &[]),
        (&["-c", "echo $SRT_DEBUG"], &[("SRT_DEBUG", "true")]),
    ] {
        for ran in both(Some(PLAIN), words, variables) {
            assert_eq!(ran.stdout, "true\n", "{}", ran.stderr);
            for line in ["Initializing sandbox...", "Command string mode (-c): echo $SRT_DEBUG", "{"] {
                let line = format!("[SandboxDebug] {line}");
                assert!(ran.stderr.lines().any(|own| own == line), "{line}\n{}", ran.stderr);
            }
            assert!(ran.stderr.contains("\"allowedHosts\": []"), "{}", ran.stderr);
        }
    }
    for ran in both(None, &["-d", "echo", "a b", "it's", ""], &[]) {
        assert!(ran.stderr.contains("[SandboxDebug] No config found at "), "{}", ran.stderr);
        let line = r#"[SandboxDebug] Original command: echo 'a b' 'it'"'"'s' ''"#;
        assert!(ran.stderr.lines().any(|own| own == line), "{}", ran.stderr);
    }
    for variables in [&[][..], &[("SRT_DEBUG", "")]] {
        for ran in both(Some(PLAIN), &["-c", "true"], variables) {
            assert!(!ran.stderr.contains("[SandboxDebug]"), "{}", ran.stderr);
        }
    }
}

/// A command that reads lines from a pipe, as descriptor 7. They are written when the command inside says that it runs.
fn with_lines(which: Which, place: &Place, words: &[&str], script: &str, lines: &[&str]) -> Option<Ran> {
    let command = srt(which, place, Some(PLAIN))?;
    let program: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_str().expect("these are text").to_owned())
        .collect();
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let mut shell = Command::new("bash");
    let outer = format!("exec 7<&{}; exec \"$@\" --control-fd 7 -c \"$SCRIPT\"", reader.as_raw_fd());
    shell.args(["-c", &outer, "bash"]).args(&program).args(words).env("SCRIPT", script);
    rustix::io::fcntl_setfd(&reader, rustix::io::FdFlags::empty()).expect("a descriptor");
    let (lines, work) = (lines.join("\n") + "\n", place.work());
    let writing = std::thread::spawn(move || {
        eventually("the command runs", || work.join("ready").exists().then_some(()));
        let _ = writer.write_all(lines.as_bytes());
        let _ = std::fs::write(work.join("sent"), "");
        // Open until the other side is gone: an end is nothing to report.
        writer
    });
    let ran = run(place.dressed(&mut shell));
    drop(writing.join());
    Some(ran)
}

#[test]
fn a_refused_update_is_told_at_once_and_in_srts_words() {
    let good = PLAIN.replace('\n', " ");
    let lines = ["nonsense", r#"{"network": {}}"#, "", &good, &good.replace("[]", r#"["*.com"]"#)];
    for which in [Which::Kennel, Which::Real] {
        for debug in [false, true] {
            let place = Place::new();
            let script = "touch ready; while ! test -e sent; do sleep 0.05; done; sleep 0.5; echo done";
            let words: &[&str] = if debug { &["-d"] } else { &[] };
            let Some(ran) = with_lines(which, &place, words, script, &lines) else { return };
            assert_eq!(ran.stdout, "done\n", "{which:?}: {}", ran.stderr);
            let refused = "Invalid config on control fd 7: ignored, previous config still in force";
            let count = ran.stderr.lines().filter(|line| *line == refused).count();
            assert_eq!(count, 3, "{which:?}: {}", ran.stderr);
            for line in [
                "[SandboxDebug] Listening for config updates on fd 7",
                "[SandboxDebug] Invalid config on control fd (ignored): nonsense",
            ] {
                assert_eq!(
                    ran.stderr.lines().any(|own| own == line),
                    debug,
                    "{which:?} {line}: {}",
                    ran.stderr
                );
            }
            assert_eq!(ran.stderr.contains("[SandboxDebug] Config updated from control fd: {"), debug);
        }
    }
}

#[test]
fn a_block_says_so_in_srts_words() {
    if program("curl").is_none() {
        return skipped("curl is not installed");
    }
    let script = r#"curl -s -i --noproxy '' -x "${HTTP_PROXY/localhost/127.0.0.1}" http://blocked.example.com/ | tr -d '\r' | grep -iE '^HTTP|^x-proxy|allowlist' | sed 's/^\(HTTP[^ ]* [0-9]*\).*/\1/' | tr 'X' 'x'
        curl -sv -p --noproxy '' -x "${HTTP_PROXY/localhost/127.0.0.1}" https://blocked.example.com/ 2>&1 | tr -d '\r' | grep -ioE 'HTTP/1.1 403|X-Proxy-Error: .*'"#;
    let runs = both(Some(PLAIN), &["-c", script], &[]);
    for ran in &runs {
        let expected = [
            "HTTP/1.1 403",
            "x-Proxy-Error: blocked-by-allowlist",
            "Connection blocked by network allowlist",
            "HTTP/1.1 403",
            "X-Proxy-Error: blocked-by-allowlist",
        ];
        assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), expected, "{}", ran.stderr);
    }
}

#[test]
fn the_callers_folder_for_temporary_files_is_taken_as_it_is() {
    let place = Place::new();
    let missing = place.top().join("missing").display().to_string();
    for (variables, expected) in [
        (&[("CLAUDE_CODE_TMPDIR", missing.as_str()), ("CLAUDE_TMPDIR", "/other")][..], missing.as_str()),
        (&[("CLAUDE_TMPDIR", "/other")], "/other"),
        (&[("CLAUDE_CODE_TMPDIR", ""), ("CLAUDE_TMPDIR", "/other")], "/other"),
        (&[("CLAUDE_CODE_TMPDIR", "relative")], "relative"),
        // What the settings do not allow stays read-only, whatever the variable says.
        (&[("CLAUDE_CODE_TMPDIR", "/var/tmp")], "/var/tmp"),
    ] {
        let script = r#"echo "$TMPDIR"; touch "$TMPDIR"/x-$$ 2> /dev/null && echo written; true"#;
        for ran in both(Some(PLAIN), &["-c", script], variables) {
            assert_eq!(ran.stdout, format!("{expected}\n"), "{variables:?} {}", ran.stderr);
        }
    }
    // With no rules about files it is the caller's own.
    let disabled = PLAIN.replace(r#""denyRead""#, r#""disabled": true, "denyRead""#);
    for ran in both(
        Some(&disabled),
        &["-c", "echo $TMPDIR"],
        &[("CLAUDE_CODE_TMPDIR", "/x"), ("TMPDIR", "/var/tmp")],
    ) {
        assert_eq!(ran.stdout, "/var/tmp\n", "{}", ran.stderr);
    }
}

/// Every variable that srt sets is set, or is one of those that kennel does without.
#[test]
fn the_variables_are_srts() {
    // A proxy of its own on the host, ssh by way of socat, and an agent for the JVM: kennel needs none of them.
    const WITHOUT: &[&str] = &[
        "CLAUDE_CODE_HOST_HTTP_PROXY_PORT",
        "CLAUDE_CODE_HOST_SOCKS_PROXY_PORT",
        "JAVA_TOOL_OPTIONS",
        "GIT_SSH_COMMAND",
    ];
    let names = |ran: &Ran| -> Vec<String> {
        let names =
            ran.stdout.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name.to_owned());
        names.collect()
    };
    let runs = both(Some(PLAIN), &["-c", "env"], &[]);
    for ran in &runs {
        let line = ran.stdout.lines().find(|line| line.starts_with("NO_PROXY=")).expect("it is set");
        assert!(!line.contains(".local"), "{line}");
        assert!(ran.stdout.contains("SANDBOX_RUNTIME=1\n"));
    }
    if let [own, real] = runs.as_slice() {
        let own = names(own);
        let missing: Vec<String> = names(real)
            .into_iter()
            .filter(|name| !own.contains(name) && !WITHOUT.contains(&name.as_str()))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[test]
fn a_working_directory_that_is_hidden_is_left_as_there() {
    // The last one is opened again by being writable.
    for (deny, write) in [("TOP/work", ""), ("TOP", ""), ("TOP", "TOP/work"), ("TOP", "TOP/work/sub")] {
        let write = if write.is_empty() { String::new() } else { format!("{write:?}") };
        let settings = format!(
            r#"{{"network": {{"allowedDomains": [], "deniedDomains": []}},
                "filesystem": {{"denyRead": ["{deny}"], "allowRead": ["PEERS"], "allowWrite": [{write}], "denyWrite": []}}}}"#
        );
        let run_in = |which| {
            let place = Place::new();
            place.write("work/file", "x");
            place.write("work/sub/file", "x");
            let mut command = srt(which, &place, Some(&settings))?;
            let ran = run(command.args(["-c", "pwd; ls; touch new && echo written; cat sub/file"]));
            Some(ran.stdout.replace(&place.top().display().to_string(), "TOP"))
        };
        let own = run_in(Which::Kennel).expect("kennel");
        if write == r#""TOP/work""# {
            assert_eq!(own, "TOP/work\nfile\nsub\nwritten\nx");
        }
        if let Some(real) = run_in(Which::Real) {
            // There, what is hidden is a folder in memory that can be written to no avail.
            let kept = if write == r#""TOP/work""# { "written\n" } else { "" };
            assert_eq!(own, real.replace("written\n", kept), "{deny} {write}");
        }
    }
}
