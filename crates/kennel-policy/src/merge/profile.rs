//! The profiles that settings build on, and those that these build on themselves.
//!
//! Several add up: what each of them lists holds, and what they say differently is a contradiction, unless one builds on the other or a
//! stronger source decides.

use std::ffi::OsString;

use crate::nearest::nearest;
use crate::policy::{NetworkMode, Origin, Precedence, SecretVariables};
use crate::profiles::{self, OwnProfile, OwnProfiles};
use crate::secret_variables::is_like;
use crate::settings::{Base, Format, PathEntry, Provenance, Settings, Stated, keys, parse};

use super::{MergeError, overlay};

/// One profile.
struct Layer {
    name: String,
    is_own: bool,
    /// `None` while what it builds on is looked for; in the end laid over all that.
    settings: Option<Settings>,
    /// What it names to build on, by their places.
    parts: Vec<usize>,
    /// All that it builds on.
    below: Vec<usize>,
}

struct Layers<'a> {
    base: &'a Base,
    own: &'a dyn OwnProfiles,
    /// What a profile builds on comes before it, once all are there.
    list: Vec<Layer>,
    /// The places of those that are complete, in an order in which each comes after what it builds on.
    order: Vec<usize>,
    /// The names on the way to the one that is looked for.
    way: Vec<String>,
}

/// Puts profiles together with all that they build on; `said` is what stronger sources say. Returns their names as well, the last and
/// strongest first.
///
/// A name means the user's own profile, else the built-in one. A profile that builds on its own name means the built-in
/// one by it, so that a user can change `claude` in three lines.
pub(super) fn profiles(
    named: Vec<Stated<String>>,
    base: &Base,
    own: &dyn OwnProfiles,
    said: &Settings,
) -> Result<(Settings, Vec<String>), MergeError> {
    let mut layers = Layers { base, own, list: Vec::new(), order: Vec::new(), way: Vec::new() };
    let mut parts = Vec::new();
    for name in named {
        parts.push(layers.add(name)?);
    }
    let Layers { mut list, order, .. } = layers;
    for at in &order {
        let Some(own) = list[*at].settings.take() else { continue };
        let stronger = match list[*at].parts.len() {
            0 | 1 => None,
            _ => Some(laid(own.clone(), said)),
        };
        let mut whole = together(&list, &list[*at].parts, stronger.as_ref().unwrap_or(said))?;
        overlay(&mut whole, own);
        list[*at].settings = Some(whole);
    }
    let whole = together(&list, &parts, said)?;
    let names = order.iter().rev().map(|at| std::mem::take(&mut list[*at].name)).collect();
    Ok((whole, names))
}

/// Several profiles, each with all that it builds on, as one: what each of them closes is closed.
fn together(list: &[Layer], parts: &[usize], said: &Settings) -> Result<Settings, MergeError> {
    let mut whole: Vec<&Settings> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let is_below = |other: &usize| list[*other].below.contains(part);
        if !parts[..index].contains(part)
            && !parts.iter().any(is_below)
            && let Some(settings) = &list[*part].settings
        {
            whole.push(settings);
        }
    }
    for (at, other) in whole.iter().enumerate() {
        for one in &whole[..at] {
            contradiction(one, other, said)?;
        }
    }
    let mut whole = whole.into_iter().cloned();
    let mut all = whole.next().unwrap_or_default();
    for mut other in whole {
        for (_, key) in keys::all() {
            key.kind.store(|store| store.join(&mut all, &mut other));
        }
    }
    Ok(all)
}

/// A weaker source with a stronger one over it.
fn laid(mut under: Settings, over: &Settings) -> Settings {
    overlay(&mut under, over.clone());
    under
}

impl Layers<'_> {
    /// Adds a profile and what it builds on, if it is not there; returns its place.
    fn add(&mut self, Stated { value: name, origin }: Stated<String>) -> Result<usize, MergeError> {
        let place =
            |list: &[Layer], is_own| list.iter().position(|one| one.name == name && one.is_own == is_own);
        let under_way = |list: &[Layer], at: usize| list[at].settings.is_none();
        let mut found = None;
        match place(&self.list, true) {
            Some(at) if !under_way(&self.list, at) => return Ok(at),
            Some(_) => {}
            None => found = self.own.find(&name).map_err(MergeError::OwnProfile)?,
        }
        let is_own = found.is_some();
        if !is_own && let Some(at) = place(&self.list, false) {
            if !under_way(&self.list, at) {
                return Ok(at);
            }
            return Err(self.cycle(name, origin));
        }
        let mut settings = match (&found, profiles::text(&name)) {
            (Some(OwnProfile { file, text }), _) => {
                parse(text, Format::Toml, Provenance::OwnProfile(file), self.base)?
            }
            (None, Some(text)) => {
                parse(text.as_bytes(), Format::Toml, Provenance::Profile(&name), self.base)?
            }
            (None, None) if place(&self.list, true).is_some() => return Err(self.cycle(name, origin)),
            (None, None) => {
                let mut names: Vec<String> = profiles::NAMES.map(str::to_owned).into();
                names.extend(self.own.names().into_iter().filter(|own| profiles::text(own).is_none()));
                let hint = nearest(&name, names.iter().map(String::as_str)).map(str::to_owned);
                return Err(MergeError::UnknownProfile { name, origin, hint, names });
            }
        };
        let at = self.list.len();
        self.way.push(name.clone());
        self.list.push(Layer { name, is_own, settings: None, parts: Vec::new(), below: Vec::new() });
        for lower in std::mem::take(&mut settings.profiles) {
            let lower = self.add(lower)?;
            let mut all = self.list[lower].below.clone();
            all.push(lower);
            self.list[at].below.extend(all);
            self.list[at].parts.push(lower);
        }
        self.way.pop();
        self.list[at].settings = Some(settings);
        self.order.push(at);
        Ok(at)
    }

    fn cycle(&self, name: String, origin: Origin) -> MergeError {
        let mut names = self.way.clone();
        names.push(name);
        MergeError::ProfileCycle { origin, names }
    }
}

/// What two profiles cannot both have, of which no stronger source speaks.
fn contradiction(one: &Settings, other: &Settings, said: &Settings) -> Result<(), MergeError> {
    // What a stronger source decides is the same in both once it is laid over them.
    let (mut decided_one, mut decided_other) = (laid(one.clone(), said), laid(other.clone(), said));
    let (mut plain_one, mut plain_other) = (one.clone(), other.clone());
    for (key, row) in keys::all() {
        let found = row.kind.store(|store| {
            store.contradiction(&mut decided_one, &mut decided_other)?;
            store.contradiction(&mut plain_one, &mut plain_other)
        });
        if let Some((one, other)) = found {
            return Err(MergeError::ProfilesDiffer { key, one, other });
        }
    }
    for (one, other) in [(one, other), (other, one)] {
        adds_to_what_starts_anew(one, other, said)?;
        opens_what_is_closed(one, other, said)?;
        passes_what_is_withheld(one, other, said)?;
        says_otherwise_than_implied(one, other, said)?;
    }
    Ok(())
}

/// An entry in a list of which another profile wants none but its own.
fn adds_to_what_starts_anew(one: &Settings, other: &Settings, said: &Settings) -> Result<(), MergeError> {
    for list in &one.only {
        let decided = said.only.iter().any(|said| said.value == list.value);
        if let Some(key) = keys::find(list.value).filter(|_| !decided)
            && let Some(entry) = key.kind.store(|store| store.beyond(&mut one.clone(), &mut other.clone()))
        {
            let key = list.value.to_owned();
            return Err(MergeError::ProfilesDiffer { key, one: list.origin.clone(), other: entry });
        }
    }
    Ok(())
}

/// A path that one profile opens and another closes, by the same name: laid over each other, one of the two would be lost.
fn opens_what_is_closed(opens: &Settings, closes: &Settings, said: &Settings) -> Result<(), MergeError> {
    type List = (&'static str, fn(&Settings) -> &[PathEntry]);
    const PAIRS: [(List, List); 3] = [
        (("files.allow_read", |s| &s.files.allow_read), ("files.deny_read", |s| &s.files.deny_read)),
        (("files.allow_write", |s| &s.files.allow_write), ("files.deny_read", |s| &s.files.deny_read)),
        (("files.allow_write", |s| &s.files.allow_write), ("files.deny_write", |s| &s.files.deny_write)),
    ];
    for ((allow, allowed), (deny, denied)) in PAIRS {
        let same = |one: &&PathEntry, other: &PathEntry| one.pattern == other.pattern;
        for entry in allowed(opens) {
            let mut decided = allowed(said).iter().chain(denied(said));
            if let Some(denied) = denied(closes).iter().find(|denied| same(denied, entry))
                // Who has both has decided between them.
                && !allowed(closes).iter().any(|own| same(&own, entry))
                && !decided.any(|decided| same(&decided, entry))
            {
                let key = format!("{allow} and {deny} `{}`", entry.pattern);
                let (one, other) = (entry.origin.clone(), denied.origin.clone());
                return Err(MergeError::ProfilesDiffer { key, one, other });
            }
        }
    }
    Ok(())
}

/// A variable that one profile passes, and another takes away or calls a secret.
fn passes_what_is_withheld(passes: &Settings, closes: &Settings, said: &Settings) -> Result<(), MergeError> {
    let (passes, closes, said) = (&passes.environment, &closes.environment, &said.environment);
    for pass in &passes.pass {
        let same = |stated: &&Stated<OsString>| stated.value == pass.value;
        let covers = |stated: &&Stated<OsString>| is_like(&stated.value, &pass.value);
        // Who passes it as well has decided that it is an exception.
        if said.pass.iter().chain(&said.unset).any(|said| same(&said))
            || said.secret_names.iter().any(|said| covers(&said))
            || closes.pass.iter().any(|own| same(&own))
        {
            continue;
        }
        let unset = closes.unset.iter().find(same).map(|unset| ("environment.unset", unset));
        let secret =
            || closes.secret_names.iter().find(covers).map(|name| ("environment.secret_names", name));
        if let Some((list, closed)) = unset.or_else(secret) {
            let key = format!("environment.pass and {list} `{}`", pass.value.display());
            let (one, other) = (pass.origin.clone(), closed.origin.clone());
            return Err(MergeError::ProfilesDiffer { key, one, other });
        }
    }
    Ok(())
}

/// A value that changes what the lists of another profile mean, which was written with the value that it has unsaid.
fn says_otherwise_than_implied(
    says: &Settings,
    implies: &Settings,
    said: &Settings,
) -> Result<(), MergeError> {
    let differ = |key: &str, one: &Origin, other: &Origin| {
        Err(MergeError::ProfilesDiffer { key: key.to_owned(), one: one.clone(), other: other.clone() })
    };
    let lists = &implies.files;
    let first = [&lists.deny_read, &lists.deny_write, &lists.allow_read, &lists.allow_write];
    if let (Some(precedence), None, None) =
        (&says.files.precedence, &lists.precedence, &said.files.precedence)
        && precedence.value != Precedence::default()
        && let Some(entry) = first.into_iter().find_map(|list| list.first())
    {
        return differ("files.precedence", &precedence.origin, &entry.origin);
    }
    let listed = super::implied_allow_list(implies);
    if let (Some(mode), None, None) = (&says.network.mode, &implies.network.mode, &said.network.mode)
        && mode.value != NetworkMode::AllowList
        && let Some(origin) = &listed
    {
        return differ("network.mode", &mode.origin, origin);
    }
    let gated = implies.network.mode.as_ref().filter(|mode| mode.value.is_gated()).map(|mode| &mode.origin);
    let gated = gated.or(listed.as_ref()).or(implies.gateway.providers.first().map(|entry| &entry.origin));
    let secrets = (&says.environment.secrets, &implies.environment.secrets, &said.environment.secrets);
    if let (Some(secrets), None, None) = secrets
        && secrets.value == SecretVariables::Pass
        && let Some(origin) = gated
    {
        return differ("environment.secrets", &secrets.origin, origin);
    }
    Ok(())
}
