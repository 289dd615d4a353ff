//! Texts as Windows takes them.

use std::ffi::OsStr;
use std::os::windows::ffi::OsStrExt;

/// UTF-16 units.
pub(crate) fn wide(text: impl AsRef<OsStr>) -> Vec<u16> {
    text.as_ref().encode_wide().collect()
}

/// The same with a zero at the end.
pub(crate) fn terminated(text: impl AsRef<OsStr>) -> Vec<u16> {
    text.as_ref().encode_wide().chain([0]).collect()
}
