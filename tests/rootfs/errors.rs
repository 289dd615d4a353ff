//! What is said when a root, or a program in it, is not what was meant.

use kennel_tests::{Scratch, kennel, ran};

use super::tree::{distribution, small};
use super::{run, run_in};

#[test]
fn a_root_that_is_none_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.write("file", "");
    for (path, what) in [
        (scratch.join("missing"), "no such file or directory"),
        (file, "not a directory"),
        ("/".into(), "is the host's own root"),
        ("/proc".into(), "file system of the host's kernel"),
    ] {
        let refused = run(&path, &[], "true").expect_code(125);
        assert!(refused.stderr.contains(what), "{}: {refused:?}", path.display());
    }
}

#[test]
fn programs_that_the_root_does_not_have_are_named() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    let run = |words: &[&str]| ran(kennel(["run", "--rootfs"]).arg(&root).arg("--").args(words));
    let missing = run(&["bash", "-c", "true"]).expect_code(127);
    assert!(missing.stderr.contains("bash: command not found"), "{missing:?}");
    // A dynamic program in a root without its loader, and a script without its shell.
    std::fs::copy("/bin/cat", root.join("bin/dynamic")).unwrap();
    scratch.write("root/bin/script", "#!/usr/bin/perl\n");
    std::fs::set_permissions(root.join("bin/script"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    for name in ["dynamic", "script"] {
        let failed = run(&[name]);
        assert!(failed.code == 126 || failed.code == 127, "{failed:?}");
        assert!(failed.stderr.contains("the interpreter that it names does not exist inside"), "{failed:?}");
        assert!(failed.stderr.contains(name), "{failed:?}");
    }
}

#[test]
fn rules_that_would_take_the_whole_root_are_refused() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    for list in ["--deny-read", "--deny-write"] {
        let refused = run(&root, &[list, "/"], "true").expect_code(125);
        assert!(refused.stderr.contains("is the root file system as a whole"), "{refused:?}");
    }
}

#[test]
fn a_found_settings_file_cannot_set_a_root_and_can_make_it_read_only() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    let work = scratch.dir("work");
    scratch.write("work/kennel.toml", &format!("[files]\nrootfs = {:?}\n", root.display().to_string()));
    let ignored = ran(kennel(["run", "--", "true"]).current_dir(&work));
    assert!(ignored.stderr.contains("files.rootfs"), "{ignored:?}");
    assert!(!ran(kennel(["run", "--", "ls", "/usr"]).current_dir(&work)).stdout.is_empty());
    scratch.write("work/kennel.toml", "[files]\nrootfs_write = \"none\"\n");
    let inside = run_in(&root, &work, &[] as &[&str], "echo x > /new");
    assert!(inside.stderr.contains("Read-only"), "{inside:?}");
}

#[test]
fn without_namespaces_there_is_no_root_of_its_own() {
    let scratch = Scratch::new();
    let Some(root) = distribution(&scratch) else { return };
    // A plan for it says what is done.
    let plan = ran(kennel(["plan", "--steps", "--rootfs"]).arg(&root).args(["--", "true"])).ok();
    assert!(plan.stdout.contains("under the writable layer"), "{plan:?}");
    let plan = ran(kennel(["plan", "--steps", "--rootfs-write", "none", "--rootfs"])
        .arg(&root)
        .args(["--", "true"]))
    .ok();
    assert!(plan.stdout.contains("as the root, read-only"), "{plan:?}");
}
