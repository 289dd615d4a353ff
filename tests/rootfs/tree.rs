//! Root file systems for tests: one with a single static program, and one with this host's own shell and C library.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use kennel_tests::{Scratch, program, skipped};

/// What busybox is asked for by name.
const APPLETS: &[&str] = &[
    "sh", "cat", "chmod", "chown", "cp", "df", "du", "echo", "env", "find", "grep", "head", "id", "ln", "ls",
    "mkdir", "mknod", "mount", "mv", "nc", "nslookup", "pwd", "readlink", "rm", "rmdir", "sed", "sleep",
    "stat", "touch", "umount", "wc",
];

/// A root with busybox and nothing else: `bin`, and `etc` with three files. `None`, and the test says so, where there is no busybox
/// that needs no C library.
pub fn bare(scratch: &Scratch) -> Option<PathBuf> {
    let root = scratch.dir("root");
    let busybox = program("busybox").filter(|path| is_static(path));
    let Some(busybox) = busybox else {
        skipped("there is no static busybox (package busybox-static)");
        return None;
    };
    scratch.dir("root/bin");
    std::fs::copy(busybox, root.join("bin/busybox")).expect("it can be read");
    for applet in APPLETS {
        symlink("busybox", root.join("bin").join(applet)).expect("a scratch folder is writable");
    }
    scratch.write("root/etc/shadow", "the root's secret\n");
    scratch.write("root/etc/plain", "plain\n");
    scratch.write("root/srv/data/a.key", "a key\n");
    Some(root)
}

/// The same, where this kernel makes writable layers.
pub fn small(scratch: &Scratch) -> Option<PathBuf> {
    bare(scratch).filter(|_| has_layers())
}

/// Whether a root can have a writable layer here. Says so if not.
fn has_layers() -> bool {
    let has = super::layers();
    if !has {
        skipped("before Linux 6.6 an in-memory file system cannot hold a writable layer");
    }
    has
}

fn is_static(path: &Path) -> bool {
    let file = std::fs::read(path).unwrap_or_default();
    // The interpreter's path is in every dynamic program.
    !file.windows(10).any(|window| window == b"/ld-linux-")
        && !file.windows(8).any(|window| window == b"/ld-musl")
}

/// A root of a merged-/usr distribution: this host's dash, coreutils and what they link to.
pub fn distribution(scratch: &Scratch) -> Option<PathBuf> {
    let root = scratch.dir("distribution");
    for folder in [
        "usr/bin",
        "usr/sbin",
        "usr/lib",
        "usr/lib64",
        "etc",
        "proc",
        "dev",
        "sys",
        "tmp",
        "run",
        "var",
        "root",
        "home",
    ] {
        scratch.dir(&format!("distribution/{folder}"));
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), root.join(name)).expect("a scratch folder is writable");
    }
    symlink("/run", root.join("var/run")).expect("a scratch folder is writable");
    for name in ["sh", "cat", "ls", "id", "mkdir", "env", "readlink"] {
        let Some(path) = program(name).and_then(|path| path.canonicalize().ok()) else {
            skipped("the programs of a distribution are not there");
            return None;
        };
        std::fs::copy(&path, root.join("usr/bin").join(name)).expect("it can be read");
        let linked = Command::new("ldd").arg(&path).output().expect("ldd is part of the C library");
        for word in
            String::from_utf8_lossy(&linked.stdout).split_whitespace().filter(|word| word.starts_with('/'))
        {
            let target = root.join(word.trim_start_matches('/'));
            std::fs::create_dir_all(target.parent().expect("it has a folder"))
                .expect("a scratch folder is writable");
            let _ = std::fs::copy(word, target);
        }
    }
    std::fs::write(root.join("etc/os-release"), "ID=other\n").expect("a scratch folder is writable");
    Some(root).filter(|_| has_layers())
}
