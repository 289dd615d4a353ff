//! The ways in. Each takes connections from sockets that were made inside the sandbox's network namespace, finds
//! out which host is wanted, and asks the gate.

pub(crate) mod dns;
pub(crate) mod proxy;
pub(crate) mod published;
pub(crate) mod refuse;
pub(crate) mod relay;
pub(crate) mod socks;
pub(crate) mod transparent;
pub(crate) mod tunnel;
