//! The opening of a plan, performed beside the rest: a network takes the kernel as long to make as all the mounts
//! together, and neither needs the other. So PID 1 has a second process make the network, makes the mounts meanwhile, and
//! enters the network when both are done.
//!
//! The second process shares PID 1's memory and descriptors. It is gone before PID 1 gives up any power, so that it never
//! runs beside a command, and neither limits nor filters have to take it into account.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::clone::{flag, while_beside};
use super::network;
use super::sys::{self, Errno, Fd, Result};
use super::wire::Reader;
use crate::report::Report;

/// Its number in the PID namespace. Left to the kernel it would be 2, which is what people expect the command to be; no
/// namespace can be made too small for this one.
const NUMBER: i32 = 299;

/// The network that the steps made, if they made one; an error names the step.
pub(super) type Made = core::result::Result<Option<Fd>, (u32, Errno)>;

/// The opening, on its way.
pub(super) struct NetworkHelper<'p> {
    opening: Opening<'p>,
    /// The process that performs it, until it has been waited for.
    process: Cell<Option<i32>>,
    entered: Cell<bool>,
}

/// What both processes share.
struct Opening<'p> {
    steps: Reader<'p>,
    count: usize,
    link: i32,
    /// What came of it, as a number. Until that is known it counts as failed: a process that was killed wrote nothing, and its
    /// sandbox has no network to run in.
    made: AtomicU64,
}

impl<'p> NetworkHelper<'p> {
    /// `steps` are the `count` steps of the opening.
    pub(super) fn new(steps: Reader<'p>, count: usize, link: i32) -> NetworkHelper<'p> {
        let made = AtomicU64::new(as_number(Err((0, Errno::ECANCELED))));
        let opening = Opening { steps, count, link, made };
        NetworkHelper { opening, process: Cell::new(None), entered: Cell::new(count == 0) }
    }

    /// How many steps there are.
    pub(super) fn count(&self) -> u32 {
        self.opening.count as u32
    }

    /// Has a second process perform them while this one does `meanwhile`. Where none can be had, or not with that number (before
    /// Linux 5.5, and in containers that filter clone3), they are performed before.
    pub(super) fn while_it_works<R>(&self, meanwhile: impl FnOnce() -> R) -> R {
        if self.opening.count == 0 {
            return meanwhile();
        }
        while_beside(flag::FS | flag::FILES, (NUMBER, false), &self.opening, Opening::make, |started| {
            match started {
                Ok(process) => self.process.set(Some(process)),
                Err(_) => self.opening.make(),
            }
            // A controller that is gone shows when the rest of the plan does not come.
            let _ = sys::send(self.opening.link, &Report::Begun.encode());
            meanwhile()
        })
    }

    /// Waits for the opening and enters the network that it made; an error names the step.
    pub(super) fn enter(&self) -> core::result::Result<(), (u32, Errno)> {
        if let Some(process) = self.process.take() {
            sys::wait_for(process).map_err(|errno| (0, errno))?;
        }
        if let Some(network) = of_number(self.opening.made.swap(NOTHING, SeqCst))? {
            sys::enter_network(&network).map_err(|errno| (0, errno))?;
        }
        self.entered.set(true);
        Ok(())
    }

    /// Fails as long as there is something to enter.
    pub(super) fn entered(&self) -> Result<()> {
        if self.entered.get() { Ok(()) } else { Err(Errno::EPROTO) }
    }
}

impl Opening<'_> {
    fn make(&self) {
        self.made.store(as_number(network::make(self.steps, self.count, self.link)), SeqCst);
    }
}

const NOTHING: u64 = 0;
const NETWORK: u64 = 1 << 62;
const FAILURE: u64 = 1 << 63;

/// A network is its descriptor, which both processes have; a failure is the step, and the error below it.
fn as_number(made: Made) -> u64 {
    match made {
        Ok(None) => NOTHING,
        Ok(Some(network)) => NETWORK | u64::from(network.into_raw().cast_unsigned()),
        Err((step, Errno(errno))) => FAILURE | u64::from(step) << 16 | u64::from(errno as u16),
    }
}

fn of_number(number: u64) -> Made {
    if number & FAILURE != 0 {
        return Err(((number >> 16) as u32, Errno(i32::from(number as u16))));
    }
    Ok((number & NETWORK != 0).then(|| Fd(number as i32)))
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

    #[test]
    fn what_came_of_it_is_told_from_one_process_to_the_other() {
        assert!(matches!(of_number(as_number(Ok(None))), Ok(None)));
        let network = of_number(as_number(Ok(Some(Fd(-1)))));
        assert_eq!(network.ok().flatten().map(Fd::into_raw), Some(-1));
        for failure in [(0, Errno(1)), (u32::MAX, Errno::ECANCELED)] {
            assert!(matches!(of_number(as_number(Err(failure))), Err(same) if same == failure));
        }
    }
}
