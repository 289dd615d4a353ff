//! The crates that are linked into a release: from `cargo tree`, which knows what a target and its features need, and
//! from Cargo.lock, which knows their checksums.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::cargo;
use crate::debian::run;

/// A crate that is linked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linked {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub licence: String,
    /// The SHA-256 of the archive that the registry has; a crate of this workspace has none.
    pub checksum: Option<String>,
    /// What it stands on: names and versions.
    pub needs: BTreeSet<(String, String)>,
}

/// All of them, by name and version.
pub type Crates = BTreeMap<(String, String), Linked>;

/// The crates that these packages are linked of, themselves included.
///
/// # Errors
/// When cargo fails, or a crate of a registry has no checksum.
pub fn linked(packages: &[&str], target: &str) -> Result<Crates, Failure> {
    let mut tree = cargo::cargo();
    tree.args(["tree", "--locked", "--target", target, "--edges", "normal,no-proc-macro"]);
    tree.args(["--prefix", "depth", "--format", " {p}\t{l}"]);
    tree.args(packages.iter().flat_map(|package| ["--package", package]));
    let mut crates = parse_tree(&run(&mut tree)?)?;
    let checksums = parse_lock(&fs::read_to_string(cargo::root().join("Cargo.lock"))?);
    for (id, linked) in &mut crates {
        linked.checksum = checksums.get(id).cloned().ok_or_else(|| format!("Cargo.lock has no {id:?}"))?;
    }
    Ok(crates)
}

/// Lines such as `2 libc v0.2.1<tab>MIT OR Apache-2.0`, each below the last one that has a smaller number.
fn parse_tree(text: &str) -> Result<Crates, Failure> {
    let mut crates = Crates::new();
    let mut above: Vec<(String, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let parsed = (|| {
            let (depth, rest) = line.split_once(' ')?;
            let (package, licence) = rest.split_once('\t')?;
            let mut words = package.split(' ');
            let name = words.next()?;
            let version = words.next()?.strip_prefix('v')?;
            Some((depth.parse::<usize>().ok()?, name, version, licence.trim_end_matches(" (*)")))
        })();
        let (depth, name, version, licence) = parsed.ok_or_else(|| format!("cargo tree says {line:?}"))?;
        let id = (name.to_owned(), version.to_owned());
        above.truncate(depth);
        if let Some(parent) = above.last() {
            crates.get_mut(parent).ok_or("cargo tree lists a child first")?.needs.insert(id.clone());
        }
        above.push(id.clone());
        let linked = crates.entry(id).or_default();
        (linked.name, linked.version) = (name.to_owned(), version.to_owned());
        // An older way to write it, which SPDX does not know.
        linked.licence = licence.replace('/', " OR ");
    }
    Ok(crates)
}

/// The packages of Cargo.lock and their checksums.
fn parse_lock(text: &str) -> BTreeMap<(String, String), Option<String>> {
    let packages = text.split("[[package]]\n").skip(1);
    let package = |block: &str| {
        let of = |key: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
            line.strip_suffix('"').map(str::to_owned)
        };
        Some(((of("name")?, of("version")?), of("checksum")))
    };
    packages.filter_map(package).collect()
}

/// The texts of the licences of crates that are not ours, one after the other: who gives out a program that they are
/// linked into has to give them out too.
///
/// # Errors
/// When a crate's source is not there, or has no licence text in it.
pub fn licence_texts(crates: &Crates) -> Result<String, Failure> {
    let mut metadata = cargo::cargo();
    metadata.args(["metadata", "--locked", "--format-version", "1"]);
    let metadata = run(&mut metadata)?;
    let manifests: Vec<&Path> = metadata
        .split("\"manifest_path\":\"")
        .skip(1)
        .filter_map(|rest| rest.split_once('"').map(|(path, _)| Path::new(path)))
        .collect();
    let mut text = String::from(
        "kennel is linked with the crates below. Each is under the licence that its heading names;\n\
         the texts are those that came with it.\n",
    );
    for linked in crates.values().filter(|linked| linked.checksum.is_some()) {
        let name = format!("{}-{}", linked.name, linked.version);
        let manifest = manifests.iter().find(|path| {
            path.parent().and_then(Path::file_name).is_some_and(|folder| folder.to_string_lossy() == name)
        });
        let folder = manifest.and_then(|path| path.parent()).ok_or_else(|| format!("no source of {name}"))?;
        text += &format!("\n{}\n{name}: {}\n", "=".repeat(78), linked.licence);
        let files = licence_files(folder)?;
        if files.is_empty() {
            // Few crates have none; their manifest's word is all there is.
            text += "(no text came with it)\n";
        }
        for file in files {
            text += &format!("{}\n{}\n", "-".repeat(78), fs::read_to_string(&file)?.trim_end());
        }
    }
    Ok(text)
}

fn licence_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_licence = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"]
            .iter()
            .any(|word| name.starts_with(word));
        if is_licence && entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_read_with_what_each_crate_needs() {
        let text = "0 a v1.0.0 (/w/a)\tMIT\n1 b v2.0.0\tMIT/Apache-2.0\n2 c v3.0.0\tMIT\n1 c v3.0.0\tMIT (*)\n\n0 d v1.0.0 (/w/d)\tMIT\n";
        let crates = parse_tree(text).unwrap();
        let id = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        assert_eq!(crates.len(), 4);
        assert_eq!(crates[&id("a", "1.0.0")].needs, [id("b", "2.0.0"), id("c", "3.0.0")].into());
        assert_eq!(crates[&id("b", "2.0.0")].licence, "MIT OR Apache-2.0");
        assert_eq!(crates[&id("b", "2.0.0")].needs, [id("c", "3.0.0")].into());
        assert!(parse_tree("1 what").is_err());
    }

    #[test]
    fn checksums_are_read_from_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1\"\n\n[[package]]\nname = \"b\"\nversion = \"2\"\nchecksum = \"ff\"\ndependencies = [\n \"a\",\n]\n";
        let found = parse_lock(lock);
        assert_eq!(found[&("a".into(), "1".into())], None);
        assert_eq!(found[&("b".into(), "2".into())].as_deref(), Some("ff"));
    }
}
