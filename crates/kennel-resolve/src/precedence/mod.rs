//! Which of the rules on a path decides. Pure, and the same on every system: a resolver finds out what the rules name on its
//! disk, notes it here, and asks what holds.
//!
//! The most specific rule wins, at a tie the deny, and a rule about writing never shows what is hidden from reading; or, under
//! [`Precedence::DenyWrite`], what srt makes of the same lists.

mod tree;

use std::borrow::Cow;
use std::path::Path;

use kennel_policy::policy::{PathRule, Precedence};
use kennel_policy::printed::show;
pub use tree::{Tree, key};

/// The rule behind something, in the user's words. In a workspace of hundreds of repositories most are the same few.
pub type Reason = Cow<'static, str>;

/// The four lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// `deny_read`
    DenyRead,
    /// `allow_read`
    AllowRead,
    /// `allow_write`
    AllowWrite,
    /// `deny_write`
    DenyWrite,
}

impl List {
    /// Its key in the settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            List::DenyRead => "deny_read",
            List::AllowRead => "allow_read",
            List::AllowWrite => "allow_write",
            List::DenyWrite => "deny_write",
        }
    }

    /// Whether it takes something away.
    #[must_use]
    pub fn denies(self) -> bool {
        matches!(self, List::DenyRead | List::DenyWrite)
    }

    /// The list that says the contrary.
    #[must_use]
    pub fn opposite(self) -> List {
        match self {
            List::DenyRead => List::AllowRead,
            List::AllowRead => List::DenyRead,
            List::AllowWrite => List::DenyWrite,
            List::DenyWrite => List::AllowWrite,
        }
    }

    /// A rule of this list, in the user's words.
    #[must_use]
    pub fn describe(self, rule: &PathRule) -> String {
        let path = show(rule.pattern.as_path().as_os_str().as_encoded_bytes());
        format!("{} {path} ({})", self.name(), rule.origin)
    }
}

/// A part of the tree that a system provides anew.
pub trait Zone: Copy {
    /// Whether nothing in it can be written, whatever is allowed around it.
    fn is_read_only(self) -> bool;
}

/// What a system found at a path.
pub trait Found {
    /// Whether it is a folder.
    fn is_folder(&self) -> bool;
}

/// What the rules say of one path.
#[derive(Clone, Debug)]
pub struct PathRules<Z, F> {
    /// The rule that hides it.
    pub deny_read: Option<Reason>,
    /// The rule that shows it.
    pub allow_read: Option<Reason>,
    /// The rule that opens it for writing.
    pub allow_write: Option<Reason>,
    /// The rule that keeps it as it is.
    pub deny_write: Option<Reason>,
    /// Denied for reading without exceptions, with everything below.
    pub always_hidden: bool,
    /// Named to be written, which under [`Precedence::DenyWrite`] shows it in a hidden folder.
    pub shows: bool,
    /// Shown inside because the command starts there.
    pub workdir: bool,
    /// What the system provides here.
    pub zone: Option<Z>,
    /// What was found here.
    pub found: Option<F>,
    /// Whether this is only another path to a file that is denied under its own.
    pub second_path: bool,
}

impl<Z, F> Default for PathRules<Z, F> {
    fn default() -> Self {
        PathRules {
            deny_read: None,
            allow_read: None,
            allow_write: None,
            deny_write: None,
            always_hidden: false,
            shows: false,
            workdir: false,
            zone: None,
            found: None,
            second_path: false,
        }
    }
}

static WORKDIR: Reason = Reason::Borrowed("the working directory");
static READABLE: Reason = Reason::Borrowed("everything is readable by default");

/// What holds at a path, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathAccess<'a, Z> {
    /// It is hidden, by this rule.
    Hidden(&'a Reason),
    /// It is what the system provides.
    Fresh(Z),
    /// It is the host's.
    Host {
        /// Whether it can be written.
        write: bool,
        /// Why.
        reason: &'a Reason,
    },
}

impl<Z: Zone, F: Found> Tree<PathRules<Z, F>> {
    /// What holds at `path`: the first rule on the way up that decides.
    #[must_use]
    pub fn access(&self, path: &Path, precedence: Precedence, hides_always: bool) -> PathAccess<'_, Z> {
        let mut opened = false;
        let mut read = None;
        if hides_always {
            let hidden = |said: &&PathRules<Z, F>| said.always_hidden;
            let rule = self.upwards(path).filter(hidden).find_map(|said| said.deny_read.as_ref());
            if let Some(rule) = rule {
                return PathAccess::Hidden(rule);
            }
        }
        for said in self.upwards(path) {
            // A file that is denied is shown only by a rule that is about reading it.
            let folder = || said.found.as_ref().is_some_and(Found::is_folder);
            let tie = precedence == Precedence::DenyWrite
                && (said.allow_read.is_some() || (said.shows && folder()));
            if let Some(rule) = said.deny_read.as_ref().filter(|_| !tie) {
                return PathAccess::Hidden(rule);
            }
            if let Some(rule) = &said.allow_read {
                read = Some(rule);
                break;
            }
            if said.shows {
                break;
            }
            opened |= said.allow_write.is_some() || said.workdir;
            if let Some(zone) = said.zone.filter(|_| !opened) {
                return PathAccess::Fresh(zone);
            }
        }
        let mut allowed = None;
        for said in self.upwards(path) {
            if let Some(rule) = &said.deny_write {
                return PathAccess::Host { write: false, reason: rule };
            }
            if said.zone.is_some_and(Zone::is_read_only) {
                break;
            }
            if let (None, Some(rule)) = (&allowed, &said.allow_write) {
                allowed = Some(rule);
                if precedence == Precedence::Specific {
                    break;
                }
            }
        }
        if let Some(rule) = allowed {
            return PathAccess::Host { write: true, reason: rule };
        }
        let reason = read.unwrap_or_else(|| {
            let workdir = self.get(path).is_some_and(|said| said.workdir);
            if workdir { &WORKDIR } else { &READABLE }
        });
        PathAccess::Host { write: false, reason }
    }
}

impl<Z, F> Tree<PathRules<Z, F>> {
    /// Notes what a rule says of something that was found at `path`. The first rule of a list is the one that is told.
    pub fn say(&mut self, list: List, path: &Path, found: F, reason: impl Into<Reason>) {
        let said = self.at(path);
        let slot = match list {
            List::DenyRead => &mut said.deny_read,
            List::AllowRead => &mut said.allow_read,
            List::AllowWrite => &mut said.allow_write,
            List::DenyWrite => &mut said.deny_write,
        };
        slot.get_or_insert_with(|| reason.into());
        said.found = Some(found);
    }

    /// Whether `path` already has what `list` gives, with no rule of another list in between.
    #[must_use]
    pub fn covered(&self, list: List, path: &Path) -> bool {
        self.upwards(path).next().is_some_and(|said| match list {
            List::DenyRead => said.deny_read.is_some(),
            List::AllowRead => said.allow_read.is_some() && said.deny_read.is_none(),
            List::AllowWrite => said.allow_write.is_some() && said.deny_write.is_none(),
            List::DenyWrite => said.deny_write.is_some(),
        })
    }

    /// Whether a rule of the opposite list names this very path.
    #[must_use]
    pub fn is_opposed(&self, list: List, path: &Path) -> bool {
        self.get(path).is_some_and(|said| match list.opposite() {
            List::DenyRead => said.deny_read.is_some(),
            List::AllowRead => said.allow_read.is_some() || said.shows,
            List::AllowWrite => said.allow_write.is_some(),
            List::DenyWrite => said.deny_write.is_some(),
        })
    }
}
