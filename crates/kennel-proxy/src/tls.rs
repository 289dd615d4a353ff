//! The first messages of TLS (RFC 8446 §4.1), read for what the gate judges: the name of the server that a client wants
//! (SNI, RFC 6066), and whether the server asks for a second hello.
//!
//! A server with many names behind one address goes by this name and not by the address, so a client that connects
//! to an allowed host and then names another one would reach that other one (domain fronting). A hello is read in one
//! way only: whatever some server could read in another way is malformed.

/// The most bytes that are held back while a ClientHello is incomplete. Hybrid post-quantum key shares make real
/// ones some 2 KiB; session tickets can add a few more.
pub const MAX_HELLO: usize = 64 << 10;
/// Real ones have some twenty.
const MAX_EXTENSIONS: usize = 256;
/// RFC 8446 §5.1, and what encryption may add to it (RFC 5246 §6.2.3).
const MAX_RECORD: usize = (1 << 14) + 2048;

pub(crate) const RECORD_CHANGE_CIPHER_SPEC: u8 = 20;
const RECORD_ALERT: u8 = 21;
pub(crate) const RECORD_HANDSHAKE: u8 = 22;
const RECORD_APPLICATION_DATA: u8 = 23;
pub(crate) const HANDSHAKE_CLIENT_HELLO: u8 = 1;
const HANDSHAKE_SERVER_HELLO: u8 = 2;
const EXTENSION_SERVER_NAME: u16 = 0;
/// `encrypted_client_hello` (RFC 9849), and the numbers of its drafts that servers were built with.
const EXTENSIONS_ENCRYPTED_HELLO: [u16; 4] = [0xfe0d, 0xfe0a, 0xfe09, 0xffce];

/// What the first bytes of a client are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// Not enough of them yet.
    Incomplete,
    /// Not TLS.
    NotTls,
    /// A ClientHello.
    Read(ClientHello),
    /// Begins like TLS and then breaks its rules, in a way that some servers could read differently.
    Malformed(&'static str),
}

/// What a ClientHello says of the server that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHello {
    /// The server's name, if it says one.
    pub name: Option<String>,
    /// Whether it may hold another name, encrypted. It may also be made up, for whoever watches not to know.
    pub encrypted: bool,
    /// How many bytes its records have: what is behind them has not been judged.
    pub length: usize,
}

/// Reads a hello that comes piece by piece. The records of a hello can be of one byte each, so what has been read is
/// not read again.
#[derive(Debug, Default)]
pub struct HelloReader {
    message: Vec<u8>,
    /// How many bytes of whole records are in `message`.
    used: usize,
}

/// Reads the first bytes that a client sent. The hello may be spread over any number of records.
#[must_use]
pub fn client_hello(bytes: &[u8]) -> Hello {
    HelloReader::default().read(bytes)
}

impl HelloReader {
    /// Goes on reading. `bytes` are all that came so far, those of earlier calls included.
    pub fn read(&mut self, bytes: &[u8]) -> Hello {
        match bytes {
            [] | [RECORD_HANDSHAKE] | [RECORD_HANDSHAKE, 3] => return Hello::Incomplete,
            [RECORD_HANDSHAKE, 3, 0..=4, ..] => {}
            _ => return Hello::NotTls,
        }
        loop {
            let rest = bytes.get(self.used..).unwrap_or_default();
            let Some((header, after)) = rest.split_at_checked(5) else { return Hello::Incomplete };
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            if header[0] != RECORD_HANDSHAKE || header[1] != 3 {
                return Hello::Malformed("another record inside the hello");
            }
            // RFC 8446 §5.1: at most 2^14 bytes, and never an empty handshake record.
            if length == 0 || length > 1 << 14 {
                return Hello::Malformed("a record of an impossible length");
            }
            // Only whole records count: the rest of one could hold a second hello, which nobody would have judged.
            let Some(part) = after.get(..length) else { return Hello::Incomplete };
            self.message.extend_from_slice(part);
            self.used += 5 + length;
            if let Some(verdict) = self.whole() {
                return verdict;
            }
        }
    }

    /// The verdict, once the message is whole.
    fn whole(&self) -> Option<Hello> {
        let (header, body) = self.message.split_at_checked(4)?;
        if header[0] != HANDSHAKE_CLIENT_HELLO {
            return Some(Hello::Malformed("the first message is not a hello"));
        }
        let announced = usize::from(header[1]) << 16 | usize::from(header[2]) << 8 | usize::from(header[3]);
        if announced > MAX_HELLO {
            return Some(Hello::Malformed("a hello that is too long"));
        }
        if body.len() > announced {
            return Some(Hello::Malformed("more than a hello in its record"));
        }
        let body = body.get(..announced)?;
        Some(match server_name(body) {
            Ok((name, encrypted)) => Hello::Read(ClientHello { name, encrypted, length: self.used }),
            Err(why) => Hello::Malformed(why),
        })
    }
}

/// What a record is that comes from a client between its first hello and the second one that the server asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Not enough bytes to tell.
    Incomplete,
    /// One of this length that no server takes a name from: early data, an alert, or the change-cipher-spec of clients
    /// that pretend to be TLS 1.2.
    Harmless(usize),
    /// A handshake message, in plain.
    Handshake,
    /// None.
    Malformed,
}

/// Reads the record that these bytes begin with.
#[must_use]
pub fn record_between(bytes: &[u8]) -> Between {
    match bytes {
        [] => Between::Incomplete,
        [RECORD_HANDSHAKE, ..] => Between::Handshake,
        [RECORD_CHANGE_CIPHER_SPEC | RECORD_ALERT | RECORD_APPLICATION_DATA, rest @ ..] => match rest {
            [3, _, high, low, after @ ..] => match usize::from(u16::from_be_bytes([*high, *low])) {
                length if length > MAX_RECORD => Between::Malformed,
                length if after.len() >= length => Between::Harmless(5 + length),
                _ => Between::Incomplete,
            },
            [] | [3, ..] => Between::Incomplete,
            _ => Between::Malformed,
        },
        _ => Between::Malformed,
    }
}

/// How a server answers a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Not enough bytes to tell.
    Incomplete,
    /// It takes the hello: what follows is encrypted, or goes by the keys of this one.
    Hello,
    /// It asks for another hello (HelloRetryRequest), which could name another server.
    Retry,
    /// It gives up.
    Alert,
    /// Not in TLS.
    NotTls,
}

/// The random of a ServerHello that asks for another hello (RFC 8446 §4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Reads the first bytes with which a server answers a hello.
#[must_use]
pub fn server_answer(bytes: &[u8]) -> Answer {
    const WARNING: u8 = 1;
    let (mut rest, mut message) = (bytes, Vec::new());
    loop {
        match rest {
            [] | [RECORD_ALERT | RECORD_HANDSHAKE] => return Answer::Incomplete,
            [RECORD_ALERT | RECORD_HANDSHAKE, 3, ..] => {}
            _ => return Answer::NotTls,
        }
        let Some((header, after)) = rest.split_at_checked(5) else { return Answer::Incomplete };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let part = after.get(..length).unwrap_or(after);
        if header[0] == RECORD_ALERT {
            // Some servers say in a warning that they do not know the name, and go on.
            match part {
                [WARNING, _] => {}
                [] | [WARNING] => return Answer::Incomplete,
                _ => return Answer::Alert,
            }
        } else {
            message.extend_from_slice(part);
        }
        // Type, length, version, and the random.
        match message.first() {
            Some(&HANDSHAKE_SERVER_HELLO) => {}
            Some(_) => return Answer::NotTls,
            None => {}
        }
        if let Some(random) = message.get(6..38) {
            return if *random == RETRY { Answer::Retry } else { Answer::Hello };
        }
        let Some(after) = after.get(length..) else { return Answer::Incomplete };
        rest = after;
    }
}

/// The fatal alert `access_denied`, which TLS libraries show to the user as such.
pub const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("a field that is cut short")?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, &'static str> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, &'static str> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn short_vector(&mut self) -> Result<&'a [u8], &'static str> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    fn vector(&mut self) -> Result<Reader<'a>, &'static str> {
        let length = self.u16()?;
        Ok(Reader(self.take(usize::from(length))?))
    }
}

/// The server's name, and whether there may be another one, encrypted.
fn server_name(hello: &[u8]) -> Result<(Option<String>, bool), &'static str> {
    let mut hello = Reader(hello);
    // A server that speaks SSL 3.0 passes over the extensions of a hello of that version, the name included.
    if !matches!(hello.take(2)?, [3, 1..=4]) {
        return Err("a version that is not TLS");
    }
    hello.take(32)?;
    if hello.short_vector()?.len() > 32 {
        return Err("a session that is too long");
    }
    let suites = hello.vector()?.0;
    if suites.is_empty() || suites.len() % 2 != 0 {
        return Err("no ciphers");
    }
    if !hello.short_vector()?.contains(&0) {
        return Err("no null compression");
    }
    if hello.0.is_empty() {
        return Ok((None, false));
    }
    let mut extensions = hello.vector()?;
    if !hello.0.is_empty() {
        return Err("bytes after the extensions");
    }
    let (mut name, mut encrypted, mut seen) = (None, false, Vec::new());
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let mut body = extensions.vector()?;
        // RFC 8446 §4.2. Of two, a server may take either.
        if seen.contains(&kind) {
            return Err("an extension that comes twice");
        }
        if seen.len() == MAX_EXTENSIONS {
            return Err("too many extensions");
        }
        seen.push(kind);
        encrypted |= EXTENSIONS_ENCRYPTED_HELLO.contains(&kind);
        if kind == EXTENSION_SERVER_NAME {
            name = Some(host_name(&mut body)?);
        }
    }
    Ok((name, encrypted))
}

/// A list with exactly one entry, a DNS name: nothing else has ever been defined, and a second entry could be the
/// one that a server takes.
fn host_name(body: &mut Reader) -> Result<String, &'static str> {
    let mut list = body.vector()?;
    if list.u8()? != 0 {
        return Err("a server name of an unknown type");
    }
    let name = list.vector()?.0;
    if !list.0.is_empty() || !body.0.is_empty() {
        return Err("two server names");
    }
    if name.is_empty() || name.len() > 255 || !name.iter().all(u8::is_ascii_graphic) {
        return Err("an invalid server name");
    }
    Ok(name.iter().copied().map(char::from).collect())
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
