//! Settings files that are found and that nobody named: in the folder that a command starts in, and above it up to the root of the
//! repository.
//!
//! Above the first folder a stranger may have put one there, as in `/tmp`: there it has to belong to this user or to root, in folders
//! that do too, on the same file system, and not above the home.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use kennel::home::Homes;
use kennel::settings_file;

use crate::platform::{device, is_strangers, user, variable};

/// What they are called. Both count: none takes away what the other says.
const NAMES: [&str; 2] = ["kennel.toml", "kennel.json"];
/// No repository lies deeper in another folder of its.
const MAX_FOLDERS: usize = 64;

/// A settings file that was found. What is compared, shown and applied is this text, which was read once.
pub struct ProjectFile {
    /// Its path, as the user would type it.
    pub shown: PathBuf,
    /// Its path without links but at its last name.
    pub place: PathBuf,
    /// What is in it.
    pub text: Vec<u8>,
}

impl ProjectFile {
    /// Reads one; `None` when it is not there.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(shown: &Path) -> io::Result<Option<ProjectFile>> {
        let Some(text) = settings_file::bytes(shown)? else { return Ok(None) };
        // A link to another project's file is not that file: whoever makes it chooses what it leads to.
        let folder = shown.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let place = folder.canonicalize()?.join(shown.file_name().unwrap_or_default());
        Ok(Some(ProjectFile { shown: shown.to_owned(), place, text }))
    }
}

/// Those for a command that starts in `folder`, the outermost first. `cwd` is where the user is, and `is_named` says which files
/// were named, which are no longer merely found.
///
/// # Errors
/// When one cannot be read: its path, and why.
pub fn find(folder: &Path, cwd: &Path, is_named: impl Fn(&Path) -> bool) -> Result<Vec<ProjectFile>, String> {
    let mut list = Vec::new();
    let mut up = PathBuf::new();
    for (index, place) in folders(folder).into_iter().enumerate() {
        for name in NAMES {
            let shown = if folder == cwd { up.join(name) } else { place.join(name) };
            if is_named(&shown) {
                continue;
            }
            if index > 0
                && !place.join(name).symlink_metadata().is_ok_and(|data| data.is_file() && is_ours(&data))
            {
                continue;
            }
            let read = ProjectFile::read(&shown);
            if let Some(file) =
                read.map_err(|error| format!("reading settings: {}: {error}", shown.display()))?
            {
                list.push(file);
            }
        }
        up.push("..");
    }
    list.reverse();
    Ok(list)
}

/// The settings files that a command in `folder` would find and that are not there.
pub fn absent(folder: &Path) -> Vec<PathBuf> {
    let paths = folders(folder).into_iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
    paths.filter(|path| path.symlink_metadata().is_err()).collect()
}

/// The workspace that a folder belongs to, without links: the outermost repository around it, or the folder alone.
pub fn workspace(folder: &Path) -> Option<PathBuf> {
    folders(folder).last()?.canonicalize().ok()
}

/// The folder, and those above it up to the root of the outermost repository, if there is one: a sandbox can make a repository in
/// another.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let alone = vec![folder.to_owned()];
    let Ok(start) = folder.canonicalize() else { return alone };
    let Ok(data) = start.metadata() else { return alone };
    let home = Homes::of_variable(variable("HOME")).and_then(|home| home.canonicalize().ok());
    let mut list = vec![start.clone()];
    let mut count = 1;
    for above in start.ancestors().skip(1).take(MAX_FOLDERS) {
        if home.as_deref().is_some_and(|home| list.last().is_some_and(|below| below == home)) {
            break;
        }
        match above.symlink_metadata() {
            Ok(found) if found.is_dir() && is_ours(&found) && device(&found) == device(&data) => {}
            _ => break,
        }
        list.push(above.to_owned());
        if is_root(above) {
            count = list.len();
        }
    }
    match count {
        1 => alone,
        count => list.drain(..count).collect(),
    }
}

/// Whether a folder is the root of a repository, or of a worktree, whose `.git` is a file.
fn is_root(folder: &Path) -> bool {
    folder.join(".git").symlink_metadata().is_ok_and(|git| (git.is_dir() || git.is_file()) && is_ours(&git))
}

fn is_ours(data: &Metadata) -> bool {
    !is_strangers(data, user())
}
