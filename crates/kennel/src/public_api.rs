//! The list of all that the library makes public, in `api.txt`, so that a change of it is seen.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Everything public in a file, as it is written: signatures, fields and variants.
fn public(file: &Path) -> String {
    let source = std::fs::read_to_string(file).expect("a source file");
    let mut list = String::new();
    let (mut statement, mut variants) = (String::new(), false);
    for line in source.lines() {
        let code = line.split(" //").next().unwrap_or_default();
        let text = code.trim();
        // Of the file, and not of something within it.
        if line.starts_with("#[cfg(test)]") {
            break;
        }
        if text.is_empty() || text.starts_with("//") || text.starts_with("#[") {
            continue;
        }
        if variants {
            // A variant, or a field of one; the enum ends where it began.
            variants = code != "}";
            if variants {
                let _ = writeln!(list, "  {text}");
            }
            continue;
        }
        if statement.is_empty() && !text.starts_with("pub ") && !text.starts_with("impl") {
            continue;
        }
        let blank = if statement.is_empty() { "" } else { " " };
        let _ = write!(statement, "{blank}{text}");
        let in_list = statement.contains("use ") && !text.ends_with(';');
        if in_list
            || !text.ends_with(['{', ';', ',', '}'])
            || (text.ends_with(',') && statement.contains('(') && !statement.contains(')'))
        {
            continue;
        }
        let whole = std::mem::take(&mut statement);
        let shown = whole.trim_end_matches(['{', ',', ';']).trim_end();
        let shown = shown.split(" { ").next().filter(|_| !shown.contains("use ")).unwrap_or(shown);
        variants = shown.starts_with("pub enum") && whole.ends_with('{');
        if !shown.starts_with("impl<") || shown.contains(" for ") || shown.contains("Command") {
            let _ = writeln!(list, "{}{shown}", if line.starts_with(' ') { "  " } else { "" });
        }
    }
    list
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn what_is_public_is_listed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let mut files = Vec::new();
    sources(&crates.join("kennel/src"), &mut files);
    sources(&crates.join("kennel-policy/src/outcome"), &mut files);
    files.push(crates.join("kennel-policy/src/outcome.rs"));
    // What these make public is listed where it is used, but for a module that the library shows as it is.
    let backend = crates.join("kennel/src/backend");
    files.retain(|file| !file.starts_with(&backend) || *file == backend.join("job.rs"));
    files.sort();
    let mut list = String::new();
    for file in files {
        let items = public(&file);
        if items.lines().any(|line| line.trim_start().starts_with("pub ")) {
            let name = file.strip_prefix(crates).expect("below the crates").display();
            let _ = write!(list, "# {name}\n{items}\n");
        }
    }
    let known = crates.join("kennel/api.txt");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&known, &list).expect("api.txt can be written");
    }
    let known = std::fs::read_to_string(known).unwrap_or_default();
    let differing = known.lines().zip(list.lines()).find(|(old, new)| old != new);
    assert!(
        known == list,
        "the public interface has changed, first at {differing:?}; if that is meant, run this test with UPDATE_DOCS=1 \
         and say it in CHANGELOG.md"
    );
}
