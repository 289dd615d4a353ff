//! A server inside that nobody outside can reach: kennel says so in the end, with the flag.

use std::ffi::OsString;
use std::net::TcpListener;
use std::time::Duration;

use kennel_tests::pty::{Pty, exit_code};
use kennel_tests::{kennel, role, stays};

const PORT: u16 = 4317;

/// The role: listens on this port and on one that the kernel chooses, for a while.
pub fn listen(_: &[OsString]) -> i32 {
    // What listens in the first milliseconds is taken for the gate's.
    std::thread::sleep(Duration::from_millis(500));
    let sockets = [PORT, 0].map(|port| TcpListener::bind(("127.0.0.1", port)));
    println!("listening-{}", sockets.iter().flatten().count());
    std::thread::sleep(Duration::from_secs(3));
    0
}

#[test]
fn a_server_that_nobody_can_reach_is_told_with_the_flag() {
    let note = format!(
        "kennel: note: something inside listened on port {PORT}, which nothing outside can reach; to publish it: --publish {PORT}"
    );
    let free = format!("0:{PORT}");
    for (flags, is_told) in [
        (&["--net", "none"][..], true),
        (&["--net", "allow-list"], true),
        (&["--net", "none", "-q"], false),
        (&["--net", "allow-list", "--publish", &free], false),
    ] {
        let terminal = Pty::new(&[]);
        let words = [&["--no-settings"], flags].concat();
        let mut command = kennel(["run"]);
        command.args(role::inside("unpublished-servers", &words, &[]));
        let mut child = terminal.spawn(&mut command, [true; 3]);
        terminal.wait_for("listening-2");
        assert_eq!(exit_code(&mut child), 0);
        if is_told {
            let shown = terminal.wait_for(&note);
            assert_eq!(shown.matches("something inside listened").count(), 1, "{flags:?}: {shown}");
        } else {
            stays("nothing is said", Duration::from_millis(300), || {
                !terminal.shown().contains("something inside")
            });
        }
    }
}
