//! What the command and PID 1 may still do: nothing that needs a privilege, and no way to gain one.

use std::collections::BTreeMap;

use kennel_tests::probe::Script;
use kennel_tests::{args, run_sh};
use libc::EPERM;

const EVERY_WAY: [&[&str]; 6] = [
    &[],
    &["--user", "root"],
    &["--seccomp", "strict"],
    &["--seccomp", "permissive"],
    &["--seccomp", "none"],
    &["--seccomp", "none", "--user", "root", "--net", "host"],
];

fn status(flags: &[&str], pid: &str) -> BTreeMap<String, String> {
    let told = run_sh(flags, &format!("cat /proc/{pid}/status")).ok();
    let lines = told.stdout.lines().filter_map(|line| line.split_once(":\t"));
    lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

#[test]
#[kennel_claim::claim("privileges/no-capabilities")]
fn all_capability_sets_of_the_command_and_of_pid_1_are_empty() {
    for flags in EVERY_WAY {
        for pid in ["self", "1"] {
            let status = status(flags, pid);
            for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
                assert_eq!(status[set], "0000000000000000", "{set} of {pid} with {flags:?}");
            }
        }
    }
}

#[test]
#[kennel_claim::claim("privileges/no-new-privileges")]
fn no_new_privileges_can_be_gained_by_the_command_or_pid_1() {
    for flags in EVERY_WAY {
        for pid in ["self", "1"] {
            assert_eq!(status(flags, pid)["NoNewPrivs"], "1", "{pid} with {flags:?}");
        }
    }
}

#[test]
#[kennel_claim::claim("privileges/filter-stays")]
fn the_filter_holds_for_the_command_and_for_pid_1() {
    for (profile, mode) in [("strict", "2"), ("default", "2"), ("permissive", "2"), ("none", "0")] {
        for pid in ["self", "1"] {
            assert_eq!(status(&["--seccomp", profile], pid)["Seccomp"], mode, "{pid} with {profile}");
        }
    }
}

/// User 0 gets capabilities by executing a program, unless these bits say otherwise; each is locked.
#[test]
#[kennel_claim::claim("privileges/no-capabilities")]
fn root_inside_gains_nothing_by_executing_or_changing_users() {
    const PR_GET_SECUREBITS: i32 = 27;
    const PR_SET_SECUREBITS: i32 = 28;
    let script = Script::new()
        .call(libc::SYS_prctl, args![PR_GET_SECUREBITS, 0, 0, 0, 0])
        .call(libc::SYS_prctl, args![PR_SET_SECUREBITS, 0, 0, 0, 0])
        .call(libc::SYS_setuid, args![0])
        .call(libc::SYS_setgroups, args![0, 0])
        .call(libc::SYS_setresuid, args![1, 1, 1]);
    for flags in EVERY_WAY {
        let told = script.inside(flags);
        assert_eq!(told.answer(0) & 0b1110_1111, 0b1110_1111, "{flags:?}");
        told.refused(1, &[EPERM]).refused(3, &[EPERM]).refused(4, &[EPERM, libc::EINVAL]);
    }
    let told = run_sh(
        ["--user", "root"],
        "grep CapEff /proc/self/status; exec sh -c 'grep CapEff /proc/self/status'",
    )
    .ok();
    assert_eq!(told.stdout, "CapEff:\t0000000000000000\nCapEff:\t0000000000000000\n");
}

#[test]
fn pid_1_is_not_dumpable() {
    for flags in EVERY_WAY {
        // Same user, same (no) capabilities: only a process that is not dumpable refuses.
        let told = Script::new()
            .open("/proc/1/environ", libc::O_RDONLY)
            .open("/proc/1/maps", libc::O_RDONLY)
            .open("/proc/self/environ", libc::O_RDONLY)
            .open("/proc/self/maps", libc::O_RDONLY)
            .inside(flags);
        told.refused(0, &[libc::EACCES, EPERM]).refused(1, &[libc::EACCES, EPERM]).ok(2).ok(3);
    }
}

#[test]
fn no_core_is_dumped() {
    let told = run_sh::<&str>([], "ulimit -H -c").ok();
    assert_eq!(told.stdout, "0\n");
}

#[test]
fn a_descriptor_is_kept_only_when_asked_for_and_is_the_same_file() {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    let scratch = kennel_tests::Scratch::new();
    let path = scratch.write("file", "kept");
    let run = |flags: &[&str]| {
        let file = std::fs::File::open(&path).unwrap();
        let high = rustix::io::fcntl_dupfd_cloexec(&file, 500).unwrap();
        let mut command = kennel_tests::kennel(["run"]);
        command.args(flags).args(["--", "sh", "-c", "cat <&8"]);
        // SAFETY: dup2 is safe between fork and exec.
        unsafe {
            command.pre_exec(move || match libc::dup2(high.as_raw_fd(), 8) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        kennel_tests::ran(&mut command)
    };
    assert_eq!(run(&["--keep-fd", "8"]).ok().stdout, "kept");
    assert_ne!(run(&[]).code, 0);
}
