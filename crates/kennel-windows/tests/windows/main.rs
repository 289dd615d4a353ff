//! Behaviour on Windows, with real processes: `probe/` is what runs inside. Under Wine, which accepts more than it enforces,
//! what it does not is skipped, and said so.
#![cfg(windows)]

mod cli;
mod command_line;
mod confinement;
mod ending;
mod surroundings;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, PipeReader, Read};
use std::os::windows::io::{FromRawHandle, OwnedHandle};
use std::time::{Duration, Instant};

use kennel_policy::policy::{NetworkMode, Policy};
use kennel_windows::{End, Error, Launch, Prepared, Sandboxed, start};

/// The program that runs inside. Where another system built it, its path has no drive.
fn probe_path() -> &'static str {
    static PATH: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    PATH.get_or_init(|| match env!("CARGO_BIN_EXE_kennel-windows-probe") {
        path if path.starts_with('/') => format!("Z:{}", path.replace('/', "\\")),
        path => path.to_owned(),
    })
}

/// Longer than anything here takes, on a busy machine too.
const LONG: Duration = Duration::from_secs(60);

/// A policy of which Windows can enforce everything.
fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.network.mode = NetworkMode::Host;
    policy
}

/// Says that this Wine does not do something; returns whether it is Wine.
fn skipped(what: &str) -> bool {
    let wine = kennel_windows::host::wine_version();
    if let Some(version) = &wine {
        println!("SKIPPED: Wine {version} does not have or enforce {what}");
    }
    wine.is_some()
}

fn nowhere() -> OwnedHandle {
    std::fs::File::options().read(true).write(true).open("NUL").expect("the null device").into()
}

/// A command that runs, and what it prints.
struct Run {
    sandboxed: Sandboxed,
    output: BufReader<PipeReader>,
}

impl Run {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it prints");
        line.trim_end().to_owned()
    }

    fn end(&mut self) -> End {
        self.sandboxed.wait(Some(Instant::now() + LONG)).expect("it can be waited for").expect("it ends")
    }
}

/// Starts a command with what the policy passes on of these variables.
fn launch(
    policy: &Policy,
    words: &[OsString],
    inherited: &[(OsString, OsString)],
    cwd: std::path::PathBuf,
    streams: [OwnedHandle; 3],
) -> Result<Sandboxed, Error> {
    let prepared = Prepared::new(policy)?;
    let temp = prepared.temp().map(|path| path.as_os_str().to_owned());
    let system: Vec<(&str, &OsStr)> =
        temp.iter().flat_map(|temp| [("TEMP", temp.as_os_str()), ("TMP", temp)]).collect();
    let inherited = inherited.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let variables = kennel_policy::environment::environment(policy, inherited, &system, &[], &[]);
    start(prepared, Launch { words, variables, cwd, streams, shares_ctrl_c: false })
}

fn try_launch(policy: &Policy, words: &[OsString]) -> Result<Run, Error> {
    let (output, end) = std::io::pipe().expect("a pipe");
    let streams = [nowhere(), end.into(), nowhere()];
    let inherited: Vec<_> = std::env::vars_os().collect();
    let sandboxed = launch(policy, words, &inherited, std::env::temp_dir(), streams)?;
    Ok(Run { sandboxed, output: BufReader::new(output) })
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// Starts the probe.
fn probe(policy: &Policy, verb: &[&str]) -> Run {
    let all: Vec<&str> = [probe_path()].into_iter().chain(verb.iter().copied()).collect();
    try_launch(policy, &words(&all)).expect("it starts")
}

/// Runs the probe to its end; what it printed.
fn printed(policy: &Policy, verb: &[&str]) -> String {
    let mut run = probe(policy, verb);
    let mut text = String::new();
    run.output.read_to_string(&mut text).expect("it prints");
    assert_eq!(run.end().code, 0, "{text}");
    text
}

/// A process, by its number, which stays known after its end.
struct Watched(OwnedHandle);

impl Watched {
    fn new(pid: &str) -> Watched {
        use windows_sys::Win32::System::Threading::{OpenProcess, PROCESS_SYNCHRONIZE};
        let pid: u32 = pid.parse().expect("a number");
        // SAFETY: no memory is involved.
        let handle = unsafe { OpenProcess(PROCESS_SYNCHRONIZE, 0, pid) };
        assert!(!handle.is_null(), "process {pid}: {}", std::io::Error::last_os_error());
        // SAFETY: it was just opened for us.
        Watched(unsafe { OwnedHandle::from_raw_handle(handle) })
    }

    fn ends_within(&self, time: Duration) -> bool {
        use std::os::windows::io::AsRawHandle;
        use windows_sys::Win32::Foundation::WAIT_OBJECT_0;
        use windows_sys::Win32::System::Threading::WaitForSingleObject;
        // SAFETY: the handle is of a process.
        unsafe { WaitForSingleObject(self.0.as_raw_handle(), time.as_millis() as u32) == WAIT_OBJECT_0 }
    }
}
