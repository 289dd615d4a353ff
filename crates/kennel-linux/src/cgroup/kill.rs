//! Killing every process of a cgroup by its number, for kernels without `cgroup.kill`.
//!
//! A number that was read from `cgroup.procs` may belong to another process by the time it is used. So each
//! process is first held by a pidfd, and killed through it only if the cgroup still lists the number then: a
//! process whose pidfd is held and whose number is listed after that is the one that was listed before.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::dir::Dir;

/// How deep cgroups below a sandbox's are looked for. kennel makes none; a program that was given a cgroup
/// file system of its own might.
pub(super) const DEPTH: u32 = 16;

/// Sends SIGKILL to all processes of `dir` and of the cgroups below it.
pub(super) fn kill_listed(dir: &Dir) -> io::Result<()> {
    hold(dir, DEPTH, &mut |process| {
        // ESRCH: it ended by itself.
        let _ = pidfd_send_signal(process, Signal::KILL);
    })
}

/// Calls `each` with a pidfd of every process of `dir` and of the cgroups below it.
pub(super) fn hold(dir: &Dir, depth: u32, each: &mut dyn FnMut(&OwnedFd)) -> io::Result<()> {
    let held: Vec<(i32, OwnedFd)> = dir
        .processes()?
        .into_iter()
        .filter_map(|number| Some((number, pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?)))
        .collect();
    if !held.is_empty() {
        let still = dir.processes()?;
        held.iter().filter(|(number, _)| still.contains(number)).for_each(|(_, process)| each(process));
    }
    if depth > 0 {
        for child in dir.children()? {
            // A cgroup that is gone by now holds nothing to kill.
            if let Ok(inner) = dir.child(&child) {
                hold(&inner, depth - 1, each)?;
            }
        }
    }
    Ok(())
}
