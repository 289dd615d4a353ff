//! From what was typed to a policy: finds the settings files, reads them, and merges everything.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use kennel::home::Homes;
use kennel::mirrors::HomeMirrors;
use kennel::profiles::{UserProfiles, config_folder};
use kennel::settings_file;
use kennel_policy::merge::{Merged, Sources, merge, merge_with};
use kennel_policy::pattern::PathPattern;
use kennel_policy::policy::{EnvironmentPolicy, FilePolicy, Missing, Origin, PathRule, SearchScope};
use kennel_policy::registries::UserMirrors;
use kennel_policy::settings::{Base, Format, Provenance, Settings, parse};

use super::{project, trust};
use crate::flags::RunArgs;
use crate::platform::{MARK, is_same_file, variable};

/// Why a settings file that was found stays as it is.
const FOUND: &str = "settings of this project";

/// Why there is no policy.
type NoPolicy = Box<dyn std::error::Error>;

/// The policy for `args`, and the folder that the caller is in.
pub fn policy(args: &RunArgs) -> Result<(Merged, PathBuf), NoPolicy> {
    let cwd = std::env::current_dir().map_err(|error| format!("reading the working directory: {error}"))?;
    let homes = Lazy::default();
    let flags =
        args.settings(&if args.may_speak_of_home() { homes.base(&cwd) } else { Base::new(&cwd, None) })?;
    // A profile speaks of it.
    let base = if !flags.profiles.is_empty() { homes.base(&cwd) } else { Base::new(&cwd, None) };
    let mut sources = Sources::flags(base, flags);
    let mut places = Vec::new();
    for path in &args.settings_files {
        let settings = read(path, &cwd, &homes)?;
        let settings =
            settings.ok_or_else(|| format!("reading settings: {}: no such file", path.display()))?;
        sources.files.push(settings);
    }
    if !args.no_settings {
        sources.user = first(&user_files(&homes), &cwd, &homes)?;
        let folder = sources.flags.process.workdir.as_ref().map_or(cwd.as_path(), |stated| &stated.value);
        let is_named = |path: &Path| args.settings_files.iter().any(|file| is_same_file(file, path));
        let found = project::find(folder, &cwd, is_named)?;
        let (trusted, others): (Vec<_>, Vec<_>) =
            found.iter().partition(|file| trust::is_trusted(file, &homes));
        let settings = |list: Vec<_>| {
            list.into_iter().map(|file| trust::settings(file, &homes)).collect::<Result<Vec<_>, _>>()
        };
        places = found.iter().map(|file| file.place.clone()).collect();
        // Weaker than what is named now.
        sources.files.splice(0..0, settings(trusted)?);
        sources.project = settings(others)?;
    }
    // A file may name a profile as well.
    if sources.user.is_some() || !sources.files.is_empty() {
        sources.base = homes.base(&cwd);
    }
    let merged = if args.no_settings {
        merge(sources)
    } else {
        merge_with(sources, &user_profiles(&homes), &user_mirrors(&homes))
    };
    let mut merged = merged?;
    mark(&mut merged.policy.environment);
    keep(&mut merged.policy.files, &places);
    Ok((merged, cwd))
}

/// Keeps the settings files that were found as they are: what one of them closes, the next run has to find closed.
fn keep(files: &mut FilePolicy, places: &[PathBuf]) {
    // Windows has no such rule.
    if cfg!(windows) || (files.allow_write.is_empty() && files.mounts.is_empty()) {
        return;
    }
    for place in places {
        let pattern = PathPattern::literal(place);
        // Who names it to be written knows what it is.
        if files.allow_write.iter().all(|rule| rule.pattern != pattern) {
            files.deny_write.push(PathRule {
                pattern,
                missing: Missing::Skip,
                follow_link: true,
                lenient: false,
                without_exceptions: false,
                of_profile: false,
                look: SearchScope::Everywhere,
                origin: Origin(FOUND.to_owned()),
            });
        }
    }
}

/// Marks the inside, for prompts and for shims. Whoever sets the variable, or takes it away, knows why.
fn mark(environment: &mut EnvironmentPolicy) {
    let is_said = environment.set.iter().any(|(name, _)| name == MARK);
    if !is_said && !environment.unset.iter().any(|name| name == MARK) {
        environment.set.push((MARK.into(), "1".into()));
    }
}

/// The caller's homes, looked for once, and only if something speaks of them: the user database is a file.
#[derive(Default)]
pub struct Lazy(OnceCell<Homes>);

impl Lazy {
    pub fn homes(&self) -> &Homes {
        self.0.get_or_init(|| Homes::of_caller(variable))
    }

    pub fn base(&self, folder: &Path) -> Base {
        self.homes().base(folder)
    }
}

/// The user's own profiles.
pub fn user_profiles(homes: &Lazy) -> UserProfiles<impl Fn() -> Option<PathBuf>> {
    UserProfiles::new(|| config_folder(variable, || homes.homes().clone()))
}

/// What the user's own settings of package managers say.
pub fn user_mirrors(homes: &Lazy) -> impl UserMirrors {
    HomeMirrors::new(
        || homes.homes().first().map(Path::to_path_buf),
        |name| variable(name).map(OsStr::to_owned),
    )
}

/// Where the user's own settings may be.
fn user_files(homes: &Lazy) -> Vec<PathBuf> {
    let Some(config) = config_folder(variable, || homes.homes().clone()) else { return Vec::new() };
    ["kennel/settings.toml", "kennel/settings.json"].iter().map(|name| config.join(name)).collect()
}

fn first(paths: &[PathBuf], cwd: &Path, homes: &Lazy) -> Result<Option<Settings>, NoPolicy> {
    for path in paths {
        if let Some(settings) = read(path, cwd, homes)? {
            return Ok(Some(settings));
        }
    }
    Ok(None)
}

/// Reads one settings file; `None` when it is not there.
fn read(path: &Path, cwd: &Path, homes: &Lazy) -> Result<Option<Settings>, NoPolicy> {
    let said = |error: io::Error| format!("reading settings: {}: {error}", path.display());
    let Some(text) = settings_file::bytes(path).map_err(said)? else { return Ok(None) };
    let folder = cwd.join(path);
    let base = homes.base(folder.parent().unwrap_or(cwd));
    let name = path.display().to_string();
    Ok(Some(parse(&text, Format::of(path, &text), Provenance::File(&name), &base)?))
}
