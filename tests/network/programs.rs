//! Real programs against real servers, each by the proxy variables and with all of them taken away.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use kennel_tests::{Scratch, program, ran, skipped};

use crate::network::there::{ECHO, GREETER, WEBSOCKET};
use crate::network::{BOTH, Told, Way, allowed, allowed_sh, allowing, by, python_inside, role_inside, told};
use kennel_tests::world::{self, world};

/// Says why a program cannot be tried.
fn installed(name: &str) -> bool {
    let there = program(name).is_some();
    if !there {
        skipped(&format!("{name} is not installed"));
    }
    there
}

/// That the connection took the way it was meant to take, so that both ways are known to have been tried.
#[track_caller]
fn went(told: &Told, way: Way, host: &str, proxied: &[&str]) {
    let doors: &[&str] = if way == Way::Plain { &["direct"] } else { proxied };
    assert!(doors.iter().any(|door| told.passed(host, door)), "{way:?}: {:?}\n{told:#?}", told.about(host));
}

#[test]
fn curl_http() {
    if world().is_none() || !installed("curl") {
        return;
    }
    for way in BOTH {
        let told = allowed(way, &["curl.web.test"], &["curl", "-sS", "http://curl.web.test/hello"]).ok();
        assert_eq!(told.ran.stdout, "hello from curl.web.test\n");
        went(&told, way, "curl.web.test", &["http"]);
    }
}

#[test]
fn curl_https() {
    let Some(ca) = world().and_then(|world| world.https()).filter(|_| installed("curl")) else { return };
    let ca = ca.display().to_string();
    for way in BOTH {
        let words = ["curl", "-sS", "--cacert", &ca, "https://curls.web.test/hello"];
        let told = allowed(way, &["*.web.test"], &words).ok();
        assert_eq!(told.ran.stdout, "hello from curls.web.test\n");
        went(&told, way, "curls.web.test", &["connect"]);
    }
}

#[test]
fn curl_by_socks_with_the_name_and_without() {
    if world().is_none() || !installed("curl") {
        return;
    }
    let script = "curl -sS --proxy \"$FTP_PROXY\" http://socks.web.test/hello";
    let told = allowed_sh(Way::Proxy, &["socks.web.test"], script).ok();
    assert_eq!(told.ran.stdout, "hello from socks.web.test\n");
    went(&told, Way::Proxy, "socks.web.test", &["socks"]);
    // socks5:// looks the name up itself, by the gate's name server, and gives the proxy an address.
    let script = "curl -sS --proxy \"socks5://${FTP_PROXY#*://}\" http://socks.web.test/hello";
    let told = allowed_sh(Way::Proxy, &["socks.web.test"], script).ok();
    assert_eq!(told.ran.stdout, "hello from socks.web.test\n");
}

#[test]
fn wget_http_and_https() {
    let Some(world) = world().filter(|_| installed("wget")) else { return };
    for way in BOTH {
        let words = ["wget", "-q", "-O", "-", "http://wget.web.test/hello"];
        let told = allowed(way, &["wget.web.test"], &words).ok();
        assert_eq!(told.ran.stdout, "hello from wget.web.test\n");
        went(&told, way, "wget.web.test", &["http"]);
        let Some(ca) = world.https() else { continue };
        let ca = format!("--ca-certificate={}", ca.display());
        let words = ["wget", "-q", "-O", "-", &ca, "https://wget.web.test/hello"];
        let told = allowed(way, &["wget.web.test"], &words).ok();
        went(&told, way, "wget.web.test", &["connect"]);
    }
}

/// A repository that the HTTPS server shows as files.
fn repository(world: &world::World, name: &str) {
    let folder = world.file("www").join(name);
    let script =
        "set -e; git init -q --bare \"$1\"; git init -q \"$1.work\"; cd \"$1.work\"; echo text > file
                  git add file; git -c user.name=t -c user.email=t@t commit -q -m first
                  git push -q \"$1\" HEAD:refs/heads/main; cd \"$1\"; git symbolic-ref HEAD refs/heads/main
                  git update-server-info";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
    ran(&mut command).ok();
}

#[test]
fn git_over_https() {
    let Some(world) = world().filter(|_| installed("git")) else { return };
    let Some(ca) = world.https() else { return };
    repository(world, "https.git");
    let script =
        "export HOME=/tmp; git clone -q https://git.web.test/https.git /tmp/clone && cat /tmp/clone/file";
    for way in BOTH {
        let mut flags = allowing(&["git.web.test"]);
        flags.extend(["--env".into(), format!("GIT_SSL_CAINFO={}", ca.display())]);
        let told = told(&flags, &by(way, &["sh", "-c", script])).ok();
        assert_eq!(told.ran.stdout, "text\n");
        went(&told, way, "git.web.test", &["connect"]);
    }
}

/// A key for the server over there and the options that use it, where one can log in.
fn login(world: &world::World, scratch: &Scratch) -> Option<String> {
    if !Path::new("/usr/sbin/sshd").is_file() || !installed("ssh") {
        skipped("there is no SSH server");
        return None;
    }
    let key = scratch.join("key");
    std::fs::copy(world.file("user_key"), &key).expect("a key");
    Some(format!(
        "ssh -i {} -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
        key.display()
    ))
}

#[test]
fn ssh_and_git_over_ssh() {
    let Some(world) = world() else { return };
    let scratch = Scratch::new();
    let Some(ssh) = login(world, &scratch) else { return };
    repository(world, "ssh.git");
    let path = world.file("www/ssh.git").display().to_string();
    for way in BOTH {
        let told = allowed_sh(way, &["ssh.web.test:22"], &format!("{ssh} ssh.web.test echo logged in")).ok();
        assert_eq!(told.ran.stdout, "logged in\n");
        assert!(told.passed("ssh.web.test", "direct"), "{told:#?}");
        let clone = format!(
            "export HOME=/tmp GIT_SSH_COMMAND='{ssh}'
             git clone -q ssh://ssh.web.test{path} /tmp/clone && cat /tmp/clone/file"
        );
        assert_eq!(allowed_sh(way, &["ssh.web.test:22"], &clone).ok().ran.stdout, "text\n");
    }
}

#[test]
fn ssh_keyscan_sees_the_servers_key() {
    let Some(world) = world().filter(|_| installed("ssh-keyscan")) else { return };
    let Ok(key) = std::fs::read_to_string(world.file("host_key.pub")) else {
        return skipped("there is no SSH server");
    };
    let key = key.split(' ').nth(1).unwrap_or_default();
    let told =
        allowed(Way::Plain, &["scan.web.test"], &["ssh-keyscan", "-t", "ed25519", "scan.web.test"]).ok();
    assert!(told.ran.stdout.contains(key), "{told:#?}");
}

#[test]
fn python_urllib() {
    let Some(world) = world() else { return };
    for way in BOTH {
        let script = "import urllib.request as r; print(r.urlopen('http://urllib.web.test/hello').read().decode(), end='')";
        let Some(told) = python_inside(way, &["urllib.web.test"], script) else { return };
        assert_eq!(told.ok().ran.stdout, "hello from urllib.web.test\n");
        let Some(ca) = world.https() else { continue };
        let script = format!(
            "import ssl, urllib.request as r; c = ssl.create_default_context(cafile='{}')
print(r.urlopen('https://urllib.web.test/hello', context=c).read().decode(), end='')",
            ca.display()
        );
        let Some(told) = python_inside(way, &["urllib.web.test:443"], &script) else { return };
        let told = told.ok();
        assert_eq!(told.ran.stdout, "hello from urllib.web.test\n");
        went(&told, way, "urllib.web.test", &["connect"]);
    }
}

#[test]
fn python_raw_sockets_over_both_families() {
    let Some(world) = world() else { return };
    for family in ["AF_INET", "AF_INET6"] {
        if family == "AF_INET6" && !world.ipv6 {
            skipped("this kernel has no IPv6");
            continue;
        }
        // The server speaks first on one port, the client on the other; the address family inside is not the
        // one outside: what leaves goes to whatever the name has.
        let script = format!(
            "import socket
for port in ({GREETER}, {ECHO}):
    for name in ('raw.web.test', 'raw.four.test', 'raw.six.test'):
        place = socket.getaddrinfo(name, port, socket.{family}, socket.SOCK_STREAM)[0][4]
        s = socket.create_connection(place[:2], 10)
        if port == {GREETER}: assert s.recv(100) == b'greetings\\n'
        s.sendall(b'there and back'); s.shutdown(socket.SHUT_WR)
        data = b''
        while True:
            part = s.recv(100)
            if not part: break
            data += part
        assert data == b'there and back', data
print('done')"
        );
        let names = ["raw.web.test", "raw.four.test", "raw.six.test"];
        let names = if world.ipv6 { &names[..] } else { &names[..2] };
        let rules: Vec<String> = names
            .iter()
            .flat_map(|name| [GREETER, ECHO].map(|port| format!("tcp://{name}:{port}")))
            .collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let script = if world.ipv6 { script } else { script.replace(", 'raw.six.test'", "") };
        let Some(told) = python_inside(Way::Plain, &rules, &script) else { return };
        assert_eq!(told.ok().ran.stdout, "done\n");
    }
}

#[test]
fn node_fetch_and_http() {
    let Some(world) = world().filter(|_| installed("node")) else { return };
    let fetch = "fetch(process.argv[1]).then(r => r.text()).then(t => process.stdout.write(t))";
    let get = "const u = process.argv[1]; require(u.split(':')[0]).get(u, r => r.pipe(process.stdout))";
    for way in BOTH {
        for script in [fetch, get] {
            let words = ["node", "-e", script, "http://node.web.test/hello"];
            let told = allowed(way, &["node.web.test"], &words).ok();
            assert_eq!(told.ran.stdout, "hello from node.web.test\n");
            let Some(ca) = world.https() else { continue };
            let mut flags = allowing(&["node.web.test"]);
            flags.extend(["--env".into(), format!("NODE_EXTRA_CA_CERTS={}", ca.display())]);
            let words = by(way, &["node", "-e", script, "https://node.web.test/hello"]);
            assert_eq!(crate::network::told(&flags, &words).ok().ran.stdout, "hello from node.web.test\n");
        }
    }
}

#[test]
fn openssl_s_client() {
    let Some(ca) = world().and_then(|world| world.https()) else { return };
    let request = "printf 'GET /hello HTTP/1.0\\r\\nHost: client.web.test\\r\\n\\r\\n'";
    let client = format!(
        "openssl s_client -quiet -verify_return_error -CAfile {} -servername client.web.test",
        ca.display()
    );
    let script = format!("{request} | {client} -connect client.web.test:443 2>/dev/null");
    let told = allowed_sh(Way::Plain, &["client.web.test"], &script);
    assert!(told.ran.stdout.contains("hello from client.web.test"), "{told:#?}");
    went(&told, Way::Plain, "client.web.test", &[]);
    let script = format!(
        "token=${{HTTP_PROXY#*kennel:}}; token=${{token%%@*}}
         {request} | {client} -proxy 127.0.0.1:3128 -proxy_user kennel -proxy_pass pass:$token \
             -connect client.web.test:443 2>/dev/null"
    );
    let told = allowed_sh(Way::Proxy, &["client.web.test"], &script);
    assert!(told.ran.stdout.contains("hello from client.web.test"), "{told:#?}");
    went(&told, Way::Proxy, "client.web.test", &["connect"]);
}

#[test]
fn websockets_by_both_ways() {
    if world().is_none() {
        return;
    }
    // By the proxy: an absolute-form upgrade, and the same inside a CONNECT.
    let script = format!(
        "import os, socket, base64, urllib.parse
proxy = os.environ.get('HTTP_PROXY')
def upgrade(s, target, extra=''):
    s.sendall((f'GET {{target}} HTTP/1.1\\r\\nHost: ws.web.test:{WEBSOCKET}\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n'
        f'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\nSec-WebSocket-Version: 13\\r\\n{{extra}}\\r\\n').encode())
    f = s.makefile('rb'); head = b''
    while not head.endswith(b'\\r\\n\\r\\n'): head += f.read(1)
    assert b' 101 ' in head and b's3pPLMBiTxaQ9kYGzzhZRbK+xOo=' in head, head
    for word in (b'first', b'second'):
        s.sendall(bytes([129, 128 + len(word), 0, 0, 0, 0]) + word)
        assert f.read(2 + len(word)) == bytes([129, len(word)]) + word
def dial(host, port): return socket.create_connection((host, port), 20)
if proxy:
    url = urllib.parse.urlsplit(proxy)
    auth = 'Proxy-Authorization: Basic ' + base64.b64encode(f'{{url.username}}:{{url.password}}'.encode()).decode() + '\\r\\n'
    upgrade(dial(url.hostname, url.port), 'http://ws.web.test:{WEBSOCKET}/', auth)
    s = dial(url.hostname, url.port)
    s.sendall(f'CONNECT ws.web.test:{WEBSOCKET} HTTP/1.1\\r\\nHost: ws.web.test:{WEBSOCKET}\\r\\n{{auth}}\\r\\n'.encode())
    assert b' 200 ' in s.recv(4096)
    upgrade(s, '/')
else:
    upgrade(dial('ws.web.test', {WEBSOCKET}), '/')
print('echoed')"
    );
    for way in BOTH {
        let Some(told) = python_inside(way, &["ws.web.test"], &script) else { return };
        assert_eq!(told.ok().ran.stdout, "echoed\n");
    }
}

#[test]
fn a_statically_linked_program() {
    if world().is_none() {
        return;
    }
    for way in BOTH {
        let told = role_inside(way, "dial", &["static.web.test"], &["static.web.test", "80"]).ok();
        assert!(told.ran.stdout.ends_with("hello from static.web.test\n"), "{told:#?}");
        assert!(told.passed("static.web.test", "direct"), "{told:#?}");
    }
}

/// The role `dial`: a GET by a plain socket, from a program without shared libraries.
pub fn dial(words: &[OsString]) -> i32 {
    let [host, port] = words else { return 2 };
    let (host, port) = (host.to_string_lossy(), port.to_string_lossy().parse().unwrap_or(0));
    let mut answer = String::new();
    let asked = TcpStream::connect((&*host, port)).and_then(|mut stream| {
        write!(stream, "GET /hello HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
        stream.read_to_string(&mut answer)
    });
    match asked {
        Ok(_) => {
            print!("{answer}");
            0
        }
        Err(error) => {
            eprintln!("{host}: {error}");
            1
        }
    }
}

#[test]
fn pip_from_an_index() {
    let Some(world) = world() else { return };
    let Some(python) = world::python() else { return skipped("python3 is not installed") };
    if ran(Command::new(&python).args(["-m", "pip", "--version"])).code != 0 {
        return skipped("pip is not installed");
    }
    let wheel = format!(
        "import os, zipfile, base64, hashlib
os.makedirs('{0}/simple/demo', exist_ok=True)
with zipfile.ZipFile('{0}/simple/demo/demo-1.0-py3-none-any.whl', 'w') as z:
    z.writestr('demo.py', 'x = 1')
    z.writestr('demo-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n')
    z.writestr('demo-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    z.writestr('demo-1.0.dist-info/RECORD', 'demo.py,,\\ndemo-1.0.dist-info/METADATA,,\\ndemo-1.0.dist-info/WHEEL,,\\ndemo-1.0.dist-info/RECORD,,\\n')
open('{0}/simple/demo/index.html', 'w').write('<a href=\"demo-1.0-py3-none-any.whl\">demo-1.0-py3-none-any.whl</a>')",
        world.file("www").display()
    );
    ran(Command::new(&python).args(["-c", &wheel])).ok();
    let python = python.display();
    for way in BOTH {
        let script = format!(
            "export HOME=/tmp; {python} -m pip download -q --disable-pip-version-check --no-cache-dir --no-deps \
             --index-url http://pip.web.test:{WEBSOCKET}/simple --trusted-host pip.web.test -d /tmp/got demo && ls /tmp/got"
        );
        let told = allowed_sh(way, &["pip.web.test"], &script).ok();
        assert!(told.ran.stdout.contains("demo-1.0-py3-none-any.whl"), "{told:#?}");
        went(&told, way, "pip.web.test", &["http"]);
    }
}

#[test]
fn python_requests() {
    let Some(world) = world() else { return };
    let Some(python) = world::python() else { return skipped("python3 is not installed") };
    // pip carries a copy of its own.
    let import = "try: import requests\nexcept ImportError: from pip._vendor import requests\n";
    if ran(Command::new(&python).args(["-c", import])).code != 0 {
        return skipped("requests is not installed");
    }
    let ca = world.https();
    for way in BOTH {
        let script = format!("{import}print(requests.get('http://requests.web.test/hello').text, end='')");
        let Some(told) = python_inside(way, &["requests.web.test"], &script) else { return };
        let told = told.ok();
        assert_eq!(told.ran.stdout, "hello from requests.web.test\n");
        went(&told, way, "requests.web.test", &["http"]);
        let Some(ca) = &ca else { continue };
        let script = format!(
            "{import}print(requests.get('https://requests.web.test/hello', verify='{}').text, end='')",
            ca.display()
        );
        let Some(told) = python_inside(way, &["requests.web.test"], &script) else { return };
        let told = told.ok();
        assert_eq!(told.ran.stdout, "hello from requests.web.test\n");
        went(&told, way, "requests.web.test", &["connect"]);
        // Refused, it is an exception and not a page that looks like one.
        let script = format!("{import}print(requests.get('https://other.elsewhere.test/', timeout=20))");
        let Some(told) = python_inside(way, &["requests.web.test"], &script) else { return };
        assert_eq!(told.ran.code, 1, "{told:#?}");
    }
}

#[test]
fn cargo_from_a_registry() {
    let Some(world) = world().filter(|_| installed("cargo")) else { return };
    if ran(Command::new("cargo").arg("--version")).code != 0 {
        return skipped("cargo is not to be used by this user");
    }
    let script = format!(
        "set -e; mkdir -p index/ca/rg cargo-demo-1.0.0/src; cd cargo-demo-1.0.0; touch src/lib.rs
         printf '[package]\\nname = \"cargo-demo\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n' > Cargo.toml
         cd ..; tar czf cargo-demo-1.0.0.crate cargo-demo-1.0.0
         sum=$(sha256sum cargo-demo-1.0.0.crate | cut -d' ' -f1)
         printf '{{\"dl\":\"http://cargo.web.test:{WEBSOCKET}/{{crate}}-{{version}}.crate\"}}' > index/config.json
         printf '{{\"name\":\"cargo-demo\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"%s\",\"features\":{{}},\"yanked\":false}}\\n' \
             $sum > index/ca/rg/cargo-demo"
    );
    ran(Command::new("sh").args(["-c", &script]).current_dir(world.file("www"))).ok();
    for way in BOTH {
        let script = format!(
            "set -e; export CARGO_HOME=/tmp/c CARGO_REGISTRIES_DEMO_INDEX=sparse+http://cargo.web.test:{WEBSOCKET}/index/
             mkdir -p /tmp/p/src; cd /tmp/p; touch src/lib.rs
             printf '[package]\\nname = \"p\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n[dependencies]\\ncargo-demo = {{ version = \"1\", registry = \"demo\" }}\\n' > Cargo.toml
             cargo fetch -q; ls /tmp/c/registry/src/*"
        );
        let told = allowed_sh(way, &["cargo.web.test"], &script).ok();
        assert_eq!(told.ran.stdout.trim(), "cargo-demo-1.0.0", "{told:#?}");
        went(&told, way, "cargo.web.test", &["http", "connect"]);
    }
}

#[test]
fn npm_from_a_registry() {
    let Some(world) = world().filter(|_| installed("npm") && installed("node")) else { return };
    let www = world.file("www");
    let script = format!(
        "set -e; mkdir -p package npm-demo; echo '{{\"name\":\"npm-demo\",\"version\":\"1.0.0\"}}' > package/package.json
         tar czf npm-demo-1.0.0.tgz package; sum=$(sha1sum npm-demo-1.0.0.tgz | cut -d' ' -f1)
         echo \"{{\\\"name\\\":\\\"npm-demo\\\",\\\"dist-tags\\\":{{\\\"latest\\\":\\\"1.0.0\\\"}},\\\"versions\\\":{{\\\"1.0.0\\\":{{\\\"name\\\":\\\"npm-demo\\\",\
\\\"version\\\":\\\"1.0.0\\\",\\\"dist\\\":{{\\\"shasum\\\":\\\"$sum\\\",\\\"tarball\\\":\\\"http://npm.web.test:{WEBSOCKET}/npm-demo-1.0.0.tgz\\\"}}}}}}}}\" > npm-demo/index.html"
    );
    ran(Command::new("sh").args(["-c", &script]).current_dir(&www)).ok();
    for way in BOTH {
        let script = format!(
            "export HOME=/tmp; mkdir /tmp/p; cd /tmp/p; echo '{{}}' > package.json
             npm install --silent --no-audit --no-fund --registry http://npm.web.test:{WEBSOCKET}/ npm-demo && ls node_modules"
        );
        let told = allowed_sh(way, &["npm.web.test"], &script).ok();
        assert_eq!(told.ran.stdout.trim(), "npm-demo");
        went(&told, way, "npm.web.test", &["http", "connect"]);
    }
}
