//! Messages that carry more than bytes.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::{UnixListener, UnixStream};

use super::tell;

/// Room for a control message with up to 12 bytes.
#[repr(C, align(8))]
struct Control([u8; 32]);

/// Sends one byte with a control message of the given type.
fn send(socket: &impl AsRawFd, kind: i32, data: &[u8]) -> i64 {
    let mut control = Control([0; 32]);
    let byte = *b"x";
    let mut part = libc::iovec { iov_base: byte.as_ptr().cast_mut().cast(), iov_len: 1 };
    // SAFETY: `control` has room for a header and 12 bytes; the message points to live memory for the call.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(u32::try_from(data.len()).unwrap()) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(u32::try_from(data.len()).unwrap()) as usize;
        std::ptr::copy_nonoverlapping(data.as_ptr(), libc::CMSG_DATA(header), data.len());
        i64::try_from(libc::sendmsg(socket.as_raw_fd(), &raw const message, 0)).unwrap()
    }
}

/// Listens at the first path, connects to it, hands the second over, reads what arrives: both sides of the trick.
pub fn send_and_receive(words: &[OsString]) -> i32 {
    let listener = UnixListener::bind(&words[0]).unwrap();
    let inner = UnixStream::connect(&words[0]).unwrap();
    let (outer, _) = listener.accept().unwrap();
    let file = File::open(&words[1]).unwrap();
    assert_eq!(send(&outer, libc::SCM_RIGHTS, &file.as_raw_fd().to_ne_bytes()), 1);
    drop(file);
    let mut control = Control([0; 32]);
    let mut byte = [0u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: the message points to live memory for the call; the descriptor in it is new and ours.
    let mut received = unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = 32;
        assert_eq!(libc::recvmsg(inner.as_raw_fd(), &raw mut message, 0), 1);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        File::from_raw_fd(libc::CMSG_DATA(header).cast::<i32>().read_unaligned())
    };
    let mut text = String::new();
    received.read_to_string(&mut text).unwrap();
    println!("{text}");
    0
}

/// Claims to be others.
pub fn credentials(_: &[OsString]) -> i32 {
    let (one, _other) = UnixStream::pair().unwrap();
    // SAFETY: takes no pointers.
    let own = unsafe { libc::ucred { pid: libc::getpid(), uid: libc::getuid(), gid: libc::getgid() } };
    let somebody = libc::ucred { uid: own.uid ^ 1, ..own };
    let init = libc::ucred { pid: 1, ..own };
    for (name, claim) in [("own", own), ("pid 1", init), ("uid of somebody else", somebody)] {
        // SAFETY: plain integers, read as bytes.
        let bytes: [u8; size_of::<libc::ucred>()] = unsafe { std::mem::transmute(claim) };
        let result = send(&one, libc::SCM_CREDENTIALS, &bytes);
        // A user that the namespace does not have is EINVAL: as good as EPERM.
        if result < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
            println!("{name}: EPERM");
        } else {
            tell(name, result, "sent");
        }
    }
    0
}
