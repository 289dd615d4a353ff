//! PID 1 and the processes outside: their memory, their descriptors, their priority.

use kennel_tests::probe::{Arg, Script, probe_inside};
use kennel_tests::{args, kennel_bin, ran};
use libc::{EACCES, EPERM, EROFS, ESRCH, ETXTBSY, O_RDONLY, O_WRONLY};

use crate::escape::yard::{EVERY_WAY, Yard};

#[test]
#[kennel_claim::claim("processes/pid-1-is-closed")]
fn pidfd_getfd_takes_no_descriptor_of_pid_1() {
    let mut script = Script::new()
        .call(libc::SYS_pidfd_open, args![1, 0])
        .call(libc::SYS_getpid, args![])
        .call(libc::SYS_pidfd_open, args![Arg::Answer(1), 0])
        .call(libc::SYS_pidfd_getfd, args![Arg::Answer(2), 1, 0]);
    for fd in 0..12 {
        script = script.call(libc::SYS_pidfd_getfd, args![Arg::Answer(0), fd, 0]);
    }
    for flags in EVERY_WAY {
        let inside = script.inside(flags);
        inside.ok(0).ok(3);
        inside.refused_all(4..16, &[EPERM]);
    }
}

#[test]
#[kennel_claim::claim("processes/pid-1-is-closed")]
fn process_vm_readv_and_writev_reach_neither_pid_1_nor_the_host() {
    for flags in EVERY_WAY {
        // The same on a child of its own succeeds, so it is PID 1 that is closed and not the call.
        let told = ran(&mut probe_inside("other-memory", flags, &["vm"])).ok();
        assert_eq!(told.stdout, "child: read\nchild: written\n1: EPERM\n1: EPERM\n", "{flags:?}: {told:?}");
    }
}

#[test]
#[kennel_claim::claim("processes/pid-1-is-closed")]
fn ptrace_attaches_to_neither_pid_1_nor_a_process_of_another_sandbox() {
    for flags in EVERY_WAY {
        let told = ran(&mut probe_inside("other-memory", flags, &["ptrace"])).ok();
        assert_eq!(told.stdout, "child: attached\nattach 1: EPERM\nseize 1: EPERM\n", "{flags:?}: {told:?}");
    }
}

/// In a user namespace of its own the attacker has every capability, but not over PID 1, which lives in its parent.
#[test]
fn a_nested_user_namespace_gives_no_power_over_pid_1() {
    let script = Script::new()
        .call(libc::SYS_unshare, args![libc::CLONE_NEWUSER])
        .open("/proc/1/mem", O_RDONLY)
        .open("/proc/1/ns/mnt", O_RDONLY)
        .call(libc::SYS_ptrace, args![libc::PTRACE_SEIZE, 1, 0, 0])
        .call(libc::SYS_pidfd_open, args![1, 0])
        .call(libc::SYS_pidfd_getfd, args![Arg::Answer(4), 3, 0])
        .call(libc::SYS_setns, args![Arg::Answer(4), libc::CLONE_NEWNS])
        .call(libc::SYS_setns, args![Arg::Answer(4), libc::CLONE_NEWUSER]);
    for flags in [["--seccomp", "none", "--user", "self"], ["--seccomp", "none", "--user", "root"]] {
        let inside = script.inside(&flags);
        inside.ok(0).ok(4);
        for index in [1, 2, 3, 5, 6, 7] {
            inside.refused(index, &[EPERM, EACCES]);
        }
    }
}

#[test]
#[kennel_claim::claim("processes/launcher-cannot-be-changed")]
fn the_launcher_is_not_overwritten_through_proc_self_exe_or_proc_1_exe() {
    let yard = Yard::new();
    // A copy that the caller owns: nothing but the sandbox stands between the command and this file.
    let launcher = yard.scratch().join("kennel");
    std::fs::copy(kennel_bin(), &launcher).unwrap();
    let before = std::fs::read(&launcher).unwrap();
    let script = Script::new()
        .open("/proc/1/exe", O_WRONLY)
        .open("/proc/self/exe", O_WRONLY)
        .open(&launcher, O_WRONLY)
        .open(&launcher, O_RDONLY)
        .call(libc::SYS_truncate, args![&launcher, 0]);
    for flags in EVERY_WAY {
        let mut command = probe_inside("calls", flags, script.words());
        let mut copy = std::process::Command::new(&launcher);
        copy.args(command.get_args()).env("XDG_CONFIG_HOME", "/nonexistent");
        let inside = script.told(ran(&mut copy));
        inside.refused(0, &[EACCES, EPERM, EROFS, ETXTBSY]);
        inside.refused(1, &[EACCES, EROFS, ETXTBSY]);
        inside.refused(2, &[EACCES, EROFS, ETXTBSY]);
        inside.ok(3);
        inside.refused(4, &[EACCES, EROFS, ETXTBSY]);
        let _ = command.stdin(std::process::Stdio::null());
    }
    assert!(std::fs::read(&launcher).unwrap() == before, "the launcher changed");
}

/// A script whose interpreter is /proc/self/exe makes the launcher itself run inside, through the host's own,
/// writable mount: what made CVE-2019-5736 possible.
#[test]
fn a_script_interpreted_by_proc_self_exe_gets_no_hold_of_the_launcher() {
    use std::os::unix::fs::PermissionsExt;
    let yard = Yard::new();
    let launcher = yard.scratch().join("kennel");
    std::fs::copy(kennel_bin(), &launcher).unwrap();
    let before = std::fs::read(&launcher).unwrap();
    let script = yard.scratch().write("work/script", "#!/proc/self/exe run\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    for flags in EVERY_WAY {
        let mut command = std::process::Command::new(&launcher);
        command.arg("run").args(flags).arg("--allow-write").arg(yard.work()).arg("--").arg(&script);
        let told = ran(command.stdin(std::process::Stdio::null()));
        assert_ne!(told.code, 0, "{told:?}");
    }
    assert!(std::fs::read(&launcher).unwrap() == before, "the launcher changed");
}

#[test]
fn priorities_affinity_and_limits_of_outside_processes_cannot_be_changed() {
    // The test's own process, which has the same user.
    let pid = std::process::id();
    let limit: Vec<u8> = [u64::MAX; 2].iter().flat_map(|value| value.to_ne_bytes()).collect();
    let script = Script::new()
        .call(libc::SYS_sched_getaffinity, args![pid, 128, Arg::Zeros(128)])
        .call(libc::SYS_sched_setaffinity, args![pid, 128, Arg::Buffer(0)])
        .call(libc::SYS_prlimit64, args![pid, libc::RLIMIT_CORE, 0, Arg::Zeros(16)])
        .call(libc::SYS_getpriority, args![0, pid])
        .call(libc::SYS_ioprio_get, args![1, pid]);
    let outside = script.outside();
    let inside = script.inside(&["--seccomp", "none"]);
    for index in [0, 1, 2, 3, 4] {
        outside.ok(index);
        inside.refused(index, &[ESRCH]);
    }
    // "Every process of my user" means those of the namespace only: the outside one keeps its niceness.
    let before = niceness();
    let uid = rustix::process::getuid().as_raw();
    let inside = Script::new()
        .call(libc::SYS_setpriority, args![2, uid, 15])
        .call(libc::SYS_prlimit64, args![1, libc::RLIMIT_CORE, limit, 0])
        .inside(&["--seccomp", "none"]);
    inside.ok(0).refused(1, &[EPERM]);
    assert_eq!(niceness(), before);
}

fn niceness() -> i32 {
    // SAFETY: takes no pointers.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

#[test]
fn prctl_set_mm_moves_nothing_without_capabilities() {
    const PR_SET_MM: i32 = 35;
    let exe = Script::new()
        .open("/proc/self/exe", O_RDONLY)
        .call(libc::SYS_prctl, args![PR_SET_MM, 13, Arg::Answer(0), 0, 0])
        .call(libc::SYS_prctl, args![PR_SET_MM, 1, 4096, 0, 0]);
    for flags in EVERY_WAY {
        exe.inside(flags).ok(0).refused(1, &[EPERM, EACCES, libc::EBUSY]).refused(2, &[EPERM, libc::EINVAL]);
    }
}
