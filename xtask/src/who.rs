//! Who runs a program: whoever called the workshop, and where that is root, an ordinary user as well.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Failure;

/// `nobody`, whom every distribution has: no account is made for the tests.
const NOBODY: u32 = 65534;

/// Somebody who runs programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The caller, who is root.
    Root,
    /// The caller, who is not.
    Caller,
    /// Somebody without privileges, in root's place.
    Nobody,
}

impl Who {
    /// Everybody this process can be.
    pub fn all() -> &'static [Who] {
        // /proc/self belongs to the effective user of the process that looks.
        let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        if is_root { &[Who::Root, Who::Nobody] } else { &[Who::Caller] }
    }

    /// How tables call them.
    pub fn name(self) -> &'static str {
        match self {
            Who::Root => "root",
            Who::Caller | Who::Nobody => "user",
        }
    }

    /// A folder of their own below `place`, to be their home.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn home(self, place: &Path) -> Result<std::path::PathBuf, Failure> {
        let home = place.join(format!("home-of-{}", self.name()));
        fs::create_dir_all(&home)?;
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700))?;
        if self == Who::Nobody {
            chown(&home, Some(NOBODY), Some(NOBODY))?;
        }
        Ok(home)
    }

    /// A program that they run, with `home` for home and working directory and an environment that holds nothing of
    /// the caller's but `PATH` and where Rust's toolchains are. Standard input is empty.
    pub fn command(self, program: &Path, home: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().stdin(Stdio::null()).current_dir(home);
        command
            .env("HOME", home)
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env("RUST_BACKTRACE", "1");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
        // Where rustup stands in front of cargo and rustc it looks for the toolchains in the home of whoever has them.
        let rustup = std::env::var_os("RUSTUP_HOME")
            .map(std::path::PathBuf::from)
            .or_else(|| std::env::home_dir().map(|home| home.join(".rustup")))
            .filter(|folder| self != Who::Nobody && folder.is_dir());
        if let Some(folder) = rustup {
            command.env("RUSTUP_HOME", folder);
        }
        match self {
            Who::Root => command.env("USER", "root"),
            Who::Caller => command.env("USER", std::env::var_os("USER").unwrap_or_default()),
            // Root's other groups go with the change of user: the standard library sees to that.
            Who::Nobody => command.env("USER", "nobody").gid(NOBODY).uid(NOBODY),
        };
        command
    }
}
