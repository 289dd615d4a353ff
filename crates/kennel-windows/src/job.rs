//! The Job Object: a process and all that it starts. Nothing leaves it, everything in it ends with it, and its limits hold for
//! all together.
//!
//! Windows tells what happens in a job on a completion port. That is also where other threads wake whoever waits.

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::IO::{
    CreateIoCompletionPort, GetQueuedCompletionStatus, OVERLAPPED, PostQueuedCompletionStatus,
};
use windows_sys::Win32::System::JobObjects::{
    CreateJobObjectW, IsProcessInJob, JOB_OBJECT_CPU_RATE_CONTROL_ENABLE,
    JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP, JOB_OBJECT_LIMIT_ACTIVE_PROCESS,
    JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION, JOB_OBJECT_LIMIT_JOB_MEMORY,
    JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOB_OBJECT_LIMIT_PROCESS_MEMORY, JOB_OBJECT_LIMIT_PROCESS_TIME,
    JOB_OBJECT_UILIMIT_DESKTOP, JOB_OBJECT_UILIMIT_DISPLAYSETTINGS, JOB_OBJECT_UILIMIT_EXITWINDOWS,
    JOB_OBJECT_UILIMIT_GLOBALATOMS, JOB_OBJECT_UILIMIT_HANDLES, JOB_OBJECT_UILIMIT_READCLIPBOARD,
    JOB_OBJECT_UILIMIT_SYSTEMPARAMETERS, JOB_OBJECT_UILIMIT_WRITECLIPBOARD,
    JOBOBJECT_ASSOCIATE_COMPLETION_PORT, JOBOBJECT_BASIC_ACCOUNTING_INFORMATION,
    JOBOBJECT_BASIC_UI_RESTRICTIONS, JOBOBJECT_CPU_RATE_CONTROL_INFORMATION,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JOBOBJECTINFOCLASS, JobObjectAssociateCompletionPortInformation,
    JobObjectBasicAccountingInformation, JobObjectBasicUIRestrictions, JobObjectCpuRateControlInformation,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject,
    TerminateJobObject,
};
use windows_sys::Win32::System::SystemServices::{
    JOB_OBJECT_MSG_ABNORMAL_EXIT_PROCESS, JOB_OBJECT_MSG_ACTIVE_PROCESS_LIMIT,
    JOB_OBJECT_MSG_ACTIVE_PROCESS_ZERO, JOB_OBJECT_MSG_END_OF_PROCESS_TIME, JOB_OBJECT_MSG_EXIT_PROCESS,
    JOB_OBJECT_MSG_JOB_MEMORY_LIMIT, JOB_OBJECT_MSG_NEW_PROCESS, JOB_OBJECT_MSG_PROCESS_MEMORY_LIMIT,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, INFINITE};

use crate::error::{Error, check, failed};
use crate::limits::{JobLimits, duration};

/// Which of the port's packets are the job's.
const OF_JOB: usize = 1;
/// Which are those that wake whoever waits.
const OF_WAKER: usize = 2;

/// Without a window of another job's, without the clipboard, the display, the desktop and the end of the session.
const UI_LIMITS: u32 = JOB_OBJECT_UILIMIT_DESKTOP
    | JOB_OBJECT_UILIMIT_DISPLAYSETTINGS
    | JOB_OBJECT_UILIMIT_EXITWINDOWS
    | JOB_OBJECT_UILIMIT_GLOBALATOMS
    | JOB_OBJECT_UILIMIT_HANDLES
    | JOB_OBJECT_UILIMIT_READCLIPBOARD
    | JOB_OBJECT_UILIMIT_SYSTEMPARAMETERS
    | JOB_OBJECT_UILIMIT_WRITECLIPBOARD;

/// What happened in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A process was started.
    New(u32),
    /// A process ended.
    Exit(u32),
    /// No process is left.
    Empty,
    /// One more process was refused.
    ProcessRefused,
    /// Memory is used up.
    Memory,
    /// A process has used up its CPU time.
    ProcessTime(u32),
    /// Somebody woke us.
    Woken,
    /// Something else.
    Other,
}

/// A job and its port. The handle is never inherited: a process with it could lift the limits.
#[derive(Debug)]
pub(crate) struct JobObject {
    handle: OwnedHandle,
    port: OwnedHandle,
}

/// What a job has used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accounting {
    pub(crate) user: Duration,
    pub(crate) kernel: Duration,
    pub(crate) active: u32,
    pub(crate) peak_memory: u64,
}

impl JobObject {
    /// A job with these limits. Its processes end when the last handle to it is closed, which the system does however this
    /// process ends.
    pub(crate) fn new(limits: &JobLimits, ui_limits: bool) -> Result<JobObject, Error> {
        // SAFETY: neither a name nor an access list is given.
        let handle = unsafe { CreateJobObjectW(std::ptr::null(), std::ptr::null()) };
        if handle.is_null() {
            return Err(failed("creating a job object"));
        }
        // SAFETY: it was just made for us.
        let handle = unsafe { OwnedHandle::from_raw_handle(handle) };
        // SAFETY: no file is given, so a port is made.
        let port = unsafe { CreateIoCompletionPort(INVALID_HANDLE_VALUE, std::ptr::null_mut(), 0, 1) };
        if port.is_null() {
            return Err(failed("creating a completion port"));
        }
        // SAFETY: it was just made for us.
        let port = unsafe { OwnedHandle::from_raw_handle(port) };
        let job = JobObject { handle, port };
        let port = JOBOBJECT_ASSOCIATE_COMPLETION_PORT {
            CompletionKey: std::ptr::without_provenance_mut(OF_JOB),
            CompletionPort: job.port.as_raw_handle(),
        };
        job.set(JobObjectAssociateCompletionPortInformation, &port, "watching the job object")?;
        job.limit(limits)?;
        if ui_limits {
            let restrictions = JOBOBJECT_BASIC_UI_RESTRICTIONS { UIRestrictionsClass: UI_LIMITS };
            job.set(JobObjectBasicUIRestrictions, &restrictions, "keeping the job object from the desktop")?;
        }
        Ok(job)
    }

    fn limit(&self, limits: &JobLimits) -> Result<(), Error> {
        let mut set = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        // Neither of the two flags that would let a process leave the job.
        let mut flags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION;
        let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        if let Some(memory) = limits.job_memory {
            flags |= JOB_OBJECT_LIMIT_JOB_MEMORY;
            set.JobMemoryLimit = bytes(memory);
        }
        if let Some(memory) = limits.process_memory {
            flags |= JOB_OBJECT_LIMIT_PROCESS_MEMORY;
            set.ProcessMemoryLimit = bytes(memory);
        }
        if let Some(processes) = limits.processes {
            flags |= JOB_OBJECT_LIMIT_ACTIVE_PROCESS;
            set.BasicLimitInformation.ActiveProcessLimit = processes;
        }
        if let Some(time) = limits.process_time {
            flags |= JOB_OBJECT_LIMIT_PROCESS_TIME;
            set.BasicLimitInformation.PerProcessUserTimeLimit = time;
        }
        set.BasicLimitInformation.LimitFlags = flags;
        self.set(JobObjectExtendedLimitInformation, &set, "limiting the job object")?;
        let Some(rate) = limits.cpu_rate else { return Ok(()) };
        let mut set = JOBOBJECT_CPU_RATE_CONTROL_INFORMATION {
            ControlFlags: JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP,
            ..Default::default()
        };
        set.Anonymous.CpuRate = rate;
        self.set(JobObjectCpuRateControlInformation, &set, "limiting CPU of the job object")
    }

    fn set<T>(&self, class: JOBOBJECTINFOCLASS, value: &T, doing: &str) -> Result<(), Error> {
        let value: *const T = value;
        // SAFETY: the value is of the class's type, and as long as is said.
        let set = unsafe {
            SetInformationJobObject(self.handle.as_raw_handle(), class, value.cast(), size_of::<T>() as u32)
        };
        check(set, doing)
    }

    fn query<T: Default>(&self, class: JOBOBJECTINFOCLASS) -> io::Result<T> {
        let mut value = T::default();
        let place: *mut T = &mut value;
        let size = size_of::<T>() as u32;
        let handle = self.handle.as_raw_handle();
        // SAFETY: `place` is of the class's type, and as long as is said.
        let told =
            unsafe { QueryInformationJobObject(handle, class, place.cast(), size, std::ptr::null_mut()) };
        if told == 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
    }

    /// What has been used so far.
    pub(crate) fn accounting(&self) -> io::Result<Accounting> {
        let basic: JOBOBJECT_BASIC_ACCOUNTING_INFORMATION =
            self.query(JobObjectBasicAccountingInformation)?;
        let extended: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = self.query(JobObjectExtendedLimitInformation)?;
        Ok(Accounting {
            user: duration(basic.TotalUserTime),
            kernel: duration(basic.TotalKernelTime),
            active: basic.ActiveProcesses,
            peak_memory: extended.PeakJobMemoryUsed as u64,
        })
    }

    /// Bytes that are committed now. Before Windows 10 1607 nobody tells.
    pub(crate) fn memory(&self) -> Option<u64> {
        /// `JobObjectMemoryUsageInformation`, and what it tells: now, and at most.
        const MEMORY_USAGE: JOBOBJECTINFOCLASS = 28;
        self.query::<[u64; 2]>(MEMORY_USAGE).ok().map(|[now, _]| now)
    }

    /// Kills everything in it; each process ends with this code.
    pub(crate) fn terminate(&self, code: u32) {
        // SAFETY: the job is there as long as this is. That it has no processes any more is no error.
        unsafe { TerminateJobObject(self.handle.as_raw_handle(), code) };
    }

    /// Waits for the next message, no longer than until `until`.
    pub(crate) fn next(&self, until: Option<Instant>) -> Option<Message> {
        let milliseconds = until.map_or(INFINITE, |until| {
            // Up, so that it is past the time that was asked for.
            let left = until.saturating_duration_since(Instant::now()).as_nanos().div_ceil(1_000_000);
            u32::try_from(left).unwrap_or(INFINITE - 1).min(INFINITE - 1)
        });
        let (mut kind, mut key, mut value) = (0u32, 0usize, std::ptr::null_mut::<OVERLAPPED>());
        let port = self.port.as_raw_handle();
        // SAFETY: all three are places for results; what comes as a pointer is a number here, and never followed.
        let got = unsafe { GetQueuedCompletionStatus(port, &mut kind, &mut key, &mut value, milliseconds) };
        if got == 0 && value.is_null() && key == 0 {
            return None;
        }
        let process = value.addr() as u32;
        Some(match (key, kind) {
            (OF_WAKER, _) => Message::Woken,
            (OF_JOB, JOB_OBJECT_MSG_NEW_PROCESS) => Message::New(process),
            (OF_JOB, JOB_OBJECT_MSG_EXIT_PROCESS | JOB_OBJECT_MSG_ABNORMAL_EXIT_PROCESS) => {
                Message::Exit(process)
            }
            (OF_JOB, JOB_OBJECT_MSG_ACTIVE_PROCESS_ZERO) => Message::Empty,
            (OF_JOB, JOB_OBJECT_MSG_ACTIVE_PROCESS_LIMIT) => Message::ProcessRefused,
            (OF_JOB, JOB_OBJECT_MSG_JOB_MEMORY_LIMIT | JOB_OBJECT_MSG_PROCESS_MEMORY_LIMIT) => {
                Message::Memory
            }
            (OF_JOB, JOB_OBJECT_MSG_END_OF_PROCESS_TIME) => Message::ProcessTime(process),
            _ => Message::Other,
        })
    }

    /// Wakes whoever waits for the next message.
    pub(crate) fn wake(&self) {
        // SAFETY: nothing is pointed to.
        unsafe { PostQueuedCompletionStatus(self.port.as_raw_handle(), 0, OF_WAKER, std::ptr::null()) };
    }

    /// For the attribute list of a new process.
    pub(crate) fn raw(&self) -> HANDLE {
        self.handle.as_raw_handle()
    }

    /// Whether a process is in it.
    pub(crate) fn contains(&self, process: &OwnedHandle) -> io::Result<bool> {
        let mut is_in = 0;
        // SAFETY: both handles are valid, and `is_in` is where the result goes.
        let told = unsafe { IsProcessInJob(process.as_raw_handle(), self.raw(), &mut is_in) };
        if told == 0 { Err(io::Error::last_os_error()) } else { Ok(is_in != 0) }
    }
}

/// Whether this process is in a job itself. A job with limits on the desktop cannot be nested in another.
pub(crate) fn is_in_job() -> bool {
    let mut is_in = 0;
    // SAFETY: the handle of this process is always valid, and `is_in` is where the result goes.
    let told = unsafe { IsProcessInJob(GetCurrentProcess(), std::ptr::null_mut(), &mut is_in) };
    // Where Windows does not tell, as if it were.
    told == 0 || is_in != 0
}
