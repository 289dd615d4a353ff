//! Links on the way to what is allowed: see the Linux resolver's module of the same name for the threat.
//!
//! An earlier run may have put a link where a rule allows something. No allow follows a link that lies in what the policy lets
//! the command write, or in the folder that the command starts in; links elsewhere are the user's or the system's.

use std::path::{Path, PathBuf};

use kennel_policy::pattern::PathPattern;
use kennel_policy::policy::{MountAccess, PathRule};
use kennel_policy::precedence::{List, PathAccess, Reason};

use super::Resolver;
use super::locate::{Found, Location, Way, links_on_the_way, locate, way};
use crate::profile::error::{ResolveError, system_error};

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

impl<'a> Resolver<'a> {
    /// All folders that runs of this policy can write, and those in which they work.
    fn find_reach(&self) -> Reach {
        let (globs, names): (Vec<&PathRule>, Vec<&PathRule>) =
            self.files.allow_write.iter().partition(|rule| rule.pattern.is_glob());
        let names = names.iter().map(|rule| rule.pattern.as_path());
        let mounts = self.files.mounts.iter().filter(|mount| mount.access == MountAccess::ReadWrite);
        let workdirs = [Some(self.around.cwd.as_path()), self.workdir.as_deref()];
        // Nobody works in the root as such; there are the system's own links.
        let workdirs = workdirs.into_iter().flatten().filter(|folder| *folder != Path::new("/"));
        let folders = names.chain(mounts.map(|mount| mount.source.as_path())).chain(workdirs);
        let place = |folder: &Path| match locate(self.disk, folder) {
            Ok(Location::Found(found)) => Some(found.path),
            _ => None,
        };
        let globs = globs.iter().map(|rule| &rule.pattern);
        let globs = globs.filter_map(|glob| Some(glob.moved_to(&place(glob.literal_prefix())?)));
        Reach { folders: folders.filter_map(place).collect(), globs: globs.collect() }
    }

    /// Whether a run could have made the link.
    fn reaches(&mut self, link: &Path) -> bool {
        if self.reach.is_none() {
            self.reach = Some(self.find_reach());
        }
        let (Some(reach), Some(folder)) = (&self.reach, link.parent()) else { return false };
        let top = folder.ancestors().filter(|above| {
            reach.folders.iter().any(|own| own == above) || reach.globs.iter().any(|glob| glob.matches(above))
        });
        // As far as its user may write at all. Who owns a folder may have forbidden it since.
        top.last().is_some_and(|top| {
            let mut way = folder.ancestors().take_while(|above| above.starts_with(top));
            way.any(|above| self.disk.may_write(above))
        })
    }

    /// The first link on the way along `path` that an earlier run could have made.
    fn planted_link(
        &mut self,
        rule: &str,
        path: &Path,
        place: &Path,
    ) -> Result<Option<PathBuf>, ResolveError> {
        let Way { links, location } = way(self.disk, path).map_err(system_error(rule, path))?;
        let end = match &location {
            Location::Found(Found { path, .. }) | Location::Missing(path) => Some(path.as_path()),
            Location::Forbidden(_) | Location::Loop => None,
        };
        if end != Some(place) {
            let changed = std::io::Error::other("changed while it was looked at; try again");
            return Err(system_error(rule, path)(changed));
        }
        Ok(links.into_iter().find(|link| self.reaches(link)))
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
    pub(super) fn say_through_links(&mut self) -> Result<(), ResolveError> {
        let mut said = Vec::new();
        for through in std::mem::take(&mut self.through) {
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

    /// Sees to it that no link led an allow around a deny. To be called when all rules have been said.
    pub(super) fn check_links_to_denied(&mut self) -> Result<(), ResolveError> {
        for Through { list, rule, reason, found, .. } in std::mem::take(&mut self.through) {
            let Some(deny) = self.denied_behind_link(list, rule, &found.path) else { continue };
            if rule.lenient {
                let said = self.at(&found.path);
                match list {
                    List::AllowRead => said.allow_read = None,
                    _ => said.allow_write = None,
                }
                continue;
            }
            let link = links_on_the_way(self.disk, rule.pattern.as_path()).into_iter().next();
            let link = link.unwrap_or_else(|| rule.pattern.as_path().to_owned());
            let (rule, place) = (reason.to_string(), found.path);
            return Err(ResolveError::LinkToDenied { rule, link, place, deny: deny.to_string() });
        }
        Ok(())
    }

    /// The deny that a rule would undo at `place` without having named anything in it.
    fn denied_behind_link(&self, list: List, rule: &PathRule, place: &Path) -> Option<Reason> {
        let matter = |deny: List| deny == List::DenyRead || list == List::AllowWrite;
        // Another rule, nearer than the deny, may have opened it.
        let above = place.parent().unwrap_or(place);
        let open = self.is_open(list, above)
            && self.said.get(place).is_none_or(|said| {
                said.deny_read.is_none() && (list == List::AllowRead || said.deny_write.is_none())
            });
        let denies = self.denied.iter().filter(|_| !open).filter(|(list, ..)| matter(*list));
        let mut denies = denies.filter(|(_, denied, _)| place.starts_with(denied));
        let named =
            |deny: &PathRule| rule.pattern.as_path().ancestors().any(|above| deny.pattern.matches(above));
        denies.find(|(.., deny)| !named(deny)).map(|(list, _, deny)| list.describe(deny).into())
    }

    /// Whether a path has already what an allow gives.
    pub(super) fn is_open(&self, list: List, path: &Path) -> bool {
        match self.verdict(path) {
            PathAccess::Host { write, .. } => write || list == List::AllowRead,
            _ => false,
        }
    }

    /// Refuses a path that somebody named, if it leads through such a link.
    pub(super) fn refuse_planted(
        &mut self,
        rule: &str,
        path: &Path,
        place: &Path,
    ) -> Result<(), ResolveError> {
        match self.planted_link(rule, path, place)? {
            None => Ok(()),
            Some(link) => {
                let (rule, place) = (rule.to_owned(), place.to_path_buf());
                Err(ResolveError::PlantedLink { rule, link, place })
            }
        }
    }
}
