//! A container as a test describes it, and what came of running it.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::launch::{self, Launched};

/// Where the entrypoint is in the test's root file system.
pub const ENTRYPOINT: &str = "/sbin-under-test/kennel-entrypoint";

/// The user database of the image, unless a test says otherwise.
pub const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n";

/// Who PID 1 is when the entrypoint starts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Identity {
    /// Root of the host, as in Docker by default. Only root can test this.
    Root,
    /// Root of a user namespace with 65,536 ids, as in Docker with userns-remap, rootless Podman, or a pod with
    /// `hostUsers: false`. Only root can test this without help from `newuidmap`.
    RemappedRoot,
    /// Root of a user namespace in which no other id exists: all that an ordinary user can make alone.
    LoneRoot,
    /// Nobody special, uid 1000, as with `docker run --user 1000` or `runAsUser: 1000`.
    Ordinary,
}

pub use Identity::{LoneRoot, Ordinary, RemappedRoot, Root};

/// Runs a test as each of these identities that this host allows, and says which it does not.
pub fn each(identities: &[Identity], test: impl Fn(Identity)) {
    for &identity in identities {
        match available(identity) {
            Ok(()) => test(identity),
            Err(reason) => skipped(&format!("as {identity:?}: {reason}")),
        }
    }
}

/// Says, once for each test, that something could not be tested here.
#[expect(clippy::explicit_write, reason = "the test harness swallows what eprintln! prints")]
pub fn skipped(reason: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("SKIPPED: {test}: {reason}");
    if SAID.lock().unwrap().insert(line.clone()) {
        writeln!(io::stderr(), "{line}").unwrap();
    }
}

/// Asked once for each identity.
fn available(identity: Identity) -> &'static Result<(), String> {
    static ANSWERS: [OnceLock<Result<(), String>>; 4] = [const { OnceLock::new() }; 4];
    ANSWERS[identity as usize].get_or_init(|| match identity {
        Root | RemappedRoot if !launch::is_root() => Err("needs root".to_owned()),
        _ => Container::new().launch(identity, false).map(|running| drop(running.finish())),
    })
}

/// An image and the way it is started.
#[derive(Clone)]
pub struct Container {
    pub environment: Vec<Vec<u8>>,
    pub arguments: Vec<Vec<u8>>,
    pub passwd: Option<Vec<u8>>,
    files: Vec<(String, u32, Vec<u8>)>,
    workspace: bool,
    pub surroundings: launch::Surroundings,
}

impl Container {
    pub fn new() -> Self {
        Self {
            environment: vec![b"PATH=/usr/local/bin:/usr/bin:/bin".to_vec()],
            arguments: Vec::new(),
            passwd: Some(PASSWD.into()),
            files: Vec::new(),
            workspace: true,
            surroundings: launch::Surroundings::default(),
        }
    }

    /// Sets a variable, or sets it once more.
    pub fn var(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.environment.push([name.as_bytes(), b"=", value.as_ref()].concat());
        self
    }

    /// The words after the entrypoint's name.
    pub fn args<const N: usize>(mut self, arguments: [&str; N]) -> Self {
        self.arguments = arguments.map(Into::into).into();
        self
    }

    /// Runs `script` in `sh` as the agent. The final `:` keeps shells from executing the last command in their own
    /// place.
    pub fn script(self, script: &str) -> Self {
        self.args(["sh", "-c", &format!("{script}\n:")])
    }

    pub fn passwd(mut self, passwd: impl Into<Vec<u8>>) -> Self {
        self.passwd = Some(passwd.into());
        self
    }

    pub fn without_passwd(mut self) -> Self {
        self.passwd = None;
        self
    }

    pub fn without_workspace(mut self) -> Self {
        self.workspace = false;
        self
    }

    pub fn file(mut self, path: &str, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.to_owned(), mode, content.into()));
        self
    }

    /// Makes a system call answer with an error number, or with success without being carried out if it is 0.
    pub fn answer(mut self, system_call: libc::c_long, errno: libc::c_int) -> Self {
        self.surroundings.answers.push((system_call, errno));
        self
    }

    pub fn run(&self, identity: Identity) -> Finished {
        self.start(identity).finish()
    }

    pub fn start(&self, identity: Identity) -> Running {
        self.launch(identity, false).unwrap_or_else(|reason| panic!("as {identity:?}: {reason}"))
    }

    /// With a terminal for stdin, stdout and stderr.
    pub fn start_on_terminal(&self, identity: Identity) -> Running {
        self.launch(identity, true).unwrap_or_else(|reason| panic!("as {identity:?}: {reason}"))
    }

    fn launch(&self, identity: Identity, terminal: bool) -> Result<Running, String> {
        let image = Image::lay_out(self).map_err(|error| format!("laying out an image: {error}"))?;
        let launched = launch::launch(self, &image, identity, terminal)?;
        Ok(Running {
            output: launched.output.try_clone().map(BufReader::new).unwrap(),
            launched,
            _image: image,
        })
    }
}

/// A root file system on disk, without the mounts. It goes when the container has ended.
pub struct Image {
    pub root: PathBuf,
    /// Directories of the host that are mounted into it.
    pub programs: Vec<PathBuf>,
}

impl Image {
    fn lay_out(container: &Container) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("kennel-entrypoint-{}-{number}", std::process::id()));
        let mut image = Self { root, programs: Vec::new() };
        image.directory("")?;
        for directory in ["etc", "proc", "dev", "old-root"] {
            image.directory(directory)?;
        }
        image.write("dev/null", 0o666, b"")?;
        image.write(&ENTRYPOINT[1..], 0o755, b"")?;
        if container.workspace {
            image.directory("workspace")?;
        }
        if let Some(passwd) = &container.passwd {
            image.write("etc/passwd", 0o644, passwd)?;
        }
        for (path, mode, content) in &container.files {
            image.write(path, *mode, content)?;
        }
        for name in ["usr", "bin", "sbin", "lib", "lib32", "lib64", "nix", "gnu"] {
            let on_host = Path::new("/").join(name);
            if let Ok(target) = fs::read_link(&on_host) {
                symlink(target, image.root.join(name))?;
            } else if on_host.is_dir() {
                image.directory(name)?;
                image.programs.push(on_host);
            }
        }
        Ok(image)
    }

    fn directory(&self, path: &str) -> io::Result<()> {
        let path = self.root.join(path);
        fs::create_dir_all(&path)?;
        fs::set_permissions(path, Permissions::from_mode(0o755))
    }

    fn write(&self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap())?;
        fs::write(&path, content)?;
        fs::set_permissions(path, Permissions::from_mode(mode))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// A container whose PID 1 has been started.
pub struct Running {
    launched: Launched,
    output: BufReader<fs::File>,
    _image: Image,
}

impl Running {
    /// PID 1 as the host counts it.
    pub fn pid(&self) -> libc::pid_t {
        self.launched.pid
    }

    /// The next line that the agent printed.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.output.read_until(b'\n', &mut line).unwrap();
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// Signals PID 1 from outside, as `docker stop` does.
    pub fn signal(&self, signal: libc::c_int) {
        launch::kill(self.pid(), signal);
    }

    /// Types on the terminal.
    pub fn type_in(&mut self, text: &str) {
        self.launched.output.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for the end.
    pub fn finish(mut self) -> Finished {
        let mut stdout = Vec::new();
        // A terminal whose other side has gone answers with an error instead of an end.
        let _ = self.output.read_to_end(&mut stdout);
        let mut stderr = Vec::new();
        if let Some(mut errors) = self.launched.errors.take() {
            errors.read_to_end(&mut stderr).unwrap();
        }
        Finished {
            ending: self.launched.wait(),
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }
}

/// How PID 1 ended.
#[derive(Debug, PartialEq)]
pub enum Ending {
    Exited(i32),
    Killed(i32),
}

/// A container that has ended.
#[derive(Debug)]
pub struct Finished {
    pub ending: Ending,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Finished {
    /// What the agent printed, after it ended well.
    pub fn text(&self) -> String {
        assert_eq!(self.ending, Ending::Exited(0), "{self:?}");
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The agent never ran, and this is what the entrypoint said.
    #[track_caller]
    pub fn fatal(&self, said: &str) {
        assert_eq!(self.ending, Ending::Exited(1), "{self:?}");
        assert_eq!(self.stderr, said);
        assert_eq!(self.stdout, b"", "the agent must not have run");
    }
}

/// What the entrypoint says as [`Ordinary`], before anything else that it may have to say.
pub const NOT_ROOT: &str = "\
[entrypoint] warning: dropping privileges: agent: not running as root; the agent keeps the current user
[entrypoint] help: only root can change users: start the container as root, or without AGENT_STRICT as the user meant
";

/// What stderr holds if all went well.
pub fn quiet(identity: Identity) -> &'static str {
    if identity == Ordinary { NOT_ROOT } else { "" }
}
