//! Which program inside a sandbox holds a socket.
//!
//! /proc says it in two parts: the list of a namespace's sockets has the inode behind an address, and a process that
//! holds that socket has a link to the inode among its descriptors. All of it may change while it is read, and a process
//! may hide its descriptors (one that is not dumpable does), so the answer may always be that nobody knows. What is
//! looked through is bounded, since what is inside decides how much there is of it.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// A list of sockets has some 150 bytes for each.
const MAX_LIST: u64 = 4 << 20;
const MAX_PROCESSES: usize = 1024;
const MAX_DESCRIPTORS: usize = 16 << 10;

/// A program that holds a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its name, as `/proc/PID/comm` has it.
    pub name: String,
    /// Its pid in the innermost namespace that it lives in.
    pub pid: i32,
}

/// Who holds the socket of `protocol` (`tcp`, `udp`) with this address, among the descendants of `init`.
#[must_use]
pub fn holder(init: i32, protocol: &str, address: SocketAddr) -> Option<Holder> {
    let proc = Path::new("/proc").join(init.to_string());
    let lists = [proc.join("net").join(protocol), proc.join("net").join(format!("{protocol}6"))];
    let inode = lists.iter().find_map(|list| inode(&text(list)?, address))?;
    let wanted = format!("socket:[{inode}]");
    let mut waiting = VecDeque::from([init]);
    let (mut processes, mut descriptors) = (MAX_PROCESSES, MAX_DESCRIPTORS);
    while let Some(pid) = waiting.pop_front() {
        processes = processes.checked_sub(1)?;
        let own = Path::new("/proc").join(pid.to_string());
        for descriptor in fs::read_dir(own.join("fd")).into_iter().flatten().flatten() {
            descriptors = descriptors.checked_sub(1)?;
            if fs::read_link(descriptor.path()).is_ok_and(|link| link.as_os_str() == wanted.as_str()) {
                return describe(&own);
            }
        }
        for thread in fs::read_dir(own.join("task")).into_iter().flatten().flatten() {
            let children = text(&thread.path().join("children")).unwrap_or_default();
            waiting.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
    }
    None
}

fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_LIST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn describe(process: &Path) -> Option<Holder> {
    let name = text(&process.join("comm"))?.trim_end_matches('\n').to_owned();
    let status = text(&process.join("status"))?;
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    Some(Holder { name, pid: pids.split_ascii_whitespace().last()?.parse().ok()? })
}

/// The inode of the socket that has this local address, or its port at every address: sockets that only send packets
/// have no other.
fn inode(list: &str, wanted: SocketAddr) -> Option<u64> {
    let of_line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let local = address(words.nth(1)?)?;
        let inode: u64 = words.nth(7)?.parse().ok()?;
        let fits = local.port() == wanted.port()
            && (local.ip() == wanted.ip().to_canonical() || local.ip().is_unspecified());
        // A connection that nobody holds any more has none.
        (fits && inode != 0).then_some(inode)
    };
    list.lines().skip(1).find_map(of_line)
}

/// `0100007F:0C38`: words of four bytes in the machine's order, and a port as it is spoken.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut octets = [0; 16];
            for (place, part) in octets.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(place * 8)?);
            }
            Ipv6Addr::from(octets).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    #[cfg(target_endian = "little")]
    fn addresses_are_read_as_the_kernel_writes_them() {
        for (text, expected) in [
            ("0100007F:0C38", "127.0.0.1:3128"),
            ("0000000000000000FFFF00000100007F:0035", "127.0.0.1:53"),
            ("00000000000000000000000001000000:0C39", "[::1]:3129"),
            ("6E656BFD6C00656E0000000001000000:0050", "[fd6b:656e:6e65:6c::1]:80"),
        ] {
            assert_eq!(address(text), expected.parse().ok(), "{text}");
        }
        for text in ["", ":", "0100007F", "0100007F:G", "é00007F:0C38", "0100007:0C38"] {
            assert_eq!(address(text), None, "{text}");
        }
    }

    #[test]
    fn this_process_is_found_by_its_sockets() {
        let own = std::process::id().cast_signed();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let packets = UdpSocket::bind("0.0.0.0:0").unwrap();
        let place = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), packets.local_addr().unwrap().port());
        let found = [
            holder(own, "tcp", client.local_addr().unwrap()),
            holder(own, "udp", place),
            holder(own, "tcp", "192.0.2.1:1".parse().unwrap()),
        ];
        let name = fs::read_to_string("/proc/self/comm").unwrap().trim_end().to_owned();
        let expected = Some(Holder { name, pid: own });
        assert_eq!(found, [expected.clone(), expected, None]);
    }
}
