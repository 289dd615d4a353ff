//! From a policy to the text of a Seatbelt profile (SBPL).
//!
//! [`resolve`](resolve()) finds out what a policy means on a disk, which it sees through the trait [`MacDisk`]. [`profile`] turns that into
//! text. Nothing here runs anything, so all of it is tested where there is no Seatbelt.
//!
//! ```
//! use kennel_macos::profile::{HostDisk, MissingFolders, Network, Surroundings, profile, resolve};
//! use kennel_policy::policy::Policy;
//!
//! let policy = Policy::default();
//! let around = Surroundings { cwd: "/".into(), ..Surroundings::default() };
//! let resolved = resolve(&policy, &around, &HostDisk, MissingFolders::Plan)?;
//! let network = Network::of(&policy.network, &[])?;
//! let profile = profile(&resolved, &network, "kennel-7f3a")?;
//! assert!(profile.text.starts_with("(version 1)\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod disk;
mod error;
mod files;
mod network;
mod regex;
mod resolve;
pub mod services;
mod text;

pub use disk::{HostDisk, MacDisk};
pub use error::{ProfileError, ResolveError};
pub use network::{Listen, Network, Outbound};
pub use resolve::{
    Access, Denial, DeniedPattern, MissingFolders, Point, Resolved, SYSTEM, SocketPath, Sockets,
    Surroundings, SystemPath, resolve,
};

use files::Files;
use text::{Decision, Writer};

/// A profile, as `sandbox-exec` or `sandbox_init_with_parameters` take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The text.
    pub text: String,
    /// Values of parameters that the text names: each name with its value. Mostly there are none, since paths are quoted in
    /// the text.
    pub parameters: Vec<(String, String)>,
}

/// Writes the profile for what a policy means on a disk. `tag` stands in the message of every refusal in the system's log:
/// letters, digits and `-`, one for each sandbox.
///
/// # Errors
/// When a path cannot be written in a profile, or there are more rules than the system compiles.
pub fn profile(resolved: &Resolved, network: &Network, tag: &str) -> Result<Profile, ProfileError> {
    let mut writer = Writer::new(tag)?;
    writer.all(Decision::Deny, "process-info* nvram* file-map-executable", "the default leaves them open");
    services::write(&mut writer, resolved.reads, network, &resolved.mach_services)?;
    network.write(&mut writer);
    network::write_sockets(&mut writer, resolved)?;
    let files = Files::new(resolved);
    files.write(&mut writer)?;
    services::write_devices(&mut writer);
    files.write_devices(&mut writer)?;
    files.write_moves(&mut writer)?;
    Ok(Profile { text: writer.finish()?, parameters: Vec::new() })
}

#[cfg(test)]
mod tests;
