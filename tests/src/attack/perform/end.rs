//! The end of a run: kennel ends in time, and nothing of the sandbox is left.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::ear::Ear;
use super::{HANG, Outcome};
use crate::attack::oracle::Finding;
use crate::attack::script::Run;

/// How long the kernel may take to clear away what is dead.
pub(super) const CLEARING: Duration = Duration::from_secs(5);

/// Waits for kennel's end, but not for ever.
pub(super) fn wait(child: &mut Child, outcome: &mut Outcome) {
    let deadline = Instant::now() + HANG;
    let pid = rustix::process::Pid::from_child(child);
    let Ok(pidfd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else { return };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let time = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&time));
        if ended.is_ok_and(|count| count > 0) {
            let status = child.wait();
            outcome.code =
                status.ok().map(|status| status.code().unwrap_or(128 + status.signal().unwrap_or(0)));
            return;
        }
        if left.is_zero() {
            outcome.findings.push(Finding::new("hang", "kennel", &format!("it still ran after {HANG:?}")));
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
    }
}

/// What a sandbox could leave: processes, which are all children of this one by now; whoever holds its pipes; mounts;
/// cgroups.
pub(super) fn remains(child: &Child, ear: &Ear, mounts: &[u8], run: &Run, outcome: &mut Outcome) {
    let deadline = Instant::now() + CLEARING;
    loop {
        // SAFETY: takes no pointer but a null one.
        match unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) } {
            0 if Instant::now() > deadline => {
                outcome.findings.push(Finding::new(
                    "remains",
                    "a process",
                    "something of the sandbox runs on",
                ));
                kill_children();
                break;
            }
            0 => std::thread::sleep(Duration::from_micros(300)),
            pid if pid > 0 => {}
            _ => break,
        }
    }
    ear.wait(CLEARING, |_| false);
    if !ear.lock().over {
        outcome.findings.push(Finding::new(
            "remains",
            "a pipe",
            "somebody still holds what the sandbox was given",
        ));
    }
    let after = fs::read("/proc/self/mountinfo").unwrap_or_default();
    if after != mounts {
        // By their numbers: the host may have moved a folder that has mounts in it.
        let (before, after) = (String::from_utf8_lossy(mounts), String::from_utf8_lossy(&after));
        let number = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        // Others may mount and unmount on this machine.
        let area = outcome.top.to_string_lossy().into_owned();
        let known: BTreeSet<String> = before.lines().map(number).collect();
        for mount in after.lines().filter(|line| line.contains(&area) && !known.contains(&number(line))) {
            outcome.findings.push(Finding::new("remains", "a mount", mount));
        }
    }
    if run.flags.iter().any(|(flag, _)| matches!(flag.as_str(), "--memory" | "--pids" | "--cpus")) {
        let mark = format!("-{}-", child.id());
        let left = crate::leftovers::cgroups(Path::new("/sys/fs/cgroup"));
        for folder in left.iter().filter(|folder| folder.to_string_lossy().contains(&mark)) {
            outcome.findings.push(Finding::new("remains", "a cgroup", &folder.to_string_lossy()));
        }
    }
}

/// Ends what is left, so that the next history starts clean.
fn kill_children() {
    let children =
        fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id())).unwrap_or_default();
    for pid in children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()) {
        // SAFETY: plain calls on children of this process, which have not been waited for.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL);
        }
    }
}
