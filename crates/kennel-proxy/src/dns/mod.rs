//! DNS on the wire (RFC 1035): just what a name server for one sandbox and a stub resolver need.

pub mod answer;
pub mod query;
pub(crate) mod wire;
