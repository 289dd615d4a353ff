//! Names that mounts hide or keep, watched for what the host puts there meanwhile.
//!
//! The kernel takes a mount off when the host replaces the file below it, and a mount moves along when the host moves
//! the file away. Either way the name leads to something that is not covered. So the folders on the way to each
//! name are watched, and what appears at one of them is covered again ([`super::mender`]), or ends the sandbox.

use std::collections::{BTreeSet, HashSet};
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use kennel_init::plan::{Cover, Covering};
use kennel_policy::policy::OnReplace;

use super::folders::{FolderWatch, Place, Subscriber};
use super::mender::{Mender, Namespaces};
use super::trail::Trails;
use crate::resolve::guard_rules::{Anchor, CoveredName, Rules};
use kennel_policy::outcome::Violation;

/// The covered names of a sandbox that runs.
#[derive(Debug)]
pub struct Covered {
    names: Vec<CoveredName>,
    /// The folders that can be written inside.
    writable: Vec<Arc<Anchor>>,
    on_replace: OnReplace,
    namespaces: Namespaces,
    store: OwnedFd,
    /// There while the names are watched.
    mender: Option<Mender>,
}

/// What a look at covered names found.
#[derive(Debug, Default)]
pub struct Exposure {
    /// What was not covered, and what was done about it.
    pub exposed: Vec<Violation>,
    /// Whether the sandbox has to end for it.
    pub ends: bool,
}

impl Covered {
    /// Gets ready to watch over the names of `rules` in a sandbox with these namespaces, and this store of what hides
    /// things.
    #[must_use]
    pub fn new(rules: Rules, namespaces: Namespaces, store: OwnedFd) -> Covered {
        let Rules { covered: names, on_replace, protected, standing, .. } = rules;
        let anchors = protected.into_iter().chain(standing).map(|path| path.anchor);
        let mut writable: Vec<Arc<Anchor>> = anchors.collect();
        writable.dedup_by(|one, other| one.path == other.path);
        Covered { names, writable, on_replace, namespaces, store, mender: None }
    }

    /// Whether the watches have been placed.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.mender.is_some()
    }

    /// The paths at which whatever comes to stand is hidden.
    #[must_use]
    pub fn hidden(&self) -> HashSet<&Path> {
        let hides = |name: &&CoveredName| name.cover == Cover::Hide && name.mounted.is_none();
        self.names.iter().filter(hides).map(|name| name.path.as_path()).collect()
    }

    /// Places the watches, and covers what the host has replaced since the sandbox was planned. All names are asked about:
    /// a new file may have the number of the old one.
    ///
    /// # Errors
    /// When folders cannot be watched, or a name not be covered.
    pub fn begin(&mut self, watch: &mut FolderWatch) -> io::Result<Exposure> {
        self.mender = Some(Mender::start(&self.namespaces, &self.store)?);
        self.look(watch, &(0..self.names.len()).collect())
    }

    /// Something appeared at these names, or at a folder on the way to them. `None` stands for all.
    ///
    /// # Errors
    /// As [`Covered::begin`].
    pub fn happened(
        &mut self,
        watch: &mut FolderWatch,
        names: Option<&BTreeSet<usize>>,
    ) -> io::Result<Exposure> {
        match names {
            Some(names) => self.look(watch, names),
            None => self.look(watch, &(0..self.names.len()).collect()),
        }
    }

    fn is_writable(&self, path: &Path) -> bool {
        self.writable.iter().any(|anchor| path.starts_with(&anchor.path))
    }

    /// Looks at names, and covers what is not.
    fn look(&self, watch: &mut FolderWatch, which: &BTreeSet<usize>) -> io::Result<Exposure> {
        let started = Instant::now();
        let mut trails = Trails::new(&self.writable);
        let (mut coverings, mut numbers) = (Vec::new(), Vec::new());
        for &number in which {
            let name = &self.names[number];
            let mut places = Vec::new();
            let trail = trails.follow(&name.path, name.follow, |folder, component| {
                let watch = watch.watch(folder)?;
                places.push(Place { watch, name: component.as_bytes().to_vec() });
                Ok(())
            })?;
            watch.place(Subscriber::Covered(number), places);
            // A link that could be replaced from inside is held in its place, as one that was there at the start is.
            let held = trail.links.into_iter().filter(|link| self.is_writable(link));
            let held = held.map(|link| (link, Cover::Keep));
            for (path, cover) in held.chain(trail.end.map(|path| (path, name.cover))) {
                if let Some(target) = name.inside(&path) {
                    let target = CString::new(target.into_os_string().as_encoded_bytes())?;
                    coverings.push(Covering { target, cover });
                    numbers.push(number);
                }
            }
        }
        let Some(mender) = self.mender.as_ref().filter(|_| !coverings.is_empty()) else {
            return Ok(Exposure::default());
        };
        let covered = mender.cover(&coverings)?;
        let after = started.elapsed();
        let exposed = covered.iter().filter_map(|at| {
            let name = &self.names[*numbers.get(*at)?];
            // What is only held in its place hides nothing and keeps nothing by itself.
            (name.cover != Cover::Hold).then(|| Violation::Exposed {
                path: name.path.clone(),
                rule: name.rule.to_string(),
                longest: after,
                times: 1,
            })
        });
        let exposed: Vec<Violation> = exposed.collect();
        let ends = !exposed.is_empty() && self.on_replace == OnReplace::End;
        Ok(Exposure { exposed, ends })
    }
}

impl CoveredName {
    /// Where a path of the host's shows inside; `None` where it does not by this name's mount.
    fn inside(&self, path: &Path) -> Option<PathBuf> {
        match &self.mounted {
            None => Some(path.to_path_buf()),
            Some((source, target)) => Some(target.join(path.strip_prefix(source).ok()?)),
        }
    }
}
