//! Sockets and what is sent over them, and waiting for descriptors.

use super::{Errno, Fd, NOFILE, Result, get_limit, set_limit};

pub fn socket(domain: u32, kind: u32, protocol: u32) -> Result<Fd> {
    const SOCK_CLOEXEC: u32 = 0o2000000;
    call!(SYS_socket, domain, kind | SOCK_CLOEXEC, protocol).map(|fd| Fd(fd as i32))
}

/// Two unix sockets that keep the bounds of messages, connected to each other for good.
pub fn packet_pair() -> Result<[Fd; 2]> {
    const AF_UNIX: usize = 1;
    const SOCK_SEQPACKET: usize = 5;
    const SOCK_CLOEXEC: usize = 0o2000000;
    let mut pair = [-1; 2];
    call!(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.as_mut_ptr())?;
    Ok(pair.map(Fd))
}

pub fn bind(socket: &Fd, address: &[u8]) -> Result<()> {
    call!(SYS_bind, socket.0, address.as_ptr(), address.len()).map(drop)
}

pub fn listen(socket: &Fd, backlog: u32) -> Result<()> {
    call!(SYS_listen, socket.0, backlog).map(drop)
}

pub fn setsockopt_u32(socket: &Fd, level: u32, name: u32, value: u32) -> Result<()> {
    call!(SYS_setsockopt, socket.0, level, name, &raw const value, 4).map(drop)
}

pub fn send(socket: i32, bytes: &[u8]) -> Result<usize> {
    const MSG_NOSIGNAL: usize = 0x4000;
    call!(SYS_sendto, socket, bytes.as_ptr(), bytes.len(), MSG_NOSIGNAL, 0, 0)
}

pub fn recv(socket: i32, buffer: &mut [u8]) -> Result<usize> {
    call!(SYS_recvfrom, socket, buffer.as_mut_ptr(), buffer.len(), 0, 0, 0)
}

/// A control message with one descriptor (SCM_RIGHTS). Its length counts the header (16) and one int (4).
#[repr(C)]
struct Control {
    len: usize,
    level: i32,
    kind: i32,
    fd: i32,
    padding: i32,
}

const SCM_RIGHTS: Control = Control { len: 20, level: 1, kind: 1, fd: -1, padding: 0 };

/// `struct msghdr`.
#[repr(C)]
struct MessageHeader {
    name: usize,
    name_len: u32,
    iov: *const [usize; 2],
    iov_len: usize,
    control: *const Control,
    control_len: usize,
    flags: i32,
}

/// Sends `bytes` and one descriptor.
pub fn send_with_fd(socket: i32, bytes: &[u8], fd: i32) -> Result<()> {
    let control = Control { fd, ..SCM_RIGHTS };
    let iov = [bytes.as_ptr() as usize, bytes.len()];
    let header = MessageHeader {
        name: 0,
        name_len: 0,
        iov: &raw const iov,
        iov_len: 1,
        control: &raw const control,
        control_len: size_of::<Control>(),
        flags: 0,
    };
    let send = || call!(SYS_sendmsg, socket, &raw const header, 0x4000).map(drop);
    match send() {
        // As many of the user's descriptors are on their way as this process may have open: as others hold there, or as one of
        // the user's sandboxes can. It may have more open than that.
        Err(Errno::ETOOMANYREFS) => {
            let [soft, hard] = get_limit(NOFILE)?;
            set_limit(NOFILE, hard, hard)?;
            let sent = send();
            set_limit(NOFILE, soft, hard)?;
            sent
        }
        other => other,
    }
}

/// The most descriptors that come with one message.
pub const MAX_FDS: usize = 8;

/// Receives a message, and the descriptors that came with it.
pub fn recv_with_fds(socket: i32, buffer: &mut [u8]) -> Result<(usize, [Option<Fd>; MAX_FDS])> {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    #[repr(C)]
    struct Controls {
        len: usize,
        level: i32,
        kind: i32,
        fds: [i32; MAX_FDS],
    }
    let mut control = Controls { len: 0, level: 0, kind: 0, fds: [-1; MAX_FDS] };
    let iov = [buffer.as_mut_ptr() as usize, buffer.len()];
    let mut header = MessageHeader {
        name: 0,
        name_len: 0,
        iov: &raw const iov,
        iov_len: 1,
        control: (&raw mut control).cast(),
        control_len: size_of::<Controls>(),
        flags: 0,
    };
    let received = call!(SYS_recvmsg, socket, &raw mut header, MSG_CMSG_CLOEXEC)?;
    // The kernel writes the control message, and the descriptors from the first place on.
    Ok((received, control.fds.map(|fd| (fd >= 0).then(|| Fd(fd)))))
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PollFd {
    pub fd: i32,
    pub events: i16,
    pub revents: i16,
}

pub const POLLIN: i16 = 1;

/// Waits, without a time limit, until one of `fds` is ready.
pub fn poll(fds: &mut [PollFd]) -> Result<usize> {
    call!(SYS_ppoll, fds.as_mut_ptr(), fds.len(), 0, 0, 0)
}

/// The same for at most so many nanoseconds; 0 when the time has passed.
pub fn poll_for(fds: &mut [PollFd], nanoseconds: u64) -> Result<usize> {
    let time = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    call!(SYS_ppoll, fds.as_mut_ptr(), fds.len(), time.as_ptr(), 0, 0)
}
