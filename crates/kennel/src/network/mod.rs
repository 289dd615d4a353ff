//! The network of a sandbox. Where it is filtered there is a gate on this side, which feature `network` brings.

#[cfg_attr(
    not(all(any(target_os = "linux", target_os = "macos", windows), feature = "network")),
    expect(dead_code, reason = "what is said to a gate, where there is none")
)]
pub mod control;
#[cfg(all(target_os = "linux", feature = "network"))]
mod gate;
// On Linux its tests alone are run.
#[cfg(all(feature = "network", any(target_os = "macos", windows, all(test, target_os = "linux"))))]
mod host_gate;
#[cfg(not(all(any(target_os = "linux", target_os = "macos", windows), feature = "network")))]
mod no_gate;
#[cfg(all(any(target_os = "linux", target_os = "macos", windows), feature = "network"))]
mod parents;
#[cfg(all(any(target_os = "linux", target_os = "macos", windows), feature = "network"))]
mod publish;
#[cfg(all(any(target_os = "linux", target_os = "macos", windows), feature = "network"))]
mod rules;
#[cfg(all(any(target_os = "linux", target_os = "macos", windows), feature = "network"))]
mod variables;

use kennel_policy::outcome::GatewayUse;
#[cfg(target_os = "linux")]
use kennel_policy::outcome::TrafficUse;

#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) use gate::{Doors, SandboxNetwork, gateway_port};
#[cfg(all(any(target_os = "macos", windows), feature = "network"))]
pub(crate) use host_gate::HostGate;
#[cfg(not(all(any(target_os = "linux", target_os = "macos", windows), feature = "network")))]
pub(crate) use no_gate::GateHandle;
#[cfg(all(any(target_os = "macos", windows), not(feature = "network")))]
pub(crate) use no_gate::HostGate;
#[cfg(all(target_os = "linux", not(feature = "network")))]
pub(crate) use no_gate::{Doors, SandboxNetwork};
#[cfg(all(any(target_os = "linux", target_os = "macos", windows), feature = "network"))]
pub(crate) use rules::GateHandle;

/// Tells what was used of the model gateway.
pub(crate) type GatewayMeter = Box<dyn Fn() -> GatewayUse + Send + Sync>;

/// Tells how many bytes left a sandbox and came in.
#[cfg(target_os = "linux")]
pub(crate) type TrafficMeter = Box<dyn Fn() -> TrafficUse + Send + Sync>;

/// A port of the inside, and where it is found on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The port inside.
    pub inside: u16,
    /// The port of 127.0.0.1, and of ::1 where this host has it.
    pub host: u16,
}
