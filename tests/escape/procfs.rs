//! /proc and /sys: the kernel's switches and the windows into other processes.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kennel_tests::probe::{Script, probe_inside, probe_outside};
use kennel_tests::{am_root, ran, run_sh, skipped};
use libc::{EACCES, ENOENT, EPERM, EROFS, O_RDONLY, O_WRONLY};

use crate::escape::yard::{EVERY_WAY, Yard};

#[test]
#[kennel_claim::claim("processes/proc-is-written-for-oneself")]
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
#[kennel_claim::claim("processes/pid-1-is-closed")]
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
#[kennel_claim::claim("processes/proc-is-written-for-oneself")]
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
        "/proc/self/setgroups",
        "/proc/pressure/cpu",
        "/proc/mtrr",
        "/proc/1/oom_score_adj",
        "/proc/1/autogroup",
        "/proc/1/coredump_filter",
        "/proc/1/clear_refs",
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
            assert_ne!(inside.errno(index), 0, "{switch} with {flags:?} opens");
            inside.refused(index, &[EROFS, EACCES, EPERM, ENOENT]);
        }
    }
}

/// What a process may open for writing of what is its own. Most take no more than the kernel lets an ordinary user say.
const OWN: &[&str] = &[
    "attr",
    "autogroup",
    "clear_refs",
    "comm",
    "coredump_filter",
    "fail-nth",
    "gid_map",
    "latency",
    "loginuid",
    "make-it-fail",
    "mem",
    "oom_adj",
    "oom_score_adj",
    "projid_map",
    "sched",
    "timens_offsets",
    "timerslack_ns",
    "uid_map",
];

/// Opens every file of /proc for writing, tells which do open, and writes to them.
const WRITE_ALL: &str = r#"for file in $(find /proc -type f 2>/dev/null); do
    if { true; } >> $file; then
        echo $file
        for junk in 1 0 19 junk; do { echo $junk; } >> $file; done
    fi 2>/dev/null
done; true"#;

/// The host's switches, but for those that change by themselves.
fn switches() -> Vec<(PathBuf, String)> {
    let mut folders = vec![PathBuf::from("/proc/sys")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let changes =
                ["random", "dentry-state", "inode-nr", "inode-state", "file-nr", "nr", "ns_last_pid"];
            if changes.contains(&entry.file_name().to_str().unwrap_or_default()) {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                _ => found.extend(std::fs::read_to_string(&path).ok().map(|text| (path, text))),
            }
        }
    }
    found.sort();
    found
}

/// What of this process, and of the session that it shares with PID 1 inside, could be changed through /proc.
fn of_this_process() -> Vec<String> {
    let own = ["autogroup", "oom_score_adj", "coredump_filter", "timerslack_ns", "comm", "loginuid"];
    own.iter().map(|name| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default()).collect()
}

#[test]
#[kennel_claim::claim("processes/proc-is-written-for-oneself")]
fn what_can_be_written_in_proc_belongs_to_processes_and_changes_nothing_outside() {
    let before = (switches(), of_this_process());
    let ways: [&[&str]; 8] = [
        &[],
        &["--user", "root"],
        &["--allow-write", "/"],
        &["--reads", "listed", "--allow-read", "/proc"],
        &["--allow-domain", "example.com"],
        &["--net", "host"],
        &["--seccomp", "none"],
        &["--seccomp", "none", "--user", "root"],
    ];
    for flags in ways {
        let told = run_sh(flags, WRITE_ALL).ok();
        let mut opened = BTreeSet::new();
        for line in told.stdout.lines() {
            let path = line.strip_prefix("/proc/").unwrap();
            let (process, rest) = path.split_once('/').unwrap_or((path, ""));
            let rest = rest.strip_prefix("task/").map_or(rest, |rest| rest.split_once('/').unwrap().1);
            let name = rest.split('/').next().unwrap();
            let number = process.parse::<u32>().unwrap_or(0);
            assert!(number > 1 && OWN.contains(&name), "{flags:?}: {line} can be written");
            opened.insert(name.to_owned());
        }
        // Root's firewall and NFS server are below a process of the host's network.
        let nothing = am_root() && flags.contains(&"host");
        assert_eq!(opened.contains("comm"), !nothing, "{flags:?}: {opened:?}");
        assert!(nothing || opened.contains("oom_score_adj"), "{flags:?}: {opened:?}");
    }
    let after = (switches(), of_this_process());
    assert_eq!(before.1, after.1, "of the caller");
    let changed = before.0.iter().filter(|switch| !after.0.contains(switch)).collect::<Vec<_>>();
    assert!(changed.is_empty(), "{changed:?}");
    if am_root() {
        // Outside the same way writes to the kernel's.
        let outside = Script::new().open("/proc/sys/kernel/core_pattern", O_WRONLY).outside();
        outside.ok(0);
    }
}

/// To its owner, root, permissions close none of the kernel's entries. What is not known by name is hidden.
#[test]
#[kennel_claim::claim("processes/proc-tells-root-nothing-more")]
fn of_the_kernels_entries_root_sees_those_that_are_known_and_can_write_none() {
    let told = run_sh([""; 0], "stat -c '%n %F %a' /proc/[!0-9]* 2>/dev/null; true").ok();
    let is_hidden = |name: &str| {
        let hidden = [" regular empty file 0", " directory 555"]
            .iter()
            .any(|rest| told.stdout.lines().any(|line| line == format!("/proc/{name}{rest}")));
        hidden
            && run_sh([""; 0], &format!("ls -A /proc/{name}"))
                .stdout
                .lines()
                .all(|line| line.starts_with("/proc/"))
    };
    let (mut hidden, mut shown) = (0, 0);
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(about) = entry.metadata() else { continue };
        let name = entry.file_name().into_string().unwrap();
        let closed = about.is_file() && about.permissions().mode() & 0o222 != 0;
        if name.bytes().all(|byte| byte.is_ascii_digit()) || !(about.is_file() || closed) {
            continue;
        }
        if closed && am_root() {
            assert!(is_hidden(&name), "{name}: {}", told.stdout);
            hidden += 1;
        } else if ["meminfo", "cpuinfo", "stat", "filesystems", "uptime", "version"].contains(&name.as_str())
        {
            run_sh([""; 0], &format!("grep -q . /proc/{name}")).ok();
            shown += 1;
        }
    }
    assert_eq!(shown, 6);
    if hidden == 0 && am_root() {
        skipped("no file of this kernel's can be written there");
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
#[kennel_claim::claim("processes/proc-tells-root-nothing-more")]
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
#[kennel_claim::claim("processes/proc-tells-root-nothing-more")]
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
#[kennel_claim::claim("processes/outside-is-invisible")]
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
