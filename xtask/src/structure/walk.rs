//! The walk of a run through the tree, in docs/architecture.md, is that of the tree.

use std::fs;

use super::module_order::code;
use crate::cargo;

/// How many hops there may be to the one that executes the command.
const MOST: usize = 20;

/// The hop that executes the command.
const EXECUTES: (&str, &str) = ("kennel-init/src/child/command.rs", "execute");

/// The files of a hop, each with its functions.
fn places(hop: &str) -> Vec<(&str, &str)> {
    let column = hop.split('|').nth(2).unwrap_or_default();
    let mut file = "";
    let mut places = Vec::new();
    for name in column.split('`').skip(1).step_by(2) {
        match name.ends_with(".rs") {
            true => file = name,
            false => places.push((file, name)),
        }
    }
    places
}

#[test]
fn each_hop_of_the_walk_is_a_function_of_the_tree() {
    let page = fs::read_to_string(cargo::root().join("docs/architecture.md")).unwrap();
    let (_, table) = page.split_once("| hop | where | what happens |\n").expect("the walk");
    let hops: Vec<&str> = table.lines().skip(1).take_while(|line| line.starts_with('|')).collect();
    let mut wrong = Vec::new();
    let mut executed = None;
    for (at, hop) in hops.iter().enumerate() {
        assert!(hop.starts_with(&format!("| {} |", at + 1)), "hops are numbered: {hop}");
        let places = places(hop);
        assert!(!places.is_empty(), "a hop names a file and a function: {hop}");
        for (file, function) in places {
            let text = fs::read_to_string(cargo::root().join("crates").join(file)).unwrap_or_default();
            let text = code(&text);
            let is_there = ["(", "<"].iter().any(|next| text.contains(&format!("fn {function}{next}")));
            if !is_there {
                wrong.push(format!("hop {}: {file} has no function {function}", at + 1));
            }
            if (file, function) == EXECUTES {
                executed = Some(at + 1);
            }
        }
    }
    assert!(wrong.is_empty(), "docs/architecture.md: {}", wrong.join("\n"));
    assert!(executed.is_some_and(|hop| hop <= MOST), "hop {executed:?} executes the command");
}
