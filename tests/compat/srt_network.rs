//! srt's network rules, by a server on the host's loopback that its address lets through.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use kennel_tests::{program, skipped};

use crate::world::{Place, Which, run, srt};

/// A server that answers everything with the request's first line and host.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback");
    let port = listener.local_addr().expect("it has one").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    port
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
        let outer = r#"mkfifo pipe; exec 7<>pipe; (while ! test -e ready; do sleep 0.05; done; echo nonsense; cat ../line; echo) > pipe & (while ! test -e ready; do sleep 0.05; done; sleep 0.5; touch told) & "$@" --control-fd 7 -c "$SCRIPT"; kill $(jobs -p) 2>/dev/null; true"#;
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
    assert!(ran.stderr.contains("example.com"), "{}", ran.stderr);
    assert!(ran.stderr.contains(".bashrc"), "{}", ran.stderr);
}
