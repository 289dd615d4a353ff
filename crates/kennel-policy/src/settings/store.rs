//! How what several sources say of one setting becomes one: a stronger source over a weaker one, and a file that nobody vouched for
//! where it tightens. It depends on how a kind of setting is kept, of which there are few: one value, a list, names with entries.

use std::ffi::{OsStr, OsString};

use super::keys::{Choices, Kind, ListSlot, Slot, Tighten};
use super::{ProviderEntry, SecretEntry, Settings, Stated, Switch};
use crate::gateway::Budget;
use crate::policy::Origin;
use crate::traffic::TrafficLimit;

/// How a kind of setting is kept.
pub trait Store {
    /// Lays what a stronger source says over the rest.
    fn overlay(&self, under: &mut Settings, over: &mut Settings);

    /// Adds what a source of the same strength says. The two do not contradict each other, or a stronger one decides; an entry that both
    /// have from a common base is one.
    fn join(&self, one: &mut Settings, other: &mut Settings) {
        self.overlay(one, other);
    }

    /// Takes all entries of a list away.
    fn clear(&self, _: &mut Settings) {}

    /// The first entry of a list that another one does not have.
    fn beyond(&self, _: &mut Settings, _: &mut Settings) -> Option<Origin> {
        None
    }

    /// Applies what tightens; gives back where something else was said.
    fn tighten(&self, rule: Tighten, whole: &mut Settings, new: &mut Settings) -> Option<Origin>;

    /// Where two sources, neither of which is the stronger one, say what cannot both hold.
    fn contradiction(&self, one: &mut Settings, other: &mut Settings) -> Option<(Origin, Origin)>;
}

/// Two values of one setting that are not the same.
fn differing<T: PartialEq>(one: &Stated<T>, other: &Stated<T>) -> Option<(Origin, Origin)> {
    (one.value != other.value).then(|| (one.origin.clone(), other.origin.clone()))
}

/// One value, and whether a new one is as strict as the present.
struct One<T: 'static>(Slot<T>, fn(Tighten, Option<&T>, &T) -> bool);

/// A list, and where an entry was set.
struct Many<T: 'static>(ListSlot<T>, fn(&T) -> &Origin);

/// Entries with names: a stronger source's replaces that of the same name.
struct Named<T: 'static> {
    list: ListSlot<T>,
    put: fn(&mut Vec<T>, T),
    name: fn(&T) -> &str,
    origin: fn(&mut T) -> &mut Origin,
}

/// Variables, of each of which the last value counts.
struct Variables(ListSlot<Stated<(OsString, OsString)>>);

/// How much may be used: each limit by itself.
struct Limits(Slot<Budget>);

/// Limits on traffic: each by itself.
struct Traffic(ListSlot<TrafficLimit>);

impl<T: PartialEq> Store for One<T> {
    fn overlay(&self, under: &mut Settings, over: &mut Settings) {
        if let Some(stated) = (self.0)(over).take() {
            *(self.0)(under) = Some(stated);
        }
    }

    fn tighten(&self, rule: Tighten, whole: &mut Settings, new: &mut Settings) -> Option<Origin> {
        let new = (self.0)(new).take()?;
        let whole = (self.0)(whole);
        let now = whole.as_ref().map(|stated| &stated.value);
        if now == Some(&new.value) {
            return None;
        }
        if !(self.1)(rule, now, &new.value) {
            return Some(new.origin);
        }
        *whole = Some(new);
        None
    }

    fn contradiction(&self, one: &mut Settings, other: &mut Settings) -> Option<(Origin, Origin)> {
        differing((self.0)(one).as_ref()?, (self.0)(other).as_ref()?)
    }
}

impl<T: PartialEq> Store for Many<T> {
    fn overlay(&self, under: &mut Settings, over: &mut Settings) {
        (self.0)(under).append((self.0)(over));
    }

    fn join(&self, one: &mut Settings, other: &mut Settings) {
        let one = (self.0)(one);
        let common = one.len();
        let new: Vec<T> = std::mem::take((self.0)(other));
        for entry in new {
            if !one[..common].contains(&entry) {
                one.push(entry);
            }
        }
    }

    fn clear(&self, settings: &mut Settings) {
        (self.0)(settings).clear();
    }

    fn beyond(&self, list: &mut Settings, other: &mut Settings) -> Option<Origin> {
        let list = (self.0)(list);
        (self.0)(other).iter().find(|entry| !list.contains(entry)).map(|entry| (self.1)(entry).clone())
    }

    fn tighten(&self, rule: Tighten, whole: &mut Settings, new: &mut Settings) -> Option<Origin> {
        let new = std::mem::take((self.0)(new));
        if rule == Tighten::Add {
            (self.0)(whole).extend(new);
            return None;
        }
        new.first().map(|entry| (self.1)(entry).clone())
    }

    /// Lists grow.
    fn contradiction(&self, _: &mut Settings, _: &mut Settings) -> Option<(Origin, Origin)> {
        None
    }
}

impl<T: Clone + PartialEq> Store for Named<T> {
    fn overlay(&self, under: &mut Settings, over: &mut Settings) {
        for entry in std::mem::take((self.list)(over)) {
            (self.put)((self.list)(under), entry);
        }
    }

    fn clear(&self, settings: &mut Settings) {
        (self.list)(settings).clear();
    }

    fn tighten(&self, rule: Tighten, whole: &mut Settings, new: &mut Settings) -> Option<Origin> {
        let mut new = std::mem::take((self.list)(new));
        if rule == Tighten::Add {
            (self.list)(whole).append(&mut new);
            return None;
        }
        new.first_mut().map(|entry| (self.origin)(entry).clone())
    }

    fn contradiction(&self, one: &mut Settings, other: &mut Settings) -> Option<(Origin, Origin)> {
        let origin = |entry: &T| (self.origin)(&mut entry.clone()).clone();
        let named = |entry: &&T, name: &str| (self.name)(entry) == name;
        (self.list)(one).iter().find_map(|entry| {
            let same = (self.list)(other).iter().find(|other| named(other, (self.name)(entry)))?;
            let mut alike = same.clone();
            *(self.origin)(&mut alike) = origin(entry);
            (alike != *entry).then(|| (origin(entry), origin(same)))
        })
    }
}

impl Store for Variables {
    fn overlay(&self, under: &mut Settings, over: &mut Settings) {
        (self.0)(under).append((self.0)(over));
    }

    fn join(&self, one: &mut Settings, other: &mut Settings) {
        Many(self.0, |stated| &stated.origin).join(one, other);
    }

    fn clear(&self, settings: &mut Settings) {
        (self.0)(settings).clear();
    }

    fn tighten(&self, rule: Tighten, whole: &mut Settings, new: &mut Settings) -> Option<Origin> {
        Many(self.0, |stated| &stated.origin).tighten(rule, whole, new)
    }

    fn contradiction(&self, one: &mut Settings, other: &mut Settings) -> Option<(Origin, Origin)> {
        // The last value counts.
        let last = |list: &'_ [Stated<(OsString, OsString)>], name: &OsStr| {
            list.iter().rfind(|stated| stated.value.0 == name).cloned()
        };
        let (one, other) = ((self.0)(one), (self.0)(other));
        one.iter().find_map(|variable| {
            let name = &variable.value.0;
            differing(&last(one, name)?, &last(other, name)?)
        })
    }
}

impl Store for Limits {
    fn overlay(&self, under: &mut Settings, over: &mut Settings) {
        let Some(over) = (self.0)(over).take() else { return };
        match (self.0)(under) {
            Some(under) => {
                overlay_budget(&mut under.value, over.value);
                under.origin = over.origin;
            }
            none => *none = Some(over),
        }
    }

    fn tighten(&self, _: Tighten, whole: &mut Settings, new: &mut Settings) -> Option<Origin> {
        let new = (self.0)(new).take()?;
        let unlimited = || Stated { value: Budget::default(), origin: new.origin.clone() };
        let now = (self.0)(whole).get_or_insert_with(unlimited);
        if !is_lower(&now.value, &new.value) {
            return Some(new.origin);
        }
        overlay_budget(&mut now.value, new.value);
        None
    }

    fn contradiction(&self, one: &mut Settings, other: &mut Settings) -> Option<(Origin, Origin)> {
        let (one, other) = ((self.0)(one).as_ref()?, (self.0)(other).as_ref()?);
        let (mut first, mut second) = (one.value, other.value);
        overlay_budget(&mut first, other.value);
        overlay_budget(&mut second, one.value);
        (first != second).then(|| (one.origin.clone(), other.origin.clone()))
    }
}

impl Store for Traffic {
    fn overlay(&self, under: &mut Settings, over: &mut Settings) {
        for limit in std::mem::take((self.0)(over)) {
            TrafficLimit::put((self.0)(under), limit);
        }
    }

    /// Of two limits on the same the lower one.
    fn join(&self, one: &mut Settings, other: &mut Settings) {
        for limit in std::mem::take((self.0)(other)) {
            let lower = (self.0)(one).iter().any(|own| own.is_of_same(&limit) && own.bytes <= limit.bytes);
            if !lower {
                TrafficLimit::put((self.0)(one), limit);
            }
        }
    }

    fn tighten(&self, _: Tighten, whole: &mut Settings, new: &mut Settings) -> Option<Origin> {
        let mut refused = None;
        for limit in std::mem::take((self.0)(new)) {
            let now = (self.0)(whole).iter().find(|other| other.is_of_same(&limit)).map(|now| now.bytes);
            match now.unwrap_or(TrafficLimit::UNLIMITED).cmp(&limit.bytes) {
                std::cmp::Ordering::Greater => TrafficLimit::put((self.0)(whole), limit),
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Less => refused = refused.or(Some(limit.origin)),
            }
        }
        refused
    }

    fn contradiction(&self, _: &mut Settings, _: &mut Settings) -> Option<(Origin, Origin)> {
        None
    }
}

impl Store for &'static (dyn Choices + Sync) {
    fn overlay(&self, under: &mut Settings, over: &mut Settings) {
        if let Some(stated) = self.take(over) {
            self.state(under, stated.value, stated.origin);
        }
    }

    fn tighten(&self, rule: Tighten, whole: &mut Settings, new: &mut Settings) -> Option<Origin> {
        let now = self.stated(whole);
        let new = self.take(new).filter(|new| Some(new.value) != now)?;
        // The words are ordered, the strictest first.
        if rule != Tighten::Stricter || now.is_none_or(|now| new.value >= now) {
            return Some(new.origin);
        }
        self.state(whole, new.value, new.origin);
        None
    }

    fn contradiction(&self, one: &mut Settings, other: &mut Settings) -> Option<(Origin, Origin)> {
        let look = |settings: &mut Settings| {
            let stated = self.take(settings)?;
            self.state(settings, stated.value, stated.origin.clone());
            Some(stated)
        };
        differing(&look(one)?, &look(other)?)
    }
}

impl Store for Switch {
    fn overlay(&self, under: &mut Settings, over: &mut Settings) {
        if let Some(stated) = self.take(over) {
            self.state(under, stated);
        }
    }

    fn tighten(&self, rule: Tighten, whole: &mut Settings, new: &mut Settings) -> Option<Origin> {
        let new = self.take(new)?;
        if self.stated(whole).is_some_and(|now| now.value == new.value) {
            return None;
        }
        if rule != Tighten::To(new.value) {
            return Some(new.origin);
        }
        self.state(whole, new);
        None
    }

    fn contradiction(&self, one: &mut Settings, other: &mut Settings) -> Option<(Origin, Origin)> {
        differing(self.stated(one)?, self.stated(other)?)
    }
}

impl Kind {
    /// Hands over how it is kept.
    pub fn store<R>(&self, then: impl FnOnce(&dyn Store) -> R) -> R {
        /// Whatever is said, if anything may be.
        fn any<T>(rule: Tighten, _: Option<&T>, _: &T) -> bool {
            rule != Tighten::No
        }
        /// No limit is the highest.
        fn lower<T: PartialOrd>(_: Tighten, now: Option<&Option<T>>, new: &Option<T>) -> bool {
            match (now, new) {
                (None, None) | (None | Some(None), Some(_)) => true,
                (_, None) => false,
                (Some(Some(now)), Some(new)) => new < now,
            }
        }
        match self {
            Kind::Bool(slot) => then(&One(*slot, |rule, _, new| rule == Tighten::To(*new))),
            Kind::Switch(switch) => then(switch),
            Kind::Lists(list) => then(&Many(*list, |stated| &stated.origin)),
            Kind::Profiles(list) => then(&Many(*list, |stated| &stated.origin)),
            Kind::Hostname(slot) | Kind::Text(slot) => then(&One(*slot, any)),
            Kind::Folder(slot) | Kind::File(slot) => then(&One(*slot, any)),
            Kind::Proxy(slot) => then(&One(*slot, any)),
            Kind::Port(slot) => then(&One(*slot, any)),
            Kind::Choice(choices) => then(choices),
            Kind::Size(slot, _) => then(&One(*slot, lower)),
            Kind::Time(slot) => then(&One(*slot, lower)),
            Kind::Cpus(slot) => then(&One(*slot, lower)),
            Kind::Count(slot) => then(&One(*slot, lower)),
            Kind::Budget(slot) => then(&Limits(*slot)),
            Kind::Paths(list, _) => then(&Many(*list, |entry| &entry.origin)),
            Kind::Hosts(list, _) => then(&Many(*list, |rule| &rule.origin)),
            Kind::Gpus(list) => then(&Many(*list, |stated| &stated.origin)),
            Kind::Registries(list) => then(&Many(*list, |stated| &stated.origin)),
            Kind::HostsAndRequests(hosts, requests) => {
                let hosts = Many(*hosts, |rule| &rule.origin);
                then(&Both(hosts, Many(*requests, |rule| &rule.host.origin)))
            }
            Kind::Files(list) => then(&Many(*list, |stated| &stated.origin)),
            Kind::Prices(list) => then(&Many(*list, |stated| &stated.origin)),
            Kind::Names(list) => then(&Many(*list, |stated| &stated.origin)),
            Kind::Variables(list) => then(&Variables(*list)),
            Kind::Mounts(list) => then(&Many(*list, |mount| &mount.origin)),
            Kind::Tmpfs(list) => then(&Many(*list, |mount| &mount.origin)),
            Kind::Ports(list) => then(&Many(*list, |port| &port.origin)),
            Kind::Traffic(list) => then(&Traffic(*list)),
            Kind::Users(list) => then(&Many(*list, |user| &user.origin)),
            Kind::Providers(list) => then(&Named {
                list: *list,
                put: ProviderEntry::put,
                name: |entry| &entry.name,
                origin: |entry| &mut entry.origin,
            }),
            Kind::Secrets(list) => then(&Named {
                list: *list,
                put: SecretEntry::put,
                name: |entry| &entry.name,
                origin: |entry| &mut entry.origin,
            }),
        }
    }
}

/// Two lists of one key.
struct Both<A: 'static, B: 'static>(Many<A>, Many<B>);

impl<A: PartialEq, B: PartialEq> Store for Both<A, B> {
    fn overlay(&self, under: &mut Settings, over: &mut Settings) {
        self.0.overlay(under, over);
        self.1.overlay(under, over);
    }

    fn join(&self, one: &mut Settings, other: &mut Settings) {
        self.0.join(one, other);
        self.1.join(one, other);
    }

    fn clear(&self, settings: &mut Settings) {
        self.0.clear(settings);
        self.1.clear(settings);
    }

    fn beyond(&self, list: &mut Settings, other: &mut Settings) -> Option<Origin> {
        self.0.beyond(list, other).or_else(|| self.1.beyond(list, other))
    }

    fn tighten(&self, rule: Tighten, whole: &mut Settings, new: &mut Settings) -> Option<Origin> {
        let first = self.0.tighten(rule, whole, new);
        let second = self.1.tighten(rule, whole, new);
        first.or(second)
    }

    fn contradiction(&self, one: &mut Settings, other: &mut Settings) -> Option<(Origin, Origin)> {
        self.0.contradiction(one, other).or_else(|| self.1.contradiction(one, other))
    }
}

/// What a budget becomes when a stronger source speaks: its limits replace those of the same name.
fn overlay_budget(under: &mut Budget, over: Budget) {
    let Budget { requests, input_tokens, output_tokens, tokens, bytes, cost } = over;
    under.requests = requests.or(under.requests);
    under.input_tokens = input_tokens.or(under.input_tokens);
    under.output_tokens = output_tokens.or(under.output_tokens);
    under.tokens = tokens.or(under.tokens);
    under.bytes = bytes.or(under.bytes);
    under.cost = cost.or(under.cost);
}

/// Whether none of the limits that `new` has is above that of `now`.
fn is_lower(now: &Budget, new: &Budget) -> bool {
    fn lower<T: PartialOrd>(now: Option<T>, new: Option<T>) -> bool {
        match (now, new) {
            (_, None) | (None, Some(_)) => true,
            (Some(now), Some(new)) => new <= now,
        }
    }
    lower(now.requests, new.requests)
        && lower(now.input_tokens, new.input_tokens)
        && lower(now.output_tokens, new.output_tokens)
        && lower(now.tokens, new.tokens)
        && lower(now.bytes, new.bytes)
        && lower(now.cost, new.cost)
}
