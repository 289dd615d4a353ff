//! The internet without this host and the networks around it (`--net public`): on the other side of the cable every address
//! answers, so what a mistake lets through is really reached, and seen there.

mod book;
mod exceptions;
mod there;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kennel_tests::world::{THERE, THERE_V6, World, ip, wire, world};
use kennel_tests::{Ran, kennel, ran_within};

/// Longer than anything here takes; a test that reaches it hangs.
const LONG: Duration = Duration::from_secs(120);

/// Leaves this host's network, and leads every address to the other side.
pub fn enter() {
    kennel_tests::world::stand(there::serve);
    let Some(world) = world() else { return };
    let cable = wire::index(c"here").expect("the cable");
    wire::route(ip("0.0.0.0"), 0, cable, Some(ip(THERE))).expect("a route");
    for (address, prefix) in OWN {
        wire::address(cable, ip(address), *prefix).expect("an address");
    }
    wire::own(ip(ROUTED.0), 24).expect("a route");
    if world.ipv6 {
        wire::route(ip("::"), 0, cable, Some(ip(THERE_V6))).expect("a route");
        wire::own(ip(ROUTED.1), 64).expect("a route");
    }
}

/// Public addresses of this side: the first of a network, another one there, and one by itself.
const OWN: &[(&str, u8)] = &[("5.6.7.7", 24), ("5.6.7.8", 24), ("5.6.8.8", 32)];
/// Networks that only a route makes this side's own.
const ROUTED: (&str, &str) = ("5.6.9.0", "2a01:100::");

/// A server on every address of this side.
struct Here {
    port: u16,
    came: Arc<AtomicUsize>,
}

impl Here {
    fn new(world: &World) -> Here {
        let any: IpAddr = if world.ipv6 { ip("::") } else { ip("0.0.0.0") };
        let listener = TcpListener::bind(SocketAddr::new(any, 0)).expect("a port");
        let here = Here { port: listener.local_addr().expect("bound").port(), came: Arc::default() };
        let came = Arc::clone(&here.came);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                came.fetch_add(usize::from(stream.is_ok()), Ordering::SeqCst);
            }
        });
        here
    }

    /// How many have come to it.
    fn came(&self) -> usize {
        self.came.load(Ordering::SeqCst)
    }
}

/// `kennel run --net public FLAGS -- WORDS`.
fn public(flags: &[&str], words: &[&str]) -> Ran {
    let mut command = kennel(["run", "--no-settings", "--net", "public"]);
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    ran_within(LONG, command.args(flags).arg("--").args(words))
}
