//! Without a gate: what needs one cannot be had, and is an error.

use std::convert::Infallible;

use kennel_policy::domain::HostRule;

/// Handle to change the rules of a gate; never created without a gate.
#[derive(Clone, Debug)]
pub(crate) struct GateHandle(Infallible);

impl GateHandle {
    pub(crate) fn replace(&self, _: Vec<HostRule>, _: Vec<HostRule>) {
        match self.0 {}
    }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::SandboxNetwork;

#[cfg(target_os = "linux")]
mod linux {
    use std::convert::Infallible;
    use std::ffi::OsStr;

    use kennel_linux::network::{NetworkPlan, TaggedSockets};
    use kennel_policy::outcome::NetworkUse;
    use kennel_policy::policy::Policy;

    use crate::network::Published;
    use crate::{AskAboutHosts, ControlLines, NetworkControl, Result, SandboxError};

    /// The gate of one sandbox, which nobody has.
    #[derive(Debug)]
    pub(crate) struct SandboxNetwork(Infallible);

    impl SandboxNetwork {
        pub(crate) fn planned<'e>(
            policy: &Policy,
            environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
        ) -> Result<Option<NetworkPlan>> {
            SandboxNetwork::new(policy, environment, None).map(|_| None)
        }

        pub(crate) fn new<'e>(
            policy: &Policy,
            _: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
            _: Option<&AskAboutHosts>,
        ) -> Result<Option<SandboxNetwork>> {
            if !policy.network.needs_gate() {
                return Ok(None);
            }
            let lacking = "an allow list of hosts, published ports and a managed proxy require a network gate, but kennel was built without one (feature `network`)";
            Err(SandboxError::ConfigValidation(lacking.into()))
        }

        pub(crate) fn obey(&mut self, _: ControlLines) {
            match self.0 {}
        }
        pub(crate) fn follow_control(&mut self) {
            match self.0 {}
        }
        pub(crate) fn control(&self) -> Option<NetworkControl> {
            match self.0 {}
        }
        pub(crate) fn take_plan(&mut self) -> NetworkPlan {
            match self.0 {}
        }
        pub(crate) fn take_outside(&mut self) -> (TaggedSockets, TaggedSockets) {
            match self.0 {}
        }
        pub(crate) fn published(&self) -> &[Published] {
            match self.0 {}
        }
        pub(crate) fn open(&mut self, _: TaggedSockets, _: i32, _: bool) {
            match self.0 {}
        }
        pub(crate) fn used(&self, _: &str) -> NetworkUse {
            match self.0 {}
        }
    }
}
