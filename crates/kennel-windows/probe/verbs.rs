//! What the probe can do.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kennel_policy::policy::{NetworkMode, Policy};
use windows_sys::Win32::Foundation::{HANDLE, TRUE};
use windows_sys::Win32::Security::Authorization::ConvertSidToStringSidW;
use windows_sys::Win32::Security::{
    GetTokenInformation, IsTokenRestricted, LookupPrivilegeNameW, TOKEN_GROUPS, TOKEN_MANDATORY_LABEL,
    TOKEN_PRIVILEGES, TOKEN_QUERY, TokenGroups, TokenIntegrityLevel, TokenPrivileges,
};
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, SetConsoleCtrlHandler};
use windows_sys::Win32::System::JobObjects::IsProcessInJob;
use windows_sys::Win32::System::Threading::{
    CREATE_BREAKAWAY_FROM_JOB, CREATE_NEW_PROCESS_GROUP, DETACHED_PROCESS, GetCurrentProcess,
    OpenProcessToken, SetEvent,
};
use windows_sys::core::BOOL;

/// Does it; returns the exit code.
pub fn perform(verb: &str, words: &[OsString]) -> i32 {
    let number =
        |index: usize| -> u64 { words.get(index).and_then(|word| word.to_str()?.parse().ok()).unwrap_or(0) };
    match verb {
        "arguments" => words.iter().for_each(|word| {
            let hex: String = word.encode_wide().map(|unit| format!("{unit:04x}")).collect();
            println!("{hex}");
        }),
        "environment" => std::env::vars().for_each(|(name, value)| println!("{name}={value}")),
        "folder" => println!("{}", std::env::current_dir().unwrap_or_default().display()),
        "exit" => return number(0) as u32 as i32,
        "sleep" => std::thread::sleep(Duration::from_secs(number(0))),
        "copy" => {
            let mut bytes = Vec::new();
            let _ = std::io::stdin().read_to_end(&mut bytes);
            let _ = std::io::stdout().write_all(&bytes);
        }
        "fill" => {
            let _ = std::io::stdout().write_all(&vec![b'x'; number(0) as usize]);
        }
        // A child, its child, and so on; all of them sleep.
        "tree" => {
            println!("{}", std::process::id());
            let depth = number(0);
            if depth > 0 {
                start_self(&["tree", &(depth - 1).to_string()], 0, true);
            }
            std::thread::sleep(Duration::from_secs(600));
        }
        // A child without a console and without our streams, that lives on.
        "leave" => {
            let child = start_self(&["sleep", "600"], DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP, false);
            println!("{}", child.map_or(0, |child| child.id()));
        }
        "breakaway" => {
            let own = std::env::current_exe().unwrap_or_default();
            let mut command = Command::new(own);
            command.args(["exit", "0"]).creation_flags(CREATE_BREAKAWAY_FROM_JOB);
            match command.spawn() {
                Ok(_) => println!("started"),
                Err(error) => println!("refused {}", error.raw_os_error().unwrap_or(0)),
            }
        }
        "is-in-job" => {
            let mut is_in = 0;
            // SAFETY: the handle is always valid, and `is_in` is where the result goes.
            unsafe { IsProcessInJob(GetCurrentProcess(), std::ptr::null_mut(), &mut is_in) };
            println!("{}", is_in != 0);
        }
        // Uses a handle by its number, if it is one here.
        "set-event" => {
            // SAFETY: a number that is no handle here makes it fail.
            let set = unsafe { SetEvent(std::ptr::without_provenance_mut(number(0) as usize)) };
            println!("{}", set != 0);
        }
        "token" => token(),
        "write" => match std::fs::write(&words[0], "written") {
            Ok(()) => println!("written"),
            Err(error) => println!("refused {}", error.raw_os_error().unwrap_or(0)),
        },
        "allocate" => {
            let bytes = vec![1u8; number(0) as usize];
            println!("{}", bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        }
        "spin" => {
            let until = Instant::now() + Duration::from_secs(number(0));
            while Instant::now() < until {}
        }
        "break" => {
            // SAFETY: the handler only ends the process.
            unsafe { SetConsoleCtrlHandler(Some(on_break), TRUE) };
            println!("ready");
            std::thread::sleep(Duration::from_secs(60));
        }
        // A controller of its own, with a tree in its sandbox. Whoever started it kills it.
        "controller" => return controller(),
        _ => {
            eprintln!("no verb {verb}");
            return 99;
        }
    }
    let _ = std::io::stdout().flush();
    0
}

fn start_self(words: &[&str], flags: u32, with_streams: bool) -> Option<std::process::Child> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(words).creation_flags(flags);
    if !with_streams {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    command.spawn().ok()
}

unsafe extern "system" fn on_break(event: u32) -> BOOL {
    if event == CTRL_BREAK_EVENT {
        std::process::exit(42);
    }
    0
}

fn controller() -> i32 {
    let mut policy = Policy::default();
    policy.network.mode = NetworkMode::Host;
    let own = std::env::current_exe().unwrap_or_default();
    let nowhere = || std::fs::File::open("NUL").map(OwnedHandle::from).expect("the null device");
    let output = std::io::stdout().lock();
    // SAFETY: standard output stays open as long as this process lives.
    let output = unsafe { std::os::windows::io::BorrowedHandle::borrow_raw(output.as_raw_handle()) };
    let output = output.try_clone_to_owned().expect("a copy");
    let words = [own.into(), "tree".into(), "1".into()];
    let variables = std::env::vars_os().collect();
    let (cwd, streams) = (std::env::temp_dir(), [nowhere(), output, nowhere()]);
    let started = kennel_windows::Prepared::new(&policy).and_then(|prepared| {
        let launch = kennel_windows::Launch { words: &words, variables, cwd, streams, shares_ctrl_c: false };
        kennel_windows::start(prepared, launch)
    });
    match started {
        Ok(_running) => {
            std::thread::sleep(Duration::from_secs(600));
            0
        }
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

/// Prints each group with its attributes, each privilege, and the integrity level.
fn token() {
    let mut token: HANDLE = std::ptr::null_mut();
    // SAFETY: the handle is always valid, and `token` is where the result goes.
    unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &mut token) };
    // SAFETY: it was just opened for us.
    let token = unsafe { OwnedHandle::from_raw_handle(token) };
    let raw = token.as_raw_handle();
    let information = |class| {
        let (mut buffer, mut length) = (vec![0u64; 4096], 0);
        let size = (buffer.len() * 8) as u32;
        // SAFETY: the buffer has the size that is said.
        unsafe { GetTokenInformation(raw, class, buffer.as_mut_ptr().cast(), size, &mut length) };
        buffer
    };
    let text = |sid| {
        let mut text: *mut u16 = std::ptr::null_mut();
        // SAFETY: it is an identifier of the token's.
        unsafe { ConvertSidToStringSidW(sid, &mut text) };
        // SAFETY: the text ends with a zero.
        let length = (0..).take_while(|index| unsafe { *text.add(*index) } != 0).count();
        // SAFETY: so many units are there.
        OsString::from_wide(unsafe { std::slice::from_raw_parts(text, length) })
            .to_string_lossy()
            .into_owned()
    };
    let buffer = information(TokenGroups);
    let groups = buffer.as_ptr().cast::<TOKEN_GROUPS>();
    // SAFETY: the structure is there, with as many entries as it says.
    unsafe {
        let first: *const windows_sys::Win32::Security::SID_AND_ATTRIBUTES =
            (&raw const (*groups).Groups).cast();
        for index in 0..(*groups).GroupCount as usize {
            let group = &*first.add(index);
            println!("group {} {:x}", text(group.Sid), group.Attributes);
        }
    }
    let buffer = information(TokenPrivileges);
    let privileges = buffer.as_ptr().cast::<TOKEN_PRIVILEGES>();
    // SAFETY: as above.
    unsafe {
        let first: *const windows_sys::Win32::Security::LUID_AND_ATTRIBUTES =
            (&raw const (*privileges).Privileges).cast();
        for index in 0..(*privileges).PrivilegeCount as usize {
            let (mut name, mut length) = ([0u16; 64], 64);
            LookupPrivilegeNameW(std::ptr::null(), &(*first.add(index)).Luid, name.as_mut_ptr(), &mut length);
            println!("privilege {}", String::from_utf16_lossy(&name[..length as usize]));
        }
    }
    let buffer = information(TokenIntegrityLevel);
    // SAFETY: as above.
    println!("integrity {}", text(unsafe { (*buffer.as_ptr().cast::<TOKEN_MANDATORY_LABEL>()).Label.Sid }));
    // SAFETY: the handle is of a token.
    println!("restricted {}", unsafe { IsTokenRestricted(raw) } != 0);
}
