//! Whether what was seen is chance: exact tests for counts, and ranks for what can have any size.
//!
//! All of them hold whatever the machine does meanwhile, since which of two guesses is asked for first, and which trial is a control,
//! is drawn anew each time.

use std::cmp::Ordering;

/// Logarithms of factorials.
#[derive(Default)]
pub struct Factorials(Vec<f64>);

impl Factorials {
    /// ln(n over k).
    fn choose(&mut self, n: u64, k: u64) -> f64 {
        while self.0.len() <= n as usize {
            let next = self.0.last().map_or(0.0, |last| last + (self.0.len() as f64).ln());
            self.0.push(next);
        }
        let of = |number: u64| self.0[number as usize];
        of(n) - of(k) - of(n - k)
    }

    /// How probable it is that a fair coin, thrown `more + less` times, falls on one side at least as often as the larger of the two.
    pub fn signs(&mut self, more: u64, less: u64) -> f64 {
        let (all, larger) = (more + less, more.max(less));
        let one = |count| (self.choose(all, count) - all as f64 * std::f64::consts::LN_2).exp();
        (2.0 * (larger..=all).map(one).sum::<f64>()).min(1.0)
    }

    /// Fisher's exact test: `had` of `all` in one group, and the same of another. How probable a difference at least as large is where
    /// the groups are drawn by lot.
    pub fn proportions(&mut self, (had, all): (u64, u64), (other_had, other_all): (u64, u64)) -> f64 {
        let (sum, everything) = (had + other_had, all + other_all);
        let least = sum.saturating_sub(other_all);
        let mut one = |count: u64| {
            (self.choose(all, count) + self.choose(other_all, sum - count) - self.choose(everything, sum))
                .exp()
        };
        let seen = one(had) * (1.0 + 1e-9);
        let tail = (least..=sum.min(all)).map(one).filter(|probability| *probability <= seen);
        tail.sum::<f64>().min(1.0)
    }
}

/// Mann and Whitney's test, with ties: how probable it is that the ranks of two groups are so far apart where the groups are drawn by lot.
pub fn ranks(one: &[f64], other: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> = one.iter().map(|value| (*value, true)).collect();
    all.extend(other.iter().map(|value| (*value, false)));
    all.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
    let (mut sum, mut ties, mut before) = (0.0, 0.0, 0.0);
    for same in all.chunk_by(|a, b| a.0 == b.0) {
        let count = same.len() as f64;
        let mine = same.iter().filter(|(_, mine)| *mine).count() as f64;
        sum += mine * (before + (count + 1.0) / 2.0);
        ties += count.powi(3) - count;
        before += count;
    }
    let (m, n) = (one.len() as f64, other.len() as f64);
    let both = m + n;
    let variance = m * n / 12.0 * (both + 1.0 - ties / (both * (both - 1.0)).max(1.0));
    if m == 0.0 || n == 0.0 || variance <= 0.0 {
        return 1.0;
    }
    let far = ((sum - m * (m + 1.0) / 2.0 - m * n / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    2.0 * upper_tail(far)
}

/// How probable it is that a normal variable is larger.
fn upper_tail(z: f64) -> f64 {
    if z < 2.0 {
        // Simpson's rule from here to where nothing is left.
        let (steps, end) = (400, 12.0);
        let width = (end - z) / f64::from(steps);
        let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let weight = |step: i32| match step {
            0 | 400 => 1.0,
            step if step % 2 == 1 => 4.0,
            _ => 2.0,
        };
        let sum: f64 = (0..=steps).map(|step| weight(step) * density(z + f64::from(step) * width)).sum();
        return sum * width / 3.0;
    }
    // A continued fraction, from its end.
    let fraction = (1..=60).rev().fold(z, |inner, step| z + f64::from(step) / inner);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() / fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64) -> bool {
        (found / wanted - 1.0).abs() < 0.01
    }

    #[test]
    fn probabilities_are_those_of_the_tables() {
        let mut factorials = Factorials::default();
        assert!(near(factorials.signs(10, 0), 2.0 / 1024.0));
        assert!(near(factorials.signs(5, 5), 1.0));
        assert!(near(factorials.signs(36, 0), 2.0 * 0.5f64.powi(36)));
        // Fisher's cups of tea.
        assert!(near(factorials.proportions((3, 4), (1, 4)), 0.4857));
        assert!(near(factorials.proportions((8, 10), (1, 10)), 0.005_477));
        assert!(near(upper_tail(1.0), 0.158_655) && near(upper_tail(6.0), 9.8659e-10));
    }

    #[test]
    fn ranks_tell_groups_that_are_apart_and_no_others() {
        let up: Vec<f64> = (0..100).map(f64::from).collect();
        let shifted: Vec<f64> = up.iter().map(|value| value + 60.0).collect();
        assert!(ranks(&up, &shifted) < 1e-9);
        assert!(near(ranks(&up, &up), 1.0));
        assert!(near(ranks(&[0.0; 50], &[0.0; 20]), 1.0));
        let (none, some) = ([0.0; 100], [[0.0; 50], [1.0; 50]].concat());
        assert!(ranks(&none, &some) < 1e-9);
    }
}
