//! Landlock, the second lock: that it is there, and that it holds where no mount is in the way.

use std::fs::File;

use kennel_tests::probe::{Script, probe_inside, probe_outside};
use kennel_tests::{Scratch, args, kennel, ran, run_sh, skipped};

fn version() -> i64 {
    // SAFETY: with the version flag the kernel takes no pointer.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, 1usize) }
}

/// The kernel allows a fixed number of layers, so what is missing inside is what kennel put there.
#[test]
fn exactly_one_layer_of_landlock_holds_inside() {
    if version() < 2 {
        return skipped("this kernel has no Landlock, or too old a one to count with");
    }
    let layers = |told: kennel_tests::Ran| told.ok().stdout.trim().parse::<u32>().unwrap();
    let outside = layers(ran(&mut probe_outside("layers", &[""])));
    assert!(outside > 1, "{outside}");
    for flags in [
        &[][..],
        &["--user", "root"],
        &["--seccomp", "none"],
        &["--reads", "listed", "--allow-read", "/var/tmp"],
    ] {
        assert_eq!(layers(ran(&mut probe_inside("layers", flags, &[""]))), outside - 1, "{flags:?}");
    }
}

/// A kept descriptor brings the host's own mount in, on which the caller's file can be written.
#[test]
fn a_file_on_a_mount_of_the_hosts_cannot_be_opened_for_writing() {
    if version() < 1 {
        return skipped("this kernel has no Landlock");
    }
    let scratch = Scratch::new();
    let path = scratch.write("file", "contents");
    let script =
        Script::new().open("/proc/self/fd/7", libc::O_WRONLY).open("/proc/self/fd/7", libc::O_RDONLY);
    let file = File::open(&path).unwrap();
    let run = |mut command: std::process::Command| script.told(ran(with_descriptor(&mut command, &file)));
    run(probe_outside("calls", script.words())).ok(0).ok(1);
    for more in [&[][..], &["--user", "root"], &["--seccomp", "none"]] {
        let flags = [&["--keep-fd", "7"], more].concat();
        run(probe_inside("calls", &flags, script.words())).refused(0, &[libc::EACCES]).ok(1);
    }
    // That no mount of the sandbox is in the way: the descriptor's is none of them.
    let look = "grep mnt_id /proc/self/fdinfo/7 | cut -f2; cut -d' ' -f1 /proc/self/mountinfo";
    let mut command = kennel(["run", "--keep-fd", "7", "--", "sh", "-c", look]);
    let told = ran(with_descriptor(&mut command, &file)).ok();
    let mut ids = told.stdout.lines();
    let own = ids.next().unwrap();
    assert!(ids.all(|id| id != own), "{told:?}");
    // And that it is the rules that decide: below a write root the same is allowed.
    let folder = scratch.path().to_str().unwrap();
    run(probe_inside("calls", &["--keep-fd", "7", "--allow-write", folder], script.words())).ok(0);
}

/// Lets a command inherit a file as descriptor 7.
fn with_descriptor<'a>(command: &'a mut std::process::Command, file: &File) -> &'a mut std::process::Command {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    // Out of the way first: its own number may be the one it is to get.
    let file = rustix::io::fcntl_dupfd_cloexec(file, 500).unwrap();
    // SAFETY: dup2 is safe between fork and exec; the copy is inherited, since it has no close-on-exec flag.
    unsafe {
        command.pre_exec(move || match libc::dup2(file.as_raw_fd(), 7) {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        })
    }
}

/// Under listed reads the same way does not even read.
#[test]
fn a_file_that_is_not_listed_cannot_be_opened_again_through_a_descriptor() {
    if version() < 1 {
        return skipped("this kernel has no Landlock");
    }
    let scratch = Scratch::new();
    let path = scratch.write("file", "contents");
    let executable = kennel_tests::probe::executable().to_str().unwrap();
    let script = Script::new()
        .open("/proc/self/fd/7", libc::O_RDONLY)
        .call(libc::SYS_read, args![7, kennel_tests::probe::Arg::Zeros(8), 8]);
    let flags = ["--keep-fd", "7", "--reads", "listed", "--allow-read", executable];
    let mut command = probe_inside("calls", &flags, script.words());
    let told = script.told(ran(with_descriptor(&mut command, &File::open(&path).unwrap())));
    told.refused(0, &[libc::EACCES]);
    assert_eq!(told.text(1), "contents", "what was handed in can be read");
}

/// Mounts are Landlock's to refuse as well: in a user namespace of its own the command has every capability.
#[test]
#[kennel_claim::claim("privileges/nested-namespaces-mount-nothing")]
fn a_nested_namespace_with_all_capabilities_mounts_nothing() {
    let script = Script::new()
        .call(libc::SYS_unshare, args![libc::CLONE_NEWUSER | libc::CLONE_NEWNS])
        .call(libc::SYS_mount, args!["none", "/var/tmp", "tmpfs", 0, 0]);
    script.outside().ok(0).ok(1);
    script.inside(&["--seccomp", "none"]).ok(0).refused(1, &[libc::EPERM]);
}

#[test]
fn signals_stay_inside_and_work_there() {
    let told = run_sh::<&str>([], "sleep 60 & kill -TERM $!; wait $!; echo $?").ok();
    assert_eq!(told.stdout, "143\n");
}

#[test]
fn abstract_sockets_stay_inside_and_work_there() {
    let name = format!("kennel-test-inside-{}", std::process::id());
    for flags in [&["--unix-sockets", "all"][..], &["--unix-sockets", "all", "--net", "host"]] {
        let told = ran(&mut probe_inside("abstract-sockets", flags, &[&name])).ok();
        assert_eq!(told.stdout, "hello\n", "{flags:?}");
    }
}

#[test]
fn files_can_be_moved_between_folders_of_a_write_root() {
    let scratch = Scratch::new();
    scratch.write("one/file", "moved");
    scratch.dir("two");
    let script = Script::new()
        .call(
            libc::SYS_renameat2,
            args![libc::AT_FDCWD, &scratch.join("one/file"), libc::AT_FDCWD, &scratch.join("two/file"), 0],
        )
        .call(
            libc::SYS_linkat,
            args![libc::AT_FDCWD, &scratch.join("two/file"), libc::AT_FDCWD, &scratch.join("one/link"), 0],
        );
    script.inside(&["--allow-write", scratch.path().to_str().unwrap()]).ok(0).ok(1);
    assert_eq!(std::fs::read_to_string(scratch.join("one/link")).unwrap(), "moved");
}

#[test]
fn truncation_of_a_read_only_file_is_refused() {
    let scratch = Scratch::new();
    let path = scratch.write("file", "contents");
    let script =
        Script::new().call(libc::SYS_truncate, args![&path, 0]).open(&path, libc::O_RDONLY | libc::O_TRUNC);
    for flags in [&[][..], &["--user", "root"], &["--seccomp", "none"]] {
        script
            .inside(flags)
            .refused(0, &[libc::EROFS, libc::EACCES])
            .refused(1, &[libc::EROFS, libc::EACCES]);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "contents");
}
