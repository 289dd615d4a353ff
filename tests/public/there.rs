//! The other side of the cable, which has every address there is: whatever leaves this side arrives, and is written down.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use kennel_tests::world::{self, DNS, LOG, METADATA, THERE, THERE_V6, ip, wire};

/// Plain HTTP.
pub const HTTP: u16 = 80;
/// A protocol of its own: it sends back what comes.
pub const ECHO: u16 = 7;

type Log = Arc<Mutex<Vec<String>>>;

/// Starts the servers.
pub fn serve(_: &Path, ipv6: bool) -> io::Result<()> {
    let mut addresses = vec![(THERE, 24), (DNS, 32)];
    if ipv6 {
        // Nobody answers for a neighbour that has an address by a route alone.
        addresses.extend([(THERE_V6, 64), (METADATA[2], 128)]);
    }
    world::plug_in(&addresses)?;
    wire::own(ip("0.0.0.0"), 0)?;
    if ipv6 {
        wire::own(ip("::"), 0)?;
    }
    let any: IpAddr = if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { ip("0.0.0.0") };
    let log = Log::default();
    for port in [HTTP, ECHO, LOG] {
        let listener = TcpListener::bind(SocketAddr::new(any, port))?;
        let log = Arc::clone(&log);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = Arc::clone(&log);
                std::thread::spawn(move || {
                    let _ = answer(stream, port, &log);
                });
            }
        });
    }
    let looks = Mutex::new(std::collections::HashMap::new());
    world::names::serve_aliases(aliases, move |name, _| {
        let looks = &mut *looks.lock().unwrap_or_else(PoisonError::into_inner);
        Some(addresses_of(name, looks))
    })
}

fn answer(mut stream: TcpStream, port: u16, log: &Log) -> io::Result<()> {
    let at = stream.local_addr()?.ip().to_canonical();
    let lock = || log.lock().unwrap_or_else(PoisonError::into_inner);
    match port {
        LOG => stream.write_all(lock().join("\n").as_bytes()),
        ECHO => {
            lock().push(format!("echo {at}"));
            let mut reader = stream.try_clone()?;
            io::copy(&mut reader, &mut stream).map(drop)
        }
        _ => {
            let mut line = String::new();
            BufReader::new(stream.try_clone()?).take(4096).read_line(&mut line)?;
            lock().push(format!("http {at} {}", line.trim()));
            stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 8\r\n\r\nreached\n")
        }
    }
}

/// What a name says of its addresses: `h0a000001-5db8d822.…` has these two, in hexadecimal digits; `flip-….book.test` has
/// the first of them at the first look and the last at each later one, of each family.
fn addresses_of(name: &str, looks: &mut std::collections::HashMap<String, usize>) -> Vec<IpAddr> {
    let label = name.split('.').find(|label| label.starts_with('h') || label.starts_with("flip"));
    let Some(label) = label else { return Vec::new() };
    let words = label.split('-').map(|word| word.strip_prefix('h').unwrap_or(word));
    let addresses: Vec<IpAddr> = words.filter_map(hexadecimal).collect();
    if !label.starts_with("flip") {
        return addresses;
    }
    let looked = looks.entry(name.to_owned()).or_default();
    *looked += 1;
    // A look asks for both families.
    let shown = if *looked <= 2 { addresses.first() } else { addresses.last() };
    shown.copied().into_iter().collect()
}

fn hexadecimal(text: &str) -> Option<IpAddr> {
    match text.len() {
        8 => Some(IpAddr::V4(u32::from_str_radix(text, 16).ok()?.into())),
        32 => Some(IpAddr::V6(u128::from_str_radix(text, 16).ok()?.into())),
        _ => None,
    }
}

/// `alias3.…` stands for another name, which stands for another one, and that for a third.
fn aliases(name: &str) -> Vec<String> {
    let count = name.split('.').next().and_then(|first| first.strip_prefix("alias")?.parse().ok());
    (0..count.unwrap_or(0usize)).map(|at| format!("end{at}.alias.test")).collect()
}
