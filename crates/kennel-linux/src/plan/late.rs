//! A set-up in two halves: what is performed before the job is known, and what is left for when it is.
//!
//! A sandbox that was prepared for a policy has performed the mounts of that policy's set-up, up to the steps that seal them.
//! The job that it is handed out for may show more, such as a workspace, and the disk is another day's. So the set-up of the
//! job is planned as if nothing had been done, and compared: what has been done must be a part of it, in the same order and
//! on the same files, and nothing that is left may cover anything that was done. Otherwise the sandbox is not for this job.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kennel_init::child::sys::MAX_FDS;

use super::{Caller, PlanError, Planned, Step, Steps, devices, working_directory};

/// What is left of the set-up of a job, after what has been performed of another's; `None` if that does not belong to it, or
/// what is left cannot be bound any more.
#[must_use]
pub fn left_of_job(performed: &[Planned], job: &[Planned]) -> Option<Vec<Planned>> {
    let is_held = |planned: &&Planned| matches!(planned.step, Step::HoldHost { .. });
    let is_own = |planned: &&Planned| {
        !matches!(planned.step, Step::HoldHost { .. } | Step::EnterNetwork | Step::Later)
    };
    let done: Vec<Planned> = performed.iter().filter(is_own).cloned().collect();
    let held: Vec<Planned> = performed.iter().filter(is_held).cloned().collect();
    let anew = done.iter().any(|planned| matches!(planned.step, Step::TmpfsRoot { .. }));
    steps_left(&done, job).filter(|left| can_be_bound(left, &held, anew))
}

/// All that comes late: what is left of the set-up, the descriptors of these numbers, the streams that are the sandbox's own, and
/// where the command starts.
///
/// # Errors
/// When a name cannot be passed to the kernel.
pub fn late_part(
    left: Vec<Planned>,
    numbers: &[u32],
    caller: &Caller,
    workdir: Option<&Path>,
) -> Result<Vec<Planned>, PlanError> {
    let mut steps = left;
    for some in numbers.chunks(MAX_FDS) {
        let reason = "the command's streams, and the descriptors that it keeps".to_owned();
        steps.push(Planned { step: Step::TakeDescriptors { numbers: some.to_vec() }, reason });
    }
    let mut own = Steps(steps);
    devices::streams(&mut own, caller);
    devices::terminal(&mut own, caller);
    if let Some(path) = workdir {
        own.0.push(working_directory(path)?);
    }
    Ok(own.0)
}

/// How many steps of a set-up can be performed before the job is known: all that come before the mounts are sealed.
#[must_use]
pub(super) fn steps_ahead(steps: &[Planned]) -> usize {
    let seals = |planned: &Planned| {
        matches!(planned.step, Step::ReadOnly { .. } | Step::PivotRoot | Step::SealMounts)
    };
    steps.iter().position(seals).unwrap_or(steps.len())
}

/// The folders of the host's that these steps cover, and from which a late step may bind. Where the root is made anew the host's
/// tree is there until the end.
#[must_use]
pub(super) fn covered_folders(steps: &[Planned]) -> Vec<Planned> {
    if !steps.iter().any(|planned| matches!(planned.step, Step::HostRoot { .. })) {
        return Vec::new();
    }
    let covered = steps.iter().filter_map(|planned| match &planned.step {
        Step::Private { target, .. } | Step::Tmpfs { target, .. } => Some(target),
        _ => None,
    });
    // What comes with kennel's own /dev is on the host's only by name.
    let own = |path: &&std::ffi::CString| !path.to_bytes().starts_with(b"/dev");
    let reason = "prepared before its command is known: what is bound late may come from here";
    let step = |path: &std::ffi::CString| Planned {
        step: Step::HoldHost { path: path.clone() },
        reason: reason.to_owned(),
    };
    covered.filter(own).take(kennel_init::child::MAX_HELD).map(step).collect()
}

/// Whether all that is left can be bound, with these folders held: what else is covered cannot be reached any more.
fn can_be_bound(left: &[Planned], held: &[Planned], root_anew: bool) -> bool {
    let is_held = |source: &CStr| {
        held.iter().any(|held| match &held.step {
            Step::HoldHost { path } => {
                let rest = source.to_bytes().strip_prefix(path.to_bytes());
                rest.is_some_and(|rest| rest.starts_with(b"/"))
            }
            _ => false,
        })
    };
    left.iter().all(|planned| match &planned.step {
        Step::Bind { source, early: true, .. } if !root_anew => is_held(source),
        Step::LayeredFolder { source, layer, .. } if !root_anew => is_held(source) && is_held(layer),
        _ => true,
    })
}

/// What is left of `job` after `done`; `None` if what was done does not belong to it.
fn steps_left(done: &[Planned], job: &[Planned]) -> Option<Vec<Planned>> {
    let (mounts, rest) = job.split_at(steps_ahead(job));
    let mut done_rest = done.iter();
    let mut next = done_rest.next();
    let mut left = Vec::new();
    for planned in mounts {
        match next {
            Some(done) if done.step == planned.step => next = done_rest.next(),
            _ => left.push(planned.clone()),
        }
    }
    let covers_nothing = |late: &Planned| match place(&late.step) {
        Some(place) => {
            !done.iter().filter_map(|done| self::place(&done.step)).any(|own| own.starts_with(place))
        }
        None => matches!(late.step, Step::HandOverStore),
    };
    if next.is_some() || !left.iter().all(covers_nothing) {
        return None;
    }
    left.extend_from_slice(rest);
    Some(left)
}

/// The path inside that a step changes, of those steps that may come late; `None` for all others.
fn place(step: &Step) -> Option<&Path> {
    let path: &CStr = match step {
        Step::Bind { target, .. }
        | Step::LayeredFolder { target, .. }
        | Step::Tmpfs { target, .. }
        | Step::Private { target, .. }
        | Step::MaskDir { target }
        | Step::MaskFile { target }
        | Step::CoverFile { target, .. }
        | Step::Proc { target }
        | Step::Devpts { target, .. } => target,
        Step::MakeDir { path, .. }
        | Step::MakeFile { path }
        | Step::Symlink { path, .. }
        | Step::WriteFile { path, .. } => path,
        _ => return None,
    };
    Some(Path::new(std::ffi::OsStr::from_bytes(path.to_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kennel_init::plan::{Access, Identity};

    fn bind(path: &str, inode: u64) -> Planned {
        let path = std::ffi::CString::new(path).expect("no NUL");
        let identity = Identity { inode, ..Identity::default() };
        let step =
            Step::Bind { source: path.clone(), identity, target: path, access: Access::Write, early: false };
        Planned { step, reason: String::new() }
    }

    fn mask(path: &str) -> Planned {
        let target = std::ffi::CString::new(path).expect("no NUL");
        Planned { step: Step::MaskDir { target }, reason: String::new() }
    }

    fn seal() -> Planned {
        Planned { step: Step::SealMounts, reason: String::new() }
    }

    #[test]
    fn what_was_done_is_left_out() {
        let done = [mask("/root")];
        let job = [bind("/home/me/work", 7), mask("/root"), mask("/home/me/work/.env"), seal()];
        let left = steps_left(&done, &job).expect("it fits");
        assert_eq!(left, [bind("/home/me/work", 7), mask("/home/me/work/.env"), seal()]);
        assert_eq!(steps_left(&done, &[mask("/root"), seal()]), Some(vec![seal()]));
        assert_eq!(steps_ahead(&job), 3);
    }

    #[test]
    fn what_was_done_on_other_files_is_for_no_job() {
        assert_eq!(steps_left(&[bind("/srv", 1)], &[bind("/srv", 2), seal()]), None);
        assert_eq!(steps_left(&[bind("/srv", 1)], &[seal()]), None);
        assert_eq!(steps_left(&[mask("/b"), mask("/a")], &[mask("/a"), mask("/b"), seal()]), None);
    }

    #[test]
    fn nothing_that_was_done_may_be_covered() {
        let done = [mask("/home/me/.ssh")];
        assert_eq!(steps_left(&done, &[bind("/home/me", 1), mask("/home/me/.ssh"), seal()]), None);
        assert_eq!(steps_left(&done, &[bind("/", 1), mask("/home/me/.ssh"), seal()]), None);
        assert!(steps_left(&done, &[bind("/home/me/.sshx", 1), mask("/home/me/.ssh"), seal()]).is_some());
    }

    #[test]
    fn a_root_of_another_kind_cannot_come_late() {
        let root = Planned { step: Step::TmpfsRoot { size: 1 }, reason: String::new() };
        assert_eq!(steps_left(&[mask("/a")], &[root, mask("/a"), seal()]), None);
    }
}
