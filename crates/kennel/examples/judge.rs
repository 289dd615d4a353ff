//! Judges a thousand submissions of strangers, or as many as the argument says: each gets an input, a second of time, memory and processes, and no network.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kennel::{Ended, Sandbox, SandboxError};

/// What was handed in: some are right, some are wrong, some are hostile.
fn submission(number: usize) -> &'static str {
    match number % 50 {
        7 => "while :; do :; done",
        19 => "x=x; while :; do x=$x$x; done",
        31 => "f() { f | f & }; f; sleep 5",
        43 => "rm -rf / 2>/dev/null; exit 1",
        other if other % 5 == 0 => "echo 41",
        _ => "read a b; echo $((a + b))",
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let submissions: usize = std::env::args().nth(1).map_or(Ok(1000), |count| count.parse())?;
    let mut builder = Sandbox::builder().wall_time_limit(Duration::from_secs(1)).max_output(4096);
    // Limits on memory and processes need a cgroup, which not every host grants an ordinary user.
    let strict = builder.clone().memory_limit(64 << 20).max_pids(20);
    if strict.clone().build()?.run("true", &[]).is_ok() {
        builder = strict;
    } else {
        println!("no cgroup can be had here: memory and processes are not limited");
    }
    let sandbox = builder.build()?;
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(BTreeMap::<&str, usize>::new()));
    let began = Instant::now();
    let judge = || -> Result<(), SandboxError> {
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && number < submissions
        {
            let result = sandbox.run_with_input("sh", &["-c", submission(number)], b"40 2\n")?;
            let verdict = match result.ended {
                Ended::TimedOut => "time limit",
                Ended::OutOfMemory => "memory limit",
                // With cgroup v1 the kernel kills one process, and the others may end as if nothing had been.
                _ if result.oom_kills > 0 => "memory limit",
                Ended::Exited(0) if result.stdout == "42\n" => "accepted",
                Ended::Exited(0) => "wrong answer",
                _ => "run-time error",
            };
            *verdicts.lock().expect("no judge panics").entry(verdict).or_default() += 1;
        }
        Ok(())
    };
    let workers = std::thread::available_parallelism()?.get();
    std::thread::scope(|scope| {
        let judges: Vec<_> = (0..workers).map(|_| scope.spawn(judge)).collect();
        judges.into_iter().try_for_each(|judge| judge.join().expect("no judge panics"))
    })?;
    println!("{submissions} submissions in {:?}: {:?}", began.elapsed(), verdicts.into_inner()?);
    Ok(())
}
