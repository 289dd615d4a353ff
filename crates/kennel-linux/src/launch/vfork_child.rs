//! The few instructions between a library's clone and the exec of init.
//!
//! They run in the caller's memory while its thread is suspended, so: no allocation, no locks, no libc, no panics,
//! no unwinding. Everything was built before; what is left is a dozen system calls.

use kennel_init::child::sys::{self, Errno, Result};

use super::IdMaps;

/// What the child needs, and where it says why it failed.
pub(super) struct Orders<'a> {
    pub ids: Option<&'a IdMaps>,
    /// Descriptors that become 0, 1 and 2.
    pub stdio: [i32; 3],
    /// Init's socket and its number in the new program.
    pub link: (i32, i32),
    /// Descriptors of the caller's that the command gets, under their own numbers.
    pub keep: &'a [i32],
    /// Whether to leave the caller's process group.
    pub own_group: bool,
    /// Init's program.
    pub program: i32,
    pub arguments: [*const u8; 4],
    pub failure: Option<Failure>,
}

/// What went wrong in the child.
#[derive(Clone, Copy)]
pub(super) enum Failure {
    IdMaps(Errno),
    Exec(Errno),
}

/// The child's whole life.
pub(super) fn run(orders: &mut Orders) -> ! {
    if let Some(ids) = orders.ids
        && let Err(errno) = ids.write().and_then(|written| keep_capabilities(!written))
    {
        orders.failure = Some(Failure::IdMaps(errno));
        sys::exit(1);
    }
    if orders.own_group {
        let _ = sys::setpgid(0, 0);
    }
    let errno = match arrange(orders) {
        Ok(program) => sys::execveat(program, &orders.arguments, &[core::ptr::null()]),
        Err(errno) => errno,
    };
    orders.failure = Some(Failure::Exec(errno));
    sys::exit(1)
}

/// An exec by anyone but user 0 drops all capabilities; init needs a few of the namespace's to set it up.
/// For several users it changes owners, and writes the maps of a namespace below.
fn keep_capabilities(several_users: bool) -> Result<()> {
    const PR_CAP_AMBIENT: usize = 47;
    const PR_CAP_AMBIENT_RAISE: usize = 2;
    const SETPCAP: usize = 8;
    const NET_BIND_SERVICE: usize = 10;
    const NET_ADMIN: usize = 12;
    const SYS_ADMIN: usize = 21;
    const SYS_RESOURCE: usize = 24;
    const CHOWN: usize = 0;
    const DAC_OVERRIDE: usize = 1;
    const FOWNER: usize = 3;
    const SETGID: usize = 6;
    const SETUID: usize = 7;
    const SETFCAP: usize = 31;
    // DAC_OVERRIDE for overlays, whose own work folder nobody may look into without.
    const KEPT: [usize; 6] = [SETPCAP, NET_BIND_SERVICE, NET_ADMIN, SYS_ADMIN, SYS_RESOURCE, DAC_OVERRIDE];
    const FOR_USERS: [usize; 5] = [CHOWN, FOWNER, SETGID, SETUID, SETFCAP];
    let kept = || KEPT.iter().chain(if several_users { &FOR_USERS[..] } else { &[] });
    let set = kept().fold(0u64, |set, capability| set | 1 << capability);
    sys::capset(set, set, set)?;
    for capability in kept() {
        sys::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, *capability, 0, 0)?;
    }
    Ok(())
}

/// Puts every descriptor where the new program expects it. First all are copied out of the way, because a target
/// number may be another's source.
fn arrange(orders: &Orders) -> Result<i32> {
    let clear = orders.keep.iter().fold(16, |most, fd| most.max(fd + 1)).max(orders.link.1 + 1);
    let mut stdio = orders.stdio;
    for fd in &mut stdio {
        *fd = sys::dup_above(*fd, clear)?;
    }
    let link = sys::dup_above(orders.link.0, clear)?;
    let program = sys::dup_above(orders.program, clear)?;
    for (to, from) in (0..).zip(stdio) {
        sys::dup3(from, to, false)?;
    }
    sys::dup3(link, orders.link.1, false)?;
    for fd in orders.keep {
        sys::set_cloexec(*fd, false)?;
    }
    Ok(program)
}
