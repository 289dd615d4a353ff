//! Budgets on traffic: what leaves and comes in is counted at every door, to the byte, and ends at the limit.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use kennel::{NetworkMode, Sandbox};
use kennel_tests::{Scratch, eventually, kennel, ran_within, role};
use serde_json::Value;

use crate::network::there::{ECHO, HTTP, OPEN_PROXY, SINK, WEBSOCKET};
use crate::network::{BOTH, LONG, Told, allowing, by, told, told_by};
use kennel_tests::world::{self, THERE, world};

/// What a connection counts for by being made.
const OPENING: u64 = 64;

/// Connects by each door: `plain`, `connect` and `socks`.
const DOORS: &str = "
import base64, os, socket, sys, threading, urllib.parse
url = urllib.parse.urlsplit(os.environ.get('HTTP_PROXY', ''))
auth = base64.b64encode(f'{url.username}:{url.password}'.encode()).decode()
def dial(door, host, port):
    if door == 'plain': return socket.create_connection((host, port), 60)
    s = socket.create_connection((url.hostname, url.port), 60)
    if door == 'connect':
        s.sendall(f'CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\nProxy-Authorization: Basic {auth}\\r\\n\\r\\n'.encode())
        head = b''
        while not head.endswith(b'\\r\\n\\r\\n'): head += s.recv(1) or sys.exit('no answer')
        if b' 200 ' not in head: raise OSError(head.decode())
        return s
    user, password = url.username.encode(), url.password.encode()
    s.sendall(b'\\x05\\x01\\x02'); assert s.recv(2) == b'\\x05\\x02'
    s.sendall(bytes([1, len(user)]) + user + bytes([len(password)]) + password); assert s.recv(2) == b'\\x01\\x00'
    s.sendall(bytes([5, 1, 0, 3, len(host)]) + host.encode() + port.to_bytes(2, 'big'))
    answer = s.recv(10)
    if answer[1]: raise OSError(f'reply {answer[1]}')
    return s
";

/// A script inside, behind [`DOORS`].
fn script(flags: &[&str], text: &str) -> Option<Told> {
    world()?;
    let Some(python) = world::python() else {
        kennel_tests::skipped("python3 is not installed");
        return None;
    };
    let words = [python.as_os_str().to_owned(), "-c".into(), format!("{DOORS}\n{text}").into()];
    Some(told(flags, &words))
}

/// What went to a host and came from it.
#[track_caller]
fn of_host(told: &Told, host: &str) -> (u64, u64) {
    let hosts = told.traffic["hosts"].as_array().cloned().unwrap_or_default();
    let found = hosts.into_iter().find(|one| one["host"] == host);
    let found = found.unwrap_or_else(|| panic!("nothing was counted for {host}: {told:#?}"));
    (number(&found["egress"]), number(&found["ingress"]))
}

#[track_caller]
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// How much the sink got of the connections whose first line this is, once all have ended.
fn sunk(name: &str, connections: usize) -> u64 {
    let world = world().expect("it was asked before");
    let lines = eventually("the sink got all of it", || {
        Some(world.seen(&format!("sank {name} "))).filter(|lines| lines.len() == connections)
    });
    lines.iter().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
#[kennel_claim::claim("network/traffic-is-counted")]
fn every_door_counts_every_byte() {
    let echo = format!(
        "for door in ('plain', 'connect', 'socks'):
    s = dial(door, '{THERE}', {ECHO}); data = os.urandom(50_000)
    threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR))).start()
    back = b''
    while more := s.recv(65536): back += more
    assert back == data, door
print('echoed')"
    );
    let Some(told) = script(&["--allow-domain", THERE, "--egress", "1G"], &echo) else { return };
    let told = told.ok();
    assert_eq!(told.ran.stdout, "echoed\n");
    // To an address, so that no look-up is among them.
    assert_eq!(of_host(&told, THERE), (150_000 + 3 * OPENING, 150_000), "{told:#?}");
    assert_eq!((number(&told.traffic["egress"]), number(&told.traffic["ingress"])), of_host(&told, THERE));
    assert_eq!(
        told.traffic["limits"],
        serde_json::json!([{ "limit": "egress 1G", "used": 150_000 + 3 * OPENING }])
    );

    // A plain request is written anew: what the server got is what is counted, and it says what that was.
    let words = ["curl", "-sS", "-m", "30", &format!("http://{THERE}/head")];
    let told = told_by(&["--allow-domain", THERE, "--ingress", "1G"], &words, |_| {}).ok();
    let length = told.ran.stdout.len() as u64;
    let (out, back) = of_host(&told, THERE);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").len() as u64;
    assert_eq!((out, back), (OPENING + length, head + length), "{told:#?}");
    assert!(told.passed(THERE, "http"), "{told:#?}");
}

#[test]
#[kennel_claim::claim("network/budget-is-never-passed")]
fn connections_that_race_for_the_last_bytes_never_pass_the_budget() {
    let race = format!(
        "def send(number):
    try:
        s = dial(('plain', 'connect', 'socks')[number % 3], '{THERE}', {SINK})
        s.sendall(b'race\\n')
        while True: s.sendall(b'x' * 7001)
    except OSError: pass
    barrier.wait()
barrier = threading.Barrier(31)
threads = [threading.Thread(target=send, args=(number,)) for number in range(30)]
for thread in threads: thread.start()
barrier.wait(60)
print('all ended')"
    );
    let flags = ["--allow-domain", THERE, "--egress", "1000003"];
    let Some(told) = script(&flags, &race) else { return };
    let told = told.ok();
    assert_eq!(told.ran.stdout, "all ended\n");
    assert_eq!(of_host(&told, THERE), (1_000_003, 0), "{told:#?}");
    assert_eq!(told.reason(THERE), "the budget is used up (egress 1000003)");
    assert!(told.ran.stderr.contains("(egress 1000003); to raise it: `--egress`"), "{told:#?}");
    let world = world().expect("it was asked before");
    let lines = || world.seen("sank race ");
    // A connection that was reset may have lost what it had not read yet, so this is at most.
    let total =
        || -> u64 { lines().iter().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum() };
    eventually("something arrived", || (total() > 0).then_some(()));
    assert!(total() <= 1_000_003, "{:?}", lines());
}

#[test]
fn a_budget_that_is_just_enough_is_enough() {
    let whole = format!(
        "for door in ('plain', 'connect', 'socks'):
    s = dial(door, '{THERE}', {SINK}); s.sendall(b'enough\\n' + b'x' * 9993); s.close()
s = dial('plain', '{THERE}', {ECHO})
print('last')"
    );
    let Some(told) = script(&["--allow-domain", THERE, "--egress", "30192"], &whole) else { return };
    // Whoever comes when nothing is left is refused.
    assert_eq!(sunk("enough", 3), 30_000);
    assert_eq!(told.reason(THERE), "the budget is used up (egress 30192)", "{told:#?}");
    // The same for what comes in: the end of a file is no byte.
    for (limit, code) in [(10_000 + 42, 0), (10_000 + 41, 18)] {
        let flags =
            ["--allow-domain".to_owned(), THERE.to_owned(), "--ingress".to_owned(), limit.to_string()];
        // What is between the head and 10,000 bytes: HTTP/1.1 200 OK, Content-Length: 10000.
        let url = format!("http://{THERE}/big/10000");
        let words = ["curl", "-sS", "-m", "30", "--noproxy", "*", "-o", "/dev/null", &url];
        let told = crate::network::told(&flags, &words);
        let got = of_host(&told, THERE).1;
        assert_eq!(got, u64::min(limit, 10_042), "{told:#?}");
        assert_eq!(told.ran.code == 0, code == 0, "{limit}: {told:#?}");
    }
}

#[test]
fn a_cut_upload_is_told_to_the_client_and_in_the_report() {
    if world().is_none() {
        return;
    }
    let upload = "head -c 3000000 /dev/zero > /tmp/big; curl -sS -m 60 -T /tmp/big \"$0\"; echo \" $?\"";
    for way in BOTH {
        let mut flags = allowing(&["cut.web.test"]);
        flags.extend(["--egress", "cut.web.test=100K"].map(str::to_owned));
        let told = told(&flags, &by(way, &["sh", "-c", upload, "http://cut.web.test/never"]));
        assert_eq!(of_host(&told, "cut.web.test").0, 100 << 10, "{way:?}: {told:#?}");
        let limit = "the budget is used up (egress cut.web.test=100K)";
        assert_eq!(told.reason("cut.web.test"), limit, "{way:?}");
        // The refusal is a page as any other.
        assert!(told.ran.stdout.contains(limit), "{way:?}: {told:#?}");
        assert!(told.ran.stderr.contains("to raise it: `--egress`"), "{told:#?}");
    }
}

#[test]
fn names_below_a_suffix_share_its_budget_and_a_refusal_is_a_page() {
    if world().is_none() {
        return;
    }
    let script = "for host in one two three; do curl -s -m 30 -o /dev/null -w '%{http_code} ' \
                  --data-binary @/tmp/body http://$host.web.test/echo; done; curl -s -m 30 http://four.web.test/hello";
    let script = format!("head -c 4000 /dev/zero > /tmp/body; {script}");
    let mut flags = allowing(&["*.web.test"]);
    flags.extend(["--egress", "*.web.test=10000", "--egress", "1M"].map(str::to_owned));
    let told = told(&flags, &["sh", "-c", &script]);
    assert!(told.ran.stdout.starts_with("200 200 403 "), "{told:#?}");
    let refusal =
        "kennel blocked this connection: four.web.test:80: the budget is used up (egress *.web.test=10000)";
    assert!(told.ran.stdout.contains(refusal), "{told:#?}");
    let sum: u64 =
        ["one", "two", "three"].map(|name| of_host(&told, &format!("{name}.web.test")).0).iter().sum();
    assert_eq!(sum, 10_000, "{told:#?}");
    assert_eq!(told.reason("four.web.test"), "the budget is used up (egress *.web.test=10000)");
}

#[test]
#[kennel_claim::claim("network/names-are-counted")]
fn names_that_are_made_up_count_as_what_they_are() {
    let spell = "def ask(name):
    try: dial('plain', name, 80).close()
    except OSError: pass
for number in range(100):
    socket.getaddrinfo(f'only-looked-up-{number}.web.test', 80)
for number in range(200):
    ask(f'spelt-{number:040}.web.test')";
    let flags = ["--allow-domain", "*.web.test", "--egress", "2000"];
    let Some(told) = script(&flags, spell) else { return };
    let told = told.ok();
    let world = world().expect("it was asked before");
    // Looking up alone sends nothing.
    world.saw_nothing_of("only-looked-up");
    let asked = world.seen("dns spelt-").len() as u64;
    // A question has 12 bytes, the name with two more, and 4.
    let each = 12 + "spelt-.web.test".len() as u64 + 40 + 2 + 4;
    assert!(asked > 4 && asked * each <= 2000, "{asked} questions of {each} bytes: {told:#?}");
    assert!(number(&told.traffic["egress"]) <= 2000, "{told:#?}");
    // Questions about hosts beyond those that are kept are counted, too.
    assert_eq!(told.traffic["other_hosts"]["egress"], 0);
}

#[test]
fn rates_slow_and_do_not_cut() {
    if world().is_none() {
        return;
    }
    let get = format!("curl -sS -m 60 http://{THERE}/big/600000 | wc -c");
    let put = "head -c 600000 /dev/zero > /tmp/b; curl -sS -m 60 --data-binary @/tmp/b \"$0\" | wc -c";
    for way in BOTH {
        for (flag, words) in [
            ("--ingress-rate", vec!["sh", "-c", &get]),
            ("--egress-rate", vec!["sh", "-c", put, &format!("http://{THERE}/echo")]),
        ] {
            let mut flags = allowing(&[THERE]);
            flags.extend([flag.to_owned(), format!("{THERE}=200000/s")]);
            let begin = Instant::now();
            let told = told(&flags, &by(way, &words)).ok();
            assert_eq!(told.ran.stdout.trim(), "600000", "{way:?} {flag}: {told:#?}");
            // An eighth of a second's bytes go at once.
            let took = begin.elapsed();
            assert!(took > Duration::from_millis(2700), "{way:?} {flag}: {took:?}");
            assert!(took < Duration::from_secs(30), "{way:?} {flag}: {took:?}");
        }
    }
}

#[test]
fn requests_that_kennel_reads_are_counted_as_they_leave() {
    let Some(ca) = world().and_then(|world| world.https()) else { return };
    let ca = ca.display().to_string();
    let upload =
        "head -c 3000000 /dev/zero > /tmp/big; curl -sS -m 60 \"$0\"; curl -sS -m 60 -T /tmp/big \"$0\"
                  curl -sS -m 60 \"$0\"";
    for (scheme, host) in [("https", "read.web.test"), ("http", "plainly.web.test")] {
        for way in BOTH {
            let limit = format!("{host}=50K");
            let rule = format!("* {host}/**");
            let flags = ["--allow-domain", &rule, "--extra-ca", &ca, "--egress", &limit];
            let url = format!("{scheme}://{host}/hello");
            let told = told(&flags, &by(way, &["sh", "-c", upload, &url]));
            assert_eq!(of_host(&told, host).0, 50 << 10, "{way:?} {scheme}: {told:#?}");
            let said = format!("the budget is used up (egress {limit})");
            assert_eq!(told.reason(host), said, "{way:?} {scheme}");
            assert!(told.ran.stdout.starts_with(&format!("hello from {host}\n")), "{told:#?}");
            // The last request is answered by a page, or its connection is refused where nothing else can be.
            assert!(told.ran.stdout.matches(&said).count() >= 1, "{way:?} {scheme}: {told:#?}");
        }
        // By a rate, through what polls.
        let flags = ["--allow-domain", &format!("* {host}/**"), "--extra-ca", &ca, "--egress-rate", "100000"];
        let put = "head -c 300000 /dev/zero > /tmp/b; curl -sS -m 60 -o /dev/null -w '%{http_code}' -T /tmp/b \"$0\"";
        let url = format!("{scheme}://{host}/refuses-uploads");
        let begin = Instant::now();
        let told = told(&flags, &["sh", "-c", put, &url]);
        assert!(
            told.ran.stdout.starts_with("501") || begin.elapsed() > Duration::from_millis(2500),
            "{told:#?}"
        );
    }
}

#[test]
fn a_websocket_ends_at_the_limit() {
    let frames = format!(
        "s = dial('plain', '{THERE}', {WEBSOCKET})
s.sendall(b'GET / HTTP/1.1\\r\\nHost: {THERE}:{WEBSOCKET}\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n'
    b'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\nSec-WebSocket-Version: 13\\r\\n\\r\\n')
f = s.makefile('rb'); head = b''
while not head.endswith(b'\\r\\n\\r\\n'): head += f.read(1)
assert b' 101 ' in head
count = 0
try:
    while count < 10_000:
        s.sendall(bytes([129, 128 + 100, 0, 0, 0, 0]) + b'x' * 100); f.read(102) or sys.exit(f'{{count}} frames'); count += 1
except OSError: print(f'{{count}} frames')"
    );
    for host in [&format!("* {THERE}/**"), THERE] {
        let Some(told) = script(&["--allow-domain", host, "--egress", "5000"], &frames) else { return };
        let count = format!("{}{}", told.ran.stdout, told.ran.stderr);
        let count =
            count.split(" frames").next().and_then(|text| text.rsplit('\n').next()?.parse::<u64>().ok());
        assert!(count.is_some_and(|count| (30..=46).contains(&count)), "{told:#?}");
        assert_eq!(number(&told.traffic["egress"]), 5000, "{told:#?}");
    }
}

#[test]
#[kennel_claim::claim("network/uncounted-is-an-error")]
fn what_cannot_be_counted_is_an_error_that_says_which_and_why() {
    if world().is_none() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port().to_string();
    for (flags, said) in [
        (&["--net", "host", "--egress", "5M"][..], "network mode `host`"),
        (
            &["--allow-domain", "a.test", "--egress", "5M", "--unix-sockets", "all"],
            "network.unix_sockets `all`",
        ),
        (
            &["--allow-domain", "a.test", "--egress", "5M", "--allow-unix-socket", "/run/docker.sock"],
            "network.allow_unix_sockets `/run/docker.sock`",
        ),
        (&["--allow-domain", "a.test", "--egress-rate", "5M/s", "--best-effort"], "best_effort"),
        (&["--allow-domain", "a.test", "--ingress", "5M", "--seccomp", "none"], "process.seccomp `none`"),
        (&["--net", "public", "--egress", "a.test=5M"], "network mode `public`"),
        (
            &["--allow-domain", "a.test", "--egress", "a.test=5M", "--http-proxy-port", &port],
            "a proxy in the gate's place",
        ),
    ] {
        let told = told(flags, &["true"]);
        assert_eq!(told.ran.code, 125, "{told:#?}");
        assert!(told.ran.stderr.contains(said) && told.ran.stderr.contains("network.budget `"), "{told:#?}");
        assert!(told.ran.stderr.contains("\nhelp: "), "{told:#?}");
    }
    // A socket that is handed over, as a standard stream or as another descriptor.
    let socket = || TcpStream::connect(("127.0.0.1", port.parse::<u16>().unwrap_or(0))).expect("it listens");
    for with_budget in [false, true] {
        let mut command = kennel(["run", "--no-settings", "--net", "allow-list"]);
        if with_budget {
            command.args(["--egress", "5M"]);
        }
        let ran = ran_within(LONG, command.args(["--", "true"]).stdin(OwnedFd::from(socket())));
        assert_eq!(ran.code, if with_budget { 125 } else { 0 }, "{ran:#?}");
        assert_eq!(ran.stderr.contains("cannot be kept with descriptor 0"), with_budget, "{ran:#?}");
    }
    let shell = format!(
        "exec 9<>/dev/tcp/127.0.0.1/{port}; \"$0\" run --no-settings --net allow-list --egress 5M --keep-fd 9 -- true"
    );
    let kennel = kennel(["x"]).get_program().to_owned();
    let ran = ran_within(LONG, std::process::Command::new("bash").args(["-c", &shell]).arg(kennel));
    assert!(ran.code == 125 && ran.stderr.contains("cannot be kept with descriptor 9"), "{ran:#?}");
}

#[test]
fn a_file_that_was_merely_found_can_only_lower_a_budget() {
    if world().is_none() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("kennel.toml", "[network.budget]\negress = [\"2000\", \"1.2.3.4=7\"]\ningress = \"1G\"\n");
    let report = scratch.join("report.json");
    let mut command = kennel(["run", "--report"]);
    command.arg(&report).args(["--net", "allow-list", "--egress", "5M", "--ingress", "1M", "--", "true"]);
    let ran = ran_within(LONG, command.current_dir(scratch.path())).ok();
    assert!(ran.stderr.contains("not applied: network.budget"), "{ran:#?}");
    let text = std::fs::read_to_string(report).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let limits: Vec<&str> = report["traffic"]["limits"]
        .as_array()
        .map(|list| list.iter().filter_map(|one| one["limit"].as_str()).collect())
        .unwrap_or_default();
    assert_eq!(limits, ["egress 2000", "ingress 1M", "egress 1.2.3.4=7"], "{text}");
}

#[test]
fn published_ports_and_proxies_are_doors_as_well() {
    if world().is_none() {
        return;
    }
    let Some(python) = world::python() else { return kennel_tests::skipped("python3 is not installed") };
    // A server inside that sends more than may leave, to a client of this side.
    let serve = "import socket
s = socket.create_server(('127.0.0.1', 18123)); print('serving', flush=True)
c, _ = s.accept(); got = c.recv(100)
try:
    while True: c.sendall(b'x' * 10_000)
except OSError: print(len(got), 'cut')";
    let scratch = Scratch::new();
    let report = scratch.join("report.json");
    let mut command =
        kennel(["run", "--no-settings", "--publish", "18123:18123", "--egress", "123456", "--report"]);
    command.arg(&report).arg("--").arg(&python).args(["-u", "-c", serve]);
    let client = std::thread::spawn(|| {
        let connect = || {
            let mut stream = TcpStream::connect(("127.0.0.1", 18123)).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
            stream.write_all(b"hello").ok()?;
            let (mut count, mut buffer) = (0, [0; 4096]);
            while let Ok(more @ 1..) = stream.read(&mut buffer) {
                count += more;
            }
            // Before somebody listens inside, nothing comes.
            (count > 0).then_some(count)
        };
        eventually("somebody listens inside", connect)
    });
    let ran = ran_within(LONG, &mut command).ok();
    let got = client.join().expect("a count");
    assert!(got <= 123_456, "{got}");
    assert!(ran.stdout.ends_with("5 cut\n"), "{ran:#?}");
    let text = std::fs::read_to_string(&report).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["traffic"]["egress"], 123_456, "{text}");
    assert!(text.contains("\"published\""), "{text}");

    // By the caller's proxy: the host is known, and the words to the proxy are counted.
    let proxy = format!("http://{THERE}:{OPEN_PROXY}");
    let upload = "head -c 300000 /dev/zero > /tmp/b; curl -sS -m 60 -T /tmp/b http://parent.web.test/never";
    for way in BOTH {
        let flags = ["--allow-domain", "parent.web.test", "--egress", "parent.web.test=20000"];
        let told = told_by(&flags, &by(way, &["sh", "-c", upload]), |command| {
            command.env("HTTP_PROXY", &proxy).env("HTTPS_PROXY", &proxy);
        });
        assert_eq!(of_host(&told, "parent.web.test").0, 20_000, "{way:?}: {told:#?}");
    }

    // By a proxy in the gate's place: in total.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
        }
    });
    let flags = ["--net", "allow-list", "--http-proxy-port", &port, "--egress", "20000"];
    let told = told(&flags, &["sh", "-c", upload]);
    assert_eq!(number(&told.traffic["egress"]), 20_000, "{told:#?}");
}

#[test]
fn many_hosts_at_once_are_each_counted() {
    let many = format!(
        "def one(number):
    for _ in range(3):
        s = dial('plain', f'n{{number}}.web.test', {HTTP})
        s.sendall(f'GET /hello HTTP/1.0\\r\\nHost: n{{number}}.web.test\\r\\n\\r\\n'.encode())
        assert s.makefile('rb').read().endswith(b'web.test\\n')
threads = [threading.Thread(target=one, args=(number,)) for number in range(40)]
for thread in threads: thread.start()
for thread in threads: thread.join()"
    );
    let Some(told) = script(&["--allow-domain", "*.web.test", "--egress", "n7.web.test=1G"], &many) else {
        return;
    };
    let told = told.ok();
    let hosts = told.traffic["hosts"].as_array().cloned().unwrap_or_default();
    assert_eq!(hosts.len(), 40, "{told:#?}");
    let sum: u64 = hosts.iter().map(|host| number(&host["egress"])).sum();
    assert_eq!(sum, number(&told.traffic["egress"]));
    let limit = told.traffic["limits"][0]["used"].as_u64();
    assert_eq!(limit, Some(of_host(&told, "n7.web.test").0), "{told:#?}");
}

#[test]
fn a_session_has_one_budget_for_all_its_commands_and_each_sandbox_its_own() {
    if world().is_none() {
        return;
    }
    let mut command = role::play("budget-of-a-session");
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    let ran = ran_within(LONG, &mut command).ok();
    assert_eq!(ran.stdout, "shared and not shared\n", "{}", ran.stderr);
}

/// The role `budget-of-a-session`: a program that uses the library.
pub fn session(_: &[OsString]) -> i32 {
    let sandbox = Sandbox::builder()
        .network_mode(NetworkMode::Whitelist)
        .allow_domain(THERE)
        .traffic_budget("egress=60000")
        .build()
        .expect("a policy");
    let put = "head -c 40000 /dev/zero > /tmp/b; curl -s -o /dev/null -w '%{http_code}' --data-binary @/tmp/b \"$0\"";
    let url = format!("http://{THERE}/echo");
    let words = ["-c", put, url.as_str()];
    let session = sandbox.session().expect("a session");
    let codes: Vec<String> = (0..3).map(|_| session.run("sh", &words).expect("it runs").stdout).collect();
    assert_eq!((codes[0].as_str(), codes[2].as_str()), ("200", "403"), "{codes:?}");
    assert_ne!(codes[1], "200", "{codes:?}");
    // Each sandbox has its own, also of one policy.
    for _ in 0..2 {
        assert_eq!(sandbox.run("sh", &words).expect("it runs").stdout, "200");
    }
    println!("shared and not shared");
    0
}

#[test]
fn connections_that_carry_nothing_count_all_the_same() {
    let knock = format!(
        "count = 0
for port in range(20000, 21000):
    try: dial('plain', '{THERE}', port).close()
    except OSError: pass
print('knocked')"
    );
    let Some(told) = script(&["--allow-domain", THERE, "--egress", "6500"], &knock) else { return };
    let told = told.ok();
    // Each could have told 16 bits by its port.
    assert_eq!(number(&told.traffic["egress"]), 101 * OPENING, "{told:#?}");
    assert_eq!(told.network.iter().filter(|one| one["allowed"] == true).count(), 101, "{told:#?}");
}
