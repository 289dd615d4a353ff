//! Host names in their one spelling.

use super::HostRuleError;
use crate::printed::show;

/// Lower case, A-labels, no trailing dot, every character and length checked.
pub(super) fn fold(text: &str) -> Result<String, HostRuleError> {
    // Far more than any name can have, also in its longest spelling; keeps the work on hostile text small.
    if text.len() > 1024 {
        return Err(HostRuleError::TooLong);
    }
    check_ascii(text)?;
    let mut name = text.to_ascii_lowercase();
    // A-labels are checked too: one that decodes to nothing sensible is no name that anyone registered.
    if !name.is_ascii() || name.split('.').any(|label| label.starts_with("xn--")) {
        name = idna::domain_to_ascii_cow(name.as_bytes(), idna::AsciiDenyList::URL)
            .map_err(|_| HostRuleError::International)?
            .into_owned();
        check_ascii(&name)?;
    }
    if name.ends_with('.') {
        name.pop();
    }
    if name.is_empty() || name.split('.').any(str::is_empty) {
        return Err(HostRuleError::EmptyLabel);
    }
    if name.len() > 253 || name.split('.').any(|label| label.len() > 63) {
        return Err(HostRuleError::TooLong);
    }
    Ok(name)
}

/// Underscores are no part of a host name by the book, but names that have them are in daily use.
fn check_ascii(text: &str) -> Result<(), HostRuleError> {
    let odd = |c: &char| c.is_ascii() && !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.');
    match text.chars().find(odd) {
        None => Ok(()),
        Some(' ') => Err(HostRuleError::Character("a space".to_owned())),
        Some(character) => Err(HostRuleError::Character(format!(
            "`{}`",
            show(character.encode_utf8(&mut [0; 4]).as_bytes())
        ))),
    }
}
