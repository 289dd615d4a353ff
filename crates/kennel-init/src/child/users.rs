//! Several users: the namespace below, and becoming one of them.
//!
//! PID 1 makes all mounts in the namespace it was born in, whose map the caller's subordinate ids are in. The command is to
//! have a root with a few capabilities, and none of them may mean anything for the mounts, the network, the host name or the
//! PID namespace. These belong to the namespace that PID 1 was born in, so PID 1 leaves for one below it in which every id is
//! itself. There it takes a copy of the mounts along, which the kernel locks as a whole.

use core::ffi::CStr;

use super::clone::{flag, while_beside};
use super::mounts::{READ_ONLY, number};
use super::sys::{self, Errno, Result, mount, open};
use super::wire::Reader;

/// The number of the process that holds the new namespace while it gets its maps: as for the one that makes the network, not
/// the one that people expect the command to have.
const NUMBER: i32 = 298;
const SIGKILL: i32 = 9;
const PR_CAPBSET_DROP: usize = 24;
const KILL: u64 = 1 << 5;
const SETPCAP: u64 = 1 << 8;

/// Writes the maps of this process, which has just come into its user namespace, of one id each. Blanks at the end are passed
/// over.
pub fn write_own_maps(user: &[u8], group: &[u8]) -> Result<()> {
    // Without this an unprivileged group map is refused: dropping a group could otherwise lift a restriction.
    for (path, text) in [
        (c"/proc/self/setgroups", &b"deny"[..]),
        (c"/proc/self/uid_map", user),
        (c"/proc/self/gid_map", group),
    ] {
        sys::write_all(sys::openat(sys::AT_FDCWD, path, open::WRONLY)?.raw(), text)?;
    }
    Ok(())
}

/// Leaves for a namespace below.
///
/// Who leaves a user namespace by itself has no rights any more in the one it left, and cannot map more than its own id. So a
/// second process is born in the new one, this one writes that one's maps, and follows.
pub(super) fn nest(fields: &mut Reader) -> Result<()> {
    let (users, groups, follow) = (fields.string()?, fields.string()?, fields.u8()? != 0);
    if follow {
        // The copy becomes a slave: what is mounted in the original shows there, and not the other way round.
        sys::mount(c"/", mount::MS_REC | mount::MS_SHARED)?;
    }
    // The one at /proc can only be read, or is hidden. This one is nowhere.
    let proc = sys::fsmount(&sys::fsopen(c"proc")?, (READ_ONLY & !mount::ATTR_RDONLY) | mount::ATTR_NOEXEC)?;
    // What a process that is not dumpable has in /proc belongs to the host's root.
    sys::set_dumpable(true)?;
    // A process that does nothing.
    while_beside(flag::NEWUSER, (NUMBER, true), &(), wait, |born| {
        let process = born?;
        let entered = enter(process, proc.raw(), users, groups);
        let _ = sys::kill(process, SIGKILL);
        let _ = sys::wait_for(process);
        entered
    })?;
    sys::unshare_mounts()
}

fn wait((): &()) {
    loop {
        let _ = sys::poll(&mut []);
    }
}

fn enter(process: i32, proc: i32, users: &CStr, groups: &CStr) -> Result<()> {
    let mut path = [0; 48];
    for (name, map) in [(c"/uid_map", users), (c"/gid_map", groups)] {
        let file = sys::openat(proc, file_of(process, name, &mut path)?, open::WRONLY)?;
        // In one write: the kernel takes a map once.
        if sys::write(file.raw(), map.to_bytes())? != map.to_bytes().len() {
            return Err(Errno::EINVAL);
        }
    }
    let namespace = sys::openat(proc, file_of(process, c"/ns/user", &mut path)?, open::RDONLY)?;
    // The change of credentials forgets the signal that ends this process with its controller.
    let at_death = sys::death_signal()?;
    sys::enter_namespace(namespace.raw(), flag::NEWUSER)?;
    sys::set_death_signal(at_death)
}

fn file_of<'b>(process: i32, name: &CStr, path: &'b mut [u8; 48]) -> Result<&'b CStr> {
    let mut digits = [0; 24];
    let digits = number(process as u64, 10, &mut digits).to_bytes();
    let name = name.to_bytes_with_nul();
    let end = digits.len() + name.len();
    path.get_mut(..digits.len()).ok_or(Errno::EINVAL)?.copy_from_slice(digits);
    path.get_mut(digits.len()..end).ok_or(Errno::EINVAL)?.copy_from_slice(name);
    CStr::from_bytes_with_nul(&path[..end]).map_err(|_| Errno::EINVAL)
}

/// Leaves everybody inside at most these capabilities. This process keeps one more until the command runs, for those that
/// start with none.
pub(super) fn limit_capabilities(fields: &mut Reader) -> Result<()> {
    const PR_SET_SECUREBITS: usize = 28;
    // Off, with their locks: NOROOT and NO_SETUID_FIXUP, so that user 0 has capabilities and who leaves it has none. On, with
    // its lock: NO_CAP_AMBIENT_RAISE, so that no program of another user has any. KEEP_CAPS is left to programs: what it
    // keeps is gone with the next exec.
    const SECUREBITS: usize = 0b1100_1010;
    let left = fields.u64()?;
    drop_bounding(left)?;
    sys::prctl(PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0)?;
    sys::capset(left | SETPCAP, left | SETPCAP, 0)
}

fn drop_bounding(left: u64) -> Result<()> {
    for capability in (0..64).filter(|capability| left & 1 << capability == 0) {
        match sys::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) {
            Ok(_) => {}
            // Past the last capability this kernel knows.
            Err(Errno::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What is left to PID 1 when the command runs: ending and stopping what belongs to other users.
pub(super) fn keep_only_kill() -> Result<()> {
    sys::capset(KILL, KILL, 0)?;
    sys::set_dumpable(false)
}

/// Who a command is.
#[derive(Clone, Copy)]
pub(super) struct UserFields {
    uid: u32,
    gid: u32,
    groups: bool,
    capabilities: u64,
}

impl UserFields {
    pub(super) fn read(reader: &mut Reader) -> Result<Option<UserFields>> {
        if reader.u8()? == 0 {
            return Ok(None);
        }
        let (uid, gid, groups, capabilities) =
            (reader.u32()?, reader.u32()?, reader.u8()? != 0, reader.u64()?);
        Ok(Some(UserFields { uid, gid, groups, capabilities }))
    }

    /// Becomes this user. In the child of a clone, before its exec.
    pub(super) fn become_it(&self) -> Result<()> {
        if !self.groups {
            sys::clear_groups()?;
        }
        sys::set_group(self.gid)?;
        if self.capabilities == 0 {
            drop_bounding(0)?;
        }
        sys::set_user(self.uid)?;
        sys::capset(self.capabilities, self.capabilities, 0)
    }
}
