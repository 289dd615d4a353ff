//! One of each: no truth is kept in two places, and no word means something else in every crate.
//!
//! Each list of exceptions says what is still so. It is exact: what is not so any more has to leave it, and nothing may come.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::module_order::{code, rust_files};
use crate::cargo;

/// Files that follow links which an earlier run may have planted.
const PLANTED: &[&str] = &["kennel-resolve/src/resolver/planted.rs"];

/// Types called `Job`.
const JOBS: &[&str] = &["kennel/src/backend/job.rs"];

/// Files of kennel-linux and kennel-macos that say the same in [`RUN`] lines.
const TWINS: &[(&str, &str)] = &[];

/// So many lines in a row that say the same are no accident.
const RUN: usize = 8;

/// Names of types that more than two crates declare.
const COMMON_NAMES: &[&str] = &[
    "Allowed",
    "Answer",
    "Asker",
    "Base",
    "Budget",
    "Command",
    "End",
    "Entry",
    "Environment",
    "Found",
    "Group",
    "Hold",
    "Kind",
    "Launch",
    "Level",
    "Message",
    "Names",
    "Network",
    "Part",
    "Prepared",
    "Program",
    "Reader",
    "Refusal",
    "Reply",
    "Request",
    "Resolver",
    "Search",
    "Session",
    "Shared",
    "Source",
    "Standing",
    "Start",
    "State",
    "Target",
    "Terminal",
    "Value",
    "Walk",
    "Zone",
];

/// Crates whose business is to print.
const PROGRAMS: &[&str] = &["kennel-cli", "kennel-entrypoint"];

fn crates() -> PathBuf {
    cargo::root().join("crates")
}

/// The source files of crates, without tests, by their path below `crates/`, with their code.
pub(super) fn sources() -> Vec<(String, String)> {
    let crates = crates();
    let path = |file: &Path| file.strip_prefix(&crates).unwrap().to_str().unwrap().replace('\\', "/");
    let files = rust_files(&crates).into_iter().map(|file| (path(&file), file));
    let of_source = |path: &str| {
        let mut parts = path.split('/').skip(1);
        parts.next() == Some("src")
            && !parts.any(|part| part.starts_with("tests") || part.ends_with("tests.rs"))
    };
    files
        .filter(|(path, _)| of_source(path))
        .map(|(path, file)| (path, code(&fs::read_to_string(file).unwrap())))
        .collect()
}

fn compare(what: &str, found: &BTreeSet<String>, listed: &BTreeSet<String>) {
    let new: Vec<_> = found.difference(listed).collect();
    let gone: Vec<_> = listed.difference(found).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "{what}: new {new:#?}\nnot so any more, drop it from the list: {gone:#?}"
    );
}

fn owned(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|one| (*one).to_owned()).collect()
}

/// The name that a line declares a type by.
fn declared(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
        Some(inside) => inside.split_once(')').map_or(rest, |(_, rest)| rest),
        None => rest,
    });
    let rest = ["struct ", "enum ", "trait ", "type ", "union "]
        .iter()
        .find_map(|kind| line.trim_start_matches(' ').strip_prefix(kind))?;
    Some(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
}

#[test]
fn a_type_is_found_by_its_declaration_alone() {
    for line in
        ["struct A;", "pub struct A {", "pub(crate) enum A {", "pub(in crate::b) type A = B;", "trait A: B {"]
    {
        assert_eq!(declared(line), Some("A"), "{line}");
    }
    for line in ["    type A = B;", "use a::A;", "impl A {", "// struct A"] {
        assert_eq!(declared(line).filter(|_| !line.starts_with(' ')), None, "{line}");
    }
}

#[test]
fn planted_links_are_judged_in_one_place() {
    let files = sources().into_iter().map(|(path, _)| path);
    compare("planted.rs", &files.filter(|path| path.ends_with("/planted.rs")).collect(), &owned(PLANTED));
}

#[test]
fn there_is_one_job() {
    let is_one =
        |text: &str| text.lines().any(|line| declared(line) == Some("Job") && line.contains("struct "));
    let files = sources().into_iter().filter(|(_, text)| is_one(text)).map(|(path, _)| path);
    compare("struct Job", &files.collect(), &owned(JOBS));
}

#[test]
fn a_name_of_a_type_means_something_in_two_crates_at_most() {
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in sources() {
        let own = path.split('/').next().unwrap_or_default();
        for name in text.lines().filter(|line| !line.starts_with(' ')).filter_map(declared) {
            names.entry(name.to_owned()).or_default().insert(own.to_owned());
        }
    }
    assert!(names.len() > 500, "the source was not understood");
    let common = names.into_iter().filter(|(_, crates)| crates.len() > 2).map(|(name, _)| name);
    compare("types of more than two crates (qualify the name)", &common.collect(), &owned(COMMON_NAMES));
}

/// The lines of a text that say something.
fn lines(text: &str) -> Vec<&str> {
    let says = |line: &&str| {
        !["use ", "pub use ", "#["].iter().any(|start| line.starts_with(start))
            && line.chars().filter(|c| c.is_alphanumeric() || *c == '_').count() >= 6
    };
    text.lines().map(str::trim).filter(says).collect()
}

#[test]
fn linux_and_macos_say_nothing_twice() {
    let sources = sources();
    let of = |name: &str| -> Vec<(String, Vec<&str>)> {
        let start = format!("{name}/src/");
        let files = sources.iter().filter_map(|(path, text)| Some((path.strip_prefix(&start)?, text)));
        files.map(|(path, text)| (path.to_owned(), lines(text))).collect()
    };
    let (linux, macos) = (of("kennel-linux"), of("kennel-macos"));
    let mut runs: BTreeMap<&[&str], BTreeSet<&str>> = BTreeMap::new();
    for (path, lines) in &linux {
        for run in lines.windows(RUN) {
            runs.entry(run).or_default().insert(path);
        }
    }
    assert!(runs.len() > 5000, "the source was not understood");
    let mut found = BTreeSet::new();
    for (path, lines) in &macos {
        for twin in lines.windows(RUN).filter_map(|run| runs.get(run)).flatten() {
            found.insert(format!("{twin} ~ {path}"));
        }
    }
    let listed = TWINS.iter().map(|(linux, macos)| format!("{linux} ~ {macos}")).collect();
    compare("lines of both systems (they belong into kennel-resolve)", &found, &listed);
}

#[test]
fn libraries_print_nothing() {
    let prints = |text: &str| ["println!", "print!", "dbg!"].iter().any(|print| text.contains(print));
    let is_program = |path: &str| PROGRAMS.iter().any(|program| path.starts_with(&format!("{program}/")));
    let found = sources().into_iter().filter(|(path, text)| !is_program(path) && prints(text));
    let found: BTreeSet<String> = found.map(|(path, _)| path).collect();
    compare("libraries that print (a warning belongs to the outcome)", &found, &BTreeSet::new());
}
