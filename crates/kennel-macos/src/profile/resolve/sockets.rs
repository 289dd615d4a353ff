//! Which unix sockets a command can reach or make. File rules do not govern them: Seatbelt judges `connect` and `bind` by path.

use std::path::PathBuf;

use kennel_policy::policy::{Missing, PathRule, Policy, UnixSockets};
use kennel_resolve::disk::{Found, Location};
use kennel_resolve::precedence::List;
use kennel_resolve::walk::{Search, Seen, What, walk};

use super::Resolver;
use crate::profile::error::ResolveError;

/// Which unix sockets can be reached or made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sockets {
    /// None: `socket(AF_UNIX)` fails; `socketpair` works.
    #[default]
    None,
    /// Those that are listed can be connected to, and the command's own in what it can write.
    Listed(Vec<SocketPath>),
    /// All whose path can be read.
    All,
}

/// A socket of the host's that can be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketPath {
    /// Its path, without links.
    pub path: PathBuf,
    /// The rule behind it.
    pub rule: String,
}

impl<'a> Resolver<'a> {
    /// Looks for the listed sockets, and has each show inside where it would be hidden.
    pub(super) fn sockets(&mut self, policy: &'a Policy) -> Result<Sockets, ResolveError> {
        match policy.network.unix_sockets {
            UnixSockets::None => return Ok(Sockets::None),
            UnixSockets::All => return Ok(Sockets::All),
            UnixSockets::Listed => {}
        }
        let mut listed = Vec::new();
        for rule in &policy.network.allow_unix_sockets {
            let reason = format!("allow_unix_sockets {} ({})", rule.pattern, rule.origin);
            if rule.pattern.is_glob() {
                self.matching_sockets(rule, &reason, &mut listed)?;
                continue;
            }
            let path = rule.pattern.as_path();
            if !rule.follow_link && self.disk.is_link(path) {
                continue;
            }
            let location = self.locate(&reason, path)?;
            if let Location::Found(Found { path: place, .. }) | Location::Missing(place) = &location
                && place != path
                && let Err(error) = self.refuse_planted(&reason, path, place)
            {
                if rule.lenient {
                    continue;
                }
                return Err(error);
            }
            match location {
                Location::Found(found) if !self.mac.is_socket(&found.path) => {
                    let path = found.path;
                    return Err(ResolveError::Unfit { rule: reason, path, what: "not a socket" });
                }
                Location::Found(found) => self.listed(found, reason, &mut listed),
                // A daemon that starts later.
                Location::Missing(path) if rule.missing == Missing::Skip => {
                    listed.push(SocketPath { path, rule: reason });
                }
                Location::Missing(path) => return Err(ResolveError::Missing { rule: reason, path }),
                _ if rule.missing == Missing::Skip => {}
                _ => return Err(ResolveError::Forbidden { rule: reason, path: path.to_path_buf() }),
            }
        }
        Ok(Sockets::Listed(listed))
    }

    fn listed(&mut self, found: Found, rule: String, listed: &mut Vec<SocketPath>) {
        listed.push(SocketPath { path: found.path.clone(), rule: rule.clone() });
        self.say(List::AllowRead, found, rule);
    }

    fn matching_sockets(
        &mut self,
        rule: &'a PathRule,
        reason: &str,
        listed: &mut Vec<SocketPath>,
    ) -> Result<(), ResolveError> {
        let pattern = std::borrow::Cow::Borrowed(&rule.pattern);
        let Some(pattern) =
            self.placed(rule, pattern, false, || reason.to_owned(), &mut Default::default())?
        else {
            return Ok(());
        };
        for Seen { path, what } in walk(self.disk, &Search::of(&[&*pattern]))?.seen {
            let found = self.disk.plain(&path).ok().flatten();
            if let (What::Match(_), Some(found)) = (what, found)
                && self.mac.is_socket(&found.path)
            {
                self.listed(found, reason.to_owned(), listed);
            }
        }
        Ok(())
    }
}
