//! The process that keeps a systemd scope from being empty.
//!
//! systemd removes a scope, with every cgroup below it, as soon as no process is inside. That is the moment
//! in which the sandbox has ended and its statistics are still to be read, and whether the memory limit ended
//! it is among them. So one process of the controller's stays inside, beside the sandbox's cgroup, until that
//! is done.
//!
//! It is no copy of the controller, which may be large: it shares the controller's memory and descriptors,
//! and does nothing but wait, in one system call and on a stack of its own, for the controller's end. The
//! kernel ends it with the controller's address space or the controller does; it leaves nothing behind.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, waitpid};

use crate::sys::files::numbered;
use crate::sys::signals::SignalsBlocked;

/// What one system call needs, with room to spare.
const STACK: usize = 32 * 1024;

#[derive(Debug)]
pub(super) struct Keeper {
    pid: Pid,
    /// In use by the keeper until it has ended.
    _stack: Box<[u8]>,
    _controller: OwnedFd,
}

impl Keeper {
    pub fn start() -> io::Result<Self> {
        let controller = pidfd_open(getpid(), PidfdFlags::empty())?;
        let mut stack = vec![0u8; STACK].into_boxed_slice();
        // A signal handler of the controller's must never run in the keeper, on that stack and beside its own
        // thread: the keeper inherits that all signals are blocked.
        let blocked = SignalsBlocked::new();
        // SAFETY: the stack grows down from the end of a buffer that outlives the keeper; the end of one is
        // aligned to 16 after rounding down. `keep` touches nothing but its argument, a number, and its own
        // stack.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(STACK);
            let top = top.sub(top as usize % 16).cast::<c_void>();
            let argument = controller.as_raw_fd() as usize as *mut c_void;
            libc::clone(keep, top, libc::CLONE_VM | libc::CLONE_FILES, argument)
        };
        let started = Pid::from_raw(pid.max(0)).ok_or_else(io::Error::last_os_error);
        drop(blocked);
        Ok(Self { pid: started?, _stack: stack, _controller: controller })
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::KILL);
        // It was started without a signal to its parent, so that no handler for children of the caller's
        // hears of it; __WALL is what waits for such a one. Nobody else can have reaped it without asking for it by name.
        let all = WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());
        while matches!(waitpid(Some(self.pid), all), Err(rustix::io::Errno::INTR)) {}
    }
}

/// What the keeper does. It shares the memory of a thread that goes on meanwhile, `errno` included: only
/// calls that write neither, which are rustix's own.
extern "C" fn keep(controller: *mut c_void) -> c_int {
    // It stays open as long as the keeper lives.
    let Some(controller) = numbered(controller as usize as c_int) else { return 0 };
    loop {
        match poll(&mut [PollFd::from_borrowed_fd(controller, PollFlags::IN)], None) {
            Err(rustix::io::Errno::INTR) => {}
            _ => return 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_there(pid: Pid) -> bool {
        rustix::process::test_kill_process(pid).is_ok()
    }

    #[test]
    fn it_stays_until_it_is_dropped_and_then_it_is_gone() {
        let keeper = Keeper::start().unwrap();
        let pid = keeper.pid();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
        assert!(status.contains("State:\tS"), "{status}");
        assert!(!status.contains("SigBlk:\t0000000000000000"), "{status}");
        drop(keeper);
        assert!(!is_there(pid));
    }

    #[test]
    fn it_outlives_the_thread_that_started_it() {
        let keeper = std::thread::spawn(|| Keeper::start().unwrap()).join().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(is_there(keeper.pid()));
    }

    /// Not a test: a controller for the next one.
    #[test]
    #[ignore = "run by another test, in a process of its own"]
    fn be_killed_with_a_keeper() {
        let keeper = Keeper::start().unwrap();
        println!("\nKEEPER {}", keeper.pid().as_raw_nonzero());
        kill_process(getpid(), Signal::KILL).unwrap();
    }

    #[test]
    fn it_ends_with_a_controller_that_is_killed() {
        let path = format!("{}::be_killed_with_a_keeper", module_path!().split_once("::").unwrap().1);
        let controller = std::process::Command::new("/proc/self/exe")
            .args([&path, "--exact", "--ignored", "--nocapture"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&controller.stdout);
        let pid =
            said.lines().find_map(|line| line.strip_prefix("KEEPER ")).unwrap_or_else(|| panic!("{said}"));
        let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
        // It is nobody's child now; whoever reaps orphans here may take a moment.
        let gone = |pid: Pid| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while !gone(pid) {
            assert!(std::time::Instant::now() < deadline, "the keeper lives on");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
