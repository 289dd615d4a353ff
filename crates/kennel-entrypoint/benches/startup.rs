//! What the entrypoint adds to the start of an agent: `cargo bench -p kennel-entrypoint`.
//!
//! The same program is started three ways in turn, many times over, so that a change of the machine's mood meets all
//! three alike: by itself, through the entrypoint, and through the entrypoint as init. Each time is from before the
//! fork to after the wait. As root the entrypoint drops to `nobody`; as an ordinary user it warns that it cannot, and
//! that is measured instead.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const ENTRYPOINT: &str = env!("CARGO_BIN_EXE_kennel-entrypoint");
const AGENT: &str = "/bin/true";

/// Start-up through the entrypoint may take this much longer.
const LIMIT: Duration = Duration::from_micros(300);

fn main() -> ExitCode {
    // `cargo test --all-targets` runs this too, in an unoptimised build: only to see that it runs.
    let in_earnest = std::env::args().any(|argument| argument == "--bench");
    let rounds = if in_earnest { 2000 } else { 20 };

    let environment = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/"),
        ("SESSION_TOKEN", "0123456789abcdef0123456789abcdef"),
        ("CONTROL_PLANE_URL", "https://control.example"),
        ("SESSION_ID", "bench"),
        ("AGENT_USER", "nobody"),
        ("AGENT_WORKDIR", "/"),
    ];
    let command = |program: &str, extra: &[(&str, &str)]| {
        let mut command = Command::new(program);
        command.env_clear().envs(environment).envs(extra.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut ways = [
        ("plain exec", command(AGENT, &[]), Vec::new()),
        ("entrypoint", command(ENTRYPOINT, &[("AGENT_COMMAND", AGENT)]), Vec::new()),
        (
            "entrypoint, AGENT_INIT=1",
            command(ENTRYPOINT, &[("AGENT_COMMAND", AGENT), ("AGENT_INIT", "1")]),
            Vec::new(),
        ),
    ];
    for _ in 0..rounds {
        for (name, command, times) in &mut ways {
            let start = Instant::now();
            match command.status() {
                Ok(status) if status.success() => times.push(start.elapsed()),
                outcome => {
                    eprintln!("running {AGENT} by {name}: {outcome:?}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }

    let size = std::fs::metadata(ENTRYPOINT).map_or(0, |file| file.len());
    println!("kennel-entrypoint: {size} bytes; {AGENT}, {rounds} rounds, interleaved");
    println!("{:<26}{:>10}{:>10}{:>10}{:>14}", "", "p5", "median", "p95", "added");
    let plain = quantile(&mut ways[0].2, 50);
    for (name, _, times) in &mut ways {
        let [low, median, high] = [5, 50, 95].map(|percent| quantile(times, percent));
        let added = milliseconds(median) - milliseconds(plain);
        println!(
            "{name:<26}{:>7.3} ms{:>7.3} ms{:>7.3} ms{added:>+11.3} ms",
            milliseconds(low),
            milliseconds(median),
            milliseconds(high)
        );
    }
    let within = quantile(&mut ways[1].2, 50) <= plain + LIMIT;
    println!(
        "limit for the entrypoint: {:+.3} ms, {}",
        milliseconds(LIMIT),
        if within { "kept" } else { "exceeded" }
    );
    if within || !in_earnest { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn quantile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort();
    times[(times.len() - 1) * percent / 100]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
