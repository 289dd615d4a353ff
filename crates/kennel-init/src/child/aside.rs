//! The opening of a plan, performed beside the rest: a network takes the kernel as long to make as all the mounts
//! together, and neither needs the other. So PID 1 has a second process make the network, makes the mounts meanwhile, and
//! enters the network when both are done.
//!
//! The second process shares PID 1's memory and descriptors. It is gone before PID 1 gives up any power, so that it never
//! runs beside a command, and neither limits nor filters have to take it into account.

use super::clone::{CloneArgs, flag, numbered_on_stack};
use super::network;
use super::sys::{self, Errno, Fd, Result};
use super::wire::Reader;
use crate::report::Report;

const STACK: usize = 64 * 1024;
/// Its number in the PID namespace. Left to the kernel it would be 2, which is what people expect the command to be; no
/// namespace can be made too small for this one.
const NUMBER: i32 = 299;

/// The opening, on its way.
pub(super) struct Aside<'p> {
    steps: Reader<'p>,
    count: usize,
    link: i32,
    /// The process that performs it, until it has been waited for.
    process: Option<i32>,
    /// What came of it: the network, if one was made; an error names the step.
    outcome: core::result::Result<Option<Fd>, (u32, Errno)>,
    entered: bool,
}

impl<'p> Aside<'p> {
    /// `steps` are the `count` steps of the opening.
    pub(super) fn new(steps: Reader<'p>, count: usize, link: i32) -> Aside<'p> {
        Aside { steps, count, link, process: None, outcome: Ok(None), entered: count == 0 }
    }

    /// How many steps there are.
    pub(super) fn count(&self) -> u32 {
        self.count as u32
    }

    /// Has a second process perform them. Where none can be had, or not with that number (before Linux 5.5, and in
    /// containers that filter clone3), they are performed here and now.
    ///
    /// # Safety
    /// This may not move, and nobody may look at it, until [`Aside::enter`] is called.
    pub(super) unsafe fn begin(&mut self) {
        if self.count == 0 {
            return;
        }
        let started = sys::map_memory(STACK).and_then(|stack| {
            let number = NUMBER;
            let args = CloneArgs {
                flags: flag::VM | flag::FS | flag::FILES,
                stack: stack as u64,
                stack_size: STACK as u64,
                set_tid: &raw const number as u64,
                set_tid_size: 1,
                ..CloneArgs::default()
            };
            // SAFETY: the stack is fresh; `perform_aside` never returns and keeps to raw calls; what it is handed stays
            // where it is and is left alone until it has ended, as the caller promises.
            unsafe { numbered_on_stack(&args, perform_aside, (&raw mut *self).cast()) }
        });
        match started {
            Ok(process) => self.process = Some(process),
            Err(_) => self.outcome = network::make(self.steps, self.count, self.link),
        }
        // A controller that is gone shows when the rest of the plan does not come.
        let _ = sys::send(self.link, &Report::Begun.encode());
    }

    /// Waits for the opening and enters the network that it made; an error names the step.
    pub(super) fn enter(&mut self) -> core::result::Result<(), (u32, Errno)> {
        let last = self.count().saturating_sub(1);
        if let Some(process) = self.process.take() {
            sys::wait_for(process).map_err(|errno| (last, errno))?;
        }
        let made = core::mem::replace(&mut self.outcome, Ok(None))?;
        if let Some(network) = made {
            sys::enter_network(&network).map_err(|errno| (last, errno))?;
        }
        self.entered = true;
        Ok(())
    }

    /// Whether there is nothing left to wait for.
    pub(super) fn entered(&self) -> Result<()> {
        if self.entered { Ok(()) } else { Err(Errno::EPROTO) }
    }
}

/// The second process.
///
/// # Safety
/// `argument` must point to an [`Aside`] that nobody else uses while this process lives.
unsafe extern "C" fn perform_aside(argument: *mut u8) -> ! {
    // SAFETY: the caller's promise.
    let aside = unsafe { &mut *argument.cast::<Aside>() };
    aside.outcome = network::make(aside.steps, aside.count, aside.link);
    sys::exit(0)
}
