//! What is written to a root, and where programs find themselves in it.

use kennel_tests::{Scratch, am_root, program};

use super::tree::{bare, distribution, small};
use super::{run, run_in, ways};

#[test]
#[kennel_claim::claim("files/root-file-system-is-unchanged")]
fn writes_stay_in_the_layer_and_vanish() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    let before = scratch.listing();
    let script = "echo changed > /etc/plain && rm /etc/shadow && mkdir -p /new/folder && echo x > /new/file && \
         rm -r /srv/data && mkdir /srv/data && chmod 700 /bin/busybox && cat /etc/plain && ls /srv/data";
    let inside = run(&root, &[], script).ok();
    assert_eq!(inside.stdout, "changed\n");
    assert_eq!(scratch.listing(), before);
    assert_eq!(std::fs::read_to_string(root.join("etc/plain")).unwrap(), "plain\n");
    assert_eq!(run(&root, &[], "cat /etc/plain; ls /new").stdout, "plain\n");
}

/// The upper of an overlay needs extended attributes of users, which file systems in memory have since 6.6.
#[test]
#[kennel_claim::claim("hosts/layers-or-an-error")]
fn where_there_can_be_no_layer_the_error_says_so_and_a_read_only_root_works() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    if super::layers() {
        return kennel_tests::skipped("this kernel makes writable layers");
    }
    let refused = run(&root, &[], "true").expect_code(125);
    assert!(refused.stderr.contains("before Linux 6.6"), "{refused:?}");
    assert!(refused.stderr.contains("--rootfs-write none"), "{refused:?}");
    assert_eq!(run(&root, &["--rootfs-write", "none"], "cat /etc/plain").ok().stdout, "plain\n");
    let best = run(&root, &["--best-effort"], "cat /etc/plain").ok();
    assert!(best.stdout == "plain\n" && best.stderr.contains("a writable root"), "{best:?}");
}

#[test]
#[kennel_claim::claim("files/root-file-system-shows-the-list")]
fn nothing_of_the_host_is_inside() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    let secret = scratch.write("secret", "the host's\n");
    for write in ways() {
        let flags = ["--rootfs-write", write];
        let script = format!(
            "ls -a /; ls -a /..; cat /../../..{} {} /proc/1/root{}; cat /proc/mounts",
            secret.display(),
            secret.display(),
            secret.display()
        );
        let inside = run(&root, &flags, &script);
        assert!(!inside.stdout.contains("the host's"), "{write}: {inside:?}");
        assert!(!inside.stdout.contains("var\n") && !inside.stdout.contains("usr\n"), "{write}: {inside:?}");
        // All mounts are the sandbox's own or below the root, and one stands at the root.
        let roots = inside.stdout.lines().filter(|line| line.split(' ').nth(1) == Some("/")).count();
        assert_eq!(roots, 1, "{write}: {inside:?}");
        assert!(!inside.stdout.contains(" /old"), "{write}: {inside:?}");
    }
}

#[test]
fn the_folders_of_every_sandbox_are_there_though_the_root_has_none_of_them() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    for write in ways() {
        let script = "cat /proc/self/status | grep -c ^Pid; echo x > /dev/null && echo x > /tmp/file && cat /tmp/file; \
             ls /sys; ls /dev/pts; stat -c %a /tmp";
        let inside = run(&root, &["--rootfs-write", write], script).ok();
        assert!(inside.stdout.starts_with("1\nx\n"), "{write}: {inside:?}");
        assert!(inside.stdout.contains("fs\n") && inside.stdout.contains("ptmx\n"), "{write}: {inside:?}");
        assert!(inside.stdout.ends_with("1777\n"), "{write}: {inside:?}");
    }
    assert!(!root.join("proc").exists() && !root.join("dev").exists() && !root.join("tmp").exists());
}

#[test]
#[kennel_claim::claim("files/root-file-system-is-unchanged")]
fn a_read_only_root_cannot_be_written() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    let script = "echo x > /etc/plain; echo x > /new; mkdir /etc/new; chmod 600 /etc/plain; touch /etc/plain; rm /etc/plain; cat /etc/plain";
    let inside = run(&root, &["--rootfs-write", "none"], script).ok();
    assert_eq!(inside.stdout, "plain\n");
    assert_eq!(inside.stderr.matches("Read-only file system").count(), 6, "{inside:?}");
}

#[test]
fn the_layer_holds_no_more_than_it_may() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    let script = "busybox dd if=/dev/zero of=/big bs=1M count=64; ls -s /big";
    let inside = run(&root, &["--tmp-size", "8M"], script);
    assert!(inside.stderr.contains("No space left on device"), "{inside:?}");
}

#[test]
fn another_distribution_runs_with_its_own_loader_and_path() {
    let scratch = Scratch::new();
    let Some(root) = distribution(&scratch) else { return };
    for write in ways() {
        let mut command = kennel_tests::kennel(["run", "--rootfs-write", write, "--rootfs"]);
        command.arg(&root).args(["--", "env"]).env("PATH", "/nowhere/bin").env("HOME", "/home/somebody");
        let inside = kennel_tests::ran(&mut command).ok();
        let path = "PATH=/nowhere/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n";
        assert!(inside.stdout.contains(path), "{inside:?}");
        // The caller's home is not there.
        assert!(inside.stdout.contains("HOME=/tmp\n"), "{inside:?}");
        let inside = run(&root, &["--rootfs-write", write], "cat /etc/os-release; readlink /bin").ok();
        assert_eq!(inside.stdout, "ID=other\nusr/bin\n");
    }
}

#[test]
fn the_command_starts_where_the_caller_is_or_was_told() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    let work = scratch.dir("work");
    let there = work.to_str().unwrap();
    for write in ways() {
        let how = ["--rootfs-write", write];
        assert_eq!(run_in(&root, &work, &how, "pwd").ok().stdout, "/\n");
        let bound = ["--rootfs-write", write, "--allow-write", there];
        assert_eq!(run_in(&root, &work, &bound, "pwd").ok().stdout, format!("{there}\n"));
        let told = ["--rootfs-write", write, "--workdir", "/srv/data"];
        assert_eq!(run_in(&root, &work, &told, "pwd").ok().stdout, "/srv/data\n");
        let missing = ["--rootfs-write", write, "--workdir", "/srv/none"];
        let missing = run_in(&root, &work, &missing, "pwd").expect_code(125);
        assert!(missing.stderr.contains("/srv/none: does not exist inside"), "{missing:?}");
    }
}

#[test]
fn setuid_programs_and_devices_in_a_root_are_worth_nothing() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    let copy = root.join("bin/setuid");
    std::fs::copy(root.join("bin/busybox"), &copy).unwrap();
    std::fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
    if am_root() {
        // Of root's, but not to be written by others; and the null device, and a disk.
        let made =
            std::process::Command::new("mknod").arg(root.join("etc/null")).args(["c", "1", "3"]).status();
        assert!(made.unwrap().success());
    }
    for write in ways() {
        let inside =
            run(&root, &["--rootfs-write", write], "grep ' / ' /proc/mounts; cat < /etc/null; true").ok();
        assert!(inside.stdout.contains("nosuid") && inside.stdout.contains("nodev"), "{write}: {inside:?}");
        if am_root() {
            assert!(inside.stderr.contains("Permission denied"), "{write}: {inside:?}");
        }
    }
}

#[test]
fn what_programs_notice_of_the_layer_is_as_documented() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    // One device number for files and folders; a socket made inside can be connected to.
    let script = "stat -c %d / /etc/plain /etc /bin/busybox | busybox sort -u | wc -l; mv /srv/data /srv/moved && cat /srv/moved/a.key";
    let inside = run(&root, &[], script).ok();
    assert_eq!(inside.stdout, "1\na key\n");
}

#[test]
fn a_unix_socket_in_the_layer_can_be_connected_to() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    if program("python3").is_none() {
        return kennel_tests::skipped("there is no python3");
    }
    // Its interpreter and libraries come from the host, at their own paths.
    let script = "import socket\nl = socket.socket(socket.AF_UNIX); l.bind('/srv/s'); l.listen()\n\
         c = socket.socket(socket.AF_UNIX); c.connect('/srv/s'); print('connected')";
    let python = program("python3").unwrap().canonicalize().unwrap();
    let mut command = kennel_tests::kennel(["run", "--unix-sockets", "listed", "--rootfs"]);
    command.arg(&root);
    for path in ["/usr", "/root/.pyenv"].iter().filter(|path| python.starts_with(path) || **path == "/usr") {
        command.args(["--allow-read", path]);
    }
    for name in ["lib", "lib64"] {
        if !root.join(name).exists() {
            std::os::unix::fs::symlink(format!("usr/{name}"), root.join(name)).unwrap();
        }
    }
    let inside = kennel_tests::ran(command.arg("--").arg(&python).args(["-c", script])).ok();
    assert_eq!(inside.stdout, "connected\n");
}
