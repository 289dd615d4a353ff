//! Memory for what must not be found elsewhere: it is not swapped out, not dumped, not there after a fork, and overwritten
//! before it is given back.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous, munmap};
use zeroize::Zeroize;

/// Some bytes of such memory.
pub(super) struct Locked {
    start: NonNull<u8>,
    length: usize,
    /// Whether the system keeps it out of swap; it has a limit on how much it does that for.
    kept: bool,
}

// SAFETY: the memory belongs to this value alone, as a box's would.
unsafe impl Send for Locked {}
// SAFETY: shared, it can only be read.
unsafe impl Sync for Locked {}

impl Locked {
    /// Zeros.
    pub(super) fn new(length: usize) -> io::Result<Locked> {
        let length = length.max(1);
        // SAFETY: a new mapping, where the system wants it; nothing is replaced.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let start_byte = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the mapping that was just made.
        let kept = unsafe { mlock(start, length) }.is_ok();
        #[cfg(target_os = "linux")]
        for advice in [rustix::mm::Advice::LinuxDontDump, rustix::mm::Advice::LinuxWipeOnFork] {
            // SAFETY: neither changes what is in it now.
            let _ = unsafe { rustix::mm::madvise(start, length, advice) };
        }
        Ok(Locked { start: start_byte, length, kept })
    }

    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }
}

impl Deref for Locked {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: mapped for as long as this lives, and initialised: new mappings are zeros.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.zeroize();
        // SAFETY: the mapping of `new`, which nobody uses from here on.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// The real value of a secret. Clones are the same memory.
#[derive(Clone)]
pub struct SecretValue {
    memory: Arc<Locked>,
    length: usize,
}

impl SecretValue {
    /// Takes the bytes over, and overwrites where they were.
    ///
    /// # Errors
    /// When the system has no memory.
    pub fn from_bytes(mut bytes: Vec<u8>) -> io::Result<SecretValue> {
        let mut memory = Locked::new(bytes.len())?;
        memory[..bytes.len()].copy_from_slice(&bytes);
        let length = bytes.len();
        bytes.zeroize();
        Ok(SecretValue { memory: Arc::new(memory), length })
    }

    /// The value.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.memory[..self.length]
    }

    /// Whether the system keeps it out of swap. It does so up to a limit (`ulimit -l`).
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.memory.is_kept()
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_nothing() {
        let value = SecretValue::from_bytes(b"hunter2".to_vec()).unwrap();
        assert_eq!(value.expose(), b"hunter2");
        assert_eq!(format!("{value:?}"), "SecretValue(…)");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_memory_is_marked() {
        let value = SecretValue::from_bytes(b"where is it".to_vec()).unwrap();
        let address = value.expose().as_ptr() as usize;
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut flags = None;
        let mut here = false;
        for line in smaps.lines() {
            let range = line.split_whitespace().next().and_then(|word| word.split_once('-'));
            if let Some((start, end)) = range
                && let (Ok(start), Ok(end)) =
                    (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16))
            {
                here = (start..end).contains(&address);
            } else if let (true, Some(words)) = (here, line.strip_prefix("VmFlags:")) {
                flags = Some(words.to_owned());
            }
        }
        let flags = flags.expect("the mapping is listed");
        for flag in ["dd", "wf"] {
            assert!(flags.split_whitespace().any(|word| word == flag), "{flag} is not in {flags}");
        }
        assert!(!value.is_locked() || flags.contains("lo"), "{flags}");
    }
}
