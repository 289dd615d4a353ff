//! Programs that would gain something by being executed, and processes that would outlive the sandbox.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kennel_tests::probe::{executable, probe_inside, probe_outside};
use kennel_tests::{Scratch, am_root, kennel, kennel_bin, program, ran, skipped};

use crate::escape::yard::EVERY_WAY;

/// The value of a line of /proc/PID/status.
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {status}")).trim()
}

/// A program that asks for a password runs as root until it is answered: long enough to look at it.
fn setuid_program() -> Option<PathBuf> {
    ["passwd", "su", "chsh", "newgrp"].iter().filter_map(|name| program(name)).find(|path| {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).is_ok_and(|data| data.uid() == 0 && data.mode() & 0o4000 != 0)
    })
}

#[test]
#[kennel_claim::claim("privileges/no-new-privileges")]
fn setuid_programs_gain_nothing() {
    let scratch = Scratch::new();
    let program = if am_root() {
        // Somebody else's, since root has nothing to gain from root's.
        let copy = scratch.join("setuid");
        std::fs::copy(executable(), &copy).unwrap();
        std::os::unix::fs::chown(&copy, Some(65534), Some(65534)).unwrap();
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o6755)).unwrap();
        copy
    } else {
        match setuid_program() {
            Some(program) => program,
            None => return skipped("no setuid program of root's is installed"),
        }
    };
    let words = [program.to_str().unwrap()];
    let outside = ran(&mut probe_outside("status-of", &words)).ok();
    let uid = rustix::process::getuid().as_raw().to_string();
    assert_ne!(field(&outside.stdout, "Uid").split('\t').nth(1), Some(uid.as_str()), "{outside:?}");
    for more in EVERY_WAY {
        let inside = ran(&mut probe_inside("status-of", more, &words)).ok();
        let ids: Vec<&str> = field(&inside.stdout, "Uid").split('\t').collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{more:?}: {inside:?}");
        assert_eq!(field(&inside.stdout, "CapEff"), "0000000000000000", "{more:?}: {inside:?}");
        assert_eq!(field(&inside.stdout, "NoNewPrivs"), "1");
    }
}

#[test]
#[kennel_claim::claim("privileges/no-new-privileges")]
fn file_capabilities_give_nothing() {
    if !am_root() || program("setcap").is_none() {
        return skipped("giving a file capabilities needs root and setcap");
    }
    let scratch = Scratch::new();
    let copy = scratch.join("capable");
    std::fs::copy(executable(), &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
    let given = Command::new("setcap").arg("cap_sys_admin,cap_net_raw+eip").arg(&copy).output().unwrap();
    if !given.status.success() {
        return skipped("the file system of /var/tmp holds no capabilities");
    }
    let words = [copy.to_str().unwrap()];
    for more in EVERY_WAY {
        let inside = ran(&mut probe_inside("status-of", more, &words)).ok();
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(field(&inside.stdout, set), "0000000000000000", "{set} with {more:?}: {inside:?}");
        }
    }
}

/// A program in memory has no path for a rule to speak of. It runs, as confined as any other.
#[test]
fn a_program_executed_from_memory_is_as_confined_as_any() {
    for more in EVERY_WAY {
        let told = ran(&mut probe_inside("from-memory", more, &["/etc/hostname"])).ok();
        assert_eq!(field(&told.stdout, "NoNewPrivs"), "1", "{told:?}");
        assert_eq!(field(&told.stdout, "CapEff"), "0000000000000000", "{told:?}");
        let filtered = if more.contains(&"none") { "0" } else { "2" };
        assert_eq!(field(&told.stdout, "Seccomp"), filtered, "{told:?}");
        assert!(told.stdout.contains("write: refused"), "{told:?}");
    }
}

#[test]
#[kennel_claim::claim("processes/launcher-cannot-be-changed")]
fn the_dynamic_loader_has_no_say_over_the_launcher() {
    let evil = Scratch::new();
    evil.write("evil.so", "not a library");
    let with = |command: &mut Command| {
        command
            .env("LD_TRACE_LOADED_OBJECTS", "1")
            .env("LD_PRELOAD", evil.join("evil.so"))
            .env("LD_LIBRARY_PATH", evil.path())
            .env("LD_AUDIT", evil.join("evil.so"))
            .env("GCONV_PATH", evil.path())
            .env("LOCPATH", evil.path());
    };
    // To a dynamic program the first of these means: list your libraries and do nothing.
    let mut ls = Command::new("ls");
    with(&mut ls);
    let outside = ran(ls.arg("/nonexistent"));
    assert!(outside.stdout.contains("libc"), "ls is a dynamic program here: {outside:?}");
    let mut command = kennel(["run", "--clear-env", "--", "echo", "it ran"]);
    with(&mut command);
    assert_eq!(ran(&mut command).ok().stdout, "it ran\n");
    let elf = std::fs::read(kennel_bin()).unwrap();
    // Program headers: 56 bytes each from e_phoff; type 3 is PT_INTERP, what asks for a loader.
    let number =
        |at: usize, size: usize| (0..size).rev().fold(0usize, |n, i| n << 8 | usize::from(elf[at + i]));
    let (table, count) = (number(32, 8), number(56, 2));
    assert!(
        (0..count).all(|index| number(table + 56 * index, 4) != 3),
        "the launcher asks for a dynamic loader"
    );
}

#[test]
fn pid_1_leaves_no_core_dump() {
    let scratch = Scratch::new();
    // The command asks for the largest dump, then sends PID 1 each signal that dumps. From inside they are only
    // forwarded; what counts is that no dump is written.
    let script =
        "ulimit -c unlimited 2>/dev/null; ulimit -c; trap : QUIT ILL ABRT FPE SEGV BUS SYS TRAP XCPU XFSZ;
        for s in QUIT ILL TRAP ABRT BUS FPE SEGV SYS XCPU XFSZ; do kill -$s 1; done; sleep 0.3; echo alive";
    let mut command = kennel(["run", "--allow-write", ".", "--", "sh", "-c", script]);
    let told = ran(command.current_dir(scratch.path()));
    assert!(told.stdout.starts_with("0\n"), "a limit that was taken away cannot be raised: {told:?}");
    assert!(told.stdout.ends_with("alive\n"), "{told:?}");
    assert_eq!(scratch.listing(), Vec::<String>::new());
}

#[test]
#[kennel_claim::claim("ends/daemons-end")]
fn setsid_and_a_double_fork_do_not_survive_the_command() {
    // The daemon holds the write end of standard output. Only when it is dead does the reader see the end.
    let run = |mut command: Command| {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut text = String::new();
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut first = [0; 7];
            stdout.read_exact(&mut first).unwrap();
            text.push_str(&String::from_utf8_lossy(&first));
            let mut rest = String::new();
            let _ = stdout.read_to_string(&mut rest);
            let _ = sender.send(text + &rest);
        });
        assert!(child.wait().unwrap().success());
        let ended = receiver.recv_timeout(std::time::Duration::from_secs(3));
        (ended, reader)
    };
    let (outside, reader) = run(probe_outside("daemon", &["6"]));
    assert!(outside.is_err(), "outside, the daemon outlives the command: {outside:?}");
    for more in EVERY_WAY {
        let (inside, _) = run(probe_inside("daemon", more, &["60"]));
        assert_eq!(inside.as_deref(), Ok("daemon\n"), "{more:?}");
    }
    reader.join().unwrap();
}
