//! What a release is called, when it was made and where it is to be had: from Cargo.toml, in one place.

use std::fs;

use super::date;
use crate::Failure;
use crate::cargo;

/// A release.
#[derive(Clone, Debug)]
pub struct Release {
    pub version: String,
    /// Seconds since 1970.
    pub time: u64,
    /// Where the files of each version are: `URL/vVERSION/FILE`.
    pub url: String,
    pub maintainer: String,
}

impl Release {
    /// Reads it. `KENNEL_RELEASES_URL` is another address.
    ///
    /// # Errors
    /// When Cargo.toml does not have it.
    pub fn read() -> Result<Release, Failure> {
        let manifest = fs::read_to_string(cargo::root().join("Cargo.toml"))?;
        let of = |key: &str| {
            let line = manifest.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
            let value = line.and_then(|line| line.strip_suffix('"')).map(str::to_owned);
            value.ok_or_else(|| format!("Cargo.toml: workspace.metadata.release has no {key}"))
        };
        let url = std::env::var("KENNEL_RELEASES_URL").ok().filter(|url| !url.is_empty());
        Ok(Release {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time: date::of_release(),
            url: url.map_or_else(|| of("url"), Ok)?,
            maintainer: of("maintainer")?,
        })
    }
}

/// A file of the project.
///
/// # Errors
/// When it cannot be read.
pub fn root_file(path: &str) -> Result<Vec<u8>, Failure> {
    let place = cargo::root().join(path);
    Ok(fs::read(&place).map_err(|error| format!("reading {}: {error}", place.display()))?)
}
