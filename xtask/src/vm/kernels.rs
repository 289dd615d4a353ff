//! Which kernels the machines boot, and which Debian packages they come from.

/// The processor of a machine, in the words of those who ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    X86_64,
    Arm64,
}

impl Arch {
    pub fn from_word(word: &str) -> Option<Arch> {
        match word {
            "x86_64" | "amd64" => Some(Arch::X86_64),
            "arm64" | "aarch64" => Some(Arch::Arm64),
            _ => None,
        }
    }

    pub fn debian(self) -> &'static str {
        match self {
            Arch::X86_64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }

    pub fn rust(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64-unknown-linux-gnu",
            Arch::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }
}

/// A kernel of the matrix.
#[derive(Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What tables call it; the package's exact version is printed when it boots.
    pub name: &'static str,
    /// The Debian suite whose cloud kernel it is.
    pub suite: &'static str,
    /// The Debian suite whose programs and C library the machine has.
    pub land: &'static str,
    /// Whether the quick matrix has it.
    pub is_quick: bool,
}

/// The oldest first. Each is one of a Debian release or of its backports, which is where people meet them.
pub const KERNELS: &[Kernel] = &[
    // Before Landlock (5.13), mount_setattr (5.12) and unprivileged overlays (5.11); glibc 2.31.
    Kernel { name: "5.10", suite: "bullseye", land: "bullseye", is_quick: false },
    // Landlock ABI 2: no truncation, no network, no scopes.
    Kernel { name: "6.1", suite: "bookworm", land: "bookworm", is_quick: true },
    // Landlock ABI 6.
    Kernel { name: "6.12", suite: "bookworm-backports", land: "bookworm", is_quick: true },
    // Landlock ABI 10.
    Kernel { name: "7.2", suite: "trixie-backports", land: "trixie", is_quick: true },
];

pub fn kernel(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.name == name)
}
