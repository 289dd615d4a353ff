//! Protocols beside TLS and HTTP: real servers and their own clients, on the ports that the gate knows them by, on others, and
//! what is refused.

use std::fs::File;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kennel_tests::{Scratch, am_root, eventually, program, ran, skipped};

use crate::network::there::{ECHO, ODD_HTTP};
use crate::network::{BOTH, Told, Way, allowed_sh, allowing, by, python_inside, told};
use kennel_tests::world::world;

/// The servers of this file are on this host's loopback.
const HOST: &str = "host.kennel.internal";

/// A server that ends with the value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server and waits until it listens.
fn serving(scratch: &Scratch, command: &mut Command, port: u16) -> Server {
    let log = File::create(scratch.join("server.log")).expect("a scratch folder is writable");
    let errors = log.try_clone().expect("a file");
    let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
    let mut server = Server(child.expect("the server can be started"));
    let said = || std::fs::read_to_string(scratch.join("server.log")).unwrap_or_default();
    eventually(&format!("{command:?} listens"), || {
        assert!(matches!(server.0.try_wait(), Ok(None)), "it ended: {}", said());
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    server
}

/// Whether all of these are installed; says so where one is not.
fn installed(names: &[&str]) -> bool {
    let missing =
        names.iter().find(|name| program(name).is_none() && !Path::new("/usr/sbin").join(name).is_file());
    if let Some(name) = missing {
        skipped(&format!("{name} is not installed"));
    }
    missing.is_none()
}

/// A command as somebody who is not root: some servers insist on that.
fn unprivileged(name: &str) -> Command {
    if !am_root() {
        return Command::new(name);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", name]);
    command
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).expect("its own folder");
}

/// A script of a shell's without proxy variables, with these rules.
fn plainly(rules: &[&str], script: &str) -> Told {
    told(&allowing(rules), &by(Way::Plain, &["sh", "-c", script]))
}

fn at(port: u16) -> String {
    format!("{HOST}:{port}")
}

#[test]
fn redis_on_its_own_port_and_where_a_rule_names_it() {
    if world().is_none() || !installed(&["redis-server", "redis-cli"]) {
        return;
    }
    let scratch = Scratch::new();
    for (port, rule) in
        [(6379, at(6379)), (6400, format!("redis://{}", at(6400))), (6400, format!("tcp://{}", at(6400)))]
    {
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string(), "--dir"])
            .arg(scratch.path());
        let server = serving(&scratch, &mut command, port);
        let script =
            format!("redis-cli -h {HOST} -p {port} set kept value; redis-cli -h {HOST} -p {port} get kept");
        let told = plainly(&[&rule], &script).ok();
        assert_eq!(told.ran.stdout, "OK\nvalue\n", "{rule}: {told:#?}");
        assert!(told.passed(HOST, "direct"));
        drop(server);
    }
    let server = serving(
        &scratch,
        Command::new("redis-server").args(["--bind", "127.0.0.1", "--save", "", "--port", "6400"]),
        6400,
    );
    let told = plainly(&[&at(6400)], &format!("redis-cli -h {HOST} -p 6400 ping"));
    assert!(!told.ran.stdout.contains("PONG"), "{told:#?}");
    assert!(told.reason(HOST).contains("not known on this port"), "{told:#?}");
    assert!(told.ran.stderr.contains(&format!("--allow-domain tcp://{HOST}:6400")), "{told:#?}");
    drop(server);
}

#[test]
#[kennel_claim::claim("network/other-protocols-stay-at-their-host")]
fn postgres_in_plain_and_over_tls_for_its_own_name() {
    let Some(world) = world().filter(|_| installed(&["initdb", "postgres", "psql"])) else { return };
    if world.https().is_none() {
        return;
    }
    let scratch = Scratch::new();
    open_to_all(scratch.path());
    let data = scratch.join("data");
    let mut make = unprivileged("initdb");
    make.args(["--auth=trust", "--username=me", "--no-sync", "-D"]).arg(&data).current_dir(scratch.path());
    ran(make.env("LC_ALL", "C")).ok();
    // It wants a key that nobody else can read.
    let copy = format!(
        "umask 077; cp '{0}/server.pem' '{0}/server.key' '{1}'",
        world.file("").display(),
        data.display()
    );
    ran(unprivileged("sh").args(["-c", &copy])).ok();
    let mut command = unprivileged("postgres");
    command.arg("-D").arg(&data).current_dir(scratch.path()).env("LC_ALL", "C");
    for setting in [
        "ssl=on",
        "ssl_cert_file=server.pem",
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "fsync=off",
    ] {
        command.args(["-c", setting]);
    }
    let server = serving(&scratch, &mut command, 5432);
    for mode in ["disable", "require"] {
        let query = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
        let script = format!("psql 'host={HOST} user=me dbname=postgres sslmode={mode}' -Atc '{query}'");
        let told = plainly(&[&at(5432)], &script).ok();
        assert_eq!(told.ran.stdout, if mode == "require" { "t\n" } else { "f\n" }, "{told:#?}");
    }
    // The TLS inside is for this server too.
    let script = format!(
        "import socket, ssl
for name in ('{HOST}', 'evil.web.test'):
    s = socket.create_connection(('{HOST}', 5432), 20); s.sendall(bytes([0, 0, 0, 8, 4, 210, 22, 47]))
    assert s.recv(1) == b'S'
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    try: print(c.wrap_socket(s, server_hostname=name).version() is not None)
    except OSError as error: print('refused')"
    );
    let Some(told) = python_inside(Way::Plain, &[&at(5432)], &script) else { return };
    assert_eq!(told.ran.stdout, "True\nrefused\n", "{told:#?}");
    assert_eq!(told.reason(HOST), "the client asked this host for evil.web.test");
    drop(server);
}

#[test]
fn mysql_in_plain_and_over_tls() {
    let Some(world) = world().filter(|_| installed(&["mariadbd", "mariadb", "mariadb-install-db"])) else {
        return;
    };
    if world.https().is_none() {
        return;
    }
    let scratch = Scratch::new();
    open_to_all(scratch.path());
    let data = scratch.join("data").display().to_string();
    let mut make = unprivileged("mariadb-install-db");
    make.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
    ran(make.arg(format!("--datadir={data}")).current_dir(scratch.path())).ok();
    let (pem, key) = (world.file("server.pem"), world.file("server.key"));
    let mut command = unprivileged("/usr/sbin/mariadbd");
    command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve", "--port=3306"]);
    command.arg(format!("--datadir={data}")).arg(format!("--socket={data}/socket"));
    command.arg(format!("--ssl-cert={}", pem.display())).arg(format!("--ssl-key={}", key.display()));
    let server = serving(&scratch, &mut command, 3306);
    let user = "create user me@'127.0.0.1'";
    ran(Command::new("mariadb").args([
        "--no-defaults",
        "-uroot",
        &format!("--socket={data}/socket"),
        "-e",
        user,
    ]))
    .ok();
    for (flag, cipher) in [("--skip-ssl", false), ("--ssl", true)] {
        let script =
            format!("mariadb --no-defaults -ume -h {HOST} {flag} -Ne \"show status like 'ssl_cipher'\"");
        let told = plainly(&[&at(3306)], &script).ok();
        let found = told.ran.stdout.split_whitespace().nth(1).is_some();
        assert_eq!(found, cipher, "{flag}: {told:#?}");
    }
    drop(server);
}

#[test]
#[kennel_claim::claim("network/other-protocols-stay-at-their-host")]
fn gits_own_protocol_is_for_its_own_host() {
    if world().is_none() || !installed(&["git"]) {
        return;
    }
    let scratch = Scratch::new();
    let script = "set -e; git init -q --bare all/x.git; git init -q w; cd w; echo text > file; git add file
                  git -c user.name=t -c user.email=t@t commit -q -m first; git push -q ../all/x.git HEAD:refs/heads/main
                  git --git-dir ../all/x.git symbolic-ref HEAD refs/heads/main";
    let mut make = Command::new("sh");
    ran(make.args(["-c", script]).current_dir(scratch.path()).env("GIT_CONFIG_GLOBAL", "/dev/null")).ok();
    let mut command = Command::new("git");
    command.args(["daemon", "--export-all", "--listen=127.0.0.1", "--reuseaddr"]);
    command
        .arg(format!("--base-path={}", scratch.join("all").display()))
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    let server = serving(&scratch, &mut command, 9418);
    let clone = format!("export HOME=/tmp; git clone -q git://{HOST}/x.git /tmp/x && cat /tmp/x/file");
    let told = plainly(&[&at(9418)], &clone).ok();
    assert_eq!(told.ran.stdout, "text\n");
    // A server could go by the host that the request names.
    let script = format!(
        "import socket
def ask(*hosts):
    body = b'git-upload-pack /x.git\\0' + b''.join(b'host=' + host + b'\\0' for host in hosts)
    s = socket.create_connection(('{HOST}', 9418), 20); s.sendall(b'%04x' % (len(body) + 4) + body)
    try: return len(s.recv(4)) == 4
    except OSError: return False
print(ask(b'{HOST}'), ask(b'evil.test'), ask(b'{HOST}', b'evil.test'))"
    );
    let Some(told) = python_inside(Way::Plain, &[&at(9418)], &script) else { return };
    assert_eq!(told.ok().ran.stdout, "True False False\n");
    drop(server);
}

#[test]
fn rsync_from_a_daemon() {
    if world().is_none() || !installed(&["rsync"]) {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("shown/file", "text\n");
    let config = format!("use chroot = no\n[shown]\npath = {}\n", scratch.join("shown").display());
    let config = scratch.write("rsyncd.conf", &config);
    let mut command = Command::new("rsync");
    command.args(["--daemon", "--no-detach", "--address=127.0.0.1", "--port=873", "--config"]).arg(config);
    let server = serving(&scratch, &mut command, 873);
    for way in BOTH {
        let script = format!("rsync rsync://{HOST}/shown/file /tmp/file && cat /tmp/file");
        let told = allowed_sh(way, &[&at(873)], &script).ok();
        assert_eq!(told.ran.stdout, "text\n", "{way:?}");
    }
    drop(server);
}

#[test]
#[kennel_claim::claim("network/other-protocols-stay-at-their-host")]
fn mail_over_starttls_is_for_its_own_host() {
    let Some(world) = world() else { return };
    let (Some(ca), Some(python)) = (world.https(), kennel_tests::world::python()) else { return };
    let server_script = format!(
        "import socket, ssl, time
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain('{0}/server.pem', '{0}/server.key')
listener = socket.create_server(('127.0.0.1', 25))
while True:
    s = listener.accept()[0]
    try:
        # Late, so that a client which does not wait for it is heard first: after a greeting its lines are mail.
        time.sleep(1); s.sendall(b'220 mail.web.test ESMTP\\r\\n'); f = s.makefile('rb', 0)
        while line := f.readline():
            word = line.split()[0].upper() if line.split() else b''
            if word == b'STARTTLS':
                s.sendall(b'220 go on\\r\\n'); s = context.wrap_socket(s, server_side=True); f = s.makefile('rb', 0)
            elif word == b'QUIT': s.sendall(b'221 bye\\r\\n'); break
            elif word == b'EHLO': s.sendall(b'250-mail.web.test\\r\\n250 STARTTLS\\r\\n')
            else: s.sendall(b'250 fine\\r\\n')
    except OSError: pass
    s.close()",
        ca.parent().unwrap_or(&ca).display()
    );
    let scratch = Scratch::new();
    let server = serving(&scratch, Command::new(&python).args(["-c", &server_script]), 25);
    let script = format!(
        "import smtplib, ssl
c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
s = smtplib.SMTP('{HOST}', 25, timeout=20); s.starttls(context=c); print(s.noop()[0]); s.quit()
s = smtplib.SMTP('{HOST}', 25, timeout=20); s.ehlo(); s.docmd('STARTTLS')
try: c.wrap_socket(s.sock, server_hostname='evil.web.test'); print('carried')
except OSError: print('refused')
import socket
s = socket.create_connection(('{HOST}', 25), 20); s.sendall(b'GET / HTTP/1.1\\r\\nHost: evil.web.test\\r\\n\\r\\n')
data = b''
try:
    while part := s.recv(4096): data += part
except OSError: pass
print(b'fine' in data)"
    );
    let Some(told) = python_inside(Way::Plain, &[&at(25)], &script) else { return };
    assert_eq!(told.ok().ran.stdout, "250\nrefused\nFalse\n");
    drop(server);
}

#[test]
#[kennel_claim::claim("network/known-protocols-only")]
fn bytes_that_nobody_knows_are_refused_by_every_door_and_carried_where_a_rule_says_so() {
    let Some(world) = world() else { return };
    // An echo says what was carried; by the proxy's two doors, and without.
    let script = format!(
        "import os, socket, urllib.parse, base64
def plain(): return socket.create_connection(('odd.web.test', {ECHO}), 20)
def door():
    u = urllib.parse.urlsplit(os.environ['HTTP_PROXY']); return u, socket.create_connection((u.hostname, u.port), 20)
def connect():
    u, s = door(); auth = base64.b64encode(f'{{u.username}}:{{u.password}}'.encode()).decode()
    s.sendall(f'CONNECT odd.web.test:{ECHO} HTTP/1.1\\r\\nProxy-Authorization: Basic {{auth}}\\r\\n\\r\\n'.encode())
    while not s.recv(4096).endswith(b'\\r\\n\\r\\n'): pass
    return s
def socks():
    u, s = door(); s.sendall(bytes([5, 1, 2])); s.recv(2)
    s.sendall(bytes([1, len(u.username)]) + u.username.encode() + bytes([len(u.password)]) + u.password.encode()); s.recv(2)
    name = b'odd.web.test'; s.sendall(bytes([5, 1, 0, 3, len(name)]) + name + ({ECHO}).to_bytes(2, 'big')); s.recv(10)
    return s
for dial in (plain, connect, socks):
    s = dial(); s.sendall(b'\\0odd bytes')
    try: print(s.recv(100) == b'\\0odd bytes')
    except OSError: print(False)"
    );
    let Some(told) = python_inside(Way::Proxy, &["odd.web.test"], &script) else { return };
    assert_eq!(told.ran.stdout, "False\nFalse\nFalse\n", "{told:#?}");
    assert!(told.reason("odd.web.test").contains("only a tcp:// rule allows"), "{told:#?}");
    let advice = format!("to allow it: --allow-domain tcp://odd.web.test:{ECHO}");
    assert!(told.ran.stderr.contains(&advice), "{told:#?}");
    let rule = format!("tcp://odd.web.test:{ECHO}");
    let Some(told) = python_inside(Way::Proxy, &[&rule], &script) else { return };
    assert_eq!(told.ran.stdout, "True\nTrue\nTrue\n", "{told:#?}");
    assert!(!world.seen("tcp").is_empty());
    // And only there.
    let told = allowed_sh(
        Way::Plain,
        &[&rule],
        &format!("curl -s -m 20 -o /dev/null -w '%{{http_code}}' http://odd.web.test:{ODD_HTTP}/; exit 0"),
    );
    assert_eq!(told.ran.stdout, "403", "{told:#?}");
}
