//! What is spoken on a connection that was let through to a name.
//!
//! Many names share one address, and a server goes by the name that its client tells it. So the gate decides what a
//! connection is before the server gets a byte of it, by a list of what it knows: TLS and HTTP, whose names it compares,
//! and a few protocols that know no other names, on their own ports. What is none of these is refused: a byte that the
//! gate does not understand may be one that some server does.
//!
//! Where the server speaks first (SSH, MySQL, mail, rsync) its greeting is the proof, which nobody inside can forge: no
//! byte of the client's goes out before it. A server for TLS or HTTP never sends one.
//!
//! Everything here is pure: bytes in, a [`Step`] out. HTTP has a reader of its own ([`crate::http`]); what tells it from
//! the rest is [`http_line`].

mod git;
mod handshake;
pub mod http_line;
mod mail;
mod mysql;
mod postgres;
mod redis;
mod rsync;
mod ssh;

use kennel_policy::domain::Protocol;

use crate::rules::DenyReason;
use crate::tls::RECORD_HANDSHAKE;
use handshake::{Before, Handshake};

/// The most bytes of a server that are kept while they are looked at.
const MAX_HEARD: usize = 16 << 10;

/// What is to be done with the bytes of a client that have not gone to the server yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// They are too few to tell: wait for more of them.
    More,
    /// Wait for the server.
    Hold,
    /// So many of them may go to the server.
    Pass(usize),
    /// They and all that follows may go to the server.
    Open,
    /// They may not go.
    Refuse(DenyReason),
}

/// Under which terms a connection to a name was let through.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The name, in its one spelling.
    pub name: String,
    /// The port.
    pub port: u16,
    /// Protocols that a rule names for this host and port.
    pub named: Vec<Protocol>,
    /// Whether TLS may hide a name.
    pub allow_ech: bool,
}

impl Terms {
    /// Whether a rule lets all bytes through.
    #[must_use]
    pub fn any_bytes(&self) -> bool {
        self.named.contains(&Protocol::Tcp)
    }

    fn protocols(&self) -> impl Iterator<Item = Protocol> {
        self.named.iter().copied().chain(Protocol::of_port(self.port))
    }

    fn handshake(&self, before: Before) -> Handshake {
        Handshake::new(&self.name, before, self.allow_ech)
    }
}

/// A connection whose protocol is being found out.
#[derive(Debug)]
pub struct Opening {
    terms: Terms,
    /// What the server has said, from where it matters.
    heard: Vec<u8>,
    state: State,
    /// What to call the client's bytes should nobody know them.
    unknown: &'static str,
}

#[derive(Debug)]
enum State {
    Undecided,
    Tls(Handshake),
    Ssh(ssh::Exchange),
    Postgres(postgres::Exchange),
    MySql(mysql::Exchange),
    Mail(mail::Exchange),
    Open,
}

/// What one protocol says to the first bytes of a client.
enum Seen {
    /// These are mine.
    Mine(State),
    /// They may be mine; more of them will tell.
    Perhaps,
    /// They may be mine; the server will tell.
    AskServer,
    /// They are mine, and must not go.
    Refused(DenyReason),
    /// They are not mine.
    NotMine,
}

impl Opening {
    /// Nothing has been said yet. `unknown` is what the client's bytes are called should nobody know them.
    #[must_use]
    pub fn new(terms: Terms, unknown: &'static str) -> Self {
        Opening { terms, heard: Vec::new(), state: State::Undecided, unknown }
    }

    /// Whether nothing more is looked at.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Hears what the server said next. It may go to the client, unless it is an error: a server that does not answer in
    /// the protocol that it was spoken to in.
    pub fn server(&mut self, bytes: &[u8]) -> Result<(), DenyReason> {
        if self.is_open() {
            return Ok(());
        }
        let room = MAX_HEARD - self.heard.len().min(MAX_HEARD);
        self.heard.extend(bytes.iter().take(room));
        match &mut self.state {
            State::Tls(handshake) => handshake.server(&self.heard),
            _ => Ok(()),
        }
    }

    /// What to do with these bytes of the client, the first of which have not gone to the server yet.
    pub fn client(&mut self, bytes: &[u8]) -> Step {
        loop {
            let step = match &mut self.state {
                State::Undecided => match self.decide(bytes) {
                    Ok(state) => {
                        self.state = state;
                        continue;
                    }
                    Err(step) => step,
                },
                State::Open => return Step::Open,
                State::Tls(handshake) => handshake.client(bytes),
                State::Ssh(exchange) => exchange.client(bytes, &self.heard),
                State::Postgres(exchange) => exchange.client(bytes, &self.heard),
                State::MySql(exchange) => exchange.client(bytes),
                State::Mail(exchange) => exchange.client(bytes),
            };
            // Inside a protocol that has told itself, a hello is the protocol's own upgrade to TLS.
            let begins = match &self.state {
                State::Postgres(exchange) => exchange.begins_tls(),
                State::MySql(exchange) => exchange.begins_tls(),
                State::Mail(exchange) => exchange.begins_tls(),
                _ => false,
            };
            if begins && step == Step::More && bytes.first() == Some(&RECORD_HANDSHAKE) {
                let lines = matches!(self.state, State::Mail(_));
                self.heard.clear();
                let before = if lines { Before::Lines } else { Before::Answered };
                self.state = State::Tls(self.terms.handshake(before));
                continue;
            }
            if step == Step::Open {
                self.state = State::Open;
                self.heard = Vec::new();
            }
            return step;
        }
    }

    fn decide(&self, bytes: &[u8]) -> Result<State, Step> {
        let unknown = || DenyReason::Protocol(self.unknown);
        match bytes {
            [] => return Err(Step::More),
            // A TLS server never speaks first.
            [RECORD_HANDSHAKE, ..] if !self.heard.is_empty() => return Err(Step::Refuse(unknown())),
            [RECORD_HANDSHAKE, ..] => {
                let trusted = !self.terms.named.is_empty();
                let before = if trusted { Before::Answered } else { Before::Nothing };
                return Ok(State::Tls(self.terms.handshake(before)));
            }
            _ => {}
        }
        let (mut more, mut hold) = (false, false);
        for protocol in std::iter::once(Protocol::Ssh).chain(self.terms.protocols()) {
            match self.ask(protocol, bytes) {
                Seen::Mine(state) => return Ok(state),
                Seen::Refused(reason) => return Err(Step::Refuse(reason)),
                Seen::Perhaps => more = true,
                Seen::AskServer => hold = true,
                Seen::NotMine => {}
            }
        }
        Err(match (more, hold) {
            (true, _) => Step::More,
            (_, true) => Step::Hold,
            _ => Step::Refuse(unknown()),
        })
    }

    fn ask(&self, protocol: Protocol, bytes: &[u8]) -> Seen {
        match protocol {
            // Asked about before.
            Protocol::Tcp => Seen::NotMine,
            Protocol::Ssh => ssh::first(bytes),
            Protocol::Postgres => postgres::first(bytes, &self.heard),
            Protocol::MySql => mysql::first(&self.heard),
            Protocol::Redis => redis::first(bytes),
            Protocol::Smtp | Protocol::Imap | Protocol::Pop3 => mail::first(protocol, &self.heard),
            Protocol::Git => git::first(bytes, &self.terms.name, self.terms.port),
            Protocol::Rsync => rsync::first(bytes, &self.heard),
        }
    }
}

#[cfg(test)]
mod tests;
