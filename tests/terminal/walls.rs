//! Nothing inside holds the caller's terminal: no descriptor, no session, no command that reaches it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use kennel_tests::leftovers::{descendants_of, processes_with, unique_sleep};
use kennel_tests::pty::{Pty, exit_code, is_terminal};
use kennel_tests::{am_root, eventually, kennel, role};
use rustix::termios::{LocalModes, SpecialCodeIndex, Winsize, tcgetattr, tcgetpgrp, tcgetwinsize};

/// The descriptors of a process that are this terminal; `None` if nobody may look.
fn holds(terminal: &Pty, pid: u32) -> Option<Vec<PathBuf>> {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    Some(fds.flatten().map(|fd| fd.path()).filter(|path| is_terminal(terminal, path)).collect())
}

fn session(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(3).map(str::to_owned)
}

#[test]
#[kennel_claim::claim("processes/no-terminal-of-the-caller")]
fn no_process_inside_has_the_callers_terminal_open_or_for_its_session() {
    let sleep = unique_sleep();
    let script = format!("setsid sleep {sleep} & sleep {sleep} & echo go-$((1+1)); exec sleep {sleep}");
    let running = || {
        let found = processes_with(&format!("\0{}", &*sleep).replace('\0', " "));
        found.iter().filter(|line| line.contains(": sleep ")).count()
    };
    // Outside the same command does.
    let terminal = Pty::new(&[]);
    let mut child = terminal.spawn(Command::new("sh").args(["-c", &script]), [true; 3]);
    terminal.wait_for("go-2");
    assert!(!holds(&terminal, child.id()).expect("our own child").is_empty());
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    drop(terminal);

    let terminal = Pty::new(&[]);
    let mut child =
        terminal.spawn(&mut kennel(["run", "--no-settings", "--", "sh", "-c", &script]), [true; 3]);
    terminal.wait_for("go-2");
    eventually("all of them run", || (running() >= 3).then_some(()));
    let inside = descendants_of(vec![child.id()]);
    assert!(inside.len() >= 4, "{inside:?}");
    let mut looked = 0;
    for pid in &inside {
        if let Some(held) = holds(&terminal, *pid) {
            looked += 1;
            assert_eq!(held, Vec::<PathBuf>::new(), "{pid}");
        }
        assert_ne!(session(*pid), session(child.id()), "{pid} is in the caller's session");
    }
    // Only root may look at PID 1.
    assert!(looked >= inside.len() - usize::from(!am_root()), "{looked} of {inside:?}");
    child.kill().expect("our own child");
    child.wait().expect("our own child");
}

/// A descriptor that the caller keeps for the command is no way around it.
#[test]
#[kennel_claim::claim("processes/no-terminal-of-the-caller")]
fn a_kept_descriptor_of_the_terminal_is_the_sandboxs_own_too() {
    let terminal = Pty::new(&[]);
    let script = "test -t 7 && test \"$(readlink /proc/self/fd/7)\" = \"$(tty)\" && echo same-$((1+1)) >&7";
    let run = format!("exec \"$0\" run --no-settings --keep-fd 7 -- sh -c '{script}' 7>/dev/tty");
    let mut command = Command::new("sh");
    command.args(["-c", &run]).arg(kennel_tests::kennel_bin());
    let mut child = terminal.spawn(&mut command, [true; 3]);
    terminal.wait_for("same-2");
    assert_eq!(exit_code(&mut child), 0);
}

/// The role: does to every terminal in reach what can be done to one, then waits to be told to end.
pub fn commands(_: &[OsString]) -> i32 {
    const TIOCSTI: libc::c_ulong = 0x5412;
    const TIOCCONS: libc::c_ulong = 0x541d;
    // SAFETY: plain calls; the structures are filled in before they are used.
    unsafe {
        let tty = libc::open(c"/dev/tty".as_ptr(), libc::O_RDWR);
        for fd in [0, 1, 2, tty] {
            let mut modes: libc::termios = std::mem::zeroed();
            libc::tcgetattr(fd, &raw mut modes);
            modes.c_lflag &= !(libc::ECHO | libc::ICANON);
            modes.c_cc[libc::VKILL] = b't';
            libc::tcsetattr(fd, libc::TCSANOW, &raw const modes);
            let size = libc::winsize { ws_row: 5, ws_col: 7, ws_xpixel: 0, ws_ypixel: 0 };
            libc::ioctl(fd, libc::TIOCSWINSZ, &raw const size);
            libc::ioctl(fd, TIOCSTI, c"#".as_ptr());
            libc::ioctl(fd, TIOCCONS, 0);
            libc::ioctl(fd, libc::TIOCEXCL, 0);
            libc::ioctl(fd, libc::TIOCSCTTY, 1);
            let group = libc::getpgrp();
            libc::ioctl(fd, libc::TIOCSPGRP, &raw const group);
            libc::tcflow(fd, libc::TCOON);
            libc::tcflush(fd, libc::TCIOFLUSH);
        }
        libc::write(1, c"done-2\n".as_ptr().cast(), 7);
        libc::read(0, [0u8; 1].as_mut_ptr().cast(), 1);
    }
    0
}

#[test]
#[kennel_claim::claim("processes/no-terminal-of-the-caller")]
fn no_command_to_a_terminal_reaches_the_callers() {
    for flags in [&[][..], &["--seccomp", "none"], &["--seccomp", "none", "--user", "root"]] {
        let terminal = Pty::new(&[]);
        let tty = terminal.program();
        let before = tcgetattr(tty).expect("a terminal");
        let mut command = kennel(["run", "--no-settings"]);
        command.args(role::inside("terminal-commands", flags, &[]));
        let mut child = terminal.spawn(&mut command, [true; 3]);
        terminal.wait_for("done-2");
        let Winsize { ws_row, ws_col, .. } = tcgetwinsize(tty).expect("a terminal");
        assert_eq!((ws_row, ws_col), (24, 80));
        let during = tcgetattr(tty).expect("a terminal");
        let kill = |modes: &rustix::termios::Termios| modes.special_codes[SpecialCodeIndex::VKILL];
        assert_eq!(kill(&during), kill(&before), "{flags:?}");
        // Opening it is not refused, and what was typed inside is not typed here.
        let again = std::fs::File::open(
            rustix::termios::ttyname(tty, Vec::new()).expect("it has a name").to_str().unwrap(),
        );
        assert!(again.is_ok(), "{flags:?}: {again:?}");
        terminal.type_bytes(b"x");
        assert_eq!(exit_code(&mut child), 0);
        let after = tcgetattr(tty).expect("a terminal");
        assert_eq!((after.local_modes, after.input_modes), (before.local_modes, before.input_modes));
        assert_eq!(rustix::io::ioctl_fionread(tty), Ok(0), "{flags:?}: something was typed");
    }
}

#[test]
fn the_callers_terminal_is_raw_only_while_the_command_has_it_and_as_it_was_afterwards() {
    let canonical =
        |terminal: &Pty| tcgetattr(terminal.program()).unwrap().local_modes.contains(LocalModes::ICANON);
    let terminal = Pty::new(&[]);
    // Something unusual, to be there again in the end.
    let mut before = tcgetattr(terminal.program()).unwrap();
    before.local_modes.remove(LocalModes::ECHOCTL);
    rustix::termios::tcsetattr(terminal.program(), rustix::termios::OptionalActions::Now, &before).unwrap();
    let script = "echo go-$((1+1)); read x; exit 3";
    let run = ["run", "--no-settings", "--timeout", "60s", "--", "sh", "-c"];
    for (end, code) in [(b"x\r".as_slice(), 3), (b"\x03", 130), (b"\x1c", 131)] {
        let mut child = terminal.spawn(kennel(run).arg(script), [true; 3]);
        eventually("the command has the terminal", || (!canonical(&terminal)).then_some(()));
        assert_eq!(
            tcgetpgrp(terminal.user_side()).unwrap().as_raw_nonzero().get().cast_unsigned(),
            child.id()
        );
        terminal.type_bytes(end);
        let code_of = exit_code(&mut child);
        assert_eq!(code_of, code);
        let after = tcgetattr(terminal.program()).unwrap();
        assert_eq!(format!("{after:?}"), format!("{before:?}"));
    }
    // In a pipeline it never is, as long as nobody asks for it.
    let mut child = terminal.spawn(
        Command::new("sh")
            .args(["-c", "\"$0\" run --no-settings -- sh -c 'echo pipe-$((1+1)); sleep 1' | cat"])
            .arg(kennel_tests::kennel_bin()),
        [true; 3],
    );
    terminal.wait_for("pipe-2");
    for _ in 0..20 {
        assert!(canonical(&terminal));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(exit_code(&mut child), 0);
}
