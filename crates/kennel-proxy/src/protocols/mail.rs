//! SMTP, IMAP and POP3: the server greets, then lines go back and forth; one of them can ask for TLS.

use kennel_policy::domain::Protocol;

use super::{Seen, State, Step};

/// Longer than any line that asks for TLS.
const MAX_KEPT: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// The beginning of the line that is under way, and how long it is.
    line: Vec<u8>,
    /// The line before asked for TLS.
    asked: bool,
}

/// The greeting of a server.
pub(super) fn first(protocol: Protocol, heard: &[u8]) -> Seen {
    let greetings: &[&[u8]] = match protocol {
        Protocol::Smtp => &[b"220 ", b"220-", b"421 ", b"554 ", b"554-"],
        Protocol::Imap => &[b"* OK", b"* PREAUTH", b"* BYE"],
        _ => &[b"+OK", b"-ERR"],
    };
    let fits = |own: &&&[u8]| heard.iter().zip(own.iter()).all(|(a, b)| a == b);
    match greetings.iter().find(fits) {
        Some(own) if heard.len() >= own.len() => Seen::Mine(State::Mail(Exchange::default())),
        Some(_) => Seen::AskServer,
        None => Seen::NotMine,
    }
}

impl Exchange {
    /// Whether a hello may come now.
    pub(super) fn begins_tls(&self) -> bool {
        self.asked
    }

    /// Lets lines pass up to one that asks for TLS.
    pub(super) fn client(&mut self, bytes: &[u8]) -> Step {
        match bytes.first() {
            None => return Step::More,
            Some(22) if self.asked => return Step::More,
            Some(_) => self.asked = false,
        }
        let mut from = 0;
        while let Some(length) = bytes[from..].iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[from..from + length]);
            from += length + 1;
            let asks = asks_for_tls(&self.line);
            self.line.clear();
            if asks {
                self.asked = true;
                return Step::Pass(from);
            }
        }
        self.keep(&bytes[from..]);
        Step::Pass(bytes.len())
    }

    fn keep(&mut self, part: &[u8]) {
        let room = MAX_KEPT - self.line.len();
        self.line.extend(part.iter().take(room));
    }
}

/// `STARTTLS`, `a1 STARTTLS` or `STLS`.
fn asks_for_tls(line: &[u8]) -> bool {
    let mut words = line.trim_ascii().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let is = |word: Option<&[u8]>, own: &[u8]| word.is_some_and(|word| word.eq_ignore_ascii_case(own));
    let (first, second) = (words.next(), words.next());
    is(first, b"STARTTLS") || is(first, b"STLS") || is(second, b"STARTTLS")
}
