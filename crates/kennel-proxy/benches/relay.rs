//! What the gate costs: a large download and small ones through each door, beside the same without a gate.
//!
//! Server, gate and client are three processes, as they are in use. Rounds are interleaved, so that a machine that
//! changes its mind does so for all; figures are medians. `cargo bench -p kennel-proxy -- [MEBIBYTES] [ROUNDS]`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kennel_policy::domain::{HostRule, ListKind};
use kennel_policy::listeners::SocketRole;
use kennel_proxy::netlink::{Batch, DoorPorts, redirect, routes};
use kennel_proxy::{Gate, GateSockets, Rules, Settings};

const ROLE: &str = "KENNEL_BENCH_ROLE";
const MIB: u64 = 1 << 20;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let size = numbers.first().copied().unwrap_or(512) * MIB;
    let rounds = numbers.get(1).copied().unwrap_or(9) as usize;
    match std::env::var(ROLE).as_deref() {
        Ok("server") => server(),
        Ok("gate") => gate(),
        Ok("inside") => inside(size, rounds),
        _ => outside(size, rounds),
    }
}

fn outside(size: u64, rounds: usize) {
    let (_server, server) = start("server");
    let (gate, proxy) = start("gate");
    println!("idle: the gate's process has {}", resident(gate.0.id()));
    let ways = [
        Way::Direct(server[0]),
        Way::Connect(proxy[0], server[0]),
        Way::Socks(proxy[0], server[0]),
        Way::Forward(proxy[0], server[0]),
    ];
    compare(&ways, size, rounds);
    println!("after this: {}", resident(gate.0.id()));
    parallel(Way::Connect(proxy[0], server[0]), &gate);
    // The transparent door needs a namespace of its own.
    let status = Command::new("unshare")
        .args(["-Urn", "--"])
        .arg(std::env::current_exe().expect("this program"))
        .args([(size / MIB).to_string(), rounds.to_string()])
        .env(ROLE, "inside")
        .status();
    if !status.is_ok_and(|status| status.success()) {
        println!("SKIPPED: transparent: this host does not let its users make namespaces");
    }
}

fn inside(size: u64, rounds: usize) {
    println!("in a namespace with the gate's rules:");
    send(&routes(true, true)).expect("routes");
    let (_server, server) = start("server");
    let (gate, doors) = start("gate");
    send(&redirect(&DoorPorts { transparent: doors[1].port(), dns: 1, ipv6: true, large_segments: true }))
        .expect("rules");
    // An address that is allowed as such: 198.51.100.1 is delivered to the door, which connects to it. In this
    // namespace that would lead back to the door, so the name of the host's loopback is used instead.
    let named = SocketAddr::from(([198, 18, 1, 0], server[0].port()));
    look_up(doors[2]);
    compare(&[Way::Direct(server[0]), Way::Transparent(named)], size, rounds);
    parallel(Way::Transparent(named), &gate);
}

/// The first name that is looked up gets the first address.
fn look_up(dns: SocketAddr) {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in "host.kennel.internal".split('.') {
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    socket.send_to(&query, dns).expect("a question");
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).expect("an answer");
    assert!(answer[..length].ends_with(&[198, 18, 1, 0]));
}

#[derive(Clone, Copy)]
enum Way {
    Direct(SocketAddr),
    Connect(SocketAddr, SocketAddr),
    Socks(SocketAddr, SocketAddr),
    Forward(SocketAddr, SocketAddr),
    Transparent(SocketAddr),
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Direct(_) => "direct",
            Way::Connect(..) => "CONNECT",
            Way::Socks(..) => "SOCKS5",
            Way::Forward(..) => "HTTP forward",
            Way::Transparent(_) => "transparent",
        }
    }

    /// Downloads this many bytes over a new connection.
    fn get(self, size: u64, buffer: &mut [u8]) -> Duration {
        let begun = Instant::now();
        let mut stream = match self {
            Way::Direct(to)
            | Way::Transparent(to)
            | Way::Forward(to, _)
            | Way::Connect(to, _)
            | Way::Socks(to, _) => TcpStream::connect(to).expect("a connection"),
        };
        stream.set_nodelay(true).expect("no delay");
        let mut path = format!("/{size}");
        let host = match self {
            Way::Direct(server)
            | Way::Connect(_, server)
            | Way::Socks(_, server)
            | Way::Forward(_, server) => server.to_string(),
            Way::Transparent(server) => format!("host.kennel.internal:{}", server.port()),
        };
        match self {
            Way::Connect(_, server) => {
                say(&mut stream, &format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\n"));
                skip_head(&mut stream);
            }
            Way::Socks(_, server) => {
                stream.write_all(&[5, 1, 0]).expect("a greeting");
                stream.read_exact(&mut [0; 2]).expect("a method");
                let [high, low] = server.port().to_be_bytes();
                stream.write_all(&[5, 1, 0, 1, 127, 0, 0, 1, high, low]).expect("a request");
                stream.read_exact(&mut [0; 10]).expect("a reply");
            }
            Way::Forward(..) => path = format!("http://{host}{path}"),
            Way::Direct(_) | Way::Transparent(_) => {}
        }
        say(&mut stream, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        let mut left = size - skip_head(&mut stream);
        while left > 0 {
            match stream.read(buffer) {
                Ok(count @ 1..) => left -= count as u64,
                other => panic!("{other:?} with {left} bytes to come"),
            }
        }
        begun.elapsed()
    }
}

/// In one packet, as programs do.
fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).expect("a request");
}

/// Reads a head, and says how much of what follows it came with it.
fn skip_head(stream: &mut TcpStream) -> u64 {
    let mut head = Vec::with_capacity(4096);
    loop {
        let mut some = [0; 4096];
        match stream.read(&mut some) {
            Ok(count @ 1..) => head.extend_from_slice(&some[..count]),
            other => panic!("{other:?} instead of a head"),
        }
        if let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            return (head.len() - end - 4) as u64;
        }
    }
}

fn compare(ways: &[Way], size: u64, rounds: usize) {
    let mut buffer = vec![0; 256 << 10];
    let mut large = vec![Vec::new(); ways.len()];
    let mut small = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        for (way, times) in ways.iter().zip(&mut large) {
            times.push(way.get(size, &mut buffer));
        }
    }
    for _ in 0..40 * rounds {
        for (way, times) in ways.iter().zip(&mut small) {
            times.push(way.get(1000, &mut buffer));
        }
    }
    let large: Vec<Duration> = large.into_iter().map(median).collect();
    let small: Vec<Duration> = small.into_iter().map(median).collect();
    println!("{:14} {:>10} {:>10} {:>14} {:>10}", "", "MiB/s", "of direct", "small GET", "of direct");
    for (place, way) in ways.iter().enumerate() {
        let rate = (size / MIB) as f64 / large[place].as_secs_f64();
        let ratio = large[0].as_secs_f64() / large[place].as_secs_f64();
        let slower = small[place].as_secs_f64() / small[0].as_secs_f64();
        println!(
            "{:14} {rate:>10.0} {ratio:>10.2} {:>11.0} us {slower:>10.2}",
            way.name(),
            small[place].as_secs_f64() * 1e6
        );
    }
}

/// Many at once: what the gate's memory grows to, and whether all get their share.
fn parallel(way: Way, gate: &Process) {
    const COUNT: usize = 64;
    let threads: Vec<_> =
        (0..COUNT).map(|_| std::thread::spawn(move || way.get(16 * MIB, &mut vec![0; 64 << 10]))).collect();
    let mut times: Vec<Duration> =
        threads.into_iter().map(|thread| thread.join().expect("a download")).collect();
    times.sort();
    println!(
        "{COUNT} at once, {}: fastest {:.0?}, median {:.0?}, slowest {:.0?}; the gate's process has {}",
        way.name(),
        times[0],
        times[COUNT / 2],
        times[COUNT - 1],
        resident(gate.0.id())
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn resident(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name));
        found.map(|text| text.trim_start_matches(':').trim().to_owned()).unwrap_or_default()
    };
    format!("{} resident, at most {}", line("VmRSS"), line("VmHWM"))
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts this program in another role; it says where it listens.
fn start(role: &str) -> (Process, Vec<SocketAddr>) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("its addresses");
    let addresses = line.split_whitespace().map(|word| word.parse().expect("an address")).collect();
    (Process(child), addresses)
}

fn wait_for_the_end() {
    let _ = io::stdin().read(&mut [0]);
}

fn server() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    println!("{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    wait_for_the_end();
}

fn answer(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut some = [0; 1024];
        match stream.read(&mut some).ok()? {
            0 => return None,
            count => request.extend_from_slice(&some[..count]),
        }
    }
    let text = String::from_utf8_lossy(&request).into_owned();
    let mut left: u64 = text.split(' ').nth(1)?.trim_start_matches('/').parse().ok()?;
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {left}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let data = vec![7; 256 << 10];
    while left > 0 {
        let count = left.min(data.len() as u64) as usize;
        stream.write_all(&data[..count]).ok()?;
        left -= count as u64;
    }
    Some(())
}

fn gate() {
    let listener = || TcpListener::bind("127.0.0.1:0").expect("a listener");
    let (proxy, transparent, dns) =
        (listener(), listener(), std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let _v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0));
    let address = |listener: &TcpListener| listener.local_addr().expect("its address");
    println!("{} {} {}", address(&proxy), address(&transparent), dns.local_addr().expect("its address"));
    let allow = ["127.0.0.1", "host.kennel.internal"]
        .map(|rule| HostRule::parse(rule, ListKind::Allow).expect("a rule"));
    let gate = Gate::new(Rules::new(allow.to_vec(), vec![]), Settings::default());
    let _open = gate
        .open(GateSockets {
            sockets: vec![
                (SocketRole::Proxy, proxy.into()),
                (SocketRole::Transparent, transparent.into()),
                (SocketRole::DnsUdp, dns.into()),
            ],
            ..GateSockets::default()
        })
        .expect("an open gate");
    wait_for_the_end();
}

fn send(batch: &Batch) -> io::Result<()> {
    // SAFETY: plain system calls on a descriptor and buffers of this function.
    unsafe {
        let fd = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, batch.protocol);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = OwnedFd::from_raw_fd(fd);
        let mut answer = [0u8; 4096];
        let sent = libc::send(fd.as_raw_fd(), batch.bytes.as_ptr().cast(), batch.bytes.len(), 0);
        let length = libc::recv(fd.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0);
        if sent < 0 || length < 20 {
            return Err(io::Error::last_os_error());
        }
        match i32::from_ne_bytes(answer[16..20].try_into().expect("four bytes")) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(-code)),
        }
    }
}
