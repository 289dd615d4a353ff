//! Typing into the caller's terminal from inside (TIOCSTI): the way from a sandbox to the shell that started it.

use std::ffi::OsString;

use kennel_tests::role;

use kennel_tests::screen::Screen;

/// The role: tries it, with a request that has bits above the low 32 in its upper half as well, since the kernel
/// ignores those.
pub fn inject(_: &[OsString]) -> i32 {
    let byte = b'#';
    for (name, request) in [("plain", 0x5412u64), ("wide", 0xffff_ffff_0000_5412)] {
        // SAFETY: the kernel reads one byte from the address.
        let result = unsafe { libc::syscall(libc::SYS_ioctl, 0, request, &raw const byte) };
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        println!("{name}-{}", if result == 0 { 0 } else { errno });
    }
    println!("tried-{}", 1 + 1);
    0
}

#[test]
#[kennel_claim::claim("kernel/no-typing-into-terminals")]
fn a_command_cannot_type_into_the_terminal() {
    let Some(screen) = Screen::open() else { return };
    let me = std::env::current_exe().expect("a test knows its own path");
    let (variable, me) = (role::VARIABLE, me.display());
    // Outside the kernel does it, or refuses with EIO where dev.tty.legacy_tiocsti is 0: never with EPERM.
    screen.line(&format!("{variable}=inject {me}"));
    let shown = screen.wait_for("tried-2");
    assert!(shown.contains("plain-0") || shown.contains("plain-5"), "{shown}");
    screen.key("C-c");
    screen.line("clear");
    screen.line(&format!("$K run --env {variable}=inject -- {me}"));
    let shown = screen.wait_until("the answers", |shown| shown.contains("wide-1"));
    assert!(shown.contains("plain-1\n"), "{shown}");
    assert_eq!(screen.exit_code(), "0");
}
