//! The documents beside the tree: links lead somewhere, lists are complete, figures are those that were measured.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::cargo;

/// What a pull request's reader reads in one sitting.
const SECURITY_BYTES: usize = 12_000;

fn read(path: impl AsRef<Path>) -> String {
    let path = cargo::root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()))
}

/// Files of the tree with one of these extensions, relative to its top; nothing that is built, nothing hidden.
fn files(extensions: &[&str]) -> Vec<PathBuf> {
    fn below(folder: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with('.') || ["target", "dist", "node_modules"].contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                below(&path, extensions, found);
            } else if path.extension().is_some_and(|extension| extensions.iter().any(|one| extension == *one))
            {
                found.push(path.strip_prefix(cargo::root()).unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    below(&cargo::root(), extensions, &mut found);
    found.sort();
    found
}

/// A page without its blocks of code.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// What a heading is called in links, as forges make it.
fn anchor(heading: &str) -> String {
    let mut shown = heading.trim().to_lowercase();
    // Of a link in a heading only its text counts.
    while let Some((before, rest)) = shown.split_once("](") {
        let after = rest.split_once(')').map_or("", |(_, after)| after);
        shown = format!("{}{after}", before.replacen('[', "", 1));
    }
    let kept = shown.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn headings(page: &str) -> Vec<String> {
    let prose = prose(page);
    let texts = prose.lines().filter_map(|line| {
        let text = line.trim_start_matches('#');
        (text.len() < line.len()).then(|| text.strip_prefix(' ')).flatten()
    });
    texts.map(anchor).collect()
}

/// The targets of a page's links.
fn links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// `a/../b` as `b`, whether it exists or not.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    let pages: BTreeMap<PathBuf, String> =
        files(&["md"]).into_iter().map(|file| (file.clone(), read(&file))).collect();
    assert!(pages.len() > 20, "{:?}", pages.keys());
    let mut wrong = Vec::new();
    for (file, page) in &pages {
        let all = headings(page);
        let twice = all.iter().filter(|one| all.iter().filter(|other| other == one).count() > 1);
        wrong.extend(twice.map(|heading| format!("{}: two headings #{heading}", file.display())));
        for link in links(page) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { file.clone() } else { plain(&file.with_file_name(path)) };
            let is_there = cargo::root().join(&target).exists();
            let is_heading =
                || pages.get(&target).is_some_and(|page| headings(page).iter().any(|one| one == heading));
            if !is_there || !heading.is_empty() && !is_heading() {
                wrong.push(format!("{}: {link}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn headings_and_links_are_read_as_forges_read_them() {
    let page =
        "# `a` [b](c) d, e\n```\n# no\n[x](y)\n```\n## What's it?\n[one](two.md#three) [four](#five)\n";
    assert_eq!(headings(page), ["a-b-d-e", "whats-it"]);
    assert_eq!(links(page), ["c", "two.md#three", "#five"]);
    assert_eq!(plain(Path::new("docs/../bench/./README.md")), Path::new("bench/README.md"));
}

/// Errors, help and comments name pages too.
#[test]
fn every_page_that_the_source_names_is_there() {
    let mut wrong = Vec::new();
    for file in files(&["rs", "sh", "snap", "toml", "rb", "nix", "Containerfile", "Dockerfile"]) {
        let text = read(&file);
        for rest in text.split("docs/").skip(1) {
            let name: String =
                rest.chars().take_while(|one| one.is_ascii_lowercase() || *one == '-').collect();
            if rest[name.len()..].starts_with(".md") && !name.is_empty() {
                let page = format!("docs/{name}.md");
                if !cargo::root().join(&page).is_file() {
                    wrong.push(format!("{}: {page}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "pages that are not there:\n{}", wrong.join("\n"));
}

fn names_in(folder: &str, suffix: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(cargo::root().join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(suffix)).collect()
}

/// The part of a page below a heading, up to the next one of its kind.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

/// Words such as `kennel` and `kennel-linux`.
fn crates_named(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || ['-', '_', '/', '.'].contains(&letter);
    let words = text.split(|letter| !is_part(letter)).map(|word| word.trim_end_matches(['/', '.', '-']));
    let crates = words.filter(|word| *word == "kennel" || word.starts_with("kennel-") && !word.contains('/'));
    crates.map(str::to_owned).collect()
}

#[test]
fn lists_of_crates_are_those_of_the_tree() {
    let there = names_in("crates", "");
    assert!(there.len() >= 10, "{there:?}");
    assert_eq!(crates_named(section(&read("CONTRIBUTING.md"), "## Layout")), there, "CONTRIBUTING.md");
    let architecture = crates_named(section(&read("docs/architecture.md"), "## Crates"));
    assert_eq!(architecture, there, "docs/architecture.md");
}

#[test]
fn the_index_has_every_page() {
    let index: BTreeSet<String> = links(&read("docs/README.md")).into_iter().collect();
    let missing: Vec<_> = names_in("docs", ".md")
        .into_iter()
        .filter(|name| name != "README.md" && !index.contains(name))
        .collect();
    assert!(missing.is_empty(), "docs/README.md does not have {missing:?}");
}

#[test]
fn the_tasks_of_the_workshop_are_in_its_documentation() {
    let contributing = read("CONTRIBUTING.md");
    for line in crate::HELP.lines() {
        let Some(task) = line.strip_prefix("  ").filter(|line| !line.starts_with(' ')) else { continue };
        let task = task.split(' ').next().unwrap();
        assert!(
            contributing.contains(&format!("cargo xtask {task}")),
            "CONTRIBUTING.md says nothing of {task}"
        );
    }
}

/// A figure of the README that is not in the results any more was measured of another kennel.
#[test]
fn figures_of_the_readme_are_those_of_the_results() {
    let (readme, results) = (read("README.md"), read("bench/RESULTS.md"));
    let rows = section(&readme, "## Beside others").lines().filter(|line| line.starts_with('|'));
    let words: Vec<&str> = rows.flat_map(str::split_whitespace).collect();
    let figures = words.windows(2).filter_map(|pair| {
        let unit = pair[1].trim_end_matches([',', ';', '.']);
        let is_figure = pair[0].contains('.') && pair[0].parse::<f64>().is_ok();
        (is_figure && ["ms", "µs", "s", "MB"].contains(&unit)).then(|| format!("| {} {unit} |", pair[0]))
    });
    let figures: Vec<String> = figures.collect();
    assert!(figures.len() > 10, "{figures:?}");
    let missing: Vec<_> = figures.iter().filter(|figure| !results.contains(*figure)).collect();
    assert!(missing.is_empty(), "bench/RESULTS.md does not have {missing:?}");
}

#[test]
fn the_threat_model_can_be_read_in_one_sitting() {
    let bytes = read("SECURITY.md").len();
    assert!(bytes < SECURITY_BYTES, "SECURITY.md has {bytes} bytes");
}
