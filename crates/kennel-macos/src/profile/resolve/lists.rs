//! What the entries of the four lists say, path by path.

use std::borrow::Cow;
use std::path::{Component, Path};

use kennel_policy::policy::{Missing, PathRule, Precedence, SearchScope};
use kennel_policy::precedence::List;

use super::locate::{Found, Location, is_link, links_on_the_way, way};
use super::{HeldLink, MissingFolders, Resolver};
use crate::profile::disk::Kind;
use crate::profile::error::{ResolveError, system_error};

/// The path that a rule names, and whether it does so itself: a glob that denies also denies what its brackets spell.
fn name_of(list: List, rule: &PathRule) -> Option<(&PathRule, Cow<'_, Path>, bool)> {
    if !rule.pattern.is_glob() {
        return Some((rule, Cow::Borrowed(rule.pattern.as_path()), true));
    }
    let text = list.denies().then(|| rule.pattern.with_brackets_as_text())??;
    (!text.is_glob()).then(|| (rule, Cow::Owned(text.as_path().to_path_buf()), false))
}

impl<'a> Resolver<'a> {
    pub(super) fn list(&mut self, list: List, rules: &'a [PathRule]) -> Result<(), ResolveError> {
        for (rule, path, named) in rules.iter().filter_map(|rule| name_of(list, rule)) {
            let (path, reason) = (&*path, list.describe(rule));
            if !rule.follow_link && is_link(self.disk, path) {
                continue;
            }
            let way = way(self.disk, path).map_err(system_error(&reason, path))?;
            let location = way.location;
            let straight = match &location {
                Location::Found(Found { path: place, .. }) | Location::Missing(place) => place == path,
                Location::Forbidden(_) | Location::Loop => true,
            };
            if location == Location::Loop {
                // Links in a circle lead to nothing that could be read.
                if rule.lenient && list != List::DenyWrite {
                    continue;
                }
                let (rule, path, what) = (reason, path.to_path_buf(), "its symlinks lead in a circle");
                return Err(ResolveError::Unfit { rule, path, what });
            }
            if !straight && list.denies() {
                self.hold_way(path, &reason);
            }
            // A folder on the way that is a link leads elsewhere just as the last one does.
            if !straight && !rule.follow_link {
                continue;
            }
            let place = match &location {
                Location::Found(found) => Some(found.path.as_path()),
                Location::Missing(path) => Some(path.as_path()),
                Location::Forbidden(_) | Location::Loop => None,
            };
            // What brackets spell besides what they mean is denied if it is there.
            if !named && !matches!(location, Location::Found(_)) {
                continue;
            }
            let mut list = list;
            if let Some(place) = place {
                match self.admit(list, rule, &reason, place)? {
                    Some(applied) => list = applied,
                    None => continue,
                }
            }
            // By the name that was written too: should a link on the way become a folder, the rule is about what is in it.
            // What is only written in a roundabout way has no other name.
            let by_name = path.components().all(|part| part != Component::ParentDir) && !way.links.is_empty();
            if by_name && list.denies() && rule.missing != Missing::Ignore {
                self.say_absent(list, path, reason.clone());
            }
            match location {
                // One that is only written in a roundabout way leads through none.
                Location::Found(found) if !straight && !list.denies() && !way.links.is_empty() => {
                    self.put_off(list, rule, reason, found)?;
                }
                Location::Found(found) => {
                    if list == List::AllowWrite {
                        self.note_named(rule, &found);
                        self.at(&found.path).shows = self.files.precedence == Precedence::DenyWrite;
                    }
                    if list.denies() {
                        self.denied.push((list, found.path.clone(), rule));
                    }
                    let place = found.path.clone();
                    self.say(list, found, reason);
                    self.note_hidden(rule, &place);
                }
                Location::Missing(path)
                    if list.denies() && matches!(rule.missing, Missing::Skip | Missing::Shared) =>
                {
                    self.say_absent(list, &path, reason);
                }
                // A run makes it; this is only a plan.
                Location::Missing(path) if list == List::AllowWrite && rule.missing.creates() => {
                    let kind = if rule.missing == Missing::CreateFile { Kind::File } else { Kind::Folder };
                    let found = Found { path, kind, identity: (0, 0), links: 1 };
                    self.note_named(rule, &found);
                    self.say(list, found, reason);
                }
                Location::Forbidden(folder) if list.denies() => {
                    self.deny_shut_folder(list, rule, reason, folder);
                }
                _ if rule.missing != Missing::Error => {}
                Location::Missing(path) => return Err(ResolveError::Missing { rule: reason, path }),
                Location::Forbidden(_) | Location::Loop => {
                    return Err(ResolveError::Forbidden { rule: reason, path: path.to_path_buf() });
                }
            }
        }
        Ok(())
    }

    /// A denied path lies in a folder that the caller may not look into. In somebody else's the command, which is the same user,
    /// may not either. But it could open one of its own, which an earlier run may have shut: that is denied as a whole.
    pub(super) fn deny_shut_folder(
        &mut self,
        list: List,
        rule: &'a PathRule,
        reason: String,
        folder: Option<Found>,
    ) {
        if let Some(folder) = folder {
            self.denied.push((list, folder.path.clone(), rule));
            let place = folder.path.clone();
            self.say(list, folder, reason);
            self.note_hidden(rule, &place);
        }
    }

    /// Takes note that a rule to which there are no exceptions hides a path.
    pub(super) fn note_hidden(&mut self, rule: &PathRule, path: &Path) {
        if rule.without_exceptions {
            self.at(path).always_hidden = true;
            self.hides_always = true;
        }
    }

    /// Takes note that a rule itself names a place to write.
    pub(super) fn note_named(&mut self, rule: &PathRule, found: &Found) {
        let look = self.named.entry(found.path.clone()).or_insert(rule.look);
        // Of several rules the one that looks most.
        if rule.look == SearchScope::Everywhere {
            *look = SearchScope::Everywhere;
        }
    }

    /// A link on the way to what is denied that is replaced would lead around the rule.
    pub(super) fn hold_way(&mut self, path: &Path, rule: &str) {
        let links = links_on_the_way(self.disk, path).into_iter();
        self.held.extend(links.map(|path| HeldLink { path, rule: rule.to_owned().into() }));
    }

    /// Makes all folders that rules want and that are missing, before any rule is applied.
    pub(super) fn create_missing(&mut self) -> Result<(), ResolveError> {
        let rules = self.files.allow_write.iter().filter(|rule| rule.missing.creates());
        for rule in rules {
            let (path, reason) = (rule.pattern.as_path(), List::AllowWrite.describe(rule));
            let Location::Missing(place) = self.locate(&reason, path)? else { continue };
            // A link that an earlier run made may lead anywhere.
            if place != path {
                self.refuse_planted(&reason, path, &place)?;
            }
            if self.missing_folders == MissingFolders::Plan {
                continue;
            }
            // Nothing is made in the root itself: the home of a user who has none is not there either.
            let above = place.ancestors().skip(1).find(|above| self.disk.look(above).is_ok());
            if above.is_none_or(|above| above == Path::new("/")) {
                return Err(ResolveError::Missing { rule: reason, path: place });
            }
            let kind = if rule.missing == Missing::CreateFile { Kind::File } else { Kind::Folder };
            self.disk.create(&place, kind).map_err(|source| ResolveError::NotCreated {
                rule: reason,
                path: place,
                source,
            })?;
        }
        Ok(())
    }
}
