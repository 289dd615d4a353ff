//! The probe's side: what it tries, by raw calls.

use std::ffi::CString;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::*;

/// Not a test of its own: without the variable there is nothing to do.
#[test]
fn does_as_it_is_told() {
    let Some(scenario) = std::env::var_os("KENNEL_GUARD_PROBE") else { return };
    let yard = PathBuf::from(std::env::var_os("KENNEL_GUARD_YARD").expect("a yard"));
    let mut link = UnixStream::from(inherited("KENNEL_GUARD_LINK"));
    run(&scenario.into_string().expect("a name"), &yard, &mut link);
}

fn run(scenario: &str, yard: &Path, link: &mut UnixStream) {
    let mut length = [0; 4];
    link.read_exact(&mut length).expect("the length of the filter");
    let mut program = vec![0; u32::from_ne_bytes(length) as usize];
    link.read_exact(&mut program).expect("the filter");
    if !program.is_empty() {
        let listener = put_on(&program);
        send_fd(link, &listener);
    }
    let mut go = [0];
    link.read_exact(&mut go).expect("the word to go");
    let link = link.try_clone().expect("the link can be copied");
    let tell = |name: &str, errno: i32| {
        let _ = (&link).write_all(format!("{name}={errno}\n").as_bytes());
    };
    match scenario {
        "creation" => creation::attempts(yard, tell),
        "deep" => creation::deep(yard, tell),
        "existing" => creation::existing(yard, tell),
        "dangling" => creation::dangling(yard, tell),
        "hidden memory" => creation::hidden_memory(yard, tell),
        "view" => view::attempts(yard, tell),
        "orphaned" => death::attempts(yard, tell),
        "killed while waiting" => death::many_threads(yard, tell),
        other => race::attempts(other, yard, tell),
    }
}

/// Puts the filter on this thread and all it starts.
fn put_on(program: &[u8]) -> OwnedFd {
    const SECCOMP_SET_MODE_FILTER: usize = 1;
    let program = libc::sock_fprog {
        len: u16::try_from(program.len() / 8).expect("a filter of a size that the kernel takes"),
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: a valid program that outlives the call.
    let fd = unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        libc::syscall(
            libc::SYS_seccomp,
            SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    assert!(fd >= 0, "seccomp: {}", io::Error::last_os_error());
    // SAFETY: the kernel just made it for us.
    unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).expect("a descriptor")) }
}

fn send_fd(link: &UnixStream, fd: &OwnedFd) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    rustix::net::sendmsg(link, &[io::IoSlice::new(b"l")], &mut control, SendFlags::empty())
        .expect("the listener can be sent");
}

/// Makes a system call; returns the error's number, 0 for success. A descriptor that it returns is closed.
pub(super) fn call(number: libc::c_long, arguments: &[usize], returns_fd: bool) -> i32 {
    let mut a = [0usize; 6];
    a[..arguments.len()].copy_from_slice(arguments);
    // SAFETY: the callers pass pointers to C strings and structures that outlive the call, as it expects them.
    let returned = unsafe { libc::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) };
    if returned < 0 {
        return io::Error::last_os_error().raw_os_error().unwrap_or(-1);
    }
    if returns_fd {
        // SAFETY: the kernel just made it for us.
        drop(unsafe { OwnedFd::from_raw_fd(i32::try_from(returned).expect("a descriptor")) });
    }
    0
}

pub(super) fn c(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).expect("no NUL")
}

pub(super) fn at(path: &CString) -> usize {
    path.as_ptr() as usize
}

/// A folder's descriptor, as a number for the calls.
pub(super) fn folder(path: &Path) -> OwnedFd {
    std::fs::File::open(path).expect("the folder is there").into()
}

pub(super) fn raw(fd: &OwnedFd) -> usize {
    fd.as_raw_fd() as usize
}

pub(super) const HERE: usize = libc::AT_FDCWD as usize;
