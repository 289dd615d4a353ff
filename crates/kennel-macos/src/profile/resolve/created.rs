//! Folders and files that a rule opens for writing and that do not exist yet.

use std::path::Path;

use kennel_policy::policy::Missing;
use kennel_resolve::disk::{Kind, Location};
use kennel_resolve::precedence::List;

use super::{MissingFolders, Resolver};
use crate::profile::error::ResolveError;

impl Resolver<'_> {
    /// Makes all folders that rules want and that are missing, before any rule is applied.
    pub(super) fn create_missing(&mut self) -> Result<(), ResolveError> {
        let files = self.files;
        let rules = files.allow_write.iter().filter(|rule| rule.missing.creates());
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
            self.mac.create(&place, kind).map_err(|source| ResolveError::NotCreated {
                rule: reason,
                path: place,
                source,
            })?;
        }
        Ok(())
    }
}
