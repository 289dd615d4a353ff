//! Hosts that deny namespaces: with best effort Landlock leaves the proxy's port and seccomp leaves TCP, so programs
//! that use the proxy variables work, the others fail at once, and the outcome says so.

use std::net::{TcpListener, TcpStream};
use std::process::Command;

use kennel_tests::{kennel, ran_within, skipped};

use crate::network::there::{ECHO, HTTP};
use crate::network::{LONG, Told, allowing, told_by};
use kennel_tests::world::{THERE, world};

/// Makes every call that would make a namespace fail, as container engines do.
fn without_namespaces(command: &mut Command) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let namespaces = (libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWNET).cast_unsigned();
    // struct seccomp_data: the number at 0, the first argument at 16.
    let program = vec![
        line(LOAD, 0, 0, 0),
        line(EQUAL, 5, 0, libc::SYS_clone3 as u32),
        line(EQUAL, 1, 0, libc::SYS_unshare as u32),
        line(EQUAL, 0, 4, libc::SYS_clone as u32),
        line(LOAD, 0, 0, 16),
        line(ANY_BIT, 0, 2, namespaces),
        line(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned()),
        line(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()),
        line(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    kennel_tests::filter::put_on(command, program);
}

/// Whether this kernel's Landlock knows TCP. Says so if not.
fn landlock_knows_tcp() -> bool {
    // SAFETY: with the version flag the kernel takes no pointer and makes nothing.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, 1u32) };
    if version < 4 {
        skipped(&format!("this kernel's Landlock is at level {version}, and TCP is known from 4 on"));
    }
    version >= 4
}

fn best_effort(hosts: &[&str], script: &str) -> Told {
    let mut flags = allowing(hosts);
    flags.push("--best-effort".into());
    told_by(&flags, &["sh", "-c", script], without_namespaces)
}

#[test]
fn without_best_effort_there_is_no_sandbox() {
    let mut command = kennel(["run", "--no-settings", "--allow-domain", "x.web.test", "--", "true"]);
    without_namespaces(&mut command);
    let ran = ran_within(LONG, &mut command).expect_code(125);
    assert!(ran.stderr.contains("help: "), "{}", ran.stderr);
}

#[test]
#[kennel_claim::claim("network/without-namespaces")]
fn programs_that_use_the_proxy_reach_allowed_hosts_and_no_others() {
    let Some(world) = world().filter(|_| landlock_knows_tcp()) else { return };
    let script = "curl -sS http://tier.web.test/hello; curl -sS --proxy $FTP_PROXY http://tier.web.test/hello
                  curl -s -o /dev/null -w '%{http_code}\\n' http://tier.elsewhere.test/hello
                  curl -s -o /dev/null -w '%{http_code}\\n' --proxy http://${HTTP_PROXY#*@} http://tier.web.test/";
    let told = best_effort(&["tier.web.test"], script);
    let hello = "hello from tier.web.test\n";
    assert_eq!(told.ran.stdout, format!("{hello}{hello}403\n407\n"), "{told:#?}");
    assert!(told.passed("tier.web.test", "http") && told.passed("tier.web.test", "socks"), "{told:#?}");
    assert!(
        told.ran
            .stderr
            .contains("not enforced: a network of the sandbox's own: only programs that use the proxy"),
        "{told:#?}"
    );
    assert!(told.ran.stderr.contains("--allow-domain tier.elsewhere.test"), "{told:#?}");
    world.saw_nothing_of("tier.elsewhere");
    if let Some(ca) = world.https() {
        let script = format!("curl -sS --cacert {} https://tiers.web.test/hello", ca.display());
        let told = best_effort(&["tiers.web.test"], &script).ok();
        assert_eq!(told.ran.stdout, "hello from tiers.web.test\n");
        assert!(told.passed("tiers.web.test", "connect"), "{told:#?}");
    }
}

#[test]
#[kennel_claim::claim("network/without-namespaces")]
fn everything_else_fails_at_once() {
    let Some(world) = world().filter(|_| landlock_knows_tcp()) else { return };
    let Some(python) = kennel_tests::world::python() else { return skipped("python3 is not installed") };
    // A service of the host's own, which shares its loopback with the sandbox here.
    let own = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own_port = own.local_addr().expect("bound").port();
    assert!(TcpStream::connect(("127.0.0.1", own_port)).is_ok(), "it listens");
    let script = format!(
        "import socket, time
begun = time.time()
def fails(what, errors, act):
    try: act()
    except OSError as e:
        assert e.errno in errors, (what, e)
        return
    raise SystemExit(what + ' worked')
def dial(place): return lambda: socket.create_connection(place, 20).sendall(b'unconfined\\n')
fails('tcp', (1, 13), dial(('{THERE}', {HTTP})))
fails('tcp to echo', (1, 13), dial(('{THERE}', {ECHO})))
fails('the host', (1, 13), dial(('127.0.0.1', {own_port})))
fails('udp', (1,), lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
fails('udp6', (1,), lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
fails('mptcp', (1,), lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))
fails('sctp', (1,), lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132))
fails('raw', (1,), lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 6))
fails('ping', (1,), lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))
fails('packet', (1, 97), lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
fails('unix', (1,), lambda: socket.socket(socket.AF_UNIX))
fails('diag', (1,), lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4))
def bind(): socket.socket().bind(('127.0.0.1', 0))
fails('bind', (1, 13), bind)
def listen(): socket.socket().listen()
fails('listen', (1, 13), listen)
def fast_open(): socket.socket().sendto(b'unconfined\\n', 0x20000000, ('{THERE}', {ECHO}))
fails('fast open', (1, 13, 95), fast_open)
try: socket.getaddrinfo('unconfined.web.test', 80); raise SystemExit('a look-up worked')
except OSError: pass
print('quick' if time.time() - begun < 15 else 'slow')"
    );
    let mut flags = allowing(&["unconfined.web.test"]);
    flags.push("--best-effort".into());
    let words = [python.as_os_str(), "-c".as_ref(), script.as_ref()];
    let told = told_by(&flags, &words, without_namespaces).ok();
    assert_eq!(told.ran.stdout, "quick\n", "{told:#?}");
    world.saw_nothing_of("unconfined");
}

#[test]
fn a_published_port_needs_a_network_of_the_sandboxs_own() {
    if !landlock_knows_tcp() {
        return;
    }
    let mut command = kennel(["run", "--no-settings", "--best-effort", "--publish", "0:80", "--", "true"]);
    without_namespaces(&mut command);
    let ran = ran_within(LONG, &mut command).expect_code(125);
    assert!(ran.stderr.contains("the published port") && ran.stderr.contains("help: "), "{}", ran.stderr);
}
