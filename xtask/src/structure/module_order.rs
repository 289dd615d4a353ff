//! The modules of every crate stand on each other in one order.
//!
//! A crate without cycles can be read from the bottom up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo;

/// For each top-level module the others that it names.
type Uses = BTreeMap<String, BTreeSet<String>>;

pub(super) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The text without comments and without the tests at its end. A `//` in a string ends the line too early, which hides no
/// path: nothing of a crate is named behind one.
pub(super) fn code(text: &str) -> String {
    let own = text.split("\nmod tests {").next().unwrap_or_default();
    own.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn word(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The parts of a list in braces that has just been opened, as they stand there.
fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                parts.push(list[start..at].trim());
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// What is named behind the start of a path: one name, or all of a list in braces.
fn behind(rest: &str) -> Vec<String> {
    match rest.strip_prefix('{') {
        Some(list) => parts(list).into_iter().map(word).collect(),
        None => vec![word(rest)],
    }
}

/// The names of the crate's root that a file uses which is so many modules below it: by `crate::`, and by as many `super::`.
fn named(code: &str, depth: usize) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = code.split("crate::").skip(1).flat_map(behind).collect();
    let mut climbed = 0;
    for rest in code.split("super::").skip(1) {
        climbed += 1;
        if rest.is_empty() {
            continue;
        }
        if climbed >= depth {
            names.extend(behind(rest));
        }
        climbed = 0;
    }
    names
}

/// The module that stands behind each name which the root takes from one.
fn taken(root: &str) -> BTreeMap<String, String> {
    fn follow(tree: &str, module: Option<&str>, taken: &mut BTreeMap<String, String>) {
        let tree = tree.trim();
        if let Some(list) = tree.strip_prefix('{') {
            return parts(list).into_iter().for_each(|part| follow(part, module, taken));
        }
        let first = word(tree);
        match tree[first.len()..].strip_prefix("::") {
            Some(rest) if first == "crate" || first == "self" => follow(rest, module, taken),
            Some(rest) => follow(rest, Some(module.unwrap_or(&first)), taken),
            None => {
                let name = tree.split(" as ").nth(1).map_or(first, word);
                taken.extend(module.map(|module| (name, module.to_owned())));
            }
        }
    }
    let mut all = BTreeMap::new();
    for statement in root.split(';') {
        let Some((before, tree)) = statement.split_once("use ") else { continue };
        // An attribute or a visibility may stand before it, and the end of something else.
        let before = before.trim_end();
        if before.is_empty()
            || ["pub", "]", "}"].iter().any(|end| before.ends_with(end))
            || before.ends_with("pub(crate)")
        {
            follow(tree, None, &mut all);
        }
    }
    all
}

/// Reads the uses of all modules of a crate.
fn uses(source: &Path) -> Uses {
    let mut uses = Uses::new();
    let mut taken_by_root = BTreeMap::new();
    for file in rust_files(source) {
        let inside = file.strip_prefix(source).unwrap().with_extension("");
        // Tests stand on everything.
        if inside.iter().any(|part| part == "tests") {
            continue;
        }
        let mut modules: Vec<&str> = inside.iter().map(|part| part.to_str().unwrap()).collect();
        let code = code(&fs::read_to_string(&file).unwrap());
        if ["lib", "main"].contains(&modules[0]) {
            taken_by_root.extend(taken(&code));
            continue;
        }
        modules.pop_if(|last| *last == "mod");
        uses.entry(modules[0].to_owned()).or_default().extend(named(&code, modules.len()));
    }
    let known: BTreeSet<String> = uses.keys().cloned().collect();
    for (module, others) in &mut uses {
        let real = others.iter().map(|name| taken_by_root.get(name).unwrap_or(name).clone());
        *others = real.filter(|other| known.contains(other) && other != module).collect();
    }
    uses
}

/// All that a module stands on.
fn reached<'u>(uses: &'u Uses, from: &'u String) -> BTreeSet<&'u String> {
    let (mut reached, mut waiting) = (BTreeSet::new(), vec![from]);
    while let Some(module) = waiting.pop() {
        waiting.extend(uses.get(module).into_iter().flatten().filter(|next| reached.insert(*next)));
    }
    reached
}

/// The modules that lead from one to each other and back, as sets.
fn knots(uses: &Uses) -> BTreeSet<BTreeSet<String>> {
    let all: BTreeMap<&String, BTreeSet<&String>> =
        uses.keys().map(|module| (module, reached(uses, module))).collect();
    let together = |module: &String| -> BTreeSet<String> {
        all[module]
            .iter()
            .filter(|other| all.get(**other).is_some_and(|back| back.contains(module)))
            .map(|other| (*other).clone())
            .collect()
    };
    uses.keys().map(together).filter(|knot| knot.len() > 1).collect()
}

fn crates() -> Vec<(String, Uses)> {
    let mut crates = Vec::new();
    for entry in fs::read_dir(cargo::root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("Cargo.toml").is_file() {
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            crates.push((name, uses(&folder.join("src"))));
        }
    }
    crates.sort();
    crates
}

#[test]
fn the_modules_of_each_crate_form_no_cycle() {
    let crates = crates();
    let linux = &crates.iter().find(|(name, _)| name == "kennel-linux").unwrap().1;
    assert!(
        linux.len() > 15 && linux["plan"].contains("resolve"),
        "the source was not understood: {linux:?}"
    );
    let mut wrong = Vec::new();
    for (name, uses) in &crates {
        wrong.extend(knots(uses).iter().map(|knot| format!("{name}: {knot:?} need each other")));
    }
    assert!(
        wrong.is_empty(),
        "modules that need each other are one: move what both need below both\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a_cycle_is_seen_however_long_and_however_it_is_written() {
    let of = |code: &str, depth| named(&self::code(code), depth);
    let uses = Uses::from([
        ("a".into(), of("use crate::{\n    other::Thing,\n    b::{self, Deep},\n};", 1)),
        ("b".into(), of("fn f() { super::super::c::run(); } // crate::a in a comment is none", 2)),
        ("c".into(), of("use super::a::Thing;\nuse crate::d;", 1)),
        ("d".into(), of("", 1)),
    ]);
    let knot: BTreeSet<String> = ["a", "b", "c"].map(String::from).into();
    assert_eq!(knots(&uses), BTreeSet::from([knot]));
    let mut uses = uses;
    uses.insert(
        "c".into(),
        of("// crate::a\n/// See [`crate::b`].\nuse crate::other;\nuse super::super::d;", 2),
    );
    assert_eq!(knots(&uses), BTreeSet::new());
}

#[test]
fn what_the_root_takes_from_a_module_is_that_modules() {
    let root = "mod a;\npub mod b;\n#[cfg(unix)]\npub use a::{One, deep::{Two, Three as Four}};\npub(crate) use crate::b::five;\nuse std::fmt;";
    let taken = taken(root);
    let expected = [("Four", "a"), ("One", "a"), ("Two", "a"), ("five", "b"), ("fmt", "std")];
    assert_eq!(taken, expected.map(|(name, module)| (name.to_owned(), module.to_owned())).into());
}
