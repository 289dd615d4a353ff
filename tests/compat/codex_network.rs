//! The managed network of Codex's helper 0.166: its own proxies are the only way out, in both programs.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kennel_tests::{eventually, program, skipped};

use crate::compat::codex_further::{ALL, LEAST, Trial, WORK, profile};
use crate::compat::peers::Codex;
use crate::compat::world::{Place, Which, codex_helper, installed};

/// A proxy of the host's that tells who it is, and keeps what it was sent first.
struct Proxy {
    port: u16,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Proxy {
    fn new(answer: &'static str) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of the loopback");
        let port = listener.local_addr().expect("an address").port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&heard);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let keep = Arc::clone(&keep);
                std::thread::spawn(move || serve(client, answer, &keep));
            }
        });
        Proxy { port, heard }
    }

    fn take_heard(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reads a request up to its empty line, and answers.
fn serve(mut client: TcpStream, answer: &str, heard: &Mutex<Vec<Vec<u8>>>) {
    let (mut request, mut some) = (Vec::new(), [0; 4096]);
    let _ = client.set_read_timeout(Some(Duration::from_secs(20)));
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match client.read(&mut some) {
            Ok(count @ 1..) => request.extend_from_slice(&some[..count]),
            _ => break,
        }
    }
    heard.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ";
    let _ = client.write_all(format!("{head}{}\r\n\r\n{answer}", answer.len()).as_bytes());
}

/// Asks the proxy that each variable names, and prints who answers.
const ASK: &str = r#"
for name in $NAMES; do
  address=${!name#*://}; address=${address##*@}; address=${address%%[/?#]*}
  exec 3<>/dev/tcp/${address%:*}/${address##*:} || continue
  printf 'GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n' >&3
  echo "$name $(tail -n 1 <&3)"
  exec 3>&-
done 2>/dev/null
"#;

const NAMES: [&str; 16] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "WS_PROXY",
    "WSS_PROXY",
    "ALL_PROXY",
    "FTP_PROXY",
    "YARN_HTTP_PROXY",
    "YARN_HTTPS_PROXY",
    "NPM_CONFIG_HTTP_PROXY",
    "NPM_CONFIG_HTTPS_PROXY",
    "NPM_CONFIG_PROXY",
    "BUNDLE_HTTP_PROXY",
    "BUNDLE_HTTPS_PROXY",
    "PIP_PROXY",
    "DOCKER_HTTP_PROXY",
    "DOCKER_HTTPS_PROXY",
];

const TOKEN: &str = "token-of-the-test";

/// Flags and an `--allow-network-for-proxy` of older releases mean the same.
const MANAGED: &[&str] = &["--managed-network", "{}"];

#[test]
#[kennel_claim::claim("processes/codex-proxies-only")]
fn every_proxy_variable_leads_to_its_proxy_and_tells_it_whose_connection_it_is() {
    if !installed(&["bash"]) {
        return;
    }
    let (first, second) = (Proxy::new("first"), Proxy::new("second"));
    let mut variables: Vec<(String, String)> = Vec::new();
    for (index, name) in NAMES.into_iter().enumerate() {
        let port = if index % 2 == 0 { first.port } else { second.port };
        let address = match index % 5 {
            0 => format!("http://127.0.0.1:{port}"),
            1 => format!("http://localhost:{port}/"),
            2 => format!("127.0.0.1:{port}"),
            3 => format!("http://user:password@127.0.0.1:{port}/?a#b"),
            _ => format!("socks5h://LOCALHOST:{port}"),
        };
        variables.extend([(name.to_owned(), address.clone()), (name.to_lowercase(), address)]);
    }
    // The rest is Codex's own, and stays.
    let others = [
        ("NO_PROXY", ""),
        ("no_proxy", ""),
        ("NPM_CONFIG_NOPROXY", ""),
        ("GRPC_PROXY", "http://127.0.0.1:1"),
        ("CODEX_NETWORK_PROXY_ACTIVE", "1"),
        ("ELECTRON_GET_USE_PROXY", "true"),
        ("NODE_USE_ENV_PROXY", "1"),
        ("CODEX_NETWORK_PROXY_ATTRIBUTION", TOKEN),
    ];
    let names: Vec<&str> = variables.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(" ");
    let mut all: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    all.extend(others);
    all.push(("NAMES", &names));
    let script = format!("{ASK} env | grep -iE 'proxy' | grep -v ^NAMES | sort");
    for profile in [profile(&[ALL, WORK], "restricted"), r#"{"type":"disabled"}"#.to_owned()] {
        let told = |which| {
            let place = Place::new();
            let trial = Trial { place: &place, profile: &profile, flags: MANAGED, variables: &all };
            let said = trial.run(which, &["bash", "-c", &script])?.ok().stdout;
            let heard = [first.take_heard(), second.take_heard()];
            // The real one's ports are other ones inside.
            let port = |text: &str| text.chars().all(|c| c.is_ascii_digit()) && text.len() > 3;
            let said: Vec<String> = said
                .lines()
                .map(|line| {
                    let parts: Vec<&str> = line.split_inclusive([':', '/']).collect();
                    parts
                        .iter()
                        .map(|part| if port(part.trim_end_matches('/')) { "PORT" } else { part })
                        .collect()
                })
                .collect();
            Some((said, heard))
        };
        let (said, heard) = told(Which::Kennel).expect("kennel is there");
        let answers =
            said.iter().filter(|line| line.ends_with(" first") || line.ends_with(" second")).count();
        assert_eq!(answers, 32, "{said:#?}");
        let mut frame = b"\0CDXPXY1\0\x11".to_vec();
        frame.extend(TOKEN.as_bytes());
        frame.extend(b"GET http://example.com/");
        for request in heard.iter().flatten() {
            assert!(request.starts_with(&frame), "{}", String::from_utf8_lossy(request));
        }
        assert!(
            said.contains(&"NO_PROXY=".to_owned()) && !said.iter().any(|line| line.contains(TOKEN)),
            "{said:#?}"
        );
        if let Some((real, real_heard)) = told(Which::Real) {
            assert_eq!(said, real, "{profile}");
            assert_eq!(heard, real_heard, "{profile}");
        }
    }
}

#[test]
#[kennel_claim::claim("processes/codex-proxies-only")]
fn the_token_is_nowhere_inside() {
    let proxy = Proxy::new("x");
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let variables = [("HTTP_PROXY", address.as_str()), ("CODEX_NETWORK_PROXY_ATTRIBUTION", TOKEN)];
    // Of the plain network too, in which nobody sets it.
    for flags in [MANAGED, &["--allow-network-for-proxy"], &[]] {
        let place = Place::new();
        let profile = profile(&[ALL], "restricted");
        let trial = Trial { place: &place, profile: &profile, flags, variables: &variables };
        let script =
            "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; find /proc/self/fd -lname 'socket:*'";
        let told = trial.run(Which::Kennel, &["bash", "-c", script]).expect("kennel is there");
        assert!(!told.stdout.contains(TOKEN), "{flags:?}: {}", told.stdout);
        assert!(
            !told.stdout.contains("/proc/self/fd/"),
            "no socket of the host's is inside: {}",
            told.stdout
        );
    }
}

#[test]
#[kennel_claim::claim("processes/codex-proxies-only")]
fn nothing_but_the_proxies_is_reached() {
    if !installed(&["bash"]) {
        return;
    }
    let proxy = Proxy::new("x");
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of the loopback");
    let elsewhere = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), proxy.port)).expect("another address");
    let (address, port) =
        (format!("http://127.0.0.1:{}", proxy.port), other.local_addr().expect("an address").port());
    let script = format!(
        "for to in 192.0.2.1/80 2001:db8::1/443 127.0.0.1/{port} 127.0.0.2/{0} ::1/{0}; do
            (exec 3<>/dev/tcp/$to) 2>/dev/null && echo reached $to; done
        getent hosts example.com; (exec 3<>/dev/tcp/127.0.0.1/${{HTTP_PROXY##*:}}) && echo proxy",
        proxy.port
    );
    for profile in [
        profile(&[LEAST], "restricted"),
        profile(&[ALL], "enabled"),
        r#"{"type":"disabled"}"#.to_owned(),
        r#"{"type":"managed","file_system":{"type":"unrestricted"},"network":"enabled"}"#.to_owned(),
    ] {
        for which in [Which::Kennel, Which::Real] {
            let place = Place::new();
            let variables = [("HTTP_PROXY", address.as_str())];
            let trial = Trial { place: &place, profile: &profile, flags: MANAGED, variables: &variables };
            let Some(told) = trial.run(which, &["bash", "-c", &script]) else { continue };
            assert_eq!(told.stdout, "proxy\n", "{which:?} {profile}: {}", told.stderr);
        }
    }
    drop((other, elsewhere));
}

#[test]
fn unix_sockets_are_there_where_the_network_says_so() {
    if !Path::new("/usr/bin/python3").exists() {
        return skipped("there is no /usr/bin/python3");
    }
    let script = "import socket, errno
for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM:
    try: s = socket.socket(socket.AF_UNIX, kind); print('made')
    except OSError as e: print(errno.errorcode[e.errno])
try: s = socket.socket(socket.AF_UNIX); s.connect('TOP/daemon'); print(s.recv(4))
except OSError as e: print(errno.errorcode[e.errno])
a, b = socket.socketpair(); a.sendall(b'x'); print(b.recv(1))
try: socket.create_connection(('192.0.2.1', 80), 3); print('out')
except OSError: print('refused')
for family in socket.AF_VSOCK, socket.AF_PACKET:
    try: socket.socket(family, socket.SOCK_STREAM); print('made')
    except OSError: print('refused')
";
    for (context, expected) in [
        ("{}", "EPERM\nEPERM\nEPERM\n"),
        (r#"{"allowUnixSockets":["/x"],"dangerouslyAllowAllUnixSockets":false}"#, "EPERM\nEPERM\nEPERM\n"),
        (
            r#"{"loopbackPorts":[9],"allowLocalBinding":true,"dangerouslyAllowAllUnixSockets":true}"#,
            "made\nmade\nb'pong'\n",
        ),
    ] {
        for which in [Which::Kennel, Which::Real] {
            let place = Place::new();
            let daemon =
                UnixListener::bind(place.top().join("daemon")).expect("a scratch folder takes a socket");
            std::thread::spawn(move || {
                daemon.incoming().flatten().for_each(|mut client| drop(client.write_all(b"pong")));
            });
            let (profile, script) = (profile(&[ALL, WORK], "restricted"), place.fill_in(script));
            let flags = ["--managed-network", context];
            let variables = [("HTTP_PROXY", "http://127.0.0.1:9")];
            let trial = Trial { place: &place, profile: &profile, flags: &flags, variables: &variables };
            let Some(told) = trial.run(which, &["/usr/bin/python3", "-c", &script]) else { continue };
            let rest = "b'x'\nrefused\nrefused\nrefused\n";
            assert_eq!(told.stdout, format!("{expected}{rest}"), "{which:?} {context}: {}", told.stderr);
        }
    }
}

#[test]
fn without_a_proxy_that_can_be_used_nothing_starts() {
    for (variables, said) in [
        (&[][..], "managed proxy mode requires proxy environment variables"),
        (&[("HTTP_PROXY", " ")], "managed proxy mode requires proxy environment variables"),
        (&[("GRPC_PROXY", "http://127.0.0.1:9")], "managed proxy mode requires proxy environment variables"),
        (
            &[("HTTP_PROXY", "http://proxy.example:9")],
            "managed proxy mode requires parseable loopback proxy endpoints",
        ),
        (
            &[("npm_config_proxy", "http://127.0.0.1:0")],
            "managed proxy mode requires parseable loopback proxy endpoints",
        ),
        (
            &[("HTTP_PROXY", "http://[::1]:9")],
            "managed proxy mode requires parseable loopback proxy endpoints",
        ),
    ] {
        for which in [Which::Kennel, Which::Real] {
            let place = Place::new();
            let Some(mut helper) = codex_helper(which, Codex::Profile, &place) else { continue };
            for name in NAMES {
                helper.env_remove(name).env_remove(name.to_lowercase());
            }
            helper
                .args(["--permission-profile", r#"{"type":"disabled"}"#])
                .args(MANAGED)
                .args(["--", "echo", "ran"]);
            let told = kennel_tests::ran(helper.envs(variables.iter().copied()));
            assert!(told.code != 0 && told.stdout.is_empty(), "{which:?} {variables:?}");
            assert!(told.stderr.contains(said), "{which:?} {variables:?}: {}", told.stderr);
        }
    }
}

/// With what Codex sets for them, and nothing else.
#[test]
fn npm_and_pip_use_the_proxy() {
    let proxy = Proxy::new("{}");
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let home = |place: &Place| place.top().join("home").display().to_string();
    let npm = ["npm", "ping", "--registry", "http://registry.test/", "--loglevel", "error"];
    let pip = [
        "python3",
        "-m",
        "pip",
        "-q",
        "--disable-pip-version-check",
        "download",
        "--retries",
        "0",
        "--no-deps",
        "-i",
        "http://index.test/simple",
        "--trusted-host",
        "index.test",
        "nothing",
    ];
    let names = ["npm_config_proxy", "npm_config_http_proxy", "npm_config_https_proxy", "PIP_PROXY"];
    for (command, asked) in
        [(&npm[..], "GET http://registry.test/"), (&pip[..], "GET http://index.test/simple/")]
    {
        if program(command[0]).is_none() {
            skipped(&format!("{} is not installed", command[0]));
            continue;
        }
        let place = Place::new();
        let home = home(&place);
        let mut variables: Vec<(&str, &str)> = names.iter().map(|name| (*name, address.as_str())).collect();
        variables.extend([("npm_config_cache", home.as_str()), ("NO_PROXY", "")]);
        let profile =
            profile(&[ALL, WORK, &crate::compat::codex_further::entry("TOP/home", "write")], "restricted");
        let trial = Trial { place: &place, profile: &profile, flags: MANAGED, variables: &variables };
        let told = trial.run(Which::Kennel, command).expect("kennel is there");
        if told.stderr.contains("No module named pip") {
            skipped("pip is not installed");
            continue;
        }
        let heard = proxy.take_heard();
        let found = heard.iter().any(|request| String::from_utf8_lossy(request).contains(asked));
        assert!(found, "{command:?}: {heard:?} {}", told.stderr);
    }
}

#[test]
fn a_connection_ends_with_the_sandbox() {
    if !installed(&["bash"]) {
        return;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of the loopback");
    let address = format!("http://127.0.0.1:{}", listener.local_addr().expect("an address").port());
    let script = "exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}; printf ready >&3; read -r answer <&3";
    let place = Place::new();
    let mut helper = codex_helper(Which::Kennel, Codex::Profile, &place).expect("kennel is there");
    helper
        .args(["--permission-profile", r#"{"type":"disabled"}"#])
        .args(MANAGED)
        .args(["--", "bash", "-c", script]);
    helper.env("HTTP_PROXY", address).stdout(Stdio::null()).stderr(Stdio::null());
    let mut helper = helper.spawn().expect("kennel is there");
    listener.set_nonblocking(true).expect("it does not block");
    let (mut upstream, _) = eventually("a connection", || listener.accept().ok());
    upstream.set_nonblocking(false).expect("it blocks");
    upstream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
    let mut ready = [0; 5];
    upstream.read_exact(&mut ready).expect("it speaks");
    assert_eq!(&ready, b"ready");
    helper.kill().expect("it runs");
    helper.wait().expect("it is ours");
    // An end, or a reset.
    assert!(!matches!(upstream.read(&mut ready), Ok(1..)));
    let timed_out =
        upstream.read(&mut ready).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!timed_out, "the connection is still open");
}

#[test]
fn closed_streams_do_not_disturb_the_proxies() {
    let proxy = Proxy::new("x");
    let place = Place::new();
    let helper = codex_helper(Which::Kennel, Codex::Profile, &place).expect("kennel is there");
    let mut bash = std::process::Command::new("bash");
    let script = r#"exec 0<&- 1>&-; exec "$0" --sandbox-policy-cwd / --permission-profile '{"type":"disabled"}' --managed-network '{}' -- bash -c "$1""#;
    let inside = format!("{ASK} exit 5");
    bash.args(["-c", script]).arg(helper.get_program()).arg(&inside);
    bash.env("HTTP_PROXY", format!("http://127.0.0.1:{}", proxy.port)).env("NAMES", "HTTP_PROXY");
    assert_eq!(kennel_tests::ran(&mut bash).code, 5);
    assert_eq!(proxy.take_heard().len(), 1);
}
