//! The network steps: bring up the loopback, perform ready-made netlink batches, hand listeners to the controller.

use super::network_helper::Made;
use super::steps::Tag;
use super::sys::{self, Errno, Fd, Result};
use super::wire::Reader;
use crate::report::Report;
use crate::role::DescriptorRole;

const AF_INET: u32 = 2;
const AF_NETLINK: u32 = 16;
const SOCK_DGRAM: u32 = 2;
const SOCK_RAW: u32 = 3;

/// Performs the steps of an opening.
pub(super) fn make(mut steps: Reader, count: usize, link: i32) -> Made {
    let mut own = false;
    // A socket of the new network serves both questions that are asked of it: to make one takes the kernel longer than either.
    let mut socket: Option<Fd> = None;
    for index in 0..count {
        let step = steps.step().and_then(|(tag, mut fields)| match tag {
            Tag::OwnNetwork => {
                own = true;
                sys::unshare_network()
            }
            Tag::LoopbackUp => any_socket().and_then(|fresh| loopback_up_by(socket.insert(fresh))),
            Tag::Netlink => netlink(&mut fields),
            Tag::Listen => listen(&mut fields, link),
            _ => Err(Errno::EPROTO),
        });
        step.map_err(|errno| (index as u32, errno))?;
    }
    let network = match (own, &socket) {
        (false, _) => None,
        (true, Some(socket)) => Some(network_of(socket)),
        (true, None) => Some(this_network()),
    };
    network.transpose().map_err(|errno| (0, errno))
}

fn any_socket() -> Result<Fd> {
    sys::socket(AF_INET, SOCK_DGRAM, 0)
}

/// A descriptor of the network that this process is in, by way of a socket: /proc is changing meanwhile.
pub(super) fn this_network() -> Result<Fd> {
    network_of(&any_socket()?)
}

fn network_of(socket: &Fd) -> Result<Fd> {
    const SIOCGSKNS: usize = 0x894c;
    sys::ioctl(socket.raw(), SIOCGSKNS, 0).map(|fd| Fd(fd as i32))
}

pub(super) fn loopback_up() -> Result<()> {
    loopback_up_by(&any_socket()?)
}

fn loopback_up_by(socket: &Fd) -> Result<()> {
    const SIOCSIFFLAGS: usize = 0x8914;
    const IFF_UP: u8 = 1;
    // struct ifreq: the name in 16 bytes, then the flags.
    let mut request = [0u8; 40];
    request[..2].copy_from_slice(b"lo");
    request[16] = IFF_UP;
    sys::ioctl_with(socket.raw(), SIOCSIFFLAGS, &request)
}

/// Sends a batch and reads its acknowledgements; the first that holds an error is the step's. What answers to the
/// sequence number 0 is passed over: such a message may fail.
fn netlink(fields: &mut Reader) -> Result<()> {
    const NLMSG_ERROR: u16 = 2;
    const A_TRY: u32 = 0;
    let (protocol, messages, mut expected) = (fields.u32()?, fields.bytes()?, fields.u32()?);
    let socket = sys::socket(AF_NETLINK, SOCK_RAW, protocol)?;
    sys::send(socket.raw(), messages)?;
    let mut buffer = [0u8; 8192];
    while expected > 0 {
        let received = sys::recv(socket.raw(), &mut buffer)?;
        let mut answers = &buffer[..received];
        while answers.len() >= 20 {
            let length = u32::from_ne_bytes([answers[0], answers[1], answers[2], answers[3]]) as usize;
            let kind = u16::from_ne_bytes([answers[4], answers[5]]);
            let sequence = u32::from_ne_bytes([answers[8], answers[9], answers[10], answers[11]]);
            let error = i32::from_ne_bytes([answers[16], answers[17], answers[18], answers[19]]);
            if kind == NLMSG_ERROR && sequence != A_TRY {
                if error != 0 {
                    return Err(Errno(-error));
                }
                expected = expected.saturating_sub(1);
            }
            let next = ((length.max(16) + 3) & !3).min(answers.len());
            answers = &answers[next..];
        }
    }
    Ok(())
}

fn listen(fields: &mut Reader, link: i32) -> Result<()> {
    const SOCK_STREAM: u32 = 1;
    const SOCK_NONBLOCK: u32 = 0o4000;
    let (family, kind, address, options) = (fields.u32()?, fields.u32()?, fields.bytes()?, fields.count()?);
    let socket = sys::socket(family, kind | SOCK_NONBLOCK, 0)?;
    for _ in 0..options {
        sys::setsockopt_u32(&socket, fields.u32()?, fields.u32()?, fields.u32()?)?;
    }
    sys::bind(&socket, address)?;
    if kind == SOCK_STREAM {
        sys::listen(&socket, 1024)?;
    }
    let Some(role @ DescriptorRole::Socket(_)) = DescriptorRole::decode(fields.u32()?) else {
        return Err(Errno::EPROTO);
    };
    let report = Report::Descriptor { role };
    sys::send_with_fd(link, &report.encode(), socket.raw())
}
