//! The mark below the memory limit at which the kernel starts to reclaim: `memory.high`, at 90 %. cgroup v2
//! only.
//!
//! Above this mark the kernel also slows every task of the cgroup down, the more so the further it is above,
//! to give a watcher time to act. With nobody watching, a program whose memory cannot be reclaimed (there is
//! no swap by default) neither gets on nor gets killed: with a limit of 512 MiB a hog that reaches it within
//! 4 s takes 39 s (6.12). So the mark is set only for a controller that watches it, and lifted as soon as
//! slowing down is all that it would do.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::dir::{Dir, read_from_start};
use super::stats::keyed;

/// A mark at 90 % of a sandbox's memory limit, and the watch on it. See [`Cgroup::watch_pressure`].
///
/// [`Cgroup::watch_pressure`]: super::Cgroup::watch_pressure
#[derive(Debug)]
pub struct Pressure {
    /// `memory.events`, whose pollers the kernel wakes.
    events: OwnedFd,
    stat: OwnedFd,
    mark: OwnedFd,
    /// What lies between the mark and the limit.
    margin: u64,
}

impl Pressure {
    pub(super) fn set(dir: &Dir, limit: u64) -> io::Result<Self> {
        let margin = limit / 10;
        let (events, stat) = (dir.open_to_read("memory.events")?, dir.open_to_read("memory.stat")?);
        let mark = dir.open_to_write("memory.high")?;
        rustix::io::pwrite(&mark, (limit - margin).to_string().as_bytes(), 0)?;
        // Only changes after a read wake a poller.
        read_from_start(events.as_fd())?;
        Ok(Self { events, stat, mark, margin })
    }

    /// To be polled for `POLLPRI`; then [`Pressure::relieve`] is to be called.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Lifts the mark if what the sandbox holds cannot be reclaimed, so that it goes on at full speed, to its
    /// limit if it must. Returns whether the sandbox was at the mark.
    ///
    /// # Errors
    ///
    /// What the system says; the sandbox's limit holds all the same.
    pub fn relieve(&self) -> io::Result<bool> {
        let was_reached =
            keyed(&read_from_start(self.events.as_fd())?, "high").is_some_and(|times| times > 0);
        if was_reached && reclaimable(&read_from_start(self.stat.as_fd())?) < self.margin {
            rustix::io::pwrite(&self.mark, b"max", 0)?;
        }
        Ok(was_reached)
    }
}

/// What the kernel could free without swap: files that are on a disk, and its own caches of names and inodes.
fn reclaimable(stat: &str) -> u64 {
    let value = |key| keyed(stat, key).unwrap_or(0);
    value("active_file").saturating_add(value("inactive_file")).saturating_add(value("slab_reclaimable"))
}

#[cfg(test)]
mod tests {
    use super::reclaimable;

    #[test]
    fn files_in_memory_cannot_be_reclaimed_and_those_on_disk_can() {
        let stat = "anon 900\nfile 500\nshmem 400\ninactive_anon 1300\nactive_file 60\ninactive_file 40\n\
                    slab_reclaimable 7\nslab_unreclaimable 3\n";
        assert_eq!(reclaimable(stat), 107);
        assert_eq!(reclaimable("nonsense"), 0);
    }
}
