//! The chunked transfer coding (RFC 9112 §7.1), taken off in place.
//!
//! Chunk sizes, extensions and line ends are consumed here and never handed on: what goes to the other side is cut
//! into chunks anew, so there is no second reading of the sender's framing.

use super::head::{self, Field, HeadError};

/// The most bytes of one size line with its extensions.
const MAX_LINE: usize = 4096;
/// The most bytes of the trailer section.
const MAX_TRAILER: usize = 16 << 10;

/// Takes the framing off a stream of chunks.
#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
}

#[derive(Debug)]
enum State {
    /// Reading a size line; what came of it so far.
    Size(Vec<u8>),
    /// This many bytes of the chunk are to come.
    Data(u64),
    /// The CR, then the LF behind a chunk.
    DataEnd {
        cr_seen: bool,
    },
    /// Reading the trailer section; what came of it so far.
    Trailer(Vec<u8>),
    Done(Vec<Field>),
}

impl Default for State {
    fn default() -> Self {
        State::Size(Vec::new())
    }
}

/// What one call to [`Decoder::decode`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// How many bytes of data there are; they are at the start of the buffer now.
    pub data: usize,
    /// How many bytes of the input were used. Less than all of it when the body has ended.
    pub used: usize,
}

use HeadError::Malformed;

impl Decoder {
    /// Takes the framing off `bytes`, moving the data to the front.
    pub fn decode(&mut self, bytes: &mut [u8]) -> Result<Decoded, HeadError> {
        let (mut used, mut data) = (0, 0);
        while used < bytes.len() {
            match &mut self.state {
                State::Done(_) => break,
                State::Data(left) => {
                    let available = bytes.len() - used;
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(available);
                    bytes.copy_within(used..used + take, data);
                    used += take;
                    data += take;
                    *left -= take as u64;
                    if *left == 0 {
                        self.state = State::DataEnd { cr_seen: false };
                    }
                }
                State::DataEnd { cr_seen } => {
                    match (*cr_seen, bytes[used]) {
                        (false, b'\r') => *cr_seen = true,
                        (true, b'\n') => self.state = State::default(),
                        _ => return Err(Malformed("a chunk is not followed by CR LF")),
                    }
                    used += 1;
                }
                State::Size(line) => {
                    line.push(bytes[used]);
                    used += 1;
                    if line.len() > MAX_LINE {
                        return Err(HeadError::TooLarge);
                    }
                    if line.ends_with(b"\n") {
                        self.state = match size(line)? {
                            0 => State::Trailer(Vec::new()),
                            size => State::Data(size),
                        };
                    }
                }
                State::Trailer(section) => {
                    section.push(bytes[used]);
                    used += 1;
                    if section.len() > MAX_TRAILER {
                        return Err(HeadError::TooLarge);
                    }
                    if section == b"\r\n" || section.ends_with(b"\r\n\r\n") {
                        self.state = State::Done(trailer(section)?);
                    }
                }
            }
        }
        Ok(Decoded { data, used })
    }

    /// The trailer fields, once the body has ended.
    #[must_use]
    pub fn finished(&self) -> Option<&[Field]> {
        match &self.state {
            State::Done(fields) => Some(fields),
            _ => None,
        }
    }
}

fn size(line: &[u8]) -> Result<u64, HeadError> {
    let line = line.strip_suffix(b"\r\n").ok_or(Malformed("a chunk size that does not end with CR LF"))?;
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (number, extension) = line.split_at(digits);
    let starts_well = matches!(extension.trim_ascii_start(), [] | [b';', ..]);
    // A bare CR in an extension ends the line for some servers.
    if !starts_well || !extension.iter().all(|byte| *byte == b'\t' || (b' '..=b'~').contains(byte)) {
        return Err(Malformed("an invalid chunk extension"));
    }
    // Fifteen digits are beyond any body, and cannot overflow.
    if !(1..=15).contains(&digits) {
        return Err(Malformed("an invalid chunk size"));
    }
    let text = std::str::from_utf8(number).map_err(|_| Malformed("an invalid chunk size"))?;
    u64::from_str_radix(text, 16).map_err(|_| Malformed("an invalid chunk size"))
}

/// Fields that frame or route a message mean nothing in a trailer, and some servers merge them into the head.
fn trailer(section: &[u8]) -> Result<Vec<Field>, HeadError> {
    const NEVER: [&str; 8] =
        ["content-length", "transfer-encoding", "host", "trailer", "te", "authorization", "cookie", "expect"];
    let lines = section[..section.len() - 2].split_inclusive(|byte| *byte == b'\n');
    let stripped: Option<Vec<&[u8]>> = lines.map(|line| line.strip_suffix(b"\r\n")).collect();
    let fields = head::fields(stripped.ok_or(Malformed("a line that does not end with CR LF"))?.into_iter())?;
    let fields = head::end_to_end(&fields);
    Ok(fields.into_iter().filter(|field| !NEVER.iter().any(|name| field.is(name))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The data, the trailer once the body has ended, and how many bytes of the input belong to it.
    type Whole = (Vec<u8>, Option<Vec<Field>>, usize);

    fn decode_in(text: &[u8], step: usize) -> Result<Whole, HeadError> {
        let (mut decoder, mut data, mut used) = (Decoder::default(), Vec::new(), 0);
        for piece in text.chunks(step) {
            let mut piece = piece.to_vec();
            let decoded = decoder.decode(&mut piece)?;
            data.extend_from_slice(&piece[..decoded.data]);
            used += decoded.used;
            if decoder.finished().is_some() {
                break;
            }
        }
        Ok((data, decoder.finished().map(<[Field]>::to_vec), used))
    }

    #[test]
    fn chunks_are_joined_wherever_the_reads_fall() {
        let text = b"4;ext=1\r\nWiki\r\n6\r\npedia \r\nE \r\nin \r\n\r\nchunks.\r\n0\r\nX-Sum: 1\r\nHost: evil\r\n\r\nNEXT";
        for step in 1..=text.len() {
            let (data, trailer, used) = decode_in(text, step).unwrap();
            assert_eq!(data, b"Wikipedia in \r\n\r\nchunks.", "{step}");
            assert_eq!(trailer.unwrap(), [Field::new("X-Sum", "1")]);
            assert_eq!(used, text.len() - 4);
        }
    }

    #[test]
    fn broken_chunks_are_refused() {
        for text in [
            &b"5\nhello\r\n"[..],
            b"5\r\nhelloXX",
            b"5\r\nhello\n",
            b"+5\r\nhello",
            b"0x5\r\nhello",
            b" 5\r\nhello",
            b"\r\nhello",
            b"5 x\r\nhello",
            b"5;a\rb\r\nhello",
            b"5;a\x00\r\nhello",
            b"FFFFFFFFFFFFFFFFF\r\n",
            b"0\r\nbad header\r\n\r\n",
            b"0\r\nA: b\n\r\n\r\n",
        ] {
            assert!(decode_in(text, text.len()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn endless_extensions_and_trailers_are_refused() {
        let extension = [b"5;".to_vec(), vec![b'a'; MAX_LINE]].concat();
        assert_eq!(decode_in(&extension, 100), Err(HeadError::TooLarge));
        let trailer = [b"0\r\n".to_vec(), b"A: b\r\n".repeat(MAX_TRAILER / 6 + 1)].concat();
        assert_eq!(decode_in(&trailer, 100), Err(HeadError::TooLarge));
    }

    proptest! {
        #[test]
        fn decoding_never_panics_or_grows(text in proptest::collection::vec(any::<u8>(), 0..300), step in 1usize..50) {
            if let Ok((data, _, used)) = decode_in(&text, step) {
                prop_assert!(data.len() <= used && used <= text.len());
            }
        }

        #[test]
        fn what_is_cut_into_chunks_comes_back(parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..8), step in 1usize..60) {
            let mut text = Vec::new();
            for part in &parts {
                text.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                text.extend_from_slice(part);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\n\r\n");
            let (data, trailer, used) = decode_in(&text, step).unwrap();
            prop_assert_eq!(data, parts.concat());
            prop_assert_eq!(trailer, Some(vec![]));
            prop_assert_eq!(used, text.len());
        }
    }
}
