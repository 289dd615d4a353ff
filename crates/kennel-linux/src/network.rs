//! What a filtered network needs inside the sandbox, as plain data.
//!
//! This crate knows how to make sockets and send netlink messages in the sandbox's namespace, and how to hand the
//! sockets to the controller; what they are for is the gate's business, which whoever puts the two together brings.

use std::ffi::OsString;
use std::os::fd::OwnedFd;

use kennel_policy::environment::DefaultVariable;

pub use kennel_policy::listeners::SocketRole;

/// A socket to be made inside and handed to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// What the controller serves it as.
    pub role: SocketRole,
    /// Where it listens.
    pub address: std::net::SocketAddr,
    /// TCP, or UDP.
    pub stream: bool,
}

/// A ready-made batch of netlink messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetlinkBatch {
    /// Which netlink family it speaks.
    pub protocol: u32,
    /// The messages.
    pub messages: Vec<u8>,
    /// How many acknowledgements to wait for.
    pub acknowledgements: u32,
}

/// The inside of a filtered network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkPlan {
    /// Sent in this order.
    pub batches: Vec<NetlinkBatch>,
    /// Made after the batches.
    pub listeners: Vec<Listener>,
    /// Variables that lead programs to the doors; the policy's own win over these.
    pub variables: Vec<(OsString, OsString)>,
    /// Variables for commands whose caller has not set them.
    pub defaults: Vec<DefaultVariable>,
    /// What to use where the kernel refuses a batch.
    pub fallback: Option<Box<NetworkPlan>>,
    /// What to use without namespaces.
    pub shared: Option<SharedNetwork>,
}

/// The network of a sandbox that shares the host's: a proxy on the host's loopback, and no other port to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedNetwork {
    /// Where the proxy listens.
    pub port: u16,
    /// Variables that lead programs there.
    pub variables: Vec<(OsString, OsString)>,
}

/// The sockets of a sandbox's network, each with its role, in the order of the plan.
pub type TaggedSockets = Vec<(SocketRole, OwnedFd)>;

impl Listener {
    /// The address as the kernel lays it out.
    #[must_use]
    pub fn raw_address(&self) -> Vec<u8> {
        let mut raw = Vec::with_capacity(28);
        match self.address {
            std::net::SocketAddr::V4(address) => {
                raw.extend_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                raw.extend_from_slice(&address.port().to_be_bytes());
                raw.extend_from_slice(&address.ip().octets());
                raw.extend_from_slice(&[0; 8]);
            }
            std::net::SocketAddr::V6(address) => {
                raw.extend_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
                raw.extend_from_slice(&address.port().to_be_bytes());
                raw.extend_from_slice(&address.flowinfo().to_be_bytes());
                raw.extend_from_slice(&address.ip().octets());
                raw.extend_from_slice(&address.scope_id().to_ne_bytes());
            }
        }
        raw
    }
}

/// Which sources a C library asks for names.
pub const HOSTS: &str = "/etc/hosts";

/// The file that says where the C library looks names up.
pub const SERVICES: &str = "/etc/nsswitch.conf";

/// Whether the host's own [`SERVICES`] say of hosts what a filtered network needs, so that the file can stay: files,
/// then DNS, and no plug-in that asks a daemon.
#[must_use]
pub fn asks_only_dns(path: &std::path::Path) -> bool {
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    // A real one has less than a kilobyte.
    let mut text = String::new();
    // In a root that a stranger made it may be a pipe, which would be waited for.
    let mut options = std::fs::OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY);
    let is_file = |file: &std::fs::File| file.metadata().is_ok_and(|found| found.is_file());
    let Some(file) = options.open(path).ok().filter(is_file) else { return false };
    let read = file.take(4096).read_to_string(&mut text);
    read.is_ok_and(|count| count < 4096) && hosts_are_files_and_dns(&text)
}

fn hosts_are_files_and_dns(text: &str) -> bool {
    let mut lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("hosts:"));
    let first = lines.next().map(|line| line.split('#').next().unwrap_or_default());
    let words: Vec<&str> = first.unwrap_or_default().split_whitespace().collect();
    words == ["files", "dns"] && lines.next().is_none()
}

/// /etc/resolv.conf, /etc/hosts and /etc/nsswitch.conf of a filtered network: names are asked of the gate, whatever
/// the host uses.
pub const FILES: &[(&str, &str)] = &[
    ("/etc/resolv.conf", "nameserver 127.0.0.1\noptions edns0 timeout:2 attempts:2\n"),
    (HOSTS, "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"),
    (
        SERVICES,
        "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\n\
         services: files\nethers: files\nrpc: files\n",
    ),
];

#[cfg(test)]
mod tests {
    use super::hosts_are_files_and_dns;

    #[test]
    fn only_files_and_then_dns_can_stay() {
        assert!(hosts_are_files_and_dns("passwd: files systemd\nhosts:\t files  dns # plain\n"));
        for other in [
            "",
            "hosts: dns files",
            "hosts: files",
            "hosts: files mymachines dns",
            "hosts: files resolve [!UNAVAIL=return] dns",
            "hosts: files dns\nhosts: resolve",
            "# hosts: files dns",
        ] {
            assert!(!hosts_are_files_and_dns(other), "{other}");
        }
    }
}
