//! What masked files show: the secret's place in the host's file, with the stand-in; and the rest of it where the policy says so.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kennel_policy::policy::Policy;
use kennel_policy::secrets::{SecretMode, SecretRule};
use kennel_proxy::secrets::Replacements;
use zeroize::Zeroizing;

use super::held::WriteRoots;
use super::parts::Found;
use super::source::LONGEST;
use super::{SecretError, place};

/// The largest file that is masked.
const MAX: u64 = 1 << 20;

/// What each masked file shows.
pub(super) fn masked(
    policy: &Policy,
    roots: &WriteRoots,
    found: &[Found<'_>],
    replacements: &Replacements,
) -> Result<Vec<(PathBuf, Vec<u8>)>, SecretError> {
    let mut shown = Vec::new();
    for path in policy.masked_files() {
        let is_one = |rule: &SecretRule| rule.files.iter().any(|file| file.path == path);
        let in_parts = found.iter().find_map(|one| match one {
            Found::Parts(rule, masked) if is_one(rule) => Some(masked),
            _ => None,
        });
        if let Some(masked) = in_parts {
            // Another secret's value may be in the rest of it.
            shown.push((path.to_path_buf(), replacements.in_text(masked.shown.as_bytes()).0));
            continue;
        }
        let first = found.iter().find_map(|one| match one {
            Found::Whole(read) if is_one(read.rule) => Some(read),
            _ => None,
        });
        // What is withheld shows nothing.
        let Some(first) = first else { continue };
        let failed = |why: io::Error| SecretError::File {
            name: first.rule.name.clone(),
            path: path.to_path_buf(),
            why: why.to_string(),
        };
        // One that is not there stays away.
        let Some(contents) = contents(roots, path).map_err(failed)? else { continue };
        let (mut text, replaced) = replacements.in_text(&contents);
        if replaced == 0 || first.rule.mode == SecretMode::Inject {
            text = match first.rule.mode {
                SecretMode::Inject => first.value.expose().to_vec(),
                SecretMode::Swap => first.stand_in.clone().into_bytes(),
            };
            if contents.ends_with(b"\n") {
                text.push(b'\n');
            }
        } else if !shows_rest(first.rule, path) {
            let stand_ins: Vec<&str> = found.iter().flat_map(Found::stand_ins).collect();
            text = place::of(&text, &stand_ins);
        }
        shown.push((path.to_path_buf(), text));
    }
    Ok(shown)
}

fn shows_rest(rule: &SecretRule, path: &Path) -> bool {
    rule.files.iter().any(|file| file.path == path && file.rest)
}

pub(super) fn contents(roots: &WriteRoots, path: &Path) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let file = match roots.open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if found.len() > MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let room = usize::try_from(found.len()).unwrap_or(0) + 4096;
    let contents =
        super::source::until_end_into(file.as_fd(), Instant::now() + LONGEST, Vec::with_capacity(room))?;
    Ok(Some(Zeroizing::new(contents)))
}
