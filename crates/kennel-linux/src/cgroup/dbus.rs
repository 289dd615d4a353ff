//! As much of D-Bus as it takes to call a method and to hear a signal: a client for the user's own bus.
//!
//! The other end is a process of the same user, or whatever `DBUS_SESSION_BUS_ADDRESS` names, so what it says
//! is read with bounds everywhere and believed only where the cgroup file system confirms it (see `scope`).

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

use kennel_policy::printed::show;

/// The longest message that is read. Replies and signals of systemd's manager have a few hundred bytes.
const MAX: usize = 128 * 1024;

/// How many signals are kept while a reply is awaited.
const SIGNALS: usize = 64;

/// A connection that is authenticated and, on a bus, has a name.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    serial: u32,
    deadline: Instant,
    signals: Vec<Message>,
}

/// A message that was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    kind: u8,
    reply_to: u32,
    pub member: String,
    error: String,
    signature: String,
    body: Vec<u8>,
}

const METHOD_CALL: u8 = 1;
const METHOD_RETURN: u8 = 2;
const ERROR: u8 = 3;
const SIGNAL: u8 = 4;

/// Whom a call goes to.
pub(super) struct Target {
    pub destination: &'static str,
    pub path: &'static str,
    pub interface: &'static str,
}

const BUS: Target = Target {
    destination: "org.freedesktop.DBus",
    path: "/org/freedesktop/DBus",
    interface: "org.freedesktop.DBus",
};

/// Whether a socket is a bus or systemd's own, which speaks the same protocol without a bus between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    Bus,
    Direct,
}

impl Connection {
    pub fn open(address: &SocketAddr, peer: Peer, patience: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect_addr(address)?;
        stream.set_write_timeout(Some(patience))?;
        let mut connection =
            Self { stream, serial: 0, deadline: Instant::now() + patience, signals: Vec::new() };
        connection.authenticate()?;
        if peer == Peer::Bus {
            connection.call(&BUS, "Hello", "", &Body::default())?;
        }
        Ok(connection)
    }

    /// Starts the clock for the calls that follow.
    pub fn allow(&mut self, patience: Duration) {
        self.deadline = Instant::now() + patience;
    }

    /// The EXTERNAL mechanism: the kernel tells the other end who we are, we only have to agree.
    fn authenticate(&mut self) -> io::Result<()> {
        use std::fmt::Write as _;
        let uid = rustix::process::geteuid().as_raw().to_string();
        let mut hello = "\0AUTH EXTERNAL ".to_owned();
        for digit in uid.bytes() {
            let _ = write!(hello, "{digit:02x}");
        }
        hello.push_str("\r\n");
        self.stream.write_all(hello.as_bytes())?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            if line.len() > 512 {
                return Err(bad("an answer to the log-in that is too long"));
            }
            let mut byte = [0];
            self.fill(&mut byte)?;
            line.push(byte[0]);
        }
        if !line.starts_with(b"OK ") {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it refused the log-in"));
        }
        self.stream.write_all(b"BEGIN\r\n")
    }

    /// Asks the bus to send the signals that `rule` describes.
    pub fn add_match(&mut self, rule: &str) -> io::Result<()> {
        let mut body = Body::default();
        body.string(rule);
        self.call(&BUS, "AddMatch", "s", &body).map(drop)
    }

    /// Calls a method and waits for its reply; an error that the other end replies with is an `io::Error`
    /// with its text.
    pub fn call(&mut self, to: &Target, member: &str, signature: &str, body: &Body) -> io::Result<Message> {
        self.serial += 1;
        let serial = self.serial;
        self.stream.write_all(&method_call(serial, to, member, signature, &body.0))?;
        loop {
            let message = self.receive()?;
            match message.kind {
                METHOD_RETURN if message.reply_to == serial => return Ok(message),
                ERROR if message.reply_to == serial => {
                    let text = message.reader().string().unwrap_or_default();
                    return Err(io::Error::other(format!(
                        "{} ({})",
                        printable(&text),
                        printable(&message.error)
                    )));
                }
                SIGNAL if self.signals.len() < SIGNALS => self.signals.push(message),
                _ => {}
            }
        }
    }

    /// The next signal, received meanwhile or yet to come.
    pub fn signal(&mut self) -> io::Result<Message> {
        if !self.signals.is_empty() {
            return Ok(self.signals.remove(0));
        }
        loop {
            let message = self.receive()?;
            if message.kind == SIGNAL {
                return Ok(message);
            }
        }
    }

    fn receive(&mut self) -> io::Result<Message> {
        let mut bytes = vec![0; 16];
        self.fill(&mut bytes)?;
        let (_, total) = frame(&bytes)?;
        bytes.resize(total, 0);
        self.fill(&mut bytes[16..])?;
        Message::parse(&bytes)
    }

    /// Reads exactly as much as fits, until the deadline.
    fn fill(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(buffer) {
                Ok(0) => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"));
                }
                Ok(read) => buffer = &mut buffer[read..],
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The sockets that an address list names, in its order; what is not a unix socket is passed over.
pub(super) fn sockets_of(addresses: &str) -> Vec<SocketAddr> {
    addresses
        .split(';')
        .filter_map(|address| {
            address.strip_prefix("unix:")?.split(',').find_map(|pair| {
                let (key, value) = pair.split_once('=')?;
                let value = percent_decoded(value)?;
                match key {
                    "path" => {
                        use std::os::unix::ffi::OsStrExt;
                        SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(&value)).ok()
                    }
                    "abstract" => SocketAddr::from_abstract_name(value).ok(),
                    _ => None,
                }
            })
        })
        .collect()
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(byte);
            rest = tail;
        }
    }
    Some(bytes)
}

/// Values in the wire format: little-endian, each aligned to its size.
#[derive(Debug, Default)]
pub(super) struct Body(Vec<u8>);

impl Body {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    pub fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn number(&mut self, value: u32) {
        self.align(4);
        self.0.extend(value.to_le_bytes());
    }

    pub fn string(&mut self, text: &str) {
        self.number(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    pub fn signature(&mut self, text: &str) {
        self.byte(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    pub fn structure(&mut self) {
        self.align(8);
    }

    /// An array whose elements `fill` writes; `align` is the alignment of an element.
    pub fn array(&mut self, align: usize, fill: impl FnOnce(&mut Self)) {
        self.number(0);
        let length_at = self.0.len() - 4;
        self.align(align);
        let start = self.0.len();
        fill(self);
        let length = u32::try_from(self.0.len() - start).unwrap_or(u32::MAX);
        self.0[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }
}

fn method_call(serial: u32, to: &Target, member: &str, signature: &str, body: &[u8]) -> Vec<u8> {
    let mut message = Body(vec![b'l', METHOD_CALL, 0, 1]);
    message.number(u32::try_from(body.len()).unwrap_or(u32::MAX));
    message.number(serial);
    message.array(8, |fields| {
        for (code, kind, text) in
            [(1, "o", to.path), (2, "s", to.interface), (3, "s", member), (6, "s", to.destination)]
        {
            fields.structure();
            fields.byte(code);
            fields.signature(kind);
            fields.string(text);
        }
        if !signature.is_empty() {
            fields.structure();
            fields.byte(8);
            fields.signature("g");
            fields.signature(signature);
        }
    });
    message.align(8);
    message.0.extend(body);
    message.0
}

/// Where the body begins and how long the whole message is, from its first 16 bytes.
fn frame(head: &[u8]) -> io::Result<(usize, usize)> {
    let mut reader = Reader { bytes: head, at: 0 };
    let order = reader.byte().ok_or_else(|| bad("a message without a header"))?;
    if order != b'l' {
        return Err(bad("a message in another byte order"));
    }
    reader.at = 4;
    let (body, _serial, fields) = (|| Some((reader.number()?, reader.number()?, reader.number()?)))()
        .ok_or_else(|| bad("a message without a header"))?;
    let start = (16usize.saturating_add(fields as usize)).next_multiple_of(8);
    let total = start.saturating_add(body as usize);
    if total > MAX { Err(bad("a message that is too long")) } else { Ok((start, total)) }
}

impl Message {
    fn parse(bytes: &[u8]) -> io::Result<Self> {
        let (body_start, total) = frame(bytes)?;
        if bytes.len() != total {
            return Err(bad("a message of another length than it says"));
        }
        Self::parse_fields(bytes, body_start).ok_or_else(|| bad("a message that cannot be read"))
    }

    fn parse_fields(bytes: &[u8], body_start: usize) -> Option<Self> {
        let mut message =
            Self { kind: *bytes.get(1)?, body: bytes.get(body_start..)?.to_vec(), ..Self::default() };
        let mut reader = Reader { bytes: bytes.get(..body_start)?, at: 12 };
        let end = 16 + reader.number()? as usize;
        while reader.at < end {
            reader.align(8);
            let code = reader.byte()?;
            let kind = reader.signature()?;
            match kind.as_str() {
                "s" | "o" => {
                    let text = reader.string()?;
                    match code {
                        3 => message.member = text,
                        4 => message.error = text,
                        _ => {}
                    }
                }
                "g" => {
                    let text = reader.signature()?;
                    if code == 8 {
                        message.signature = text;
                    }
                }
                "u" => {
                    let number = reader.number()?;
                    if code == 5 {
                        message.reply_to = number;
                    }
                }
                // No other type is in use for a header field.
                _ => return None,
            }
        }
        Some(message)
    }

    /// The body, if it is of the types that `signature` says.
    pub fn expect(&self, signature: &str) -> io::Result<Reader<'_>> {
        if self.signature == signature {
            Ok(self.reader())
        } else {
            Err(bad("a reply of another type than expected"))
        }
    }

    fn reader(&self) -> Reader<'_> {
        Reader { bytes: &self.body, at: 0 }
    }
}

/// Reads values of the wire format; `None` at the first that is not there.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    pub fn number(&mut self) -> Option<u32> {
        self.align(4);
        let bytes = self.bytes.get(self.at..)?.first_chunk::<4>()?;
        self.at += 4;
        Some(u32::from_le_bytes(*bytes))
    }

    pub fn string(&mut self) -> Option<String> {
        let length = self.number()? as usize;
        self.text(length)
    }

    pub fn signature(&mut self) -> Option<String> {
        let length = self.byte()? as usize;
        self.text(length)
    }

    fn text(&mut self, length: usize) -> Option<String> {
        let end = self.at.checked_add(length)?;
        let text = std::str::from_utf8(self.bytes.get(self.at..end)?).ok()?.to_owned();
        if *self.bytes.get(end)? != 0 {
            return None;
        }
        self.at = end + 1;
        Some(text)
    }
}

/// Text of the other end as it may be shown on a terminal.
fn printable(text: &str) -> String {
    show(text.chars().take(300).collect::<String>().as_bytes())
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it sent {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    const SOMEBODY: Target = Target { destination: "a.b", path: "/a", interface: "a.b.C" };

    fn reply(kind: u8, reply_to: u32, signature: &str, body: &Body) -> Vec<u8> {
        let mut message = Body(vec![b'l', kind, 0, 1]);
        message.number(u32::try_from(body.0.len()).unwrap());
        message.number(7);
        message.array(8, |fields| {
            fields.byte(5);
            fields.signature("u");
            fields.number(reply_to);
            fields.structure();
            fields.byte(8);
            fields.signature("g");
            fields.signature(signature);
        });
        message.align(8);
        message.0.extend(&body.0);
        message.0
    }

    #[test]
    fn a_call_has_the_form_the_specification_gives() {
        let mut body = Body::default();
        body.string("x");
        let bytes = method_call(1, &SOMEBODY, "M", "s", &body.0);
        assert_eq!(&bytes[..16], b"l\x01\x00\x01\x06\x00\x00\x00\x01\x00\x00\x00\x47\x00\x00\x00");
        assert_eq!(&bytes[16..32], b"\x01\x01o\x00\x02\x00\x00\x00/a\x00\x00\x00\x00\x00\x00");
        assert_eq!(bytes.len() % 8, 6);
        let read = Message::parse(&bytes).unwrap();
        assert_eq!((read.member.as_str(), read.expect("s").unwrap().string()), ("M", Some("x".to_owned())));
    }

    #[test]
    fn the_padding_before_a_first_structure_is_not_part_of_an_arrays_length() {
        let mut body = Body::default();
        body.array(8, |array| {
            array.structure();
            array.number(1);
        });
        assert_eq!(body.0, [4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn a_reply_is_read_back() {
        let mut body = Body::default();
        body.string("/org/job/1");
        let message = Message::parse(&reply(METHOD_RETURN, 3, "o", &body)).unwrap();
        assert_eq!((message.kind, message.reply_to), (METHOD_RETURN, 3));
        assert_eq!(message.expect("o").unwrap().string().as_deref(), Some("/org/job/1"));
        assert!(message.expect("s").is_err());
    }

    #[test]
    fn a_message_that_claims_to_be_huge_is_refused_before_it_is_read() {
        let mut head = reply(METHOD_RETURN, 1, "s", &Body::default());
        head[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(frame(&head[..16]).is_err());
        head[4..8].fill(0);
        head[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(frame(&head[..16]).is_err());
    }

    #[test]
    fn addresses_are_read_in_order_and_others_than_unix_sockets_passed_over() {
        let found = sockets_of(
            "tcp:host=x,port=1;unix:guid=1,path=/run/user/1000/b%20us;unix:abstract=abc;unix:path=%zz",
        );
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].as_pathname(), Some(Path::new("/run/user/1000/b us")));
        assert_eq!(found[1].as_abstract_name(), Some(&b"abc"[..]));
    }

    /// A server on a socket pair that answers the log-in and then with `answers`, whatever it is asked.
    fn served(answers: &[u8]) -> Connection {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"OK 0123456789abcdef\r\n").unwrap();
        theirs.write_all(answers).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        // The other end stays open: what is written to it has to be taken.
        std::thread::spawn(move || io::copy(&mut theirs, &mut io::sink()));
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut connection = Connection { stream: ours, serial: 0, deadline, signals: Vec::new() };
        connection.authenticate().unwrap();
        connection
    }

    #[test]
    fn a_signal_that_comes_before_the_reply_is_kept() {
        let mut body = Body::default();
        body.string("first");
        let mut answers = reply(SIGNAL, 0, "s", &body);
        answers.extend(reply(METHOD_RETURN, 99, "", &Body::default()));
        answers.extend(reply(METHOD_RETURN, 1, "", &Body::default()));
        let mut connection = served(&answers);
        assert_eq!(connection.call(&SOMEBODY, "M", "", &Body::default()).unwrap().reply_to, 1);
        assert_eq!(connection.signal().unwrap().expect("s").unwrap().string().as_deref(), Some("first"));
    }

    #[test]
    fn an_error_reply_is_an_error_with_its_text_made_safe_to_print() {
        let mut body = Body::default();
        body.string("no\x1b[31m such unit");
        let error =
            served(&reply(ERROR, 1, "s", &body)).call(&SOMEBODY, "M", "", &Body::default()).unwrap_err();
        assert!(error.to_string().contains("no\\u{1b}[31m such unit"), "{error}");
    }

    #[test]
    fn a_peer_that_hangs_up_or_never_answers_is_an_error() {
        let error = served(&[]).call(&SOMEBODY, "M", "", &Body::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let deadline = Instant::now() + Duration::from_millis(50);
        let mut silent = Connection { stream: ours, serial: 0, deadline, signals: Vec::new() };
        assert_eq!(silent.authenticate().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Message::parse(&bytes);
            if bytes.len() >= 16 { let _ = frame(&bytes); }
            let _ = sockets_of(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn a_damaged_message_is_read_without_panic(at in 0usize..200, byte in any::<u8>(), cut in 0usize..200) {
            let mut body = Body::default();
            body.string("/org/freedesktop/systemd1/job/1");
            let mut bytes = reply(METHOD_RETURN, 3, "o", &body);
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(message) = Message::parse(&bytes) {
                let _ = message.expect("o").map(|mut reader| reader.string());
            }
            bytes.truncate(cut);
            let _ = Message::parse(&bytes);
        }
    }
}
