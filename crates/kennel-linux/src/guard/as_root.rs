//! File system calls of the guard, in a sandbox with several users.
//!
//! The guard looks at paths with the caller's rights. With one user inside, that one has the same. With several, a folder may
//! belong to another and be closed to the caller; `mktemp -d` makes such. What the guard may not look at it refuses, so nothing
//! could be made there. The calls here are made with the caller's rights first, and where these end, by a helper in the
//! sandbox's user namespace ([`kennel_init::child::owners`]), which has the rights of the root inside. They tell the guard what
//! is there; nobody inside gets more by them. Where the guard changes something on behalf of a process inside, it first
//! asks [`may_change`].

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kennel_init::child::owners::{Argument, Call, Reply};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

use super::caller::Caller;
use crate::clock::timespec;
use crate::link;
use crate::sys::files::statx_in;

/// The kernel's number for the working directory.
const AT_FDCWD: u64 = libc::AT_FDCWD as i64 as u64;
/// A file system that does not answer holds the helper.
const PATIENCE: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(5) };

thread_local! {
    /// The helper of the sandbox that this thread guards, if that has several users.
    static HELPER: RefCell<SharedHelper> = RefCell::new(SharedHelper::default());
}

/// The helper of a sandbox, for all threads that guard it.
#[derive(Clone, Debug, Default)]
pub struct SharedHelper(Option<Arc<Mutex<Helper>>>);

/// Who makes the calls that the caller may not.
#[derive(Debug)]
enum Helper {
    /// The one behind this link.
    At(OwnedFd),
    /// It did not answer in time. What it says later would be taken for the answer to another call.
    Lost,
}

impl SharedHelper {
    /// The one behind this link; nobody has to help where there is one user.
    pub fn new(link: Option<OwnedFd>) -> SharedHelper {
        SharedHelper(link.map(|link| Arc::new(Mutex::new(Helper::At(link)))))
    }
}

/// Has this thread's calls go on by this helper.
pub fn use_helper(helper: SharedHelper) {
    HELPER.set(helper);
}

/// Whether there are several users.
fn several_users() -> bool {
    HELPER.with_borrow(|helper| helper.0.is_some())
}

/// A call with these arguments, and zeros behind them.
fn call(number: i64, makes_descriptor: bool, said: &[Argument]) -> Call {
    let mut arguments = [Argument::Value(0); 6];
    arguments[..said.len()].copy_from_slice(said);
    Call { number: number as u32, makes_descriptor, arguments }
}

/// Has the helper make a call, where there is one.
fn by_helper(
    refused: Errno,
    call: &Call,
    fds: &[BorrowedFd],
    data: &mut [u8],
) -> Result<(i64, Option<OwnedFd>), Errno> {
    HELPER.with_borrow(|helper| {
        let Some(helper) = &helper.0 else { return Err(refused) };
        let mut helper = helper.lock().unwrap_or_else(PoisonError::into_inner);
        let Helper::At(link) = &*helper else { return Err(refused) };
        match ask(link, call, fds, data) {
            Some((returned, fd)) if returned >= 0 => Ok((returned, fd)),
            Some((errno, _)) => Err(Errno::from_raw_os_error(i32::try_from(-errno).unwrap_or(libc::EIO))),
            None => {
                *helper = Helper::Lost;
                Err(refused)
            }
        }
    })
}

/// What the helper's call returned, and the descriptor that it made; `None` without an answer. The bytes come back in `data`.
fn ask(link: &OwnedFd, call: &Call, fds: &[BorrowedFd], data: &mut [u8]) -> Option<(i64, Option<OwnedFd>)> {
    let mut message = call.encode().to_vec();
    message.extend_from_slice(data);
    link::send_with(link, &message, fds).ok()?;
    let mut said = [PollFd::new(link, PollFlags::IN)];
    if rustix::io::retry_on_intr(|| poll(&mut said, Some(&timespec(PATIENCE)))) != Ok(1) {
        return None;
    }
    let mut answer = vec![0; Reply::LENGTH + data.len()];
    let (length, fd) = link::receive_with(link, &mut answer).ok()?;
    let returned = Reply::decode(&answer[..length])?.0;
    let back = length.saturating_sub(Reply::LENGTH).min(data.len());
    data[..back].copy_from_slice(&answer[Reply::LENGTH..Reply::LENGTH + back]);
    Some((returned, fd))
}

fn opened(made: (i64, Option<OwnedFd>)) -> Result<OwnedFd, Errno> {
    made.1.ok_or(Errno::IO)
}

/// As the call of this name.
pub fn openat(folder: impl AsFd, path: &CStr, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    match rustix::fs::openat(&folder, path, flags, mode) {
        Err(refused @ Errno::ACCESS) => {
            use Argument::{Descriptor, Offset, Value};
            let call = call(libc::SYS_openat, true, &[Descriptor(0), Offset(0), Value(flags.bits().into())]);
            opened(by_helper(refused, &call, &[folder.as_fd()], &mut path.to_bytes_with_nul().to_vec())?)
        }
        other => other,
    }
}

/// Opens a file of /proc: what a process has there is closed to other users.
pub fn open_proc(path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    match rustix::fs::open(path, flags, Mode::empty()) {
        Err(refused @ Errno::ACCESS) => {
            use Argument::{Offset, Value};
            let (here, flags) = (Value(AT_FDCWD), Value(flags.bits().into()));
            let call = call(libc::SYS_openat, true, &[here, Offset(0), flags]);
            let mut data = [path.as_bytes(), b"\0"].concat();
            opened(by_helper(refused, &call, &[], &mut data)?)
        }
        other => other,
    }
}

/// As the call of this name, without a mode.
pub fn openat2(
    folder: impl AsFd,
    path: &CStr,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    match rustix::fs::openat2(&folder, path, flags, Mode::empty(), resolve) {
        Err(refused @ Errno::ACCESS) => {
            use Argument::{Descriptor, Offset, Value};
            let how = [u64::from(flags.bits()), 0, resolve.bits()];
            let mut data: Vec<u8> = how.into_iter().flat_map(u64::to_ne_bytes).collect();
            let call = call(libc::SYS_openat2, true, &[Descriptor(0), Offset(24), Offset(0), Value(24)]);
            data.extend_from_slice(path.to_bytes_with_nul());
            opened(by_helper(refused, &call, &[folder.as_fd()], &mut data)?)
        }
        other => other,
    }
}

/// As the call of this name.
pub fn readlinkat(folder: impl AsFd, path: &CStr) -> Result<CString, Errno> {
    match rustix::fs::readlinkat(&folder, path, Vec::new()) {
        Err(refused @ Errno::ACCESS) => {
            use Argument::{Descriptor, Offset, Value};
            const ROOM: usize = 4096;
            let mut data = vec![0; ROOM];
            data.extend_from_slice(path.to_bytes_with_nul());
            let (start, room) = (Offset(ROOM as u64), Value(ROOM as u64));
            let call = call(libc::SYS_readlinkat, false, &[Descriptor(0), start, Offset(0), room]);
            let (length, _) = by_helper(refused, &call, &[folder.as_fd()], &mut data)?;
            data.truncate(usize::try_from(length).unwrap_or(0).min(ROOM));
            CString::new(data).map_err(|_| Errno::INVAL)
        }
        other => other,
    }
}

/// As the call of this name.
pub fn statx(folder: impl AsFd, path: &CStr, flags: AtFlags, wanted: StatxFlags) -> Result<Statx, Errno> {
    match rustix::fs::statx(&folder, path, flags, wanted) {
        Err(refused @ Errno::ACCESS) => {
            use Argument::{Descriptor, Offset, Value};
            let size = size_of::<Statx>();
            let mut data = vec![0; size];
            data.extend_from_slice(path.to_bytes_with_nul());
            let (flags, wanted) = (Value(flags.bits().into()), Value(wanted.bits().into()));
            let call =
                call(libc::SYS_statx, false, &[Descriptor(0), Offset(size as u64), flags, wanted, Offset(0)]);
            by_helper(refused, &call, &[folder.as_fd()], &mut data)?;
            statx_in(&data).ok_or(Errno::IO)
        }
        other => other,
    }
}

/// Whether something stands at a name.
pub fn exists(folder: impl AsFd, name: &CStr) -> Result<(), Errno> {
    statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE).map(drop)
}

/// As the call of this name.
pub fn unlinkat(folder: impl AsFd, path: &CStr, flags: AtFlags) -> Result<(), Errno> {
    match rustix::fs::unlinkat(&folder, path, flags) {
        Err(refused @ (Errno::ACCESS | Errno::PERM)) => {
            use Argument::{Descriptor, Offset, Value};
            let call =
                call(libc::SYS_unlinkat, false, &[Descriptor(0), Offset(0), Value(flags.bits().into())]);
            let mut data = path.to_bytes_with_nul().to_vec();
            by_helper(refused, &call, &[folder.as_fd()], &mut data).map(drop)
        }
        other => other,
    }
}

/// Renames within a folder.
pub fn rename_in(folder: impl AsFd, from: &CStr, to: &CStr, flags: RenameFlags) -> Result<(), Errno> {
    match rustix::fs::renameat_with(&folder, from, &folder, to, flags) {
        Err(refused @ (Errno::ACCESS | Errno::PERM)) => {
            use Argument::{Descriptor, Offset, Value};
            let mut data = from.to_bytes_with_nul().to_vec();
            let second = Offset(data.len() as u64);
            data.extend_from_slice(to.to_bytes_with_nul());
            let call = call(
                libc::SYS_renameat2,
                false,
                &[Descriptor(0), Offset(0), Descriptor(0), second, Value(flags.bits().into())],
            );
            by_helper(refused, &call, &[folder.as_fd()], &mut data).map(drop)
        }
        other => other,
    }
}

/// Changes the mode of what a descriptor refers to, which may have been opened without any right.
pub fn chmod(file: impl AsFd, mode: Mode) -> Result<(), Errno> {
    // By this name the kernel changes what the descriptor refers to, on the mount that it was found on.
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    match rustix::fs::chmodat(rustix::fs::CWD, path, mode, AtFlags::empty()) {
        Err(refused @ Errno::PERM) => {
            use Argument::{PathOfDescriptor, Value};
            let file_mode = Value(mode.bits().into());
            let call = call(libc::SYS_fchmodat, false, &[Value(AT_FDCWD), PathOfDescriptor(0), file_mode]);
            by_helper(refused, &call, &[file.as_fd()], &mut []).map(drop)
        }
        other => other,
    }
}

/// Watches a folder by an inotify descriptor.
pub fn add_watch(
    inotify: impl AsFd,
    folder: BorrowedFd,
    events: rustix::fs::inotify::WatchFlags,
) -> Result<i32, Errno> {
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    match rustix::fs::inotify::add_watch(&inotify, path, events) {
        Err(refused @ Errno::ACCESS) => {
            use Argument::{Descriptor, PathOfDescriptor, Value};
            let events = Value(events.bits().into());
            let call =
                call(libc::SYS_inotify_add_watch, false, &[Descriptor(0), PathOfDescriptor(1), events]);
            let (watch, _) = by_helper(refused, &call, &[inotify.as_fd(), folder], &mut [])?;
            i32::try_from(watch).map_err(|_| refused)
        }
        other => other,
    }
}

/// Whether a process inside may change a file that the guard is to change for it. With one user inside the kernel asks the
/// guard's thread for the same rights; with several, the guard is only one of them.
pub fn may_change(caller: Caller, file: BorrowedFd) -> bool {
    const FOWNER: u64 = 1 << 3;
    if !several_users() {
        return true;
    }
    let Ok(stat) = rustix::fs::fstat(file) else { return false };
    let status = std::fs::read_to_string(format!("/proc/{}/status", caller.tid())).unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    // Real, effective, saved, and that of file systems.
    let owner = field("Uid:").split_ascii_whitespace().nth(3).and_then(|uid| uid.parse::<u32>().ok());
    let capabilities = u64::from_str_radix(field("CapEff:").trim(), 16).unwrap_or(0);
    owner == Some(stat.st_uid) || capabilities & FOWNER != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

    #[test]
    fn an_answer_that_comes_late_is_not_taken_for_another_calls() {
        let (ours, helpers) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("a pair");
        use_helper(SharedHelper::new(Some(ours)));
        let stat = call(libc::SYS_statx, false, &[]);
        assert_eq!(by_helper(Errno::ACCESS, &stat, &[], &mut []).err(), Some(Errno::ACCESS));
        // Now it says of the first call that it went well. Nobody may be there to hear it.
        let _ = send(&helpers, &0i64.to_ne_bytes(), SendFlags::NOSIGNAL);
        assert_eq!(by_helper(Errno::ACCESS, &stat, &[], &mut []).err(), Some(Errno::ACCESS));
        assert!(several_users(), "and nobody changes anything for others from then on");
        use_helper(SharedHelper::default());
    }
}
