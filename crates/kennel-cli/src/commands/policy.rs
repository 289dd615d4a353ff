//! From what was typed to a policy: finds the settings files, reads them, and merges everything.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use kennel_policy::merge::{Merged, Sources, merge};
use kennel_policy::settings::{Base, Format, Provenance, Settings, parse};

use crate::flags::RunArgs;
use crate::memory;

/// A little over what the parser accepts, so that it can say that a file is too large.
const MOST_BYTES: u64 = (1 << 20) + 1;

/// Why there is no policy.
type Failure = Box<dyn std::error::Error>;

/// The policy for `args`, and the folder that the caller is in.
pub fn policy(args: &RunArgs) -> Result<(Merged, PathBuf), Failure> {
    let cwd = std::env::current_dir().map_err(|error| format!("reading the working directory: {error}"))?;
    let home = memory::environment().find(|(name, _)| *name == "HOME").map(|(_, home)| PathBuf::from(home));
    let home = home.filter(|home| home.is_absolute());
    let base = Base { folder: cwd.clone(), home: home.clone() };
    let flags = args.settings(&base)?;
    let mut sources = Sources::flags(base, flags);
    for path in &args.settings_files {
        let settings = read(path, &cwd, home.as_deref())?;
        let settings =
            settings.ok_or_else(|| format!("reading settings: {}: no such file", path.display()))?;
        sources.files.push(settings);
    }
    if !args.no_settings {
        sources.user = first(&user_files(home.as_deref()), &cwd, home.as_deref())?;
        let folder = sources.flags.process.workdir.as_ref().map_or(cwd.as_path(), |stated| &stated.value);
        let named = |name: &str| if folder == cwd { PathBuf::from(name) } else { folder.join(name) };
        sources.project = first(&[named("kennel.toml"), named("kennel.json")], &cwd, home.as_deref())?;
    }
    Ok((merge(sources)?, cwd))
}

/// Where the user's own settings may be.
fn user_files(home: Option<&Path>) -> Vec<PathBuf> {
    let config = memory::environment()
        .find(|(name, value)| *name == "XDG_CONFIG_HOME" && Path::new(value).is_absolute())
        .map(|(_, value)| PathBuf::from(value))
        .or_else(|| home.map(|home| home.join(".config")));
    let Some(config) = config else { return Vec::new() };
    ["kennel/settings.toml", "kennel/settings.json"].iter().map(|name| config.join(name)).collect()
}

fn first(paths: &[PathBuf], cwd: &Path, home: Option<&Path>) -> Result<Option<Settings>, Failure> {
    for path in paths {
        if let Some(settings) = read(path, cwd, home)? {
            return Ok(Some(settings));
        }
    }
    Ok(None)
}

/// Reads one settings file; `None` when it is not there.
fn read(path: &Path, cwd: &Path, home: Option<&Path>) -> Result<Option<Settings>, Failure> {
    let said = |error: io::Error| format!("reading settings: {}: {error}", path.display());
    // Whoever wrote the working directory may have put a FIFO there, which a plain open would wait for.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(said(error).into()),
    };
    if !file.metadata().map_err(said)?.is_file() {
        return Err(format!("reading settings: {}: not a regular file", path.display()).into());
    }
    let mut text = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut text).map_err(said)?;
    let folder = cwd.join(path);
    let folder = folder.parent().unwrap_or(cwd).to_path_buf();
    let base = Base { folder, home: home.map(Path::to_path_buf) };
    let name = path.display().to_string();
    Ok(Some(parse(&text, Format::of(path, &text), Provenance::File(&name), &base)?))
}
