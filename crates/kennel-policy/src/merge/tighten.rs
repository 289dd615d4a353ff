//! What a settings file that nobody vouched for may do: take away.

use crate::settings::keys::{self, Kind, Tighten};
use crate::settings::{Settings, Stated};

use super::{Note, gateway};
use crate::gateway::Budget;
use crate::policy::Origin;

/// Applies what tightens and notes the rest. `whole` is settled: every setting with a default has been said.
pub(super) fn tighten(whole: &mut Settings, mut project: Settings) -> Vec<Note> {
    let file = project.file.take().unwrap_or_else(|| "FILE".to_owned());
    let mut notes = Vec::new();
    let swap_is_bounded = whole.limits.memory.as_ref().is_some_and(|memory| memory.value.is_some());
    for (name, key) in keys::all() {
        // Swap that nobody spoke of is no swap once memory is bounded, and then any amount is more.
        if name == "limits.swap" && swap_is_bounded && whole.limits.swap.is_none() {
            whole.limits.swap = Some(Stated { value: Some(0), origin: Origin("default".to_owned()) });
        }
        let refused = match &key.kind {
            Kind::Bool(slot) => {
                let allowed = |_: Option<&bool>, new: &bool| key.tighten == Tighten::To(*new);
                single(slot(whole), slot(&mut project).take(), allowed)
            }
            Kind::Profile(slot) | Kind::Hostname(slot) => {
                single(slot(whole), slot(&mut project).take(), |_, _| key.tighten != Tighten::No)
            }
            Kind::Folder(slot) => {
                single(slot(whole), slot(&mut project).take(), |_, _| key.tighten != Tighten::No)
            }
            Kind::Choice(choices) => {
                let now = choices.stated(whole);
                match choices.take(&mut project) {
                    None => None,
                    Some(new) if Some(new.value) == now => None,
                    // The words are ordered, the strictest first.
                    Some(new)
                        if key.tighten == Tighten::Stricter && now.is_some_and(|now| new.value < now) =>
                    {
                        choices.state(whole, new.value, new.origin);
                        None
                    }
                    Some(new) => Some(new.origin),
                }
            }
            Kind::Size(slot, _) => single(slot(whole), slot(&mut project).take(), lower),
            Kind::Time(slot) => single(slot(whole), slot(&mut project).take(), lower),
            Kind::Cpus(slot) => single(slot(whole), slot(&mut project).take(), lower),
            Kind::Count(slot) => single(slot(whole), slot(&mut project).take(), lower),
            Kind::Paths(list, _) => {
                entries(key.tighten, list(whole), std::mem::take(list(&mut project)), |e| &e.origin)
            }
            Kind::Hosts(list, _) => {
                entries(key.tighten, list(whole), std::mem::take(list(&mut project)), |e| &e.origin)
            }
            Kind::HostsAndRequests(hosts, requests) => {
                let refused =
                    entries(key.tighten, hosts(whole), std::mem::take(hosts(&mut project)), |e| &e.origin);
                let requests =
                    entries(key.tighten, requests(whole), std::mem::take(requests(&mut project)), |e| {
                        &e.host.origin
                    });
                refused.or(requests)
            }
            Kind::File(slot) => {
                single(slot(whole), slot(&mut project).take(), |_, _| key.tighten != Tighten::No)
            }
            Kind::Providers(list) => {
                entries(key.tighten, list(whole), std::mem::take(list(&mut project)), |e| &e.origin)
            }
            Kind::Prices(list) => {
                entries(key.tighten, list(whole), std::mem::take(list(&mut project)), |e| &e.origin)
            }
            Kind::Budget(slot) => match slot(&mut project).take() {
                None => None,
                Some(new) => {
                    let now = slot(whole).get_or_insert_with(|| Stated {
                        value: Budget::default(),
                        origin: new.origin.clone(),
                    });
                    match gateway::is_lower(&now.value, &new.value) {
                        true => {
                            gateway::overlay(&mut now.value, new.value);
                            None
                        }
                        false => Some(new.origin),
                    }
                }
            },
            Kind::Files(list) => {
                entries(key.tighten, list(whole), std::mem::take(list(&mut project)), |e| &e.origin)
            }
            Kind::Secrets(list) => {
                entries(key.tighten, list(whole), std::mem::take(list(&mut project)), |e| &e.origin)
            }
            Kind::Mounts(list) => {
                entries(key.tighten, list(whole), std::mem::take(list(&mut project)), |e| &e.origin)
            }
            Kind::Tmpfs(list) => {
                entries(key.tighten, list(whole), std::mem::take(list(&mut project)), |e| &e.origin)
            }
            Kind::Names(list) => {
                entries(key.tighten, list(whole), std::mem::take(list(&mut project)), |e| &e.origin)
            }
            Kind::Variables(list) => {
                entries(key.tighten, list(whole), std::mem::take(list(&mut project)), |e| &e.origin)
            }
            Kind::Text(slot) => {
                single(slot(whole), slot(&mut project).take(), |_, _| key.tighten != Tighten::No)
            }
            Kind::Proxy(slot) => {
                single(slot(whole), slot(&mut project).take(), |_, _| key.tighten != Tighten::No)
            }
            Kind::Port(slot) => {
                single(slot(whole), slot(&mut project).take(), |_, _| key.tighten != Tighten::No)
            }
            Kind::Users(list) => {
                entries(key.tighten, list(whole), std::mem::take(list(&mut project)), |e| &e.origin)
            }
            Kind::Ports(list) => {
                entries(key.tighten, list(whole), std::mem::take(list(&mut project)), |e| &e.origin)
            }
        };
        notes.extend(refused.map(|origin| Note { origin, key: name, file: file.clone() }));
    }
    notes
}

/// Applies a single value if it is as strict as what is there; gives back where a looser one was said.
fn single<T: PartialEq>(
    whole: &mut Option<Stated<T>>,
    new: Option<Stated<T>>,
    stricter: impl Fn(Option<&T>, &T) -> bool,
) -> Option<Origin> {
    let new = new?;
    let now = whole.as_ref().map(|stated| &stated.value);
    if now == Some(&new.value) {
        return None;
    }
    if !stricter(now, &new.value) {
        return Some(new.origin);
    }
    *whole = Some(new);
    None
}

/// Whether a limit is lower than the present one; no limit is the highest.
fn lower<T: PartialOrd>(now: Option<&Option<T>>, new: &Option<T>) -> bool {
    match (now, new) {
        (None, None) | (None | Some(None), Some(_)) => true,
        (_, None) => false,
        (Some(Some(now)), Some(new)) => new < now,
    }
}

fn entries<T>(rule: Tighten, whole: &mut Vec<T>, new: Vec<T>, origin: fn(&T) -> &Origin) -> Option<Origin> {
    if rule == Tighten::Add {
        whole.extend(new);
        return None;
    }
    new.first().map(|entry| origin(entry).clone())
}
