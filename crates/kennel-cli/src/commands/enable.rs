//! `kennel enable` and `kennel disable`: a program's name leads to the program in its profile, in this user's shells.

use std::io;
use std::path::{Path, PathBuf};

use kennel::host::{Finding, State};
use kennel_policy::nearest::nearest;
use kennel_policy::printed::{show, show_lines};
use kennel_policy::profiles::{self, OwnProfiles};

use super::consent::consent;
use super::noted::Noted;
use super::policy::{Lazy, user_profiles};
use super::shims::{self, InPath};
use super::startup_files::{self, StartupFile};
use super::{FAILED, print, say};
use crate::platform;

/// Why nothing was enabled or disabled.
type Failed = String;

/// Enables these names, or lists what is enabled. `drop_ins` are the other programs that kennel answers to.
pub fn enable(names: &[String], yes: bool, drop_ins: &[&str]) -> i32 {
    let homes = Lazy::default();
    let done = match names {
        [] => list(&homes, drop_ins),
        names => add(names, yes, drop_ins, &homes),
    };
    done.unwrap_or_else(|error| fail("enable", &error))
}

/// Disables these names, or all.
pub fn disable(names: &[String]) -> i32 {
    remove(names, &Lazy::default()).unwrap_or_else(|error| fail("disable", &error))
}

fn fail(command: &str, error: &str) -> i32 {
    say(&format!("kennel {command}: {error}"));
    FAILED
}

/// The names that can be enabled: those of profiles that have a program, and of other programs that kennel answers to.
fn known(homes: &Lazy, drop_ins: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = profiles::AGENTS.into_iter().map(str::to_owned).collect();
    let own = user_profiles(homes).names().into_iter();
    names.extend(own.filter(|name| !profiles::NAMES.contains(&name.as_str()) && name != "kennel"));
    names.extend(drop_ins.iter().map(|name| (*name).to_owned()));
    names
}

fn check(names: &[String], homes: &Lazy, drop_ins: &[&str]) -> Result<(), Failed> {
    let known = known(homes, drop_ins);
    let Some(name) = names.iter().find(|name| !known.contains(name)) else { return Ok(()) };
    let shown = show(name.as_bytes());
    let why = match profiles::text(name) {
        Some(_) => format!("profile {shown} is for programs of any name"),
        None => format!("there is no profile for a program called {shown}"),
    };
    let hint = match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None => format!(
            "these can be enabled: {}; a profile of your own in a file kennel/profiles/NAME.toml makes NAME another",
            known.join(", ")
        ),
    };
    Err(format!("{why}\nhelp: {hint}"))
}

/// The folder of the shims, as it can stand in `PATH`.
fn folder(homes: &Lazy) -> Result<PathBuf, Failed> {
    let folder = shims::folder(homes)
        .ok_or("there is no home folder to keep the shims in\nhelp: set HOME to the path of a folder")?;
    let bytes = folder.as_os_str().as_encoded_bytes();
    if bytes.iter().any(|byte| matches!(byte, b':' | b'\n' | b'\r')) {
        let shown = show(bytes);
        return Err(format!("{shown}: a folder in PATH can have no colon and no line end in its name"));
    }
    Ok(folder)
}

/// The folders that shims are in: the present one, the one without `XDG_CONFIG_HOME`, and those in `PATH`. Since they were written,
/// the variable may have changed.
fn folders(homes: &Lazy) -> Result<Vec<PathBuf>, Failed> {
    let mut folders = vec![folder(homes)?];
    let home = homes.base(Path::new("/")).home;
    let in_path = platform::variable("PATH").map(std::env::split_paths).into_iter().flatten();
    for other in home.map(|home| home.join(".config").join(shims::FOLDER)).into_iter().chain(in_path) {
        if other.is_absolute()
            && other.ends_with(shims::FOLDER)
            && !folders.contains(&other)
            && !shims::names(&other).is_empty()
        {
            folders.push(other);
        }
    }
    Ok(folders)
}

/// The notes about start-up files that have the line which leads to a folder of shims.
fn written_from(folder: &Path) -> Noted {
    Noted::at(folder.with_file_name("startup"))
}

fn files(homes: &Lazy, all: bool) -> Vec<StartupFile> {
    let home = homes.base(Path::new("/")).home;
    home.map(|home| startup_files::of_user(&home, all)).unwrap_or_default()
}

fn add(names: &[String], yes: bool, drop_ins: &[&str], homes: &Lazy) -> Result<i32, Failed> {
    if cfg!(windows) {
        return Err(
            "shims are scripts for Unix shells; write kennel run --profile NAME -- NAME here".to_owned()
        );
    }
    if platform::is_inside() {
        return Err("this is a sandbox of kennel's; enable programs outside".to_owned());
    }
    check(names, homes, drop_ins)?;
    let folder = folder(homes)?;
    let kennel = shims::own_path().map_err(|error| format!("finding this program: {error}"))?;
    let mut text = String::new();
    for name in names {
        let what = match drop_ins.contains(&name.as_str()) {
            true => format!("kennel {name}"),
            false => format!("{name}, in profile {name}"),
        };
        text.push_str(&format!("{name} in your shells will be {what}, by {}/{name}.\n", folder.display()));
    }
    let (mut edits, mut by_hand) = (Vec::new(), Vec::new());
    let files = files(homes, false);
    for file in &files {
        match file.read() {
            Ok(found) => {
                if let Some(new) = file.with_line(found.as_ref(), &folder) {
                    let end = if found.is_some() { "will end with" } else { "does not exist, and will hold" };
                    let line = file.line(&folder);
                    let line = String::from_utf8_lossy(&line);
                    text.push_str(&format!("{} {end} this line:\n    {line}\n", file.path.display()));
                    edits.push((file, found, new));
                }
            }
            Err(error) => by_hand.push((file, error)),
        }
    }
    print(&show_lines(&text));
    if !consent("Write that?", yes)? {
        return Err("nothing was written".to_owned());
    }
    for name in names {
        let made = std::fs::create_dir_all(&folder).and_then(|()| {
            platform::write_whole(&folder.join(name), &shims::script(name, &kennel), None, 0o755)
        });
        made.map_err(|error| format!("writing {}/{name}: {error}", folder.display()))?;
    }
    let written = written_from(&folder);
    for (file, found, new) in edits {
        // Where the line is has to be known when the variables that lead there have changed.
        let noted =
            std::path::absolute(&file.path).and_then(|path| written.put(path.as_os_str().as_encoded_bytes()));
        if let Err(error) = noted.and_then(|()| file.write(found.as_ref(), &new)) {
            by_hand.push((file, error));
        }
    }
    for (file, error) in &by_hand {
        let line = file.line(&folder);
        say(&format!(
            "kennel enable: {}: {error}\nhelp: add this line to its end yourself: {}",
            file.path.display(),
            String::from_utf8_lossy(&line)
        ));
    }
    if files.is_empty() {
        say(&format!(
            "kennel: note: no start-up file of bash, zsh or fish was found; have your shell put {} first in PATH",
            folder.display()
        ));
    }
    for name in names {
        note_what_goes_past(name, &files, drop_ins);
    }
    if !shims::is_first(&folder) {
        print(&show_lines(&format!(
            "Shells that you start from now on find {}. `kennel disable` undoes all of this.\n",
            if names.len() == 1 { "it" } else { "them" }
        )));
    }
    Ok(if by_hand.is_empty() { 0 } else { 1 })
}

/// Says what is not there, and what a shell finds before the shim.
fn note_what_goes_past(name: &str, files: &[StartupFile], drop_ins: &[&str]) {
    if !drop_ins.contains(&name) && InPath::find(name).program.is_none() {
        say(&format!("kennel: note: {name} is not in PATH yet; the shim finds it once it is installed"));
    }
    for file in files {
        if let Some(line) = file.alias(name) {
            let path = file.path.display();
            say(&format!(
                "kennel: note: {path}:{line} makes {name} an alias, which goes past kennel; remove it"
            ));
        }
    }
}

fn list(homes: &Lazy, drop_ins: &[&str]) -> Result<i32, Failed> {
    let folder = folder(homes)?;
    let enabled = shims::names(&folder);
    let mut text = String::new();
    for name in &enabled {
        let what = match (drop_ins.contains(&name.as_str()), InPath::find(name).program) {
            (true, _) => format!("kennel {name}"),
            (false, Some(program)) => format!("{}, in profile {name}", program.display()),
            (false, None) => "not in PATH".to_owned(),
        };
        text.push_str(&format!("{name:<20} {what}\n"));
    }
    if enabled.is_empty() {
        text.push_str("Nothing is enabled.\n");
    } else if !shims::is_first(&folder) {
        text.push_str(&format!("\n{}\n", not_first(&folder)));
    }
    let others: Vec<_> = known(homes, drop_ins).into_iter().filter(|name| !enabled.contains(name)).collect();
    text.push_str(&format!("\nCan be enabled: {}\n", others.join(", ")));
    Ok(print(&show_lines(&text)))
}

fn not_first(folder: &Path) -> String {
    format!("{} is not first in this shell's PATH: start a new shell", folder.display())
}

fn remove(names: &[String], homes: &Lazy) -> Result<i32, Failed> {
    let folders = folders(homes)?;
    let all =
        || folders.iter().flat_map(|folder| shims::names(folder).into_iter().map(move |name| (folder, name)));
    let mut enabled: Vec<String> = all().map(|(_, name)| name).collect();
    enabled.sort();
    enabled.dedup();
    if let Some(name) = names.iter().find(|name| !enabled.contains(name)) {
        let shown = show(name.as_bytes());
        let list = if enabled.is_empty() {
            "nothing is".to_owned()
        } else {
            format!("enabled are {}", enabled.join(", "))
        };
        return Err(format!("{shown} is not enabled; {list}"));
    }
    for (folder, name) in all().filter(|(_, name)| names.is_empty() || names.contains(name)) {
        let path = folder.join(name);
        std::fs::remove_file(&path).map_err(|error| format!("removing {}: {error}", path.display()))?;
    }
    enabled.retain(|name| names.is_empty() || names.contains(name));
    let mut text = String::new();
    if !enabled.is_empty() {
        text.push_str(&format!(
            "Disabled: {}. Shells that are open may need `hash -r`.\n",
            enabled.join(", ")
        ));
    }
    let mut code = 0;
    if all().next().is_none() {
        for folder in &folders {
            code = take_out(folder, files(homes, true), !enabled.is_empty(), &mut text).max(code);
        }
    }
    if text.is_empty() {
        text.push_str("Nothing is enabled.\n");
    }
    Ok(print(&show_lines(&text)).max(code))
}

/// Takes the line out of start-up files, and of those that are noted to have it.
fn take_out(folder: &Path, mut files: Vec<StartupFile>, any: bool, text: &mut String) -> i32 {
    let written = written_from(folder);
    for (_, path) in written.all() {
        let path = platform::path_of(path).filter(|path| path.is_absolute());
        if let Some(path) = path.filter(|path| files.iter().all(|file| file.path != *path)) {
            files.push(StartupFile::written(path));
        }
    }
    let mut code = 0;
    for file in files {
        let path = file.path.display();
        match file.take_out() {
            Ok(true) => {
                text.push_str(&format!("Taken out of {path}: the line that `kennel enable` wrote.\n"));
            }
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !any => {}
            Err(error) => {
                say(&format!(
                    "kennel disable: {path}: {error}\nhelp: if the line of `kennel enable` is there, remove it yourself"
                ));
                code = 1;
            }
        }
    }
    if code == 0 {
        written.all().iter().for_each(|(note, _)| drop(std::fs::remove_file(note)));
    }
    // Only if nothing else is there.
    let _ = std::fs::remove_dir(written.folder());
    let _ = std::fs::remove_dir(folder).and_then(|()| folder.parent().map_or(Ok(()), std::fs::remove_dir));
    code
}

/// What `kennel doctor` says about the shims, if there are any.
pub fn finding() -> Option<Finding> {
    let homes = Lazy::default();
    let folder = shims::folder(&homes)?;
    let enabled = shims::names(&folder);
    if enabled.is_empty() || platform::is_inside() {
        return None;
    }
    let past: Vec<String> =
        enabled.iter().filter(|name| InPath::find(name).shim.is_none()).cloned().collect();
    let subject = "shims";
    Some(if past.is_empty() && shims::is_first(&folder) {
        let detail = format!("{} run in their profiles", enabled.join(", "));
        Finding { subject, state: State::Good, detail, remedy: None }
    } else if past.is_empty() {
        let detail = format!("{} is in PATH, but not first", folder.display());
        let remedy = "kennel enable NAME writes the line that puts it there; a new shell reads it".to_owned();
        Finding { subject, state: State::Weaker, detail, remedy: Some(remedy) }
    } else {
        let detail = format!(
            "{} would run without kennel: {} is not before it in PATH",
            past.join(", "),
            folder.display()
        );
        let remedy =
            "start a new shell; if that does not help, kennel enable NAME writes the line for it".to_owned();
        Finding { subject, state: State::Weaker, detail, remedy: Some(remedy) }
    })
}
