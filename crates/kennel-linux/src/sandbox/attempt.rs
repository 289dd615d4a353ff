//! What a start tries, and what it tries next where the host refuses. Pure: a table of all refusals is a test.

use std::io;

use super::Error;
use crate::cgroup::{CgroupError, Controller, ControllerSet};
use crate::launch::LaunchError;
use crate::network::NetworkPlan;
use crate::plan::need::Need;
use crate::supervise::StartError;
use crate::tier::Tier;

/// One way to start a sandbox. Each attempt gives up one thing more than the one before, so there is a last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) tier: Tier,
    pub(super) counting: Counting,
    /// Whether the filter can ask the guard: not where an outer sandbox's does already.
    pub(super) asks: bool,
    /// Whether netfilter leads connections to the gate; otherwise listeners on chosen ports wait for them.
    pub(super) netfilter: bool,
    /// Whether a root folder can get a writable layer.
    pub(super) layer: bool,
    /// What may be given up.
    pub(super) leeway: Leeway,
}

/// How the limits on the whole sandbox are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counting {
    /// There are none.
    None,
    /// By a cgroup.
    Cgroup,
    /// There are none, but a cgroup is to count, if one can be had.
    ForStats,
    /// With best effort, by limits on each process, because these controllers are missing.
    StandIns(ControllerSet),
}

/// What may be given up for a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Leeway {
    /// The policy is content with less than it asks for.
    pub(super) best_effort: bool,
    /// Several users need namespaces.
    pub(super) several_users: bool,
    /// The gate can be reached without netfilter too.
    pub(super) without_netfilter: bool,
    /// What the guard would be asked about, the guard of an outer sandbox judges.
    pub(super) guarded_outside: bool,
}

/// Why an attempt came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The clone into new namespaces, with this error number.
    Clone(i32),
    /// The maps of users.
    IdMaps(i32),
    /// A step that needs this.
    Step(Need, i32),
    /// The filter's listener: the process has one.
    Listener,
    /// A cgroup with these controllers.
    Cgroup(ControllerSet),
    /// Something that no other attempt would change.
    Final,
}

impl Counting {
    pub(super) fn counted(self) -> bool {
        matches!(self, Counting::Cgroup | Counting::ForStats)
    }
}

impl Attempt {
    /// The one that gives up nothing.
    pub(super) fn first(counting: Counting, leeway: Leeway) -> Attempt {
        Attempt { tier: Tier::Full, counting, asks: true, netfilter: true, layer: true, leeway }
    }

    /// The network of this attempt.
    pub(super) fn network<'n>(&self, whole: Option<&'n NetworkPlan>) -> Option<&'n NetworkPlan> {
        match self.netfilter {
            true => whole,
            false => whole.map(|whole| whole.fallback.as_deref().unwrap_or(whole)),
        }
    }
}

/// The next attempt after one that was refused; `None` where there is none.
pub(super) fn next_attempt(tried: &Attempt, refusal: &Refusal) -> Option<Attempt> {
    let Leeway { best_effort, several_users, without_netfilter, guarded_outside } = tried.leeway;
    let next = || tried.clone();
    let on = |tier| (best_effort && !several_users).then(|| Attempt { tier, ..next() });
    match *refusal {
        Refusal::Cgroup(missing) => {
            let counting = Counting::StandIns(missing);
            (best_effort && tried.counting == Counting::Cgroup).then(|| Attempt { counting, ..next() })
        }
        Refusal::Listener => (guarded_outside && tried.asks).then(|| Attempt { asks: false, ..next() }),
        Refusal::Step(Need::Netlink, errno)
            if without_netfilter && tried.netfilter && !is_shortage(errno) =>
        {
            Some(Attempt { netfilter: false, ..next() })
        }
        Refusal::Step(Need::Layer, errno) => {
            (best_effort && tried.layer && is_no_layer(errno)).then(|| Attempt { layer: false, ..next() })
        }
        Refusal::Step(Need::FreshProc, libc::EPERM | libc::EACCES) if tried.tier == Tier::Full => {
            on(Tier::HostProc)
        }
        refusal if tried.tier != Tier::LandlockOnly && denies_namespaces(refusal) => on(Tier::LandlockOnly),
        _ => None,
    }
}

/// Whether a refusal says that this host denies namespaces, or what they are for, as opposed to a file that its permissions
/// keep closed, or something that has run out.
pub(super) fn denies_namespaces(refusal: Refusal) -> bool {
    match refusal {
        Refusal::Clone(errno) => {
            // ENOSPC: user.max_user_namespaces is 0. EINVAL, ENOSYS: built without, or clone3 filtered.
            matches!(errno, libc::ENOSPC | libc::EUSERS | libc::EINVAL | libc::ENOSYS) || is_denial(errno)
        }
        // Where /proc is hidden or read-only the maps cannot be written either.
        Refusal::IdMaps(errno) => !is_shortage(errno),
        // A limit of 0 network namespaces shows only when one is asked for.
        Refusal::Step(Need::Namespace, errno) => {
            matches!(errno, libc::ENOSPC | libc::EUSERS) || is_denial(errno)
        }
        Refusal::Step(Need::OwnPower | Need::Netlink, errno) => is_denial(errno),
        _ => false,
    }
}

fn is_denial(errno: i32) -> bool {
    matches!(errno, libc::EPERM | libc::EACCES)
}

/// Whether an error says that something has run out for now.
fn is_shortage(errno: i32) -> bool {
    matches!(errno, libc::ENOMEM | libc::ENOBUFS | libc::EMFILE | libc::ENFILE | libc::EAGAIN | libc::EINTR)
}

/// Whether an error of a layer says that there can be none, rather than that the folder was swapped or memory ran out.
pub(super) fn is_no_layer(errno: i32) -> bool {
    matches!(errno, libc::EOPNOTSUPP | libc::ENODEV | libc::EINVAL) || is_denial(errno)
}

/// What an error says was refused.
pub(super) fn refusal(error: &Error) -> Refusal {
    let errno = |error: &io::Error| error.raw_os_error().unwrap_or(0);
    match error {
        Error::Launch(LaunchError::Clone(source)) => Refusal::Clone(errno(source)),
        Error::Launch(LaunchError::IdMaps(source)) | Error::Start(StartError::IdMaps(source)) => {
            Refusal::IdMaps(errno(source))
        }
        Error::Start(StartError::Step { need, source, .. }) => Refusal::Step(*need, errno(source)),
        Error::Start(StartError::Nested(_)) => Refusal::Listener,
        // No host would keep it.
        Error::Cgroup(CgroupError::InvalidLimit { .. }) => Refusal::Final,
        Error::Cgroup(lack) => {
            let missing = lack.missing();
            let all = || Controller::LIMITING.into_iter().collect();
            Refusal::Cgroup(if missing.is_empty() { all() } else { missing })
        }
        _ => Refusal::Final,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Need::{File, FreshProc, Layer, Namespace, Netlink, Nothing, OwnPower};

    const LENIENT: Leeway =
        Leeway { best_effort: true, several_users: false, without_netfilter: true, guarded_outside: true };

    /// What an attempt gave up.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum GaveUp {
        Proc,
        Namespaces,
        Cgroup,
        Asking,
        Netfilter,
        Layer,
    }

    fn gave_up(tried: &Attempt, next: &Attempt) -> Vec<GaveUp> {
        let proc = tried.tier != next.tier && next.tier == Tier::HostProc;
        let namespaces = tried.tier != next.tier && next.tier == Tier::LandlockOnly;
        let given = [
            (proc, GaveUp::Proc),
            (namespaces, GaveUp::Namespaces),
            (tried.counting != next.counting, GaveUp::Cgroup),
            (tried.asks && !next.asks, GaveUp::Asking),
            (tried.netfilter && !next.netfilter, GaveUp::Netfilter),
            (tried.layer && !next.layer, GaveUp::Layer),
        ];
        given.into_iter().filter_map(|(is, what)| is.then_some(what)).collect()
    }

    fn memory() -> ControllerSet {
        ControllerSet::EMPTY.with(Controller::Memory)
    }

    fn first(leeway: Leeway) -> Attempt {
        Attempt::first(Counting::Cgroup, leeway)
    }

    /// Every refusal of the first attempt under a lenient policy, and what is given up for it.
    fn table() -> Vec<(Refusal, Option<GaveUp>)> {
        use libc::{
            EACCES, EAGAIN, EINVAL, EIO, ENODEV, ENOENT, ENOMEM, ENOSPC, ENOSYS, EOPNOTSUPP, EPERM, EROFS,
            ESTALE, EUSERS,
        };
        let rows = |what: Option<GaveUp>, refusal: fn(i32) -> Refusal, errnos: &[i32]| -> Vec<_> {
            errnos.iter().map(|errno| (refusal(*errno), what)).collect()
        };
        let namespaces = Some(GaveUp::Namespaces);
        [
            rows(namespaces, Refusal::Clone, &[EPERM, EACCES, ENOSPC, EUSERS, EINVAL, ENOSYS]),
            rows(None, Refusal::Clone, &[ENOMEM, EAGAIN, EIO]),
            rows(namespaces, Refusal::IdMaps, &[EPERM, EACCES, EROFS, ENOENT, EINVAL]),
            rows(None, Refusal::IdMaps, &[ENOMEM, EAGAIN]),
            rows(namespaces, |e| Refusal::Step(Namespace, e), &[EPERM, EACCES, ENOSPC, EUSERS]),
            rows(None, |e| Refusal::Step(Namespace, e), &[ENOMEM, EIO]),
            rows(namespaces, |e| Refusal::Step(OwnPower, e), &[EPERM, EACCES]),
            rows(None, |e| Refusal::Step(OwnPower, e), &[ENOSPC, ENOMEM, EINVAL, EIO]),
            rows(Some(GaveUp::Proc), |e| Refusal::Step(FreshProc, e), &[EPERM, EACCES]),
            rows(None, |e| Refusal::Step(FreshProc, e), &[ENOSPC, ENOMEM]),
            rows(
                Some(GaveUp::Netfilter),
                |e| Refusal::Step(Netlink, e),
                &[EPERM, EOPNOTSUPP, ENOENT, EINVAL],
            ),
            rows(None, |e| Refusal::Step(Netlink, e), &[ENOMEM]),
            rows(
                Some(GaveUp::Layer),
                |e| Refusal::Step(Layer, e),
                &[EPERM, EACCES, EOPNOTSUPP, ENODEV, EINVAL],
            ),
            // The folder was swapped, or memory ran out.
            rows(None, |e| Refusal::Step(Layer, e), &[ESTALE, ENOSPC, ENOMEM]),
            // A file that the user may not open, a full file system: less of a sandbox would not help, and nobody asked for it.
            rows(None, |e| Refusal::Step(File, e), &[EPERM, EACCES, ENOSPC, ESTALE, EROFS, EIO]),
            rows(None, |e| Refusal::Step(Nothing, e), &[EPERM, EACCES, ENOSPC, EINVAL]),
            vec![
                (Refusal::Listener, Some(GaveUp::Asking)),
                (Refusal::Cgroup(memory()), Some(GaveUp::Cgroup)),
                (Refusal::Final, None),
            ],
        ]
        .concat()
    }

    #[test]
    fn each_refusal_gives_up_what_was_refused_and_nothing_else() {
        for (refusal, expected) in table() {
            let tried = first(LENIENT);
            let next = next_attempt(&tried, &refusal);
            let given = next.map(|next| gave_up(&tried, &next)).unwrap_or_default();
            assert_eq!(given, expected.into_iter().collect::<Vec<_>>(), "{refusal:?}");
        }
    }

    #[test]
    fn the_table_has_every_kind_of_refusal() {
        // A new kind does not compile here.
        let kind = |refusal: &Refusal| match refusal {
            Refusal::Clone(_) => 0,
            Refusal::IdMaps(_) => 1,
            Refusal::Listener => 2,
            Refusal::Cgroup(_) => 3,
            Refusal::Final => 4,
            Refusal::Step(need, _) => match need {
                Namespace => 5,
                OwnPower => 6,
                FreshProc => 7,
                Netlink => 8,
                Layer => 9,
                File => 10,
                Nothing => 11,
            },
        };
        let kinds: std::collections::BTreeSet<i32> =
            table().iter().map(|(refusal, _)| kind(refusal)).collect();
        assert_eq!(kinds, (0..12).collect());
    }

    #[test]
    fn without_best_effort_only_what_loses_nothing_is_tried() {
        let strict = Leeway { best_effort: false, ..LENIENT };
        for (refusal, _) in table() {
            let next = next_attempt(&first(strict), &refusal);
            let given = next.map(|next| gave_up(&first(strict), &next)).unwrap_or_default();
            let harmless = given.is_empty() || given == [GaveUp::Asking] || given == [GaveUp::Netfilter];
            assert!(harmless, "{refusal:?}: {given:?}");
            assert_eq!(next_attempt(&first(Leeway::default()), &refusal), None, "{refusal:?}");
        }
    }

    #[test]
    fn several_users_keep_their_namespaces() {
        let several = Leeway { several_users: true, ..LENIENT };
        for (refusal, _) in table() {
            let next = next_attempt(&first(several), &refusal);
            assert!(next.is_none_or(|next| next.tier == Tier::Full), "{refusal:?}");
        }
    }

    #[test]
    fn however_often_a_host_refuses_there_is_a_last_attempt() {
        let refusals: Vec<Refusal> = table().into_iter().map(|(refusal, _)| refusal).collect();
        let mut reached = vec![first(LENIENT)];
        let mut at = 0;
        while let Some(tried) = reached.get(at).cloned() {
            at += 1;
            for next in refusals.iter().filter_map(|refusal| next_attempt(&tried, refusal)) {
                assert_eq!(gave_up(&tried, &next).len(), 1, "{tried:?} {next:?}");
                if !reached.contains(&next) {
                    reached.push(next);
                }
            }
        }
        // Each of the six is given up at most once, and the tiers are three.
        assert_eq!(reached.len(), 3 * 2 * 2 * 2 * 2);
        let last = reached.iter().filter(|tried| refusals.iter().all(|r| next_attempt(tried, r).is_none()));
        assert_eq!(last.count(), 1);
    }

    #[test]
    fn the_gate_is_reached_without_netfilter_by_the_plan_beside() {
        let beside = NetworkPlan { defaults: Vec::new(), ..NetworkPlan::default() };
        let whole = NetworkPlan { fallback: Some(Box::new(beside.clone())), ..NetworkPlan::default() };
        let mut attempt = first(LENIENT);
        assert_eq!(attempt.network(Some(&whole)), Some(&whole));
        attempt.netfilter = false;
        assert_eq!(attempt.network(Some(&whole)), Some(&beside));
        assert_eq!(attempt.network(None), None);
    }
}
