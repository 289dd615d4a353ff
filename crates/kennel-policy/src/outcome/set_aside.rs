//! What was taken away at the end of a run, as the caller is told.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Changed;
#[cfg(feature = "serde")]
use super::shown;
use crate::printed::show;

/// As many are listed; a sandbox can make as many as it likes.
const MAX: usize = 256;
/// As much of a path is shown.
const MAX_SHOWN: usize = 1024;

/// All that was done at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct HandedBack {
    /// What was set aside, and what could not be.
    pub list: Vec<SetAside>,
    /// How many more there were.
    pub more: u64,
    /// Whether something that could make git run a program, or that another program obeys, is still there, or may be.
    pub unsafe_left: bool,
    /// Files that programs obey and agents edit, and how they changed.
    pub changed: Vec<Changed>,
    /// How many more changed.
    pub changed_more: u64,
}

impl HandedBack {
    /// Takes one more into the list.
    pub fn add(&mut self, found: SetAside) {
        let failed = found.error.is_some() || matches!(found.what, What::Locked(_));
        self.unsafe_left |= failed;
        // What is still there matters more than what is not.
        if self.list.len() < MAX || (failed && self.list.len() < 2 * MAX) {
            self.list.push(found);
        } else {
            self.more += 1;
        }
    }

    /// Whether nothing had to be done, and nothing is to be told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.changed.is_empty()
    }
}

/// Something that the sandbox left, and that git or another program on the host would have run, or taken commands from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SetAside {
    /// Where it was, on the host.
    #[cfg_attr(feature = "serde", serde(serialize_with = "shown::path"))]
    pub path: PathBuf,
    /// What it was.
    pub what: What,
    /// Where it is now; `None` where it could not be moved.
    #[cfg_attr(feature = "serde", serde(serialize_with = "shown::maybe_path"))]
    pub moved_to: Option<PathBuf>,
    /// The system's error, where it could not be moved or looked at. It is still there then.
    pub error: Option<i32>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum What {
    /// Settings that are not known to be harmless. They were taken out of the configuration; the file as it was is set
    /// aside.
    Settings(Vec<String>),
    /// A configuration that is not written as git writes it, or could not be read.
    Configuration,
    /// A folder of hooks, with one that git would run.
    Hooks(String),
    /// A `commondir` that leads to another repository's configuration.
    CommonDir,
    /// Attributes that name a driver.
    Attributes,
    /// A `.git` that points or leads to a repository elsewhere.
    Pointer,
    /// A `.git` in a repository's own folder.
    InRepository,
    /// The HEAD of a folder that git took for a repository, and why it mattered.
    Head(Box<What>),
    /// Something that a trusted configuration names by this setting, in a new work tree.
    Program(String),
    /// A link in the place of the folder that a trusted configuration calls its work tree.
    WorkTree,
    /// A link in the place of a folder that an index has files of, which leads out of what the command could write.
    LinkedFolder,
    /// A name that git does not make in a repository's own folder.
    Unknown,
    /// Something in a repository's own folder that is no plain file, or no folder, where git makes one: what it is.
    NotPlain(&'static str),
    /// A file there that has another name too. A copy is in its place.
    SecondName,
    /// A file there that git does not write so.
    Contents,
    /// A list of what git does next, with commands of its own. They were taken out; the file as it was is set aside.
    Commands,
    /// An index that git did not write, and why.
    Index(String),
    /// An index by which a checkout makes this folder a repository.
    Embedded(String),
    /// A name that a program obeys: this one.
    Obeyed(&'static str),
    /// A link at a name that a program writes to, this one, which leads out of what the command could write.
    WrittenThrough(&'static str),
    /// A folder that could not be looked through.
    Unseen,
    /// A folder that was not looked through when the time for it was over, and the permissions that it had.
    Locked(u32),
}

impl What {
    /// A word for it, in reports.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            What::Settings(_) => "settings",
            What::Configuration => "configuration",
            What::Hooks(_) => "hooks",
            What::CommonDir => "commondir",
            What::Attributes => "attributes",
            What::Pointer => "pointer",
            What::InRepository => "nested-in-git-folder",
            What::Head(_) => "bare-repository",
            What::Program(_) => "program",
            What::WorkTree => "work-tree",
            What::LinkedFolder => "linked-folder",
            What::Unknown => "unknown-name",
            What::NotPlain(_) => "not-a-plain-file",
            What::SecondName => "second-name",
            What::Contents => "contents",
            What::Commands => "commands",
            What::Index(_) => "index",
            What::Embedded(_) => "embedded-repository",
            What::Obeyed(_) => "obeyed-name",
            What::WrittenThrough(_) => "link",
            What::Unseen => "not-looked-through",
            What::Locked(_) => "locked-away",
        }
    }

    /// The settings that are the reason, if it is settings.
    #[must_use]
    pub fn settings(&self) -> &[String] {
        match self {
            What::Settings(settings) => settings,
            What::Head(what) => what.settings(),
            What::Program(setting) => std::slice::from_ref(setting),
            _ => &[],
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Settings(settings) => {
                // They are a stranger's words.
                let shown: Vec<String> = settings.iter().take(8).map(|key| cut(key.as_bytes(), 80)).collect();
                let more = if settings.len() > shown.len() { " and more" } else { "" };
                write!(f, "git on the host would act on {}{more}", shown.join(", "))
            }
            What::Configuration => {
                f.write_str("kennel cannot read this git configuration, which may name programs to run")
            }
            What::Hooks(name) => write!(f, "git on the host would run the hook {}", cut(name.as_bytes(), 80)),
            What::CommonDir => f.write_str("it leads git to another repository's hooks and configuration"),
            What::Attributes => f.write_str("it names drivers that git on the host may run"),
            What::Pointer => f.write_str("it leads git to a repository that was not checked"),
            What::InRepository => {
                f.write_str("a repository in a repository's own folder lets git on the host write hooks")
            }
            What::Head(what) => write!(f, "git treats this folder as a repository, and {what}"),
            What::Program(setting) => {
                write!(f, "git on the host would run it because of {}", cut(setting.as_bytes(), 80))
            }
            What::WorkTree => f.write_str("a repository's work tree would be elsewhere"),
            What::LinkedFolder => {
                f.write_str("git on the host would remove and write files behind this link")
            }
            What::Unknown => f.write_str("git makes nothing of this name in a repository"),
            What::NotPlain(kind) => write!(f, "it is {kind}, and git makes none there"),
            What::SecondName => {
                f.write_str("this file has another name, and git on the host would write to both")
            }
            What::Contents => f.write_str("its contents are not what git writes there"),
            What::Commands => f.write_str("git on the host would run the commands in it"),
            What::Index(why) => write!(f, "git did not write this index: {}", cut(why.as_bytes(), 160)),
            What::Embedded(folder) => write!(
                f,
                "`git checkout` would make {} a repository, which may name programs",
                cut(folder.as_bytes(), 160)
            ),
            What::Obeyed(by) => write!(f, "{by} would obey it on the host"),
            What::WrittenThrough(by) => write!(f, "{by} would write through this link on the host"),
            What::Unseen => f.write_str("it could not be searched"),
            What::Locked(_) => f.write_str("it was not searched before the time was up"),
        }
    }
}

impl SetAside {
    /// The command that puts it back; `None` if there is nothing to put back, or a name cannot be shown as it is.
    #[must_use]
    pub fn put_back(&self) -> Option<String> {
        if let (What::Locked(mode), None) = (&self.what, self.error) {
            let path = quoted(&self.path)?;
            return match self.moved_to.as_deref() {
                Some(now) => {
                    let now = quoted(now)?;
                    Some(format!("chmod {mode:o} {now} && mv -T {now} {path}"))
                }
                None => Some(format!("chmod {mode:o} {path}")),
            };
        }
        // What only changed places with something is not put back by a move.
        let moved_to = self.moved_to.as_deref().filter(|to| is_aside(to))?;
        let (from, to) = (quoted(moved_to)?, quoted(&self.path)?);
        Some(format!("mv -T {from} {to}"))
    }
}

impl fmt::Display for SetAside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &Path| cut(path.as_os_str().as_encoded_bytes(), MAX_SHOWN);
        let (path, what) = (name(&self.path), &self.what);
        if let Some(error) = self.error {
            let error = io_error(error);
            return match what {
                What::Unseen => write!(
                    f,
                    "{path} could not be searched for git repositories: {error}\n\
                     help: check its contents before you run git there"
                ),
                What::Locked(_) => write!(
                    f,
                    "{path} was not searched for git repositories before the time was up, and could not be locked away: \
                     {error}\nhelp: check its contents before you run git there"
                ),
                What::Obeyed(by) | What::WrittenThrough(by) => write!(
                    f,
                    "{path} could not be set aside: {error}; {what}\n\
                     help: remove it before you use {by} there"
                ),
                _ => write!(
                    f,
                    "{path} could not be set aside: {error}; {what}\n\
                     help: remove it before you run git there"
                ),
            };
        }
        let now = self.moved_to.as_deref().map(name).unwrap_or_default();
        match what {
            What::Settings(_) => {
                write!(f, "took settings out of {path}: {what}; the original file is now {now}")?;
            }
            What::Commands => {
                write!(f, "took commands out of {path}: {what}; the original file is now {now}")?;
            }
            What::Locked(_) if self.moved_to.is_none() => {
                write!(f, "locked {path}: {what}; nobody may enter it")?;
            }
            What::Locked(_) => {
                write!(f, "locked away {path}: {what}; it is now {now}, and nobody may enter it")?;
            }
            What::Index(_) => {
                write!(
                    f,
                    "set aside {path}: {what}; it is now {now}\nhelp: `git reset` makes a new one; the files stay as they are"
                )?;
            }
            What::Embedded(_) => {
                write!(
                    f,
                    "set aside {path}: {what}; it is now {now}\n\
                     help: `git reset` makes a new one; `git config --global safe.bareRepository explicit` has git ignore \
                     such repositories"
                )?;
            }
            _ => write!(f, "set aside {path}: {what}; it is now {now}")?,
        }
        match self.put_back() {
            Some(command) => write!(f, "\nhelp: to put it back: {command}"),
            None => Ok(()),
        }
    }
}

fn io_error(errno: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno)
}

/// A stranger's text, safe to print, and not longer than this.
fn cut(text: &[u8], most: usize) -> String {
    if text.len() <= most {
        return show(text);
    }
    format!("{}…", show(&text[..most]))
}

/// A path as a word for the shell.
fn quoted(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| text.len() <= MAX_SHOWN && show(text.as_bytes()) == **text)?;
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-+:@%,".contains(character);
    if text.chars().all(plain) {
        return Some(text.to_owned());
    }
    Some(format!("'{}'", text.replace('\'', r"'\''")))
}

fn is_aside(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(".set-aside-by-kennel-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(path: &str) -> SetAside {
        SetAside {
            path: path.into(),
            what: What::Settings(vec!["core.fsmonitor".into()]),
            moved_to: Some(format!("{path}.set-aside-by-kennel-1").into()),
            error: None,
        }
    }

    #[test]
    fn it_is_told_with_the_way_back() {
        assert_eq!(
            settings("/w/a b/.git/config").to_string(),
            "took settings out of /w/a b/.git/config: git on the host would act on core.fsmonitor; the original file is \
             now /w/a b/.git/config.set-aside-by-kennel-1\n\
             help: to put it back: mv -T '/w/a b/.git/config.set-aside-by-kennel-1' '/w/a b/.git/config'"
        );
        let failed = SetAside { moved_to: None, error: Some(30), ..settings("/w/config") };
        assert!(failed.to_string().contains("could not be set aside: Read-only file system"), "{failed}");
    }

    #[test]
    fn names_cannot_steer_a_terminal_or_a_shell() {
        let odd = settings("/w/\u{1b}[2J/config");
        assert!(!odd.to_string().contains('\u{1b}') && odd.put_back().is_none(), "{odd}");
        assert_eq!(settings("/w/$(x)'").put_back().unwrap().matches("'\\''").count(), 2);
        assert!(settings(&"x/".repeat(5000)).to_string().len() < 4000);
    }

    #[test]
    fn what_is_listed_is_bounded() {
        let mut all = HandedBack::default();
        (0..1000).for_each(|number| all.add(settings(&format!("/w/{number}"))));
        assert_eq!((all.list.len(), all.more, all.unsafe_left), (256, 744, false));
        all.add(SetAside { error: Some(5), ..settings("/w/x") });
        assert_eq!((all.list.len(), all.unsafe_left), (257, true));
    }
}
