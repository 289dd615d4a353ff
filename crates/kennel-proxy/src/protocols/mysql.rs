//! MySQL and MariaDB: the server greets, the client answers, and may ask for TLS in its first packet.

use crate::rules::DenyReason;

use super::{Seen, State, Step};

const TLS: u8 = 0x08;

#[derive(Debug, Default)]
pub(super) struct Exchange {
    tls: bool,
}

/// A packet's length in three bytes, its number, and version 10 of the protocol, or an error.
pub(super) fn first(heard: &[u8]) -> Seen {
    match heard {
        [] | [_] | [_, _] | [_, _, _] | [_, _, _, 0] => Seen::AskServer,
        [_, _, 0, 0, 10 | 0xff, ..] => Seen::Mine(State::MySql(Exchange::default())),
        _ => Seen::NotMine,
    }
}

impl Exchange {
    /// Whether a hello may come now.
    pub(super) fn begins_tls(&self) -> bool {
        self.tls
    }

    pub(super) fn client(&mut self, bytes: &[u8]) -> Step {
        if self.tls {
            return match bytes.first() {
                None | Some(22) => Step::More,
                _ => Step::Refuse(DenyReason::Protocol("something other than MySQL")),
            };
        }
        match bytes {
            // A packet of 32 bytes whose flags ask for TLS.
            [32, 0, 0, 1, _, flags, ..] if flags & TLS != 0 => match bytes.len() {
                36.. => {
                    self.tls = true;
                    Step::Pass(36)
                }
                _ => Step::More,
            },
            [32, 0, 0, 1] | [32, 0, 0, 1, _] | [] | [_] | [_, _] | [_, _, _] => Step::More,
            _ => Step::Open,
        }
    }
}
