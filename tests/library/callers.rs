//! Callers of every kind: huge and with a hundred threads, with wait loops and handlers of their own, not dumpable,
//! short of descriptors. Each is a process of its own.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use kennel::{Sandbox, SandboxError};
use kennel_tests::{plain_sandbox, ran_within, role};

const LONG: Duration = Duration::from_secs(90);

fn echoes(sandbox: &Sandbox) {
    assert_eq!(sandbox.run_with_input("cat", &[], b"hello").expect("it runs").stdout, "hello");
}

/// Ends the other threads of a role even if an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The role: 100 threads that allocate and lock all the time, and a large heap.
pub fn large(_: &[OsString]) -> i32 {
    let heap: Vec<Vec<u8>> = (0..256).map(|_| vec![1u8; 1 << 20]).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // The locks of the allocator and of the environment: held at the moment of any clone.
                    drop(std::hint::black_box(vec![0u8; 5000]));
                    std::hint::black_box(std::env::var_os("HOME"));
                    std::thread::sleep(Duration::from_micros(500));
                }
            });
        }
        let _stop = Stop(&stop);
        let sandbox = plain_sandbox();
        for _ in 0..20 {
            echoes(&sandbox);
        }
    });
    assert!(heap.iter().all(|block| block.iter().all(|byte| *byte == 1)), "the heap is as it was");
    0
}

#[test]
fn a_caller_with_a_hundred_threads_and_a_large_heap() {
    ran_within(LONG, &mut role::play("large-caller")).ok();
}

static SIGCHLDS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGCHLDS.fetch_add(1, Ordering::Relaxed);
}

/// The role: has a SIGCHLD handler, and a thread that waits for any child, as servers do.
pub fn waiting(_: &[OsString]) -> i32 {
    // SAFETY: the handler only touches an atomic.
    unsafe { libc::signal(libc::SIGCHLD, count as *const () as libc::sighandler_t) };
    let stop = AtomicBool::new(false);
    let taken = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // SAFETY: takes no pointer but a null one.
                match unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } {
                    pid if pid > 0 => drop(taken.fetch_add(1, Ordering::Relaxed)),
                    _ => std::thread::sleep(Duration::from_micros(200)),
                }
            }
        });
        let _stop = Stop(&stop);
        let sandbox = plain_sandbox();
        for _ in 0..50 {
            // The loop may well take PID 1 of the sandbox: an exec makes every child one that SIGCHLD tells of. What
            // the sandbox came to must not depend on who takes it.
            let result = sandbox.run("sh", &["-c", "exit 7"]).expect("whoever takes its PID 1");
            assert_eq!((result.exit_code, result.signal), (7, None));
            let mut child = sandbox.spawn("sh", &["-c", "kill -TERM $$"]).expect("it starts");
            let result = child.wait_timeout(Duration::from_secs(20)).expect("whoever takes its PID 1");
            assert_eq!((result.exit_code, result.signal), (143, Some(15)));
        }
        let before = (taken.load(Ordering::Relaxed), SIGCHLDS.load(Ordering::Relaxed));
        // The same loop and handler see a child of the caller's own.
        drop(std::process::Command::new("true").spawn().expect("true"));
        kennel_tests::eventually("its own child is taken", || {
            (taken.load(Ordering::Relaxed) > before.0).then_some(())
        });
        assert!(SIGCHLDS.load(Ordering::Relaxed) > before.1);
    });
    0
}

#[test]
fn a_caller_with_a_sigchld_handler_and_a_wait_loop_is_not_disturbed() {
    ran_within(LONG, &mut role::play("waiting-caller")).ok();
}

/// The role: not dumpable, as programs that hold keys are. Its /proc files then belong to root, so that an ordinary
/// user's namespace cannot be given its maps: that works, or is an error that says so.
pub fn undumpable(_: &[OsString]) -> i32 {
    // SAFETY: sets a flag of this process.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    match plain_sandbox().run("echo", &["hello"]) {
        Ok(result) => assert_eq!(result.stdout, "hello\n"),
        Err(error @ SandboxError::NamespaceCreation(_)) => {
            let text = error.to_string();
            assert!(text.contains("dumpable"), "the error does not name the reason: {text}");
        }
        Err(error) => panic!("{error:?}"),
    }
    // SAFETY: reads a flag of this process.
    assert_eq!(unsafe { libc::prctl(libc::PR_GET_DUMPABLE) }, 0, "the caller stays as it was");
    0
}

#[test]
fn a_caller_that_is_not_dumpable_is_served_or_told_why_not() {
    ran_within(LONG, &mut role::play("undumpable-caller")).ok();
}

/// The role: short of descriptors.
pub fn ephemeral(_: &[OsString]) -> i32 {
    let sandbox = plain_sandbox();
    echoes(&sandbox);
    let held: Vec<_> = (0..).map_while(|_| std::fs::File::open("/dev/null").ok()).take(4000).collect();
    // SAFETY: a plain structure; what is open stays open.
    unsafe {
        let limit = libc::rlimit { rlim_cur: 8, rlim_max: 8 };
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    match sandbox.run("true", &[]) {
        Err(error) => assert!(error.to_string().contains("open files"), "{error}"),
        Ok(_) => panic!("there was no descriptor to be had"),
    }
    drop(held);
    0
}

#[test]
fn from_threads_that_come_and_go() {
    let sandbox = std::sync::Arc::new(plain_sandbox());
    for _ in 0..30 {
        let shared = sandbox.clone();
        std::thread::spawn(move || echoes(&shared)).join().expect("the thread ends");
    }
}

#[test]
fn signals_that_the_caller_blocks_or_ignores_are_the_command_s_to_decide() {
    // Whatever the harness's thread blocks: the command starts with nothing blocked.
    std::thread::spawn(|| {
        // SAFETY: a set on the stack; the mask is this thread's alone.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        }
        let result =
            plain_sandbox().run("grep", &["-E", "Sig(Blk|Ign)", "/proc/self/status"]).expect("it runs");
        let masks: Vec<_> = result.stdout.split_whitespace().filter(|word| !word.contains(':')).collect();
        assert_eq!(masks, ["0000000000000000"; 2], "{}", result.stdout);
    })
    .join()
    .expect("the thread ends");
}
