//! The limits against real processes, on whatever hierarchies this host has.
//!
//! They run as root, as a user with a delegated cgroup, and on v1 and v2 alike; a host that offers the caller
//! no cgroup has them skipped, and says so, unless `KENNEL_TEST_NEEDS_CGROUPS` is set, as where it is known
//! to offer one. [`an_ordinary_user_gets_what_an_administrator_granted`] runs them all again as another user.

use std::io::Write as _;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::*;

const MIB: u64 = 1 << 20;

const NOWHERE: [PathBuf; 0] = [];

/// The tests measure time and count directories, so they run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The cgroup, or nothing and the reason why the test is skipped.
fn cgroup(limits: &CgroupLimits) -> Option<Cgroup> {
    match Cgroup::create(limits, true) {
        Ok(cgroup) => Some(cgroup),
        Err(error @ (CgroupError::Missing(_) | CgroupError::NoPlace { .. } | CgroupError::Scope { .. }))
            if std::env::var_os("KENNEL_TEST_NEEDS_CGROUPS").is_none() =>
        {
            println!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_number_of_cpus_has_the_bounds_that_settings_have() {
    let check = |cpus| CgroupLimits { cpus: Some(cpus), ..CgroupLimits::default() }.check();
    for cpus in [0.01, 1.5, 65536.0] {
        assert!(check(cpus).is_ok() && kennel_policy::quantity::cpus(&cpus.to_string()).is_ok(), "{cpus}");
    }
    for cpus in [0.0, -1.0, 0.009, 65537.0, 100_000.0, f64::INFINITY, f64::NAN] {
        assert!(check(cpus).is_err() && kennel_policy::quantity::cpus(&cpus.to_string()).is_err(), "{cpus}");
    }
}

fn memory(mib: u64) -> CgroupLimits {
    CgroupLimits { memory: Some(mib * MIB), ..CgroupLimits::default() }
}

/// A process that waits to be let go and then does `work`, whose value is its exit status.
struct Worker {
    pid: Pid,
    gate: Option<OwnedFd>,
}

impl Worker {
    fn new(work: impl FnOnce() -> i32) -> Self {
        Self::born_in(None, work)
    }

    /// `work` runs after a fork of a program with threads: it may make system calls, but not allocate or
    /// lock.
    fn born_in(birthplace: Option<BorrowedFd<'_>>, work: impl FnOnce() -> i32) -> Self {
        let (wait, gate) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let mut request: libc::clone_args = unsafe_zeroed();
        request.exit_signal = libc::SIGCHLD as u64;
        if let Some(dir) = birthplace {
            request.flags = CLONE_INTO_CGROUP;
            request.cgroup = dir.as_raw_fd() as u64;
        }
        // SAFETY: without CLONE_VM this is a fork; the child goes on with a copy of this stack and, as the
        // caller promises, makes only system calls until it exits.
        let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const request, size_of_val(&request)) };
        if pid == 0 {
            drop(gate);
            let _ = rustix::io::read(&wait, &mut [0u8; 1]);
            let status = work();
            // SAFETY: ends the process without running anything of the parent's.
            unsafe { libc::_exit(status) }
        }
        let error = std::io::Error::last_os_error();
        let pid =
            i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap_or_else(|| panic!("clone3: {error}"));
        Self { pid, gate: Some(gate) }
    }

    fn go(&mut self) {
        self.gate = None;
    }

    fn wait(mut self) -> WaitStatus {
        self.go();
        rustix::process::waitpid(Some(self.pid), WaitOptions::empty()).unwrap().unwrap().1
    }

    fn status_file(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.pid.as_raw_nonzero())).unwrap()
    }
}

fn unsafe_zeroed() -> libc::clone_args {
    // SAFETY: the structure consists of integers, for which all zeroes are a value.
    unsafe { std::mem::zeroed() }
}

/// Uses so much memory, page by page.
fn fill(bytes: u64) -> i32 {
    // SAFETY: a fresh private mapping that nothing else points into; each write stays below its length.
    unsafe {
        let length = bytes as usize;
        let (read_write, private) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let start = libc::mmap(std::ptr::null_mut(), length, read_write, private, -1, 0).cast::<u8>();
        if start.cast() == libc::MAP_FAILED {
            return 99;
        }
        for page in (0..length).step_by(4096) {
            start.add(page).write_volatile(1);
        }
    }
    0
}

/// Forks a process that does `work`.
fn fork(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: called by a worker, which has one thread; the child makes only system calls.
    unsafe {
        let request = libc::clone_args { exit_signal: libc::SIGCHLD as u64, ..unsafe_zeroed() };
        match libc::syscall(libc::SYS_clone3, &raw const request, size_of_val(&request)) {
            0 => libc::_exit(work()),
            pid => pid as i32,
        }
    }
}

fn pause() -> i32 {
    // SAFETY: waits for a signal.
    unsafe { libc::pause() }
}

fn spin(time: Duration) -> i32 {
    let end = Instant::now() + time;
    while Instant::now() < end {}
    0
}

/// Uses so much CPU time, however long that takes on a busy machine.
fn work(time: Duration) -> i32 {
    let spent = || {
        let mut clock = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes the time to the variable it is given.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut clock) };
        Duration::new(clock.tv_sec as u64, clock.tv_nsec as u32)
    };
    while spent() < time {}
    0
}

/// All directories that belong to this process, on every hierarchy.
fn own_directories() -> Vec<PathBuf> {
    let me = Owner::current().unwrap();
    let hierarchies = Hierarchies::of_caller().unwrap();
    let unified = hierarchies.unified.iter().flat_map(|seat| seat.upwards().map(std::path::Path::to_owned));
    let legacy = hierarchies.legacy.iter().flat_map(|(_, seat)| delegate::legacy_parents(seat));
    let mut found = Vec::new();
    for parent in unified.chain(legacy) {
        let Ok(dir) = Dir::open(&parent) else { continue };
        found.extend(
            dir.children()
                .unwrap()
                .iter()
                .filter(|name| Owner::of(name) == Some(me))
                .map(|name| dir.file(name)),
        );
    }
    found
}

#[track_caller]
fn assert_nothing_left(stats: &FinalStats) {
    assert_eq!(stats.left_behind, NOWHERE);
    assert_eq!(own_directories(), NOWHERE);
}

#[test]
fn a_memory_hog_is_killed_and_the_kill_is_counted() {
    let _turn = alone();
    let Some(mut cgroup) = cgroup(&memory(32)) else { return };
    let hog = Worker::new(|| fill(256 * MIB));
    cgroup.admit(hog.pid).unwrap();
    let started = Instant::now();
    assert_eq!(hog.wait().terminating_signal(), Some(Signal::KILL.as_raw()));
    println!("killed after {:?}", started.elapsed());
    let stats = cgroup.finish();
    assert!(stats.oom_kills.unwrap() >= 1, "{stats:?}");
    assert!(stats.killed_by_own_memory_limit(), "{stats:?}");
    assert!((16 * MIB..=33 * MIB).contains(&stats.peak_memory.unwrap()), "{stats:?}");
    assert_nothing_left(&stats);
}

#[test]
fn a_watched_memory_hog_is_told_of_and_not_slowed_down_on_its_way_to_the_limit() {
    let _turn = alone();
    let Some(mut cgroup) = cgroup(&memory(64)) else { return };
    let mut hog = Worker::new(|| fill(256 * MIB));
    cgroup.admit(hog.pid).unwrap();
    let Some(pressure) = cgroup.watch_pressure().unwrap() else {
        println!("SKIPPED: cgroup v1 has no mark below the limit");
        return;
    };
    hog.go();
    let started = Instant::now();
    let mut poll = [rustix::event::PollFd::from_borrowed_fd(pressure.fd(), rustix::event::PollFlags::PRI)];
    let mut was_told = false;
    while cgroup.oom_kills() == Some(0) && started.elapsed() < Duration::from_secs(20) {
        let patience = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        if rustix::event::poll(&mut poll, Some(&patience)).unwrap() > 0 {
            was_told |= pressure.relieve().unwrap();
        }
    }
    assert_eq!(hog.wait().terminating_signal(), Some(Signal::KILL.as_raw()));
    println!("killed after {:?}", started.elapsed());
    assert!(was_told);
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_nothing_left(&cgroup.finish());
}

#[test]
fn a_sigkill_by_somebody_else_is_not_taken_for_the_memory_limit() {
    let _turn = alone();
    let Some(mut cgroup) = cgroup(&memory(64)) else { return };
    let mut victim = Worker::new(|| fill(8 * MIB) + pause());
    cgroup.admit(victim.pid).unwrap();
    victim.go();
    rustix::process::kill_process(victim.pid, Signal::KILL).unwrap();
    assert_eq!(victim.wait().terminating_signal(), Some(Signal::KILL.as_raw()));
    let stats = cgroup.finish();
    assert_eq!(stats.oom_kills, Some(0));
    assert!(!stats.killed_by_own_memory_limit());
    assert_nothing_left(&stats);
}

#[test]
fn the_parent_of_a_killed_hog_goes_on_if_one_process_is_to_go() {
    let _turn = alone();
    let limits = CgroupLimits { oom: OomScope::OneProcess, ..memory(32) };
    let Some(mut cgroup) = cgroup(&limits) else { return };
    let parent = Worker::new(|| {
        let hog = fork(|| fill(256 * MIB));
        let mut status = 0;
        // SAFETY: waits for the worker's own child.
        unsafe { libc::waitpid(hog, &raw mut status, 0) };
        if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL { 7 } else { 8 }
    });
    cgroup.admit(parent.pid).unwrap();
    assert_eq!(parent.wait().exit_status(), Some(7));
    let stats = cgroup.finish();
    assert_eq!(stats.oom_kills, Some(1));
    assert_nothing_left(&stats);
}

#[test]
fn the_whole_sandbox_goes_with_a_killed_hog_on_v2() {
    let _turn = alone();
    let Some(mut cgroup) = cgroup(&memory(32)) else { return };
    if Hierarchies::of_caller().unwrap().legacy_seat(Controller::Memory).is_some() {
        println!("SKIPPED: cgroup v1 has no group kill");
        return;
    }
    let parent = Worker::new(|| {
        fork(|| fill(256 * MIB));
        pause()
    });
    cgroup.admit(parent.pid).unwrap();
    assert_eq!(parent.wait().terminating_signal(), Some(Signal::KILL.as_raw()));
    let stats = cgroup.finish();
    assert!(stats.oom_kills.unwrap() >= 2, "{stats:?}");
    assert_nothing_left(&stats);
}

#[test]
fn filling_a_file_in_memory_counts_as_memory() {
    let _turn = alone();
    let Some(mut cgroup) = cgroup(&memory(32)) else { return };
    let writer = Worker::new(|| {
        // SAFETY: a new file, written from a buffer that lives longer.
        unsafe {
            let file = libc::memfd_create(c"filled".as_ptr(), 0);
            let block = [1u8; 65536];
            for _ in 0..(256 * MIB / 65536) {
                libc::write(file, block.as_ptr().cast(), block.len());
            }
        }
        0
    });
    cgroup.admit(writer.pid).unwrap();
    assert_eq!(writer.wait().terminating_signal(), Some(Signal::KILL.as_raw()));
    let stats = cgroup.finish();
    assert!(stats.killed_by_own_memory_limit(), "{stats:?}");
    assert_nothing_left(&stats);
}

#[test]
fn no_more_processes_than_the_limit_can_be() {
    let _turn = alone();
    let Some(mut cgroup) = cgroup(&CgroupLimits { pids: Some(8), ..CgroupLimits::default() }) else { return };
    let parent = Worker::new(|| (0..50).filter(|_| fork(pause) > 0).count() as i32);
    cgroup.admit(parent.pid).unwrap();
    assert_eq!(parent.wait().exit_status(), Some(7));
    assert_eq!(cgroup.usage().processes, Some(7));
    let stats = cgroup.finish();
    assert_eq!(stats.pids_max_hits.map(|hits| hits > 0), Some(true), "{stats:?}");
    assert!(matches!(stats.max_pids_seen, Some(7..=8)), "{stats:?}");
    assert_nothing_left(&stats);
}

#[test]
fn a_busy_process_gets_the_share_of_a_cpu_it_may_have() {
    let _turn = alone();
    let Some(mut cgroup) = cgroup(&CgroupLimits { cpus: Some(0.5), ..CgroupLimits::default() }) else {
        return;
    };
    let busy = Worker::new(|| spin(Duration::from_secs(2)));
    cgroup.admit(busy.pid).unwrap();
    let started = Instant::now();
    assert_eq!(busy.wait().exit_status(), Some(0));
    let wall = started.elapsed();
    let stats = cgroup.finish();
    let used = stats.cpu_user.unwrap() + stats.cpu_system.unwrap();
    let share = used.as_secs_f64() / wall.as_secs_f64();
    // The lower bound leaves room for a machine on which others are busy too.
    assert!((0.05..=0.55).contains(&share), "{share} of a CPU: {used:?} in {wall:?}");
    // On a machine where others are busy too it may have had less than it was allowed, and no need to be held
    // back.
    if share > 0.45 {
        assert!(stats.cpu_throttled.unwrap() > Duration::ZERO, "{stats:?}");
    }
    assert_nothing_left(&stats);
}

#[test]
fn what_is_used_can_be_seen_while_it_runs() {
    let _turn = alone();
    let limits = CgroupLimits { pids: Some(16), ..memory(64) };
    let Some(mut cgroup) = cgroup(&limits) else { return };
    let (ready, told) = rustix::pipe::pipe().unwrap();
    let mut worker = Worker::new(|| {
        let status = fill(16 * MIB) + work(Duration::from_millis(50));
        fork(pause);
        let _ = rustix::io::write(&told, b".");
        status + pause()
    });
    cgroup.admit(worker.pid).unwrap();
    worker.go();
    rustix::io::read(&ready, &mut [0u8; 1]).unwrap();
    let usage = cgroup.usage();
    assert!((16 * MIB..=64 * MIB).contains(&usage.memory.unwrap()), "{usage:?}");
    assert!(usage.cpu_user.unwrap() + usage.cpu_system.unwrap() >= Duration::from_millis(40), "{usage:?}");
    assert_eq!(usage.processes, Some(2));
    cgroup.kill().unwrap();
    assert_eq!(worker.wait().terminating_signal(), Some(Signal::KILL.as_raw()));
    assert_nothing_left(&cgroup.finish());
}

#[test]
fn a_fork_bomb_ends_when_its_cgroup_does() {
    let _turn = alone();
    let Some(mut cgroup) = cgroup(&CgroupLimits { pids: Some(100), ..CgroupLimits::default() }) else {
        return;
    };
    let mut bomb = Worker::new(|| {
        loop {
            fork(|| {
                loop {
                    fork(|| 0);
                }
            });
        }
    });
    cgroup.admit(bomb.pid).unwrap();
    bomb.go();
    while cgroup.usage().processes.unwrap() < 50 {
        std::thread::yield_now();
    }
    let started = Instant::now();
    let stats = cgroup.finish();
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(bomb.wait().terminating_signal(), Some(Signal::KILL.as_raw()));
    assert_nothing_left(&stats);
}

#[test]
fn dropping_a_cgroup_ends_what_is_inside_and_removes_it() {
    let _turn = alone();
    let Some(mut cgroup) = cgroup(&CgroupLimits { pids: Some(16), ..CgroupLimits::default() }) else {
        return;
    };
    let mut worker = Worker::new(|| {
        fork(pause);
        pause()
    });
    cgroup.admit(worker.pid).unwrap();
    worker.go();
    drop(cgroup);
    assert_eq!(worker.wait().terminating_signal(), Some(Signal::KILL.as_raw()));
    assert_eq!(own_directories(), NOWHERE);
}

#[test]
fn a_process_that_is_born_inside_and_enters_by_itself_need_not_be_moved() {
    let _turn = alone();
    let limits = CgroupLimits { cpus: Some(1.0), pids: Some(16), ..memory(64) };
    let Some(cgroup) = cgroup(&limits) else { return };
    if cgroup.must_be_admitted() {
        println!("SKIPPED: systemd makes the cgroup only for a process that exists");
        return;
    }
    let entrances: Vec<_> = cgroup.entrances().collect();
    let (ready, told) = rustix::pipe::pipe().unwrap();
    let mut worker = Worker::born_in(cgroup.birth_fd(), || {
        let entered = entrances.iter().all(|entrance| rustix::io::write(entrance, b"0") == Ok(1));
        let _ = rustix::io::write(&told, b".");
        if entered { pause() } else { 1 }
    });
    worker.go();
    rustix::io::read(&ready, &mut [0u8; 1]).unwrap();
    let places = worker.status_file("cgroup");
    let name =
        cgroup.unified.as_ref().map_or_else(|| cgroup.legacy.0[0].name.clone(), |leaf| leaf.name.clone());
    let inside = places.lines().filter(|line| line.ends_with(&name)).count();
    assert_eq!(inside, cgroup.legacy.0.len() + usize::from(cgroup.unified.is_some()), "{places}");
    assert_eq!(cgroup.usage().processes, Some(1));
    let stats = cgroup.finish();
    assert_eq!(worker.wait().terminating_signal(), Some(Signal::KILL.as_raw()));
    assert_nothing_left(&stats);
}

#[test]
fn hundreds_of_cgroups_leave_nothing_behind() {
    let _turn = alone();
    let limits = CgroupLimits { cpus: Some(1.0), pids: Some(16), ..memory(64) };
    let mut count = 200;
    while count > 0 {
        let Some(mut cgroup) = cgroup(&limits) else { return };
        // A scope takes systemd a while; twenty show as much.
        count -= if cgroup.must_be_admitted() { 10 } else { 1 };
        let worker = Worker::new(|| 0);
        cgroup.admit(worker.pid).unwrap();
        assert_eq!(worker.wait().exit_status(), Some(0));
        let stats = cgroup.finish();
        assert_eq!(stats.oom_kills, Some(0));
        assert_eq!(stats.left_behind, NOWHERE);
    }
    assert_eq!(own_directories(), NOWHERE);
}

#[test]
fn a_limit_that_makes_no_sense_is_refused_with_the_reason() {
    let none = CgroupLimits::default();
    for (limits, said) in [
        (CgroupLimits { memory: Some(0), ..none }, "limiting memory: 0: must be at least one page"),
        (CgroupLimits { swap: Some(1), ..none }, "limiting swap: 1: requires a memory limit"),
        (CgroupLimits { cpus: Some(0.001), ..none }, "limiting cpus: 0.001: not between"),
        (CgroupLimits { cpus: Some(f64::NAN), ..none }, "limiting cpus: NaN: not between"),
        (CgroupLimits { pids: Some(0), ..none }, "limiting pids: 0: must be greater than 0"),
    ] {
        let error = Cgroup::create(&limits, false).unwrap_err();
        assert!(error.to_string().starts_with(said), "{error}");
    }
}

/// Not a test: what another process runs for
/// [`a_cgroup_left_by_a_killed_controller_is_removed_by_the_next_sweep`].
#[test]
#[ignore = "run by another test, in a process of its own"]
fn leave_a_cgroup_behind() {
    if let Some(cgroup) = cgroup(&CgroupLimits { pids: Some(16), ..CgroupLimits::default() }) {
        let place =
            cgroup.unified.as_ref().map_or_else(|| cgroup.legacy.0[0].dir.path(), |leaf| leaf.dir.path());
        println!("\nLEFT {}", place.display());
        std::io::stdout().flush().unwrap();
        rustix::process::kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
    }
}

#[test]
fn a_cgroup_left_by_a_killed_controller_is_removed_by_the_next_sweep() {
    let _turn = alone();
    let Some(living) = cgroup(&CgroupLimits { pids: Some(16), ..CgroupLimits::default() }) else { return };
    if living.must_be_admitted() {
        println!("SKIPPED: systemd removes its scopes itself");
        return;
    }
    let controller = rerun("leave_a_cgroup_behind").output().unwrap();
    let said = String::from_utf8_lossy(&controller.stdout);
    let left = said
        .lines()
        .find_map(|line| line.strip_prefix("LEFT "))
        .unwrap_or_else(|| panic!("{said}"))
        .to_owned();
    assert!(std::path::Path::new(&left).is_dir(), "{left}");
    assert!(stale::sweep() >= 1);
    assert!(!std::path::Path::new(&left).exists(), "{left}");
    // The living controller's, which is empty too, is still there.
    assert_eq!(own_directories().len(), living.legacy.0.len() + usize::from(living.unified.is_some()));
    assert_eq!(stale::sweep(), 0);
    assert_nothing_left(&living.finish());
}

#[test]
fn the_probe_and_the_making_agree() {
    let _turn = alone();
    let found = Host::probe();
    println!("{found}");
    let limits = CgroupLimits { cpus: Some(1.0), pids: Some(16), ..memory(64) };
    match Cgroup::create(&limits, false) {
        Ok(cgroup) => {
            assert!(found.is_complete(), "{found}");
            assert!(cgroup.controllers().covers(limits.controllers()));
        }
        Err(error) => {
            println!("{error}\nhelp: {}", error.help());
            assert!(!found.is_complete(), "{error}");
            assert!(found.missing.iter().any(|lack| error.missing().contains(lack.controller)), "{error}");
        }
    }
}

/// This program again, with one test or with all whose names hold `filter`.
fn rerun(filter: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args([&format!("{}::{filter}", module_path!().split_once("::").unwrap().1), "--include-ignored"]);
    command.args(["--nocapture", "--test-threads=1"]);
    command
}

/// As an ordinary user on v1: first with nothing granted, then with a directory in each hierarchy.
#[test]
fn an_ordinary_user_gets_what_an_administrator_granted() {
    const SOMEBODY: u32 = 54321;
    let _turn = alone();
    let hierarchies = Hierarchies::of_caller().unwrap();
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: only root can become another user");
    }
    if hierarchies.legacy.is_empty() {
        return println!("SKIPPED: no cgroup v1 here; on v2 these tests run in a delegated subtree");
    }
    // The program itself may be where the other user cannot reach it.
    let copy = std::env::temp_dir().join(format!("kennel-cgroup-tests-{}", std::process::id()));
    std::fs::copy("/proc/self/exe", &copy).unwrap();
    let as_somebody = |filter: &str, skip: &[&str]| {
        let again = rerun(filter);
        let mut command = Command::new(&copy);
        command.args(again.get_args()).uid(SOMEBODY).gid(SOMEBODY).current_dir("/");
        for name in skip {
            command.args(["--skip", name]);
        }
        let output = command.output().unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.success(), said)
    };

    let (ok, said) = as_somebody("the_probe_and_the_making_agree", &[]);
    assert!(ok, "{said}");
    let memory = hierarchies.legacy_seat(Controller::Memory).unwrap().own.display().to_string();
    assert!(said.contains(&format!("controller memory: {memory}: Permission denied")), "{said}");
    assert!(said.contains(&format!("as root: install -d -o {SOMEBODY} {memory}/kennel")), "{said}");

    struct Granted(Vec<PathBuf>);
    impl Drop for Granted {
        fn drop(&mut self) {
            for path in &self.0 {
                let _ = std::fs::remove_dir(path);
            }
        }
    }
    let mut granted = Granted(Vec::new());
    for (_, seat) in &hierarchies.legacy {
        let path = seat.own.join(delegate::GRANTED);
        std::fs::create_dir(&path).unwrap();
        granted.0.push(path.clone());
        std::os::unix::fs::chown(&path, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    }
    let (ok, said) = as_somebody("", &["leave_a_cgroup_behind"]);
    std::fs::remove_file(&copy).unwrap();
    assert!(ok, "{said}");
    let skipped: Vec<_> = said.lines().filter(|line| line.contains("SKIPPED")).collect();
    println!("{} tests skipped as another user: {skipped:?}", skipped.len());
    assert!(said.contains("a_memory_hog_is_killed_and_the_kill_is_counted") && skipped.len() <= 3, "{said}");
}
