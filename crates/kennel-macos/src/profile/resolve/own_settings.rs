//! What kennel itself goes by, and whose home it is: no sandbox writes the settings that the next one trusts.

use std::path::{Path, PathBuf};

use kennel_policy::policy::MountAccess;
use kennel_policy::precedence::List;

use super::Resolver;
use super::locate::{Location, is_link};
use crate::profile::disk::Kind;
use crate::profile::error::ResolveError;

/// Why they stay as they are.
const OWN_SETTINGS: &str = "kennel's own settings are never writable";
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
        let mut homes = Vec::new();
        for home in &self.around.homes {
            homes.push(self.canonical(Some(home))?.unwrap_or_else(|| home.clone()));
        }
        let is_home = |path: &Path| path == Path::new("/") || homes.iter().any(|home| home.starts_with(path));
        for (path, said) in self.said.iter() {
            let folder = said.found.as_ref().is_some_and(|found| found.kind == Kind::Folder);
            if let Some(rule) = said.allow_write.as_ref().filter(|_| folder && is_home(path)) {
                return Err(ResolveError::Home { rule: rule.to_string(), path: path.to_path_buf() });
            }
        }
        Ok(())
    }

    /// Keeps kennel's own settings as they are, existing or not, whatever is allowed.
    pub(super) fn keep_own_settings(&mut self) -> Result<(), ResolveError> {
        if !self.writes_anything() {
            return Ok(());
        }
        let homes = self.around.homes.clone();
        let config: Vec<PathBuf> = self
            .around
            .config
            .clone()
            .into_iter()
            .chain(homes.iter().map(|home| home.join(".config")))
            .collect();
        for folder in config.iter().map(|config| config.join(FOLDER)) {
            if !self.keep_own(&folder)? {
                continue;
            }
            // A file there may be a link to one elsewhere, among a user's other dotfiles.
            let folder_of_profiles = folder.join(PROFILES);
            let profiles = self.disk.list(&folder_of_profiles).unwrap_or_default();
            let profiles = profiles.into_iter().map(|name| folder_of_profiles.join(name));
            let files: Vec<PathBuf> = FILES.iter().map(|name| folder.join(name)).chain(profiles).collect();
            for file in files {
                if is_link(self.disk, &file) {
                    self.keep_own(&file)?;
                }
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
        let place = match self.locate(OWN_SETTINGS, path)? {
            Location::Forbidden(folder) => {
                if let Some(folder) = folder
                    && self.writes(&folder.path)
                {
                    self.say(List::DenyWrite, folder, OWN_SETTINGS);
                }
                return Ok(false);
            }
            Location::Loop => return Ok(false),
            Location::Missing(place) => {
                self.hold_own_way(path, &place);
                if self.writes(&place) {
                    self.say_absent(List::DenyWrite, &place, OWN_SETTINGS);
                }
                place
            }
            Location::Found(found) => {
                self.hold_own_way(path, &found.path);
                there = true;
                let place = found.path.clone();
                if self.writes(place.parent().unwrap_or(&place)) {
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
            self.hold_way(path, OWN_SETTINGS);
        }
    }

    /// Takes back what opens `place` or something in it: what somebody said is an error, and what a glob found is not what was
    /// meant.
    fn shut(&mut self, place: &Path) -> Result<(), ResolveError> {
        let what = "kennel's own settings are never writable; change them outside";
        if let Some(path) = self.named_below(place) {
            let rule = self.said.get(&path).and_then(|said| said.allow_write.clone());
            return Err(ResolveError::Unfit { rule: rule.map(String::from).unwrap_or_default(), path, what });
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
