//! The kernel's surface: system calls that a sandbox has no business with, by every road into the kernel.

use kennel_tests::probe::{Arg, Script, Told, probe_inside, probe_outside};
use kennel_tests::{am_root, args, ran, skipped};
use libc::{EACCES, EAFNOSUPPORT, EINVAL, ENOENT, ENOSYS, EPERM};

/// The profiles that filter at all.
const FILTERED: [&[&str]; 3] = [&[], &["--seccomp", "strict"], &["--seccomp", "permissive"]];
/// Those that let no kernel surface through.
const TIGHT: [&[&str]; 2] = [&[], &["--seccomp", "strict"]];

/// Each call of the script is refused with EPERM under each of the profiles, and by something else, or not at all,
/// without a filter.
#[track_caller]
fn refused_by_the_filter(script: &Script, calls: std::ops::Range<usize>, profiles: &[&[&str]]) -> Told {
    for profile in profiles {
        let told = script.inside(profile);
        for index in calls.clone() {
            assert_eq!(told.errno(index), EPERM, "call {index} with {profile:?}: {told:?}");
        }
    }
    script.outside()
}

#[test]
#[kennel_claim::claim("kernel/no-namespaces")]
fn unshare_makes_no_namespace() {
    let kinds = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS | libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
        0x80, // CLONE_NEWTIME
    ];
    let mut script = Script::new();
    for kind in kinds {
        script = script.call(libc::SYS_unshare, args![kind]);
    }
    refused_by_the_filter(&script, 0..kinds.len(), &TIGHT).ok(0);
    // What unshare is used for by ordinary programs.
    Script::new().call(libc::SYS_unshare, args![libc::CLONE_FS | libc::CLONE_FILES]).inside(&[]).ok(0);
}

#[test]
#[kennel_claim::claim("kernel/no-namespaces")]
fn clone_makes_no_namespace() {
    // The child of a clone without a stack shares nothing and goes on with the script, to its end.
    let mut script = Script::new();
    for kind in [libc::CLONE_NEWUSER, libc::CLONE_NEWPID, libc::CLONE_NEWNET, libc::CLONE_NEWNS] {
        // High bits that the kernel drops must not hide the flag.
        script = script.call(libc::SYS_clone, args![i64::from(kind) | 17 | (1 << 40), 0, 0, 0, 0]);
    }
    for profile in TIGHT {
        let told = script.inside(profile);
        told.refused_all(0..4, &[EPERM]);
    }
}

/// clone3 passes its flags in memory, where a filter cannot look.
#[test]
#[kennel_claim::claim("kernel/no-namespaces")]
fn clone3_with_namespace_flags_does_not_exist() {
    let arguments = |flags: i32| {
        let mut bytes = i64::from(flags).to_ne_bytes().to_vec();
        bytes.resize(88, 0);
        bytes[32] = 17;
        bytes
    };
    let script = Script::new().call(libc::SYS_clone3, args![arguments(libc::CLONE_NEWUSER), 88]);
    for profile in TIGHT {
        script.inside(profile).refused(0, &[ENOSYS]);
    }
    // Outside there are two answers: the child goes on with the script, and is given 0.
    let outside = ran(&mut probe_outside("calls", script.words())).ok();
    assert!(outside.stdout.lines().any(|line| line.starts_with("0 ")), "{outside:?}");
}

#[test]
#[kennel_claim::claim("kernel/no-namespaces")]
fn setns_enters_nothing() {
    let script = Script::new()
        .open("/proc/self/ns/uts", libc::O_RDONLY)
        .call(libc::SYS_setns, args![Arg::Answer(0), 0]);
    let outside = refused_by_the_filter(&script, 1..2, &TIGHT);
    if am_root() {
        outside.ok(1);
    }
}

#[test]
#[kennel_claim::claim("kernel/no-dangerous-calls")]
fn io_uring_opens_no_file_and_makes_no_socket() {
    let outside = ran(&mut probe_outside("uring", &["/etc/hostname"]));
    if outside.stdout.contains("ring: ") && !outside.stdout.contains("ring: made") {
        skipped(&format!("no io_uring outside either: {}", outside.stdout));
    } else {
        assert_eq!(outside.stdout, "ring: made\nopen: done\nsocket: done\n", "{outside:?}");
    }
    for profile in FILTERED {
        let inside = ran(&mut probe_inside("uring", profile, &["/etc/hostname"])).ok();
        assert_eq!(inside.stdout, "ring: EPERM\n", "{profile:?}: {inside:?}");
    }
}

#[test]
#[kennel_claim::claim("kernel/no-dangerous-calls")]
fn bpf_perf_userfaultfd_and_their_like_are_refused() {
    let script = Script::new()
        .call(libc::SYS_perf_event_open, args![Arg::Zeros(128), 0, -1, -1, 0])
        .call(libc::SYS_userfaultfd, args![0])
        .call(libc::SYS_fanotify_init, args![0, 0])
        .call(libc::SYS_move_pages, args![0, 0, 0, 0, 0, 0])
        .call(libc::SYS_migrate_pages, args![0, 0, 0, 0]);
    let outside = refused_by_the_filter(&script, 0..5, &TIGHT);
    // Outside, the last two look at their arguments: no pages are to be moved.
    outside.ok(3);
    let script = Script::new().call(libc::SYS_bpf, args![0, Arg::Zeros(128), 128]);
    let outside = refused_by_the_filter(&script, 0..1, &FILTERED);
    if am_root() {
        outside.refused(0, &[EINVAL]);
    }
}

#[test]
#[kennel_claim::claim("inherited/keys", "kernel/no-dangerous-calls")]
fn keyrings_of_the_user_cannot_be_reached() {
    let script = Script::new()
        .call(libc::SYS_keyctl, args![0, -3, 0]) // the session keyring's number
        .call(libc::SYS_add_key, args!["user", "kennel-test", "x", 1, -1])
        .call(libc::SYS_request_key, args!["user", "kennel-test", 0, 0])
        .call(libc::SYS_keyctl, args![11, 1, Arg::Zeros(16), 16]);
    let outside = refused_by_the_filter(&script, 0..4, &FILTERED);
    if outside.errno(0) != ENOSYS {
        outside.ok(1);
    }
}

#[test]
#[kennel_claim::claim("kernel/no-dangerous-calls")]
fn modules_kexec_reboot_and_the_clock_are_refused() {
    let script = Script::new()
        .call(libc::SYS_init_module, args![0, 0, ""])
        .call(libc::SYS_finit_module, args![-1, "", 0])
        .call(libc::SYS_delete_module, args!["no-such-module", 0])
        .call(libc::SYS_kexec_load, args![0, 0, 0, 0xffff_ffff_u32])
        .call(libc::SYS_kexec_file_load, args![-1, -1, 0, 0, 0xffff_ffff_u32])
        .call(libc::SYS_reboot, args![0, 0, 0, 0])
        .call(libc::SYS_swapoff, args!["/no-such-file"])
        .call(libc::SYS_acct, args!["/no-such-folder/file"])
        .call(libc::SYS_settimeofday, args![0, 0])
        .call(libc::SYS_sethostname, args!["x", -1])
        .call(libc::SYS_syslog, args![9, 0, 0])
        .call(libc::SYS_quotactl, args![0, 0, 0, 0]);
    for profile in FILTERED {
        let told = script.inside(profile);
        told.refused_all(0..12, &[EPERM]);
    }
    // Without a filter they are still refused, because the capabilities are not there.
    let told = script.inside(&["--seccomp", "none", "--user", "root"]);
    for index in [0, 1, 2, 5, 6, 7] {
        told.refused(index, &[EPERM, ENOSYS]);
    }
}

/// The 32-bit calls have other numbers: 4 is write there and stat here. The filter does not translate, it refuses.
#[test]
#[cfg(target_arch = "x86_64")]
#[kennel_claim::claim("kernel/no-other-way-to-call")]
fn int_0x80_makes_no_system_call() {
    let outside = ran(&mut probe_outside("compatibility-call", &["int80"]));
    if outside.code != 0 {
        return skipped("this kernel makes no 32-bit system calls");
    }
    assert_eq!(outside.stdout, "same pid\n");
    for profile in FILTERED {
        let inside = ran(&mut probe_inside("compatibility-call", profile, &["int80"]));
        assert_eq!(
            (inside.code, inside.stdout.as_str()),
            (128 + libc::SIGSYS, ""),
            "{profile:?}: {inside:?}"
        );
    }
}

/// A socket by the one call that 32-bit programs have for all of them, which a filter on `socket` would not see.
#[test]
#[cfg(target_arch = "x86_64")]
#[kennel_claim::claim("kernel/no-other-way-to-call")]
fn socketcall_makes_no_socket() {
    let outside = ran(&mut probe_outside("compatibility-call", &["socketcall"]));
    if outside.code != 0 {
        return skipped("this kernel makes no 32-bit system calls");
    }
    assert_eq!(outside.stdout, "a socket\n");
    for profile in FILTERED {
        let inside = ran(&mut probe_inside("compatibility-call", profile, &["socketcall"]));
        assert_eq!(
            (inside.code, inside.stdout.as_str()),
            (128 + libc::SIGSYS, ""),
            "{profile:?}: {inside:?}"
        );
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
#[kennel_claim::claim("kernel/no-other-way-to-call")]
fn x32_calls_do_not_exist() {
    const X32: libc::c_long = 0x4000_0000;
    let script = Script::new()
        .call(X32 | libc::SYS_getpid, args![])
        .call(X32 | libc::SYS_unshare, args![libc::CLONE_NEWUSER])
        .call(X32 | 520, args!["/bin/true", 0, 0]) // x32's own execve
        .call(X32 | libc::SYS_bpf, args![0, Arg::Zeros(128), 128]);
    if script.outside().errno(0) == ENOSYS {
        println!("note: this kernel has no x32 calls; the filter is asked all the same");
    }
    for profile in FILTERED {
        let told = script.inside(profile);
        told.refused_all(0..4, &[ENOSYS]);
    }
}

#[test]
#[kennel_claim::claim("kernel/no-other-way-to-call")]
fn unknown_system_calls_do_not_exist() {
    let mut script = Script::new();
    // Not 335 and 336: uretprobe and uprobe pass every filter by the kernel's own decision (Linux 6.11, 6.18) and end
    // whoever calls them without having been probed.
    let numbers = [337, 400, 500, 511, 512, 547, 548, 600, 1 << 20, 0x3fff_ffff, -1i64 as libc::c_long];
    for number in numbers {
        script = script.call(number, args![0, 0, 0, 0, 0, 0]);
    }
    for profile in TIGHT {
        let told = script.inside(profile);
        told.refused_all(0..numbers.len(), &[ENOSYS]);
    }
}

/// Segments of one's own and the machine's ports: old calls of one architecture, and old holes.
#[test]
#[cfg(target_arch = "x86_64")]
fn segments_and_ports_of_the_machine_cannot_be_had() {
    let script = Script::new()
        .call(libc::SYS_modify_ldt, args![0, Arg::Zeros(16), 16])
        .call(libc::SYS_iopl, args![0])
        .call(libc::SYS_ioperm, args![0, 1, 0]);
    refused_by_the_filter(&script, 0..1, &TIGHT);
    let outside = refused_by_the_filter(&script, 1..3, &FILTERED);
    // Giving up what one does not have needs no privilege, where the kernel was built with these calls.
    assert!((0..3).all(|index| [0, ENOSYS].contains(&outside.errno(index))), "{outside:?}");
}

/// The two that change how memory is laid out: every page readable executable, and no page at 0 guarded.
#[test]
#[kennel_claim::claim("kernel/personalities")]
fn personality_cannot_take_protections_away() {
    const READ_IMPLIES_EXEC: u32 = 0x0040_0000;
    const MMAP_PAGE_ZERO: u32 = 0x0010_0000;
    const ADDR_COMPAT_LAYOUT: u32 = 0x0020_0000;
    let mut script = Script::new();
    for persona in [READ_IMPLIES_EXEC, MMAP_PAGE_ZERO, ADDR_COMPAT_LAYOUT, READ_IMPLIES_EXEC | 8, 0x0001] {
        script = script.call(libc::SYS_personality, args![persona]);
    }
    let outside = refused_by_the_filter(&script, 0..5, &TIGHT);
    outside.ok(0);
    Script::new().call(libc::SYS_personality, args![0xffff_ffff_u32]).inside(&[]).ok(0);
}

/// The kernel takes 32 bits of an ioctl's number; a filter that compares 64 misses it (CVE-2017-5226, CVE-2019-10063).
#[test]
#[kennel_claim::claim("kernel/no-typing-into-terminals")]
fn ioctl_numbers_with_high_bits_set_are_refused_too() {
    const TIOCSTI: u64 = 0x5412;
    const TIOCLINUX: u64 = 0x541c;
    let mut script = Script::new().open("/dev/null", libc::O_RDWR);
    for number in [TIOCSTI, TIOCLINUX] {
        for high in [0, 1 << 32, 1 << 63, 0xffff_ffff_0000_0000] {
            script = script.call(libc::SYS_ioctl, args![Arg::Answer(0), number | high, Arg::Zeros(1)]);
        }
    }
    let outside = refused_by_the_filter(&script, 1..9, &FILTERED);
    outside.refused_all(1..9, &[libc::ENOTTY]);
}

/// The fixed page of old programs makes calls without the instruction that others are made with.
#[test]
#[cfg(target_arch = "x86_64")]
fn vsyscall_offers_nothing_but_the_time() {
    let outside = ran(&mut probe_outside("vsyscall", &["time"]));
    for profile in FILTERED {
        let inside = ran(&mut probe_inside("vsyscall", profile, &["time"]));
        assert_eq!(inside.code, outside.code, "{inside:?}");
        let read = ran(&mut probe_inside("vsyscall", profile, &["elsewhere"]));
        assert_eq!(read.code, 128 + libc::SIGSEGV, "{read:?}");
    }
}

#[test]
#[kennel_claim::claim("processes/own-ipc")]
fn ipc_objects_and_queues_of_the_host_are_not_there() {
    let make = Script::new()
        .call(libc::SYS_shmget, args![0, 4096, libc::IPC_CREAT | 0o666])
        .call(libc::SYS_msgget, args![0, libc::IPC_CREAT | 0o666])
        .call(libc::SYS_semget, args![0, 1, libc::IPC_CREAT | 0o666]);
    let made = make.outside();
    made.ok(0).ok(1).ok(2);
    let name = format!("kennel-test-{}", std::process::id());
    let queue =
        Script::new().call(libc::SYS_mq_open, args![name.as_str(), libc::O_RDWR | libc::O_CREAT, 0o666, 0]);
    let queued = queue.outside().errno(0) == 0;
    let look = Script::new()
        .call(libc::SYS_shmat, args![made.answer(0), 0, libc::SHM_RDONLY])
        .call(libc::SYS_msgctl, args![made.answer(1), libc::IPC_STAT, Arg::Zeros(128)])
        .call(libc::SYS_semctl, args![made.answer(2), 0, libc::IPC_STAT, Arg::Zeros(128)])
        .call(libc::SYS_mq_open, args![name.as_str(), libc::O_RDWR, 0, 0]);
    let outside = look.outside();
    outside.ok(0).ok(1).ok(2);
    if queued {
        outside.ok(3);
    }
    for profile in [&[][..], &["--seccomp", "none"], &["--seccomp", "none", "--user", "root"]] {
        let told = look.inside(profile);
        told.refused_all(0..3, &[EINVAL, libc::EIDRM]);
        told.refused(3, &[ENOENT, ENOSYS]);
    }
    Script::new()
        .call(libc::SYS_shmctl, args![made.answer(0), libc::IPC_RMID, 0])
        .call(libc::SYS_msgctl, args![made.answer(1), libc::IPC_RMID, 0])
        .call(libc::SYS_semctl, args![made.answer(2), 0, libc::IPC_RMID, 0])
        .call(libc::SYS_mq_unlink, args![name.as_str()])
        .outside();
}

#[test]
#[kennel_claim::claim("kernel/needed-socket-families-only")]
fn socket_families_that_programs_do_not_need_do_not_exist() {
    let mut script = Script::new();
    let families = [
        libc::AF_VSOCK,
        libc::AF_ALG,
        libc::AF_BLUETOOTH,
        libc::AF_CAN,
        libc::AF_TIPC,
        libc::AF_KEY,
        libc::AF_XDP,
        libc::AF_RDS,
        43,
    ];
    for family in families {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET, libc::SOCK_RAW] {
            script = script.call(libc::SYS_socket, args![family, kind, 0]);
        }
    }
    for profile in FILTERED {
        let told = script.inside(profile);
        for index in 0..families.len() * 4 {
            told.refused(index, &[EAFNOSUPPORT, EPERM, EACCES]);
        }
    }
}
