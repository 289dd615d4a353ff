//! The user's own profiles: files in `kennel/profiles` of the configuration folder, one for each, called `NAME.toml`.
//!
//! They are trusted as the user's settings file is: no sandbox can write that folder.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use kennel_policy::profiles::{self, OwnProfile, OwnProfiles};
use kennel_policy::settings::profile_name;

use crate::home::Homes;
use crate::settings_file;

/// The user's configuration folder: `XDG_CONFIG_HOME`, or `.config` in the home. `homes` is asked where `HOME` does not
/// say it.
pub fn config_folder<'e>(
    variable: impl Fn(&str) -> Option<&'e OsStr>,
    homes: impl FnOnce() -> Homes,
) -> Option<PathBuf> {
    let said = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let home = || Homes::of_variable(variable("HOME")).or_else(|| homes().first().map(Path::to_path_buf));
    said.or_else(|| Some(home()?.join(".config")))
}

/// The user's own profiles, which are looked for when somebody asks.
pub struct UserProfiles<F> {
    config: F,
    folder: OnceCell<Option<PathBuf>>,
    /// Whether built-in profiles of the same name come first.
    built_in_first: bool,
}

impl<F: Fn() -> Option<PathBuf>> UserProfiles<F> {
    /// Those of the configuration folder that `config` finds. They come before built-in ones of the same name.
    pub fn new(config: F) -> Self {
        UserProfiles { config, folder: OnceCell::new(), built_in_first: false }
    }

    /// The same, but what a built-in name means does not depend on the user's files: only other names are looked for.
    fn besides_built_in(config: F) -> Self {
        UserProfiles { built_in_first: true, ..UserProfiles::new(config) }
    }

    /// The folder that they are in, whether it exists or not.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.get_or_init(|| Some((self.config)()?.join("kennel/profiles"))).as_deref()
    }
}

/// The user's own profiles for a program that uses the library. It was written with the built-in profiles in mind, so these
/// stay what they are.
pub(crate) fn of_this_process() -> impl OwnProfiles {
    UserProfiles::besides_built_in(|| {
        let variables = ["XDG_CONFIG_HOME", "HOME"].map(|name| (name, std::env::var_os(name)));
        let variable = |name: &str| variables.iter().find(|(own, _)| *own == name)?.1.as_deref();
        config_folder(variable, Homes::of_this_process)
    })
}

impl<F: Fn() -> Option<PathBuf>> OwnProfiles for UserProfiles<F> {
    fn find(&self, name: &str) -> Result<Option<OwnProfile>, String> {
        // The name of a file in this folder, and of nothing else.
        if profile_name(name).is_err() || (self.built_in_first && profiles::text(name).is_some()) {
            return Ok(None);
        }
        let Some(folder) = self.folder() else { return Ok(None) };
        let path = folder.join(format!("{name}.toml"));
        let file = path.display().to_string();
        let text = settings_file::bytes(&path).map_err(|error| format!("{file}: {error}"))?;
        Ok(text.map(|text| OwnProfile { file, text }))
    }

    fn names(&self) -> Vec<String> {
        let entries = self.folder().and_then(|folder| std::fs::read_dir(folder).ok());
        let files = entries.into_iter().flatten().flatten().map(|entry| PathBuf::from(entry.file_name()));
        let toml = files.filter(|file| file.extension().is_some_and(|extension| extension == "toml"));
        let names = toml.filter_map(|file| file.file_stem()?.to_str().map(str::to_owned));
        let mut names: Vec<String> = names.filter(|name| profile_name(name).is_ok()).collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_a_file_of_the_folder_and_to_no_other() {
        let config = std::env::temp_dir().join(format!("kennel-profiles-{}", std::process::id()));
        let folder = config.join("kennel/profiles");
        std::fs::create_dir_all(folder.join("folder.toml")).unwrap();
        for file in ["../outside.toml", "mine.toml", "claude.toml", ".hidden.toml", "a b.toml", "mine.json"] {
            std::fs::write(folder.join(file), "# Mine.\n").unwrap();
        }
        let own = UserProfiles::new(|| Some(config.clone()));
        assert_eq!(own.find("mine").unwrap().unwrap().text, b"# Mine.\n");
        assert!(own.find("claude").unwrap().is_some());
        for name in ["../outside", "outside", ".hidden", "a b", "", "..", "mine.toml"] {
            assert_eq!(own.find(name), Ok(None), "{name:?}");
        }
        assert!(own.find("folder").unwrap_err().contains("not a regular file"));
        assert_eq!(own.names(), ["claude", "folder", "mine"]);

        let of_library = UserProfiles::besides_built_in(|| Some(config.clone()));
        assert_eq!(of_library.find("claude"), Ok(None), "a built-in name stays what it is to a program");
        assert!(of_library.find("mine").unwrap().is_some());
        std::fs::remove_dir_all(&config).unwrap();
    }

    #[test]
    fn the_configuration_folder_is_where_the_variables_say() {
        let folder = |variables: &[(&str, &'static str)]| {
            let find = |name: &str| {
                variables.iter().find(|(own, _)| *own == name).map(|(_, value)| OsStr::new(*value))
            };
            config_folder(find, Homes::default).map(|folder| folder.display().to_string())
        };
        assert_eq!(folder(&[("XDG_CONFIG_HOME", "/x"), ("HOME", "/usr")]).as_deref(), Some("/x"));
        assert_eq!(folder(&[("XDG_CONFIG_HOME", "x"), ("HOME", "/usr")]).as_deref(), Some("/usr/.config"));
        assert_eq!(folder(&[]), None);
    }
}
