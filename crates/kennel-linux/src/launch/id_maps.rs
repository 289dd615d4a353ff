//! Who the command is: the user and group maps of the new user namespace.

use std::ffi::CStr;
use std::fmt::Write;

use kennel_init::child::sys::{self, AT_FDCWD, Result, open};
use kennel_policy::policy::UserMode;

/// The two maps, written out beforehand so that the child only has to hand them to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdMaps {
    user: String,
    group: String,
}

impl IdMaps {
    /// The caller alone: as itself, or as user 0 of the namespace.
    #[must_use]
    pub fn of_caller(mode: UserMode) -> IdMaps {
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let line = |id: u32| {
            let inside = if mode == UserMode::Root { 0 } else { id };
            let mut text = String::with_capacity(24);
            let _ = writeln!(text, "{inside} {id} 1");
            text
        };
        IdMaps { user: line(user), group: line(group) }
    }

    /// Writes the maps of this process, which has just been born into its namespace.
    ///
    /// Allocates nothing; may run in a vfork child.
    pub(super) fn write(&self) -> Result<()> {
        // Without this an unprivileged group map is refused: dropping a group could otherwise lift a restriction.
        write(c"/proc/self/setgroups", b"deny")?;
        write(c"/proc/self/uid_map", self.user.as_bytes())?;
        write(c"/proc/self/gid_map", self.group.as_bytes())
    }
}

fn write(path: &CStr, text: &[u8]) -> Result<()> {
    let file = sys::openat2(AT_FDCWD, path, open::WRONLY, 0, 0)?;
    sys::write_all(file.raw(), text)
}
