//! A provider that lies, hangs up and never ends: what it says to a request comes from the number of the try in it. It writes down
//! what it was asked.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::attack_budget::tries::{Answer, End, Framing, Protocol, Try};

/// What came, once for each time.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The try; `None` where nothing says which.
    pub number: Option<u64>,
    /// The tries that had ended for the client before it sent this one.
    pub after: Vec<u64>,
    pub line: String,
    pub fields: String,
    pub body: Vec<u8>,
}

/// The most of a stream that has no end, should nobody go away.
const MOST: usize = 1 << 30;
/// The most of a head or a body that is read.
const MOST_READ: usize = 1 << 20;

/// What all connections share.
pub struct Provider {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Provider {
    /// Listens, for as long as this process lives.
    pub fn start(seed: u64, protocol: Protocol) -> std::io::Result<Provider> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, seed, protocol, &seen));
            }
        });
        Ok(Provider { port, seen })
    }

    /// What came until now.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One connection, which may bring several requests.
fn serve(mut stream: TcpStream, seed: u64, protocol: Protocol, seen: &Mutex<Vec<Seen>>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(100))).ok()?;
    stream.set_write_timeout(Some(Duration::from_secs(20))).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let came = request(&mut reader)?;
        let number = came.number;
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(came);
        let answer = number.map(|number| Try::make(seed, protocol, number).answer);
        let goes_on = match answer {
            Some(answer) => say(&mut stream, &answer).ok()?,
            None => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").is_ok(),
        };
        if !goes_on {
            return None;
        }
    }
}

fn request(reader: &mut impl BufRead) -> Option<Seen> {
    let (mut head, mut length, mut chunked) = (String::new(), 0, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 || head.len() > MOST_READ {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        chunked |= lower.starts_with("transfer-encoding:");
        head += &line;
    }
    if chunked || length > MOST_READ {
        // The gate says how long a body is.
        return None;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (line, fields) = head.split_once("\r\n").unwrap_or((&head, ""));
    let text = String::from_utf8_lossy(&body);
    let said = text.split("try ").nth(1).and_then(|rest| rest.split(" end").next()).unwrap_or_default();
    let (number, after) = said.split_once(" after ").unwrap_or((said, ""));
    Some(Seen {
        number: number.trim().parse().ok(),
        after: after.split(',').filter_map(|number| number.trim().parse().ok()).collect(),
        line: line.to_owned(),
        fields: fields.to_owned(),
        body,
    })
}

/// Says it, and whether the connection can be used again.
fn say(stream: &mut TcpStream, answer: &Answer) -> std::io::Result<bool> {
    match answer.end {
        End::Nothing => return Ok(false),
        End::Garbage => {
            stream.write_all(b"HTTP/1.1 2000 OK\r\nContent-Length: -1\r\n\r\n{}")?;
            return Ok(false);
        }
        _ => {}
    }
    let mut head = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".repeat(answer.interim);
    head += &format!("HTTP/1.1 {} Whatever\r\n", answer.status);
    for (name, value) in &answer.fields {
        head += &format!("{name}: {value}\r\n");
    }
    head += &match answer.framing {
        Framing::Length => format!("Content-Length: {}\r\n\r\n", answer.body.len()),
        Framing::Chunked => "Transfer-Encoding: chunked\r\n\r\n".to_owned(),
        Framing::Trailers => "Transfer-Encoding: chunked\r\nTrailer: usage\r\n\r\n".to_owned(),
        Framing::UntilClose => "Connection: close\r\n\r\n".to_owned(),
    };
    stream.write_all(head.as_bytes())?;
    let chunked = matches!(answer.framing, Framing::Chunked | Framing::Trailers);
    let mut put = |part: &[u8]| {
        if part.is_empty() {
            return Ok(());
        }
        if chunked {
            stream.write_all(&[format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat())
        } else {
            stream.write_all(part)
        }
    };
    let end = match answer.end {
        End::Cut(at) => at,
        _ => answer.body.len(),
    };
    for part in answer.body[..end].chunks(777) {
        put(part)?;
    }
    if answer.end == End::Endless {
        let part = "data: {\"content\":\"and on\"}\n\n".repeat(2000);
        for _ in 0..MOST / part.len() {
            put(part.as_bytes())?;
        }
        return Ok(false);
    }
    match (answer.end, answer.framing) {
        (End::Cut(_), _) | (_, Framing::UntilClose) => Ok(false),
        (_, Framing::Chunked) => stream.write_all(b"0\r\n\r\n").map(|()| true),
        (_, Framing::Trailers) => {
            let fields = "usage: {\"completion_tokens\":0}\r\ncontent-length: 0\r\nset-cookie: a=b\r\n";
            stream.write_all(format!("0\r\n{fields}\r\n").as_bytes()).map(|()| true)
        }
        _ => Ok(true),
    }
}

/// Whether an error of reading says that nothing more came in time.
pub fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
