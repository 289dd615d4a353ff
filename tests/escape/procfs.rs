//! /proc and /sys: the kernel's switches and the windows into other processes.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use kennel_tests::probe::{Script, probe_inside, probe_outside};
use kennel_tests::{am_root, ran};
use libc::{EACCES, ENOENT, EPERM, EROFS, O_RDONLY, O_WRONLY};

use crate::yard::{EVERY_WAY, Yard};

#[test]
fn writing_proc_self_mem_does_not_bypass_read_only() {
    let yard = Yard::new();
    let path = yard.open();
    let path = path.to_str().unwrap();
    // Outside, the private copy of a page that nobody may write is written through /proc/self/mem all the same.
    let outside = ran(&mut probe_outside("own-memory", &[path])).ok();
    assert_eq!(outside.stdout, "private: changed\n", "{outside:?}");
    for flags in EVERY_WAY {
        let inside = ran(&mut probe_inside("own-memory", flags, &[path])).ok();
        assert!(!inside.stdout.contains("shared: changed"), "{flags:?}: {inside:?}");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "anybody may read this", "{flags:?}");
    }
}

#[test]
fn the_memory_environment_root_and_files_of_an_outside_process_cannot_be_opened() {
    let mut victim = Command::new("sleep").arg("60").env("TOKEN", "x").stdin(Stdio::null()).spawn().unwrap();
    let pid = victim.id();
    let mut script = Script::new();
    let windows = ["mem", "environ", "root/etc/passwd", "cwd/.", "fd/0", "maps", "task", "ns/mnt", "exe"];
    for window in windows {
        script = script.open(format!("/proc/{pid}/{window}"), O_RDONLY);
    }
    let outside = script.outside();
    for flags in EVERY_WAY {
        let inside = script.inside(flags);
        for (index, window) in windows.iter().enumerate() {
            outside.ok(index);
            assert_eq!(inside.errno(index), ENOENT, "{window} with {flags:?}: {inside:?}");
        }
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
}

#[test]
fn what_proc_shows_of_pid_1_is_closed() {
    // Root's command may list the numbers below fd, because it is the owner's user; it may open none.
    let windows = [
        "mem", "environ", "root/etc", "cwd/.", "maps", "exe", "auxv", "ns/mnt", "fd/3", "fd/4", "fd/5",
        "fd/6",
    ];
    let mut script = Script::new();
    for window in windows {
        script = script.open(format!("/proc/1/{window}"), O_RDONLY);
    }
    for link in ["exe", "root", "cwd", "fd/3", "fd/4"] {
        let path = format!("/proc/1/{link}");
        script = script.call(
            libc::SYS_readlinkat,
            kennel_tests::args![libc::AT_FDCWD, path.as_str(), kennel_tests::probe::Arg::Zeros(64), 64],
        );
    }
    let mut own = Script::new();
    for window in ["mem", "environ", "root/etc", "cwd/.", "fd", "maps", "exe", "auxv"] {
        own = own.open(format!("/proc/self/{window}"), O_RDONLY);
    }
    for flags in EVERY_WAY {
        let inside = script.inside(flags);
        inside.refused_all(0..windows.len() + 5, &[EACCES, EPERM, ENOENT]);
        let own = own.inside(flags);
        own.ok_all(0..8);
    }
}

#[test]
fn the_command_line_of_pid_1_tells_nothing_of_the_callers() {
    let script = Script::new().open("/proc/1/cmdline", O_RDONLY).read(0);
    let inside = script.inside(&["--env", "TOKEN=letmein"]);
    assert_eq!(inside.text(1).replace('\0', ""), "", "{inside:?}");
}

/// Root's command has user 0, the owner of these files, and the kernel asks no more than that for many of them.
#[test]
fn core_pattern_sysrq_trigger_and_other_switches_cannot_be_written() {
    let switches = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/ns_last_pid",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/vm/drop_caches",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sysrq-trigger",
        "/proc/self/oom_score_adj",
        "/proc/self/uid_map",
        "/proc/self/setgroups",
        "/proc/self/clear_refs",
        "/proc/1/oom_score_adj",
        "/proc/irq/default_smp_affinity",
    ];
    let mut script = Script::new();
    for switch in switches {
        script = script.open(switch, O_WRONLY);
    }
    if am_root() {
        let outside = Script::new().open("/proc/sys/kernel/core_pattern", O_WRONLY).outside();
        outside.ok(0);
    }
    for flags in EVERY_WAY {
        let inside = script.inside(flags);
        for (index, switch) in switches.iter().enumerate() {
            // A process may turn its own knobs, and does with oom_score_adj; but only upwards and only its own.
            assert_ne!(inside.errno(index), 0, "{switch} with {flags:?} opens");
            inside.refused(index, &[EROFS, EACCES, EPERM, ENOENT]);
        }
    }
}

#[test]
fn sys_and_its_cgroups_cannot_be_written() {
    let mut files = Vec::new();
    for folder in
        ["/sys/kernel", "/sys/power", "/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory"]
    {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                files.push(entry.path());
            }
        }
    }
    assert!(!files.is_empty(), "/sys is mounted here");
    let mut script = Script::new();
    for file in &files {
        script = script.open(file, O_WRONLY);
    }
    if am_root() {
        let outside = script.outside();
        assert!(
            (0..files.len()).any(|index| outside.errno(index) == 0),
            "outside, root can write some: {outside:?}"
        );
    }
    for flags in EVERY_WAY {
        let inside = script.inside(flags);
        for (index, file) in files.iter().enumerate() {
            assert_ne!(inside.errno(index), 0, "{} opens with {flags:?}", file.display());
        }
    }
}

#[test]
fn the_kernels_memory_and_log_cannot_be_read() {
    let windows = ["/proc/kcore", "/proc/kmsg", "/dev/mem", "/dev/kmsg", "/dev/port"];
    let mut script = Script::new();
    for window in windows {
        script = script.open(window, O_RDONLY);
    }
    if am_root() {
        let outside = script.outside();
        assert!((0..windows.len()).any(|index| outside.errno(index) == 0), "{outside:?}");
    }
    for flags in EVERY_WAY {
        let inside = script.inside(flags);
        inside.refused_all(0..windows.len(), &[EPERM, EACCES, ENOENT]);
    }
}

/// Some files of /proc are kept to user 0 by their permissions alone, and a sandbox of root's is user 0.
#[test]
fn what_proc_keeps_to_root_is_closed_to_a_sandbox_of_roots_too() {
    let private: Vec<_> = std::fs::read_dir("/proc")
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| {
            // Processes come and go.
            let Ok(about) = entry.metadata() else { return false };
            about.is_file() && about.permissions().mode() & 0o004 == 0
        })
        .map(|entry| entry.path())
        .collect();
    assert!(!private.is_empty(), "every kernel has some");
    let mut script = Script::new();
    for file in &private {
        script = script.open(file, O_RDONLY);
    }
    let outside = script.outside();
    assert_eq!((0..private.len()).any(|index| outside.errno(index) == 0), am_root(), "{outside:?}");
    for flags in EVERY_WAY {
        let inside = script.inside(flags);
        inside.refused_all(0..private.len(), &[EPERM, EACCES]);
    }
}

#[test]
fn a_process_number_of_the_host_means_nothing_inside() {
    let mut victim = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let pid = victim.id();
    let script = Script::new()
        .call(libc::SYS_kill, kennel_tests::args![pid, 0])
        .call(libc::SYS_pidfd_open, kennel_tests::args![pid, 0])
        .call(libc::SYS_getpgid, kennel_tests::args![pid]);
    let outside = script.outside();
    let inside = script.inside(&["--seccomp", "none"]);
    for index in 0..3 {
        outside.ok(index);
        inside.refused(index, &[libc::ESRCH]);
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
}
