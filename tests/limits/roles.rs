//! What runs inside: programs that want more than they may have. All have one thread when they fork, and stop at an
//! end of their own should a limit fail to hold.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

fn number(words: &[OsString], index: usize) -> u64 {
    words[index].to_string_lossy().parse().expect("a number")
}

/// `hog BYTES` uses so much memory, page by page.
pub fn hog(words: &[OsString]) -> i32 {
    let mut memory: Vec<u8> = Vec::with_capacity(usize::try_from(number(words, 0)).expect("an amount"));
    for page in (0..memory.capacity()).step_by(4096) {
        // SAFETY: within the capacity; the bytes are never read.
        unsafe { memory.as_mut_ptr().add(page).write_volatile(1) };
    }
    println!("used");
    0
}

/// `hog-child BYTES CODE` has a child do that, waits for it, and exits with CODE.
pub fn hog_child(words: &[OsString]) -> i32 {
    // SAFETY: one thread; the child goes on as this process would.
    match unsafe { libc::fork() } {
        0 => hog(words),
        child => {
            // SAFETY: waits for a child of this process.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            i32::try_from(number(words, 1)).expect("a code")
        }
    }
}

/// `fill-sockets BYTES` leaves as many bytes in the buffers of TCP connections that nobody reads, or as many as it can,
/// and prints how many.
pub fn fill_sockets(words: &[OsString]) -> i32 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a sandbox has a loopback");
    let address = listener.local_addr().expect("it has a port");
    let (wanted, block) = (number(words, 0), vec![1u8; 256 << 10]);
    let (mut written, mut pairs) = (0, Vec::new());
    while written < wanted && pairs.len() < 200 {
        let mut one = std::net::TcpStream::connect(address).expect("a loopback connects");
        let (other, _) = listener.accept().expect("somebody connected");
        one.set_nonblocking(true).expect("a socket can be");
        while let Ok(count) = one.write(&block) {
            written += count as u64;
        }
        pairs.push((one, other));
    }
    println!("{written}");
    0
}

/// `fill-tmp BYTES` writes a file of so many bytes to /tmp, and prints how many fitted.
pub fn fill_tmp(words: &[OsString]) -> i32 {
    let mut file = File::create("/tmp/filled").expect("/tmp can be written");
    let block = [1; 64 << 10];
    let mut written = 0;
    while written < number(words, 0) {
        match file.write(&block) {
            Ok(n) => written += n as u64,
            Err(error) => {
                println!("{written} {}", error.raw_os_error().unwrap_or(0));
                return 3;
            }
        }
    }
    println!("{written} 0");
    0
}

/// `spin MILLISECONDS PROCESSES` computes for so long, in so many processes.
pub fn spin(words: &[OsString]) -> i32 {
    let end = Instant::now() + Duration::from_millis(number(words, 0));
    let mut children = Vec::new();
    for _ in 1..number(words, 1) {
        // SAFETY: one thread; the child only computes.
        match unsafe { libc::fork() } {
            0 => {
                while Instant::now() < end {}
                return 0;
            }
            child => children.push(child),
        }
    }
    while Instant::now() < end {}
    for child in children {
        // SAFETY: waits for a child of this process.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
    0
}

/// `burn MILLISECONDS` uses so much CPU time in this process, in a child, and in a grandchild whose session is its own;
/// each says so, and none ends.
pub fn burn(words: &[OsString]) -> i32 {
    use std::io::Write;
    let most = Duration::from_millis(number(words, 0));
    let clock = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
    };
    // SAFETY: one thread; the children only compute, write and wait.
    unsafe {
        if libc::fork() == 0 && libc::fork() == 0 {
            libc::setsid();
        }
    }
    while clock() < most {}
    let _ = std::io::stdout().write_all(b"burnt\n");
    loop {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
}

/// The same in one process, for a minute, deaf to SIGXCPU.
pub fn stubborn_spin(_: &[OsString]) -> i32 {
    // SAFETY: sets an action that runs no code.
    unsafe { libc::signal(libc::SIGXCPU, libc::SIG_IGN) };
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {}
    0
}

/// `flood BYTES` writes so many bytes to standard output.
pub fn flood(words: &[OsString]) -> i32 {
    let block = vec![b'x'; 1 << 20];
    for _ in 0..number(words, 0) / block.len() as u64 {
        if std::io::stdout().write_all(&block).is_err() {
            return 4;
        }
    }
    0
}

/// Makes children that wait until there can be no more (at most 300), and prints how many and the error.
pub fn fork_until_refused(_: &[OsString]) -> i32 {
    let mut children = 0;
    while children < 300 {
        // SAFETY: one thread; the child only waits, and ends with the sandbox.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: waits for a signal.
                unsafe { libc::pause() };
            },
            -1 => break,
            _ => children += 1,
        }
    }
    println!("{children} {}", std::io::Error::last_os_error().raw_os_error().unwrap_or(0));
    0
}

/// The same with threads.
pub fn threads_until_refused(_: &[OsString]) -> i32 {
    let wait = || {
        loop {
            std::thread::park();
        }
    };
    let mut threads = 0;
    let mut code = 0;
    while threads < 300 {
        match std::thread::Builder::new().stack_size(64 << 10).spawn(wait) {
            Ok(_) => threads += 1,
            Err(error) => {
                code = error.raw_os_error().unwrap_or(0);
                break;
            }
        }
    }
    println!("{threads} {code}");
    0
}

/// Opens files until there can be no more (at most 10,000), and prints the last descriptor and the error.
pub fn open_until_refused(_: &[OsString]) -> i32 {
    use std::os::fd::AsRawFd;
    let mut files: Vec<File> = Vec::new();
    while files.len() < 10_000 {
        match File::open("/dev/null") {
            Ok(file) => files.push(file),
            Err(error) => {
                let last = files.last().map_or(-1, AsRawFd::as_raw_fd);
                println!("{last} {}", error.raw_os_error().unwrap_or(0));
                return 0;
            }
        }
    }
    println!("{} 0", files.len());
    0
}
