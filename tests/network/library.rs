//! The network modes through the library: none, the host's, and an allow list, with the refusals in the result.
//!
//! In a program of its own: the library reads this process's environment, and several tests share this one.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;

use kennel::{ExecutionResult, NetworkMode, Sandbox};
use kennel_tests::{ran_within, role};

use crate::network::LONG;
use crate::network::there::ECHO;
use kennel_tests::world::world;

#[test]
fn the_three_modes_through_the_library() {
    if world().is_none() {
        return;
    }
    let mut command = role::play("embed");
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    let ran = ran_within(LONG, &mut command).ok();
    assert_eq!(ran.stdout, "embedded\n", "{}", ran.stderr);
}

#[test]
#[kennel_claim::claim("network/descriptors-are-shared")]
fn idle_connections_of_some_sandboxes_leave_descriptors_to_others_and_to_the_program_around_them() {
    if world().is_none() {
        return;
    }
    let Some(python) = kennel_tests::world::python() else {
        return kennel_tests::skipped("python3 is not installed");
    };
    let mut command = role::play("host-four");
    // With as few descriptors as some services give their programs.
    let limit = libc::rlimit { rlim_cur: 320, rlim_max: 320 };
    // SAFETY: a plain call between fork and exec.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let ran = ran_within(LONG, command.arg(python)).ok();
    assert_eq!(ran.stdout, "enough for everybody\n", "{}", ran.stderr);
}

/// The role `host-four`: a program with four sandboxes in each of which somebody holds all the connections he can get.
pub fn host_four(words: &[OsString]) -> i32 {
    let [python] = words else { return 2 };
    let python = python.to_string_lossy().into_owned();
    let idle = format!(
        "import resource, socket, sys, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (320, 320)); held = []
def serve():
    l = socket.create_server(('127.0.0.1', 8000))
    while True: l.accept()[0].sendall(b'served')
threading.Thread(target=serve, daemon=True).start()
try:
    while len(held) < 250:
        s = socket.create_connection(('idle.web.test', {ECHO}), 20); held.append(s)
except OSError: pass
print(len(held), flush=True); sys.stdin.readline()"
    );
    let listed = |rule: &str| {
        Sandbox::builder().network_mode(NetworkMode::AllowList).allow_domain(rule).publish(0, 8000).build()
    };
    let mut children = Vec::new();
    for _ in 0..4 {
        let mut child =
            listed("idle.web.test").expect("a list").spawn(&python, &["-c", &idle]).expect("it starts");
        let mut said = [0; 3];
        let mut stdout = child.take_stdout().expect("piped");
        std::io::Read::read_exact(&mut stdout, &mut said).expect("a count");
        assert!(said.starts_with(b"2"), "all of them connect, and wait: {said:?}");
        children.push((child, stdout));
    }
    // The gates have taken what they take.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let files: std::io::Result<Vec<std::fs::File>> =
        (0..40).map(|_| std::fs::File::open("/dev/null")).collect();
    let files = files.expect("descriptors for the program itself");
    // What is published is reached past all who wait inside.
    for (child, _) in &children {
        let mut client =
            std::net::TcpStream::connect(("127.0.0.1", child.published()[0].host)).expect("it listens");
        let mut said = [0; 6];
        let _ = client.set_read_timeout(Some(std::time::Duration::from_secs(20)));
        std::io::Read::read_exact(&mut client, &mut said).expect("somebody inside answers");
        assert_eq!(&said, b"served");
    }
    drop(files);
    let fifth = listed("library.web.test").expect("a list").run("curl", GET).expect("it runs");
    assert_eq!(fifth.stdout, "hello from library.web.test\n", "{fifth:?}");
    drop(children);
    println!("enough for everybody");
    0
}

const GET: &[&str] = &["-s", "-m", "20", "http://library.web.test/hello"];

/// The role `embed`: a program that uses the library.
pub fn embed(_: &[OsString]) -> i32 {
    let none = Sandbox::builder().build().expect("plain").run("curl", GET).expect("it runs");
    assert!(!none.success() && none.network.is_empty(), "{none:?}");

    let host = Sandbox::builder().network_mode(NetworkMode::Host).build().expect("plain");
    let host = host.run("curl", GET).expect("it runs");
    // The name server of the host's own network is asked: it knows the name.
    assert_eq!((host.stdout.as_str(), host.network.len()), ("hello from library.web.test\n", 0), "{host:?}");

    let listed =
        Sandbox::builder().network_mode(NetworkMode::AllowList).allow_domain("library.web.test").build();
    let listed = listed.expect("a list");
    let good = listed.run("curl", GET).expect("it runs");
    assert_eq!(good.stdout, "hello from library.web.test\n", "{good:?}");
    assert!(
        good.network.iter().any(|one| one.host == "library.web.test" && one.allowed && one.port == Some(80))
    );
    let bad = listed.run("curl", &["-s", "-m", "20", "http://other.elsewhere.test/hello"]).expect("it runs");
    expect_refusal(&bad);

    // A child that runs while its caller goes on.
    let mut child =
        listed.spawn("curl", &["-s", "-m", "20", "http://other.elsewhere.test/hello"]).expect("it starts");
    expect_refusal(&child.wait().expect("it ends"));

    // Two at once, each with a gate of its own.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(listed.run("curl", GET).expect("it runs").success()));
        }
    });
    let wrong =
        Sandbox::builder().network_mode(NetworkMode::AllowList).allow_domain("http://x.test/").build();
    assert!(wrong.is_err(), "an address is no host");
    crate::network::control::embedded();
    crate::network::publish::embedded();
    println!("embedded");
    0
}

fn expect_refusal(result: &ExecutionResult) {
    let found = result.network.iter().find(|one| one.host == "other.elsewhere.test");
    let found = found.unwrap_or_else(|| panic!("{result:?}"));
    assert!(!found.allowed && found.reason == "not on the allow list", "{found:?}");
}
