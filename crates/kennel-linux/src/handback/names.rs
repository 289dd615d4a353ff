//! Names that programs on the host obey ([`kennel_policy::dotfiles`]), when a run is over.
//!
//! What was there before it was kept by mounts. What came into being is set aside: a clone's editor settings as well as
//! a planted hook, for nothing tells one from the other. Of files that agents edit for their users the caller is told how
//! they changed.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use kennel_policy::dotfiles::{self, Hold, TABLE};
use kennel_policy::outcome::{Change, Changed};
use rustix::fs::FileType;

use super::aside::set_aside;
use super::place::{Beneath, Entry, beneath, meant};
use super::signs::kind;
use super::{HandedBack, Held, SetAside, What};
use crate::guard::protected_paths::{folds, odd};
use crate::resolve::known::{Contents, ObeyedNames, Remembered};
use crate::resolve::told::{MAX_EACH, contents};

/// As many changes are told.
const MAX_CHANGES: usize = 64;

/// What was seen of such names in a folder, or in a part of one.
#[derive(Debug, Default)]
pub struct Suspects {
    names: Vec<CString>,
    odd: bool,
}

impl Suspects {
    /// Notes an entry. What is all of a kind in a folder of some name is asked for there.
    pub fn note(&mut self, name: &CStr, in_obeyed_folder: bool) {
        if in_obeyed_folder || dotfiles::may_matter(name.to_bytes()) {
            self.names.push(name.to_owned());
        }
        self.odd |= odd(name.to_bytes());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }
}

/// Judges them.
#[derive(Debug)]
pub struct Names<'a> {
    known: &'a ObeyedNames,
    /// By their paths: an earlier run may have left any number.
    told: HashMap<&'a Path, &'a Remembered>,
    roots: &'a [Held],
    changes: Mutex<(Vec<Changed>, u64)>,
}

impl<'a> Names<'a> {
    /// By what was there before the run.
    pub fn new(known: &'a ObeyedNames, roots: &'a [Held]) -> Names<'a> {
        let told = known.told.iter().map(|remembered| (remembered.path.as_path(), remembered)).collect();
        Names { known, told, roots, changes: Mutex::default() }
    }

    /// Whether a folder is kept for sandboxes, and no program on the host goes by it.
    pub fn are_own(&self, path: &Path) -> bool {
        self.known.own.iter().any(|(source, _)| path.starts_with(source))
    }

    /// Whether a program obeys most of what is in a folder.
    pub fn all_of(&self, path: &Path) -> bool {
        !self.known.opened.contains(path)
            && path.file_name().is_some_and(|name| dotfiles::obeys_most_of(name.as_bytes()))
    }

    /// Judges what was seen in a folder.
    pub fn judge(&self, folder: BorrowedFd, at: &Path, seen: &Suspects, told: &mut Vec<SetAside>) {
        for name in &seen.names {
            self.name(folder, at, name, told);
        }
        // `.vscode` may be spelt in ways that only the disk knows.
        if seen.odd && folds(folder).unwrap_or(true) {
            for row in TABLE.iter().filter(|row| !row.name.contains('*')) {
                let last = row.name.rsplit('/').next().unwrap_or(row.name);
                let seen =
                    seen.names.iter().any(|seen| seen.to_bytes().eq_ignore_ascii_case(last.as_bytes()));
                if let Ok(name) = CString::new(last)
                    && !seen
                    && kind(folder, &name).is_some()
                {
                    self.name(folder, at, &name, told);
                }
            }
        }
    }

    fn name(&self, folder: BorrowedFd, at: &Path, name: &CStr, told: &mut Vec<SetAside>) {
        if is_aside(name.to_bytes()) {
            return;
        }
        let path = at.join(OsStr::from_bytes(name.to_bytes()));
        let above =
            at.file_name().filter(|_| !self.known.opened.contains(at)).map_or(&b""[..], OsStr::as_bytes);
        let row = dotfiles::look(above, name.to_bytes());
        // A link in the place of a folder that holds such names leads to what nobody has judged.
        let leads_on =
            || dotfiles::is_first_part(name.to_bytes()) && kind(folder, name) == Some(FileType::Symlink);
        match row {
            Some(row) if row.hold != Hold::Keep => {
                let before = self.told.get(&*path).copied();
                if self.leads_out(folder, at, name, before) {
                    told.push(set_aside(folder, at, name, What::WrittenThrough(row.by)));
                } else if before.is_none() && row.hold == Hold::Tell && !self.known.known.contains(&path) {
                    let text = contents(folder, name, MAX_EACH).and_then(text).unwrap_or_default();
                    self.tell(Changed::between(path, row.by, Change::Made, b"", &text));
                }
            }
            _ if self.known.known.contains(&path) => {}
            Some(row) => told.push(set_aside(folder, at, name, What::Obeyed(row.by))),
            None if leads_on() => {
                let by = TABLE.iter().find(|row| {
                    row.name
                        .split_once('/')
                        .is_some_and(|(first, _)| first.as_bytes().eq_ignore_ascii_case(name.to_bytes()))
                });
                told.push(set_aside(folder, at, name, What::Obeyed(by.map_or("", |row| row.by))));
            }
            None => {}
        }
    }

    /// Whether something is a link, was not the same one before, and leads to anything but a file that the sandbox could write
    /// itself.
    fn leads_out(&self, folder: BorrowedFd, at: &Path, name: &CStr, before: Option<&Remembered>) -> bool {
        if kind(folder, name) != Some(FileType::Symlink) {
            return false;
        }
        let now = contents(folder, name, 0);
        if before.is_some_and(|before| Some(&before.contents) == now.as_ref()) {
            return false;
        }
        let Some(Contents::Link(target)) = now else { return true };
        let Some(path) = meant(at, &target) else { return true };
        let is_file =
            |entry: &Entry| entry.kind == FileType::RegularFile && !path.iter().any(|name| name == ".git");
        !matches!(beneath(self.roots, &path), Beneath::Found(entry) if is_file(&entry))
    }

    /// Compares what was remembered, and hands over all that changed.
    pub fn finish(self, handed_back: &mut HandedBack) {
        for known in &self.known.told {
            let Some(name) = known.path.file_name() else { continue };
            let above = known.path.parent().and_then(Path::file_name).map_or(&b""[..], OsStr::as_bytes);
            let row = dotfiles::look(above, name.as_bytes()).filter(|row| row.hold == Hold::Tell);
            let Some(row) = row else { continue };
            let (how, after) = match beneath(self.roots, &known.path) {
                Beneath::Found(entry) | Beneath::Link(entry) if entry.path == known.path => {
                    let Some(name) = &entry.name else { continue };
                    match contents(entry.folder.as_fd(), name, MAX_EACH) {
                        Some(now) => (Change::Changed, now),
                        None => (Change::Removed, Contents::Text(Vec::new())),
                    }
                }
                Beneath::Outside => continue,
                _ => (Change::Removed, Contents::Text(Vec::new())),
            };
            if after == known.contents && how != Change::Removed {
                continue;
            }
            let (before, after) = (text(known.contents.clone()), text(after));
            let (before, after) = match (before, after) {
                (Some(before), Some(after)) => (before, after),
                // It was or is too large to be compared: what became of it is told all the same.
                (before, after) => (before.unwrap_or_default(), after.unwrap_or_default()),
            };
            self.tell(Changed::between(known.path.clone(), row.by, how, &before, &after));
        }
        let (mut changes, more) = self.changes.into_inner().unwrap_or_else(PoisonError::into_inner);
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        (handed_back.changed, handed_back.changed_more) = (changes, more);
    }

    fn tell(&self, mut changed: Changed) {
        // These hold keys: that one changed is told, and not how.
        if changed.path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".env")) {
            (changed.diff, changed.more) = (Vec::new(), 0);
        }
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.0.len() < MAX_CHANGES { changes.0.push(changed) } else { changes.1 += 1 }
    }
}

/// As text; a link by what it leads to.
fn text(contents: Contents) -> Option<Vec<u8>> {
    match contents {
        Contents::Text(text) => Some(text),
        Contents::Link(target) => Some([b"a link to ", &target[..]].concat()),
        Contents::Other(..) => None,
    }
}

/// Whether a name is one that kennel gave to what it set aside. No program obeys it.
fn is_aside(name: &[u8]) -> bool {
    const MARK: &[u8] = b".set-aside-by-kennel-";
    let Some(start) = name.len().checked_sub(MARK.len() + 16) else { return false };
    name[start..].starts_with(MARK) && name[start + MARK.len()..].iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_aside_is_left_alone() {
        assert!(is_aside(b".aider.tags.cache.v4.set-aside-by-kennel-0123456789abcdef"));
        for name in
            [&b"x.set-aside-by-kennel-0123456789abcdef.code-workspace"[..], b".set-aside-by-kennel-", b""]
        {
            assert!(!is_aside(name));
        }
    }
}
