//! Who the command is: the user and group maps of the new user namespace.

use std::ffi::CStr;
use std::io::Write;

use kennel_init::child::sys::{self, AT_FDCWD, Result, open};
use kennel_policy::policy::UserMode;

/// The two maps, written out beforehand so that the child only has to hand them to the kernel. In place: the child has
/// no heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdMaps {
    user: Line,
    group: Line,
}

/// `inside outside count`, then blanks, which the kernel skips.
type Line = [u8; 32];

impl IdMaps {
    /// The caller alone: as itself, or as user 0 of the namespace.
    #[must_use]
    pub fn of_caller(mode: UserMode) -> IdMaps {
        let line = |id: u32| {
            let inside = if mode == UserMode::Root { 0 } else { id };
            let mut line = [b' '; 32];
            // Two numbers of at most ten digits fit.
            let _ = write!(line.as_mut_slice(), "{inside} {id} 1");
            line
        };
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        IdMaps { user: line(user), group: line(group) }
    }

    /// What is written to `uid_map` and `gid_map`.
    pub(super) fn texts(&self) -> (&[u8], &[u8]) {
        (&self.user, &self.group)
    }

    /// Writes the maps of this process, which has just been born into its namespace.
    ///
    /// Allocates nothing; may run in a vfork child.
    pub(super) fn write(&self) -> Result<()> {
        // Without this an unprivileged group map is refused: dropping a group could otherwise lift a restriction.
        write_file(c"/proc/self/setgroups", b"deny")?;
        write_file(c"/proc/self/uid_map", &self.user)?;
        write_file(c"/proc/self/gid_map", &self.group)
    }
}

fn write_file(path: &CStr, text: &[u8]) -> Result<()> {
    let file = sys::openat2(AT_FDCWD, path, open::WRONLY, 0, 0)?;
    sys::write_all(file.raw(), text)
}
