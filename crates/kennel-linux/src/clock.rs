//! Times as the kernel takes them.

use std::time::Duration;

use rustix::event::Timespec;

/// A time span for poll.
pub fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: i64::from(time.subsec_nanos()) as _ }
}
