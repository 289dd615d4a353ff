//! Shims: scripts in a folder of kennel's that is first in `PATH`, each of which has the name of a program and runs it in its profile.
//!
//! They are scripts and no links to kennel: where kennel has gone, a link leads nowhere, a shell goes on to the next folder, and the
//! program runs without a sandbox and without a word. A script is still there, and says what is missing.
//!
//! The folder is below the one for configurations: what no sandbox can write ([`kennel_policy`] has the rules), because shells run it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use kennel::job::Environment;
use kennel::profiles::config_folder;

use super::policy::Lazy;
use crate::platform::{self, variable};

/// The folder, below that for configurations.
pub const FOLDER: &str = "kennel/shims";
/// What each of them begins with.
const MARK: &str = "#!/bin/sh\n# kennel shim: ";

/// The folder that they are in, whether it exists or not.
pub fn folder(homes: &Lazy) -> Option<PathBuf> {
    Some(config_folder(variable, || homes.homes().clone())?.join(FOLDER))
}

/// The names of those that are there.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let shims = entries.filter(|entry| is_shim(&entry.path()));
    let mut names: Vec<String> = shims.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The text of the shim for a program.
pub fn script(name: &str, kennel: &Path) -> Vec<u8> {
    let mut text = format!(
        "{MARK}runs {name} in its profile. `kennel enable` wrote this, `kennel disable {name}` removes it.\nkennel="
    )
    .into_bytes();
    text.extend(quoted(kennel.as_os_str()));
    text.extend(
        format!(
            "\n[ -x \"$kennel\" ] || kennel=$(command -v kennel) || {{\n    \
             echo \"kennel: $0: kennel is not installed any more, and {name} would run without a sandbox\" >&2\n    \
             echo \"help: install kennel, or remove this file\" >&2\n    \
             exit 127\n}}\nexec \"$kennel\" shim {name} \"$@\"\n"
        )
        .bytes(),
    );
    text
}

/// A path as one word of a shell.
pub fn quoted(path: &OsStr) -> Vec<u8> {
    let bytes = path.as_encoded_bytes();
    if bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+@".contains(byte)) {
        return bytes.to_vec();
    }
    let mut text = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => text.extend(b"'\\''"),
            byte => text.push(*byte),
        }
    }
    text.push(b'\'');
    text
}

/// Whether a file is a shim, by whatever path: one that another leads to would call itself for ever.
pub fn is_shim(path: &Path) -> bool {
    let mut start = [0; MARK.len()];
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == *MARK.as_bytes()
}

/// Where in `PATH` a program of this name is: the shim if it is the first, and the first that is none.
#[derive(Debug, Default)]
pub struct InPath {
    /// The shim, if no other program comes before it.
    pub shim: Option<PathBuf>,
    /// The program itself.
    pub program: Option<PathBuf>,
}

impl InPath {
    /// Looks for a name.
    pub fn find(name: &str) -> InPath {
        let mut found = InPath::default();
        for folder in variable("PATH").map(std::env::split_paths).into_iter().flatten() {
            let Ok(file) = std::path::absolute(folder.join(name)) else { continue };
            if !file.metadata().is_ok_and(|data| platform::is_executable(&data)) {
                continue;
            }
            if !is_shim(&file) {
                found.program = Some(file);
                break;
            }
            found.shim.get_or_insert(file);
        }
        found
    }
}

/// Whether the folder is the first in `PATH`.
pub fn is_first(folder: &Path) -> bool {
    variable("PATH").is_some_and(|path| std::env::split_paths(path).next().as_deref() == Some(folder))
}

/// The caller's variables for a job, with no shims in `PATH`: what a name means inside is the program. None of the other strings is
/// copied.
pub fn variables() -> Environment {
    let mut variables = platform::variables();
    for (_, value) in variables.iter_mut().filter(|(name, _)| AsRef::<OsStr>::as_ref(name) == "PATH") {
        // Also another user's, whose variables came along.
        let is_shims = |folder: &PathBuf| folder.ends_with(FOLDER);
        if std::env::split_paths(value).any(|folder| is_shims(&folder))
            && let Ok(rest) =
                std::env::join_paths(std::env::split_paths(value).filter(|folder| !is_shims(folder)))
        {
            *value = rest.into();
        }
    }
    variables
}

/// The path that stays kennel's when it is updated: the one by which `PATH` finds this program, else where it is.
pub fn own_path() -> std::io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let here = std::env::current_dir().ok();
    // A project's own folder of programs may be in `PATH` at this moment, and a sandbox may write it later.
    let is_of_project = |folder: &PathBuf| {
        !folder.is_absolute()
            || here.as_deref().is_some_and(|here| here.parent().is_some() && folder.starts_with(here))
    };
    let path = variable("PATH").map(std::env::split_paths).into_iter().flatten();
    let found = path.filter(|folder| !is_of_project(folder)).map(|folder| folder.join("kennel"));
    Ok(found.into_iter().find(|found| platform::is_same_file(found, &own)).unwrap_or(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shim_knows_itself_and_quotes_what_a_shell_would_take_apart() {
        let text = String::from_utf8(script("claude", Path::new("/opt/my kennel's/kennel"))).unwrap();
        assert!(text.starts_with(MARK));
        assert!(text.contains("\nkennel='/opt/my kennel'\\''s/kennel'\n"), "{text}");
        assert!(text.ends_with("\nexec \"$kennel\" shim claude \"$@\"\n"), "{text}");
        assert_eq!(quoted("/usr/bin/kennel-1.2".as_ref()), b"/usr/bin/kennel-1.2");
        let folder = std::env::temp_dir().join(format!("kennel-shims-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("folder")).unwrap();
        std::fs::write(folder.join("claude"), &text).unwrap();
        std::fs::write(folder.join("other"), "#!/bin/sh\n").unwrap();
        let found = names(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, ["claude"]);
    }
}
