//! kennel reads a configuration as git does, or refuses it: over random texts, with the real git.

use std::io::Write;
use std::process::{Command, Stdio};

use super::World;
use kennel_tests::ran_within;
use std::time::Duration;

/// A small generator of numbers, so that a failure can be had again.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below as u64).expect("it is small")
    }
}

/// Pieces that configurations are made of, and that tell readers apart.
const PIECES: &[&str] = &[
    "[core]",
    "[core]\n",
    "[CoRe]\n",
    "[a \"b\"]\n",
    "[a \"B\\\"]\"]\n",
    "[a.b]\n",
    "[a.B \"c\"]\n",
    "[ a ]\n",
    "[a\"b\"]\n",
    "[]\n",
    "[x",
    "]",
    "fsmonitor",
    "bare",
    "FsMonitor",
    "-x",
    "x-y",
    "1x",
    " = ",
    "=",
    " ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\\\n",
    "\\",
    "\\n",
    "\\t",
    "\\\"",
    "\\\\",
    "\\x",
    "\"",
    "'",
    "#",
    ";",
    " # x",
    " ; x",
    "true",
    "evil",
    "\u{feff}",
    "ü",
    "\0",
    "\u{b}",
    "\u{c}",
    "a b",
    "  a  b  ",
];

#[test]
fn a_configuration_that_kennel_takes_means_the_same_to_git() {
    let Some(world) = World::new() else { return };
    let seed = std::env::var("KENNEL_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| u64::from(std::process::id()) | 1);
    println!("KENNEL_SEED={seed}");
    let mut random = Random(seed);
    let file = world.scratch.join("config");
    let (mut taken, mut compared) = (0, 0);
    for _ in 0..1500 {
        let mut text = if random.next(2) == 0 { String::from("[core]\n") } else { String::new() };
        for _ in 0..random.next(12) {
            text.push_str(PIECES[random.next(PIECES.len())]);
        }
        std::fs::write(&file, &text).expect("a scratch folder is writable");
        let Some(own) = kennel_linux::handback::config::settings(text.as_bytes()) else { continue };
        taken += 1;
        let mut command = Command::new("git");
        command
            .args(["config", "-z", "--list", "-f"])
            .arg(&file)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null());
        let ran = ran_within(Duration::from_secs(20), &mut command);
        let own: Vec<String> = own
            .iter()
            .map(|setting| match &setting.value {
                Some(value) => format!("{}\n{}\0", setting.key(), String::from_utf8_lossy(value)),
                None => format!("{}\0", setting.key()),
            })
            .collect();
        // What git refuses it does not act on.
        if ran.code == 0 {
            compared += 1;
            assert_eq!(ran.stdout, own.concat(), "{text:?}");
        }
    }
    println!("{taken} taken, {compared} compared");
    assert!(compared > 100, "{compared} of {taken}");
    let _ = std::io::stdout().flush();
}
