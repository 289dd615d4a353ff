//! The first message of a TLS client (RFC 8446 §4.1.2), read for the one thing in it that the gate judges: the name
//! of the server that the client wants (SNI, RFC 6066).
//!
//! A server with many names behind one address goes by this name and not by the address, so a client that connects
//! to an allowed host and then names another one would reach that other one (domain fronting).

/// The most bytes that are held back while a ClientHello is incomplete. Hybrid post-quantum key shares make real
/// ones some 2 KiB; session tickets can add a few more.
pub const MOST_HELLO: usize = 64 << 10;

const RECORD_HANDSHAKE: u8 = 22;
const RECORD_CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE_CLIENT_HELLO: u8 = 1;
const EXTENSION_SERVER_NAME: u16 = 0;

/// What the first bytes of a client are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// Not enough of them yet.
    Incomplete,
    /// Not TLS.
    NotTls,
    /// A ClientHello that names this server, or none.
    Named(Option<String>),
    /// Begins like TLS and then breaks its rules, in a way that some servers could read differently.
    Malformed(&'static str),
}

/// Reads the first bytes that a client sent. The hello may be spread over any number of records.
#[must_use]
pub fn client_hello(bytes: &[u8]) -> Hello {
    match bytes {
        [] => return Hello::Incomplete,
        [RECORD_HANDSHAKE] => return Hello::Incomplete,
        [RECORD_HANDSHAKE, 3, ..] => {}
        _ => return Hello::NotTls,
    }
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
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
        let Some((part, after)) = after.split_at_checked(length) else { return Hello::Incomplete };
        message.extend_from_slice(part);
        if let Some((header, body)) = message.split_at_checked(4) {
            if header[0] != HANDSHAKE_CLIENT_HELLO {
                return Hello::Malformed("the first message is no hello");
            }
            let announced =
                usize::from(header[1]) << 16 | usize::from(header[2]) << 8 | usize::from(header[3]);
            if announced > MOST_HELLO {
                return Hello::Malformed("a hello that is too long");
            }
            if body.len() > announced {
                return Hello::Malformed("more than a hello in its record");
            }
            if let Some(body) = body.get(..announced) {
                return match server_name(body) {
                    Ok(name) => Hello::Named(name),
                    Err(why) => Hello::Malformed(why),
                };
            }
        }
        rest = after;
    }
}

/// Where the records of a whole hello end: what is behind them has not been judged.
#[must_use]
pub fn hello_end(bytes: &[u8]) -> usize {
    let (mut end, mut length, mut head) = (0, 0, Vec::<u8>::with_capacity(4));
    while let Some((header, after)) = bytes.get(end..).and_then(|rest| rest.split_at_checked(5)) {
        let size = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let Some(part) = after.get(..size) else { break };
        head.extend(part.iter().take(4 - head.len()));
        length += size;
        end += 5 + size;
        if let [_, high, middle, low] = head[..]
            && length >= 4 + (usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low))
        {
            break;
        }
    }
    end
}

/// The most bytes that can lie between two hellos. A server that asks for a second one skips the early data that
/// came with the first, up to a bound: 16 KiB in OpenSSL and BoringSSL.
pub const MOST_BETWEEN: usize = 128 << 10;

/// The length of the record that these bytes begin with, if it is one that a second hello can still come behind:
/// early data, and the change-cipher-spec of clients that pretend to be TLS 1.2. `None` when more bytes are needed.
#[must_use]
pub fn record_between(bytes: &[u8]) -> Option<Option<usize>> {
    const RECORD_APPLICATION_DATA: u8 = 23;
    match bytes {
        [] => None,
        [RECORD_CHANGE_CIPHER_SPEC | RECORD_APPLICATION_DATA, rest @ ..] => match rest {
            [_, _, high, low, ..] => Some(Some(5 + usize::from(u16::from_be_bytes([*high, *low])))),
            _ => None,
        },
        _ => Some(None),
    }
}

/// Reads what a client sends after its first hello, for a second one. A server that asks for another key share
/// (HelloRetryRequest) gets a second hello, and could be led to a name that the first one did not have.
///
/// What does not begin as a hello is [`Hello::NotTls`]: the next message of TLS 1.2, or an encrypted one, which has
/// any bytes. Three of them are fixed in a hello, so that one in sixteen million resumed sessions of TLS 1.2 is
/// taken for a broken one and refused.
#[must_use]
pub fn second_hello(bytes: &[u8]) -> Hello {
    let mut rest = bytes;
    // Clients that pretend to be TLS 1.2 put a change-cipher-spec before it.
    if let [RECORD_CHANGE_CIPHER_SPEC, tail @ ..] = rest {
        let Some(after) = tail.get(5..) else { return Hello::Incomplete };
        rest = after;
    }
    // Its beginning may be spread over records of one byte each.
    let (hello, mut message) = (rest, Vec::<u8>::new());
    loop {
        match rest {
            [] => return Hello::Incomplete,
            [RECORD_HANDSHAKE, ..] => {}
            _ if message.is_empty() => return Hello::NotTls,
            _ => return Hello::Malformed("another record inside the hello"),
        }
        let Some((header, after)) = rest.split_at_checked(5) else { return Hello::Incomplete };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        message.extend(after.iter().take(length));
        // Type, the highest byte of a length that is never so large, and the version.
        let fixed = [(0, HANDSHAKE_CLIENT_HELLO), (1, 0), (4, 3)];
        if fixed.iter().any(|(place, byte)| message.get(*place).is_some_and(|own| own != byte)) {
            return Hello::NotTls;
        }
        if message.len() > 4 {
            return client_hello(hello);
        }
        let Some(after) = after.get(length..) else { return Hello::Incomplete };
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

fn server_name(hello: &[u8]) -> Result<Option<String>, &'static str> {
    let mut hello = Reader(hello);
    hello.take(2 + 32)?;
    hello.short_vector()?;
    hello.vector()?;
    hello.short_vector()?;
    if hello.0.is_empty() {
        return Ok(None);
    }
    let mut extensions = hello.vector()?;
    if !hello.0.is_empty() {
        return Err("bytes after the extensions");
    }
    let mut name = None;
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let mut body = extensions.vector()?;
        if kind != EXTENSION_SERVER_NAME {
            continue;
        }
        if name.is_some() {
            return Err("two server names");
        }
        name = Some(host_name(&mut body)?);
    }
    Ok(name)
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
        return Err("a server name that is none");
    }
    Ok(name.iter().copied().map(char::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vector(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
    }

    fn name_extension(names: &[&str]) -> Vec<u8> {
        let entries: Vec<u8> =
            names.iter().flat_map(|name| [vec![0], vector(name.as_bytes())].concat()).collect();
        [vec![0, 0], vector(&vector(&entries))].concat()
    }

    fn hello(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend_from_slice(&[9; 32]);
        body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
        body.extend_from_slice(&vector(extensions));
        let length = body.len() as u32;
        [&[1][..], &length.to_be_bytes()[1..], &body].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message.chunks(size).flat_map(|chunk| [&[22, 3, 1][..], &vector(chunk)].concat()).collect()
    }

    fn named(name: &str) -> Hello {
        Hello::Named(Some(name.into()))
    }

    #[test]
    fn the_name_is_found_however_the_hello_is_cut_into_records() {
        let message = hello(&[&[0, 0x2b, 0, 3, 2, 3, 4][..], &name_extension(&["a.test"])].concat());
        for size in 1..=message.len() {
            let bytes = records(&message, size);
            assert_eq!(client_hello(&bytes), named("a.test"), "records of {size}");
            for cut in 0..bytes.len() {
                // The last record's tail may be missing without the name being known; never may it be another.
                assert!(matches!(client_hello(&bytes[..cut]), Hello::Incomplete), "{size} {cut}");
            }
        }
    }

    #[test]
    fn what_is_behind_a_hello_is_not_part_of_it() {
        let message = hello(&name_extension(&["a.test"]));
        for size in 1..=message.len() {
            let one = records(&message, size);
            let two = [&one[..], &one].concat();
            assert_eq!(
                (client_hello(&two), hello_end(&two)),
                (named("a.test"), one.len()),
                "records of {size}"
            );
        }
        let packed = records(&[&message[..], &message].concat(), 2 * message.len());
        assert!(matches!(client_hello(&packed), Hello::Malformed(_)));
        for cut in 0..packed.len() {
            assert_eq!(client_hello(&packed[..cut]), Hello::Incomplete, "{cut}");
        }
        assert_eq!(record_between(&[23, 3, 3, 1, 0]), Some(Some(5 + 256)));
        assert_eq!(record_between(&[20, 3, 3, 0]), None);
        assert_eq!(record_between(&message), Some(None));
    }

    #[test]
    fn a_hello_without_a_name_has_none() {
        assert_eq!(client_hello(&records(&hello(&[]), 999)), Hello::Named(None));
    }

    #[test]
    fn two_names_are_refused_however_they_are_written() {
        let twice = [name_extension(&["a.test"]), name_extension(&["b.test"])].concat();
        assert!(matches!(client_hello(&records(&hello(&twice), 999)), Hello::Malformed(_)));
        let both = name_extension(&["a.test", "b.test"]);
        assert!(matches!(client_hello(&records(&hello(&both), 999)), Hello::Malformed(_)));
    }

    #[test]
    fn other_protocols_are_known_at_their_first_bytes() {
        for bytes in [&b"GET / HTTP/1.1"[..], b"SSH-2.0-x", b"\x00\x00\x00\x08\x04\xd2\x16\x2f", b"\x16\x02"]
        {
            assert_eq!(client_hello(bytes), Hello::NotTls, "{bytes:?}");
        }
        assert_eq!(client_hello(b"\x16"), Hello::Incomplete);
    }

    #[test]
    fn a_second_hello_is_found_behind_a_change_cipher_spec_and_nothing_else_is_taken_for_one() {
        let bytes = records(&hello(&name_extension(&["b.test"])), 999);
        assert_eq!(second_hello(&bytes), named("b.test"));
        let behind = [&[20, 3, 3, 0, 1, 1][..], &bytes].concat();
        assert_eq!(second_hello(&behind), named("b.test"));
        let message = hello(&name_extension(&["b.test"]));
        for size in 1..=message.len() {
            assert_eq!(second_hello(&records(&message, size)), named("b.test"), "records of {size}");
        }
        // A version that servers do not look at, and a second message in the same record.
        let mut old = message.clone();
        old[5] = 1;
        assert_eq!(second_hello(&records(&old, 999)), named("b.test"));
        let packed = records(&[&message[..], &[20, 0, 0, 0]].concat(), 999);
        assert!(matches!(second_hello(&packed), Hello::Malformed(_)));
        assert_eq!(second_hello(&behind[..9]), Hello::Incomplete);
        // A client key exchange, application data, an encrypted Finished.
        for other in
            [&[22, 3, 3, 0, 70, 16][..], &[23, 3, 3, 0, 40], &[20, 3, 3, 0, 1, 1, 22, 3, 3, 0, 40, 0xe1]]
        {
            assert_eq!(second_hello(other), Hello::NotTls, "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = client_hello(&bytes);
            let _ = client_hello(&records(&bytes, 64));
            let _ = client_hello(&records(&hello(&bytes), 64));
            let _ = second_hello(&bytes);
            prop_assert!(hello_end(&bytes) <= bytes.len());
            let _ = record_between(&bytes);
        }

        #[test]
        fn no_cut_of_a_hello_gives_another_name(name in "[a-z]{1,30}\\.test", size in 1usize..400, cut in 0usize..600) {
            let bytes = records(&hello(&name_extension(&[&name])), size);
            let seen = client_hello(&bytes[..cut.min(bytes.len())]);
            prop_assert!(seen == Hello::Incomplete || seen == named(&name));
        }
    }
}
