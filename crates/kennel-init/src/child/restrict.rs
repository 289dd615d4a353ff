//! The steps that take powers away. Their order is the plan's; each can only narrow what is left.

use super::files::place;
use super::sys::{self, Errno, Result};
use super::wire::Reader;

pub(super) fn limit(fields: &mut Reader) -> Result<()> {
    sys::set_limit(fields.u32()?, fields.u64()?, fields.u64()?)
}

pub(super) fn no_new_privileges() -> Result<()> {
    const PR_SET_NO_NEW_PRIVS: usize = 38;
    sys::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).map(drop)
}

pub(super) fn landlock(fields: &mut Reader, root: i32) -> Result<()> {
    let mut attributes = [0u64; 8];
    let count = fields.count()?;
    for attribute in attributes.get_mut(..count).ok_or(Errno::EPROTO)? {
        *attribute = fields.u64()?;
    }
    let rules = sys::landlock_create(&attributes[..count])?;
    for _ in 0..fields.count()? {
        let (path, access) = (fields.string()?, fields.u64()?);
        sys::landlock_allow_path(&rules, place(root, path)?.raw(), access)?;
    }
    for _ in 0..fields.count()? {
        let (port, access) = (fields.u32()?, fields.u64()?);
        sys::landlock_allow_port(&rules, port as u16, access)?;
    }
    sys::landlock_restrict(&rules)
}

/// Empties every set. The bounding set goes first: it is what a program of user 0 would get its capabilities from.
pub(super) fn drop_capabilities() -> Result<()> {
    const PR_CAPBSET_DROP: usize = 24;
    const PR_SET_SECUREBITS: usize = 28;
    const PR_CAP_AMBIENT: usize = 47;
    const PR_CAP_AMBIENT_CLEAR_ALL: usize = 4;
    // NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, each with its lock, and the lock of KEEP_CAPS.
    const SECUREBITS: usize = 0b1110_1111;
    for capability in 0..64 {
        match sys::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) {
            Ok(_) => {}
            // Past the last capability this kernel knows.
            Err(Errno::EINVAL) => break,
            // Without a user namespace an ordinary user has nothing to drop, and no way to gain (NoNewPrivileges).
            Err(Errno::EPERM) if capability == 0 => return sys::capset(0, 0, 0),
            Err(error) => return Err(error),
        }
    }
    sys::prctl(PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0)?;
    sys::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)?;
    sys::capset(0, 0, 0)
}

pub(super) fn filter(fields: &mut Reader) -> Result<()> {
    sys::seccomp_filter(fields.bytes()?, 0).map(drop)
}
