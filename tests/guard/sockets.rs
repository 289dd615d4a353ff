//! Unix sockets by path: those that are listed can be connected to, no other of the host's, whatever the trick.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kennel_tests::probe::{Arg, Script, probe_inside};
use kennel_tests::{Ran, Scratch, am_root, args, ran, ran_within, run_sh, text};

/// A daemon of the host's that greets whoever connects, and counts.
pub struct Daemon {
    path: PathBuf,
    greeted: Arc<AtomicU64>,
}

impl Daemon {
    pub fn at(path: PathBuf) -> Daemon {
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket can be made in a scratch folder");
        let greeted = Arc::new(AtomicU64::new(0));
        let count = greeted.clone();
        // Ends with the test program.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = client.and_then(|mut client| client.write_all(b"hello"));
            }
        });
        Daemon { path, greeted }
    }

    pub fn greeted(&self) -> u64 {
        self.greeted.load(Ordering::SeqCst)
    }
}

/// The role: connects to each path and prints what it hears, or the error.
pub fn connect(words: &[OsString]) -> i32 {
    for word in words {
        let heard = UnixStream::connect(word).and_then(|mut stream| {
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text)
        });
        match heard {
            Ok(text) => println!("{text}"),
            Err(error) => println!("{}", error.raw_os_error().unwrap_or(0)),
        }
    }
    0
}

fn connecting(flags: &[&str], paths: &[&Path]) -> Ran {
    let flags = [&["--no-settings"], flags].concat();
    ran_within(Duration::from_secs(60), &mut probe_inside("connect", &flags, paths))
}

pub const EACCES: &str = "13";

#[test]
#[kennel_claim::claim("processes/listed-sockets-only")]
fn a_listed_socket_can_be_connected_to_and_no_other() {
    let scratch = Scratch::new();
    let (listed, other) = (Daemon::at(scratch.join("listed")), Daemon::at(scratch.join("other")));
    std::os::unix::fs::symlink("listed", scratch.join("good")).unwrap();
    std::os::unix::fs::symlink("other", scratch.join("bad")).unwrap();
    std::fs::hard_link(&other.path, scratch.join("hard")).unwrap();
    let paths = ["listed", "good", "other", "bad", "hard"].map(|name| scratch.join(name));
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    for profile in ["default", "permissive", "none"] {
        let flags = ["--allow-unix-socket", &text(&listed.path), "--seccomp", profile];
        let ran = connecting(&flags, &paths).ok();
        assert_eq!(ran.stdout, format!("hello\nhello\n{EACCES}\n{EACCES}\n{EACCES}\n"), "{profile}");
        let told = format!(
            "kennel: refused to connect to {} (connect): network.allow_unix_sockets does not list it\n",
            text(&other.path)
        );
        assert!(ran.stderr.contains(&told), "{}", ran.stderr);
    }
    assert_eq!((listed.greeted(), other.greeted()), (6, 0));
    // With all of them allowed, and with none.
    let all = connecting(&["--unix-sockets", "all"], &paths).ok();
    assert_eq!(all.stdout, "hello\n".repeat(5));
    let none = connecting(&[], &paths).ok();
    assert_eq!(none.stdout, "1\n".repeat(5), "EPERM, for the socket itself");
}

#[test]
fn a_listed_socket_in_a_hidden_folder_shows_and_nothing_else_of_it() {
    let folder = Scratch::new();
    // The host's /tmp is hidden.
    let top = PathBuf::from(format!("/tmp/kennel-test-{}-sockets", std::process::id()));
    std::fs::create_dir_all(&top).unwrap();
    let (listed, _other) = (Daemon::at(top.join("agent.1")), Daemon::at(top.join("other")));
    let flags = ["--allow-unix-socket", "/tmp/kennel-test-*-sockets/agent.*"];
    let ran = connecting(&flags, &[&listed.path, &top.join("other")]).ok();
    assert_eq!(ran.stdout, "hello\n2\n", "the other does not exist: {}", ran.stderr);
    std::fs::remove_dir_all(&top).unwrap();
    drop(folder);
}

#[test]
fn a_daemon_that_is_started_anew_during_the_run_can_be_connected_to() {
    let scratch = Scratch::new();
    scratch.dir("there");
    let early = Daemon::at(scratch.join("there/early"));
    let (early_path, late_path) = (early.path.clone(), scratch.join("there/late"));
    let go = scratch.dir("go");
    let mut command = kennel_tests::kennel(["run", "--no-settings"]);
    command.args(["--allow-write", &text(&go)]);
    command.args(["--allow-unix-socket", &text(&early_path), "--allow-unix-socket", &text(&late_path)]);
    command.args(["--env", "KENNEL_TEST_ROLE=connect", "--", "sh", "-c"]);
    let script = "\"$0\" \"$1\" \"$2\"; touch \"$3/first\"; while [ ! -e \"$3/second\" ]; do sleep 0.05; done; \"$0\" \"$1\" \"$2\"";
    command.arg(script).arg(kennel_tests::probe::executable()).args([&early_path, &late_path, &go]);
    let child = command.stdout(std::process::Stdio::piped()).spawn().expect("kennel can be started");
    kennel_tests::eventually("the first round", || go.join("first").exists().then_some(()));
    let (again, late) = (Daemon::at(early_path), Daemon::at(late_path));
    std::fs::write(go.join("second"), "").unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap()).ok();
    assert_eq!(ran.stdout, "hello\n2\nhello\nhello\n");
    assert_eq!((early.greeted(), again.greeted(), late.greeted()), (1, 1, 1));
}

/// Where the sandbox can write it can move things; what it moves to the listed place is not what was listed.
#[test]
#[kennel_claim::claim("processes/listed-sockets-only")]
fn another_socket_moved_to_the_place_of_a_listed_one_is_refused() {
    let me = text(kennel_tests::probe::executable());
    let tricks = [
        "mv -f other listed",
        "ln -f other listed",
        "ln -sf other listed",
        "rm -f listed && mv other listed",
    ];
    for (trick, is_there) in tricks.iter().flat_map(|trick| [(trick, true), (trick, false)]) {
        let scratch = Scratch::new();
        let work = scratch.dir("work");
        let _listed = is_there.then(|| Daemon::at(work.join("listed")));
        let other = Daemon::at(work.join("other"));
        // It has to be seen that it was made before.
        std::thread::sleep(Duration::from_millis(100));
        let path = text(&work.join("listed"));
        let flags = ["--no-settings", "--allow-write", &text(&work), "--allow-unix-socket", &path];
        let script = format!("cd {} && {trick} && KENNEL_TEST_ROLE=connect exec {me} {path}", text(&work));
        let inside = run_sh(flags, &script).ok();
        assert_eq!(inside.stdout, format!("{EACCES}\n"), "{trick}: {}", inside.stderr);
        assert_eq!(other.greeted(), 0, "{trick}");
        // What stands there now, by whatever name, would answer.
        let outside = script.replace(trick, "true");
        let told = ran(std::process::Command::new("sh").args(["-c", &outside])).ok();
        assert_eq!((told.stdout.as_str(), other.greeted()), ("hello\n", 1), "{trick}");
    }
}

/// One that the sandbox makes there itself is its own.
#[test]
fn a_socket_made_inside_at_a_listed_path_can_be_connected_to() {
    let scratch = Scratch::new();
    let path = text(&scratch.join("own"));
    let mut address = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    address.extend_from_slice(path.as_bytes());
    address.push(0);
    let socket = args![libc::AF_UNIX, libc::SOCK_STREAM, 0];
    let told = Script::new()
        .call(libc::SYS_socket, socket.clone())
        .call(libc::SYS_bind, args![Arg::Answer(0), address.clone(), address.len()])
        .call(libc::SYS_listen, args![Arg::Answer(0), 1])
        .call(libc::SYS_socket, socket)
        .call(libc::SYS_connect, args![Arg::Answer(3), address.clone(), address.len()])
        .inside(&["--no-settings", "--allow-write", &text(scratch.path()), "--allow-unix-socket", &path]);
    told.ok_all(0..5);
}

#[test]
fn sockets_of_the_sandboxs_own_can_be_connected_to() {
    let scratch = Scratch::new();
    let flags = ["--no-settings", "--unix-sockets", "listed", "--allow-write", &text(scratch.path())];
    let mut bound = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    bound.extend_from_slice(b"/tmp/own\0");
    let mut nameless = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    nameless.extend_from_slice(b"\0kennel-test-own");
    for (address, flags, refused) in [
        (&bound, flags.to_vec(), false),
        (&nameless, flags.to_vec(), false),
        // The host's abstract names come with its network.
        (&nameless, [&flags[..], &["--net", "host"]].concat(), true),
    ] {
        let socket = args![libc::AF_UNIX, libc::SOCK_STREAM, 0];
        let told = Script::new()
            .call(libc::SYS_socket, socket.clone())
            .call(libc::SYS_bind, args![Arg::Answer(0), address.clone(), address.len()])
            .call(libc::SYS_listen, args![Arg::Answer(0), 1])
            .call(libc::SYS_socket, socket)
            .call(libc::SYS_connect, args![Arg::Answer(3), address.clone(), address.len()])
            .inside(&flags);
        told.ok_all(0..4);
        if refused {
            told.refused(4, &[libc::EACCES])
        } else {
            told.ok(4)
        };
    }
}

#[test]
#[kennel_claim::claim("processes/listed-sockets-only")]
fn datagram_sockets_which_could_send_to_any_path_cannot_be_made() {
    for profile in ["default", "permissive", "none"] {
        let pair = |kind: i32| args![libc::AF_UNIX, kind, 0, Arg::Zeros(8)];
        let told = Script::new()
            .call(libc::SYS_socket, args![libc::AF_UNIX, libc::SOCK_DGRAM, 0])
            .call(libc::SYS_socket, args![libc::AF_UNIX, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0])
            .call(libc::SYS_io_uring_setup, args![1, Arg::Zeros(120)])
            .call(libc::SYS_socketpair, pair(libc::SOCK_STREAM))
            .call(libc::SYS_socket, args![libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0])
            .inside(&["--no-settings", "--unix-sockets", "listed", "--seccomp", profile]);
        told.refused_all(0..3, &[libc::EPERM]).ok_all(3..5);
    }
}

/// What the guard gives to whoever asks for a pair of datagram sockets cannot be sent nor connected elsewhere, by whatever call.
#[test]
#[kennel_claim::claim("processes/listed-sockets-only")]
fn a_pair_of_datagram_sockets_is_one_that_stays_a_pair() {
    let scratch = Scratch::new();
    let path = scratch.join("daemon");
    let daemon = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    daemon.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut address = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
    address.extend_from_slice(path.as_os_str().as_encoded_bytes());
    address.push(0);
    let length = address.len();
    for profile in ["default", "permissive", "none", "strict"] {
        for sockets in ["none", "listed"] {
            if (profile, sockets) == ("none", "none") {
                // Nothing is filtered there.
                continue;
            }
            for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW | libc::SOCK_CLOEXEC] {
                let told = Script::new()
                    .call(libc::SYS_socketpair, args![libc::AF_UNIX, kind, 0, Arg::Zeros(8)])
                    .call(libc::SYS_sendto, args![3, "hello", 5, 0, address.clone(), length])
                    .call(libc::SYS_connect, args![3, address.clone(), length])
                    .call(libc::SYS_sendto, args![3, "hello", 5, 0, 0, 0])
                    .call(libc::SYS_recvfrom, args![4, Arg::Zeros(16), 16, libc::MSG_DONTWAIT, 0, 0])
                    .call(libc::SYS_socketpair, args![libc::AF_INET, kind, 0, Arg::Zeros(8)])
                    .call(libc::SYS_socketpair, args![libc::AF_UNIX, kind, 0, 8])
                    .call(libc::SYS_socketpair, args![libc::AF_UNIX, kind | 0x100, 0, Arg::Zeros(8)])
                    .inside(&["--no-settings", "--unix-sockets", sockets, "--seccomp", profile]);
                assert!(
                    daemon.recv(&mut [0; 16]).is_err(),
                    "{profile} {sockets}: the host's socket was reached"
                );
                told.ok(0).ok(3).ok(4);
                assert_ne!(told.errno(2), 0, "{profile} {sockets}: connected: {told:?}");
                told.refused(5, &[libc::EOPNOTSUPP]).refused(6, &[libc::EFAULT]).refused(7, &[libc::EINVAL]);
            }
        }
    }
}

/// The role: one thread connects without end while another flips the path between the two, and a third puts other
/// sockets under the descriptor's number. Prints how often it connected.
pub fn flip(words: &[OsString]) -> i32 {
    let [listed, other] = [&words[0], &words[1]].map(|path| {
        let mut address = (libc::AF_UNIX as u16).to_ne_bytes().to_vec();
        address.extend_from_slice(path.as_encoded_bytes());
        address.push(0);
        address
    });
    assert_eq!(listed.len(), other.len(), "the two differ in one letter");
    let letter = listed.iter().zip(&other).position(|(a, b)| a != b).expect("they differ");
    let (length, bytes) = (listed.len() as u32, [listed[letter], other[letter]]);
    let address = listed.leak().as_mut_ptr() as usize;
    std::thread::spawn(move || {
        loop {
            for byte in bytes {
                // SAFETY: within the address, which lives for ever. Others read it meanwhile, and that is the point.
                unsafe { std::ptr::write_volatile((address + letter) as *mut u8, byte) };
                std::hint::spin_loop();
            }
        }
    });
    let number = 100;
    std::thread::spawn(move || {
        loop {
            // SAFETY: plain calls on descriptors of this thread's own, and a number that only this test uses.
            unsafe {
                let inet = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
                libc::dup2(inet, number);
                libc::close(inet);
                let unix = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
                libc::dup2(unix, number);
                libc::close(unix);
            }
        }
    });
    let began = std::time::Instant::now();
    let (mut tried, mut connected) = (0u32, 0u32);
    while began.elapsed() < Duration::from_secs(3) {
        for fd in [number, -1] {
            // SAFETY: the address lives for ever.
            unsafe {
                let own = if fd < 0 { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) } else { fd };
                let returned = libc::connect(own, address as *const libc::sockaddr, length);
                tried += 1;
                connected += u32::from(returned == 0);
                if fd < 0 {
                    libc::close(own);
                }
            }
        }
    }
    println!("{tried} {connected}");
    0
}

#[test]
#[kennel_claim::claim("processes/listed-sockets-only")]
fn no_race_leads_to_a_socket_that_is_not_listed() {
    let scratch = Scratch::new();
    let (listed, other) = (Daemon::at(scratch.join("a")), Daemon::at(scratch.join("b")));
    let flags = ["--no-settings", "--allow-unix-socket", &text(&listed.path)];
    let words = [listed.path.as_os_str(), other.path.as_os_str()];
    let told = ran_within(Duration::from_secs(60), &mut probe_inside("flip-address", &flags, &words)).ok();
    println!("tried and connected: {}; reached the other: {}", told.stdout.trim(), other.greeted());
    assert_eq!(other.greeted(), 0);
    assert!(listed.greeted() > 0, "nothing connected, so nothing was tried: {told:?}");
    // Where all are allowed the other is reached soon.
    let all = ["--no-settings", "--unix-sockets", "all"];
    ran_within(Duration::from_secs(60), &mut probe_inside("flip-address", &all, &words)).ok();
    assert!(other.greeted() > 0);
}

/// A netlink socket asks for a capability when it is connected, which the sandbox does not have and the guard may.
#[test]
fn the_guard_lends_its_powers_to_no_socket_of_another_family() {
    let mut kernel = (libc::AF_NETLINK as u16).to_ne_bytes().to_vec();
    kernel.extend_from_slice(&[0, 0]);
    kernel.extend_from_slice(&1u32.to_ne_bytes());
    kernel.extend_from_slice(&1u32.to_ne_bytes());
    let netlink = args![libc::AF_NETLINK, libc::SOCK_RAW, 0];
    let script = Script::new()
        .call(libc::SYS_socket, netlink)
        .call(libc::SYS_connect, args![Arg::Answer(0), kernel.clone(), kernel.len()]);
    script.inside(&["--no-settings", "--unix-sockets", "listed"]).ok(0).refused(1, &[libc::EACCES]);
    script.inside(&["--no-settings"]).ok(0).refused(1, &[libc::EPERM]);
}

/// The role: what connections of other kinds do under a guard that makes them on a program's behalf.
pub fn other_families(words: &[OsString]) -> i32 {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback is up");
    let address = listener.local_addr().unwrap();
    let mut stream = TcpStream::connect(address).expect("a listener of our own");
    stream.write_all(b"x").unwrap();
    let flags = rustix::fs::fcntl_getfl(&stream).unwrap();
    println!("blocking: {}", !flags.contains(rustix::fs::OFlags::NONBLOCK));
    let refused = TcpStream::connect("127.0.0.1:9").unwrap_err();
    println!("refused: {:?}", refused.kind());
    println!("with a timeout: {}", TcpStream::connect_timeout(&address, Duration::from_secs(5)).is_ok());
    let datagram = UdpSocket::bind("127.0.0.1:0").unwrap();
    println!("udp: {}", datagram.connect(address).is_ok());
    let threads: Vec<_> =
        (0..16).map(|_| std::thread::spawn(move || TcpStream::connect(address).is_ok())).collect();
    println!("at once: {}", threads.into_iter().filter(|_| listener.accept().is_ok()).count());
    // A listener whose queue is full makes a connect wait, and only that one.
    let path = Path::new(&words[0]);
    let slow = UnixListener::bind(path).unwrap();
    // SAFETY: a plain call that shortens the queue.
    unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&slow), 0) };
    let first = UnixStream::connect(path).unwrap();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let path = path.to_path_buf();
            std::thread::spawn(move || UnixStream::connect(path).is_ok())
        })
        .collect();
    std::thread::sleep(Duration::from_millis(100));
    println!("others go on: {}", TcpStream::connect(address).is_ok());
    let accepted: Vec<_> = (0..4).map(|_| slow.accept().unwrap()).collect();
    println!(
        "waited: {}",
        waiting.into_iter().filter_map(|thread| thread.join().ok()).filter(|ok| *ok).count()
    );
    drop((first, accepted));
    0
}

#[test]
fn connections_of_all_kinds_work_as_without_a_guard() {
    let scratch = Scratch::new();
    let expected = "blocking: true\nrefused: ConnectionRefused\nwith a timeout: true\nudp: true\nat once: 16\n\
                    others go on: true\nwaited: 3\n";
    for (number, mode) in ["listed", "all"].iter().enumerate() {
        // In the sandbox's own /tmp, for what is listed is the host's.
        let path = format!("/tmp/slow{number}");
        let flags = ["--no-settings", "--unix-sockets", mode];
        let mut command = probe_inside("other-families", &flags, &[&path]);
        let told = ran_within(Duration::from_secs(60), &mut command).ok();
        assert_eq!(told.stdout, expected, "{mode}: {}", told.stderr);
    }
    drop(scratch);
}

#[test]
fn a_program_killed_while_it_waits_for_its_peer_holds_nothing_up() {
    let scratch = Scratch::new();
    let path = scratch.join("full");
    let listener = UnixListener::bind(&path).unwrap();
    // SAFETY: a plain call that shortens the queue.
    unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 0) };
    let _first = UnixStream::connect(&path).unwrap();
    let me = text(kennel_tests::probe::executable());
    let script = format!(
        "export KENNEL_TEST_ROLE=connect; {me} {path} & sleep 0.3; kill -9 $!; wait $!; {me} {path} & sleep 0.3; exit 7",
        path = text(&path)
    );
    let mut command = kennel_tests::kennel(["run", "--no-settings", "--allow-unix-socket", &text(&path)]);
    ran_within(Duration::from_secs(30), command.args(["--", "sh", "-c", &script])).expect_code(7);
}

#[test]
fn a_listed_path_that_is_no_socket_is_an_error() {
    let scratch = Scratch::new();
    let file = text(&scratch.write("file", ""));
    let ran = run_sh(["--allow-unix-socket", &file], "true").expect_code(125);
    assert_eq!(
        ran.stderr,
        format!("kennel: resolving allow_unix_sockets {file} (--allow-unix-socket): {file}: not a socket\n")
    );
}

#[test]
fn a_daemon_sees_the_callers_own_user() {
    let scratch = Scratch::new();
    let path = scratch.join("who");
    let listener = UnixListener::bind(&path).unwrap();
    let asked = std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        rustix::net::sockopt::socket_peercred(&client).unwrap().uid
    });
    connecting(&["--allow-unix-socket", &text(&path), "--user", "root"], &[&path]).ok();
    assert_eq!(asked.join().unwrap(), rustix::process::geteuid());
    assert_eq!(rustix::process::geteuid().is_root(), am_root());
}

#[test]
fn a_filtered_network_and_listed_sockets_go_together() {
    let scratch = Scratch::new();
    let daemon = Daemon::at(scratch.join("listed"));
    let flags = ["--allow-domain", "example.com", "--allow-unix-socket", &text(&daemon.path)];
    assert_eq!(connecting(&flags, &[&daemon.path]).ok().stdout, "hello\n");
    let script = "exec 3<>/dev/tcp/127.0.0.1/1; echo $?";
    let mut command = kennel_tests::kennel(["run", "--no-settings"]);
    let told = ran(command.args(flags).args(["--", "bash", "-c", script]));
    assert!(told.stderr.contains("refused") || told.code != 0, "{told:?}");
}

#[test]
fn the_library_lists_sockets_too() {
    let scratch = Scratch::new();
    let (listed, other) = (Daemon::at(scratch.join("listed")), Daemon::at(scratch.join("other")));
    let sandbox = kennel::Sandbox::builder()
        .allow_unix_socket(&listed.path)
        .env(kennel_tests::role::VARIABLE, "connect")
        .build()
        .expect("the configuration is sound");
    let me = text(kennel_tests::probe::executable());
    let result = sandbox.run(&me, &[&text(&listed.path), &text(&other.path)]).expect("it runs");
    assert_eq!(result.stdout, format!("hello\n{EACCES}\n"), "{}", result.stderr);
    assert_eq!((listed.greeted(), other.greeted(), result.violations.len()), (1, 0, 1));
}

/// The file systems of devices are in memory too, and a folder of devices shows inside when it is asked for.
#[test]
#[kennel_claim::claim("processes/host-sockets-are-known-by-device")]
fn a_socket_among_the_hosts_devices_is_no_socket_of_the_sandboxes_own() {
    if !am_root() {
        return kennel_tests::skipped("only root can make a folder in /dev");
    }
    let folder = PathBuf::from(format!("/dev/kennel-test-{}", std::process::id()));
    if std::fs::create_dir(&folder).is_err() {
        return kennel_tests::skipped("nothing can be made in /dev here");
    }
    let daemon = Daemon::at(folder.join("socket"));
    let ran = connecting(&["--unix-sockets", "listed", "--device", &text(&folder)], &[&daemon.path]);
    let all = connecting(&["--unix-sockets", "all", "--device", &text(&folder)], &[&daemon.path]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(ran.ok().stdout, format!("{EACCES}\n"));
    assert_eq!(all.ok().stdout, "hello\n", "with all of them allowed it can be reached");
    assert_eq!(daemon.greeted(), 1);
}
