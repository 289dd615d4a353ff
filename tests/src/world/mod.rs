//! The world outside the sandboxes: two network namespaces and a cable between them.
//!
//! In one of them, *here*, the tests and kennel run; in the other, *there*, are the servers, on addresses that are
//! set aside for documentation, and on some that a sandbox must never reach. Here has no other way out, and its
//! /etc/resolv.conf names the name server over there, so whatever leaves a sandbox by whatever way is seen there.
//!
//! All of it is made before `main` ([`stand`]), while this process has one thread: as root by plain namespaces, as an ordinary
//! user inside a user namespace that maps the user to itself. It ends with this process.

pub mod names;
pub mod wire;

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{FromRawFd, IntoRawFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use crate::{program, skipped};

/// This side of the cable.
pub const HERE: &str = "203.0.113.1";
/// This side of the cable.
pub const HERE_V6: &str = "2001:db8::1";
/// The servers.
pub const THERE: &str = "203.0.113.10";
/// The servers.
pub const THERE_V6: &str = "2001:db8::10";
/// The name server.
pub const DNS: &str = "203.0.113.53";
/// Packets to this network arrive over there and are dropped: a connection to it never comes about.
pub const NOWHERE: &str = "198.51.100.7";
/// Where clouds keep the credentials of their machines. Over there, a server answers at each of these.
pub const METADATA: [&str; 3] = ["169.254.169.254", "168.63.129.16", "fd00:ec2::254"];

/// Tells what the servers have seen.
pub const LOG: u16 = 9999;

/// Starts the servers of the other side, with the world's folder and whether there is IPv6.
pub type Serve = fn(&Path, bool) -> io::Result<()>;

static WORLD: OnceLock<Result<World, String>> = OnceLock::new();

/// The world, once it stands.
#[derive(Debug)]
pub struct World {
    folder: PathBuf,
    /// Whether this kernel has IPv6.
    pub ipv6: bool,
}

/// Makes the world, with these servers on the other side of the cable. A suite that wants one is entered by this, since
/// it takes a process of one thread.
pub fn stand(serve: Serve) {
    let made = World::make(serve).map_err(|error| format!("a network of the test's own: {error}"));
    let _ = WORLD.set(made);
}

/// The world. Where it cannot be made, says so; the caller returns.
pub fn world() -> Option<&'static World> {
    match WORLD.get() {
        Some(Ok(world)) => Some(world),
        Some(Err(reason)) => {
            skipped(reason);
            None
        }
        None => unreachable!("made before main"),
    }
}

/// Names a step for the error of it.
fn doing<T>(what: &str, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{what}: {error}")))
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl World {
    fn make(serve: Serve) -> io::Result<World> {
        let folder = PathBuf::from(format!("/var/tmp/kennel-test-{}-world", std::process::id()));
        doing("its folder", fs::create_dir_all(&folder))?;
        let world = World { ipv6: Path::new("/proc/sys/net/ipv6").exists(), folder };
        extern "C" fn remove() {
            if let Some(Ok(world)) = WORLD.get() {
                let _ = fs::remove_dir_all(&world.folder);
            }
        }
        // SAFETY: registers a plain function of this program.
        unsafe { libc::atexit(remove) };
        world.leave_the_host()?;
        world.arrange_names()?;
        world.make_certificates()?;
        world.start_there(serve)?;
        Ok(world)
    }

    /// Namespaces of this process's own.
    fn leave_the_host(&self) -> io::Result<()> {
        let wanted = libc::CLONE_NEWNET | libc::CLONE_NEWNS;
        // SAFETY: plain calls in a process of one thread.
        unsafe {
            let (user, group) = (libc::geteuid(), libc::getegid());
            if libc::unshare(wanted) != 0 {
                doing("unshare", checked(libc::unshare(wanted | libc::CLONE_NEWUSER)))?;
                fs::write("/proc/self/setgroups", "deny")?;
                fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
                fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
            }
            // Servers of the tests' own have the ports that people know, also as an ordinary user.
            let _ = fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let none = std::ptr::null();
            doing("mount", checked(libc::mount(none, c"/".as_ptr(), none, private, none.cast())))
        }
    }

    /// What kennel's own look-ups go by.
    fn arrange_names(&self) -> io::Result<()> {
        let files = [
            ("/etc/resolv.conf", format!("nameserver {DNS}\noptions timeout:2 attempts:1\n")),
            ("/etc/hosts", format!("127.0.0.1 localhost\n{THERE} in-hosts-file.test\n")),
        ];
        for (path, text) in files {
            let own = self.folder.join(Path::new(path).file_name().unwrap_or_default());
            fs::write(&own, text)?;
            let source = CString::new(own.display().to_string())?;
            let target = CString::new(path)?;
            let none = std::ptr::null();
            // SAFETY: strings that end in NUL, and nothing else.
            let mounted = unsafe {
                libc::mount(source.as_ptr(), target.as_ptr(), none, libc::MS_BIND, std::ptr::null())
            };
            doing(path, checked(mounted))?;
        }
        Ok(())
    }

    /// A certificate authority, and a certificate by it for every name below web.test.
    fn make_certificates(&self) -> io::Result<()> {
        if program("openssl").is_none() {
            return Ok(());
        }
        let script = "exec 2> openssl.log
            key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2'
            openssl req -x509 $key -subj /CN=test-ca -keyout ca.key -out ca.pem &&
            openssl req -new $key -subj /CN=web.test -keyout server.key -out server.csr &&
            echo 'subjectAltName=DNS:web.test,DNS:*.web.test' > server.ext &&
            openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
                -extfile server.ext -out server.pem && chmod a+r server.key";
        let made = Command::new("sh").args(["-c", script]).current_dir(&self.folder).status()?;
        let log = || fs::read_to_string(self.folder.join("openssl.log")).unwrap_or_default();
        if made.success() { Ok(()) } else { Err(io::Error::other(format!("certificates: {}", log()))) }
    }

    fn start_there(&self, serve: Serve) -> io::Result<()> {
        let (mut is_ready, ready) = pipe()?;
        let (plugged, mut plug) = pipe()?;
        let flags = libc::CLONE_NEWNET | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::SIGCHLD;
        // SAFETY: a fork with namespaces, in a process of one thread. In the child, which is PID 1 of its own, the
        // other ends of the pipes are not used.
        let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
        match i32::try_from(pid).unwrap_or(-1) {
            0 => live(&self.folder, self.ipv6, serve, plugged, ready),
            pid @ 1.. => {
                drop((plugged, ready));
                doing("veth", wire::cable(c"here", c"there", pid))?;
                let cable = wire::index(c"here")?;
                wire::up(wire::index(c"lo")?)?;
                wire::up(cable)?;
                wire::address(cable, ip(HERE), 24)?;
                if self.ipv6 {
                    doing("IPv6", wire::address(cable, ip(HERE_V6), 64))?;
                }
                for address in METADATA.map(ip).into_iter().filter(|one| one.is_ipv4() || self.ipv6) {
                    wire::route(address, if address.is_ipv4() { 32 } else { 128 }, cable, None)?;
                }
                wire::route(ip("198.51.100.0"), 24, cable, Some(ip(THERE)))?;
                plug.write_all(b"!")?;
                doing("the servers", is_ready.read_exact(&mut [0]))
            }
            _ => doing("clone", Err(io::Error::last_os_error())),
        }
    }

    /// A file of the world's.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What the servers have seen so far.
    pub fn log(&self) -> Vec<String> {
        let mut text = String::new();
        let mut stream = TcpStream::connect((ip(THERE), LOG)).expect("the other side is there");
        stream.read_to_string(&mut text).expect("the log is text");
        text.lines().map(str::to_owned).collect()
    }

    /// What the servers have seen that holds this text.
    pub fn seen(&self, text: &str) -> Vec<String> {
        self.log().into_iter().filter(|line| line.contains(text)).collect()
    }

    /// Fails the test if anything has left for a name, address or whatever is told by this text.
    #[track_caller]
    pub fn saw_nothing_of(&self, text: &str) {
        assert_eq!(self.seen(text), Vec::<String>::new(), "this left the host");
    }

    /// The authority, or a word that HTTPS cannot be tried here.
    pub fn https(&self) -> Option<PathBuf> {
        let authority = self.folder.join("ca.pem");
        if !authority.is_file() || python().is_none() {
            skipped("HTTPS needs openssl and python3 here");
            return None;
        }
        Some(authority)
    }
}

/// The other side's first process, which lives until its parent is gone.
fn live(folder: &Path, ipv6: bool, serve: Serve, mut plugged: File, mut ready: File) -> ! {
    // SAFETY: sets flags of this process.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    let result = plugged.read_exact(&mut [0]).and_then(|()| serve(folder, ipv6));
    if let Err(error) = result {
        eprintln!("the other side of the cable: {error}");
        std::process::exit(1);
    }
    let _ = ready.write_all(b"!");
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// Brings the other side's end of the cable up, with these addresses.
///
/// # Errors
/// What the kernel says.
pub fn plug_in(addresses: &[(&str, u8)]) -> io::Result<()> {
    let cable = wire::index(c"there")?;
    wire::up(wire::index(c"lo")?)?;
    wire::up(cable)?;
    addresses.iter().try_for_each(|(address, prefix)| wire::address(cable, ip(address), *prefix))
}

fn pipe() -> io::Result<(File, File)> {
    let (reader, writer) = io::pipe()?;
    // SAFETY: the numbers were just given up by their owners.
    Ok(unsafe { (File::from_raw_fd(into_raw(reader)), File::from_raw_fd(into_raw(writer))) })
}

fn into_raw(end: impl Into<std::os::fd::OwnedFd>) -> i32 {
    end.into().into_raw_fd()
}

/// An address of this file's constants.
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A Python that every user can run.
pub fn python() -> Option<PathBuf> {
    Some(PathBuf::from("/usr/bin/python3")).filter(|path| path.is_file()).or_else(|| program("python3"))
}

/// Whether a plain connection from here, outside every sandbox, comes about and is answered.
pub fn answers_outside(address: &str, port: u16) -> bool {
    let place = SocketAddr::new(ip(address), port);
    let Ok(mut stream) = TcpStream::connect_timeout(&place, Duration::from_secs(5)) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let mut answer = String::new();
    let asked = stream.write_all(b"GET /hello HTTP/1.0\r\nHost: outside.test\r\n\r\n");
    asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.contains("hello from outside.test")
}

/// A child of this process with nothing to read.
pub fn quietly(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}
