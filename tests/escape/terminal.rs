//! The caller's terminal: what a command that shares it could type into it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use kennel_tests::probe::{probe_inside, probe_outside};
use kennel_tests::{Ran, ran, run_sh};

/// A terminal of the test's own: the side that a user would look at, and the side that programs get.
fn terminal() -> (OwnedFd, OwnedFd) {
    let user =
        rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::CLOEXEC).unwrap();
    rustix::pty::grantpt(&user).unwrap();
    rustix::pty::unlockpt(&user).unwrap();
    let name = rustix::pty::ptsname(&user, Vec::new()).unwrap();
    let program = rustix::fs::open(
        name.as_c_str(),
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    (user, program)
}

/// Runs a command as the leader of a session with that terminal. Its standard output stays a pipe.
fn on_terminal(command: &mut Command, terminal: impl AsFd) -> Ran {
    let fd = terminal.as_fd().as_raw_fd();
    command.stdin(terminal.as_fd().try_clone_to_owned().unwrap());
    // SAFETY: both calls are safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if libc::setsid() < 0 || libc::ioctl(fd, libc::TIOCSCTTY, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    ran(command)
}

/// TIOCSTI puts characters into the terminal's input, where the caller's shell reads them as typed.
#[test]
#[kennel_claim::claim("kernel/no-typing-into-terminals")]
fn tiocsti_types_nothing_into_the_callers_terminal() {
    let (_user, program) = terminal();
    let outside = on_terminal(&mut probe_outside("terminal", &["sti"]), &program);
    // As an ordinary user the sysctl dev.tty.legacy_tiocsti may forbid it outside too (Linux 6.2).
    assert!(outside.stdout.contains("/dev/tty: done") || outside.stdout.contains("EIO"), "{outside:?}");
    for profile in [&[][..], &["--seccomp", "strict"], &["--seccomp", "permissive"], &["--user", "root"]] {
        let (_user, program) = terminal();
        let inside = on_terminal(&mut probe_inside("terminal", profile, &["sti"]), &program);
        for place in ["/dev/tty", "0"] {
            assert!(inside.stdout.contains(&format!("{place}: EPERM")), "{profile:?}: {inside:?}");
        }
    }
}

#[test]
#[kennel_claim::claim("kernel/no-typing-into-terminals")]
fn tioclinux_pastes_nothing_into_a_console() {
    for profile in [&[][..], &["--seccomp", "strict"], &["--seccomp", "permissive"]] {
        let (_user, program) = terminal();
        let inside = on_terminal(&mut probe_inside("terminal", profile, &["linux"]), &program);
        assert!(inside.stdout.contains("/dev/tty: EPERM"), "{inside:?}");
        assert!(inside.stdout.contains("/dev/console: cannot be opened"), "{inside:?}");
    }
}

/// Neither the host's console nor the caller's terminal has a name inside.
#[test]
fn there_is_no_dev_console_with_or_without_a_terminal() {
    let (_user, program) = terminal();
    let mut command = kennel_tests::kennel(["run", "--", "sh", "-c", "test -t 0 && test ! -e /dev/console"]);
    on_terminal(&mut command, &program).ok();
    run_sh::<&str>([], "test ! -e /dev/console").ok();
}

/// The same with the filter off: what is typed by TIOCSTI is typed into the sandbox's own terminal, and nowhere else.
#[test]
#[kennel_claim::claim("processes/no-terminal-of-the-caller")]
fn without_a_filter_tiocsti_types_into_the_sandboxs_own_terminal_only() {
    let (_user, program) = terminal();
    let outside = on_terminal(&mut probe_outside("terminal", &["sti"]), &program);
    if !outside.stdout.contains("0: done") {
        return kennel_tests::skipped("the kernel lets nobody type by TIOCSTI here (dev.tty.legacy_tiocsti)");
    }
    assert!(rustix::io::ioctl_fionread(&program).unwrap() > 0, "outside something was typed");
    let (_user, program) = terminal();
    let inside = on_terminal(&mut probe_inside("terminal", &["--seccomp", "none"], &["sti"]), &program).ok();
    assert!(inside.stdout.contains("0: done"), "{inside:?}");
    assert_eq!(rustix::io::ioctl_fionread(&program), Ok(0), "something was typed into the caller's terminal");
}

#[test]
fn without_a_terminal_there_is_none_to_take() {
    // A session of its own: even if the caller had a terminal elsewhere, /dev/tty is not one.
    let told = run_sh(["--seccomp", "none"], "exec 3<>/dev/tty");
    assert_ne!(told.code, 0, "{told:?}");
}
