//! What kennel claims, compared with the tests: each claim of `tests/claim/claims.toml` has a test that names it by
//! `#[kennel_claim::claim("…")]`, each test names claims that exist, and docs/claims.md is made from both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::cargo;

const TABLE: &str = "tests/claim/claims.toml";
const PAGE: &str = "docs/claims.md";
/// In two parts, so that this file is no test.
const MARK: &str = concat!("#[kennel_claim", "::claim(");

/// A row of the table: `section` or `claim`, and its keys.
struct Row {
    kind: String,
    keys: BTreeMap<String, String>,
}

impl Row {
    fn get(&self, key: &str) -> &str {
        self.keys.get(key).map_or("", String::as_str)
    }
}

/// Names of tests, `suite::test`, by the claim that they name.
type Tests = BTreeMap<String, Vec<String>>;

/// `cargo xtask claims`: writes the page.
///
/// # Errors
/// When a file cannot be read or written, or the claims and the tests do not fit.
pub fn write() -> Result<bool, Failure> {
    let (rows, tests) = (table()?, tests()?);
    fs::write(cargo::root().join(PAGE), page(&rows, &tests))?;
    let wrong = misfits(&rows, &tests);
    wrong.iter().for_each(|misfit| println!("{misfit}"));
    Ok(wrong.is_empty())
}

/// What does not fit: claims without a test, tests of unknown claims, and a page that is out of date.
///
/// # Errors
/// When a file cannot be read.
pub fn unfounded() -> Result<Vec<String>, Failure> {
    let (rows, tests) = (table()?, tests()?);
    let mut wrong = misfits(&rows, &tests);
    if fs::read_to_string(cargo::root().join(PAGE)).unwrap_or_default() != page(&rows, &tests) {
        wrong.push(format!("{PAGE} is out of date: `cargo xtask claims` writes it"));
    }
    Ok(wrong)
}

fn table() -> Result<Vec<Row>, Failure> {
    parse(&fs::read_to_string(cargo::root().join(TABLE))?).map_err(|line| format!("{TABLE}: {line}").into())
}

/// The part of TOML that the table is written in: arrays of tables, and texts on one line or on several.
fn parse(text: &str) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(kind) = line.strip_prefix("[[").and_then(|rest| rest.strip_suffix("]]")) {
            rows.push(Row { kind: kind.to_owned(), keys: BTreeMap::new() });
            continue;
        }
        let parsed = (|| {
            let (key, value) = line.split_once(" = \"")?;
            let value = if value == "\"\"\\" {
                let mut whole = String::new();
                loop {
                    let part = lines.next()?.trim();
                    match (part.strip_suffix('\\'), part.strip_suffix("\"\"\"")) {
                        (Some(part), _) => whole += part,
                        (_, Some(part)) => break whole + part,
                        _ => return None,
                    }
                }
            } else {
                value.strip_suffix('"')?.to_owned()
            };
            rows.last_mut()?.keys.insert(key.to_owned(), value).is_none().then_some(())
        })();
        parsed.ok_or(line)?;
    }
    Ok(rows)
}

fn tests() -> Result<Tests, Failure> {
    let mut tests = Tests::new();
    for folder in ["crates", "tests", "xtask"] {
        for file in rust_files(&cargo::root().join(folder))? {
            let path = file.strip_prefix(cargo::root())?;
            for (test, claims) in named(&fs::read_to_string(&file)?) {
                for claim in claims {
                    tests.entry(claim).or_default().push(format!("{}::{test}", suite(path)));
                }
            }
        }
    }
    for names in tests.values_mut() {
        names.sort();
        names.dedup();
    }
    Ok(tests)
}

/// What a test is called after: its crate, or its suite.
fn suite(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let after =
        |folder: &str| parts.get(1..).unwrap_or_default().iter().find(|part| *part != folder).cloned();
    match parts[0].as_str() {
        "xtask" => "xtask".to_owned(),
        "tests" => after("src").unwrap_or_default().trim_end_matches(".rs").to_owned(),
        _ => after("").unwrap_or_default(),
    }
}

/// The tests of a source file that name claims.
fn named(source: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut rest = source;
    let mut waiting = Vec::new();
    while let Some(at) = rest.find(MARK) {
        let line = rest[..at].rfind('\n').map_or(0, |start| start + 1);
        let is_code = rest[line..at].trim().is_empty();
        rest = &rest[at + MARK.len()..];
        if !is_code {
            continue;
        }
        let (words, after) = rest.split_once(")]").unwrap_or((rest, ""));
        waiting.extend(words.split('"').skip(1).step_by(2).map(str::to_owned));
        rest = after;
        let next = after.find(MARK).unwrap_or(after.len());
        if let Some(name) =
            after[..next].split_once("fn ").and_then(|(_, name)| name.split(['(', '<']).next())
        {
            found.push((name.to_owned(), std::mem::take(&mut waiting)));
        }
    }
    found
}

fn misfits(rows: &[Row], tests: &Tests) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    let mut section = "";
    for row in rows {
        let id = row.get("id");
        let keys: &[&str] = if row.kind == "section" { &["id", "title"] } else { &["id", "claim", "how"] };
        wrong.extend(
            keys.iter()
                .filter(|key| row.get(key).is_empty())
                .map(|key| format!("{id:?} in {TABLE} lacks {key}")),
        );
        if row.kind == "section" {
            section = id;
            continue;
        }
        if id.split_once('/').is_none_or(|(of, _)| of != section) {
            wrong.push(format!("claim {id} stands in section {section}"));
        }
        if known.contains(&id) {
            wrong.push(format!("claim {id} is there twice"));
        }
        known.push(id);
        if !tests.contains_key(id) && row.get("also").is_empty() {
            wrong.push(format!("claim {id} has no test"));
        }
    }
    for (claim, names) in tests {
        if !known.contains(&claim.as_str()) {
            wrong.push(format!("{} names the claim {claim}, which {TABLE} does not have", names.join(", ")));
        }
    }
    wrong
}

fn page(rows: &[Row], tests: &Tests) -> String {
    let mut page = String::from(
        "# Claims\n\n\
         Written by `cargo xtask claims`, from `tests/claim/claims.toml` and from the tests that name these claims. [SECURITY.md](../SECURITY.md)\n\
         is the short form. The tests run as root and as an ordinary user; where an attack has a precondition, its test shows that the same\n\
         attack succeeds outside, or with the protection off.\n",
    );
    for row in rows {
        if row.kind == "section" {
            let _ = write!(page, "\n## {}\n", row.get("title"));
            if !row.get("note").is_empty() {
                let _ = write!(page, "\n{}\n", wrapped(row.get("note"), 120));
            }
            page += "\n| claim | mechanism | shown by |\n|---|---|---|\n";
            continue;
        }
        let id = row.get("id");
        let names = tests.get(id).into_iter().flatten().map(|name| format!("`{name}`"));
        let also = Some(row.get("also").to_owned()).filter(|also| !also.is_empty());
        let shown: Vec<String> = names.chain(also).collect();
        let _ =
            writeln!(page, "| {} (`{id}`) | {} | {} |", row.get("claim"), row.get("how"), shown.join(", "));
    }
    page
}

fn wrapped(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line += word,
            Some(line) if line.len() + word.len() < width => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// All source files below a folder.
pub fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("reading {}: {error}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTION: &str = "[[section]]\nid = \"a\"\ntitle = \"A\"\n";

    fn claims(text: &str) -> Vec<Row> {
        parse(&format!("{SECTION}{text}")).unwrap()
    }

    #[test]
    fn a_table_has_texts_on_one_line_and_on_several() {
        let rows = claims(
            "\n# why\n[[claim]]\nid = \"a/b\"\nclaim = \"\"\"\\\n    one \\\n    two\"\"\"\nhow = \"by it\"\n",
        );
        assert_eq!(rows[1].get("claim"), "one two");
        assert_eq!(rows[1].get("how"), "by it");
        for wrong in ["id = 1", "id = \"a", "id", "[[claim]]\nid = \"\"\"\\\n  one"] {
            assert!(parse(&format!("{SECTION}{wrong}\n")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tests_are_found_by_their_attributes() {
        let source = format!(
            "/// {MARK}\"no/attribute\")]\n#[test]\n{MARK}\"a/b\", \"a/c\")]\nfn one() {{}}\n\
             proptest! {{\n    #[test]\n    {MARK}\n        \"a/d\"\n    )]\n    {MARK}\"a/e\")]\n    fn two(x in 0..1) {{}}\n}}\n"
        );
        let of = |claims: &[&str]| claims.iter().map(|claim| (*claim).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            named(&source),
            [("one".to_owned(), of(&["a/b", "a/c"])), ("two".to_owned(), of(&["a/d", "a/e"]))]
        );
        assert_eq!(suite(Path::new("crates/kennel-proxy/src/rules.rs")), "kennel-proxy");
        assert_eq!(suite(Path::new("tests/escape/calls.rs")), "escape");
        assert_eq!(suite(Path::new("tests/src/hog.rs")), "hog");
    }

    #[test]
    fn claims_without_tests_and_tests_without_claims_are_found() {
        let rows = claims(
            "[[claim]]\nid = \"a/b\"\nclaim = \"b\"\nhow = \"x\"\n[[claim]]\nid = \"a/c\"\nclaim = \"c\"\nhow = \"x\"\nalso = \"y\"\n",
        );
        let tests = |ids: &[&str]| -> Tests {
            ids.iter().map(|id| ((*id).to_owned(), vec!["s::t".to_owned()])).collect()
        };
        assert_eq!(misfits(&rows, &tests(&["a/b"])), [""; 0]);
        assert_eq!(misfits(&rows, &tests(&[])), ["claim a/b has no test"]);
        let unknown = misfits(&rows, &tests(&["a/b", "a/d"]));
        assert!(unknown.len() == 1 && unknown[0].contains("a/d"), "{unknown:?}");
        let twice = claims("[[claim]]\nid = \"b/c\"\nclaim = \"b\"\nalso = \"y\"\n[[claim]]\nid = \"b/c\"\n");
        assert_eq!(misfits(&twice, &tests(&[])).len(), 7);
    }

    #[test]
    fn the_page_has_a_row_for_each_claim() {
        let rows =
            claims("[[claim]]\nid = \"a/b\"\nclaim = \"it holds\"\nhow = \"by it\"\nalso = \"a guest\"\n");
        let tests = Tests::from([("a/b".to_owned(), vec!["s::one".to_owned(), "s::two".to_owned()])]);
        assert!(
            page(&rows, &tests).ends_with("| it holds (`a/b`) | by it | `s::one`, `s::two`, a guest |\n")
        );
    }
}
