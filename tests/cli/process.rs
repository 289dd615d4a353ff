//! Who the command is and how it starts: folder, user, host name, descriptors, standard streams.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use kennel_tests::{Scratch, kennel, kennel_bin, ran};

use crate::cli::{Said, run, run_in};

#[test]
fn a_command_starts_where_kennel_was_called_or_where_it_is_told() {
    let scratch = Scratch::new();
    scratch.dir("sub");
    let here = scratch.path().display();
    assert_eq!(run_in(scratch.path(), ["--", "pwd"]).ok().stdout, format!("{here}\n"));
    for flag in [&["--workdir", "sub"][..], &["-C", "sub"], &["-Csub"], &["--workdir=./sub/"]] {
        let words = flag.iter().chain(&["--", "pwd"]);
        assert_eq!(run_in(scratch.path(), words).ok().stdout, format!("{here}/sub\n"), "{flag:?}");
    }
    scratch.write("s.toml", "process.workdir = \"sub\"");
    assert_eq!(run(["-s", &format!("{here}/s.toml"), "--", "pwd"]).ok().stdout, format!("{here}/sub\n"));
}

#[test]
fn a_folder_to_start_in_that_is_not_there_is_an_error_that_names_it() {
    let scratch = Scratch::new();
    scratch.write("file", "");
    let ran = run_in(scratch.path(), ["--workdir", "absent", "--", "true"]).expect_code(125);
    assert!(
        ran.stderr.contains("absent: No such file or directory") || ran.stderr.contains("absent: no such"),
        "{}",
        ran.stderr
    );
    let ran = run_in(scratch.path(), ["--workdir", "file", "--", "true"]).expect_code(125);
    assert!(ran.stderr.contains("file: not a directory"), "{}", ran.stderr);
}

#[test]
fn a_folder_that_is_hidden_is_not_where_a_command_starts_unnoticed() {
    let scratch = Scratch::new();
    scratch.write("hidden/file", "x");
    let hidden = scratch.dir("hidden");
    // Hidden where it is: the command starts at the root rather than nowhere; and asked for, it is an error.
    assert_eq!(
        run_in(&hidden, ["--deny-read", ".", "--", "sh", "-c", "pwd; ls"]).ok().stdout.lines().next(),
        Some("/")
    );
    let ran = run_in(scratch.path(), ["--deny-read", "hidden", "--workdir", "hidden", "--", "pwd"]);
    assert_eq!(ran.code, 125, "{ran:?}");
}

#[test]
fn the_user_is_the_caller_or_a_root_without_power() {
    // SAFETY: plain getters.
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    let script = "id -u; id -g; grep CapEff /proc/self/status | tr -dc 1-9a-f";
    let own = format!("{uid}\n{gid}\n");
    assert!(run(["--", "sh", "-c", script]).ok().stdout.starts_with(&own));
    assert!(run(["--user", "self", "--", "sh", "-c", script]).ok().stdout.starts_with(&own));
    let root = run([
        "--user",
        "root",
        "--",
        "sh",
        "-c",
        "id -u; id -g; grep Cap /proc/self/status | cut -f2 | sort -u",
    ])
    .ok();
    assert_eq!(root.stdout, "0\n0\n0000000000000000\n");
}

#[test]
fn files_that_root_inside_makes_belong_to_the_caller() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    run_in(scratch.path(), ["--user", "root", "--allow-write", ".", "--", "touch", "made"]).ok();
    // SAFETY: plain getters.
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    let made = std::fs::metadata(scratch.join("made")).unwrap();
    assert_eq!((made.uid(), made.gid()), (uid, gid));
}

#[test]
fn the_host_name_is_the_sandboxes_own() {
    assert_eq!(run(["--hostname", "build-7.test", "--", "uname", "-n"]).ok().stdout, "build-7.test\n");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_ne!(host, "build-7.test");
}

#[test]
fn descriptors_are_closed_but_those_that_are_kept() {
    let scratch = Scratch::new();
    let file = std::fs::File::open(scratch.write("file", "kept")).unwrap();
    let fd = file.as_raw_fd();
    let open = |words: &[&str]| {
        let mut command = kennel(["run"]);
        command.args(words);
        // SAFETY: one system call.
        unsafe {
            command.pre_exec(move || match libc::dup2(fd, 7).max(libc::dup2(fd, 8)) {
                ..0 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        ran(&mut command)
    };
    assert_eq!(open(&["--", "ls", "/proc/self/fd"]).ok().stdout, "0\n1\n2\n3\n");
    assert_eq!(open(&["--keep-fd", "7", "--", "ls", "/proc/self/fd"]).ok().stdout, "0\n1\n2\n3\n7\n");
    assert_eq!(open(&["--keep-fd", "7", "--", "sh", "-c", "cat <&7"]).ok().stdout, "kept");
}

#[test]
fn a_descriptor_to_keep_that_is_not_open_is_an_error_that_names_it() {
    let ran = run(["--keep-fd", "99", "--", "true"]).expect_code(125);
    assert!(ran.stderr.contains("99") && ran.stderr.contains("keep-fd"), "{}", ran.stderr);
    for wrong in ["x", "-1", "2", "99999999999"] {
        let ran = run([&format!("--keep-fd={wrong}"), "--", "true"]).expect_code(125);
        assert!(ran.stderr.starts_with("kennel run: --keep-fd: "), "{wrong}: {}", ran.stderr);
    }
}

/// Starts kennel with this standard stream closed.
fn without_stream(fd: i32, script: &str) -> Command {
    let mut command = Command::new(kennel_bin());
    command.args(["run", "--", "sh", "-c", script]).env("XDG_CONFIG_HOME", "/nonexistent");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: one system call, after the streams were put in their places.
    unsafe {
        command.pre_exec(move || {
            libc::close(fd);
            Ok(())
        });
    }
    command
}

#[test]
fn a_standard_stream_that_is_closed_is_an_empty_one_inside() {
    let list = "for n in 0 1 2; do readlink /proc/$$/fd/$n; done";
    let stdin = ran(&mut without_stream(0, &format!("{list}; cat"))).ok();
    assert_eq!(stdin.stdout.lines().next(), Some("/dev/null"), "{}", stdin.stdout);
    let stdout = ran(&mut without_stream(1, "echo $(readlink /proc/$$/fd/1) >&2; echo lost")).ok();
    assert_eq!(stdout.stderr.lines().next(), Some("/dev/null"), "{}", stdout.stderr);
    let stderr = ran(&mut without_stream(2, &format!("{list}; echo lost >&2"))).ok();
    assert_eq!(stderr.stdout.lines().nth(2), Some("/dev/null"), "{}", stderr.stdout);
    // An error of kennel's own is lost then, not written into whatever file took the number.
    let mut all = Command::new(kennel_bin());
    all.args(["run", "--", "kennel-has-no-such"])
        .env("PATH", crate::cli::PATH)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: system calls only.
    unsafe {
        all.pre_exec(|| {
            (0..3).for_each(|fd| {
                libc::close(fd);
            });
            Ok(())
        });
    }
    assert_eq!(all.status().unwrap().code(), Some(127));
}

#[test]
fn input_and_output_pass_through_untouched() {
    use std::io::Write;
    let bytes: Vec<u8> = (0..1_000_000u32).map(|n| (n * 31 % 251) as u8).collect();
    let mut child =
        kennel(["run", "--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success() && output.stdout == bytes);
    run(["--", "sh", "-c", "echo to-stderr >&2"]).ok().says("to-stderr\n");
}

#[test]
fn a_set_user_id_kennel_runs_nothing() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if !kennel_tests::am_root() {
        return kennel_tests::skipped("only root can make a program that runs as somebody else");
    }
    let place = kennel_tests::Scratch::new();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = place.join("kennel");
    std::fs::copy(kennel_tests::kennel_bin(), &copy).unwrap();
    for mode in [0o4755, 0o2755, 0o755] {
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(mode)).unwrap();
        for words in [["run", "--no-settings", "--", "id"].as_slice(), &["doctor"], &["--version"]] {
            let mut command = std::process::Command::new(&copy);
            command.args(words).current_dir("/").stdin(Stdio::null()).uid(65534).gid(65534);
            let ran = kennel_tests::ran(&mut command);
            let refused = ran.stderr.contains("set-user-ID");
            assert_eq!(
                (refused, ran.code == 125),
                (mode != 0o755, mode != 0o755),
                "{mode:o} {words:?} {ran:?}"
            );
        }
    }
}
