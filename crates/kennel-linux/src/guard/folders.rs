//! Watching folders for names: one inotify instance, and who wants to hear of which name in which folder.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use super::as_root;
use super::protected_paths::odd;

/// Who wants to hear of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subscriber {
    /// The guarded path with this number, at which nothing is to come into being.
    Absent(usize),
    /// The covered name with this number, at which the host may put something else.
    Covered(usize),
    /// The held folder with this number, which the host may move.
    Base(usize),
}

/// A name in a watched folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The kernel's number of the watch on the folder.
    pub watch: i32,
    /// The name.
    pub name: Vec<u8>,
}

/// What happened since the last look.
#[derive(Debug, PartialEq, Eq)]
pub enum Happened {
    /// Something appeared at names of these.
    To(BTreeSet<Subscriber>),
    /// More than the kernel could remember.
    Unknown,
}

/// The watches.
#[derive(Debug)]
pub struct FolderWatch {
    /// Taken only when dropped.
    inotify: Option<OwnedFd>,
    /// Who wants to hear of what, by the number of the watch.
    users: HashMap<i32, Vec<(Vec<u8>, Subscriber)>>,
    places: HashMap<Subscriber, Vec<Place>>,
    since: Instant,
}

impl FolderWatch {
    /// Gets ready to watch.
    ///
    /// # Errors
    /// When the user's limit on inotify instances is reached.
    pub fn new() -> Result<FolderWatch, Errno> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(FolderWatch {
            inotify: Some(inotify),
            users: HashMap::new(),
            places: HashMap::new(),
            since: Instant::now(),
        })
    }

    /// Watches a folder. What happens in it from now on is told to those that [`FolderWatch::place`] names before
    /// the next look.
    ///
    /// # Errors
    /// When the user's limit on watches is reached. `ACCESS` for a folder that the user may not list.
    pub fn watch(&self, folder: BorrowedFd) -> Result<i32, Errno> {
        let events = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::MASK_ADD;
        as_root::add_watch(self.fd(), folder, events)
    }

    /// Says where `subscriber` has its names now, in place of where it had them. A watch that nobody uses any more is
    /// taken away: folders that are moved about leave no trail of watches.
    pub fn place(&mut self, subscriber: Subscriber, places: Vec<Place>) {
        let old = self.places.insert(subscriber, places).unwrap_or_default();
        let places = &self.places[&subscriber];
        for place in places.iter().filter(|place| !old.contains(place)) {
            self.users.entry(place.watch).or_default().push((place.name.clone(), subscriber));
        }
        for place in old.into_iter().filter(|place| !places.contains(place)) {
            let Some(users) = self.users.get_mut(&place.watch) else { continue };
            users.retain(|(name, user)| *user != subscriber || *name != place.name);
            if users.is_empty() {
                self.users.remove(&place.watch);
                let _ = inotify::remove_watch(self.fd(), place.watch);
            }
        }
    }

    /// Reads what happened.
    pub fn happened(&mut self) -> Happened {
        // A sandbox that makes files as fast as they can be read about must not keep the guard here.
        const MAX_EVENTS: usize = 4096;
        let mut subscribers = BTreeSet::new();
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut reader = Reader::new(inotify_of(&self.inotify), &mut buffer);
        for _ in 0..MAX_EVENTS {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                return Happened::Unknown;
            }
            if event.events().contains(ReadFlags::IGNORED) {
                // The folder is gone. What stands in its place is found by the watch above it.
                self.users.remove(&event.wd());
                continue;
            }
            let name = event.file_name().map_or(b"".as_slice(), CStr::to_bytes);
            for (wanted, subscriber) in self.users.get(&event.wd()).into_iter().flatten() {
                // Another spelling may be the same name to the file system.
                if name.eq_ignore_ascii_case(wanted) || odd(name) {
                    subscribers.insert(*subscriber);
                }
            }
        }
        Happened::To(subscribers)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        inotify_of(&self.inotify)
    }
}

fn inotify_of(inotify: &Option<OwnedFd>) -> BorrowedFd<'_> {
    inotify.as_ref().expect("there until it is dropped").as_fd()
}

impl AsFd for FolderWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }
}

/// Closing an inotify descriptor that has watches waits until no processor can be looking at them any more: some 8 to
/// 15 ms, for which the end of a run would wait. The kernel can do that by itself, but only about a hundred times a
/// second, and until then the instance counts against the user's limit: so short runs, of which there may be many,
/// wait for it.
impl Drop for FolderWatch {
    fn drop(&mut self) {
        if let Some(inotify) = self.inotify.take()
            && !self.users.is_empty()
            && self.since.elapsed() >= SHORT_RUN
        {
            close_later(&inotify);
        }
    }
}

/// A sandbox that lived for less is one of many, for all that anybody knows.
pub const SHORT_RUN: Duration = Duration::from_millis(100);

/// Has the kernel close a descriptor by itself, when this process has closed its own: in a message that two sockets hold for each other and nobody else does,
/// which the kernel's collector of unreachable messages finds, on a thread of its own. Where it cannot be sent, or the
/// collector works at once (before Linux 6.9), closing takes its time.
fn close_later(fd: &OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    let Ok((one, two)) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None) else {
        return;
    };
    let fds = [fd.as_fd(), one.as_fd(), two.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if control.push(SendAncillaryMessage::ScmRights(&fds)) {
        let _ = rustix::net::sendmsg(&one, &[IoSlice::new(b"x")], &mut control, SendFlags::DONTWAIT);
    }
}
