//! Removing what a killed controller left behind.
//!
//! A controller that gets SIGKILL takes its sandbox with it, but nobody removes the cgroup. The next one
//! does. The kernel makes this safe: a cgroup with a process in it cannot be removed. The one that could be
//! hit wrongly is a cgroup that was just made and is still empty; it bears the name of a living process, and
//! is left alone for that.

use rustix::process::geteuid;

use super::controller::Controller;
use super::delegate::{candidates, legacy_parents};
use super::dir::Dir;
use super::hierarchy::Hierarchies;
use super::kill::DEPTH;
use super::name::{Owner, proc_is_ours};

/// Removes the empty cgroups of controllers of this user that have ended, where the caller would make its
/// own. Returns how many directories went. Costs a look at each hierarchy, and more where there is something
/// below it.
pub fn sweep() -> usize {
    let (Ok(hierarchies), Ok(observer)) = (Hierarchies::of_caller(), Owner::current()) else { return 0 };
    if !proc_is_ours() {
        return 0;
    }
    let unified = hierarchies.unified.iter().flat_map(candidates).map(std::path::Path::to_owned);
    let legacy = hierarchies
        .legacy
        .iter()
        .filter(|(controllers, _)| Controller::ALL.into_iter().any(|c| controllers.contains(c)))
        .flat_map(|(_, seat)| legacy_parents(seat));
    unified.chain(legacy).map(|parent| sweep_below(&parent, &observer)).sum()
}

fn sweep_below(parent: &std::path::Path, observer: &Owner) -> usize {
    // A directory of the cgroup file system has two links and one for each directory in it.
    if rustix::fs::stat(parent).map_or(true, |status| status.st_nlink <= 2) {
        return 0;
    }
    let Ok(dir) = Dir::open(parent) else { return 0 };
    let Ok(names) = dir.children() else { return 0 };
    names
        .into_iter()
        .filter(|name| Owner::of(name).is_some_and(|owner| owner.is_gone(observer)))
        .filter(|name| dir.child(name).is_ok_and(|inner| is_mine(&inner)))
        .filter(|name| dir.remove_tree(name, DEPTH).is_ok())
        .count()
}

fn is_mine(dir: &Dir) -> bool {
    rustix::fs::fstat(dir.fd()).is_ok_and(|status| status.st_uid == geteuid().as_raw())
}
