//! Reads an encoded plan where it lies, without copying or allocating. The writer is `encode`.

use core::ffi::CStr;

use super::steps::Tag;
use super::sys::{Errno, Identity, Result};
use super::tag;

/// A position in an encoded plan.
#[derive(Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts at the beginning of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(Errno::EPROTO)?;
        self.0 = tail;
        Ok(head)
    }

    /// The number that every part begins with.
    pub fn magic(&mut self) -> Result<()> {
        if self.u32()? == tag::MAGIC { Ok(()) } else { Err(Errno::EPROTO) }
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A 32-bit number.
    pub fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A 64-bit number.
    pub fn u64(&mut self) -> Result<u64> {
        let (low, high) = (self.u32()?, self.u32()?);
        Ok(u64::from(low) | u64::from(high) << 32)
    }

    /// A count of things that follow.
    pub fn count(&mut self) -> Result<usize> {
        self.u32().map(|count| count as usize)
    }

    /// A run of bytes with its length.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let count = self.count()?;
        self.take(count)
    }

    /// A string with its NUL.
    pub fn string(&mut self) -> Result<&'a CStr> {
        CStr::from_bytes_with_nul(self.bytes()?).map_err(|_| Errno::EPROTO)
    }

    /// A file's identity.
    pub fn identity(&mut self) -> Result<Identity> {
        Ok(Identity { device: self.u64()?, inode: self.u64()? })
    }

    /// A step: its tag, and a reader of its fields. This reader moves on to the next.
    pub fn step(&mut self) -> Result<(Tag, Reader<'a>)> {
        let mut fields = Reader(self.bytes()?);
        Ok((Tag::of(fields.u8()?).ok_or(Errno::EPROTO)?, fields))
    }
}
