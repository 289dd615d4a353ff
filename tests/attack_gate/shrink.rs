//! Making a finding smaller, for as long as it stays one.

use crate::attack_gate::tries::Try;

/// The smallest that was found with so many tests.
pub fn shrink(attempt: &Try, mut tests: usize, mut still: impl FnMut(&Try) -> bool) -> Try {
    let mut best = attempt.clone();
    let mut tries = |candidate: &Try, best: &mut Try| {
        if tests == 0 || candidate == best {
            return false;
        }
        tests -= 1;
        let good = still(candidate);
        if good {
            *best = candidate.clone();
        }
        good
    };
    // In one go, without pauses.
    let mut whole = best.clone();
    if let Some((first, rest)) = whole.parts.split_first_mut() {
        first.pause = 0;
        rest.iter().for_each(|part| first.bytes.extend_from_slice(&part.bytes));
    }
    whole.parts.truncate(1);
    tries(&whole, &mut best);
    for index in 0..best.parts.len() {
        let mut size = best.parts[index].bytes.len() / 2;
        while size > 0 {
            let mut at = 0;
            while at < best.parts[index].bytes.len() {
                let mut less = best.clone();
                let end = (at + size).min(less.parts[index].bytes.len());
                less.parts[index].bytes.drain(at..end);
                if !tries(&less, &mut best) {
                    at += size;
                }
            }
            size /= 2;
        }
    }
    best
}
