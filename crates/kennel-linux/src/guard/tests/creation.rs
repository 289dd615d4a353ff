//! Names that do not exist stay so, by whatever call, path and detour.

use std::os::fd::AsRawFd;
use std::path::Path;

use super::probe::{HERE, at, c, call, folder, raw};
use super::*;

const EROFS: i32 = libc::EROFS;

/// A way of making the name `path`, by one call. What it needs is in the folder `stock`.
type Making = (&'static str, fn(&Path, &Path) -> i32);

/// Every call that makes a name.
const MAKINGS: &[Making] = &[
    ("openat", |path, _| openat(HERE, path, libc::O_CREAT | libc::O_WRONLY)),
    ("openat exclusive", |path, _| openat(HERE, path, libc::O_CREAT | libc::O_EXCL | libc::O_RDWR)),
    ("openat without following", |path, _| openat(HERE, path, libc::O_CREAT | libc::O_NOFOLLOW)),
    ("openat2", |path, _| openat2(HERE, path, 0)),
    ("mkdirat", |path, _| call(libc::SYS_mkdirat, &[HERE, at(&c(path)), 0o700], false)),
    ("mknodat of a file", |path, _| mknodat(path, libc::S_IFREG)),
    ("mknodat of a pipe", |path, _| mknodat(path, libc::S_IFIFO)),
    ("symlinkat", |path, _| call(libc::SYS_symlinkat, &[at(&c("x")), HERE, at(&c(path))], false)),
    ("linkat", |path, stock| {
        call(libc::SYS_linkat, &[HERE, at(&c(stock.join("file"))), HERE, at(&c(path)), 0], false)
    }),
    ("linkat of an unnamed file", link_unnamed),
    ("renameat2 of a file", |path, stock| rename(&stock.join("file"), path, 0)),
    ("renameat2 of a folder", |path, stock| rename(&stock.join("folder"), path, 0)),
    ("renameat2 of a link", |path, stock| rename(&stock.join("link"), path, 0)),
    ("renameat2 that replaces nothing", |path, stock| {
        rename(&stock.join("file"), path, libc::RENAME_NOREPLACE as usize)
    }),
    ("renameat", |path, stock| {
        call(libc::SYS_renameat, &[HERE, at(&c(stock.join("file"))), HERE, at(&c(path))], false)
    }),
    ("bind", bind),
    #[cfg(target_arch = "x86_64")]
    ("open", |path, _| call(libc::SYS_open, &[at(&c(path)), libc::O_CREAT as usize, 0o600], true)),
    #[cfg(target_arch = "x86_64")]
    ("creat", |path, _| call(libc::SYS_creat, &[at(&c(path)), 0o600], true)),
    #[cfg(target_arch = "x86_64")]
    ("mkdir", |path, _| call(libc::SYS_mkdir, &[at(&c(path)), 0o700], false)),
    #[cfg(target_arch = "x86_64")]
    ("mknod", |path, _| call(libc::SYS_mknod, &[at(&c(path)), 0o100600, 0], false)),
    #[cfg(target_arch = "x86_64")]
    ("symlink", |path, _| call(libc::SYS_symlink, &[at(&c("x")), at(&c(path))], false)),
    #[cfg(target_arch = "x86_64")]
    ("link", |path, stock| call(libc::SYS_link, &[at(&c(stock.join("file"))), at(&c(path))], false)),
    #[cfg(target_arch = "x86_64")]
    ("rename", |path, stock| call(libc::SYS_rename, &[at(&c(stock.join("file"))), at(&c(path))], false)),
];

fn openat(from: usize, path: &Path, flags: i32) -> i32 {
    call(libc::SYS_openat, &[from, at(&c(path)), flags as usize, 0o600], true)
}

fn openat2(from: usize, path: &Path, resolve: u64) -> i32 {
    let how = [(libc::O_CREAT | libc::O_WRONLY) as u64, 0o600, resolve];
    call(libc::SYS_openat2, &[from, at(&c(path)), how.as_ptr() as usize, 24], true)
}

fn mknodat(path: &Path, kind: u32) -> i32 {
    call(libc::SYS_mknodat, &[HERE, at(&c(path)), (kind | 0o600) as usize, 0], false)
}

fn rename(from: &Path, to: &Path, flags: usize) -> i32 {
    call(libc::SYS_renameat2, &[HERE, at(&c(from)), HERE, at(&c(to)), flags], false)
}

fn link_unnamed(path: &Path, stock: &Path) -> i32 {
    let Ok(file) =
        rustix::fs::open(stock, rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR, 0o600.into())
    else {
        return call(libc::SYS_linkat, &[HERE, at(&c(stock.join("file"))), HERE, at(&c(path)), 0], false);
    };
    let from = c(format!("/proc/self/fd/{}", file.as_raw_fd()));
    call(libc::SYS_linkat, &[HERE, at(&from), HERE, at(&c(path)), libc::AT_SYMLINK_FOLLOW as usize], false)
}

fn bind(path: &Path, _: &Path) -> i32 {
    use std::os::unix::ffi::OsStrExt;
    let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None)
        .expect("a socket can be made");
    let mut address = vec![0; 2];
    address.copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    address.extend_from_slice(path.as_os_str().as_bytes());
    address.push(0);
    call(libc::SYS_bind, &[raw(&socket), address.as_ptr() as usize, address.len()], false)
}

/// Spellings of a name in the yard. The working directory is the yard.
fn spellings(yard: &Path, name: &str) -> Vec<(&'static str, PathBuf)> {
    let relative = PathBuf::from(name);
    let short = PathBuf::from("/proc/self/cwd");
    vec![
        ("relative", relative.clone()),
        ("absolute", yard.join(name)),
        ("with dots", PathBuf::from(format!("./stock/..//./{name}"))),
        ("through a symlink", PathBuf::from(format!("round/{name}"))),
        ("through an absolute symlink", PathBuf::from(format!("stock/back/{name}"))),
        ("through /proc/self/cwd", short.join(name)),
        ("through /proc/thread-self", PathBuf::from(format!("/proc/thread-self/cwd/stock/../{name}"))),
        ("through /proc/self/root", PathBuf::from(format!("/proc/self/root{}/{name}", yard.display()))),
        ("up from below", PathBuf::from(format!("stock/folder/../../{name}"))),
    ]
}

fn lay_out(yard: &Path) {
    use std::os::unix::fs::symlink;
    std::fs::create_dir_all(yard.join("stock/folder/inner")).unwrap();
    symlink(".", yard.join("round")).unwrap();
    symlink(yard, yard.join("stock/back")).unwrap();
}

/// What the makings use up.
fn fill(stock: &Path) {
    std::fs::create_dir_all(stock.join("folder/inner")).unwrap();
    let _ = std::fs::write(stock.join("file"), "contents");
    let _ = std::os::unix::fs::symlink("nowhere", stock.join("link"));
}

fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
    let _ = std::fs::remove_dir_all(path);
}

/// Tries every making in every spelling, with a harmless name and with the protected one.
pub(super) fn attempts(yard: &Path, tell: impl Fn(&str, i32)) {
    let stock = yard.join("stock");
    for (making, make) in MAKINGS {
        for harmless in [true, false] {
            let name = if harmless { "harmless" } else { ".git" };
            for (spelling, path) in spellings(yard, name) {
                // A unix address holds 107 bytes.
                if *making == "bind" && path.as_os_str().len() > 107 {
                    continue;
                }
                fill(&stock);
                let errno = make(&path, &stock);
                tell(&format!("{making}, {spelling}, {name}"), errno);
                remove(&yard.join(name));
            }
        }
    }
    let top = folder(yard);
    for name in ["harmless", ".git"] {
        fill(&stock);
        let path = c(name);
        let create = libc::O_CREAT as usize;
        let from = c(stock.join("file"));
        tell(&format!("by descriptor, openat, {name}"), openat(raw(&top), Path::new(name), libc::O_CREAT));
        remove(&yard.join(name));
        tell(
            &format!("by descriptor, mkdirat, {name}"),
            call(libc::SYS_mkdirat, &[raw(&top), at(&path), 0o700], false),
        );
        remove(&yard.join(name));
        tell(
            &format!("by descriptor, renameat2, {name}"),
            call(libc::SYS_renameat2, &[HERE, at(&from), raw(&top), at(&path), 0], false),
        );
        remove(&yard.join(name));
        const IN_ROOT: u64 = 0x10;
        tell(
            &format!("by descriptor as a root, openat2, {name}"),
            openat2(raw(&top), Path::new(&format!("/../{name}")), IN_ROOT),
        );
        remove(&yard.join(name));
        let by_fd = format!("/proc/self/fd/{}/{name}", top.as_raw_fd());
        tell(&format!("by /proc/self/fd, openat, {name}"), openat(HERE, Path::new(&by_fd), create as i32));
        remove(&yard.join(name));
        tell(&format!("with a slash behind, mkdir, {name}"), {
            call(libc::SYS_mkdirat, &[HERE, at(&c(format!("{name}/"))), 0o700], false)
        });
        remove(&yard.join(name));
    }
}

#[test]
fn no_call_and_no_spelling_makes_a_protected_name() {
    let yard = Yard::new();
    lay_out(&yard.0);
    let told = Told::of("creation", &yard, Some(yard.absent(&[".git"])));
    assert!(told.attempts.len() > 300, "only {} attempts", told.attempts.len());
    for (attempt, errno) in &told.attempts {
        let expected = if attempt.ends_with(".git") { EROFS } else { 0 };
        assert_eq!(*errno, expected, "{attempt}: {}", io::Error::from_raw_os_error(*errno));
    }
    assert!(!yard.path(".git").exists());
    assert!(!told.ended, "nothing was broken");
    let refused = |violation: &Violation| {
        matches!(violation, Violation::Refused { path: Some(path), rule, .. }
            if *path == yard.path(".git") && rule == "deny_write .git")
    };
    assert!(told.violations.iter().all(refused), "{:?}", told.violations);
}

#[test]
fn without_a_guard_the_same_calls_make_it() {
    let yard = Yard::new();
    lay_out(&yard.0);
    for (attempt, errno) in Told::of("creation", &yard, None).attempts {
        assert_eq!(errno, 0, "{attempt}: {}", io::Error::from_raw_os_error(errno));
    }
}

/// A protected path of which not even the folders exist.
pub(super) fn deep(yard: &Path, tell: impl Fn(&str, i32)) {
    let stock = yard.join("stock");
    std::fs::create_dir(&stock).unwrap();
    std::fs::create_dir_all(stock.join("tree/er/.git")).unwrap();
    std::fs::create_dir_all(stock.join("bare")).unwrap();
    tell("a prepared tree for the first folder", rename(&stock.join("tree"), &yard.join("deep"), 0));
    tell("a symlink for the first folder", {
        call(libc::SYS_symlinkat, &[at(&c("stock/tree")), HERE, at(&c("deep"))], false)
    });
    std::os::unix::fs::symlink("tree", stock.join("link")).unwrap();
    tell("a symlink moved to the first folder", rename(&stock.join("link"), &yard.join("deep"), 0));
    tell("a folder without the rest for the first", rename(&stock.join("bare"), &yard.join("deep"), 0));
    tell("the second folder", call(libc::SYS_mkdirat, &[HERE, at(&c("deep/er")), 0o700], false));
    for (making, make) in MAKINGS {
        fill(&stock);
        tell(&format!("deep, {making}"), make(Path::new("deep/er/.git"), &stock));
    }
    tell("exchanged for the first folder", {
        rename(&stock.join("tree"), &yard.join("deep"), libc::RENAME_EXCHANGE as usize)
    });
    tell("exchanged the other way round", {
        rename(&yard.join("deep"), &stock.join("tree"), libc::RENAME_EXCHANGE as usize)
    });
    tell("the prepared second folder over the empty one", {
        rename(&stock.join("tree/er"), &yard.join("deep/er"), 0)
    });
    tell("the first folder away", rename(&yard.join("deep"), &yard.join("elsewhere"), 0));
    tell("the same name where the folder went", {
        call(libc::SYS_mkdirat, &[HERE, at(&c("elsewhere/er/.git")), 0o700], false)
    });
    tell("and back with it", rename(&yard.join("elsewhere"), &yard.join("deep"), 0));
    tell("a first folder made anew", call(libc::SYS_mkdirat, &[HERE, at(&c("deep")), 0o700], false));
    tell("a second folder made anew", call(libc::SYS_mkdirat, &[HERE, at(&c("deep/er")), 0o700], false));
    tell("the name in it", call(libc::SYS_mkdirat, &[HERE, at(&c("deep/er/.git")), 0o700], false));
    tell(
        "the same name on another level",
        call(libc::SYS_mkdirat, &[HERE, at(&c("deep/.git")), 0o700], false),
    );
}

#[test]
fn a_path_whose_folders_are_missing_too_is_not_made_piece_by_piece_or_in_one() {
    let yard = Yard::new();
    let told = Told::of("deep", &yard, Some(yard.absent(&["deep/er/.git"])));
    let allowed = [
        "a folder without the rest for the first",
        "the second folder",
        "the first folder away",
        "the same name where the folder went",
        "a first folder made anew",
        "a second folder made anew",
        "the same name on another level",
    ];
    for (attempt, errno) in &told.attempts {
        let expected = if allowed.contains(&attempt.as_str()) { 0 } else { EROFS };
        assert_eq!(*errno, expected, "{attempt}: {}", io::Error::from_raw_os_error(*errno));
    }
    assert!(!told.ended);
    assert!(yard.path("deep/er").is_dir() && !yard.path("deep/er/.git").exists());
}

/// Folders on the way that exist can be moved; what then stands in their place is protected.
pub(super) fn existing(yard: &Path, tell: impl Fn(&str, i32)) {
    let mkdir = |path: &str| call(libc::SYS_mkdirat, &[HERE, at(&c(path)), 0o700], false);
    tell("in the folder", mkdir("sub/.git"));
    tell("the folder away", rename(&yard.join("sub"), &yard.join("gone"), 0));
    tell("where it went", mkdir("gone/.git"));
    tell("back with the name", rename(&yard.join("gone"), &yard.join("sub"), 0));
    tell("another folder in its place", mkdir("sub"));
    tell("in the other folder", mkdir("sub/.git"));
}

#[test]
fn a_folder_made_anew_in_the_place_of_one_that_was_moved_is_protected_in_its_stead() {
    let yard = Yard::new();
    std::fs::create_dir(yard.path("sub")).unwrap();
    let told = Told::of("existing", &yard, Some(yard.absent(&["sub/.git"])));
    let errors: Vec<i32> = told.attempts.iter().map(|(_, errno)| *errno).collect();
    assert_eq!(errors, [EROFS, 0, 0, EROFS, 0, EROFS], "{:?}", told.attempts);
    assert!(!yard.path("sub/.git").exists() && !told.ended);
}

/// `open` with O_CREAT makes what a dangling symlink points to.
pub(super) fn dangling(yard: &Path, tell: impl Fn(&str, i32)) {
    use std::os::unix::fs::symlink;
    std::fs::create_dir(yard.join("stock")).unwrap();
    symlink(".git", yard.join("near")).unwrap();
    symlink("near", yard.join("far")).unwrap();
    symlink(yard.join(".git"), yard.join("absolute")).unwrap();
    symlink("../stock/../.git", yard.join("stock/from-below")).unwrap();
    symlink("new", yard.join("fine")).unwrap();
    for path in ["near", "far", "absolute", "stock/from-below", "./near", "fine"] {
        tell(path, openat(HERE, Path::new(path), libc::O_CREAT | libc::O_WRONLY));
    }
    let top = folder(yard);
    tell("near, by descriptor", openat(raw(&top), Path::new("near"), libc::O_CREAT));
    tell("near, by openat2", openat2(HERE, Path::new("near"), 0));
    const IN_ROOT: u64 = 0x10;
    symlink("/.git", yard.join("top")).unwrap();
    tell("top, as a root", openat2(raw(&top), Path::new("top"), IN_ROOT));
    tell("mkdir, with a slash behind", call(libc::SYS_mkdirat, &[HERE, at(&c("near/")), 0o700], false));
}

#[test]
fn a_dangling_symlink_does_not_lead_to_a_protected_name() {
    let yard = Yard::new();
    let told = Told::of("dangling", &yard, Some(yard.absent(&[".git"])));
    assert_eq!(told.errno("fine"), 0);
    assert!(yard.path("new").exists());
    for (attempt, errno) in told.attempts.iter().filter(|(attempt, _)| attempt != "fine") {
        // The kernel never follows the last component of a mkdir.
        let expected = if attempt.starts_with("mkdir") { libc::EEXIST } else { EROFS };
        assert_eq!(*errno, expected, "{attempt}: {}", io::Error::from_raw_os_error(*errno));
    }
    assert!(!yard.path(".git").exists() && !told.ended);
}

/// A path in memory that the kernel can read and no other process.
pub(super) fn hidden_memory(_: &Path, tell: impl Fn(&str, i32)) {
    // SAFETY: plain calls; the mapping is one page long and written within it.
    unsafe {
        let fd = libc::syscall(libc::SYS_memfd_secret, 0);
        if fd < 0 {
            return tell("skipped", io::Error::last_os_error().raw_os_error().unwrap_or(-1));
        }
        let fd = OwnedFd::from_raw_fd(fd as i32);
        libc::ftruncate(fd.as_raw_fd(), 4096);
        let (read, write) = (libc::PROT_READ, libc::PROT_WRITE);
        let page = libc::mmap(std::ptr::null_mut(), 4096, read | write, libc::MAP_SHARED, fd.as_raw_fd(), 0);
        assert_ne!(page, libc::MAP_FAILED);
        page.cast::<[u8; 5]>().write(*b".git\0");
        tell("secret", call(libc::SYS_mkdirat, &[HERE, page as usize, 0o700], false));
    }
    tell("no memory at all", call(libc::SYS_mkdirat, &[HERE, 8, 0o700], false));
}

#[test]
fn a_path_in_memory_that_only_the_kernel_can_read_is_refused() {
    let yard = Yard::new();
    let told = Told::of("hidden memory", &yard, Some(yard.absent(&[".git"])));
    if told.attempts[0].0 == "skipped" {
        eprintln!("SKIPPED: memfd_secret: {}", io::Error::from_raw_os_error(told.attempts[0].1));
        return;
    }
    assert_eq!(told.errno("secret"), libc::EFAULT);
    assert_eq!(told.errno("no memory at all"), libc::EFAULT);
    assert!(!yard.path(".git").exists());
}

#[test]
fn other_names_in_the_same_folder_and_the_same_name_elsewhere_are_nobodys_business() {
    let yard = Yard::new();
    lay_out(&yard.0);
    let told = Told::of("creation", &yard, Some(yard.absent(&["stock/.git", ".gi", ".gitt"])));
    for (attempt, errno) in &told.attempts {
        assert_eq!(*errno, 0, "{attempt}: {}", io::Error::from_raw_os_error(*errno));
    }
    assert_eq!(told.violations, []);
}
