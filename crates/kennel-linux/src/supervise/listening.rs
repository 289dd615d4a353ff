//! Servers inside that nobody outside can reach: the kernel's own list of sockets, looked at now and then.

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

/// Who is told.
pub type Told = Box<dyn FnMut(u16) + Send>;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// As much of a list is read, and as many ports are told.
const MAX_BYTES: u64 = 256 << 10;
const MAX_PORTS: usize = 8;
/// Ports from here on are those that the kernel chooses, and nobody was meant to know them.
const CHOSEN: u16 = 32768;
/// A socket that listens, as the list has it.
const LISTENS: &str = "0A";

/// Looks for ports that something inside listens on, and tells each once.
pub struct Listening {
    told: Told,
    /// Those that were there at the start, which are the gate's, and those that have been told.
    known: Vec<u16>,
    left: usize,
    every: Duration,
    next: Instant,
}

impl Listening {
    /// Tells those that listen in the network of process `pid` from now on.
    pub fn new(told: Told, pid: i32) -> Listening {
        Listening { told, known: ports(pid), left: MAX_PORTS, every: FIRST, next: Instant::now() + FIRST }
    }

    /// When it looks again.
    pub(super) fn next(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next)
    }

    /// Looks, if it is time to: less and less often.
    pub(super) fn look(&mut self, pid: i32) {
        let now = Instant::now();
        if self.left == 0 || now < self.next {
            return;
        }
        self.every = (self.every * 2).min(LONGEST);
        self.next = now + self.every;
        for port in ports(pid) {
            if self.left > 0 && !self.known.contains(&port) {
                self.known.push(port);
                self.left -= 1;
                (self.told)(port);
            }
        }
    }
}

/// The ports that something listens on in the network of a process.
fn ports(pid: i32) -> Vec<u16> {
    let mut ports = Vec::new();
    for list in ["tcp", "tcp6"] {
        let mut text = String::new();
        let read = File::open(format!("/proc/{pid}/net/{list}"))
            .and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
        if read.is_ok() {
            ports.extend(text.lines().filter_map(listener).filter(|port| *port < CHOSEN));
        }
    }
    ports.dedup();
    ports
}

/// The port of a line, if it is that of a socket that listens.
fn listener(line: &str) -> Option<u16> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (_, port) = words.next()?.rsplit_once(':')?;
    (words.nth(1)? == LISTENS).then(|| u16::from_str_radix(port, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_listens_has_a_port_to_tell() {
        let line = |state| {
            format!(
                "   0: 0100007F:0BB8 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 1 1"
            )
        };
        assert_eq!(listener(&line("0A")), Some(3000));
        assert_eq!(listener(&line("01")), None);
        assert_eq!(listener("  sl  local_address rem_address   st tx_queue rx_queue"), None);
        assert_eq!(listener(""), None);
        let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(ports(own).contains(&port), port < CHOSEN);
    }
}
