//! Executing things.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Starts a program that waits and shows its /proc/PID/status. This executable, copied, waits in the role `wait`.
pub fn status_of(words: &[OsString]) -> i32 {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = Command::new(&words[0])
        .stdin(reader)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .env(kennel_tests::role::VARIABLE, "wait")
        .spawn()
        .unwrap();
    // The call returns when the program has the descriptors of its own, which is before it has its user and its memory.
    let status = kennel_tests::eventually("the program is executed", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap_or_default();
        let is_executed = size.trim().trim_end_matches(" kB").parse::<u64>().map_or(true, |size| size > 64);
        is_executed.then_some(status)
    });
    print!("{status}");
    drop(writer);
    // It may have another user's number by now; its end of the pipe tells it to end.
    let _ = child.kill();
    let _ = child.wait();
    0
}

/// Reads standard input to its end.
pub fn wait(_: &[OsString]) -> i32 {
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    0
}

/// Executes a copy of itself that lies in memory only, which shows its status and tries to write the given file.
pub fn from_memory(words: &[OsString]) -> i32 {
    if words.len() == 1 {
        // SAFETY: a name and no flags.
        let memory = unsafe { libc::memfd_create(c"program".as_ptr(), 0) };
        assert!(memory >= 0);
        // SAFETY: the descriptor is new and ours.
        let mut memory: File = unsafe { std::os::fd::FromRawFd::from_raw_fd(memory) };
        memory.write_all(&std::fs::read("/proc/self/exe").unwrap()).unwrap();
        let path = CString::new(words[0].as_bytes()).unwrap();
        let arguments = [c"program".as_ptr(), path.as_ptr(), c"again".as_ptr(), std::ptr::null()];
        let role = CString::new(format!("{}=from-memory", kennel_tests::role::VARIABLE)).unwrap();
        let environment = [role.as_ptr(), std::ptr::null()];
        // SAFETY: both arrays end in null.
        unsafe { libc::fexecve(memory.as_raw_fd(), arguments.as_ptr(), environment.as_ptr()) };
        println!("exec: {}", super::last_error());
        return 1;
    }
    print!("{}", std::fs::read_to_string("/proc/self/status").unwrap());
    let written = File::options().write(true).open(&words[0]);
    println!("write: {}", if written.is_ok() { "opened" } else { "refused" });
    0
}

/// Leaves a process behind, in a session of its own and without a parent, that holds standard output open.
pub fn daemon(words: &[OsString]) -> i32 {
    let seconds: u64 = words[0].to_str().unwrap().parse().unwrap();
    let (mut is_there, there) = std::io::pipe().unwrap();
    // SAFETY: a single thread; each child goes on alone.
    unsafe {
        if libc::fork() == 0 {
            libc::setsid();
            if libc::fork() == 0 {
                for signal in 1..32 {
                    libc::signal(signal, libc::SIG_IGN);
                }
                println!("daemon");
                let _ = std::io::stdout().flush();
                drop(there);
                std::thread::sleep(Duration::from_secs(seconds));
            }
            libc::_exit(0);
        }
    }
    drop(there);
    let _ = is_there.read(&mut [0]);
    0
}
