//! /sys: how many processors there are, and nothing that tells this host from another or that only root may read.

use std::path::Path;
use std::process::Command;

use kennel_tests::{am_root, kennel, ran, run_sh, skipped};

use crate::escape::yard::EVERY_WAY;

const LOOSE: [&[&str]; 6] = [
    &["--allow-write", "/"],
    &["--allow-read", "/sys"],
    &["--allow-read", "/sys/fs"],
    &["--deny-read", "/sys/fs/absent"],
    &["--reads", "listed", "--allow-read", "/sys"],
    &["--reads", "listed", "--allow-read", "/"],
];

/// Every way to ask for more.
fn ways() -> impl Iterator<Item = Vec<&'static str>> {
    EVERY_WAY.iter().chain(&LOOSE).map(|flags| flags.to_vec())
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[test]
#[kennel_claim::claim("processes/sys-tells-little")]
fn the_hosts_hardware_addresses_cannot_be_read() {
    let interfaces = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let addresses: Vec<String> = interfaces
        .filter_map(|interface| read(&interface.path().join("address")))
        .filter(|address| address.chars().any(|c| c != '0' && c != ':'))
        .collect();
    let Some(first) = addresses.first() else { return skipped("no interface here has a hardware address") };
    let find = |address: &str| {
        format!(
            "grep -rlsiF {address} /sys/class /sys/devices /proc/net/ /proc/self/net/ /proc/1/net/ | head -1"
        )
    };
    let outside = Command::new("sh").args(["-c", &find(first)]).output().unwrap();
    assert!(!outside.stdout.is_empty(), "outside it shows");
    for address in &addresses {
        for flags in ways() {
            let told = run_sh(&flags, &find(address));
            assert_eq!(told.stdout, "", "{address} with {flags:?}");
        }
    }
    // Who shares the host's network sees its interfaces.
    let told = run_sh(["--net", "host"], "cat /sys/class/net/*/address").ok();
    assert!(told.stdout.contains(first.as_str()), "{told:?}");
}

#[test]
#[kennel_claim::claim("processes/sys-tells-little")]
fn the_hosts_interfaces_disks_firmware_and_devices_have_no_names_inside() {
    for flags in ways() {
        let script = "for name in class block bus dev firmware module power hypervisor kernel/debug kernel/tracing \
                          kernel/security kernel/slab kernel/notes kernel/btf devices/virtual devices/pci0000:00 devices/platform \
                          devices/LNXSYSTM:00 fs/bpf fs/pstore fs/fuse; do
                          test -e \"/sys/$name\" && echo $name
                      done; ls /sys/devices; exit 0";
        let told = run_sh(&flags, script).ok();
        assert_eq!(told.stdout, "system\n", "{flags:?}");
    }
    assert!(Path::new("/sys/class").exists() && Path::new("/sys/kernel/slab").exists(), "outside they have");
}

/// Permissions alone keep these from others, and a sandbox of root's is still user 0.
#[test]
#[kennel_claim::claim("processes/sys-tells-little")]
fn nothing_that_only_root_may_read_is_in_the_sys_of_roots_sandbox() {
    if !am_root() {
        return skipped("only root could read it outside");
    }
    let script = "find /sys \\( -type f -o -type d \\) -readable ! -perm -o+r 2>/dev/null | head -3";
    let outside = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(!outside.stdout.is_empty(), "outside there is something");
    for flags in ways().chain([vec!["--net", "host"]]) {
        let told = run_sh(&flags, script).ok();
        assert_eq!(told.stdout, "", "{flags:?}");
    }
    let told = ran(&mut kennel(["run", "--allow-read", "/sys/kernel", "--", "true"])).expect_code(125);
    assert!(told.stderr.contains("what only root may read"), "{}", told.stderr);
}

#[test]
fn what_programs_ask_of_the_machine_is_there() {
    let online = read(Path::new("/sys/devices/system/cpu/online")).unwrap();
    for flags in [&[][..], &["--reads", "listed"], &["--allow-read", "/sys"]] {
        let told =
            run_sh(flags, "cat /sys/devices/system/cpu/online /sys/devices/system/cpu/possible; nproc").ok();
        assert_eq!(told.stdout.lines().next(), Some(online.as_str()), "{flags:?}");
        assert_eq!(told.stdout.lines().count(), 3, "{flags:?}");
    }
    let cgroups: Vec<_> = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().collect();
    if !cgroups.is_empty() {
        let told = run_sh(["--no-settings"], "ls /sys/fs/cgroup | wc -l").ok();
        assert_ne!(told.stdout.trim(), "0");
    }
}

#[test]
fn an_ordinary_user_can_ask_for_more_of_the_hardware() {
    if am_root() {
        return skipped("root cannot: what only root may read could be in it");
    }
    let told =
        run_sh(["--allow-read", "/sys/class", "--allow-read", "/sys/block"], "ls /sys/class | wc -l").ok();
    assert_ne!(told.stdout.trim(), "0");
    // To read, not to write.
    let told =
        run_sh(["--allow-write", "/", "--allow-read", "/sys/class"], "find /sys -writable -type f | wc -l");
    assert_eq!(told.stdout.trim(), "0");
}
