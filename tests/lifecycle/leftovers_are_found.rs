//! The checks of this suite can fail: what a sandbox could leave is planted, and found.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use kennel_tests::leftovers::{Host, adopt_orphans, cgroups, processes_with, reap_everything, unique_sleep};
use kennel_tests::{Scratch, eventually, ran, role, skipped};
use rustix::mount::MountFlags;
use rustix::thread::UnshareFlags;

/// The role: leaves a process, or a mount, and says whether the checks saw it.
pub fn planter(arguments: &[OsString]) -> i32 {
    match arguments[0].to_str() {
        Some("process") => {
            adopt_orphans();
            let sleep = unique_sleep();
            // A daemon: its parent is gone, and it is in a session of its own.
            let script = format!("setsid sleep {sleep} & exit 0");
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null());
            shell.status().expect("there is a shell");
            eventually("the daemon runs", || (!processes_with(&sleep).is_empty()).then_some(()));
            let left = reap_everything(Duration::from_millis(200));
            let seen = left.iter().any(|line| line.contains(&*sleep));
            // Ends it.
            drop(sleep);
            let gone = reap_everything(Duration::from_secs(10)).is_empty();
            i32::from(!(seen && gone))
        }
        _ => {
            // SAFETY: before main there is one thread, and it borrows no descriptors.
            let unshared =
                unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) };
            if unshared.is_err() {
                return 77;
            }
            let host = Host::now();
            let tmpfs = rustix::mount::mount("tmpfs", "/var", "tmpfs", MountFlags::empty(), None);
            tmpfs.expect("a user namespace's own tmpfs");
            let seen = host.grown().iter().any(|line| line.starts_with("mount") && line.contains(" /var "));
            i32::from(!seen)
        }
    }
}

#[test]
fn a_process_that_stays_is_found() {
    ran(role::play("planter").arg("process")).ok();
}

#[test]
fn a_mount_that_stays_is_found() {
    let ran = ran(role::play("planter").arg("mount"));
    if ran.code == 77 {
        return skipped("this host denies the user namespace in which to plant a mount");
    }
    ran.ok();
}

#[test]
fn a_cgroup_that_stays_is_found_at_any_depth() {
    let scratch = Scratch::new();
    assert!(cgroups(scratch.path()).is_empty());
    let planted = scratch.dir("memory/user.slice/kennel-1-2");
    assert_eq!(cgroups(scratch.path()), [planted]);
}

#[test]
fn a_file_that_stays_is_found() {
    let scratch = Scratch::new();
    scratch.write("work/file", "");
    let before = scratch.listing();
    scratch.write("work/.git/placeholder", "");
    assert_ne!(scratch.listing(), before);
}
