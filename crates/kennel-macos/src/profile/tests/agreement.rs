//! The profile permits what the Linux resolver says, for thousands of made-up policies.
//!
//! Where Seatbelt can do more it may deny more, and only there: names that globs match later, and folders that do not exist on
//! the way to denied names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use kennel_linux::resolve::created::MissingFolders as LinuxFolders;
use kennel_linux::resolve::{Resolved as LinuxResolved, State, resolve as resolve_on_linux};
use kennel_policy::policy::{Policy, ReadModel};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::generated::{Draft, Yard, draft};
use crate::evaluator::{Profile as Evaluated, Vnode};
use crate::profile::{Access, HostDisk, MissingFolders, Network, Resolved, Surroundings, profile, resolve};

/// As many policies are tried, half of them the same each time.
const POLICIES: u32 = 10_000;

/// What went wrong, in words.
pub type Difference = String;

/// Both resolvers' answers to one policy.
pub struct Both {
    pub policy: Policy,
    pub linux: LinuxResolved,
    /// What the points of Linux say.
    points: HashMap<PathBuf, Access>,
    pub macos: Resolved,
    pub profile: Evaluated,
}

/// Resolves a policy twice; `None` if both refuse it.
pub fn both(yard: &Yard, draft: &Draft) -> Result<Option<Both>, Difference> {
    let policy = draft.policy(yard);
    let cwd = yard.top.join(format!("t{}", draft.tree));
    let around = Surroundings { cwd: cwd.clone(), homes: homes(), ..Surroundings::default() };
    let linux = resolve_on_linux(&policy, &cwd, LinuxFolders::Plan, None);
    let macos = resolve(&policy, &around, &HostDisk, MissingFolders::Plan);
    match (linux, macos) {
        (Err(_), Err(_)) => Ok(None),
        // A glob that starts behind a link to nothing. Linux has nothing to look through; a name can be denied.
        (Err(error), Ok(_)) if error.to_string().contains("Too many levels of symbolic links") => Ok(None),
        (Ok(_), Err(error)) => Err(format!("only macOS refuses: {error}")),
        (Err(error), Ok(_)) => Err(format!("only Linux refuses: {error}")),
        (Ok(linux), Ok(macos)) => {
            let network = Network::of(&policy.network, &[]).map_err(|error| error.to_string())?;
            let text = profile(&macos, &network, "t").map_err(|error| error.to_string())?.text;
            let profile = Evaluated::parse(&text).map_err(|error| format!("{error}\n{text}"))?;
            let access = |state: &State| match state {
                State::Hidden { .. } | State::Fresh(_) => Access::None,
                State::Host { write: true, .. } => Access::Write,
                _ => Access::Read,
            };
            let points =
                linux.points.iter().map(|point| (point.path.clone(), access(&point.state))).collect();
            Ok(Some(Both { policy, linux, points, macos, profile }))
        }
    }
}

/// The caller's home, as the Linux resolver takes it.
fn homes() -> Vec<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).into_iter().collect()
}

impl Both {
    /// Whether a glob that denies could match a path or something above it.
    fn in_pattern(&self, path: &Path) -> bool {
        let lists = [&self.policy.files.deny_read, &self.policy.files.deny_write];
        let mut globs = lists.into_iter().flatten().filter(|rule| rule.pattern.is_glob());
        globs.any(|rule| path.ancestors().any(|above| rule.pattern.matches(above)))
            || self
                .macos
                .patterns
                .iter()
                .any(|glob| path.ancestors().any(|above| glob.pattern.matches(above)))
    }

    fn linux(&self, path: &Path) -> Access {
        let open = self.policy.files.reads == ReadModel::Open;
        let default = if open { Access::Read } else { Access::None };
        path.ancestors().find_map(|above| self.points.get(above).copied()).unwrap_or(default)
    }

    /// Compares the answers about something that exists.
    pub fn existing(&self, yard: &Yard, path: &Path) -> Result<(), Difference> {
        let text = path.to_str().unwrap();
        let vnode = if yard.folders.contains(path) { Vnode::Directory } else { Vnode::Regular };
        let expected = self.linux(path);
        let differs = |what: &str, macos: bool, linux: bool| {
            if macos == linux {
                Ok(())
            } else {
                Err(format!("{what} {text}: macOS {macos}, Linux {linux} ({expected:?})"))
            }
        };
        differs("read", self.profile.may_read(text, vnode), expected >= Access::Read)?;
        differs("write", self.profile.may_write(text, vnode), expected == Access::Write)?;
        differs("chmod", self.profile.may_change_metadata(text, vnode), expected == Access::Write)?;
        // To remove a name is to write its folder; a mount stays where it is.
        let parent = path.parent().unwrap_or(path);
        let is_point = self.points.contains_key(path);
        let removable = expected == Access::Write && self.linux(parent) == Access::Write && !is_point;
        let unlinked = self.profile.may_unlink(text, vnode);
        if unlinked && !removable {
            return Err(format!("unlink {text}: macOS allows what Linux does not"));
        }
        let holds = |denied: &Path| denied != path && denied.starts_with(path);
        let above_a_name =
            self.macos.points.iter().any(|point| point.nearest.is_some() && holds(&point.path))
                || self.macos.patterns.iter().any(|glob| glob.nearest.starts_with(path));
        if removable && !unlinked && !above_a_name {
            return Err(format!("unlink {text}: Linux allows what macOS does not"));
        }
        Ok(())
    }

    /// Compares the answers about a name at which there is nothing.
    pub fn absent(&self, path: &Path, vnode: Vnode) -> Result<(), Difference> {
        let text = path.to_str().unwrap();
        let guarded = self.linux.guard.protected.iter().chain(&self.linux.guard.standing);
        let guarded = guarded.map(kennel_linux::resolve::guard_rules::Protected::path);
        // What exists is a point.
        let mut absent = guarded.filter(|denied| denied.symlink_metadata().is_err());
        let denied = absent.any(|denied| path.starts_with(denied));
        let linux = self.linux(path) == Access::Write && !denied;
        let macos = self.profile.may_create(text, vnode);
        let missing = self.macos.missing_folders.iter().any(|folder| path.starts_with(folder));
        match (linux, macos) {
            (false, true) => Err(format!("create {text}: macOS allows what Linux does not")),
            (true, false) if !missing && !self.in_pattern(path) => {
                Err(format!("create {text}: Linux allows what macOS does not"))
            }
            _ => Ok(()),
        }
    }

    /// What globs deny holds for names that come later.
    pub fn later(&self, path: &Path) -> Result<(), Difference> {
        use crate::profile::Denial;
        let text = path.to_str().unwrap();
        let nearest = self.macos.points.iter().rfind(|point| path.starts_with(&point.path));
        let depth = nearest.map_or(0, |point| point.path.components().count());
        for glob in &self.macos.patterns {
            // The most specific rule wins.
            let matched = path.ancestors().find(|above| glob.pattern.matches(above));
            let deeper = matched.is_some_and(|matched| matched.components().count() > depth);
            if deeper && glob.denies != Denial::Reading && self.profile.may_create(text, Vnode::Regular) {
                return Err(format!("create {text}: {} should deny it", glob.reason));
            }
            if deeper && glob.denies != Denial::Writing && self.profile.may_read(text, Vnode::Regular) {
                return Err(format!("read {text}: {} should deny it", glob.reason));
            }
        }
        Ok(())
    }

    /// Nothing is denied by its name that a move of folders would reach.
    pub fn moves(&self) -> Result<(), Difference> {
        for point in self.macos.points.iter().filter(|point| point.access != Access::Write) {
            let parent = point.path.parent().unwrap_or(Path::new("/"));
            if self.macos.access(parent) != Access::Write {
                continue;
            }
            let text = point.path.to_str().unwrap();
            for vnode in [Vnode::Regular, Vnode::Directory, Vnode::Symlink] {
                if self.profile.may_rename(text, "/nowhere", vnode, false)
                    || self.profile.may_unlink(text, vnode)
                {
                    return Err(format!("move away {text}"));
                }
                if self.profile.may_create(text, vnode) {
                    return Err(format!("move to {text}"));
                }
            }
            // The folders on the way: those that are there stay, and the first that is not cannot come.
            let mut above = parent.ancestors().take_while(|above| self.macos.access(above) == Access::Write);
            for folder in above.by_ref() {
                let text = folder.to_str().unwrap();
                let there = folder.symlink_metadata().is_ok();
                let first = !there && folder.parent().is_some_and(|up| up.symlink_metadata().is_ok());
                if there && self.profile.may_unlink(text, Vnode::Directory) {
                    return Err(format!("move away {text}, with {} in it", point.path.display()));
                }
                if first && self.profile.may_create(text, Vnode::Directory) {
                    return Err(format!("move a folder to {text}, with {} in it", point.path.display()));
                }
            }
        }
        Ok(())
    }

    /// Everything.
    pub fn compare(&self, yard: &Yard, draft: &Draft) -> Result<(), Difference> {
        const ABSENT: [&str; 7] = ["new", "x.key", ".env", "b", ".git", "missing", ".bashrc"];
        // Two names in each folder, others in each policy.
        let first = self.macos.points.len();
        for (index, path) in yard.tree(draft.tree).chain([&yard.top]).enumerate() {
            self.existing(yard, path)?;
            for turn in 0..2 {
                let name = ABSENT[(first + index + 3 * turn) % ABSENT.len()];
                let path = path.join(name);
                if path.parent().is_some_and(|folder| yard.folders.contains(folder))
                    && !yard.all.contains(&path)
                {
                    self.absent(&path, if turn == 0 { Vnode::Regular } else { Vnode::Directory })?;
                    self.later(&path)?;
                }
            }
        }
        self.moves()
    }
}

/// How one policy came out.
pub fn outcome(yard: &Yard, draft: &Draft) -> Result<bool, Difference> {
    match both(yard, draft)? {
        None => Ok(false),
        Some(both) => both.compare(yard, draft).map(|()| true),
    }
}

fn run(yard: &Yard, mut runner: TestRunner, policies: u32) -> (u32, u32) {
    let (kept, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let run = runner.run(&draft(), |draft| {
        match outcome(yard, &draft) {
            Ok(true) => kept.set(kept.get() + 1),
            Ok(false) => refused.set(refused.get() + 1),
            Err(difference) => return Err(TestCaseError::fail(difference)),
        }
        Ok(())
    });
    if let Err(error) = run {
        panic!("{error}");
    }
    assert!(kept.get() + refused.get() >= policies);
    (kept.get(), refused.get())
}

#[test]
#[kennel_claim::claim("macos/permits-what-linux-permits")]
fn ten_thousand_policies_permit_what_linux_permits() {
    let yard = Yard::new("agreement");
    let config =
        Config { cases: POLICIES / 2, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let fixed = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let one = run(&yard, TestRunner::new_with_rng(config.clone(), fixed), POLICIES / 2);
    let two = run(&yard, TestRunner::new(config), POLICIES / 2);
    let (kept, refused) = (one.0 + two.0, one.1 + two.1);
    println!("{kept} policies agree, {refused} are refused on both systems");
    // Of what is refused nothing is learnt.
    assert!(kept > POLICIES * 3 / 4, "{kept} kept, {refused} refused");
}
