//! Which file a command's name stands for. Windows would also look in the folder that the caller is in, where a stranger may
//! have put a file; kennel looks in `PATH` alone and passes an absolute path.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// What `CreateProcess`, or `cmd.exe` for the last two, can run.
const EXTENSIONS: [&str; 4] = [".COM", ".EXE", ".BAT", ".CMD"];

/// Finds the program. `variables` are the command's own.
pub(crate) fn find(name: &OsStr, cwd: &Path, variables: &[(OsString, OsString)]) -> Result<PathBuf, Error> {
    let not_found = || Error::NotFound(name.to_string_lossy().into_owned());
    if name.is_empty() {
        return Err(not_found());
    }
    let variable = |wanted: &str| {
        variables.iter().find(|(own, _)| own.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.as_os_str())
    };
    let extensions = extensions(variable("PATHEXT"));
    let bytes = name.as_encoded_bytes();
    if bytes.iter().any(|byte| matches!(byte, b'\\' | b'/' | b':')) {
        let path = absolute(&cwd.join(name))?;
        return among(&path, &extensions).ok_or_else(not_found);
    }
    let folders = variable("PATH").map(std::env::split_paths);
    let absolute_ones = folders.into_iter().flatten().filter(|folder| folder.is_absolute());
    let mut found =
        absolute_ones.filter_map(|folder| among(&absolute(&folder.join(name)).ok()?, &extensions));
    found.next().ok_or_else(not_found)
}

/// The file of this name, or of this name with an extension.
fn among(path: &Path, extensions: &[&str]) -> Option<PathBuf> {
    let has_one = path.extension().is_some_and(|own| {
        EXTENSIONS.iter().any(|extension| OsStr::new(&extension[1..]).eq_ignore_ascii_case(own))
    });
    // With any other extension, or none, it is still a program if it has the form of one.
    if (has_one || path.extension().is_some()) && path.is_file() {
        return Some(path.to_owned());
    }
    let with = |extension: &&str| {
        let mut name = path.as_os_str().to_owned();
        name.push(extension);
        Some(PathBuf::from(name)).filter(|path| path.is_file())
    };
    extensions.iter().find_map(with).or_else(|| path.is_file().then(|| path.to_owned()))
}

/// Those of `PATHEXT` that can be run, in its order.
fn extensions(listed: Option<&OsStr>) -> Vec<&'static str> {
    let Some(listed) = listed.and_then(OsStr::to_str) else { return EXTENSIONS.to_vec() };
    let known =
        |one: &str| EXTENSIONS.into_iter().find(|extension| extension.eq_ignore_ascii_case(one.trim()));
    listed.split(';').filter_map(known).collect()
}

/// Without dots and blanks at the end of names, which Windows does not see.
fn absolute(path: &Path) -> Result<PathBuf, Error> {
    let failed = |source| Error::System { doing: format!("looking for {}", path.display()), source };
    std::path::absolute(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_run_counts_of_the_list_of_extensions() {
        assert_eq!(extensions(Some(OsStr::new(".VBS;.exe; .Cmd;.JS"))), [".EXE", ".CMD"]);
        assert_eq!(extensions(None), EXTENSIONS);
    }

    #[test]
    fn a_program_is_found_in_path_and_not_in_the_current_folder() {
        let folder = std::env::temp_dir().join(format!("kennel-test-program-{}", std::process::id()));
        let (here, bin) = (folder.join("here"), folder.join("bin"));
        for place in [&here, &bin] {
            std::fs::create_dir_all(place).expect("made");
        }
        for file in
            [here.join("tool.exe"), bin.join("tool.cmd"), bin.join("other.exe"), bin.join("other.bat")]
        {
            std::fs::write(file, "").expect("written");
        }
        let mut path = OsString::from("relative;");
        path.push(&bin);
        let variables = [("Path".into(), path), ("PATHEXT".into(), ".EXE;.CMD;.BAT".into())];
        let find = |name: &str| find(OsStr::new(name), &here, &variables);
        let is = |found: Result<PathBuf, Error>, path: PathBuf| {
            let found = found.expect("it is there");
            found.to_string_lossy().eq_ignore_ascii_case(&path.to_string_lossy())
        };
        assert!(is(find("tool"), bin.join("tool.cmd")));
        assert!(is(find(".\\tool"), here.join("tool.exe")));
        assert!(is(find("other"), bin.join("other.exe")));
        assert!(is(find("other.bat"), bin.join("other.bat")));
        assert!(matches!(find("nowhere"), Err(Error::NotFound(_))));
        assert!(matches!(find(""), Err(Error::NotFound(_))));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
