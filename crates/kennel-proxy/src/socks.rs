//! SOCKS5 on the wire (RFC 1928, RFC 1929): what a client sends, read from the bytes that have come so far.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kennel_policy::domain::Host;

/// The version byte, which also tells a SOCKS client from an HTTP one.
pub const VERSION: u8 = 5;

/// A message with its length, when enough has come.
pub type Parsed<T> = Result<Option<(T, usize)>, Malformed>;

/// Not SOCKS5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// How a client can show who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// It can go without.
    pub anonymous: bool,
    /// It has a user name and a password.
    pub password: bool,
}

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub user: Vec<u8>,
    /// The password.
    pub password: Vec<u8>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user.escape_ascii().to_string()).finish_non_exhaustive()
    }
}

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// 1 is CONNECT.
    pub command: u8,
    /// Where to.
    pub destination: Destination,
    /// Which port.
    pub port: u16,
}

/// Where a client wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// An address.
    Address(IpAddr),
    /// A name, or an address in text; any bytes.
    Name(Vec<u8>),
    /// A kind of address that does not exist.
    Unknown,
}

/// The answers of RFC 1928 §6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Connected.
    Succeeded = 0,
    /// Something else.
    GeneralFailure = 1,
    /// The rules forbid it.
    NotAllowed = 2,
    /// No route.
    NetworkUnreachable = 3,
    /// The name or the host cannot be found.
    HostUnreachable = 4,
    /// The host says no.
    ConnectionRefused = 5,
    /// No answer in time.
    TimedOut = 6,
    /// Only CONNECT is done here.
    CommandNotSupported = 7,
    /// A kind of address that does not exist.
    AddressNotSupported = 8,
}

/// `VERSION, method`: which way of showing who it is the client shall take.
#[must_use]
pub fn choose(method: u8) -> [u8; 2] {
    [VERSION, method]
}

/// No way at all.
pub const METHOD_NONE_FITS: u8 = 0xff;
/// Without.
pub const METHOD_ANONYMOUS: u8 = 0;
/// RFC 1929.
pub const METHOD_PASSWORD: u8 = 2;
/// The command that is done here.
pub const CONNECT: u8 = 1;

impl Reply {
    /// The answer, with the address that RFC 1928 wants and nobody reads.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

/// Reads the greeting.
pub fn greeting(bytes: &[u8]) -> Parsed<Greeting> {
    match bytes {
        [] | [VERSION] => Ok(None),
        [VERSION, count, rest @ ..] => match rest.get(..usize::from(*count)) {
            None => Ok(None),
            Some(methods) => {
                let greeting = Greeting {
                    anonymous: methods.contains(&METHOD_ANONYMOUS),
                    password: methods.contains(&METHOD_PASSWORD),
                };
                Ok(Some((greeting, 2 + methods.len())))
            }
        },
        _ => Err(Malformed),
    }
}

/// Reads the user name and the password.
pub fn login(bytes: &[u8]) -> Parsed<Login> {
    let Some((&version, rest)) = bytes.split_first() else { return Ok(None) };
    if version != 1 {
        return Err(Malformed);
    }
    let short = |bytes: &[u8]| -> Option<(Vec<u8>, usize)> {
        let length = usize::from(*bytes.first()?);
        Some((bytes.get(1..1 + length)?.to_vec(), 1 + length))
    };
    let Some((user, user_end)) = short(rest) else { return Ok(None) };
    let Some((password, password_end)) = short(&rest[user_end..]) else { return Ok(None) };
    Ok(Some((Login { user, password }, 1 + user_end + password_end)))
}

/// Reads the request.
pub fn request(bytes: &[u8]) -> Parsed<Request> {
    if bytes.first().is_some_and(|version| *version != VERSION) || bytes.get(2).is_some_and(|byte| *byte != 0)
    {
        return Err(Malformed);
    }
    let [_, command, _, kind, rest @ ..] = bytes else { return Ok(None) };
    let (destination, length) = match kind {
        1 => match rest.first_chunk::<4>() {
            Some(address) => (Destination::Address(Ipv4Addr::from(*address).into()), 4),
            None => return Ok(None),
        },
        4 => match rest.first_chunk::<16>() {
            Some(address) => (Destination::Address(Ipv6Addr::from(*address).into()), 16),
            None => return Ok(None),
        },
        3 => {
            let Some(&length) = rest.first() else { return Ok(None) };
            let length = usize::from(length);
            match rest.get(1..1 + length) {
                Some(name) => (Destination::Name(name.to_vec()), 1 + length),
                None => return Ok(None),
            }
        }
        // How long such an address is cannot be known: the answer is the end of the connection.
        _ => {
            let request = Request { command: *command, destination: Destination::Unknown, port: 0 };
            return Ok(Some((request, bytes.len())));
        }
    };
    match rest.get(length..length + 2) {
        Some(port) => {
            let port = u16::from_be_bytes([port[0], port[1]]);
            Ok(Some((Request { command: *command, destination, port }, 4 + length + 2)))
        }
        None => Ok(None),
    }
}

/// What a client of ours says first: that it has no password.
pub(crate) fn ask_without_password() -> [u8; 3] {
    [VERSION, 1, METHOD_ANONYMOUS]
}

/// Asks for a connection; `None` for a name that is too long for the protocol.
pub(crate) fn ask_to_connect(host: &Host, port: u16) -> Option<Vec<u8>> {
    let mut message = vec![VERSION, CONNECT, 0];
    match host {
        Host::Ip(IpAddr::V4(address)) => {
            message.push(1);
            message.extend(address.octets());
        }
        Host::Ip(IpAddr::V6(address)) => {
            message.push(4);
            message.extend(address.octets());
        }
        Host::Name(name) => {
            message.extend([3, u8::try_from(name.len()).ok()?]);
            message.extend(name.as_bytes());
        }
    }
    message.extend(port.to_be_bytes());
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_message_is_read_only_when_it_is_whole() {
        let greeting_bytes = [5, 2, 0, 2];
        let login_bytes = b"\x01\x04user\x03pwd";
        let request_bytes = b"\x05\x01\x00\x03\x06a.test\x01\xbb";
        for cut in 0..4 {
            assert_eq!(greeting(&greeting_bytes[..cut]), Ok(None));
        }
        for cut in 0..login_bytes.len() {
            assert_eq!(login(&login_bytes[..cut]), Ok(None));
        }
        for cut in 0..request_bytes.len() {
            assert_eq!(request(&request_bytes[..cut]), Ok(None));
        }
        assert_eq!(greeting(&greeting_bytes), Ok(Some((Greeting { anonymous: true, password: true }, 4))));
        let (got, used) = login(login_bytes).unwrap().unwrap();
        assert_eq!((got.user.as_slice(), got.password.as_slice(), used), (&b"user"[..], &b"pwd"[..], 10));
        let (got, used) = request(request_bytes).unwrap().unwrap();
        assert_eq!(
            got,
            Request { command: 1, destination: Destination::Name(b"a.test".to_vec()), port: 443 }
        );
        assert_eq!(used, request_bytes.len());
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let v4 = request(&[5, 1, 0, 1, 192, 0, 2, 1, 0, 80]).unwrap().unwrap().0;
        assert_eq!(v4.destination, Destination::Address("192.0.2.1".parse().unwrap()));
        let mut bytes = vec![5, 1, 0, 4];
        bytes.extend_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        bytes.extend_from_slice(&[0, 80]);
        let v6 = request(&bytes).unwrap().unwrap().0;
        assert_eq!(v6.destination, Destination::Address("2001:db8::1".parse().unwrap()));
        assert_eq!(request(&[5, 1, 0, 9]).unwrap().unwrap().0.destination, Destination::Unknown);
    }

    #[test]
    fn other_versions_are_refused() {
        assert_eq!(greeting(&[4, 1]), Err(Malformed));
        assert_eq!(login(&[5]), Err(Malformed));
        assert_eq!(request(&[4]), Err(Malformed));
        assert_eq!(request(&[5, 1, 7]), Err(Malformed));
    }

    #[test]
    fn a_password_is_not_printed() {
        let login = Login { user: b"u".to_vec(), password: b"hunter2".to_vec() };
        assert!(!format!("{login:?}").contains("hunter2"));
        assert!(!format!("{login:?}").contains("104"));
    }

    proptest! {
        #[test]
        fn parsing_never_panics_or_uses_more_than_there_is(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            for used in [
                greeting(&bytes).ok().flatten().map(|(_, used)| used),
                login(&bytes).ok().flatten().map(|(_, used)| used),
                request(&bytes).ok().flatten().map(|(_, used)| used),
            ].into_iter().flatten() {
                prop_assert!(used <= bytes.len());
            }
        }
    }
}
