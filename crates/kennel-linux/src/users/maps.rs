//! Which id inside is which outside.
//!
//! One of the named users is the caller: the first that is not root, so that the workspace's files have an ordinary owner
//! inside, and what that user writes is the caller's. All other ids from 0 to 65535 are subordinate ids, as far as there are
//! any: packages and archives name more users than those that anybody thinks of (`_apt`, `nobody`).

use std::fmt::Write;

use kennel_policy::policy::ProcessPolicy;

use super::UsersError;
use super::subordinate::{self, Ids, Owner, Which, joined, owned, total, unclaimed, without};

/// Consecutive ids inside that are consecutive ids outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first inside.
    pub inside: u32,
    /// The first outside.
    pub outside: u32,
    /// How many.
    pub count: u32,
}

impl Extent {
    /// The one for ids that only the namespace above the command's has.
    fn is_outsider(&self) -> bool {
        self.inside == OUTSIDER
    }
}

/// The maps of a user namespace with several users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserMaps {
    /// Of uids, by the id inside.
    pub users: Vec<Extent>,
    /// Of gids.
    pub groups: Vec<Extent>,
    /// Ids that exist only in the namespace above the command's, if one could be spared: a uid and a gid.
    outsider: Option<(u32, u32)>,
    /// Whether this process may write them itself.
    pub(super) direct: bool,
    /// Who is mapped, for messages.
    pub(super) names: String,
}

/// The ids inside that there are, if there are enough outside.
const ALL: u32 = 65536;
/// The id of the outsider, which no user can have.
const OUTSIDER: u32 = u32::MAX - 1;
/// The user that programs take for nobody.
const NOBODY: u32 = 65534;
/// Where a root without a line of its own looks for ids that nobody claims: above what systemd gives to containers, below
/// what it keeps for itself.
const UNCLAIMED: u32 = 0x7000_0000;
/// The first id that a line is suggested for, as `useradd` has it.
const SUGGESTED: u32 = 100_000;

impl UserMaps {
    /// The maps for the users of a policy, of whom there is at least one.
    ///
    /// # Errors
    /// When the caller has not enough subordinate ids.
    pub fn of(process: &ProcessPolicy) -> Result<UserMaps, UsersError> {
        let names: Vec<&str> = process.users.iter().map(|user| user.name.as_str()).collect();
        let names = format!("the users {}", names.join(", "));
        let own = process.callers_user().map_or((0, 0), |user| (user.uid, user.gid));
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let owner = Owner::of_this_process();
        let direct = may_write_maps();
        let map = |which, own, outside, mut wanted: Vec<u32>| {
            // What is made inside belongs to root, named or not.
            wanted.push(0);
            let text = subordinate::text(which);
            let mut ids = owned(&text, &owner, outside);
            let need = needed(own, &wanted).max(1);
            if direct && total(&ids) < need {
                ids = available(&text, which, outside);
            }
            extents(own, outside, &wanted, &ids).map_err(|need| UsersError::TooFew {
                users: names.clone(),
                file: which.file(),
                caller: owner.name(),
                have: total(&ids),
                what: which.name(),
                need,
                line: format!("{}:{}:{ALL}", owner.name(), unclaimed(&text, SUGGESTED, ALL)),
            })
        };
        let mut users =
            map(Which::Users, own.0, uid, process.users.iter().map(|user| user.uid).collect::<Vec<_>>())?;
        let mut groups =
            map(Which::Groups, own.1, gid, process.users.iter().map(|user| user.gid).collect::<Vec<_>>())?;
        let both =
            (users.pop_if(|extent| extent.is_outsider()), groups.pop_if(|extent| extent.is_outsider()));
        let outsider = match both {
            (Some(user), Some(group)) => {
                let ids = (user.inside, group.inside);
                users.push(user);
                groups.push(group);
                Some(ids)
            }
            _ => None,
        };
        Ok(UserMaps { users, groups, outsider, direct, names })
    }

    /// How many uids there are inside.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.users.iter().map(|extent| extent.count).sum()
    }

    pub(super) fn extents(&self, which: Which) -> &[Extent] {
        match which {
            Which::Users => &self.users,
            Which::Groups => &self.groups,
        }
    }

    /// Somebody who has what nobody inside is to open: an outsider, or root where none could be spared.
    #[must_use]
    pub fn outsider(&self) -> (u32, u32) {
        self.outsider.unwrap_or((0, 0))
    }

    /// The map of a namespace in one that has this map, in which every id but the outsider's is itself: the kernel wants each line to lie in one
    /// line of the map above.
    #[must_use]
    pub fn identity(&self, which: Which) -> String {
        let same = |extent: &Extent| Extent { outside: extent.inside, ..*extent };
        text(self.extents(which).iter().filter(|extent| !extent.is_outsider()).map(same))
    }

    /// As the kernel reads it.
    pub(super) fn text(&self, which: Which) -> String {
        text(self.extents(which).iter().copied())
    }
}

fn text(extents: impl Iterator<Item = Extent>) -> String {
    extents.fold(String::new(), |mut text, Extent { inside, outside, count }| {
        let _ = writeln!(text, "{inside} {outside} {count}");
        text
    })
}

/// Whether the kernel lets this process write any map: it takes the right to become anybody, and, to map user 0 of its own
/// namespace (since Linux 5.12), that to give files capabilities.
fn may_write_maps() -> bool {
    const SETGID: u64 = 1 << 6;
    const SETUID: u64 = 1 << 7;
    const SETFCAP: u64 = 1 << 31;
    let status = crate::read::read_to_end("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    rustix::process::geteuid().is_root()
        && effective & (SETGID | SETUID | SETFCAP) == SETGID | SETUID | SETFCAP
}

/// Ids for a root that has no line: of those that exist in its own namespace, some that no line claims and no file should
/// have.
fn available(text: &str, which: Which, besides: u32) -> Vec<Ids> {
    let own = crate::read::read_to_end(&format!("/proc/self/{}", which.map())).unwrap_or_default();
    let own = String::from_utf8_lossy(&own);
    let there = own.lines().filter_map(|line| {
        let mut numbers = line.split_ascii_whitespace().filter_map(|number| number.parse::<u32>().ok());
        let (start, _, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some(Ids { start, count: count.min(u32::MAX - start) })
    });
    let there = joined(there.collect());
    let start = unclaimed(text, UNCLAIMED, ALL);
    if there.iter().any(|range| range.start <= start && range.end() >= start.saturating_add(ALL)) {
        return vec![Ids { start, count: ALL }];
    }
    // A container's root has few: what lies above the ids of system services and people.
    const ORDINARY: u32 = 10_000;
    let high = there.into_iter().filter_map(|range| {
        let start = range.start.max(ORDINARY);
        (range.end() > start).then(|| Ids { start, count: range.end() - start })
    });
    let claimed: Vec<Ids> = subordinate::lines(text).map(|(_, ids)| ids).collect();
    let free =
        high.filter(|range| !claimed.iter().any(|own| own.start < range.end() && own.end() > range.start));
    without(without(free.collect(), besides), NOBODY)
}

/// The ids that have to be outside besides the caller's own.
fn others(own: u32, wanted: &[u32]) -> Vec<u32> {
    let mut others: Vec<u32> = wanted.iter().copied().filter(|id| *id != own).collect();
    others.sort_unstable();
    others.dedup();
    others
}

fn needed(own: u32, wanted: &[u32]) -> u32 {
    u32::try_from(others(own, wanted).len()).unwrap_or(u32::MAX)
}

/// The map in which `own` inside is `outside`, and the others are `ids`; with too few of them, how many it takes.
fn extents(own: u32, outside: u32, wanted: &[u32], ids: &[Ids]) -> Result<Vec<Extent>, u32> {
    let need = needed(own, wanted);
    // A sandbox with several users of whom only one has an id is none.
    if total(ids) < need.max(1) {
        return Err(need.max(1));
    }
    let named = others(own, wanted);
    let high: Vec<u32> = named.iter().copied().filter(|id| *id >= ALL).collect();
    let full = ALL - u32::from(own < ALL) + u32::try_from(high.len()).unwrap_or(0);
    let one = |id: &u32| Ids { start: *id, count: 1 };
    let pieces: Vec<Ids> = if total(ids) >= full {
        let low = without(vec![Ids { start: 0, count: ALL }], own);
        let outsider = (total(ids) > full).then_some(Ids { start: OUTSIDER, count: 1 });
        low.into_iter().chain(high.iter().map(one)).chain(outsider).collect()
    } else {
        // Those that are named first, then nobody, then from 0 up.
        let mut first = named.clone();
        if own != NOBODY && !named.contains(&NOBODY) {
            first.push(NOBODY);
        }
        let rest = first.iter().fold(vec![Ids { start: 0, count: ALL }], |rest, id| without(rest, *id));
        first.iter().map(one).chain(without(rest, own)).collect()
    };
    let mut map = vec![Extent { inside: own, outside, count: 1 }];
    let mut left = ids.to_vec();
    left.reverse();
    'pieces: for mut piece in pieces {
        while piece.count > 0 {
            let Some(range) = left.last_mut() else { break 'pieces };
            let count = piece.count.min(range.count);
            map.push(Extent { inside: piece.start, outside: range.start, count });
            (piece.start, piece.count) = (piece.start.saturating_add(count), piece.count - count);
            (range.start, range.count) = (range.start.saturating_add(count), range.count - count);
            left.pop_if(|range| range.count == 0);
        }
    }
    map.sort_unstable_by_key(|extent| extent.inside);
    let mut all: Vec<Extent> = Vec::with_capacity(map.len());
    for next in map {
        match all.last_mut() {
            Some(last)
                if next.inside == last.inside + last.count && next.outside == last.outside + last.count =>
            {
                last.count += next.count;
            }
            _ => all.push(next),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(own: u32, wanted: &[u32], ids: &[(u32, u32)]) -> Result<String, u32> {
        let ids: Vec<Ids> = ids.iter().map(|(start, count)| Ids { start: *start, count: *count }).collect();
        extents(own, 777, wanted, &ids).map(|extents| text(extents.into_iter()).replace('\n', ", "))
    }

    #[test]
    fn a_full_range_has_every_id_and_one_of_them_is_the_caller() {
        let full = map(1000, &[0, 1000], &[(100_000, 65536)]).unwrap();
        assert_eq!(full, "0 100000 1000, 1000 777 1, 1001 101000 64535, 4294967294 165535 1, ");
        let root = map(0, &[0], &[(100_000, 65535)]).unwrap();
        assert_eq!(root, "0 777 1, 1 100000 65535, ");
        let high = map(1000, &[0, 1000, 70_000], &[(100_000, 70_000)]).unwrap();
        assert_eq!(
            high,
            "0 100000 1000, 1000 777 1, 1001 101000 64535, 70000 165535 1, 4294967294 165536 1, "
        );
    }

    #[test]
    fn with_fewer_ids_the_named_users_come_first() {
        assert_eq!(map(1000, &[0, 1000], &[(500, 1)]).unwrap(), "0 500 1, 1000 777 1, ");
        assert_eq!(map(1000, &[0, 1000], &[(500, 2)]).unwrap(), "0 500 1, 1000 777 1, 65534 501 1, ");
        let split = map(1000, &[0, 33, 1000], &[(500, 2), (600, 3)]).unwrap();
        assert_eq!(split, "0 500 1, 1 601 2, 33 501 1, 1000 777 1, 65534 600 1, ");
        assert_eq!(map(1000, &[0, 33, 1000], &[(500, 1)]), Err(2));
        assert_eq!(map(1000, &[1000], &[]), Err(1));
    }
}
