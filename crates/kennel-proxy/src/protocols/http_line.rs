//! The first line of HTTP/1, told from everything else byte by byte: `METHOD target HTTP/1.1`.
//!
//! What this takes for a request goes to the strict reader of [`crate::http`], which compares its host. What this does not
//! take is no HTTP to anybody: the readers of real servers are kinder, so what only they would take has to be refused,
//! not carried.

use crate::http::head::{MAX_HEAD, is_token};

/// The longest method that is registered has 17 letters.
const MAX_METHOD: usize = 32;

/// What the first bytes of a client are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Not enough of them yet.
    More,
    /// A request of HTTP/1.
    Http,
    /// Something else; this is what it is called.
    Other(&'static str),
}

/// What bytes are called that nobody knows.
pub const UNKNOWN: &str = "a protocol that is not known on this port";

/// Reads a first line that comes piece by piece.
#[derive(Debug, Default)]
pub struct LineReader {
    /// How many bytes have been read.
    used: usize,
    part: Part,
}

#[derive(Clone, Copy, Debug, Default)]
enum Part {
    /// Empty lines before the request: old clients send one behind a body.
    #[default]
    Empty,
    /// The LF of an empty line is to come.
    EmptyEnd,
    Method {
        length: usize,
        pri: bool,
    },
    Target {
        length: usize,
        pri: bool,
    },
    Version {
        at: usize,
        pri: bool,
    },
}

impl LineReader {
    /// Goes on reading. `bytes` are all that came so far, those of earlier calls included.
    pub fn read(&mut self, bytes: &[u8]) -> Line {
        while let Some(&byte) = bytes.get(self.used) {
            let line = self.take(byte);
            self.used += 1;
            if line != Line::More {
                return line;
            }
            if self.used >= MAX_HEAD {
                return Line::Other("a first line that is too long");
            }
        }
        Line::More
    }

    fn take(&mut self, byte: u8) -> Line {
        const VERSION: &[u8] = b"HTTP/1.";
        self.part = match (self.part, byte) {
            // As many as the reader of heads skips.
            (Part::Empty, b'\r') if self.used < 8 => Part::EmptyEnd,
            (Part::EmptyEnd, b'\n') => Part::Empty,
            (Part::Empty, _) if is_token(byte) => Part::Method { length: 1, pri: byte == b'P' },
            (Part::Method { length, pri }, _) if is_token(byte) && length < MAX_METHOD => {
                Part::Method { length: length + 1, pri: pri && b"PRI".get(length) == Some(&byte) }
            }
            (Part::Method { length, pri }, b' ') => Part::Target { length: 0, pri: pri && length == 3 },
            (Part::Target { length, pri }, b'!'..=b'~') => Part::Target { length: length + 1, pri },
            (Part::Target { length: 1.., pri }, b' ') => Part::Version { at: 0, pri },
            (Part::Target { length: 1.., .. }, b'\r' | b'\n') => {
                return Line::Other("a line that is not an HTTP/1 request");
            }
            (Part::Version { at, pri }, _) => match (at, byte) {
                (0..7, _) if VERSION.get(at) == Some(&byte) => Part::Version { at: at + 1, pri },
                (7, b'0' | b'1') => Part::Version { at: 8, pri },
                (8, b'\r') => Part::Version { at: 9, pri },
                (9, b'\n') => return Line::Http,
                (5, b'2') if pri => return Line::Other("HTTP/2 without TLS"),
                _ => return Line::Other("an HTTP version other than 1.0 and 1.1"),
            },
            _ => return Line::Other(UNKNOWN),
        };
        Line::More
    }
}
