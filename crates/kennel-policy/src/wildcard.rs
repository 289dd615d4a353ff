//! Texts in which `*` stands for anything: names of models, parts of paths.

/// Whether a text fits a pattern, in which each `*` stands for anything, also for nothing.
///
/// ```
/// use kennel_policy::wildcard::fits;
///
/// assert!(fits("claude-*", "claude-5") && fits("*-mini", "gpt-6-mini") && fits("a*b*c", "abc"));
/// assert!(!fits("claude-*", "my-claude-5") && !fits("ab*ba", "aba"));
/// ```
#[must_use]
pub fn fits(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}
