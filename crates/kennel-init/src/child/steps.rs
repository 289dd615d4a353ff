//! The steps of a plan, one row each: what it is called, and what it has to say, in the order in which that travels.
//!
//! From the rows come the type that planners use ([`plan::Step`](crate::plan::Step)), the bytes that init is sent, and the tags by
//! which it tells them apart. Init itself reads the fields of a step where they lie, in this order.

/// Hands the rows to another macro.
macro_rules! each_step {
    ($take:ident) => {
        $take! {
            /// Cut every mount off from the host's, so that neither side sees what the other mounts from now on.
            PrivateMounts,
            /// The root is this namespace's copy of the host's mount tree, changed in place: what stands at another path
            /// is mounted over, and nothing needs to be unmounted.
            HostRoot { access: Access = "What may be done in it." },
            /// The root is an empty file system in memory; [`Step::PivotRoot`] makes it the only one.
            TmpfsRoot { size: u64 = "The most bytes it holds." },
            /// A layer in memory, for what is written to a root whose folder stays as it is. The steps up to [`Step::LayeredRoot`]
            /// make in it what later steps mount on.
            Layer { size: u64 = "The most bytes it holds.", inodes: u64 = "The most files it holds." },
            /// The root is a folder of the host's with the layer above it; [`Step::PivotRoot`] makes it the only one.
            LayeredRoot {
                source: CString = "The host's path, free of symlinks.",
                identity: Identity = "What the planner saw there.",
            },
            /// The root is a folder of the host's, read-only; [`Step::PivotRoot`] makes it the only one.
            BoundRoot {
                source: CString = "The host's path, free of symlinks.",
                identity: Identity = "What the planner saw there.",
            },
            /// The controller gets the root, to watch over names that are to stay absent in it.
            HandOverRoot,
            /// A part of the new root can be written no more, and cannot be moved.
            Freeze { target: CString = "Where, inside." },
            /// One file system in memory for all that kennel makes for the sandbox: the private folders, what later steps hide
            /// things with, files with other contents. A later step mounts over it.
            Store {
                target: CString = "Where, inside, until it is covered.",
                size: u64 = "The most bytes it holds.",
                inodes: u64 = "The most files it holds.",
            },
            /// The controller gets the store, to hide with what is in it whatever the host puts in a hidden name's place later.
            HandOverStore,
            /// A fresh folder of the store appears.
            Private {
                target: CString = "Where, inside.",
                name: CString = "Its name in the store.",
                mode: u32 = "Its permissions.",
            },
            /// An empty file system in memory.
            Tmpfs {
                target: CString = "Where, inside.",
                size: u64 = "The most bytes it holds.",
                inodes: u64 = "The most files it holds.",
                mode: u32 = "Permissions of its top folder.",
            },
            /// A folder, with any parents that are missing; one that exists is left as it is.
            MakeDir { path: CString = "Where, inside.", mode: u32 = "Permissions." },
            /// An empty file to mount on; one that exists is left as it is.
            MakeFile { path: CString = "Where, inside." },
            /// A symbolic link.
            Symlink { path: CString = "Where, inside.", points_to: CString = "What it says." },
            /// A small file with given contents.
            WriteFile { path: CString = "Where, inside.", contents: Vec<u8> = "What it holds.", mode: u32 = "Permissions." },
            // The target comes first in every mounting step: the old-kernel way of making things read-only reads it.
            /// A part of the host's tree appears inside.
            Bind {
                target: CString = "Where, inside.",
                access: Access = "What may be done below it.",
                source: CString = "The host's path, free of symlinks.",
                identity: Identity = "What the planner saw there; anything else by now means that somebody swapped it.",
                early: bool = "Whether an earlier step covers the source, so that it has to be taken hold of before all others.",
            },
            /// A folder of the host's appears inside with a layer above it that takes what is written, or the layer alone where the
            /// kernel makes no overlay of the two. Both sources are taken hold of before anything is mounted.
            LayeredFolder {
                target: CString = "Where, inside.",
                source: CString = "The host's path of the folder, free of symlinks.",
                identity: Identity = "What the planner saw there.",
                layer: CString = "The host's path of the layer: a folder with `u`, `w` and `p`, where the upper and the work folder of \
                    the overlay are, and what stands in its place.",
                layer_identity: Identity = "What the planner saw there.",
            },
            /// A folder of the host's is held, because it is about to be covered and late steps may bind from it.
            HoldHost { path: CString = "Where, on the host." },
            /// A folder is hidden: in its place stands an empty one.
            MaskDir { target: CString = "Where, inside." },
            /// A file is hidden: in its place stands one that nobody may open.
            MaskFile { target: CString = "Where, inside." },
            /// A file shows other contents than the host's.
            CoverFile { target: CString = "Where, inside; it exists.", contents: Vec<u8> = "What it holds." },
            /// The process file system of the new PID namespace. Its files can be written, as far as their permissions go.
            Proc { target: CString = "Where, inside." },
            /// What of a process file system can be seen and written: of the kernel's own entries only those that are known.
            ProcEntries {
                target: CString = "Where it is, inside.",
                write: bool = "Whether what belongs to processes can be written, as far as permissions go. Otherwise nothing can.",
                left: Vec<&'static CStr> = "Entries that are left as they are.",
                read_only: Vec<&'static CStr> = "Entries that can only be read.",
            },
            /// Pseudo-terminals of the sandbox's own.
            Devpts { target: CString = "Where, inside.", most: u32 = "The most terminals there are." },
            /// A mount made by an earlier step can be written no more.
            ReadOnly { target: CString = "Where, inside." },
            /// The new root becomes `/` and the old one is gone.
            PivotRoot,
            /// From here on what is made in file systems of the sandbox's own belongs to user 0: with several users, init is another.
            RootOwns {
                masks: (u32, u32) = "Who has what hidden files are covered with: somebody whom the command's namespace does not have, so \
                    that not even its root opens it.",
            },
            /// The home folder of one of several users: a fresh folder of the store that is its own.
            Home {
                target: CString = "Where, inside.",
                name: CString = "Its name in the store.",
                uid: u32 = "Its owner.",
                gid: u32 = "The owner's group.",
            },
            /// Leave for a user namespace below, and a copy of the mounts that belongs to it, in which none of them can be changed:
            /// with several users there is a root with capabilities.
            NestUsers {
                users: CString = "The map of uids: every id of the namespace above is itself.",
                groups: CString = "The map of gids.",
                follow: bool = "Whether mounts that are made in the namespace above later, to cover names again, are to show.",
            },
            /// All mounts stand. On a kernel without mount_setattr (before 5.12) they get their flags now.
            SealMounts,
            /// The name of the machine inside.
            Hostname { name: CString = "The name." },
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
                protocol: u32 = "Which netlink family it speaks.",
                messages: Vec<u8> = "The messages.",
                acknowledgements: u32 = "How many acknowledgements to wait for.",
            },
            /// A socket made inside the sandbox's network namespace and handed to the controller.
            Listen {
                family: u32 = "`AF_INET` or `AF_INET6`.",
                kind: u32 = "`SOCK_STREAM` or `SOCK_DGRAM`.",
                address: Vec<u8> = "The address, as the kernel lays it out.",
                options: Vec<[u32; 3]> = "Level, name and value of socket options to set before the bind.",
                role: u32 = "The number that the controller knows it by, less than [`crate::role::FIRST_OF_INIT`].",
            },
            /// A pseudo-terminal of the sandbox's own takes the place of the streams that are the caller's terminal. The
            /// controller gets its other side.
            Terminal {
                modes: Vec<u8> = "The kernel's `struct termios`: the modes that it starts with.",
                size: [u16; 4] = "The kernel's `struct winsize`: rows, columns, and both in pixels.",
                streams: Vec<u32> = "Which descriptors it becomes.",
            },
            /// A device of the sandbox's own takes the place of the caller's descriptors of the same device.
            DeviceStream { path: CString = "Where, inside.", streams: Vec<u32> = "Which descriptors it becomes." },
            /// The regular file behind standard input is opened again, to be read only, through a mount of the sandbox's own. The
            /// controller gets a copy of the descriptor. Where the path does not lead to the file, a pipe takes its place, and the
            /// controller gets the other end.
            InputFile {
                source: CString = "The host's path of the file.",
                identity: Identity = "Which file it has to be.",
                offset: u64 = "Where to read on.",
            },
            /// The folder in which the command starts.
            ChangeDir { path: CString = "Where, inside." },
            /// A resource limit of every process inside.
            Limit {
                resource: u32 = "The kernel's number of the resource.",
                soft: u64 = "What is enforced.",
                hard: u64 = "How far the command may raise it.",
            },
            /// A resource limit of every process inside is lowered to the sandbox's share of what the kernel counts for the user in all
            /// namespaces, and others of the user need some of. One that is lower already stays.
            Share {
                resource: u32 = "The kernel's number of the resource.",
                most: u64 = "The most that the command may raise it to.",
                half: bool = "Whether it is at most half of what the caller may have, too.",
            },
            /// A limit on what all inside together may have of something that the kernel counts for each user.
            NamespaceLimit {
                file: CString = "Its file in `/proc/sys/user`.",
                value: u64 = "How much.",
                half_of: CString = "Half of the number in this file below `/proc` instead, where it can be read; empty for none.",
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
                attributes: Vec<u64> = "The kernel's attributes: handled file rights, handled network rights, scopes.",
                paths: Vec<(CString, u64)> = "Rights below a path, inside.",
                ports: Vec<(u16, u64)> = "Rights on a TCP port.",
            },
            /// All capability sets are emptied, the bounding set too.
            DropCapabilities,
            /// All capabilities but these are given up for good, by everybody inside: those of the root of several users.
            LimitCapabilities { left: u64 = "A bit for each that is left." },
            /// A seccomp filter, ready-made.
            Filter {
                program: Vec<u8> = "Classic BPF instructions as the kernel lays them out.",
                listener: bool = "Hand the descriptor that hears of the filter's notifications to the controller.",
                awaits: bool = "Wait until the controller says that it has taken hold of the paths it will be asked about.",
            },
            /// Report that the sandbox is ready, wait for a further part with steps, and perform it. The last step of a sandbox that
            /// is prepared before its command is known.
            Later,
            /// Receive descriptors over the link, and put them at these numbers. They come in one message.
            TakeDescriptors { numbers: Vec<u32> = "Which numbers, in the order of the descriptors." },
            /// Report that the sandbox is ready, and run any number of commands in it, each by a leader of its own. The last step of a
            /// session.
            Session {
                layer: u64 = "The file rights of the Landlock layer that each command gets, which allows all of them everywhere: commands in \
                    different layers can neither trace each other nor look at each other's descriptors. 0 for none.",
            },
        }
    };
}

/// The first byte of an encoded step.
macro_rules! tags {
    ($($(#[doc = $what:literal])+ $name:ident $({ $($field:ident: $kind:ty = $about:literal),+ $(,)? })?,)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs, reason = "as the step")]
        pub enum Tag {
            $($name,)*
        }

        const ALL: &[Tag] = &[$(Tag::$name,)*];
    };
}

each_step!(tags);

impl Tag {
    /// From what arrived; `None` if there is no such step.
    #[must_use]
    pub fn of(byte: u8) -> Option<Tag> {
        ALL.get(usize::from(byte)).copied()
    }
}

#[allow(unused_imports, reason = "init as a program of its own only reads plans")]
pub(crate) use each_step;
