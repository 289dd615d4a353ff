//! Bytes that nobody can guess.

use std::io;

/// Fills `bytes`.
///
/// # Errors
/// When the system has none to give.
#[cfg(target_os = "linux")]
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    // Up to 256 bytes come whole, once the system has started.
    match rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty())? {
        count if count == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Fills `bytes`.
///
/// # Errors
/// When the system has none to give.
#[cfg(all(unix, not(target_os = "linux")))]
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, bytes)
}
