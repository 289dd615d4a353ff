//! How much of a sandbox a host gives: the launcher and the planner go by it.

/// How much of a sandbox this host gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Tier {
    /// Namespaces, mounts, Landlock, seccomp.
    #[default]
    Full,
    /// All of it, but the host's own /proc, because a container masks parts of it.
    HostProc,
    /// Landlock and seccomp only, where namespaces are denied.
    LandlockOnly,
}
