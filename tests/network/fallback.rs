//! Kernels without nftables: a filter around kennel refuses the socket that speaks to it, as such a kernel would.

use std::process::Command;

use kennel_tests::ran;

use crate::network::there::{GREETER, ODD_HTTP};
use crate::network::{BOTH, Told, Way, allowing, by, told_by};
use kennel_tests::world::{THERE, world};

/// Makes `socket(AF_NETLINK, …, NETLINK_NETFILTER)` fail.
fn without_nftables(command: &mut Command) {
    const NETFILTER: u32 = libc::NETLINK_NETFILTER as u32;
    let load = |offset: u32| libc::sock_filter {
        code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16,
        jt: 0,
        jf: 0,
        k: offset,
    };
    // Skips what is left of these eight when the value is another one.
    let equal = |value: u32, left: u8| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: left,
        k: value,
    };
    let answer =
        |value: u32| libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: value };
    // struct seccomp_data: the number at 0, the arguments, 8 bytes each, from 16 on.
    let program = vec![
        load(0),
        equal(libc::SYS_socket as u32, 5),
        load(16),
        equal(libc::AF_NETLINK as u32, 3),
        load(32),
        equal(NETFILTER, 1),
        answer(libc::SECCOMP_RET_ERRNO | libc::EPROTONOSUPPORT as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    kennel_tests::filter::put_on(command, program);
}

fn allowed_sh(way: Way, hosts: &[&str], script: &str) -> Told {
    told_by(&allowing(hosts), &by(way, &["sh", "-c", script]), without_nftables)
}

#[test]
fn the_filter_of_these_tests_takes_nftables_away() {
    let Some(python) = kennel_tests::world::python() else {
        return kennel_tests::skipped("python3 is not installed");
    };
    let script =
        "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, int(__import__('sys').argv[1]))";
    for (family, code) in [("0", 0), ("12", 1)] {
        let mut command = Command::new(&python);
        command.args(["-c", script, family]);
        without_nftables(&mut command);
        ran(&mut command).expect_code(code);
    }
}

#[test]
fn without_nftables_the_usual_ports_and_those_that_rules_name_are_carried() {
    let Some(world) = world() else { return };
    for way in BOTH {
        let told = allowed_sh(way, &["*.web.test"], "curl -sS http://plain.web.test/hello").ok();
        assert_eq!(told.ran.stdout, "hello from plain.web.test\n");
        let rule = format!("named.web.test:{ODD_HTTP}");
        let script = format!("curl -sS http://named.web.test:{ODD_HTTP}/hello");
        let told = allowed_sh(way, &[&rule], &script).ok();
        assert_eq!(told.ran.stdout, format!("hello from named.web.test:{ODD_HTTP}\n"));
        if let Some(ca) = world.https() {
            let script = format!("curl -sS --cacert {} https://plain.web.test/hello", ca.display());
            allowed_sh(way, &["*.web.test"], &script).ok();
        }
    }
}

#[test]
#[kennel_claim::claim("network/without-nftables")]
fn without_nftables_nothing_more_gets_out_and_it_fails_at_once() {
    let Some(world) = world() else { return };
    let script = format!(
        "begun=$(date +%s)
         curl -sf -m 30 http://{THERE}/bare && exit 1
         curl -sf -m 30 http://bare.elsewhere.test/bare && exit 2
         curl -sf -m 30 http://bare.web.test:{GREETER}/bare && exit 3
         test $(($(date +%s) - begun)) -lt 20 || exit 4"
    );
    allowed_sh(Way::Plain, &["bare.web.test"], &script).ok();
    world.saw_nothing_of("/bare");
    world.saw_nothing_of("bare.elsewhere");
}
