//! What commands of one session can and cannot do to each other, to their leaders and to PID 1.

use std::ffi::OsString;
use std::io::Read;
use std::time::Duration;

use kennel::{Child, Ended, Sandbox, SeccompProfile, Session, Stdio};
use kennel_tests::leftovers::{processes_left_with, processes_with, unique_sleep};
use kennel_tests::{Scratch, role};

use crate::sessions::session;

fn sh(session: &Session, script: &str) -> String {
    let result = session.command("sh").args(["-c", script]).output().unwrap();
    result.stdout + &result.stderr
}

/// A command that has a secret in its environment, its memory and a descriptor, and its pid inside.
fn victim(session: &Session) -> (Child, String) {
    let (reader, _writer) = std::io::pipe().unwrap();
    let mut child = session
        .command("sh")
        .args(["-c", "echo $$; exec sleep 60"])
        .env("SECRET", "for one command")
        .stdin(reader)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = [0; 16];
    let length = child.stdout.as_mut().unwrap().read(&mut pid).unwrap();
    (child, String::from_utf8_lossy(&pid[..length]).trim().to_owned())
}

fn error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// A child that has come to its program.
fn running() -> std::process::Child {
    use std::io::Write;
    let mut child = std::process::Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

/// The role `reach`: tries every way into a process, and tells what came of it; `own` stands for a child of its own.
pub fn reach(words: &[OsString]) -> i32 {
    for word in words {
        let own = word == "own";
        let mut child = own.then(running);
        let pid =
            child.as_ref().map_or_else(|| word.to_string_lossy().parse().unwrap(), std::process::Child::id);
        let told = |what: &str, result: Result<(), i32>| match result {
            Ok(()) => println!("{word} {what}: done", word = word.display()),
            Err(errno) => println!("{word} {what}: {errno}", word = word.display()),
        };
        let io = |result: std::io::Result<()>| result.map_err(|error| error.raw_os_error().unwrap_or(0));
        for name in ["fd", "map_files"] {
            // Which numbers there are is told to processes of the same user; not what they lead to.
            let entries = std::fs::read_dir(format!("/proc/{pid}/{name}")).into_iter().flatten().flatten();
            let seen = entries.filter(|entry| std::fs::read_link(entry.path()).is_ok()).count();
            told(name, if seen > 0 { Ok(()) } else { Err(libc::EACCES) });
        }
        for name in [
            "environ", "mem", "maps", "auxv", "stack", "syscall", "io", "fd/0", "fd/1", "cwd", "root", "exe",
            "ns/mnt",
        ] {
            let path = format!("/proc/{pid}/{name}");
            let opened = if ["cwd", "root", "exe", "ns/mnt"].contains(&name) {
                std::fs::metadata(&path).map(drop)
            } else {
                // Read too: some files are opened by anybody, and hold nothing for most.
                std::fs::File::open(&path).and_then(|mut file| match name {
                    "mem" | "fd/0" | "fd/1" => Ok(()),
                    _ => match file.read(&mut [0; 64])? {
                        0 => Err(std::io::Error::from_raw_os_error(libc::ENODATA)),
                        _ => Ok(()),
                    },
                })
            };
            told(name, io(opened));
        }
        let pid = pid.cast_signed();
        // SAFETY: plain calls, on numbers and on memory of this function.
        unsafe {
            let pidfd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            assert!(pidfd >= 0, "every process can be referred to");
            let taken = libc::syscall(libc::SYS_pidfd_getfd, pidfd, 0, 0);
            told("pidfd_getfd", if taken >= 0 { Ok(()) } else { Err(error()) });
            let mut byte = 0u8;
            let own = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
            // Where nothing is mapped: the permission is looked at first.
            let theirs = libc::iovec { iov_base: std::ptr::dangling_mut::<u8>().cast(), iov_len: 1 };
            let read = libc::process_vm_readv(pid, &raw const own, 1, &raw const theirs, 1, 0);
            let fault = read < 0 && error() == libc::EFAULT;
            told("process_vm_readv", if read >= 0 || fault { Ok(()) } else { Err(error()) });
            let traced = libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0);
            told("ptrace", if traced == 0 { Ok(()) } else { Err(error()) });
        }
        if let Some(child) = &mut child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
    0
}

fn reached(session: &Session, words: &[&str]) -> Vec<(String, String, i32)> {
    let mut command = session.command(std::env::current_exe().unwrap());
    let result = command.args(words).env(role::VARIABLE, "reach").output().unwrap();
    assert!(result.success(), "{result:?}");
    let lines = result.stdout.lines().map(|line| {
        let (what, came) = line.split_once(": ").unwrap();
        let (who, what) = what.split_once(' ').unwrap();
        (who.to_owned(), what.to_owned(), came.parse().unwrap_or(0))
    });
    lines.collect()
}

#[test]
#[kennel_claim::claim("sessions/commands-are-apart")]
fn no_command_reaches_into_another_nor_into_a_leader_nor_into_pid_1() {
    for profile in [SeccompProfile::Default, SeccompProfile::None] {
        let session = session(crate::sessions::builder().seccomp_profile(profile));
        let (child, victim) = victim(&session);
        let leader = sh(&session, &format!("ps -o ppid= -p {victim}")).trim().to_owned();
        assert_ne!(leader, "1");
        let reached = reached(&session, &["own", &victim, &leader, "1"]);
        let of = |who: &str| reached.iter().filter(|(of, ..)| of == who).collect::<Vec<_>>();
        // The same ways lead into a child of one's own, so it is the others that are closed.
        for what in ["fd", "environ", "mem", "fd/0", "pidfd_getfd", "process_vm_readv", "ptrace", "root"] {
            let open = of("own").iter().any(|(_, own, errno)| own == what && *errno == 0);
            assert!(open, "{what} of its own is closed: {reached:?}");
        }
        // Commands are apart by domains of Landlock; leaders and PID 1 are not dumpable, which holds without it.
        let mut others = vec![leader.as_str(), "1"];
        if kennel_tests::has_landlock() {
            others.push(&victim);
        } else {
            let error = kennel::Sandbox::builder().build().unwrap().session().unwrap_err().to_string();
            assert!(error.contains("Landlock") && error.contains("best_effort"), "{error}");
            kennel_tests::skipped("without Landlock commands of a session are not closed to each other");
        }
        for who in others {
            assert!(of(who).len() > 15);
            for (_, what, errno) in of(who) {
                let none = what.starts_with("fd/") && *errno == libc::ENOENT;
                let closed = none || [libc::EPERM, libc::EACCES, libc::ENODATA].contains(errno);
                assert!(closed, "{what} of {who}: {errno} ({reached:?})");
            }
        }
        drop(child);
    }
}

#[test]
#[kennel_claim::claim("sessions/commands-are-apart")]
fn a_background_process_of_an_earlier_command_is_closed_to_a_later_one() {
    let session = session(crate::sessions::builder());
    let sleep = unique_sleep();
    let pid = sh(&session, &format!("SECRET=x sleep {sleep} > /dev/null 2>&1 & echo $!"));
    for (_, what, errno) in reached(&session, &[pid.trim()]) {
        assert!([libc::EPERM, libc::EACCES, libc::ENODATA].contains(&errno), "{what}: {errno}");
    }
}

#[test]
fn the_layer_of_a_command_takes_nothing_away() {
    let (scratch, secret) = (Scratch::new(), Scratch::new());
    let session = session(crate::sessions::builder().allow_write(scratch.path()).deny_read(secret.path()));
    let script = format!(
        "cd {} && mkdir a b && echo x > a/f && mv a/f b/g && ln b/g a/h && mv b c && rm -r a && cat c/g && \
         mkfifo p && ln -s p l && ls {} | wc -l && unshare -U true 2>/dev/null; echo done",
        scratch.path().display(),
        secret.path().display()
    );
    assert_eq!(sh(&session, &script), "x\n0\ndone\n");
}

#[test]
#[kennel_claim::claim("sessions/every-command-is-watched")]
fn who_kills_a_leader_ends_the_session() {
    for script in ["kill -9 $PPID; sleep 60", "kill -9 -1; sleep 60"] {
        let session = session(crate::sessions::builder());
        let (mine, others) = (unique_sleep(), unique_sleep());
        let mut other = session.command("sleep").arg(&*others).spawn().unwrap();
        let script = format!("setsid sleep {mine} & {script}");
        // Before its start could be reported, or after.
        match session.command("sh").args(["-c", &script]).output() {
            Ok(result) => assert_eq!(result.ended, Ended::Killed, "{script}"),
            Err(error) => assert!(error.to_string().contains("the session has ended"), "{error}"),
        }
        assert_eq!(session.wait().unwrap().ended, Ended::Killed);
        assert!(matches!(other.wait().unwrap().ended, Ended::Killed | Ended::Signalled(9)));
        assert_eq!(processes_left_with(&mine), Vec::<String>::new());
        assert_eq!(processes_left_with(&others), Vec::<String>::new());
        let error = session.run("true", &[]).unwrap_err().to_string();
        assert!(error.contains("the session has ended"), "{error}");
    }
}

#[test]
#[kennel_claim::claim("sessions/every-command-is-watched")]
fn who_kills_another_commands_leader_ends_the_session() {
    let session = session(crate::sessions::builder());
    let (mut child, victim) = victim(&session);
    let _ = session.command("sh").args(["-c", &format!("kill -9 $(ps -o ppid= -p {victim})")]).output();
    assert_eq!(child.wait().unwrap().ended, Ended::Killed);
    assert_eq!(session.wait().unwrap().ended, Ended::Killed);
}

#[test]
#[kennel_claim::claim("sessions/every-command-is-watched")]
fn a_leader_that_is_stopped_goes_on() {
    let session = session(crate::sessions::builder());
    let sleep = unique_sleep();
    let result = session.run("sh", &["-c", "kill -STOP $PPID; sleep .2; echo done"]).unwrap();
    assert_eq!((result.exit_code, result.stdout.as_str()), (0, "done\n"));
    // Again and again, while it is to end.
    let script = format!("setsid sleep {sleep} & while kill -STOP $PPID; do :; done");
    let mut command = session.command("sh");
    let result = command.args(["-c", &script]).timeout(Duration::from_millis(300)).output().unwrap();
    assert!(result.killed_by_timeout, "{result:?}");
    assert_eq!(processes_left_with(&sleep), Vec::<String>::new());
}

#[test]
fn no_other_signal_does_anything_to_leaders_and_pid_1() {
    let session = session(crate::sessions::builder());
    let (mut child, victim) = victim(&session);
    let leader = sh(&session, &format!("ps -o ppid= -p {victim}")).trim().to_owned();
    // What a leader gets it passes on to its command, which these do not end.
    let result = sh(
        &session,
        &format!(
            "for s in URG WINCH CONT CHLD; do kill -$s {leader} 1; done; for s in $(seq 1 64); do kill -$s 1; done; echo $?"
        ),
    );
    assert!(result.ends_with("0\n"), "{result}");
    assert!(child.try_wait().unwrap().is_none());
    assert_eq!(sh(&session, "echo goes on"), "goes on\n");
    child.kill();
}

#[test]
#[kennel_claim::claim("sessions/own-descriptors-only")]
fn a_command_has_no_descriptor_but_its_own() {
    let session = session(crate::sessions::builder());
    let (_child, _) = victim(&session);
    let script = "for fd in /proc/self/fd/*; do readlink $fd; done | grep -v '^pipe:\\|^/proc/[0-9]*/fd$'; ls /proc/self/fd | wc -l";
    let seen = session.command("sh").args(["-c", script]).output().unwrap().stdout;
    // The three, and the folder that is listed.
    assert_eq!(seen.lines().last(), Some("4"), "{seen}");
    assert!(!seen.contains("socket:"), "{seen}");
}

#[test]
fn rules_that_are_guarded_hold_for_every_command() {
    let scratch = Scratch::new();
    let denied = scratch.join("denied");
    let session = session(crate::sessions::builder().allow_write(scratch.path()).deny_write(&denied));
    for _ in 0..2 {
        let said = sh(
            &session,
            &format!(
                "mkdir {} && echo made; touch {}/other && echo fine",
                denied.display(),
                scratch.path().display()
            ),
        );
        assert!(said.contains("fine\n") && !said.contains("made"), "{said}");
    }
    assert!(!denied.exists());
    let outcome = session.end().unwrap();
    assert!(!outcome.violations.list.is_empty(), "{outcome:?}");
}

#[test]
fn sessions_work_under_every_profile_and_model() {
    let listed = "[files]\nreads = \"listed\"\n";
    for settings in [
        "process.seccomp = \"strict\"\n",
        "process.seccomp = \"permissive\"\n",
        "process.seccomp = \"none\"\n",
        "[process]\nuser = \"root\"\n",
        listed,
        "network.mode = \"host\"\n",
        "[limits]\nopen_files = 16\n",
    ] {
        let Ok(sandbox) = Sandbox::from_settings_text(settings) else { panic!("{settings}") };
        let session = sandbox.session().unwrap();
        let result = session
            .command("sh")
            .args(["-c", "echo x > /tmp/file; cat; exec sleep 0"])
            .input("in")
            .output()
            .unwrap();
        assert_eq!((result.exit_code, result.stdout.as_str()), (0, "in"), "{settings}: {result:?}");
        assert_eq!(session.run("cat", &["/tmp/file"]).unwrap().stdout, "x\n", "{settings}");
        let sleep = unique_sleep();
        let script = format!("setsid sleep {sleep} & sleep {sleep}");
        let result = session.command("sh").args(["-c", &script]).timeout(Duration::from_millis(100)).output();
        assert!(result.unwrap().killed_by_timeout, "{settings}");
        assert_eq!(processes_with(&sleep), Vec::<String>::new(), "{settings}");
        assert_eq!(session.run("echo", &["on"]).unwrap().stdout, "on\n", "{settings}");
    }
}

#[test]
#[kennel_claim::claim("sessions/every-command-is-watched")]
fn without_proc_a_command_that_has_to_be_killed_ends_the_session() {
    let session = session(crate::sessions::builder().deny_read("/proc"));
    assert_eq!(session.run("echo", &["fine"]).unwrap().stdout, "fine\n");
    let sleep = unique_sleep();
    let script = format!("setsid sleep {sleep} & sleep {sleep}");
    let result =
        session.command("sh").args(["-c", &script]).timeout(Duration::from_millis(300)).output().unwrap();
    assert!(result.killed_by_timeout, "{result:?}");
    assert_eq!(session.wait().unwrap().ended, Ended::Killed);
    assert_eq!(processes_left_with(&sleep), Vec::<String>::new());
}

#[test]
fn limits_on_the_whole_sandbox_hold_for_all_commands_together() {
    let sandbox = crate::sessions::builder().max_pids(20).best_effort(true).build().unwrap();
    let session = sandbox.session().unwrap();
    if session.usage().processes.is_none() {
        return kennel_tests::skipped("no cgroup counts processes here");
    }
    let mut children = Vec::new();
    let error = loop {
        match session.command("sleep").arg("60").spawn() {
            Ok(child) => children.push(child),
            Err(error) => break error.to_string(),
        }
        assert!(children.len() < 20);
    };
    assert!(error.contains("Resource temporarily unavailable"), "{error}");
    children.pop();
    assert!(session.run("true", &[]).unwrap().success());
}

/// Some files of a process can be written by every process of its user; root owns those of PID 1 and of leaders, which share the
/// scheduling weight of the caller's session.
#[test]
#[kennel_claim::claim("processes/proc-is-written-for-oneself")]
fn no_command_writes_to_a_leader_or_to_pid_1_in_proc_nor_the_name_or_memory_of_another_command() {
    let session = session(crate::sessions::builder());
    let (mut child, pid) = victim(&session);
    let weight = || std::fs::read_to_string("/proc/self/autogroup").unwrap_or_default();
    let before = weight();
    for name in ["oom_score_adj", "coredump_filter", "autogroup", "clear_refs", "comm", "mem", "sched"] {
        for process in ["1", "$PPID"] {
            let told = sh(&session, &format!("(echo 1 > /proc/{process}/{name}) 2>/dev/null && echo wrote"));
            assert_eq!(told, "", "{process}: {name}");
        }
    }
    for name in ["comm", "mem", "timerslack_ns", "uid_map", "attr/current"] {
        let told = sh(&session, &format!("(echo 1 > /proc/{pid}/{name}) 2>/dev/null && echo wrote"));
        assert_eq!(told, "", "{name}");
    }
    assert_eq!(weight(), before);
    // Root has a /proc that is read-only as a whole.
    let own = sh(&session, "{ printf own > /proc/self/comm; } 2>/dev/null && cat /proc/$$/comm");
    assert_eq!(own, if kennel_tests::am_root() { "" } else { "own\n" });
    child.kill();
    child.wait().unwrap();
}
