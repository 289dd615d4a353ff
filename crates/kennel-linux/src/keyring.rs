//! Keys of this user that the kernel keeps, by keyctl(2).

use std::ffi::CString;
use std::io;

const KEYCTL_UNLINK: libc::c_long = 9;
const KEYCTL_SEARCH: libc::c_long = 10;
const KEYCTL_READ: libc::c_long = 11;
const PROCESS_KEYRING: libc::c_long = -2;
const SESSION_KEYRING: libc::c_long = -3;
const USER_KEYRING: libc::c_long = -4;

/// Reads the key of type `user` with this name, from the session's keyring or the user's, into the room that `into` has.
///
/// # Errors
/// When there is no such key, it may not be read, or it does not fit.
pub fn read(name: &str, into: &mut Vec<u8>) -> io::Result<()> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    let keyctl = |operation: libc::c_long, words: [libc::c_long; 4]| {
        // SAFETY: the addresses among the words are of texts and room that live until the call returns.
        let result =
            unsafe { libc::syscall(libc::SYS_keyctl, operation, words[0], words[1], words[2], words[3]) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    };
    // A key of the user's keyring can be searched for, but only who possesses it may read it: so it is linked to the keyring
    // of this process, which no other has.
    let search = |keyring| {
        let words =
            [keyring, c"user".as_ptr() as libc::c_long, name.as_ptr() as libc::c_long, PROCESS_KEYRING];
        keyctl(KEYCTL_SEARCH, words)
    };
    let key = search(SESSION_KEYRING).or_else(|_| search(USER_KEYRING))?;
    let room = into.spare_capacity_mut();
    let (start, size) = (room.as_mut_ptr() as libc::c_long, room.len());
    let length = keyctl(KEYCTL_READ, [key, start, size.cast_signed() as libc::c_long, 0]);
    let _ = keyctl(KEYCTL_UNLINK, [key, PROCESS_KEYRING, 0, 0]);
    let length = usize::try_from(length?).unwrap_or(0);
    if length > size {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let before = into.len();
    // SAFETY: the kernel has written so many bytes behind those that were there.
    unsafe { into.set_len(before + length) };
    Ok(())
}
