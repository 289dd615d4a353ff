//! Files with power over the host: set-uid bits on what a sandbox can write, leases, locks and flags on what it can read.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use kennel_tests::probe::{Arg, Script, open_how};
use kennel_tests::{Scratch, args, program, ran, run_sh, skipped};

const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().map_or(0, |about| about.permissions().mode() & 0o7777)
}

/// Every call that gives a file its mode, each on a file of its own.
fn set_modes(folder: &Path) -> Script {
    let at = libc::AT_FDCWD;
    let file = |name: &str| folder.join(name);
    let tmpfile = libc::O_TMPFILE | libc::O_WRONLY;
    let create = libc::O_CREAT | libc::O_WRONLY;
    let mut how = open_how(create, 0);
    if let Arg::Bytes(bytes) = &mut how {
        bytes[8..16].copy_from_slice(&0o4755u64.to_ne_bytes());
    }
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(unused_mut, reason = "other processors have no older calls")
    )]
    let mut script = Script::new()
        .open(file("a"), libc::O_RDONLY)
        .call(libc::SYS_fchmod, args![Arg::Answer(0), 0o4755])
        .call(libc::SYS_fchmodat, args![at, &file("b"), 0o6711, 0])
        .call(crate::escape::FCHMODAT2, args![at, &file("c"), 0o2755, 0])
        .call(crate::escape::FCHMODAT2, args![Arg::Answer(0), "", 0o4711, libc::AT_EMPTY_PATH])
        .call(libc::SYS_openat, args![at, &file("made"), create, 0o4755])
        .call(libc::SYS_openat, args![at, folder, tmpfile, 0o4755])
        .call(libc::SYS_linkat, args![Arg::Answer(6), "", at, &file("linked"), libc::AT_EMPTY_PATH])
        .call(libc::SYS_mknodat, args![at, &file("node"), 0o104_755, 0])
        .call(libc::SYS_openat2, args![at, &file("second"), how, 24]);
    #[cfg(target_arch = "x86_64")]
    {
        script = script
            .call(libc::SYS_chmod, args![&file("d"), 0o4755])
            .call(libc::SYS_creat, args![&file("old"), 0o4755])
            .call(libc::SYS_open, args![&file("older"), create, 0o6755])
            .call(libc::SYS_mknod, args![&file("oldest"), 0o102_755, 0]);
    }
    // High bits that the kernel does not look at, and a link of /proc to the file.
    script
        .call(libc::SYS_fchmodat, args![at, &file("e"), 0x7fff_0000_0000i64 | 0o4755, 0])
        .open(file("f"), libc::O_RDONLY)
        .call(libc::SYS_fchmodat, args![at, "/proc/self/fd/4", 0o4755, 0])
}

fn yard() -> Scratch {
    let yard = Scratch::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        yard.write(name, "");
    }
    yard
}

fn special(yard: &Scratch) -> Vec<String> {
    let names = yard.listing();
    names.into_iter().filter(|name| mode(Path::new(name)) & 0o6000 != 0).collect()
}

#[test]
#[kennel_claim::claim("power/no-set-uid-bits")]
fn no_call_gives_a_file_of_the_hosts_a_set_uid_or_set_gid_bit() {
    let outside = yard();
    set_modes(outside.path()).outside();
    // Newer processors lack the oldest calls.
    let most = if cfg!(target_arch = "x86_64") { 10 } else { 8 };
    assert!(special(&outside).len() >= most, "outside they do: {:?}", special(&outside));
    for more in
        [&[][..], &["--seccomp", "permissive"], &["--deny-write", "/nonexistent/x", "--deny-read", "f"]]
    {
        let inside = yard();
        let work = inside.path().display().to_string();
        let flags = [&["--allow-write", &work, "--workdir", &work], more].concat();
        let told = set_modes(inside.path()).inside(&flags);
        assert!(special(&inside).is_empty(), "{more:?}: {:?}\n{:?}", special(&inside), told);
        // What is only a mode is set all the same.
        assert_eq!((mode(&inside.join("b")), mode(&inside.join("c"))), (0o711, 0o755), "{told:?}");
    }
}

#[test]
fn folders_keep_the_bit_that_says_whose_group_new_files_have() {
    let yard = Scratch::new();
    yard.dir("shared");
    let work = yard.path().display().to_string();
    run_sh(["--allow-write", &work], &format!("cd {work} && chmod g+s shared && cd shared && chmod 2770 ."))
        .ok();
    assert_eq!(mode(&yard.join("shared")), 0o2770);
}

#[test]
#[kennel_claim::claim("power/no-set-uid-bits")]
fn archives_are_unpacked_and_programs_installed_without_the_bits() {
    let yard = Scratch::new();
    yard.write("src/plain", "");
    std::fs::copy("/bin/true", yard.join("src/power")).unwrap();
    std::fs::set_permissions(yard.join("src/power"), std::fs::Permissions::from_mode(0o4755)).unwrap();
    let archive = ran(Command::new("tar").args(["cf", "a.tar", "src"]).current_dir(yard.path()));
    archive.ok();
    yard.dir("out");
    let (work, top) = (yard.join("out").display().to_string(), yard.path().display().to_string());
    let script = format!(
        "cd {work} && tar xpf {top}/a.tar && install -m 4755 {top}/src/power installed && cp -p {top}/src/power copied"
    );
    run_sh(["--allow-write", &work], &script).ok();
    for name in ["out/src/power", "out/installed", "out/copied"] {
        assert_eq!(mode(&yard.join(name)), 0o755, "{name}");
    }
    assert_eq!(mode(&yard.join("out/src/plain")), mode(&yard.join("src/plain")));
}

#[test]
#[kennel_claim::claim("power/no-set-uid-bits")]
fn a_mode_on_a_read_only_mount_or_on_anothers_file_is_refused_as_ever() {
    let yard = Scratch::new();
    let kept = yard.write("kept", "");
    yard.dir("work");
    let work = yard.join("work").display().to_string();
    let at = libc::AT_FDCWD;
    let told = Script::new()
        .call(libc::SYS_fchmodat, args![at, &kept, 0o4755, 0])
        .call(libc::SYS_fchmodat, args![at, "/bin/true", 0o4755, 0])
        .call(libc::SYS_fchmodat, args![at, "/nonexistent", 0o4755, 0])
        .call(libc::SYS_fchmod, args![99, 0o4755])
        .inside(&["--allow-write", &work]);
    told.refused_all([0, 1], &[libc::EROFS, libc::EPERM]);
    told.refused(2, &[libc::ENOENT]).refused(3, &[libc::EBADF]);
    assert_eq!(mode(&kept) & 0o6000, 0);
}

#[test]
#[kennel_claim::claim("power/no-blocking-of-host-programs")]
fn a_lease_cannot_be_taken() {
    let yard = Scratch::new();
    let file = yard.write("file", "");
    let lease = |script: Script| {
        script
            .open(&file, libc::O_RDONLY)
            .call(libc::SYS_fcntl, args![Arg::Answer(0), libc::F_SETLEASE, libc::F_RDLCK])
    };
    lease(Script::new()).outside().ok(1);
    lease(Script::new()).inside(&[]).refused(1, &[libc::EPERM]);
}

/// A program inside takes a lock and holds it while the host tries to have one.
#[test]
#[kennel_claim::claim("power/no-blocking-of-host-programs")]
fn a_lock_on_what_can_only_be_read_does_not_hold_up_the_host() {
    let (Some(flock), Some(python)) = (program("flock"), program("python3")) else {
        return skipped("flock or python3 is not installed");
    };
    let yard = Scratch::new();
    let (file, work) = (yard.write("file", ""), yard.dir("work"));
    let own = yard.write("work/own", "");
    let take = "import fcntl,os,sys\n\
                a=os.open(sys.argv[1],os.O_RDONLY); fcntl.flock(a,fcntl.LOCK_EX)\n\
                b=os.open(sys.argv[1],os.O_RDONLY); fcntl.lockf(b,fcntl.LOCK_SH)\n\
                print('held',flush=True); sys.stdin.read()";
    let held_up = |mut command: Command, file: &Path| {
        use std::io::Read;
        use std::process::Stdio;
        command.args(["-c", take]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut word = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut word).expect("the lock was granted");
        let whole = ran(Command::new(&flock).args(["-n", "-x"]).arg(file).arg("true"));
        let write =
            "import fcntl,os,sys; fcntl.lockf(os.open(sys.argv[1],os.O_RDWR),fcntl.LOCK_EX|fcntl.LOCK_NB)";
        let part = ran(Command::new(&python).args(["-c", write]).arg(file));
        drop(child.stdin.take());
        child.wait().unwrap();
        (whole.code != 0, part.code != 0)
    };
    assert_eq!(held_up(Command::new(&python), &file), (true, true), "outside it does");
    let inside = || {
        let mut command = kennel_tests::kennel(["run", "--allow-write"]);
        command.arg(&work).arg("--").arg(&python);
        command
    };
    assert_eq!(held_up(inside(), &file), (false, false));
    assert_eq!(held_up(inside(), &own), (true, true), "what can be written is locked as ever");
}

#[test]
#[kennel_claim::claim("power/no-blocking-of-host-programs")]
fn flags_of_inodes_cannot_be_set() {
    let yard = Scratch::new();
    let file = yard.write("file", "");
    let (read, set) = (i64::from(FS_IOC_GETFLAGS), i64::from(FS_IOC_SETFLAGS));
    let flags = |script: Script| {
        script
            .open(&file, libc::O_RDONLY)
            .call(libc::SYS_ioctl, args![Arg::Answer(0), read, Arg::Zeros(8)])
            .call(libc::SYS_ioctl, args![Arg::Answer(0), set, Arg::Buffer(1)])
    };
    let outside = flags(Script::new()).outside();
    if outside.errno(1) != 0 {
        return skipped("this file system has no such flags");
    }
    outside.ok(2);
    let work = yard.path().display().to_string();
    flags(Script::new()).inside(&["--allow-write", &work]).ok(1).refused(2, &[libc::EOPNOTSUPP]);
}

#[test]
#[kennel_claim::claim("power/no-set-uid-bits")]
fn file_capabilities_cannot_be_given() {
    let yard = Scratch::new();
    let file = yard.write("file", "");
    let work = yard.path().display().to_string();
    // VFS_CAP_REVISION_2 with CAP_NET_RAW.
    let value =
        [0x0200_0001u32, 1 << 13, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let told = Script::new()
        .call(libc::SYS_setxattr, args![&file, "security.capability", value, 20, 0])
        .inside(&["--allow-write", &work]);
    told.refused(0, &[libc::EPERM, libc::EACCES]);
}

#[test]
#[kennel_claim::claim("power/share-of-file-watches")]
fn one_sandbox_does_not_use_up_what_watches_files() {
    let take =
        |script: Script| (0..200).fold(script, |script, _| script.call(libc::SYS_inotify_init1, args![0]));
    let told = take(Script::new()).inside(&[]);
    let had = (0..200).filter(|index| told.errno(*index) == 0).count();
    assert_eq!(had, 64);
    told.refused(199, &[libc::EMFILE]);
}

#[test]
#[kennel_claim::claim("power/no-cores")]
fn nothing_inside_leaves_a_core_even_where_a_program_of_the_hosts_takes_it() {
    let limits = run_sh([""; 0], "grep 'core file' /proc/self/limits").ok().stdout;
    // To a core pattern that is a pipe a limit of 0 means nothing, and 1 means none.
    assert_eq!(
        limits.split_whitespace().collect::<Vec<_>>(),
        ["Max", "core", "file", "size", "1", "1", "bytes"]
    );
    let yard = Scratch::new();
    let work = yard.path().display().to_string();
    run_sh(["--allow-write", &work, "--workdir", &work], "ulimit -c unlimited; sh -c 'kill -SEGV $$'; :")
        .ok();
    assert!(yard.listing().is_empty(), "{:?}", yard.listing());
}

#[test]
fn no_device_is_made_not_even_the_one_that_stands_for_nothing() {
    const WHITEOUT: u32 = 4;
    let yard = Scratch::new();
    let device = yard.join("device");
    let (file, work) = (yard.write("file", "x"), yard.path().display().to_string());
    let (moved, fifo) = (yard.join("moved"), yard.join("fifo"));
    let here = libc::AT_FDCWD;
    let script = || {
        Script::new()
            .call(libc::SYS_mknodat, args![here, &device, libc::S_IFCHR | 0o600, 0])
            .call(libc::SYS_mknodat, args![here, &device, libc::S_IFBLK | 0o600, 0])
            .call(libc::SYS_renameat2, args![here, &file, here, &moved, WHITEOUT])
            .call(libc::SYS_renameat2, args![here, &file, here, &moved, WHITEOUT | libc::RENAME_NOREPLACE])
            .call(libc::SYS_mknodat, args![here, &fifo, libc::S_IFIFO | 0o600, 0])
            .call(libc::SYS_renameat2, args![here, &file, here, &moved, 0])
    };
    for flags in [["--allow-write", &work].as_slice(), &["--allow-write", &work, "--seccomp", "permissive"]] {
        let told = script().inside(flags);
        told.refused_all([0, 1], &[libc::EPERM]).refused_all([2, 3], &[libc::EINVAL]).ok_all([4, 5]);
        assert_eq!(yard.listing().len(), 2, "{:?}", yard.listing());
        std::fs::remove_file(&fifo).expect("it was made");
        std::fs::rename(&moved, &file).expect("it was moved");
    }
    // Outside both are made.
    let outside = script().outside();
    if outside.errno(0) != 0 || outside.errno(2) != 0 {
        return skipped("this kernel or file system makes no such device");
    }
    outside.ok_all([0, 2]);
}

/// File capabilities that a root of a nested user namespace gives hold in user namespaces with that root alone.
#[test]
fn capabilities_that_a_nested_root_gives_to_a_file_are_none_on_the_host() {
    if kennel_tests::am_root() || program("python3").is_none() || program("unshare").is_none() {
        return skipped("this needs an ordinary user, python3 and unshare");
    }
    let yard = Scratch::new();
    let work = yard.path().display().to_string();
    std::fs::copy("/bin/cat", yard.join("cat")).expect("a copy");
    let value = "struct.pack('<5I', 0x02000001, 1 << 13, 0, 0, 0)";
    let give = format!(
        "unshare -Ur python3 -c \"import os,struct; os.setxattr('cat', 'security.capability', {value})\" && echo given"
    );
    let ran = run_sh(["--nested", "--allow-write", &work, "-C", &work], &give);
    if ran.stdout != "given\n" {
        return skipped(&format!("they cannot be given here: {}", ran.stderr));
    }
    let told = kennel_tests::ran(Command::new(yard.join("cat")).arg("/proc/self/status")).ok().stdout;
    for set in ["CapPrm", "CapEff"] {
        assert!(told.contains(&format!("{set}:\t0000000000000000")), "{told}");
    }
}
