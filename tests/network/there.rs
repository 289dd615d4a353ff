//! The other side of the cable: servers that tell what they saw.
//!
//! Names are answered by a rule, so that each test can use names of its own: the last two labels say what kind of
//! name it is, whatever comes before them.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use kennel_tests::world::{self, DNS, HERE, LOG, METADATA, THERE, THERE_V6, ip};

/// Plain HTTP.
pub const HTTP: u16 = 80;
/// HTTP on a port that no program takes for HTTP.
pub const ODD_HTTP: u16 = 8123;
/// HTTPS, by Python.
pub const HTTPS: u16 = 443;
/// HTTP with WebSockets, by Python.
pub const WEBSOCKET: u16 = 8080;
/// Sends back what comes.
pub const ECHO: u16 = 7;
/// Speaks first, then echoes, as databases and mail servers do.
pub const GREETER: u16 = 5432;
/// Takes connections and says nothing.
pub const SILENT: u16 = 9;
/// Takes a line, and all that follows, and tells how many bytes these were together.
pub const SINK: u16 = 19;
/// A proxy for whoever comes, as careless people run them.
pub const OPEN_PROXY: u16 = 3128;
/// sshd.
pub const SSH: u16 = 22;
/// Logs packets.
pub const PACKETS: u16 = 4433;

type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, line: String) {
    log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

/// Starts the servers, with a program of Python for HTTPS and more.
pub fn serve(folder: &Path, ipv6: bool, program: &str) -> io::Result<()> {
    let mut addresses = vec![(THERE, 24), (DNS, 32), (METADATA[0], 32), (METADATA[1], 32)];
    if ipv6 {
        addresses.extend([(THERE_V6, 64), (METADATA[2], 128)]);
    }
    world::plug_in(&addresses)?;
    let log = Log::default();
    let listen = |port| {
        let listener = TcpListener::bind(if ipv6 {
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)
        } else {
            ([0, 0, 0, 0], port).into()
        })?;
        // A queue of 128 is short for the crowds that come, and what does not fit may be reset.
        // SAFETY: a plain call on a socket that listens already.
        unsafe { libc::listen(listener.as_raw_fd(), 4096) };
        Ok::<_, io::Error>(listener)
    };
    for port in [HTTP, ODD_HTTP, OPEN_PROXY] {
        each(listen(port)?, &log, http);
    }
    each(listen(ECHO)?, &log, |mut stream, _, _| {
        let mut reader = stream.try_clone()?;
        io::copy(&mut reader, &mut stream).map(drop)
    });
    each(listen(GREETER)?, &log, |mut stream, _, _| {
        stream.write_all(b"greetings\n")?;
        let mut reader = stream.try_clone()?;
        io::copy(&mut reader, &mut stream).map(drop)
    });
    each(listen(SILENT)?, &log, |mut stream, _, _| io::copy(&mut stream, &mut io::sink()).map(drop));
    each(listen(SINK)?, &log, |stream, _, log| {
        let mut reader = BufReader::new(stream);
        let mut name = String::new();
        let mut count = reader.by_ref().take(256).read_line(&mut name)? as u64;
        let mut buffer = [0; 16 << 10];
        // Also what came before a reset is told.
        while let Ok(more @ 1..) = reader.read(&mut buffer) {
            count += more as u64;
        }
        note(log, format!("sank {} {count}", name.trim()));
        Ok(())
    });
    let telling = Arc::clone(&log);
    each(listen(LOG)?, &Log::default(), move |mut stream, _, _| {
        let lines = telling.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
        stream.write_all(lines.as_bytes())
    });
    let of_names = Arc::clone(&log);
    world::names::serve(move |name, kind| {
        note(&of_names, format!("dns {name} {kind}"));
        lookup(name)
    })?;
    packets(UdpSocket::bind(if ipv6 { "[::]:4433" } else { "0.0.0.0:4433" })?, &log);
    python(folder, program, &[listen(HTTPS)?, listen(WEBSOCKET)?])?;
    ssh(folder, listen(SSH)?, &log)
}

/// A thread for each client.
fn each(
    listener: TcpListener,
    log: &Log,
    serve: impl Fn(TcpStream, SocketAddr, &Log) -> io::Result<()> + Send + Sync + 'static,
) {
    let (log, serve) = (Arc::clone(log), Arc::new(serve));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (log, serve) = (Arc::clone(&log), Arc::clone(&serve));
            let work = move || {
                let Ok(local) = stream.local_addr() else { return };
                let local = SocketAddr::new(local.ip().to_canonical(), local.port());
                note(&log, format!("tcp {local}"));
                let _ = serve(stream, local, &log);
            };
            let _ = std::thread::Builder::new().stack_size(256 << 10).spawn(work);
        }
    });
}

/// A small HTTP server, which believes what it is told: also absolute targets and `CONNECT`, as an open proxy does.
fn http(stream: TcpStream, local: SocketAddr, log: &Log) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.by_ref().take(256 << 10).read_line(&mut head)? == 0 || head.len() > 256 << 10 {
                return Ok(());
            }
        }
        let field = |name: &str| {
            let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name))?;
            Some(line[name.len()..].trim().to_owned())
        };
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let host = field("host:").unwrap_or_default();
        note(log, format!("http {local} {method} {target} for {host}"));
        let length = field("content-length:").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut body = vec![0; usize::min(length, 1 << 20)];
        reader.read_exact(&mut body)?;
        let path = target
            .strip_prefix("http://")
            .and_then(|rest| rest.find('/').map(|at| &rest[at..]))
            .unwrap_or(target);
        let answer = match path {
            "/hello" => format!("hello from {host}\n").into_bytes(),
            "/head" => head.clone().into_bytes(),
            "/never" => return io::copy(&mut reader, &mut io::sink()).map(drop),
            "/echo" => body,
            "/moved" => {
                writer.write_all(b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere.test/hello\r\nContent-Length: 0\r\n\r\n")?;
                continue;
            }
            "/chunked" => {
                writer
                    .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")?;
                writer.write_all(b"5\r\nhello\r\n7\r\n chunks\r\n0\r\nX-Sum: 12\r\n\r\n")?;
                continue;
            }
            _ if method == "CONNECT" => {
                writer.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
                continue;
            }
            path => match path.strip_prefix("/big/").and_then(|text| text.parse().ok()) {
                Some(size) => vec![b'x'; size],
                None => b"hello from somewhere\n".to_vec(),
            },
        };
        let close = head.split(' ').nth(2).is_some_and(|version| version.starts_with("HTTP/1.0"));
        write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len())?;
        writer.write_all(&answer)?;
        if close {
            return Ok(());
        }
    }
}

fn packets(socket: UdpSocket, log: &Log) {
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        let mut message = [0; 2048];
        while let Ok((length, client)) = socket.recv_from(&mut message) {
            note(&log, format!("udp {PACKETS} {}", String::from_utf8_lossy(&message[..length])));
            let _ = socket.send_to(b"answered", client);
        }
    });
}

/// The addresses of a name, and whether the server answers at all.
fn lookup(name: &str) -> Option<Vec<IpAddr>> {
    let kind = name.rsplit('.').nth(1).unwrap_or_default();
    let texts: &[&str] = match kind {
        "web" | "in-both" => &[THERE, THERE_V6],
        "four" => &[THERE],
        "six" => &[THERE_V6],
        "metadata" => &[METADATA[0]],
        "azure" => &[METADATA[1]],
        "ec2" => &[METADATA[2]],
        "loop" => &["127.0.0.1"],
        "loopsix" => &["::1"],
        "mapped" => &["::ffff:127.0.0.1"],
        "translated" => &["64:ff9b::a9fe:a9fe"],
        "tunnelled" => &["2002:7f00:1::1"],
        "unspecified" => &["0.0.0.0"],
        "multicast" => &["224.0.0.1"],
        "own" => &[HERE],
        "nowhere" => &[world::NOWHERE],
        "mixed" => &["127.0.0.1", THERE],
        "hanging" => return None,
        _ => &[],
    };
    Some(texts.iter().map(|text| ip(text)).collect())
}

/// HTTPS, git's files and WebSockets; what exactly, the program says.
fn python(folder: &Path, program: &str, listeners: &[TcpListener; 2]) -> io::Result<()> {
    let Some(python) = world::python() else { return Ok(()) };
    std::fs::create_dir_all(folder.join("www"))?;
    let script = folder.join("servers.py");
    std::fs::write(&script, program)?;
    let log = File::create(folder.join("servers.log"))?;
    let mut command = Command::new(python);
    command.arg(script).arg(folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let raw = listeners.each_ref().map(AsRawFd::as_raw_fd);
    // SAFETY: only dup2, to numbers that the new program is told.
    unsafe {
        command.pre_exec(move || {
            for (fd, number) in raw.into_iter().zip([103, 104]) {
                if libc::dup2(fd, number) < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    command.spawn().map(drop)
}

/// An sshd that is not root's lets in nobody but its own user, by the shell that the user has, and only one whose password
/// it can look up. `nobody` has neither shell nor home, and cannot read passwords.
fn give_a_shell(folder: &Path) -> io::Result<()> {
    // SAFETY: a plain call.
    let user = unsafe { libc::geteuid() };
    let users = std::fs::read_to_string("/etc/passwd")?;
    let of_user = |line: &&str| line.split(':').nth(2) == Some(&user.to_string());
    let Some(name) = users.lines().find(of_user).and_then(|line| line.split(':').next()) else {
        return Ok(());
    };
    if user == 0 {
        return Ok(());
    }
    let users = users.replace("/usr/sbin/nologin", "/bin/sh").replace(":/nonexistent:", ":/:");
    for (file, text) in [("passwd", users.clone()), ("shadow", format!("{name}:*:20000:0:99999:7:::\n"))] {
        std::fs::write(folder.join(file), text)?;
        let own = CString::new(folder.join(file).display().to_string())?;
        let target = CString::new(format!("/etc/{file}"))?;
        let none = std::ptr::null();
        // SAFETY: strings and nothing else. This mount namespace is of nobody else's.
        let mounted =
            unsafe { libc::mount(own.as_ptr(), target.as_ptr(), none, libc::MS_BIND, std::ptr::null()) };
        if mounted != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// An sshd for each client, with the connection as its standard streams.
fn ssh(folder: &Path, listener: TcpListener, log: &Log) -> io::Result<()> {
    let sshd = Path::new("/usr/sbin/sshd");
    if !sshd.is_file() {
        return Ok(());
    }
    let script = "ssh-keygen -q -t ed25519 -N '' -f host_key && ssh-keygen -q -t ed25519 -N '' -f user_key &&
                  cp user_key.pub authorized_keys";
    let made = world::quietly(Command::new("sh").args(["-c", script]).current_dir(folder)).status()?;
    if !made.success() {
        return Ok(());
    }
    let at = |name: &str| folder.join(name).display().to_string();
    let config = format!(
        "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\n",
        at("host_key"),
        at("authorized_keys")
    );
    std::fs::write(folder.join("sshd_config"), config)?;
    // Its separated half wants an empty folder there; this mount namespace is of nobody else's.
    // SAFETY: strings and nothing else.
    unsafe {
        libc::mount(c"run".as_ptr(), c"/run".as_ptr(), c"tmpfs".as_ptr(), 0, std::ptr::null());
    }
    let _ = std::fs::create_dir_all("/run/sshd");
    give_a_shell(folder)?;
    let config = folder.join("sshd_config");
    let words = folder.join("sshd.log");
    each(listener, log, move |stream, _, _| {
        let errors = File::options().create(true).append(true).open(&words)?;
        let output = OwnedFd::from(stream.try_clone()?);
        let mut command = Command::new("/usr/sbin/sshd");
        command.args(["-i", "-e", "-f"]).arg(&config);
        command.stdin(OwnedFd::from(stream)).stdout(output).stderr(errors);
        let mut child = command.spawn()?;
        drop(command);
        child.wait().map(drop)
    });
    Ok(())
}
