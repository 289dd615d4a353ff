//! The beginning of TLS: a hello that names the server, the server's answer, and a second hello if that asks for one.

use crate::rules::DenyReason;
use crate::tls::{
    Answer, Between, ClientHello, HANDSHAKE_CLIENT_HELLO, Hello, HelloReader, MAX_HELLO,
    RECORD_CHANGE_CIPHER_SPEC, RECORD_HANDSHAKE, record_between, server_answer,
};

use super::Step;

/// What is known of the server when the hello comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing: the hello has to name it.
    Nothing,
    /// A rule names the protocol of this port, or the server has told that it speaks one which is not HTTP. Many such
    /// clients (`redis-cli`, `mysql`, Postfix) name no server, and there are no others to be had at such a port.
    Answered,
    /// The same, and lines of the protocol before may still be on their way.
    Lines,
}

#[derive(Debug)]
pub(super) struct Handshake {
    name: String,
    before: Before,
    allow_ech: bool,
    reader: HelloReader,
    stage: Stage,
    /// The client has said that what follows is encrypted.
    changed_cipher: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// The hello is to come.
    First,
    /// The server has it.
    Sent,
    /// The server asked for another.
    Second,
    /// The server has taken one: all that follows is encrypted, or goes by its keys.
    Taken,
}

impl Handshake {
    pub(super) fn new(name: &str, before: Before, allow_ech: bool) -> Self {
        let reader = HelloReader::default();
        let (name, stage) = (name.to_owned(), Stage::First);
        Handshake { name, before, allow_ech, reader, stage, changed_cipher: false }
    }

    /// Looks at all that the server has said since the hello.
    pub(super) fn server(&mut self, heard: &[u8]) -> Result<(), DenyReason> {
        if self.stage != Stage::Sent {
            return Ok(());
        }
        let answer = match self.before {
            Before::Lines => behind_lines(heard),
            _ => heard,
        };
        match server_answer(answer) {
            Answer::Incomplete | Answer::Alert => {}
            Answer::Hello => self.stage = Stage::Taken,
            Answer::Retry => self.stage = Stage::Second,
            Answer::NotTls => return Err(DenyReason::Answer("TLS")),
        }
        Ok(())
    }

    pub(super) fn client(&mut self, bytes: &[u8]) -> Step {
        match self.stage {
            Stage::First => {
                let step = self.hello(bytes);
                if matches!(step, Step::Pass(_)) {
                    self.stage = Stage::Sent;
                }
                step
            }
            Stage::Taken => self.after(bytes),
            // Nothing more until the server has answered in TLS: to one that speaks something else these bytes could be a
            // request. Early data waits too, and loses only time.
            Stage::Sent if bytes.is_empty() => Step::More,
            Stage::Sent => Step::Hold,
            Stage::Second => match record_between(bytes) {
                Between::Incomplete => Step::More,
                Between::Harmless(length) => {
                    self.changed_cipher |= bytes.first() == Some(&RECORD_CHANGE_CIPHER_SPEC);
                    Step::Pass(length)
                }
                Between::Handshake => {
                    let step = self.hello(bytes);
                    if matches!(step, Step::Pass(_)) {
                        // A server that asked once may not ask again (RFC 8446 §4.1.4).
                        self.stage = Stage::Taken;
                    }
                    step
                }
                Between::Malformed => Step::Refuse(DenyReason::Tls("an invalid record")),
            },
        }
    }

    /// What comes first when the server has taken a hello. No server takes another one now; whoever sends one is up to
    /// something. With TLS 1.2 the next message is in plain, unless a cipher was changed to.
    fn after(&mut self, bytes: &[u8]) -> Step {
        match bytes {
            [] => Step::More,
            [RECORD_HANDSHAKE, ..] if !self.changed_cipher => match bytes {
                [_, _, _, _, _, HANDSHAKE_CLIENT_HELLO, ..] => match self.hello(bytes) {
                    Step::Pass(_) => Step::Refuse(DenyReason::Tls("an unrequested second hello")),
                    step => step,
                },
                [_, _, _, _, _, _, ..] => Step::Open,
                _ => Step::More,
            },
            _ => Step::Open,
        }
    }

    fn hello(&mut self, bytes: &[u8]) -> Step {
        let ClientHello { name, encrypted, length } = match self.reader.read(bytes) {
            Hello::Incomplete if bytes.len() > 6 * MAX_HELLO => {
                return Step::Refuse(DenyReason::Tls("a hello that is too long"));
            }
            Hello::Incomplete => return Step::More,
            Hello::NotTls => return Step::Refuse(DenyReason::Tls("a version that is not TLS")),
            Hello::Malformed(why) => return Step::Refuse(DenyReason::Tls(why)),
            Hello::Read(hello) => hello,
        };
        match name {
            None if self.before == Before::Nothing => Step::Refuse(DenyReason::NoServerName),
            // In exactly this spelling but for its case (RFC 6066 §3); other spellings are other names to some servers.
            Some(told) if !told.eq_ignore_ascii_case(&self.name) => {
                Step::Refuse(DenyReason::NameMismatch(told))
            }
            _ if encrypted && !self.allow_ech => Step::Refuse(DenyReason::EncryptedName),
            _ => {
                // The next one is another message.
                self.reader = HelloReader::default();
                Step::Pass(length)
            }
        }
    }
}

/// What comes behind the text with which a server agrees to begin TLS.
fn behind_lines(heard: &[u8]) -> &[u8] {
    let mut rest = heard;
    while let [first, ..] = rest
        && (b' '..=b'~').contains(first)
    {
        match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => rest = &rest[end + 1..],
            None => return &[],
        }
    }
    rest
}
