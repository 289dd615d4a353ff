//! What kennel inherits from its caller and should not matter: ignored and blocked signals, the mask of permissions, closed
//! streams, keys, variables that are no variables.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use kennel_tests::probe::{Script, probe_inside};
use kennel_tests::{Scratch, args, kennel, ran, ran_within};

/// `kennel run -- sh -c SCRIPT`, after `act` in the process that becomes kennel.
fn after(act: fn(), script: &str) -> Command {
    let mut command = kennel(["run", "--", "sh", "-c", script]);
    // SAFETY: plain system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            act();
            Ok(())
        });
    }
    command
}

fn ignore(signals: &[i32]) {
    for signal in signals {
        // SAFETY: a plain call.
        unsafe { libc::signal(*signal, libc::SIG_IGN) };
    }
}

#[test]
#[kennel_claim::claim("inherited/signals")]
fn a_caller_that_ignores_its_childrens_ends_hangs_nothing() {
    let mut command = after(|| ignore(&[libc::SIGCHLD]), "sleep 0.1; (exit 4); exit 3");
    ran_within(Duration::from_secs(20), &mut command).expect_code(3);
}

#[test]
#[kennel_claim::claim("inherited/signals")]
fn a_program_that_ignores_its_childrens_ends_can_use_the_library() {
    let command = std::env::current_exe().unwrap();
    let mut command = Command::new(command);
    command.env(kennel_tests::role::VARIABLE, "ignores-children");
    ran_within(Duration::from_secs(20), &mut command).ok();
}

/// The role: runs a command by the library with SIGCHLD ignored.
pub fn ignores_children(_: &[std::ffi::OsString]) -> i32 {
    ignore(&[libc::SIGCHLD]);
    let sandbox = kennel::Sandbox::builder().wall_time_limit(Duration::from_secs(10)).build().unwrap();
    let result = sandbox.run("sh", &["-c", "sleep 0.1; exit 3"]).unwrap();
    i32::from(result.exit_code != 3 || result.killed_by_timeout)
}

#[test]
#[kennel_claim::claim("inherited/signals")]
fn signals_that_the_caller_ignores_or_blocks_are_neither_inside() {
    fn oddities() {
        ignore(&[libc::SIGPIPE, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGTERM, libc::SIGRTMIN()]);
        // SAFETY: the set is plain memory.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigfillset(&raw mut set);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        }
    }
    let said = ran(&mut after(oddities, "grep -E '^Sig(Ign|Blk)' /proc/self/status")).ok().stdout;
    assert_eq!(said, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

#[test]
#[kennel_claim::claim("inherited/umask")]
fn a_strange_mask_of_permissions_breaks_nothing_and_is_the_commands() {
    for mask in [0o000, 0o077, 0o777] {
        let mut command = kennel([
            "run",
            "--tmpfs",
            "/mnt/x",
            "--",
            "sh",
            "-c",
            "umask; cd /tmp && mkdir d; cd /dev/shm; cd /run; ls / > /dev/null",
        ]);
        // SAFETY: a plain call.
        unsafe {
            command.pre_exec(move || {
                libc::umask(mask);
                Ok(())
            });
        }
        let ran = ran(&mut command);
        assert_eq!((ran.code, ran.stdout.trim()), (0, format!("{mask:04o}").as_str()), "{ran:?}");
    }
}

#[test]
#[kennel_claim::claim("inherited/streams-and-odd-variables")]
fn closed_standard_streams_break_nothing() {
    fn close() {
        // SAFETY: plain calls.
        (0..3).for_each(|fd| unsafe { assert!(libc::close(fd) <= 0) });
    }
    let yard = Scratch::new();
    let work = yard.path().display().to_string();
    let mut command = kennel(["run", "--allow-write", &work, "--", "sh", "-c"]);
    command.arg(format!("ls -l /proc/self/fd > {work}/fds; exit 5"));
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    // SAFETY: plain system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            close();
            Ok(())
        });
    }
    assert_eq!(command.status().unwrap().code(), Some(5));
}

#[test]
#[kennel_claim::claim("inherited/keys")]
fn the_callers_session_keyring_is_not_the_commands() {
    const KEYCTL_GET_KEYRING_ID: i32 = 0;
    const KEY_SPEC_SESSION_KEYRING: i32 = -3;
    let ask = Script::new().call(libc::SYS_keyctl, args![KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1]);
    let outside = ask.outside();
    outside.ok(0);
    for profile in ["default", "permissive"] {
        ask.inside(&["--seccomp", profile]).refused(0, &[libc::EPERM]);
    }
    let mut command = probe_inside("calls", &["--seccomp", "none"], ask.words());
    let inside = ask.told(ran(&mut command));
    assert!(inside.ok(0).answer(0) != outside.answer(0), "{inside:?}");
}

#[test]
#[kennel_claim::claim("inherited/streams-and-odd-variables")]
fn variables_that_are_no_variables_or_stand_twice_do_no_harm() {
    let mut command = Command::new("python3");
    let script = "import ctypes,sys,os\n\
        libc=ctypes.CDLL(None)\n\
        argv=(ctypes.c_char_p*6)(sys.argv[1].encode(),b'run',b'--',b'/usr/bin/env',None)\n\
        env=(ctypes.c_char_p*8)(b'PATH=/usr/bin:/bin',b'TWICE=one',b'TWICE=two',b'=odd',b'bare',b'BYTES=\\xff\\xfe',b'HOME=relative',None)\n\
        libc.execve(sys.argv[1].encode(),argv,env)";
    let bin = kennel_tests::kennel_bin();
    if kennel_tests::program("python3").is_none() {
        return kennel_tests::skipped("python3 is not installed");
    }
    let output = command.args(["-c", script]).arg(bin).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&[u8]> = output.stdout.split(|byte| *byte == b'\n').collect();
    assert!(lines.contains(&&b"BYTES=\xff\xfe"[..]));
    assert!(!lines.iter().any(|line| line.starts_with(b"=") || *line == b"bare"), "{lines:?}");
}
