//! Having the maps written, for a process that waits for them in a namespace without any.
//!
//! The kernel lets an ordinary process map its own id and no other. `newuidmap` and `newgidmap` are set-user-ID root, look into
//! `/etc/subuid` and `/etc/subgid`, and write what these allow. They are run from the folders of the system, with an empty
//! environment: what the caller's `PATH` leads to may be anybody's. Whether they did it is read from the kernel: another
//! thread of the caller's may have taken their exit codes.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::StatVfsMountFlags;

use super::{UserMaps, UsersError, Which};
use crate::clock::timespec;

/// Where the tools are: Debian and most others, NixOS, and what is installed by hand.
const FOLDERS: [&str; 5] = ["/usr/bin", "/bin", "/run/wrappers/bin", "/usr/local/bin", "/usr/sbin"];
/// They look into files, or ask a directory server.
const PATIENCE: Duration = Duration::from_secs(20);
/// More than this nobody reads.
const MAX_SAID: u64 = 4096;

impl Which {
    fn tool(self) -> &'static str {
        match self {
            Which::Users => "newuidmap",
            Which::Groups => "newgidmap",
        }
    }
}

const BOTH: [Which; 2] = [Which::Users, Which::Groups];

impl UserMaps {
    /// Has the maps written for a process that is in a namespace of its own, without any.
    ///
    /// # Errors
    /// When a tool is missing or refuses, or the kernel does.
    pub fn write_for(&self, pid: i32) -> Result<(), UsersError> {
        if self.direct {
            return BOTH.into_iter().try_for_each(|which| self.write(which, pid));
        }
        // Both at once: each takes a millisecond or more.
        let tools = BOTH.map(|which| self.tool(which).and_then(|path| self.start(which, &path, pid)));
        let mut first = Ok(());
        for (which, tool) in BOTH.into_iter().zip(tools) {
            first = first.and(tool.and_then(|tool| self.finish(which, tool, pid)));
        }
        first
    }

    /// Looks whether [`UserMaps::write_for`] can do something here; says how.
    ///
    /// # Errors
    /// When it cannot.
    pub fn check(&self) -> Result<String, UsersError> {
        if self.direct {
            return Ok("which root maps itself".into());
        }
        for which in BOTH {
            self.tool(which)?;
        }
        Ok("by newuidmap and newgidmap".into())
    }

    fn write(&self, which: Which, pid: i32) -> Result<(), UsersError> {
        let file = format!("/proc/{pid}/{}", which.map());
        // In one write: the kernel takes a map once.
        let written = std::fs::OpenOptions::new()
            .write(true)
            .open(&file)
            .and_then(|file| Ok(rustix::io::write(&file, self.text(which).as_bytes())?));
        written.map(drop).map_err(|source| UsersError::Write { users: self.names.clone(), file, source })
    }

    /// Where a tool is, if it can do anything.
    fn tool(&self, which: Which) -> Result<PathBuf, UsersError> {
        let found = FOLDERS.iter().find_map(|folder| {
            let path = Path::new(folder).join(which.tool());
            std::fs::metadata(&path).ok().filter(|about| about.is_file()).map(|about| (path, about))
        });
        let users = || self.names.clone();
        let Some((path, about)) = found else {
            let (tool, folders) = (which.tool(), FOLDERS.join(", "));
            return Err(UsersError::NoTool { users: users(), tool, folders });
        };
        let powerless = |problem, help: String| {
            Err(UsersError::Powerless { users: users(), tool: path.display().to_string(), problem, help })
        };
        let set_uid = about.permissions().mode() & 0o4000 != 0 && about.uid() == 0;
        let mut capability = [0u8; 64];
        let capable = rustix::fs::getxattr(&path, "security.capability", &mut capability[..]).is_ok();
        if !set_uid && !capable {
            return powerless(
                "is neither set-user-ID root nor has file capabilities",
                format!("as root, run `chmod u+s {}`, or install its package again", path.display()),
            );
        }
        if rustix::fs::statvfs(&path).is_ok_and(|at| at.f_flag.contains(StatVfsMountFlags::NOSUID)) {
            return powerless(
                "lies on a file system that is mounted nosuid",
                "mount it without `nosuid`".into(),
            );
        }
        let status = crate::read::read_to_end("/proc/self/status").unwrap_or_default();
        if String::from_utf8_lossy(&status).lines().any(|line| line == "NoNewPrivs:\t1") {
            return powerless(
                "cannot become root, because this process has no_new_privs set",
                "start this process without it: it is set by sandboxes, by `setpriv --no-new-privs`, and by systemd's \
                 `NoNewPrivileges=`"
                    .into(),
            );
        }
        Ok(path)
    }

    fn start(&self, which: Which, path: &Path, pid: i32) -> Result<(PathBuf, Child), UsersError> {
        let mut command = Command::new(path);
        command.arg(pid.to_string()).env_clear();
        for extent in self.extents(which) {
            command.args([extent.inside, extent.outside, extent.count].map(|number| number.to_string()));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => Ok((path.to_owned(), child)),
            Err(source) => {
                let doing = format!("executing {}", path.display());
                Err(UsersError::System { users: self.names.clone(), doing, source })
            }
        }
    }

    fn finish(&self, which: Which, (path, mut child): (PathBuf, Child), pid: i32) -> Result<(), UsersError> {
        let mut said = Vec::new();
        let in_time = child.stderr.take().is_some_and(|mut stream| hear(&mut stream, &mut said));
        if !in_time {
            // A set-user-ID program cannot be killed by whoever started it; it is left alone, and the sandbox ends.
            let _ = child.kill();
            let said = format!("did nothing for {} s", PATIENCE.as_secs());
            return Err(UsersError::Refused {
                users: self.names.clone(),
                tool: path.display().to_string(),
                said,
            });
        }
        let _ = child.wait();
        if self.is_written(which, pid) {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&said);
        let said = kennel_policy::printed::show(said.trim().as_bytes());
        let said = if said.is_empty() { "failed without a word".into() } else { said };
        Err(UsersError::Refused { users: self.names.clone(), tool: path.display().to_string(), said })
    }

    /// Whether the kernel has this map for the process.
    fn is_written(&self, which: Which, pid: i32) -> bool {
        let numbers = |text: &str| -> Vec<u32> {
            text.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
        };
        let map = crate::read::read_to_end(&format!("/proc/{pid}/{}", which.map())).unwrap_or_default();
        numbers(&String::from_utf8_lossy(&map)) == numbers(&self.text(which))
    }
}

/// Reads what a tool says until it has ended; whether it did in time.
fn hear(stream: &mut (impl Read + AsFd), said: &mut Vec<u8>) -> bool {
    let until = Instant::now() + PATIENCE;
    loop {
        let left = timespec(until.saturating_duration_since(Instant::now()));
        let mut ready = [PollFd::new(stream, PollFlags::IN)];
        match poll(&mut ready, Some(&left)) {
            Err(rustix::io::Errno::INTR) => continue,
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        let mut buffer = [0; 1024];
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(length) if (said.len() as u64) < MAX_SAID => said.extend_from_slice(&buffer[..length]),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}
