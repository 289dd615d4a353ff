//! Whether every test that SECURITY.md names exists: a claim whose test was renamed or removed is a claim without one.

use std::fs;
use std::path::Path;

use crate::Failure;
use crate::cargo;

/// Tests that SECURITY.md names, in the form `suite::test`, and that do not exist.
///
/// # Errors
/// When a file cannot be read.
pub fn unfounded() -> Result<Vec<String>, Failure> {
    let page = fs::read_to_string(cargo::root().join("SECURITY.md"))?;
    let mut lacking = Vec::new();
    for (suite, test) in named(&page) {
        let mut source = String::new();
        for folder in ["tests", "crates"] {
            read_all(&cargo::root().join(folder).join(suite), &mut source)?;
        }
        // A property has arguments.
        if !source.contains(&format!("fn {test}(")) {
            lacking.push(format!("{suite}::{test}, and there is no such test"));
        }
    }
    Ok(lacking)
}

/// What stands between backticks and has the form `suite::test`.
fn named(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_name =
        |name: &str| name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
    let quoted = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let named = quoted.filter_map(|word| word.split_once("::"));
    named.filter(move |(suite, test)| is_name(suite) && is_name(test) && *test != "name")
}

fn read_all(folder: &Path, source: &mut String) -> Result<(), Failure> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path, source)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            *source += &fs::read_to_string(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tests_are_told_from_other_words() {
        let page =
            "| `/proc` is closed, see `ExecutionResult::stdout` | `escape::a_b`, `cli::c` |\n`suite::name`";
        assert_eq!(named(page).collect::<Vec<_>>(), [("escape", "a_b"), ("cli", "c")]);
    }
}
