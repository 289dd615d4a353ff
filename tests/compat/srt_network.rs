//! srt's network rules, by a server on the host's loopback that its address lets through.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use kennel_tests::{program, skipped};

use crate::compat::world::{Place, Which, installed, run, serve, srt};

/// A server that answers everything with the request's first line and host.
fn server() -> u16 {
    serve(answer)
}

fn answer(mut stream: TcpStream) {
    let Ok(copy) = stream.try_clone() else { return };
    let mut seen = String::new();
    for line in BufReader::new(copy).lines().map_while(Result::ok) {
        if line.is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if seen.is_empty()
            || ["host:", "proxy-", "connection:", "te:", "upgrade:", "keep-alive:"]
                .iter()
                .any(|name| lower.starts_with(name))
        {
            seen += &line;
            seen += "\n";
        }
    }
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{seen}",
        seen.len()
    );
}

fn settings(allowed: &str, denied: &str) -> String {
    format!(
        r#"{{"network": {{"allowedDomains": [{allowed}], "deniedDomains": [{denied}], "deniedDomainReasons": {{"denied.example.org": "because we say so"}}}},
            "filesystem": {{"denyRead": [], "allowWrite": ["."], "denyWrite": []}}}}"#
    )
}

/// Runs a script under both and compares what it prints.
#[track_caller]
fn same(settings: &str, script: &str) {
    let one = |which| Some(run(srt(which, &Place::new(), Some(settings))?.args(["-c", script])));
    let kennel = one(Which::Kennel).expect("kennel");
    let Some(real) = one(Which::Real) else { return };
    assert_eq!(kennel.stdout, real.stdout, "{script}\n{}\n{}", kennel.stderr, real.stderr);
}

/// What a request through the proxy of the environment is answered with.
const ASK: &str = r#"ask() { curl -s --max-time 10 -o /dev/null -D - --noproxy '' -x "${HTTP_PROXY/localhost/127.0.0.1}" "$@" | tr -d '\r' | grep -iE '^HTTP/|^x-proxy-error' | sed 's/^HTTP\/[0-9.]* \([0-9]*\).*/\1/'; }"#;

#[test]
fn hosts_are_let_through_or_refused_alike() {
    if program("curl").is_none() {
        return skipped("curl is not installed");
    }
    let port = server();
    let allowed = format!(r#""127.0.0.1:{port}", "*.example.org""#);
    let script = format!(
        r#"{ASK}
        echo allowed; ask http://127.0.0.1:{port}/
        echo 33 a number; ask http://2130706433:{port}/
        echo 33 hexadecimal; ask http://0x7f.1:{port}/
        echo 33 mapped; ask 'http://[::ffff:127.0.0.1]:{port}/'
        echo 35 another port; ask http://127.0.0.1:1/
        echo 31 the apex; ask http://example.org/
        echo 30 not listed; ask http://example.com/
        echo 32 denied, in other letters; ask http://DENIED.Example.ORG./
        echo CONNECT; ask -p https://example.com/
        echo a name of the loopback; ask http://localhost:{port}/"#
    );
    same(&settings(&allowed, r#""denied.example.org""#), &script);
}

/// 36, 37, 38, 34, 41: word for word by python, which shows what curl does not.
#[test]
fn refusals_say_why() {
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return skipped("there is no /usr/bin/python3");
    }
    let port = server();
    let script = format!(
        r#"cat > probe.py <<'END'
import os, socket, base64, urllib.parse
proxy = urllib.parse.urlparse(os.environ["HTTP_PROXY"])
token = base64.b64encode(f"{{proxy.username}}:{{urllib.parse.unquote(proxy.password)}}".encode()).decode() if proxy.username else ""
auth = f"Proxy-Authorization: Basic {{token}}\r\n" if token else ""
def talk(text):
    s = socket.create_connection(("127.0.0.1", proxy.port), 10)
    s.sendall(text.encode())
    data = b""
    while chunk := s.recv(4096):
        data += chunk
    return data.decode(errors="replace")
first = talk(f"CONNECT denied.example.org:443 HTTP/1.1\r\nHost: denied.example.org:443\r\n{{auth}}Connection: close\r\n\r\n").split("\r\n")[0]
print("36", first.split()[1], "because we say so" in first)
print("37", talk("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").split()[1] if auth else 407)
body = talk(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{{auth}}Connection: close, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nProxy-Connection: keep-alive\r\n\r\n")
print("41", "proxy-authorization" in body.lower(), "x-hop" in body.lower().split("\r\n\r\n", 1)[1])
END
/usr/bin/python3 probe.py"#
    );
    let place = Place::new();
    let text = settings(&format!(r#""127.0.0.1:{port}""#), r#""denied.example.org""#);
    let ran = run(srt(Which::Kennel, &place, Some(&text)).expect("kennel").args(["-c", &script]));
    assert_eq!(ran.stdout, "36 403 True\n37 407\n41 False False\n", "{}", ran.stderr);
    same(&text, &script);
}

/// 34 and 38: what SOCKS answers, byte for byte.
#[test]
fn socks_refuses_odd_names_and_tells_ssh_why() {
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return skipped("there is no /usr/bin/python3");
    }
    let script = r#"cat > probe.py <<'END'
import os, socket, urllib.parse
proxy = urllib.parse.urlparse(os.environ["ALL_PROXY"])
def ask(name, port, known=True):
    s = socket.create_connection(("127.0.0.1", proxy.port), 10)
    if proxy.username and known:
        s.sendall(b"\x05\x01\x02"); s.recv(2)
        user, word = proxy.username.encode(), urllib.parse.unquote(proxy.password).encode()
        s.sendall(b"\x01" + bytes([len(user)]) + user + bytes([len(word)]) + word); s.recv(2)
    else:
        s.sendall(b"\x05\x01\x00"); s.recv(2)
    s.sendall(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + port.to_bytes(2, "big"))
    s.settimeout(5)
    data = b""
    try:
        while chunk := s.recv(4096):
            data += chunk
    except OSError:
        pass
    return data
for name in [b"a.example.org\x00.allowed.example.org", b"a\r\nb.allowed.example.org", b"10.0.0.1%x.allowed.example.org", b"denied.example.org"]:
    print(name, ask(name, 443)[1:2])
# Clients of ssh know no password, and show what comes in their own protocol.
told = ask(b"denied.example.org", 22, known=False)
print(told[1:2], told[10:18], b"because we say so" in told)
print(ask(b"a.allowed.example.org", 443, known=False)[1:2])
END
/usr/bin/python3 probe.py"#;
    let text = settings(r#""*.allowed.example.org""#, r#""denied.example.org""#);
    let place = Place::new();
    let ran = run(srt(Which::Kennel, &place, Some(&text)).expect("kennel").args(["-c", script]));
    let told = "b'\\x00' b'SSH-2.0-' True\nb'\\x02'\n";
    assert_eq!(ran.stdout.matches("b'\\x02'").count(), 5, "{} {}", ran.stdout, ran.stderr);
    assert!(ran.stdout.ends_with(told), "{} {}", ran.stdout, ran.stderr);
    same(&text, script);
}

/// 39
#[test]
fn the_server_is_sent_the_canonical_authority() {
    if program("curl").is_none() {
        return skipped("curl is not installed");
    }
    let port = server();
    let script = format!(
        r#"for host in 127.0.0.1 2130706433 0x7f.1 127.1; do
            curl -s --max-time 10 --noproxy '' -x "${{HTTP_PROXY/localhost/127.0.0.1}}" http://$host:{port}/ | tr -d '\r' | grep -iE '^(GET|host)' | tr A-Z a-z
        done"#
    );
    same(&settings(&format!(r#""127.0.0.1:{port}""#), ""), &script);
}

/// 40: which hosts the caller's own proxy is passed by for. In a network of the test's own, where two addresses lead to
/// the same server: what came by way of the proxy names the host in its first line.
#[test]
fn a_parent_proxy_is_passed_by_alike() {
    if !installed(&["unshare", "ip", "/usr/bin/python3", "curl"]) {
        return;
    }
    let ask = r#"for url in http://192.0.2.1:8001/ http://192.0.2.1:8002/ http://198.51.100.7:8001/ http://127.0.0.1:8001/ http://sub.near.example.org:8001/ http://far.example.org:8001/; do
        echo "$url: $(curl -s --max-time 10 --noproxy '' -x "${HTTP_PROXY/localhost/127.0.0.1}" $url | tr -d '\r' | grep -E '^GET')"
    done"#;
    let settings = r#"{"network": {"allowedDomains": ["192.0.2.1", "198.51.100.7", "127.0.0.1", "*.near.example.org", "far.example.org"], "deniedDomains": [],
        "parentProxy": {"http": "http://127.0.0.1:8003", "https": "http://127.0.0.1:8003", "noProxy": "192.0.2.0/24,198.51.100.7:9999,.near.example.org"}},
        "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}"#;
    let world = r#"ip link set lo up && ip addr add 192.0.2.1/32 dev lo && ip addr add 198.51.100.7/32 dev lo || exit 9
        cat > server.py <<'END'
import socket, threading
def serve(port):
    listener = socket.create_server(("0.0.0.0", port))
    ready.release()
    while True:
        s, _ = listener.accept()
        line = s.makefile("rb").readline()
        s.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(line) + line)
        s.close()
ready = threading.Semaphore(0)
for port in (8001, 8002, 8003):
    threading.Thread(target=serve, args=(port,), daemon=True).start()
    ready.acquire()
open("ready", "w").close()
threading.Event().wait()
END
        /usr/bin/python3 server.py & server=$!
        while ! test -e ready; do sleep 0.05; done
        "$@" -c "$ASK"; kill $server"#;
    let one = |which| {
        let place = Place::new();
        let command = srt(which, &place, Some(settings))?;
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let mut shell = std::process::Command::new("unshare");
        shell.args(["-rn", "bash", "-c", world, "bash"]).args(words).env("ASK", ask);
        Some(run(place.dressed(&mut shell)))
    };
    let kennel = one(Which::Kennel).expect("kennel");
    if kennel.code == 9 {
        return skipped("no network of the test's own can be made");
    }
    let line = |url: &str, path: &str| format!("{url}: GET {path} HTTP/1.1\n");
    let parent = |url: &str| line(url, url);
    let direct = |url: &str| line(url, "/");
    for expected in [
        direct("http://192.0.2.1:8001/"),
        direct("http://192.0.2.1:8002/"),
        parent("http://198.51.100.7:8001/"),
        direct("http://127.0.0.1:8001/"),
        "http://sub.near.example.org:8001/: \n".to_owned(),
        parent("http://far.example.org:8001/"),
    ] {
        assert!(kennel.stdout.contains(&expected), "{expected}: {} {}", kennel.stdout, kennel.stderr);
    }
    if let Some(real) = one(Which::Real) {
        // There, an entry with a port holds for all ports.
        let by_port = "http://198.51.100.7:8001/";
        assert_eq!(kennel.stdout.replace(&parent(by_port), &direct(by_port)), real.stdout, "{}", real.stderr);
    }
}

/// 30
#[test]
fn an_empty_list_lets_nothing_through() {
    let port = server();
    let script = format!(
        r#"exec 2>/dev/null
        (exec 3<>/dev/tcp/127.0.0.1/{port}) && echo direct
        getent hosts example.com && echo resolved
        curl -s --max-time 10 --noproxy '*' http://127.0.0.1:{port}/ && echo by itself
        echo done"#
    );
    same(&settings("", ""), &script);
}

/// New lists come by a descriptor; what is no settings object changes nothing.
#[test]
fn a_control_descriptor_changes_the_lists() {
    if program("curl").is_none() {
        return skipped("curl is not installed");
    }
    let port = server();
    for which in [Which::Kennel, Which::Real] {
        let place = Place::new();
        let line = settings(&format!(r#""127.0.0.1:{port}""#), "").replace('\n', " ");
        place.write("line", &line);
        let script = format!(
            r#"{ASK}
            ask http://127.0.0.1:{port}/
            touch ready; while ! test -e told; do sleep 0.05; done; sleep 0.5
            ask http://127.0.0.1:{port}/; ls /proc/self/fd | grep -x 7 || true"#
        );
        let Some(command) = srt(which, &place, Some(&settings("", ""))) else { return };
        // The shell opens the descriptor for us.
        let words: Vec<String> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_str().expect("these are text").to_owned())
            .collect();
        let mut shell = std::process::Command::new("bash");
        let outer = r#"exec 7<> <(:); (while ! test -e ready; do sleep 0.05; done; echo nonsense; cat ../line; echo) >&7 & (while ! test -e ready; do sleep 0.05; done; sleep 0.5; touch told) & "$@" --control-fd 7 -c "$SCRIPT"; kill $(jobs -p) 2>/dev/null; true"#;
        shell.args(["-c", outer, "bash"]).args(&words).env("SCRIPT", &script);
        let ran = run(place.dressed(&mut shell));
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(lines.first(), Some(&"403"), "{which:?}: {} {}", ran.stdout, ran.stderr);
        assert!(lines.contains(&"200"), "{which:?}: {} {}", ran.stdout, ran.stderr);
        // There, /dev/null stands in its place.
        assert!(which == Which::Real || !lines.contains(&"7"), "the descriptor is not visible inside");
    }
}

/// What was refused is told at the end, which srt's command line does not do.
#[test]
fn violations_are_told() {
    if program("curl").is_none() {
        return skipped("curl is not installed");
    }
    let place = Place::new();
    let mut command = srt(Which::Kennel, &place, Some(&settings("", ""))).expect("kennel");
    let ran = run(command.args(["-c", &format!("{ASK}\nask http://example.com/; echo x > .bashrc")]));
    assert!(ran.stderr.contains("to allow it, in network.allowedDomains: example.com"), "{}", ran.stderr);
    assert!(ran.stderr.contains(".bashrc"), "{}", ran.stderr);
}
