//! Kernels that lack newer calls: a filter around kennel answers ENOSYS, as an old kernel would.
//!
//! mount_setattr came with Linux 5.12 and close_range with 5.9; kennel needs 5.6.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use kennel_tests::{Ran, kennel, ran};

use crate::filesystem::host_mounts::{Host, around, outcome};
use crate::filesystem::{Tree, command, flags};

/// Makes these system calls look as if the kernel had never heard of them.
fn without(command: &mut Command, calls: &[libc::c_long]) {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for call in calls {
        let number = u32::try_from(*call).unwrap();
        let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        program.push(libc::sock_filter { code, jt: 0, jf: 1, k: number });
        program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    kennel_tests::filter::put_on(command, program);
}

fn before_5_12(rules: &[std::ffi::OsString], script: &str, paths: &[&Path]) -> Ran {
    let mut command = command(rules, script, paths);
    without(&mut command, &[libc::SYS_mount_setattr]);
    ran(&mut command)
}

#[test]
fn the_filter_of_these_tests_takes_the_calls_away() {
    let mut probe = Command::new(std::env::current_exe().unwrap());
    probe.args(["--exact", "filesystem::old_kernel::calls_are_there", "--ignored"]);
    ran(&mut probe).ok();
    without(&mut probe, &[libc::SYS_mount_setattr, libc::SYS_close_range]);
    ran(&mut probe).expect_code(101);
}

#[test]
#[ignore = "run by the_filter_of_these_tests_takes_the_calls_away, with and without the filter"]
fn calls_are_there() {
    // SAFETY: both calls are given nothing to work on.
    unsafe {
        libc::syscall(libc::SYS_mount_setattr, -1, c"".as_ptr(), 0, 0usize, 0usize);
        assert_ne!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS));
        assert_eq!(libc::syscall(libc::SYS_close_range, 70_000u32, 70_000u32, 0u32), 0);
    }
}

#[test]
fn without_mount_setattr_every_file_rule_still_holds() {
    let tree = Tree::new();
    let rules = flags([
        ("--allow-write", tree.at("project")),
        ("--deny-write", tree.at("project/sub")),
        ("--allow-write", tree.at("project/sub/deep")),
        ("--deny-read", tree.at("home")),
        ("--allow-read", tree.at("home/.ssh/known")),
    ]);
    let script = "cd \"$1\" || exit 1
                  echo more >> project/main.c || exit 2
                  (echo more >> project/sub/notes) && exit 3
                  echo more >> project/sub/deep/more || exit 4
                  (echo more >> other/file) && exit 5
                  cat home/profile && exit 6
                  cat home/.ssh/known/hosts || exit 7
                  (> home/new) && exit 8
                  (> /dev/new) && exit 9
                  (> /run/new) && exit 10
                  (> /proc/version) && exit 11
                  > /tmp/new && > /dev/shm/new && echo x > /dev/null || exit 12
                  mv project/sub project/moved && exit 13
                  exit 0";
    tree.same_names_after(|| drop(before_5_12(&rules, script, &[tree.scratch.path()]).ok()));
}

#[test]
fn without_mount_setattr_listed_reads_hold() {
    let tree = Tree::new();
    let rules = flags([
        ("--reads", "listed".into()),
        ("--allow-read", tree.at("other")),
        ("--allow-write", tree.at("project")),
    ]);
    let script = "cd \"$1\" || exit 1
                  cat other/file || exit 2
                  (> other/file) && exit 3
                  > project/new && rm project/new || exit 4
                  test ! -e home || exit 5
                  (> /new) && exit 6
                  (> new) && exit 7
                  exit 0";
    tree.same_names_after(|| drop(before_5_12(&rules, script, &[tree.scratch.path()]).ok()));
}

#[test]
fn without_mount_setattr_mounts_below_are_covered_and_keep_their_flags() {
    let tree = Tree::new();
    let (shut, inner, hidden) = (tree.at("other"), tree.at("project/sub"), tree.at("home/.ssh"));
    let script = "(> \"$1/new\") && exit 2
                  (> \"$2/new\") && exit 3
                  grep \" $1 \" /proc/self/mountinfo | tail -n 1
                  grep \" $2 \" /proc/self/mountinfo | tail -n 1";
    let rules = flags([("--deny-read", tree.at("home"))]);
    let mut command = command(&rules, script, &[&shut, &inner]);
    let all = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let mounts = [(&shut, Host::Tmpfs(all)), (&inner, Host::Tmpfs(0)), (&hidden, Host::Tmpfs(0))];
    around(&mut command, mounts);
    without(&mut command, &[libc::SYS_mount_setattr]);
    let Some(ran) = outcome(&mut command) else { return };
    let ran = ran.ok();
    let options: Vec<&str> =
        ran.stdout.lines().map(|line| line.split(' ').nth(5).unwrap_or_default()).collect();
    for option in ["ro", "nosuid", "nodev", "noexec"] {
        assert!(options[0].split(',').any(|one| one == option), "{option}: {options:?}");
        assert_eq!(
            options[1].split(',').any(|one| one == option),
            option != "noexec",
            "{option}: {options:?}"
        );
    }
}

/// The way of old kernels remounts by path, and a path may lead to a trigger of the automounter.
#[test]
fn without_mount_setattr_a_stalled_mount_hangs_nothing() {
    let tree = Tree::new();
    let kinds: &[fn() -> Host] =
        if kennel_tests::am_root() { &[|| Host::Fuse, || Host::Autofs] } else { &[|| Host::Fuse] };
    for kind in kinds {
        let mut command = command(&[], "true", &[]);
        around(&mut command, [(tree.at("other"), kind())]);
        without(&mut command, &[libc::SYS_mount_setattr]);
        let Some(ran) = crate::filesystem::stalled::within_reason(&mut command) else { return };
        ran.ok();
    }
}

#[test]
fn without_close_range_no_descriptor_leaks() {
    let tree = Tree::new();
    let file = std::fs::File::open(tree.at("other/file")).unwrap();
    let fd = file.as_raw_fd();
    for calls in [&[] as &[libc::c_long], &[libc::SYS_close_range]] {
        let mut command = kennel(["run", "--", "sh", "-c", "ls /proc/self/fd"]);
        // SAFETY: system calls only.
        unsafe {
            command.pre_exec(move || {
                // Far beyond what a short loop would close; root may go past its own limit, on some hosts.
                let mut limits = libc::rlimit { rlim_cur: 200_000, rlim_max: 200_000 };
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits);
                libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits);
                limits.rlim_cur = limits.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits);
                for number in [9, limits.rlim_cur.min(200_000) as i32 - 1] {
                    if libc::dup2(fd, number) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        without(&mut command, calls);
        // 3 is what ls lists with.
        assert_eq!(ran(&mut command).ok().stdout, "0\n1\n2\n3\n", "without {calls:?}");
    }
}

#[test]
fn an_old_kernel_runs_the_default_policy() {
    let mut command = kennel(["run", "--", "true"]);
    without(&mut command, &[libc::SYS_mount_setattr, libc::SYS_close_range, libc::SYS_faccessat2]);
    ran(&mut command).ok();
}
