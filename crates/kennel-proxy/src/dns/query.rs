//! Queries that come from inside a sandbox, and the answers the gate gives.

use std::net::IpAddr;

use super::wire::{self, CLASS_IN, HEADER, Pointers, kind};

/// How long a program may keep a synthetic address. They are stable; this bounds how long it lives with an old
/// answer after the rules have changed.
const TTL: u32 = 60;
/// What we say we take over UDP: an answer of ours never needs more.
const UDP_SIZE: u16 = 1232;
/// A query has one question and an OPT record, perhaps a few more.
const MAX_RECORDS: u16 = 16;
/// RFC 1035 §3.1: of a name on the wire.
const MAX_NAME: usize = 255;
const OPTION_EXTENDED_ERROR: u16 = 15;
/// RFC 8914: the operator of this server does not want this name to be resolved.
const EXTENDED_ERROR_BLOCKED: u16 = 15;

/// One question from inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    id: u16,
    recursion_desired: bool,
    /// The question as it came, to be repeated letter by letter: clients check its case (draft-vixie-dns-0x20).
    question: Vec<u8>,
    /// The name, lower case, without the last dot; `None` when it has characters that no host has.
    pub name: Option<String>,
    /// The record type that is asked for.
    pub kind: u16,
    class: u16,
    /// Whether the client speaks EDNS, and so understands an extended error.
    edns: bool,
}

/// What to say when a message is no query that can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswerable {
    /// Not even a header, or itself an answer: say nothing.
    Silence,
    /// Send these bytes.
    Reply(Vec<u8>),
}

/// How a query ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The answers, perhaps none, are all there is.
    NoError = 0,
    /// The query makes no sense.
    FormatError = 1,
    /// There is no such name.
    NoSuchName = 3,
    /// Not a kind of query that is answered here.
    NotImplemented = 4,
    /// This kind of record is not given out.
    Refused = 5,
}

/// One answer record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An address.
    Address(IpAddr),
    /// The name of an address.
    Pointer(String),
}

impl Query {
    /// Reads a query.
    pub fn parse(message: &[u8]) -> Result<Self, Unanswerable> {
        let header = message.get(..HEADER).ok_or(Unanswerable::Silence)?;
        let (id, flags) = (u16::from_be_bytes([header[0], header[1]]), header[2]);
        if flags & 0x80 != 0 {
            return Err(Unanswerable::Silence);
        }
        let fail = |code: Code| Unanswerable::Reply(header_only(id, flags, code));
        if flags & 0x78 != 0 {
            return Err(fail(Code::NotImplemented));
        }
        Self::body(message, id, flags).ok_or_else(|| fail(Code::FormatError))
    }

    fn body(message: &[u8], id: u16, flags: u8) -> Option<Self> {
        let count = |at| wire::u16_at(message, at);
        if count(4)? != 1 || count(6)? != 0 {
            return None;
        }
        // The question is repeated in the answer, so what it may take is bounded here.
        let name_end = wire::skip_name(message, HEADER).filter(|end| end - HEADER <= MAX_NAME)?;
        // A pointer in the question could only point into the header or at itself.
        let has_pointer = wire::name(message, HEADER, Pointers::Refused).is_none()
            && wire::name(message, HEADER, Pointers::Followed).is_some();
        if has_pointer {
            return None;
        }
        let name = wire::name(message, HEADER, Pointers::Refused).map(|(name, _)| name);
        let question = message.get(HEADER..name_end + 4)?.to_vec();
        let extra = count(8)?.checked_add(count(10)?).filter(|&extra| extra <= MAX_RECORDS)?;
        let (mut at, mut edns) = (name_end + 4, false);
        for _ in 0..extra {
            let record = wire::record(message, wire::skip_name(message, at)?)?;
            edns |= record.kind == kind::OPT;
            at = record.end;
        }
        Some(Query {
            id,
            recursion_desired: flags & 1 != 0,
            question,
            name,
            kind: wire::u16_at(message, name_end)?,
            class: wire::u16_at(message, name_end + 2)?,
            edns,
        })
    }

    /// Whether it asks about the Internet and not, say, about the name server's version.
    #[must_use]
    pub fn is_internet(&self) -> bool {
        self.class == CLASS_IN
    }

    /// The answer to this query. `why` is told as an extended error to clients that understand one.
    #[must_use]
    pub fn reply(&self, code: Code, answers: &[Answer], why: Option<&str>) -> Vec<u8> {
        let mut message = Vec::with_capacity(HEADER + self.question.len() + 64);
        message.extend_from_slice(&self.id.to_be_bytes());
        // An answer, authoritative, recursion available.
        let recursion = u8::from(self.recursion_desired);
        message.extend_from_slice(&[0x84 | recursion, 0x80 | code as u8]);
        for count in [1, answers.len() as u16, 0, u16::from(self.edns)] {
            message.extend_from_slice(&count.to_be_bytes());
        }
        message.extend_from_slice(&self.question);
        for answer in answers {
            push_answer(&mut message, answer);
        }
        if self.edns {
            push_edns(&mut message, why);
        }
        message
    }
}

fn header_only(id: u16, flags: u8, code: Code) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    vec![high, low, 0x80 | flags & 0x79, 0x80 | code as u8, 0, 0, 0, 0, 0, 0, 0, 0]
}

fn push_answer(message: &mut Vec<u8>, answer: &Answer) {
    let mut data = Vec::new();
    let kind = match answer {
        Answer::Address(IpAddr::V4(address)) => {
            data.extend_from_slice(&address.octets());
            kind::A
        }
        Answer::Address(IpAddr::V6(address)) => {
            data.extend_from_slice(&address.octets());
            kind::AAAA
        }
        Answer::Pointer(name) => {
            wire::push_name(&mut data, name);
            kind::PTR
        }
    };
    // The owner is the question's name, which is always at the same place.
    message.extend_from_slice(&(0xc000 | HEADER as u16).to_be_bytes());
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&CLASS_IN.to_be_bytes());
    message.extend_from_slice(&TTL.to_be_bytes());
    message.extend_from_slice(&(data.len() as u16).to_be_bytes());
    message.extend_from_slice(&data);
}

fn push_edns(message: &mut Vec<u8>, why: Option<&str>) {
    message.push(0);
    message.extend_from_slice(&kind::OPT.to_be_bytes());
    message.extend_from_slice(&UDP_SIZE.to_be_bytes());
    message.extend_from_slice(&[0; 4]);
    let Some(why) = why else {
        message.extend_from_slice(&[0, 0]);
        return;
    };
    let mut end = why.len().min(200);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    let text = &why.as_bytes()[..end];
    message.extend_from_slice(&(text.len() as u16 + 6).to_be_bytes());
    message.extend_from_slice(&OPTION_EXTENDED_ERROR.to_be_bytes());
    message.extend_from_slice(&(text.len() as u16 + 2).to_be_bytes());
    message.extend_from_slice(&EXTENDED_ERROR_BLOCKED.to_be_bytes());
    message.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query(name: &str, kind: u16, edns: bool) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns)];
        wire::push_name(&mut message, name);
        message.extend_from_slice(&kind.to_be_bytes());
        message.extend_from_slice(&CLASS_IN.to_be_bytes());
        if edns {
            message.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0]);
        }
        message
    }

    #[test]
    fn a_query_keeps_its_case_in_the_answer_and_folds_it_for_the_rules() {
        let message = query("ExAmPle.com", kind::A, false);
        let parsed = Query::parse(&message).unwrap();
        assert_eq!(parsed.name.as_deref(), Some("example.com"));
        let reply = parsed.reply(Code::NoError, &[Answer::Address([198, 18, 1, 0].into())], None);
        assert_eq!(reply[..4], [0xab, 0xcd, 0x85, 0x80]);
        assert_eq!(reply[HEADER..HEADER + 17], message[HEADER..HEADER + 17]);
        assert!(reply.ends_with(&[0, 4, 198, 18, 1, 0]));
    }

    #[test]
    fn a_blocked_name_carries_its_reason_only_when_the_client_speaks_edns() {
        let why = "kennel: not allowed";
        let plain = Query::parse(&query("a.test", kind::A, false)).unwrap();
        assert!(!plain.reply(Code::NoSuchName, &[], Some(why)).ends_with(why.as_bytes()));
        let edns = Query::parse(&query("a.test", kind::A, true)).unwrap();
        let reply = edns.reply(Code::NoSuchName, &[], Some(why));
        assert!(reply.ends_with(why.as_bytes()));
        assert_eq!(reply[3] & 0xf, 3);
        assert_eq!(reply[11], 1);
    }

    #[test]
    fn what_is_not_one_plain_question_is_refused() {
        let mut two = query("a.test", kind::A, false);
        two[5] = 2;
        assert!(matches!(Query::parse(&two), Err(Unanswerable::Reply(reply)) if reply[3] & 0xf == 1));
        let mut answer = query("a.test", kind::A, false);
        answer[2] |= 0x80;
        assert_eq!(Query::parse(&answer), Err(Unanswerable::Silence));
        let mut update = query("a.test", kind::A, false);
        update[2] |= 0x28;
        assert!(matches!(Query::parse(&update), Err(Unanswerable::Reply(reply)) if reply[3] & 0xf == 4));
        assert_eq!(Query::parse(&[0; 11]), Err(Unanswerable::Silence));
        // A name that points at itself.
        let mut looped = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1];
        assert!(matches!(Query::parse(&looped), Ok(Query { name: None, .. })));
        looped[13] = 0;
        assert!(Query::parse(&looped).is_err() || Query::parse(&looped).unwrap().name.is_none());
    }

    #[test]
    fn a_label_that_hides_a_dot_or_a_control_character_is_no_name() {
        for label in [&b"a.b"[..], b"a\0b", b"a\nb", b"a%b", b"\xc3\xa9"] {
            let mut message = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, label.len() as u8];
            message.extend_from_slice(label);
            message.extend_from_slice(&[0, 0, 1, 0, 1]);
            assert_eq!(Query::parse(&message).unwrap().name, None, "{label:?}");
        }
    }

    #[test]
    fn a_question_that_is_too_long_is_not_repeated() {
        let label = [&[63][..], &[b'a'; 63]].concat();
        let mut message = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(&label.repeat(4));
        message.extend_from_slice(&[0, 0, 1, 0, 1]);
        assert!(matches!(Query::parse(&message), Err(Unanswerable::Reply(reply)) if reply.len() == HEADER));
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_answers_stay_small(message in proptest::collection::vec(any::<u8>(), 0..600)) {
            match Query::parse(&message) {
                Ok(query) => {
                    let reply = query.reply(Code::NoSuchName, &[], Some(&"x".repeat(999)));
                    prop_assert!(reply.len() <= 600);
                }
                Err(Unanswerable::Reply(reply)) => prop_assert_eq!(reply.len(), HEADER),
                Err(Unanswerable::Silence) => {}
            }
        }

        #[test]
        fn a_well_formed_query_is_always_read(name in "[a-z0-9_-]{1,20}(\\.[a-z0-9_-]{1,20}){0,5}", kind: u16, edns: bool) {
            let parsed = Query::parse(&query(&name, kind, edns)).unwrap();
            prop_assert_eq!(parsed.name.as_deref(), Some(name.as_str()));
            prop_assert_eq!(parsed.kind, kind);
        }
    }
}
