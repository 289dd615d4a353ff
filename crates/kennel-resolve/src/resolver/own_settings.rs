//! What kennel itself goes by, and whose home it is: no sandbox writes the settings that the next one trusts.

use std::path::{Path, PathBuf};

use kennel_policy::caches::FOLDER as LAYERS;
use kennel_policy::policy::{Missing, MountAccess, MountPoint};

use super::{PathResolver, System};
use crate::disk::{Kind, Location};
use crate::error::{ResolveError, system_error};
use crate::precedence::List;

/// Why they stay as they are.
pub const OWN_SETTINGS: &str = "kennel's own settings are never writable";
/// kennel's folder below a configuration folder, and what is read there.
const FOLDER: &str = "kennel";
const FILES: [&str; 6] = ["settings.toml", "settings.json", PROFILES, SHIMS, TRUSTED, ANSWERS];
/// The folder of the user's profiles.
const PROFILES: &str = "profiles";
/// Scripts that the user's shells run by the names of programs.
const SHIMS: &str = "shims";
/// Which settings files of others the user trusts.
const TRUSTED: &str = "trusted";
/// What the user answered for good when asked.
const ANSWERS: &str = "answers";
/// What kennel goes by when it is called by the name of srt.
const OF_SRT: &str = ".srt-settings.json";

impl<S: System> PathResolver<'_, S> {
    /// Whether anything of the host's can be written at all.
    #[must_use]
    pub fn writes_anything(&self) -> bool {
        !self.files.allow_write.is_empty() || self.writable_mounts().next().is_some()
    }

    fn writable_mounts(&self) -> impl Iterator<Item = &MountPoint> + use<'_, S> {
        self.files.mounts.iter().filter(|mount| mount.access == MountAccess::ReadWrite)
    }

    /// Refuses to open one of the homes for writing, or a folder that holds one, where the policy asks for that.
    ///
    /// # Errors
    /// That one is open.
    pub fn refuse_homes(&self, homes: &[PathBuf]) -> Result<(), ResolveError> {
        if !self.files.refuse_home || !self.writes_anything() {
            return Ok(());
        }
        let homes: Vec<PathBuf> =
            homes.iter().map(|home| self.place(home).unwrap_or_else(|| home.clone())).collect();
        let is_home = |path: &Path| path == Path::new("/") || homes.iter().any(|home| home.starts_with(path));
        for (path, said) in self.said.iter() {
            let folder = said.found.as_ref().is_some_and(|found| found.kind == Kind::Folder);
            if let Some(rule) = said.allow_write.as_ref().filter(|_| folder && is_home(path)) {
                return Err(ResolveError::Home { rule: rule.to_string(), path: path.to_path_buf() });
            }
        }
        for mount in self.writable_mounts() {
            if let Some(path) = self.place(&mount.source).filter(|path| is_home(path)) {
                return Err(ResolveError::Home { rule: format!("mount ({})", mount.origin), path });
            }
        }
        Ok(())
    }

    /// Keeps kennel's own settings as they are, existing or not, whatever is allowed. `config` is the folder for configurations that
    /// somebody named.
    ///
    /// # Errors
    /// When a rule names them to be written.
    pub fn keep_own_settings(
        &mut self,
        homes: &[PathBuf],
        config: Option<PathBuf>,
    ) -> Result<(), ResolveError> {
        if !self.writes_anything() {
            return Ok(());
        }
        let config = config.into_iter().chain(homes.iter().map(|home| home.join(".config")));
        for folder in config.map(|config| config.join(FOLDER)) {
            if !self.keep_own(&folder)? {
                continue;
            }
            // A file there may be a link to one elsewhere, among a user's other dotfiles.
            let mut files: Vec<PathBuf> = FILES.iter().map(|name| folder.join(name)).collect();
            for inner in [PROFILES, SHIMS].map(|name| folder.join(name)) {
                let names = self.disk.list(&inner).unwrap_or_default();
                files.extend(names.into_iter().map(|name| inner.join(name)));
            }
            for file in files {
                if self.disk.is_link(&file) {
                    self.keep_own(&file)?;
                }
            }
        }
        for home in homes {
            self.keep_own(&home.join(OF_SRT))?;
            // Another project's sandboxes would run what is in there.
            self.keep_own(&home.join(LAYERS))?;
        }
        Ok(())
    }

    /// Keeps one of them as it is; returns whether something is there.
    fn keep_own(&mut self, path: &Path) -> Result<bool, ResolveError> {
        let mut there = false;
        let place = match self.locate(OWN_SETTINGS, path)? {
            Location::Forbidden => {
                if let Some(folder) = self.disk.shut_folder(path).map_err(system_error(OWN_SETTINGS, path))?
                    && self.writes(&folder.path)
                {
                    self.say(List::DenyWrite, folder, OWN_SETTINGS);
                }
                return Ok(false);
            }
            Location::Missing(place) => {
                self.hold_own_way(path, &place);
                S::note_absent(self, List::DenyWrite, place.clone(), OWN_SETTINGS.into(), Missing::Skip);
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
        let mut sources = self.writable_mounts().filter_map(|mount| self.place(&mount.source));
        sources.any(|source| path.starts_with(source))
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
        for mount in self.writable_mounts() {
            if let Some(path) = self.place(&mount.source).filter(|path| path.starts_with(place)) {
                let rule = format!("mount ({})", mount.origin);
                return Err(ResolveError::Unfit { rule, path, what });
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
