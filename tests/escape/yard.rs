//! A small piece of the host for one test: something to steal, something to change, somewhere to work.

use std::path::PathBuf;

use kennel_tests::Scratch;

/// What a test must not find inside.
pub const SECRET: &str = "the combination is 8-41-6";

/// The piece.
pub struct Yard(Scratch);

impl Yard {
    pub fn new() -> Yard {
        let scratch = Scratch::new();
        scratch.write("secret", SECRET);
        scratch.write("secrets/key", SECRET);
        scratch.write("open", "anybody may read this");
        scratch.write("work/mine", "mine");
        Yard(scratch)
    }

    /// A file that tests deny to read.
    pub fn secret(&self) -> PathBuf {
        self.0.join("secret")
    }

    /// A folder that tests deny to read; holds `key`.
    pub fn secrets(&self) -> PathBuf {
        self.0.join("secrets")
    }

    /// A file that can be read and not written.
    pub fn open(&self) -> PathBuf {
        self.0.join("open")
    }

    /// The folder that tests allow to write.
    pub fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    pub fn scratch(&self) -> &Scratch {
        &self.0
    }

    /// Flags that hide both secrets and allow to write the one folder, and those of the test.
    pub fn flags(&self, more: &[&str]) -> Vec<String> {
        let mut flags = Vec::new();
        for (flag, path) in
            [("--deny-read", self.secret()), ("--deny-read", self.secrets()), ("--allow-write", self.work())]
        {
            flags.extend([flag.to_owned(), path.display().to_string()]);
        }
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
        flags
    }
}

/// For functions that take `&[&str]`.
pub fn refs(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

/// Every profile and both users inside. The filter is one wall of several: most ways out have to be closed without it.
pub const EVERY_WAY: [&[&str]; 5] = [
    &[],
    &["--user", "root"],
    &["--seccomp", "permissive"],
    &["--seccomp", "none"],
    &["--seccomp", "none", "--user", "root"],
];
