//! Results as Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use crate::rounds::Way;

/// A table of all ways: medians, minima, and how each compares with those at `against`.
#[must_use]
pub fn of(ways: &[Way], against: &[usize]) -> String {
    let with_memory = ways.iter().any(|way| way.peak_memory().is_some());
    let mut text = "| | median | min |".to_owned();
    for &other in against {
        let _ = write!(text, " × {} |", ways[other].name);
    }
    text += if with_memory { " peak memory |\n" } else { "\n" };
    text += &"|---".repeat(3 + against.len() + usize::from(with_memory));
    text += "|\n";
    for way in ways {
        let _ = write!(text, "| {} | {} | {} |", way.name, time(way.median()), time(way.shortest()));
        for &other in against {
            let _ = write!(text, " {:.2} |", ratio(way, &ways[other]));
        }
        if with_memory {
            let memory =
                way.peak_memory().map_or(String::new(), |bytes| format!("{:.1} MB", bytes as f64 / 1e6));
            let _ = write!(text, " {memory} |");
        }
        text.push('\n');
    }
    text
}

/// A table of all ways for which the slow runs matter: medians, 99th percentiles, and how both compare with those at
/// `against`.
#[must_use]
pub fn with_tail(ways: &[Way], against: &[usize]) -> String {
    let mut text = "| | median | p99 |".to_owned();
    for &other in against {
        let _ = write!(text, " × {0} | p99 × {0} |", ways[other].name);
    }
    text += &format!("\n{}|\n", "|---".repeat(3 + 2 * against.len()));
    for way in ways {
        let _ = write!(text, "| {} | {} | {} |", way.name, time(way.median()), time(way.percentile(99)));
        for &other in against {
            let tails = way.percentile(99).as_secs_f64() / ways[other].percentile(99).as_secs_f64();
            let _ = write!(text, " {:.2} | {tails:.2} |", ratio(way, &ways[other]));
        }
        text.push('\n');
    }
    text
}

/// How many times as long `way` takes as `other`.
#[must_use]
pub fn ratio(way: &Way, other: &Way) -> f64 {
    way.median().as_secs_f64() / other.median().as_secs_f64()
}

/// A goal, and whether it was reached this time.
#[must_use]
pub fn goal(what: &str, value: f64, limit: f64) -> String {
    let verdict = if value <= limit { "reached" } else { "missed" };
    format!("- {what}: {value:.2}, goal at most {limit}: {verdict}\n")
}

/// The same for what is to be large.
#[must_use]
pub fn goal_at_least(what: &str, value: f64, least: f64) -> String {
    let verdict = if value >= least { "reached" } else { "missed" };
    format!("- {what}: {value:.2}, goal at least {least}: {verdict}\n")
}

/// Three or four digits, in a unit that suits.
fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        1.0.. => format!("{seconds:.2} s"),
        1e-3.. => format!("{:.2} ms", seconds * 1e3),
        1e-6.. => format!("{:.2} µs", seconds * 1e6),
        _ => format!("{:.0} ns", seconds * 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{Sample, take_turns};

    #[test]
    fn a_table_has_a_row_for_each_way_and_a_column_for_each_comparison() {
        let fixed = |ms| move || Ok(Sample { time: Duration::from_millis(ms), peak_memory: None });
        let mut ways = [Way::new("plain", fixed(2)), Way::new("other", fixed(3))];
        take_turns(&mut ways, 1).unwrap();
        assert_eq!(
            of(&ways, &[0]),
            "| | median | min | × plain |\n|---|---|---|---|\n\
             | plain | 2.00 ms | 2.00 ms | 1.00 |\n| other | 3.00 ms | 3.00 ms | 1.50 |\n"
        );
    }
}
