//! The lane that reads requests: TLS that ends at the gate, secrets, and rules about requests. The servers and the clients are
//! real ones, on the loopback.
#![cfg(unix)]

mod world;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use kennel_policy::domain::{HostRule, ListKind};
use kennel_policy::http_rule::HttpRule;
use kennel_policy::secrets::SwapIn;
use kennel_proxy::secrets::{AwsKey, SecretValue, Swap};
use kennel_proxy::{Authority, Inspect, Inspector, Roots, Verdict};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use world::{SOON, World, pem, rules};

const REAL: &str = "sk-ant-api03-REAL-0123456789-REAL";
const STAND_IN: &str = "sk-ant-api03-fake-abcdefghij-fake";

/// A TLS server that answers each request with what `respond` makes of it, and remembers them.
struct Upstream {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    authority: String,
    folder: tempfolder::Folder,
}

mod tempfolder {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    static NUMBER: AtomicU32 = AtomicU32::new(0);

    pub struct Folder(PathBuf);

    impl Folder {
        pub fn new() -> Folder {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("kennel-inspect-{}-{number}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        pub fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A request, with its body.
fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            _ => return None,
        }
    }
    let head = String::from_utf8(bytes).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        while !body.ends_with(b"0\r\n\r\n") {
            stream.read_exact(&mut byte).ok()?;
            body.push(byte[0]);
        }
    }
    Some(head + &String::from_utf8_lossy(&body))
}

impl Upstream {
    fn start(names: &[&str], respond: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Upstream {
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_pem = pem(ca.self_signed(&ca_key).unwrap().der());
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let (own, respond) = (Arc::clone(&seen), Arc::new(respond));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (config, seen, respond) = (Arc::clone(&config), Arc::clone(&own), Arc::clone(&respond));
                std::thread::spawn(move || {
                    let Ok(stream) = stream else { return };
                    stream.set_read_timeout(Some(SOON)).unwrap();
                    let mut first = [0];
                    // Plain requests come here as well.
                    if stream.peek(&mut first).is_ok_and(|count| count == 1) && first[0] != 22 {
                        return answer(stream, &seen, &*respond);
                    }
                    let connection = ServerConnection::new(config).unwrap();
                    answer(StreamOwned::new(connection, stream), &seen, &*respond);
                });
            }
        });
        Upstream { port, seen, authority: ca_pem, folder: tempfolder::Folder::new() }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    fn roots(&self) -> Arc<Roots> {
        let file = self.folder.path().join("ca.pem");
        std::fs::write(&file, &self.authority).unwrap();
        Arc::new(Roots::load(&[file], std::iter::empty()).unwrap())
    }
}

fn answer(mut stream: impl Read + Write, seen: &Mutex<Vec<String>>, respond: &dyn Fn(&str) -> Vec<u8>) {
    while let Some(request) = read_request(&mut stream) {
        let response = respond(&request);
        seen.lock().unwrap().push(request);
        // In small parts, so that a value is cut.
        for part in response.chunks(7) {
            if stream.write_all(part).and_then(|()| stream.flush()).is_err() {
                return;
            }
        }
    }
}

fn page(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn swap(hosts: &[&str], swap_in: SwapIn) -> Swap {
    Swap {
        name: "KEY".into(),
        stand_in: STAND_IN.into(),
        value: SecretValue::from_bytes(REAL.as_bytes().to_vec()).unwrap(),
        hosts: hosts.iter().map(|host| HostRule::parse(host, ListKind::Allow).unwrap()).collect(),
        swap_in,
    }
}

fn nothing(roots: Arc<Roots>, authority: &Arc<Authority>) -> Inspect {
    Inspect { authority: Some(Arc::clone(authority)), ..Inspect::new(roots) }
}

struct Setting {
    world: World,
    authority: Arc<Authority>,
    upstream: Upstream,
}

impl Setting {
    fn new(upstream: Upstream, change: impl FnOnce(&mut Inspect)) -> Setting {
        let authority = Arc::new(Authority::new().unwrap());
        let mut inspect = nothing(upstream.roots(), &authority);
        change(&mut inspect);
        let inspector = Arc::new(Inspector::new(inspect).unwrap());
        let world = World::with(rules(&["api.test", "other.test", "127.0.0.1"], &[]), |settings| {
            settings.inspect = Some(inspector);
        });
        for name in ["api.test", "other.test"] {
            world.names.set(name, &["127.0.0.1"]);
        }
        Setting { world, authority, upstream }
    }

    fn tls(&self, host: &str) -> StreamOwned<ClientConnection, TcpStream> {
        self.tls_named(host, host)
    }

    fn tls_named(&self, host: &str, sni: &str) -> StreamOwned<ClientConnection, TcpStream> {
        let mut store = RootCertStore::empty();
        store.add(CertificateDer::from(self.authority.certificate_der().to_vec())).unwrap();
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(store)
            .with_no_client_auth();
        let stream = self.world.tunnel(&format!("{host}:{}", self.upstream.port)).0;
        let name = ServerName::try_from(sni.to_owned()).unwrap();
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
    }

    /// One request over a connection of its own; the whole answer.
    fn ask(&self, host: &str, request: &str) -> String {
        let mut stream = self.tls(host);
        say(&mut stream, host, self.upstream.port, request)
    }

    fn denied(&self) -> Vec<String> {
        let records = self.world.gate.records().into_iter();
        let reasons = records.filter_map(|record| match record.verdict {
            Verdict::Denied(reason) => Some(format!("{}: {reason}", record.host)),
            Verdict::Allowed => None,
        });
        reasons.collect()
    }
}

/// `request` is a line, more fields and a body; `HOST` in it is the host.
fn say(stream: &mut (impl Read + Write), host: &str, port: u16, request: &str) -> String {
    let (line, rest) = request.split_once("\r\n").unwrap_or((request, "\r\n"));
    let rest =
        if rest.contains("\r\n\r\n") || rest == "\r\n" { rest.to_owned() } else { format!("{rest}\r\n\r\n") };
    let text = format!("{line}\r\nHost: {host}:{port}\r\nConnection: close\r\n{rest}");
    stream.write_all(text.as_bytes()).unwrap();
    stream.flush().unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_stand_in_is_exchanged_on_the_way_out_and_back() {
    let upstream = Upstream::start(&["api.test"], |request| page(&format!("you said {request}")));
    let setting = Setting::new(upstream, |inspect| {
        inspect.swaps = vec![swap(&["api.test"], SwapIn::default())];
    });
    let answer =
        setting.ask("api.test", &format!("GET /v1 HTTP/1.1\r\nX-Api-Key: {STAND_IN}\r\nRange: bytes=0-3"));
    let seen = setting.upstream.seen().remove(0);
    assert!(seen.contains(REAL) && !seen.contains(STAND_IN), "{seen}");
    assert!(
        seen.to_ascii_lowercase().contains("accept-encoding: identity") && !seen.contains("bytes="),
        "{seen}"
    );
    assert!(answer.contains(STAND_IN) && !answer.contains(REAL), "{answer}");
    assert_eq!(setting.denied(), Vec::<String>::new());
}

#[test]
fn an_echo_in_other_encodings_is_redacted_too() {
    let upstream = Upstream::start(&["api.test"], |_| {
        let hex: String = REAL.bytes().map(|byte| format!("{byte:02x}")).collect();
        // "token=" before it, as in a form: `dG9rZW49` and on.
        let body = format!("{hex} dG9rZW49c2stYW50LWFwaTAzLVJFQUwtMDEyMzQ1Njc4OS1SRUFM {REAL}");
        let head = format!(
            "HTTP/1.1 200 OK\r\nX-Echo: {REAL}\r\nAlt-Svc: h3=\":443\"\r\nContent-Length: {}",
            body.len()
        );
        format!("{head}\r\n\r\n{body}").into_bytes()
    });
    let setting = Setting::new(upstream, |inspect| {
        inspect.swaps = vec![swap(&["api.test"], SwapIn::default())];
    });
    let answer = setting.ask("api.test", "GET / HTTP/1.1");
    let hex: String = REAL.bytes().map(|byte| format!("{byte:02x}")).collect();
    for leak in [REAL, &hex, "LVJFQUwtMDEyMzQ1Njc4OS1S"] {
        assert!(!answer.contains(leak), "{leak} in {answer}");
    }
    assert!(
        answer.to_ascii_lowercase().contains(&format!("x-echo: {STAND_IN}").to_ascii_lowercase()),
        "{answer}"
    );
    assert!(!answer.to_ascii_lowercase().contains("alt-svc"), "{answer}");
}

#[test]
fn a_compressed_answer_that_nobody_asked_for_is_not_passed_on() {
    let upstream = Upstream::start(&["api.test"], |_| {
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n\x1f\x8bxyz".to_vec()
    });
    let setting = Setting::new(upstream, |inspect| {
        inspect.swaps = vec![swap(&["api.test"], SwapIn::default())];
    });
    let answer = setting.ask("api.test", "GET / HTTP/1.1");
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("compressed"), "{answer}");
}

#[test]
fn a_stand_in_that_is_sent_elsewhere_is_refused_and_recorded() {
    let upstream = Upstream::start(&["api.test", "other.test"], page);
    let setting = Setting::new(upstream, |inspect| {
        inspect.swaps = vec![swap(&["api.test"], SwapIn::default())];
        inspect.terminate = vec![HostRule::parse("other.test", ListKind::Allow).unwrap()];
    });
    let body = format!("{{\"a\": \"{STAND_IN}\"}}");
    let percent: String = STAND_IN.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for request in [
        format!("GET / HTTP/1.1\r\nAuthorization: Bearer {STAND_IN}"),
        format!("GET /?key={STAND_IN} HTTP/1.1"),
        format!("GET /{percent} HTTP/1.1"),
        format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
    ] {
        let answer = setting.ask("other.test", &request);
        assert!(
            answer.starts_with("HTTP/1.1 403 ") && answer.contains("secrets.KEY.hosts"),
            "{request}: {answer}"
        );
    }
    assert!(
        setting.upstream.seen().iter().all(|seen| !seen.contains("fake")),
        "{:?}",
        setting.upstream.seen()
    );
    assert!(setting.denied()[0].contains("KEY is not bound to this host"), "{:?}", setting.denied());

    // The same without encryption, by the proxy and as if to the server.
    for host in ["other.test", "api.test"] {
        let target = format!("{host}:{}", setting.upstream.port);
        let mut client = setting.world.client();
        let line = format!("GET http://{target}/ HTTP/1.1\r\nX-Api-Key: {STAND_IN}");
        let answer = say(&mut client.0, host, setting.upstream.port, &line);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        let mut client = setting.world.tunnel(&target);
        let line = format!("GET / HTTP/1.1\r\nX-Api-Key: {STAND_IN}");
        let answer = say(&mut client.0, host, setting.upstream.port, &line);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    }
}

#[test]
fn plain_requests_without_secrets_go_on() {
    let upstream = Upstream::start(&["api.test"], page);
    let setting = Setting::new(upstream, |inspect| {
        inspect.swaps = vec![swap(&["api.test"], SwapIn::default())];
    });
    let port = setting.upstream.port;
    let mut client = setting.world.client();
    let answer = say(&mut client.0, "other.test", port, &format!("GET http://other.test:{port}/x HTTP/1.1"));
    assert!(answer.contains("GET /x HTTP/1.1"), "{answer}");
    let mut client = setting.world.tunnel(&format!("other.test:{port}"));
    let answer = say(&mut client.0, "other.test", port, "POST /y HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi");
    assert!(answer.contains("POST /y HTTP/1.1") && answer.ends_with("hi"), "{answer}");
}

#[test]
fn rules_about_requests_hold_inside_tls_and_outside() {
    let upstream = Upstream::start(&["api.test"], page);
    let setting = Setting::new(upstream, |inspect| {
        inspect.http = ["GET api.test/docs/*", "POST api.test/repos/me/*/issues"]
            .map(|rule| HttpRule::parse(rule).unwrap())
            .to_vec();
    });
    for (request, status) in [
        ("GET /docs/a HTTP/1.1", 200),
        ("GET /docs//a%41?x=1 HTTP/1.1", 200),
        ("POST /repos/me/kennel/issues HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi", 200),
        ("GET /repos/me/kennel/issues HTTP/1.1", 403),
        ("GET /docs/../repos HTTP/1.1", 403),
        ("GET /docs/%2e%2e/repos HTTP/1.1", 403),
        ("POST /docs/a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi", 403),
    ] {
        let answer = setting.ask("api.test", request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
    let port = setting.upstream.port;
    let mut client = setting.world.tunnel(&format!("api.test:{port}"));
    let answer = say(&mut client.0, "api.test", port, "GET /private HTTP/1.1");
    assert!(answer.contains(&format!("GET api.test:{port}/private")), "{answer}");
    // Nothing but requests goes there.
    let mut client = setting.world.tunnel(&format!("api.test:{port}"));
    client.send("SSH-2.0-client\r\n");
    let said = String::from_utf8(client.rest().unwrap_or_default()).unwrap();
    assert!(!said.contains("200 OK"), "{said}");
    let denied = setting.denied().join("\n");
    assert!(denied.contains("only requests that can be read go to this host"), "{denied}");
    assert!(setting.upstream.seen().iter().any(|seen| seen.starts_with("GET /docs/aA?x=1 ")));
}

#[test]
#[kennel_claim::claim("secrets/one-reading-of-a-request")]
fn fields_that_stand_for_another_method_or_path_are_taken_off() {
    let fields = [
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
        "X_HTTP_METHOD_OVERRIDE",
        "X.Http.Method.Override",
        "x-httpmethod",
        "X-Forwarded-Method",
        "X-Original-Method",
        "Request-Method",
        "X-HttpVerb-Override",
        "X-Original-URL",
        "X-Original-URI",
        "X_REWRITE_URL",
        "X-Forwarded-Prefix",
    ];
    let ask = |setting: &Setting, line: &str| {
        let all: String = fields.iter().map(|name| format!("{name}: DELETE\r\n")).collect();
        let request = format!("{line}\r\n{all}Access-Control-Request-Method: PUT\r\nX-Other: DELETE\r\n\r\n");
        let answer = setting.ask("api.test", &request);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        setting.upstream.seen().pop().unwrap().to_ascii_lowercase()
    };
    let read = |inspect: &mut Inspect| {
        inspect.terminate = vec![HostRule::parse("api.test", ListKind::Allow).unwrap()];
    };
    let ruled = Setting::new(Upstream::start(&["api.test"], page), |inspect| {
        inspect.http = vec![HttpRule::parse("GET api.test/*").unwrap()];
    });
    let seen = ask(&ruled, "GET /x HTTP/1.1");
    for name in fields {
        assert!(!seen.contains(&format!("\n{}:", name.to_ascii_lowercase())), "{name}: {seen}");
    }
    assert!(seen.contains("x-other: delete") && seen.contains("access-control-request-method"), "{seen}");
    // Where no rule is about requests they are the client's own affair.
    let seen = ask(&Setting::new(Upstream::start(&["api.test"], page), read), "GET /x HTTP/1.1");
    assert!(fields.iter().all(|name| seen.contains(&name.to_ascii_lowercase())), "{seen}");
}

#[test]
#[kennel_claim::claim("secrets/one-reading-of-a-request")]
fn paths_that_a_server_could_climb_by_are_refused_and_not_sent() {
    let setting = Setting::new(Upstream::start(&["api.test"], page), |inspect| {
        inspect.http = vec![HttpRule::parse("GET api.test/docs/*").unwrap()];
    });
    for part in [
        "..%C2%A0",
        "..%E3%80%80",
        "..%E2%80%8B",
        "..%EF%BB%BF",
        "..%C2%AD",
        "..+",
        ".%20.",
        "..%3Bx",
        "..:",
        "%EF%BC%8E.",
        "%2e%2e%20",
    ] {
        let answer = setting.ask("api.test", &format!("GET /docs/{part}/private HTTP/1.1"));
        assert!(
            answer.starts_with("HTTP/1.1 403 ") && answer.contains("the path is refused"),
            "{part}: {answer}"
        );
    }
    assert!(setting.upstream.seen().is_empty());
    assert!(setting.ask("api.test", "GET /docs/.git/a..b HTTP/1.1").starts_with("HTTP/1.1 200 "));
}

#[test]
#[kennel_claim::claim("secrets/aws-signatures")]
fn a_signature_with_the_stand_in_of_another_host_is_refused() {
    let secret = |text: &str| SecretValue::from_bytes(text.as_bytes().to_vec()).unwrap();
    let upstream = Upstream::start(&["api.test", "other.test"], page);
    let setting = Setting::new(upstream, |inspect| {
        let hosts = |name| vec![HostRule::parse(name, ListKind::Allow).unwrap()];
        let id = "AKIAstandinstandinstandin";
        let id_swap = Swap {
            name: "AWS_ACCESS_KEY_ID".into(),
            stand_in: id.into(),
            value: secret("AKIDEXAMPLE"),
            hosts: hosts("api.test"),
            swap_in: SwapIn::default(),
        };
        inspect.swaps = vec![id_swap];
        inspect.aws.keys = vec![AwsKey {
            id_stand_in: id.into(),
            id: secret("AKIDEXAMPLE"),
            secret: secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: None,
            hosts: hosts("api.test"),
        }];
        inspect.terminate = hosts("other.test");
    });
    let scope = "AKIAstandinstandinstandin/20150830/us-east-1/s3/aws4_request";
    let escaped = scope.replace('/', "%2F");
    let signed =
        format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host;x-amz-date, Signature=0bad");
    let date = "X-Amz-Date: 20150830T123600Z";
    for request in [
        format!("GET /a HTTP/1.1\r\nAuthorization: {signed}\r\n{date}"),
        format!(
            "GET /a?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={escaped}&X-Amz-Signature=0bad HTTP/1.1"
        ),
        format!("GET /a HTTP/1.1\r\nProxy-Authorization: {signed}\r\nX-Signed: {signed}\r\n{date}"),
        format!("GET /a HTTP/1.1\r\nAuthorization: AWS AKIAstandinstandinstandin:c2ln\r\n{date}"),
    ] {
        let answer = setting.ask("other.test", &request);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{request}: {answer}");
    }
    assert!(setting.upstream.seen().is_empty(), "{:?}", setting.upstream.seen());
    let answer =
        setting.ask("other.test", "GET /a HTTP/1.1\r\nAuthorization: AWS4-HMAC-SHA256 Credential=mine");
    assert!(answer.starts_with("HTTP/1.1 200 "), "another key is nothing to kennel: {answer}");
}

#[test]
fn a_host_that_only_rules_about_requests_name_can_be_reached_where_they_are_read() {
    use kennel_policy::domain::Host;
    use kennel_proxy::Decision;
    let rule = || HttpRule::parse("GET only.test:8443/*").unwrap();
    let setting = Setting::new(Upstream::start(&["api.test"], page), |inspect| inspect.http = vec![rule()]);
    let gate = &setting.world.gate;
    let reached =
        |host: &str, port| matches!(gate.decide(&Host::parse(host).unwrap(), port), Decision::Allow { .. });
    assert!(reached("only.test", 8443) && !reached("only.test", 443));
    // Other lists leave it as it is.
    gate.update_lists(Vec::new(), Vec::new());
    assert!(reached("only.test", 8443) && !reached("api.test", 8443));
    let unread = World::new(&[]).gate.decide(&Host::parse("only.test").unwrap(), 8443);
    assert!(!matches!(unread, Decision::Allow { .. }));
}

#[test]
fn names_have_to_agree() {
    let upstream = Upstream::start(&["api.test", "other.test"], page);
    let setting = Setting::new(upstream, |inspect| {
        inspect.terminate = vec![HostRule::parse("api.test", ListKind::Allow).unwrap()];
    });
    let mut stream = setting.tls("api.test");
    let answer = say(&mut stream, "other.test", setting.upstream.port, "GET / HTTP/1.1");
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    let mut stream = setting.tls_named("api.test", "other.test");
    assert!(stream.write_all(b"GET / HTTP/1.1\r\n\r\n").and_then(|()| stream.flush()).is_err());
    assert_eq!(setting.upstream.seen(), Vec::<String>::new());
}

#[test]
fn a_server_that_cannot_be_verified_is_told_as_a_page() {
    let upstream = Upstream::start(&["wrong.test"], page);
    let setting = Setting::new(upstream, |inspect| {
        inspect.terminate = vec![HostRule::parse("api.test", ListKind::Allow).unwrap()];
    });
    let answer = setting.ask("api.test", "GET / HTTP/1.1");
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("network.no_terminate"), "{answer}");
}

#[test]
fn a_client_that_does_not_trust_the_sandbox_is_told_about() {
    let upstream = Upstream::start(&["api.test"], page);
    let mut setting = Setting::new(upstream, |inspect| {
        inspect.terminate = vec![HostRule::parse("api.test", ListKind::Allow).unwrap()];
    });
    setting.authority = Arc::new(Authority::new().unwrap());
    let mut stream = setting.tls("api.test");
    assert!(stream.write_all(b"GET / HTTP/1.1\r\n\r\n").and_then(|()| stream.flush()).is_err());
    drop(stream);
    for _ in 0..100 {
        if setting.denied().iter().any(|line| line.contains("network.no_terminate")) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{:?}", setting.denied());
}

#[test]
fn a_redirect_is_passed_on_and_not_followed() {
    let upstream = Upstream::start(&["api.test", "other.test"], |_| {
        b"HTTP/1.1 302 Found\r\nLocation: https://other.test/steal\r\nContent-Length: 0\r\n\r\n".to_vec()
    });
    let setting = Setting::new(upstream, |inspect| {
        inspect.swaps = vec![swap(&["api.test"], SwapIn::default())];
    });
    let answer = setting.ask("api.test", &format!("GET / HTTP/1.1\r\nX-Api-Key: {STAND_IN}"));
    assert!(answer.starts_with("HTTP/1.1 302 ") && answer.contains("https://other.test/steal"), "{answer}");
    assert_eq!(setting.upstream.seen().len(), 1);
}

#[test]
fn other_tls_is_carried_unread() {
    let upstream = Upstream::start(&["other.test"], page);
    let mut setting = Setting::new(upstream, |inspect| {
        inspect.swaps = vec![swap(&["api.test"], SwapIn::default())];
    });
    // The client sees the server's own certificate, which the sandbox's authority did not sign.
    let mut stream = setting.tls("other.test");
    assert!(stream.write_all(b"GET / HTTP/1.1\r\n\r\n").and_then(|()| stream.flush()).is_err());
    setting.authority = Arc::new(Authority::new().unwrap());
}

#[test]
fn a_body_is_exchanged_wherever_it_is_cut() {
    let upstream = Upstream::start(&["api.test"], |_| page("ok"));
    let setting = Setting::new(upstream, |inspect| {
        inspect.swaps = vec![swap(&["api.test"], SwapIn { body: true, ..SwapIn::default() })];
    });
    let mut stream = setting.tls("api.test");
    let port = setting.upstream.port;
    let body = format!("a={STAND_IN}&b=1");
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: api.test:{port}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )
    .unwrap();
    for byte in body.bytes() {
        stream.write_all(&[byte]).unwrap();
        stream.flush().unwrap();
    }
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let seen = setting.upstream.seen().remove(0);
    let data: String = seen.split("\r\n").filter(|line| !line.is_empty()).collect::<Vec<_>>().join("");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(!data.contains("fake") && seen.matches("REAL").count() >= 1, "{seen}");
}

#[test]
#[kennel_claim::claim("secrets/aws-signatures")]
fn a_request_to_aws_is_signed_again_with_its_real_body() {
    let secret = |text: &str| SecretValue::from_bytes(text.as_bytes().to_vec()).unwrap();
    let upstream = Upstream::start(&["api.test"], |_| page("ok"));
    let setting = Setting::new(upstream, |inspect| {
        let hosts = vec![HostRule::parse("api.test", ListKind::Allow).unwrap()];
        inspect.swaps = vec![swap(&["api.test"], SwapIn { body: true, others: true, ..SwapIn::default() })];
        inspect.aws.keys = vec![AwsKey {
            id_stand_in: "AKIAstandinstandinstandin".into(),
            id: secret("AKIDEXAMPLE"),
            secret: secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: Some(secret("the real token")),
            hosts,
        }];
    });
    let request = |field: &str, hash: &str, body: &str| {
        format!(
            "POST /a HTTP/1.1\r\nAuthorization: {field}\r\nX-Amz-Date: 20150830T123600Z\r\nX-Amz-Content-Sha256: {hash}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let scope = "Credential=AKIAstandinstandinstandin/20150830/us-east-1/s3/aws4_request";
    let signed = format!(
        "AWS4-HMAC-SHA256 {scope}, SignedHeaders=content-length;host;x-amz-content-sha256;x-amz-date, Signature=0bad"
    );
    let body = format!("key={STAND_IN}");
    let answer = setting.ask("api.test", &request(&signed, "whatever", &body));
    assert!(answer.contains("200 OK"), "{answer}");
    let seen = setting.upstream.seen().remove(0);
    let digest = ring::digest::digest(&ring::digest::SHA256, format!("key={REAL}").as_bytes());
    let hash: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let names =
        "SignedHeaders=content-length;host;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature=";
    let real = format!("Credential=AKIDEXAMPLE/20150830/us-east-1/s3/aws4_request, {names}");
    for wanted in [&hash, &real, "the real token", REAL] {
        assert!(seen.contains(wanted), "{wanted} is not in {seen}");
    }
    assert!(!seen.contains("standin") && !seen.contains("0bad"), "{seen}");

    let streaming = request(&signed, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "");
    let answer = setting.ask("api.test", &streaming);
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("one by one"), "{answer}");
    assert_eq!(setting.upstream.seen().len(), 1);
    assert!(setting.denied()[0].contains("one by one"), "{:?}", setting.denied());
}

#[test]
fn no_more_connections_are_read_than_the_policy_allows() {
    let upstream = Upstream::start(&["api.test"], |_| page("ok"));
    let setting = Setting::new(upstream, |inspect| {
        inspect.terminate = vec![HostRule::any(Default::default())];
        inspect.max_connections = Some(1);
    });
    let mut first = setting.tls("api.test");
    first.conn.complete_io(&mut first.sock).unwrap();
    let answer = setting.ask("api.test", "GET / HTTP/1.1");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("too-many-tunnels"), "{answer}");
    let answer = say(&mut first, "api.test", setting.upstream.port, "GET / HTTP/1.1");
    assert!(answer.contains("200 OK"), "{answer}");
    drop(first);
    assert!(setting.denied()[0].contains("as many connections"), "{:?}", setting.denied());
}

#[test]
fn a_handshake_takes_no_longer_than_the_policy_allows() {
    let upstream = Upstream::start(&["api.test"], |_| page("ok"));
    let setting = Setting::new(upstream, |inspect| {
        inspect.terminate = vec![HostRule::any(Default::default())];
        inspect.handshake_timeout = Some(std::time::Duration::from_millis(100));
    });
    let mut stream = setting.world.tunnel(&format!("api.test:{}", setting.upstream.port)).0;
    // The start of a hello that never ends.
    stream.write_all(&[22, 3, 1, 1, 0, 1, 0, 0, 252]).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    match stream.read(&mut [0; 16]) {
        Ok(0) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        other => panic!("{other:?}"),
    }
    assert!(setting.upstream.seen().is_empty());
}

#[test]
fn what_ends_like_the_start_of_a_secret_arrives_whole() {
    let start = |text: &str| text[..text.len() - 3].to_owned();
    let upstream = Upstream::start(&["api.test"], move |_| page(&format!("it begins with {}", start(REAL))));
    let setting = Setting::new(upstream, |inspect| {
        inspect.swaps = vec![swap(&["api.test"], SwapIn { body: true, ..SwapIn::default() })];
    });
    let body = format!("and so does {}", start(STAND_IN));
    let request = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let answer = setting.ask("api.test", &request);
    assert!(answer.contains(&start(REAL)), "{answer}");
    let seen = setting.upstream.seen().remove(0);
    assert!(seen.contains(&body), "{seen}");
}

#[test]
fn what_two_programs_could_read_in_two_ways_is_refused_at_every_door() {
    let upstream = Upstream::start(&["api.test"], |_| page("ok"));
    let setting = Setting::new(upstream, |inspect| {
        inspect.terminate = vec![HostRule::parse("api.test", ListKind::Allow).unwrap()];
    });
    let target = format!("api.test:{}", setting.upstream.port);
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Host: other.test\r\n\r\n",
        "X: a\nY: b\r\n\r\n",
        "X: a\rb\r\n\r\n",
        " folded\r\n\r\n",
    ] {
        let head = |line: &str| format!("POST {line} HTTP/1.1\r\nHost: {target}\r\n{fields}");
        let answers = [
            whole(&mut setting.world.client().0, &head(&format!("http://{target}/"))),
            whole(&mut setting.world.tunnel(&target).0, &head("/")),
            whole(&mut setting.tls("api.test"), &head("/")),
        ];
        for answer in answers {
            assert!(answer.starts_with("HTTP/1.1 400 "), "{fields}{answer}");
            assert!(answer.contains("the request is refused: "), "{fields}{answer}");
        }
    }
    assert_eq!(setting.upstream.seen(), Vec::<String>::new());
}

/// Says this, and hears all that is answered.
fn whole(stream: &mut (impl Read + Write), text: &str) -> String {
    stream.write_all(text.as_bytes()).unwrap();
    stream.flush().unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn one_connection_to_the_proxy_carries_requests_to_several_servers_and_then_a_tunnel() {
    let upstream = Upstream::start(&["api.test", "other.test"], page);
    let setting = Setting::new(upstream, |inspect| {
        inspect.http = vec![HttpRule::parse("GET elsewhere.test/*").unwrap()];
    });
    let port = setting.upstream.port;
    let mut client = setting.world.client();
    for host in ["api.test", "other.test", "api.test"] {
        client.send(format!("GET http://{host}:{port}/{host} HTTP/1.1\r\n\r\n"));
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(world::body(&mut client, &head).contains(&format!("GET /{host} HTTP/1.1")));
    }
    client.send(format!("CONNECT api.test:{port} HTTP/1.1\r\n\r\n"));
    assert!(client.head().starts_with("HTTP/1.1 200 "));
    let answer = say(&mut client.0, "api.test", port, "GET /tunnel HTTP/1.1");
    assert!(answer.contains("GET /tunnel HTTP/1.1"), "{answer}");
}
