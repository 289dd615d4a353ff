//! The network of a sandbox. Where it is filtered there is a gate on this side, which feature `network` brings.

#[cfg(all(target_os = "linux", feature = "network"))]
mod gate;
#[cfg(not(all(target_os = "linux", feature = "network")))]
mod no_gate;

#[cfg(all(target_os = "linux", feature = "network"))]
pub(crate) use gate::GateHandle;
#[cfg(target_os = "linux")]
#[cfg(feature = "network")]
pub(crate) use gate::SandboxNetwork;
#[cfg(not(all(target_os = "linux", feature = "network")))]
pub(crate) use no_gate::GateHandle;
#[cfg(all(target_os = "linux", not(feature = "network")))]
pub(crate) use no_gate::SandboxNetwork;

/// A port of the inside, and where it is found on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The port inside.
    pub inside: u16,
    /// The port of 127.0.0.1, and of ::1 where this host has it.
    pub host: u16,
}
