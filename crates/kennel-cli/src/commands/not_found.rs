//! What `kennel run` says about a command that was not found inside: that it is on the host all the same, and which rule keeps it away.
//!
//! Only kennel's own knowledge counts as evidence: the policy, and where the host finds the command.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use kennel_policy::home;
use kennel_policy::policy::{FilePolicy, HomeMode, PathRule, ReadModel, TmpMode};
use kennel_policy::printed::show;
use kennel_policy::settings::Base;

use super::{policy, say};
use crate::platform::variable;

/// Says, where a command could not be started, why it or its interpreter does not show inside.
pub fn explain(command: &[OsString], files: &FilePolicy, cwd: &Path) {
    let Some(name) = command.first() else { return };
    let Some(program) = on_host(Path::new(name), cwd) else {
        return explain_word(command, cwd);
    };
    let programs = [interpreter(&program).and_then(|path| path.canonicalize().ok()), Some(program)];
    let homes = policy::Lazy::default();
    let base = homes.base(Path::new("/"));
    let why =
        programs.into_iter().flatten().rev().find_map(|program| why_hidden(&program, files, &base, cwd));
    if let Some(why) = why {
        say(&format!("kennel: {why}"));
    }
}

/// Says how to have a shell's line run that was given as one word: if the first of the words in it is a program.
fn explain_word(command: &[OsString], cwd: &Path) {
    let [word] = command else { return };
    let Some((first, _)) = word.to_str().and_then(|word| word.split_once(' ')) else { return };
    let line = show(word.as_encoded_bytes());
    if on_host(Path::new(first), cwd).is_some() && !line.contains(['\'', '\\']) {
        say(&format!("help: this is one word with blanks in it; a shell splits it: sh -c '{line}'"));
    }
}

/// Why a file of the host's does not show inside, and what would show it.
fn why_hidden(program: &Path, files: &FilePolicy, base: &Base, cwd: &Path) -> Option<String> {
    // A root of its own has other programs.
    if files.rootfs.is_some() {
        return None;
    }
    let shown =
        shown(files, base, cwd).any(|path| path.canonicalize().is_ok_and(|path| program.starts_with(path)));
    let named = show(program.as_os_str().as_encoded_bytes());
    let hides = |rule: &&PathRule| program.ancestors().any(|above| rule.pattern.matches(above));
    let by = |rule: &PathRule| format!("deny_read {} ({})", rule.pattern, rule.origin);
    if let Some(rule) =
        files.deny_read.iter().find(hides).filter(|_| !shown || hidden_by_name(program, files))
    {
        return Some(format!("{named} exists on the host, and is hidden by {}", by(rule)));
    }
    if shown {
        return None;
    }
    let folder = program.parent().filter(|folder| *folder != Path::new("/tmp")).unwrap_or(program);
    if files.tmp == TmpMode::Private && program.starts_with("/tmp") {
        return Some(format!(
            "{named} exists on the host, but /tmp is private in this sandbox\n\
             help: --allow-read {} shows it, --host-tmp shows all of /tmp",
            folder.display()
        ));
    }
    if let Some(why) = in_private_home(program, files, base) {
        return Some(why);
    }
    let is_system =
        ["/usr", "/bin", "/sbin", "/lib", "/lib64"].iter().any(|system| program.starts_with(system));
    if files.reads == ReadModel::Listed && !is_system {
        return Some(format!(
            "{named} exists on the host, but only listed paths can be read in this sandbox\nhelp: --allow-read {} shows it",
            folder.display()
        ));
    }
    None
}

/// Whether a rule hides just this file, whatever folder around it shows.
fn hidden_by_name(program: &Path, files: &FilePolicy) -> bool {
    files.deny_read.iter().any(|rule| rule.pattern.matches(program))
}

/// In a part of the private home that does not show.
fn in_private_home(program: &Path, files: &FilePolicy, base: &Base) -> Option<String> {
    let mut homes = base.home.iter().chain(&base.other_homes).filter_map(|home| home.canonicalize().ok());
    if files.home != HomeMode::Private || !homes.any(|home| program.starts_with(home)) {
        return None;
    }
    let home = base.home.as_deref()?.canonicalize().ok()?;
    let shown = |path: &Path| match path.strip_prefix(&home) {
        Ok(below) => format!("~/{}", below.display()),
        Err(_) => path.display().to_string(),
    };
    let folder = program.parent().filter(|folder| *folder != home).unwrap_or(program);
    Some(format!(
        "{} is in your home, which is private in this sandbox\nhelp: --allow-read {} shows it",
        shown(program),
        shown(folder)
    ))
}

/// Where the host finds the program, free of links.
fn on_host(command: &Path, cwd: &Path) -> Option<PathBuf> {
    let program = if command.components().count() > 1 || command.has_root() {
        cwd.join(command)
    } else {
        let path = variable("PATH")?;
        std::env::split_paths(path)
            .map(|folder| cwd.join(folder).join(command))
            .find(|file| file.is_file())?
    };
    program.canonicalize().ok().filter(|program| program.is_file())
}

/// What shows by a rule or of a home, more or less: enough to say which of two paths does not.
fn shown<'a>(files: &'a FilePolicy, base: &'a Base, cwd: &Path) -> impl Iterator<Item = PathBuf> + use<'a> {
    let rules = files
        .allow_read
        .iter()
        .chain(&files.allow_write)
        .map(|rule| rule.pattern.literal_prefix().to_path_buf());
    let table = base.home.iter().flat_map(|home| home::shown().iter().map(|entry| entry.place(home)));
    // Where only what is listed can be read, that the command starts somewhere shows nothing.
    let start = (files.reads == ReadModel::Open).then(|| cwd.to_path_buf());
    rules.chain(table).chain(start)
}

/// The interpreter that the first line of a script names.
fn interpreter(program: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    std::fs::File::open(program).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let word = line.split(|byte| byte.is_ascii_whitespace()).next()?;
    Some(String::from_utf8_lossy(word).into_owned().into())
}
