//! What the suite's executable does inside a sandbox, or around one, when it is not the suite.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// Restricts itself again and again until the kernel allows no further layer; says how many there were.
pub fn landlock_layers(_: &[OsString]) -> i32 {
    const REFER: u64 = 1 << 13;
    let attributes = [REFER];
    let mut layers = 0;
    // SAFETY: an attribute of eight bytes; the descriptor is closed again.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        loop {
            let rules = libc::syscall(libc::SYS_landlock_create_ruleset, attributes.as_ptr(), 8, 0);
            if rules < 0 || libc::syscall(libc::SYS_landlock_restrict_self, rules, 0) < 0 {
                break;
            }
            libc::close(i32::try_from(rules).unwrap_or(-1));
            layers += 1;
        }
    }
    println!("{layers}");
    0
}

/// Starts threads, which the C library makes with clone3 where that exists.
pub fn threads(_: &[OsString]) -> i32 {
    let threads: Vec<_> = (0..20u64).map(|n| std::thread::spawn(move || n * n)).collect();
    let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum();
    println!("{sum}");
    0
}

/// Listens on an abstract name and connects to it.
pub fn abstract_sockets(words: &[OsString]) -> i32 {
    let name = words[0].as_encoded_bytes();
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    let mut client = UnixStream::connect_addr(&address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(b"hello").unwrap();
    drop(client);
    let mut text = String::new();
    server.read_to_string(&mut text).unwrap();
    println!("{text}");
    0
}

/// Traces a child of its own to its end, as debuggers do.
pub fn trace_a_child(_: &[OsString]) -> i32 {
    // SAFETY: a single thread; the child asks to be traced, stops, and exits.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let traced = libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            libc::_exit(if traced == 0 { 7 } else { 8 });
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        let stopped = libc::WIFSTOPPED(status);
        libc::ptrace(libc::PTRACE_CONT, child, 0, 0);
        libc::waitpid(child, &raw mut status, 0);
        println!("stopped: {stopped}, code: {}", libc::WEXITSTATUS(status));
    }
    0
}

/// A program with a secret on its heap and its stack, many threads, and a sandbox through the library. Says PID 1's
/// number and waits for its input to end. The secret comes over standard input, so that it lies nowhere else.
pub fn embedder(_: &[OsString]) -> i32 {
    let mut heap = String::new();
    let mut stack = [0u8; 64];
    std::io::stdin().read_line(&mut heap).unwrap();
    let heap = heap.trim_end().to_owned();
    stack[..heap.len()].copy_from_slice(heap.as_bytes());
    // Large enough that malloc maps it instead of growing the heap.
    let large: Vec<u8> = heap.bytes().cycle().take(1 << 20).collect();
    for _ in 0..8 {
        let copy = heap.clone();
        std::thread::spawn(move || {
            std::hint::black_box(&copy);
            std::thread::park();
        });
    }
    let sandbox = kennel::Sandbox::builder().clear_env(true).build().unwrap();
    let mut child = sandbox.spawn("sh", &["-c", "echo started; exec sleep 600"]).unwrap();
    let mut started = [0; 8];
    child.take_stdout().unwrap().read_exact(&mut started).unwrap();
    println!("{}", child.init_pid());
    let mut rest = String::new();
    std::io::stdin().read_to_string(&mut rest).unwrap();
    std::hint::black_box((&heap, &stack, &large));
    child.kill();
    child.wait().unwrap();
    0
}
