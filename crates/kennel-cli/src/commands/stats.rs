//! What a command used, for `--stats`: at the end on standard error, and meanwhile in the last row of the terminal.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::time::{Duration, Instant};

use kennel::outcome::{Outcome, Usage, UsageSink};

use crate::platform::terminal_size;

/// How often the row is drawn anew.
pub const EVERY: Duration = Duration::from_millis(500);

/// The figures at the end, one to a line.
pub fn at_exit(outcome: &Outcome) -> String {
    let seconds = |time: Duration| format!("{:.3} s", time.as_secs_f64());
    let mut cpu = format!("{} user, {} system", seconds(outcome.cpu_user), seconds(outcome.cpu_system));
    if let Some(throttled) = outcome.cpu_throttled.filter(|time| !time.is_zero()) {
        let _ = write!(cpu, "; throttled for {}", seconds(throttled));
    }
    let whose = if outcome.memory_counted { "in total" } else { "of the largest process" };
    let traffic = outcome.network.traffic.as_ref();
    let traffic = traffic.map(|own| {
        format!("\nkennel: {:<15} {} out, {} in", "traffic", bytes(own.egress), bytes(own.ingress))
    });
    let most = outcome.max_pids_seen.map_or("not counted".to_owned(), |most| most.to_string());
    [
        ("wall time", seconds(outcome.wall_time)),
        ("CPU time", cpu),
        ("peak memory", format!("{} {whose}", bytes(outcome.peak_memory))),
        ("peak processes", most),
        ("OOM kills", outcome.oom_kills.to_string()),
    ]
    .map(|(what, value)| format!("kennel: {what:<15} {value}"))
    .join("\n")
        + &traffic.unwrap_or_default()
}

/// An amount as settings take it.
pub fn bytes(amount: u64) -> String {
    let units = [("T", 1u64 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
    match units.into_iter().find(|(_, unit)| amount >= *unit) {
        None => format!("{amount} bytes"),
        Some((letter, unit)) if amount.is_multiple_of(unit) => format!("{}{letter}", amount / unit),
        Some((letter, unit)) => format!("{:.1}{letter}", amount as f64 / unit as f64),
    }
}

/// The last row of the terminal, kept out of the command's way by a scrolling region that ends above it.
#[derive(Debug)]
pub struct LiveRow {
    started: Instant,
    /// The terminal's rows while the last one is ours.
    taken: Option<u16>,
}

impl LiveRow {
    /// `None` where standard error is no terminal that can do this.
    pub fn new() -> Option<Self> {
        let can = io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        can.then(|| LiveRow { started: Instant::now(), taken: None })
    }

    /// What has to be written to show `text` in a terminal of this size.
    fn show(&mut self, text: &str, (rows, columns): (u16, u16)) -> String {
        let mut out = String::new();
        // With fewer rows there would be no room for the command.
        if rows < 4 {
            return self.give_back();
        }
        if self.taken != Some(rows) {
            out += &self.give_back();
            // IND goes down a row without losing the column, and scrolls if there is none below; setting the region
            // moves the cursor, so that it is saved and restored around it.
            let _ = write!(out, "\x1bD\x1b7\x1b[1;{}r\x1b8\x1b[A", rows - 1);
            self.taken = Some(rows);
        }
        let text: String = text.chars().take(usize::from(columns)).collect();
        let _ = write!(out, "\x1b7\x1b[{rows};1H\x1b[2K{text}\x1b8");
        out
    }

    /// What has to be written to give the row back.
    fn give_back(&mut self) -> String {
        match self.taken.take() {
            Some(rows) => format!("\x1b7\x1b[r\x1b[{rows};1H\x1b[2K\x1b8"),
            None => String::new(),
        }
    }
}

impl UsageSink for LiveRow {
    fn tell(&mut self, usage: &Usage) {
        let text = line(self.started.elapsed(), usage);
        let out = self.show(&text, terminal_size());
        // One write, so that nothing of the command's comes in between.
        let _ = io::stderr().write_all(out.as_bytes());
    }

    fn pause(&mut self) {
        let out = self.give_back();
        let _ = io::stderr().write_all(out.as_bytes());
    }
}

impl Drop for LiveRow {
    fn drop(&mut self) {
        self.pause();
    }
}

fn line(elapsed: Duration, usage: &Usage) -> String {
    let mut text = format!("kennel: {:.1} s", elapsed.as_secs_f64());
    if let (Some(user), Some(system)) = (usage.cpu_user, usage.cpu_system) {
        let _ = write!(text, ", CPU {:.1} s", (user + system).as_secs_f64());
    }
    if let Some(memory) = usage.memory {
        let _ = write!(text, ", memory {}", bytes(memory));
    }
    if let Some(processes) = usage.processes {
        let _ = write!(text, ", {processes} processes");
    }
    if let (Some(egress), Some(ingress)) = (usage.egress, usage.ingress) {
        let _ = write!(text, ", {} out, {} in", bytes(egress), bytes(ingress));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kennel::outcome::Ended;

    #[test]
    fn amounts_are_short() {
        let shown = [0, 1023, 1024, 1536, 64 << 20, (1 << 30) + (1 << 29)].map(bytes);
        assert_eq!(shown, ["0 bytes", "1023 bytes", "1K", "1.5K", "64M", "1.5G"]);
    }

    #[test]
    fn what_was_not_counted_is_said() {
        let mut outcome = Outcome {
            ended: Ended::Exited(0),
            wall_time: Duration::from_millis(1250),
            cpu_user: Duration::from_millis(980),
            cpu_system: Duration::from_millis(41),
            cpu_throttled: Some(Duration::from_millis(20)),
            peak_memory: 3 << 20,
            memory_counted: true,
            max_pids_seen: Some(5),
            oom_kills: 1,
            pids_refused: 0,
            output_truncated: false,
            violations: Default::default(),
            denials: Default::default(),
            tried_network: false,
            handed_back: Default::default(),
            not_enforced: Vec::new(),
            warnings: Vec::new(),
            network: Default::default(),
            gateway: Default::default(),
            stream_failure: None,
        };
        assert_eq!(
            at_exit(&outcome),
            "kennel: wall time       1.250 s\n\
             kennel: CPU time        0.980 s user, 0.041 s system; throttled for 0.020 s\n\
             kennel: peak memory     3M in total\n\
             kennel: peak processes  5\n\
             kennel: OOM kills       1"
        );
        (outcome.memory_counted, outcome.max_pids_seen) = (false, None);
        let text = at_exit(&outcome);
        assert!(
            text.contains("3M of the largest process") && text.contains("processes  not counted"),
            "{text}"
        );
    }

    #[test]
    fn the_row_is_taken_once_and_given_back() {
        let mut row = LiveRow { started: Instant::now(), taken: None };
        assert_eq!(row.show("abc", (24, 2)), "\x1bD\x1b7\x1b[1;23r\x1b8\x1b[A\x1b7\x1b[24;1H\x1b[2Kab\x1b8");
        assert_eq!(row.show("x", (24, 80)), "\x1b7\x1b[24;1H\x1b[2Kx\x1b8");
        let resized = row.show("x", (10, 80));
        assert!(resized.starts_with("\x1b7\x1b[r\x1b[24;1H\x1b[2K\x1b8\x1bD"), "{resized:?}");
        assert_eq!(row.show("x", (3, 80)), "\x1b7\x1b[r\x1b[10;1H\x1b[2K\x1b8");
        assert_eq!(row.show("x", (0, 0)), "");
    }
}
