//! Descriptors of the caller's, and what can be made of a descriptor.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use kennel_tests::probe::{Arg, Script, open_how, probe_inside, probe_outside};
use kennel_tests::{args, kennel, ran};
use libc::{EACCES, EBADF, ENOENT, EROFS, O_DIRECTORY, O_PATH, O_RDONLY, O_RDWR, O_WRONLY};

use crate::escape::yard::{EVERY_WAY, SECRET, Yard, refs};

/// Lets `command` inherit `file` as descriptor `number`.
fn inherit(command: &mut Command, file: &File, number: i32) {
    // Out of the way first: its own number may be one that another file is to get.
    let high = rustix::io::fcntl_dupfd_cloexec(file, 500).unwrap();
    // SAFETY: dup2 is safe between fork and exec; the copy is inherited, since it has no close-on-exec flag.
    unsafe {
        command.pre_exec(move || match libc::dup2(high.as_raw_fd(), number) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
}

fn opened(path: &Path, flags: i32) -> File {
    File::options().read(true).custom_flags(flags).open(path).unwrap()
}

#[test]
#[kennel_claim::claim("processes/no-descriptors-leak")]
fn inherited_descriptors_are_closed() {
    let yard = Yard::new();
    let (file, folder) = (opened(&yard.secret(), 0), opened(&yard.secrets(), O_DIRECTORY));
    let (path, root) = (opened(&yard.secret(), O_PATH), opened(Path::new("/"), O_PATH));
    let numbers = [3, 9, 100, 1000];
    let mut script = Script::new().call(libc::SYS_pread64, args![3, Arg::Zeros(64), 64, 0]);
    script = script.call(libc::SYS_openat, args![9, "key", O_RDONLY]);
    for number in numbers {
        script = script
            .call(libc::SYS_fcntl, args![number, libc::F_GETFD])
            .open(format!("/proc/self/fd/{number}"), O_RDONLY)
            .open(format!("/dev/fd/{number}"), O_RDONLY);
    }
    let with_all = |mut command: Command| {
        for (file, number) in [&file, &folder, &path, &root].into_iter().zip(numbers) {
            inherit(&mut command, file, number);
        }
        script.told(ran(&mut command))
    };
    let outside = with_all(probe_outside("calls", script.words()));
    assert_eq!(outside.text(0), SECRET);
    outside.ok_all(1..14);
    let flags = yard.flags(&[]);
    for more in EVERY_WAY {
        let mut flags = refs(&flags);
        flags.extend(more);
        let inside = with_all(probe_inside("calls", &flags, script.words()));
        inside.refused(0, &[EBADF]).refused(1, &[EBADF]);
        inside.refused_all(2..14, &[EBADF, ENOENT]);
    }
}

#[test]
#[kennel_claim::claim("processes/no-descriptors-leak")]
fn only_the_standard_three_and_the_kept_descriptors_are_open() {
    let yard = Yard::new();
    let (file, other) = (opened(&yard.open(), 0), opened(&yard.secret(), 0));
    let mut command = kennel(["run", "--keep-fd", "7", "--", "sh", "-c", "ls /proc/$$/fd; cat <&7"]);
    inherit(&mut command, &file, 7);
    inherit(&mut command, &other, 8);
    let told = ran(&mut command).ok();
    assert_eq!(told.stdout, "0\n1\n2\n7\nanybody may read this");
}

/// A descriptor of a folder leads around every mask: it belongs to the host's mounts, not to the sandbox's.
#[test]
#[kennel_claim::claim("processes/no-descriptors-leak")]
fn a_folder_given_as_standard_input_does_not_show_what_is_hidden() {
    let yard = Yard::new();
    let script = Script::new()
        .call(libc::SYS_openat, args![0, "secret", O_RDONLY])
        .call(libc::SYS_read, args![Arg::Answer(0), Arg::Zeros(64), 64])
        .open("/proc/self/fd/0/secrets/key", O_RDONLY)
        .call(libc::SYS_read, args![Arg::Answer(2), Arg::Zeros(64), 64]);
    let run = |mut command: Command| {
        let told = ran(command.stdin(opened(yard.scratch().path(), O_DIRECTORY)));
        (told.code, told.stdout.clone(), told)
    };
    let (code, _, outside) = run(probe_outside("calls", script.words()));
    assert_eq!(code, 0);
    assert!(script.told(outside).shows(SECRET));
    let flags = yard.flags(&[]);
    let (_, stdout, inside) = run(probe_inside("calls", &refs(&flags), script.words()));
    // Refusing to start at all is as good.
    if !stdout.is_empty() {
        assert!(!script.told(inside).shows(SECRET), "the secret was read through standard input");
    }
}

/// CVE-2024-21626: a working directory that is reached through a descriptor of the launcher.
#[test]
fn a_working_directory_below_proc_self_fd_keeps_no_leaked_folder() {
    let yard = Yard::new();
    let folder = opened(&yard.secrets(), O_DIRECTORY);
    let flags = yard.flags(&["--workdir", "/proc/self/fd/9"]);
    let script = Script::new()
        .open("key", O_RDONLY)
        .call(libc::SYS_read, args![Arg::Answer(0), Arg::Zeros(64), 64])
        .open("../secret", O_RDONLY)
        .call(libc::SYS_read, args![Arg::Answer(2), Arg::Zeros(64), 64]);
    let mut command = probe_inside("calls", &refs(&flags), script.words());
    inherit(&mut command, &folder, 9);
    let inside = ran(&mut command);
    if inside.code != 125 {
        let told = script.told(inside);
        told.refused(0, &[ENOENT, EACCES]).refused(2, &[ENOENT, EACCES]);
    }
}

#[test]
fn chdir_through_dev_fd_leads_nowhere_new() {
    let yard = Yard::new();
    let mut script = Script::new();
    for number in 3..40 {
        script = script.call(libc::SYS_chdir, args![format!("/dev/fd/{number}").as_str()]);
        script = script.call(libc::SYS_fchdir, args![number]);
    }
    let folder = opened(&yard.secrets(), O_DIRECTORY);
    let mut command = probe_inside("calls", &["--seccomp", "none"], script.words());
    inherit(&mut command, &folder, 33);
    let inside = script.told(ran(&mut command));
    inside.refused_all(0..74, &[EBADF, ENOENT]);
}

#[test]
fn reopening_an_o_path_descriptor_gives_no_more_than_opening() {
    let yard = Yard::new();
    let script = Script::new()
        .open(yard.secret(), O_PATH)
        .open("/proc/self/fd/3", O_RDONLY)
        .open(yard.open(), O_PATH)
        .open("/proc/self/fd/4", O_RDWR)
        .open("/proc/self/fd/4", O_RDONLY)
        .call(libc::SYS_openat2, args![Arg::Answer(2), "", open_how(O_WRONLY, 0), 24])
        .call(crate::escape::FCHMODAT2, args![Arg::Answer(2), "", 0o777, libc::AT_EMPTY_PATH])
        .call(libc::SYS_execveat, args![Arg::Answer(0), "", 0, 0, libc::AT_EMPTY_PATH]);
    let outside = script.outside();
    outside.ok_all(0..5);
    for more in EVERY_WAY {
        let flags = yard.flags(more);
        let inside = script.inside(&refs(&flags));
        inside.ok(0).refused(1, &[EACCES]).ok(2).refused(3, &[EROFS, EACCES]).ok(4);
        // Where the host's files can be written, openat2 is refused as a whole.
        inside.refused(5, &[ENOENT, libc::ENOSYS]).refused(6, &[EROFS, libc::EPERM]).refused(7, &[EACCES]);
    }
    assert_eq!(std::fs::read_to_string(yard.secret()).unwrap(), SECRET);
}

/// The caller opened its file for reading on the host's own mount, which is writable. The command's is another.
#[test]
fn standard_input_cannot_be_reopened_for_writing() {
    let yard = Yard::new();
    let script = Script::new().open("/proc/self/fd/0", O_WRONLY).open("/dev/stdin", O_RDWR);
    let run = |mut command: Command| script.told(ran(command.stdin(File::open(yard.open()).unwrap())));
    run(probe_outside("calls", script.words())).ok(0).ok(1);
    for more in EVERY_WAY {
        let inside = run(probe_inside("calls", more, script.words()));
        inside.refused(0, &[EACCES, EROFS]).refused(1, &[EACCES, EROFS]);
    }
    assert_eq!(std::fs::read_to_string(yard.open()).unwrap(), "anybody may read this");
}
