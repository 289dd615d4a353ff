//! What a sandbox uses, for somebody else than the one who waits for it.

use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use crate::cgroup::{Cgroup, FinalStats, Usage, stale};

/// The sandbox's cgroup, until the sandbox has ended.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<Option<Cgroup>>>);

impl Meter {
    /// What the sandbox uses now; `None` when it has ended, and where nothing counts.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.cgroup().as_ref().map(Cgroup::usage)
    }

    pub(super) fn count_by(&self, cgroup: Cgroup) {
        *self.cgroup() = Some(cgroup);
    }

    /// Ends what is still inside and removes the cgroup.
    pub(super) fn finish(&self) -> FinalStats {
        self.cgroup().take().map(Cgroup::finish).unwrap_or_default()
    }

    /// What was used, when nothing is going to use more.
    pub(super) fn last_stats(&self) -> FinalStats {
        self.cgroup().as_ref().map(Cgroup::read_stats).unwrap_or_default()
    }

    /// Gets ready to read the statistics. To be called when the command has ended, while PID 1 takes its leave.
    pub(super) fn prepare_end(&self) {
        if let Some(cgroup) = &*self.cgroup() {
            cgroup.prepare_end();
        }
    }

    /// Removes what a controller that was killed has left behind, the first time in this process that a cgroup counts.
    /// To be called while the command runs, which nobody has to wait for.
    pub(super) fn sweep(&self) {
        static SWEEP: Once = Once::new();
        if self.cgroup().is_some() {
            SWEEP.call_once(|| {
                stale::sweep();
            });
        }
    }

    fn cgroup(&self) -> MutexGuard<'_, Option<Cgroup>> {
        // Nothing is ever half-done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
