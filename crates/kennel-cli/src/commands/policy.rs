//! From what was typed to a policy: finds the settings files, reads them, and merges everything.

use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};

use kennel::home::Homes;
use kennel::profiles::{UserProfiles, config_folder};
use kennel::settings_file;
use kennel_policy::merge::{Merged, Sources, merge, merge_with};
use kennel_policy::settings::{Base, Format, Provenance, Settings, parse};

use crate::flags::RunArgs;
use crate::platform::variable;

/// Why there is no policy.
type Failure = Box<dyn std::error::Error>;

/// The policy for `args`, and the folder that the caller is in.
pub fn policy(args: &RunArgs) -> Result<(Merged, PathBuf), Failure> {
    let cwd = std::env::current_dir().map_err(|error| format!("reading the working directory: {error}"))?;
    let homes = Lazy::default();
    let flags =
        args.settings(&if args.may_speak_of_home() { homes.base(&cwd) } else { Base::new(&cwd, None) })?;
    // A profile speaks of it.
    let base = if flags.profile.is_some() { homes.base(&cwd) } else { Base::new(&cwd, None) };
    let mut sources = Sources::flags(base, flags);
    for path in &args.settings_files {
        let settings = read(path, &cwd, &homes)?;
        let settings =
            settings.ok_or_else(|| format!("reading settings: {}: no such file", path.display()))?;
        sources.files.push(settings);
    }
    if !args.no_settings {
        sources.user = first(&user_files(&homes), &cwd, &homes)?;
        let folder = sources.flags.process.workdir.as_ref().map_or(cwd.as_path(), |stated| &stated.value);
        let named = |name: &str| if folder == cwd { PathBuf::from(name) } else { folder.join(name) };
        sources.project = first(&[named("kennel.toml"), named("kennel.json")], &cwd, &homes)?;
    }
    // A file may name a profile as well.
    if sources.user.is_some() || !sources.files.is_empty() {
        sources.base = homes.base(&cwd);
    }
    let merged = if args.no_settings { merge(sources) } else { merge_with(sources, &user_profiles(&homes)) };
    Ok((merged?, cwd))
}

/// The caller's homes, looked for once, and only if something speaks of them: the user database is a file.
#[derive(Default)]
pub struct Lazy(OnceCell<Homes>);

impl Lazy {
    fn get(&self) -> &Homes {
        self.0.get_or_init(|| Homes::of_caller(variable))
    }

    pub fn base(&self, folder: &Path) -> Base {
        self.get().base(folder)
    }
}

/// The user's own profiles.
pub fn user_profiles(homes: &Lazy) -> UserProfiles<impl Fn() -> Option<PathBuf>> {
    UserProfiles::new(|| config_folder(variable, || homes.get().clone()))
}

/// Where the user's own settings may be.
fn user_files(homes: &Lazy) -> Vec<PathBuf> {
    let Some(config) = config_folder(variable, || homes.get().clone()) else { return Vec::new() };
    ["kennel/settings.toml", "kennel/settings.json"].iter().map(|name| config.join(name)).collect()
}

fn first(paths: &[PathBuf], cwd: &Path, homes: &Lazy) -> Result<Option<Settings>, Failure> {
    for path in paths {
        if let Some(settings) = read(path, cwd, homes)? {
            return Ok(Some(settings));
        }
    }
    Ok(None)
}

/// Reads one settings file; `None` when it is not there.
fn read(path: &Path, cwd: &Path, homes: &Lazy) -> Result<Option<Settings>, Failure> {
    let said = |error: io::Error| format!("reading settings: {}: {error}", path.display());
    let Some(text) = settings_file::bytes(path).map_err(said)? else { return Ok(None) };
    let folder = cwd.join(path);
    let base = homes.base(folder.parent().unwrap_or(cwd));
    let name = path.display().to_string();
    Ok(Some(parse(&text, Format::of(path, &text), Provenance::File(&name), &base)?))
}
