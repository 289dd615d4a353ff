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
#[kennel_claim::claim("handed-back/git-configuration-means-the-same")]
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

/// An index that kennel leaves where it is has the same paths to git, and one that git wrote is left.
#[test]
fn an_index_that_kennel_takes_means_the_same_to_git() {
    let Some(world) = World::new() else { return };
    let seed = std::env::var("KENNEL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) | 1);
    println!("KENNEL_SEED={seed}");
    let mut random = Random(seed);
    let file = world.work().join("index");
    let list = |what: &str| {
        let mut command = Command::new("git");
        command
            .args(["ls-files", "-z", "--stage"])
            .env("GIT_INDEX_FILE", what)
            .env("GIT_CONFIG_NOSYSTEM", "1");
        ran_within(Duration::from_secs(20), command.current_dir(world.work()).stdin(Stdio::null()))
    };
    let shapes = [
        "git update-index --index-version 2",
        "git update-index --index-version 4",
        "git update-index --index-version 4; git update-index --skip-worktree one; git add -N new",
        "git update-index --index-version 2; git ls-files -s | git -c index.threads=2 -c index.recordOffsetTable=true update-index --index-info; git write-tree",
        "git checkout -q -b c HEAD~1; echo c > two; git add two; git commit -qm c; git merge main",
    ];
    let (mut taken, mut compared) = (0, 0);
    for shape in shapes {
        world.host("git checkout -q -f main; mkdir -p a/b.c a/b; for it in a/b.c/x a/b/y a/b-c a/z .git-x $'t\\ty' 'l o n g'; do echo x > \"$it\"; done; echo n > new; ln -sf one link; git add -f a .git-x * link; git rm -q --cached new");
        world.host(&format!("{{ {shape}; }} >/dev/null 2>&1 || true"));
        let whole = std::fs::read(world.work().join(".git/index")).expect("there is an index");
        assert!(kennel_linux::handback::shape::index::paths(&whole, 20).is_some(), "{shape}");
        for round in 0..120 {
            let mut bytes = whole.clone();
            for _ in 0..random.next(4).min(round) {
                let at = random.next(bytes.len());
                match random.next(4) {
                    0 => bytes[at] = b"./\0ag"[random.next(5)],
                    1 => bytes[at] ^= 1 << random.next(8),
                    2 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"\0./a"[random.next(4)]),
                }
            }
            let Some(own) = kennel_linux::handback::shape::index::paths(&bytes, 20) else { continue };
            taken += 1;
            std::fs::write(&file, &bytes).expect("a scratch folder is writable");
            let ran = list(&file.display().to_string());
            if ran.code == 0 {
                compared += 1;
                let own: Vec<String> = own
                    .iter()
                    .map(|(stage, path)| format!("{stage}\t{}", String::from_utf8_lossy(path)))
                    .collect();
                let gits: Vec<String> =
                    ran.stdout.split_terminator('\0').map(|line| line[48..].to_owned()).collect();
                assert_eq!(own, gits, "{shape}");
            }
        }
        world.host("git merge --abort 2>/dev/null || true; rm -f .git/index; git reset -q --hard; git branch -q -D c 2>/dev/null || true");
    }
    println!("{taken} taken, {compared} compared");
    assert!(compared > 50, "{compared} of {taken}");
}
