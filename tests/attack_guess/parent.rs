//! A proxy that wants a password, which the caller has and the sandbox must not learn: it passes plain requests on to the upstream.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use kennel_tests::world::THERE;

/// Starts it; returns its port.
pub fn start() -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || carry(client));
        }
    });
    Ok(port)
}

/// The upstream reads addresses in the form for proxies as well.
fn carry(client: TcpStream) -> io::Result<()> {
    let server = TcpStream::connect((THERE, 80))?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let (up_from, up_to) = (client.try_clone()?, server.try_clone()?);
    let up = std::thread::spawn(move || pass(up_from, up_to));
    let down = pass(server, client);
    let _ = up.join();
    down
}

fn pass(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 65536];
    loop {
        match from.read(&mut buffer)? {
            0 => return to.shutdown(std::net::Shutdown::Write),
            count => to.write_all(&buffer[..count])?,
        }
    }
}

/// What the field for it says.
pub fn token(user: &str, password: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let text = format!("{user}:{password}");
    let mut out = String::new();
    for three in text.as_bytes().chunks_exact(3) {
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        out.extend((0..4).map(|place| char::from(ALPHABET[(bits >> (18 - 6 * place)) as usize & 63])));
    }
    out
}
