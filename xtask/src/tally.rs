//! What came of tests, read from the words of Rust's test runner, and summed up.

use std::collections::BTreeSet;
use std::ops::AddAssign;
use std::time::Duration;

/// How a test says that it could not be run.
const SKIPPED: &str = "SKIPPED: ";

/// Counts of tests, and why some were not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that did what they ought to.
    pub passed: usize,
    /// Tests, or checks, that did not.
    pub failed: usize,
    /// The names of such tests.
    pub failing: BTreeSet<String>,
    /// How long each test took, where the runner was asked for it.
    pub times: Vec<(String, Duration)>,
    /// Which tests said that they could not be run, or not all of them, and why.
    pub skipped: BTreeSet<Skip>,
}

/// A test that was not run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skip {
    /// What it lacked.
    pub reason: String,
    /// Its name; empty where the output does not tell.
    pub test: String,
}

impl Tally {
    /// Reads what test programs printed with `--show-output`. To the runner a test that returns early has passed; here
    /// it counts as skipped instead.
    pub fn read(output: &str) -> Tally {
        let mut tally = Tally::default();
        let mut section = "";
        // A test may run the tests of its own program as somebody else, and pass on what that printed.
        let mut depth = 0usize;
        for line in output.lines() {
            if let Some(reason) = line.strip_prefix(SKIPPED) {
                tally.skip(section, reason);
            } else if line.starts_with("     Running ") || line.starts_with("   Doc-tests ") {
                // Cargo's words before each program: whatever the one before left open is over.
                depth = 0;
            } else if line.starts_with("running ") && line.trim_end_matches('s').ends_with(" test") {
                depth += 1;
            } else if let Some(counts) = line.strip_prefix("test result: ") {
                if depth <= 1 {
                    tally.passed += count(counts, "passed");
                    tally.failed += count(counts, "failed");
                    section = "";
                }
                depth = depth.saturating_sub(1);
            } else if depth > 1 {
                continue;
            } else if let Some(name) = between(line, "---- ", " stdout ----") {
                section = name;
            } else if matches!(line, "successes:" | "failures:") {
                section = "";
            } else if let Some((name, end)) =
                line.strip_prefix("test ").and_then(|line| line.split_once(" ... "))
            {
                let (end, time) = end_and_time(end);
                tally.times.extend(time.map(|time| (name.to_owned(), time)));
                // A program without the runner prints such lines too, and no sums.
                tally.passed += usize::from(depth == 0 && end == "ok");
                tally.failed += usize::from(depth == 0 && end == "FAILED");
                if end == "FAILED" {
                    tally.failing.insert(name.to_owned());
                } else if let Some(reason) = end.strip_prefix("ignored").or(end.strip_prefix(SKIPPED)) {
                    let reason = reason.trim_start_matches(", ");
                    tally.skip(name, if reason.is_empty() { "ignored" } else { reason });
                    // Nobody has counted it as passed, so there is nothing to take back below.
                    tally.passed += 1;
                }
            }
        }
        let said_so: BTreeSet<&str> = tally.skipped.iter().map(|skip| skip.test.as_str()).collect();
        let not_run =
            said_so.iter().filter(|test| !test.is_empty() && !tally.failing.contains(**test)).count();
        tally.passed = tally.passed.saturating_sub(not_run);
        tally
    }

    fn skip(&mut self, test: &str, reason: &str) {
        self.skipped.insert(Skip { test: test.to_owned(), reason: reason.trim().to_owned() });
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failing.extend(other.failing);
        self.times.extend(other.times);
        self.skipped.extend(other.skipped);
    }
}

/// `ok <1.234s>` → `ok` and the time.
fn end_and_time(end: &str) -> (&str, Option<Duration>) {
    let found = end.strip_suffix("s>").and_then(|end| end.rsplit_once(" <"));
    let parsed =
        found.and_then(|(end, time)| Some((end, Duration::try_from_secs_f64(time.parse().ok()?).ok()?)));
    parsed.map_or((end, None), |(end, time)| (end, Some(time)))
}

fn between<'l>(line: &'l str, before: &str, after: &str) -> Option<&'l str> {
    line.strip_prefix(before)?.strip_suffix(after)
}

/// `ok. 3 passed; 0 failed; …` → 3 for `passed`.
fn count(counts: &str, what: &str) -> usize {
    let words: Vec<&str> = counts.split([' ', ';']).collect();
    let at = words.windows(2).find(|pair| pair[1] == what);
    at.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 4 tests
test a_b ... ok
test c::d ... ok
test slow ... ignored, takes an hour
test wrong ... FAILED

successes:

---- c::d stdout ----
SKIPPED: no tmux
SKIPPED: no tmux


successes:
    a_b
    c::d

failures:

---- wrong stdout ----
SKIPPED: half of it
thread 'wrong' panicked at x.rs:1:2

failures:
    wrong

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s
";

    #[test]
    fn a_test_that_was_skipped_did_not_pass() {
        let tally = Tally::read(OUTPUT);
        assert_eq!((tally.passed, tally.failed, tally.skipped.len()), (1, 1, 3));
    }

    #[test]
    fn a_skip_has_its_test_and_its_reason() {
        let skip = Skip { test: "c::d".into(), reason: "no tmux".into() };
        assert!(Tally::read(OUTPUT).skipped.contains(&skip));
    }

    #[test]
    fn what_a_test_passes_on_of_other_tests_is_not_counted_again() {
        let inner = "running 2 tests\nsuccesses:\nSKIPPED: no bus\ntest result: ok. 2 passed; 0 failed\n";
        let output = format!(
            "running 3 tests\n---- outer stdout ----\n{inner}\nsuccesses:\n    outer\n\ntest result: ok. 3 passed; 0 failed\n"
        );
        let tally = Tally::read(&output);
        assert_eq!((tally.passed, tally.skipped.len()), (2, 1));
        assert_eq!(tally.skipped.first().map(|skip| skip.test.as_str()), Some("outer"));
    }

    #[test]
    fn a_program_without_the_runner_is_counted_by_its_lines() {
        let tally = Tally::read(
            "test a (as root) ... ok\n    note: 1 ms\ntest b ... SKIPPED: needs root\ntest c ... FAILED\n",
        );
        assert_eq!((tally.passed, tally.failed, tally.skipped.len()), (1, 1, 1));
    }

    #[test]
    fn the_time_of_a_test_is_read_where_it_is_told() {
        let tally = Tally::read("running 2 tests\ntest a::b ... ok <1.500s>\ntest c ... FAILED <0.001s>\n");
        let times =
            [("a::b", 1500), ("c", 1)].map(|(name, time)| (name.to_owned(), Duration::from_millis(time)));
        assert_eq!(tally.times, times);
        assert!(tally.failing.contains("c"));
    }

    #[test]
    fn several_programs_in_one_output_are_summed_up() {
        let result = "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(Tally::read(&result.repeat(3)).passed, 15);
    }
}
