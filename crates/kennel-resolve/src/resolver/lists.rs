//! What the four lists say of the paths that they name.

use std::borrow::Cow;
use std::path::Path;

use kennel_policy::policy::{Missing, PathRule, Precedence};

use super::{Linked, PathResolver, System};
use crate::disk::{Found, Location, Way, leads_in_circles};
use crate::error::{ResolveError, system_error};
use crate::precedence::List;

/// How a rule comes to name a path.
#[derive(Clone, Copy, PartialEq)]
enum Named {
    Itself,
    /// By what its brackets spell: a glob that denies also denies that, if it is there.
    ByBrackets,
    /// As the folder of `folder/**`, which matches the folder as well: while that is not there, it is kept from being made.
    AsMissingFolder,
}

/// The path that a rule names, and how.
fn name_of(list: List, rule: &PathRule) -> Option<(&PathRule, Cow<'_, Path>, Named)> {
    let pattern = &rule.pattern;
    if !pattern.is_glob() {
        return Some((rule, Cow::Borrowed(pattern.as_path()), Named::Itself));
    }
    if !list.denies() {
        return None;
    }
    if pattern.matches(pattern.literal_prefix()) {
        return Some((rule, Cow::Borrowed(pattern.literal_prefix()), Named::AsMissingFolder));
    }
    let text = pattern.with_brackets_as_text()?;
    let path = Cow::Owned(text.literal_prefix().to_path_buf());
    if !text.is_glob() {
        Some((rule, Cow::Owned(text.as_path().to_path_buf()), Named::ByBrackets))
    } else if text.matches(&path) {
        Some((rule, path, Named::AsMissingFolder))
    } else {
        None
    }
}

impl<'a, S: System> PathResolver<'a, S> {
    /// Says what the rules of a list say, but for their globs.
    ///
    /// # Errors
    /// When a rule cannot be kept.
    pub fn list(&mut self, list: List, rules: &'a [PathRule]) -> Result<(), ResolveError> {
        for (rule, path, named) in rules.iter().filter_map(|rule| name_of(list, rule)) {
            let (path, reason) = (&*path, list.describe(rule));
            if !rule.follow_link && self.disk.is_link(path) {
                continue;
            }
            let location = match self.disk.locate(path) {
                // Links in a circle lead to nothing that could be read.
                Err(error) if rule.lenient && list != List::DenyWrite && leads_in_circles(&error) => continue,
                location => location.map_err(system_error(&reason, path))?,
            };
            // Otherwise it is the glob's to match.
            if named == Named::AsMissingFolder && !matches!(location, Location::Missing(_)) {
                continue;
            }
            let straight = location.place().is_none_or(|place| place == path);
            if !straight && list.denies() {
                self.hold_way(path, list, &reason);
                let (path, rule) = (path.to_path_buf(), reason.clone().into());
                self.linked.push(Linked { path, list, rule });
            }
            // A folder on the way that is a link leads elsewhere just as the last one does.
            if !straight && !rule.follow_link {
                continue;
            }
            if named == Named::ByBrackets && !matches!(location, Location::Found(_)) {
                continue;
            }
            let mut list = list;
            if let Some(place) = location.place() {
                let found = match &location {
                    Location::Found(found) => Some(found),
                    _ => None,
                };
                match S::admit(self, list, rule, &reason, place, found)? {
                    Some(applied) => list = applied,
                    None => continue,
                }
            }
            if !straight && list.denies() {
                S::note_written(self, list, rule, path, &reason);
            }
            match location {
                // One that is only written in a roundabout way leads through none.
                Location::Found(found) if !straight && !list.denies() && !self.goes_round(path, &found) => {
                    self.put_off(list, rule, reason, found)?;
                }
                Location::Found(found) => {
                    if list == List::AllowWrite {
                        self.note_named(rule, &found);
                        self.at(&found.path).shows = self.files.precedence == Precedence::DenyWrite
                            // srt denies the folders in the root one by one, and none of them names the root.
                            && found.path != Path::new("/");
                    }
                    self.say_denied(list, rule, reason, found);
                }
                Location::Missing(path)
                    if list.denies() && matches!(rule.missing, Missing::Skip | Missing::Shared) =>
                {
                    S::note_absent(self, list, path, reason.into(), rule.missing);
                }
                Location::Missing(path) if list == List::AllowWrite && rule.missing.creates() => {
                    S::note_unmade(self, rule, path, reason);
                }
                Location::Forbidden if list.denies() => self.deny_shut_folder(list, rule, reason, path)?,
                _ if rule.missing != Missing::Error => {}
                Location::Missing(path) => return Err(ResolveError::Missing { rule: reason, path }),
                Location::Forbidden => {
                    return Err(ResolveError::Forbidden { rule: reason, path: path.to_path_buf() });
                }
            }
        }
        Ok(())
    }

    /// Whether a path leads to what was found without a link, by way of `..` alone.
    fn goes_round(&self, path: &Path, found: &Found) -> bool {
        let way = self.disk.way(path);
        way.is_ok_and(|Way { links, end }| links.is_empty() && end.as_deref() == Some(&*found.path))
    }

    /// Says what a rule says of what it led to, and remembers it if that is a deny.
    pub(super) fn say_denied(&mut self, list: List, rule: &'a PathRule, reason: String, found: Found) {
        let place = found.path.clone();
        if list.denies() {
            self.denied.push((list, place.clone(), rule));
        }
        self.say(list, found, reason);
        self.note_hidden(rule, &place);
    }

    /// A denied path lies in a folder that the caller may not look into. In somebody else's the command, which is the same user,
    /// may not either. But it could open one of its own, which an earlier run may have shut: that is denied as a whole.
    pub(super) fn deny_shut_folder(
        &mut self,
        list: List,
        rule: &'a PathRule,
        reason: String,
        path: &Path,
    ) -> Result<(), ResolveError> {
        if let Some(folder) = self.disk.shut_folder(path).map_err(system_error(&reason, path))? {
            self.say_denied(list, rule, reason, folder);
        }
        Ok(())
    }
}
