//! Names on a disk as they are serialised: as text, in which bytes that are none are replaced. An error would lose the rest.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

pub(super) fn path<S: Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
    path.to_string_lossy().serialize(out)
}

#[expect(clippy::ref_option, reason = "this is how serde calls it")]
pub(super) fn maybe_path<S: Serializer>(path: &Option<PathBuf>, out: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(Path::to_string_lossy).serialize(out)
}

pub(super) fn name<S: Serializer>(name: &OsString, out: S) -> Result<S::Ok, S::Error> {
    name.to_string_lossy().serialize(out)
}
