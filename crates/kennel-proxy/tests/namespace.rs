//! The netlink batches, sent to a real kernel in a network namespace of the test's own, and the gate behind them.
//!
//! Each test runs this program again under `unshare`, as root (`-n`) or as an ordinary user (`-Urn`), and looks at
//! what that second program says.

#![cfg(target_os = "linux")]

use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kennel_policy::domain::{HostRule, ListKind};
use kennel_policy::listeners::SocketRole;
use kennel_proxy::netlink::{A_TRY, Batch, DoorPorts, redirect, routes, transparent_network};
use kennel_proxy::{Gate, GateSockets, Rules, Settings, Verdict};

/// Set for the second program: which part it plays.
const PART: &str = "KENNEL_TEST_PART";

fn main() {
    match std::env::var(PART).as_deref() {
        Ok("delivery") => return delivery(),
        Ok("gate") => return gate(),
        Ok("routes") => return routes_alone(),
        Ok("speed") => return speed(),
        _ => {}
    }
    // Listed by test runners; there is no harness to do it.
    if std::env::args().any(|word| word == "--list") {
        println!("namespace: test");
        return;
    }
    let mut failed = 0;
    for (name, part) in [
        ("every_connection_reaches_the_door_and_nothing_else_gets_through", "delivery"),
        ("a_program_without_a_proxy_reaches_allowed_names_only", "gate"),
        ("without_netfilter_the_routes_alone_deliver_to_chosen_ports", "routes"),
        ("set_up_is_quick", "speed"),
    ] {
        for flags in [&["--net"][..], &["--user", "--map-root-user", "--net"]] {
            if flags.len() == 1 && !is_root() {
                println!("test {name} (unshare {}) ... SKIPPED: needs root", flags.join(" "));
                continue;
            }
            failed += i32::from(!run(name, part, flags, None));
        }
        // As root, also as someone who is not: that is another path through the kernel's permissions.
        if is_root() {
            failed += i32::from(!run(name, part, &["--user", "--map-root-user", "--net"], Some("nobody")));
        }
    }
    std::process::exit(failed.min(1));
}

fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

fn run(name: &str, part: &str, flags: &[&str], user: Option<&str>) -> bool {
    let program = std::env::current_exe().expect("this program's path");
    let mut command = match user {
        // The build folder may be closed to others, so the program comes by a descriptor that is open already.
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.args([&format!("--reuid={user}"), "--clear-groups", "unshare"]);
            command
        }
        None => Command::new("unshare"),
    };
    command.args(flags).arg("--");
    let copy = user.map(|_| copy_for_all(&program));
    command.arg(copy.as_deref().unwrap_or(&program)).env(PART, part).stdin(Stdio::null());
    let output = command.output();
    if let Some(copy) = copy {
        let _ = std::fs::remove_dir_all(copy.parent().expect("a folder of ours"));
    }
    let who = user.unwrap_or(if is_root() { "root" } else { "this user" });
    let label = format!("test {name} (unshare {}, as {who})", flags.join(" "));
    match output {
        Err(error) => {
            println!("{label} ... SKIPPED: cannot run unshare: {error}");
            true
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            if let Some(reason) = text.lines().find_map(|line| line.strip_prefix("SKIPPED: ")) {
                println!("{label} ... SKIPPED: {reason}");
                return true;
            }
            let not_permitted = errors.contains("unshare failed") || errors.contains("uid_map");
            if not_permitted {
                println!("{label} ... SKIPPED: this host does not let its users make namespaces");
                return true;
            }
            let passed = output.status.success() && text.contains("PASSED");
            println!("{label} ... {}", if passed { "ok" } else { "FAILED" });
            for line in text.lines().filter(|line| line.starts_with("note: ")) {
                println!("    {line}");
            }
            if !passed {
                println!("--- stdout\n{text}\n--- stderr\n{errors}");
            }
            passed
        }
    }
}

fn copy_for_all(program: &std::path::Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = std::env::temp_dir().join(format!("kennel-namespace-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the copy");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let copy = folder.join("test");
    std::fs::copy(program, &copy).expect("a copy");
    copy
}

/// Sends a batch and reads its acknowledgement.
fn send(batch: &Batch) -> io::Result<()> {
    // SAFETY: plain system calls on a descriptor that is owned right away.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, batch.protocol);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: the buffers are valid for the lengths given.
    let sent = unsafe { libc::send(socket.as_raw_fd(), batch.bytes.as_ptr().cast(), batch.bytes.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut acks = 0;
    while acks < batch.expected_acks {
        let mut answer = vec![0u8; 8192];
        // SAFETY: the buffer is valid for its length.
        let length = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        let mut rest = &answer[..length];
        while rest.len() >= 20 {
            let size = u32::from_ne_bytes(rest[..4].try_into().unwrap()) as usize;
            let code = i32::from_ne_bytes(rest[16..20].try_into().unwrap());
            let sequence = u32::from_ne_bytes(rest[28..32].try_into().unwrap());
            if sequence == A_TRY {
                rest = &rest[size.next_multiple_of(4).min(rest.len())..];
                continue;
            }
            if code != 0 {
                eprintln!("message {sequence} of protocol {} failed", batch.protocol);
                return Err(io::Error::from_raw_os_error(-code));
            }
            acks += 1;
            rest = &rest[size.next_multiple_of(4).min(rest.len())..];
        }
    }
    Ok(())
}

fn tools(command: &str) -> Option<String> {
    let output = Command::new("sh").args(["-c", command]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The doors of one sandbox.
struct Bound {
    v4: TcpListener,
    v6: TcpListener,
    dns: UdpSocket,
    ports: DoorPorts,
}

/// Sets the network up, in the order that a planner has to keep: routes, doors, redirect.
fn set_up() -> Bound {
    send(&routes(true, false)).expect("the kernel takes the routes");
    let v4 = TcpListener::bind("127.0.0.1:0").unwrap();
    let transparent = v4.local_addr().unwrap().port();
    let v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, transparent)).unwrap();
    let dns = UdpSocket::bind("127.0.0.1:0").unwrap();
    let ports =
        DoorPorts { transparent, dns: dns.local_addr().unwrap().port(), ipv6: true, large_segments: false };
    send(&redirect(&ports)).expect("the kernel takes the rules");
    Bound { v4, v6, dns, ports }
}

fn original(stream: &TcpStream) -> SocketAddr {
    match stream.local_addr().unwrap() {
        SocketAddr::V4(_) => rustix::net::sockopt::ip_original_dst(stream).unwrap().into(),
        SocketAddr::V6(_) => rustix::net::sockopt::ipv6_original_dst(stream).unwrap().into(),
    }
}

fn delivery() {
    let Bound { v4, v6, dns, ports } = set_up();

    if let Some(rules) = tools("nft list ruleset") {
        for line in ["ip daddr 127.0.0.0/8 accept", "ip6 daddr ::1 accept", "type nat hook output"] {
            assert!(rules.contains(line), "{line} in\n{rules}");
        }
        assert!(rules.contains(&format!("meta l4proto tcp redirect to :{}", ports.transparent)), "{rules}");
        assert!(rules.contains(&format!("udp dport 53 redirect to :{}", ports.dns)), "{rules}");
    } else {
        println!("note: nft is not installed, its view of the rules was not compared");
    }
    if let Some(routes) = tools("ip route show table local; ip -6 route show table local") {
        assert!(routes.contains("local default dev lo"), "{routes}");
        assert_eq!(routes.matches("local default dev lo").count(), 2, "{routes}");
    }

    // Any address and any port, both families.
    for (listener, destination) in [
        (&v4, "203.0.113.5:443"),
        (&v4, "198.18.1.0:5432"),
        (&v4, "8.8.8.8:53"),
        (&v6, "[2001:db8::5]:443"),
        (&v6, "[fd6b:656e:6e65:6c::100]:22"),
    ] {
        let destination: SocketAddr = destination.parse().unwrap();
        let mut client = TcpStream::connect_timeout(&destination, Duration::from_secs(2)).unwrap();
        let (mut server, from) = listener.accept().unwrap();
        assert_eq!(original(&server), destination);
        assert!(!from.ip().is_loopback(), "the source of a connection to {destination} is {from}");
        assert_eq!(client.peer_addr().unwrap(), destination);
        client.write_all(b"ping").unwrap();
        let mut bytes = [0; 4];
        server.read_exact(&mut bytes).unwrap();
        server.write_all(b"pong").unwrap();
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"pong");
    }

    // The sandbox's own loopback is left alone.
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(own.local_addr().unwrap()).unwrap();
    let (server, _) = own.accept().unwrap();
    assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
    let own = TcpListener::bind("[::1]:0").unwrap();
    TcpStream::connect(own.local_addr().unwrap()).unwrap();
    own.accept().unwrap();

    // A look-up to any server reaches the name server, and its answer comes from where the question went.
    let client = UdpSocket::bind("0.0.0.0:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    client.connect("9.9.9.9:53").unwrap();
    client.send(b"question").unwrap();
    let mut bytes = [0; 16];
    let (length, from) = dns.recv_from(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"question");
    dns.send_to(b"answer", from).unwrap();
    assert_eq!(client.recv(&mut bytes).unwrap(), 6);

    // Other UDP fails at once, and reaches no socket of the sandbox's either.
    let trap = UdpSocket::bind("0.0.0.0:4433").unwrap();
    trap.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    for destination in ["203.0.113.5:4433", "[2001:db8::5]:4433"] {
        let destination: SocketAddr = destination.parse().unwrap();
        let any: SocketAddr = if destination.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let client = UdpSocket::bind(any).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        client.connect(destination).unwrap();
        let begun = Instant::now();
        let error = client.send(b"quic").and_then(|_| client.recv(&mut bytes)).unwrap_err();
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "{destination}: {error} after {:?}",
            begun.elapsed()
        );
        println!("note: UDP to {destination} fails with: {error}");
    }
    assert!(trap.recv_from(&mut bytes).is_err(), "no packet may arrive");
    assert!(tools("ping -c1 -W1 8.8.8.8").is_none(), "a ping to the outside succeeds");
    assert!(tools("ping -6 -c1 -W1 2001:db8::1").is_none(), "a ping to the outside succeeds");
    assert!(icmp_echo_is_refused(), "an ICMP echo to the outside was sent");
    println!("PASSED");
}

/// `ping` may not be installed; this is what it does.
fn icmp_echo_is_refused() -> bool {
    // SAFETY: plain system calls on descriptors and buffers of this function.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP);
        if fd < 0 {
            return true;
        }
        let fd = OwnedFd::from_raw_fd(fd);
        let to = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([8, 8, 8, 8]) },
            sin_zero: [0; 8],
        };
        let echo = [8u8, 0, 0xf7, 0xff, 0, 0, 0, 0];
        let sent = libc::sendto(
            fd.as_raw_fd(),
            echo.as_ptr().cast(),
            echo.len(),
            0,
            (&raw const to).cast(),
            size_of_val(&to) as u32,
        );
        sent < 0
    }
}

fn rule(text: &str) -> HostRule {
    HostRule::parse(text, ListKind::Allow).unwrap()
}

/// The gate on doors of this namespace. Its way out is this namespace's loopback, which is all that a test has.
fn gate() {
    let Bound { v4, v6, dns, .. } = set_up();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = upstream.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in upstream.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.write_all(b"hello from upstream");
        }
    });

    let allow = vec![rule(&format!("host.kennel.internal:{port}"))];
    let gate = Gate::new(Rules::new(allow, vec![]), Settings::default());
    let _open = gate
        .open(GateSockets {
            sockets: vec![
                (SocketRole::Transparent, v4.into()),
                (SocketRole::Transparent, v6.into()),
                (SocketRole::DnsUdp, dns.into()),
            ],
            ..GateSockets::default()
        })
        .unwrap();

    let client = UdpSocket::bind("0.0.0.0:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let look_up = |name: &str, kind: u8| -> Vec<u8> {
        let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            query.push(label.len() as u8);
            query.extend_from_slice(label.as_bytes());
        }
        query.extend_from_slice(&[0, 0, kind, 0, 1]);
        client.send_to(&query, "1.1.1.1:53").unwrap();
        let mut answer = vec![0; 512];
        let length = client.recv(&mut answer).unwrap();
        answer.truncate(length);
        answer
    };
    let answer = look_up("host.kennel.internal", 1);
    assert_eq!(answer[3] & 0xf, 0);
    let v4: [u8; 4] = answer[answer.len() - 4..].try_into().unwrap();
    let answer = look_up("host.kennel.internal", 28);
    let v6: [u8; 16] = answer[answer.len() - 16..].try_into().unwrap();
    assert_eq!(look_up("other.test", 1)[3] & 0xf, 3);

    for address in [SocketAddr::from((v4, port)), SocketAddr::from((v6, port))] {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello from upstream", "{address}");
    }
    // The same name on another port, and an address that nobody allowed.
    for address in [SocketAddr::from((v4, port ^ 1)), "203.0.113.5:443".parse().unwrap()] {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut text = String::new();
        let result = stream.read_to_string(&mut text);
        assert!(result.is_err() || text.is_empty(), "{address}: {text}");
    }
    let denied = gate.records().iter().filter(|record| record.verdict != Verdict::Allowed).count();
    assert_eq!(denied, 3, "{:#?}", gate.records());
    println!("PASSED");
}

/// What is left where the kernel has no nftables.
fn routes_alone() {
    send(&routes(true, false)).expect("the kernel takes the routes");
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = upstream.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in upstream.incoming().flatten() {
            let _ = stream.write_all(b"hello from upstream");
        }
    });
    let door = TcpListener::bind("0.0.0.0:443").unwrap();
    let allow = vec![rule("203.0.113.5"), rule(&format!("host.kennel.internal:{port}"))];
    let gate = Gate::new(Rules::new(allow, vec![]), Settings::default());
    let sockets = vec![(SocketRole::Transparent, door.into())];
    let _open = gate.open(GateSockets { sockets, ..GateSockets::default() }).unwrap();
    for (address, verdict) in [("203.0.113.6", "not on the allow list"), ("198.18.7.7", "belongs to no name")]
    {
        let mut stream = TcpStream::connect((address, 443)).unwrap();
        stream.write_all(&[22, 3, 1, 0, 200]).unwrap();
        let mut alert = Vec::new();
        stream.read_to_end(&mut alert).unwrap();
        assert_eq!(alert, [21, 3, 3, 0, 2, 2, 49], "{address}");
        assert!(gate.summary().contains(&format!("{address}:443: ")), "{}", gate.summary());
        assert!(gate.summary().contains(verdict), "{}", gate.summary());
    }
    // A client that goes to the listener itself was not delivered, and is not served.
    let mut stream = TcpStream::connect("127.0.0.1:443").unwrap();
    assert!(!matches!(stream.read(&mut [0]), Ok(1..)));
    println!("PASSED");
}

/// One namespace can be set up only once; this says how long it took, and that it is not far off.
fn speed() {
    let begun = Instant::now();
    for batch in transparent_network(&DoorPorts { transparent: 1, dns: 2, ipv6: true, large_segments: false })
    {
        let one = Instant::now();
        send(&batch).unwrap();
        println!("note: protocol {}: {} bytes in {:?}", batch.protocol, batch.bytes.len(), one.elapsed());
    }
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    println!("PASSED");
}
