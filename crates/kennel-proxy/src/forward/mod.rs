//! Carrying plain requests: read strictly, written anew, with bodies that stream from socket to socket.

mod body;
pub(crate) mod connection;
pub(crate) mod exchange;
#[cfg_attr(not(unix), path = "no_leak.rs")]
mod leak;
pub(crate) mod origin;
pub(crate) mod refusal;
pub(crate) mod requests;
pub(crate) mod target;
