//! What a sandbox could leave on a host: processes, mounts, cgroups, files. Each is looked for where the host keeps it,
//! not where kennel says it put it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The mounts and cgroups of this host, and the names that hold `kennel` where programs put temporary things.
#[derive(Debug)]
pub struct Host(BTreeSet<String>);

impl Host {
    /// As it stands.
    #[must_use]
    pub fn now() -> Host {
        let mut found = BTreeSet::new();
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("/proc shows this process's mounts");
        found.extend(mounts.lines().map(|line| format!("mount {line}")));
        found.extend(
            cgroups(Path::new("/sys/fs/cgroup")).iter().map(|path| format!("cgroup {}", path.display())),
        );
        for folder in ["/tmp", "/dev/shm", "/run", "/dev/mqueue"] {
            found.extend(ours_in(Path::new(folder)).iter().map(|path| format!("file {}", path.display())));
        }
        Host(found)
    }

    /// What is there now and was not then.
    #[must_use]
    pub fn grown(&self) -> Vec<String> {
        Host::now().0.difference(&self.0).cloned().collect()
    }

    /// The same, once a host that is still tearing something down has had time to.
    #[must_use]
    pub fn left(&self) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let grown = self.grown();
            if grown.is_empty() || Instant::now() > deadline {
                return grown;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Every cgroup below `top` whose name holds `kennel`.
#[must_use]
pub fn cgroups(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![top.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().contains("kennel") {
                    found.push(entry.path());
                }
                folders.push(entry.path());
            }
        }
    }
    found
}

/// Entries of a folder that are kennel's by their name, and no test's.
fn ours_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.contains("kennel") && !name.contains("kennel-test")
        })
        .map(|entry| entry.path())
        .collect()
}

/// A number of seconds for `sleep` that no other process on this host has among its arguments. Whoever still has it
/// when the value goes is killed: a test that fails leaves nothing on the machine either.
#[derive(Debug)]
pub struct Sleep(String);

/// Makes one.
#[must_use]
pub fn unique_sleep() -> Sleep {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    Sleep(format!("86399.{:07}{:04}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
}

impl std::fmt::Display for Sleep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::ops::Deref for Sleep {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let own = std::process::id().cast_signed();
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            let found = processes_with(&self.0);
            let pids = found.iter().filter_map(|line| line.split(':').next()?.parse::<i32>().ok());
            let others: Vec<i32> = pids.filter(|pid| *pid != own).collect();
            if others.is_empty() {
                return;
            }
            for pid in others {
                // SAFETY: a plain call, on a process that has this test's own number among its arguments.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
    }
}

/// Processes, in whatever namespace, that have `marker` among their arguments.
#[must_use]
pub fn processes_with(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc is mounted").flatten() {
        if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        if let Ok(line) = fs::read(entry.path().join("cmdline")) {
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(marker) {
                found.push(format!("{}: {line}", entry.file_name().display()));
            }
        }
    }
    found
}

/// Waits until no process has `marker` among its arguments; returns those that stay.
#[must_use]
pub fn processes_left_with(marker: &str) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let found = processes_with(marker);
        if found.is_empty() || Instant::now() > deadline {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes this process the one that inherits every orphan below it: from now on no descendant can get away, and
/// [`reap_everything`] proves that none is left.
pub fn adopt_orphans() {
    // SAFETY: a plain call that sets a flag of this process.
    let result = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    assert_eq!(result, 0, "every kernel since 3.4 has subreapers");
}

/// Waits until this process has no child at all; returns the children that stay. Only for processes that no other
/// test shares, after [`adopt_orphans`].
#[must_use]
pub fn reap_everything(limit: Duration) -> Vec<String> {
    let deadline = Instant::now() + limit;
    loop {
        // SAFETY: takes no pointer but a null one.
        match unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) } {
            0 if Instant::now() > deadline => return children(),
            0 => std::thread::sleep(Duration::from_millis(10)),
            pid if pid > 0 => {}
            _ => return Vec::new(),
        }
    }
}

/// The children of all threads of a process, by their numbers.
#[must_use]
pub fn children_of(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .flat_map(|task| {
            let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
        })
        .collect()
}

/// Everything that descends from these processes, by its number.
#[must_use]
pub fn descendants_of(mut left: Vec<u32>) -> Vec<u32> {
    let mut found = Vec::new();
    while let Some(pid) = left.pop() {
        let children = children_of(pid);
        found.extend(&children);
        left.extend(children);
    }
    found
}

/// This process's children, in the words of /proc.
fn children() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let mut found = Vec::new();
    for task in tasks {
        for pid in fs::read_to_string(task.path().join("children")).unwrap_or_default().split_whitespace() {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state: Vec<&str> = stat.split(' ').take(3).collect();
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            found.push(format!(
                "{} [{}]",
                state.join(" "),
                String::from_utf8_lossy(&line).replace('\0', " ")
            ));
        }
    }
    found
}
