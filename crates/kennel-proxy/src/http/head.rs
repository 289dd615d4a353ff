//! The head of a message: its first line and its fields.

use std::fmt;

/// The most bytes of a head. Servers stop at 8 to 32 KiB; long cookies and tokens fit.
pub const MAX_HEAD: usize = 64 << 10;
/// The most fields of a head.
pub const MAX_FIELDS: usize = 256;

/// A header field. Names keep their case: HTTP does not care, but some servers do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, a token.
    pub name: String,
    /// Its value without the space around it.
    pub value: Vec<u8>,
}

impl Field {
    /// A field of text.
    pub fn new(name: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        Field { name: name.into(), value: value.as_ref().to_vec() }
    }

    /// Whether it has this name.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `CONNECT`, …
    pub method: String,
    /// The request target as it came.
    pub target: String,
    /// 1 for HTTP/1.1, 0 for HTTP/1.0.
    pub minor: u8,
    /// Its fields in their order.
    pub fields: Vec<Field>,
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// 1 for HTTP/1.1, 0 for HTTP/1.0.
    pub minor: u8,
    /// The status code.
    pub status: u16,
    /// The words behind it.
    pub reason: Vec<u8>,
    /// Its fields in their order.
    pub fields: Vec<Field>,
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    None,
    /// It has this many bytes.
    Length(u64),
    /// It comes in chunks.
    Chunked,
    /// It lasts until the connection ends; only a response can do that.
    UntilClose,
}

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// More than [`MAX_HEAD`] bytes or [`MAX_FIELDS`] fields.
    TooLarge,
    /// Not HTTP/1, or something in it that could be read in two ways.
    Malformed(&'static str),
    /// A version that is not spoken here.
    Version,
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeadError::TooLarge => f.write_str("the head is too large"),
            HeadError::Malformed(why) => f.write_str(why),
            HeadError::Version => f.write_str("only HTTP/1.0 and HTTP/1.1 are supported"),
        }
    }
}

use HeadError::Malformed;

/// Where a head ends: behind its empty line. `seen` bytes from the start are known not to complete it.
#[must_use]
pub fn end(bytes: &[u8], seen: usize) -> Option<usize> {
    let from = seen.saturating_sub(3);
    let mut places = bytes.iter().enumerate().skip(from).filter(|(_, byte)| **byte == b'\n');
    // A server may end its lines with a bare LF; a request that does is refused when it is read.
    places.find_map(|(at, _)| {
        let ends = bytes[..at].ends_with(b"\r\n\r") || bytes[..at].ends_with(b"\n");
        ends.then_some(at + 1)
    })
}

/// Empty lines before a request are skipped (RFC 9112 §2.2), as old clients send one after a body.
#[must_use]
pub fn leading_empty_lines(bytes: &[u8]) -> usize {
    let mut at = 0;
    while bytes[at..].starts_with(b"\r\n") && at < 8 {
        at += 2;
    }
    at
}

impl Request {
    /// Reads a whole head, up to and with its empty line. Lines end with CR LF and nothing else.
    pub fn parse(head: &[u8]) -> Result<Self, HeadError> {
        let mut lines = strict_lines(head)?;
        let line = std::str::from_utf8(lines.next().ok_or(Malformed("an empty head"))?)
            .map_err(|_| Malformed("the request line is not ASCII"))?;
        let mut words = line.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Malformed("the request line does not have three words"));
        };
        if method.is_empty() || !method.bytes().all(is_token) {
            return Err(Malformed("the method is not a word"));
        }
        if target.is_empty() || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Malformed("the request target has an invalid character"));
        }
        let minor = minor_version(version.as_bytes())?;
        let fields = fields(lines)?;
        if fields.iter().filter(|field| field.is("host")).count() > 1 {
            return Err(Malformed("two Host fields"));
        }
        // Some servers, and programs behind them, take a `_` in a name for a `-`.
        if fields.iter().any(|field| field.name.contains('_') && frames(&field.name.replace('_', "-"))) {
            return Err(Malformed("a header name that some servers take for another"));
        }
        Ok(Request { method: method.into(), target: target.into(), minor, fields })
    }

    /// How the end of its body is known.
    pub fn body(&self) -> Result<Body, HeadError> {
        match framing(&self.fields)? {
            // HTTP/1.0 knows no chunks; a server of that age would take them for the body or for a request.
            Body::Chunked if self.minor == 0 => Err(Malformed("chunks in an HTTP/1.0 request")),
            body => Ok(body),
        }
    }

    /// Whether the client wants the connection to stay.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        keeps_alive(self.minor, &self.fields)
    }

    /// The head as it goes over the wire.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        serialise(format!("{} {} HTTP/1.1", self.method, self.target).as_bytes(), &self.fields)
    }
}

impl Response {
    /// Reads a whole head, up to and with its empty line. Bare LF is accepted here, since some servers send it and
    /// what is handed on has CR LF.
    pub fn parse(head: &[u8]) -> Result<Self, HeadError> {
        let mut lines = loose_lines(head);
        let line = lines.next().ok_or(Malformed("an empty head"))?;
        let (version, rest) = line.split_at_checked(8).ok_or(Malformed("the status line is too short"))?;
        let minor = minor_version(version)?;
        let (status, reason) = match rest {
            [b' ', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', reason @ ..] => {
                let digit = |byte: &u8| u16::from(byte - b'0');
                (digit(a) * 100 + digit(b) * 10 + digit(c), reason)
            }
            _ => return Err(Malformed("the status is not a number of three digits")),
        };
        let reason = match reason {
            [] => &[],
            [b' ', text @ ..] if text.iter().all(|byte| is_text(*byte)) => text,
            _ => return Err(Malformed("the status line has an invalid character")),
        };
        Ok(Response { minor, status, reason: reason.to_vec(), fields: fields(lines)? })
    }

    /// How the end of its body is known, after a request with this method.
    pub fn body(&self, method: &str) -> Result<Body, HeadError> {
        if method == "HEAD" || self.status < 200 || matches!(self.status, 204 | 304) {
            return Ok(Body::None);
        }
        let stated = self.fields.iter().any(|field| field.is("content-length"));
        match framing(&self.fields)? {
            Body::None if !stated => Ok(Body::UntilClose),
            body => Ok(body),
        }
    }

    /// Whether the server wants the connection to stay.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        keeps_alive(self.minor, &self.fields)
    }

    /// The head as it goes over the wire.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut line = format!("HTTP/1.1 {:03} ", self.status).into_bytes();
        line.extend_from_slice(&self.reason);
        serialise(&line, &self.fields)
    }
}

/// The words of all fields of this name, lower case: `Connection: Close, TE` is `close` and `te`.
pub fn list<'a>(fields: &'a [Field], name: &'a str) -> impl Iterator<Item = String> + 'a {
    fields
        .iter()
        .filter(move |field| field.is(name))
        .flat_map(|field| field.value.split(|byte| *byte == b','))
        .map(|word| String::from_utf8_lossy(word.trim_ascii()).to_ascii_lowercase())
        .filter(|word| !word.is_empty())
}

/// Fields that speak about one connection and not about the message (RFC 9110 §7.6.1): those that are known to,
/// and those that `Connection` names. Framing is written anew by whoever sends the message on.
#[must_use]
pub fn end_to_end(fields: &[Field]) -> Vec<Field> {
    const HOP_BY_HOP: [&str; 9] = [
        "connection",
        "proxy-connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-authentication-info",
        "te",
        "transfer-encoding",
        "upgrade",
    ];
    let named: Vec<String> = list(fields, "connection").collect();
    fields
        .iter()
        .filter(|field| !HOP_BY_HOP.iter().any(|name| field.is(name)))
        // What frames the message cannot be taken away by naming it.
        .filter(|field| {
            field.is("content-length") || field.is("host") || !named.iter().any(|name| field.is(name))
        })
        .cloned()
        .collect()
}

fn keeps_alive(minor: u8, fields: &[Field]) -> bool {
    let mut words = list(fields, "connection").chain(list(fields, "proxy-connection"));
    match minor {
        0 => words.any(|word| word == "keep-alive"),
        _ => !words.any(|word| word == "close"),
    }
}

/// RFC 9112 §6.3, and stricter: a message with both ways of framing, with two lengths even if they are the same,
/// or with a transfer coding that is not just `chunked`, is refused.
fn framing(fields: &[Field]) -> Result<Body, HeadError> {
    let mut lengths = fields.iter().filter(|field| field.is("content-length"));
    let mut codings = fields.iter().filter(|field| field.is("transfer-encoding"));
    match (lengths.next(), codings.next()) {
        (None, None) => Ok(Body::None),
        (Some(_), Some(_)) => Err(Malformed("both Content-Length and Transfer-Encoding")),
        (Some(length), None) => {
            if lengths.next().is_some() {
                return Err(Malformed("two Content-Length fields"));
            }
            let digits = !length.value.is_empty() && length.value.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(&length.value).ok().and_then(|text| text.parse().ok());
            match number {
                Some(0) if digits => Ok(Body::None),
                Some(number) if digits => Ok(Body::Length(number)),
                _ => Err(Malformed("a Content-Length that is not a number")),
            }
        }
        (None, Some(coding)) => {
            if codings.next().is_some() || !coding.value.eq_ignore_ascii_case(b"chunked") {
                return Err(Malformed("a Transfer-Encoding that is not just chunked"));
            }
            Ok(Body::Chunked)
        }
    }
}

fn minor_version(version: &[u8]) -> Result<u8, HeadError> {
    match version {
        b"HTTP/1.1" => Ok(1),
        b"HTTP/1.0" => Ok(0),
        [b'H', b'T', b'T', b'P', b'/', ..] => Err(HeadError::Version),
        _ => Err(Malformed("the version is not HTTP")),
    }
}

fn strict_lines(head: &[u8]) -> Result<impl Iterator<Item = &[u8]>, HeadError> {
    let head = head.strip_suffix(b"\r\n\r\n").ok_or(Malformed("a line that does not end with CR LF"))?;
    let lines = head.split(|byte| *byte == b'\n');
    let count = lines.clone().count();
    let ends_well = |(at, line): (usize, &[u8])| at + 1 == count || line.ends_with(b"\r");
    if !lines.clone().enumerate().all(ends_well) {
        return Err(Malformed("a line that does not end with CR LF"));
    }
    Ok(lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)))
}

fn loose_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut done = false;
    std::iter::from_fn(move || {
        let line = lines.next().filter(|_| !done)?;
        done = line.is_empty();
        (!done).then_some(line)
    })
}

/// Reads the lines of a head or of a trailer section.
pub(crate) fn fields<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Field>, HeadError> {
    let mut fields = Vec::new();
    for line in lines {
        if fields.len() == MAX_FIELDS {
            return Err(HeadError::TooLarge);
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Err(Malformed("a folded header line"));
        }
        let colon =
            line.iter().position(|byte| *byte == b':').ok_or(Malformed("a header without a colon"))?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        // Also catches a space before the colon, which some servers drop and others keep.
        if name.is_empty() || !name.iter().copied().all(is_token) {
            return Err(Malformed("an invalid header name"));
        }
        if !value.iter().copied().all(is_text) {
            return Err(Malformed("a control character in a header"));
        }
        let name = name.iter().copied().map(char::from).collect();
        fields.push(Field { name, value: value.to_vec() });
    }
    Ok(fields)
}

fn serialise(line: &[u8], fields: &[Field]) -> Vec<u8> {
    let length = fields.iter().map(|field| field.name.len() + field.value.len() + 4).sum::<usize>();
    let mut bytes = Vec::with_capacity(line.len() + length + 4);
    bytes.extend_from_slice(line);
    bytes.extend_from_slice(b"\r\n");
    push_fields(&mut bytes, fields);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

pub(crate) fn push_fields(bytes: &mut Vec<u8>, fields: &[Field]) {
    for field in fields {
        bytes.extend_from_slice(field.name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(&field.value);
        bytes.extend_from_slice(b"\r\n");
    }
}

pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a field says where a message goes, or where it ends.
fn frames(name: &str) -> bool {
    ["host", "content-length", "transfer-encoding"].iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Visible characters, spaces, tabs, and bytes beyond ASCII, which are nobody's business here.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || byte >= b' ' && byte != 0x7f
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
