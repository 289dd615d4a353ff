//! The ids that a caller may use besides its own: `/etc/subuid` and `/etc/subgid`.
//!
//! `newuidmap` reads the same files and has the last word. They are read here to choose a map that it will accept, and
//! because all it says otherwise is that a range is "not allowed".

use crate::read::read_to_end;

/// Uids or gids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Uids.
    Users,
    /// Gids.
    Groups,
}

impl Which {
    /// The file that gives them.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Which::Users => "/etc/subuid",
            Which::Groups => "/etc/subgid",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Which::Users => "uids",
            Which::Groups => "gids",
        }
    }

    /// The kernel's file of a process's map.
    pub(super) fn map(self) -> &'static str {
        match self {
            Which::Users => "uid_map",
            Which::Groups => "gid_map",
        }
    }
}

/// Consecutive ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ids {
    /// The first.
    pub start: u32,
    /// How many.
    pub count: u32,
}

impl Ids {
    pub(super) fn end(self) -> u32 {
        self.start.saturating_add(self.count)
    }
}

/// Who asks: its number, and its names in `/etc/passwd`.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub uid: u32,
    pub names: Vec<String>,
}

impl Owner {
    /// This process. A subordinate id belongs to the real user, as `newuidmap` has it.
    pub(super) fn of_this_process() -> Owner {
        let uid = rustix::process::getuid().as_raw();
        let database = read_to_end("/etc/passwd").unwrap_or_default();
        Owner { uid, names: names_of(uid, &database) }
    }

    /// As a line of the files would name it.
    pub(super) fn name(&self) -> String {
        self.names.first().cloned().unwrap_or_else(|| self.uid.to_string())
    }
}

fn names_of(uid: u32, database: &[u8]) -> Vec<String> {
    let number = uid.to_string();
    let text = String::from_utf8_lossy(database);
    let owned = text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    });
    owned.collect()
}

/// All ranges of a file: who has them, and which. What is no range is passed over, as `newuidmap` does.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (&str, Ids)> {
    text.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let (owner, start, count) = (fields.next()?, fields.next()?, fields.next()?);
        let (start, count): (u32, u32) = (start.parse().ok()?, count.parse().ok()?);
        // The last number means "no id".
        let count = count.min(u32::MAX - start);
        (!owner.starts_with('#') && fields.next().is_none() && count > 0)
            .then_some((owner, Ids { start, count }))
    })
}

/// The text of the file.
pub(super) fn text(which: Which) -> String {
    String::from_utf8_lossy(&read_to_end(which.file()).unwrap_or_default()).into_owned()
}

/// The ranges that an owner has: sorted, none touching another, without the id that is `besides`.
pub(super) fn owned(text: &str, owner: &Owner, besides: u32) -> Vec<Ids> {
    let number = owner.uid.to_string();
    let mine = |name: &str| name == number || owner.names.iter().any(|own| own == name);
    let ids = lines(text).filter(|(name, _)| mine(name)).map(|(_, ids)| ids).collect();
    without(joined(ids), besides)
}

/// Sorts ranges and joins those that touch.
pub(super) fn joined(mut ids: Vec<Ids>) -> Vec<Ids> {
    ids.sort_unstable();
    let mut all: Vec<Ids> = Vec::with_capacity(ids.len());
    for next in ids {
        match all.last_mut() {
            Some(last) if next.start <= last.end() => {
                last.count = last.end().max(next.end()) - last.start;
            }
            _ => all.push(next),
        }
    }
    all
}

/// The ranges without one id: the caller's own is mapped to somebody else.
pub(super) fn without(ids: Vec<Ids>, besides: u32) -> Vec<Ids> {
    let mut all = Vec::with_capacity(ids.len() + 1);
    for range in ids {
        if (range.start..range.end()).contains(&besides) {
            all.push(Ids { start: range.start, count: besides - range.start });
            all.push(Ids { start: besides + 1, count: range.end() - besides - 1 });
        } else {
            all.push(range);
        }
    }
    all.retain(|range| range.count > 0);
    all
}

/// How many ids ranges hold.
pub(super) fn total(ids: &[Ids]) -> u32 {
    ids.iter().fold(0, |sum, range| sum.saturating_add(range.count))
}

/// A range of so many ids, from `first` on, that no line claims.
pub(super) fn unclaimed(text: &str, first: u32, count: u32) -> u32 {
    let claimed = joined(lines(text).map(|(_, ids)| ids).collect());
    let mut start = first;
    for range in claimed {
        if range.start < start.saturating_add(count) && range.end() > start {
            start = range.end();
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# a note\nme:100000:65536\nyou:165536:65536\n1000:300000:10\nme:300010:5\nbroken\nme:x:1\nme:7:0\n";

    fn me() -> Owner {
        Owner { uid: 1000, names: vec!["me".into()] }
    }

    #[test]
    fn an_owner_is_named_by_name_or_number_on_any_number_of_lines() {
        let ids = |start, count| Ids { start, count };
        assert_eq!(owned(TEXT, &me(), 1000), [ids(100_000, 65536), ids(300_000, 15)]);
        assert_eq!(total(&owned(TEXT, &me(), 1000)), 65551);
        assert_eq!(owned(TEXT, &Owner { uid: 7, names: Vec::new() }, 7), []);
        // The caller's own id is not given away with a range that holds it.
        assert_eq!(owned("me:999:3", &me(), 1000), [ids(999, 1), ids(1001, 1)]);
        assert_eq!(owned("me:5:10\nme:8:20", &me(), 1000), [ids(5, 23)]);
    }

    #[test]
    fn a_new_range_is_one_that_nobody_has() {
        assert_eq!(unclaimed(TEXT, 100_000, 65536), 231_072);
        assert_eq!(unclaimed("", 100_000, 65536), 100_000);
        assert_eq!(unclaimed("a:4294967290:100", 100_000, 65536), 100_000);
    }
}
