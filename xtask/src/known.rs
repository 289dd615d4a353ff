//! Tests that fail because of a fault that is known and not mended yet: `tests/known-failures.txt`. They do not fail a
//! run, and every run shows them, with the fault.

use std::collections::BTreeMap;
use std::fs;

use crate::Failure;
use crate::cargo;

/// The known failures of one suite: each test and the fault behind it.
///
/// # Errors
/// When the list cannot be read, or a line of it names no fault.
pub fn failures(suite: &str) -> Result<BTreeMap<String, String>, Failure> {
    let path = cargo::root().join("tests/known-failures.txt");
    let list = match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        other => other.map_err(|error| format!("reading {}: {error}", path.display()))?,
    };
    read(&list, suite).map_err(|line| format!("{}: no `suite test # fault`: {line}", path.display()).into())
}

/// A line is the suite, the test, and behind ` # ` the fault; one that starts with `#` is a comment.
fn read(list: &str, suite: &str) -> Result<BTreeMap<String, String>, String> {
    let mut known = BTreeMap::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let parts =
            line.split_once(" # ").and_then(|(test, fault)| Some((test.split_once(' ')?, fault.trim())));
        let Some(((of, test), fault)) = parts else { return Err(line.to_owned()) };
        if of == suite {
            known.insert(test.trim().to_owned(), fault.to_owned());
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_suite_test_and_fault() {
        let list = "# why\ncli a::b # says nothing\nescape c # leaks\n";
        let expected = BTreeMap::from([("a::b".to_owned(), "says nothing".to_owned())]);
        assert_eq!(read(list, "cli"), Ok(expected));
        assert_eq!(
            read("cli a::b\n", "cli"),
            Err("cli a::b".to_owned()),
            "a failure without a fault is a bug"
        );
    }
}
