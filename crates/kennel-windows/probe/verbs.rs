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
use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, GenerateConsoleCtrlEvent, SetConsoleCtrlHandler,
};
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
        // What a server says to a client that heeds, or does not heed, the variables of a proxy.
        "get" => get(&words[0].to_string_lossy(), std::env::var("HTTP_PROXY").ok().as_deref()),
        "get-directly" => get(&words[0].to_string_lossy(), None),
        "interrupt" => {
            // SAFETY: the handler only ends the process.
            unsafe { SetConsoleCtrlHandler(Some(on_interrupt), TRUE) };
            println!("ready");
            let _ = std::io::stdout().flush();
            std::thread::sleep(Duration::from_secs(60));
        }
        // Runs a command on its own console, and types Ctrl-C or Ctrl-Break there when it is ready.
        "type-ctrl-c" => return type_control(CTRL_C_EVENT, words),
        "type-ctrl-break" => return type_control(CTRL_BREAK_EVENT, words),
        // A controller of its own, with a tree in its sandbox. Whoever started it kills it.
        "controller" => {
            let started = start_sandboxed(&["tree", "1"], own_output());
            std::thread::sleep(Duration::from_secs(600));
            drop(started);
        }
        // A controller that sends Ctrl-Break to its command on this console.
        "send-break" => return send_break(),
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

unsafe extern "system" fn on_interrupt(event: u32) -> BOOL {
    match event {
        CTRL_C_EVENT => std::process::exit(43),
        CTRL_BREAK_EVENT => std::process::exit(44),
        _ => 0,
    }
}

unsafe extern "system" fn live_on(_: u32) -> BOOL {
    TRUE
}

fn type_control(event: u32, words: &[OsString]) -> i32 {
    // SAFETY: the handler does nothing. Not the other form of this call, which would be inherited.
    unsafe { SetConsoleCtrlHandler(Some(live_on), TRUE) };
    let Ok(mut child) = Command::new(&words[0]).args(&words[1..]).stdout(Stdio::piped()).spawn() else {
        return 98;
    };
    let mut said = [0; 5];
    let _ = child.stdout.as_mut().map(|output| output.read_exact(&mut said));
    // SAFETY: no memory is involved. Group 0 is everybody on this console.
    let sent = unsafe { GenerateConsoleCtrlEvent(event, 0) };
    println!("{} {}", String::from_utf8_lossy(&said), sent != 0);
    if sent == 0 {
        let _ = child.kill();
    }
    child.wait().ok().and_then(|end| end.code()).unwrap_or(97)
}

/// Asks a server for a page, and prints the first line of its answer.
fn get(address: &str, proxy: Option<&str>) {
    let host = address.to_owned();
    let proxy = proxy.and_then(|proxy| proxy.strip_prefix("http://")).map(str::to_owned);
    let (to, login) = match &proxy {
        Some(proxy) => match proxy.split_once('@') {
            Some((login, to)) => (to.to_owned(), Some(login.to_owned())),
            None => (proxy.clone(), None),
        },
        None => (host.clone(), None),
    };
    let target = if proxy.is_some() { format!("http://{host}/") } else { "/".to_owned() };
    let login =
        login.map(|login| format!("Proxy-Authorization: Basic {}\r\n", base64(&login))).unwrap_or_default();
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{login}Connection: close\r\n\r\n");
    let answer = std::net::TcpStream::connect(&to).and_then(|mut stream| {
        stream.write_all(request.as_bytes())?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).map(|_| String::from_utf8_lossy(&text).into_owned())
    });
    match answer {
        Ok(text) => println!("{}", text.lines().next().unwrap_or_default()),
        Err(error) => println!("{error}"),
    }
}

fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut written = String::new();
    for part in text.as_bytes().chunks(3) {
        let bits =
            part.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for index in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * index) & 63) as usize];
            written.push(if index <= part.len() { letter as char } else { '=' });
        }
    }
    written
}

fn send_break() -> i32 {
    let (mut output, end) = std::io::pipe().expect("a pipe");
    let mut running = start_sandboxed(&["break"], end.into());
    let _ = output.read_exact(&mut [0; 5]);
    if let Err(error) = kennel_windows::console::send_break(running.pid()) {
        println!("{error}");
        return 98;
    }
    let until = Instant::now() + Duration::from_secs(30);
    let end = running.wait(Some(until)).expect("it can be waited for").expect("it ends");
    println!("{}", end.code);
    0
}

fn own_output() -> OwnedHandle {
    let output = std::io::stdout();
    std::os::windows::io::AsHandle::as_handle(&output).try_clone_to_owned().expect("a copy")
}

/// Starts this program in a sandbox.
fn start_sandboxed(verb: &[&str], output: OwnedHandle) -> kennel_windows::Sandboxed {
    let mut policy = Policy::default();
    policy.network.mode = NetworkMode::Host;
    let own = std::env::current_exe().unwrap_or_default();
    let nowhere = || std::fs::File::open("NUL").map(OwnedHandle::from).expect("the null device");
    let words: Vec<OsString> = [own.into()].into_iter().chain(verb.iter().map(OsString::from)).collect();
    let variables = std::env::vars_os().collect();
    let (cwd, streams) = (std::env::temp_dir(), [nowhere(), output, nowhere()]);
    let prepared = kennel_windows::Prepared::new(&policy).expect("it can be prepared");
    let launch = kennel_windows::Launch { words: &words, variables, cwd, streams, shares_ctrl_c: false };
    kennel_windows::start(prepared, launch).expect("it starts")
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
