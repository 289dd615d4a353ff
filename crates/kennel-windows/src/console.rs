//! Ctrl-C and Ctrl-Break. A command on the caller's console gets them itself, as kennel does; kennel has to live on to say what
//! came of it.

use std::sync::atomic::{AtomicUsize, Ordering};

use windows_sys::Win32::Foundation::{FALSE, TRUE};
use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, GenerateConsoleCtrlEvent, SetConsoleCtrlHandler,
};
use windows_sys::core::BOOL;

use crate::error::{Error, check};

/// How many commands run on this console.
static ATTACHED: AtomicUsize = AtomicUsize::new(0);

/// While this lives, Ctrl-C and Ctrl-Break end the command and not this process. That the window is closed or the session ends
/// does end it, and the job with it.
#[derive(Debug)]
pub struct Attached(());

impl Attached {
    /// Starts to leave both to the command.
    #[must_use]
    pub fn new() -> Attached {
        if ATTACHED.fetch_add(1, Ordering::AcqRel) == 0 {
            // SAFETY: the handler touches an atomic number only.
            unsafe { SetConsoleCtrlHandler(Some(handler), TRUE) };
        }
        Attached(())
    }
}

impl Default for Attached {
    fn default() -> Self {
        Attached::new()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if ATTACHED.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: as above.
            unsafe { SetConsoleCtrlHandler(Some(handler), FALSE) };
        }
    }
}

unsafe extern "system" fn handler(event: u32) -> BOOL {
    let is_the_commands = matches!(event, CTRL_C_EVENT | CTRL_BREAK_EVENT);
    if is_the_commands && ATTACHED.load(Ordering::Acquire) > 0 { TRUE } else { FALSE }
}

/// Sends Ctrl-Break to a process group. Ctrl-C cannot be sent to one: Windows disables it in new groups.
///
/// # Errors
/// When there is no such group on this console.
pub fn send_break(group: u32) -> Result<(), Error> {
    // SAFETY: no memory is involved.
    check(unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, group) }, "sending Ctrl-Break to the command")
}
