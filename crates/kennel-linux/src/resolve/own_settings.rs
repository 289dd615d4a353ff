//! What kennel itself goes by, and whose home it is: no sandbox writes the settings that the next one trusts.

use std::path::{Path, PathBuf};

use kennel_policy::policy::MountAccess;

use super::error::{ResolveError, system_error};
use super::path_rules::{List, Resolver, UnmountableRule};
use super::{Kind, Location, locate};
use crate::home::homes;

/// Why they stay as they are.
pub const OWN_SETTINGS: &str = "kennel's own settings are never writable";
/// kennel's folder below a configuration folder, and what is read there.
const FOLDER: &str = "kennel";
const FILES: [&str; 3] = ["settings.toml", "settings.json", PROFILES];
/// The folder of the user's profiles.
const PROFILES: &str = "profiles";
/// What kennel goes by when it is called by the name of srt.
const OF_SRT: &str = ".srt-settings.json";

impl Resolver<'_> {
    /// Whether anything of the host's can be written at all.
    fn writes_anything(&self) -> bool {
        let mount = |access: &MountAccess| *access == MountAccess::ReadWrite;
        !self.files.allow_write.is_empty() || self.files.mounts.iter().any(|one| mount(&one.access))
    }

    /// Refuses to open a home for writing, or a folder that holds one, where the policy asks for that.
    pub(super) fn refuse_homes(&self) -> Result<(), ResolveError> {
        if !self.files.refuse_home || !self.writes_anything() {
            return Ok(());
        }
        let homes: Vec<PathBuf> = homes()
            .into_iter()
            .map(|home| match locate(&home) {
                Ok(Location::Found(found)) => found.path,
                _ => home,
            })
            .collect();
        let is_home = |path: &Path| path == Path::new("/") || homes.iter().any(|home| home.starts_with(path));
        for (path, said) in self.said.iter() {
            let folder = said.found.as_ref().is_some_and(|found| found.kind == Kind::Folder);
            if let Some(rule) = said.allow_write.as_ref().filter(|_| folder && is_home(path)) {
                return Err(ResolveError::Home { rule: rule.to_string(), path: path.to_path_buf() });
            }
        }
        for mount in self.files.mounts.iter().filter(|mount| mount.access == MountAccess::ReadWrite) {
            if let Ok(Location::Found(found)) = locate(&mount.source)
                && is_home(&found.path)
            {
                let rule = format!("mount ({})", mount.origin);
                return Err(ResolveError::Home { rule, path: found.path });
            }
        }
        Ok(())
    }

    /// Keeps kennel's own settings as they are, existing or not, whatever is allowed.
    pub(super) fn keep_own_settings(&mut self) -> Result<(), ResolveError> {
        if !self.writes_anything() {
            return Ok(());
        }
        let said = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let homes = homes();
        let config = said.into_iter().chain(homes.iter().map(|home| home.join(".config")));
        for folder in config.map(|config| config.join(FOLDER)) {
            if !self.keep_own(&folder)? {
                continue;
            }
            // A file there may be a link to one elsewhere, among a user's other dotfiles.
            let profiles = std::fs::read_dir(folder.join(PROFILES)).into_iter().flatten().flatten();
            let files = FILES.iter().map(|name| folder.join(name)).chain(profiles.map(|file| file.path()));
            for file in files.filter(|file| super::is_link(file)) {
                self.keep_own(&file)?;
            }
        }
        for home in homes {
            self.keep_own(&home.join(OF_SRT))?;
        }
        Ok(())
    }

    /// Keeps one of them as it is; returns whether something is there.
    fn keep_own(&mut self, path: &Path) -> Result<bool, ResolveError> {
        let mut there = false;
        let place = match locate(path).map_err(system_error(OWN_SETTINGS, path))? {
            Location::Forbidden => {
                if let Some(folder) = locate::shut_folder(path).map_err(system_error(OWN_SETTINGS, path))?
                    && self.writes(&folder.path)
                {
                    self.say(List::DenyWrite, folder, OWN_SETTINGS);
                }
                return Ok(false);
            }
            Location::Missing(place) => {
                self.hold_own_way(path, &place);
                let rule = OWN_SETTINGS.into();
                self.loose.push(UnmountableRule {
                    path: place.clone(),
                    list: List::DenyWrite,
                    rule,
                    link: false,
                });
                place
            }
            Location::Found(found) => {
                self.hold_own_way(path, &found.path);
                there = true;
                let place = found.path.clone();
                let parent = place.parent().unwrap_or(&place).to_path_buf();
                if self.writes(&parent) || self.mounted_writable(&place) {
                    self.say(List::DenyWrite, found, OWN_SETTINGS);
                }
                place
            }
        };
        self.shut(&place)?;
        Ok(there)
    }

    /// Links on the way stay where they are, if there are any.
    fn hold_own_way(&mut self, path: &Path, place: &Path) {
        if path != place {
            self.hold_way(path, List::DenyWrite, OWN_SETTINGS);
        }
    }

    /// Whether a mount that can be written shows `path`.
    fn mounted_writable(&self, path: &Path) -> bool {
        let shows = |source: &Path| matches!(locate(source), Ok(Location::Found(found)) if path.starts_with(&found.path));
        let mounts = self.files.mounts.iter().filter(|mount| mount.access == MountAccess::ReadWrite);
        mounts.into_iter().any(|mount| shows(&mount.source))
    }

    /// Takes back what opens `place` or something in it: what somebody said is an error, and what a glob found is not
    /// what was meant.
    fn shut(&mut self, place: &Path) -> Result<(), ResolveError> {
        let what = "kennel's own settings are never writable; change them outside";
        if let Some(named) = self.named.keys().find(|named| named.starts_with(place)) {
            let rule = self.said.get(named).and_then(|said| said.allow_write.clone());
            let (rule, path) = (rule.map(String::from).unwrap_or_default(), named.clone());
            return Err(ResolveError::Unfit { rule, path, what });
        }
        for mount in self.files.mounts.iter().filter(|mount| mount.access == MountAccess::ReadWrite) {
            if let Ok(Location::Found(found)) = locate(&mount.source)
                && found.path.starts_with(place)
            {
                let rule = format!("mount ({})", mount.origin);
                return Err(ResolveError::Unfit { rule, path: found.path, what });
            }
        }
        let below: Vec<PathBuf> = self.said.below(place).map(|(path, _)| path.to_path_buf()).collect();
        for path in below.iter().map(PathBuf::as_path).chain([place]) {
            if self.said.get(path).is_some_and(|said| said.allow_write.is_some()) {
                self.at(path).allow_write = None;
            }
        }
        Ok(())
    }
}
