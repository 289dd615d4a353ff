//! Many at once, slow ones, and ones that never end: the gate stays small, and others are not held up.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use kennel_tests::{Scratch, eventually, kennel, probe, ran_within, role};

use crate::network::there::{ECHO, SILENT};
use crate::network::{LONG, Told, Way, allowed_sh, allowing, by, python_inside, told_by};
use kennel_tests::world::world;

#[test]
#[kennel_claim::claim("network/floods-are-bounded")]
fn a_thousand_connections_at_once() {
    if world().is_none() {
        return;
    }
    // With the limit on open files that shells give: the gate goes up to the hard one.
    let told = crowd_of("crowd.web.test", "1000", "0", 256).ok();
    assert_eq!(told.ran.stdout, "all 1000 echoed\n");
}

#[test]
fn large_bodies_come_whole_by_every_door_and_both_families() {
    let Some(world) = world() else { return };
    let mut ways = vec!["--noproxy '*' -4", "-x $HTTP_PROXY", "-p -x $HTTP_PROXY", "-x $FTP_PROXY"];
    if world.ipv6 {
        ways.push("--noproxy '*' -6");
    }
    let size = 50_000_000;
    let get = |flags: &&str| format!("curl -sS {flags} http://whole.web.test/big/{size} | tr -d x | wc -c");
    let count = |flags: &&str| format!("curl -sS {flags} http://whole.web.test/big/{size} | wc -c");
    let script: Vec<String> = ways.iter().flat_map(|flags| [get(flags), count(flags)]).collect();
    let told = allowed_sh(Way::Proxy, &["whole.web.test"], &script.join("\n")).ok();
    assert_eq!(told.ran.stdout, format!("0\n{size}\n").repeat(ways.len()), "{told:#?}");
}

#[test]
#[kennel_claim::claim("network/connections-wait")]
fn more_connections_than_the_gate_takes_wait_for_their_turn() {
    if world().is_none() {
        return;
    }
    let told = crowd_of("queue.web.test", "2600", "1500", 256).ok();
    assert_eq!(told.ran.stdout, "all 2600 echoed\n");
    // Few descriptors are few places, and still everybody's turn comes.
    let told = crowd_of("narrow.web.test", "300", "100", 0).ok();
    assert_eq!(told.ran.stdout, "all 300 echoed\n");
}

/// A crowd inside, by a kennel that may open so many files at first; with 0, no more than 384 ever.
fn crowd_of(host: &str, count: &str, first: &str, soft: u64) -> Told {
    // What the crowd says is no protocol that the gate knows.
    let mut flags = allowing(&[&format!("tcp://{host}:{ECHO}")]);
    flags.extend(["--env".to_owned(), format!("{}=network-crowd", role::VARIABLE)]);
    let words =
        by(Way::Plain, &[probe::executable().as_os_str(), host.as_ref(), count.as_ref(), first.as_ref()]);
    told_by(&flags, &words, |command| {
        let hard = if soft == 0 { 384 } else { 8192 };
        let limit = libc::rlimit { rlim_cur: if soft == 0 { hard } else { soft }, rlim_max: hard };
        // SAFETY: a plain call between fork and exec.
        unsafe {
            command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
    })
}

#[test]
#[kennel_claim::claim("network/connections-wait")]
fn the_command_keeps_the_limit_on_open_files_that_the_caller_has() {
    if world().is_none() {
        return;
    }
    let script = "ulimit -Sn; curl -s -o /dev/null http://limit.web.test/hello; sh -c 'ulimit -Sn'";
    let mut command = kennel(["run", "--no-settings", "--allow-domain", "limit.web.test", "--"]);
    command.args(["sh", "-c", script]);
    let limit = libc::rlimit { rlim_cur: 300, rlim_max: 8192 };
    // SAFETY: a plain call between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
            Ok(())
        });
    }
    assert_eq!(ran_within(LONG, &mut command).ok().stdout, "300\n300\n");
}

/// The role `crowd`: opens so many connections, keeps them all open, and then uses every one: the first of them, which
/// it then closes, and the rest.
pub fn crowd(words: &[OsString]) -> i32 {
    let [host, count, first] = words else { return 2 };
    let number = |word: &OsString| word.to_string_lossy().parse().unwrap_or(0usize);
    let (host, count, first) = (host.to_string_lossy(), number(count), number(first));
    // SAFETY: reads and writes a structure.
    unsafe {
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    let place = (&*host, ECHO).to_socket_addrs().ok().and_then(|mut found| found.next());
    let Some(place) = place else { return 3 };
    let mut streams = Vec::new();
    for number in 0..count {
        match TcpStream::connect(place) {
            Ok(stream) => streams.push(stream),
            Err(error) => {
                eprintln!("connection {number}: {error}");
                return 1;
            }
        }
    }
    let rest = streams.split_off(first);
    for (number, mut stream) in streams.into_iter().chain(rest).enumerate() {
        let word = format!("{number:05}");
        let mut answer = [0; 5];
        let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
        let echoed = stream.write_all(word.as_bytes()).and_then(|()| stream.read_exact(&mut answer));
        if echoed.is_err() || answer != word.as_bytes() {
            eprintln!("connection {number}: {echoed:?} {answer:?}");
            return 1;
        }
    }
    println!("all {count} echoed");
    0
}

/// The resident memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[test]
#[kennel_claim::claim("network/floods-are-bounded")]
fn header_bombs_slow_clients_and_idle_crowds_leave_the_controller_small() {
    if world().is_none() {
        return;
    }
    let Some(python) = kennel_tests::world::python() else {
        return kennel_tests::skipped("python3 is not installed");
    };
    let scratch = Scratch::new();
    let script = format!(
        "import os, socket, sys, time, urllib.parse
url = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
def door(): return socket.create_connection((url.hostname, url.port), 20)
held = []
for i in range(200):
    # Half a megabyte of header each, as far as it is taken.
    s = door(); s.settimeout(5); held.append(s)
    try:
        s.sendall(b'GET http://bomb.web.test/ HTTP/1.1\\r\\n')
        for line in range(64): s.sendall(b'X-%d: ' % line + b'a' * 8000 + b'\\r\\n')
    except OSError: pass
for i in range(200):
    # Slow ones: a byte, then nothing.
    s = door(); s.send(b'G'); held.append(s)
    s = socket.create_connection((socket.gethostbyname('bomb.web.test'), {SILENT}), 20); s.send(b'GET'); held.append(s)
import urllib.request
print(urllib.request.urlopen('http://bomb.web.test/hello', timeout=30).read().decode().strip())
open('{0}/ready', 'w').write('ready')
while not os.path.exists('{0}/measured'): time.sleep(0.05)",
        scratch.path().display()
    );
    let mut command = kennel(["run", "--no-settings", "--allow-write"]);
    command
        .arg(scratch.path())
        .args(allowing(&["bomb.web.test"]))
        .arg("--")
        .arg(python)
        .args(["-c", &script]);
    let child = command.stdout(std::process::Stdio::piped()).spawn().expect("kennel");
    let pid = child.id();
    eventually("the clients are all there", || scratch.join("ready").exists().then_some(()));
    let used = resident(pid);
    std::fs::write(scratch.join("measured"), "").expect("writable");
    let output = child.wait_with_output().expect("a child");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello from bomb.web.test\n");
    assert!((1..40 * 1024).contains(&used), "{used} KiB for 600 hostile clients");
}

#[test]
fn a_header_of_more_than_64_kib_is_refused() {
    if world().is_none() {
        return;
    }
    let script = "
import os, socket, base64, urllib.parse
url = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
s = socket.create_connection((url.hostname, url.port), 20); s.settimeout(20)
try: s.sendall(b'GET http://long.web.test/long HTTP/1.1\\r\\nX: ' + b'a' * 200000)
except OSError: pass
try: print(s.recv(100).split(b'\\r\\n')[0].decode())
except OSError: print('reset')";
    let Some(told) = python_inside(Way::Proxy, &["long.web.test"], script) else { return };
    let said = told.ok().ran.stdout;
    assert!(said.starts_with("HTTP/1.1 431") || said == "reset\n", "{said}");
    world().expect("made").saw_nothing_of("/long");
}

#[test]
#[kennel_claim::claim("network/refusals-are-bounded")]
fn a_flood_of_refused_hosts_leaves_stderr_and_the_report_small() {
    if world().is_none() {
        return;
    }
    let script = "
import base64, os, socket, urllib.parse
url = urllib.parse.urlsplit(os.environ['HTTP_PROXY']); auth = base64.b64encode(f'{url.username}:{url.password}'.encode()).decode()
def ask(target, name=b''):
    s = socket.create_connection((url.hostname, url.port), 20)
    try:
        s.sendall(f'CONNECT {target}:1 HTTP/1.1\\r\\nProxy-Authorization: Basic {auth}\\r\\n\\r\\n'.encode('utf-8')); s.recv(100)
    except OSError: pass
    s.close()
for i in range(1200): ask(('%05d' % i + 'x' * 55 + '.') * 4 + 'test')
for i in range(800): ask('%05d' % i + 'http://' + 'y' * 50000)
for i in range(300): ask('%05d' % i + '%1b%9b' * 5000)
print('tried')
os.system('curl -s -o /dev/null http://flood.web.test/hello')";
    let Some(told) = python_inside(Way::Proxy, &["flood.web.test"], script) else { return };
    let told = told.ok();
    assert_eq!(told.ran.stdout, "tried\n");
    assert!(told.ran.stderr.len() < 32 << 10, "{} bytes: {:.2000}", told.ran.stderr.len(), told.ran.stderr);
    assert!(
        told.ran.stderr.contains(" more hosts\n") && told.ran.stderr.contains("not recorded individually"),
        "{told:#?}"
    );
    let report = serde_json::to_string(&told.network).expect("it was JSON");
    assert!(report.len() < 1 << 20, "{} bytes", report.len());
    assert!(told.not_listed > 1000, "{}", told.not_listed);
    // What was let through is there, though the table of refusals was full.
    assert!(told.passed("flood.web.test", "http"));
    assert!(
        report.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ' || byte >= 0x80),
        "{report:.2000}"
    );
}

#[test]
fn an_upstream_that_never_answers_holds_up_nobody_else() {
    if world().is_none() {
        return;
    }
    // One that never accepts, one that accepts and is silent, one whose name server is silent.
    let script = format!(
        "for i in 1 2 3 4 5 6 7 8; do
             curl -s -m 40 http://x.nowhere.test/ & curl -s -m 40 http://deaf.web.test:{SILENT}/ & curl -s -m 40 http://x.hanging.test/ &
         done
         sleep 0.5
         begun=$(date +%s%N); curl -sS http://lively.web.test/hello; ended=$(date +%s%N)
         echo $(((ended - begun) / 1000000)); kill $(jobs -p)"
    );
    for way in crate::network::BOTH {
        let told = allowed_sh(way, &["*.web.test", "x.nowhere.test", "x.hanging.test"], &script);
        let mut lines = told.ran.stdout.lines();
        assert_eq!(lines.next(), Some("hello from lively.web.test"), "{told:#?}");
        let took: u64 = lines.next().and_then(|word| word.parse().ok()).unwrap_or(u64::MAX);
        assert!(took < 8000, "{took} ms: {told:#?}");
    }
}

#[test]
fn a_name_server_that_hangs_is_given_up_in_time() {
    if world().is_none() {
        return;
    }
    let begun = Instant::now();
    let script = "curl -s -o /dev/null -w '%{http_code}' http://patience.hanging.test/; exit 0";
    let told = allowed_sh(Way::Proxy, &["patience.hanging.test"], script);
    assert!(told.ran.stdout.starts_with("50"), "{told:#?}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_peer_that_stops_reading_holds_little() {
    if world().is_none() {
        return;
    }
    let Some(python) = kennel_tests::world::python() else {
        return kennel_tests::skipped("python3 is not installed");
    };
    let scratch = Scratch::new();
    let script = format!(
        "import os, socket, time
place = (socket.gethostbyname('stalled.web.test'), 80); held = []
for i in range(50):
    s = socket.create_connection(place, 20); s.sendall(b'GET /big/20000000 HTTP/1.1\\r\\nHost: stalled.web.test\\r\\n\\r\\n'); held.append(s)
time.sleep(1)
open('{0}/ready', 'w').write('ready')
while not os.path.exists('{0}/measured'): time.sleep(0.05)",
        scratch.path().display()
    );
    let mut command = kennel(["run", "--no-settings", "--allow-write"]);
    command.arg(scratch.path()).args(allowing(&["stalled.web.test"])).arg("--");
    command.args(by(Way::Plain, &[python.as_os_str(), "-c".as_ref(), script.as_ref()]));
    let mut child = command.spawn().expect("kennel");
    eventually("the downloads have begun", || scratch.join("ready").exists().then_some(()));
    let used = resident(child.id());
    std::fs::write(scratch.join("measured"), "").expect("writable");
    assert!(child.wait().expect("a child").success());
    assert!((1..40 * 1024).contains(&used), "{used} KiB for 50 downloads that nobody reads");
}

#[test]
fn the_gate_does_not_outlive_a_command_that_left_connections_open() {
    if world().is_none() {
        return;
    }
    let begun = Instant::now();
    let script = format!("curl -s http://left.web.test:{SILENT}/ & sleep 0.5; exit 7");
    let told = allowed_sh(Way::Plain, &["left.web.test"], &script);
    assert_eq!(told.ran.code, 7);
    assert!(begun.elapsed() < Duration::from_secs(20));
}
