//! From root to the agent's user, with no way back.
//!
//! The order matters: groups, then the group, then the user, because only root may change the first two. Each call is
//! checked, and then its effect is, because what follows runs somebody else's code: system call filters may answer
//! "success" for a call that they left out, and kernels can be told (securebits) that a change of user keeps
//! capabilities.

use alloc::string::ToString;
use core::ffi::CStr;

use crate::passwd::{self, User};
use crate::report::Trouble;
use crate::sys::{self, Errno};

const DROPPING: &str = "dropping privileges";

/// Becomes the user `name`, if this process is root.
///
/// Not being root, and there being no such user, are warnings: the agent then runs as whoever this process is.
pub fn drop_to(name: &CStr, strict: bool) -> Result<(), Trouble> {
    let name = name.to_bytes();
    // Any of the three is enough to become root again.
    if !sys::user_ids().contains(&0) {
        return Trouble::new(DROPPING, name, "not running as root")
            .help("only root can change users: start the container as root, or without AGENT_STRICT as the user meant")
            .tolerate(strict, "the agent keeps the current user");
    }
    let Some(user) = passwd::look_up(name)? else {
        return Trouble::new(DROPPING, name, "user not found in /etc/passwd")
            .help("create the user in the image, or set AGENT_USER to one that exists")
            .tolerate(strict, "the agent keeps the current user, root");
    };
    if user.uid == 0 {
        Trouble::new(DROPPING, name, "this user is root")
            .help("set AGENT_USER to an ordinary user")
            .tolerate(strict, "the agent keeps root's privileges")?;
    }
    if user.gid == 0 && user.uid != 0 {
        Trouble::new(DROPPING, name, "this user's group is root's")
            .help("give the user a group of its own in /etc/passwd")
            .tolerate(strict, "the agent has what root's group has")?;
    }
    become_user(user)?;
    // A change of user resets this to a system-wide default.
    sys::forbid_dumping();
    verify(user)
}

fn become_user(user: User) -> Result<(), Trouble> {
    let failed = |doing: &'static str, id: u32| {
        move |errno: Errno| {
            Trouble::new(doing, id.to_string(), errno.text()).help(
                "the container needs CAP_SETGID and CAP_SETUID, and the user's ids mapped in its user namespace; \
                 or start it as that user",
            )
        }
    };
    sys::set_groups(&[user.gid]).map_err(failed("setgroups", user.gid))?;
    sys::set_group(user.gid).map_err(failed("setgid", user.gid))?;
    sys::set_user(user.uid).map_err(failed("setuid", user.uid))?;
    if user.uid != 0 {
        // The kernel has just emptied the permitted and effective sets, unless securebits told it not to. The
        // inheritable set it leaves alone: with it, a program with file capabilities would gain some back.
        sys::clear_capabilities().map_err(failed("clearing capabilities", user.uid))?;
    }
    Ok(())
}

/// Checks the outcome and not the answers: all three user ids, all three group ids, the supplementary groups, the
/// capabilities, and finally that going back is refused.
fn verify(user: User) -> Result<(), Trouble> {
    let refuse = |what: &'static str| {
        Err(Trouble::new("checking that root was given up", user.uid.to_string(), what)
            .help("the kernel or a system call filter of the container runtime did not do as it was told"))
    };
    if sys::user_ids() != [user.uid; 3] {
        return refuse("a user id did not change");
    }
    if sys::group_ids() != [user.gid; 3] {
        return refuse("a group id did not change");
    }
    if !sys::only_group_is(user.gid) {
        return refuse("the supplementary groups did not change");
    }
    if user.uid == 0 {
        return Ok(());
    }
    if sys::has_capabilities() {
        return refuse("capabilities were kept");
    }
    if sys::set_user(0).is_ok() || sys::user_ids() != [user.uid; 3] {
        return refuse("setuid(0) was not refused");
    }
    if user.gid != 0 && (sys::set_group(0).is_ok() || sys::group_ids() != [user.gid; 3]) {
        return refuse("setgid(0) was not refused");
    }
    Ok(())
}
