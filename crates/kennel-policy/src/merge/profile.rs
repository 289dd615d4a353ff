//! The profile that settings build on, and those that it builds on itself.

use crate::nearest::nearest;
use crate::profiles::{self, OwnProfiles};
use crate::settings::{Base, Format, Provenance, Settings, Stated, parse};

use super::{MergeError, overlay};

/// Puts a profile together with all that it builds on. Returns their names as well, the profile's own first.
///
/// A name means the user's own profile, else the built-in one. A profile that builds on its own name means the built-in
/// one by it, so that a user can change `claude` in three lines.
pub(super) fn profile(
    named: Stated<String>,
    base: &Base,
    own: &dyn OwnProfiles,
) -> Result<(Settings, Vec<String>), MergeError> {
    let mut chain: Vec<Settings> = Vec::new();
    // Each is used once, so the chain ends.
    let mut used: Vec<(String, bool)> = Vec::new();
    let mut next = Some(named);
    while let Some(Stated { value: name, origin }) = next {
        let is_new = |is_own| !used.iter().any(|(used, own)| *used == name && *own == is_own);
        let found = match is_new(true) {
            true => own.find(&name).map_err(MergeError::OwnProfile)?,
            false => None,
        };
        let mut settings = match (&found, profiles::text(&name).filter(|_| is_new(false))) {
            (Some(own), _) => parse(&own.text, Format::Toml, Provenance::OwnProfile(&own.file), base)?,
            (None, Some(text)) => parse(text.as_bytes(), Format::Toml, Provenance::Profile(&name), base)?,
            (None, None) if used.iter().any(|(used, _)| *used == name) => {
                let mut names: Vec<String> = used.into_iter().map(|(name, _)| name).collect();
                names.push(name);
                return Err(MergeError::ProfileCycle { origin, names });
            }
            (None, None) => {
                let mut names: Vec<String> = profiles::NAMES.map(str::to_owned).into();
                names.extend(own.names().into_iter().filter(|own| profiles::text(own).is_none()));
                let hint = nearest(&name, names.iter().map(String::as_str)).map(str::to_owned);
                return Err(MergeError::UnknownProfile { name, origin, hint, names });
            }
        };
        used.push((name, found.is_some()));
        next = settings.profile.take();
        chain.push(settings);
    }
    let mut whole = Settings::default();
    for settings in chain.into_iter().rev() {
        overlay(&mut whole, settings);
    }
    Ok((whole, used.into_iter().map(|(name, _)| name).collect()))
}
