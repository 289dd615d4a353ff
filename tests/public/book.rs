//! An address book: spellings of addresses that are not public, and names that lead to them, each tried by every way out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use kennel_tests::world::{HERE, HERE_V6, World, ip, python, world};
use kennel_tests::{Scratch, skipped};

use crate::public::{Here, public, there};

/// Addresses that nobody has given out to the public, or that are this host's.
const CLOSED_V4: [&str; 28] = [
    "10.0.0.1",
    "10.255.255.254",
    "172.16.0.1",
    "172.31.255.254",
    "192.168.0.1",
    "192.168.255.254",
    "100.64.0.1",
    "100.127.255.254",
    "169.254.0.1",
    "169.254.169.254",
    "127.0.0.1",
    "127.1.2.3",
    "0.0.0.0",
    "0.1.2.3",
    "198.18.0.1",
    "198.19.255.254",
    "192.0.2.1",
    "198.51.100.7",
    HERE,
    "203.0.113.10",
    "192.0.0.192",
    "192.88.99.1",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "100.100.100.200",
];
const CLOSED_V6: [&str; 15] = [
    "::1",
    "::",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    HERE_V6,
    "2001:db8::10",
    "3fff::1",
    "5f00::1",
    "100::1",
    "4000::1",
    "2001::1",
];
const OPEN: [&str; 3] = ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"];

/// IPv6 addresses with this IPv4 address inside.
fn carriers(v4: Ipv4Addr) -> Vec<Ipv6Addr> {
    let [a, b, c, d] = v4.octets();
    let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let mut found = vec![
        v4.to_ipv6_mapped(),
        Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
        Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
        Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
        Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0x2001, 0, high, low, 0, 0, 0, 0),
        Ipv6Addr::new(0x2001, 0, 0x808, 0x808, 0, 0, !high, !low),
        Ipv6Addr::new(0x2a00, 1, 2, 3, 0x200, 0x5efe, high, low),
    ];
    // RFC 6052 §2.2, for prefixes of 48, 56, 64 and 96 bits.
    for places in [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], [12, 13, 14, 15]] {
        let mut bytes = Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0).octets();
        for (place, byte) in places.into_iter().zip(v4.octets()) {
            bytes[place] = byte;
        }
        found.push(bytes.into());
    }
    found
}

/// How programs write an IPv4 address.
fn spellings(v4: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = v4.octets();
    let number = u32::from(v4);
    vec![
        v4.to_string(),
        format!("{v4}."),
        number.to_string(),
        format!("{number:#x}"),
        format!("{number:#o}").replacen('o', "", 1),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("{a:#o}.{b:#o}.{c:#o}.{d:#o}").replace('o', ""),
        format!("{a}.{b}.{}", u32::from(c) << 8 | u32::from(d)),
        format!("{a}.{}", number & 0xff_ffff),
        format!("{a:#X}.{b}.{c}.{d}").replace('X', "x"),
    ]
}

fn name_of(addresses: &[IpAddr]) -> String {
    let words = addresses.iter().map(|address| match address {
        IpAddr::V4(v4) => format!("h{:08x}", u32::from(*v4)),
        IpAddr::V6(v6) => format!("h{:032x}", u128::from(*v6)),
    });
    words.collect::<Vec<_>>().join("-")
}

/// The hosts, as they stand in a URL.
fn book() -> Vec<String> {
    let mut book = Vec::new();
    for v4 in CLOSED_V4.map(|text| text.parse::<Ipv4Addr>().expect("an address")) {
        book.extend(spellings(v4));
        book.push(format!("{}.book.test", name_of(&[v4.into()])));
        book.push(format!("{}.BOOK.test.", name_of(&[v4.into()])));
        book.push(format!("alias1.{}.test", name_of(&[v4.into()])));
        book.push(format!("alias3.{}.test", name_of(&[v4.into()])));
        book.push(format!("flip-{}-{}.book.test", name_of(&[v4.into()]), name_of(&[v4.into()])));
        for v6 in carriers(v4) {
            book.push(format!("[{v6}]"));
            book.push(format!("{}.book.test", name_of(&[v6.into()])));
        }
    }
    for v6 in CLOSED_V6.map(|text| text.parse::<Ipv6Addr>().expect("an address")) {
        book.push(format!("[{v6}]"));
        let words = v6.segments().map(|word| format!("{word:04x}")).join(":");
        book.push(format!("[{words}]"));
        book.push(format!("{}.book.test", name_of(&[v6.into()])));
        book.push(format!("alias2.{}.test", name_of(&[v6.into()])));
    }
    book.extend(
        ["localhost", "LOCALHOST.", "x.localhost", "host.kennel.internal", "in-hosts-file.test"]
            .map(str::to_owned),
    );
    book
}

/// Asks for every host of a file, one a line, on two ports: by the HTTP proxy as a request and as a tunnel, by SOCKS, by itself.
const CLIENT: &str = r#"
import os, socket, struct, sys, base64, urllib.parse
proxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
login = base64.b64encode(f'{proxy.username}:{proxy.password}'.encode()).decode()
def dial():
    s = socket.create_connection((proxy.hostname, proxy.port), 20); s.settimeout(20); return s
def ask(s, target, number, head=''):
    s.sendall(f'GET {target}/book/{number} HTTP/1.0\r\n{head}\r\n'.encode('latin-1', 'replace')); return b'reached' in read(s)
def read(s):
    data = b''
    while True:
        try: more = s.recv(4096)
        except OSError: return data
        data += more
        if not more or b'reached' in data: return data
def request(host, port, number):
    return ask(dial(), f'http://{host}:{port}', number, f'Host: {host}:{port}\r\nProxy-Authorization: Basic {login}\r\n')
def tunnel(host, port, number):
    s = dial()
    s.sendall(f'CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\nProxy-Authorization: Basic {login}\r\n\r\n'.encode())
    return b' 200' in s.recv(4096).split(b'\r\n')[0] and ask(s, '', number, f'Host: {host}\r\n')
def socks(host, port, number):
    s = dial(); user = proxy.username.encode(); word = proxy.password.encode()
    s.sendall(b'\5\1\2'); s.recv(2)
    s.sendall(b'\1' + bytes([len(user)]) + user + bytes([len(word)]) + word); s.recv(2)
    plain = host.strip('[]').encode()
    s.sendall(b'\5\1\0\3' + bytes([len(plain)]) + plain + struct.pack('>H', port))
    return s.recv(64)[1:2] == b'\0' and ask(s, '', number, f'Host: {host}\r\n')
def direct(host, port, number):
    # On its own loopback the sandbox is alone.
    s = socket.create_connection((host.strip('[]'), port), 20); s.settimeout(20)
    return ask(s, '', number, f'Host: {host}\r\n')
ports = [int(port) for port in sys.argv[2:]]
for number, host in enumerate(open(sys.argv[1]).read().splitlines()):
    for way in (request, tunnel, socks, direct):
        for port in ports:
            try: got = way(host, port, f'{number}/{way.__name__}')
            except (OSError, UnicodeError, IndexError): got = False
            if got: print('REACHED', host, way.__name__, port)
print('asked for', number + 1)
"#;

fn ask_inside(book: &[String], flags: &[&str], ports: &[u16]) -> Option<String> {
    let Some(python) = python() else {
        skipped("needs python3");
        return None;
    };
    let scratch = Scratch::new();
    let file = scratch.write("book", &(book.join("\n") + "\n"));
    let python = python.display().to_string();
    let file = file.display().to_string();
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    let mut words = vec![python.as_str(), "-c", CLIENT, file.as_str()];
    words.extend(ports.iter().map(String::as_str));
    Some(public(flags, &words).ok().stdout)
}

#[test]
#[kennel_claim::claim("network/public-is-public")]
fn no_spelling_of_an_address_that_is_not_public_is_reached() {
    let Some(world) = world() else { return };
    let here = Here::new(world);
    // What is refused inside is there: from outside the sandbox it answers.
    for address in [
        "10.0.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "198.18.0.1",
        "169.254.169.254",
        "168.63.129.16",
        "240.0.0.1",
    ] {
        assert!(reaches(address, there::HTTP), "{address}");
    }
    if world.ipv6 {
        for address in
            ["fc00::1", "fd00:ec2::254", "2002:a00:1::1", "64:ff9b::a00:1", "64:ff9b:1::a00:1", "5f00::1"]
        {
            assert!(reaches(address, there::HTTP), "{address}");
        }
    }
    for address in ["127.0.0.1", HERE] {
        assert!(reaches(address, Here::new(world).port), "{address}");
    }
    let book = book();
    assert!(book.len() >= 300, "{}", book.len());
    let Some(said) = ask_inside(&book, &[], &[there::HTTP, here.port]) else { return };
    assert_eq!(said, format!("asked for {}\n", book.len()));
    assert_eq!(asked_elsewhere(world), None);
    assert_eq!(here.came(), 0, "a server of this host was reached");
}

/// What the other side saw that came out of a sandbox and not to a public address.
fn asked_elsewhere(world: &World) -> Option<String> {
    let public = |line: &String| OPEN.iter().any(|open| line.starts_with(&format!("http {open} ")));
    world.seen("/book/").into_iter().find(|line| !public(line))
}

/// From here, outside every sandbox.
fn reaches(address: &str, port: u16) -> bool {
    let place = SocketAddr::new(ip(address), port);
    TcpStream::connect_timeout(&place, Duration::from_secs(10)).is_ok()
}

#[test]
fn public_addresses_are_reached_by_any_name_and_way() {
    let Some(world) = world() else { return };
    let mut open: Vec<IpAddr> = OPEN.map(ip).to_vec();
    open.retain(|address| address.is_ipv4() || world.ipv6);
    let mut book = Vec::new();
    for address in &open {
        match address {
            IpAddr::V4(v4) => book.push(v4.to_string()),
            IpAddr::V6(v6) => book.push(format!("[{v6}]")),
        }
        book.push(format!("{}.open.test", name_of(&[*address])));
        book.push(format!("alias3.{}.test", name_of(&[*address])));
        // One good address is enough, and the bad one is left out.
        book.push(format!("{}.mixed.test", name_of(&[ip("10.0.0.1"), *address])));
    }
    let Some(said) = ask_inside(&book, &[], &[there::HTTP]) else { return };
    for host in &book {
        for way in ["request", "tunnel", "socks", "direct"] {
            assert!(said.contains(&format!("REACHED {host} {way} 80")), "{host} {way}\n{said}");
        }
    }
}

#[test]
#[kennel_claim::claim("network/public-is-public")]
fn a_name_that_answers_differently_at_the_second_look_reaches_nothing_private() {
    let Some(world) = world() else { return };
    let here = Here::new(world);
    let mut book = Vec::new();
    for (at, closed) in
        ["10.0.0.1", "192.168.0.1", "127.0.0.1", HERE, "169.254.169.254"].into_iter().enumerate()
    {
        let host = format!("flip-{}-{}.n{at}.test", name_of(&[ip(OPEN[0])]), name_of(&[ip(closed)]));
        // Again and again the same name: the first look is the good one.
        book.extend(std::iter::repeat_n(host, 4));
    }
    let Some(said) = ask_inside(&book, &[], &[there::HTTP, here.port]) else { return };
    assert!(said.contains("REACHED flip-"), "the first look is public: {said}");
    assert_eq!(asked_elsewhere(world), None);
    assert_eq!(here.came(), 0, "a server of this host was reached");
}
