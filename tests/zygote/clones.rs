//! Sandboxes that are cloned from a zygote: they are what they are without one, whatever becomes of it.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio as StdStdio;
use std::sync::mpsc::channel;
use std::time::Duration;

use kennel::{Ended, Sandbox, Stdio, Zygote};
use kennel_tests::{am_root, eventually, plain_sandbox, role, skipped};

const LIMIT: Duration = Duration::from_secs(60);

#[track_caller]
fn plays(name: &str) {
    role::plays(name, LIMIT);
}

#[track_caller]
fn echoes(sandbox: &Sandbox) {
    assert_eq!(sandbox.run_with_input("cat", &[], b"hello").expect("it runs").stdout, "hello");
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: a plain call, to a child of this process that has not been waited for.
    assert_eq!(unsafe { libc::kill(pid.cast_signed(), signal) }, 0);
}

/// A word of /proc/PID/stat, counted from 1 as in proc(5).
fn stat(pid: u32, field: usize) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let behind = text.rsplit_once(')')?.1;
    behind.split_whitespace().nth(field.checked_sub(3)?).map(str::to_owned)
}

fn is_gone(pid: u32) -> bool {
    stat(pid, 3).is_none_or(|state| state == "Z")
}

/// The role: a zygote that stands still holds the next start up, so that is where sandboxes come from; and they are children
/// of this process.
pub fn cloning(_: &[OsString]) -> i32 {
    let zygote = Zygote::start().expect("a zygote");
    echoes(&plain_sandbox());
    let ids = zygote.ids();
    ids.iter().for_each(|id| signal(*id, libc::SIGSTOP));
    eventually("the zygote stands", || {
        ids.iter().all(|id| stat(*id, 3).is_some_and(|state| state == "T")).then_some(())
    });
    let (sender, receiver) = channel();
    std::thread::spawn(move || drop(sender.send(plain_sandbox().spawn("sleep", &["60"]))));
    assert!(receiver.recv_timeout(Duration::from_millis(400)).is_err(), "it waits for the zygote");
    ids.iter().for_each(|id| signal(*id, libc::SIGCONT));
    let mut child = receiver.recv().expect("the thread ends").expect("it starts");
    assert_eq!(stat(child.init_pid(), 4), Some(std::process::id().to_string()), "whose child it is");
    child.kill();
    assert_eq!(child.wait().expect("it ends").ended, Ended::Killed);
    drop(zygote);
    assert!(ids.into_iter().all(is_gone));
    echoes(&plain_sandbox());
    0
}

#[test]
fn sandboxes_are_cloned_from_the_zygote_and_are_children_of_the_caller() {
    plays("cloning");
}

/// The role: the zygote is killed, also in the middle of starts; sandboxes run on, and the next finds another.
pub fn losing(_: &[OsString]) -> i32 {
    let zygote = Zygote::start().expect("a zygote");
    let mut child = plain_sandbox().spawn("cat", &[]).expect("it starts");
    let first = zygote.ids();
    assert_eq!(first.len(), 2, "the second one lends networks");
    first.iter().for_each(|id| signal(*id, libc::SIGKILL));
    eventually("the zygote is dead", || first.iter().all(|id| is_gone(*id)).then_some(()));
    echoes(&plain_sandbox());
    let host = Sandbox::builder().network_mode(kennel::NetworkMode::Host).build().expect("a sandbox");
    echoes(&host);
    let second = zygote.ids();
    assert!(second.len() == 2 && !second.iter().any(|id| first.contains(id)), "{first:?} {second:?}");
    let waited_for = |id: &u32| !fs::exists(format!("/proc/{id}")).unwrap_or(true);
    assert!(first.iter().all(waited_for), "the dead ones have been waited for");
    std::io::Write::write_all(&mut child.take_stdin().expect("a pipe"), b"still there").expect("it reads");
    assert_eq!(child.wait_with_output().expect("it ends").stdout, "still there");
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            for _ in 0..50 {
                for id in zygote.ids() {
                    // SAFETY: a plain call. Should it have been replaced in between, its number is nobody's or a sandbox's of
                    // this very test, which then ends as killed.
                    unsafe { libc::kill(id.cast_signed(), libc::SIGKILL) };
                }
                std::thread::sleep(Duration::from_millis(if kennel_tests::is_emulated() { 140 } else { 7 }));
            }
        });
        let mut ran = 0;
        while !killer.is_finished() {
            // A zygote that dies after the request and before the answer twice in a row leaves no sandbox, and says so.
            ran += u32::from(plain_sandbox().run("true", &[]).is_ok_and(|result| result.success()));
        }
        assert!(ran > 5, "{ran}");
    });
    echoes(&plain_sandbox());
    0
}

#[test]
#[kennel_claim::claim("zygote/killed-callers-leave-nothing")]
fn a_zygote_that_dies_is_replaced_and_sandboxes_run_on() {
    plays("losing");
}

/// The role: a fork of this process has no zygote, and does not disturb that of its parent.
pub fn forking(_: &[OsString]) -> i32 {
    let zygote = Zygote::start().expect("a zygote");
    echoes(&plain_sandbox());
    // SAFETY: this process has a single thread here.
    let copy = unsafe { libc::fork() };
    if copy == 0 {
        let own = plain_sandbox().spawn("cat", &[]).expect("it starts");
        let parent = stat(own.init_pid(), 4);
        let fine = parent == Some(std::process::id().to_string()) && own.wait_with_output().is_ok();
        drop(zygote);
        std::process::exit(i32::from(!fine));
    }
    let mut status = 0;
    // SAFETY: waits for a child of this process.
    unsafe { libc::waitpid(copy, &raw mut status, 0) };
    assert_eq!(status, 0);
    assert!(!zygote.ids().into_iter().any(is_gone));
    echoes(&plain_sandbox());
    0
}

#[test]
#[kennel_claim::claim("zygote/serves-only-its-caller")]
fn a_forked_copy_of_the_caller_leaves_the_zygote_alone() {
    plays("forking");
}

/// The role: eight threads start sandboxes.
pub fn crowded(_: &[OsString]) -> i32 {
    let _zygote = Zygote::start().expect("a zygote");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                let sandbox = plain_sandbox();
                for round in 0..10 {
                    let word = format!("{thread} {round}");
                    assert_eq!(sandbox.run("echo", &[&word]).expect("it runs").stdout, format!("{word}\n"));
                }
            });
        }
    });
    0
}

#[test]
fn many_threads_start_sandboxes_at_once() {
    plays("crowded");
}

/// The role: has secrets in its memory, its variables and in descriptors that it forgot to mark.
pub fn careless(_: &[OsString]) -> i32 {
    let scratch = kennel_tests::Scratch::new();
    let path = scratch.write("secret", "the word");
    let secret = fs::File::open(path).expect("a file");
    // SAFETY: plain calls on a descriptor of this process.
    let open = unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&secret), 77) };
    assert_eq!(open, 77);
    let zygote = Zygote::start().expect("a zygote");
    // By then they have come as far as to serve.
    echoes(&plain_sandbox());
    for id in zygote.ids() {
        let open: Vec<_> = fs::read_dir(format!("/proc/{id}/fd"))
            .expect("it is this user's")
            .flatten()
            .map(|entry| fs::read_link(entry.path()).unwrap_or_default().to_string_lossy().into_owned())
            .collect();
        let own = |link: &&String| {
            // One that is open for a moment is gone again when its link is read.
            link.is_empty()
                || *link == "/dev/null"
                || ["socket:", "net:", "anon_inode:[pidfd]", "pidfd:", "/proc/"]
                    .iter()
                    .any(|kind| link.starts_with(kind))
        };
        assert!(open.iter().all(|link| own(&link)), "{open:?}");
        assert_eq!(open.iter().filter(|link| link.starts_with("socket:")).count(), 1, "its link: {open:?}");
        assert_eq!(fs::read(format!("/proc/{id}/environ")).expect("readable"), b"");
        let rollup = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).expect("readable");
        let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).expect("a line");
        let pss: u64 = pss.trim().trim_end_matches(" kB").parse().expect("a number");
        assert!(pss < 300, "{pss} kB");
    }
    let listed = plain_sandbox().run("sh", &["-c", "ls /proc/self/fd"]).expect("it runs").stdout;
    assert_eq!(listed, "0\n1\n2\n3\n", "3 is the folder that is listed");
    // What PID 1 holds while a command runs.
    let mut child = plain_sandbox().spawn("cat", &[]).expect("it starts");
    if am_root() {
        eventually("PID 1 holds its link and its signals, and nothing else", || {
            let held = fs::read_dir(format!("/proc/{}/fd", child.init_pid())).expect("root may look").count();
            (held <= 2).then_some(())
        });
    }
    drop(child.take_stdin());
    assert!(child.wait().expect("it ends").success());
    0
}

#[test]
#[kennel_claim::claim("zygote/holds-nothing-of-the-caller")]
fn the_zygote_holds_nothing_of_the_callers() {
    plays("careless");
}

/// The role: root that becomes somebody else, and a program that goes elsewhere, are not served by the zygote any more.
pub fn changing(_: &[OsString]) -> i32 {
    let zygote = Zygote::start().expect("a zygote");
    echoes(&plain_sandbox());
    let ids = zygote.ids();
    // That of the tests is root's own.
    std::env::set_current_dir("/").expect("everybody's");
    // SAFETY: plain calls; this process has a single thread.
    unsafe {
        assert_eq!(libc::setresgid(65534, 65534, 65534), 0);
        assert_eq!(libc::setresuid(65534, 65534, 65534), 0);
        // Whoever changes its user is not dumpable any more, and cannot make namespaces.
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    }
    // Had it been asked, the sandbox would be root's.
    let result = plain_sandbox().run("id", &["-u"]).expect("it runs");
    assert_eq!(result.stdout, "65534\n");
    assert!(!ids.into_iter().any(is_gone));
    0
}

#[test]
#[kennel_claim::claim("zygote/serves-only-its-caller")]
fn a_caller_that_has_become_another_user_is_not_served_as_the_old_one() {
    if !am_root() {
        return skipped("only root can become another user");
    }
    plays("changing");
}

/// Has Landlock keep this thread from writing, and whatever it starts from now on.
fn enter_a_domain() -> bool {
    const WRITES: u64 = 1 << 1 | 1 << 7 | 1 << 8;
    let attributes = [WRITES];
    let place = attributes.as_ptr();
    // SAFETY: plain calls, with an attribute that outlives them. It is this thread alone that is confined.
    unsafe {
        let rules = libc::syscall(libc::SYS_landlock_create_ruleset, place, size_of_val(&attributes), 0);
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        rules >= 0 && libc::syscall(libc::SYS_landlock_restrict_self, rules, 0) == 0
    }
}

/// Has a filter keep this thread from making folders.
fn put_on_a_filter() {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(0x20, 0, 0, 0),
        step(0x15, 1, 0, libc::SYS_mkdirat as u32),
        #[cfg(target_arch = "x86_64")]
        step(0x15, 0, 1, libc::SYS_mkdir as u32),
        #[cfg(not(target_arch = "x86_64"))]
        step(0x15, 0, 1, u32::MAX),
        step(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: a program that outlives the calls.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program, 0, 0), 0);
    }
}

/// The role: a thread that confines itself when there is a zygote gets no sandbox from outside of its confinement; others
/// do as before, and so does a thread that adds a second filter.
pub fn confining(_: &[OsString]) -> i32 {
    let zygote = Zygote::start().expect("a zygote");
    let scratch = kennel_tests::Scratch::new();
    let folder = scratch.path().to_path_buf();
    let sandbox = Sandbox::builder().allow_write(&folder).build().expect("a sandbox");
    let pool = zygote.pool(&sandbox, 2).expect("a pool");
    eventually("the pool is full", || (pool.ready() == 2).then_some(()));
    let makes = |name: &str| {
        let made = folder.join(name);
        let words = [made.to_str().expect("our paths are text")];
        let with_pool = pool.command("mkdir").args(words).output().is_ok_and(|result| result.success());
        let _ = fs::remove_dir(&made);
        let cloned = sandbox.run("mkdir", &words).is_ok_and(|result| result.success());
        let _ = fs::remove_dir(&made);
        (with_pool, cloned)
    };
    assert_eq!(makes("before"), (true, true));
    std::thread::scope(|scope| {
        let confined = scope.spawn(|| enter_a_domain().then(|| makes("domain")));
        match confined.join().expect("no panic") {
            Some(made) => assert_eq!(made, (false, false), "in a Landlock domain"),
            None => skipped("this kernel has no Landlock"),
        }
        let filtered = scope.spawn(|| {
            put_on_a_filter();
            makes("filter")
        });
        assert_eq!(filtered.join().expect("no panic"), (false, false), "under a filter");
    });
    assert_eq!(makes("after"), (true, true), "the others go on");
    // One that was confined when it started the zygote.
    drop((pool, zygote));
    std::thread::scope(|scope| {
        let confined = scope.spawn(|| {
            let own = enter_a_domain().then(|| Zygote::start().expect("a zygote"));
            own.map(|zygote| (sandbox.run("mkdir", &[folder.join("x").to_str().expect("text")]), zygote))
        });
        if let Some((result, zygote)) = confined.join().expect("no panic") {
            assert!(!result.is_ok_and(|result| result.success()));
            // And a thread that is not confined may look at that zygote, and is served in its domain: with less, not more.
            drop(zygote);
        }
    });
    0
}

#[test]
#[kennel_claim::claim("zygote/serves-only-its-caller")]
fn a_caller_that_confines_itself_gets_no_sandbox_from_outside_of_that() {
    plays("confining");
}

fn set_open_files(soft: u64, hard: u64) {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: reads a structure.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

fn open_files() -> [u64; 2] {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes a structure.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    [limit.rlim_cur, limit.rlim_max]
}

/// The role: while a sandbox holds all descriptors in flight that it can, starts go on where this process may raise its
/// limit, and are refused with the reason where it may not; and they do not hang.
pub fn flying(_: &[OsString]) -> i32 {
    let [_, hard] = open_files();
    let zygote = Zygote::start().expect("a zygote");
    echoes(&plain_sandbox());
    let hog = kennel_tests::hog::Hog::start("in-flight", &[]);
    assert!(hog.taken.count > 4000, "{:?}", hog.taken);
    set_open_files(1000, hard);
    for _ in 0..3 {
        echoes(&plain_sandbox());
    }
    assert_eq!(open_files(), [1000, hard], "it is as it was");
    let pool = zygote.pool(&plain_sandbox(), 2).expect("a pool");
    assert!(pool.run("true", &[]).expect("it runs").success());
    set_open_files(1000, 1000);
    let refused = plain_sandbox().run("true", &[]);
    // Root's sends are not counted.
    assert_eq!(refused.is_ok(), am_root(), "{refused:?}");
    if let Err(error) = refused {
        assert!(error.to_string().contains("descriptors on their way"), "{error}");
    }
    drop(hog);
    echoes(&plain_sandbox());
    assert!(pool.run("true", &[]).expect("it runs").success());
    0
}

#[test]
fn descriptors_in_flight_hold_up_no_start_and_hang_nobody() {
    plays("flying");
}

/// The role: a zygote that stands still is waited for, and then replaced.
pub fn standing(_: &[OsString]) -> i32 {
    let zygote = Zygote::start().expect("a zygote");
    echoes(&plain_sandbox());
    let ids = zygote.ids();
    ids.iter().for_each(|id| signal(*id, libc::SIGSTOP));
    echoes(&plain_sandbox());
    assert_ne!(zygote.ids(), ids);
    0
}

#[test]
fn a_zygote_that_does_not_answer_is_replaced() {
    plays("standing");
}

/// The role: two references, one zygote; it ends with the last.
pub fn letting_go(_: &[OsString]) -> i32 {
    let first = Zygote::start().expect("a zygote");
    let second = Zygote::start().expect("the same");
    let ids = first.ids();
    assert_eq!(second.ids(), ids);
    drop(first);
    echoes(&plain_sandbox());
    assert!(!ids.iter().any(|id| is_gone(*id)));
    drop(second);
    assert!(ids.iter().all(|id| is_gone(*id)));
    let third = Zygote::start().expect("another");
    assert_ne!(third.ids(), ids);
    echoes(&plain_sandbox());
    0
}

#[test]
fn the_zygote_ends_with_the_last_reference_to_it() {
    plays("letting-go");
}

/// The role: tells its zygote and a sandbox, and waits to be killed.
pub fn owning(_: &[OsString]) -> i32 {
    let zygote = Zygote::start().expect("a zygote");
    let child = plain_sandbox().command("sleep").arg("600").stdin(Stdio::null()).spawn().expect("it starts");
    let ids = zygote.ids();
    println!("{}\n{}\n{}", ids[0], ids[1], child.init_pid());
    std::thread::sleep(LIMIT);
    1
}

#[test]
#[kennel_claim::claim("zygote/killed-callers-leave-nothing")]
fn a_caller_that_is_killed_leaves_neither_zygote_nor_sandbox() {
    let mut owner = role::play("owning").stdout(StdStdio::piped()).spawn().expect("this executable");
    let mut lines = BufReader::new(owner.stdout.take().expect("piped")).lines();
    let mut pid = || -> u32 { lines.next().expect("a line").expect("text").parse().expect("a number") };
    let all = [pid(), pid(), pid()];
    assert!(!all.into_iter().any(is_gone));
    owner.kill().expect("a child");
    owner.wait().expect("a child");
    eventually("all are gone", || all.into_iter().all(is_gone).then_some(()));
}

/// The role: limits, statistics, streams and a terminal are as without a zygote.
pub fn limited(_: &[OsString]) -> i32 {
    let _zygote = Zygote::start().expect("a zygote");
    let limited = Sandbox::builder().wall_time_limit(Duration::from_millis(300)).build().expect("a limit");
    let result = limited.run("sleep", &["30"]).expect("it runs");
    assert_eq!(result.ended, Ended::TimedOut);
    let busy = plain_sandbox()
        .run("sh", &["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
        .expect("it runs");
    assert!(busy.cpu_user > Some(Duration::ZERO), "{busy:?}");
    let mut child = plain_sandbox().command("tty").terminal(24, 80).spawn().expect("it starts");
    let mut shown = String::new();
    child.terminal.take().expect("it has one").read_to_string(&mut shown).expect("it ends");
    assert_eq!(shown, "/dev/pts/0\r\n");
    assert!(child.wait().expect("it ends").success());
    if let Ok(small) = Sandbox::builder().max_pids(5).build()
        && let Ok(result) = small.run("sh", &["-c", "for i in 1 2 3 4 5 6 7 8; do sleep 1 & done; wait"])
    {
        assert!(result.stderr.contains("fork"), "{result:?}");
    }
    0
}

#[test]
fn limits_statistics_and_terminals_work_as_without_a_zygote() {
    plays("limited");
}
