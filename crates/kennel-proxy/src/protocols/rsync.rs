//! The rsync daemon's protocol: both sides begin with `@RSYNCD: ` and a version.

use super::{Seen, State};

const BEGINNING: &[u8] = b"@RSYNCD: ";

pub(super) fn first(bytes: &[u8], heard: &[u8]) -> Seen {
    let fits = |bytes: &[u8]| bytes.iter().zip(BEGINNING).all(|(a, b)| a == b);
    match (fits(bytes) && fits(heard), bytes.len() >= BEGINNING.len(), heard.len() >= BEGINNING.len()) {
        (true, true, true) => Seen::Mine(State::Open),
        (true, false, _) => Seen::Perhaps,
        (true, true, false) => Seen::AskServer,
        (false, ..) => Seen::NotMine,
    }
}
