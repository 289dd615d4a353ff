//! `kennel trust`: a settings file that was found is applied as if it had been named, for as long as nothing in it changes.
//!
//! What is trusted is a path with what was in the file when a person was shown it. Both are noted as they are, and compared byte by byte.

use std::path::{Path, PathBuf};

use kennel_policy::merge::{Sources, merge_with};
use kennel_policy::policy::Origin;
use kennel_policy::printed::{show, show_lines};
use kennel_policy::settings::{Format, Provenance, Settings, Stated, parse};

use super::consent::consent;
use super::noted::Noted;
use super::policy::{Lazy, user_mirrors, user_profiles};
use super::project::{self, ProjectFile};
use super::{FAILED, print, say};
use crate::flags::Trust;
use crate::platform;

/// The folder of the notes.
const FOLDER: &str = "trusted";

type Failed = String;

/// Does it, to a file, or to the files that are found in a folder.
pub fn trust(what: Trust, path: Option<&Path>) -> i32 {
    let homes = Lazy::default();
    let path = path.unwrap_or(Path::new("."));
    let done = match what {
        Trust::Ask | Trust::Give => give(path, what == Trust::Give, &homes),
        Trust::Remove => remove(path, &homes),
        Trust::List => list(&homes),
    };
    done.unwrap_or_else(|error| {
        say(&format!("kennel trust: {error}"));
        FAILED
    })
}

/// Whether somebody trusts this file with this text.
pub fn is_trusted(file: &ProjectFile, homes: &Lazy) -> bool {
    noted(homes).is_some_and(|noted| noted.holds(&note(file)))
}

/// The settings in a file that was found.
///
/// # Errors
/// When it says something that kennel does not understand.
pub fn settings(
    file: &ProjectFile,
    homes: &Lazy,
) -> Result<Settings, kennel_policy::settings::SettingsError> {
    let base = homes.base(file.place.parent().unwrap_or(&file.place));
    parse(
        &file.text,
        Format::of(&file.shown, &file.text),
        Provenance::File(&file.shown.display().to_string()),
        &base,
    )
}

fn noted(homes: &Lazy) -> Option<Noted> {
    Noted::in_folder(FOLDER, homes)
}

/// What a note holds.
fn note(file: &ProjectFile) -> Vec<u8> {
    [file.place.as_os_str().as_encoded_bytes(), b"\0", &file.text].concat()
}

/// What is trusted: the notes' files, each with the file that it is about.
fn entries(homes: &Lazy) -> Vec<(PathBuf, PathBuf)> {
    let about = |mut note: Vec<u8>| {
        note.truncate(note.iter().position(|byte| *byte == 0)?);
        platform::path_of(note)
    };
    let notes = noted(homes).map(|noted| noted.all()).unwrap_or_default();
    let mut list: Vec<_> =
        notes.into_iter().filter_map(|(file, note)| about(note).map(|path| (file, path))).collect();
    list.sort_by(|one, other| one.1.cmp(&other.1));
    list
}

/// The files that a path means.
fn meant(path: &Path) -> Result<Vec<ProjectFile>, Failed> {
    let shown = show(path.as_os_str().as_encoded_bytes());
    if !path.is_dir() {
        let read = ProjectFile::read(path).map_err(|error| format!("reading {shown}: {error}"))?;
        return read.map(|file| vec![file]).ok_or_else(|| format!("{shown}: no such file"));
    }
    let cwd = std::env::current_dir().map_err(|error| format!("reading the working directory: {error}"))?;
    let folder = if path == Path::new(".") { cwd.clone() } else { cwd.join(path) };
    project::find(&folder, &cwd, |_| false)
}

fn give(path: &Path, yes: bool, homes: &Lazy) -> Result<i32, Failed> {
    let files = meant(path)?;
    if files.is_empty() {
        return Err("there is no kennel.toml and no kennel.json here, nor above up to the repository's root"
            .to_owned());
    }
    let store = noted(homes)
        .ok_or("there is no home folder to note it in\nhelp: set HOME to the path of a folder")?;
    for file in files {
        let shown = show(file.place.as_os_str().as_encoded_bytes());
        if is_trusted(&file, homes) {
            print(&show_lines(&format!("{shown} is trusted already, as it is.\n")));
            continue;
        }
        let loosens = loosens(&file, homes)?;
        let mut text = format!("{shown}:\n");
        for line in String::from_utf8_lossy(&file.text).lines() {
            text.push_str(&format!("    {}\n", line.replace('\t', "    ")));
        }
        if loosens.is_empty() {
            text.push_str("\nIt only tightens, which needs no trust.\n");
            print(&show_lines(&text));
            continue;
        }
        text.push_str("\nIt asks for what a file may not have that was merely found:\n");
        for (key, origin) in &loosens {
            text.push_str(&format!("    {key} ({origin})\n"));
        }
        print(&show_lines(&text));
        if !consent("Trust it, as it is?", yes)? {
            return Err(format!("{shown} is not trusted"));
        }
        forget(&file.place, homes)?;
        let said = |error: std::io::Error| format!("writing below {}: {error}", store.folder().display());
        store.put(&note(&file)).map_err(said)?;
        print(&show_lines(&format!("{shown} is trusted, until something in it changes.\n")));
    }
    Ok(0)
}

/// The settings by which a file would loosen the default policy, and where they stand.
fn loosens(file: &ProjectFile, homes: &Lazy) -> Result<Vec<(String, String)>, Failed> {
    let folder = file.place.parent().unwrap_or(&file.place);
    let settings = settings(file, homes).map_err(|error| error.to_string())?;
    let named =
        Sources { files: vec![settings.clone()], ..Sources::flags(homes.base(folder), Settings::default()) };
    // What it loosens depends on what it stands on; the agents' profiles are the strictest that there are.
    let below = |profile: &str| {
        let origin = Origin("kennel trust".to_owned());
        let profiles = vec![Stated { value: profile.to_owned(), origin }];
        let flags = Settings { profiles, ..Settings::default() };
        Sources { project: vec![settings.clone()], ..Sources::flags(homes.base(folder), flags) }
    };
    let own = user_profiles(homes);
    let mirrors = user_mirrors(homes);
    merge_with(named, &own, &mirrors).map_err(|error| error.to_string())?;
    let mut asked = Vec::new();
    for profile in ["agent", "default"] {
        let found = merge_with(below(profile), &own, &mirrors).map_err(|error| error.to_string())?;
        for note in found.notes.into_iter().map(|note| (note.key, note.origin.to_string())) {
            if !asked.contains(&note) {
                asked.push(note);
            }
        }
    }
    Ok(asked)
}

/// Removes what is noted about a file; whether there was something.
fn forget(place: &Path, homes: &Lazy) -> Result<bool, Failed> {
    let mut any = false;
    for (entry, _) in entries(homes).iter().filter(|(_, about)| about == place) {
        std::fs::remove_file(entry).map_err(|error| format!("removing {}: {error}", entry.display()))?;
        any = true;
    }
    Ok(any)
}

fn remove(path: &Path, homes: &Lazy) -> Result<i32, Failed> {
    let places: Vec<PathBuf> = if path.is_dir() {
        meant(path)?.into_iter().map(|file| file.place).collect()
    } else {
        // It may be gone.
        let whole = path.canonicalize().or_else(|_| std::path::absolute(path));
        whole.into_iter().collect()
    };
    let mut any = false;
    for place in &places {
        if forget(place, homes)? {
            any = true;
            print(&show_lines(&format!(
                "{} is not trusted any more.\n",
                show(place.as_os_str().as_encoded_bytes())
            )));
        }
    }
    match any {
        true => Ok(0),
        false => Err(format!("{}: nothing is trusted there", show(path.as_os_str().as_encoded_bytes()))),
    }
}

fn list(homes: &Lazy) -> Result<i32, Failed> {
    let mut text = String::new();
    for (_, place) in entries(homes) {
        let how = match ProjectFile::read(&place) {
            Ok(Some(file)) if is_trusted(&file, homes) => "trusted",
            Ok(Some(_)) => "changed since, not trusted",
            Ok(None) | Err(_) => "gone",
        };
        text.push_str(&format!("{}  {how}\n", show(place.as_os_str().as_encoded_bytes())));
    }
    if text.is_empty() {
        text.push_str("Nothing is trusted.\n");
    }
    Ok(print(&show_lines(&text)))
}
