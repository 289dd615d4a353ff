//! Who the command is: the user and group maps of the new user namespace.

use std::io::Write;

use kennel_init::child::sys::Result;
use kennel_init::child::users::write_own_maps;
use kennel_init::report::Order;
use kennel_policy::policy::UserMode;

use super::{Init, LaunchError};
use crate::link;
use crate::users::UserMaps;

/// The two maps of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdMaps {
    /// The caller alone, which the child writes itself. Written out beforehand, so that it only has to hand them to the
    /// kernel. In place: the child has no heap.
    Caller {
        /// Of its uid.
        user: Line,
        /// Of its gid.
        group: Line,
    },
    /// Several users, which somebody else has to write while the child waits.
    Several(UserMaps),
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
        IdMaps::Caller { user: line(user), group: line(group) }
    }

    /// What is written to `uid_map` and `gid_map`, where that is the caller alone.
    pub(super) fn texts(&self) -> Option<(&[u8], &[u8])> {
        match self {
            IdMaps::Caller { user, group } => Some((user, group)),
            IdMaps::Several(_) => None,
        }
    }

    /// Writes the maps of this process, which has just been born into its namespace, if it can do so itself. Whether it
    /// could: otherwise it has to wait until its controller says go.
    ///
    /// Allocates nothing; may run in a vfork child.
    pub(super) fn write(&self) -> Result<bool> {
        let IdMaps::Caller { user, group } = self else { return Ok(false) };
        write_own_maps(user, group).map(|()| true)
    }

    /// Has the maps of several users written for a child that waits for them, and lets it go on.
    pub(super) fn complete(&self, init: Init) -> std::result::Result<Init, LaunchError> {
        let IdMaps::Several(maps) = self else { return Ok(init) };
        let written = maps.write_for(init.pid).map_err(LaunchError::Users);
        let told = written.and_then(|()| Ok(link::order(&init.link, Order::Go, &[])?));
        match told {
            Ok(()) => Ok(init),
            Err(error) => {
                init.end();
                Err(error)
            }
        }
    }
}
