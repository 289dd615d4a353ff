//! How long something may take, told in a way that costs little.
//!
//! The event loop sleeps until its next deadline. One that is set to come before it makes tokio wake the loop up, also
//! when it is the loop's own thread that sets it: a write to its eventfd, and a turn for nothing. Every connection sets
//! some deadlines, and hardly any of them comes to pass. So while connections come in, a deadline stands that is nearer
//! than theirs: the *beat*. It ends with the last of them, so that a gate that has nothing to do sleeps.

use std::cell::Cell;
use std::io;
use std::time::Duration;

/// Shorter than the time that anything has which is not a matter of milliseconds.
const BEAT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Beat {
    Stopped,
    /// Nobody has asked for it since it last beat.
    Fading,
    Wanted,
}

thread_local! {
    static STATE: Cell<Beat> = const { Cell::new(Beat::Stopped) };
}

/// Deadlines are about to be set. Only for tasks of the gate.
pub(crate) fn expect_deadlines() {
    if STATE.replace(Beat::Wanted) == Beat::Stopped {
        tokio::task::spawn_local(async {
            while STATE.replace(Beat::Fading) == Beat::Wanted {
                tokio::time::sleep(BEAT).await;
            }
            STATE.set(Beat::Stopped);
        });
    }
}

/// A future that has this long.
pub(crate) async fn within<T>(time: Duration, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(time, future).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
