//! What a tree should look like, and where each secret lies: a snapshot of the beginning, carried on by every change that
//! the host makes. What the host did not do is not in here.

use std::collections::{BTreeMap, BTreeSet};

use super::canary::{self, Canary};
use super::snapshot::{Entry, Kind, Snapshot};
use super::word::{self, is_within, join};

/// A name as it should be.
#[derive(Clone, Debug)]
pub struct Expected {
    /// All about it.
    pub entry: Entry,
    /// Whether its inode and its time are known: not for what the host has changed.
    pub exact: bool,
}

/// Where a secret lies, or lay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name.
    pub path: String,
    /// When the host had put it there, in nanoseconds; `None` for what was there when the run began.
    pub since: Option<u64>,
}

/// The books.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The names that should be there.
    pub names: BTreeMap<String, Expected>,
    /// Where each canary lies or lay in this run.
    pub places: BTreeMap<Canary, Vec<Place>>,
    /// Names, with all below them, that came from where the sandbox can write: nobody knows what they hold.
    pub wild: BTreeSet<String>,
    /// When the host last changed what stands at a name, or removed it, in nanoseconds.
    pub changes: BTreeMap<String, u64>,
    /// Names that the host made where there was none at the beginning: kennel may take them away if they are denied.
    pub made: BTreeSet<String>,
    /// Folders that the host moved, and where to: the rules about what is in them go along.
    pub moved: Vec<(String, String)>,
}

impl Ledger {
    /// Opens the books.
    #[must_use]
    pub fn new(tree: &Snapshot) -> Ledger {
        let mut ledger = Ledger::default();
        for (path, entry) in tree {
            ledger.names.insert(path.clone(), Expected { entry: entry.clone(), exact: true });
            if entry.kind == Kind::File {
                for canary in canary::find(&entry.content) {
                    ledger.put(canary, path, None);
                }
            }
        }
        ledger
    }

    fn put(&mut self, canary: Canary, path: &str, since: Option<u64>) {
        let place = Place { path: path.to_owned(), since };
        let places = self.places.entry(canary).or_default();
        if !places.contains(&place) {
            places.push(place);
        }
    }

    /// A folder's own time has changed, under all its names.
    fn touched(&mut self, path: &str) {
        let folder = word::parent(path).and_then(|folder| self.names.get(folder));
        let Some(identity) = folder.map(|folder| folder.entry.identity) else { return };
        for folder in self.names.values_mut().filter(|name| name.entry.identity == identity) {
            folder.exact = false;
        }
    }

    /// The same name in the other places where its folder is mounted.
    fn aliases(&self, path: &str) -> Vec<String> {
        let folder = word::parent(path).and_then(|folder| Some((folder, self.names.get(folder)?)));
        let Some((folder, Expected { entry, .. })) = folder else { return Vec::new() };
        let same =
            |(name, other): &(&String, &Expected)| other.entry.identity == entry.identity && *name != folder;
        self.names.iter().filter(same).map(|(name, _)| join(name, word::name(path))).collect()
    }

    /// The host put something at a name, in the place of what was there.
    pub fn set(&mut self, path: &str, entry: Entry, now: u64) {
        for alias in self.aliases(path) {
            self.set_one(&alias, entry.clone(), now);
        }
        self.set_one(path, entry, now);
    }

    fn set_one(&mut self, path: &str, entry: Entry, now: u64) {
        if !self.names.contains_key(path) {
            self.made.insert(path.to_owned());
        }
        let below = self.names.keys().filter(|name| is_within(name, path));
        for gone in below.cloned().collect::<Vec<_>>() {
            self.names.remove(&gone);
        }
        self.lay(path, &entry, now);
        self.names.insert(path.to_owned(), Expected { entry, exact: false });
        self.changes.insert(path.to_owned(), now);
        self.touched(path);
    }

    fn lay(&mut self, path: &str, entry: &Entry, now: u64) {
        if entry.kind == Kind::File {
            for canary in canary::find(&entry.content) {
                self.put(canary, path, Some(now));
            }
        }
    }

    /// The host wrote to a file in place: it has the same content under all its names.
    pub fn rewrite(&mut self, path: &str, content: &[u8], now: u64) {
        let Some(identity) = self.names.get(path).map(|name| name.entry.identity) else { return };
        for (name, expected) in &mut self.names {
            if expected.entry.identity == identity {
                expected.entry.content = content.to_vec();
                expected.entry.size = content.len() as u64;
                expected.exact = false;
                for canary in canary::find(content) {
                    self.places
                        .entry(canary)
                        .or_default()
                        .push(Place { path: name.clone(), since: Some(now) });
                }
            }
        }
    }

    /// The host changed something else about a name.
    pub fn change(&mut self, path: &str, change: impl Fn(&mut Entry)) {
        let Some(identity) = self.names.get(path).map(|name| name.entry.identity) else { return };
        for expected in self.names.values_mut().filter(|name| name.entry.identity == identity) {
            change(&mut expected.entry);
            expected.exact = false;
        }
    }

    /// The host removed a name.
    pub fn remove(&mut self, path: &str, now: u64) {
        for name in self.aliases(path).into_iter().chain([path.to_owned()]) {
            self.names.remove(&name);
            self.changes.insert(name, now);
        }
        self.touched(path);
    }

    /// The host moved a name with all below it. `writable` is what of it the sandbox could write where it was.
    pub fn rename(&mut self, from: &str, to: &str, writable: &[String], now: u64) {
        self.forget_aliases(&[from, to]);
        let moved = self.take(from, now);
        self.lay_all(from, to, moved, writable, now);
        self.touched(from);
    }

    /// The host exchanged two names.
    pub fn swap(&mut self, one: &str, two: &str, writable: &[String], now: u64) {
        self.forget_aliases(&[one, two]);
        let (first, second) = (self.take(one, now), self.take(two, now));
        self.lay_all(one, two, first, writable, now);
        self.lay_all(two, one, second, writable, now);
    }

    /// Where a folder that shows at two places is moved about, the books are kept for one of them.
    fn forget_aliases(&mut self, paths: &[&str]) {
        let aliases: Vec<String> = paths.iter().flat_map(|path| self.aliases(path)).collect();
        self.wild.extend(aliases);
    }

    fn take(&mut self, from: &str, now: u64) -> Vec<(String, Expected)> {
        let names: Vec<String> = self.names.keys().filter(|name| is_within(name, from)).cloned().collect();
        self.changes.extend(names.iter().map(|name| (name.clone(), now)));
        let take = |name: &String| Some((name[from.len()..].to_owned(), self.names.remove(name)?));
        names.iter().filter_map(take).collect()
    }

    fn lay_all(
        &mut self,
        from: &str,
        to: &str,
        moved: Vec<(String, Expected)>,
        writable: &[String],
        now: u64,
    ) {
        // What was moved before may be moved on.
        let unknown: Vec<&String> =
            writable.iter().chain(&self.wild).filter(|name| is_within(name, from)).collect();
        let unknown: Vec<String> =
            unknown.iter().map(|name| format!("{to}{}", &name[from.len()..])).collect();
        self.wild.extend(unknown);
        if !self.names.contains_key(to) {
            self.made.insert(to.to_owned());
        }
        for (rest, mut expected) in moved {
            let name = if rest.is_empty() { to.to_owned() } else { join(to, rest.trim_start_matches('/')) };
            self.lay(&name, &expected.entry, now);
            self.changes.insert(name.clone(), now);
            expected.exact = false;
            self.names.insert(name, expected);
        }
        self.touched(to);
    }

    /// The name that something had before the folders above it were moved.
    #[must_use]
    pub fn original(&self, path: &str) -> String {
        let mut path = path.to_owned();
        for (from, to) in self.moved.iter().rev() {
            if is_within(&path, to) {
                path = format!("{from}{}", &path[to.len()..]);
            }
        }
        path
    }

    /// Whether the host made a name, or something above it, where there was nothing at the beginning.
    #[must_use]
    pub fn is_made(&self, path: &str) -> bool {
        word::upwards(path).any(|above| self.made.contains(above))
    }

    /// Whether nobody knows what a name should hold.
    #[must_use]
    pub fn is_wild(&self, path: &str) -> bool {
        self.wild.iter().any(|wild| is_within(path, wild))
    }
}
