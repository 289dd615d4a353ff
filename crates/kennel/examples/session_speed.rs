//! How long a command of a session takes, from its start to its end, beside a plain one: `cargo run --release --example
//! session_speed [ROUNDS]`. The two take turns, so that whatever else the machine does meets both.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(2000);
    let session = kennel::Sandbox::builder().build()?.session()?;
    let plain = || -> std::io::Result<bool> {
        let mut command = Command::new("/bin/true");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.status()?.success())
    };
    let inside = || -> kennel::Result<bool> {
        let mut command = session.command("/bin/true");
        command.stdin(kennel::Stdio::null()).stdout(kennel::Stdio::null()).stderr(kennel::Stdio::null());
        Ok(command.status()?.success())
    };
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let begun = Instant::now();
        assert!(plain()?);
        times[0].push(begun.elapsed());
        let begun = Instant::now();
        assert!(inside()?);
        times[1].push(begun.elapsed());
    }
    let at = |times: &mut Vec<Duration>, share: f64| {
        times.sort_unstable();
        times[((times.len() - 1) as f64 * share) as usize]
    };
    let [mut plain, mut inside] = times;
    for (name, share) in [("least", 0.0), ("p10", 0.1), ("median", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let (plain, inside) = (at(&mut plain, share), at(&mut inside, share));
        println!(
            "{name}: plain {plain:?}, session {inside:?}, {:.2} x",
            inside.as_secs_f64() / plain.as_secs_f64()
        );
    }
    Ok(())
}
