//! `--publish`: a port of the inside on the host's loopback, and nowhere else, for as long as the sandbox lives.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use kennel::{NetworkMode, Sandbox};
use kennel_tests::{eventually, kennel, probe, ran, role};

use kennel_tests::world::{HERE, ip, world};

const INSIDE: &str = "8000";

/// The role `serve`: echoes on this address inside, each connection on a thread of its own. With a third word it first
/// knocks at every listener that it can find, again and again, and holds what it gets.
pub fn serve(words: &[OsString]) -> i32 {
    let [address, port, rest @ ..] = words else { return 2 };
    let place = (ip(&address.to_string_lossy()), port.to_string_lossy().parse().unwrap_or(0));
    let listener = TcpListener::bind(place).expect("a free port");
    if !rest.is_empty() {
        std::thread::spawn(|| {
            let mut held = Vec::new();
            loop {
                let listening = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
                let ports = listening.lines().filter(|line| line.contains(" 0A ")).filter_map(|line| {
                    let local = line.split_whitespace().nth(1)?;
                    u16::from_str_radix(local.rsplit(':').next()?, 16).ok()
                });
                for port in ports.filter(|port| *port != 8000) {
                    held.extend(TcpStream::connect(("127.0.0.1", port)));
                }
                held.truncate(200);
            }
        });
    }
    println!("serving");
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        std::thread::spawn(move || {
            let mut reader = stream.try_clone().expect("a descriptor");
            let _ = std::io::copy(&mut reader, &mut stream);
            let _ = stream.shutdown(std::net::Shutdown::Write);
        });
    }
    0
}

/// A sandbox with an echo server in it, and the port on this host that leads there.
struct Served {
    child: Child,
    port: u16,
}

impl Served {
    fn start(flags: &[&str], words: &[&str]) -> Served {
        let mut command = kennel(["run", "--no-settings", "--publish", &format!("0:{INSIDE}")]);
        command.args(flags).args(["--env", &format!("{}=serve", role::VARIABLE), "--"]);
        command.arg(probe::executable()).args(words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kennel starts");
        let mut line = String::new();
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        said.read_line(&mut line).expect("text");
        let port = line.split("is port ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        let port = port.unwrap_or_else(|| panic!("no port is told: {line}"));
        // Kept open, so that kennel can go on saying things.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let mut serving = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        stdout.read_line(&mut serving).expect("text");
        assert_eq!(serving, "serving\n");
        Served { child, port }
    }

    fn signal(&mut self, signal: i32) {
        // SAFETY: a plain call on a child that has not been waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
        let _ = self.child.wait();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
    }
}

/// Sends and gets back through `address`.
#[track_caller]
fn echoes(address: &str, port: u16, size: usize) {
    let mut stream = TcpStream::connect((ip(address), port)).expect("it is published");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
    let mut writer = stream.try_clone().expect("a descriptor");
    let sent = bytes.clone();
    let pen = std::thread::spawn(move || {
        writer.write_all(&sent).expect("it is taken");
        writer.shutdown(std::net::Shutdown::Write).expect("it is open");
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("it comes back");
    pen.join().expect("sent");
    assert!(back == bytes, "{} of {size} bytes came back", back.len());
}

#[test]
#[kennel_claim::claim("network/published-ports")]
fn a_published_port_is_reached_at_the_hosts_loopback_and_nowhere_else() {
    let Some(world) = world() else { return };
    let list = ["--net", "allow-list", "--deny-domain", "*"];
    for flags in [&[][..], &list] {
        for address in ["127.0.0.1", "0.0.0.0", "::1"] {
            if address == "::1" && !world.ipv6 {
                continue;
            }
            let served = Served::start(flags, &[address, INSIDE]);
            echoes("127.0.0.1", served.port, 100);
            echoes("127.0.0.1", served.port, 3 << 20);
            if world.ipv6 {
                echoes("::1", served.port, 100);
            }
            assert!(TcpStream::connect((ip(HERE), served.port)).is_err(), "another address of this host");
        }
    }
}

#[test]
fn many_clients_of_a_published_port_at_once() {
    if world().is_none() {
        return;
    }
    let served = Served::start(&[], &["127.0.0.1", INSIDE]);
    let port = served.port;
    let clients: Vec<_> =
        (0..100).map(|number| std::thread::spawn(move || echoes("127.0.0.1", port, 1000 + number))).collect();
    clients.into_iter().for_each(|client| client.join().expect("each is served"));
    // One that says nothing holds up nobody.
    let _silent = TcpStream::connect(("127.0.0.1", port)).expect("it is published");
    echoes("127.0.0.1", port, 10);
}

#[test]
#[kennel_claim::claim("network/published-ports")]
fn a_program_inside_that_knocks_at_kennels_sockets_gains_nothing_and_stops_nobody() {
    if world().is_none() {
        return;
    }
    let served = Served::start(&[], &["127.0.0.1", INSIDE, "knock"]);
    for _ in 0..20 {
        echoes("127.0.0.1", served.port, 1000);
    }
}

#[test]
#[kennel_claim::claim("network/published-ports")]
fn nothing_is_left_of_a_published_port_when_the_sandbox_ends_or_is_killed() {
    if world().is_none() {
        return;
    }
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let mut served = Served::start(&[], &["127.0.0.1", INSIDE]);
        echoes("127.0.0.1", served.port, 10);
        let mut open = TcpStream::connect(("127.0.0.1", served.port)).expect("it is published");
        served.signal(signal);
        eventually("the port is free", || TcpListener::bind(("127.0.0.1", served.port)).ok());
        open.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        assert!(!matches!(open.read(&mut [0; 10]), Ok(1..)), "an open connection ends too");
    }
}

#[test]
fn a_port_that_nobody_serves_inside_refuses_at_once() {
    if world().is_none() {
        return;
    }
    let mut command = kennel(["run", "--no-settings", "--publish", "0:81", "--", "sleep", "60"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("kennel starts");
    let mut line = String::new();
    BufReader::new(child.stderr.take().expect("piped")).read_line(&mut line).expect("text");
    let port: u16 =
        line.split("is port ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a port");
    let begun = Instant::now();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("kennel listens");
    assert!(!matches!(stream.read(&mut [0; 10]), Ok(1..)));
    assert!(begun.elapsed() < Duration::from_secs(10));
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn a_port_that_is_taken_and_one_that_is_none_are_errors() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let number = taken.local_addr().expect("bound").port();
    let error = |flags: &[&str]| {
        let mut command = kennel(["run", "--no-settings"]);
        ran(command.args(flags).args(["--", "true"])).expect_code(125).stderr
    };
    let said = error(&["--publish", &format!("{number}:80")]);
    assert!(said.contains(&format!("127.0.0.1:{number}")) && said.contains("help: "), "{said}");
    for wrong in ["0", "x", "80:0", "70000", "1:2:3", "127.0.0.1:80", "-1"] {
        let said = error(&[&format!("--publish={wrong}")]);
        assert!(said.contains("is not a port to publish"), "{wrong}: {said}");
    }
    let said = error(&["--publish", "8080", "--net", "host"]);
    assert!(said.contains("cannot be used with network mode `host`"), "{said}");
}

/// The part of the role `embed` that is about published ports.
pub fn embedded() {
    let sandbox = Sandbox::builder().publish(0, 8000).env(role::VARIABLE, "serve").build().expect("a port");
    let me = probe::executable().display().to_string();
    let mut child = sandbox.spawn(&me, &["127.0.0.1", INSIDE]).expect("it starts");
    let mut serving = [0; 8];
    child.take_stdout().expect("piped").read_exact(&mut serving).expect("it serves");
    let [published] = child.published() else { panic!("{:?}", child.published()) };
    let (inside, port) = (published.inside, published.host);
    assert_eq!(inside, 8000);
    assert!(child.network().is_none(), "there are no rules to change");
    echoes("127.0.0.1", port, 1000);
    drop(child);
    assert!(TcpListener::bind(("127.0.0.1", port)).is_ok(), "nothing is left");
    assert!(Sandbox::builder().network_mode(NetworkMode::Host).publish(0, 80).build().is_err());
}
