//! A secret whose source may be missing, and one that is part of a variable or a file: what other programs' settings ask for.
//!
//! Whatever is named and cannot be exchanged is withheld: the variable is not set inside, and the file is empty there.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kennel_policy::secrets::{
    AbsentSecret, AuthorityFiles, AwsPolicy, NoMatch, SecretMode, SecretParts, SecretRule, SecretSource,
};
use kennel_proxy::Authority;
use kennel_proxy::secrets::{AwsKey, AwsKeys, Holder, MaskError, Masked, Swap, mask_parts};
use zeroize::Zeroizing;

use super::held::WriteRoots;
use super::source::{Reader, SourceError};
use super::{Read, SecretError, masks};

/// What came of a rule.
pub(super) enum Found<'p> {
    /// A value that has one stand-in.
    Whole(Read<'p>),
    /// A text of which parts have one.
    Parts(&'p SecretRule, Masked),
    /// Its source is not there, or empty.
    Nothing,
    /// The command must not have it, for this reason.
    Withheld(&'p SecretRule, String),
}

impl Found<'_> {
    pub(super) fn swaps(&self) -> Vec<Swap> {
        match self {
            Found::Whole(read) if read.rule.mode == SecretMode::Swap => vec![read.swap()],
            Found::Parts(rule, masked) => {
                let swap = |part: &kennel_proxy::secrets::MaskedPart| Swap {
                    name: rule.name.clone(),
                    stand_in: part.stand_in.clone(),
                    value: part.value.clone(),
                    hosts: rule.hosts.clone(),
                    swap_in: rule.swap_in,
                };
                masked.parts.iter().map(swap).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What stands for it inside.
    pub(super) fn stand_ins(&self) -> Vec<&str> {
        match self {
            Found::Whole(read) if read.rule.mode == SecretMode::Swap => vec![&read.stand_in],
            Found::Parts(_, masked) => masked.parts.iter().map(|part| part.stand_in.as_str()).collect(),
            _ => Vec::new(),
        }
    }

    /// What to tell the user.
    pub(super) fn warning(&self) -> Option<String> {
        let Found::Withheld(rule, why) = self else { return None };
        let fate = match rule.variable {
            Some(_) => "it is not set inside",
            None => "nothing of it is shown inside",
        };
        Some(format!("{}: {} cannot be masked, so {fate}: {why}", rule.origin, rule.name))
    }
}

/// Reads a secret as its rule says.
pub(super) fn find<'p, 'v, V: Fn(&OsStr) -> Option<&'v OsStr>>(
    reader: &Reader<V>,
    rule: &'p SecretRule,
) -> Result<Found<'p>, SecretError> {
    if let Some(parts) = &rule.parts {
        return in_parts(reader, rule, parts);
    }
    let skips = rule.absent == AbsentSecret::Skip;
    match super::secret(reader, rule) {
        Ok(read) => Ok(Found::Whole(read)),
        Err(SecretError::Source { why, .. }) if skips && is_absent(&why) => Ok(Found::Nothing),
        Err(SecretError::Source { why, .. }) if skips => Ok(Found::Withheld(rule, first_line(&why))),
        Err(SecretError::StandIn { why, .. }) if skips => Ok(Found::Withheld(rule, first_line(&why))),
        Err(error) => Err(error),
    }
}

fn in_parts<'p, 'v, V: Fn(&OsStr) -> Option<&'v OsStr>>(
    reader: &Reader<V>,
    rule: &'p SecretRule,
    parts: &SecretParts,
) -> Result<Found<'p>, SecretError> {
    let failed = |why| SecretError::Source { name: rule.name.clone(), from: rule.source.to_string(), why };
    let (text, holder) = match &rule.source {
        SecretSource::Env(name) => match (reader.variable)(name) {
            Some(value) => (Zeroizing::new(value.as_bytes().to_vec()), Holder::Variable),
            None if rule.absent == AbsentSecret::Skip => return Ok(Found::Nothing),
            None => return Err(failed(SourceError::Unset(name.display().to_string()))),
        },
        SecretSource::File(path) => match masks::contents(&reader.roots, path) {
            Ok(Some(contents)) => (contents, Holder::File),
            Ok(None) if rule.absent == AbsentSecret::Skip => return Ok(Found::Nothing),
            Ok(None) => return Err(failed(SourceError::File(io::ErrorKind::NotFound.into()))),
            Err(error) if rule.absent == AbsentSecret::Skip => {
                return Ok(Found::Withheld(rule, error.to_string()));
            }
            Err(error) => return Err(failed(SourceError::File(error))),
        },
        other => {
            let read = reader.read(other).map_err(failed)?;
            (Zeroizing::new(read.expose().to_vec()), Holder::Variable)
        }
    };
    match mask_parts(&text, parts, holder) {
        Ok(masked) => Ok(Found::Parts(rule, masked)),
        Err(MaskError::System(error)) => Err(error.into()),
        Err(_) if text.is_empty() && rule.absent == AbsentSecret::Skip => Ok(Found::Nothing),
        Err(error) => match parts.no_match {
            NoMatch::Error => Err(SecretError::Parts { name: rule.name.clone(), why: error }),
            NoMatch::Withhold => Ok(Found::Withheld(rule, error.to_string())),
        },
    }
}

/// Whether there is nothing that could be told.
fn is_absent(error: &SourceError) -> bool {
    match error {
        SourceError::Unset(_) | SourceError::Empty => true,
        SourceError::File(error) => {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
        _ => false,
    }
}

/// Without what it advises: that is about kennel's own settings.
fn first_line(error: &impl std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// The keys of AWS among the secrets. Of a pair of which a part is missing nothing is signed.
pub(super) fn aws_keys(policy: &AwsPolicy, found: &[Found<'_>]) -> AwsKeys {
    let whole = |name: &str| {
        found.iter().find_map(|one| match one {
            Found::Whole(read) if read.rule.name == name && read.rule.mode == SecretMode::Swap => Some(read),
            _ => None,
        })
    };
    let keys = policy.pairs.iter().filter_map(|pair| {
        let (id, secret) = (whole(&pair.access_key_id)?, whole(&pair.secret_access_key)?);
        let token = pair.session_token.as_deref().and_then(whole);
        Some(AwsKey {
            id_stand_in: id.stand_in.clone(),
            id: id.value.clone(),
            secret: secret.value.clone(),
            session_token: token.map(|token| token.value.clone()),
            hosts: id.rule.hosts.clone(),
        })
    });
    AwsKeys {
        keys: keys.collect(),
        streaming: policy.streaming,
        presigned: policy.presigned,
        sigv4a: policy.sigv4a,
    }
}

/// An authority of the user's own.
pub(super) fn authority(roots: &WriteRoots, files: &AuthorityFiles) -> Result<Authority, SecretError> {
    let failed = |path: &Path, why: String| SecretError::AuthorityFile { path: path.to_path_buf(), why };
    let contents = |path: &Path| match masks::contents(roots, path) {
        Ok(Some(contents)) => Ok(contents),
        Ok(None) => Err(failed(path, "it does not exist".to_owned())),
        Err(error) => Err(failed(path, error.to_string())),
    };
    let (certificate, key) = (contents(&files.certificate)?, contents(&files.key)?);
    let made = Authority::from_pem(&certificate, &key);
    made.map_err(|error| failed(&files.certificate, error.to_string()))
}
