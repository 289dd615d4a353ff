//! What the guard protects, as plain values: built from what was found, without looking at the disk.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kennel_init::plan::{Cover, Identity};
use kennel_policy::policy::OnReplace;

use super::{OWN_SETTINGS, Point, Reason};

/// A folder on the host that the sandbox can write and cannot move: a mount point inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Its path on the host, free of symlinks.
    pub path: PathBuf,
    /// Which folder it is.
    pub identity: Identity,
}

/// A denied path at which there is nothing to mount on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The host's path, free of symlinks.
    pub path: PathBuf,
    /// The rule behind it, in the user's words.
    pub rule: Reason,
}

/// A path below an anchor at which nothing is to come into being.
///
/// All components from the anchor on are kept, those that exist too: the sandbox may rename a folder on the way, and
/// what then stands at the same path is protected in its stead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// Where the path starts.
    pub anchor: Arc<Anchor>,
    /// What follows it; at least one component.
    pub rest: PathBuf,
    /// The rule behind it, in the user's words.
    pub rule: Reason,
}

/// What the guard may take for granted of its sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardAssumptions {
    /// It does not share the host's network.
    pub own_network: bool,
    /// All in it have one root, and no call by which that could change.
    pub one_root: bool,
    /// It has mounts of its own, and not Landlock alone.
    pub own_mounts: bool,
}

/// Calls that fail because of the sandbox are to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// All of them, whatever it costs; otherwise those that write, as far as the guard hears of names anyway.
    pub every_call: bool,
    /// Where what the sandbox may do changes, and why.
    pub points: Arc<[Point]>,
}

/// A name of the host's that a mount covers inside, or would if something stood there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveredName {
    /// Its path on the host. Links on the way are followed each time, because they may lead elsewhere by then.
    pub path: PathBuf,
    /// Whether a link at the end is followed too; otherwise the link itself is covered.
    pub follow: bool,
    /// Where it shows: the source of a mount and its place inside, where the two differ.
    pub mounted: Option<(PathBuf, PathBuf)>,
    /// How it is covered.
    pub cover: Cover,
    /// What shows there by a mount that was planned; `None` where kennel's own shows, or nothing was planned.
    pub planned: Option<Identity>,
    /// Whether the path is one that was written with links or `..`, and leads to another, which may lie anywhere.
    pub leads: bool,
    /// What it led to, where another rule shows that all the same.
    pub shown: Option<Identity>,
    /// The rule behind it, in the user's words.
    pub rule: Reason,
}

/// Where the host's files show inside at their own paths, and whether they can be written there: the paths at which that changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownInside(pub HashMap<PathBuf, Option<bool>>);

impl ShownInside {
    /// Whether what stands at a path can be written; `None` where it is not the host's.
    #[must_use]
    pub fn writable(&self, path: &Path) -> Option<bool> {
        path.ancestors().find_map(|above| self.0.get(above)).copied().unwrap_or(Some(false))
    }
}

/// Whether the filter has to ask the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// There is nothing to ask about.
    No,
    /// Only about names that mounts keep, for the moment in which the host replaces them.
    Better,
    /// The policy could not be kept otherwise.
    Must,
}

/// Everything that the guard watches over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Paths that are to stay absent.
    pub protected: Vec<Protected>,
    /// Paths that are to stay absent in a root that has a layer to write to, as they are seen inside.
    pub in_root: Vec<Finding>,
    /// Paths in what can be written that mounts hide or keep. Nothing is to be made there while the host replaces them.
    pub standing: Vec<Protected>,
    /// All names that mounts hide, keep or hold in their places, and absent ones that are to be hidden when the host
    /// makes them.
    pub covered: Vec<CoveredName>,
    /// What shows inside at the host's own paths, where a covered name leads elsewhere.
    pub shown: ShownInside,
    /// What happens when the host replaces one.
    pub on_replace: OnReplace,
    /// Files that are kept by mounts, and that programs write anew by moving another over them.
    pub rewritten: Vec<Protected>,
    /// Repositories of worktrees: git writes files in their folders, which the guard makes for it.
    pub repositories: Vec<Anchor>,
    /// Which unix sockets can be connected to, where they are listed.
    pub sockets: Option<Sockets>,
    /// Whether the guard is to hear of every name that is made, whatever it is.
    pub hears_names: bool,
    /// The names that programs obey, where they are kept at every depth.
    pub obeyed: Option<ObeyedAnywhere>,
    /// Which calls are looked at to explain why they fail.
    pub explained: Option<Explained>,
}

/// Names that programs obey ([`kennel_policy::dotfiles`]) are not made in folders of the host's that were there before the
/// run. In those that a run makes they may come into being, as a clone's do, and are judged at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObeyedAnywhere {
    /// Folders that a rule opens by their names: what they are called does not count.
    pub opened: Vec<Identity>,
    /// Folders inside that are kept for sandboxes: no program on the host goes by these.
    pub own: Vec<PathBuf>,
    /// The devices of all file systems that the host has mounted: what is on others is the sandbox's own.
    pub host_devices: Vec<u64>,
    /// The rule behind it, in the user's words.
    pub rule: Reason,
}

/// The unix sockets that can be connected to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// The host's.
    pub allowed: Vec<AllowedSocket>,
    /// The devices of all file systems that the host has mounted: sockets on others, in memory, are the sandbox's own.
    pub host_devices: Vec<u64>,
}

/// A socket of the host's that can be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedSocket {
    /// Its path on the host, free of symlinks.
    pub path: PathBuf,
    /// Which file it was when the sandbox was prepared; `None` if there was none.
    pub identity: Option<Identity>,
    /// Whether the sandbox could put another one in its place.
    pub replaceable: bool,
    /// The rule behind it, in the user's words.
    pub rule: String,
}

impl Rules {
    /// The rules for `findings`, given every folder of the host's that shows writable inside, wherever it shows.
    ///
    /// A finding below none of them is left out: nothing can be made there. Of several, the outermost anchors it,
    /// because an inner one can be moved by way of the outer.
    #[must_use]
    pub fn new(findings: &[Finding], writable: &[Arc<Anchor>]) -> Rules {
        Rules { protected: anchored(findings, writable), ..Rules::default() }
    }

    /// The same with files that are kept by mounts, and that programs write anew by moving another over them.
    #[must_use]
    pub fn with_rewritten(self, findings: &[Finding], writable: &[Arc<Anchor>]) -> Rules {
        Rules { rewritten: anchored(findings, writable), ..self }
    }

    /// The same with names that are kept by mounts, in folders that can be written.
    #[must_use]
    pub fn with_standing(self, findings: &[Finding], writable: &[Arc<Anchor>]) -> Rules {
        Rules { standing: anchored(findings, writable), ..self }
    }

    /// Whether there is nothing to do: then no guard runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.asks() == Asks::No && self.covered.is_empty()
    }

    /// The paths that are to stay absent because the policy says so. kennel's own settings are not among them: inside a guarded
    /// sandbox, its guard keeps them as this one would.
    pub fn absent_by_policy(&self) -> impl Iterator<Item = &Protected> {
        self.protected.iter().filter(|absent| absent.rule != OWN_SETTINGS)
    }

    /// Whether the filter has to ask.
    #[must_use]
    pub fn asks(&self) -> Asks {
        match () {
            () if self.absent_by_policy().next().is_some() || !self.in_root.is_empty() => Asks::Must,
            () if !self.rewritten.is_empty() || self.sockets.is_some() => Asks::Must,
            () if self.names() || self.explains_every_call() => Asks::Better,
            () => Asks::No,
        }
    }

    /// Whether all calls that use a path are looked at.
    #[must_use]
    pub fn explains_every_call(&self) -> bool {
        self.explained.as_ref().is_some_and(|explained| explained.every_call)
    }

    /// Whether calls that make a name matter.
    #[must_use]
    pub fn names(&self) -> bool {
        self.hears_names
            || !self.protected.is_empty()
            || !self.in_root.is_empty()
            || !self.rewritten.is_empty()
            || !self.standing.is_empty()
            || !self.repositories.is_empty()
            || self.obeyed.is_some()
    }
}

fn anchored(findings: &[Finding], writable: &[Arc<Anchor>]) -> Vec<Protected> {
    let anchors: HashMap<&OsStr, &Arc<Anchor>> =
        writable.iter().map(|anchor| (anchor.path.as_os_str(), anchor)).collect();
    let mut seen = HashSet::with_capacity(findings.len());
    let mut protected = Vec::new();
    // Many are in the same folder, one after the other.
    let mut last: Option<(&Path, Option<&Arc<Anchor>>)> = None;
    for finding in findings {
        let Some(folder) = finding.path.parent() else { continue };
        let anchor = match last {
            Some((last, anchor)) if last.as_os_str() == folder.as_os_str() => anchor,
            _ => folder.ancestors().filter_map(|above| anchors.get(above.as_os_str()).copied()).last(),
        };
        last = Some((folder, anchor));
        if let Some(anchor) = anchor
            && seen.insert(finding.path.as_os_str())
        {
            let rest = finding.path.strip_prefix(&anchor.path).unwrap_or(&finding.path).to_path_buf();
            protected.push(Protected { anchor: Arc::clone(anchor), rest, rule: finding.rule.clone() });
        }
    }
    protected
}

impl Protected {
    /// The path on the host.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.anchor.path.join(&self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(path: &str) -> Arc<Anchor> {
        Anchor { path: path.into(), identity: Identity::default() }.into()
    }

    fn finding(path: &str) -> Finding {
        Finding { path: path.into(), rule: format!("deny_write {path}").into() }
    }

    #[test]
    fn a_path_is_anchored_at_the_outermost_writable_folder() {
        let rules = Rules::new(
            &[finding("/w/a/b/.git"), finding("/w/a/b/.git"), finding("/elsewhere/.git"), finding("/w")],
            &[anchor("/w/a/b"), anchor("/w"), anchor("/x")],
        );
        assert_eq!(rules.protected.len(), 1);
        assert_eq!(rules.protected[0].anchor.path, Path::new("/w"));
        assert_eq!(rules.protected[0].rest, Path::new("a/b/.git"));
        assert_eq!(rules.protected[0].path(), Path::new("/w/a/b/.git"));
    }

    #[test]
    fn without_a_finding_in_a_writable_folder_there_is_nothing_to_guard() {
        assert!(Rules::new(&[], &[anchor("/w")]).is_empty());
        assert!(Rules::new(&[finding("/elsewhere/.git")], &[anchor("/w")]).is_empty());
        assert!(!Rules::new(&[finding("/w/.git")], &[anchor("/w")]).is_empty());
    }
}
