//! Things in the file system that are not files: devices, FIFOs, shared memory, whiteouts; and filling it up.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::Duration;

use kennel_tests::probe::{Arg, Script, probe_inside};
use kennel_tests::{Scratch, am_root, args, kennel, program, ran, ran_within, run_sh, skipped};
use libc::{EACCES, EBUSY, EINVAL, ENOENT, EPERM, EROFS, O_RDONLY, O_RDWR, O_WRONLY};

use crate::escape::yard::{EVERY_WAY, SECRET, Yard, refs};

#[test]
#[kennel_claim::claim("files/harmless-devices-only")]
fn device_nodes_can_neither_be_made_nor_be_used() {
    let yard = Yard::new();
    let work = yard.work();
    // Made on the host in the write root, by root: inside, the mount is nodev.
    let node = work.join("kmsg");
    if am_root() {
        let made = std::process::Command::new("mknod").arg(&node).args(["c", "1", "5"]).status().unwrap();
        assert!(made.success());
        std::fs::File::open(&node).expect("outside, it is /dev/zero");
    }
    let mut script = Script::new().open(&node, O_RDWR);
    for (kind, device) in [(libc::S_IFCHR, libc::makedev(1, 3)), (libc::S_IFBLK, libc::makedev(254, 0))] {
        for place in [work.join("node"), "/tmp/node".into(), "/dev/shm/node".into(), "/dev/node".into()] {
            script = script.call(libc::SYS_mknodat, args![libc::AT_FDCWD, &place, kind | 0o666, device]);
        }
    }
    for more in EVERY_WAY {
        let told = script.inside(&refs(&yard.flags(more)));
        told.refused(0, &[EACCES, ENOENT]);
        told.refused_all(1..9, &[EPERM, EROFS, EACCES]);
    }
}

#[test]
#[kennel_claim::claim("files/harmless-devices-only")]
fn dev_holds_the_harmless_nodes_and_nothing_of_the_hosts() {
    let told = run_sh(["--quiet"], "ls -A /dev; ls -A /dev/pts /dev/shm").ok();
    let names: Vec<&str> = told.stdout.split_whitespace().collect();
    let known = [
        "console",
        "fd",
        "full",
        "null",
        "ptmx",
        "pts",
        "random",
        "shm",
        "stderr",
        "stdin",
        "stdout",
        "tty",
        "urandom",
        "zero",
        "/dev/pts:",
        "/dev/shm:",
    ];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
}

/// CVE-2025-31133: masks made of /dev/null can be undone by whoever replaces /dev/null.
#[test]
fn masks_do_not_hang_on_dev_null() {
    let yard = Yard::new();
    let script = Script::new()
        .call(libc::SYS_unlinkat, args![libc::AT_FDCWD, "/dev/null", 0])
        .call(libc::SYS_renameat2, args![libc::AT_FDCWD, "/dev/zero", libc::AT_FDCWD, "/dev/null", 0])
        .call(libc::SYS_symlinkat, args![&yard.secret(), libc::AT_FDCWD, "/dev/null2"])
        .call(libc::SYS_fchmodat, args![libc::AT_FDCWD, &yard.secret(), 0o777])
        .open(yard.secret(), O_RDONLY)
        .open(yard.secret(), O_WRONLY)
        .call(libc::SYS_newfstatat, args![libc::AT_FDCWD, &yard.secret(), Arg::Zeros(144), 0]);
    for more in EVERY_WAY {
        let told = script.inside(&refs(&yard.flags(more)));
        told.refused(0, &[EROFS, EBUSY, EACCES])
            .refused(1, &[EROFS, EBUSY, EACCES])
            .refused(2, &[EROFS, EACCES]);
        told.refused(3, &[EROFS, EPERM]).refused(4, &[EACCES]).refused(5, &[EACCES, EROFS]).ok(6);
        // st_size lies at 48: the mask says nothing about the size of what it hides.
        assert_eq!(&told.buffer(6)[48..56], &[0; 8]);
    }
    let null = std::fs::metadata("/dev/null").unwrap();
    assert!(null.file_type().is_char_device() && null.rdev() == libc::makedev(1, 3));
}

#[test]
fn overlay_whiteouts_can_be_made_nowhere() {
    let yard = Yard::new();
    let work = yard.work();
    let mut script = Script::new();
    for place in [work.join("whiteout"), "/tmp/whiteout".into(), "/dev/shm/whiteout".into()] {
        script = script.call(libc::SYS_mknodat, args![libc::AT_FDCWD, &place, libc::S_IFCHR, 0]);
    }
    let name = "trusted.overlay.opaque";
    script = script.call(libc::SYS_setxattr, args![&work, name, "y", 1, 0]);
    // Since 5.8 anybody may make a 0:0 character device, but RENAME_WHITEOUT needs more.
    let told = script
        .call(
            libc::SYS_renameat2,
            args![libc::AT_FDCWD, &work.join("mine"), libc::AT_FDCWD, &work.join("moved"), 4],
        )
        .inside(&refs(&yard.flags(&["--seccomp", "none"])));
    told.refused(3, &[EPERM, libc::EOPNOTSUPP]);
    let left: Vec<_> = std::fs::read_dir(&work).unwrap().flatten().collect();
    for entry in left {
        let data = entry.metadata().unwrap();
        assert!(!data.file_type().is_char_device() || data.rdev() == 0, "a device: {entry:?}");
    }
}

#[test]
#[kennel_claim::claim("files/nothing-hangs-the-start")]
fn a_fifo_does_not_block_set_up() {
    let yard = Yard::new();
    let scratch = Scratch::new();
    for name in ["fifo", "tree/a/fifo", "project/kennel.toml"] {
        let path = scratch.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
    }
    let (fifo, glob) = (scratch.join("fifo"), format!("{}/tree/**/fifo", scratch.path().display()));
    let limit = Duration::from_secs(20);
    for list in ["--deny-read", "--deny-write", "--allow-read", "--allow-write"] {
        for path in [fifo.to_str().unwrap(), &glob] {
            let told = ran_within(limit, &mut kennel(["run", list, path, "--", "true"]));
            assert_eq!(told.code, 0, "{list} {path}: {told:?}");
        }
    }
    ran_within(limit, &mut kennel(["run", "--settings", fifo.to_str().unwrap(), "--", "true"]))
        .expect_code(125);
    // A project's own settings are found, not asked for: a FIFO there must not hold up whoever enters the folder.
    let project = scratch.join("project");
    let told = ran_within(limit, kennel(["run", "--", "true"]).current_dir(&project));
    assert!(told.code == 125 || told.code == 0, "{told:?}");
    drop(yard);
}

#[test]
#[kennel_claim::claim("processes/own-ipc")]
fn dev_shm_is_not_shared_with_the_host_or_another_sandbox() {
    let name = format!("/dev/shm/kennel-test-{}", std::process::id());
    std::fs::write(&name, SECRET).unwrap();
    let script = Script::new()
        .open(&name, O_RDONLY)
        .open("/dev/shm/from-inside", O_WRONLY | libc::O_CREAT | libc::O_EXCL);
    script.outside().ok(0);
    let _ = std::fs::remove_file("/dev/shm/from-inside");
    for more in EVERY_WAY {
        script.inside(more).refused(0, &[ENOENT]).ok(1);
        assert!(!std::path::Path::new("/dev/shm/from-inside").exists());
    }
    std::fs::remove_file(&name).unwrap();
}

#[test]
#[kennel_claim::claim("ends/private-folders-are-bounded")]
fn filling_the_private_folders_stops_at_their_size() {
    let told = ran(&mut probe_inside("fill", &["--tmp-size", "8M"], &["bytes", "/tmp/a", "/dev/shm/b"])).ok();
    let total: u64 = told.stdout.split_whitespace().map(|bytes| bytes.parse::<u64>().unwrap()).sum();
    // tmp_size is said to be the size of both together.
    assert!(total > 0 && total <= 8 << 20, "{total} bytes in /tmp and /dev/shm: {told:?}");
}

#[test]
#[kennel_claim::claim("ends/private-folders-are-bounded")]
fn filling_the_private_folders_with_empty_files_ends_too() {
    let told = ran(&mut probe_inside("fill", &[], &["files", "/tmp"])).ok();
    let count: u64 = told.stdout.trim().parse().unwrap();
    assert!((1000..=1 << 20).contains(&count), "{told:?}");
    for folder in ["/dev", "/run", "/proc"] {
        let told = ran(&mut probe_inside("fill", &[], &["files", folder])).ok();
        assert_eq!(told.stdout.trim(), "0", "{folder}: {told:?}");
    }
}

#[test]
fn a_file_system_image_in_the_write_root_cannot_be_mounted() {
    let yard = Yard::new();
    if program("mkfs.ext4").is_none() {
        return skipped("there is no mkfs.ext4 to make an image with");
    }
    let image = yard.work().join("image");
    let made =
        std::process::Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).arg("1M").output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let script = Script::new()
        .call(libc::SYS_unshare, args![libc::CLONE_NEWUSER | libc::CLONE_NEWNS])
        .call(libc::SYS_mount, args![&image, "/tmp", "ext4", 0, 0])
        .open("/dev/loop-control", O_RDWR)
        .open("/dev/fuse", O_RDWR);
    for more in EVERY_WAY {
        let told = script.inside(&refs(&yard.flags(more)));
        told.refused(1, &[EPERM, libc::ENOTBLK, EINVAL]).refused(2, &[ENOENT]).refused(3, &[ENOENT]);
    }
}
