//! The clients inside: threads that ask, one request a connection, and say how it went.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::attack_budget::provider::is_late;
use crate::attack_budget::tries::{Protocol, SAID, Try};

/// Longer than any answer here takes.
const LONG: Duration = Duration::from_secs(45);
/// Long enough for hundreds of megabytes to come from a provider of the same computer.
const DAWDLES: Duration = Duration::from_millis(400);
/// As many tries are named as having ended; the report sees the rest.
const MOST_NAMED: usize = 400;

/// How a try went for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Went {
    pub status: u16,
    /// Why kennel refused it.
    pub refused: Option<String>,
    pub end: Ended,
}

/// How an answer ended for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Whole,
    Broken,
    Left,
    /// Nothing came for a long time.
    Hung,
}

impl Ended {
    const ALL: [(Ended, &str); 4] =
        [(Ended::Whole, "whole"), (Ended::Broken, "broken"), (Ended::Left, "left"), (Ended::Hung, "hung")];
}

/// Reads what [`run`] prints.
pub fn read(text: &str) -> Option<BTreeMap<u64, Went>> {
    let went = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [number, status, refused, end] = words[..] else { return None };
        let refused = Some(refused).filter(|word| *word != "-").map(str::to_owned);
        let (end, _) = Ended::ALL.into_iter().find(|(_, word)| *word == end)?;
        Some((number.parse().ok()?, Went { status: status.parse().ok()?, refused, end }))
    };
    text.lines().map(went).collect()
}

/// Does what the words say: the protocol, a seed, how many tries, how many at a time.
pub fn run(words: &[OsString]) -> i32 {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    let Some(protocol) = words.first().and_then(|word| Protocol::of_word(word)) else { return 2 };
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let (base, token) = (variable(protocol.base()), variable(protocol.key()));
    let address = base.trim_start_matches("http://").trim_end_matches("/v1").trim_end_matches('/').to_owned();
    let (seed, count, threads) = (number(1), number(2), number(3));
    let (next, ended) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let attempt = Try::make(seed, protocol, number);
                    let lock = || ended.lock().unwrap_or_else(PoisonError::into_inner);
                    let after: Vec<String> =
                        lock().iter().rev().take(MOST_NAMED).map(u64::to_string).collect();
                    let said = format!("try {number} after {} end", after.join(","));
                    let body = attempt.ask.body.replace(SAID, &said);
                    let went = ask(&address, &token, &attempt, &body);
                    // When kennel sees that a client has left, nobody here knows.
                    if went.end != Ended::Left {
                        lock().push(number);
                    }
                    let refused = went.refused.as_deref().unwrap_or("-");
                    let end = Ended::ALL.iter().find(|(end, _)| *end == went.end).map_or("", |row| row.1);
                    println!("{number} {} {refused} {end}", went.status);
                }
            });
        }
    });
    0
}

fn ask(address: &str, token: &str, attempt: &Try, body: &str) -> Went {
    let nothing = Went { status: 0, refused: None, end: Ended::Broken };
    let Ok(mut stream) = TcpStream::connect(address) else { return nothing };
    let _ = stream.set_read_timeout(Some(LONG));
    let ask = &attempt.ask;
    let token = if ask.with_token { token } else { "sk-somebody-elses" };
    let mut head = format!(
        "POST {} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nx-model: forbidden\r\n",
        ask.line
    );
    let bytes = if ask.chunked {
        head += "Transfer-Encoding: chunked\r\n\r\n";
        let mut bytes = Vec::new();
        for part in body.as_bytes().chunks(41) {
            bytes.extend_from_slice(&[format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat());
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    } else {
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        body.as_bytes().to_vec()
    };
    if stream.write_all(&[head.as_bytes(), &bytes].concat()).is_err() {
        return nothing;
    }
    let (mut answer, mut buffer) = (Vec::new(), [0; 8192]);
    loop {
        let whole = read_head(&answer);
        if let Some((status, refused, body_at, length)) = &whole {
            let body = &answer[*body_at..];
            let is_whole = match length {
                Some(length) => body.len() >= *length,
                None => body.ends_with(b"0\r\n\r\n") && (body.len() == 5 || body.ends_with(b"\r\n0\r\n\r\n")),
            };
            let went = |end| Went { status: *status, refused: refused.clone(), end };
            if is_whole {
                return went(Ended::Whole);
            }
            if ask.leaves_after.is_some_and(|most| body.len() >= most) {
                if ask.dawdles {
                    // What the provider says meanwhile must not be kept for it.
                    std::thread::sleep(DAWDLES);
                }
                let _ = stream.shutdown(Shutdown::Both);
                return went(Ended::Left);
            }
        }
        let (status, refused) = whole.map_or((0, None), |(status, refused, ..)| (status, refused));
        match stream.read(&mut buffer) {
            Ok(0) => return Went { status, refused, end: Ended::Broken },
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) if is_late(&error) => return Went { status, refused, end: Ended::Hung },
            Err(_) => return Went { status, refused, end: Ended::Broken },
        }
    }
}

/// The status, kennel's word, where the body begins, and its length where that is told.
fn read_head(answer: &[u8]) -> Option<(u16, Option<String>, usize, Option<usize>)> {
    let mut from = 0;
    loop {
        let end = answer[from..].windows(4).position(|four| four == b"\r\n\r\n")? + from;
        let text = String::from_utf8_lossy(&answer[from..end]).to_ascii_lowercase();
        let status: u16 = text.split(' ').nth(1)?.parse().ok()?;
        from = end + 4;
        if (100..200).contains(&status) {
            continue;
        }
        let field = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            found.map(|value| value.trim().to_owned())
        };
        let length = field("content-length").and_then(|length| length.parse().ok());
        return Some((status, field("x-kennel-refused"), from, length));
    }
}
