//! CONTRIBUTING.md's recipe for a setting that is on or off has the files that know of such a setting, and no more.

use std::collections::BTreeSet;
use std::fs;

use super::one_of_each::sources;
use crate::cargo;

/// A setting that was made so.
const SAMPLE: &str = "allow_ech";

/// What enforces the sample: the gate, and who hands it to the gate.
const ENFORCED: &[&str] = &["kennel-proxy/src/", "kennel/src/network/rules.rs"];

/// How many files it may take.
const MOST: usize = 6;

#[test]
fn the_recipe_for_a_setting_names_the_files_that_know_one() {
    let page = fs::read_to_string(cargo::root().join("CONTRIBUTING.md")).unwrap();
    let (_, section) = page.split_once("\n## To add a setting and its flag\n").expect("the recipe");
    assert!(section.split("\n## ").next().unwrap().contains(&format!("`{SAMPLE}`")));
    let steps = section.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let listed: BTreeSet<String> =
        steps.map_while(|step| Some(step.split_once(". `")?.1.split_once('`')?.0.to_owned())).collect();
    let knows =
        |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == SAMPLE);
    let (enforcing, declaring): (BTreeSet<String>, BTreeSet<String>) = sources()
        .into_iter()
        .filter_map(|(path, text)| knows(&text).then_some(path))
        .partition(|path| ENFORCED.iter().any(|place| path.starts_with(place)));
    assert!(!enforcing.is_empty(), "nothing enforces {SAMPLE}");
    assert_eq!(listed, declaring, "CONTRIBUTING.md's list, and the files that know {SAMPLE}");
    assert!(listed.len() <= MOST, "a setting that is on or off takes {} files", listed.len());
}
