//! What every sandbox has of its own: /tmp, /proc, /dev and /run.

use std::path::Path;

use kennel_tests::{Scratch, kennel, program, ran, run_sh, skipped};

use crate::filesystem::{flags, inside};

const NONE: [&str; 0] = [];

/// A name below the host's /tmp, removed with the value.
struct HostTmp(std::path::PathBuf);

impl HostTmp {
    fn new(name: &str) -> HostTmp {
        let path = Path::new("/tmp").join(format!("kennel-test-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        HostTmp(path)
    }
}

impl Drop for HostTmp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn tmp_is_fresh_private_and_gone_afterwards() {
    let host = HostTmp::new("private");
    let ran = inside(&[], "ls -A /tmp; stat -c %a /tmp; echo x > /tmp/made; cat /tmp/made", &[&host.0]).ok();
    assert_eq!(ran.stdout, "1777\nx\n");
    assert!(!Path::new("/tmp/made").exists());
    inside(&[], "test ! -e /tmp/made", &[]).ok();
}

#[test]
fn tmpdir_exists_and_temporary_files_can_be_made() {
    let script = "test -d \"$TMPDIR\" && f=$(mktemp) && echo x > \"$f\" && d=$(mktemp -d) && > \"$d/y\" && echo \"$TMPDIR\"";
    let mut command = crate::filesystem::command(&[], script, &[]);
    // The caller's may be a folder that nothing may be written to inside.
    let scratch = Scratch::new();
    let ran = kennel_tests::ran(command.env("TMPDIR", scratch.path())).ok();
    assert_eq!(ran.stdout, "/tmp\n");
    assert_eq!(scratch.listing(), [""; 0]);
    let set = inside(&["--env".into(), "TMPDIR=/dev/shm".into()], "f=$(mktemp) && echo $f", &[]).ok();
    assert!(set.stdout.starts_with("/dev/shm/"), "{}", set.stdout);
}

#[test]
fn the_hosts_tmp_shows_on_request_under_the_same_rules_as_any_folder() {
    let host = HostTmp::new("host");
    std::fs::write(host.0.join("file"), "x").unwrap();
    let open = ["--host-tmp".into()];
    inside(&open, "cat \"$1/file\"", &[&host.0]).ok();
    inside(&open, "> \"$1/new\"", &[&host.0]).expect_code(2);
    let rules = [open.to_vec(), flags([("--allow-write", &host.0)])].concat();
    inside(&rules, "> \"$1/new\"", &[&host.0]).ok();
    assert!(host.0.join("new").exists());
    let denied = [open.to_vec(), flags([("--deny-read", host.0.join("file"))])].concat();
    inside(&denied, "cat \"$1/file\"", &[&host.0]).expect_code(1);
}

#[test]
fn a_folder_below_the_hosts_tmp_shows_where_it_is_asked_for_or_where_the_command_starts() {
    let (asked, other) = (HostTmp::new("asked"), HostTmp::new("other"));
    std::fs::write(asked.0.join("file"), "x").unwrap();
    let rules = flags([("--allow-write", &asked.0)]);
    inside(&rules, "echo y > \"$1/file\" && test ! -e \"$2\" && > /tmp/own", &[&asked.0, &other.0]).ok();
    assert_eq!(std::fs::read_to_string(asked.0.join("file")).unwrap(), "y\n");
    assert!(!Path::new("/tmp/own").exists());
    let mut here = crate::filesystem::command(&[], "cat file && test ! -e \"$1\" && ! (> new)", &[&other.0]);
    kennel_tests::ran(here.current_dir(&asked.0)).ok();
}

#[test]
fn tmp_is_bounded_by_its_size() {
    let script = "head -c 4000000 /dev/zero 2>&1 > /tmp/file; test $(stat -c %s /tmp/file) -le 1048576";
    let ran = run_sh(["--tmp-size", "1M"], script).ok();
    assert!(ran.stdout.contains("No space left on device"), "{}", ran.stdout);
    // The size is for /tmp and /dev/shm together.
    let both = run_sh(
        ["--tmp-size", "1M"],
        "head -c 900000 /dev/zero > /tmp/a && head -c 900000 /dev/zero > /dev/shm/b",
    );
    assert_ne!(both.code, 0, "/tmp and /dev/shm held 1.8 MB of 1 MB");
}

#[test]
#[kennel_claim::claim("processes/outside-is-invisible")]
fn proc_shows_only_what_is_inside() {
    let ran = run_sh(NONE, "for p in /proc/[0-9]*; do echo ${p#/proc/}; done").ok();
    let pids: Vec<u32> = ran.stdout.lines().map(|line| line.parse().unwrap()).collect();
    assert!(pids.contains(&1) && pids.len() <= 3 && pids.iter().all(|pid| *pid < 10), "{pids:?}");
}

#[test]
#[kennel_claim::claim("processes/proc-is-written-for-oneself")]
fn the_kernels_part_of_proc_is_read_only_even_for_root() {
    for rules in [vec![], vec!["--user", "root"], vec!["--allow-write", "/"]] {
        for file in [
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/vm/drop_caches",
            "/proc/sys/kernel/ns_last_pid",
            "/proc/sysrq-trigger",
            "/proc/pressure/memory",
            "/proc/irq/default_smp_affinity",
            "/proc/1/comm",
        ] {
            let ran = run_sh(rules.clone(), &format!("test ! -e {file} || ! (echo x > {file}) 2>/dev/null"));
            assert_eq!(ran.code, 0, "{rules:?}: {file} could be opened for writing");
        }
    }
}

/// Names another thread by the C library, which writes to that thread's file; then by the file of a child.
const NAMES_A_THREAD: &str = "
import ctypes, threading
go, told = threading.Event(), []
def work():
    told.append(threading.get_native_id())
    go.wait()
thread = threading.Thread(target=work)
thread.start()
while not told: pass
c = ctypes.CDLL(None, use_errno=True)
error = c.pthread_setname_np(ctypes.c_ulong(thread.ident), b'painter')
name = open('/proc/self/task/%d/comm' % told[0]).read().strip()
go.set()
print(error, name)
";

#[test]
#[kennel_claim::claim("processes/proc-is-written-for-oneself")]
fn a_program_names_its_threads_and_says_what_may_go_first_when_memory_runs_out() {
    // What stands before it in PATH may be a script in a home.
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        return skipped("python3 is not installed");
    }
    // As CUDA does when it starts, and browsers.
    let ways: [&[&str]; 5] = [
        &[],
        &["--user", "root"],
        &["--allow-domain", "example.com"],
        &["--seccomp", "permissive"],
        &["--seccomp", "strict"],
    ];
    for flags in ways {
        let mut command = kennel(["run"]);
        command.args(flags).arg("--").arg(python).args(["-c", NAMES_A_THREAD]);
        assert_eq!(ran(&mut command).ok().stdout, "0 painter\n", "{flags:?}");
        let script = "echo 500 > /proc/self/oom_score_adj && cat /proc/self/oom_score_adj;
                      echo 0x3 > /proc/self/coredump_filter && echo filtered";
        assert_eq!(run_sh(flags, script).ok().stdout, "500\nfiltered\n", "{flags:?}");
    }
}

#[test]
fn dev_is_minimal_and_works() {
    let ran = run_sh(NONE, "ls /dev").ok();
    let expected = [
        "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom",
        "zero",
    ];
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), expected);
    let script = "echo x > /dev/null && test $(head -c 8 /dev/zero | wc -c) = 8 && test $(head -c 8 /dev/urandom | wc -c) = 8 &&
                  test $(head -c 8 /dev/random | wc -c) = 8 && ! (echo x > /dev/full) 2>/dev/null && echo out > /dev/stdout &&
                  echo err > /dev/stderr && test -d /dev/fd && echo in | cat /dev/stdin";
    let ran = run_sh(NONE, script).ok();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\nin\n", "err\n"));
}

#[test]
fn dev_itself_cannot_be_changed() {
    for script in [
        "> /dev/new",
        "rm /dev/null",
        "mknod /dev/mem c 1 1",
        "mknod /tmp/mem c 1 1",
        "mv /dev/null /dev/x",
        "mkdir /dev/d",
    ] {
        let ran = run_sh(["--user", "root"], script);
        assert!(ran.code != 0 && ran.code != 125, "{script}: {ran:?}");
    }
}

#[test]
fn a_terminal_can_be_opened_inside() {
    let Some(python) = crate::filesystem::python() else { return };
    let program = "import os, pty
master, slave = pty.openpty()
print(os.ttyname(slave), os.isatty(slave))
os.write(slave, b'x\\n')
print(os.read(master, 10))
pid, fd = pty.fork()
if pid == 0:
    os.execvp('tty', ['tty'])
print(os.read(fd, 100).decode().strip())";
    let mut command = kennel(["run", "--"]);
    let ran = ran(command.arg(python).args(["-c", program])).ok();
    assert_eq!(ran.stdout, "/dev/pts/0 True\nb'x\\r\\n'\n/dev/pts/1\n");
}

#[test]
fn shared_memory_works_and_is_the_sandboxes_own() {
    let name = format!("kennel-test-{}", std::process::id());
    let host = Path::new("/dev/shm").join(&name);
    std::fs::write(&host, "x").expect("the host has /dev/shm");
    let ran = inside(&[], "test ! -e \"$1\" && echo y > \"$1\" && cat \"$1\"", &[&host]);
    let kept = std::fs::read_to_string(&host).unwrap();
    std::fs::remove_file(&host).unwrap();
    assert_eq!((ran.ok().stdout.as_str(), kept.as_str()), ("y\n", "x"));
    let Some(python) = crate::filesystem::python() else { return };
    let program = "from multiprocessing import Lock, Value
from multiprocessing.shared_memory import SharedMemory
shm = SharedMemory(create=True, size=4096)
shm.buf[0] = 7
again = SharedMemory(name=shm.name)
print(again.buf[0], Value('i', 5).value, Lock().acquire())
again.close(); shm.close(); shm.unlink()";
    let ran = kennel_tests::ran(kennel(["run", "--"]).arg(python).args(["-c", program])).ok();
    assert_eq!(ran.stdout, "7 5 True\n");
}

#[test]
fn run_is_hidden_unless_asked_for() {
    let ran = run_sh(NONE, "ls -A /run; (> /run/new) 2>&1").expect_code(2);
    assert!(ran.stdout.contains("Read-only file system"), "{}", ran.stdout);
    assert_eq!(ran.stdout.lines().count(), 1, "/run shows something: {}", ran.stdout);
    let host: Vec<String> = std::fs::read_dir("/run")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().display().to_string())
        .collect();
    if host.is_empty() {
        return skipped("this host's /run is empty, so that showing it shows nothing");
    }
    let shown = run_sh(["--host-run"], "ls -A /run").ok();
    for name in host {
        assert!(shown.stdout.lines().any(|line| line == name), "{name} is missing: {}", shown.stdout);
    }
    run_sh(["--host-run"], "> /run/new").expect_code(2);
}

#[test]
fn what_is_denied_below_a_zone_is_no_error_and_holds() {
    for path in ["/proc/kcore", "/dev/null", "/dev/absent", "/run/absent", "/tmp/absent", "/proc/sys"] {
        run_sh(["--deny-read", path], "true").ok();
    }
    let hidden = run_sh(["--deny-read", "/dev/urandom"], "head -c 1 /dev/urandom");
    assert_ne!(hidden.code, 0);
    let hidden = run_sh(["--deny-read", "/proc/sys"], "cat /proc/sys/kernel/ostype");
    assert_ne!(hidden.code, 0, "deny_read of /proc/sys does not hold in the fresh /proc");
}

#[test]
fn a_shell_script_finds_its_descriptors() {
    if program("bash").is_none() {
        return skipped("bash is not installed");
    }
    let mut command =
        kennel(["run", "--", "bash", "-c", "cat <(echo a) <<< b; diff <(echo a) <(echo a) && echo same"]);
    let ran = ran(&mut command).ok();
    assert_eq!(ran.stdout, "a\nsame\n");
}
