//! Sends one try and hears what comes back, by the doors of a sandbox or, without one, straight to the server.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use crate::attack_gate::servers::CANARY;
use crate::attack_gate::tries::{ALLOWED, Door, Try};

/// How long an answer is waited for: first with the sending side open, then with its end.
const PATIENCE: [Duration; 2] = [Duration::from_millis(40), Duration::from_millis(60)];

/// The ways out of here.
#[derive(Clone, Debug)]
pub struct Ways {
    /// The proxy with its login, where there is one.
    proxy: Option<(SocketAddr, String)>,
    /// The address of the allowed host.
    host: std::net::IpAddr,
    /// How far above a place's port it is found.
    above: u16,
}

impl Ways {
    /// Without a gate, to what listens so far above the places' ports.
    pub fn direct(above: u16) -> Ways {
        Ways { proxy: None, host: [127, 0, 0, 1].into(), above }
    }

    /// Those of a sandbox.
    pub fn inside() -> io::Result<Ways> {
        let address = std::env::var("HTTP_PROXY").map_err(io::Error::other)?;
        let (login, place) =
            address.trim_start_matches("http://").split_once('@').ok_or(io::ErrorKind::InvalidData)?;
        let place = place.parse().map_err(io::Error::other)?;
        let host = (ALLOWED, 0).to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?.ip();
        Ok(Ways { proxy: Some((place, login.to_owned())), host, above: 0 })
    }

    /// What came back. Whatever breaks off in the middle is an answer as well.
    pub fn send(&self, attempt: &Try) -> Vec<u8> {
        let mut answer = Vec::new();
        if let Ok(stream) = self.connect(attempt) {
            let _ = self.converse(stream, attempt, &mut answer);
        }
        answer
    }

    fn connect(&self, attempt: &Try) -> io::Result<TcpStream> {
        let (Some((proxy, login)), door) = (&self.proxy, attempt.door) else {
            return opened((self.host, attempt.port + self.above).into());
        };
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        match door {
            Door::Direct => opened((self.host, attempt.port).into()),
            Door::Forward => opened(*proxy),
            Door::Connect => {
                let mut stream = opened(*proxy)?;
                let target = format!("{ALLOWED}:{}", attempt.port);
                let auth = base64(login.as_bytes());
                write!(
                    stream,
                    "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Basic {auth}\r\n\r\n"
                )?;
                stream.set_read_timeout(Some(Duration::from_secs(10)))?;
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") {
                    stream.read_exact(&mut byte)?;
                    head.push(byte[0]);
                }
                if head.starts_with(b"HTTP/1.1 200 ") { Ok(stream) } else { Err(broken()) }
            }
            Door::Socks => {
                let mut stream = opened(*proxy)?;
                let (user, password) = login.split_once(':').ok_or_else(broken)?;
                stream.set_read_timeout(Some(Duration::from_secs(10)))?;
                stream.write_all(&[5, 1, 2])?;
                stream.read_exact(&mut [0; 2])?;
                let mut words = vec![1, user.len() as u8];
                words.extend_from_slice(user.as_bytes());
                words.push(password.len() as u8);
                words.extend_from_slice(password.as_bytes());
                stream.write_all(&words)?;
                stream.read_exact(&mut [0; 2])?;
                let mut words = vec![5, 1, 0, 3, ALLOWED.len() as u8];
                words.extend_from_slice(ALLOWED.as_bytes());
                words.extend_from_slice(&attempt.port.to_be_bytes());
                stream.write_all(&words)?;
                let mut reply = [0; 10];
                stream.read_exact(&mut reply)?;
                if reply[1] == 0 { Ok(stream) } else { Err(broken()) }
            }
        }
    }

    fn converse(&self, mut stream: TcpStream, attempt: &Try, answer: &mut Vec<u8>) -> io::Result<()> {
        let login = self
            .proxy
            .as_ref()
            .map(|(_, login)| format!("Proxy-Authorization: Basic {}", base64(login.as_bytes())));
        stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        for part in &attempt.parts {
            let bytes = match (&login, attempt.door) {
                (Some(login), Door::Forward) => replaced(&part.bytes, b"AUTH", login.as_bytes()),
                _ => part.bytes.clone(),
            };
            stream.write_all(&bytes)?;
            if part.pause > 0 {
                std::thread::sleep(Duration::from_millis(part.pause));
            }
        }
        for (round, patience) in PATIENCE.into_iter().enumerate() {
            if round == 1 {
                let _ = stream.shutdown(std::net::Shutdown::Write);
            }
            let deadline = Instant::now() + patience;
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                stream.set_read_timeout(Some(left))?;
                let mut bytes = [0; 16 << 10];
                match stream.read(&mut bytes) {
                    Ok(0) => return Ok(()),
                    Ok(count) => {
                        answer.extend_from_slice(&bytes[..count]);
                        // More of it tells no more.
                        if is_canary(answer) {
                            return Ok(());
                        }
                    }
                    Err(error)
                        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
                    {
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

/// Whether an answer is the other host's.
pub fn is_canary(answer: &[u8]) -> bool {
    answer.windows(CANARY.len()).any(|part| part == CANARY.as_bytes())
}

fn opened(place: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&place, Duration::from_secs(10))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    match bytes.windows(from.len()).position(|part| part == from) {
        Some(at) => [&bytes[..at], to, &bytes[at + from.len()..]].concat(),
        None => bytes.to_vec(),
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = char::from(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize]);
            text.push(if place <= chunk.len() { letter } else { '=' });
        }
    }
    text
}
