//! Security identifiers: who an access list speaks of.

use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::os::windows::ffi::OsStringExt;

use windows_sys::Win32::Foundation::LocalFree;
use windows_sys::Win32::Security::Authorization::{ConvertSidToStringSidW, ConvertStringSidToSidW};
use windows_sys::Win32::Security::{GetLengthSid, PSID};

use crate::error::{Error, check};
use crate::wide::terminated;

/// Everybody.
pub(crate) const EVERYONE: &str = "S-1-1-0";
/// The level that unlabelled objects refuse writes from: they count as medium.
pub(crate) const LOW_INTEGRITY: &str = "S-1-16-4096";
/// The level of ordinary programs.
pub(crate) const MEDIUM_INTEGRITY: &str = "S-1-16-8192";
/// The system itself.
pub(crate) const SYSTEM: &str = "S-1-5-18";

/// An identifier with memory of its own.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sid {
    /// Aligned as the structure is.
    words: Vec<u32>,
}

impl Sid {
    /// From its text.
    pub(crate) fn parse(text: &str) -> Result<Sid, Error> {
        let mut sid: PSID = std::ptr::null_mut();
        // SAFETY: the text ends with a zero, and `sid` is where the result goes.
        let parsed = unsafe { ConvertStringSidToSidW(terminated(text).as_ptr(), &mut sid) };
        check(parsed, "reading a security identifier")?;
        // SAFETY: the call has just made it.
        let copy = unsafe { Sid::copy(sid) };
        // SAFETY: it was allocated for us, and is not used any more.
        unsafe { LocalFree(sid) };
        Ok(copy)
    }

    /// A copy of one that Windows returned.
    ///
    /// # Safety
    /// `sid` must point to an identifier.
    pub(crate) unsafe fn copy(sid: PSID) -> Sid {
        // SAFETY: the caller's promise.
        let length = unsafe { GetLengthSid(sid) } as usize;
        let mut words = vec![0u32; length.div_ceil(4)];
        // SAFETY: the identifier has this length, and the copy is at least as long.
        unsafe { std::ptr::copy_nonoverlapping(sid.cast::<u8>(), words.as_mut_ptr().cast::<u8>(), length) };
        Sid { words }
    }

    /// One that nobody has: of the form of an account's, with numbers at random. It need not be secret, only be no other's.
    pub(crate) fn of_nobody() -> Result<Sid, Error> {
        let random = || RandomState::new().hash_one(std::process::id());
        let (one, other) = (random(), random());
        Sid::parse(&format!(
            "S-1-5-21-{}-{}-{}-{}",
            one >> 32,
            one & 0xffff_ffff,
            other >> 32,
            // Small numbers are those of accounts that every machine has.
            (other & 0x7fff_ffff) | 0x4000_0000
        ))
    }

    /// Its last number: of an integrity level, how high it is.
    pub(crate) fn last(&self) -> u32 {
        self.words.last().copied().unwrap_or(0)
    }

    /// For calls, which do not change it.
    pub(crate) fn as_ptr(&self) -> PSID {
        self.words.as_ptr().cast_mut().cast()
    }

    /// Its length in bytes.
    pub(crate) fn length(&self) -> u32 {
        // SAFETY: it is an identifier.
        unsafe { GetLengthSid(self.as_ptr()) }
    }
}

impl std::fmt::Display for Sid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text: *mut u16 = std::ptr::null_mut();
        // SAFETY: it is an identifier, and `text` is where the result goes.
        if unsafe { ConvertSidToStringSidW(self.as_ptr(), &mut text) } == 0 {
            return f.write_str("?");
        }
        let mut length = 0;
        // SAFETY: the text ends with a zero.
        while unsafe { *text.add(length) } != 0 {
            length += 1;
        }
        // SAFETY: so many units are there.
        let units = unsafe { std::slice::from_raw_parts(text, length) };
        let shown = OsString::from_wide(units).to_string_lossy().into_owned();
        // SAFETY: it was allocated for us, and is not used any more.
        unsafe { LocalFree(text.cast()) };
        f.write_str(&shown)
    }
}

impl std::fmt::Debug for Sid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
