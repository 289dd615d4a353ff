//! The crate's modules stand on each other in one order: what is read here is its own source.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// For each top-level module the others that it names.
type Uses = BTreeMap<String, BTreeSet<String>>;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
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

/// The text without comments, which may speak of any module. A `//` in a string ends the line too early, which hides no
/// path: nothing of this crate is named behind one.
fn code(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The names that stand behind each `crate::`, of a list in braces all of them.
fn named(code: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut names = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let Some(list) = rest.strip_prefix('{') else {
            names.insert(word(rest));
            continue;
        };
        let (mut depth, mut start) = (0, 0);
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    names.insert(word(&list[start..at]));
                    start = at + 1;
                    if c == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    names
}

/// Reads the uses of all modules. Paths that climb out of a top-level module by `super::` are not followed, so there
/// must be none.
fn uses() -> Uses {
    let source = source();
    let mut uses = Uses::new();
    for file in rust_files(&source) {
        let inside = file.strip_prefix(&source).unwrap().with_extension("");
        let mut components: Vec<&str> = inside.iter().map(|part| part.to_str().unwrap()).collect();
        if ["lib", "module_order"].contains(&components[0]) {
            continue;
        }
        components.pop_if(|last| *last == "mod");
        let code = code(&fs::read_to_string(&file).unwrap());
        // A module of tests in the file is one deeper.
        let own = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let climb = "super::".repeat(components.len());
        assert!(
            !own.contains(&climb),
            "{}: say `crate::` for what is outside of {}",
            file.display(),
            components[0]
        );
        uses.entry(components[0].to_owned()).or_default().extend(named(&code));
    }
    for (module, others) in &mut uses {
        others.remove(module);
    }
    let known: BTreeSet<String> = uses.keys().cloned().collect();
    uses.values_mut().for_each(|others| others.retain(|other| known.contains(other)));
    uses
}

/// Modules that lead back to the first, if there are such.
fn cycle(uses: &Uses) -> Option<Vec<String>> {
    fn follow(uses: &Uses, way: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        let last = way.last().unwrap().clone();
        for next in uses.get(&last).into_iter().flatten() {
            if let Some(at) = way.iter().position(|passed| passed == next) {
                way.drain(..at);
                way.push(next.clone());
                return true;
            }
            if !done.contains(next) {
                way.push(next.clone());
                if follow(uses, way, done) {
                    return true;
                }
                way.pop();
            }
        }
        done.insert(last);
        false
    }
    let mut done = BTreeSet::new();
    uses.keys().find_map(|module| {
        let mut way = vec![module.clone()];
        follow(uses, &mut way, &mut done).then_some(way)
    })
}

#[test]
fn the_modules_of_this_crate_form_no_cycle() {
    let uses = uses();
    assert!(uses.len() > 15 && uses["plan"].contains("resolve"), "the source was not understood: {uses:?}");
    assert_eq!(cycle(&uses), None, "modules that need each other are one: move what both need below both");
}

#[test]
fn a_cycle_is_seen_however_long_and_however_it_is_written() {
    let of = |code: &str| named(&self::code(code));
    let uses = Uses::from([
        ("a".into(), of("use crate::{\n    other::Thing,\n    b::{self, Deep},\n};")),
        ("b".into(), of("fn f() { crate::c::run(); } // crate::a in a comment is none")),
        ("c".into(), of("use crate::a::Thing;")),
    ]);
    assert_eq!(cycle(&uses), Some(["a", "b", "c", "a"].map(String::from).to_vec()));
    let mut uses = uses;
    uses.insert("c".into(), of("// crate::a\n/// See [`crate::b`].\nuse crate::other;"));
    assert_eq!(cycle(&uses), None);
}
