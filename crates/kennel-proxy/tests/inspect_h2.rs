//! HTTP/2 through the lane that reads requests: frames cut where it hurts, written by hand, to a real server.
#![cfg(unix)]

mod world;

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderName};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kennel_policy::domain::{HostRule, ListKind};
use kennel_policy::secrets::SwapIn;
use kennel_proxy::secrets::{SecretValue, Swap};
use kennel_proxy::{Authority, Inspect, Inspector, Roots};
use proptest::prelude::*;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use world::{SOON, World, pem, rules};

const REAL: &str = "sk-ant-api03-REAL-0123456789-REAL";
const STAND_IN: &str = "sk-ant-api03-fake-abcdefghij-fake";
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const DATA: u8 = 0;

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A server of HTTP/2 that remembers what it was sent, and says it.
struct Upstream {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    fn start() -> Upstream {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["api.test".to_owned()]).unwrap();
        let leaf = params.self_signed(&key).unwrap();
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let own = Arc::clone(&seen);
        let file = certificate_file(port);
        std::fs::write(&file, pem(leaf.der())).unwrap();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(listener, Arc::new(config), own));
        });
        Upstream { port, seen }
    }
}

fn certificate_file(port: u16) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("kennel-h2-{}-{port}.pem", std::process::id()))
}

async fn serve(listener: TcpListener, config: Arc<ServerConfig>, seen: Arc<Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(config);
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let seen = Arc::clone(&seen);
                async move {
                    let has_trailers = request.uri().path() == "/trailers";
                    let key = request.headers().get("x-api-key").cloned();
                    let head = request.uri().to_string();
                    let raw: String = request
                        .headers()
                        .iter()
                        .map(|(name, value)| {
                            format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()))
                        })
                        .collect();
                    let body = match request.into_body().collect().await {
                        Ok(body) => body.to_bytes(),
                        Err(_) => Bytes::from_static(b"BROKEN"),
                    };
                    let text = format!("{head}\n{raw}{}", String::from_utf8_lossy(&body));
                    seen.lock().unwrap().push(text.clone());
                    if !has_trailers {
                        return Ok::<_, Infallible>(Response::new(
                            Full::new(Bytes::from(text)).boxed_unsync(),
                        ));
                    }
                    let mut trailers = HeaderMap::new();
                    trailers.extend(key.map(|key| (HeaderName::from_static("x-echo"), key)));
                    trailers.insert("x-hex", hex(REAL).parse().unwrap());
                    let body = Empty::new().with_trailers(async { Some(Ok(trailers)) });
                    Ok(Response::new(body.boxed_unsync()))
                }
            });
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

struct Setting {
    world: World,
    authority: Arc<Authority>,
    upstream: Upstream,
}

impl Setting {
    fn new(swap_in: SwapIn) -> Setting {
        let upstream = Upstream::start();
        let file = certificate_file(upstream.port);
        let roots = Arc::new(Roots::load(std::slice::from_ref(&file), std::iter::empty()).unwrap());
        std::fs::remove_file(&file).unwrap();
        let authority = Arc::new(Authority::new().unwrap());
        let swap = Swap {
            name: "KEY".into(),
            stand_in: STAND_IN.into(),
            value: SecretValue::from_bytes(REAL.as_bytes().to_vec()).unwrap(),
            hosts: vec![HostRule::parse("api.test", ListKind::Allow).unwrap()],
            swap_in,
        };
        let inspect =
            Inspect { swaps: vec![swap], authority: Some(Arc::clone(&authority)), ..Inspect::new(roots) };
        let inspector = Arc::new(Inspector::new(inspect).unwrap());
        let world = World::with(rules(&["api.test", "127.0.0.1"], &[]), |settings| {
            settings.inspect = Some(inspector);
        });
        world.names.set("api.test", &["127.0.0.1"]);
        Setting { world, authority, upstream }
    }

    fn config(&self) -> ClientConfig {
        let mut store = RootCertStore::empty();
        store.add(CertificateDer::from(self.authority.certificate_der().to_vec())).unwrap();
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(store)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        config
    }

    /// A connection that speaks HTTP/2, with its first words said.
    fn connect(&self) -> StreamOwned<ClientConnection, std::net::TcpStream> {
        let config = self.config();
        let stream = self.world.tunnel(&format!("api.test:{}", self.upstream.port)).0;
        stream.set_read_timeout(Some(SOON)).unwrap();
        let name = ServerName::try_from("api.test").unwrap();
        let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream);
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.write_all(&frame(4, 0, 0, &[])).unwrap();
        stream
    }

    /// A head, cut in so many bytes a frame, and a body likewise.
    fn request(&self, fields: &[(&str, &str)], head_cut: usize, body: &[u8], body_cut: usize) -> Vec<u8> {
        let authority = format!("api.test:{}", self.upstream.port);
        let mut head = Vec::new();
        let first = [(":method", "POST"), (":scheme", "https"), (":authority", &authority), (":path", "/v1")];
        for (name, value) in first.iter().chain(fields) {
            // Literal, without indexing, neither packed (RFC 7541 §6.2.2).
            head.push(0);
            for text in [name, value] {
                assert!(text.len() < 127);
                head.push(u8::try_from(text.len()).unwrap());
                head.extend_from_slice(text.as_bytes());
            }
        }
        let mut bytes = Vec::new();
        let parts: Vec<&[u8]> = head.chunks(head_cut).collect();
        for (number, part) in parts.iter().enumerate() {
            let kind = if number == 0 { HEADERS } else { CONTINUATION };
            let ends = if number + 1 == parts.len() { 4 } else { 0 };
            let last = if number == 0 && body.is_empty() { 1 } else { 0 };
            bytes.extend(frame(kind, ends | last, 1, part));
        }
        let parts: Vec<&[u8]> = body.chunks(body_cut).collect();
        for (number, part) in parts.iter().enumerate() {
            bytes.extend(frame(DATA, u8::from(number + 1 == parts.len()), 1, part));
        }
        bytes
    }

    /// Sends frames and reads until the answer has ended: the bodies of its HEADERS and DATA frames.
    fn exchange(&self, bytes: &[u8]) -> Option<(Vec<u8>, String)> {
        let mut stream = self.connect();
        stream.write_all(bytes).ok()?;
        stream.flush().ok()?;
        let (mut head, mut body) = (Vec::new(), Vec::new());
        loop {
            let mut start = [0; 9];
            stream.read_exact(&mut start).ok()?;
            let length = usize::from(start[0]) << 16 | usize::from(start[1]) << 8 | usize::from(start[2]);
            let mut part = vec![0; length];
            stream.read_exact(&mut part).ok()?;
            match start[3] {
                HEADERS | CONTINUATION => head.extend_from_slice(&part),
                DATA => body.extend_from_slice(&part),
                // RST_STREAM, GOAWAY
                3 | 7 => return None,
                _ => continue,
            }
            if matches!(start[3], DATA | HEADERS) && start[4] & 1 == 1 {
                return Some((head, String::from_utf8_lossy(&body).into_owned()));
            }
        }
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn what_comes_behind_an_answer_is_searched_and_nothing_comes_where_only_the_head_was_asked_for() {
    let setting = Setting::new(SwapIn::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for method in ["HEAD", "GET", "OPTIONS"] {
        let trailers = runtime.block_on(async {
            let tunnel = setting.world.tunnel(&format!("api.test:{}", setting.upstream.port)).0;
            tunnel.set_nonblocking(true).unwrap();
            let connector = tokio_rustls::TlsConnector::from(Arc::new(setting.config()));
            let name = ServerName::try_from("api.test").unwrap();
            let tunnel = tokio::net::TcpStream::from_std(tunnel).unwrap();
            let stream = connector.connect(name, tunnel).await.unwrap();
            let executor = TokioExecutor::new();
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(executor, TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            let request = Request::builder()
                .method(method)
                .uri(format!("https://api.test:{}/trailers", setting.upstream.port))
                .header("x-api-key", STAND_IN)
                .body(Empty::<Bytes>::new())
                .unwrap();
            let response = tokio::time::timeout(SOON, sender.send_request(request)).await.unwrap().unwrap();
            assert_eq!(response.status(), 200);
            response.into_body().collect().await.unwrap().trailers().cloned()
        });
        let seen = setting.upstream.seen.lock().unwrap().pop().unwrap();
        assert!(seen.contains(REAL), "{seen}");
        if method == "HEAD" {
            assert_eq!(trailers, None);
            continue;
        }
        let trailers = trailers.unwrap_or_else(|| panic!("{method}: no trailers"));
        assert_eq!(trailers["x-echo"], STAND_IN, "{method}");
        assert!(!format!("{trailers:?}").contains(&hex(REAL)), "{method}: {trailers:?}");
    }
}

fn frame(kind: u8, flags: u8, stream: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, stream];
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn a_stand_in_that_is_cut_by_frames_is_exchanged() {
    let setting = Setting::new(SwapIn { body: true, ..SwapIn::default() });
    // More than a few CONTINUATION frames are refused, as an attack that they have been.
    for (head_cut, body_cut) in [(1000, 1000), (50, 5), (43, 1), (37, 3)] {
        let body = format!("{{\"key\": \"{STAND_IN}\"}}");
        let fields = [("x-api-key", STAND_IN)];
        let request = setting.request(&fields, head_cut, body.as_bytes(), body_cut);
        let (_, answer) = setting.exchange(&request).expect("an answer");
        let seen = setting.upstream.seen.lock().unwrap().pop().unwrap();
        assert!(seen.matches(REAL).count() == 2 && !seen.contains("fake"), "{seen}");
        assert!(answer.matches(STAND_IN).count() == 2 && !answer.contains("REAL"), "{answer}");
    }
}

#[test]
fn another_authority_than_the_connection_is_for_is_refused() {
    let setting = Setting::new(SwapIn::default());
    let request = setting.request(&[("host", "evil.test")], 1000, b"", 1);
    let (_, answer) = setting.exchange(&request).expect("an answer");
    assert!(answer.contains("evil.test"), "{answer}");
    assert!(setting.upstream.seen.lock().unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// Frames of any kind and any content: whatever the gate makes of them, it goes on serving others, and never sends what it
    /// should not.
    #[test]
    fn any_frames_do_no_harm(frames in proptest::collection::vec(
        (0u8..12, any::<u8>(), 0u8..4, proptest::collection::vec(any::<u8>(), 0..40)), 1..12,
    )) {
        static SETTING: std::sync::OnceLock<Setting> = std::sync::OnceLock::new();
        let setting = SETTING.get_or_init(|| Setting::new(SwapIn::default()));
        let bytes: Vec<u8> =
            frames.iter().flat_map(|(kind, flags, stream, body)| frame(*kind, *flags, *stream, body)).collect();
        let mut stream = setting.connect();
        let _ = stream.write_all(&bytes).and_then(|()| stream.flush());
        drop(stream);
        let request = setting.request(&[("x-api-key", STAND_IN)], 43, b"", 1);
        let (_, answer) = setting.exchange(&request).expect("an answer");
        prop_assert!(answer.contains(STAND_IN) && !answer.contains("REAL"));
    }
}
