//! A generator that makes a mistake is found out: each mistake is made on purpose, and the comparison must see it.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::agreement::outcome;
use super::generated::{Yard, draft};
use crate::profile::files::{MISTAKE, Mistake};

/// After how many policies a mistake is found; `None` if it is not.
fn found_after(yard: &Yard, mistake: Option<Mistake>, most: u32) -> Option<u32> {
    let config = Config { failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]));
    let draft = draft();
    MISTAKE.set(mistake);
    let found = (0..most).find(|_| {
        let draft = draft.new_tree(&mut runner).unwrap().current();
        outcome(yard, &draft).is_err()
    });
    MISTAKE.set(None);
    found
}

#[test]
#[kennel_claim::claim("macos/permits-what-linux-permits")]
fn every_mistake_of_a_generator_is_found() {
    let yard = Yard::new("mistakes");
    assert_eq!(found_after(&yard, None, 300), None, "without a mistake there is nothing to find");
    for mistake in [
        Mistake::NoMoveBlocking,
        Mistake::NoAncestors,
        Mistake::ReversedOrder,
        Mistake::NoLiteral,
        Mistake::NoPatterns,
        Mistake::PatternsFirst,
        Mistake::NoMissingFolders,
        Mistake::DenyReadsOnly,
        Mistake::AllowUnlink,
        Mistake::NoCanonicalPaths,
        Mistake::NoWritesDenied,
    ] {
        let after = found_after(&yard, Some(mistake), 1500);
        println!("{mistake:?} is found after {after:?} policies");
        assert!(after.is_some(), "{mistake:?} is not found");
    }
}
