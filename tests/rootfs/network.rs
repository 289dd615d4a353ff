//! `/etc/resolv.conf` and `/etc/hosts` in a root, whatever it has there.

use std::os::unix::fs::symlink;
use std::path::Path;

use kennel_tests::Scratch;

use super::tree::{bare, small};
use super::{run, ways};

const SHOW: &str = "cat /etc/resolv.conf; echo --; cat /etc/hosts";

/// What it is called, and what arranges it.
type Variant<'r> = (&'static str, Box<dyn Fn() + 'r>);

/// The ways in which a root has its resolv.conf.
fn variants(root: &Path) -> Vec<Variant<'_>> {
    let etc = root.join("etc");
    let file = etc.join("resolv.conf");
    let clear = {
        let file = file.clone();
        move || drop(std::fs::remove_file(&file))
    };
    let (first, second, third, fourth) = (clear.clone(), clear.clone(), clear.clone(), clear);
    let (a, b, c) = (file.clone(), file.clone(), file);
    vec![
        ("missing", Box::new(first)),
        (
            "a file",
            Box::new(move || {
                second();
                std::fs::write(&a, "nameserver 192.0.2.1\n").unwrap();
            }),
        ),
        (
            "a dangling link",
            Box::new(move || {
                third();
                symlink("../run/systemd/resolve/stub-resolv.conf", &b).unwrap();
            }),
        ),
        (
            "an absolute link in circles",
            Box::new(move || {
                fourth();
                symlink("/etc/resolv.conf", &c).unwrap();
            }),
        ),
    ]
}

#[test]
fn an_allow_list_has_its_files_whatever_the_root_has() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    for (name, arrange) in variants(&root) {
        arrange();
        let inside = run(&root, &["--allow-domain", "example.com"], SHOW).ok();
        assert!(inside.stdout.starts_with("nameserver 127.0.0.1\n"), "{name}: {inside:?}");
        assert!(inside.stdout.contains("--\n127.0.0.1 localhost\n"), "{name}: {inside:?}");
        // Without a layer what is missing stays so: a C library asks 127.0.0.1 then.
        run(&root, &["--allow-domain", "example.com", "--rootfs-write", "none"], "true").ok();
    }
    assert!(!root.join("etc/hosts").exists());
}

#[test]
fn the_hosts_network_comes_with_the_hosts_files() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    let [resolv, hosts] =
        ["/etc/resolv.conf", "/etc/hosts"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    for (name, arrange) in variants(&root) {
        arrange();
        for how in ways() {
            let inside = run(&root, &["--net", "host", "--rootfs-write", how], SHOW).ok();
            assert_eq!(inside.stdout, format!("{resolv}--\n{hosts}"), "{name}, {how}");
        }
    }
    // A rule hides it all the same.
    // Never through a link, which leads the test to the host's own.
    std::fs::remove_file(root.join("etc/resolv.conf")).unwrap();
    scratch.write("root/etc/resolv.conf", "x\n");
    let hidden = run(&root, &["--net", "host", "--deny-read", "/etc/resolv.conf"], "cat /etc/resolv.conf")
        .expect_code(1);
    assert!(hidden.stdout.is_empty(), "{hidden:?}");
}

#[test]
fn without_a_network_a_root_keeps_its_own_files() {
    let scratch = Scratch::new();
    let Some(root) = bare(&scratch) else { return };
    scratch.write("root/etc/resolv.conf", "nameserver 192.0.2.1\n");
    // A container engine leaves an empty one behind.
    scratch.write("root/etc/hosts", "");
    for how in ways() {
        let inside = run(&root, &["--rootfs-write", how], SHOW).ok();
        assert!(
            inside.stdout.starts_with("nameserver 192.0.2.1\n--\n127.0.0.1 localhost\n"),
            "{how}: {inside:?}"
        );
    }
    scratch.write("root/etc/hosts", "192.0.2.2 mine\n");
    for how in ways() {
        assert!(run(&root, &["--rootfs-write", how], SHOW).ok().stdout.ends_with("--\n192.0.2.2 mine\n"));
    }
}

#[test]
fn a_root_without_etc_or_with_a_link_in_its_place_has_the_files_too() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    std::fs::rename(root.join("etc"), root.join("config")).unwrap();
    for arrange in [false, true] {
        if arrange {
            symlink("/config", root.join("etc")).unwrap();
        }
        let inside = run(&root, &["--allow-domain", "example.com"], SHOW).ok();
        assert!(inside.stdout.starts_with("nameserver 127.0.0.1\n"), "{arrange}: {inside:?}");
        let other = run(&root, &["--net", "host"], "cat /etc/hosts").ok();
        assert_eq!(other.stdout, std::fs::read_to_string("/etc/hosts").unwrap_or_default());
    }
    assert_eq!(run(&root, &[], "cat /etc/plain").ok().stdout, "plain\n");
}
