//! Raw system calls, made for real inside a sandbox or outside, with the kernel's exact answer to each.
//!
//! A [`Script`] lists calls as an attacker would make them, in one process and in order; later calls can use the
//! results of earlier ones. The same script can be run inside and outside, so that a test shows both that a way out is
//! closed and that it would be one. The suite's own executable runs it, in the role `calls` (see [`crate::role`]).

pub mod calls;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::{Ran, kennel, ran, role};

/// What a call is given.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A number.
    Int(i64),
    /// A string, NUL-terminated.
    Text(OsString),
    /// A buffer of so many zeros, shown with the answer.
    Zeros(usize),
    /// A buffer with these bytes, shown with the answer.
    Bytes(Vec<u8>),
    /// What an earlier call returned, by its place in the script.
    Answer(usize),
    /// The buffer of an earlier call.
    Buffer(usize),
}

macro_rules! ints {
    ($($type:ty),*) => { $(impl From<$type> for Arg {
        fn from(value: $type) -> Arg { Arg::Int(value as i64) }
    })* };
}
ints!(i32, u32, i64, u64, usize);

impl From<&str> for Arg {
    fn from(text: &str) -> Arg {
        Arg::Text(text.into())
    }
}
impl From<&Path> for Arg {
    fn from(path: &Path) -> Arg {
        Arg::Text(path.into())
    }
}
impl From<&PathBuf> for Arg {
    fn from(path: &PathBuf) -> Arg {
        Arg::Text(path.into())
    }
}
impl From<Vec<u8>> for Arg {
    fn from(bytes: Vec<u8>) -> Arg {
        Arg::Bytes(bytes)
    }
}

/// Arguments of a call: numbers, strings, paths, bytes or [`Arg`]s.
#[macro_export]
macro_rules! args {
    ($($value:expr),* $(,)?) => { vec![$($crate::probe::Arg::from($value)),*] };
}

/// Calls to be made one after the other, whatever the earlier ones gave.
#[derive(Clone, Debug, Default)]
pub struct Script(Vec<OsString>);

impl Script {
    /// An empty one.
    #[must_use]
    pub fn new() -> Script {
        Script::default()
    }

    /// A system call.
    #[must_use]
    pub fn call(mut self, number: libc::c_long, args: Vec<Arg>) -> Script {
        self.0.push(number.to_string().into());
        for arg in args {
            self.0.push(match arg {
                Arg::Int(value) => format!("i{value}").into(),
                Arg::Zeros(length) => format!("z{length}").into(),
                Arg::Bytes(bytes) => format!("b{}", hex(&bytes)).into(),
                Arg::Answer(index) => format!("a{index}").into(),
                Arg::Buffer(index) => format!("p{index}").into(),
                Arg::Text(text) => {
                    let mut word = OsString::from("s");
                    word.push(text);
                    word
                }
            });
        }
        self.0.push(";".into());
        self
    }

    /// Opens a path.
    #[must_use]
    pub fn open(self, path: impl AsRef<OsStr>, flags: i32) -> Script {
        let path = Arg::Text(path.as_ref().into());
        self.call(libc::SYS_openat, vec![libc::AT_FDCWD.into(), path, flags.into(), 0o600.into()])
    }

    /// Reads up to 64 bytes from a descriptor that an earlier call returned.
    #[must_use]
    pub fn read(self, from: usize) -> Script {
        self.call(libc::SYS_read, vec![Arg::Answer(from), Arg::Zeros(64), 64.into()])
    }

    /// Goes on in a child. Its parent only waits for it; the answer is 0.
    #[must_use]
    pub fn fork(mut self) -> Script {
        self.0.extend(["fork".into(), ";".into()]);
        self
    }

    /// How many calls it holds.
    fn len(&self) -> usize {
        self.0.iter().filter(|word| *word == ";").count()
    }

    /// The words that make this executable run the script.
    #[must_use]
    pub fn words(&self) -> &[OsString] {
        &self.0
    }

    /// Runs it inside a sandbox with these flags.
    #[track_caller]
    pub fn inside(&self, flags: &[&str]) -> Told {
        self.told(ran(&mut probe_inside("calls", flags, self.words())))
    }

    /// Runs it on the host.
    #[track_caller]
    pub fn outside(&self) -> Told {
        self.told(ran(&mut probe_outside("calls", self.words())))
    }

    /// What a run of it said. A run that a signal ended has fewer answers than calls.
    #[track_caller]
    #[must_use]
    pub fn told(&self, ran: Ran) -> Told {
        let mut told = Told { answers: Vec::new(), buffers: Vec::new(), ran };
        for line in told.ran.stdout.lines() {
            let mut words = line.split(' ');
            let answer = words.next().and_then(|word| word.parse().ok());
            told.answers.push(answer.unwrap_or_else(|| panic!("not an answer: {line:?}\n{:?}", told.ran)));
            told.buffers.push(words.next().map(unhex).unwrap_or_default());
        }
        assert!(
            told.answers.len() == self.len() || told.ran.code > 128,
            "{} answers to {} calls: {:?}",
            told.answers.len(),
            self.len(),
            told.ran
        );
        told
    }
}

/// The kernel's answers to a [`Script`].
#[derive(Clone, Debug)]
pub struct Told {
    answers: Vec<i64>,
    buffers: Vec<Vec<u8>>,
    /// The run itself.
    pub ran: Ran,
}

impl Told {
    /// What call `index` returned; an error as its negative number.
    #[track_caller]
    #[must_use]
    pub fn answer(&self, index: usize) -> i64 {
        *self.answers.get(index).unwrap_or_else(|| panic!("call {index} was never made: {:?}", self.ran))
    }

    /// The error of call `index`; 0 if it succeeded.
    #[track_caller]
    #[must_use]
    pub fn errno(&self, index: usize) -> i32 {
        i32::try_from(-self.answer(index).min(0)).expect("errors are small")
    }

    /// Fails the test unless call `index` succeeded.
    #[track_caller]
    pub fn ok(&self, index: usize) -> &Told {
        assert!(self.answer(index) >= 0, "call {index}: {}: {self:?}", name_of(self.errno(index)));
        self
    }

    /// Fails the test unless call `index` failed with one of these errors.
    #[track_caller]
    pub fn refused(&self, index: usize, errors: &[i32]) -> &Told {
        let errno = self.errno(index);
        assert!(
            errors.contains(&errno),
            "call {index}: {} (answer {}) is none of {}\n{:?}",
            name_of(errno),
            self.answer(index),
            errors.iter().map(|errno| name_of(*errno)).collect::<Vec<_>>().join(", "),
            self.ran
        );
        self
    }

    /// The same for several calls.
    #[track_caller]
    pub fn ok_all(&self, calls: impl IntoIterator<Item = usize>) -> &Told {
        for index in calls {
            self.ok(index);
        }
        self
    }

    /// The same for several calls.
    #[track_caller]
    pub fn refused_all(&self, calls: impl IntoIterator<Item = usize>, errors: &[i32]) -> &Told {
        for index in calls {
            self.refused(index, errors);
        }
        self
    }

    /// What the buffer of call `index` held afterwards, up to the returned length.
    #[track_caller]
    #[must_use]
    pub fn text(&self, index: usize) -> String {
        let length = usize::try_from(self.answer(index)).unwrap_or(0);
        let buffer = &self.buffers[index];
        String::from_utf8_lossy(&buffer[..length.min(buffer.len())]).into_owned()
    }

    /// What the buffer of call `index` held afterwards.
    #[must_use]
    pub fn buffer(&self, index: usize) -> &[u8] {
        &self.buffers[index]
    }

    /// Whether any buffer holds `needle`.
    #[must_use]
    pub fn shows(&self, needle: &str) -> bool {
        self.buffers.iter().any(|buffer| buffer.windows(needle.len()).any(|part| part == needle.as_bytes()))
    }
}

/// This executable where a sandbox can see it: a private /tmp hides what lies below the host's.
#[must_use]
pub fn executable() -> &'static Path {
    static COPY: LazyLock<PathBuf> = LazyLock::new(|| {
        let me = std::env::current_exe().expect("a test knows its own path");
        if !me.starts_with("/tmp") {
            return me;
        }
        let copy = PathBuf::from(format!("/var/tmp/kennel-test-{}-suite", std::process::id()));
        std::fs::copy(&me, &copy).expect("/var/tmp is writable");
        extern "C" fn remove() {
            let _ = std::fs::remove_file(&*COPY);
        }
        // SAFETY: registers a plain function of this program.
        unsafe { libc::atexit(remove) };
        copy
    });
    &COPY
}

/// `kennel run FLAGS -- suite WORDS` with the suite in a role.
pub fn probe_inside<W: AsRef<OsStr>>(name: &str, flags: &[&str], words: &[W]) -> Command {
    let mut command = kennel(["run"]);
    command.args(flags).arg("--env").arg(format!("{}={name}", role::VARIABLE)).arg("--");
    command.arg(executable()).args(words);
    command
}

/// The same on the host.
pub fn probe_outside<W: AsRef<OsStr>>(name: &str, words: &[W]) -> Command {
    let mut command = Command::new(executable());
    command.args(words).env(role::VARIABLE, name).stdin(std::process::Stdio::null());
    // Scripts name descriptors by their numbers, so whatever the tests themselves inherited must not take one.
    // SAFETY: one system call. Marked rather than closed: the standard library reports a failed exec over one of them.
    unsafe {
        command.pre_exec(|| {
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            Ok(())
        });
    }
    command
}

/// `struct open_how`, for openat2.
#[must_use]
pub fn open_how(flags: i32, resolve: u64) -> Arg {
    let fields = [u64::from(flags.cast_unsigned()), 0, resolve];
    Arg::Bytes(fields.iter().flat_map(|field| field.to_ne_bytes()).collect())
}

/// An error's name, as far as tests need it.
#[must_use]
pub fn name_of(errno: i32) -> String {
    match errno {
        0 => "success".into(),
        _ => std::io::Error::from_raw_os_error(errno).to_string(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16).unwrap_or(0))
        .collect()
}

/// Bytes of a word of the command line.
fn word(word: &OsStr) -> (u8, &OsStr) {
    let bytes = word.as_bytes();
    (bytes.first().copied().unwrap_or(0), OsStr::from_bytes(bytes.get(1..).unwrap_or_default()))
}

fn nul_terminated(text: &OsStr) -> Vec<u8> {
    let mut bytes = text.to_owned().into_vec();
    bytes.push(0);
    bytes
}
