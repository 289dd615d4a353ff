//! What the guard protects, as plain values: built from what [`crate::resolve`] found, without looking at the disk.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use kennel_init::plan::Identity;

/// A folder on the host that the sandbox can write and cannot move: a mount point inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Its path on the host, free of symlinks.
    pub path: PathBuf,
    /// Which folder it is.
    pub identity: Identity,
}

/// A denied path that offers nothing to mount on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The host's path, free of symlinks up to its last component.
    pub path: PathBuf,
    /// Whether a symlink stands there, which the sandbox could replace; otherwise nothing does.
    pub link: bool,
    /// The rule behind it, in the user's words.
    pub rule: String,
}

/// What stands at a protected path when the sandbox starts, and is to stand there when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing.
    Absent,
    /// A symlink.
    Link,
}

/// A path below an anchor that is to stay as it is.
///
/// All components from the anchor on are kept, those that exist too: the sandbox may rename a folder on the way, and
/// what then stands at the same path is protected in its stead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// Where the path starts.
    pub anchor: Anchor,
    /// The components below it; at least one.
    pub rest: Vec<OsString>,
    /// What is to be there.
    pub expected: Expected,
    /// The rule behind it, in the user's words.
    pub rule: String,
}

/// Everything that the guard watches over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Paths that are to stay as they are.
    pub protected: Vec<Protected>,
}

impl Rules {
    /// The rules for `findings`, given every folder of the host's that shows writable inside, wherever it shows.
    ///
    /// A finding below none of them is left out: nothing can be made there. Of several, the outermost anchors it,
    /// because an inner one can be moved by way of the outer.
    #[must_use]
    pub fn new(findings: &[Finding], writable: &[Anchor]) -> Rules {
        let mut protected: Vec<Protected> = Vec::new();
        for finding in findings {
            let outermost = writable
                .iter()
                .filter(|anchor| finding.path.starts_with(&anchor.path) && finding.path != anchor.path)
                .min_by_key(|anchor| anchor.path.as_os_str().len());
            let Some(anchor) = outermost else { continue };
            let rest: Vec<OsString> = components(&finding.path, &anchor.path).map(OsStr::to_owned).collect();
            if rest.is_empty() || protected.iter().any(|old| old.anchor == *anchor && old.rest == rest) {
                continue;
            }
            protected.push(Protected {
                anchor: anchor.clone(),
                rest,
                expected: if finding.link { Expected::Link } else { Expected::Absent },
                rule: finding.rule.clone(),
            });
        }
        Rules { protected }
    }

    /// Whether there is nothing to do: then no filter notifies and no guard runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.protected.is_empty()
    }

    pub(super) fn has_links(&self) -> bool {
        self.protected.iter().any(|protected| protected.expected == Expected::Link)
    }
}

impl Protected {
    /// The path on the host.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.anchor.path.join(self.rest.iter().collect::<PathBuf>())
    }
}

fn components<'a>(path: &'a Path, above: &Path) -> impl Iterator<Item = &'a OsStr> {
    path.strip_prefix(above).unwrap_or(path).components().map(|component| component.as_os_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(path: &str) -> Anchor {
        Anchor { path: path.into(), identity: Identity::default() }
    }

    fn finding(path: &str) -> Finding {
        Finding { path: path.into(), link: false, rule: format!("deny_write {path}") }
    }

    #[test]
    fn a_path_is_anchored_at_the_outermost_writable_folder() {
        let rules = Rules::new(
            &[finding("/w/a/b/.git"), finding("/w/a/b/.git"), finding("/elsewhere/.git"), finding("/w")],
            &[anchor("/w/a/b"), anchor("/w"), anchor("/x")],
        );
        assert_eq!(rules.protected.len(), 1);
        assert_eq!(rules.protected[0].anchor.path, Path::new("/w"));
        assert_eq!(rules.protected[0].rest, ["a", "b", ".git"]);
        assert_eq!(rules.protected[0].path(), Path::new("/w/a/b/.git"));
    }

    #[test]
    fn without_a_finding_in_a_writable_folder_there_is_nothing_to_guard() {
        assert!(Rules::new(&[], &[anchor("/w")]).is_empty());
        assert!(Rules::new(&[finding("/elsewhere/.git")], &[anchor("/w")]).is_empty());
        assert!(!Rules::new(&[finding("/w/.git")], &[anchor("/w")]).is_empty());
    }
}
