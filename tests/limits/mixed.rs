//! Whether the outcome is ever wrong about why a sandbox ended: many at once, each with a cause that is known.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kennel::{ExecutionResult, Sandbox, SandboxBuilder};
use kennel_tests::probe::executable;
use kennel_tests::role;

use crate::limits::{cannot_limit, is_unified, scaled};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Exit,
    KilledItself,
    Terminated,
    Clock,
    Memory,
    MemoryOfAChild,
    CpuTime,
    Outside,
    OutsideAtTheClock,
}

/// Each as often as it is listed: what takes long is rare.
const CAUSES: [Cause; 25] = {
    use Cause::{
        Clock as W, CpuTime as C, Exit as E, KilledItself as K, Memory as M, MemoryOfAChild as G,
        Outside as O, OutsideAtTheClock as B, Terminated as T,
    };
    [E, M, K, G, W, T, O, M, E, K, G, B, M, W, E, O, C, G, K, M, T, W, O, E, G]
};

/// What tells one cause from another.
type Verdict = (i32, Option<i32>, [bool; 3]);

fn verdict(result: &ExecutionResult) -> Verdict {
    let causes = [result.killed_by_timeout, result.killed_by_oom, result.killed_by_cpu_time];
    (result.exit_code, result.signal, causes)
}

impl Cause {
    /// Runs something that ends for this cause, and returns what may be told of it.
    fn run(self, number: usize, counted: bool) -> (ExecutionResult, Vec<Verdict>) {
        let code = i32::try_from(number % 120).expect("a code") + 1;
        let mut builder = Sandbox::builder().wall_time_limit(Duration::from_secs(300));
        builder = builder.cpu_time_limit(Duration::from_secs(60));
        if counted {
            builder = builder.memory_limit(48 << 20).max_pids(40);
        }
        let none = [false; 3];
        let by_signal = |signal: i32| (128 + signal, Some(signal), none);
        let timed_out = (124, Some(9), [true, false, false]);
        let out_of_memory = (137, Some(9), [false, true, false]);
        let sh = |builder: SandboxBuilder, script: &str| {
            builder.build().unwrap().run("sh", &["-c", script]).unwrap()
        };
        let play = |builder: SandboxBuilder, role: &str, words: &[&str]| {
            let program = executable().to_str().expect("our paths are text");
            builder.env(role::VARIABLE, role).build().unwrap().run(program, words).unwrap()
        };
        match self {
            Cause::Exit => (sh(builder, &format!("exit {code}")), vec![(code, None, none)]),
            Cause::KilledItself => (sh(builder, "kill -KILL $$"), vec![by_signal(9)]),
            Cause::Terminated => (sh(builder, "kill -TERM $$"), vec![by_signal(15)]),
            Cause::Clock => {
                let limit = Duration::from_millis(20 + number as u64 % 100);
                (sh(builder.wall_time_limit(limit), "sleep 600"), vec![timed_out])
            }
            Cause::Memory => (play(builder, "hog", &["120000000"]), vec![out_of_memory]),
            Cause::MemoryOfAChild => {
                let result = play(builder, "hog-child", &["120000000", &code.to_string()]);
                assert!(result.oom_kills >= 1, "{result:?}");
                (result, vec![if is_unified() { out_of_memory } else { (code, None, none) }])
            }
            Cause::CpuTime => {
                let builder = builder.cpu_time_limit(Duration::from_secs(1));
                (play(builder, "spin", &["300000", "1"]), vec![(152, Some(24), [false, false, true])])
            }
            Cause::Outside => {
                let mut child = builder.build().unwrap().spawn("sleep", &["600"]).unwrap();
                child.kill();
                (child.wait().unwrap(), vec![by_signal(9)])
            }
            // Whichever came first; never anything else.
            Cause::OutsideAtTheClock => {
                let limit = Duration::from_millis(30);
                let mut child =
                    builder.wall_time_limit(limit).build().unwrap().spawn("sleep", &["600"]).unwrap();
                std::thread::sleep(Duration::from_millis(number as u64 % 40));
                child.kill();
                (child.wait().unwrap(), vec![by_signal(9), timed_out])
            }
        }
    }
}

#[test]
fn five_hundred_ends_are_told_for_what_they_were() {
    let counted = !cannot_limit();
    let next = AtomicUsize::new(0);
    let wrong = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    let mut wrong = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= scaled(500) {
                            return wrong;
                        }
                        let cause = CAUSES[number % CAUSES.len()];
                        if !counted && matches!(cause, Cause::Memory | Cause::MemoryOfAChild) {
                            continue;
                        }
                        let (result, expected) = cause.run(number, counted);
                        if !expected.contains(&verdict(&result)) {
                            wrong.push(format!("{cause:?}: {:?} instead of {expected:?}", verdict(&result)));
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no worker panics")).collect::<Vec<_>>()
    });
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), scaled(500), wrong.join("\n"));
}
