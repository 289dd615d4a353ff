//! What this Windows is.

use std::ffi::{CStr, c_char};
use std::os::windows::io::AsRawHandle;

use windows_sys::Win32::Storage::FileSystem::{FILE_TYPE_DISK, GetFileType};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::Win32::System::SystemInformation::OSVERSIONINFOW;

use crate::wide::terminated;

/// The first Windows in which a process can be born in a job (`PROC_THREAD_ATTRIBUTE_JOB_LIST`): Windows 10.
pub const FIRST_BUILD: u32 = 10_240;

/// The version of Wine, where this is Wine. It has the same calls and enforces few of them: limits on memory, CPU and
/// processes, restricting SIDs and integrity levels are accepted without effect.
#[must_use]
pub fn wine_version() -> Option<String> {
    let function = function_of_ntdll(c"wine_get_version")?;
    // SAFETY: Wine declares it so: no arguments, and a text that is never freed.
    let version: extern "system" fn() -> *const c_char = unsafe { std::mem::transmute(function) };
    let text = version();
    // SAFETY: as above.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Major and minor version and the build, as they are: `GetVersionEx` tells programs without a manifest an older one.
#[must_use]
pub fn version() -> Option<(u32, u32, u32)> {
    let function = function_of_ntdll(c"RtlGetVersion")?;
    // SAFETY: Windows declares it so.
    let get: extern "system" fn(*mut OSVERSIONINFOW) -> i32 = unsafe { std::mem::transmute(function) };
    let mut info =
        OSVERSIONINFOW { dwOSVersionInfoSize: size_of::<OSVERSIONINFOW>() as u32, ..Default::default() };
    (get(&mut info) == 0).then_some((info.dwMajorVersion, info.dwMinorVersion, info.dwBuildNumber))
}

/// Whether this process is in a job, so that limits on the desktop cannot be set for the command's.
#[must_use]
pub fn is_in_job() -> bool {
    crate::job::is_in_job()
}

/// How many processors there are.
#[must_use]
pub fn processors() -> u32 {
    // Of this process's group and affinity; a job's rate is of all, so where there are more the limit is stricter.
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}

/// Whether a handle leads to a file on a disk, rather than to a pipe, a device or a console.
#[must_use]
pub fn is_disk_file(handle: impl std::os::windows::io::AsHandle) -> bool {
    // SAFETY: the handle is valid as long as it is borrowed.
    unsafe { GetFileType(handle.as_handle().as_raw_handle()) == FILE_TYPE_DISK }
}

fn function_of_ntdll(name: &CStr) -> Option<unsafe extern "system" fn() -> isize> {
    // SAFETY: the name ends with a zero; ntdll is in every process and stays there.
    let module = unsafe { GetModuleHandleW(terminated("ntdll.dll").as_ptr()) };
    if module.is_null() {
        return None;
    }
    // SAFETY: the module is there, and the name ends with a zero.
    unsafe { GetProcAddress(module, name.as_ptr().cast()) }
}
