//! What is known of a sandbox before the disk has been looked at, and PID 1, which is born from it.

use std::sync::Arc;

use kennel_init::child::clone::flag;
use kennel_init::plan::Planned;
use kennel_policy::policy::{NetworkMode, NoNetwork, Policy, SeccompProfile, UnixSockets};

use super::Error;
use crate::cgroup::{Cgroup, CgroupError, ControllerSet};
use crate::launch::{self, IdMaps, Init, Launch, LaunchError};
use crate::limits;
use crate::network::NetworkPlan;
use crate::plan::{Tier, opening};
use crate::supervise::Running;
use crate::users::UserMaps;

/// What is known of a sandbox before the disk has been looked at; enough for PID 1 to be born.
#[derive(Debug)]
pub struct Request {
    pub(super) policy: Arc<Policy>,
    ids: IdMaps,
    pub(super) counting: Counting,
    /// Whether to count what is used even if nothing limits it.
    count: bool,
    pub(super) network: Option<NetworkPlan>,
    /// Whether a zygote makes PID 1, which may lend it a network.
    borrows: bool,
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

/// How the limits on the whole sandbox are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Counting {
    pub(super) fn counted(&self) -> bool {
        matches!(self, Counting::Cgroup | Counting::ForStats)
    }
}

impl Request {
    /// With `count`, a cgroup counts what is used even if nothing limits it, where one can be had without further ado.
    ///
    /// # Errors
    /// When the policy asks for what nothing would enforce.
    pub fn new(policy: Arc<Policy>, network: Option<NetworkPlan>, count: bool) -> Result<Request, Error> {
        if policy.network.mode == NetworkMode::AllowList && network.is_none() {
            return Err(Error::NotEnforced(
                "the policy requires an allow list of hosts, but there is no network gate".into(),
            ));
        }
        let counting = match (limits::need_cgroup(&policy.limits), count) {
            (true, _) => Counting::Cgroup,
            (false, true) => Counting::ForStats,
            (false, false) => Counting::None,
        };
        let ids = match policy.process.users.is_empty() {
            true => IdMaps::of_caller(policy.process.user),
            false => IdMaps::Several(UserMaps::of(&policy.process).map_err(LaunchError::Users)?),
        };
        Ok(Request { policy, ids, counting, count, network, borrows: false })
    }

    /// PID 1 is made by a zygote, where there is one.
    pub(super) fn borrow_network(&mut self) {
        self.borrows = self.several_users().is_none() && launch::zygote::current().is_some();
    }

    /// Has `launch` make PID 1 for a tier, and sets it to work.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn launch_early(
        &self,
        tier: Tier,
        launch: &mut impl FnMut(&Launch) -> Result<Init, LaunchError>,
    ) -> Result<EarlyInit, Error> {
        // On a unified host PID 1 is born in its cgroup; elsewhere the cgroup is made while PID 1 sets up.
        let cgroup = if self.counting.counted() && limits::born_in_cgroup() { self.cgroup()? } else { None };
        let birth = cgroup.as_ref().and_then(Cgroup::birth_fd);
        let mut newborn = birth.is_some();
        let lent =
            self.borrows && tier != Tier::LandlockOnly && can_be_lent(&self.policy, self.network.as_ref());
        let namespaces = launch::namespaces(tier);
        let mut how = Launch { namespaces, ids: &self.ids, cgroup: birth, network: lent };
        let mut launched = launch(&how);
        if lent && launched.is_err() {
            how.network = false;
            launched = launch(&how);
        }
        // Before 5.7, and where a container filters clone3, it has to be moved.
        if newborn && matches!(launched, Err(LaunchError::Clone(_))) {
            (newborn, how.cgroup) = (false, None);
            launched = launch(&how);
        }
        // Inside a sandbox that denies this one namespace, because the cgroup file system could be mounted with it. There the
        // names of the host's cgroups do not show anyway.
        if matches!(launched, Err(LaunchError::Clone(_))) && launch::is_in_cgroup_namespace() {
            how.namespaces &= !flag::NEWCGROUP;
            launched = launch(&how);
        }
        let init = launched?;
        let running = Running::new(init);
        let opening = match how.network {
            true => Vec::new(),
            false => opening(&self.policy, tier, self.network.as_ref()),
        };
        running.open(&opening);
        running.let_it_open(&opening);
        let born_in_network = how.network;
        Ok(EarlyInit { running, opening, born_in_network, cgroup: cgroup.map(|cgroup| (cgroup, newborn)) })
    }

    pub(super) fn cgroup(&self) -> Result<Option<Cgroup>, CgroupError> {
        match self.counting {
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

    pub(super) fn stand_ins(&self, tier: Tier) -> (Vec<(u32, u64)>, Vec<String>) {
        match self.counting {
            Counting::StandIns(missing) => {
                limits::stand_ins(&self.policy.limits, missing, tier != Tier::LandlockOnly)
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
}
