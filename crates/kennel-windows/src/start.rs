//! Starting a command: job, token, handles, environment, and only then a process, which does nothing until all of it holds.
//!
//! The order is what makes it safe. The job has its limits before there is a process; the process is born in the job or not at
//! all; it is suspended until that was looked at; and until it has been resumed, a guard ends it on every error.

use std::ffi::OsString;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kennel_policy::outcome::Usage;
use kennel_policy::policy::{Policy, TmpMode};
use windows_sys::Win32::Foundation::{DUPLICATE_SAME_ACCESS, DuplicateHandle, HANDLE, TRUE, WAIT_OBJECT_0};
use windows_sys::Win32::System::Console::GetConsoleCP;
use windows_sys::Win32::System::StationsAndDesktops::{
    GetProcessWindowStation, GetThreadDesktop, GetUserObjectInformationW, UOI_NAME,
};
use windows_sys::Win32::System::SystemInformation::GetSystemDirectoryW;
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW, CREATE_SUSPENDED, CREATE_UNICODE_ENVIRONMENT,
    CreateProcessAsUserW, EXTENDED_STARTUPINFO_PRESENT, GetCurrentProcess, GetCurrentThreadId,
    GetExitCodeProcess, INFINITE, PROCESS_INFORMATION, ResumeThread, STARTF_USESTDHANDLES, STARTUPINFOEXW,
    STARTUPINFOW, TerminateProcess, WaitForSingleObject,
};

use crate::attributes::Attributes;
use crate::environment::{block, is_visible};
use crate::error::{Error, check, failed};
use crate::host;
use crate::job::{JobObject, Message, is_in_job};
use crate::limits::{JobLimits, job_limits};
use crate::private_temp::PrivateTemp;
use crate::program;
use crate::quote::{batch_command_line, command_line, is_batch_file};
use crate::token::Token;
use crate::verdict::token_kind;
use crate::wide::{terminated, wide};

/// The exit code of processes that kennel ends.
pub const KILLED: u32 = 137;

/// How long it is waited for processes that were terminated. One that the system cannot end, in a driver that hangs, is left
/// to it, and told.
const ENDING: Duration = Duration::from_secs(10);

/// `PROCESS_CREATION_MITIGATION_POLICY_EXTENSION_POINT_DISABLE_ALWAYS_ON`: no DLLs of other programs by way of hooks and input
/// methods. The stricter ones break programs that people run: MSYS, compilers that start what they made.
const MITIGATIONS: u64 = 1 << 32;

/// What a command needs before its variables are known: its token, and its folder for temporary files.
#[derive(Debug)]
pub struct Prepared {
    token: Token,
    temp: Option<PrivateTemp>,
    limits: JobLimits,
}

impl Prepared {
    /// Prepares a command with this policy, which has been checked: what Windows cannot enforce of it is known to the caller.
    ///
    /// # Errors
    /// When Windows refuses.
    pub fn new(policy: &Policy) -> Result<Prepared, Error> {
        let kind = token_kind(policy);
        let token = Token::new(kind)?;
        let temp = match policy.files.tmp {
            TmpMode::Private => Some(PrivateTemp::new(&token, kind)?),
            TmpMode::Host => None,
        };
        Ok(Prepared { token, temp, limits: job_limits(&policy.limits, host::processors()) })
    }

    /// The folder for temporary files, if the command has one of its own.
    #[must_use]
    pub fn temp(&self) -> Option<&Path> {
        self.temp.as_ref().map(PrivateTemp::path)
    }
}

/// A command to start.
#[derive(Debug)]
pub struct Launch<'l> {
    /// The program and its arguments.
    pub words: &'l [OsString],
    /// Its variables.
    pub variables: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Its standard streams.
    pub streams: [OwnedHandle; 3],
    /// Whether it gets Ctrl-C as the caller does; otherwise it is a group of its own, to which Ctrl-Break can be sent.
    pub shares_ctrl_c: bool,
}

/// A command that runs in its job. Dropping it ends everything in the job.
#[derive(Debug)]
pub struct Sandboxed {
    process: OwnedHandle,
    pid: u32,
    job: Arc<JobObject>,
    limits_memory: bool,
    counts: Counts,
    /// Removed when nothing runs any more.
    temp: Option<PrivateTemp>,
}

/// What the job's messages have told.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    running: u64,
    most: u64,
    refused: u64,
    out_of_memory: bool,
    time_used_up: bool,
}

/// How everything ended.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// What the command's process ended with.
    pub code: u32,
    /// Whether the job ran out of memory, for which it was ended.
    pub out_of_memory: bool,
    /// Whether the command's process used up its CPU time.
    pub time_used_up: bool,
    /// User CPU time of all processes.
    pub cpu_user: Duration,
    /// Time in the kernel.
    pub cpu_system: Duration,
    /// Bytes that were committed at most.
    pub peak_memory: u64,
    /// Processes at once.
    pub most_processes: u64,
    /// Processes that were refused.
    pub refused: u64,
    /// Processes that could not be ended.
    pub left: u32,
}

/// Starts a command.
///
/// # Errors
/// When something cannot be prepared, or the program not be started; nothing is left then.
pub fn start(prepared: Prepared, launch: Launch<'_>) -> Result<Sandboxed, Error> {
    let Prepared { token, temp, limits } = prepared;
    let Launch { words, mut variables, cwd, streams, shares_ctrl_c } = launch;
    variables.retain(|(name, _)| is_visible(name));
    let pairs: Vec<(Vec<u16>, Vec<u16>)> =
        variables.iter().map(|(name, value)| (wide(name), wide(value))).collect();
    let environment = block(&pairs)?;
    let (application, mut line) = command(words, &cwd, &variables)?;
    let job = Arc::new(JobObject::new(&limits, !is_in_job())?);
    let mut flags = CREATE_SUSPENDED | CREATE_UNICODE_ENVIRONMENT | EXTENDED_STARTUPINFO_PRESENT;
    if !shares_ctrl_c {
        flags |= CREATE_NEW_PROCESS_GROUP;
    }
    // SAFETY: no memory is involved. Without a console of this process's a new window would open.
    if unsafe { GetConsoleCP() } == 0 {
        flags |= CREATE_NO_WINDOW;
    }
    let Suspended { process, thread, pid } =
        create(&token, &job, &application, &mut line, flags, &environment, &cwd, streams)?;
    let guard = Guard(&process);
    if !job
        .contains(&process)
        .map_err(|source| Error::System { doing: "checking the job object".into(), source })?
    {
        return Err(Error::System {
            doing: "checking the job object".into(),
            source: io::Error::other("the command is not in it"),
        });
    }
    watch(&process, &job)?;
    // SAFETY: the handle is of a thread.
    if unsafe { ResumeThread(thread.as_raw_handle()) } == u32::MAX {
        return Err(failed("starting the command"));
    }
    std::mem::forget(guard);
    Ok(Sandboxed {
        process,
        pid,
        job,
        limits_memory: limits.job_memory.is_some(),
        counts: Counts::default(),
        temp,
    })
}

/// The file to start and its command line.
fn command(
    words: &[OsString],
    cwd: &Path,
    variables: &[(OsString, OsString)],
) -> Result<(Vec<u16>, Vec<u16>), Error> {
    let name = words.first().ok_or(crate::quote::QuoteError::Empty)?;
    let program = program::find(name, cwd, variables)?;
    let path = wide(&program);
    let arguments: Vec<Vec<u16>> = words[1..].iter().map(wide).collect();
    if is_batch_file(&path) {
        // The system's own, whatever variables say.
        let cmd = system_directory()?.join("cmd.exe");
        let line = batch_command_line(&wide(&cmd), &path, &arguments)?;
        return Ok((terminated(&cmd), line));
    }
    let words: Vec<Vec<u16>> = [wide(name)].into_iter().chain(arguments).collect();
    Ok((terminated(&program), command_line(&words)?))
}

fn system_directory() -> Result<PathBuf, Error> {
    use std::os::windows::ffi::OsStringExt;
    let mut buffer = [0u16; 260];
    // SAFETY: the buffer has the length that is said.
    let length = unsafe { GetSystemDirectoryW(buffer.as_mut_ptr(), buffer.len() as u32) } as usize;
    match buffer.get(..length) {
        Some(path) if length > 0 => Ok(OsString::from_wide(path).into()),
        _ => Err(failed("finding the folder of Windows")),
    }
}

/// A process that has not run yet.
struct Suspended {
    process: OwnedHandle,
    thread: OwnedHandle,
    pid: u32,
}

/// Ends a process that something went wrong with before it ran.
struct Guard<'p>(&'p OwnedHandle);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is of a process.
        unsafe { TerminateProcess(self.0.as_raw_handle(), KILLED) };
    }
}

#[expect(clippy::too_many_arguments, reason = "each is a parameter of the one call that it is about")]
fn create(
    token: &Token,
    job: &JobObject,
    application: &[u16],
    line: &mut Vec<u16>,
    flags: u32,
    environment: &[u16],
    cwd: &Path,
    streams: [OwnedHandle; 3],
) -> Result<Suspended, Error> {
    // Copies that are inherited: the caller's own need not be, and nobody else is to inherit ours.
    let inherited: Vec<OwnedHandle> =
        streams.iter().map(|stream| inheritable(stream.as_handle())).collect::<Result<_, Error>>()?;
    drop(streams);
    let handles: Vec<HANDLE> = inherited.iter().map(AsRawHandle::as_raw_handle).collect();
    let jobs = [job.raw()];
    let mut attributes = Attributes::new(&jobs, &handles, &MITIGATIONS)?;
    line.push(0);
    let mut desktop = desktop();
    let startup = STARTUPINFOEXW {
        StartupInfo: STARTUPINFOW {
            cb: size_of::<STARTUPINFOEXW>() as u32,
            lpDesktop: desktop.as_mut().map_or(std::ptr::null_mut(), |name| name.as_mut_ptr()),
            dwFlags: STARTF_USESTDHANDLES,
            hStdInput: handles[0],
            hStdOutput: handles[1],
            hStdError: handles[2],
            ..Default::default()
        },
        lpAttributeList: attributes.as_ptr(),
    };
    let folder = terminated(cwd);
    let mut process = PROCESS_INFORMATION::default();
    // SAFETY: all texts end with a zero, the block with two; the line can be written to; everything lives until the call has
    // returned. Of handles that are inherited only those of the list are.
    let created = unsafe {
        CreateProcessAsUserW(
            token.handle.as_raw_handle(),
            application.as_ptr(),
            line.as_mut_ptr(),
            std::ptr::null(),
            std::ptr::null(),
            TRUE,
            flags,
            environment.as_ptr().cast(),
            folder.as_ptr(),
            (&raw const startup).cast(),
            &mut process,
        )
    };
    if created == 0 {
        let source = io::Error::last_os_error();
        return Err(not_created(source, application, cwd));
    }
    // SAFETY: both were just made for us.
    let (process_handle, thread) = unsafe {
        (OwnedHandle::from_raw_handle(process.hProcess), OwnedHandle::from_raw_handle(process.hThread))
    };
    Ok(Suspended { process: process_handle, thread, pid: process.dwProcessId })
}

/// What Windows says of a program and of a folder is the same; which it is, is looked up.
fn not_created(source: io::Error, application: &[u16], cwd: &Path) -> Error {
    if !cwd.is_dir() {
        let doing = format!("starting in {}", cwd.display());
        return Error::System { doing, source };
    }
    let program = String::from_utf16_lossy(application.strip_suffix(&[0]).unwrap_or(application));
    Error::NotExecuted { program, source }
}

/// A copy of a handle that a new process can inherit.
fn inheritable(handle: BorrowedHandle<'_>) -> Result<OwnedHandle, Error> {
    let mut copy: HANDLE = std::ptr::null_mut();
    // SAFETY: all handles are valid, and `copy` is where the result goes.
    let made = unsafe {
        let own = GetCurrentProcess();
        DuplicateHandle(own, handle.as_raw_handle(), own, &mut copy, 0, TRUE, DUPLICATE_SAME_ACCESS)
    };
    check(made, "preparing a standard stream")?;
    // SAFETY: it was just made for us.
    Ok(unsafe { OwnedHandle::from_raw_handle(copy) })
}

/// This process's window station and desktop by name. Where a token is restricted Windows does not find them by itself, and
/// programs end with 0xC0000142.
fn desktop() -> Option<Vec<u16>> {
    let name = |object: HANDLE| {
        let mut buffer = [0u16; 128];
        let size = size_of_val(&buffer) as u32;
        // SAFETY: the buffer has the size that is said.
        let told = unsafe {
            GetUserObjectInformationW(
                object,
                UOI_NAME,
                buffer.as_mut_ptr().cast(),
                size,
                std::ptr::null_mut(),
            )
        };
        let length = buffer.iter().position(|unit| *unit == 0)?;
        (told != 0 && length > 0).then(|| buffer[..length].to_vec())
    };
    // SAFETY: no memory is involved; neither handle is ours to close.
    let (station, desktop) = unsafe { (GetProcessWindowStation(), GetThreadDesktop(GetCurrentThreadId())) };
    let (station, desktop) = (name(station)?, name(desktop)?);
    Some([station, vec![u16::from(b'\\')], desktop, vec![0]].concat())
}

/// Wakes whoever waits for the job's messages when the process has ended.
fn watch(process: &OwnedHandle, job: &Arc<JobObject>) -> Result<(), Error> {
    let failed = |source| Error::System { doing: "watching the command".into(), source };
    let process = process.try_clone().map_err(failed)?;
    let job = Arc::clone(job);
    let wait = move || {
        // SAFETY: the handle is of a process.
        unsafe { WaitForSingleObject(process.as_raw_handle(), INFINITE) };
        job.wake();
    };
    std::thread::Builder::new().name("kennel-watch".into()).spawn(wait).map(drop).map_err(failed)
}

impl Sandboxed {
    /// Waits for the command's end, no longer than until `until`; `None` if it goes on. Everything else in the job has ended
    /// too when it returns an end.
    ///
    /// # Errors
    /// When Windows does not tell what became of it.
    pub fn wait(&mut self, until: Option<Instant>) -> io::Result<Option<End>> {
        loop {
            if self.has_ended() {
                return self.end().map(Some);
            }
            if let Some(message) = self.job.next(until) {
                self.note(message);
            }
            // After each message: a command that starts processes without end must not keep its clock from being looked at.
            if until.is_some_and(|until| Instant::now() >= until) {
                return if self.has_ended() { self.end().map(Some) } else { Ok(None) };
            }
        }
    }

    fn has_ended(&self) -> bool {
        // SAFETY: the handle is of a process. Not its exit code, which may be that of a process that goes on.
        unsafe { WaitForSingleObject(self.process.as_raw_handle(), 0) == WAIT_OBJECT_0 }
    }

    fn note(&mut self, message: Message) {
        let counts = &mut self.counts;
        match message {
            Message::New(_) => {
                counts.running += 1;
                counts.most = counts.most.max(counts.running);
            }
            Message::Exit(_) => counts.running = counts.running.saturating_sub(1),
            Message::ProcessRefused => counts.refused += 1,
            // An allocation has failed, and nothing was killed: what a program does then is anybody's guess.
            Message::Memory => {
                counts.out_of_memory = true;
                self.job.terminate(KILLED);
            }
            Message::ProcessTime(process) => counts.time_used_up |= process == self.pid,
            Message::Empty | Message::Woken | Message::Other => {}
        }
    }

    /// Ends what is left and adds up.
    fn end(&mut self) -> io::Result<End> {
        let mut code = 0;
        // SAFETY: the handle is of a process, and `code` is where the result goes.
        if unsafe { GetExitCodeProcess(self.process.as_raw_handle(), &mut code) } == 0 {
            return Err(io::Error::last_os_error());
        }
        let left = self.end_everything();
        self.temp = None;
        let used = self.job.accounting().unwrap_or_default();
        let Counts { most, refused, out_of_memory, time_used_up, .. } = self.counts;
        Ok(End {
            code,
            out_of_memory: self.limits_memory && (out_of_memory || crate::exit::is_out_of_memory(code)),
            time_used_up,
            cpu_user: used.user,
            cpu_system: used.kernel,
            peak_memory: used.peak_memory,
            most_processes: most,
            refused,
            left,
        })
    }

    /// Terminates the job and waits until it is empty; returns how many processes could not be ended.
    fn end_everything(&mut self) -> u32 {
        let deadline = Instant::now() + ENDING;
        loop {
            // Each time: a process may have been on its way when the others were ended.
            self.job.terminate(KILLED);
            // Asked, and not only listened to: messages can be lost.
            let active = self.job.accounting().map_or(0, |used| used.active);
            let now = Instant::now();
            if active == 0 || now >= deadline {
                // What was told before the end.
                while let Some(message) = self.job.next(Some(now)) {
                    self.note(message);
                    if Instant::now() >= deadline {
                        break;
                    }
                }
                return active;
            }
            if let Some(message) = self.job.next(Some((now + Duration::from_millis(20)).min(deadline))) {
                self.note(message);
            }
        }
    }

    /// Kills everything, from any thread, at any time.
    pub fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let job = Arc::clone(&self.job);
        move || job.terminate(KILLED)
    }

    /// Tells what is used, from any thread.
    pub fn meter(&self) -> impl Fn() -> Usage + Send + Sync + 'static {
        let job = Arc::clone(&self.job);
        move || {
            let Ok(used) = job.accounting() else { return Usage::default() };
            Usage {
                memory: job.memory(),
                cpu_user: Some(used.user),
                cpu_system: Some(used.kernel),
                processes: Some(used.active.into()),
                ..Usage::default()
            }
        }
    }

    /// The command's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Refers to the command's process.
    ///
    /// # Errors
    /// When the system has no handles left.
    pub fn process(&self) -> io::Result<OwnedHandle> {
        self.process.try_clone()
    }
}

impl Drop for Sandboxed {
    fn drop(&mut self) {
        // The folder for temporary files is removed after this.
        self.end_everything();
    }
}

#[cfg(test)]
mod tests {
    use std::os::windows::process::CommandExt;

    use super::*;

    /// A process that waits to be resumed.
    fn suspended() -> std::process::Child {
        let mut command = std::process::Command::new("cmd");
        command.args(["/d", "/c", "exit 5"]).creation_flags(CREATE_SUSPENDED);
        command.spawn().expect("it starts")
    }

    #[test]
    #[kennel_claim::claim("windows/stays-in-its-job")]
    fn the_guard_ends_a_process_that_has_not_run() {
        let mut child = suspended();
        let handle = child.as_handle().try_clone_to_owned().expect("a copy");
        drop(Guard(&handle));
        assert_eq!(child.wait().expect("it ends").code(), Some(KILLED.cast_signed()));
    }

    #[test]
    fn a_process_outside_of_the_job_is_noticed() {
        let mut child = suspended();
        let handle = child.as_handle().try_clone_to_owned().expect("a copy");
        let job = JobObject::new(&JobLimits::default(), false).expect("a job");
        assert!(!job.contains(&handle).expect("it can be asked"));
        child.kill().and_then(|()| child.wait()).expect("it ends");
    }

    #[test]
    fn a_job_that_is_closed_ends_its_processes() {
        use windows_sys::Win32::System::JobObjects::AssignProcessToJobObject;
        let mut child = suspended();
        let handle = child.as_handle().try_clone_to_owned().expect("a copy");
        let job = JobObject::new(&JobLimits::default(), true).expect("a job");
        // SAFETY: both handles are valid.
        assert_ne!(unsafe { AssignProcessToJobObject(job.raw(), handle.as_raw_handle()) }, 0);
        assert!(job.contains(&handle).expect("it can be asked"));
        assert!(child.try_wait().expect("it can be asked").is_none());
        drop(job);
        child.wait().expect("it ends");
    }

    #[test]
    #[kennel_claim::claim("windows/standard-handles-only")]
    fn only_the_copies_are_inherited() {
        use windows_sys::Win32::Foundation::{GetHandleInformation, HANDLE_FLAG_INHERIT};
        let is_inherited = |handle: &OwnedHandle| {
            let mut flags = 0;
            // SAFETY: the handle is valid, and `flags` is where the result goes.
            assert_ne!(unsafe { GetHandleInformation(handle.as_raw_handle(), &mut flags) }, 0);
            flags & HANDLE_FLAG_INHERIT != 0
        };
        let (reader, _writer) = io::pipe().expect("a pipe");
        let own = OwnedHandle::from(reader);
        let copy = inheritable(own.as_handle()).expect("a copy");
        assert!(is_inherited(&copy) && !is_inherited(&own));
        let job = JobObject::new(&JobLimits::default(), false).expect("a job");
        let mut flags = 0;
        // SAFETY: as above.
        assert_ne!(unsafe { GetHandleInformation(job.raw(), &mut flags) }, 0);
        assert_eq!(flags & HANDLE_FLAG_INHERIT, 0, "a process with the job's handle could lift its limits");
    }
}
