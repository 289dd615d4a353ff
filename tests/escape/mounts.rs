//! What lies below the mounts. The host's tree is changed in place: a hidden file is still there, under its mask, and
//! everything is writable under the read-only flag. These tests try to get below.
//!
//! Most run without a filter: then a nested user namespace gives the attacker every capability over its own mounts,
//! and what holds is that the kernel locks a copied tree together, and Landlock, which allows no mounting at all.

use std::path::Path;

use kennel_tests::probe::{Arg, Script, Told, open_how};
use kennel_tests::{am_root, args, skipped};
use libc::{EACCES, EBUSY, EINVAL, ELOOP, ENOENT, ENOSYS, EPERM, EROFS, EXDEV, O_PATH, O_RDONLY, O_WRONLY};

use crate::escape::yard::{EVERY_WAY, SECRET, Yard, refs};

const NEW_MOUNTS: i32 = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;
const OPEN_TREE_CLONE: i32 = 1;
const AT_RECURSIVE: i32 = 0x8000;
const MOVE_MOUNT_F_EMPTY_PATH: i32 = 4;
const FSCONFIG_CMD_CREATE: i32 = 6;
const MOUNT_ATTR_RDONLY: u64 = 1;
/// What refuses a call: the filter, the kernel, or Landlock.
const REFUSED: &[i32] = &[EPERM, EINVAL, EACCES, ENOSYS, EBUSY];

fn nested() -> Script {
    Script::new().call(libc::SYS_unshare, args![NEW_MOUNTS])
}

/// The same for a script that begins by making a namespace: without a filter, and with the permissive one, it can.
fn try_every_way_nested(yard: &Yard, script: &Script, check: impl Fn(&Told, &[&str])) {
    try_every_way(yard, script, |told, more| {
        if more.contains(&"none") || more.contains(&"permissive") {
            told.ok(0);
        } else {
            told.refused(0, &[EPERM]);
        }
        check(told, more);
    });
}

/// Says what came of `script` for every way to start a sandbox; fails if a secret shows.
fn try_every_way(yard: &Yard, script: &Script, check: impl Fn(&Told, &[&str])) {
    for more in EVERY_WAY {
        let flags = yard.flags(more);
        let told = script.inside(&refs(&flags));
        assert!(!told.shows(SECRET), "with {more:?}: {told:?}");
        check(&told, more);
    }
    assert_eq!(std::fs::read_to_string(yard.secret()).unwrap(), SECRET);
    assert_eq!(std::fs::read_to_string(yard.open()).unwrap(), "anybody may read this");
}

#[test]
#[kennel_claim::claim("files/nothing-below-a-mount")]
fn umount_does_not_reveal_what_is_below() {
    let yard = Yard::new();
    let mut script = nested();
    let targets = [
        yard.secret(),
        yard.secrets(),
        "/tmp".into(),
        "/proc".into(),
        "/dev".into(),
        "/run".into(),
        "/".into(),
    ];
    for target in &targets {
        script = script.call(libc::SYS_umount2, args![target, libc::MNT_DETACH]);
    }
    script = script.open(yard.secret(), O_RDONLY).read(8);
    try_every_way_nested(&yard, &script, |told, _| {
        told.refused_all(1..8, REFUSED);
        told.refused(8, &[EACCES]);
    });
}

/// A bind of the root alone, without what is mounted on it, would show what the masks hide.
#[test]
#[kennel_claim::claim("files/nothing-below-a-mount")]
fn a_bind_or_a_copy_of_the_root_alone_does_not_show_what_is_below() {
    let yard = Yard::new();
    let inner = yard.secret();
    let inner = inner.strip_prefix("/").unwrap();
    let script = nested()
        .call(libc::SYS_mount, args![0, "/", 0, libc::MS_REC | libc::MS_PRIVATE, 0])
        .call(libc::SYS_mount, args!["/", "/tmp", 0, libc::MS_BIND, 0])
        .call(libc::SYS_open_tree, args![libc::AT_FDCWD, "/", OPEN_TREE_CLONE])
        .call(libc::SYS_openat, args![Arg::Answer(3), inner, O_RDONLY])
        .read(4)
        .call(libc::SYS_open_tree, args![libc::AT_FDCWD, yard.scratch().path(), OPEN_TREE_CLONE])
        .call(libc::SYS_openat, args![Arg::Answer(6), "secret", O_RDONLY])
        .read(7)
        // The whole tree can be copied, with its masks, but neither be attached nor be unpacked.
        .call(libc::SYS_open_tree, args![libc::AT_FDCWD, "/", OPEN_TREE_CLONE | AT_RECURSIVE])
        .call(libc::SYS_openat, args![Arg::Answer(9), inner, O_RDONLY])
        .read(10)
        .call(
            libc::SYS_move_mount,
            args![Arg::Answer(9), "", libc::AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH],
        );
    // The same outside, with the same kind of mask in the way but none of it locked, shows what is below.
    let below = yard.scratch().dir("below");
    yard.scratch().write("below/treasure", SECRET);
    let outside = nested()
        .call(libc::SYS_mount, args!["none", "/", 0, libc::MS_REC | libc::MS_PRIVATE, 0])
        .call(libc::SYS_mount, args!["none", &below, "tmpfs", 0, 0])
        .open(below.join("treasure"), O_RDONLY)
        .call(libc::SYS_open_tree, args![libc::AT_FDCWD, yard.scratch().path(), OPEN_TREE_CLONE])
        .call(libc::SYS_openat, args![Arg::Answer(4), "below/treasure", O_RDONLY])
        .read(5)
        .outside();
    outside.ok(2).refused(3, &[ENOENT]);
    assert_eq!(outside.text(6), SECRET, "{outside:?}");
    try_every_way_nested(&yard, &script, |told, _| {
        for index in [1, 2, 3, 6, 12] {
            told.refused(index, REFUSED);
        }
        for index in [4, 7, 10] {
            assert_ne!(told.errno(index), 0);
        }
    });
}

#[test]
fn remounting_or_mount_setattr_does_not_make_the_root_or_a_mask_writable() {
    let yard = Yard::new();
    let clear: Vec<u8> =
        [0, MOUNT_ATTR_RDONLY, 0, 0].iter().flat_map(|field: &u64| field.to_ne_bytes()).collect();
    let mut script = nested();
    let targets: [&Path; 6] = [
        Path::new("/"),
        &yard.secret(),
        &yard.secrets(),
        Path::new("/proc/sys"),
        Path::new("/sys"),
        Path::new("/dev"),
    ];
    for target in targets {
        script = script
            .call(libc::SYS_mount_setattr, args![libc::AT_FDCWD, target, 0, clear.clone(), 32])
            .call(libc::SYS_mount_setattr, args![libc::AT_FDCWD, target, AT_RECURSIVE, clear.clone(), 32])
            .call(libc::SYS_mount, args![0, target, 0, libc::MS_REMOUNT | libc::MS_BIND, 0])
            .call(libc::SYS_mount, args![0, target, 0, libc::MS_REMOUNT, 0]);
    }
    script = script.open(yard.open(), O_WRONLY);
    try_every_way_nested(&yard, &script, |told, more| {
        for index in 1..=24 {
            assert_ne!(told.errno(index), 0, "call {index} with {more:?}: {told:?}");
        }
        told.refused(25, &[EROFS, EACCES]);
    });
}

#[test]
fn fsopen_and_fsmount_give_no_fresh_proc_sys_or_disk() {
    let yard = Yard::new();
    let mut script = Script::new()
        .call(libc::SYS_unshare, args![NEW_MOUNTS | libc::CLONE_NEWPID | libc::CLONE_NEWNET])
        .fork();
    for (round, name) in
        ["proc", "sysfs", "tmpfs", "ext4", "devpts", "overlay", "cgroup2"].into_iter().enumerate()
    {
        let first = 2 + 5 * round;
        script = script
            .call(libc::SYS_fsopen, args![name, 0])
            .call(libc::SYS_fsconfig, args![Arg::Answer(first), FSCONFIG_CMD_CREATE, 0, 0, 0])
            .call(libc::SYS_fsmount, args![Arg::Answer(first), 0, 0])
            .call(libc::SYS_openat, args![Arg::Answer(first + 2), "sys/kernel/core_pattern", O_WRONLY])
            .call(
                libc::SYS_move_mount,
                args![Arg::Answer(first + 2), "", libc::AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH],
            );
    }
    try_every_way_nested(&yard, &script, |told, more| {
        for round in 0..7 {
            let first = 2 + 5 * round;
            assert_ne!(told.errno(first + 3), 0, "core_pattern opened with {more:?}: {told:?}");
            assert_ne!(told.errno(first + 4), 0, "a mount was attached with {more:?}: {told:?}");
        }
    });
}

#[test]
#[kennel_claim::claim("files/no-way-through-the-root")]
fn pivot_root_and_chroot_do_not_change_what_a_path_means() {
    let yard = Yard::new();
    let work = yard.work();
    let script = nested()
        .open("/", O_PATH)
        .call(libc::SYS_mount, args![&work, &work, 0, libc::MS_BIND, 0])
        .call(libc::SYS_chdir, args![&work])
        .call(libc::SYS_pivot_root, args![".", "."])
        .call(libc::SYS_chroot, args![&work])
        .call(libc::SYS_fchdir, args![Arg::Answer(1)])
        .open("../../../../..", O_PATH)
        .call(libc::SYS_chroot, args!["."])
        .open(yard.secret(), O_RDONLY)
        .read(9);
    try_every_way_nested(&yard, &script, |told, _| {
        told.refused(2, REFUSED).refused(4, REFUSED);
    });
}

/// The oldest way out of a chroot: go in deeper, and walk up past the root from a folder that was left outside.
#[test]
#[kennel_claim::claim("files/no-way-through-the-root")]
fn chroot_and_fchdir_do_not_walk_out_at_the_top() {
    let yard = Yard::new();
    let mut script = Script::new()
        .call(libc::SYS_unshare, args![libc::CLONE_NEWUSER])
        .open("/", O_RDONLY)
        .call(libc::SYS_mkdirat, args![libc::AT_FDCWD, "/tmp/cell", 0o755])
        .call(libc::SYS_chroot, args!["/tmp/cell"])
        .call(libc::SYS_fchdir, args![Arg::Answer(1)]);
    for _ in 0..20 {
        script = script.call(libc::SYS_chdir, args![".."]);
    }
    let inner = yard.secret();
    let script =
        script.call(libc::SYS_chroot, args!["."]).open(inner.strip_prefix("/").unwrap(), O_RDONLY).read(26);
    try_every_way_nested(&yard, &script, |told, more| {
        if more.contains(&"none") {
            told.ok(3);
        } else if more.is_empty() {
            told.refused(3, &[EPERM]);
        }
        assert_ne!(told.errno(26), 0, "{told:?}");
    });
}

#[test]
#[kennel_claim::claim("files/no-way-through-the-root")]
fn dot_dot_and_magic_links_lead_only_to_what_is_masked() {
    let yard = Yard::new();
    let secret = yard.secret();
    let plain = secret.display().to_string();
    let folder = yard.scratch().path().display().to_string();
    let ways = [
        plain.clone(),
        format!("/..{plain}"),
        format!("/../../../..{plain}"),
        format!("//{plain}"),
        format!("{folder}/./secret"),
        format!("{folder}/work/../secret"),
        format!("{folder}/secrets/../secret"),
        format!("/proc/..{plain}"),
        format!("/dev/shm/../..{plain}"),
        format!("/tmp/..{plain}"),
        format!("/proc/self/root{plain}"),
        format!("/proc/self/root/..{plain}"),
        format!("/proc/thread-self/root{plain}"),
        format!("/proc/1/root{plain}"),
        format!("/proc/self/cwd/../../../../../..{plain}"),
        format!("/proc/self/task/../root{plain}"),
        format!("/dev/fd/../root{plain}"),
        format!("/proc/self/fd/../../self/root{plain}"),
    ];
    let mut script = Script::new();
    for way in &ways {
        script = script.open(way, O_RDONLY);
    }
    assert_eq!(script.outside().errno(0), 0);
    try_every_way(&yard, &script, |told, more| {
        for (index, way) in ways.iter().enumerate() {
            assert_ne!(told.errno(index), 0, "{way} with {more:?}");
            told.refused(index, &[EACCES, ENOENT]);
        }
    });
}

/// openat2 can be told not to cross mounts: it then fails at the mask instead of passing below it.
#[test]
fn openat2_that_crosses_no_mount_does_not_open_what_the_mount_covers() {
    const NO_XDEV: u64 = 1;
    const NO_MAGICLINKS: u64 = 2;
    const NO_SYMLINKS: u64 = 4;
    const BENEATH: u64 = 8;
    const IN_ROOT: u64 = 16;
    let yard = Yard::new();
    let mut script = Script::new().open(yard.scratch().path(), O_PATH).open("/", O_PATH);
    let inner = yard.secret();
    let inner = inner.strip_prefix("/").unwrap();
    for resolve in
        [NO_XDEV, NO_XDEV | BENEATH, IN_ROOT, BENEATH | NO_SYMLINKS, NO_XDEV | IN_ROOT | NO_MAGICLINKS]
    {
        script = script
            .call(libc::SYS_openat2, args![Arg::Answer(0), "secret", open_how(O_RDONLY, resolve), 24])
            .call(libc::SYS_openat2, args![Arg::Answer(0), "secrets/key", open_how(O_RDONLY, resolve), 24])
            .call(libc::SYS_openat2, args![Arg::Answer(1), inner, open_how(O_RDONLY, resolve), 24]);
    }
    assert_eq!(script.outside().errno(2), 0);
    try_every_way(&yard, &script, |told, _| {
        told.refused_all(2..17, &[EXDEV, EACCES, ENOENT, ELOOP, libc::ENOSYS]);
    });
    // Where nothing can be written, the call is there.
    let (secret, secrets) = (yard.secret(), yard.secrets());
    let hidden = ["--deny-read", secret.to_str().unwrap(), "--deny-read", secrets.to_str().unwrap()];
    script.inside(&hidden).refused_all(2..17, &[EXDEV, EACCES, ENOENT, ELOOP]);
}

/// A file handle names an inode, not a path: it knows nothing of masks. The attacker may have learnt it before.
#[test]
#[kennel_claim::claim("files/nothing-below-a-mount")]
fn open_by_handle_at_does_not_open_a_hidden_file() {
    let yard = Yard::new();
    let mut handle = 120u32.to_ne_bytes().to_vec();
    handle.resize(128, 0);
    let outside = Script::new()
        .call(libc::SYS_name_to_handle_at, args![libc::AT_FDCWD, &yard.secret(), handle, Arg::Zeros(8), 0])
        .open("/", O_RDONLY)
        .call(libc::SYS_open_by_handle_at, args![Arg::Answer(1), Arg::Buffer(0), O_RDONLY])
        .read(2)
        .outside();
    if outside.errno(0) == libc::EOPNOTSUPP {
        return skipped("the file system of /var/tmp has no file handles");
    }
    outside.ok(0);
    if am_root() {
        assert_eq!(outside.text(3), SECRET, "{outside:?}");
    }
    let handle = outside.buffer(0).to_vec();
    let mount = yard.scratch().path();
    let script = Script::new()
        .open(mount, O_RDONLY)
        .call(libc::SYS_open_by_handle_at, args![Arg::Answer(0), handle.clone(), O_RDONLY])
        .call(libc::SYS_read, args![Arg::Answer(1), Arg::Zeros(64), 64])
        .call(libc::SYS_unshare, args![NEW_MOUNTS])
        .open(mount, O_RDONLY)
        .call(libc::SYS_open_by_handle_at, args![Arg::Answer(4), handle.clone(), O_RDONLY])
        .call(libc::SYS_read, args![Arg::Answer(5), Arg::Zeros(64), 64])
        .open(yard.work(), O_RDONLY)
        .call(libc::SYS_open_by_handle_at, args![Arg::Answer(7), handle, O_RDONLY])
        .call(libc::SYS_read, args![Arg::Answer(8), Arg::Zeros(64), 64]);
    try_every_way(&yard, &script, |told, _| {
        for index in [1, 5, 8] {
            told.refused(index, &[EPERM, libc::ESTALE, EACCES]);
        }
    });
}

#[test]
fn statmount_and_listmount_do_not_tell_of_the_hosts_mounts() {
    const SYS_LISTMOUNT: libc::c_long = 458;
    // struct mnt_id_req: its size, the root of the namespace, nothing to start from.
    let mut request = 24u32.to_ne_bytes().to_vec();
    request.resize(24, 0);
    request[8..16].copy_from_slice(&u64::MAX.to_ne_bytes());
    let script = Script::new().call(SYS_LISTMOUNT, args![request, Arg::Zeros(2048), 256, 0]);
    let inside = script.inside(&[]);
    inside.refused(0, &[ENOSYS]);
}

/// What came with the descriptors of a namespace: PID 1's, and those of the host as far as they can be named.
#[test]
fn setns_enters_no_namespace_of_pid_1_or_of_the_host() {
    let yard = Yard::new();
    let mut script = Script::new().call(libc::SYS_unshare, args![libc::CLONE_NEWUSER]);
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        script = script.open(format!("/proc/1/ns/{kind}"), O_RDONLY);
        script = script.open(format!("/proc/self/ns/{kind}"), O_RDONLY);
    }
    let parent_of = 0xb702u32; // NS_GET_PARENT
    let owner_of = 0xb701u32; // NS_GET_USERNS
    script = script
        .call(libc::SYS_setns, args![Arg::Answer(4), libc::CLONE_NEWNS])
        .call(libc::SYS_ioctl, args![Arg::Answer(2), parent_of, 0])
        .call(libc::SYS_setns, args![Arg::Answer(16), 0])
        .call(libc::SYS_ioctl, args![Arg::Answer(4), owner_of, 0])
        .call(libc::SYS_setns, args![Arg::Answer(18), 0]);
    try_every_way_nested(&yard, &script, |told, _| {
        for kind in 0..7 {
            told.refused(1 + 2 * kind, &[EACCES, EPERM]);
            told.ok(2 + 2 * kind);
        }
        told.refused(15, &[EPERM]);
        for index in [17, 19] {
            told.refused(index, &[EPERM, EINVAL, libc::EBADF]);
        }
    });
}
