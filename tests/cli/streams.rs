//! Standard streams work as they do without kennel: files are read and written where they stand, in order, to their end.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kennel_tests::probe::{Arg, Script, probe_inside};
use kennel_tests::{Ran, Scratch, am_root, args, kennel, kennel_bin, program, ran, ran_within, skipped};

/// A shell script in `folder` in which `$K` is `kennel run --no-settings`.
fn shell(shell: &str, folder: &Path, script: &str) -> Ran {
    let mut command = Command::new(shell);
    command
        .args(["-c", &format!("k() {{ {} run --no-settings \"$@\"; }}; {script}", kennel_bin().display())]);
    ran_within(Duration::from_secs(30), command.current_dir(folder).stdin(Stdio::null()))
}

/// So many numbered lines.
fn lines(count: u32) -> String {
    (1..=count).map(|number| format!("{number}\n")).collect()
}

#[test]
fn whoever_reads_on_reads_what_the_command_has_not_read() {
    let scratch = Scratch::new();
    scratch.write("file", &lines(50_000));
    // A command that reads exactly ten bytes; head, which sets the position back to where it stopped.
    let told =
        shell("sh", scratch.path(), "{ k -- dd bs=10 count=1 2>/dev/null; echo -; head -c 6; } <file").ok();
    assert_eq!(told.stdout, "1\n2\n3\n4\n5\n-\n6\n7\n8\n");
    let told =
        shell("sh", scratch.path(), "{ k -- head -n 2; head -n 1; k -- head -n 1; head -n 1; } <file").ok();
    assert_eq!(told.stdout, lines(5));
    // All of it, and nothing twice.
    let told = shell("sh", scratch.path(), "{ k -- cat >/dev/null; cat; } <file").ok();
    assert_eq!(told.stdout, "");
}

#[test]
fn the_same_where_the_file_has_no_name_any_more() {
    let scratch = Scratch::new();
    // Small ones are copied; large ones are carried.
    for count in [2_000, 2_000_000] {
        scratch.write("file", &lines(count));
        let script = "exec 3<file; rm file; { k -- dd bs=10 count=1 2>/dev/null; echo -; head -c 6; } <&3";
        let told = shell("sh", scratch.path(), script).ok();
        assert_eq!(told.stdout, "1\n2\n3\n4\n5\n-\n6\n7\n8\n", "{count}");
        scratch.write("file", &lines(count));
        let told = shell("sh", scratch.path(), "exec 3<file; rm file; k -- tail -n 1 <&3").ok();
        assert_eq!(told.stdout, format!("{count}\n"));
    }
}

#[test]
fn input_from_a_file_can_be_sought_in_and_opened_again() {
    let scratch = Scratch::new();
    let path = scratch.write("file", "0123456789");
    let mut file = File::open(&path).unwrap();
    file.seek(std::io::SeekFrom::Start(4)).unwrap();
    let script = Script::new()
        .call(libc::SYS_read, args![0, Arg::Zeros(2), 2])
        .call(libc::SYS_lseek, args![0, 0, libc::SEEK_SET])
        .call(libc::SYS_read, args![0, Arg::Zeros(2), 2])
        .call(libc::SYS_mmap, args![0, 4096, libc::PROT_READ, libc::MAP_PRIVATE, 0, 0])
        .open("/dev/stdin", libc::O_RDONLY)
        .call(libc::SYS_read, args![Arg::Answer(4), Arg::Zeros(10), 10])
        .call(libc::SYS_lseek, args![0, 7, libc::SEEK_SET]);
    for flags in [&[][..], &["--allow-write", "/"], &["--seccomp", "none"]] {
        file.seek(std::io::SeekFrom::Start(4)).unwrap();
        let mut command = probe_inside("calls", flags, script.words());
        let told = script.told(ran(command.stdin(file.try_clone().unwrap())));
        assert_eq!((told.text(0).as_str(), told.text(2).as_str()), ("45", "01"), "{flags:?}");
        told.ok(3).ok(4);
        assert_eq!(told.text(5), "0123456789", "{flags:?}");
        // The position is left where the command put it.
        assert_eq!(file.stream_position().unwrap(), 7, "{flags:?}");
    }
}

#[test]
fn scripts_come_in_by_standard_input_and_here_documents() {
    let scratch = Scratch::new();
    scratch.write("script", "read line\nthis is data\necho got $line\n");
    if program("bash").is_some() {
        // It reads ahead, and sets the position back for those who read on.
        assert_eq!(shell("sh", scratch.path(), "k -- bash <script").ok().stdout, "got this is data\n");
    }
    scratch.write("script", "echo by $0\n");
    assert_eq!(shell("sh", scratch.path(), "k -- sh /dev/stdin <script").ok().stdout, "by /dev/stdin\n");
    for name in ["sh", "bash"] {
        if program(name).is_none() {
            continue;
        }
        let told = shell(name, scratch.path(), "k -- cat <<END\none\ntwo\nEND").ok();
        assert_eq!(told.stdout, "one\ntwo\n", "{name}");
        // More than a pipe holds.
        let text = "x".repeat(100_000);
        let told = shell(name, scratch.path(), &format!("k -- wc -c <<END\n{text}\nEND")).ok();
        assert_eq!(told.stdout.trim(), "100001", "{name}");
    }
}

#[test]
fn what_may_not_be_read_by_its_name_can_be_given_as_input() {
    let scratch = Scratch::new();
    scratch.write("secret", "given\n");
    let told = shell("sh", scratch.path(), "k --deny-read secret -- sh -c 'cat; cat secret' <secret");
    assert_eq!(told.stdout, "given\n", "{told:?}");
    assert!(told.stderr.contains("Permission denied"), "{told:?}");
}

#[test]
fn root_gives_files_of_others_as_input() {
    if !am_root() {
        return skipped("only root has files that PID 1 cannot open again");
    }
    let scratch = Scratch::new();
    for count in [20, 2_000_000] {
        let path = scratch.write("file", &lines(count));
        std::os::unix::fs::chown(&path, Some(12345), Some(12345)).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let told =
            shell("sh", scratch.path(), "{ k -- dd bs=10 count=1 2>/dev/null; head -c 2; } <file").ok();
        assert_eq!(told.stdout, "1\n2\n3\n4\n5\n6\n");
    }
}

#[test]
fn output_to_a_file_is_in_order_and_where_the_caller_stands() {
    let scratch = Scratch::new();
    let mixed = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done";
    let wanted: String = (1..=9).map(|i| format!("out {i}\nerr {i}\n")).collect();
    for redirect in [">log 2>&1", ">>log 2>&1", ">>log 2>>log"] {
        scratch.write("log", "");
        shell("sh", scratch.path(), &format!("k -- sh -c '{mixed}' {redirect}")).ok();
        assert_eq!(std::fs::read_to_string(scratch.join("log")).unwrap(), wanted, "{redirect}");
    }
    shell(
        "sh",
        scratch.path(),
        "{ echo one; k -- echo two; echo three; k -- sh -c 'echo four >&2' 2>&1; } >log",
    )
    .ok();
    assert_eq!(std::fs::read_to_string(scratch.join("log")).unwrap(), "one\ntwo\nthree\nfour\n");
    shell("sh", scratch.path(), "{ echo five; k -- echo six; } >>log").ok();
    let log = std::fs::read_to_string(scratch.join("log")).unwrap();
    assert_eq!(log, "one\ntwo\nthree\nfour\nfive\nsix\n");
}

#[test]
fn all_of_a_large_output_arrives() {
    let scratch = Scratch::new();
    shell("sh", scratch.path(), "k -- seq 3000000 >file; echo $? >code").ok();
    assert_eq!(std::fs::read_to_string(scratch.join("code")).unwrap(), "0\n");
    assert_eq!(std::fs::read_to_string(scratch.join("file")).unwrap(), lines(3_000_000));
    // Also of one that is killed, as far as it came.
    shell("sh", scratch.path(), "k -- sh -c 'seq 100000; kill -KILL $$' >file; echo $? >code").ok();
    assert_eq!(std::fs::read_to_string(scratch.join("code")).unwrap(), "137\n");
    assert_eq!(std::fs::read_to_string(scratch.join("file")).unwrap(), lines(100_000));
}

#[test]
fn a_file_that_cannot_take_the_output_is_an_error() {
    let scratch = Scratch::new();
    // In blocks of 512 or 1024 bytes, as the shell has it.
    let told = shell("sh", scratch.path(), "ulimit -f 8; k -- seq 100000 >file; echo $?");
    assert_eq!(told.stdout, "125\n", "{told:?}");
    assert!(told.stderr.contains("kennel: writing standard output: File too large"), "{told:?}");
    // The sandbox's own limit on the size of files holds for it too.
    let told = shell("sh", scratch.path(), "k --file-size 1000 -- seq 100000 >file; echo $?");
    assert_eq!(told.stdout, "125\n", "{told:?}");
    assert_eq!(std::fs::metadata(scratch.join("file")).unwrap().len(), 1000);
}

#[test]
fn a_reader_that_goes_away_ends_the_command_as_it_would() {
    let scratch = Scratch::new();
    let told = shell("bash", scratch.path(), "k -- yes | head -n 1; echo ${PIPESTATUS[0]}");
    assert_eq!(told.stdout, "y\n141\n", "{told:?}");
    // By a FIFO with a name, which is carried.
    let script = "mkfifo fifo; head -n 1 <fifo & k -- yes >fifo; echo $?";
    let told = shell("sh", scratch.path(), script);
    assert!(told.stdout.contains("y\n") && told.stdout.contains("141\n"), "{told:?}");
}

#[test]
fn a_fifo_with_a_name_carries_both_ways() {
    let scratch = Scratch::new();
    let script = "mkfifo in out; seq 100000 >in & cat out >result & k -- cat <in >out; wait; cat result";
    assert_eq!(shell("sh", scratch.path(), script).ok().stdout, lines(100_000));
}

#[test]
fn devices_behind_streams_do_what_they_always_do() {
    let scratch = Scratch::new();
    let told = shell("sh", scratch.path(), "k -- head -c 3 </dev/zero | od -An -c").ok();
    assert_eq!(told.stdout.split_whitespace().collect::<Vec<_>>(), ["\\0", "\\0", "\\0"]);
    let told =
        shell("sh", scratch.path(), "k -- wc -c </dev/null; k -- head -c 5 </dev/urandom | wc -c").ok();
    assert_eq!(told.stdout.split_whitespace().collect::<Vec<_>>(), ["0", "5"]);
    let told = shell("sh", scratch.path(), "k -- sh -c 'echo x' >/dev/full; echo $?");
    assert_ne!(told.stdout, "0\n", "{told:?}");
    shell("sh", scratch.path(), "k -- sh -c 'echo x; echo y >&2' >/dev/null 2>&1").ok();
}

#[test]
fn streams_that_the_caller_closed_are_empty() {
    let scratch = Scratch::new();
    let script = "k -- sh -c 'ls -l /proc/$$/fd | grep -c /dev/null; cat | wc -c' <&-; k -- sh -c 'echo x' >&-; echo $?; k -- sh -c 'echo x >&2; echo ok' 2>&-; k -- sh -c 'exit 3' <&- >&- 2>&-; echo $?";
    let told = shell("sh", scratch.path(), script);
    assert_eq!(told.stdout, "1\n0\n0\nok\n3\n", "{told:?}");
}

#[test]
fn a_reader_that_does_not_read_does_not_stop_the_clock_of_a_limited_output() {
    let mut command =
        kennel(["run", "--no-settings", "--max-output", "100M", "--timeout", "1s", "--", "yes"]);
    let started = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let code = kennel_tests::pty::exit_code(&mut child);
    assert_eq!(code, 124);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let mut some = [0; 2];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    assert_eq!(&some, b"y\n");
}

#[test]
#[kennel_claim::claim("processes/files-behind-streams")]
fn the_drop_ins_treat_streams_alike() {
    let scratch = Scratch::new();
    scratch.write(
        "settings.json",
        r#"{"network": {"allowedDomains": [], "deniedDomains": []},
        "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#,
    );
    scratch.write("file", &lines(10));
    for name in ["srt", "codex-linux-sandbox"] {
        std::os::unix::fs::symlink(kennel_bin(), scratch.join(name)).unwrap();
    }
    let look = "readlink /proc/self/fd/0 | sed s,.*/,,; readlink /proc/self/fd/1 | cut -c1-5; head -n 1";
    let profile = r#"{"type":"managed","file_system":{"type":"restricted","entries":[
        {"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"}"#;
    for start in [
        "./srt -s settings.json -c \"$0\"",
        "./codex-linux-sandbox --sandbox-policy-cwd \"$PWD\" --permission-profile \"$1\" -- sh -c \"$0\"",
    ] {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{{ {start}; head -n 1; }} <file >out"), look, profile]);
        ran(command.current_dir(scratch.path()).env("HOME", scratch.path())).ok();
        assert_eq!(std::fs::read_to_string(scratch.join("out")).unwrap(), "stdin\npipe:\n1\n2\n", "{start}");
    }
}

/// What was written before kennel's own last words stands before them.
#[test]
fn what_the_command_wrote_comes_before_what_kennel_says() {
    let scratch = Scratch::new();
    let mut log = File::create(scratch.join("log")).unwrap();
    log.write_all(b"begin\n").unwrap();
    let script = "echo wrote; echo wrote >&2; sleep 60";
    let mut command = kennel(["run", "--no-settings", "--timeout", "500ms", "--", "sh", "-c", script]);
    command.stdout(log.try_clone().unwrap()).stderr(log);
    assert_eq!(command.status().unwrap().code(), Some(124));
    let log = std::fs::read_to_string(scratch.join("log")).unwrap();
    assert!(log.starts_with("begin\nwrote\nwrote\nkennel: timed out"), "{log}");
}
