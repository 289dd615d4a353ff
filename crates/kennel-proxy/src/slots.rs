//! How many connections are open at a time, in all gates of this process together.
//!
//! Descriptors are the process's, not a gate's: what the clients of one sandbox hold, other sandboxes and the program
//! around them lack. So there is one budget, and each gate a share of it which is no larger than what is left: one greedy
//! gate gets half of all, two get a third each, and so on. There is always as much left as the largest share, for whoever
//! comes next. A gate that is the only one in its process takes all but an eighth. What comes in from outside (published
//! ports) has a share of its own, which what is inside cannot use up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// For the program itself.
const FOR_THE_REST: u64 = 64;
/// A connection takes two descriptors, and three while its host is looked up (a question for each address family)
/// or connected to (the next address is tried while the last one is slow).
const EACH: u64 = 3;
/// What every share may have as long as there is anything left.
const MIN: usize = 2;

#[derive(Debug)]
struct Budget {
    /// How many connections the descriptors are enough for.
    capacity: usize,
    used: usize,
}

static BUDGET: Mutex<Budget> = Mutex::new(Budget { capacity: 0, used: 0 });
/// Told of each slot that becomes free.
static FREED: Notify = Notify::const_new();

fn budget() -> MutexGuard<'static, Budget> {
    BUDGET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much of this process's descriptors a gate may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DescriptorBudget {
    /// A share: other gates need some, and the program that they are part of.
    Shared,
    /// All but an eighth.
    Whole,
}

/// What one gate holds of the budget.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionSlots {
    most: usize,
    descriptors: DescriptorBudget,
    /// Changed only by who holds the budget.
    held: Arc<Mutex<usize>>,
}

/// Room for one connection.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Mutex<usize>>);

impl ConnectionSlots {
    /// At most so many slots.
    pub(crate) fn new(most: usize, descriptors: DescriptorBudget) -> Self {
        // Windows has no such limit.
        #[cfg(windows)]
        let limit: Option<u64> = None;
        #[cfg(unix)]
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let fit = limit.map_or(u64::MAX, |limit| limit.saturating_sub(FOR_THE_REST) / EACH);
        // The limit may have changed since the last gate was opened.
        budget().capacity = usize::try_from(fit).unwrap_or(usize::MAX);
        ConnectionSlots { most, descriptors, held: Arc::default() }
    }

    /// Waits for a slot.
    pub(crate) async fn take(&self) -> Slot {
        loop {
            let freed = FREED.notified();
            tokio::pin!(freed);
            // From here on nothing is missed.
            freed.as_mut().enable();
            if let Some(slot) = self.try_take() {
                return slot;
            }
            freed.await;
        }
    }

    fn try_take(&self) -> Option<Slot> {
        let mut budget = budget();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let left = budget.capacity.saturating_sub(budget.used);
        let fair = match self.descriptors {
            DescriptorBudget::Shared => *held < left,
            DescriptorBudget::Whole => left > budget.capacity / 8,
        };
        let fair = fair || (*held < MIN.max(budget.capacity / 32) && left > 0);
        // Should there be no descriptors at all, then one connection after the other.
        if *held > 0 && (*held >= self.most || !fair) {
            return None;
        }
        *held += 1;
        budget.used += 1;
        Some(Slot(Arc::clone(&self.held)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        {
            let mut budget = budget();
            budget.used -= 1;
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        }
        FREED.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_share_takes_what_others_need() {
        // The budget is this process's, and no other test here opens a gate.
        let share = |most| ConnectionSlots::new(most, DescriptorBudget::Shared);
        let (greedy, other, third) = (share(usize::MAX), share(usize::MAX), share(3));
        budget().capacity = 60;
        let fill = |share: &ConnectionSlots| std::iter::from_fn(|| share.try_take()).collect::<Vec<_>>();
        let mut all = fill(&greedy);
        assert_eq!(all.len(), 30, "half of all");
        assert_eq!(fill(&third).len(), 3, "no more than it wants");
        let second = fill(&other);
        assert_eq!(second.len(), 15, "half of what was left");
        assert!(greedy.try_take().is_none());
        all.truncate(20);
        assert_eq!(fill(&other).len(), 5, "what is given back is shared anew");
        drop((all, second));
        assert_eq!(budget().used, 0);
        // Alone, nearly all, and something for what comes from outside.
        let alone = [
            ConnectionSlots::new(usize::MAX, DescriptorBudget::Whole),
            ConnectionSlots::new(usize::MAX, DescriptorBudget::Whole),
        ];
        budget().capacity = 320;
        let inside = fill(&alone[0]);
        assert_eq!((inside.len(), fill(&alone[1]).len()), (280, 10));
        drop(inside);
        // With next to nothing, one after the other.
        budget().capacity = 0;
        let one = greedy.try_take();
        assert!(one.is_some() && greedy.try_take().is_none() && other.try_take().is_some());
    }
}
