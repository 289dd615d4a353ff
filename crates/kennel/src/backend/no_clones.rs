//! What Linux has and other systems do not need: memory that a clone gives up, a terminal that is shared with a command, a place
//! that is held for a file.

/// What a clone of this process would have to forget; there are none here.
#[derive(Clone, Copy, Debug, Default)]
pub struct InheritedMemory;

/// Asking the user on the terminal that a command runs on.
pub(crate) mod terminal {
    use std::io;
    use std::time::Duration;

    /// Asks, from any thread.
    #[derive(Clone, Debug)]
    pub struct Asker(());

    /// Questions that wait to be put to the user.
    #[derive(Debug)]
    pub struct Questions(());

    /// What became of a question.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Reply {
        /// What the user typed.
        Line(String),
        /// The user would not say, or there is nobody to ask.
        Refused,
        /// Nobody said anything in time.
        Silence,
    }

    impl Asker {
        /// Asks.
        #[must_use]
        pub fn ask(&self, _: &str, _: Option<Duration>) -> Reply {
            Reply::Refused
        }
    }

    /// A place to ask.
    ///
    /// # Errors
    /// Never, here.
    pub fn questions() -> io::Result<(Asker, Questions)> {
        Ok((Asker(()), Questions(())))
    }
}

/// A file that is written when a command has run.
pub(crate) mod held {
    use std::io;
    use std::path::{Path, PathBuf};

    /// A place for a file. It is not held: a command that can write there is one that could write to wherever the name would
    /// be made to lead.
    #[derive(Debug)]
    pub struct HeldFile(PathBuf);

    /// Why a file cannot be written later.
    pub type HoldError = io::Error;

    impl HeldFile {
        /// Takes note of the place.
        ///
        /// # Errors
        /// Never, here.
        pub fn new(path: &Path, _: impl Fn(&Path) -> bool) -> io::Result<HeldFile> {
            Ok(HeldFile(path.to_owned()))
        }

        /// The path that was given.
        #[must_use]
        pub fn path(&self) -> &Path {
            &self.0
        }

        /// Writes the file.
        ///
        /// # Errors
        /// When the disk refuses.
        pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
            std::fs::write(&self.0, bytes)
        }
    }
}
