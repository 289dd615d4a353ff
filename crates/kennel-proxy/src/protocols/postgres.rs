//! PostgreSQL (its protocol's "Start-up"): the client begins with a packet of a fixed form, and waits for the answer before it says
//! more. It can ask for TLS or GSSAPI first.

use crate::rules::DenyReason;

use super::{Seen, State, Step};

/// As the server has it.
const MAX_STARTUP: usize = 10_000;
const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSSAPI: u32 = 80_877_104;

#[derive(Debug, Default)]
pub(super) struct Exchange {
    waiting: Option<Request>,
    /// How many answers of one byte have come.
    answers: usize,
    tls: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Tls,
    Gssapi,
    /// The session itself.
    Startup,
    /// Which is never answered.
    Cancel,
}

enum Packet {
    Incomplete,
    Whole(Request, usize),
    None,
}

pub(super) fn first(bytes: &[u8], heard: &[u8]) -> Seen {
    match packet(bytes) {
        // A server waits for its client.
        _ if !heard.is_empty() => Seen::NotMine,
        Packet::Incomplete => Seen::Perhaps,
        Packet::Whole(..) => Seen::Mine(State::Postgres(Exchange::default())),
        Packet::None => Seen::NotMine,
    }
}

impl Exchange {
    /// Whether a hello may come now.
    pub(super) fn begins_tls(&self) -> bool {
        self.tls
    }

    pub(super) fn client(&mut self, bytes: &[u8], heard: &[u8]) -> Step {
        let unlike = Step::Refuse(DenyReason::Protocol("something other than PostgreSQL"));
        match self.waiting {
            None => {}
            Some(Request::Cancel) => return Step::Open,
            Some(asked) => match (asked, heard.get(self.answers)) {
                (_, None) if bytes.is_empty() => return Step::More,
                (_, None) => return Step::Hold,
                // Authentication, an error, a notice, or another version of the protocol.
                (Request::Startup, Some(b'R' | b'E' | b'N' | b'v')) => return Step::Open,
                (Request::Tls, Some(b'S')) => {
                    self.tls = true;
                    return match bytes.first() {
                        None | Some(22) => Step::More,
                        _ => unlike,
                    };
                }
                (Request::Gssapi, Some(b'G')) | (Request::Tls | Request::Gssapi, Some(b'E')) => {
                    return Step::Open;
                }
                (Request::Tls | Request::Gssapi, Some(b'N')) => {
                    self.answers += 1;
                    self.waiting = None;
                }
                _ => return Step::Refuse(DenyReason::Answer("PostgreSQL's protocol")),
            },
        }
        match packet(bytes) {
            Packet::Incomplete => Step::More,
            Packet::Whole(request, length) => {
                self.waiting = Some(request);
                Step::Pass(length)
            }
            Packet::None => unlike,
        }
    }
}

/// The packet that these bytes begin with: its length, and what it asks for.
fn packet(bytes: &[u8]) -> Packet {
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let length = match (number(0), bytes) {
        (Some(length), _) if (8..=MAX_STARTUP as u32).contains(&length) => length as usize,
        (None, [] | [0] | [0, 0] | [0, 0, _]) => return Packet::Incomplete,
        _ => return Packet::None,
    };
    let Some(code) = number(4) else { return Packet::Incomplete };
    let request = match (code, length) {
        (TLS, 8) => Request::Tls,
        (GSSAPI, 8) => Request::Gssapi,
        // With a key of four bytes, or of up to 256 since version 3.2.
        (CANCEL, 16..=268) => Request::Cancel,
        // Version 3 of the protocol; names and values follow.
        (0x0003_0000..=0x0003_ffff, 9..) => Request::Startup,
        _ => return Packet::None,
    };
    let Some(rest) = bytes.get(8..length) else { return Packet::Incomplete };
    // Names and values are texts that end in NUL; with line ends among them it could be a request to somebody else.
    if request == Request::Startup && !rest.iter().all(|byte| matches!(byte, 0 | b' '..)) {
        return Packet::None;
    }
    Packet::Whole(request, length)
}
