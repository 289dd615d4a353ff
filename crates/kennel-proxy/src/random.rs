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

/// Fills `bytes`.
///
/// # Errors
/// When the system has none to give.
#[cfg(windows)]
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    use windows_sys::Win32::Security::Cryptography::{BCRYPT_USE_SYSTEM_PREFERRED_RNG, BCryptGenRandom};
    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the buffer has the length that is said; with this flag no algorithm is given.
    let status = unsafe {
        BCryptGenRandom(std::ptr::null_mut(), bytes.as_mut_ptr(), length, BCRYPT_USE_SYSTEM_PREFERRED_RNG)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::other("Windows has no random bytes")) }
}
