//! Carrying bytes between two sockets.
//!
//! A connection that is idle holds no buffer: one is leased when there is something to read and given back when it
//! has been written. A client that stops reading keeps its lease, so only few leases are large; the more are out, the
//! smaller the next ones are. That bounds the gate's memory by the number of connections times [`SMALL`], and some.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::within;
use crate::metered::MeteredStream;
use crate::sockets;

/// Large enough that the cost of waking up is small beside that of copying: on two cores, 64 KiB kept half of what a
/// loopback connection carries without a gate, 256 KiB 58 %, 1 MiB 67 %, 2 MiB 71 %; `splice` through a pipe of 1 MiB
/// was no faster than 256 KiB.
const LARGE: usize = 2 << 20;
/// When several are out: a large one here and there would be a head start for its connection.
const MEDIUM: usize = 128 << 10;
const SMALL: usize = 16 << 10;
/// The most leases at a time that are large, and medium or large.
const MAX_LARGE: usize = 4;
const MAX_MEDIUM: usize = 64;
/// Large buffers that are kept for the next one; the rest goes back to the system.
const KEPT: usize = 1;
/// After this many bytes other connections get their turn.
const TURN: usize = 256 << 10;

#[derive(Default)]
struct Pool {
    kept: Vec<Box<[u8]>>,
    /// How many leases there are.
    out: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::new(Pool::default());
}

/// A buffer for as long as there is something in it.
pub(crate) struct Lease(Box<[u8]>);

impl Lease {
    pub(crate) fn take() -> Self {
        POOL.with_borrow_mut(|pool| {
            pool.out += 1;
            Lease(match pool.out {
                ..=MAX_LARGE => pool.kept.pop().unwrap_or_else(|| vec![0; LARGE].into()),
                out if out <= MAX_MEDIUM => vec![0; MEDIUM].into(),
                _ => vec![0; SMALL].into(),
            })
        })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.0);
        POOL.with_borrow_mut(|pool| {
            pool.out -= 1;
            if buffer.len() == LARGE && pool.kept.len() < KEPT {
                pool.kept.push(buffer);
            }
        });
    }
}

impl Deref for Lease {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// A socket with what was read from it too early.
pub(crate) struct Wire {
    pub(crate) stream: MeteredStream,
    pub(crate) inbox: Vec<u8>,
}

impl Wire {
    pub(crate) fn new(stream: MeteredStream) -> Self {
        Wire { stream, inbox: Vec::new() }
    }

    /// Reads some more; 0 is the end.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        fill(&self.stream, &mut self.inbox).await
    }
}

/// Reads some more into an inbox; 0 is the end. A client that was just accepted has often spoken already.
pub(crate) async fn fill(stream: &MeteredStream, inbox: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        match fill_at_once(stream, inbox) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.readable().await?,
            done => return done,
        }
    }
}

/// By itself, so that a client that has nothing to say holds no buffer meanwhile.
fn fill_at_once(stream: &MeteredStream, inbox: &mut Vec<u8>) -> io::Result<usize> {
    let mut some = [0; 8 << 10];
    let count = stream.receive(&mut some)?;
    inbox.extend_from_slice(&some[..count]);
    Ok(count)
}

/// Reads into a lease when there is something to read, and not before; 0 is the end.
pub(crate) async fn read_leased(stream: &MeteredStream, most: u64) -> io::Result<(Lease, usize)> {
    loop {
        stream.readable().await?;
        let mut lease = Lease::take();
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(lease.len());
        match stream.try_read(&mut lease[..most]) {
            Ok(count) => return Ok((lease, count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes everything. A peer that takes nothing for `stall` is given up.
pub(crate) async fn send(stream: &MeteredStream, mut bytes: &[u8], stall: Duration) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.send(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream.writable(stall).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes the parts one behind the other, in one call where the socket takes it.
pub(crate) async fn send_parts(stream: &MeteredStream, parts: [&[u8]; 3], stall: Duration) -> io::Result<()> {
    let slices = parts.map(io::IoSlice::new);
    let mut sent = match stream.send_parts(&slices) {
        Ok(count) => count,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(error) => return Err(error),
    };
    for part in parts {
        let skip = sent.min(part.len());
        sent -= skip;
        send(stream, &part[skip..], stall).await?;
    }
    Ok(())
}

/// How long a relay bears with silence.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// For a peer that does not read.
    pub(crate) stall: Duration,
    /// For both, once one of them has said that it will send nothing more.
    pub(crate) half_closed: Duration,
}

/// Counts the bytes of a task and lets others run when it had its turn.
#[derive(Default)]
pub(crate) struct Turn(usize);

impl Turn {
    pub(crate) async fn took(&mut self, count: usize) {
        self.0 += count;
        if self.0 >= TURN {
            self.0 = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// When a pair of sockets last carried something.
pub(crate) struct Activity(Cell<Instant>);

impl Activity {
    pub(crate) fn new() -> Self {
        Activity(Cell::new(Instant::now()))
    }

    /// Carries until `from` ends, and says so to `to`.
    pub(crate) async fn pump(
        &self,
        from: &MeteredStream,
        to: &MeteredStream,
        stall: Duration,
    ) -> io::Result<()> {
        let mut turn = Turn::default();
        loop {
            let (lease, count) = read_leased(from, u64::MAX).await?;
            if count == 0 {
                sockets::finish(to);
                return Ok(());
            }
            send(to, &lease[..count], stall).await?;
            drop(lease);
            self.0.set(Instant::now());
            turn.took(count).await;
        }
    }

    /// Drives the two ways of a pair of sockets until both have ended.
    pub(crate) async fn until_both_end(
        &self,
        up: impl Future<Output = io::Result<()>>,
        down: impl Future<Output = io::Result<()>>,
        half_closed: Duration,
    ) -> io::Result<()> {
        tokio::pin!(up, down);
        let (mut up_done, mut down_done) = (false, false);
        while !(up_done && down_done) {
            tokio::select! {
                result = &mut up, if !up_done => {
                    result?;
                    up_done = true;
                }
                result = &mut down, if !down_done => {
                    result?;
                    down_done = true;
                }
                () = tokio::time::sleep_until(self.0.get() + half_closed), if up_done || down_done => {
                    if self.0.get().elapsed() >= half_closed {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
            }
        }
        after_others().await;
        Ok(())
    }
}

/// Carries bytes both ways until both sides have ended. When one side breaks, both are reset: an end of file would
/// make a cut message look whole.
pub(crate) async fn both_ways(a: &MeteredStream, b: &MeteredStream, patience: Patience) {
    let activity = Activity::new();
    let (up, down) = (activity.pump(a, b, patience.stall), activity.pump(b, a, patience.stall));
    if activity.until_both_end(up, down, patience.half_closed).await.is_err() {
        sockets::reset_on_close(a);
        sockets::reset_on_close(b);
    }
}

/// Sends the last words to a client and closes in a way that lets it read them: closing a socket that still has
/// unread input is a reset, which can overtake what was sent.
pub(crate) async fn farewell(client: &MeteredStream, words: &[u8], stall: Duration) {
    const LINGER: Duration = Duration::from_secs(2);
    if send(client, words, stall.min(LINGER)).await.is_err() {
        return;
    }
    sockets::finish(client);
    let drain = async {
        let mut left = 1 << 20;
        while left > 0 {
            let (_, count) = read_leased(client, left).await?;
            if count == 0 {
                break;
            }
            left -= count as u64;
        }
        Ok(())
    };
    let _ = within(LINGER, drain).await;
    after_others().await;
}

/// Lets every task run that has something to do. Closing takes as long as connecting, and nobody waits for it: a client
/// that has just closed a connection may already wait for its next one.
async fn after_others() {
    tokio::task::yield_now().await;
}
