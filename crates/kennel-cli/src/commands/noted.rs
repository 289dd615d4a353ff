//! What a person has agreed to, as it is noted: small files in a folder of kennel's below the one for configurations, which no sandbox
//! can write, whatever its policy opens (`kennel_resolve` has the rule).
//!
//! A note is a file of its own that is written whole, so several kennels at once lose none of each other's.

use std::io;
use std::path::{Path, PathBuf};

use kennel::profiles::config_folder;
use kennel::settings_file;

use super::policy::Lazy;
use crate::platform::{self, variable};

/// As many are looked at.
const MAX_NOTES: usize = 10_000;
/// As long is the name of a note's file.
const NAME: usize = 16;

/// A folder of notes.
pub struct Noted(PathBuf);

impl Noted {
    /// The folder of this name, whether it exists or not.
    pub fn in_folder(name: &str, homes: &Lazy) -> Option<Noted> {
        Some(Noted(config_folder(variable, || homes.homes().clone())?.join("kennel").join(name)))
    }

    /// The one at this path.
    pub fn at(folder: PathBuf) -> Noted {
        Noted(folder)
    }

    /// Where the notes are.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Whether this is noted, byte by byte.
    pub fn holds(&self, note: &[u8]) -> bool {
        let there = settings_file::bytes(&self.file(note)).ok().flatten();
        there.is_some_and(|there| there == note)
    }

    /// Every note, with its file.
    pub fn all(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let files = std::fs::read_dir(&self.0).into_iter().flatten().flatten().take(MAX_NOTES);
        // A longer name is that of a note which somebody is writing.
        let files = files
            .map(|entry| entry.path())
            .filter(|file| file.file_name().is_some_and(|name| name.len() == NAME));
        files.filter_map(|file| settings_file::bytes(&file).ok()?.map(|note| (file, note))).collect()
    }

    /// Notes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, note: &[u8]) -> io::Result<()> {
        std::fs::create_dir_all(&self.0)?;
        platform::write_whole(&self.file(note), note, None, 0o600)
    }

    /// A name by which a note is found soon (FNV-1a). Of two that share one, the later holds.
    fn file(&self, note: &[u8]) -> PathBuf {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        self.0.join(format!("{:0NAME$x}", note.iter().fold(0xcbf2_9ce4_8422_2325, step)))
    }
}
