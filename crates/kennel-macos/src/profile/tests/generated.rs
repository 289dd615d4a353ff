//! Made-up trees on the real disk, and made-up policies about what is in them.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use kennel_policy::dotfiles;
use kennel_policy::pattern::PathPattern;
use kennel_policy::policy::{
    FilePolicy, GitLevel, KeptIn, KeptNames, Missing, Origin, OtherNames, PathRule, Policy, Precedence,
    Reach, ReadModel, SearchScope, TmpMode,
};
use proptest::prelude::*;

/// A folder with trees in it, removed with the value. Not below `/tmp`, which policies are not about.
pub struct Yard {
    pub top: PathBuf,
    /// Every path that there is, in all trees, without links.
    pub paths: Vec<PathBuf>,
    /// The folders among them.
    pub folders: HashSet<PathBuf>,
    /// All of it, with links.
    pub all: HashSet<PathBuf>,
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.top);
    }
}

/// Every name that rules or trees use.
const NAMES: &[&str] = &["a", "b", "c", "out", "x.key", "y.key", ".env", "sub"];
/// How many trees there are.
pub const TREES: usize = 12;

impl Yard {
    pub fn new(name: &str) -> Yard {
        let top = Path::new("/var/tmp").join(format!("kennel-macos-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        for tree in 0..TREES {
            grow(&top.join(format!("t{tree}")), tree as u64);
        }
        let (folders, all) = (HashSet::new(), HashSet::new());
        let mut yard = Yard { top: top.clone(), paths: Vec::new(), folders, all };
        let mut folders = vec![top];
        while let Some(folder) = folders.pop() {
            yard.paths.push(folder.clone());
            yard.folders.insert(folder.clone());
            yard.all.insert(folder.clone());
            for entry in fs::read_dir(&folder).unwrap().flatten() {
                let kind = entry.file_type().unwrap();
                yard.all.insert(entry.path());
                match () {
                    () if kind.is_dir() => folders.push(entry.path()),
                    () if kind.is_symlink() => {}
                    () => yard.paths.push(entry.path()),
                }
            }
        }
        yard.paths.sort();
        yard
    }

    /// The paths of one tree.
    pub fn tree(&self, tree: usize) -> impl Iterator<Item = &PathBuf> {
        let top = self.top.join(format!("t{tree}"));
        self.paths.iter().filter(move |path| path.starts_with(&top))
    }
}

/// A tree: two levels of folders and files, a repository or two, links inside and out, a socket, a second name of a file.
fn grow(top: &Path, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut chance = move |one_in: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.is_multiple_of(one_in)
    };
    fs::create_dir_all(top).unwrap();
    for first in NAMES {
        let path = top.join(first);
        match () {
            () if chance(4) => continue,
            () if chance(3) => fs::write(&path, first).unwrap(),
            () => {
                fs::create_dir(&path).unwrap();
                for second in NAMES {
                    let path = path.join(second);
                    match () {
                        () if chance(2) => {}
                        () if chance(2) => fs::write(&path, second).unwrap(),
                        () if chance(5) => {
                            symlink(["../a", "../../t0/b", "nowhere", "../../t2"][first.len() % 4], &path)
                                .unwrap();
                        }
                        () => {
                            fs::create_dir(&path).unwrap();
                            if chance(2) {
                                fs::write(path.join("x.key"), "deep").unwrap();
                            }
                        }
                    }
                }
            }
        }
    }
    if chance(2) {
        symlink("a", top.join("link")).unwrap();
    }
    if chance(3) {
        symlink("../t1/out", top.join("away")).unwrap();
    }
    if chance(2) {
        repository(&top.join(".git"));
    }
    if chance(3) && top.join("sub").is_dir() {
        repository(&top.join("sub/.git"));
    }
    if chance(4) && !top.join("bare").exists() {
        repository(&top.join("bare"));
    }
    if chance(3) && top.join("x.key").is_file() && !top.join("second").exists() {
        fs::hard_link(top.join("x.key"), top.join("second")).unwrap();
    }
    if chance(3) {
        drop(UnixListener::bind(top.join("socket")).unwrap());
    }
    if chance(3) {
        fs::create_dir_all(top.join(".claude/agents")).unwrap();
        fs::write(top.join(".bashrc"), "").unwrap();
    }
}

fn repository(path: &Path) {
    for folder in ["objects", "refs", "hooks", "info"] {
        fs::create_dir_all(path.join(folder)).unwrap();
    }
    fs::write(path.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(path.join("config"), "[core]\n\thooksPath = .githooks\n").unwrap();
}

/// A policy about the trees of a yard, as text so that a failure can be read.
#[derive(Clone, Debug)]
pub struct Draft {
    pub tree: usize,
    pub deny_read: Vec<Rule>,
    pub allow_read: Vec<Rule>,
    pub allow_write: Vec<Rule>,
    pub deny_write: Vec<Rule>,
    pub listed: bool,
    pub deny_write_wins: bool,
    pub git: u8,
    pub kept: u8,
    pub refuse_other_names: bool,
}

#[derive(Clone, Debug)]
pub struct Rule {
    /// Relative to the tree.
    pub path: String,
    pub missing: u8,
    pub follow_link: bool,
    pub lenient: bool,
    pub always: bool,
}

pub fn draft() -> impl Strategy<Value = Draft> {
    let lists = (rules(3), rules(3), rules(3), rules(3));
    let rest = (0..TREES, any::<bool>(), any::<bool>(), 0..4u8, 0..4u8, prop::bool::weighted(0.2));
    (lists, rest).prop_map(|((deny_read, allow_read, mut allow_write, deny_write), rest)| {
        let (tree, listed, deny_write_wins, git, kept, refuse_other_names) = rest;
        // Most policies let the command write its project.
        if kept != 3 {
            allow_write.push(Rule {
                path: ".".into(),
                missing: 0,
                follow_link: true,
                lenient: true,
                always: false,
            });
        }
        Draft {
            tree,
            deny_read,
            allow_read,
            allow_write,
            deny_write,
            listed,
            deny_write_wins,
            git,
            kept,
            refuse_other_names,
        }
    })
}

fn rules(most: usize) -> impl Strategy<Value = Vec<Rule>> {
    let rule =
        (path(), 0..6u8, prop::bool::weighted(0.8), prop::bool::weighted(0.8), prop::bool::weighted(0.05));
    let rule = rule.prop_map(|(path, missing, follow_link, lenient, always)| Rule {
        path,
        missing,
        follow_link,
        lenient,
        always,
    });
    prop::collection::vec(rule, 0..=most)
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(NAMES);
    let odd = prop::sample::select(
        &[".git", ".git/hooks", "link", "away", "bare", "missing", "link/b", "second", "socket"][..],
    );
    let glob = prop::sample::select(
        &[
            "**/*.key",
            "*.key",
            "a/*",
            "**/.env",
            "*/x.key",
            "**",
            "a/**",
            "**/sub",
            "[ab]",
            "?",
            "**/b",
            "missing/*.key",
            "*/*/x.key",
            "link/*",
            "**/.git",
        ][..],
    );
    prop_oneof![
        3 => name.clone().prop_map(str::to_owned),
        3 => (name.clone(), name.clone()).prop_map(|(one, two)| format!("{one}/{two}")),
        1 => (name.clone(), name.clone(), name).prop_map(|(one, two, three)| format!("{one}/{two}/{three}")),
        1 => Just(".".to_owned()),
        1 => Just("..".to_owned()),
        2 => odd.prop_map(str::to_owned),
        4 => glob.prop_map(str::to_owned),
    ]
}

impl Draft {
    pub fn policy(&self, yard: &Yard) -> Policy {
        let tree = yard.top.join(format!("t{}", self.tree));
        let rules = |rules: &[Rule], allows: bool| -> Vec<PathRule> {
            rules.iter().map(|rule| rule.rule(&tree, allows)).collect()
        };
        let kept = |folders| {
            let (names, origin) = (dotfiles::OF_SRT, Origin("kept".into()));
            Some(KeptNames { folders, names, reach: Reach::Levels(3), origin })
        };
        let mut policy = Policy::default();
        policy.process.workdir = None;
        policy.files = FilePolicy {
            reads: if self.listed { ReadModel::Listed } else { ReadModel::Open },
            deny_read: rules(&self.deny_read, false),
            allow_read: rules(&self.allow_read, true),
            allow_write: rules(&self.allow_write, true),
            deny_write: rules(&self.deny_write, false),
            precedence: if self.deny_write_wins { Precedence::DenyWrite } else { Precedence::Specific },
            git: match self.git {
                0 => GitLevel::MetadataReadOnly,
                1 => GitLevel::HooksAndConfigReadOnly,
                2 => GitLevel::HooksReadOnly,
                _ => GitLevel::Off,
            },
            kept_names: match self.kept {
                0 => kept(KeptIn::Start),
                1 => kept(KeptIn::WriteRoots),
                _ => None,
            },
            other_names: if self.refuse_other_names { OtherNames::Refuse } else { OtherNames::Deny },
            tmp: TmpMode::Host,
            host_run: true,
            ..FilePolicy::default()
        };
        policy
    }
}

impl Rule {
    fn rule(&self, tree: &Path, allows: bool) -> PathRule {
        let pattern = PathPattern::parse_in(tree, &self.path).unwrap();
        let missing = match self.missing {
            0..=2 => Missing::Skip,
            3 => Missing::Ignore,
            4 if !allows => Missing::Shared,
            _ => Missing::Skip,
        };
        PathRule {
            pattern,
            missing,
            follow_link: self.follow_link,
            lenient: self.lenient,
            without_exceptions: self.always && !allows,
            of_profile: false,
            look: SearchScope::Everywhere,
            origin: Origin("made up".to_owned()),
        }
    }
}
