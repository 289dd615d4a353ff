//! Compares the gate's readings of rules with others, which are slow and written from the standards alone.
//!
//! Random policies and random spellings, millions of them, and no sandbox: what is asked is the code that decides. Where kennel
//! allows, the slow reading has to allow as well, by every way in which somebody on the way could read the same bytes
//! (`addresses.rs`, `requests.rs`). A kennel that is stricter is no finding, as long as it allows what has one reading.

mod addresses;
mod requests;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use kennel_tests::role;

use crate::attack_gate::rng::Rng;

const NAME: &str = "every_reading_of_an_address_and_of_a_path_is_kept";
/// So many findings are enough.
const MAX_FINDINGS: usize = 20;

kennel_tests::roles! {
    "attack_rules" => attack,
}

/// What one try came to.
#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    /// Both allow.
    Allowed,
    /// kennel refuses.
    Refused,
    /// kennel is wrong, and how.
    Finding(String),
}

type Judge = fn(&mut Rng) -> Judgement;

/// The kinds of tries.
const KINDS: &[(&str, Judge)] = &[
    ("spellings", addresses::spell),
    ("addresses", addresses::decide),
    ("resolved", addresses::check),
    ("requests", requests::decide),
    ("plain requests", requests::plain),
];

fn attack(_words: &[OsString]) -> i32 {
    // SAFETY: nothing else runs in this process yet.
    unsafe { std::env::remove_var(role::VARIABLE) };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let time = Duration::from_secs(number("KENNEL_ATTACK_SECONDS").unwrap_or(30).min(3600));
    let seed = number("KENNEL_ATTACK_SEED").unwrap_or(7);
    println!("attack_rules: seed {seed}");
    let end = Instant::now() + time;
    let mut allowed = [0u64; KINDS.len()];
    let (mut tries, mut findings) = (0, Vec::new());
    let mut rng = Rng::new(seed, 0);
    while Instant::now() < end && findings.len() < MAX_FINDINGS {
        // The clock is asked now and then only.
        for _ in 0..1000 {
            tries += 1;
            for ((kind, judge), allowed) in KINDS.iter().zip(&mut allowed) {
                match judge(&mut rng) {
                    Judgement::Allowed => *allowed += 1,
                    Judgement::Refused => {}
                    Judgement::Finding(what) => findings.push(format!("{kind}, try {tries}: {what}")),
                }
            }
        }
    }
    findings.truncate(MAX_FINDINGS);
    findings.iter().for_each(|finding| println!("finding: {finding}"));
    for ((kind, _), allowed) in KINDS.iter().zip(allowed) {
        println!("attack_rules: {kind}: {allowed} of {tries} allowed");
        if allowed * 100 < tries {
            findings.push(format!("{kind}: nearly all is refused, so nothing is tried"));
            println!("{kind}: nearly all is refused, so nothing is tried");
        }
    }
    let verdict = if findings.is_empty() { "ok" } else { "FAILED" };
    println!("test {NAME} ... {verdict}");
    println!("attack_rules: seed {seed}, {} tries, {} findings", tries * KINDS.len() as u64, findings.len());
    i32::from(!findings.is_empty())
}
