//! Work trees: what is called `.git` in a folder and where it leads, where a repository says that its files are, and the
//! programs that configurations name in them.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, RawDir};

use super::aside::{move_entry, part_aside, set_aside};
use super::place::{Beneath, Entry, beneath, is_part_of, may_exist, meant};
use super::repository::{Judge, Read, Repository, read};
use super::signs::{Signs, kind};
use super::{SetAside, What, config, open_folder};
use crate::resolve::folder::OpenFolders;
use crate::resolve::git::config::Named;
use crate::resolve::git::{names, pointer};
use crate::resolve::known::Known;

impl Judge<'_> {
    /// Judges what is called `.git` in a folder. A folder of that name is judged by what is in it, when it is entered.
    pub(super) fn dot_git(
        &self,
        folder: BorrowedFd,
        path: &Path,
        in_git: bool,
        entry: FileType,
        told: &mut Vec<SetAside>,
    ) {
        let entry = if entry == FileType::Unknown { kind(folder, c".git") } else { Some(entry) };
        let place = path.join(".git");
        let known = self.known(&place);
        let away = |what, told: &mut Vec<SetAside>| told.push(set_aside(folder, path, c".git", what));
        match (entry, known) {
            (_, Some(Known::Opened | Known::Unanswering | Known::Whole)) => {}
            (Some(FileType::Directory), Some(Known::Folder(_))) => {}
            (Some(FileType::Symlink), Some(Known::Link)) => {}
            // In a repository's own folder it would make that the work tree, and git would write hooks there itself. (A
            // folder loses its `HEAD` when it is entered.)
            (Some(FileType::RegularFile | FileType::Symlink), None) if in_git => {
                away(What::InRepository, told);
            }
            (Some(FileType::Symlink), _) => away(What::Pointer, told),
            (Some(FileType::RegularFile), known) => {
                let text = read(folder, c".git", pointer::MAX_BYTES);
                let mut same = false;
                if let (Some(Known::Pointer { text: before, leads_to_one }), Read::Text(text)) =
                    (known, &text)
                {
                    same = before == text;
                    if same && *leads_to_one {
                        return;
                    }
                }
                match self.pointer(path, &text) {
                    // It leads where it led.
                    Target::Elsewhere if same => {}
                    Target::Elsewhere => away(What::Pointer, told),
                    Target::Nowhere => {}
                    Target::Repository(target) => self.new_work_tree(path, Some(&target), told),
                }
            }
            (Some(FileType::Directory), _) => self.new_work_tree(path, None, told),
            // Git passes over all else.
            _ => {}
        }
    }

    /// Where a pointer leads.
    pub(super) fn pointer(&self, top: &Path, text: &Read) -> Target {
        let Read::Text(text) = text else { return Target::Elsewhere };
        // Git reads up to the first NUL, and takes what it finds.
        let Some(target) = pointer::gitdir(text) else {
            let odd = text.starts_with(b"gitdir: ") || text.contains(&0);
            return if odd { Target::Elsewhere } else { Target::Nowhere };
        };
        let Some(target) = meant(top, target.as_os_str().as_bytes()) else { return Target::Elsewhere };
        match beneath(self.roots, &target) {
            Beneath::Found(_) => Target::Repository(target),
            Beneath::Missing => Target::Nowhere,
            // A path of the inside's, where a folder is mounted at another place.
            Beneath::Outside if !may_exist(&target) => Target::Nowhere,
            Beneath::Link(_) | Beneath::Outside | Beneath::Failed => Target::Elsewhere,
        }
    }

    /// Looks for programs in a work tree that was not there before, or has another repository now: those that the
    /// caller's own configuration names in every work tree, and those that the repository's does, where it is trusted.
    fn new_work_tree(&self, top: &Path, repository: Option<&Path>, told: &mut Vec<SetAside>) {
        let mut named: Vec<Named> = self.handback.personal.named.clone();
        let mut reference = None;
        if let Some(target) = repository {
            let whole = match target.parent() {
                Some(above) if above.ends_with("worktrees") => above.parent().unwrap_or(target),
                _ => target,
            };
            if let Some(Known::Folder(known)) = self.known(whole) {
                reference = Some(known.top.as_path());
                if let Some(text) = &known.config {
                    let all = names(&OpenFolders::default(), &whole.join("config"), text, top);
                    named.extend(all.into_iter().map(|(named, path, _)| Named { path, ..named }));
                }
            }
        }
        self.programs(top, named.into_iter(), reference, told);
    }

    /// Sets aside what `named` names in the work tree at `top`, unless it is what stands in the work tree `reference`.
    pub(super) fn programs(
        &self,
        top: &Path,
        named: impl Iterator<Item = Named>,
        reference: Option<&Path>,
        told: &mut Vec<SetAside>,
    ) {
        for named in named.filter(|named| !named.is_include()) {
            // A path that is the same in every work tree was kept.
            let relative = named.path.strip_prefix(top).unwrap_or(&named.path);
            if relative.is_absolute() {
                continue;
            }
            let Some(path) = meant(top, without_dots(relative).as_os_str().as_bytes()) else { continue };
            let entry = match beneath(self.roots, &path) {
                Beneath::Found(entry) | Beneath::Link(entry) => entry,
                Beneath::Missing | Beneath::Outside | Beneath::Failed => continue,
            };
            if named.only_a_file && entry.kind == FileType::Directory {
                continue;
            }
            let original = reference.map(|reference| reference.join(relative));
            let same = original.is_some_and(|original| match beneath(self.roots, &original) {
                Beneath::Found(original) => is_part_of(&entry, &original),
                _ => false,
            });
            if same || (entry.kind == FileType::Directory && is_empty(&entry)) {
                continue;
            }
            told.extend(move_entry(&entry, What::Program(named.key)));
        }
    }

    /// Whether a value of `core.worktree` in a submodule's own folder leads to the submodule: to the folder that points
    /// back, or to an empty one, or to none. Elsewhere it has git write where nobody expects it, hooks of another
    /// repository for one.
    pub(super) fn is_its_work_tree(&self, repository: &Path, value: &[u8]) -> bool {
        let Some(tree) = meant(repository, value).filter(|_| is_module(repository)) else { return false };
        if self.is_in_any_repository(&tree) {
            return false;
        }
        match beneath(self.roots, &tree) {
            Beneath::Missing => true,
            Beneath::Found(entry) if entry.kind == FileType::Directory => {
                match read(entry.itself.as_fd(), c".git", pointer::MAX_BYTES) {
                    Read::Missing => is_empty(&entry),
                    text => {
                        matches!(self.pointer(&tree, &text), Target::Repository(back) if back == repository)
                    }
                }
            }
            _ => false,
        }
    }

    /// Whether a path is in a repository's own folder, or is one.
    fn is_in_any_repository(&self, path: &Path) -> bool {
        let is_one = |above: &Path| {
            let called_so = above.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
            let looks_so = || match beneath(self.roots, above) {
                Beneath::Found(entry) if entry.kind == FileType::Directory => {
                    Signs::of(entry.itself.as_fd()).of_a_repository()
                }
                Beneath::Failed => true,
                _ => false,
            };
            called_so || looks_so()
        };
        path.ancestors().any(is_one)
    }

    /// Of a repository that was there before, the work tree has to be where it was: a link in its place leads elsewhere.
    pub(super) fn work_tree(&self, repository: &Repository, told: &mut Vec<SetAside>) {
        let Some(text) = repository.known.and_then(|known| known.config.as_deref()) else { return };
        // Most have none; the word is looked for first.
        if !text.to_ascii_lowercase().windows(8).any(|word| word == b"worktree") {
            return;
        }
        let settings = config::settings(text).unwrap_or_default();
        let moves = |setting: &&config::Setting| setting.key() == "core.worktree";
        for value in settings.iter().filter(moves).filter_map(|setting| setting.value.as_deref()) {
            let Some(tree) = meant(repository.path, value) else { continue };
            match beneath(self.roots, &tree) {
                Beneath::Link(link) => told.extend(move_entry(&link, What::WorkTree)),
                // What it calls so became another repository's own folder.
                Beneath::Found(_) if is_module(repository.path) && self.is_in_any_repository(&tree) => {
                    let known = config::Setting {
                        section: "core".into(),
                        subsection: None,
                        name: "worktree".into(),
                        value: Some(value.to_vec()),
                    };
                    let what = What::Settings(vec![known.key()]);
                    let rest = config::without(text, &known);
                    told.push(part_aside(
                        repository.folder,
                        repository.path,
                        c"config",
                        rest.as_deref(),
                        what,
                    ));
                }
                _ => {}
            }
        }
    }
}

/// Whether a repository's own folder is where those of submodules are.
fn is_module(repository: &Path) -> bool {
    repository.ancestors().skip(1).any(|above| above.ends_with("modules"))
}

/// Where a pointer leads.
pub(super) enum Target {
    /// To a folder within what is looked through, which is judged for itself.
    Repository(PathBuf),
    /// To nothing: git says so and stops.
    Nowhere,
    /// Elsewhere, or it cannot be told.
    Elsewhere,
}

fn is_empty(entry: &Entry) -> bool {
    let Ok(folder) = open_folder(entry.itself.as_fd(), c".") else { return false };
    let mut buffer = Vec::with_capacity(1 << 10);
    let mut entries = RawDir::new(&folder, buffer.spare_capacity_mut());
    while let Some(Ok(entry)) = entries.next() {
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            return false;
        }
    }
    true
}

/// A path without the `.` that people write in front of programs.
fn without_dots(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != std::path::Component::CurDir).collect()
}
