//! Ways to talk: sockets of the host's daemons, descriptors and credentials in messages, netlink, raw packets.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;
use std::time::Duration;

use kennel_tests::probe::{Arg, Script, probe_inside, probe_outside};
use kennel_tests::{Scratch, args, ran, run_sh, skipped};
use libc::{EACCES, EAFNOSUPPORT, ECONNREFUSED, ENOENT, EPERM, EROFS};

use crate::escape::yard::EVERY_WAY;

/// `struct sockaddr_un`.
fn unix_address(name: &[u8]) -> Vec<u8> {
    let mut bytes = libc::AF_UNIX.to_ne_bytes()[..2].to_vec();
    bytes.extend(name);
    bytes.push(0);
    bytes
}

fn connect(address: &[u8]) -> Script {
    let length = address.len() - 1;
    Script::new()
        .call(libc::SYS_socket, args![libc::AF_UNIX, libc::SOCK_STREAM, 0])
        .call(libc::SYS_connect, args![Arg::Answer(0), address.to_vec(), length])
}

#[test]
#[kennel_claim::claim("processes/daemons-are-out-of-reach")]
fn abstract_sockets_of_the_host_cannot_be_reached() {
    let name = format!("kennel-test-{}", std::process::id());
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let mut address = vec![0];
    address.extend(name.as_bytes());
    let script = connect(&unix_address(&address));
    script.outside().ok(0).ok(1);
    script.inside(&[]).refused(0, &[EPERM]);
    script.inside(&["--unix-sockets", "all"]).ok(0).refused(1, &[ECONNREFUSED, EPERM]);
    // On the host's network the namespace does not help; Landlock's scope (Linux 6.12) does.
    for more in [&[][..], &["--seccomp", "none"], &["--user", "root"]] {
        let flags = [&["--unix-sockets", "all", "--net", "host"][..], more].concat();
        script.inside(&flags).ok(0).refused(1, &[EPERM]);
    }
}

/// Docker, D-Bus, ssh-agent and gpg-agent all listen on sockets with a path. A socket in a readable folder stands for
/// them all: a read-only mount does not keep anybody from connecting.
#[test]
#[kennel_claim::claim("processes/daemons-are-out-of-reach")]
fn sockets_of_daemons_cannot_be_reached() {
    let scratch = Scratch::new();
    let path = scratch.join("daemon");
    let _listener = UnixListener::bind(&path).unwrap();
    let script = connect(&unix_address(path.to_str().unwrap().as_bytes()));
    script.outside().ok(1);
    for profile in [&[][..], &["--seccomp", "strict"], &["--seccomp", "permissive"], &["--net", "host"]] {
        script.inside(profile).refused(0, &[EPERM]);
    }
    script.inside(&["--unix-sockets", "all"]).ok(1);
    // Not even by name, where they usually are.
    let told =
        run_sh(["--unix-sockets", "all"], "ls -A /run | head; test -S /run/docker.sock || echo none").ok();
    assert_eq!(told.stdout, "none\n", "/run is empty: {told:?}");
}

/// A socket need not come from `socket`: one of a connected pair of datagram sockets takes an address too.
#[test]
fn one_end_of_a_socketpair_reaches_no_named_socket() {
    let scratch = Scratch::new();
    let path = scratch.join("daemon");
    let daemon = UnixDatagram::bind(&path).unwrap();
    daemon.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let address = unix_address(path.to_str().unwrap().as_bytes());
    let length = address.len() - 1;
    let kinds = [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET, libc::SOCK_STREAM];
    for (index, kind) in kinds.into_iter().enumerate() {
        for flag in [0, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK] {
            let script = Script::new()
                .call(libc::SYS_socketpair, args![libc::AF_UNIX, kind | flag, 0, Arg::Zeros(8)])
                .call(libc::SYS_sendto, args![3, "hello", 5, 0, address.clone(), length])
                .call(libc::SYS_connect, args![3, address.clone(), length])
                .call(libc::SYS_bind, args![3, unix_address(b"/tmp/name"), 12]);
            if index < 2 {
                script.outside().ok(1);
                assert_eq!(daemon.recv(&mut [0; 16]).unwrap(), 5);
                let _ = std::fs::remove_file("/tmp/name");
            }
            for profile in [&[][..], &["--seccomp", "permissive"], &["--seccomp", "strict"]] {
                let told = script.inside(profile);
                let got = daemon.recv(&mut [0; 16]);
                assert!(got.is_err(), "type {kind} with {profile:?}: the daemon was reached: {told:?}");
                assert_ne!(told.errno(2), 0, "type {kind} with {profile:?}: connected: {told:?}");
            }
        }
    }
    // A pair of streams is how programs talk to their own children.
    Script::new()
        .call(
            libc::SYS_socketpair,
            args![libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, Arg::Zeros(8)],
        )
        .inside(&[])
        .ok(0);
}

#[test]
fn no_descriptor_of_the_host_arrives_in_a_message() {
    let scratch = Scratch::new();
    scratch.write("treasure", crate::escape::yard::SECRET);
    // An accomplice outside hands a descriptor to whoever connects.
    let words = [scratch.join("accomplice"), scratch.join("treasure")];
    let outside = ran(&mut probe_outside("messages", &words)).ok();
    assert!(outside.stdout.contains(crate::escape::yard::SECRET), "outside, it arrives: {outside:?}");
    let path = scratch.join("listener");
    let listener = UnixListener::bind(&path).unwrap();
    let script = connect(&unix_address(path.to_str().unwrap().as_bytes()));
    listener.set_nonblocking(true).unwrap();
    for profile in [&[][..], &["--seccomp", "permissive"], &["--seccomp", "strict"]] {
        script.inside(profile).refused(0, &[EPERM]);
        assert!(listener.accept().is_err(), "nobody got as far as to connect");
    }
}

#[test]
fn credentials_in_a_message_cannot_be_forged() {
    for more in EVERY_WAY {
        let told = ran(&mut probe_inside("credentials", more, &[""])).ok();
        assert_eq!(
            told.stdout, "own: sent\npid 1: EPERM\nuid of somebody else: EPERM\n",
            "{more:?}: {told:?}"
        );
    }
}

#[test]
#[kennel_claim::claim("kernel/needed-socket-families-only")]
fn netlink_answers_route_queries_and_nothing_else() {
    let mut script = Script::new();
    // NETLINK_ROUTE, then: usersock, netfilter, audit, connector, kobject events, generic, sock_diag, xfrm, crypto.
    for protocol in [0, 2, 12, 9, 11, 15, 16, 4, 6, 21] {
        script = script.call(libc::SYS_socket, args![libc::AF_NETLINK, libc::SOCK_RAW, protocol]);
    }
    for flags in [&[][..], &["--net", "host"], &["--seccomp", "permissive"]] {
        let told = script.inside(flags);
        told.ok(0);
        told.refused_all(1..3, &[EPERM]);
        // As if the kernel had no auditing: PAM goes on then, for a root inside too.
        told.refused(3, &[libc::EPROTONOSUPPORT]);
        told.refused_all(4..10, &[EPERM]);
    }
    let told = script.inside(&["--seccomp", "strict"]);
    told.refused_all(0..10, &[EPERM, EAFNOSUPPORT]);
}

/// RTM_NEWLINK for a dummy interface, and RTM_DELADDR of the loopback's: neither is a query.
#[test]
fn netlink_changes_no_interface() {
    // struct nlmsghdr (32 bytes in all, RTM_SETLINK, request and acknowledge), struct ifinfomsg: lo, down.
    let mut message = 32u32.to_ne_bytes().to_vec();
    message.extend(19u16.to_ne_bytes());
    message.extend(5u16.to_ne_bytes());
    message.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    message.extend([0, 0, 0, 0]);
    message.extend(1i32.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    message.extend(1u32.to_ne_bytes());
    let script = Script::new()
        .call(libc::SYS_socket, args![libc::AF_NETLINK, libc::SOCK_RAW, 0])
        .call(libc::SYS_sendto, args![Arg::Answer(0), message, 32, 0, 0, 0])
        .call(libc::SYS_recvfrom, args![Arg::Answer(0), Arg::Zeros(64), 64, 0, 0, 0]);
    for flags in [&[][..], &["--net", "host"], &["--net", "host", "--seccomp", "none", "--user", "root"]] {
        let told = script.inside(flags);
        // An acknowledgement of type NLMSG_ERROR carries the error at 16.
        let errno = i32::from_ne_bytes(told.ok(2).buffer(2)[16..20].try_into().unwrap());
        assert_eq!(errno, -EPERM, "{flags:?}: {told:?}");
    }
}

#[test]
#[kennel_claim::claim("kernel/needed-socket-families-only")]
fn raw_and_packet_sockets_cannot_be_made() {
    let script = Script::new()
        .call(libc::SYS_socket, args![libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP])
        .call(libc::SYS_socket, args![libc::AF_INET, libc::SOCK_RAW, 255])
        .call(libc::SYS_socket, args![libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6])
        .call(libc::SYS_socket, args![libc::AF_PACKET, libc::SOCK_RAW, 0x0300])
        .call(libc::SYS_socket, args![libc::AF_PACKET, libc::SOCK_DGRAM, 0])
        .call(libc::SYS_socket, args![libc::AF_INET, 10, 0x0300]);
    if kennel_tests::am_root() {
        script.outside().ok(0).ok(3);
    }
    for more in EVERY_WAY {
        for net in ["none", "host"] {
            let told = script.inside(&[&["--net", net][..], more].concat());
            told.refused_all(0..6, &[EPERM, EAFNOSUPPORT, EACCES]);
        }
    }
    // A nested user namespace has raw sockets, in a network of its own that leads nowhere.
    let nested = Script::new()
        .call(libc::SYS_unshare, args![libc::CLONE_NEWUSER])
        .call(libc::SYS_socket, args![libc::AF_PACKET, libc::SOCK_RAW, 0]);
    nested.inside(&["--seccomp", "none", "--net", "host"]).ok(0).refused(1, &[EPERM]);
}

#[test]
#[kennel_claim::claim("kernel/needed-socket-families-only")]
fn vsock_reaches_no_hypervisor() {
    let script = Script::new().call(libc::SYS_socket, args![libc::AF_VSOCK, libc::SOCK_STREAM, 0]);
    if script.outside().errno(0) != 0 {
        skipped("this kernel has no AF_VSOCK; the filter is asked all the same");
    }
    for flags in [&[][..], &["--net", "host"], &["--seccomp", "permissive"], &["--seccomp", "strict"]] {
        script.inside(flags).refused(0, &[EAFNOSUPPORT]);
    }
    let device = Script::new().open("/dev/vsock", libc::O_RDONLY).open("/dev/vhost-vsock", libc::O_RDONLY);
    device.inside(&["--seccomp", "none"]).refused(0, &[ENOENT]).refused(1, &[ENOENT]);
}

#[test]
#[kennel_claim::claim("processes/no-second-kernel-file-systems", "ends/cgroup-cannot-be-left")]
fn a_process_cannot_leave_its_cgroup() {
    let mut places = Vec::new();
    for folder in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"]
    {
        for file in ["cgroup.procs", "tasks", "release_agent", "cgroup.subtree_control"] {
            let path = Path::new(folder).join(file);
            if path.exists() {
                places.push(path);
            }
        }
    }
    if places.is_empty() {
        return skipped("no cgroup file system is mounted here");
    }
    let mut script =
        Script::new().call(libc::SYS_unshare, args![libc::CLONE_NEWUSER | libc::CLONE_NEWCGROUP]);
    for place in &places {
        script = script.open(place, libc::O_WRONLY);
        script = script.call(
            libc::SYS_mkdirat,
            args![libc::AT_FDCWD, &place.with_file_name("kennel-test-escape"), 0o755],
        );
    }
    // Not even who may write everything else, or shows the host's tree at another place as well.
    let open: [&[&str]; 2] = [&["--allow-write", "/"], &["--allow-write", "/", "--user", "root"]];
    // Where a home has what kennel keeps for itself, nobody can have all of the host's tree elsewhere.
    let whole: &[&str] = &["--mount", "/:/mnt:rw"];
    let is_shown = ran(kennel_tests::kennel(["run"]).args(whole).args(["--", "true"])).code == 0;
    for more in EVERY_WAY.into_iter().chain(open).chain(is_shown.then_some(whole)) {
        let told = script.inside(more);
        for index in 0..places.len() * 2 {
            told.refused(1 + index, &[EROFS, EACCES, EPERM]);
        }
    }
    let mut elsewhere = Script::new();
    for place in &places {
        elsewhere = elsewhere.open(Path::new("/mnt").join(place.strip_prefix("/").unwrap()), libc::O_WRONLY);
    }
    if is_shown {
        elsewhere.inside(whole).refused_all(0..places.len(), &[ENOENT]);
    }
}
