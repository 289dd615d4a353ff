//! The known word that a mistyped one was meant to be.

/// The candidate within a third of the word's length in edits; none is better than a wild guess.
///
/// ```
/// let flags = ["--allow-write", "--deny-write"];
/// assert_eq!(kennel_policy::nearest::nearest("--alow-write", flags), Some("--allow-write"));
/// assert_eq!(kennel_policy::nearest::nearest("--colour", flags), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // No name of ours is longer, and the cost grows with the square.
    if word.len() > 64 {
        return None;
    }
    let most = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(edits, _)| *edits <= most)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    // Rows of the usual table: for the prefix two characters shorter, one shorter, and the present one.
    let mut before_last = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut best = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (from, to, edits) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("abc", "ab", 1),
            ("kitten", "sitting", 3),
            ("", "ab", 2),
        ] {
            assert_eq!(distance(from, to), edits, "{from} {to}");
        }
    }

    #[test]
    fn the_nearest_of_several_is_chosen() {
        let keys = ["allow_read", "allow_write", "deny_read", "deny_write"];
        assert_eq!(nearest("alow_write", keys), Some("allow_write"));
        assert_eq!(nearest("denyread", keys), Some("deny_read"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest(&"x".repeat(10_000), keys), None);
    }
}
