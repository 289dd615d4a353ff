//! Without a gate: what needs one cannot be had, and is an error.

use std::convert::Infallible;

use kennel_policy::domain::HostRule;

/// What is missing, for errors.
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
const LACKING: &str = "an allow list of hosts, published ports and a managed proxy require a network gate, but kennel was built without one (feature `network`)";

/// Handle to change the rules of a gate; never created without a gate.
#[derive(Clone, Debug)]
pub(crate) struct GateHandle(Infallible);

impl GateHandle {
    pub(crate) fn replace(&self, _: Vec<HostRule>, _: Vec<HostRule>) {
        match self.0 {}
    }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{Doors, SandboxNetwork};

#[cfg(target_os = "linux")]
mod linux {
    use std::convert::Infallible;
    use std::ffi::OsStr;

    use kennel_linux::network::TaggedSockets;
    use kennel_linux::sandbox::Network;
    use kennel_policy::outcome::{GatewayUse, NetworkUse};
    use kennel_policy::policy::Policy;

    use crate::network::Published;
    use crate::{AskAboutHosts, ControlLines, NetworkControl, Result, SandboxError};

    /// The doors of a network, which nobody has.
    #[derive(Debug)]
    pub(crate) struct Doors(Infallible);

    /// The gate of one sandbox, which nobody has.
    #[derive(Debug)]
    pub(crate) struct SandboxNetwork(Infallible);

    impl Doors {
        pub(crate) fn planned<'e>(
            policy: &Policy,
            environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
        ) -> Result<Option<Doors>> {
            Doors::new(policy, environment, None)
        }

        pub(crate) fn new<'e>(
            policy: &Policy,
            _: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
            _: Option<&AskAboutHosts>,
        ) -> Result<Option<Doors>> {
            if !policy.needs_gate() {
                return Ok(None);
            }
            Err(SandboxError::ConfigValidation(super::LACKING.into()))
        }

        pub(crate) fn published(&self) -> &[Published] {
            match self.0 {}
        }
        pub(crate) fn take_network(&mut self) -> Network {
            match self.0 {}
        }
        pub(crate) fn into_gate(self) -> Option<SandboxNetwork> {
            match self.0 {}
        }
    }

    impl SandboxNetwork {
        pub(crate) fn follow(&self, _: ControlLines) {
            match self.0 {}
        }
        pub(crate) fn control(&self) -> Option<NetworkControl> {
            match self.0 {}
        }
        pub(crate) fn published(&self) -> &[Published] {
            match self.0 {}
        }
        pub(crate) fn open(&mut self, _: TaggedSockets, _: i32, _: bool) {
            match self.0 {}
        }
        pub(crate) fn close(&mut self) {
            match self.0 {}
        }
        pub(crate) fn used(&self, _: &str) -> NetworkUse {
            match self.0 {}
        }
        pub(crate) fn gateway_use(&self) -> GatewayUse {
            match self.0 {}
        }
        pub(crate) fn gateway_meter(&self) -> crate::network::GatewayMeter {
            match self.0 {}
        }
        pub(crate) fn traffic_meter(&self) -> Option<crate::network::TrafficMeter> {
            match self.0 {}
        }
    }
}

#[cfg(any(target_os = "macos", windows))]
pub(crate) use host::HostGate;

#[cfg(any(target_os = "macos", windows))]
mod host {
    use std::ffi::{OsStr, OsString};

    use kennel_policy::environment::DefaultVariable;
    use kennel_policy::outcome::NetworkUse;
    use kennel_policy::policy::Policy;

    use crate::network::Published;
    use crate::{AskAboutHosts, ControlLines, NetworkControl, Result, SandboxError};

    /// The network of a sandbox that has no gate.
    #[derive(Debug)]
    pub(crate) struct HostGate;

    impl HostGate {
        pub(crate) fn new<'e>(
            policy: &Policy,
            _: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
            _: Option<&AskAboutHosts>,
            _: bool,
        ) -> Result<HostGate> {
            if !policy.needs_gate() {
                return Ok(HostGate);
            }
            Err(SandboxError::ConfigValidation(super::LACKING.into()))
        }

        pub(crate) fn open(&mut self, _: bool) {}
        pub(crate) fn close(&mut self) {}
        pub(crate) fn follow(&self, _: ControlLines) {}
        pub(crate) fn control(&self) -> Option<NetworkControl> {
            None
        }
        pub(crate) fn ports(&self) -> &[u16] {
            &[]
        }
        pub(crate) fn published(&self) -> &[Published] {
            &[]
        }
        pub(crate) fn variables(&self) -> (&[(OsString, OsString)], &[DefaultVariable]) {
            (&[], &[])
        }
        pub(crate) fn used(&self, _: &str) -> NetworkUse {
            NetworkUse::default()
        }
        #[cfg(target_os = "macos")]
        pub(crate) fn gateway_use(&self) -> kennel_policy::outcome::GatewayUse {
            Default::default()
        }
    }
}
