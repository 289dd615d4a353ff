//! Hooks: which of them git would run, and which the caller's own git puts there.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, RawDir, StatxFlags};

use super::open_folder;
use super::repository::{Judge, Read, Repository, name, read};
use super::signs::kind_and_identity;

/// As many entries of a folder of hooks are looked at; one with more is nobody's.
const MAX_HOOKS: usize = 1024;
/// Where git's own template of a repository is, which may hold hooks of the administrator's.
const TEMPLATES: &[&str] = &["/usr/share/git-core/templates", "/usr/local/share/git-core/templates"];

impl Judge<'_> {
    /// The first hook in a repository's own folder that git would run and nobody vouches for.
    pub(super) fn hooks(&self, repository: &Repository) -> Option<String> {
        let Repository { folder, signs, known, .. } = *repository;
        if !signs.hooks || known.is_some_and(|known| known.is_open("hooks")) {
            return None;
        }
        let before = known.and_then(|known| known.hooks);
        let (entry, itself) = kind_and_identity(folder, c"hooks")?;
        match entry {
            FileType::Symlink if before.is_some_and(|(_, link)| link) => return None,
            FileType::Symlink => return Some("(hooks is a link)".to_owned()),
            FileType::Directory if before.is_some_and(|(before, _)| before == itself) => return None,
            FileType::Directory => {}
            _ => return None,
        }
        let Ok(hooks) = open_folder(folder, c"hooks") else {
            return Some("(hooks cannot be read)".to_owned());
        };
        let mut buffer = Vec::with_capacity(8 << 10);
        let mut entries = RawDir::new(&hooks, buffer.spare_capacity_mut());
        let mut left = MAX_HOOKS;
        while let Some(entry) = entries.next() {
            let Ok(entry) = entry else { return Some("(hooks cannot be read)".to_owned()) };
            let hook = entry.file_name();
            let text = hook.to_bytes();
            // What git itself puts there, as an example, and does not run.
            if matches!(text, b"." | b"..") || text.ends_with(b".sample") {
                continue;
            }
            left = left.saturating_sub(1);
            if left == 0 || (runs(hooks.as_fd(), hook) && !self.is_a_template(hooks.as_fd(), hook)) {
                return Some(name(text));
            }
        }
        None
    }

    /// Whether a hook is one that the caller's own git copies into every new repository.
    fn is_a_template(&self, hooks: BorrowedFd, hook: &CStr) -> bool {
        const MAX_BYTES: usize = 1 << 20;
        let Read::Text(text) = read(hooks, hook, MAX_BYTES) else { return false };
        let personal = self.handback.personal.templates.as_deref();
        let folders = TEMPLATES.iter().map(Path::new).chain(personal);
        // One that the sandbox could write is nobody's.
        let mut own = folders.filter(|folder| !self.roots.iter().any(|root| folder.starts_with(&root.path)));
        own.any(|folder| {
            let path = folder.join("hooks").join(name(hook.to_bytes()));
            let template = crate::resolve::folder::read(rustix::fs::CWD, &path, MAX_BYTES);
            template.is_some_and(|template| template == text)
        })
    }
}

/// Whether git would run a hook: it can be executed, by anybody.
fn runs(hooks: BorrowedFd, hook: &CStr) -> bool {
    let quiet = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let Ok(stat) = rustix::fs::statx(hooks, hook, quiet, StatxFlags::TYPE | StatxFlags::MODE) else {
        return true;
    };
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::RegularFile => u32::from(stat.stx_mode) & 0o111 != 0,
        FileType::Symlink => true,
        _ => false,
    }
}
