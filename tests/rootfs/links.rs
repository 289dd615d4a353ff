//! Roots that somebody made to get out of the sandbox, or to lead kennel astray.

use std::os::unix::fs::symlink;
use std::path::Path;

use kennel_tests::{Scratch, eventually};

use super::tree::{bare, small};
use super::{run, run_in, ways};

#[test]
#[kennel_claim::claim("files/root-file-system-shows-the-list")]
fn links_in_the_place_of_kennels_own_folders_lead_nowhere() {
    for target in ["/", "..", "/proc/self/root", "/proc/1/root/tmp", "/etc", "nowhere", "proc", "/tmp"] {
        let scratch = Scratch::new();
        let Some(root) = bare(&scratch) else { return };
        for name in ["proc", "dev", "sys", "tmp", "run"] {
            symlink(target, root.join(name)).unwrap();
        }
        let before = scratch.listing();
        for how in ways() {
            let script = "grep -c . /proc/self/status >/dev/null && echo x > /tmp/file && cat /tmp/file > /dev/null && \
                 ls /etc/plain && grep -c ' /tmp ' /proc/mounts";
            let inside = run(&root, &["--rootfs-write", how], script).ok();
            assert_eq!(inside.stdout, "/etc/plain\n1\n", "{how} {target}: {inside:?}");
        }
        assert_eq!(scratch.listing(), before, "{target}");
    }
}

#[test]
fn files_in_the_place_of_folders_are_no_trouble() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    for name in ["proc", "dev", "sys", "tmp"] {
        scratch.write(&format!("root/{name}"), "a file\n");
    }
    for how in ways() {
        run(&root, &["--rootfs-write", how], "echo x > /tmp/file && cat /proc/self/status > /dev/null").ok();
    }
}

#[test]
#[kennel_claim::claim("files/root-file-system-shows-the-list")]
fn a_hosts_path_behind_a_link_of_the_root_is_refused_by_name() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    let work = scratch.dir("work");
    symlink("/srv", root.join("var")).unwrap();
    for how in ways() {
        let flags = ["--rootfs-write", how, "--allow-write", work.to_str().unwrap()];
        let refused = run_in(&root, &work, &flags, "true").expect_code(125);
        assert!(
            refused.stderr.contains("a folder above it is a symlink in the root file system"),
            "{refused:?}"
        );
        assert!(refused.stderr.contains("help: mount it"), "{refused:?}");
        // The way out that it names.
        let mount = format!("{}:/srv/data:rw", work.display());
        let flags = ["--rootfs-write", how, "--mount", &mount];
        run(&root, &flags, "echo x > /srv/data/file").ok();
        std::fs::remove_file(work.join("file")).unwrap();
    }
    assert!(root.join("srv/data/a.key").exists());
}

#[test]
#[kennel_claim::claim("files/root-file-system-shows-the-list")]
fn absolute_links_and_dots_stay_in_the_root() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    let secret = scratch.write("secret", "the host's\n");
    symlink(&secret, root.join("etc/absolute")).unwrap();
    symlink(format!("../../../../../../..{}", secret.display()), root.join("etc/dots")).unwrap();
    symlink("/proc/self/root/../..", root.join("etc/magic")).unwrap();
    symlink("/etc/loop", root.join("etc/loop")).unwrap();
    for how in ways() {
        let script = format!("cat /etc/absolute /etc/dots /etc/magic{} /etc/loop/x; true", secret.display());
        let inside = run(&root, &["--rootfs-write", how, "--deny-read", "/etc/loop"], &script).ok();
        assert!(inside.stdout.is_empty(), "{how}: {inside:?}");
    }
}

#[test]
#[kennel_claim::claim("files/root-file-system-shows-the-list")]
fn planted_overlay_attributes_hide_nothing_of_others_and_redirect_nothing() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    let set = |path: &Path, name: &str, value: &[u8]| {
        rustix::fs::lsetxattr(path, name, value, rustix::fs::XattrFlags::empty())
    };
    // A redirect to somebody's folder, an opaque mark, metadata alone: what an overlay's upper layer may say.
    let data = root.join("srv/data");
    if set(&data, "user.overlay.redirect", b"/etc").is_err() {
        return kennel_tests::skipped("this file system has no user attributes");
    }
    set(&root.join("etc"), "user.overlay.opaque", b"y").unwrap();
    let inside =
        run(&root, &[], "ls /srv/data; cat /etc/plain; mv /etc /etc2; echo x > /etc/new && ls /srv/data")
            .ok();
    assert_eq!(inside.stdout, "a.key\nplain\na.key\n", "{inside:?}");
}

#[test]
#[kennel_claim::claim("files/root-file-system-is-the-one-seen")]
fn a_root_that_is_swapped_after_the_look_is_never_mounted() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    scratch.write("other/secret", "the host's\n");
    let (other, spare) = (scratch.join("other"), scratch.join("spare"));
    // The folder becomes another, and back, all the time.
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (root, other, spare, stop) = (root.clone(), other.clone(), spare.clone(), stop.clone());
        move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = std::fs::rename(&root, &spare).and_then(|()| std::fs::rename(&other, &root));
                let _ = std::fs::rename(&root, &other).and_then(|()| std::fs::rename(&spare, &root));
            }
        }
    });
    let mut outcomes = [0; 2];
    for round in 0..40 {
        let mut command = kennel_tests::kennel([
            "run",
            "--rootfs-write",
            ways()[round % ways().len()],
            "--deny-read",
            "/secret",
            "--rootfs",
        ]);
        command.arg(&root).args(["--", "/bin/cat", "/secret"]);
        let inside = kennel_tests::ran(&mut command);
        assert!(!inside.stdout.contains("the host's"), "{inside:?}");
        outcomes[usize::from(inside.stderr.contains("Stale file handle"))] += 1;
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    swapper.join().unwrap();
    eventually("the root is where it was", || root.join("bin").exists().then_some(()));
}

#[test]
#[kennel_claim::claim("files/root-file-system-is-the-one-seen")]
fn a_link_that_an_earlier_run_could_have_planted_is_no_root() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    let work = scratch.dir("work");
    // What was ./root in the project is a link by now, to a folder of the host's.
    let secret = scratch.dir("home");
    scratch.write("home/bin/sh", "");
    symlink(&secret, work.join("root")).unwrap();
    let refused = run_in(&work.join("root"), &work, &["--allow-write", work.to_str().unwrap()], "true")
        .expect_code(125);
    assert!(refused.stderr.contains("leads through the symlink"), "{refused:?}");
    drop(root);
}

#[test]
fn pipes_and_odd_files_in_a_root_keep_nobody_waiting() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    for name in ["hosts", "resolv.conf", "nsswitch.conf"] {
        let made = std::process::Command::new("mkfifo").arg(root.join("etc").join(name)).status();
        assert!(made.unwrap().success());
    }
    for how in ways() {
        for net in [&["--net", "none"][..], &["--net", "host"], &["--allow-domain", "example.com"]] {
            let flags = [&["--rootfs-write", how][..], net].concat();
            run(&root, &flags, "true").ok();
        }
    }
}

#[test]
fn folders_of_others_stay_shut_where_the_layer_makes_room_in_them() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    if kennel_tests::am_root() {
        // Root's sandboxes have the same rights on root's files; a file of another user's is the case here.
        let shut = root.join("var/tmp");
        std::fs::create_dir_all(&shut).unwrap();
        std::fs::write(shut.join("private"), "of another user\n").unwrap();
        for path in [shut.join("private"), shut.clone()] {
            std::os::unix::fs::chown(&path, Some(12345), Some(12345)).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        }
        let work = scratch.dir("work");
        let refused =
            run_in(&root, &work, &["--allow-write", work.to_str().unwrap()], "true").expect_code(125);
        assert!(refused.stderr.contains("belongs to another user and is closed"), "{refused:?}");
        let script = "ls /var/tmp; cat /var/tmp/private; chmod 777 /var/tmp; mv /var/tmp /var/other; cat /var/other/private; true";
        let inside = run(&root, &[], script).ok();
        assert!(
            !inside.stdout.contains("private") && !inside.stdout.contains("of another user"),
            "{inside:?}"
        );
    }
}
