//! The documents, which have to name the commands and flags that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::*;

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// README.md, SECURITY.md and the guide, each with its name.
fn pages() -> Vec<(String, String)> {
    let guide = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let top = ["README.md", "SECURITY.md", "CONTRIBUTING.md"].map(|name| root().join(name));
    let all = guide.chain(top).filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    all.map(|path| (path.file_name().unwrap().to_string_lossy().into(), fs::read_to_string(&path).unwrap()))
        .collect()
}

#[test]
fn the_index_has_every_command() {
    let page = fs::read_to_string(root().join("docs/README.md")).unwrap();
    let (_, rest) = page.split_once("## The commands\n").expect("a list of commands");
    let rows =
        rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let listed: BTreeSet<String> = rows
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter_map(|code| code.strip_prefix("kennel "))
        .map(str::to_owned)
        .collect();
    let there: BTreeSet<String> = COMMANDS.iter().map(|command| command.name.to_owned()).collect();
    assert_eq!(listed, there);
}

/// What can be split at blanks alone: the rest is for a shell.
fn is_plain(word: &str) -> bool {
    !word.contains(['\'', '"', '$', '`', '…', '|', '<', '>', '\\', '*', ';', '#', '(', '{', '['])
}

#[test]
fn every_line_that_the_documents_have_readers_type_is_understood() {
    let mut tried = 0;
    for (name, page) in pages() {
        for line in page.lines() {
            let line = line.trim_start().trim_start_matches("$ ");
            let Some(words) = line.strip_prefix("kennel ") else { continue };
            let words = words.split(" #").next().unwrap_or(words);
            let (flags, _) = words.split_once(" -- ").unwrap_or((words, ""));
            let flags: Vec<&str> = flags.split_whitespace().collect();
            let takes_flags = ["run", "plan"].contains(flags.first().unwrap_or(&""));
            if !takes_flags || flags.len() < 2 || !flags.iter().all(|word| is_plain(word)) {
                continue;
            }
            let words = flags.iter().copied().chain(["--", "true"]);
            if let Err(error) = parse(words.map(OsString::from)) {
                panic!("{name}: {line}\n{error}");
            }
            tried += 1;
        }
    }
    assert!(tried > 30, "only {tried} lines were found");
}
