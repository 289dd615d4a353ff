//! Other mounts of the same folder: a denied file that shows at a second place is denied there too.
//!
//! A bind mount, or a file system that is mounted twice, gives a folder a second path, and a rule that names the first
//! would leave the second open. Which paths lead to the same file the mount table tells; device and inode confirm it,
//! because another mount may lie over it.

use std::path::{Path, PathBuf};

use kennel_resolve::error::ResolveError;

use super::locate::locate_plain;
use super::path_rules::{List, Resolver, UnmountableRule};
use super::{Found, Reason};
use crate::mounts::{self, Mount};

/// A mount, with its paths written out.
pub(super) struct Shown {
    device: (u32, u32),
    /// Which folder of the file system shows.
    root: PathBuf,
    /// Where it shows.
    point: PathBuf,
}

impl Resolver<'_> {
    /// Denies what is denied at every path that leads to it.
    pub(super) fn deny_at_second_mounts(&mut self) -> Result<(), ResolveError> {
        let denies = self.said.values().any(|said| said.deny_read.is_some() || said.deny_write.is_some());
        if !denies && self.loose.is_empty() {
            return Ok(());
        }
        let mounts = twice(self.mount_table()?);
        if mounts.is_empty() {
            return Ok(());
        }
        let mut denied: Vec<(List, Found, Reason, bool)> = Vec::new();
        let mut absent: Vec<UnmountableRule> = Vec::new();
        for (path, said) in self.said.iter() {
            let Some(found) = &said.found else { continue };
            let rules = [(List::DenyRead, &said.deny_read), (List::DenyWrite, &said.deny_write)];
            for (list, rule) in rules {
                let Some(rule) = rule else { continue };
                for other in second_paths(&mounts, path) {
                    if let Ok(Some(same)) = locate_plain(&other)
                        && same.identity == found.identity
                    {
                        denied.push((list, same, second(rule), said.always_hidden));
                    }
                }
            }
        }
        for loose in self.loose.iter().filter(|loose| !loose.link) {
            for path in second_paths(&mounts, &loose.path) {
                // Without a folder to hold it nothing comes about there.
                if path.parent().is_some_and(|folder| matches!(locate_plain(folder), Ok(Some(_)))) {
                    absent.push(UnmountableRule {
                        path,
                        list: loose.list,
                        rule: second(&loose.rule),
                        link: false,
                    });
                }
            }
        }
        for (list, found, rule, always) in denied {
            // What a rule names itself is no second path.
            let named = self.said.get(&found.path).is_some_and(|said| said.found.is_some());
            let path = found.path.clone();
            self.say(list, found, rule);
            let said = self.at(&path);
            said.second_path |= !named;
            said.always_hidden |= always;
        }
        self.loose.extend(absent);
        Ok(())
    }
}

fn second(rule: &Reason) -> Reason {
    if rule.ends_with(SECOND) { rule.clone() } else { format!("{rule}{SECOND}").into() }
}

const SECOND: &str = ", mounted here too";

/// The mounts of file systems that are mounted more than once; earlier ones first.
pub(super) fn twice(table: &[u8]) -> Vec<Shown> {
    let all: Vec<Mount> = mounts::mounts(table).collect();
    let mut devices: Vec<(u32, u32)> = all.iter().map(|mount| mount.device).collect();
    devices.sort_unstable();
    let twice = |device: &(u32, u32)| {
        let first = devices.partition_point(|other| other < device);
        devices.get(first + 1) == Some(device)
    };
    let shown = all.iter().filter(|mount| twice(&mount.device));
    shown.map(|mount| Shown { device: mount.device, root: mount.root(), point: mount.point() }).collect()
}

/// The other paths that may lead to `path`.
pub(super) fn second_paths<'a>(mounts: &'a [Shown], path: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    // The last one at the innermost point is the one on top. A point that is not in the list belongs to a file system
    // that is mounted once: then `inner` is one further out, on another device, and what it gives is compared in vain.
    let inner = mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count());
    let place = inner.and_then(|mount| {
        let below = path.strip_prefix(&mount.point).ok()?;
        Some((mount, mount.root.join(below)))
    });
    place.into_iter().flat_map(move |(inner, place)| {
        mounts.iter().filter(move |mount| mount.device == inner.device).filter_map(move |mount| {
            let below = place.strip_prefix(&mount.root).ok()?;
            let other =
                if below.as_os_str().is_empty() { mount.point.clone() } else { mount.point.join(below) };
            (other != path).then_some(other)
        })
    })
}

/// The places at which a part of the folder at `path` is mounted by itself.
pub(super) fn mounted_parts<'a>(mounts: &'a [Shown], path: &'a Path) -> impl Iterator<Item = &'a Path> + 'a {
    let whole = |mount: &'a Shown| {
        let below = path.strip_prefix(&mount.point).ok()?;
        Some((mount, mount.root.join(below)))
    };
    let inner = mounts.iter().filter_map(whole).max_by_key(|(mount, _)| mount.point.components().count());
    inner.into_iter().flat_map(move |(inner, place)| {
        let parts = mounts.iter().filter(move |mount| {
            mount.device == inner.device && mount.root.starts_with(&place) && !mount.point.starts_with(path)
        });
        parts.map(|mount| mount.point.as_path())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(table: &str, path: &str) -> Vec<String> {
        let mounts = twice(table.as_bytes());
        second_paths(&mounts, Path::new(path)).map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn a_folder_that_is_mounted_twice_has_two_paths() {
        let table = "1 0 8:1 / / rw - ext4 x rw\n\
                     2 1 8:1 /home/me/secret /mnt/s rw - ext4 x rw\n\
                     3 1 8:1 / /mnt/all rw - ext4 x rw\n\
                     4 1 0:5 / /proc rw - proc proc rw\n";
        assert_eq!(paths(table, "/home/me/secret/key"), ["/mnt/s/key", "/mnt/all/home/me/secret/key"]);
        assert_eq!(paths(table, "/mnt/s/key"), ["/home/me/secret/key", "/mnt/all/home/me/secret/key"]);
        assert_eq!(paths(table, "/home/me/secret"), ["/mnt/s", "/mnt/all/home/me/secret"]);
        assert_eq!(paths(table, "/home/me"), ["/mnt/all/home/me"]);
        let mounts = twice(table.as_bytes());
        let parts: Vec<&Path> = mounted_parts(&mounts, Path::new("/home/me")).collect();
        assert_eq!(parts, [Path::new("/mnt/s")]);
    }

    #[test]
    fn what_is_mounted_once_has_one() {
        let table = "1 0 8:1 / / rw - ext4 x rw\n4 1 0:5 / /proc rw - proc proc rw\n";
        assert!(paths(table, "/home/me").is_empty());
    }
}
