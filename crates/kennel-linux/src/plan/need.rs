//! What each step needs of the host: what a refusal of it says, and so what can be tried instead.

use kennel_init::plan::Step;

/// What a step needs that some hosts do not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// One more namespace. The kernel counts them, and a container's filter or AppArmor may deny them.
    Namespace,
    /// Power in the sandbox's own namespaces, over nothing of the host's. AppArmor lets the clone through and denies this.
    OwnPower,
    /// A fresh /proc, which the kernel refuses in containers that mask parts of theirs.
    FreshProc,
    /// Netfilter and routes, which need a kernel that has them.
    Netlink,
    /// A file system above a root folder, which some kernels and some folders do not allow.
    Layer,
    /// A file: one of the host's, whose own permissions count, or room for one of the sandbox's own.
    File,
    /// Nothing that a host denies while it gives the rest.
    Nothing,
}

/// What `step` needs. Without a rest, so that a new step says it too.
#[must_use]
pub fn need(step: &Step) -> Need {
    match step {
        Step::OwnNetwork | Step::EnterNetwork | Step::OwnCgroups | Step::NestUsers { .. } => Need::Namespace,
        Step::PrivateMounts
        | Step::HostRoot { .. }
        | Step::TmpfsRoot { .. }
        | Step::Store { .. }
        | Step::Devpts { .. }
        | Step::PivotRoot
        | Step::SealMounts
        | Step::Hostname { .. }
        | Step::LoopbackUp => Need::OwnPower,
        Step::Proc { .. } => Need::FreshProc,
        Step::Netlink { .. } => Need::Netlink,
        Step::Layer { .. } | Step::LayeredRoot { .. } => Need::Layer,
        Step::BoundRoot { .. }
        | Step::Freeze { .. }
        | Step::Private { .. }
        | Step::Tmpfs { .. }
        | Step::MakeDir { .. }
        | Step::MakeFile { .. }
        | Step::Symlink { .. }
        | Step::WriteFile { .. }
        | Step::Bind { .. }
        | Step::LayeredFolder { .. }
        | Step::HoldHost { .. }
        | Step::MaskDir { .. }
        | Step::MaskFile { .. }
        | Step::CoverFile { .. }
        | Step::ProcEntries { .. }
        | Step::ReadOnly { .. }
        | Step::Home { .. }
        | Step::InputFile { .. }
        | Step::DeviceStream { .. }
        | Step::ChangeDir { .. } => Need::File,
        Step::HandOverRoot
        | Step::HandOverStore
        | Step::RootOwns { .. }
        | Step::BornInNetwork
        | Step::Listen { .. }
        | Step::Terminal { .. }
        | Step::Limit { .. }
        | Step::Share { .. }
        | Step::NamespaceLimit { .. }
        | Step::OwnKeyring
        | Step::AwaitController
        | Step::NoNewPrivileges
        | Step::Landlock { .. }
        | Step::DropCapabilities
        | Step::LimitCapabilities { .. }
        | Step::Filter { .. }
        | Step::Later
        | Step::TakeDescriptors { .. }
        | Step::Session { .. } => Need::Nothing,
    }
}
