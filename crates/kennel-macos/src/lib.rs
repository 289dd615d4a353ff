//! macOS: from a policy to a Seatbelt profile, and to a running command.
//!
//! [`profile`] is pure: it looks at a disk through a small trait and writes a text. It is compiled and tested on every
//! system with such paths.

#[cfg(unix)]
pub mod profile;
