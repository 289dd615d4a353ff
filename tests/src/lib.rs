//! What every end-to-end suite stands on: the built binary, scratch folders, honest skips.
//!
//! The suites run the real `kennel` in real sandboxes. `cargo xtask test` runs each of them twice, as root and as an
//! ordinary user; a suite can ask [`am_root`], but should seldom have to.

pub mod attack;
pub mod crowd;
pub mod filter;
pub mod hog;
pub mod leftovers;
pub mod probe;
pub mod pty;
pub mod role;
pub mod screen;
pub mod suite;
pub mod world;

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Where the suites' source was when they were built.
pub const SOURCE: &str = env!("CARGO_MANIFEST_DIR");

/// The binary under test: `$KENNEL_BIN`, or the one that Cargo has built for this program.
#[must_use]
pub fn kennel_bin() -> PathBuf {
    let built = || suite::KENNEL.get().map(PathBuf::from);
    std::env::var_os("KENNEL_BIN").map(PathBuf::from).or_else(built).expect("suites! names the binary")
}

/// `kennel` with these arguments, standard input empty, and no settings files of the user's.
pub fn kennel<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(kennel_bin());
    command.args(args).stdin(Stdio::null()).env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

/// `kennel run FLAGS -- sh -c SCRIPT`.
pub fn kennel_sh<I: AsRef<OsStr>>(flags: impl IntoIterator<Item = I>, script: &str) -> Command {
    let mut command = kennel(["run"]);
    command.args(flags).args(["--", "sh", "-c", script]);
    command
}

/// The same, run to its end.
pub fn run_sh<I: AsRef<OsStr>>(flags: impl IntoIterator<Item = I>, script: &str) -> Ran {
    ran(&mut kennel_sh(flags, script))
}

/// A sandbox of the library's in the default configuration.
#[must_use]
pub fn plain_sandbox() -> kennel::Sandbox {
    kennel::Sandbox::builder().build().expect("the default configuration")
}

/// Runs a command to its end.
pub fn ran(command: &mut Command) -> Ran {
    Ran::from(command.output().expect("the command can be started"))
}

/// The same, for commands that a fault of kennel's could make hang: fails the test after `limit`, or five times that
/// where the machine is emulated.
#[track_caller]
pub fn ran_within(limit: Duration, command: &mut Command) -> Ran {
    let limit = if is_emulated() { limit * 5 } else { limit };
    let child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command can be started");
    let pid = child.id().cast_signed();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(limit) {
        Ok(output) => Ran::from(output.expect("a child can be waited for")),
        Err(_) => {
            // SAFETY: a plain call; the child has not been waited for, so the number is still its own.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            panic!("{command:?} still ran after {limit:?}");
        }
    }
}

/// Looks again and again until there is something; fails the test after 20 s, or five times that where the machine is
/// emulated.
#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(if is_emulated() { 100 } else { 20 });
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "this did not come about: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the guard of the kennel with this pid watches names: its inotify instance then has watches, the first of which
/// it places when it holds all folders.
#[track_caller]
pub fn watches_names(kennel: u32) {
    let infos = format!("/proc/{kennel}/fdinfo");
    eventually("names are watched", || {
        let mut infos = std::fs::read_dir(&infos).ok()?.filter_map(Result::ok);
        let has_watch = |info: PathBuf| {
            std::fs::read_to_string(info)
                .is_ok_and(|text| text.lines().any(|line| line.starts_with("inotify wd")))
        };
        infos.any(|info| has_watch(info.path())).then_some(())
    });
}

/// Looks again and again for as long as `time`, and fails the test when this no longer holds: for what must not come,
/// and of which nothing says that it is not coming any more.
#[track_caller]
pub fn stays(what: &str, time: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + time;
    loop {
        assert!(holds(), "this did not last: {what}");
        let Some(left) = deadline.checked_duration_since(Instant::now()) else { return };
        std::thread::sleep(left.min(Duration::from_millis(20)));
    }
}

/// The same for a file that does not grow for half a second.
#[track_caller]
pub fn stays_as_it_is(path: &Path) {
    let before = file_size(path);
    stays("the size of the file", Duration::from_millis(500), || file_size(path) == before);
}

/// How much a file holds; nothing when it is not there.
#[must_use]
pub fn file_size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// A path as the text that it is, below a scratch folder.
#[must_use]
pub fn text(path: &Path) -> String {
    path.to_str().expect("a path of a test's own is text").to_owned()
}

/// What came of a command, as text.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The exit code; 128 and the signal when one ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        use std::os::unix::process::ExitStatusExt;
        let code = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
        Ran {
            code,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    /// Fails the test, with everything that was said, unless the command ended with `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self
    }

    /// The same for 0.
    #[track_caller]
    pub fn ok(self) -> Ran {
        self.expect_code(0)
    }
}

/// A folder of a test's own, not below /tmp (which a sandbox hides), removed with the value.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one.
    #[must_use]
    pub fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/var/tmp/kennel-test-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).expect("/var/tmp is writable");
        Scratch(path.canonicalize().expect("it was just made"))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A path below it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file below it, with its folders.
    pub fn write(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("a scratch folder is writable");
        }
        std::fs::write(&path, contents).expect("a scratch folder is writable");
        path
    }

    /// Makes a folder below it.
    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir_all(&path).expect("a scratch folder is writable");
        path
    }

    /// Every path below it, sorted, to compare before and after.
    #[must_use]
    pub fn listing(&self) -> Vec<String> {
        fn walk(folder: &Path, out: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                out.push(entry.path().display().to_string());
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    walk(&entry.path(), out);
                }
            }
        }
        let mut out = Vec::new();
        walk(&self.0, &mut out);
        out.sort();
        out
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::fs::remove_dir_all(&self.0).is_err() {
            open_folders(&self.0);
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// Opens what a test shut, so that it can be removed.
fn open_folders(folder: &Path) {
    let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        open_folders(&entry.path());
    }
}

/// Whether the test runs as root.
#[must_use]
pub fn am_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether the machine is emulated, and some twenty times slower than others: what happens many times over then happens
/// less often, and what has little time gets more.
#[must_use]
pub fn is_emulated() -> bool {
    std::env::var_os("KENNEL_TEST_EMULATED").is_some()
}

/// Whether everything is to be done as often as is promised, however long it takes: `KENNEL_ENDURANCE=full`.
#[must_use]
pub fn is_full() -> bool {
    std::env::var_os("KENNEL_ENDURANCE").is_some_and(|word| word == "full")
}

/// Whether this kernel has Landlock.
#[must_use]
pub fn has_landlock() -> bool {
    const VERSION: u32 = 1;
    // SAFETY: with the version flag the kernel takes no pointer and makes nothing.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, VERSION) >= 1 }
}

/// Says that a test could not be run here, and why. The caller returns.
pub fn skipped(reason: &str) {
    println!("SKIPPED: {reason}");
    eprintln!("SKIPPED: {reason}");
}

/// Where a program is, if it is installed.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}
