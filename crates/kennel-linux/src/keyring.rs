//! Keys of this user that the kernel keeps, by keyctl(2).

use std::ffi::CString;
use std::io;

use crate::sys::processes::{Key, read_key, search_key, unlink_key};

const PROCESS_KEYRING: Key = libc::KEY_SPEC_PROCESS_KEYRING as Key;
const SESSION_KEYRING: Key = libc::KEY_SPEC_SESSION_KEYRING as Key;
const USER_KEYRING: Key = libc::KEY_SPEC_USER_KEYRING as Key;

/// Reads the key of type `user` with this name, from the session's keyring or the user's, into the room that `into` has.
///
/// # Errors
/// When there is no such key, it may not be read, or it does not fit.
pub fn read(name: &str, into: &mut Vec<u8>) -> io::Result<()> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    // A key of the user's keyring can be searched for, but only who possesses it may read it: so it is linked to the keyring
    // of this process, which no other has.
    let search = |keyring| search_key(keyring, c"user", &name, PROCESS_KEYRING);
    let key = search(SESSION_KEYRING).or_else(|_| search(USER_KEYRING))?;
    let read = read_key(key, into);
    unlink_key(key, PROCESS_KEYRING);
    read
}
