//! Links that a walk comes by: those to folders in which a deny could match something.

use std::ffi::{CStr, OsStr};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use kennel_policy::pattern::{Alive, PatternSet};
use rustix::fs::{Mode, OFlags};

use super::folder::{Opened, Walk};
use super::remote::answers;
use super::{LinkedFolder, Seen, What};
use crate::resolve::locate::{along, path_of};

impl Walk<'_> {
    /// Takes note of a link, if it leads to a folder and a deny goes on behind it. Patterns that have `matched` the link
    /// itself deny the whole folder.
    pub fn note_link(
        &self,
        opened: &Opened,
        name: &CStr,
        alive: &Arc<Alive>,
        matched: &[usize],
        found: &mut Vec<Seen>,
    ) {
        let denies = |pattern: usize| self.search.denies.contains(&pattern) && !matched.contains(&pattern);
        let Some(pattern) =
            PatternSet::places(alive).map(|(pattern, _)| pattern).find(|number| denies(*number))
        else {
            return;
        };
        let link = opened.path.join(OsStr::from_bytes(name.to_bytes()));
        let places = || PatternSet::places(alive).filter(|(pattern, _)| denies(*pattern)).collect::<Vec<_>>();
        if let Some(view) = self.within {
            let behind = view.folder_behind(&link).filter(|folder| *folder != link);
            if let Some(folder) = behind {
                let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
                links.push(LinkedFolder { link, folder, pattern, places: places() });
            }
            return;
        }
        if let Some(silent) = self.silent_mount_behind(&link) {
            // It may hold anything.
            let tell = |(pattern, _)| Seen { path: silent.clone(), what: What::PerhapsBelow(pattern) };
            return found.extend(places().into_iter().map(tell));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // What leads to no folder, or nowhere, has nothing below it.
        let Ok(folder) = rustix::fs::openat(&opened.fd, name, flags, Mode::empty()) else { return };
        let Ok(folder) = path_of(folder.as_fd()) else { return };
        if folder == link {
            return;
        }
        // Most links lead to where the same is looked for anyway.
        let anyway = folder
            .strip_prefix(self.root)
            .is_ok_and(|way| Arc::ptr_eq(&self.patterns.further(&self.at_root, way), alive));
        let places = if anyway { Vec::new() } else { places() };
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.push(LinkedFolder { link, folder, pattern, places });
    }

    /// The mount on the way to where a link leads whose file system does not answer: to open the link would take for ever.
    fn silent_mount_behind(&self, link: &Path) -> Option<PathBuf> {
        if self.remote.is_empty() {
            return None;
        }
        let end = along(link, |here| {
            // A mount point is looked at without asking what is mounted there.
            if !self.remote.contains_key(here) {
                return ControlFlow::Continue(std::fs::read_link(here).ok());
            }
            if answers(self.remote, here) {
                ControlFlow::Continue(None)
            } else {
                ControlFlow::Break(here.to_path_buf())
            }
        });
        end.break_value()
    }
}
