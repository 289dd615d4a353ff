//! A small world for a gate: a name server, servers to reach, and clients that say exactly these bytes. Everything
//! is on the loopback and real.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kennel_policy::domain::{HostRule, ListKind};
use kennel_policy::listeners::SocketRole;
use kennel_proxy::{Credentials, Gate, GateSockets, OpenGate, ResolverSettings, Rules, Settings};

/// How long a test waits for what should come at once.
pub const SOON: Duration = Duration::from_secs(10);

/// A name server that answers A questions from a table, and remembers what it was asked.
#[derive(Clone)]
pub struct NameServer {
    pub address: SocketAddr,
    names: Arc<Mutex<HashMap<String, Vec<Ipv4Addr>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl NameServer {
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = NameServer {
            address: socket.local_addr().unwrap(),
            names: Arc::default(),
            asked: Arc::default(),
        };
        let own = server.clone();
        std::thread::spawn(move || {
            let mut message = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut message) {
                if let Some(reply) = own.answer(&message[..length]) {
                    let _ = socket.send_to(&reply, client);
                }
            }
        });
        server
    }

    pub fn set(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        self.names.lock().unwrap().insert(name.into(), addresses);
    }

    /// The names that were asked for, each question once.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn answer(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut name = String::new();
        let mut at = 12;
        while message[at] != 0 {
            let length = usize::from(message[at]);
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(&String::from_utf8_lossy(&message[at + 1..at + 1 + length]));
            at += 1 + length;
        }
        let is_a = message[at + 2] == 1;
        if is_a {
            self.asked.lock().unwrap().push(name.clone());
        }
        let known = self.names.lock().unwrap().get(&name).cloned();
        let addresses = known.clone().filter(|_| is_a).unwrap_or_default();
        let mut reply = message[..at + 5].to_vec();
        reply[2..4].copy_from_slice(&[0x81, if known.is_some() { 0x80 } else { 0x83 }]);
        reply[6..12].copy_from_slice(&[0, addresses.len() as u8, 0, 0, 0, 0]);
        for address in addresses {
            reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
            reply.extend_from_slice(&address.octets());
        }
        Some(reply)
    }
}

/// A gate with a proxy door and a name server's door.
pub struct World {
    pub gate: Gate,
    pub proxy: SocketAddr,
    pub dns: SocketAddr,
    pub names: NameServer,
    _open: OpenGate,
}

pub fn rules(allow: &[&str], deny: &[&str]) -> Rules {
    let parse = |list: &[&str], kind| {
        list.iter().map(|text| HostRule::parse(text, kind).unwrap()).collect::<Vec<_>>()
    };
    Rules::new(parse(allow, ListKind::Allow), parse(deny, ListKind::Deny))
}

impl World {
    /// A gate that allows these hosts. Test servers are on 127.0.0.1, so that address is allowed as well, as the
    /// answer for allowed names; give a port to a rule to see it matter.
    pub fn new(allow: &[&str]) -> Self {
        let mut allow = allow.to_vec();
        allow.push("127.0.0.1");
        World::with(rules(&allow, &[]), |_| {})
    }

    pub fn with(rules: Rules, change: impl FnOnce(&mut Settings)) -> Self {
        let names = NameServer::start();
        let mut settings = Settings {
            resolver: ResolverSettings {
                hosts_file: "/dev/null".into(),
                configuration: "/dev/null".into(),
                servers: Some(vec![names.address]),
            },
            ..Settings::default()
        };
        change(&mut settings);
        let gate = Gate::new(rules, settings);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // A port that is free for UDP may be taken for TCP.
        let (dns, dns_tcp) = std::iter::repeat_with(|| {
            let dns = UdpSocket::bind("127.0.0.1:0").unwrap();
            let dns_tcp = TcpListener::bind(dns.local_addr().unwrap()).ok()?;
            Some((dns, dns_tcp))
        })
        .find_map(|pair| pair)
        .unwrap();
        let dns_address = dns.local_addr().unwrap();
        let proxy = listener.local_addr().unwrap();
        let open = gate
            .open(GateSockets {
                sockets: vec![
                    (SocketRole::Proxy, listener.into()),
                    (SocketRole::DnsUdp, dns.into()),
                    (SocketRole::DnsTcp, dns_tcp.into()),
                ],
                ..GateSockets::default()
            })
            .unwrap();
        World { gate, proxy, dns: dns_address, names, _open: open }
    }

    /// A client of the proxy door.
    pub fn client(&self) -> Client {
        Client::connect(self.proxy)
    }

    /// A client whose CONNECT to this target was accepted.
    pub fn tunnel(&self, target: &str) -> Client {
        let mut client = self.client();
        client.send(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"));
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        client
    }
}

pub fn token() -> Credentials {
    Credentials { user: "kennel".into(), password: "token".into() }
}

/// `kennel:token`.
pub const TOKEN_BASIC: &str = "Basic a2VubmVsOnRva2Vu";

pub struct Client(pub TcpStream);

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client(stream)
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// Up to and with the empty line.
    pub fn head(&mut self) -> String {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while !bytes.ends_with(b"\r\n\r\n") {
            match self.0.read(&mut byte) {
                Ok(1) => bytes.push(byte[0]),
                other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&bytes)),
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    pub fn exactly(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// All that comes until the end; the error where it does not end well.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).map(|_| bytes)
    }

    pub fn rest_text(&mut self) -> String {
        String::from_utf8_lossy(&self.rest().unwrap()).into_owned()
    }
}

/// A server that does this with each connection, on a thread of its own.
pub fn serve(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let handle = Arc::new(handle);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = Arc::clone(&handle);
            std::thread::spawn(move || handle(stream));
        }
    });
    port
}

/// A server that remembers everything that it is sent and says these bytes to each client at once.
pub fn recorder(greeting: &'static [u8]) -> (u16, Arc<Mutex<Vec<u8>>>) {
    recording(greeting, true)
}

/// The same for a server that waits until it is spoken to.
pub fn answering(answer: &'static [u8]) -> (u16, Arc<Mutex<Vec<u8>>>) {
    recording(answer, false)
}

fn recording(answer: &'static [u8], speaks_first: bool) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&seen);
    let port = serve(move |mut stream| {
        let mut spoken = speaks_first;
        if spoken {
            let _ = stream.write_all(answer);
        }
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            own.lock().unwrap().extend_from_slice(&bytes[..count]);
            if !std::mem::replace(&mut spoken, true) {
                let _ = stream.write_all(answer);
            }
        }
    });
    (port, seen)
}

/// What a TLS server says that takes a hello, as far as anybody looks at it.
pub const SERVER_HELLO: [u8; 79] = {
    let mut bytes = [5; 79];
    let head = [22, 3, 3, 0, 74, 2, 0, 0, 70, 3, 3];
    let mut at = 0;
    while at < head.len() {
        bytes[at] = head[at];
        at += 1;
    }
    bytes
};

/// What a TLS server says that wants another hello (RFC 8446 §4.1.4): a ServerHello with this random.
pub const HELLO_RETRY_REQUEST: [u8; 11 + 32 + 6] = {
    const RANDOM: [u8; 32] = [
        0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
        0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
    ];
    let mut bytes = [0; 49];
    let head = [22, 3, 3, 0, 44, 2, 0, 0, 40, 3, 3];
    let mut at = 0;
    while at < 11 + 32 {
        bytes[at] = if at < 11 { head[at] } else { RANDOM[at - 11] };
        at += 1;
    }
    bytes
};

/// A server that answers every request, over and over, with what it was sent as the body: head and all.
pub fn echo_requests() -> u16 {
    serve(|stream| {
        let mut client = Client(stream);
        client.0.set_read_timeout(Some(SOON)).unwrap();
        loop {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") {
                match client.0.read(&mut byte) {
                    Ok(1) => head.push(byte[0]),
                    _ => return,
                }
            }
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Kept: yes\r\nKeep-Alive: 5\r\n\r\n",
                head.len()
            );
            client.send(answer);
            client.send(&head);
        }
    })
}

/// The body of an answer with a Content-Length.
pub fn body(client: &mut Client, head: &str) -> String {
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned))
        .unwrap_or_else(|| panic!("no length in {head}"));
    String::from_utf8(client.exactly(length.trim().parse().unwrap())).unwrap()
}

/// A ClientHello that names this server, cut into records of at most this size.
pub fn client_hello(name: &str, record: usize) -> Vec<u8> {
    let vector = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let entry = [vec![0], vector(name.as_bytes())].concat();
    let extension = [vec![0, 0], vector(&vector(&entry))].concat();
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend_from_slice(&vector(&extension));
    let message = [&[1][..], &(body.len() as u32).to_be_bytes()[1..], &body].concat();
    message.chunks(record).flat_map(|chunk| [&[22, 3, 1][..], &vector(chunk)].concat()).collect()
}

/// Whether a program is installed.
pub fn installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// A SOCKS5 greeting without a password, and a request for this name and port.
pub fn socks_request(name: &[u8], port: u16) -> Vec<u8> {
    let mut bytes = vec![5, 1, 0, 3, name.len() as u8];
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes
}

pub fn socks_address(address: IpAddr, port: u16) -> Vec<u8> {
    let mut bytes = vec![5, 1, 0];
    match address {
        IpAddr::V4(v4) => {
            bytes.push(1);
            bytes.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            bytes.push(4);
            bytes.extend_from_slice(&v6.octets());
        }
    }
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes
}

/// A certificate in PEM.
pub fn pem(der: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("-----BEGIN CERTIFICATE-----");
    for (number, chunk) in der.chunks(3).enumerate() {
        if number % 16 == 0 {
            text.push('\n');
        }
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            match place <= chunk.len() {
                true => text.push(char::from(LETTERS[(bits >> (18 - 6 * place) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
    text + "\n-----END CERTIFICATE-----\n"
}
