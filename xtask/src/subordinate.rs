//! Subordinate ids for the ordinary user of the suites: sandboxes with several users need them. Where they are missing and we
//! may, a line is added to each file, and said so; it stays, as installed packages do.

use std::fs;
use std::io::Write;

const USER: &str = "nobody";
const COUNT: u64 = 65536;
const FILES: [&str; 2] = ["/etc/subuid", "/etc/subgid"];

/// Adds what is missing. A failure is told, not returned.
pub fn add() {
    for file in FILES {
        let text = fs::read_to_string(file).unwrap_or_default();
        let Some(line) = missing(&text) else { continue };
        println!("adding `{line}` to {file}: the suite `users` runs as {USER} too");
        let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let added = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(file)
            .and_then(|mut file| file.write_all(format!("{newline}{line}\n").as_bytes()));
        if let Err(error) = added {
            println!("note: {file}: {error}; tests of several users are skipped for {USER}");
        }
    }
}

/// The line that gives the user ids past all that others have; `None` if it has some.
fn missing(text: &str) -> Option<String> {
    let ranges = || {
        text.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let (name, start, count) = (fields.next()?, fields.next()?, fields.next()?);
            Some((name, start.parse::<u64>().ok()?, count.trim().parse::<u64>().ok()?))
        })
    };
    if ranges().any(|(name, _, count)| name == USER && count > 1) {
        return None;
    }
    let start = ranges().map(|(_, start, count)| start + count).fold(200_000, u64::max);
    Some(format!("{USER}:{start}:{COUNT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_missing_only_for_who_has_none() {
        assert_eq!(missing("").as_deref(), Some("nobody:200000:65536"));
        assert_eq!(missing("me:300000:65536\n").as_deref(), Some("nobody:365536:65536"));
        assert_eq!(missing("nobody:100000:65536\n"), None);
    }
}
