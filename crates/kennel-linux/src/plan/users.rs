//! The steps of a sandbox with several users.

use std::ffi::CString;
use std::path::Path;

use kennel_init::plan::{CommandUser, Step};
use kennel_policy::policy::ProcessPolicy;

use super::{Basis, PlanError, Steps, c_path};
use crate::landlock::{Place, Right};
use crate::resolve::{State, UserFile, Zone};
use crate::users::{UserMaps, Which};

const REASON: &str = "process.users";

/// What the root of several users can do. Each is for files and processes of users inside; none is about mounts, the network,
/// devices or the kernel, which belong to another user namespace anyway. docs/isolation.md has the list with reasons, and what is
/// not in it.
const ROOT: u64 = {
    const CHOWN: u64 = 1 << 0;
    const DAC_OVERRIDE: u64 = 1 << 1;
    const FOWNER: u64 = 1 << 3;
    const FSETID: u64 = 1 << 4;
    const KILL: u64 = 1 << 5;
    const SETGID: u64 = 1 << 6;
    const SETUID: u64 = 1 << 7;
    CHOWN | DAC_OVERRIDE | FOWNER | FSETID | KILL | SETGID | SETUID
};

/// To be added before anything is made.
pub(super) fn root_owns(steps: &mut Steps, basis: &Basis) {
    if let Some(maps) = basis.users {
        steps.add(Step::RootOwns { masks: maps.outsider() }, REASON);
    }
}

/// Homes, `/etc/passwd` and `/etc/group`. To be added while what is made can still be written.
pub(super) fn files(steps: &mut Steps, basis: &Basis, places: &mut Vec<Place>) -> Result<(), PlanError> {
    if basis.users.is_none() {
        return Ok(());
    }
    for UserFile { path, contents, exists } in &basis.resolved.user_files {
        let (path, contents) = (c_path(path)?, contents.clone().into_bytes());
        let step = match exists {
            true => Step::CoverFile { target: path, contents },
            false => Step::WriteFile { path, contents, mode: 0o444 },
        };
        steps.add(step, REASON);
    }
    let own_run = |path: &Path, state: &State| path == Path::new("/run") && *state == State::Fresh(Zone::Run);
    if !basis.resolved.points.iter().any(|point| own_run(&point.path, &point.state)) {
        return Ok(());
    }
    for user in &basis.policy.process.users {
        let path = c_path(Path::new(&user.home()))?;
        steps.add(Step::MakeDir { path: path.clone(), mode: 0o755 }, REASON);
        let name = CString::new(format!("home-{}", user.name)).unwrap_or_default();
        let (uid, gid) = (user.uid, user.gid);
        steps.add(Step::Home { target: path.clone(), name, uid, gid }, REASON);
        places.push(Place { path, folder: true, right: Right::Write });
    }
    Ok(())
}

/// The namespace in which the command runs. To be added when everything is made that belongs to the one above.
pub(super) fn nest(steps: &mut Steps, maps: &UserMaps, follow: bool) -> Result<(), PlanError> {
    let map = |which| super::c_string(maps.identity(which).as_ref(), "a map of ids");
    let (users, groups) = (map(Which::Users)?, map(Which::Groups)?);
    steps.add(Step::NestUsers { users, groups, follow }, "their root may change no mount");
    Ok(())
}

/// What is left to everybody inside.
pub(super) fn capabilities(steps: &mut Steps) {
    steps.add(Step::LimitCapabilities { left: ROOT }, REASON);
}

/// Who the command is.
pub(super) fn command(process: &ProcessPolicy) -> Option<CommandUser> {
    let user = process.starts_as()?;
    Some(CommandUser {
        uid: user.uid,
        gid: user.gid,
        // Who is the caller has what the caller's groups may read.
        groups: process.callers_user() == Some(user),
        capabilities: if user.uid == 0 { ROOT } else { 0 },
    })
}
