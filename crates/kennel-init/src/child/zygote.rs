//! The zygote: this program in a third role. It clones inits on request, for a controller that is large, has threads, or starts
//! many sandboxes.
//!
//! It has one thread, no heap and nothing of the controller's memory, so a clone of it costs the same whatever the controller
//! is, and the clone goes on as PID 1 without an exec. What it clones is the controller's child (CLONE_PARENT), not its own:
//! the controller waits for its sandboxes as if it had made them itself, and they outlive the zygote.
//!
//! The protocol is one message and one answer, of fixed length. Descriptors travel with them. The end of the socket is the
//! end of the zygote.
//!
//! A zygote that is asked for networks (see `networks`) lives in a user namespace of its own from then on, and what it
//! clones in namespaces below that.

mod networks;

use super::clone::{clone_copy, flag};
use super::sys::{self, Errno, Fd, MAX_FDS, Result};
use super::{InheritedMemory, run as run_init, users};
use crate::report::{ID_MAPS, Report};
use networks::Networks;

/// How long each of the two maps of ids may be.
pub const MAP_LENGTH: usize = 128;
/// How long a request is.
pub const REQUEST_LENGTH: usize = 16 + 2 * MAP_LENGTH;
/// How long an answer is.
pub const ANSWER_LENGTH: usize = 12;

const CLONE: u8 = 1;
const GIVE_BACK: u8 = 2;

/// A message that has no answer: the network with this number is not needed any more. `untouched` says that nobody had a socket
/// in it.
#[must_use]
pub fn give_back(network: u32, untouched: bool) -> [u8; REQUEST_LENGTH] {
    let mut bytes = [0; REQUEST_LENGTH];
    bytes[8] = GIVE_BACK;
    bytes[9] = u8::from(untouched);
    bytes[12..16].copy_from_slice(&network.to_le_bytes());
    bytes
}

/// A request: an init for a new sandbox. With it travel init's end of its link, its three standard streams and, if it is to
/// be born in one, its cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// clone3's namespace flags.
    pub namespaces: u64,
    /// Whether a cgroup comes with it.
    pub cgroup: bool,
    /// Whether it is to be born in a network that has a loopback and nothing else.
    pub network: bool,
    /// What to write to `uid_map`; blanks at the end are passed over. All of it blank: nothing is written.
    pub user: [u8; MAP_LENGTH],
    /// What to write to `gid_map`.
    pub group: [u8; MAP_LENGTH],
}

impl Request {
    /// As it travels.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_LENGTH] {
        let mut bytes = [0; REQUEST_LENGTH];
        bytes[..8].copy_from_slice(&self.namespaces.to_le_bytes());
        bytes[8] = CLONE;
        bytes[9] = u8::from(self.cgroup);
        bytes[10] = u8::from(self.network);
        bytes[16..16 + MAP_LENGTH].copy_from_slice(&self.user);
        bytes[16 + MAP_LENGTH..].copy_from_slice(&self.group);
        bytes
    }

    fn decode(bytes: &[u8; REQUEST_LENGTH]) -> Request {
        let mut request = Request {
            namespaces: 0,
            cgroup: bytes[9] != 0,
            network: bytes[10] != 0,
            user: [b' '; MAP_LENGTH],
            group: [b' '; MAP_LENGTH],
        };
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[..8]);
        request.namespaces = u64::from_le_bytes(number);
        request.user.copy_from_slice(&bytes[16..16 + MAP_LENGTH]);
        request.group.copy_from_slice(&bytes[16 + MAP_LENGTH..]);
        request
    }
}

/// The answer. With the first travels the descriptor of the process, if it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has been cloned.
    Cloned {
        /// Its number.
        pid: i32,
        /// That of its network, to be given back when it has ended; 0 for none.
        network: u32,
    },
    /// The kernel refused.
    Refused(i32),
}

impl Answer {
    /// As it travels.
    #[must_use]
    pub fn encode(self) -> [u8; ANSWER_LENGTH] {
        let (kind, number, network) = match self {
            Answer::Cloned { pid, network } => (1u32, pid, network),
            Answer::Refused(errno) => (2, errno, 0),
        };
        let mut bytes = [0; ANSWER_LENGTH];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..].copy_from_slice(&network.to_le_bytes());
        bytes
    }

    /// From what arrived; `None` if it is not an answer.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Answer> {
        let bytes: &[u8; ANSWER_LENGTH] = bytes.try_into().ok()?;
        let [k0, k1, k2, k3, n0, n1, n2, n3, w0, w1, w2, w3] = *bytes;
        let number = i32::from_le_bytes([n0, n1, n2, n3]);
        let network = u32::from_le_bytes([w0, w1, w2, w3]);
        match u32::from_le_bytes([k0, k1, k2, k3]) {
            1 => Some(Answer::Cloned { pid: number, network }),
            2 => Some(Answer::Refused(number)),
            _ => None,
        }
    }
}

/// Serves requests until the controller closes its end of `link`.
pub fn run(link: i32, this: InheritedMemory) -> ! {
    let _ = sys::set_signal_mask(u64::MAX);
    // What the caller had open without thinking of it would be open in every sandbox's init.
    let _ = super::command::close_between(3, (link - 1).cast_unsigned());
    let _ = super::command::close_between((link + 1).cast_unsigned(), u32::MAX);
    let _ = sys::chdir(c"/");
    let mut networks = Networks::none();
    loop {
        let mut message = [0; REQUEST_LENGTH];
        match sys::recv_with_fds(link, &mut message) {
            Ok((REQUEST_LENGTH, _)) if message[8] == GIVE_BACK => {
                let number = u32::from_le_bytes([message[12], message[13], message[14], message[15]]);
                networks.take_back(number, message[9] != 0);
            }
            Ok((REQUEST_LENGTH, fds)) if message[8] == CLONE => {
                let cloned = serve(link, &Request::decode(&message), fds, &mut networks, this);
                answer(link, cloned);
            }
            Ok((0, _)) => sys::exit(0),
            Ok(_) => answer(link, Err(Errno::EPROTO)),
            Err(Errno::EINTR) => {}
            Err(_) => sys::exit(1),
        }
    }
}

/// Clones an init. Returns its number, the descriptor that refers to it, and the number of its network.
fn serve(
    link: i32,
    request: &Request,
    fds: [Option<Fd>; MAX_FDS],
    networks: &mut Networks,
    this: InheritedMemory,
) -> Result<(i32, Fd, u32)> {
    let [Some(init_link), Some(input), Some(output), Some(errors), cgroup, ..] = fds else {
        return Err(Errno::EPROTO);
    };
    let network = if request.network { Some(networks.enter_one()?) } else { None };
    let cgroup = cgroup.filter(|_| request.cgroup);
    let streams = [input.raw(), output.raw(), errors.raw()];
    match clone_copy(request.namespaces | flag::PARENT, cgroup.as_ref().map(Fd::raw), &this)? {
        None => become_init(link, init_link.raw(), streams, request, this),
        Some((pid, pidfd)) => {
            let network = network.map_or(0, |network| networks.lend(network, &pidfd));
            Ok((pid, pidfd, network))
        }
    }
}

/// Where the kernel passes on no descriptor, because too many of the user's are on their way, the answer goes without: the
/// process is the controller's child, and the controller can open it. An answer that cannot be sent at all ends the zygote,
/// because somebody waits for it: of the end of the link the controller is told.
fn answer(link: i32, cloned: Result<(i32, Fd, u32)>) {
    let sent = match cloned {
        Ok((pid, pidfd, network)) => {
            let answer = Answer::Cloned { pid, network }.encode();
            sys::send_with_fd(link, &answer, pidfd.raw()).or_else(|_| sys::send(link, &answer).map(drop))
        }
        Err(Errno(errno)) => sys::send(link, &Answer::Refused(errno).encode()).map(drop),
    };
    if sent.is_err() {
        sys::exit(1);
    }
}

/// The child: PID 1 of a sandbox.
fn become_init(link: i32, own_link: i32, streams: [i32; 3], request: &Request, this: InheritedMemory) -> ! {
    for (number, stream) in (0..).zip(streams) {
        let _ = sys::dup3(stream, number, false);
    }
    // In the place of the zygote's, which would otherwise stay open here.
    if let Err(Errno(errno)) = sys::dup3(own_link, link, true) {
        let _ = sys::send(own_link, &Report::Failed { step: 0, errno }.encode());
        sys::exit(1);
    }
    let _ = super::command::close_between((link + 1).cast_unsigned(), u32::MAX);
    if let Err(Errno(errno)) = write_maps(request) {
        let _ = sys::send(link, &Report::Failed { step: ID_MAPS, errno }.encode());
        sys::exit(1);
    }
    run_init(link, this)
}

fn write_maps(request: &Request) -> Result<()> {
    if request.namespaces & flag::NEWUSER == 0 || request.user.iter().all(|byte| *byte == b' ') {
        return Ok(());
    }
    users::write_own_maps(&request.user, &request.group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_what_arrives() {
        let request =
            Request { namespaces: 0x7c02_0000, cgroup: true, network: true, user: [1; 128], group: [2; 128] };
        assert_eq!(Request::decode(&request.encode()), request);
        for answer in [Answer::Cloned { pid: 4711, network: 3 }, Answer::Refused(1)] {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        assert_eq!(Answer::decode(&[0; ANSWER_LENGTH]), None);
        assert_eq!(Answer::decode(&[1; ANSWER_LENGTH + 1]), None);
    }
}
