//! The steps that take powers away. Their order is the plan's; each can only narrow what is left.

use super::files::place;
use super::sys::{self, Errno, Result};
use super::wire::Reader;
use crate::report::Report;
use crate::role::DescriptorRole;

pub(super) fn limit(fields: &mut Reader) -> Result<()> {
    sys::set_limit(fields.u32()?, fields.u64()?, fields.u64()?)
}

/// Lowers a limit to the sandbox's share.
pub(super) fn share(fields: &mut Reader) -> Result<()> {
    let (resource, most, half) = (fields.u32()?, fields.u64()?, fields.u8()? != 0);
    let [soft, hard] = sys::get_limit(resource)?;
    let most = if half && hard != u64::MAX { most.min(hard / 2) } else { most };
    if most == u64::MAX { Ok(()) } else { sys::set_limit(resource, soft.min(most), most) }
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
    sys::landlock_restrict(rules.raw())
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

/// Puts the filter on. From here on this process is under it too, and makes no name that the controller would have to
/// be asked about.
pub(super) fn filter(fields: &mut Reader, link: i32) -> Result<()> {
    const NEW_LISTENER: usize = 1 << 3;
    const WAIT_KILLABLE: usize = 1 << 5;
    let (program, listens, awaits) = (fields.bytes()?, fields.u8()? != 0, fields.u8()? != 0);
    if !listens {
        return sys::seccomp_filter(program, 0).map(drop);
    }
    // With WAIT_KILLABLE a call that the controller has begun to look at is not interrupted by signals, which would
    // restart it without end under a runtime that preempts its threads by signals. Linux 5.19.
    let listener = match sys::seccomp_filter(program, NEW_LISTENER | WAIT_KILLABLE) {
        Err(Errno::EINVAL) => sys::seccomp_filter(program, NEW_LISTENER),
        other => other,
    }?;
    // Dropped here. With a copy left inside, calls would wait for ever when the controller's is gone, instead of
    // failing; and whoever took this process over could answer them.
    let listener = sys::Fd(listener as i32);
    let report = Report::Descriptor { role: DescriptorRole::Notifications };
    sys::send_with_fd(link, &report.encode(), listener.raw())?;
    drop(listener);
    // The guard takes hold of the paths it knows: a command that ran already could put something else there.
    if awaits { super::orders::await_go(link) } else { Ok(()) }
}
