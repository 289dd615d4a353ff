//! The profiles that settings build on, and those that these build on themselves.
//!
//! Several add up: what each of them lists holds, and what they say differently is a contradiction, unless one builds on the other or a
//! stronger source decides.

use crate::nearest::nearest;
use crate::policy::Origin;
use crate::profiles::{self, OwnProfile, OwnProfiles};
use crate::settings::{Base, Format, PathEntry, Provenance, Settings, Stated, keys, parse};

use super::{MergeError, overlay};

/// One profile, without what it builds on.
struct Layer {
    name: String,
    is_own: bool,
    /// `None` while what it builds on is looked for.
    settings: Option<Settings>,
    /// All that it builds on, by their places.
    below: Vec<usize>,
}

struct Layers<'a> {
    base: &'a Base,
    own: &'a dyn OwnProfiles,
    /// What a profile builds on comes before it, once all are there.
    list: Vec<Layer>,
    /// The places of those that are complete, in the order in which they are laid over each other.
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
    said: &mut Settings,
) -> Result<(Settings, Vec<String>), MergeError> {
    let mut layers = Layers { base, own, list: Vec::new(), order: Vec::new(), way: Vec::new() };
    for name in named {
        layers.add(name)?;
    }
    let Layers { mut list, order, .. } = layers;
    for (at, upper) in order.iter().enumerate() {
        for lower in &order[..at] {
            if list[*upper].below.contains(lower) {
                continue;
            }
            let Ok([one, other]) = list.get_disjoint_mut([*lower, *upper]) else { continue };
            if let (Some(one), Some(other)) = (&mut one.settings, &mut other.settings) {
                contradiction(one, other, said)?;
            }
        }
    }
    let mut whole = Settings::default();
    let mut names = Vec::new();
    for at in order {
        overlay(&mut whole, list[at].settings.take().unwrap_or_default());
        names.insert(0, std::mem::take(&mut list[at].name));
    }
    Ok((whole, names))
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
        self.list.push(Layer { name, is_own, settings: None, below: Vec::new() });
        for lower in std::mem::take(&mut settings.profiles) {
            let lower = self.add(lower)?;
            let mut all = self.list[lower].below.clone();
            all.push(lower);
            self.list[at].below.extend(all);
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
fn contradiction(one: &mut Settings, other: &mut Settings, said: &mut Settings) -> Result<(), MergeError> {
    for (key, row) in keys::all() {
        row.kind.store(|store| store.reconcile(one, other));
        let found = row.kind.store(|store| match store.is_stated(said) {
            true => None,
            false => store.contradiction(one, other),
        });
        if let Some((one, other)) = found {
            return Err(MergeError::ProfilesDiffer { key, one, other });
        }
    }
    for (one, other) in [(&*one, &*other), (&*other, &*one)] {
        opens_what_is_closed(one, other, said)?;
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
            let decided = [allowed(said), denied(said)].concat();
            if let Some(denied) = denied(closes).iter().find(|denied| same(denied, entry))
                && !decided.iter().any(|decided| same(&decided, entry))
            {
                let key = format!("{allow} and {deny} `{}`", entry.pattern);
                let (one, other) = (entry.origin.clone(), denied.origin.clone());
                return Err(MergeError::ProfilesDiffer { key, one, other });
            }
        }
    }
    let names = |opens: &Settings| opens.environment.pass.clone();
    for pass in names(opens) {
        let unset = closes.environment.unset.iter().find(|unset| unset.value == pass.value);
        let mut decided = said.environment.pass.iter().chain(&said.environment.unset);
        if let Some(unset) = unset.filter(|_| !decided.any(|decided| decided.value == pass.value)) {
            let key = format!("environment.pass and environment.unset `{}`", pass.value.display());
            return Err(MergeError::ProfilesDiffer { key, one: pass.origin, other: unset.origin.clone() });
        }
    }
    Ok(())
}
