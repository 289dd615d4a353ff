//! HTTP/1.1 as a proxy has to speak it (RFC 9112): message heads, chunked bodies, and what may be handed on.
//!
//! This is the only reader of requests of HTTP/1.1, whichever way they come in.
//!
//! Everything that two implementations could read in two ways is refused and not repaired. Smuggling lives from a
//! proxy and a server that disagree where a request ends.

pub mod chunked;
pub mod head;
