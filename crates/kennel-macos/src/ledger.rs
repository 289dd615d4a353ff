//! Which processes belong to a sandbox.
//!
//! macOS has nothing that holds a command and all its descendants: a process can leave its group and its session, and when its
//! parent has ended nobody can tell whose child it was. So a ledger is kept of everything that was ever seen to descend from
//! the command. A process number is used again by the system, so a process is known by its number and the time of its start.
//!
//! A process that forks twice and ends between two looks would get away from that. But it cannot leave its profile: a profile
//! allows a look-up that no other allows (see [`marker`]), and whether a process has that can be asked of the system.
//!
//! The system also keeps who is *responsible* for a process, across forks. kennel does not use it: a command that is
//! responsible for itself has none of the permissions that the user gave to the terminal (folders such as `~/Documents`).

use crate::profile::Profile;

use std::collections::BTreeMap;

/// The name of a service that nobody offers, and that only this sandbox may look up.
#[must_use]
pub fn marker(tag: &str) -> String {
    format!("{tag}.member")
}

/// The name of one that it may not. A process without any profile may look up both, so it takes two questions.
#[must_use]
pub fn stranger(tag: &str) -> String {
    format!("{tag}.stranger")
}

/// The profile with the marker in it. A tag has nothing in it that would have to be escaped.
#[must_use]
pub fn with_marker(mut profile: Profile, tag: &str) -> Profile {
    if !profile.text.ends_with('\n') {
        profile.text.push('\n');
    }
    profile.text.push_str(&format!("(allow mach-lookup (global-name \"{}\"))\n", marker(tag)));
    profile
}

/// A process as the system lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its number.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// The group that it is in; or its session, if that is the command's.
    pub group: i32,
    /// When it started, in microseconds.
    pub start: u64,
    /// Whether it has the sandbox's own profile.
    pub is_marked: bool,
}

/// Everything that was seen to belong to a sandbox.
#[derive(Clone, Debug)]
pub struct Ledger {
    root: i32,
    /// When each was started that was there at the last look.
    members: BTreeMap<i32, u64>,
    most: usize,
}

impl Ledger {
    /// The ledger of a command that leads its own group.
    #[must_use]
    pub fn new(root: i32, start: u64) -> Ledger {
        Ledger { root, members: [(root, start)].into(), most: 1 }
    }

    /// Enters a child of a member, as soon as somebody sees it.
    pub fn enter(&mut self, pid: i32, start: u64) {
        self.members.insert(pid, start);
        self.most = self.most.max(self.members.len());
    }

    /// Looks through all processes of the system. Returns the members that are alive.
    pub fn look(&mut self, all: &[Listed]) -> Vec<i32> {
        let mut found: BTreeMap<i32, u64> = BTreeMap::new();
        let is_known = |members: &BTreeMap<i32, u64>, one: &Listed| members.get(&one.pid) == Some(&one.start);
        for one in all {
            if is_known(&self.members, one) || one.group == self.root || one.is_marked {
                found.insert(one.pid, one.start);
            }
        }
        // Children of members are members, and theirs: until a round finds none.
        loop {
            let before = found.len();
            for one in all {
                // Who is older than a process is not its child: the number is another's.
                let of_member = found.get(&one.parent).is_some_and(|start| *start <= one.start);
                if of_member && !found.contains_key(&one.pid) {
                    found.insert(one.pid, one.start);
                }
            }
            if found.len() == before {
                break;
            }
        }
        self.members = found;
        let alive = all.iter().filter(|one| is_known(&self.members, one));
        let alive: Vec<i32> = alive.map(|one| one.pid).collect();
        self.most = self.most.max(alive.len());
        alive
    }

    /// The members of the last look, each with the time of its start.
    pub fn members(&self) -> impl Iterator<Item = (i32, u64)> {
        self.members.iter().map(|(pid, start)| (*pid, *start))
    }

    /// Whether such a process is a member.
    #[must_use]
    pub fn knows(&self, pid: i32, start: u64) -> bool {
        self.members.get(&pid) == Some(&start)
    }

    /// The most that were seen at once.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pid: i32, parent: i32, group: i32, start: u64) -> Listed {
        Listed { pid, parent, group, start, is_marked: false }
    }

    /// The command is 100, and 1 and 50 are somebody else's.
    fn strangers() -> Vec<Listed> {
        vec![one(1, 0, 1, 0), one(50, 1, 50, 5), one(51, 50, 50, 90)]
    }

    #[test]
    #[kennel_claim::claim("macos/descendants-end")]
    fn children_of_children_belong_whatever_group_they_are_in() {
        let mut ledger = Ledger::new(100, 10);
        let mut all = strangers();
        // Listed before their parents.
        all.extend([
            one(103, 102, 103, 13),
            one(102, 101, 102, 12),
            one(101, 100, 101, 11),
            one(100, 50, 100, 10),
        ]);
        assert_eq!(ledger.look(&all), [103, 102, 101, 100]);
        assert_eq!(ledger.most(), 4);
    }

    #[test]
    #[kennel_claim::claim("macos/descendants-end")]
    fn an_orphan_is_known_from_before_and_a_number_that_is_used_again_is_not() {
        let mut ledger = Ledger::new(100, 10);
        let mut all = strangers();
        all.extend([one(100, 50, 100, 10), one(101, 100, 101, 11)]);
        ledger.look(&all);
        let mut all = strangers();
        // Its parent is gone, and so is the command.
        all.push(one(101, 1, 101, 11));
        assert_eq!(ledger.look(&all), [101]);
        let mut all = strangers();
        all.push(one(101, 1, 101, 99));
        assert!(ledger.look(&all).is_empty());
        // Nor are the children of whoever has the number now.
        all.push(one(102, 101, 101, 100));
        assert!(ledger.look(&all).is_empty());
    }

    #[test]
    fn who_started_before_its_parent_is_not_its_child() {
        let mut ledger = Ledger::new(100, 10);
        let mut all = strangers();
        all.extend([one(100, 50, 100, 10), one(60, 100, 60, 7)]);
        assert_eq!(ledger.look(&all), [100]);
    }

    #[test]
    #[kennel_claim::claim("macos/descendants-end")]
    fn who_is_in_the_group_or_has_the_profile_belongs_without_having_been_seen() {
        let mut ledger = Ledger::new(100, 10);
        let mut all = strangers();
        let marked = Listed { is_marked: true, ..one(202, 1, 202, 22) };
        all.extend([one(201, 1, 100, 21), marked, one(203, 202, 203, 23)]);
        assert_eq!(ledger.look(&all), [201, 202, 203]);
    }

    #[test]
    fn what_was_entered_by_hand_is_found_after_its_parent_ended() {
        let mut ledger = Ledger::new(100, 10);
        ledger.enter(101, 11);
        assert!(ledger.knows(101, 11) && !ledger.knows(101, 12));
        let mut all = strangers();
        all.push(one(101, 1, 101, 11));
        assert_eq!(ledger.look(&all), [101]);
    }

    #[test]
    fn a_marker_is_allowed_by_the_profile_that_has_it() {
        let plain = Profile { text: "(version 1)\n(deny default)".into(), parameters: Vec::new() };
        let marked = with_marker(plain, "kennel-7f");
        let wanted = "(version 1)\n(deny default)\n(allow mach-lookup (global-name \"kennel-7f.member\"))\n";
        assert_eq!(marked.text, wanted);
        assert_ne!(marker("kennel-7f"), stranger("kennel-7f"));
    }

    proptest::proptest! {
        /// A tree of processes that all are alive is found whole, in whatever order they are listed, and nobody else.
        #[test]
        fn a_tree_is_found_whole(parents in proptest::collection::vec(0usize..20, 1..20), turn in 0usize..20) {
            let mut all = strangers();
            all.push(one(100, 50, 100, 10));
            let mut wanted = vec![100];
            for (index, parent) in parents.iter().enumerate() {
                let pid = 101 + index as i32;
                let parent = 100 + (parent % (index + 1)) as i32;
                all.push(one(pid, parent, pid, 11 + index as u64));
                wanted.push(pid);
            }
            let length = all.len();
            all.rotate_left(turn % length);
            let mut found = Ledger::new(100, 10).look(&all);
            found.sort_unstable();
            proptest::prop_assert_eq!(found, wanted);
        }
    }
}
