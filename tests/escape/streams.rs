//! Files, devices and FIFOs behind the standard streams: descriptors of the caller's that would lead past the rules.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use kennel_tests::probe::{Arg, Script, probe_inside, probe_outside};
use kennel_tests::{Ran, Scratch, am_root, args, ran};
use libc::{
    EACCES, EBADF, EINVAL, ENODEV, ENOENT, ENOTSUP, ENXIO, EPERM, EROFS, ESPIPE, O_RDONLY, O_RDWR, O_WRONLY,
};

use crate::escape::yard::{EVERY_WAY, SECRET, Yard, refs};

/// What there is to know of a file that a change would change.
fn state(path: &Path) -> (u32, u32, u32, u64, i64, i64, String) {
    let meta = std::fs::symlink_metadata(path).unwrap();
    let text = if meta.is_file() { std::fs::read_to_string(path).unwrap() } else { String::new() };
    (meta.mode(), meta.uid(), meta.gid(), meta.len(), meta.mtime(), meta.mtime_nsec(), text)
}

/// Everything that changes a file by its descriptor.
fn changes(fd: i32) -> Script {
    let path = format!("/proc/self/fd/{fd}");
    // SAFETY: plain calls.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    Script::new()
        .call(libc::SYS_fchmod, args![fd, 0o4777])
        .call(libc::SYS_utimensat, args![fd, 0, vec![0u8; 32], 0])
        .call(libc::SYS_fsetxattr, args![fd, "user.kennel", "value", 5, 0])
        .call(libc::SYS_fchown, args![fd, user, group])
        .call(libc::SYS_fchmodat, args![libc::AT_FDCWD, path.as_str(), 0o4777])
        .call(crate::escape::FCHMODAT2, args![fd, "", 0o4777, libc::AT_EMPTY_PATH])
        .call(libc::SYS_truncate, args![path.as_str(), 0])
        .call(libc::SYS_ioctl, args![fd, 0x4008_6602u32, vec![0x40u8, 0, 0, 0, 0, 0, 0, 0]])
}

const CHANGES: std::ops::Range<usize> = 0..8;

/// Runs with a file as standard input; what the probe says goes to standard output.
fn with_input(mut command: Command, file: File) -> Ran {
    ran(command.stdin(file))
}

/// Runs with a file as standard error.
fn with_error(mut command: Command, file: File) -> Ran {
    let child = command.stdout(Stdio::piped()).stderr(file).spawn().unwrap();
    Ran::from(child.wait_with_output().unwrap())
}

/// Sets the modes of the host's devices back, should a test show that they can be changed.
struct Modes(Vec<(&'static str, u32)>);

impl Modes {
    fn of(paths: &[&'static str]) -> Modes {
        Modes(paths.iter().map(|path| (*path, std::fs::metadata(path).unwrap().mode())).collect())
    }

    #[track_caller]
    fn check(&self) {
        for (path, before) in &self.0 {
            assert_eq!(std::fs::metadata(path).unwrap().mode(), *before, "{path}");
        }
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        for (path, mode) in &self.0 {
            let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(*mode));
        }
    }
}

#[test]
#[kennel_claim::claim("processes/files-behind-streams")]
fn a_file_behind_standard_input_cannot_be_changed() {
    let scratch = Scratch::new();
    let script = changes(0);
    let path = scratch.write("outside", "contents");
    let outside = script.told(with_input(probe_outside("calls", script.words()), File::open(&path).unwrap()));
    outside.ok(0).ok(1).ok(3).ok(4);
    let path = scratch.write("file", "contents");
    let before = state(&path);
    let folder = scratch.path().to_str().unwrap();
    let listed = kennel_tests::probe::executable().to_str().unwrap();
    for more in EVERY_WAY.iter().copied().chain([
        // Not even where the file itself may be changed by its name, or everything may.
        &["--allow-write", folder][..],
        &["--allow-write", "/", "--deny-write", folder],
        &["--reads", "listed", "--allow-read", listed],
    ]) {
        let inside =
            script.told(with_input(probe_inside("calls", more, script.words()), File::open(&path).unwrap()));
        inside.refused_all(
            CHANGES,
            &[EROFS, EPERM, EACCES, EINVAL, libc::EOPNOTSUPP, libc::ENOTTY, libc::ENOSYS],
        );
        assert_eq!(state(&path), before, "{more:?}");
    }
}

/// A caller that has it open for both may not hand both on.
#[test]
#[kennel_claim::claim("processes/files-behind-streams")]
fn standard_input_that_is_open_for_writing_too_can_only_be_read() {
    let scratch = Scratch::new();
    let path = scratch.write("file", "contents");
    let script = Script::new()
        .call(libc::SYS_pwrite64, args![0, "changed!", 8, 0])
        .call(libc::SYS_ftruncate, args![0, 0])
        .call(libc::SYS_mmap, args![0, 4096, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, 0, 0])
        .open("/proc/self/fd/0", O_RDWR)
        .open("/dev/stdin", O_WRONLY | libc::O_TRUNC)
        .call(libc::SYS_read, args![0, Arg::Zeros(8), 8]);
    let open = || File::options().read(true).write(true).open(&path).unwrap();
    let outside = script.told(with_input(probe_outside("calls", script.words()), open()));
    outside.ok(0).ok(1).ok(3);
    scratch.write("file", "contents");
    for more in EVERY_WAY {
        let inside = script.told(with_input(probe_inside("calls", more, script.words()), open()));
        inside.refused_all(0..5, &[EBADF, EINVAL, EACCES, EROFS]);
        assert_eq!(inside.text(5), "contents");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "contents", "{more:?}");
    }
}

#[test]
#[kennel_claim::claim("processes/files-behind-streams")]
fn a_file_behind_an_output_cannot_be_changed_or_read() {
    let yard = Yard::new();
    let flags = yard.flags(&[]);
    let reads = |script: Script, first: usize| {
        script
            .open("/proc/self/fd/2", O_RDWR | libc::O_NONBLOCK)
            .open("/dev/stderr", O_RDONLY | libc::O_NONBLOCK)
            .call(libc::SYS_read, args![Arg::Answer(first), Arg::Zeros(64), 64])
            .call(libc::SYS_pread64, args![2, Arg::Zeros(64), 64, 0])
            .call(libc::SYS_lseek, args![2, 0, libc::SEEK_SET])
            .call(libc::SYS_mmap, args![0, 4096, libc::PROT_READ, libc::MAP_SHARED, 2, 0])
    };
    let plain = reads(Script::new(), 0);
    let script = reads(changes(2), CHANGES.end).call(libc::SYS_write, args![2, " and this", 9]);
    // What is denied is appended to, which the caller may.
    let append = |read: bool| File::options().append(true).read(read).open(yard.secret()).unwrap();
    let outside = plain.told(with_error(probe_outside("calls", plain.words()), append(false)));
    assert!(outside.shows(SECRET), "outside it can be read by opening it again");
    for more in EVERY_WAY {
        for read in [false, true] {
            std::fs::write(yard.secret(), SECRET).unwrap();
            std::fs::set_permissions(yard.secret(), std::fs::Permissions::from_mode(0o600)).unwrap();
            let before = state(&yard.secret());
            let mut all = refs(&flags);
            all.extend(more);
            let inside = script.told(with_error(probe_inside("calls", &all, script.words()), append(read)));
            assert!(!inside.shows(SECRET), "{more:?}");
            // A pipe can be opened again; it holds what the command has written itself.
            inside.refused_all(11..14, &[ESPIPE, EBADF, ENODEV, EACCES]).ok(14);
            let after = state(&yard.secret());
            assert_eq!((before.0, before.1, before.2), (after.0, after.1, after.2), "{more:?}");
            assert_eq!(after.6, format!("{SECRET} and this"), "{more:?}");
        }
    }
}

#[test]
#[kennel_claim::claim("processes/devices-behind-streams")]
fn the_hosts_devices_behind_streams_cannot_be_changed() {
    let modes = Modes::of(&["/dev/null", "/dev/zero", "/dev/tty"]);
    let script = Script::new()
        .call(libc::SYS_fchmod, args![0, 0o600])
        .call(libc::SYS_fchmod, args![2, 0o600])
        .call(libc::SYS_utimensat, args![0, 0, vec![0u8; 32], 0])
        .call(libc::SYS_fchmodat, args![libc::AT_FDCWD, "/dev/null", 0o600])
        .call(libc::SYS_fchmodat, args![libc::AT_FDCWD, "/dev/zero", 0o600])
        .call(libc::SYS_fchmodat, args![libc::AT_FDCWD, "/dev/tty", 0o600])
        .call(libc::SYS_utimensat, args![libc::AT_FDCWD, "/dev/null", vec![0u8; 32], 0])
        .open("/dev/null", O_RDWR)
        .call(libc::SYS_write, args![Arg::Answer(7), "x", 1])
        .call(libc::SYS_write, args![2, "x", 1]);
    for name in ["/dev/null", "/dev/zero"] {
        for more in EVERY_WAY {
            let mut command = probe_inside("calls", more, script.words());
            command.stdin(File::open(name).unwrap()).stderr(Stdio::null());
            let output = command.output().unwrap();
            let inside = script.told(Ran::from(output));
            inside.refused_all(0..7, &[EROFS, EPERM, EACCES]).ok(7).ok(8).ok(9);
            modes.check();
        }
    }
    if am_root() {
        // That root could: a device of the same kind, outside.
        let scratch = Scratch::new();
        let node = scratch.join("null");
        let made = Command::new("mknod").arg(&node).args(["c", "1", "3"]).status().unwrap();
        assert!(made.success());
        let mut command = probe_outside("calls", script.words());
        let outside = script.told(ran(command.stdin(File::open(&node).unwrap())));
        outside.ok(0);
        assert_eq!(std::fs::metadata(&node).unwrap().mode() & 0o777, 0o600);
    }
}

/// Where /dev is hidden there is no node to take: the streams are the sandbox's own all the same.
#[test]
#[kennel_claim::claim("processes/devices-behind-streams")]
fn the_hosts_devices_behind_streams_cannot_be_changed_where_dev_is_hidden_either() {
    let modes = Modes::of(&["/dev/null"]);
    let script = Script::new()
        .call(libc::SYS_fchmod, args![0, 0o600])
        .call(libc::SYS_utimensat, args![2, 0, vec![0u8; 32], 0])
        .open("/dev/null", O_RDWR)
        .call(libc::SYS_write, args![2, "x", 1]);
    let mut command = probe_inside("calls", &["--deny-read", "/dev"], script.words());
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let inside = script.told(Ran::from(command.output().unwrap()));
    inside.refused_all(0..2, &[EROFS, EPERM]).refused_all(2..3, &[EACCES, libc::ENOENT]).ok(3);
    modes.check();
}

/// A FIFO that has a name is a file with a mode and owners like any other.
#[test]
#[kennel_claim::claim("processes/files-behind-streams")]
fn a_fifo_with_a_name_cannot_be_changed_or_opened_for_the_other_direction() {
    let scratch = Scratch::new();
    let path = scratch.join("fifo");
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let script = changes(0).open("/proc/self/fd/0", O_WRONLY | libc::O_NONBLOCK);
    let open = || File::options().read(true).write(true).open(&path).unwrap();
    let before = state(&path);
    let outside = script.told(with_input(probe_outside("calls", script.words()), open()));
    outside.ok(0).ok(8);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(before.0)).unwrap();
    let before = state(&path);
    for more in EVERY_WAY {
        // What the command gets is a pipe of its own, which it may do with as it likes.
        let _ = script.told(with_input(probe_inside("calls", more, script.words()), open()));
        assert_eq!(state(&path), before, "{more:?}");
    }
}

/// In namespaces of its own, where Landlock keeps no files, the mount is what holds.
#[test]
#[kennel_claim::claim("processes/files-behind-streams")]
fn srt_with_nested_namespaces_does_not_open_standard_input_for_writing() {
    let scratch = Scratch::new();
    let path = scratch.write("file", "contents");
    let settings = r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "allowNestedUserNamespaces": true,
        "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#;
    let settings = scratch.write("settings.json", settings);
    let link = scratch.join("srt");
    std::os::unix::fs::symlink(kennel_tests::kennel_bin(), &link).unwrap();
    let inside = "exec unshare -Um --propagation unchanged sh -c 'mount -o remount,bind,rw /dev/stdin 2>/dev/null; chmod 4777 /dev/stdin; echo changed >/dev/stdin; head -c 8' ";
    let mut command = Command::new(&link);
    command.arg("-s").arg(&settings).args(["-c", inside]).current_dir(scratch.path());
    command.env("HOME", scratch.path()).stdin(File::options().read(true).write(true).open(&path).unwrap());
    let before = state(&path);
    let told = ran(&mut command);
    assert_eq!(state(&path), before, "{told:?}");
    assert!(told.stdout.starts_with("contents"), "{told:?}");
}

/// What an ioctl on a device could do, its bytes cannot.
#[test]
#[kennel_claim::claim("processes/devices-behind-streams")]
fn a_device_that_is_not_one_of_the_sandboxs_own_is_carried() {
    if !am_root() || !Path::new("/dev/loop-control").exists() {
        return kennel_tests::skipped("there is no such device that this user may open");
    }
    let modes = Modes::of(&["/dev/loop-control"]);
    let script = Script::new()
        // LOOP_CTL_GET_FREE.
        .call(libc::SYS_ioctl, args![0, 0x4c82])
        .call(libc::SYS_fchmod, args![0, 0o600])
        .open("/proc/self/fd/0", O_RDWR);
    let open = || File::options().read(true).write(true).open("/dev/loop-control").unwrap();
    script.told(with_input(probe_outside("calls", script.words()), open())).ok(0);
    drop(modes);
    let modes = Modes::of(&["/dev/loop-control"]);
    let flags = ["--seccomp", "none"];
    let inside = script.told(with_input(probe_inside("calls", &flags, script.words()), open()));
    inside.refused(0, &[libc::ENOTTY, ENOTSUP, EINVAL, ENXIO, ENOENT]);
    modes.check();
}
