//! Operations on what is open: reopening by /proc, passing between processes, and the standard streams, which are slots
//! 0 to 2 and lead to whatever kennel was started with.

use std::ffi::CString;

use super::call::{Fd, HERE, call, contents, fd, text, write};
use super::files::{CAPABILITY, TIMES};
use super::{Actor, Answer};
use crate::attack::script::Op;
use crate::attack::wire::now;

impl Actor {
    pub(super) fn descriptors(&mut self, op: &Op) -> Answer {
        let slot = |index: usize| usize::try_from(op.number(index)).unwrap_or(0) % self.slots.len();
        let open = self.slots[slot(0)];
        match op.verb.as_str() {
            "open" => {
                let (since, to) = (now(), slot(1));
                match Fd::open(HERE, &self.path(op.word(0)), access(op.word(2))) {
                    Ok(opened) => {
                        self.slots[to] = opened.keep();
                        Answer::read(since, 0, contents(fd(self.slots[to])))
                    }
                    Err(error) => Answer::of(error),
                }
            }
            // The kernel opens the file anew, with the rights that are asked for.
            "reopen" => {
                let (since, to) = (now(), slot(2));
                let path = CString::new(format!("/proc/self/fd/{open}")).unwrap_or_default();
                match Fd::open(HERE, &path, access(op.word(1))) {
                    Ok(opened) => {
                        self.slots[to] = opened.keep();
                        Answer::read(since, 0, contents(fd(self.slots[to])))
                    }
                    Err(error) => Answer::of(error),
                }
            }
            "fdread" => Answer::read(now(), 0, contents(fd(open))),
            "fdwrite" => {
                // At the beginning, where that is possible.
                call(libc::SYS_lseek, &[fd(open), 0, 0]);
                Answer::of(write(fd(open), &self.evil()).min(0))
            }
            "fdchmod" => {
                let mode = usize::from_str_radix(op.word(1), 8).unwrap_or(0o4777);
                Answer::of(call(libc::SYS_fchmod, &[fd(open), mode]))
            }
            "fdtrunc" => Answer::of(call(libc::SYS_ftruncate, &[fd(open), 0])),
            "fdutimes" => Answer::of(call(libc::SYS_utimensat, &[fd(open), 0, TIMES.as_ptr() as usize, 0])),
            "fdxattr" => {
                let name = CString::new(op.word(1)).unwrap_or_default();
                let value = CAPABILITY.as_ptr() as usize;
                Answer::of(call(libc::SYS_fsetxattr, &[fd(open), text(&name), value, CAPABILITY.len(), 0]))
            }
            "fdlink" => self.link_descriptor(open, op.word(1)),
            "pass" => pass(self.pair[0], open),
            "take" => match take(self.pair[1]) {
                Ok(taken) => {
                    let to = slot(0);
                    self.slots[to] = taken;
                    Answer::of(0)
                }
                Err(error) => Answer::of(error),
            },
            _ => Answer::of(-i64::from(libc::ENOSYS)),
        }
    }
}

fn access(word: &str) -> i32 {
    match word {
        "w" => libc::O_WRONLY,
        "rw" => libc::O_RDWR,
        "path" => libc::O_PATH,
        _ => libc::O_RDONLY,
    }
}

/// A message with room for one descriptor.
#[repr(C)]
struct Message {
    length: usize,
    level: i32,
    kind: i32,
    fd: i32,
    pad: i32,
}

fn header(byte: &mut libc::iovec, message: &mut Message) -> libc::msghdr {
    // SAFETY: all zeroes is a message without anything.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = byte;
    header.msg_iovlen = 1;
    header.msg_control = std::ptr::from_mut(message).cast();
    header.msg_controllen = std::mem::size_of::<Message>() as _;
    header
}

fn pass(socket: i32, open: i32) -> Answer {
    let mut data = 0u8;
    let mut byte = libc::iovec { iov_base: (&raw mut data).cast(), iov_len: 1 };
    let mut message =
        Message { length: 20, level: libc::SOL_SOCKET, kind: libc::SCM_RIGHTS, fd: open, pad: 0 };
    let header = header(&mut byte, &mut message);
    Answer::of(call(libc::SYS_sendmsg, &[fd(socket), &raw const header as usize, 0]).min(0))
}

fn take(socket: i32) -> Result<i32, i64> {
    let mut data = 0u8;
    let mut byte = libc::iovec { iov_base: (&raw mut data).cast(), iov_len: 1 };
    let mut message = Message { length: 0, level: 0, kind: 0, fd: -1, pad: 0 };
    let mut header = header(&mut byte, &mut message);
    let got =
        call(libc::SYS_recvmsg, &[fd(socket), &raw mut header as usize, libc::MSG_CMSG_CLOEXEC as usize]);
    if got < 0 { Err(got) } else { Ok(message.fd) }
}
