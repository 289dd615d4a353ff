//! The scratch area of a session, and the trees that histories start with, made on a real disk.
//!
//! ```text
//! /var/tmp/kennel-attack-PID/
//!   top/        what a history is about
//!   stage/      where the host prepares files that it then renames into place
//!   marks/      where programs that the host was tricked into running leave a mark
//!   template/   a git repository to copy
//! ```

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::canary::Canaries;
use super::script::Op;
use super::snapshot::{self, TOP};
use super::word;

/// What git gets in every call: nobody's settings, and a name for commits.
pub const GIT_ENVIRONMENT: [(&str, &str); 7] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_AUTHOR_NAME", "a"),
    ("GIT_AUTHOR_EMAIL", "a@example.com"),
    ("GIT_COMMITTER_NAME", "a"),
    ("GIT_COMMITTER_EMAIL", "a@example.com"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// A scratch area, removed with the value.
#[derive(Debug)]
pub struct Area {
    path: PathBuf,
    /// Whether there is a template of a repository; made when it is first asked for.
    template: bool,
}

/// What of a tree lives only as long as somebody holds it.
#[derive(Debug, Default)]
pub struct Living {
    /// Daemons of the host's, by the paths of their sockets.
    pub daemons: Vec<(String, UnixListener)>,
    /// Second mounts.
    pub mounts: Vec<PathBuf>,
}

impl Area {
    /// Makes one.
    ///
    /// # Errors
    /// When /var/tmp cannot be written.
    pub fn new() -> io::Result<Area> {
        let path = PathBuf::from(format!("/var/tmp/kennel-attack-{}", std::process::id()));
        for folder in ["top", "stage", "marks", "template"] {
            fs::create_dir_all(path.join(folder))?;
        }
        Ok(Area { path, template: false })
    }

    /// A folder of it.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The top of the trees.
    #[must_use]
    pub fn top(&self) -> PathBuf {
        self.path.join("top")
    }

    /// Makes a tree in place of the last one.
    ///
    /// # Errors
    /// When something cannot be made, with its node.
    pub fn plant(&mut self, tree: &[Op], canaries: &mut Canaries) -> Result<Living, String> {
        for folder in ["top", "stage", "marks"] {
            snapshot::clear(&self.at(folder));
        }
        let top = self.top();
        fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
        let mut living = Living::default();
        for node in tree {
            self.node(&top, node, canaries, &mut living).map_err(|error| format!("{node}: {error}"))?;
        }
        Ok(living)
    }

    fn node(
        &mut self,
        top: &Path,
        node: &Op,
        canaries: &mut Canaries,
        living: &mut Living,
    ) -> io::Result<()> {
        let place = word::place(top, node.word(0));
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        match node.verb.as_str() {
            "dir" => fs::create_dir_all(&place)?,
            "file" => fs::write(&place, canaries.make().content())?,
            "link" => {
                let text = word::unescape(&node.word(1).replace(TOP, &top.to_string_lossy()));
                symlink(std::ffi::OsStr::from_bytes(&text), &place)?;
            }
            "hard" => fs::hard_link(word::place(top, node.word(1)), &place)?,
            "fifo" => rustix::fs::mknodat(
                rustix::fs::CWD,
                &place,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::from_raw_mode(0o644),
                0,
            )?,
            "sock" => {
                let listener = UnixListener::bind(&place)?;
                listener.set_nonblocking(true)?;
                living.daemons.push((node.word(0).to_owned(), listener));
            }
            "repo" => {
                self.template()?;
                fs::create_dir_all(&place)?;
                copy(&self.at("template"), &place)?;
            }
            "worktree" => {
                let repository = word::place(top, node.word(1));
                let mut command = git(&repository);
                let status = command.args(["worktree", "add", "-q"]).arg(&place).status()?;
                if !status.success() {
                    return Err(io::Error::other(format!("git worktree: {status}")));
                }
            }
            "bind" => {
                let onto = word::place(top, node.word(1));
                fs::create_dir_all(&onto)?;
                rustix::mount::mount_bind(&place, &onto)?;
                living.mounts.push(onto);
            }
            _ => {}
        }
        if let (true, Ok(mode)) =
            (node.verb == "dir" || node.verb == "file", u32::from_str_radix(node.word(1), 8))
        {
            fs::set_permissions(&place, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    /// A repository with a commit, made by the real git once.
    fn template(&mut self) -> io::Result<()> {
        if self.template {
            return Ok(());
        }
        let folder = self.at("template");
        fs::write(folder.join("tracked"), "tracked\n")?;
        for words in ["init -q --template= -b main", "add tracked", "commit -q -m first"] {
            let status = git(&folder).args(words.split(' ')).status()?;
            if !status.success() {
                return Err(io::Error::other(format!("git {words}: {status}")));
            }
        }
        self.template = true;
        Ok(())
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        snapshot::clear(&self.path);
        let _ = fs::remove_dir(&self.path);
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        for mount in self.mounts.iter().rev() {
            let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// The host's git in a folder, quiet.
#[must_use]
pub fn git(folder: &Path) -> Command {
    // A history may have left a FIFO where git reads a file, which would wait for ever.
    let mut command = Command::new("timeout");
    command
        .args(["-k", "1", "10", "git"])
        .current_dir(folder)
        .envs(GIT_ENVIRONMENT)
        .env("HOME", "/nonexistent");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Copies a folder's content, files and folders only.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&place)?;
            copy(&entry.path(), &place)?;
        } else {
            fs::write(&place, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}
