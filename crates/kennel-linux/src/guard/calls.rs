//! What a waiting call is about to do, read from its registers.

use libc::c_long;

use super::listener::Notification;
use super::outer;
use super::pairs::PairCall;
use crate::seccomp::power;

/// A path argument: where it lies in the caller's memory, and the descriptor it is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathArgument {
    /// A descriptor, or AT_FDCWD.
    pub folder: i32,
    /// The address of the text.
    pub address: u64,
}

/// A call that the filter sends to the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `open` with O_CREAT and its kin.
    Open {
        /// What is opened.
        path: PathArgument,
        /// How.
        flags: Flags,
    },
    /// A fresh, empty thing: mkdir, mknod.
    Make(PathArgument),
    /// A symlink.
    Symlink(PathArgument),
    /// A second name for what was made before.
    Link {
        /// What gets it.
        from: PathArgument,
        /// The name.
        to: PathArgument,
    },
    /// A rename.
    Rename {
        /// From where.
        from: PathArgument,
        /// To where.
        to: PathArgument,
        /// The flags of renameat2(2).
        flags: u32,
    },
    /// The removal of a name that is no folder's.
    Unlink(PathArgument),
    /// The question of a sandbox inside this one, whether nothing can be made at a path: see [`crate::guard::outer`].
    Ask(PathArgument),
    /// `bind`, of whatever family.
    Bind(Address),
    /// `connect`, of whatever family.
    Connect(Address),
    /// `socket` of the unix family, of this type.
    Socket(i32),
    /// A socket in a network that was lent: it goes on, and the network is not lent again.
    NetworkSocket,
    /// `listen` on this socket, of whatever family.
    Listen(i32),
    /// `chmod` and its kin, with a set-uid or set-gid bit.
    Chmod {
        /// Of what.
        of: ModeOf,
        /// The mode.
        mode: u32,
    },
    /// A lock on this descriptor.
    Lock(i32),
    /// A pair of sockets.
    Pair(PairCall),
}

/// What gets another mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeOf {
    /// What a descriptor refers to.
    Descriptor(i32),
    /// What a path leads to.
    Path {
        /// Which.
        path: PathArgument,
        /// Whether a link at its end is followed.
        follow: bool,
        /// Whether an empty path stands for the descriptor.
        may_be_empty: bool,
    },
}

/// Where the flags of an `open` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flags {
    /// In a register.
    Here(i32),
    /// In a `struct open_how`.
    InMemory {
        /// Its address.
        address: u64,
        /// How long the caller says it is.
        size: u64,
    },
}

/// A socket address argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The socket.
    pub socket: i32,
    /// Where the address lies.
    pub address: u64,
    /// Its length.
    pub length: u64,
}

impl Call {
    /// What `notification` is about; `None` for a call that no filter of the guard's sends.
    #[must_use]
    pub fn of(notification: &Notification) -> Option<Call> {
        let a = notification.data.args;
        // A descriptor is the low half of a register; the kernel does not look at the rest.
        let at =
            |folder: usize, address: usize| PathArgument { folder: a[folder] as i32, address: a[address] };
        let here = |address: usize| PathArgument { folder: libc::AT_FDCWD, address: a[address] };
        let followed = |path| ModeOf::Path { path, follow: true, may_be_empty: false };
        let address = || Address { socket: a[0] as i32, address: a[1], length: a[2] & 0xffff_ffff };
        let call = match c_long::from(notification.data.nr) {
            libc::SYS_openat => Call::Open { path: at(0, 1), flags: Flags::Here(a[2] as i32) },
            libc::SYS_openat2 => {
                Call::Open { path: at(0, 1), flags: Flags::InMemory { address: a[2], size: a[3] } }
            }
            libc::SYS_mkdirat | libc::SYS_mknodat => Call::Make(at(0, 1)),
            libc::SYS_linkat => Call::Link { from: at(0, 1), to: at(2, 3) },
            libc::SYS_symlinkat => Call::Symlink(at(1, 2)),
            libc::SYS_unlinkat => Call::Unlink(at(0, 1)),
            libc::SYS_renameat => Call::Rename { from: at(0, 1), to: at(2, 3), flags: 0 },
            libc::SYS_renameat2 if a[4] as u32 == outer::ASK => Call::Ask(at(2, 3)),
            libc::SYS_renameat2 => Call::Rename { from: at(0, 1), to: at(2, 3), flags: a[4] as u32 },
            libc::SYS_bind => Call::Bind(address()),
            libc::SYS_connect => Call::Connect(address()),
            libc::SYS_socket if a[0] as i32 != libc::AF_UNIX => Call::NetworkSocket,
            libc::SYS_socket => Call::Socket(a[1] as i32),
            libc::SYS_listen => Call::Listen(a[0] as i32),
            libc::SYS_socketpair => Call::Pair(PairCall {
                domain: a[0] as i32,
                kind: a[1] as i32,
                protocol: a[2] as i32,
                numbers: a[3],
            }),
            libc::SYS_fchmod => Call::Chmod { of: ModeOf::Descriptor(a[0] as i32), mode: a[1] as u32 },
            libc::SYS_fchmodat => Call::Chmod { of: followed(at(0, 1)), mode: a[2] as u32 },
            power::FCHMODAT2 => {
                let (flags, path) = (a[3] as i32, at(0, 1));
                let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
                let may_be_empty = flags & libc::AT_EMPTY_PATH != 0;
                Call::Chmod { of: ModeOf::Path { path, follow, may_be_empty }, mode: a[2] as u32 }
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => Call::Chmod { of: followed(here(0)), mode: a[1] as u32 },
            libc::SYS_flock | libc::SYS_fcntl => Call::Lock(a[0] as i32),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => Call::Open { path: here(0), flags: Flags::Here(a[1] as i32) },
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => Call::Open { path: here(0), flags: Flags::Here(libc::O_CREAT) },
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir | libc::SYS_mknod => Call::Make(here(0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => Call::Symlink(here(1)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => Call::Link { from: here(0), to: here(1) },
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => Call::Unlink(here(0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => Call::Rename { from: here(0), to: here(1), flags: 0 },
            _ => {
                let _ = here;
                return None;
            }
        };
        Some(call)
    }

    /// Whether it may make a name.
    #[must_use]
    pub fn makes_a_name(self) -> bool {
        !matches!(
            self,
            Call::Ask(_)
                | Call::Unlink(_)
                | Call::Connect(_)
                | Call::Socket(_)
                | Call::NetworkSocket
                | Call::Listen(_)
                | Call::Chmod { .. }
                | Call::Lock(_)
                | Call::Pair(_)
        )
    }

    /// Its name, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Call::Open { .. } => "open",
            Call::Make(_) => "mkdir or mknod",
            Call::Symlink(_) | Call::Link { .. } => "link or symlink",
            Call::Rename { .. } => "rename",
            Call::Unlink(_) => "unlink",
            Call::Ask(_) => "question",
            Call::Bind(_) => "bind",
            Call::Connect(_) => "connect",
            Call::Socket(_) | Call::NetworkSocket => "socket",
            Call::Listen(_) => "listen",
            Call::Chmod { .. } => "chmod",
            Call::Lock(_) => "lock",
            Call::Pair(_) => "socketpair",
        }
    }
}
