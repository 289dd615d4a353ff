//! A judge: strangers' programs, each in a sandbox that was prepared before the program came in.

use std::time::Duration;

use kennel::{Ended, Pool, Sandbox, SandboxError, Zygote};

/// What became of a submission.
fn judge(pool: &Pool, program: &str, input: &str, expected: &str) -> Result<&'static str, SandboxError> {
    let result = pool.command("sh").args(["-c", program]).input(input).output()?;
    Ok(match result.ended {
        Ended::TimedOut => "time limit",
        Ended::OutOfMemory => "memory limit",
        // With cgroup v1 the kernel kills one process, and the others may end as if nothing had been.
        _ if result.oom_kills > 0 => "memory limit",
        Ended::Exited(0) if result.stdout == expected => "accepted",
        Ended::Exited(0) => "wrong answer",
        _ => "run-time error",
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Early in the program's life, and once.
    let zygote = Zygote::start()?;
    let mut builder = Sandbox::builder().wall_time_limit(Duration::from_secs(1)).max_output(4096);
    // A cgroup, which these need, is not to be had everywhere.
    let strict = builder.clone().memory_limit(64 << 20).max_pids(20);
    if strict.clone().build()?.run("true", &[]).is_ok() {
        builder = strict;
    }
    let pool = zygote.pool(&builder.build()?, 8)?;

    let submissions =
        ["read a b; echo $((a + b))", "echo 41", "while :; do :; done", "cat /etc/shadow; exit 1"];
    let verdicts = std::thread::scope(|scope| {
        let judges: Vec<_> = submissions
            .iter()
            .map(|program| scope.spawn(|| judge(&pool, program, "40 2\n", "42\n")))
            .collect();
        judges.into_iter().map(|judge| judge.join().expect("no judge panics")).collect::<Result<Vec<_>, _>>()
    })?;
    assert_eq!(verdicts, ["accepted", "wrong answer", "time limit", "run-time error"]);
    Ok(())
}
