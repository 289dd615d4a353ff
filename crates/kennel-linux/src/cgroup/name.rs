//! The names of sandboxes' cgroups, which say whose they are.
//!
//! `kennel-sandbox-<pid namespace>-<pid>-<start time>-<n>`: a controller that was killed cannot remove its
//! cgroup, so the next one has to see from the name alone whether the owner still lives. A PID by itself
//! would not do: it is reused (hence the start time), and it means something else in another PID namespace
//! (hence the namespace).

use std::fmt;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, getpid, test_kill_process};

use crate::read::read_whole;

const PREFIX: &str = "kennel-sandbox-";

/// The process that made a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// Inode number of its PID namespace.
    namespace: u64,
    pid: i32,
    /// When it started, in clock ticks since boot.
    start: u64,
}

impl Owner {
    /// The calling process. What it costs to find out is paid once, and again after a fork.
    pub fn current() -> io::Result<Self> {
        static KNOWN: Mutex<Option<Owner>> = Mutex::new(None);
        let pid = getpid().as_raw_nonzero().get();
        let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match *known {
            Some(owner) if owner.pid == pid => Ok(owner),
            _ => Ok(*known.insert(Self {
                namespace: rustix::fs::stat("/proc/self/ns/pid")?.st_ino,
                pid,
                start: start_time("self")?,
            })),
        }
    }

    /// A name for a new cgroup, unlike every other that this process gives or gave.
    pub fn fresh_name(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!("{self}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The owner that a name speaks of; none if the name is not one that kennel gives.
    pub fn of(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let mut number = || -> Option<u64> {
            let part = parts.next()?;
            part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok()).flatten()
        };
        let (namespace, pid, start, _serial) = (number()?, number()?, number()?, number()?);
        if parts.next().is_some() {
            return None;
        }
        Some(Self { namespace, pid: i32::try_from(pid).ok().filter(|pid| *pid > 0)?, start })
    }

    /// Whether this process has certainly ended. Whatever cannot be told counts as living.
    ///
    /// `observer` is the calling process, which must see the owner's PID namespace to know anything.
    pub fn is_gone(&self, observer: &Self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        if self.namespace != observer.namespace {
            return false;
        }
        // The signal test comes first: /proc may hide other users' processes (hidepid), kill(2) does not.
        match test_kill_process(pid) {
            Err(rustix::io::Errno::SRCH) => true,
            _ => start_time(&self.pid.to_string()).is_ok_and(|start| start != self.start),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}-{}-{}", self.namespace, self.pid, self.start)
    }
}

/// Whether `/proc` numbers processes as `kill` does. It does not where a new PID namespace kept the old
/// `/proc`.
pub(super) fn proc_is_ours() -> bool {
    std::fs::read_link("/proc/self").is_ok_and(|link| link.to_str() == Some(&getpid().to_string()))
}

fn start_time(pid: &str) -> io::Result<u64> {
    parse_start_time(&read_whole(&format!("/proc/{pid}/stat"))?)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Field 22 of `/proc/<pid>/stat`. Field 2 is the program's name in brackets and may itself hold spaces and
/// brackets, so that fields are counted from the last closing one.
fn parse_start_time(stat: &[u8]) -> Option<u64> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = std::str::from_utf8(&stat[after_name..]).ok()?;
    rest.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_says_who_made_it() {
        let owner = Owner::current().unwrap();
        let (first, second) = (owner.fresh_name(), owner.fresh_name());
        assert_ne!(first, second);
        assert_eq!(Owner::of(&first), Some(owner));
        assert!(!owner.is_gone(&owner));
    }

    #[test]
    fn names_of_others_have_no_owner() {
        for name in [
            "",
            "user.slice",
            "kennel-sandbox-",
            "kennel-sandbox-1-2-3",
            "kennel-sandbox-1-2-3-4-5",
            "kennel-sandbox-1-0-3-4",
            "kennel-sandbox-1--2-3-4",
            "kennel-sandbox-1-+2-3-4",
            "kennel-sandbox-1-99999999999-3-4",
            "kennel-sandbox-1-2-3-4.scope",
        ] {
            assert_eq!(Owner::of(name), None, "{name}");
        }
    }

    #[test]
    fn a_process_that_ended_is_gone_and_so_is_one_whose_number_was_reused() {
        let me = Owner::current().unwrap();
        let mut child = std::process::Command::new("/proc/self/exe")
            .arg("--list")
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        child.wait().unwrap();
        assert!(Owner { pid, ..me }.is_gone(&me));
        assert!(Owner { start: me.start + 1, ..me }.is_gone(&me));
    }

    #[test]
    fn a_process_of_another_namespace_counts_as_living() {
        let me = Owner::current().unwrap();
        assert!(!Owner { namespace: me.namespace + 1, pid: i32::MAX, start: 0 }.is_gone(&me));
    }

    #[test]
    fn the_start_time_is_found_behind_any_program_name() {
        let fields = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";
        for name in ["sh", "a) b (c", ") ) )", "x\u{7f}"] {
            assert_eq!(parse_start_time(format!("42 ({name}) {fields}").as_bytes()), Some(777), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_start_time(&bytes);
            let _ = Owner::of(&String::from_utf8_lossy(&bytes));
            let _ = Owner::of(&format!("{PREFIX}{}", String::from_utf8_lossy(&bytes)));
        }
    }
}
