//! A private home: what is known to be needed and to hold no secret shows (`kennel_policy::home`), and what the rules allow; the rest of
//! it is closed, and so are other users' homes. Seatbelt shows nothing in the place of what it closes, so nothing there can be
//! made either, and git's configuration, of which it cannot show a part, stays closed.

use std::path::{Path, PathBuf};

use kennel_policy::home::{self, HomeAccess};
use kennel_policy::policy::HomeMode;
use kennel_resolve::disk::{Kind, Location};
use kennel_resolve::precedence::{List, PathAccess};

use super::{Resolver, Zone};
use crate::profile::error::ResolveError;

/// Where the homes of all users are.
const OTHERS: [&str; 2] = ["/Users", "/var/root"];
const REASON: &str = "the private home";

impl Resolver<'_> {
    /// Closes the homes and shows what the table lists, where the policy asks for that. To be called when all rules have been
    /// said: they win.
    pub(super) fn private_home(&mut self) -> Result<(), ResolveError> {
        if self.files.home != HomeMode::Private {
            return Ok(());
        }
        let homes: Vec<PathBuf> = self.around.homes.clone();
        for path in homes.iter().map(PathBuf::as_path).chain(OTHERS.map(Path::new)) {
            let Location::Found(found) = self.locate(REASON, path)? else { continue };
            let holds_system = found.path.parent().is_none()
                || found.path.starts_with("/usr")
                || found.path.starts_with("/System");
            let hidden = matches!(self.verdict(&found.path), PathAccess::Hidden(_));
            if found.kind == Kind::Folder && !holds_system && !hidden {
                let said = self.at(&found.path);
                said.zone.get_or_insert(Zone::Home);
                said.found.get_or_insert(found);
            }
        }
        let Some(home) = homes.first() else { return Ok(()) };
        let Some(place) = self.canonical(Some(home))? else { return Ok(()) };
        for entry in home::shown() {
            let path = entry.place(home);
            if entry.access == HomeAccess::Hidden {
                self.hide_in_shown(&path, &entry.reason())?;
            }
            if entry.access != HomeAccess::Read {
                continue;
            }
            let Location::Found(found) = self.locate(REASON, &path)? else { continue };
            // Nobody wrote this list; what somebody denied stays denied. A link may lead to the home itself.
            if place.starts_with(&found.path) || matches!(self.verdict(&found.path), PathAccess::Hidden(_)) {
                continue;
            }
            let reason = entry.reason();
            if found.path != path && self.refuse_planted(&reason, &path, &found.path).is_err() {
                continue;
            }
            self.say(List::AllowRead, found, reason);
        }
        Ok(())
    }

    /// Hides what lies in an entry that shows, at a path of which one name may be any. What a rule names stays as that says.
    fn hide_in_shown(&mut self, path: &Path, reason: &str) -> Result<(), ResolveError> {
        let text = path.to_string_lossy().into_owned();
        let places: Vec<PathBuf> = match text.split_once("/*/") {
            None => vec![path.to_path_buf()],
            Some((folder, rest)) => {
                let names = self.disk.list(Path::new(folder)).unwrap_or_default();
                names.into_iter().map(|name| Path::new(folder).join(name).join(rest)).collect()
            }
        };
        for place in places {
            if let Location::Found(found) = self.locate(REASON, &place)?
                && self.said.get(&found.path).is_none_or(|said| said.allow_read.is_none())
            {
                self.say(List::DenyRead, found, reason.to_owned());
            }
        }
        Ok(())
    }
}
