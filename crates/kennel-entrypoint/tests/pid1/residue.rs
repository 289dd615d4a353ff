//! What is left of the entrypoint, and of the control plane's values, once the agent runs.

use std::fs;

use crate::container::{Container, LoneRoot, Ordinary, RemappedRoot, Root, Running, each, quiet};

const SECRET: &str = "the-control-planes-secret-7f3a";
const KEPT: &str = "a-value-that-is-kept-51c9";

/// An agent that prints `ready` and waits, with secrets in the environment that it came from.
fn waiting() -> Container {
    Container::new()
        .var("SESSION_TOKEN", SECRET)
        .var("CONTROL_PLANE_URL", format!("https://{SECRET}.example"))
        .var("SESSION_ID", SECRET)
        .var("KEPT", KEPT)
        .script("echo ready; sleep 15")
}

/// Lists the open descriptors of a process. By number, because a shell that reads the directory has it open.
fn list_descriptors(process: &str) -> String {
    format!(
        "fd=0; while [ $fd -lt 64 ]; do [ -L /proc/{process}/fd/$fd ] && echo fd $fd; fd=$((fd + 1)); done"
    )
}

const STANDARD: &str = "fd 0\nfd 1\nfd 2\n";

/// Every byte that the process has in memory.
fn memory(pid: libc::pid_t) -> Vec<u8> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut memory = Vec::new();
    for line in maps.lines() {
        let (range, _) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let [start, end] = [start, end].map(|address| usize::from_str_radix(address, 16).unwrap());
        if line.ends_with("[vsyscall]") {
            continue;
        }
        let old = memory.len();
        memory.resize(old + (end - start), 0);
        let here = libc::iovec { iov_base: memory[old..].as_mut_ptr().cast(), iov_len: end - start };
        let there = libc::iovec { iov_base: start as *mut libc::c_void, iov_len: end - start };
        // SAFETY: `here` is that much room; `there` is only ever an address to the kernel. Pages without the right to
        // be read are skipped by it.
        unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) };
    }
    memory
}

fn holds(memory: &[u8], text: &str) -> bool {
    memory.windows(text.len()).any(|window| window == text.as_bytes())
}

fn assert_nothing_in_memory(running: &Running) {
    let memory = memory(running.pid());
    assert!(holds(&memory, KEPT), "the search itself does not work");
    assert!(!holds(&memory, SECRET), "a control plane value is in PID 1's memory");
}

#[test]
fn no_byte_of_pid_1s_memory_holds_a_control_plane_value_after_exec() {
    each(&[Root, RemappedRoot, Ordinary], |identity| {
        let mut running = waiting().start(identity);
        assert_eq!(running.line(), "ready");
        assert_nothing_in_memory(&running);
    });
}

#[test]
fn no_byte_of_pid_1s_memory_holds_a_control_plane_value_when_it_stays_as_init() {
    each(&[Root, RemappedRoot, Ordinary], |identity| {
        let mut running = waiting().var("AGENT_INIT", "1").start(identity);
        assert_eq!(running.line(), "ready");
        assert_nothing_in_memory(&running);
    });
}

#[test]
fn the_agent_finds_no_trace_of_the_entrypoint_in_proc_1() {
    let look = "cat /proc/1/environ /proc/1/maps /proc/1/cmdline /proc/1/comm /proc/1/auxv | tr '\\0' '\\n'
                readlink /proc/1/exe /proc/1/cwd
                echo the descriptors:";
    each(&[Root, RemappedRoot, Ordinary], |identity| {
        let run = waiting().script(&format!("{look}\n{}", list_descriptors("1"))).run(identity);
        let seen = run.text();
        assert_eq!(run.stderr, quiet(identity));
        assert!(seen.contains(KEPT) && seen.contains("[stack]") && seen.contains("/workspace"), "{seen}");
        assert!(!seen.contains(SECRET), "{seen}");
        assert!(!seen.contains("kennel") && !seen.contains("under-test"), "{seen}");
        assert!(seen.ends_with(&format!("the descriptors:\n{STANDARD}")), "{seen}");
    });
}

#[test]
fn init_shows_the_agent_nothing_of_itself() {
    let look = "for file in environ maps mem auxv stack; do
                    cat /proc/1/$file >/dev/null 2>&1 && echo \"$file is open\"
                done
                ls /proc/1/fd >/dev/null 2>&1 && echo 'fd is open'
                readlink /proc/1/exe && echo 'exe is open'
                echo looked";
    each(&[Root, RemappedRoot, Ordinary], |identity| {
        let run = waiting().script(look).var("AGENT_INIT", "1").run(identity);
        assert_eq!(run.text(), "looked\n");
    });
}

/// An agent that stays root may look at PID 1 (here it has CAP_SYS_PTRACE), and still finds nothing.
#[test]
fn init_has_wiped_its_environment_even_for_an_agent_that_is_root() {
    let look = format!("tr -s '\\0' '\\n' < /proc/1/environ\n{}", list_descriptors("1"));
    each(&[Root, RemappedRoot, LoneRoot], |identity| {
        let run = waiting().without_passwd().script(&look).var("AGENT_INIT", "1").run(identity);
        let path = &waiting().environment[0];
        assert_eq!(run.text(), format!("{}\nKEPT={KEPT}\n{STANDARD}", String::from_utf8_lossy(path)));
    });
}

#[test]
fn a_descriptor_that_the_runtime_left_open_is_closed() {
    for init in ["0", "1"] {
        each(&[Root, Ordinary], |identity| {
            let mut container = Container::new().script(&list_descriptors("$$")).var("AGENT_INIT", init);
            container.surroundings.leaked_descriptor = true;
            assert_eq!(container.run(identity).text(), STANDARD);
            // And on kernels without close_range.
            let container = container.answer(libc::SYS_close_range, libc::ENOSYS);
            assert_eq!(container.run(identity).text(), STANDARD);
        });
    }
}

#[test]
fn signals_have_their_default_actions_and_none_is_blocked() {
    let show = "grep -E '^Sig(Blk|Ign):' /proc/self/status | tr -s '\\t' ' '";
    for (init, disturbed) in [("0", false), ("0", true), ("1", false), ("1", true)] {
        each(&[Root, Ordinary], |identity| {
            let mut container = Container::new().script(show).var("AGENT_INIT", init);
            container.surroundings.disturbed_signals = disturbed;
            assert_eq!(
                container.run(identity).text(),
                "SigBlk: 0000000000000000\nSigIgn: 0000000000000000\n"
            );
        });
    }
}

#[test]
fn a_runtime_that_gives_no_standard_descriptors_gives_the_agent_none() {
    each(&[Root, Ordinary], |identity| {
        let mut container = Container::new().script(
            // 4 if anything is open: there is no other way to tell.
            "[ -e /proc/1/fd/0 ] || [ -e /proc/1/fd/1 ] || [ -e /proc/1/fd/2 ] && exit 4; exit 5",
        );
        container.surroundings.no_standard_descriptors = true;
        assert_eq!(container.run(identity).ending, crate::container::Ending::Exited(5));
    });
}

#[test]
fn the_agent_is_pid_1_itself() {
    each(&[Root, RemappedRoot, Ordinary], |identity| {
        assert_eq!(Container::new().script("echo $$").run(identity).text(), "1\n");
    });
}

#[test]
fn stdin_stdout_and_stderr_are_the_runtimes() {
    each(&[Root, RemappedRoot, Ordinary], |identity| {
        let run = Container::new().script("readlink /proc/1/fd/0; echo problem >&2").run(identity);
        assert_eq!(run.text(), "/dev/null\n");
        assert_eq!(run.stderr, format!("{}problem\n", quiet(identity)));
    });
}

/// The session keyring of whoever starts the container holds keys of theirs: disks', networks', Kerberos'.
#[test]
fn the_agent_has_none_of_the_callers_keys() {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    const SESSION_KEYRING: libc::c_long = -3;
    const SET_PERMISSIONS: libc::c_long = 5;
    /// For those who hold the key, and not for others of the same user.
    const HOLDERS_ONLY: libc::c_long = 0x3f00_0000;
    // SAFETY: strings that outlive their calls; only this thread's credentials change.
    let made = unsafe {
        let joined = libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, 0) >= 0;
        let (kind, name, value) = (c"user".as_ptr(), c"kennel-canary".as_ptr(), c"x".as_ptr());
        let key = libc::syscall(libc::SYS_add_key, kind, name, value, 1, SESSION_KEYRING);
        joined && key >= 0 && libc::syscall(libc::SYS_keyctl, SET_PERMISSIONS, key, HOLDERS_ONLY) >= 0
    };
    let look = "grep -o kennel-canary /proc/keys || echo none";
    let outside = std::process::Command::new("sh").args(["-c", look]).output().unwrap();
    if !made || !outside.stdout.starts_with(b"kennel-canary") {
        println!("SKIPPED: this host has no keyrings to look at");
        return;
    }
    each(&[Root, Ordinary], |identity| {
        assert_eq!(Container::new().script(look).run(identity).text(), "none\n");
    });
}
