//! The words that `sandbox-exec` is started with.
//!
//! A profile is given as a word (`-p`) where it fits beside the command and its variables, and in a file (`-f`) where it does
//! not: the system takes 1 MiB of words and variables together.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::profile::Profile;

/// What applies a profile and then becomes the command.
pub const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// `ARG_MAX`: bytes of words and variables, with what belongs to them.
const MAX: usize = 1 << 20;

/// What the kernel puts beside them: the program's path, and strings of its own for the loader (`apple`).
const KERNELS_OWN: usize = 16 * 1024;

/// How a profile is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOver<'p> {
    /// As a word.
    Word,
    /// In this file.
    File(&'p Path),
}

/// The words, the program's own name first. `--` ends the options: a command may begin with a dash.
#[must_use]
pub fn words(profile: &Profile, by: HandOver, command: &[OsString]) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["sandbox-exec".into()];
    match by {
        HandOver::Word => words.extend(["-p".into(), profile.text.clone().into()]),
        HandOver::File(path) => words.extend(["-f".into(), path.into()]),
    }
    for (name, value) in &profile.parameters {
        words.extend(["-D".into(), format!("{name}={value}").into()]);
    }
    words.push("--".into());
    words.extend_from_slice(command);
    words
}

/// Whether so much can be handed over to a program.
#[must_use]
pub fn fits(words: &[OsString], variables: &[(OsString, OsString)]) -> bool {
    // Each has a zero at its end and a pointer to it; a variable has `=` too.
    let extra = 1 + size_of::<usize>();
    let words: usize = words.iter().map(|word| word.len() + extra).sum();
    let variables: usize = variables.iter().map(|(name, value)| name.len() + value.len() + 1 + extra).sum();
    words + variables + KERNELS_OWN <= MAX
}

/// Which file a command's name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// This one can be executed.
    Found(std::path::PathBuf),
    /// There is none.
    NotFound,
    /// There is this one, and it cannot be executed.
    NotExecutable(std::path::PathBuf),
}

/// Finds the program as `execvp` does, in the folders of `path`, relative to `folder`. `looks` tells whether a file is there, and
/// whether it can be executed.
///
/// `sandbox-exec` would look itself, but ends with the same code whether the profile or the command was at fault.
#[must_use]
pub fn find_program(
    name: &OsStr,
    path: Option<&OsStr>,
    folder: &Path,
    looks: impl Fn(&Path) -> Option<bool>,
) -> Program {
    /// `_PATH_DEFPATH`.
    const USUAL: &str = "/usr/bin:/bin";
    let check = |at: &Path| looks(at).map(|executable| (at.to_path_buf(), executable));
    if name.as_encoded_bytes().contains(&b'/') {
        return match check(&folder.join(name)) {
            None => Program::NotFound,
            Some((at, true)) => Program::Found(at),
            Some((at, false)) => Program::NotExecutable(at),
        };
    }
    let path = path.unwrap_or(OsStr::new(USUAL));
    let mut refused = None;
    for part in std::env::split_paths(path).filter(|_| !name.is_empty()) {
        // An empty part is the current folder.
        match check(&folder.join(part).join(name)) {
            Some((at, true)) => return Program::Found(at),
            Some((at, false)) => refused = refused.or(Some(at)),
            None => {}
        }
    }
    refused.map_or(Program::NotFound, Program::NotExecutable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        Profile { text: "(version 1)\n".into(), parameters: vec![("TMP".into(), "/private/x y".into())] }
    }

    fn command(words: &[&str]) -> Vec<OsString> {
        words.iter().map(Into::into).collect()
    }

    #[test]
    fn the_profile_comes_before_the_end_of_options_and_the_command_after_it() {
        let by_word = words(&profile(), HandOver::Word, &command(&["-n", "x"]));
        let wanted = ["sandbox-exec", "-p", "(version 1)\n", "-D", "TMP=/private/x y", "--", "-n", "x"];
        assert_eq!(by_word, command(&wanted));
        let by_file = words(&profile(), HandOver::File(Path::new("/p/f")), &command(&["ls"]));
        assert_eq!(by_file, command(&["sandbox-exec", "-f", "/p/f", "-D", "TMP=/private/x y", "--", "ls"]));
    }

    #[test]
    fn words_and_variables_count_together() {
        let large = |bytes: usize| vec![OsString::from("x".repeat(bytes))];
        assert!(fits(&large(1 << 19), &[]));
        assert!(!fits(&large(1 << 20), &[]));
        assert!(!fits(&large(1 << 19), &[("V".into(), "x".repeat(1 << 19).into())]));
        // Many small ones count by their pointers.
        assert!(!fits(&vec![OsString::from("x"); 110_000], &[]));
    }

    #[test]
    fn a_program_is_found_as_shells_find_it() {
        let there = |path: &Path| match path.to_str() {
            Some("/a/no" | "/b/no" | "/w/./dir/no") => Some(false),
            Some("/b/yes" | "/w/yes" | "/w/dir/tool" | "/usr/bin/usual" | "/b/no2") => Some(true),
            _ => None,
        };
        let find = |name: &str, path: Option<&str>| {
            find_program(OsStr::new(name), path.map(OsStr::new), Path::new("/w"), there)
        };
        assert_eq!(find("yes", Some("/a:/b")), Program::Found("/b/yes".into()));
        assert_eq!(find("yes", Some("/a:")), Program::Found("/w/yes".into()));
        assert_eq!(find("no", Some("/a:/b")), Program::NotExecutable("/a/no".into()));
        assert_eq!(find("dir/tool", Some("/a")), Program::Found("/w/dir/tool".into()));
        assert_eq!(find("./dir/no", Some("/a")), Program::NotExecutable("/w/./dir/no".into()));
        assert_eq!(find("nothing", Some("/a:/b")), Program::NotFound);
        assert_eq!(find("", Some("/a:/b")), Program::NotFound);
        assert_eq!(find("usual", None), Program::Found("/usr/bin/usual".into()));
    }
}
