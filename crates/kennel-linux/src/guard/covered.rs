//! Names that mounts hide or keep, watched for what the host puts there meanwhile.
//!
//! The kernel takes a mount off when the host replaces the file below it, and a mount moves along when the host moves
//! the file away. Either way the name leads to something that is not covered, or covered as the rule of another name says. So the
//! folders on the way to each name are watched, and what appears at one of them is covered again ([`super::mender`]), or
//! ends the sandbox. The way starts at a folder that is held ([`super::bases`]).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use kennel_init::plan::{Cover, Covering, FirstLook, Identity};
use kennel_policy::policy::OnReplace;

use super::bases::Bases;
use super::folders::{FolderWatch, Place, Subscriber};
use super::mender::{CoveredNow, Mender, Namespaces};
use super::trail::{Standing, Trails};
use crate::resolve::guard_rules::{Anchor, CoveredName, Rules, ShownInside};
use kennel_policy::outcome::Violation;

/// The covered names of a sandbox that runs.
#[derive(Debug)]
pub struct Covered {
    names: Vec<CoveredName>,
    /// The folders that can be written inside.
    writable: Vec<Arc<Anchor>>,
    shown: ShownInside,
    anchors: Vec<(Arc<Anchor>, Arc<OwnedFd>)>,
    on_replace: OnReplace,
    namespaces: Namespaces,
    store: OwnedFd,
    /// There while the names are watched.
    watching: Option<Watching>,
}

#[derive(Debug)]
struct Watching {
    mender: Mender,
    bases: Bases,
    /// The base of each name.
    of: Vec<usize>,
    mounts: KnownMounts,
}

/// What a look at covered names found.
#[derive(Debug, Default)]
pub struct Exposure {
    /// What was not covered, and what was done about it.
    pub exposed: Vec<Violation>,
    /// Whether the sandbox has to end for it.
    pub ends: bool,
}

/// What happened to covered names.
#[derive(Debug, Default)]
pub struct Changes {
    /// Names that something appeared at, or at a folder on the way to them.
    pub names: BTreeSet<usize>,
    /// Held folders of which the same is true.
    pub bases: BTreeSet<usize>,
}

impl Covered {
    /// Gets ready to watch over the names of `rules` in a sandbox with these namespaces, and this store of what hides
    /// things. `anchors` are the folders that can be written inside.
    #[must_use]
    pub fn new(
        rules: Rules,
        anchors: Vec<(Arc<Anchor>, Arc<OwnedFd>)>,
        namespaces: Namespaces,
        store: OwnedFd,
    ) -> Covered {
        let Rules { covered: names, shown, on_replace, .. } = rules;
        let writable = anchors.iter().map(|(anchor, _)| Arc::clone(anchor)).collect();
        Covered { names, writable, shown, anchors, on_replace, namespaces, store, watching: None }
    }

    /// Whether the watches have been placed.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.watching.is_some()
    }

    /// The paths at which whatever comes to stand is hidden.
    #[must_use]
    pub fn hidden(&self) -> HashSet<&Path> {
        let hides = |name: &&CoveredName| name.cover == Cover::Hide && name.mounted.is_none();
        self.names.iter().filter(hides).map(|name| name.path.as_path()).collect()
    }

    /// Places the watches, and covers what the host has replaced since the sandbox was planned, which was at `since`. All
    /// names are asked about: a new file may have the number of the old one.
    ///
    /// # Errors
    /// When folders cannot be watched or were moved meanwhile, or a name not be covered.
    pub fn begin(&mut self, watch: &mut FolderWatch, since: Instant) -> io::Result<Exposure> {
        let mender = Mender::start(&self.namespaces, &self.store)?;
        let mut bases = Bases::new(&self.names, &std::mem::take(&mut self.anchors))?;
        let held = mender.hold(&bases.for_helper()?)?;
        bases.keep(&held)?;
        let of = self.names.iter().map(|name| bases.around(&name.path, &name.mounted)).collect();
        self.watching = Some(Watching { mender, bases, of, mounts: KnownMounts::default() });
        self.look(watch, None, since, true)
    }

    /// Something appeared at these names, or at a folder on the way to them; not before `since`. `None` stands for all.
    ///
    /// # Errors
    /// As [`Covered::begin`].
    pub fn happened(
        &mut self,
        watch: &mut FolderWatch,
        changes: Option<&Changes>,
        since: Instant,
    ) -> io::Result<Exposure> {
        self.look(watch, changes, since, false)
    }

    /// Looks at names, and covers what is not.
    fn look(
        &mut self,
        watch: &mut FolderWatch,
        changes: Option<&Changes>,
        since: Instant,
        first: bool,
    ) -> io::Result<Exposure> {
        let Some(Watching { mender, bases, of, mounts }) = &mut self.watching else {
            return Ok(Exposure::default());
        };
        let mut which = match changes {
            Some(changes) => changes.names.clone(),
            None => (0..self.names.len()).collect(),
        };
        let moved: Vec<usize> = match changes {
            Some(changes) => changes.bases.iter().copied().collect(),
            None => (1..bases.list().len()).collect(),
        };
        for base in moved {
            let displaced = is_displaced(bases, &self.writable, watch, base)?;
            bases.set_displaced(base, displaced);
            if changes.is_some() {
                let concerned = |name: &usize| lies_in(bases, of[*name], base);
                which.extend((0..self.names.len()).filter(concerned));
            }
        }
        let mut trails = Trails::new(bases, &self.writable);
        let (mut coverings, mut asked) = (Vec::new(), Vec::new());
        for number in which {
            let name = &self.names[number];
            let (mut places, mut base) = (Vec::new(), of[number]);
            loop {
                let rest = bases.rest(base, &name.path);
                let trail = trails.follow(base, rest, name.follow, |folder, component| {
                    let watch = watch.watch(folder)?;
                    places.push(Place { watch, name: component.as_bytes().to_vec() });
                    Ok(())
                })?;
                // A link that could be replaced from inside is held in its place, as one that was there at the start is.
                let held = trail.links.into_iter().filter(|link| trails.is_writable(&link.at));
                let held = held.map(|link| (FirstLook::On(link.file), Cover::Keep, link));
                let end = trail.end.filter(|end| name.concerns(bases, &self.shown, end));
                let end = end.map(|end| (name.first_look(&end), name.cover, end));
                for (look, cover, standing) in held.chain(end) {
                    let Some(target) = name.inside(bases, &standing) else { continue };
                    let target = CString::new(target.into_os_string().into_encoded_bytes())?;
                    let known = mounts.of(number, &standing, cover);
                    let base = bases.list()[standing.at.base].number;
                    let first = if first { look } else { FirstLook::Over };
                    coverings.push(Covering { base, target, cover, known, first });
                    asked.push((number, cover, standing));
                }
                if base == 0 || !bases.list()[base].displaced {
                    break;
                }
                // What stands at its path now bears the name as well.
                base = bases.list()[base].above;
            }
            watch.place(Subscriber::Covered(number), places);
        }
        if coverings.is_empty() {
            return Ok(Exposure::default());
        }
        let covered = mender.cover(&coverings)?;
        let longest = since.elapsed();
        let mut names = BTreeSet::new();
        for CoveredNow { index, mount, again } in covered {
            let Some((number, cover, standing)) = asked.get(index) else { continue };
            mounts.remember(*number, standing, *cover, mount);
            // What is only held in its place hides nothing and keeps nothing by itself.
            if again && self.names[*number].cover != Cover::Hold {
                names.insert(*number);
            }
        }
        let exposed = names.into_iter().map(|number| {
            let CoveredName { path, rule, .. } = &self.names[number];
            Violation::Exposed { path: path.clone(), rule: rule.to_string(), longest, times: 1 }
        });
        let exposed: Vec<Violation> = exposed.collect();
        let ends = !exposed.is_empty() && self.on_replace == OnReplace::End;
        Ok(Exposure { exposed, ends })
    }
}

/// Follows the path of a held folder from the one above it, and watches the way. Whether it leads elsewhere.
fn is_displaced(
    bases: &Bases,
    writable: &[Arc<Anchor>],
    watch: &mut FolderWatch,
    base: usize,
) -> io::Result<bool> {
    let held = &bases.list()[base];
    let mut places = Vec::new();
    let rest = bases.rest(held.above, &held.path);
    let trail = Trails::new(bases, writable).follow(held.above, rest, true, |folder, component| {
        let watch = watch.watch(folder)?;
        places.push(Place { watch, name: component.as_bytes().to_vec() });
        Ok(())
    })?;
    watch.place(Subscriber::Base(base), places);
    Ok(trail.end.is_none_or(|end| end.file != held.identity))
}

/// Whether `inner` is `outer`, or is followed from it.
fn lies_in(bases: &Bases, mut inner: usize, outer: usize) -> bool {
    while inner != 0 && inner != outer {
        inner = bases.list()[inner].above;
    }
    inner == outer
}

impl CoveredName {
    /// Where something that stands at this name shows inside, from its base; `None` where it does not by this name's mount.
    fn inside(&self, bases: &Bases, standing: &Standing) -> Option<PathBuf> {
        let Standing { at, .. } = standing;
        match &self.mounted {
            _ if at.base != 0 => Some(at.path.clone()),
            None => Some(bases.list()[0].path.join(&at.path)),
            Some((source, target)) => {
                Some(target.join(bases.list()[0].path.join(&at.path).strip_prefix(source).ok()?))
            }
        }
    }

    /// Whether something that stands at this name has to be covered by it. A path that leads elsewhere may lead to what cannot be
    /// written, or does not show: no mount was placed there for it, and none is missing.
    fn concerns(&self, bases: &Bases, shown: &ShownInside, standing: &Standing) -> bool {
        if !self.leads {
            return true;
        }
        if self.shown == Some(standing.file) {
            return false;
        }
        let path = bases.list()[standing.at.base].path.join(&standing.at.path);
        match shown.writable(&path) {
            Some(writable) => writable || self.cover == Cover::Hide,
            None => false,
        }
    }

    /// Which mount counts as the one that was placed when the sandbox was set up. What was replaced since then is no longer
    /// what was planned.
    fn first_look(&self, end: &Standing) -> FirstLook {
        match self.planned {
            Some(planned) if planned == end.file => FirstLook::On(planned),
            None if self.cover == Cover::Hide => FirstLook::Own(end.file),
            _ => FirstLook::Over,
        }
    }
}

/// The mounts that were seen to cover names. A mount that is moved to another name with its file is none of that name's.
#[derive(Debug, Default)]
struct KnownMounts {
    at: HashMap<KnownAt, Vec<(u64, Cover)>>,
    /// Where each is listed. The kernel gives a number again before Linux 6.8.
    listed: HashMap<u64, Vec<KnownAt>>,
}

/// What a mount covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum KnownAt {
    /// The covered name with this number, wherever the ways to it lead.
    Name(usize),
    /// A name in a folder, which several rules may be about.
    Folder(Identity, OsString),
}

impl KnownAt {
    fn both(number: usize, standing: &Standing) -> [KnownAt; 2] {
        let (holder, name): (Identity, &OsStr) = standing.name();
        [KnownAt::Name(number), KnownAt::Folder(holder, name.to_owned())]
    }
}

impl KnownMounts {
    /// Those that cover the name with this number, which is this one, at least so much.
    fn of(&self, number: usize, standing: &Standing, cover: Cover) -> Vec<u64> {
        let listed = KnownAt::both(number, standing).into_iter();
        let listed = listed.filter_map(|at| self.at.get(&at)).flatten();
        let mut known: Vec<u64> = listed
            .filter(|(_, covers)| strength(*covers) >= strength(cover))
            .map(|(mount, _)| *mount)
            .collect();
        known.sort_unstable();
        known.dedup();
        known
    }

    fn remember(&mut self, number: usize, standing: &Standing, cover: Cover, mount: u64) {
        let places = KnownAt::both(number, standing);
        for elsewhere in self.listed.remove(&mount).into_iter().flatten() {
            if !places.contains(&elsewhere)
                && let Some(known) = self.at.get_mut(&elsewhere)
            {
                known.retain(|(other, _)| *other != mount);
            }
        }
        for at in &places {
            let known = self.at.entry(at.clone()).or_default();
            match known.iter_mut().find(|(other, _)| *other == mount) {
                Some((_, covers)) if strength(*covers) < strength(cover) => *covers = cover,
                Some(_) => {}
                None => {
                    // Of what was mounted there before, only the last can still stand anywhere.
                    if known.len() >= MAX_KNOWN {
                        self.listed.remove(&known.remove(0).0);
                    }
                    known.push((mount, cover));
                }
            }
        }
        self.listed.insert(mount, places.into());
    }
}

/// More mounts than this of one name are not remembered.
const MAX_KNOWN: usize = 16;

/// How much a cover keeps away.
fn strength(cover: Cover) -> u8 {
    match cover {
        Cover::Hold => 0,
        Cover::Keep => 1,
        Cover::Hide => 2,
    }
}
