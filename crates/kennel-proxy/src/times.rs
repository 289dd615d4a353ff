//! The deadlines of a gate.

use std::time::Duration;

use crate::relay::Patience;

/// How long anything may take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Until a client has sent a whole request head, SOCKS message or ClientHello.
    pub head: Duration,
    /// Until a client sends its next request over a connection that is kept.
    pub idle: Duration,
    /// Until a server has accepted.
    pub connect: Duration,
    /// Until a server begins to answer a request. Long: a model may think for minutes before its first byte.
    pub response: Duration,
    /// Until a peer takes some of the bytes that wait for it.
    pub stall: Duration,
    /// Without a byte once one side has ended.
    pub half_closed: Duration,
    /// Until whoever is asked about a host answers.
    pub ask: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Times {
            head: Duration::from_secs(30),
            idle: Duration::from_secs(120),
            connect: Duration::from_secs(30),
            response: Duration::from_secs(900),
            stall: Duration::from_secs(900),
            half_closed: Duration::from_secs(600),
            ask: Duration::from_secs(60),
        }
    }
}

impl Times {
    pub(crate) fn patience(self) -> Patience {
        Patience { stall: self.stall, half_closed: self.half_closed }
    }
}
