//! Unix sockets that the sandbox itself listens on, in folders of the host's: those it can connect to, and no trick makes
//! one of a daemon's out of them.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use kennel_tests::probe::probe_inside;
use kennel_tests::{Ran, Scratch, kennel, program, ran, ran_within, skipped, text};

use crate::guard::sockets::{Daemon, EACCES};

/// The role: listens at the first path, then does as each further word says, and prints what comes of every connect.
pub fn listen(words: &[OsString]) -> i32 {
    let path = Path::new(&words[0]);
    let mut listener = Some(UnixListener::bind(path).expect("the folder can be written"));
    for word in &words[1..] {
        let (what, other) = word.to_str().and_then(|word| word.split_once('=')).expect("WHAT=PATH");
        let other = Path::new(other);
        match what {
            "connect" => println!("{}", heard(UnixStream::connect(other).map(drop))),
            "move" => std::fs::rename(other, path).expect("the folder can be written"),
            "move-away" => std::fs::rename(path, other).expect("the folder can be written"),
            "remove" => std::fs::remove_file(other).expect("the folder can be written"),
            "hard" => std::fs::hard_link(path, other).expect("the folder can be written"),
            "soft" => std::os::unix::fs::symlink(path, other).expect("the folder can be written"),
            "close" => listener = None,
            // Longer than whoever waits for a change looks away.
            "rest" => std::thread::sleep(Duration::from_millis(200)),
            "wait" => kennel_tests::eventually("the word", || other.exists().then_some(())),
            _ => return 2,
        }
    }
    drop(listener);
    0
}

/// The role: listens on standard input, a socket that was passed in, and connects to the path.
pub fn listen_on_what_was_passed(words: &[OsString]) -> i32 {
    // SAFETY: a plain call on an open descriptor.
    let listens = unsafe { libc::listen(std::io::stdin().as_raw_fd(), 5) };
    println!("{listens} {}", heard(UnixStream::connect(&words[0]).map(drop)));
    0
}

fn heard(connected: std::io::Result<()>) -> String {
    connected.map_or_else(|error| error.raw_os_error().unwrap_or(0).to_string(), |()| "ok".into())
}

fn listening(work: &Path, flags: &[&str], words: &[&str]) -> Ran {
    let work = text(work);
    let flags = [&["--no-settings", "--unix-sockets", "listed", "--allow-write", &work], flags].concat();
    let words: Vec<String> = words.iter().map(|word| word.replace("WORK", &work)).collect();
    ran_within(Duration::from_secs(60), &mut probe_inside("listen", &flags, &words))
}

#[test]
fn a_socket_that_the_sandbox_listens_on_can_be_connected_to_by_every_name() {
    let scratch = Scratch::new();
    let words = [
        "WORK/own",
        "connect=WORK/own",
        "hard=WORK/hard",
        "connect=WORK/hard",
        "soft=WORK/soft",
        "connect=WORK/soft",
        "move-away=WORK/elsewhere",
        "connect=WORK/elsewhere",
        "close=",
        "connect=WORK/elsewhere",
    ];
    for flags in [&[][..], &["--allow-domain", "example.com"]] {
        let work = scratch.dir("work");
        let told = listening(&work, flags, &words).ok();
        let refused = libc::ECONNREFUSED;
        assert_eq!(told.stdout, format!("ok\nok\nok\nok\n{refused}\n"), "{flags:?}: {}", told.stderr);
        std::fs::remove_dir_all(&work).unwrap();
    }
    // On the host's network nothing tells it from one of the host's.
    let told = listening(&scratch.dir("work"), &["--net", "host"], &words[..2]).ok();
    assert_eq!(told.stdout, format!("{EACCES}\n"));
}

#[test]
#[kennel_claim::claim("processes/own-sockets-are-own")]
fn a_daemons_socket_in_the_place_of_an_own_one_is_refused() {
    let scratch = Scratch::new();
    for trick in [
        &["WORK/own", "move=WORK/daemon", "connect=WORK/own"][..],
        &["WORK/own", "remove=WORK/own", "move=WORK/daemon", "connect=WORK/own"],
        &["WORK/own", "close=", "remove=WORK/own", "move=WORK/daemon", "connect=WORK/own"],
        &["WORK/own", "connect=WORK/daemon", "move=WORK/daemon", "connect=WORK/own"],
    ] {
        let work = scratch.dir("work");
        let daemon = Daemon::at(work.join("daemon"));
        let told = listening(&work, &[], trick).ok();
        assert!(told.stdout.lines().all(|line| line == EACCES), "{trick:?}: {}", told.stdout);
        assert_eq!(daemon.greeted(), 0, "{trick:?}");
        // What stands there now would answer.
        UnixStream::connect(work.join("own")).expect("the daemon still listens");
        std::fs::remove_dir_all(&work).unwrap();
    }
}

/// File systems give the number of a removed file to the next one.
#[test]
#[kennel_claim::claim("processes/own-sockets-are-own")]
fn a_daemons_socket_that_got_the_number_of_an_own_one_is_refused() {
    let scratch = Scratch::new();
    let work = scratch.dir("work");
    let host = work.clone();
    let daemons = std::thread::spawn(move || {
        kennel_tests::eventually("the own one", || host.join("own").exists().then_some(()));
        kennel_tests::eventually("its end", || (!host.join("own").exists()).then_some(()));
        let daemons: Vec<Daemon> = (0..16).map(|n| Daemon::at(host.join(format!("daemon{n}")))).collect();
        std::fs::write(host.join("there"), "").unwrap();
        daemons
    });
    let own = ["WORK/own", "connect=WORK/own", "rest=", "close=", "remove=WORK/own", "wait=WORK/there"];
    let mut words: Vec<String> = own.map(str::to_owned).to_vec();
    words.extend((0..16).map(|n| format!("connect=WORK/daemon{n}")));
    let told = listening(&work, &[], &words.iter().map(String::as_str).collect::<Vec<_>>()).ok();
    assert_eq!(told.stdout, format!("ok\n{}", format!("{EACCES}\n").repeat(16)), "{}", told.stderr);
    assert_eq!(daemons.join().unwrap().iter().map(Daemon::greeted).sum::<u64>(), 0);
}

#[test]
#[kennel_claim::claim("processes/own-sockets-are-own")]
fn a_daemons_socket_that_was_passed_in_does_not_become_an_own_one() {
    let scratch = Scratch::new();
    let path = scratch.join("daemon");
    let listener = UnixListener::bind(&path).unwrap();
    let work = text(scratch.path());
    let flags = ["--no-settings", "--unix-sockets", "listed", "--allow-write", &work];
    let mut command = probe_inside("listen-on-what-was-passed", &flags, &[&path]);
    let told = ran(command.stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)))).ok();
    assert_eq!(told.stdout, format!("0 {EACCES}\n"), "{}", told.stderr);
}

/// What programs do with a socket in the project.
#[test]
fn programs_with_a_socket_in_the_project_work() {
    let server = "const net = require('net'), s = net.createServer(c => c.end('hello'))
        s.listen('./x.sock', () => net.connect('./x.sock').on('data', d => console.log(d + '')).on('close', () => s.close()))";
    for (name, script, expected) in [
        ("node", format!("node -e \"{server}\""), "hello"),
        (
            "ssh-agent",
            "eval \"$(ssh-agent -a ./agent.sock)\"; ssh-add -l; kill $SSH_AGENT_PID".into(),
            "The agent has no identities.",
        ),
        (
            "tmux",
            "export TERM=xterm; tmux -S ./tmux.sock -f /dev/null new-session -d 'sleep 60'; tmux -S ./tmux.sock ls; tmux -S ./tmux.sock kill-server".into(),
            "1 windows",
        ),
        (
            "gpg-agent",
            "mkdir -m 700 g; export GNUPGHOME=$PWD/g; gpg-connect-agent /bye && echo connected; gpgconf --kill gpg-agent".into(),
            "connected",
        ),
    ] {
        if program(name).is_none() {
            skipped(&format!("{name} is not installed"));
            continue;
        }
        let scratch = Scratch::new();
        let top = text(scratch.path());
        let mut command = kennel(["run", "--no-settings", "--unix-sockets", "listed", "--allow-write", &top]);
        // Not the shell of the account, which for an ordinary user of a test machine may be one that lets nobody in.
        command.args(["--", "sh", "-c", &script]).current_dir(&top).env("HOME", &top).env("SHELL", "/bin/sh");
        command.env_remove("TMUX");
        let told = ran_within(Duration::from_secs(60), &mut command);
        assert!(told.stdout.contains(expected), "{name}: {}{}", told.stdout, told.stderr);
        assert!(!told.stderr.contains("kennel:"), "{name}: {}", told.stderr);
    }
}

/// The role: connects standard input, a socket that was passed in, to an abstract name; then a socket of its own to one
/// of its own.
pub fn connect_what_was_passed(words: &[OsString]) -> i32 {
    let name = words[0].to_str().expect("a name");
    println!("{}", heard(connect_abstract(std::io::stdin().as_raw_fd(), name)));
    let own = SocketAddr::from_abstract_name("kennel-test-own").expect("a name");
    let listener = UnixListener::bind_addr(&own);
    println!("{}", heard(UnixStream::connect_addr(&own).map(drop)));
    drop(listener);
    0
}

fn connect_abstract(socket: i32, name: &str) -> std::io::Result<()> {
    let mut address = vec![0u8; 2];
    address[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    address.push(0);
    address.extend(name.as_bytes());
    // SAFETY: the address is as long as it is said to be.
    match unsafe { libc::connect(socket, address.as_ptr().cast(), address.len() as u32) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// An abstract name belongs to the network that a socket was made in, whoever connects it.
#[test]
#[kennel_claim::claim("processes/no-abstract-names-by-passed-sockets")]
fn a_hosts_socket_that_was_passed_in_is_not_connected_to_the_hosts_abstract_names() {
    let name = format!("kennel-test-{}-abstract", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _daemon = UnixListener::bind_addr(&address).unwrap();
    let unconnected = || {
        // SAFETY: plain calls; the descriptor is fresh.
        unsafe {
            OwnedFd::from_raw_fd(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))
        }
    };
    assert!(connect_abstract(unconnected().as_raw_fd(), &name).is_ok(), "outside it is");
    for flags in [&[][..], &["--seccomp", "none"], &["--net", "host"]] {
        let flags = [&["--no-settings", "--unix-sockets", "listed"], flags].concat();
        let mut command = probe_inside("connect-what-was-passed", &flags, &[&name]);
        let told = ran(command.stdin(Stdio::from(unconnected()))).ok();
        let lines: Vec<&str> = told.stdout.lines().collect();
        assert_ne!(lines[0], "ok", "{flags:?}: {told:?}");
        // Its own names are its own, where the network is.
        assert!(lines[1] == "ok" || flags.contains(&"host"), "{flags:?}: {told:?}");
    }
}
