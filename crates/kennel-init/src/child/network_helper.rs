//! The opening of a plan, performed beside the rest: a network takes the kernel as long to make as all the mounts
//! together, and neither needs the other. So PID 1 has a second process make the network, makes the mounts meanwhile, and
//! enters the network when both are done.
//!
//! The second process shares PID 1's memory and descriptors. It is gone before PID 1 gives up any power, so that it never
//! runs beside a command, and neither limits nor filters have to take it into account.

use core::cell::{Cell, UnsafeCell};

use super::clone::{CloneArgs, flag, numbered_on_stack};
use super::network;
use super::restrict;
use super::sys::{self, Errno, Fd, Result};
use super::tag;
use super::wire::Reader;
use crate::report::Report;

const STACK: usize = 64 * 1024;
/// Its number in the PID namespace. Left to the kernel it would be 2, which is what people expect the command to be; no
/// namespace can be made too small for this one.
const NUMBER: i32 = 299;

/// The network that the steps made, if they made one; an error names the step.
pub(super) type Made = core::result::Result<Option<Fd>, (u32, Errno)>;

/// The opening, on its way.
pub(super) struct NetworkHelper<'p> {
    steps: Reader<'p>,
    count: usize,
    link: i32,
    /// The process that performs it, until it has been waited for.
    process: Cell<Option<i32>>,
    /// What came of it, written by that process. Until then it counts as failed: a process that was killed wrote nothing,
    /// and its sandbox has no network to run in.
    made: UnsafeCell<Made>,
    entered: Cell<bool>,
}

impl<'p> NetworkHelper<'p> {
    /// `steps` are the `count` steps of the opening.
    pub(super) fn new(steps: Reader<'p>, count: usize, link: i32) -> NetworkHelper<'p> {
        NetworkHelper {
            steps,
            count,
            link,
            process: Cell::new(None),
            made: UnsafeCell::new(Err((0, Errno::ECANCELED))),
            entered: Cell::new(count == 0),
        }
    }

    /// How many steps there are.
    pub(super) fn count(&self) -> u32 {
        self.count as u32
    }

    /// Has a second process perform them. Where none can be had, or not with that number (before Linux 5.5, and in
    /// containers that filter clone3), they are performed here and now.
    ///
    /// # Safety
    /// This may not move until [`NetworkHelper::enter`] has returned.
    pub(super) unsafe fn begin(&self) {
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
            // SAFETY: the stack is fresh; `perform` never returns and keeps to raw calls; what it is handed stays where
            // it is, as the caller promises, and the one field that it writes is not looked at before it has ended.
            unsafe { numbered_on_stack(&args, perform, (&raw const *self).cast_mut().cast()) }
        });
        match started {
            Ok(process) => self.process.set(Some(process)),
            // SAFETY: nobody else has it.
            Err(_) => unsafe { self.make() },
        }
        // A controller that is gone shows when the rest of the plan does not come.
        let _ = sys::send(self.link, &Report::Begun.encode());
    }

    /// Performs here what has to do with this process rather than with a network. To be called after [`NetworkHelper::begin`], in the
    /// time in which the rest of the plan is on its way; an error names the step.
    pub(super) fn meanwhile(&self) -> core::result::Result<(), (u32, Errno)> {
        let mut steps = self.steps;
        for index in 0..self.count {
            let step = steps.step().and_then(|(tag, mut fields)| match tag {
                tag::NAMESPACE_LIMIT => restrict::namespace_limit(&mut fields),
                _ => Ok(()),
            });
            step.map_err(|errno| (index as u32, errno))?;
        }
        Ok(())
    }

    /// Waits for the opening and enters the network that it made; an error names the step.
    pub(super) fn enter(&self) -> core::result::Result<(), (u32, Errno)> {
        if let Some(process) = self.process.take() {
            sys::wait_for(process).map_err(|errno| (0, errno))?;
        }
        // SAFETY: the other process has ended. What is taken out is forgotten where it was. Volatile, because nothing in this
        // process wrote it.
        let made = unsafe {
            let made = self.made.get().read_volatile();
            self.made.get().write(Ok(None));
            made
        };
        if let Some(network) = made? {
            sys::enter_network(&network).map_err(|errno| (0, errno))?;
        }
        self.entered.set(true);
        Ok(())
    }

    /// Fails as long as there is something to enter.
    pub(super) fn entered(&self) -> Result<()> {
        if self.entered.get() { Ok(()) } else { Err(Errno::EPROTO) }
    }

    /// # Safety
    /// Nobody else may look at what was made meanwhile.
    unsafe fn make(&self) {
        let made = network::make(self.steps, self.count, self.link);
        // SAFETY: the caller's promise.
        unsafe { self.made.get().write(made) };
    }
}

/// The second process.
///
/// # Safety
/// `argument` must point to an [`NetworkHelper`] that outlives this process.
unsafe extern "C" fn perform(argument: *mut u8) -> ! {
    // SAFETY: the caller's promise; whoever waits for this process looks at what it made when it has ended.
    unsafe { (*argument.cast::<NetworkHelper>()).make() };
    sys::exit(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_that_nobody_finished_is_no_network_to_enter() {
        let helper = NetworkHelper::new(Reader::new(&[]), 1, -1);
        assert_eq!(helper.entered(), Err(Errno::EPROTO));
        assert_eq!(helper.enter(), Err((0, Errno::ECANCELED)));
        assert_eq!(helper.entered(), Err(Errno::EPROTO));
    }

    #[test]
    fn without_steps_there_is_nothing_to_wait_for() {
        let helper = NetworkHelper::new(Reader::new(&[]), 0, -1);
        assert_eq!(helper.entered(), Ok(()));
    }
}
