//! Links on the way to what is allowed.
//!
//! What a rule allows is what stands at the path that somebody wrote. A symlink on the way may lead elsewhere, and an
//! earlier run may have put it there: `rm -r data; ln -s ~/.ssh data` in one run, and `allow_read data` shows the keys in
//! the next. So no allow follows a link that lies in what the policy lets the command write, or in the folder that the
//! command starts in, where runs with other rules work; links elsewhere are the user's or the system's, and are followed.
//! And whatever the link, what a rule denies stays denied: only a rule that names a part of it opens that part.

use std::path::{Path, PathBuf};

use kennel_policy::pattern::PathPattern;
use kennel_policy::policy::{MountAccess, PathRule, Precedence};

use super::{PathResolver, System};
use crate::disk::{Disk, Found, Way};
use crate::error::{ResolveError, shown, system_error};
use crate::precedence::{List, PathAccess, Reason};

/// Where links may be the work of an earlier run.
#[derive(Default)]
pub(super) struct Reach {
    folders: Vec<PathBuf>,
    globs: Vec<PathPattern>,
}

/// An allow that leads through links.
pub(super) struct Through<'a> {
    list: List,
    rule: &'a PathRule,
    reason: Reason,
    found: Found,
    /// The first link that an earlier run could have made.
    planted: Option<PathBuf>,
}

impl Reach {
    /// Whether a run could have made the link.
    fn holds(&self, disk: &dyn Disk, link: &Path) -> bool {
        let Some(folder) = link.parent() else { return false };
        if disk.is_system_link(link) {
            return false;
        }
        let top = folder.ancestors().filter(|above| {
            self.folders.iter().any(|own| own == above) || self.globs.iter().any(|glob| glob.matches(above))
        });
        // As far as its user may write at all. Who owns a folder may have forbidden it since.
        top.last().is_some_and(|top| {
            let mut way = folder.ancestors().take_while(|above| above.starts_with(top));
            way.any(|above| disk.may_write(above))
        })
    }
}

impl<'a, S: System> PathResolver<'a, S> {
    /// All folders that runs of this policy can write, and those in which they work.
    fn find_reach(&self) -> Reach {
        let (globs, names): (Vec<&PathRule>, Vec<&PathRule>) =
            self.files.allow_write.iter().partition(|rule| rule.pattern.is_glob());
        let names = names.iter().map(|rule| rule.pattern.as_path());
        let mounts = self.files.mounts.iter().filter(|mount| mount.access == MountAccess::ReadWrite);
        // Nobody works in the root as such; there are the system's own links.
        let workdirs = [Some(self.cwd), self.workdir.as_deref()].into_iter().flatten();
        let workdirs = workdirs.filter(|folder| *folder != Path::new("/"));
        let folders = names.chain(mounts.map(|mount| mount.source.as_path())).chain(workdirs);
        let globs = globs.iter().map(|rule| &rule.pattern);
        let globs = globs.filter_map(|glob| Some(glob.moved_to(&self.place(glob.literal_prefix())?)));
        Reach { folders: folders.filter_map(|folder| self.place(folder)).collect(), globs: globs.collect() }
    }

    /// The first link on the way along `path` to `place` that an earlier run could have made.
    ///
    /// # Errors
    /// When the way leads elsewhere by now: a run that goes on meanwhile could swap a link just between two looks.
    fn planted_link(
        &mut self,
        rule: &str,
        path: &Path,
        place: &Path,
    ) -> Result<Option<PathBuf>, ResolveError> {
        let Way { links, end } = self.disk.way(path).map_err(system_error(rule, path))?;
        if end.as_deref() != Some(place) {
            let changed = std::io::Error::other("changed while it was looked at; try again");
            return Err(system_error(rule, path)(changed));
        }
        if links.is_empty() {
            return Ok(None);
        }
        let reach = match self.reach.take() {
            Some(reach) => reach,
            None => self.find_reach(),
        };
        let reach = self.reach.insert(reach);
        Ok(links.into_iter().find(|link| reach.holds(self.disk, link)))
    }

    /// Puts off an allow that leads through links until all others have been said.
    pub(super) fn put_off(
        &mut self,
        list: List,
        rule: &'a PathRule,
        reason: String,
        found: Found,
    ) -> Result<(), ResolveError> {
        let planted = self.planted_link(&reason, rule.pattern.as_path(), &found.path)?;
        self.through.push(Through { list, rule, reason: reason.into(), found, planted });
        Ok(())
    }

    /// Says the allows that lead through links: those whose links nobody inside could have made.
    ///
    /// # Errors
    /// When one leads through a link that somebody inside could have made.
    pub fn say_through_links(&mut self) -> Result<(), ResolveError> {
        let through = std::mem::take(&mut self.through);
        let mut said = Vec::new();
        for through in through {
            let Through { list, rule, reason, found, planted } = &through;
            match planted {
                None => {
                    if *list == List::AllowWrite {
                        self.note_named(rule, found);
                    }
                    self.say(*list, found.clone(), reason.clone());
                    said.push(through);
                }
                // A link to what is open anyway opens nothing.
                Some(_) if self.is_open(*list, &found.path) || rule.lenient => {}
                Some(link) => {
                    let (rule, link, place) = (reason.to_string(), link.clone(), found.path.clone());
                    return Err(ResolveError::PlantedLink { rule, link, place });
                }
            }
        }
        self.through = said;
        Ok(())
    }

    /// Sees to it that no link led an allow around a deny. To be called when all rules have been said. Returns the paths of those
    /// allows that lead through links to what shows.
    ///
    /// # Errors
    /// When one did.
    pub fn check_links_to_denied(&mut self) -> Result<Vec<PathBuf>, ResolveError> {
        let mut followed = Vec::new();
        for Through { list, rule, reason, found, .. } in std::mem::take(&mut self.through) {
            let path = rule.pattern.as_path();
            let Some(deny) = self.denied_behind_link(list, rule, &found.path) else {
                followed.push(path.to_path_buf());
                continue;
            };
            // srt goes by where the folder of the name is: the user's own links lead there, and the last name is no link.
            let names_it = self.files.precedence == Precedence::DenyWrite && !self.disk.is_link(path);
            if rule.lenient && names_it && list == List::AllowRead {
                followed.push(path.to_path_buf());
                continue;
            }
            if rule.lenient {
                let said = self.at(&found.path);
                match list {
                    List::AllowRead => said.allow_read = None,
                    _ => said.allow_write = None,
                }
                continue;
            }
            let link = self.disk.links_on_the_way(path).into_iter().next();
            let link = link.unwrap_or_else(|| path.to_path_buf());
            let (rule, place) = (reason.to_string(), found.path);
            return Err(ResolveError::LinkToDenied { rule, link, place, deny });
        }
        Ok(followed)
    }

    /// Sees to it that each path that the caller himself allows is allowed, where only a profile speaks against it: what he said would
    /// have no effect, without a word. To be called when all rules have been said.
    ///
    /// # Errors
    /// When one has none.
    pub fn check_effects(&self) -> Result<(), ResolveError> {
        let files = self.files;
        let profile_denies = files.deny_read.iter().chain(&files.deny_write).any(|rule| rule.of_profile);
        if !profile_denies {
            return Ok(());
        }
        let lists = [(List::AllowRead, &files.allow_read), (List::AllowWrite, &files.allow_write)];
        let said = lists.into_iter().flat_map(|(list, rules)| rules.iter().map(move |rule| (list, rule)));
        for (list, rule) in
            said.filter(|(_, rule)| !rule.of_profile && !rule.lenient && !rule.pattern.is_glob())
        {
            let path = rule.pattern.as_path();
            let Some(place) = self.place(path) else { continue };
            let (deny, reason) = match self.verdict(&place) {
                PathAccess::Hidden(reason) => (List::DenyRead, reason),
                PathAccess::Host { write: false, reason } if list == List::AllowWrite => {
                    (List::DenyWrite, reason)
                }
                _ => continue,
            };
            let denies = if deny == List::DenyRead { &files.deny_read } else { &files.deny_write };
            let by =
                denies.iter().filter(|rule| rule.of_profile).find(|rule| deny.describe(rule) == **reason);
            let Some(by) = by else { continue };
            let allow = if deny == List::DenyRead { "allow_read" } else { "allow_write" };
            let named = shown(by.pattern.as_path());
            let help = match (by.pattern.is_glob(), deny, list) {
                (_, List::DenyRead, List::AllowWrite) => {
                    format!("what is hidden cannot be written; show it too: `files.allow_read = [\"{}\"]`", shown(path))
                }
                (false, ..) => format!("name it as that rule does: `files.{allow} = [\"{named}\"]`"),
                (true, List::DenyRead, _) => {
                    "`files.precedence = \"deny-write\"` lets what is shown win over what is hidden, where both name it".to_owned()
                }
                (true, ..) => "drop that rule from the profile".to_owned(),
            };
            return Err(ResolveError::NoEffect { rule: list.describe(rule), deny: reason.to_string(), help });
        }
        Ok(())
    }

    /// The deny that a rule would undo at `place` without having named anything in it.
    fn denied_behind_link(&self, list: List, rule: &PathRule, place: &Path) -> Option<String> {
        let matter = |deny: List| deny == List::DenyRead || list == List::AllowWrite;
        // Another rule, nearer than the deny, may have opened it.
        let above = place.parent().unwrap_or(place);
        let open = self.is_open(list, above)
            && self.said.get(place).is_none_or(|said| {
                said.deny_read.is_none() && (list == List::AllowRead || said.deny_write.is_none())
            });
        let denies = self.denied.iter().filter(|_| !open).filter(|(list, ..)| matter(*list));
        let mut denies = denies.filter(|(_, denied, _)| place.starts_with(denied));
        // A glob denies many names; what is named is one of them, and a link to another names that no more than any link does.
        let named = |denied: &Path, deny: &PathRule| {
            let mut matched = rule.pattern.as_path().ancestors().filter(|above| deny.pattern.matches(above));
            matched.any(|above| {
                !deny.pattern.is_glob() || self.is_name_of(above, denied, above == rule.pattern.as_path())
            })
        };
        denies.find(|(_, denied, deny)| !named(denied, deny)).map(|(list, _, deny)| list.describe(deny))
    }

    /// Whether a path is a name of what stands at `place`, whatever links are on the way to its folder; and where it goes on from
    /// there, whether it leads there.
    fn is_name_of(&self, path: &Path, place: &Path, ends: bool) -> bool {
        if !ends && self.place(path).is_some_and(|found| found == place) {
            return true;
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return path == place };
        self.place(folder).is_some_and(|folder| folder.join(name) == place)
    }

    /// Refuses a path that somebody named, if it leads through such a link.
    ///
    /// # Errors
    /// That it does, or leads elsewhere by now.
    pub fn refuse_planted(&mut self, rule: &str, path: &Path, place: &Path) -> Result<(), ResolveError> {
        match self.planted_link(rule, path, place)? {
            None => Ok(()),
            Some(link) => {
                let (rule, place) = (rule.to_owned(), place.to_path_buf());
                Err(ResolveError::PlantedLink { rule, link, place })
            }
        }
    }
}
