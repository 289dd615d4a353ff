//! A private home: a folder in memory in the place of the caller's, with the little of the host's that is known to be needed and
//! to hold no secret (`kennel_policy::home`), and what the rules allow. Other users' homes are closed.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use kennel_policy::home::{self, HomeAccess, HomeEntry};
use kennel_policy::passwd;
use kennel_policy::policy::HomeMode;
use kennel_resolve::error::ResolveError;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::locate::locate_plain;
use super::path_rules::{List, PathAccess, Resolver, SYSTEM};
use super::second_mounts::{mounted_parts, second_paths, twice};
use super::{Found, Kind, Location, WrittenFile, Zone, folder, links_on_the_way, locate};
use crate::home::homes;

/// Folders of the system's beside the minimal set: nobody's home, whatever a variable or the user database says.
const NOBODYS: &[&str] =
    &["/etc", "/dev", "/proc", "/sys", "/run", "/tmp", "/var", "/opt", "/srv", "/mnt", "/media"];
/// In these are only the system's files.
const SYSTEMS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/dev",
    "/proc",
    "/sys",
    "/nix/store",
];
/// As many files does a git configuration include, and as long is each.
const MAX_GIT_FILES: usize = 16;
const MAX_GIT_BYTES: usize = 1 << 20;
/// As many homes of other users are closed beside those in the usual places.
const MAX_OTHERS: usize = 32;
/// As many names of a folder are looked at.
const MAX_NAMES: usize = 4096;
/// Where people's user numbers begin.
const FIRST_PERSON: u32 = 1000;
/// Variables that may name parts of a home elsewhere.
const PARTS: [&str; 4] = ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];

/// Whether a path without links is a folder of the system's, or holds one: not a home that could be closed.
pub(super) fn is_systems(path: &Path) -> bool {
    let holds = |system: &&&str| Path::new(**system).starts_with(path);
    SYSTEM.iter().chain(NOBODYS).any(|system| holds(&system))
        || SYSTEMS.iter().any(|system| path.starts_with(system))
}

/// A folder at a path, if it is one that can be closed.
fn closable(path: &Path) -> Option<Found> {
    match locate(path) {
        Ok(Location::Found(found)) if found.kind == Kind::Folder && !is_systems(&found.path) => Some(found),
        _ => None,
    }
}

impl Resolver<'_> {
    /// Closes the homes, where the policy asks for that, and returns what is closed. To be called when the rules have been said:
    /// they win.
    pub(super) fn close_homes(&mut self, several_users: bool) -> Result<Vec<PathBuf>, ResolveError> {
        if self.files.home != HomeMode::Private || self.own_root {
            return Ok(Vec::new());
        }
        // Several users have homes of their own, in /run.
        let own = if several_users { Zone::Closed { why: "the caller's home" } } else { Zone::Home };
        let homes: Vec<PathBuf> = homes();
        let mut closed = Vec::new();
        for home in &homes {
            self.close(home, own, &mut closed);
        }
        for part in
            PARTS.iter().filter_map(std::env::var_os).map(PathBuf::from).filter(|part| part.is_absolute())
        {
            // Most often it is in the home.
            if !homes.iter().any(|home| part.starts_with(home)) {
                self.close_part(&part, own, &mut closed);
            }
        }
        for place in home::closed() {
            self.close(Path::new(place.path), Zone::Closed { why: place.why }, &mut closed);
        }
        self.close_others(&mut closed);
        self.close_second_mounts(&mut closed)?;
        Ok(closed)
    }

    /// Closes the other places at which what is closed, or a part of it, is mounted. What a rule opens there stays open.
    fn close_second_mounts(&mut self, closed: &mut Vec<PathBuf>) -> Result<(), ResolveError> {
        let mounts = twice(self.mount_table()?);
        let mut others: Vec<PathBuf> = Vec::new();
        for place in closed.iter().filter(|_| !mounts.is_empty()) {
            // Another mount may lie over it.
            let there = |path: &Path| locate_plain(path).ok().flatten().map(|found| found.identity);
            let own = there(place);
            others.extend(second_paths(&mounts, place).filter(|other| there(other) == own));
            others.extend(mounted_parts(&mounts, place).map(Path::to_path_buf));
        }
        for other in others {
            if !closed.iter().any(|closed| other.starts_with(closed)) {
                self.close_part(
                    &other,
                    Zone::Closed { why: "a home, or a part of one, that is mounted here too" },
                    closed,
                );
            }
        }
        Ok(())
    }

    /// Shows what the table lists of a closed home.
    pub(super) fn show_home(&mut self, closed: &[PathBuf], several_users: bool) -> Result<(), ResolveError> {
        if closed.is_empty() {
            return Ok(());
        }
        // `~` is the first that is there.
        let homes = homes();
        let first = homes.iter().find_map(|home| Some((home, closable(home)?.path)));
        match first.filter(|(_, place)| !several_users && closed.contains(place)) {
            Some((home, place)) => self.show_of(home, &place),
            None => Ok(()),
        }
    }

    /// Closes a place, unless a rule hides it already. What rules allow in it shows all the same, and all of it if they name it.
    fn close(&mut self, path: &Path, zone: Zone, closed: &mut Vec<PathBuf>) {
        let Some(found) = closable(path) else { return };
        if matches!(self.verdict(&found.path), PathAccess::Hidden(_)) || closed.contains(&found.path) {
            return;
        }
        // What this user cannot look into needs no lid.
        let looks = |access| accessat(CWD, &found.path, access, AtFlags::EACCESS).is_ok();
        if zone != Zone::Home && !looks(Access::READ_OK) && !looks(Access::EXEC_OK) {
            return;
        }
        closed.push(found.path.clone());
        let said = self.at(&found.path);
        if said.zone.is_none() {
            said.zone = Some(zone);
        }
        // The way to it stays, where that is made anew.
        if found.path != path {
            self.links.extend(links_on_the_way(path));
        }
    }

    /// Closes a part of the home that lies elsewhere, unless that is in what a rule opens, such as the workspace.
    fn close_part(&mut self, path: &Path, zone: Zone, closed: &mut Vec<PathBuf>) {
        let Some(found) = closable(path) else { return };
        let opened = self
            .said
            .upwards(&found.path)
            .any(|said| said.allow_read.is_some() || said.allow_write.is_some());
        if !opened {
            self.close(&found.path, zone, closed);
        }
    }

    /// Closes the homes of the other people of the user database that are not in the usual places.
    fn close_others(&mut self, closed: &mut Vec<PathBuf>) {
        let database = crate::read::read_to_end("/etc/passwd").unwrap_or_default();
        let others = passwd::homes_from(FIRST_PERSON, &database);
        let mut left = MAX_OTHERS;
        for other in others {
            let inside = closed.iter().any(|closed| other.starts_with(closed));
            if inside || left == 0 {
                continue;
            }
            left -= 1;
            self.close(&other, Zone::Closed { why: "other users' homes" }, closed);
        }
    }

    /// Shows what the table lists of a home, which is at `place` without links.
    fn show_of(&mut self, home: &Path, place: &Path) -> Result<(), ResolveError> {
        let names = Names::of(place);
        let mut git = Vec::new();
        for entry in home::shown().iter().filter(|entry| names.hold(place, entry)) {
            match entry.access {
                HomeAccess::Read => self.show(&entry.place(home), place, entry)?,
                HomeAccess::Filtered => git.push((entry.place(home), entry)),
                HomeAccess::Hidden => self.hide_in_shown(&entry.place(place), entry),
            }
        }
        self.write_git_settings(home, git);
        Ok(())
    }

    /// Whether a glob denies a path, or a folder above it. Globs are looked for on the disk later, and what they match there is less
    /// than what an entry of a table names.
    pub(super) fn is_denied_by_glob(&self, path: &Path) -> bool {
        let globs = self.files.deny_read.iter().map(|rule| &rule.pattern).filter(|pattern| pattern.is_glob());
        globs.into_iter().any(|glob| path.ancestors().any(|above| glob.matches(above)))
    }

    /// Shows an entry of the table. Nobody wrote this list; what somebody denied stays denied.
    fn show(&mut self, path: &Path, home: &Path, entry: &HomeEntry) -> Result<(), ResolveError> {
        let Ok(Location::Found(found)) = locate(path) else { return Ok(()) };
        // A link may lead to the home itself, or above.
        if home.starts_with(&found.path)
            || self.is_denied_by_glob(path)
            || self.is_denied_by_glob(&found.path)
            || matches!(self.verdict(&found.path), PathAccess::Hidden(_))
            || self.said.get(&found.path).is_some_and(|said| said.zone.is_some())
        {
            return Ok(());
        }
        let reason = entry.reason();
        if found.path != path {
            // One that an earlier run may have made leads nowhere.
            match self.refuse_planted(&reason, path, &found.path) {
                Err(ResolveError::PlantedLink { .. }) => return Ok(()),
                refused => refused?,
            }
            self.links.extend(links_on_the_way(path));
        }
        self.say(List::AllowRead, found, reason);
        Ok(())
    }

    /// Hides what lies in an entry that shows. What a rule names stays as that says.
    fn hide_in_shown(&mut self, path: &Path, entry: &HomeEntry) {
        let text = path.as_os_str().as_bytes();
        let star = text.windows(3).position(|part| part == b"/*/");
        let places: Vec<PathBuf> = match star {
            None => vec![path.to_path_buf()],
            Some(at) => {
                let (folder, rest) =
                    (Path::new(OsStr::from_bytes(&text[..at])), OsStr::from_bytes(&text[at + 3..]));
                let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
                let mut places: Vec<PathBuf> =
                    entries.take(MAX_NAMES).map(|entry| entry.path().join(rest)).collect();
                if places.len() == MAX_NAMES {
                    places = vec![folder.to_path_buf()];
                }
                places
            }
        };
        for place in places {
            if let Ok(Location::Found(found)) = locate(&place)
                && self.said.get(&found.path).is_none_or(|said| said.allow_read.is_none())
            {
                self.say(List::DenyRead, found, entry.reason());
            }
        }
    }

    /// Copies git's configuration without what may be secret, and what it includes of the home.
    fn write_git_settings(&mut self, home: &Path, files: Vec<(PathBuf, &'static HomeEntry)>) {
        let mut waiting: std::collections::VecDeque<_> = files.into();
        let mut seen: Vec<PathBuf> = Vec::new();
        while let Some((path, entry)) = waiting.pop_front() {
            if seen.len() == MAX_GIT_FILES || seen.contains(&path) {
                continue;
            }
            seen.push(path.clone());
            let Ok(Location::Found(found)) = locate(&path) else { continue };
            // Where it shows anyway, or is denied, it is as the rules say.
            let stands = |place: &Path| matches!(self.verdict(place), PathAccess::Fresh(Zone::Home));
            let denied = matches!(self.verdict(&found.path), PathAccess::Hidden(_))
                || self.is_denied_by_glob(&path)
                || self.is_denied_by_glob(&found.path);
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
            let Ok(Location::Found(folder)) = locate(folder) else { continue };
            let place = folder.path.join(name);
            if !stands(&place) || denied || self.written.iter().any(|own| own.path == place) {
                continue;
            }
            if found.path != path
                && let Err(ResolveError::PlantedLink { .. }) =
                    self.refuse_planted(&entry.reason(), &path, &found.path)
            {
                continue;
            }
            let Some(text) = folder::read(CWD, &found.path, MAX_GIT_BYTES) else { continue };
            let (contents, includes) = home::harmless_git_settings(&text);
            for include in includes {
                let include = match include.strip_prefix("~") {
                    Ok(below) => home.join(below),
                    // Relative to the file itself, by the path that git has of it.
                    Err(_) => path.parent().unwrap_or(home).join(&include),
                };
                waiting.push_back((include, entry));
            }
            if place != path {
                self.links.extend(links_on_the_way(path.parent().unwrap_or(home)));
            }
            self.written.push(WrittenFile {
                path: place,
                contents,
                mode: 0o644,
                reason: entry.reason().into(),
            });
        }
    }
}

/// Which names there are in a home: most entries of the table are of programs that a user does not have, and are not looked for
/// one by one.
struct Names(Option<HashSet<OsString>>);

impl Names {
    fn of(home: &Path) -> Names {
        let Ok(entries) = std::fs::read_dir(home) else { return Names(None) };
        let names: HashSet<OsString> =
            entries.flatten().take(MAX_NAMES).map(|entry| entry.file_name()).collect();
        Names(Some(names).filter(|names| names.len() < MAX_NAMES))
    }

    /// Whether an entry is there, up to the name that may be any.
    fn hold(&self, home: &Path, entry: &HomeEntry) -> bool {
        let place = match entry.below_home() {
            Some(below) => {
                let first = OsStr::new(below.split('/').next().unwrap_or(below));
                if self.0.as_ref().is_some_and(|names| !names.contains(first)) {
                    return false;
                }
                home.join(below.split("/*").next().unwrap_or(below))
            }
            None => entry.path.into(),
        };
        accessat(CWD, place, Access::EXISTS, AtFlags::empty()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_system_are_nobodys_home() {
        for system in [
            "/",
            "/usr",
            "/usr/sbin",
            "/usr/share/x",
            "/bin",
            "/dev",
            "/var",
            "/tmp",
            "/etc/x",
            "/run",
            "/opt",
        ] {
            assert!(is_systems(Path::new(system)), "{system}");
        }
        for home in [
            "/home/me",
            "/root",
            "/home",
            "/var/lib/postgresql",
            "/opt/tool/home",
            "/tmp/x",
            "/data",
            "/usr2",
        ] {
            assert!(!is_systems(Path::new(home)), "{home}");
        }
    }
}
