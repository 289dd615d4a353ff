//! What a root shows that has mounts of the host's in it.

use kennel_tests::{Scratch, am_root, skipped};
use rustix::mount::{MountFlags, UnmountFlags};

use super::run;
use super::tree::{bare, small};

/// A mount that goes when the value does.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn a_root_with_mounts_in_it_has_no_layer_and_hides_the_kernels() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    if !am_root() {
        return skipped("only root can mount something in a folder of the host's");
    }
    // A chroot in use: its /proc is the host's, and so is a second one somewhere else.
    for name in ["proc", "srv/proc"] {
        let place = scratch.dir(&format!("root/{name}"));
        rustix::mount::mount("proc", &place, "proc", MountFlags::empty(), None).unwrap();
    }
    let _mounted = [Mounted(root.join("proc")), Mounted(root.join("srv/proc"))];
    let refused = run(&root, &[], "true").expect_code(125);
    assert!(refused.stderr.contains("is mounted below it"), "{refused:?}");
    assert!(refused.stderr.contains("--rootfs-write none"), "{refused:?}");
    // Best effort says what is missing.
    let best = run(&root, &["--best-effort"], "echo x > /new; ls /srv/proc; ls /proc/1/status").ok();
    assert!(best.stderr.contains("a writable root"), "{best:?}");
    let inside =
        run(&root, &["--rootfs-write", "none"], "ls /srv/proc | wc -l; ls -d /proc/[0-9]* | wc -l").ok();
    let mut counts = inside.stdout.lines().map(|line| line.trim().parse::<u32>().unwrap());
    assert_eq!(counts.next(), Some(0), "{inside:?}");
    assert!(counts.next().unwrap() < 8, "{inside:?}");
}

#[test]
fn what_is_mounted_in_a_read_only_root_is_read_only_too() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    if !am_root() {
        return skipped("only root can mount something in a folder of the host's");
    }
    let place = scratch.dir("root/srv/memory");
    rustix::mount::mount("none", &place, "tmpfs", MountFlags::empty(), None).unwrap();
    let _mounted = Mounted(place.clone());
    std::fs::write(place.join("file"), "in it\n").unwrap();
    let inside = run(&root, &["--rootfs-write", "none"], "cat /srv/memory/file; echo x > /srv/memory/file");
    assert_eq!(inside.stdout, "in it\n");
    assert!(inside.stderr.contains("Read-only"), "{inside:?}");
}
