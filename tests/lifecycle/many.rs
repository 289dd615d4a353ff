//! One program, many sandboxes: in a row they leak nothing, at once they all succeed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kennel::Sandbox;
use kennel_tests::leftovers::Host;

/// These tests count what this very process holds, so they take turns; and they ask only for what grows with the
/// number of runs, because tests of other files run meanwhile.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

/// The role: runs many sandboxes and looks at what this process holds before and after. A process of its own, because
/// the other tests of this program hold memory as well.
pub fn two_hundred(_: &[std::ffi::OsString]) -> i32 {
    let host = Host::now();
    let sandbox =
        Sandbox::builder().allow_write("/var/tmp").deny_write("/var/tmp/x*").build().expect("plain");
    let once = || assert_eq!(sandbox.run("echo", &["x"]).expect("it runs").stdout, "x\n");
    (0..20).for_each(|_| once());
    let (fds, memory) = (descriptors(), resident());
    (0..200).for_each(|_| once());
    // One leaked descriptor or 64 KiB stack per run would be 200, or 12 MB.
    let (fds_after, memory_after) = (descriptors(), resident());
    assert!(fds_after <= fds, "{fds} descriptors became {fds_after}");
    assert!(memory_after < memory + (10 << 20), "{memory} bytes became {memory_after}");
    let zombies: Vec<_> = std::fs::read_dir("/proc/self/task")
        .expect("/proc")
        .flatten()
        .flat_map(|task| {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            children.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
        })
        .collect();
    assert_eq!(zombies, Vec::<String>::new(), "never waited for");
    assert_eq!(host.left(), Vec::<String>::new());
    0
}

#[test]
fn two_hundred_in_a_row_leak_no_descriptor_process_mount_or_memory() {
    kennel_tests::ran_within(Duration::from_secs(120), &mut kennel_tests::role::play("two-hundred")).ok();
}

#[test]
fn failed_launches_leak_nothing_either() {
    let _turn = turn();
    let sandbox = Sandbox::builder().build().expect("plain");
    let once = || assert!(sandbox.run("no-such-command", &[]).is_err());
    (0..10).for_each(|_| once());
    let fds = descriptors();
    (0..200).for_each(|_| once());
    assert!(descriptors() < fds + 100, "{fds} descriptors became {}", descriptors());
}

#[test]
fn two_hundred_at_once_from_thirty_two_threads_all_succeed() {
    let _turn = turn();
    let sandbox = Sandbox::builder().wall_time_limit(Duration::from_secs(120)).build().expect("plain");
    let left = AtomicU32::new(200);
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                while let Ok(number) =
                    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                {
                    let script = format!("cat; exit {}", number % 100);
                    let input = format!("number {number}").repeat(500);
                    let result =
                        sandbox.run_with_input("sh", &["-c", &script], input.as_bytes()).expect("it runs");
                    assert_eq!(result.exit_code, (number % 100).cast_signed(), "{result:?}");
                    assert_eq!(result.stdout, input);
                }
            });
        }
    });
}

#[test]
fn a_hundred_run_side_by_side_and_all_end() {
    let _turn = turn();
    let sandbox = Sandbox::builder().build().expect("plain");
    let children: Vec<_> =
        (0..100).map(|_| sandbox.spawn("sh", &["-c", "read x; exit 4"]).expect("it starts")).collect();
    for mut child in children {
        // Waiting closes its input, and that is what each of them waits for.
        assert_eq!(child.wait().expect("it ends").exit_code, 4);
    }
}
