//! What is known of a sandbox before the disk has been looked at, and PID 1, which is born from it.

use std::sync::Arc;

use kennel_init::child::clone::flag;
use kennel_init::plan::Planned;
use kennel_policy::outcome::Explain;
use kennel_policy::policy::{NestedNamespaces, NetworkMode, NoNetwork, Policy, SeccompProfile, UnixSockets};

use super::Error;
use super::attempt::{Attempt, Counting, Leeway};
use super::launcher::Launcher;
use crate::cgroup::{Cgroup, CgroupError};
use crate::guard::Explained;
use crate::launch::{self, IdMaps, Launch, LaunchError};
use crate::limits;
use crate::network::NetworkPlan;
use crate::plan::{Tier, opening};
use crate::resolve::Resolved;
use crate::supervise::Running;
use crate::users::UserMaps;

/// What is known of a sandbox before the disk has been looked at; enough for PID 1 to be born.
#[derive(Debug)]
pub struct Request {
    pub(super) policy: Arc<Policy>,
    ids: IdMaps,
    /// Whether to count what is used even if nothing limits it.
    count: bool,
    pub(super) network: Option<NetworkPlan>,
    /// Whether a zygote makes PID 1, which may lend it a network.
    borrows: bool,
    /// Which calls that fail are to be explained.
    explain: Explain,
}

/// PID 1, busy with the opening of its plan.
pub struct EarlyInit {
    pub(super) running: Running,
    pub(super) opening: Vec<Planned>,
    /// Whether it was born in the sandbox's own network.
    pub(super) born_in_network: bool,
    /// The cgroup, where it is made beforehand, and whether PID 1 was born in it.
    pub(super) cgroup: Option<(Cgroup, bool)>,
}

impl Request {
    /// With `count`, a cgroup counts what is used even if nothing limits it, where one can be had without further ado.
    ///
    /// # Errors
    /// When the policy asks for what nothing would enforce.
    pub fn new(policy: Arc<Policy>, network: Option<NetworkPlan>, count: bool) -> Result<Request, Error> {
        if policy.network.mode.is_gated() && network.is_none() {
            return Err(Error::NotEnforced(
                "the policy requires a decision about each host, but there is no network gate".into(),
            ));
        }
        let ids = match policy.process.users.is_empty() {
            true => IdMaps::of_caller(policy.process.user),
            false => IdMaps::Several(UserMaps::of(&policy.process).map_err(LaunchError::Users)?),
        };
        Ok(Request { policy, ids, count, network, borrows: false, explain: Explain::Nothing })
    }

    /// Has calls explained that fail.
    pub fn explain(&mut self, explain: Explain) {
        self.explain = explain;
    }

    /// What the guard has to know of `resolved` to explain calls.
    pub(super) fn explained(&self, resolved: &Resolved) -> Option<Explained> {
        let every_call = self.explain == Explain::EveryCall;
        let heard = every_call || (self.explain == Explain::Writes && resolved.guard.names());
        heard.then(|| Explained { every_call, points: resolved.points.clone().into() })
    }

    /// What is tried first.
    pub(super) fn first_attempt(&self) -> Attempt {
        let counting = match (limits::need_cgroup(&self.policy.limits), self.count) {
            (true, _) => Counting::Cgroup,
            (false, true) => Counting::ForStats,
            (false, false) => Counting::None,
        };
        let leeway = Leeway {
            best_effort: self.policy.best_effort,
            several_users: self.several_users().is_some(),
            without_netfilter: self.network.as_ref().is_some_and(|network| network.fallback.is_some()),
            guarded_outside: false,
        };
        Attempt::first(counting, leeway)
    }

    /// PID 1 is made by a zygote, where there is one.
    pub(super) fn borrow_network(&mut self) {
        self.borrows = self.several_users().is_none() && launch::zygote::current().is_some();
    }

    /// Has `launcher` make PID 1 for an attempt, and sets it to work.
    ///
    /// # Errors
    /// When the host refuses.
    pub(super) fn launch_early(&self, attempt: &Attempt, launcher: &Launcher) -> Result<EarlyInit, Error> {
        let (tier, counting) = (attempt.tier, attempt.counting);
        let network = attempt.network(self.network.as_ref());
        // On a unified host PID 1 is born in its cgroup; elsewhere the cgroup is made while PID 1 sets up.
        let cgroup =
            if counting.counted() && limits::born_in_cgroup() { self.cgroup(counting)? } else { None };
        let birth = cgroup.as_ref().and_then(Cgroup::birth_fd);
        let mut newborn = birth.is_some();
        let lent = self.borrows && tier != Tier::LandlockOnly && can_be_lent(&self.policy, network);
        let namespaces = launch::namespaces(tier);
        let mut how = Launch { namespaces, ids: &self.ids, cgroup: birth, network: lent };
        let mut launched = launcher.launch(&how);
        if lent && launched.is_err() {
            how.network = false;
            launched = launcher.launch(&how);
        }
        // Before 5.7, and where a container filters clone3, it has to be moved.
        if newborn && matches!(launched, Err(LaunchError::Clone(_))) {
            (newborn, how.cgroup) = (false, None);
            launched = launcher.launch(&how);
        }
        // Inside a sandbox that denies this one namespace, because the cgroup file system could be mounted with it. There the
        // names of the host's cgroups do not show anyway.
        if matches!(launched, Err(LaunchError::Clone(_))) && launch::is_in_cgroup_namespace() {
            how.namespaces &= !flag::NEWCGROUP;
            launched = launcher.launch(&how);
        }
        let init = launched?;
        let running = Running::new(init);
        let opening = match how.network {
            true => Vec::new(),
            false => opening(&self.policy, tier, network),
        };
        running.open(&opening);
        running.let_it_open(&opening);
        let born_in_network = how.network;
        Ok(EarlyInit { running, opening, born_in_network, cgroup: cgroup.map(|cgroup| (cgroup, newborn)) })
    }

    pub(super) fn cgroup(&self, counting: Counting) -> Result<Option<Cgroup>, CgroupError> {
        match counting {
            Counting::Cgroup => limits::cgroup(&self.policy.limits, self.count).map(Some),
            Counting::ForStats => Ok(limits::counting_cgroup()),
            Counting::None | Counting::StandIns(_) => Ok(None),
        }
    }

    pub(super) fn several_users(&self) -> Option<&UserMaps> {
        match &self.ids {
            IdMaps::Several(maps) => Some(maps),
            IdMaps::Caller { .. } => None,
        }
    }

    pub(super) fn stand_ins(&self, attempt: &Attempt) -> (Vec<(u32, u64)>, Vec<String>) {
        match attempt.counting {
            Counting::StandIns(missing) => {
                limits::stand_ins(&self.policy.limits, missing, attempt.tier != Tier::LandlockOnly)
            }
            _ => Default::default(),
        }
    }
}

/// Whether a network that was lent and may be lent again does: one with nothing in it, of which nothing inside can hand anything
/// to somebody outside who would keep it.
fn can_be_lent(policy: &Policy, plan: Option<&NetworkPlan>) -> bool {
    plan.is_none()
        && policy.network.mode == NetworkMode::None
        && policy.network.no_network != NoNetwork::Denied
        && policy.network.unix_sockets == UnixSockets::None
        && policy.process.seccomp != SeccompProfile::None
        && policy.process.nested == NestedNamespaces::Denied
}
