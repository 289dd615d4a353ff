//! Questions to the host's name servers, and what is taken from their answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::wire::{self, CLASS_IN, HEADER, Pointers, kind};

/// Which addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A records.
    V4,
    /// AAAA records.
    V6,
}

/// What a name server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// These addresses, perhaps none, and for how many seconds they hold.
    Addresses(Vec<IpAddr>, u32),
    /// There is no such name.
    NoSuchName,
    /// The answer did not fit; ask over TCP.
    Truncated,
    /// The server could not or would not answer.
    Failed,
}

/// The most addresses that are taken from one answer.
const MAX_ADDRESSES: usize = 16;
/// The most aliases that are followed within one answer.
const MAX_ALIASES: usize = 8;

/// The bytes that ask for the addresses of `name`.
#[must_use]
pub fn question(id: u16, name: &str, family: Family) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER + name.len() + 17);
    message.extend_from_slice(&id.to_be_bytes());
    message.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    wire::push_name(&mut message, name);
    message.extend_from_slice(&kind_of(family).to_be_bytes());
    message.extend_from_slice(&CLASS_IN.to_be_bytes());
    // EDNS with 1232 bytes, which no path fragments.
    message.extend_from_slice(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]);
    message
}

fn kind_of(family: Family) -> u16 {
    match family {
        Family::V4 => kind::A,
        Family::V6 => kind::AAAA,
    }
}

/// Reads an answer to the question with this id, name and family; `None` when it is none, so that the reader goes
/// on waiting: a forged packet must not be able to end the look-up.
#[must_use]
pub fn parse(message: &[u8], id: u16, name: &str, family: Family) -> Option<Reply> {
    let flags = wire::u16_at(message, 2)?;
    if wire::u16_at(message, 0)? != id || flags & 0x8000 == 0 || wire::u16_at(message, 4)? != 1 {
        return None;
    }
    let (asked, end) = wire::name(message, HEADER, Pointers::Refused)?;
    let kind = wire::u16_at(message, end)?;
    if asked != name || kind != kind_of(family) || wire::u16_at(message, end + 2)? != CLASS_IN {
        return None;
    }
    Some(match flags & 0xf {
        _ if flags & 0x0200 != 0 => Reply::Truncated,
        0 => addresses(message, end + 4, name, family).unwrap_or(Reply::Failed),
        3 => Reply::NoSuchName,
        _ => Reply::Failed,
    })
}

/// Follows the aliases from `name` and takes the addresses at their end; records of other names are ignored.
fn addresses(message: &[u8], start: usize, name: &str, family: Family) -> Option<Reply> {
    let count = wire::u16_at(message, 6)?;
    let mut owner = name.to_owned();
    let mut ttl = u32::MAX;
    for _ in 0..=MAX_ALIASES {
        let (mut at, mut alias, mut found) = (start, None, Vec::new());
        for _ in 0..count {
            let own = wire::name(message, at, Pointers::Followed).map(|(name, _)| name);
            let record = wire::record(message, wire::skip_name(message, at)?)?;
            at = record.end;
            if own.as_deref() != Some(owner.as_str()) || record.class != CLASS_IN {
                continue;
            }
            match (record.kind, family) {
                (kind::CNAME, _) => {
                    alias = wire::name(message, record.data_at, Pointers::Followed).map(|(name, _)| name);
                    ttl = ttl.min(record.ttl);
                }
                (kind::A, Family::V4) if found.len() < MAX_ADDRESSES => {
                    let bytes: [u8; 4] = record.data.try_into().ok()?;
                    found.push(IpAddr::V4(Ipv4Addr::from(bytes)));
                    ttl = ttl.min(record.ttl);
                }
                (kind::AAAA, Family::V6) if found.len() < MAX_ADDRESSES => {
                    let bytes: [u8; 16] = record.data.try_into().ok()?;
                    found.push(IpAddr::V6(Ipv6Addr::from(bytes)));
                    ttl = ttl.min(record.ttl);
                }
                _ => {}
            }
        }
        match alias {
            Some(alias) if found.is_empty() => owner = alias,
            _ => return Some(Reply::Addresses(found, ttl)),
        }
    }
    Some(Reply::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Builder(Vec<u8>);

    impl Builder {
        fn new(id: u16, name: &str, family: Family, code: u8) -> Self {
            let mut message = question(id, name, family);
            message.truncate(message.len() - 11);
            message[2] = 0x81;
            message[3] = 0x80 | code;
            message[11] = 0;
            Builder(message)
        }

        fn record(mut self, owner: &str, kind: u16, data: &[u8]) -> Self {
            wire::push_name(&mut self.0, owner);
            self.0.extend_from_slice(&kind.to_be_bytes());
            self.0.extend_from_slice(&[0, 1, 0, 0, 0, 9]);
            self.0.extend_from_slice(&(data.len() as u16).to_be_bytes());
            self.0.extend_from_slice(data);
            self.0[7] += 1;
            self
        }
    }

    fn wire_name(name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        wire::push_name(&mut bytes, name);
        bytes
    }

    #[test]
    fn aliases_are_followed_and_addresses_of_other_names_are_not_taken() {
        let message = Builder::new(7, "www.test", Family::V4, 0)
            .record("evil.test", kind::A, &[6, 6, 6, 6])
            .record("cdn.test", kind::A, &[192, 0, 2, 1])
            .record("www.test", kind::CNAME, &wire_name("cdn.test"))
            .0;
        assert_eq!(
            parse(&message, 7, "www.test", Family::V4),
            Some(Reply::Addresses(vec!["192.0.2.1".parse().unwrap()], 9))
        );
    }

    #[test]
    fn an_answer_to_another_question_is_no_answer() {
        let message = Builder::new(7, "www.test", Family::V4, 0).0;
        assert_eq!(parse(&message, 8, "www.test", Family::V4), None);
        assert_eq!(parse(&message, 7, "other.test", Family::V4), None);
        assert_eq!(parse(&message, 7, "www.test", Family::V6), None);
        assert_eq!(parse(&question(7, "www.test", Family::V4), 7, "www.test", Family::V4), None);
    }

    #[test]
    fn an_alias_loop_ends() {
        let message = Builder::new(7, "a.test", Family::V4, 0)
            .record("a.test", kind::CNAME, &wire_name("b.test"))
            .record("b.test", kind::CNAME, &wire_name("a.test"))
            .0;
        assert_eq!(parse(&message, 7, "a.test", Family::V4), Some(Reply::Failed));
    }

    #[test]
    fn error_codes_and_truncation_are_told_apart() {
        let code = |code| parse(&Builder::new(7, "a.test", Family::V6, code).0, 7, "a.test", Family::V6);
        assert_eq!(code(3), Some(Reply::NoSuchName));
        assert_eq!(code(2), Some(Reply::Failed));
        let mut cut = Builder::new(7, "a.test", Family::V6, 0).0;
        cut[2] |= 2;
        assert_eq!(parse(&cut, 7, "a.test", Family::V6), Some(Reply::Truncated));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(tail in proptest::collection::vec(any::<u8>(), 0..400), count: u8) {
            let mut message = Builder::new(7, "a.test", Family::V4, 0).0;
            message[7] = count;
            message.extend_from_slice(&tail);
            let _ = parse(&message, 7, "a.test", Family::V4);
            let _ = parse(&tail, 7, "a.test", Family::V6);
        }
    }
}
