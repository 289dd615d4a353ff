//! HTTP/1.1 as a proxy has to speak it (RFC 9112): message heads, chunked bodies, and what may be handed on.
//!
//! Everything that two implementations could read in two ways is refused and not repaired. Smuggling lives from a
//! proxy and a server that disagree where a request ends.

mod body;
pub mod chunked;
mod exchange;
pub(crate) mod forward;
pub mod head;
mod leak;
pub(crate) mod refusal;
