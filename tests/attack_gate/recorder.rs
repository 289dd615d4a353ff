//! Stands between the gate and the servers, so that what happened on each connection is known for certain: which bytes were
//! sent to a server, and whether it answered as the other host. A client inside waits a moment only, and a server on a busy
//! machine may take longer; here every answer is heard to its end. None of the servers speaks first, so a server is connected
//! to when there is something for it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::attack_gate::servers::{CANARY, Place};

/// How long a server may take for its answer when whoever asked has ended.
const HEARD_OUT: Duration = Duration::from_secs(3);
/// How long it may take to go on with its answer when whoever asked broke off. Some serve one client at a time.
const GOES_ON: Duration = Duration::from_millis(50);
/// How long somebody may say nothing at all. Real servers close such connections too.
const SILENT: Duration = Duration::from_secs(3);
/// How long a server that is behind may take to accept.
const ACCEPTED: Duration = Duration::from_secs(20);
/// How often a thread that waits for a server looks whether it still has to.
const LOOK: Duration = Duration::from_millis(25);
/// What is kept of one connection, and of all of them.
const MAX_OF_ONE: usize = 16 << 10;
const MAX_OF_ALL: usize = 64 << 20;
/// The threads do little.
const STACK: usize = 128 << 10;

/// What was sent to a server.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The port that was asked for.
    pub port: u16,
    /// The beginning of it.
    pub bytes: Vec<u8>,
}

#[derive(Default)]
struct Kept {
    recent: VecDeque<Sent>,
    size: usize,
    /// What was answered as the other host.
    led: Vec<Sent>,
    /// How many had something to say to a server, and how many of them found none.
    spoke: usize,
    undelivered: usize,
}

#[derive(Default)]
struct Shared {
    kept: Mutex<Kept>,
    open: AtomicUsize,
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens in the place of each server.
pub struct Recorder(Arc<Shared>);

impl Recorder {
    /// Listens on each place's port, `listens` further up, for the server that is `serves` further up.
    pub fn start(places: &[Place], listens: u16, serves: u16) -> io::Result<Recorder> {
        let shared = Arc::new(Shared::default());
        for place in places {
            let port = place.port;
            let listener = TcpListener::bind(("127.0.0.1", port + listens))?;
            let server: SocketAddr = ([127, 0, 0, 1], port + serves).into();
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                for client in listener.incoming().flatten() {
                    let own = Arc::clone(&shared);
                    own.open.fetch_add(1, Ordering::SeqCst);
                    let carry = move || {
                        let mut sent = Sent { port, bytes: Vec::new() };
                        let led = carry(&client, server, &mut sent.bytes);
                        keep(&own, sent, &led);
                        own.open.fetch_sub(1, Ordering::SeqCst);
                    };
                    if std::thread::Builder::new().stack_size(STACK).spawn(carry).is_err() {
                        shared.open.fetch_sub(1, Ordering::SeqCst);
                    }
                }
            });
        }
        Ok(Recorder(shared))
    }

    /// What was answered as the other host so far.
    pub fn led(&self) -> Vec<Sent> {
        self.0.kept().led.clone()
    }

    /// How many connections had something for a server, and how many of these the server did not take.
    pub fn delivered(&self) -> (usize, usize) {
        let kept = self.0.kept();
        (kept.spoke, kept.undelivered)
    }

    /// The connections that were sent this, of those that are remembered.
    pub fn sent(&self, text: &str) -> Vec<Sent> {
        let is_it = |sent: &&Sent| contains(&sent.bytes.to_ascii_lowercase(), text.as_bytes());
        self.0.kept().recent.iter().filter(is_it).cloned().collect()
    }

    /// Waits until no connection is under way. Says whether that came to pass.
    pub fn rests(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while self.0.open.load(Ordering::SeqCst) > 0 {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn keep(shared: &Shared, sent: Sent, led: &io::Result<bool>) {
    let mut kept = shared.kept();
    if let Ok(true) = led {
        kept.led.push(sent.clone());
    }
    if !sent.bytes.is_empty() {
        kept.spoke += 1;
        kept.undelivered += usize::from(led.is_err());
        kept.size += sent.bytes.len();
        kept.recent.push_back(sent);
    }
    while kept.size > MAX_OF_ALL
        && let Some(oldest) = kept.recent.pop_front()
    {
        kept.size -= oldest.bytes.len();
    }
}

/// How the one who asks has ended.
#[derive(Default)]
struct Ended {
    well: AtomicBool,
    broken: AtomicBool,
}

/// Carries a connection both ways. Says whether the server answered as the other host; an error if there is none.
fn carry(mut client: &TcpStream, server: SocketAddr, sent: &mut Vec<u8>) -> io::Result<bool> {
    let mut bytes = [0; 16 << 10];
    client.set_nodelay(true)?;
    client.set_read_timeout(Some(SILENT))?;
    let Ok(first @ 1..) = client.read(&mut bytes) else { return Ok(false) };
    client.set_read_timeout(None)?;
    sent.extend_from_slice(&bytes[..first]);
    let server = TcpStream::connect_timeout(&server, ACCEPTED)?;
    server.set_nodelay(true)?;
    server.set_read_timeout(Some(LOOK))?;
    let _ = (&server).write_all(&bytes[..first]);
    let ended = Ended::default();
    std::thread::scope(|scope| {
        let down = || answer(client, &server, &ended);
        let down = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, down)?;
        loop {
            match client.read(&mut bytes) {
                Ok(0) => {
                    ended.well.store(true, Ordering::SeqCst);
                    let _ = server.shutdown(Shutdown::Write);
                    break;
                }
                Ok(count) => {
                    let room = MAX_OF_ONE.saturating_sub(sent.len());
                    sent.extend_from_slice(&bytes[..count.min(room)]);
                    // A server that does not listen any more may still answer.
                    let _ = (&server).write_all(&bytes[..count]);
                }
                // The gate resets what it breaks off: the server must not take that for an end.
                Err(_) => {
                    ended.broken.store(true, Ordering::SeqCst);
                    break;
                }
            }
        }
        Ok(down.join().unwrap_or(false))
    })
}

/// Hands on what the server says, and listens on when nobody wants it any more.
fn answer(client: &TcpStream, mut server: &TcpStream, ended: &Ended) -> bool {
    let (mut bytes, mut tail, mut led) = ([0; 16 << 10], Vec::new(), false);
    let (mut deadline, mut spoke) = (None, None);
    loop {
        match server.read(&mut bytes) {
            Ok(0) => {
                let _ = client.shutdown(Shutdown::Write);
                break;
            }
            Ok(count) => {
                tail.extend_from_slice(&bytes[..count]);
                led |= contains(&tail, CANARY.as_bytes());
                tail.drain(..tail.len().saturating_sub(CANARY.len() - 1));
                let _ = (&*client).write_all(&bytes[..count]);
                spoke = Some(Instant::now());
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => {
                reset(client);
                break;
            }
        }
        let broken = ended.broken.load(Ordering::SeqCst);
        if broken || ended.well.load(Ordering::SeqCst) {
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + HEARD_OUT);
            let done = broken && spoke.is_some_and(|spoke| spoke.elapsed() > GOES_ON);
            if done || Instant::now() > deadline {
                break;
            }
        }
    }
    if ended.broken.load(Ordering::SeqCst) {
        reset(server);
    }
    led
}

/// Makes closing this connection a reset, and wakes up whoever reads from it.
fn reset(stream: &TcpStream) {
    use std::os::fd::AsRawFd;
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the option takes a struct of this type and size, which it copies.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            std::ptr::from_ref(&linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        );
    }
    let _ = stream.shutdown(Shutdown::Read);
}
