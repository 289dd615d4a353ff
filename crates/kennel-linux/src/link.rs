//! The link to init: a socket pair that keeps the bounds of messages.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use kennel_init::child::orders::CHUNK;
use kennel_init::child::sys::MAX_FDS;
use kennel_init::report::{self, Order, Report};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, send, sendmsg,
};

/// A pair of sockets that keep message boundaries.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET);
    Ok(rustix::net::socketpair(family, kind, rustix::net::SocketFlags::CLOEXEC, None)?)
}

/// What arrived.
pub(crate) enum Received {
    /// A report, and the descriptors that came with it. `None` is one that this side does not know.
    Report(Option<Report>, Vec<OwnedFd>),
    /// Init has closed its end.
    End,
}

/// Sends a part of the plan. The first message starts with the length of the whole part.
pub(crate) fn send_part(link: &OwnedFd, part: &[u8]) -> io::Result<()> {
    let length = (part.len() as u64).to_le_bytes();
    let (first, rest) = part.split_at(part.len().min(CHUNK));
    let parts = [io::IoSlice::new(&length), io::IoSlice::new(first)];
    let none = &mut SendAncillaryBuffer::new(&mut []);
    retry_on_intr(|| sendmsg(link, &parts, none, SendFlags::NOSIGNAL))?;
    for chunk in rest.chunks(CHUNK) {
        retry_on_intr(|| send(link, chunk, SendFlags::NOSIGNAL))?;
    }
    Ok(())
}

/// Sends an order if there is room for it: an init that was stopped does not make this process wait.
pub(crate) fn order_now(link: &OwnedFd, order: Order) -> io::Result<()> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    retry_on_intr(|| send(link, &order.encode(), flags))?;
    Ok(())
}

/// A send of descriptors. How many of a user's may be on their way is compared with the sender's own limit on open files, and
/// others of the user may hold many there: where this process may raise its limit, that is done for the moment.
pub(crate) fn passing<T>(mut send: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut send = || retry_on_intr(&mut send);
    match send() {
        Err(Errno::TOOMANYREFS) => {}
        other => return Ok(other?),
    }
    let before = getrlimit(Resource::Nofile);
    let mut raised = before;
    raised.current = raised.maximum;
    setrlimit(Resource::Nofile, raised)?;
    let sent = send();
    // Unless somebody else has set it meanwhile.
    if getrlimit(Resource::Nofile) == raised {
        setrlimit(Resource::Nofile, before)?;
    }
    sent.map_err(|error| match error {
        Errno::TOOMANYREFS => io::Error::new(
            io::ErrorKind::QuotaExceeded,
            "programs of this user hold too many descriptors on their way through unix sockets; stop them, or raise the hard \
             limit on open files (ulimit -Hn)",
        ),
        other => other.into(),
    })
}

/// Sends an order, and descriptors with it.
pub(crate) fn order(link: &OwnedFd, order: Order, fds: &[BorrowedFd]) -> io::Result<()> {
    send_with_fds(link, &order.encode(), fds)
}

/// Sends descriptors alone.
pub(crate) fn send_descriptors(link: &OwnedFd, fds: &[BorrowedFd]) -> io::Result<()> {
    // Without a byte there would be no message.
    send_with_fds(link, &[0], fds)
}

fn send_with_fds(link: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let parts = [io::IoSlice::new(bytes)];
    passing(|| sendmsg(link, &parts, &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Sends a message of any length, and descriptors with it.
pub(crate) fn send_with(link: &OwnedFd, message: &[u8], fds: &[BorrowedFd]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let parts = [io::IoSlice::new(message)];
    passing(|| sendmsg(link, &parts, &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives a message into `buffer`; returns its length, and the descriptor that came with it.
pub(crate) fn receive_with(link: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [io::IoSliceMut::new(buffer)];
    let received = retry_on_intr(|| recvmsg(link, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok((received.bytes, fds.flatten().next()))
}

/// Receives a message.
pub(crate) fn receive(link: &OwnedFd, flags: RecvFlags) -> io::Result<Received> {
    let mut message = [0u8; report::LENGTH];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [io::IoSliceMut::new(&mut message)];
        let length = match recvmsg(link, &mut parts, &mut control, flags | RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => received.bytes,
            // A peer that ended with a message of ours unread resets the link. That is told once; what it said before is
            // still to be read.
            Err(Errno::CONNRESET | Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if length == 0 {
            return Ok(Received::End);
        }
        let fds = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let fds = fds.flatten().collect();
        return Ok(Received::Report(Report::decode(&message[..length.min(report::LENGTH)]), fds));
    }
}
