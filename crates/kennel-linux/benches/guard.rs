//! What the guard costs: files made with names that it has no business with.
//!
//! `cargo bench -p kennel-linux --bench guard` starts this program again as a worker that makes 100,000 files, without
//! a guard, and under one in three ways: by an absolute path, by a name in the working directory, and in the very
//! folder that the guard watches. Each way has a fresh folder: one that held many files is slower on its own. Prints the median of single creations in microseconds.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use kennel_init::plan::Identity;
use kennel_linux::guard::{Anchor, Finding, Guard, GuardAssumptions, Rules, filter_rules};
use kennel_linux::seccomp::bpf::{FilterAction, Table, bytes};

const FILES: usize = 100_000;

fn main() {
    if let Some(folder) = std::env::var_os("KENNEL_BENCH_FOLDER") {
        return work(Path::new(&folder));
    }
    let top = std::env::temp_dir().join(format!("kennel-guard-bench-{}", std::process::id()));
    std::fs::create_dir(&top).expect("a scratch folder");
    let top = top.canonicalize().expect("the scratch folder");
    println!("{FILES} files each, median and 99th percentile of one creation in µs:");
    let free = measure("without a guard", &top, "free", false, true);
    for (name, folder, absolute) in [
        ("guarded, absolute path", "absolute", true),
        ("guarded, relative path", "relative", false),
        ("guarded, in the watched folder", "", false),
    ] {
        let guarded = measure(name, &top, folder, true, absolute);
        println!("{:>34}  {:.1} more", "", guarded - free);
    }
    let _ = std::fs::remove_dir_all(&top);
}

fn measure(name: &str, top: &Path, folder: &str, guarded: bool, absolute: bool) -> f64 {
    let folder = top.join(folder);
    std::fs::create_dir_all(&folder).expect("a folder for the files");
    let (mut ours, theirs) = UnixStream::pair().expect("a socket pair");
    // SAFETY: clears one flag of a descriptor that this function owns.
    unsafe { libc::fcntl(theirs.as_raw_fd(), libc::F_SETFD, 0) };
    let mut worker = Command::new(std::env::current_exe().expect("this program"));
    worker.env("KENNEL_BENCH_FOLDER", &folder).env("KENNEL_BENCH_LINK", theirs.as_raw_fd().to_string());
    if absolute {
        worker.env("KENNEL_BENCH_ABSOLUTE", "1");
    }
    let mut worker = worker.spawn().expect("the worker");
    drop(theirs);
    let rules = rules(top);
    let mut table = Table::new(FilterAction::Allow);
    filter_rules(&rules).apply(&mut table);
    let program = if guarded { bytes(&table.compile()) } else { Vec::new() };
    ours.write_all(&(program.len() as u32).to_ne_bytes()).expect("the worker listens");
    ours.write_all(&program).expect("the worker listens");
    let guard = guarded.then(|| {
        let guard =
            Guard::new(&rules, GuardAssumptions { own_network: true, one_root: true, own_mounts: true })
                .expect("the paths are there");
        guard.serve(Some(receive_fd(&ours)), || panic!("broken")).expect("a guard")
    });
    ours.write_all(b"g").expect("the worker waits");
    let mut times = [0; 16];
    ours.read_exact(&mut times).expect("the worker's times");
    worker.wait().expect("the worker");
    if let Some(guard) = guard {
        assert!(guard.finish().is_empty());
    }
    let microseconds =
        |at: usize| u64::from_ne_bytes(times[at..at + 8].try_into().unwrap_or_default()) as f64 / 1e3;
    println!("{name:>34}: {:6.1} {:6.1}", microseconds(0), microseconds(8));
    microseconds(0)
}

fn rules(top: &Path) -> Rules {
    use std::os::unix::fs::MetadataExt;
    let data = std::fs::metadata(top).expect("the scratch folder");
    let device = u64::from(libc::major(data.dev())) << 32 | u64::from(libc::minor(data.dev()));
    let anchor = Anchor { path: top.into(), identity: Identity { device, inode: data.ino() } };
    let protect = |path: &str| Finding { path: top.join(path), rule: path.to_owned().into() };
    Rules::new(&[".git", ".codex", ".agents", ".vscode/settings.json"].map(protect), &[anchor.into()])
}

/// The worker: makes files, each timed by itself.
fn work(folder: &Path) {
    std::env::set_current_dir(folder).expect("the folder");
    let number =
        std::env::var("KENNEL_BENCH_LINK").ok().and_then(|text| text.parse().ok()).expect("a number");
    // SAFETY: whoever started this program passed the descriptor on for this.
    let mut link = unsafe { UnixStream::from_raw_fd(number) };
    let mut length = [0; 4];
    link.read_exact(&mut length).expect("the filter's length");
    let mut program = vec![0; u32::from_ne_bytes(length) as usize];
    link.read_exact(&mut program).expect("the filter");
    if !program.is_empty() {
        put_on(&program, &link);
    }
    link.read_exact(&mut [0]).expect("the word to go");
    let start =
        if std::env::var_os("KENNEL_BENCH_ABSOLUTE").is_some() { folder.to_owned() } else { PathBuf::new() };
    let names: Vec<CString> = (0..FILES)
        .map(|n| CString::new(start.join(format!("file-{n}")).as_os_str().as_bytes()).expect("no NUL"))
        .collect();
    let mut times: Vec<u64> = Vec::with_capacity(FILES);
    for name in &names {
        let since = Instant::now();
        // SAFETY: a C string that outlives the call.
        let fd = unsafe { libc::open(name.as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, 0o600) };
        times.push(since.elapsed().as_nanos() as u64);
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: it was just opened.
        unsafe { libc::close(fd) };
    }
    for name in &names {
        // SAFETY: a C string that outlives the call.
        unsafe { libc::unlink(name.as_ptr()) };
    }
    times.sort_unstable();
    link.write_all(&times[FILES / 2].to_ne_bytes()).expect("the median is told");
    link.write_all(&times[FILES / 100 * 99].to_ne_bytes()).expect("the percentile is told");
}

fn put_on(program: &[u8], link: &UnixStream) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
    let program =
        libc::sock_fprog { len: (program.len() / 8) as u16, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: a valid program that outlives the call.
    let fd = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(libc::SYS_seccomp, 1, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER, &raw const program)
    };
    assert!(fd >= 0, "seccomp: {}", io::Error::last_os_error());
    // SAFETY: the kernel just made it for us.
    let listener = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [listener.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    rustix::net::sendmsg(link, &[io::IoSlice::new(b"l")], &mut control, SendFlags::empty()).expect("sent");
}

fn receive_fd(link: &UnixStream) -> OwnedFd {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
    let mut byte = [0u8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [io::IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(link, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
        .expect("the worker answers");
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fd.expect("the worker sends its listener")
}
