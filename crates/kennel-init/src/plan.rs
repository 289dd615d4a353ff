//! The plan: the exact, ordered steps that turn a fresh set of namespaces into the sandbox, as a plain value.
//!
//! Nothing in it refers to the process that made it: no descriptors, no pointers. A test can compare it, a person
//! can read it (`kennel plan`), and [`encode`](crate::encode) turns it into the bytes that init performs.

use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

pub use crate::child::sys::Identity;
pub use crate::role::SocketRole;

/// All that init does before the command runs, and the command: three parts, sent one by one. The first two can be performed
/// before the third is known. Where the set-up ends in [`Step::Later`], a further part with steps comes before the command.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Plan {
    /// Performed first: what needs nothing of the host's disk. Init does it while its controller plans the rest.
    pub opening: Vec<Planned>,
    /// Performed then, in this order. Each step is done completely, or the sandbox does not start.
    pub steps: Vec<Planned>,
    /// What is started at the end.
    pub command: Command,
}

impl Plan {
    /// The step that init counts as this one.
    #[must_use]
    pub fn step(&self, index: u32) -> Option<&Planned> {
        self.opening.iter().chain(&self.steps).nth(index as usize)
    }
}

/// A step and why it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What is done.
    pub step: Step,
    /// The policy rule behind it, in the user's words.
    pub reason: String,
}

/// One thing init does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Cut every mount off from the host's, so that neither side sees what the other mounts from now on.
    PrivateMounts,
    /// The root is this namespace's copy of the host's mount tree, changed in place: what stands at another path
    /// is mounted over, and nothing needs to be unmounted.
    HostRoot {
        /// What may be done in it.
        access: Access,
    },
    /// The root is an empty file system in memory; [`Step::PivotRoot`] makes it the only one.
    TmpfsRoot {
        /// The most bytes it holds.
        size: u64,
    },
    /// One file system in memory for all that kennel makes for the sandbox: the private folders, what later steps hide
    /// things with, files with other contents. A later step mounts over it.
    Store {
        /// Where, inside, until it is covered.
        target: CString,
        /// The most bytes it holds.
        size: u64,
        /// The most files it holds.
        inodes: u64,
    },
    /// The controller gets the store, to hide with what is in it whatever the host puts in a hidden name's place later.
    HandOverStore,
    /// A fresh folder of the store appears.
    Private {
        /// Where, inside.
        target: CString,
        /// Its name in the store.
        name: CString,
        /// Its permissions.
        mode: u32,
    },
    /// An empty file system in memory.
    Tmpfs {
        /// Where, inside.
        target: CString,
        /// The most bytes it holds.
        size: u64,
        /// The most files it holds.
        inodes: u64,
        /// Permissions of its top folder.
        mode: u32,
    },
    /// A folder, with any parents that are missing; one that exists is left as it is.
    MakeDir {
        /// Where, inside.
        path: CString,
        /// Permissions.
        mode: u32,
    },
    /// An empty file to mount on; one that exists is left as it is.
    MakeFile {
        /// Where, inside.
        path: CString,
    },
    /// A symbolic link.
    Symlink {
        /// Where, inside.
        path: CString,
        /// What it says.
        points_to: CString,
    },
    /// A small file with given contents.
    WriteFile {
        /// Where, inside.
        path: CString,
        /// What it holds.
        contents: Vec<u8>,
        /// Permissions.
        mode: u32,
    },
    /// A part of the host's tree appears inside.
    Bind {
        /// The host's path, free of symlinks.
        source: CString,
        /// What the planner saw there; anything else by now means that somebody swapped it.
        identity: Identity,
        /// Where, inside.
        target: CString,
        /// What may be done below it.
        access: Access,
        /// Whether an earlier step covers the source, so that it has to be taken hold of before all others.
        early: bool,
    },
    /// A folder of the host's is held, because it is about to be covered and late steps may bind from it.
    HoldHost {
        /// Where, on the host.
        path: CString,
    },
    /// A folder is hidden: in its place stands an empty one.
    MaskDir {
        /// Where, inside.
        target: CString,
    },
    /// A file is hidden: in its place stands one that nobody may open.
    MaskFile {
        /// Where, inside.
        target: CString,
    },
    /// A file shows other contents than the host's.
    CoverFile {
        /// Where, inside; it exists.
        target: CString,
        /// What it holds.
        contents: Vec<u8>,
    },
    /// The process file system of the new PID namespace.
    Proc {
        /// Where, inside.
        target: CString,
        /// Whether its files can be written, as far as their permissions go.
        write: bool,
    },
    /// Pseudo-terminals of the sandbox's own.
    Devpts {
        /// Where, inside.
        target: CString,
    },
    /// A mount made by an earlier step can be written no more.
    ReadOnly {
        /// Where, inside.
        target: CString,
    },
    /// The new root becomes `/` and the old one is gone.
    PivotRoot,
    /// From here on what is made in file systems of the sandbox's own belongs to user 0: with several users, init is another.
    RootOwns {
        /// Who has what hidden files are covered with: somebody whom the command's namespace does not have, so that not even
        /// its root opens it.
        masks: (u32, u32),
    },
    /// The home folder of one of several users: a fresh folder of the store that is its own.
    Home {
        /// Where, inside.
        target: CString,
        /// Its name in the store.
        name: CString,
        /// Its owner.
        uid: u32,
        /// The owner's group.
        gid: u32,
    },
    /// Leave for a user namespace below, and a copy of the mounts that belongs to it, in which none of them can be changed:
    /// with several users there is a root with capabilities.
    NestUsers {
        /// The map of uids: every id of the namespace above is itself.
        users: CString,
        /// The map of gids.
        groups: CString,
        /// Whether mounts that are made in the namespace above later, to cover names again, are to show.
        follow: bool,
    },
    /// All mounts stand. On a kernel without mount_setattr (before 5.12) they get their flags now.
    SealMounts,
    /// The name of the machine inside.
    Hostname {
        /// The name.
        name: CString,
    },
    /// Leave for a network namespace with nothing in it.
    OwnNetwork,
    /// The network that init was born in is the sandbox's own.
    BornInNetwork,
    /// Wait until the opening is done, and go over to the network that it made.
    EnterNetwork,
    /// The loopback interface of the new network namespace is brought up.
    LoopbackUp,
    /// A ready-made batch of netlink messages.
    Netlink {
        /// Which netlink family it speaks.
        protocol: u32,
        /// The messages.
        messages: Vec<u8>,
        /// How many acknowledgements to wait for.
        acknowledgements: u32,
    },
    /// A socket made inside the sandbox's network namespace and handed to the controller.
    Listen {
        /// `AF_INET` or `AF_INET6`.
        family: u32,
        /// `SOCK_STREAM` or `SOCK_DGRAM`.
        kind: u32,
        /// The address, as the kernel lays it out.
        address: Vec<u8>,
        /// Level, name and value of socket options to set before the bind.
        options: Vec<[u32; 3]>,
        /// What the controller serves it as.
        role: SocketRole,
    },
    /// A pseudo-terminal of the sandbox's own takes the place of the streams that are the caller's terminal. The
    /// controller gets its other side.
    Terminal {
        /// The kernel's `struct termios`: the modes that it starts with.
        modes: Vec<u8>,
        /// The kernel's `struct winsize`: rows, columns, and both in pixels.
        size: [u16; 4],
        /// Which descriptors it becomes.
        streams: Vec<u32>,
    },
    /// A device of the sandbox's own takes the place of the caller's descriptors of the same device.
    DeviceStream {
        /// Where, inside.
        path: CString,
        /// Which descriptors it becomes.
        streams: Vec<u32>,
    },
    /// The regular file behind standard input is opened again, to be read only, through a mount of the sandbox's own. The
    /// controller gets a copy of the descriptor. Where the path does not lead to the file, a pipe takes its place, and the
    /// controller gets the other end.
    InputFile {
        /// The host's path of the file.
        source: CString,
        /// Which file it has to be.
        identity: Identity,
        /// Where to read on.
        offset: u64,
    },
    /// The folder in which the command starts.
    ChangeDir {
        /// Where, inside.
        path: CString,
    },
    /// A resource limit of every process inside.
    Limit {
        /// The kernel's number of the resource.
        resource: u32,
        /// What is enforced.
        soft: u64,
        /// How far the command may raise it.
        hard: u64,
    },
    /// A limit on what all inside together may have of something that the kernel counts for each user.
    NamespaceLimit {
        /// Its file in `/proc/sys/user`.
        file: CString,
        /// How much.
        value: u64,
        /// Half of the number in this file instead, where it can be read; empty for none.
        half_of: CString,
    },
    /// Leave the caller's keys for an empty session keyring.
    OwnKeyring,
    /// The cgroups that init is in now are the root of what is seen of them inside. To be done after it has entered its
    /// own: a namespace that it was born into begins at its controller's, and shows the name of its own below that.
    OwnCgroups,
    /// Wait until the controller says go.
    AwaitController,
    /// No program started from here on gains anything from setuid bits or file capabilities.
    NoNewPrivileges,
    /// Landlock: a second lock on the same doors, which holds even where a mount would not.
    Landlock {
        /// The kernel's attributes: handled file rights, handled network rights, scopes.
        attributes: Vec<u64>,
        /// Rights below a path, inside.
        paths: Vec<(CString, u64)>,
        /// Rights on a TCP port.
        ports: Vec<(u16, u64)>,
    },
    /// All capability sets are emptied, the bounding set too.
    DropCapabilities,
    /// All capabilities but these are given up for good, by everybody inside: those of the root of several users.
    LimitCapabilities {
        /// A bit for each that is left.
        left: u64,
    },
    /// A seccomp filter, ready-made.
    Filter {
        /// Classic BPF instructions as the kernel lays them out.
        program: Vec<u8>,
        /// Hand the descriptor that hears of the filter's notifications to the controller.
        listener: bool,
        /// Wait until the controller says that it has taken hold of the paths it will be asked about.
        awaits: bool,
    },
    /// Report that the sandbox is ready, wait for a further part with steps, and perform it. The last step of a sandbox that
    /// is prepared before its command is known.
    Later,
    /// Receive descriptors over the link, and put them at these numbers. They come in one message.
    TakeDescriptors {
        /// Which numbers, in the order of the descriptors.
        numbers: Vec<u32>,
    },
    /// Report that the sandbox is ready, and run any number of commands in it, each by a leader of its own. The last step of a
    /// session.
    Session {
        /// The file rights of the Landlock layer that each command gets, which allows all of them everywhere: commands in
        /// different layers can neither trace each other nor look at each other's descriptors. 0 for none.
        layer: u64,
    },
}

/// A name to cover again in a sandbox that runs, because the host has put something else there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covering {
    /// Where, inside.
    pub target: CString,
    /// How.
    pub cover: Cover,
}

/// How a name is covered, so that what the host puts there is as protected as what was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// It is hidden.
    Hide,
    /// It can be read, and not written.
    Keep,
    /// It can be written, but not moved: something protected lies below it.
    Hold,
}

/// What may be done below a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read.
    Read,
    /// Read and write.
    Write,
    /// Use a device node.
    Device,
}

/// What is started, and how.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Command {
    /// Paths to try in turn, as a shell goes through `PATH`.
    pub candidates: Vec<CString>,
    /// Arguments, the name first.
    pub arguments: Vec<CString>,
    /// `NAME=value` pairs.
    pub environment: Vec<CString>,
    /// How the command stands to the sandbox's terminal.
    pub terminal: Terminal,
    /// After which time init ends everything by itself, whatever becomes of the controller's clock.
    pub time_limit: Option<Duration>,
    /// Descriptors above 2 that the command gets.
    pub keep: Vec<i32>,
    /// Whether init says nothing when the command starts, and only how it ends, or why it could not be started.
    pub starts_silently: bool,
    /// Which of several users it starts as.
    pub user: Option<CommandUser>,
}

/// Who a command is, of several users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CommandUser {
    /// Its uid inside.
    pub uid: u32,
    /// Its gid inside.
    pub gid: u32,
    /// Whether it has the caller's other groups.
    pub groups: bool,
    /// A bit for each capability that it has.
    pub capabilities: u64,
}

/// How the command stands to the sandbox's terminal, whose session is init's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Terminal {
    /// There is none: a session of its own.
    #[default]
    Detached,
    /// A process group of its own, in the background until it asks for the terminal.
    Background,
    /// A process group of its own that has the terminal from the start.
    Foreground,
}
