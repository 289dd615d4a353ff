//! A thread that hears no signals for a while: what it starts then inherits that.
//!
//! The signals of a program that uses this crate are for its own threads. A handler of the program's must not run in a
//! thread or a process of kennel's, least of all in one that shares its memory.

/// All signals of this thread are blocked while it lives.
pub(crate) struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    /// Blocks them. The call cannot fail: it is one that the kernel knows, on sets that are there.
    pub(crate) fn new() -> SignalsBlocked {
        // SAFETY: both sets are plain memory that the calls fill in; only this thread's mask changes.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            SignalsBlocked(before)
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set is the one that was in force before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}
