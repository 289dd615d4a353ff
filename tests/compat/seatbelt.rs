//! The same tries under the Seatbelt profile that macOS would get: the settings are resolved on the same tree, and each line of
//! shell is gone through word by word, with the evaluator of profiles in the place of the kernel.
//!
//! A line that does more than to read and write files is passed over. What a Mac refuses though Linux does not is listed with
//! the reason; the other way round is a failure.

use std::path::{Component, Path, PathBuf};

use kennel_macos::evaluator::{Profile as Evaluated, Vnode};
use kennel_macos::profile::{HostDisk, MissingFolders, Network, Surroundings, profile, resolve};
use kennel_policy::codex::{self, Invocation};
use kennel_policy::policy::Policy;
use kennel_policy::settings::Base;
use kennel_policy::srt;

/// Tries that only a Mac refuses.
const STRICTER: &[&str] = &[
    // A folder that is not there on the way to a denied name cannot be made: a prepared one could be moved there.
    "mkdir -p .claude",
    "mkdir .claude",
    // There is no such folder.
    "echo x > /dev/shm/x",
    // Globs that deny hold for what comes later.
    "echo x > no-match-yet && cat no-match-yet",
];

/// The policy of srt's settings.
pub fn policy_of_srt(settings: &str, work: &Path, home: &Path) -> Option<Policy> {
    let base = Base::new(work, Some(home.to_path_buf()));
    let settings = srt::parse(settings.as_bytes(), "settings.json", &base).ok()?;
    let around = srt::SrtContext {
        folder: work.to_path_buf(),
        home: Some(home.to_path_buf()),
        shared_tmp: PathBuf::from("/tmp/claude"),
        ..srt::SrtContext::default()
    };
    Some(settings.policy(&around))
}

/// The policy of Codex's words.
pub fn policy_of_codex(words: &[String], work: &Path, home: &Path, tmpdir: Option<&Path>) -> Option<Policy> {
    let folder = ["--sandbox-policy-cwd".to_owned(), work.to_str()?.to_owned()];
    let words = folder.iter().chain(words).cloned().chain(["--".to_owned(), "true".to_owned()]);
    let Invocation::Run { permissions, policy_folder, .. } =
        codex::command_line(words.map(Into::into)).ok()?
    else {
        return None;
    };
    let (home, tmpdir) = (Some(home.to_path_buf()), tmpdir.map(Path::to_path_buf));
    Some(permissions.policy(&codex::CodexContext { policy_folder, tmpdir, home }))
}

/// A world under its profile.
pub struct Mac {
    profile: Evaluated,
    work: PathBuf,
    top: PathBuf,
}

impl Mac {
    #[track_caller]
    pub fn new(policy: &Policy, top: &Path, work: &Path, home: &Path) -> Option<Mac> {
        let homes = vec![home.to_path_buf()];
        let around = Surroundings { cwd: work.to_path_buf(), homes, ..Surroundings::default() };
        let resolved = resolve(policy, &around, &HostDisk, MissingFolders::Create).ok()?;
        let network = Network::of(&policy.network, &[3128]).ok()?;
        // A name with a line break is refused there.
        let text = profile(&resolved, &network, "kennel-compat").ok()?.text;
        let profile = Evaluated::parse(&text).expect("a profile that was written can be read");
        Some(Mac { profile, work: work.to_path_buf(), top: top.to_path_buf() })
    }

    /// Whether a line of shell works; `None` if it is about more than files.
    pub fn works(&self, line: &str) -> Option<bool> {
        let commands = line.split("&&").map(words).collect::<Option<Vec<_>>>()?;
        for command in commands {
            if !self.command(&command)? {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Compares with what came of the line in kennel's sandbox on Linux.
    #[track_caller]
    pub fn compare(&self, line: &str, on_linux: bool) -> bool {
        match self.works(line) {
            None => return false,
            Some(works) if works == on_linux => {}
            Some(false) if STRICTER.iter().any(|own| line.starts_with(own)) => {}
            Some(works) => panic!("{line}: on a Mac it works: {works}, on Linux: {on_linux}"),
        }
        true
    }

    /// A command of a line, done on the tree if it may be.
    fn command(&self, words: &[String]) -> Option<bool> {
        let redirect = words.iter().position(|word| word == ">" || word == ">>");
        if let Some(at) = redirect {
            let [target] = &words[at + 1..] else { return None };
            let plain = matches!(words[0].as_str(), "echo" | "printf" | ":" | "true") || at == 0;
            return if plain { self.write(target) } else { None };
        }
        let (options, names): (Vec<&String>, Vec<&String>) =
            words[1..].iter().partition(|word| word.starts_with('-') && word.len() > 1);
        let option = |letter: char| options.iter().any(|option| option.contains(letter));
        let all = |each: &dyn Fn(&str) -> Option<bool>| {
            names.iter().try_fold(true, |so_far, name| Some(so_far && each(name)?))
        };
        match (words[0].as_str(), names.as_slice()) {
            ("true" | "echo", _) => Some(true),
            ("cat" | "ls", [_, ..]) => all(&|name| self.read(name)),
            ("test", [name]) if option('s') => {
                Some(self.read(name)? && self.real(name)?.metadata().is_ok_and(|it| it.len() > 0))
            }
            ("mkdir", [_, ..]) => all(&|name| self.make_folder(name, option('p'))),
            ("touch", [_, ..]) => all(&|name| self.write(name)),
            ("chmod", [_, name]) => {
                let path = self.real(name)?;
                Some(path.exists() && self.profile.may_change_metadata(path.to_str()?, vnode(&path)))
            }
            ("rm" | "rmdir", [_, ..]) => all(&|name| self.remove(name, option('f'), option('r'))),
            ("mv", [from, to]) => self.rename(from, to),
            ("ln", [from, to]) if option('s') => {
                let path = self.place(to)?;
                let may = path.symlink_metadata().is_err()
                    && self.profile.may_create(path.to_str()?, Vnode::Symlink);
                Some(may && self.done(&path, |path| std::os::unix::fs::symlink(from, path)))
            }
            ("ln", [from, to]) => {
                let (from, to) = (self.place(from)?, self.place(to)?);
                let may =
                    to.symlink_metadata().is_err() && self.profile.may_link(from.to_str()?, to.to_str()?);
                Some(may && self.done(&to, |to| std::fs::hard_link(&from, to)))
            }
            _ => None,
        }
    }

    /// The path of a name, with the links of its folder followed; `None` where the folder is not there.
    fn place(&self, name: &str) -> Option<PathBuf> {
        let path: PathBuf =
            self.work.join(name).components().filter(|part| *part != Component::CurDir).collect();
        let own = path.file_name()?;
        Some(path.parent()?.canonicalize().ok()?.join(own))
    }

    /// The same with all links followed. What is missing is where it would be.
    fn real(&self, name: &str) -> Option<PathBuf> {
        let place = self.place(name).unwrap_or_else(|| self.work.join(name));
        Some(place.canonicalize().unwrap_or(place))
    }

    fn read(&self, name: &str) -> Option<bool> {
        let path = self.real(name)?;
        Some(path.exists() && self.profile.may_read(path.to_str()?, vnode(&path)))
    }

    fn write(&self, name: &str) -> Option<bool> {
        let Some(place) = self.place(name) else { return Some(false) };
        // A link to nothing: what it names would be made.
        let path = match (place.canonicalize(), std::fs::read_link(&place)) {
            (Ok(path), _) => path,
            (Err(_), Ok(to)) => self.place(place.parent()?.join(to).to_str()?)?,
            (Err(_), Err(_)) => place,
        };
        let text = path.to_str()?;
        if path.is_dir() {
            return Some(false);
        }
        let may = match path.exists() {
            true => self.profile.may_write(text, Vnode::Regular),
            false => self.profile.may_create(text, Vnode::Regular),
        };
        Some(may && self.done(&path, |path| std::fs::write(path, "x\n")))
    }

    fn make_folder(&self, name: &str, with_parents: bool) -> Option<bool> {
        let path = self.work.join(name);
        for folder in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            let Some(place) = self.place(folder.to_str()?) else { continue };
            if place.is_dir() && (folder != path || with_parents) {
                continue;
            }
            let wanted = with_parents || folder == path;
            let may = wanted && !place.exists() && self.profile.may_create(place.to_str()?, Vnode::Directory);
            if !(may && self.done(&place, |place| std::fs::create_dir(place))) {
                return Some(false);
            }
        }
        Some(true)
    }

    fn remove(&self, name: &str, force: bool, all: bool) -> Option<bool> {
        let Some(path) = self.place(name) else { return Some(force) };
        if path.symlink_metadata().is_err() {
            return Some(force);
        }
        if path.is_dir() && !path.is_symlink() {
            for entry in std::fs::read_dir(&path).ok()?.flatten() {
                if !all || !self.remove(entry.path().to_str()?, force, all)? {
                    return Some(false);
                }
            }
        }
        let may = self.profile.may_unlink(path.to_str()?, vnode(&path));
        let remove = |path: &Path| {
            if path.is_dir() && !path.is_symlink() {
                std::fs::remove_dir(path)
            } else {
                std::fs::remove_file(path)
            }
        };
        Some(may && self.done(&path, remove))
    }

    fn rename(&self, from: &str, to: &str) -> Option<bool> {
        let (Some(from), Some(mut to)) = (self.place(from), self.place(to)) else { return Some(false) };
        if to.is_dir() {
            to = to.canonicalize().ok()?.join(from.file_name()?);
        }
        let (replaces, vnode) = (to.symlink_metadata().is_ok(), vnode(&from));
        let may = from.symlink_metadata().is_ok()
            && self.profile.may_rename(from.to_str()?, to.to_str()?, vnode, replaces);
        Some(may && self.done(&to, |to| std::fs::rename(&from, to)))
    }

    /// Does it, in the world; what is elsewhere is only said to work.
    fn done(&self, path: &Path, act: impl FnOnce(&Path) -> std::io::Result<()>) -> bool {
        !path.starts_with(&self.top) || act(path).is_ok()
    }
}

fn vnode(path: &Path) -> Vnode {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => Vnode::Directory,
        Ok(found) if found.is_symlink() => Vnode::Symlink,
        _ => Vnode::Regular,
    }
}

/// The words of a command without expansions; `None` where the shell would do more.
fn words(command: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut rest) = (Vec::new(), None::<String>, command.chars());
    while let Some(character) = rest.next() {
        match character {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        character => word.push(character),
                    }
                }
            }
            '"' | '$' | '`' | ';' | '|' | '&' | '(' | ')' | '{' | '}' | '*' | '?' | '~' | '<' | '\\'
            | '\n' | '!' | '[' | '#' => {
                return None;
            }
            '>' => {
                words.extend(word.take());
                let append = rest.as_str().starts_with('>');
                words.push(if append { ">>" } else { ">" }.to_owned());
                if append {
                    rest.next();
                }
            }
            character => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    (!words.is_empty()).then_some(words)
}
