//! Links, addresses and routes of the test's own namespaces, by rtnetlink: the suite needs no `ip` program.

use std::ffi::CStr;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
const IFA_F_NODAD: u32 = 2;
const VETH_INFO_PEER: u16 = 1;

/// A request under construction.
struct Request(Vec<u8>);

impl Request {
    fn new(kind: u16, flags: u16, body: &[u8]) -> Request {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16 | flags).to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(body);
        Request(bytes)
    }

    fn with(mut self, kind: u16, value: &[u8]) -> Request {
        self.0.extend_from_slice(&attribute(kind, value));
        self
    }

    fn send(mut self) -> io::Result<()> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        let mut answer = [0u8; 4096];
        // SAFETY: plain calls; the buffers are valid for their lengths, and the descriptor is owned at once.
        let received = unsafe {
            let fd = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            let socket = OwnedFd::from_raw_fd(fd);
            if libc::send(socket.as_raw_fd(), self.0.as_ptr().cast(), self.0.len(), 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
        };
        if received < 20 {
            return Err(io::Error::last_os_error());
        }
        match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// `struct ifinfomsg`.
fn link(index: u32, flags: u32) -> [u8; 16] {
    let mut body = [0; 16];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body[8..12].copy_from_slice(&flags.to_ne_bytes());
    body[12..16].copy_from_slice(&flags.to_ne_bytes());
    body
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

/// A cable: one end here, the other in the network namespace of a process.
pub fn cable(here: &CStr, there: &CStr, process: i32) -> io::Result<()> {
    let mut peer = link(0, 0).to_vec();
    peer.extend(attribute(libc::IFLA_IFNAME, there.to_bytes_with_nul()));
    peer.extend(attribute(libc::IFLA_NET_NS_PID, &process.to_ne_bytes()));
    let mut info = attribute(libc::IFLA_INFO_KIND, b"veth");
    info.extend(attribute(libc::IFLA_INFO_DATA, &attribute(VETH_INFO_PEER, &peer)));
    Request::new(libc::RTM_NEWLINK, CREATE, &link(0, 0))
        .with(libc::IFLA_IFNAME, here.to_bytes_with_nul())
        .with(libc::IFLA_LINKINFO, &info)
        .send()
}

/// The number of an interface.
pub fn index(name: &CStr) -> io::Result<u32> {
    // SAFETY: reads a string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Brings an interface up.
pub fn up(index: u32) -> io::Result<()> {
    Request::new(libc::RTM_NEWLINK, 0, &link(index, libc::IFF_UP as u32)).send()
}

/// Gives an interface an address, usable at once.
pub fn address(index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
    // struct ifaddrmsg
    let mut body = vec![family(address), prefix, 0, 0];
    body.extend_from_slice(&index.to_ne_bytes());
    Request::new(libc::RTM_NEWADDR, CREATE, &body)
        .with(libc::IFA_LOCAL, &octets(address))
        .with(libc::IFA_ADDRESS, &octets(address))
        .with(libc::IFA_FLAGS, &IFA_F_NODAD.to_ne_bytes())
        .send()
}

/// Leads an address range to an interface, perhaps by a gateway.
pub fn route(range: IpAddr, prefix: u8, index: u32, gateway: Option<IpAddr>) -> io::Result<()> {
    let scope = if gateway.is_some() || range.is_ipv6() { 0 } else { libc::RT_SCOPE_LINK };
    new_route(range, prefix, index, gateway, (scope, libc::RTN_UNICAST))
}

/// Makes all addresses of a range this namespace's own, but for those that a narrower route leads elsewhere.
pub fn own(range: IpAddr, prefix: u8) -> io::Result<()> {
    let scope = if range.is_ipv6() { 0 } else { libc::RT_SCOPE_HOST };
    new_route(range, prefix, index(c"lo")?, None, (scope, libc::RTN_LOCAL))
}

fn new_route(
    range: IpAddr,
    prefix: u8,
    index: u32,
    gateway: Option<IpAddr>,
    (scope, kind): (u8, u8),
) -> io::Result<()> {
    const BOOT: u8 = 3;
    // struct rtmsg
    let mut body = vec![family(range), prefix, 0, 0, libc::RT_TABLE_MAIN, BOOT, scope, kind];
    body.extend_from_slice(&[0; 4]);
    let mut request = Request::new(libc::RTM_NEWROUTE, CREATE, &body)
        .with(libc::RTA_DST, &octets(range))
        .with(libc::RTA_OIF, &index.to_ne_bytes());
    if let Some(gateway) = gateway {
        request = request.with(libc::RTA_GATEWAY, &octets(gateway));
    }
    request.send()
}
