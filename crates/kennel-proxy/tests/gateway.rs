//! The model gateway: clients on a listener, and a provider that speaks HTTP/1.1 or HTTP/2 over TLS and takes nothing but its real key.
#![cfg(unix)]

mod world;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kennel_policy::gateway::{Api, Budget, Price};
use kennel_policy::listeners::SocketRole;
use kennel_proxy::gateway::{Gateway, GatewaySettings, Provider, Upstream};
use kennel_proxy::secrets::SecretValue;
use kennel_proxy::{
    Gate, GateSockets, Inspect, Inspector, OpenGate, ResolverSettings, Roots, Rules, Settings,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use world::{NameServer, SOON};

const KEY: &str = "sk-ant-api03-REAL-0123456789-REAL";
const TOKEN: &str = "sk-ant-api03-only-inside-abcdefgh";

/// What a provider was asked.
#[derive(Clone, Debug)]
struct Seen {
    line: String,
    fields: BTreeMap<String, String>,
    body: String,
}

/// What it answers: a head, then parts as they are sent.
struct Reply {
    status: u16,
    fields: Vec<(&'static str, String)>,
    parts: mpsc::UnboundedReceiver<Result<Bytes, std::io::Error>>,
}

impl Reply {
    fn of(status: u16, kind: &str, body: impl Into<Bytes>) -> Reply {
        let (sender, parts) = mpsc::unbounded_channel();
        sender.send(Ok(body.into())).unwrap();
        Reply { status, fields: vec![("content-type", kind.into())], parts }
    }

    fn json(status: u16, value: &Value) -> Reply {
        Reply::of(status, "application/json", value.to_string())
    }

    fn stream(kind: &str) -> (mpsc::UnboundedSender<Result<Bytes, std::io::Error>>, Reply) {
        let (sender, parts) = mpsc::unbounded_channel();
        (sender, Reply { status: 200, fields: vec![("content-type", kind.into())], parts })
    }
}

struct Parts(mpsc::UnboundedReceiver<Result<Bytes, std::io::Error>>);

impl Body for Parts {
    type Data = Bytes;
    type Error = std::io::Error;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data)))
    }
}

type Respond = dyn Fn(&Seen) -> Reply + Send + Sync;

/// A provider for `api.test`.
struct Service {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicU32>,
    folder: PathBuf,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Speaks {
    H1,
    H2,
    Plain,
}

impl Service {
    fn start(speaks: Speaks, respond: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Service {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("kennel-gateway-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        std::fs::write(folder.join("ca.pem"), world::pem(ca.self_signed(&ca_key).unwrap().der())).unwrap();
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate().unwrap();
        let leaf =
            CertificateParams::new(vec!["api.test".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            .unwrap();
        config.alpn_protocols = match speaks {
            Speaks::H2 => vec![b"h2".to_vec()],
            _ => vec![b"http/1.1".to_vec()],
        };
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, connections): (Arc<Mutex<Vec<Seen>>>, Arc<AtomicU32>) = Default::default();
        let (own, count, respond) = (Arc::clone(&seen), Arc::clone(&connections), Arc::new(respond));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            tokio::task::LocalSet::new().block_on(&runtime, async {
                listener.set_nonblocking(true).unwrap();
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    count.fetch_add(1, Ordering::Relaxed);
                    let (acceptor, own, respond) = (acceptor.clone(), Arc::clone(&own), Arc::clone(&respond));
                    tokio::task::spawn_local(async move {
                        stream.set_nodelay(true).unwrap();
                        let service = service_fn(move |request| {
                            answer(request, Arc::clone(&own), Arc::clone(&respond) as Arc<Respond>)
                        });
                        let h1 = hyper::server::conn::http1::Builder::new();
                        if speaks == Speaks::Plain {
                            let _ = h1.serve_connection(TokioIo::new(stream), service).await;
                            return;
                        }
                        let Ok(stream) = acceptor.accept(stream).await else { return };
                        if speaks == Speaks::H2 {
                            let h2 = hyper::server::conn::http2::Builder::new(Local);
                            let _ = h2.serve_connection(TokioIo::new(stream), service).await;
                        } else {
                            let _ = h1.serve_connection(TokioIo::new(stream), service).await;
                        }
                    });
                }
            });
        });
        Service { port, seen, connections, folder }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

#[derive(Clone, Copy)]
struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(async move {
            future.await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Vec<Seen>>>,
    respond: Arc<Respond>,
) -> Result<Response<Parts>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let fields = head.headers.iter();
    let asked = Seen {
        line: format!("{} {}", head.method, head.uri.path_and_query().unwrap()),
        fields: fields.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let reply = respond(&asked);
    seen.lock().unwrap().push(asked);
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.fields {
        response = response.header(name, value);
    }
    Ok(response.body(Parts(reply.parts)).unwrap())
}

/// A gate with a gateway to one provider.
struct Setting {
    service: Service,
    gateway: Arc<Gateway>,
    address: SocketAddr,
    proxy: SocketAddr,
    gate: Gate,
    _open: OpenGate,
}

impl Setting {
    fn new(service: Service, api: Api, change: impl FnOnce(&mut GatewaySettings)) -> Setting {
        let upstream = format!("https://api.test:{}", service.port);
        Setting::at(service, &upstream, api, change)
    }

    fn at(service: Service, upstream: &str, api: Api, change: impl FnOnce(&mut GatewaySettings)) -> Setting {
        Setting::with(service, upstream, api, change, None)
    }

    fn with(
        service: Service,
        upstream: &str,
        api: Api,
        change: impl FnOnce(&mut GatewaySettings),
        inspect: Option<Arc<Inspector>>,
    ) -> Setting {
        let provider = Provider {
            name: "models".into(),
            api,
            token: TOKEN.into(),
            key: Some(SecretValue::from_bytes(KEY.as_bytes().to_vec()).unwrap()),
            upstream: Upstream::parse(upstream).unwrap(),
            models: Vec::new(),
            members: Vec::new(),
            budget: Budget::default(),
        };
        let roots = Roots::load(&[service.folder.join("ca.pem")], std::iter::empty()).unwrap();
        let mut settings = GatewaySettings::new(vec![provider], Arc::new(roots));
        change(&mut settings);
        let gateway = Arc::new(Gateway::new(settings).unwrap());
        let names = NameServer::start();
        names.set("api.test", &["127.0.0.1"]);
        let settings = Settings {
            gateway: Some(Arc::clone(&gateway)),
            inspect,
            resolver: ResolverSettings {
                hosts_file: "/dev/null".into(),
                configuration: "/dev/null".into(),
                servers: Some(vec![names.address]),
            },
            ..Settings::default()
        };
        // No host is allowed: the gateway is the only way.
        let gate = Gate::new(Rules::default(), settings);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy_address = proxy.local_addr().unwrap();
        let sockets = GateSockets {
            sockets: vec![
                (SocketRole::Gateway { provider: 0 }, listener.into()),
                (SocketRole::Proxy, proxy.into()),
            ],
            ..GateSockets::default()
        };
        let open = gate.open(sockets).unwrap();
        Setting { service, gateway, address, proxy: proxy_address, gate, _open: open }
    }

    fn client(&self) -> Client {
        Setting::client_of(self.address)
    }

    fn client_of(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, inbox: Vec::new(), host: "127.0.0.1".into() }
    }

    fn ask(&self, line: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        self.client().ask(line, fields, body)
    }

    /// With the token, as most clients send it.
    fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(&format!("POST {path}"), &[("Authorization", &format!("Bearer {TOKEN}"))], &body.to_string())
    }

    /// Waits for what is counted when a response has ended.
    fn used(
        &self,
        enough: impl Fn(&kennel_policy::outcome::GatewayUse) -> bool,
    ) -> kennel_policy::outcome::GatewayUse {
        let start = Instant::now();
        loop {
            let used = self.gateway.used();
            if enough(&used) || start.elapsed() > SOON {
                return used;
            }
            std::thread::yield_now();
        }
    }
}

struct Client {
    stream: TcpStream,
    inbox: Vec<u8>,
    host: String,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Client {
    fn ask(&mut self, line: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        self.send(line, fields, body);
        self.answer()
    }

    fn send(&mut self, line: &str, fields: &[(&str, &str)], body: &str) {
        let host = &self.host;
        let mut text = format!("{line} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n");
        for (name, value) in fields {
            text += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text += "\r\n";
        text += body;
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    fn fill(&mut self) -> bool {
        let mut some = [0; 4096];
        match self.stream.read(&mut some) {
            Ok(count) => {
                self.inbox.extend_from_slice(&some[..count]);
                count > 0
            }
            Err(_) => false,
        }
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.inbox.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8(self.inbox.drain(..end + 2).take(end).collect()).unwrap();
                return Some(line);
            }
            if !self.fill() {
                return None;
            }
        }
    }

    fn head(&mut self) -> Answer {
        let mut head = String::new();
        while let Some(line) = self.line().filter(|line| !line.is_empty()) {
            head += &line;
            head.push('\n');
        }
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Answer { status, head, body: String::new() }
    }

    /// The next part of a body, as it came; `None` at its end.
    fn part(&mut self) -> Result<Option<String>, ()> {
        let length = usize::from_str_radix(self.line().ok_or(())?.trim(), 16).map_err(drop)?;
        while self.inbox.len() < length + 2 {
            if !self.fill() {
                return Err(());
            }
        }
        let part = self.inbox.drain(..length).collect();
        self.inbox.drain(..2);
        Ok(Some(String::from_utf8(part).unwrap()).filter(|_| length > 0))
    }

    fn answer(&mut self) -> Answer {
        let mut answer = self.head();
        if let Some(length) = answer.field("content-length").map(|text| text.parse::<usize>().unwrap()) {
            while self.inbox.len() < length && self.fill() {}
            let length = length.min(self.inbox.len());
            answer.body = String::from_utf8(self.inbox.drain(..length).collect()).unwrap();
        } else if answer.field("transfer-encoding") == Some("chunked") {
            while let Ok(Some(part)) = self.part() {
                answer.body += &part;
            }
        }
        answer
    }
}

fn message(input: u64, output: u64) -> Value {
    json!({"id": "msg_1", "content": [{"type": "text", "text": "Hello"}], "usage": {"input_tokens": input, "output_tokens": output}})
}

/// A provider that wants its key in one of its places, and says how many tokens were used.
fn strict(seen: &Seen) -> Reply {
    let bearer = format!("Bearer {KEY}");
    let shown =
        [("authorization", bearer.as_str()), ("x-api-key", KEY), ("x-goog-api-key", KEY), ("api-key", KEY)]
            .into_iter()
            .filter(|(name, key)| seen.fields.get(*name).is_some_and(|value| value == key))
            .count();
    let shown = shown + usize::from(seen.line.contains(&format!("key={KEY}")));
    match shown {
        1 => Reply::json(200, &message(10, 5)),
        _ => Reply::json(401, &json!({"error": "no key"})),
    }
}

const ASK: &str = r#"{"model":"claude-5","messages":[]}"#;

#[test]
#[kennel_claim::claim("gateway/keys-stay-outside", "gateway/no-other-account")]
fn the_token_is_exchanged_where_the_client_sends_it() {
    for speaks in [Speaks::H1, Speaks::H2] {
        let setting = Setting::new(Service::start(speaks, strict), Api::Anthropic, |_| {});
        let bearer = format!("Bearer {TOKEN}");
        for fields in [
            &[("Authorization", bearer.as_str())][..],
            &[("X-Api-Key", TOKEN)],
            &[("x-api-key", TOKEN), ("Authorization", "Bearer sk-of-somebody-else"), ("Cookie", "a=b")],
        ] {
            let answer = setting.ask("POST /v1/messages?beta=true", fields, ASK);
            assert_eq!((answer.status, answer.json()), (200, message(10, 5)), "{fields:?}");
        }
        for seen in setting.service.seen() {
            assert_eq!(seen.line, "POST /v1/messages?beta=true");
            assert_eq!(seen.body, ASK);
            assert_eq!(seen.fields["accept-encoding"], "identity");
            assert_eq!(seen.fields["content-type"], "application/json");
            assert!(!seen.fields.contains_key("cookie"));
            let all = format!("{seen:?}");
            assert!(!all.contains(TOKEN) && !all.contains("somebody-else"), "{all}");
        }
        assert_eq!(setting.service.connections.load(Ordering::Relaxed), 1, "it is kept for the next client");
        let records = setting.gate.records();
        assert_eq!(records.len(), 1);
        assert_eq!((records[0].host.as_str(), records[0].door.to_string().as_str()), ("api.test", "gateway"));
    }
}

#[test]
#[kennel_claim::claim("gateway/keys-stay-outside")]
fn googles_key_in_the_address_is_exchanged_too() {
    let setting = Setting::new(Service::start(Speaks::H2, strict), Api::Gemini, |_| {});
    let path = "/v1beta/models/gemini-3:generateContent";
    let answer = setting.ask(&format!("POST {path}?alt=sse&key={TOKEN}"), &[], "{\"contents\":[]}");
    assert_eq!(answer.status, 200);
    let answer = setting.ask(&format!("POST {path}"), &[("x-goog-api-key", TOKEN)], "{\"contents\":[]}");
    assert_eq!(answer.status, 200);
    assert_eq!(setting.service.seen()[0].line, format!("POST {path}?alt=sse&key={KEY}"));
    assert_eq!(setting.used(|used| used.total.requests == 2).models[0].model.as_deref(), Some("gemini-3"));
}

#[test]
#[kennel_claim::claim("gateway/keys-stay-outside")]
fn without_the_token_nothing_leaves() {
    let setting = Setting::new(Service::start(Speaks::H1, strict), Api::Anthropic, |_| {});
    let long = "x".repeat(3 << 20);
    for (line, fields, body) in [
        ("POST /v1/messages", &[][..], ASK),
        ("POST /v1/messages", &[("Authorization", "Bearer wrong")], ASK),
        ("POST /v1/messages", &[("x-api-key", &TOKEN[1..])], ASK),
        ("POST /v1/messages?key=sk-ant-api03-only-inside-abcdefgh", &[], ASK),
        ("POST /v1/messages", &[("x-api-key", KEY)], ASK),
        ("POST /v1/messages", &[], &long),
    ] {
        let answer = setting.ask(line, fields, body);
        assert_eq!(
            (answer.status, answer.field("x-should-retry")),
            (401, Some("false")),
            "{line} {fields:?}"
        );
        assert_eq!(answer.json()["error"]["type"], "authentication_error");
    }
    assert!(setting.service.seen().is_empty());
    assert_eq!(setting.used(|used| used.total.refused == 6).total.refused, 6);
}

#[test]
#[kennel_claim::claim("gateway/known-requests-only")]
fn only_known_paths_are_passed_on_in_both_forms() {
    let setting = Setting::new(Service::start(Speaks::H1, strict), Api::Anthropic, |_| {});
    let token = [("x-api-key", TOKEN)];
    let address = format!("http://{}", setting.address);
    assert_eq!(setting.ask(&format!("POST {address}/v1/messages"), &token, ASK).status, 200);
    for line in [
        "GET /v1/files".to_owned(),
        "POST /v1/messages/batches".into(),
        "POST /v1/messages/../files".into(),
        "POST /v1/messages/%2e%2e/files".into(),
        "DELETE /v1/messages".into(),
        "GET /".into(),
        "OPTIONS *".into(),
        format!("GET {address}/v1/organizations/users"),
    ] {
        let answer = setting.ask(&line, &token, "");
        assert_eq!((answer.status, answer.field("x-should-retry")), (404, Some("false")), "{line}");
        assert_eq!(answer.json()["error"]["type"], "not_found_error");
    }
    assert_eq!(setting.service.seen().len(), 1);
}

#[test]
fn clients_that_send_everything_to_the_proxy_reach_the_gateway_too() {
    for reads_requests in [false, true] {
        let service = Service::start(Speaks::H1, strict);
        let upstream = format!("https://api.test:{}", service.port);
        let inspect = Inspect::new(Arc::new(Roots::load(&[], std::iter::empty()).unwrap()));
        let inspect = reads_requests.then(|| Arc::new(Inspector::new(inspect).unwrap()));
        let setting = Setting::with(service, &upstream, Api::Anthropic, |_| {}, inspect);
        for host in ["127.0.0.1", "localhost"] {
            let mut client = Setting::client_of(setting.proxy);
            let line = format!("POST http://{host}:{}/v1/messages", setting.address.port());
            let fields = [("x-api-key", TOKEN)];
            client.host = format!("{host}:{}", setting.address.port());
            assert_eq!(client.ask(&line, &fields, ASK).status, 200, "{line}");
        }
        let mut client = Setting::client_of(setting.proxy);
        let other = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        client.host = other.to_string();
        let line = format!("POST http://{other}/v1/messages");
        assert_eq!(
            client.ask(&line, &[("x-api-key", TOKEN)], ASK).status,
            403,
            "another port is not the gateway's"
        );
        assert_eq!(setting.service.seen().len(), 2);
    }
}

#[test]
fn events_pass_one_by_one_and_their_tokens_are_counted() {
    for speaks in [Speaks::H1, Speaks::H2] {
        let senders = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&senders);
        let service = Service::start(speaks, move |_| {
            let (sender, reply) = Reply::stream("text/event-stream");
            own.lock().unwrap().push(sender);
            reply
        });
        let setting = Setting::new(service, Api::Anthropic, |settings| {
            let price = Price { input: 3.0, output: 15.0, cache_read: Some(0.3), cache_write: None };
            settings.prices = BTreeMap::from([("claude-*".to_owned(), price)]).into();
        });
        let mut client = setting.client();
        client.send("POST /v1/messages", &[("x-api-key", TOKEN)], r#"{"model":"claude-5","stream":true}"#);
        let start = Instant::now();
        while senders.lock().unwrap().is_empty() {
            assert!(start.elapsed() < SOON);
            std::thread::yield_now();
        }
        let sender = senders.lock().unwrap().pop().unwrap();
        let events = [
            "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":100,\"cache_read_input_tokens\":900,\"output_tokens\":1}}}\n\n",
            "event: content_block_delta\ndata: {\"delta\":{\"type\":\"text_delta\",\"text\":\"Hel\"}}\n\n",
            "event: message_delta\ndata: {\"usage\":{\"output_tokens\":40}}\n\n",
        ];
        for (number, event) in events.into_iter().enumerate() {
            sender.send(Ok(event.into())).unwrap();
            if number == 0 {
                let head = client.head();
                assert_eq!((head.status, head.field("content-type")), (200, Some("text/event-stream")));
            }
            // The next one is sent only when this one has come, whole.
            assert_eq!(client.part(), Ok(Some(event.to_owned())));
        }
        drop(sender);
        assert_eq!(client.part(), Ok(None));
        let used = setting.used(|used| used.total.output_tokens > 0);
        let counts = &used.models[0].counts;
        assert_eq!(
            (used.models[0].provider.as_str(), used.models[0].model.as_deref()),
            ("models", Some("claude-5"))
        );
        assert_eq!((counts.input_tokens, counts.output_tokens, counts.cache_read_tokens), (1000, 40, 900));
        assert!((counts.cost - (100.0 * 3.0 + 900.0 * 0.3 + 40.0 * 15.0) / 1e6).abs() < 1e-12, "{counts:?}");
        assert_eq!((counts.requests, counts.estimated, counts.refused), (1, 0, 0));
        assert_eq!(counts.bytes_received, events.iter().map(|event| event.len() as u64).sum::<u64>());
    }
}

#[test]
#[kennel_claim::claim("gateway/budgets-hold")]
fn a_client_that_leaves_early_is_counted_by_what_it_may_have_used() {
    let senders = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&senders);
    let service = Service::start(Speaks::H1, move |_| {
        let (sender, reply) = Reply::stream("text/event-stream");
        let text = "x".repeat(400);
        let events = format!(
            "data: {{\"message\":{{\"usage\":{{\"input_tokens\":100,\"output_tokens\":1}}}}}}\n\ndata: {{\"delta\":{{\"text\":\"{text}\"}}}}\n\n"
        );
        sender.send(Ok(events.into())).unwrap();
        own.lock().unwrap().push(sender);
        reply
    });
    let setting = Setting::new(service, Api::Anthropic, |settings| {
        settings.budget.output_tokens = Some(4000 + (128 << 10) + 400);
    });
    let leave = |body: &str| {
        let before = setting.gateway.used().total;
        let mut client = setting.client();
        client.send("POST /v1/messages", &[("x-api-key", TOKEN)], body);
        assert_eq!(client.head().status, 200);
        while !client.part().unwrap().unwrap().contains("xxx") {}
        drop(client);
        let used = setting.used(|used| used.total.estimated > before.estimated).total;
        (used.input_tokens - before.input_tokens, used.output_tokens - before.output_tokens)
    };
    // Some providers write on: it may have used what it asked for.
    assert_eq!(leave(r#"{"model":"claude-5","stream":true,"max_tokens":4000}"#), (100, 4000));
    assert_eq!(
        leave(r#"{"model":"claude-5","stream":true}"#),
        (100, 128 << 10),
        "as much as any model writes"
    );
    let (_, seen) = leave(r#"{"model":"claude-5","stream":true,"max_tokens":1}"#);
    assert!((400..1000).contains(&seen), "and not less than what came: {seen}");
    // The provider notices that nobody listens any more.
    let start = Instant::now();
    while !senders.lock().unwrap()[0].is_closed() && start.elapsed() < SOON {
        std::thread::yield_now();
    }
    assert!(senders.lock().unwrap()[0].is_closed());
    let answer = setting.ask("POST /v1/messages", &[("x-api-key", TOKEN)], ASK);
    assert_eq!(answer.status, 429, "what it got is not free");
}

#[test]
#[kennel_claim::claim("gateway/budgets-hold")]
fn a_client_that_leaves_before_the_first_byte_is_not_free() {
    let (arrived, release) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (own, gone) = (Arc::clone(&arrived), Arc::clone(&release));
    let service = Service::start(Speaks::H1, move |_| {
        own.fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        while gone.load(Ordering::SeqCst) == 0 && start.elapsed() < SOON {
            std::thread::yield_now();
        }
        Reply::json(200, &message(10, 5))
    });
    let setting = Setting::new(service, Api::OpenAi, |settings| settings.budget.output_tokens = Some(700));
    let mut client = setting.client();
    let body = r#"{"model":"gpt-6","max_completion_tokens":350,"n":2}"#;
    client.send("POST /v1/chat/completions", &[("x-api-key", TOKEN)], body);
    let start = Instant::now();
    while arrived.load(Ordering::SeqCst) == 0 && start.elapsed() < SOON {
        std::thread::yield_now();
    }
    drop(client);
    let used = setting.used(|used| used.total.estimated > 0).total;
    release.store(1, Ordering::SeqCst);
    assert_eq!((used.input_tokens, used.output_tokens), (body.len() as u64, 700));
    assert_eq!(setting.post("/v1/chat/completions", &json!({"model": "gpt-6"})).status, 429);
}

#[test]
#[kennel_claim::claim("gateway/uncountable-budgets-refuse")]
fn nothing_that_a_response_says_makes_it_free() {
    let encoded = |_: &Seen| {
        let mut reply = Reply::of(200, "application/json", &b"\x1f\x8b\x08"[..]);
        reply.fields.push(("content-encoding", "gzip".into()));
        reply
    };
    let charset = |_: &Seen| Reply::of(200, "application/json; charset=utf-16", &b"\xff\xfe{\0}\0"[..]);
    let failed = |_: &Seen| Reply::of(500, "text/plain", "x".repeat(4000));
    let moved = |_: &Seen| Reply::of(307, "text/plain", "x".repeat(4000));
    let cut = |_: &Seen| {
        let (sender, reply) = Reply::stream("text/event-stream");
        sender
            .send(Ok("data: {\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\n".into()))
            .unwrap();
        sender.send(Err(std::io::ErrorKind::BrokenPipe.into())).unwrap();
        reply
    };
    let unheard =
        |_: &Seen| Reply::json(200, &json!({"usage": {"prompt_tokens": 9}, "said": "x".repeat(4000)}));
    let hung_up = |_: &Seen| panic!("the provider goes away without an answer");
    type Respond = Box<dyn Fn(&Seen) -> Reply + Send + Sync>;
    let ways: [(&str, Respond); 7] = [
        ("encoded", Box::new(encoded)),
        ("charset", Box::new(charset)),
        ("failed", Box::new(failed)),
        ("moved", Box::new(moved)),
        ("cut", Box::new(cut)),
        ("unheard", Box::new(unheard)),
        ("hung up", Box::new(hung_up)),
    ];
    for (name, respond) in ways {
        let setting = Setting::new(Service::start(Speaks::H1, respond), Api::OpenAi, |settings| {
            settings.budget.output_tokens = Some(3000);
        });
        let body = json!({"model": "gpt-6", "max_tokens": 3000});
        setting.post("/v1/chat/completions", &body);
        let used = setting.used(|used| used.total.estimated > 0).total;
        assert!(used.output_tokens >= 3000 && used.estimated == 1, "{name}: {used:?}");
        assert_eq!(setting.post("/v1/chat/completions", &body).status, 429, "{name}");
    }
}

#[test]
#[kennel_claim::claim("gateway/uncountable-budgets-refuse")]
fn a_budget_of_cost_refuses_what_changes_prices() {
    let setting = |members: &[&str]| {
        let members = members.iter().map(|member| (*member).to_owned()).collect();
        Setting::new(Service::start(Speaks::H1, strict), Api::OpenAi, |settings| {
            settings.providers[0].members = members;
            settings.budget.cost = Some(1.0);
            settings.prices = BTreeMap::from([("gpt-*".to_owned(), Price::default())]).into();
        })
    };
    let strict = setting(&[]);
    for (member, more) in [
        ("service_tier", json!("priority")),
        ("speed", json!("fast")),
        ("web_search_options", json!({})),
        ("provider", json!({"order": ["dear"]})),
        ("tools", json!([{"type": "web_search"}])),
        ("plugins", json!([{}])),
    ] {
        let answer = strict.post("/v1/chat/completions", &json!({"model": "gpt-6", member: more}));
        assert_eq!((answer.status, answer.field("x-kennel-refused")), (403, Some("price")), "{member}");
        assert!(answer.body.contains(member), "{}", answer.body);
    }
    assert!(strict.service.seen().is_empty());
    let plain = json!({"model": "gpt-6", "service_tier": "default", "tools": [{"type": "function"}]});
    assert_eq!(strict.post("/v1/chat/completions", &plain).status, 200);
    let vouched = json!({"model": "gpt-6", "service_tier": "priority"});
    assert_eq!(setting(&["service_tier"]).post("/v1/chat/completions", &vouched).status, 200);
}

#[test]
fn a_chat_that_streams_is_counted_though_its_client_does_not_ask() {
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":12}}\n\n";
    let said = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\n";
    let respond = move |knows: bool| {
        move |seen: &Seen| {
            let body: Value = serde_json::from_str(&seen.body).unwrap();
            let asks = body["stream_options"]["include_usage"] == true;
            if asks && !knows {
                return Reply::json(400, &json!({"error": "unknown stream_options"}));
            }
            let usage = if asks { usage } else { "" };
            Reply::of(200, "text/event-stream", format!("{said}{usage}data: [DONE]\n\n"))
        }
    };
    let body = json!({"model": "gpt-6", "stream": true, "messages": []});
    let setting = Setting::new(Service::start(Speaks::H2, respond(true)), Api::OpenAi, |_| {});
    let answer = setting.post("/v1/chat/completions", &body);
    assert_eq!(answer.body, format!("{said}data: [DONE]\n\n"), "the client gets what it asked for");
    let used = setting.used(|used| used.total.output_tokens > 0).total;
    assert_eq!((used.input_tokens, used.output_tokens, used.estimated), (9, 12, 0));
    let asks = json!({"model": "gpt-6", "stream": true, "stream_options": {"include_usage": true}});
    let answer = setting.post("/v1/chat/completions", &asks);
    assert_eq!(answer.body, format!("{said}{usage}data: [DONE]\n\n"), "one that asks gets it");

    let setting = Setting::new(Service::start(Speaks::H1, respond(false)), Api::OpenAi, |_| {});
    for _ in 0..2 {
        let answer = setting.post("/v1/chat/completions", &body);
        assert_eq!((answer.status, answer.body), (200, format!("{said}data: [DONE]\n\n")));
    }
    let bodies: Vec<bool> =
        setting.service.seen().iter().map(|seen| seen.body.contains("stream_options")).collect();
    assert_eq!(bodies, [true, false, true, false], "what a server once said decides nothing later");
    let used = setting.used(|used| used.total.estimated == 2).total;
    assert_eq!((used.requests, used.estimated), (4, 2), "each that was sent is counted");
}

#[test]
#[kennel_claim::claim("gateway/uncountable-budgets-refuse")]
fn no_answer_and_no_option_turns_counting_off_where_there_is_a_budget() {
    let respond = |seen: &Seen| {
        let body: Value = serde_json::from_str(&seen.body).unwrap();
        if body["stream_options"]["include_usage"] == true {
            return Reply::json(400, &json!({"error": "unknown stream_options"}));
        }
        Reply::of(200, "text/event-stream", "data: [DONE]\n\n")
    };
    let service = Service::start(Speaks::H1, respond);
    let setting = Setting::new(service, Api::OpenAi, |settings| settings.budget.tokens = Some(1 << 20));
    for _ in 0..2 {
        let body = json!({"model": "gpt-6", "stream": true, "messages": []});
        assert_eq!(setting.post("/v1/chat/completions", &body).status, 400, "the provider's own answer");
    }
    let asked = |seen: &Seen| seen.body.contains("include_usage");
    assert!(setting.service.seen().iter().all(asked));
    let count = setting.service.seen().len();
    for options in [json!({}), json!(null), json!({"include_usage": false}), json!({"include_usage": "true"})]
    {
        let body = json!({"model": "gpt-6", "stream": true, "messages": [], "stream_options": options});
        let answer = setting.post("/v1/chat/completions", &body);
        assert!(answer.status == 400 && answer.body.contains("include_usage"), "{options}: {}", answer.body);
    }
    assert_eq!(setting.service.seen().len(), count, "none of them was sent");
}

#[test]
#[kennel_claim::claim("gateway/known-requests-only")]
fn every_model_of_a_body_is_compared() {
    let service = Service::start(Speaks::H1, |_| Reply::json(200, &json!({})));
    let setting = Setting::new(service, Api::OpenAi, |settings| {
        settings.providers[0].models = vec!["gpt-6".into(), "gpt-6-*".into()];
    });
    for more in [
        json!({"models": ["gpt-6", "expensive"]}),
        json!({"tools": [{"type": "advisor", "model": "expensive"}]}),
        json!({"plugins": [{"Model": "expensive"}]}),
        json!({"fallbacks": ["expensive"]}),
        json!({"fallbacks": [{"model": {"name": "expensive"}}]}),
        json!({"fallbacks": [{"gpt-6": ["expensive"]}]}),
        json!({"fallbacks": {"expensive": {"weight": 1}}}),
        json!({"models": {"expensive": 1}}),
        json!({"plugins": [{"engine": "expensive"}]}),
        json!({"tools": [{"type": "judge", "parameters": {"writer": {"name": "x", "by": ["expensive"]}}}]}),
        json!({"reasoning": {"effort": "high", "delegate": "expensive"}}),
        json!({"text": {"format": {"type": "text", "rewriter": "expensive"}}}),
        json!({"preset": "expensive"}),
        json!({"tools": [{"type": "advisor", "parameters": {"model": "expensive"}}]}),
        json!({"plugins": [{"schema": {"analysis_models": ["expensive"]}}]}),
        json!({"prompt": {"model": "expensive"}}),
    ] {
        let mut body = json!({"model": "gpt-6", "messages": []});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = setting.post("/v1/chat/completions", &body);
        assert!(answer.status == 403 && answer.body.contains("expensive"), "{body}: {}", answer.body);
    }
    assert!(setting.service.seen().is_empty());
    let said = json!({"model": "gpt-6", "models": ["gpt-6-mini"], "fallbacks": ["gpt-6-mini"], "stop": ["expensive"], "metadata": {"model": "expensive"},
        "messages": [{"role": "tool", "content": [{"type": "tool_use", "input": {"model": "expensive"}}]}],
        "tools": [{"function": {"parameters": {"properties": {"model": {"default": "expensive"}}}}}]});
    assert_eq!(setting.post("/v1/chat/completions", &said).status, 200, "what is said names no model");
    let sent = setting.service.seen().len();
    let deployment = "/openai/deployments/gpt-6/chat/completions";
    let answer = setting.post(deployment, &json!({"model": "expensive", "messages": []}));
    assert!(answer.status == 403 && answer.body.contains("expensive"), "{}", answer.body);
    assert_eq!(setting.post(deployment, &json!({"model": "gpt-6-mini"})).status, 200);
    assert_eq!(setting.service.seen().len(), sent + 1);
}

#[test]
fn members_of_a_body_that_are_not_listed_are_refused_and_named() {
    for (api, path, known, own) in [
        (Api::Anthropic, "/v1/messages", "max_tokens", "extra_headers"),
        (Api::OpenAi, "/v1/chat/completions", "temperature", "api_base"),
        (Api::OpenAi, "/v1/responses", "instructions", "base_url"),
        (Api::Gemini, "/v1beta/models/m:generateContent", "contents", "vertexProject"),
        (Api::Ollama, "/api/chat", "keep_alive", "remote_host"),
    ] {
        let service = || Service::start(Speaks::H1, |_| Reply::json(200, &json!({})));
        let setting = Setting::new(service(), api, |_| {});
        assert_eq!(setting.post(path, &json!({"model": "m", known: 1})).status, 200, "{path}");
        let answer = setting.post(path, &json!({"model": "m", own: "http://elsewhere.test"}));
        assert!(answer.status == 400 && answer.body.contains(own), "{path}: {}", answer.body);
        assert_eq!(answer.field("x-kennel-refused"), Some("body"));
        assert_eq!(setting.service.seen().len(), 1);
        let setting =
            Setting::new(service(), api, |settings| settings.providers[0].members = vec![own.into()]);
        assert_eq!(setting.post(path, &json!({"model": "m", own: "x"})).status, 200, "{path}");
    }
}

#[test]
fn a_budget_of_cost_counts_the_dearest_model_that_a_request_names() {
    let service = Service::start(Speaks::H1, |_| {
        Reply::json(200, &json!({"usage": {"prompt_tokens": 10, "completion_tokens": 1}}))
    });
    let setting = Setting::new(service, Api::OpenAi, |settings| {
        let price = |input| Price { input, output: 0.0, ..Price::default() };
        let prices = [("cheap".to_owned(), price(1e5)), ("dear".to_owned(), price(1e6))];
        settings.prices = BTreeMap::from(prices).into();
        settings.budget.cost = Some(10.0);
    });
    let path = "/v1/chat/completions";
    let answer = setting.post(path, &json!({"model": "cheap", "models": ["nobody-knows"]}));
    assert!(answer.status == 403 && answer.body.contains("nobody-knows"), "{}", answer.body);
    assert_eq!(setting.post(path, &json!({"model": "cheap"})).status, 200);
    let used = setting.used(|used| used.total.cost > 0.0);
    assert!((used.total.cost - 1.0).abs() < 1e-9, "{used:?}");
    assert_eq!(setting.post(path, &json!({"model": "cheap", "models": ["dear"]})).status, 200);
    let used = setting.used(|used| used.total.cost > 1.5);
    assert!((used.total.cost - 11.0).abs() < 1e-9, "{used:?}");
    assert_eq!(setting.post(path, &json!({"model": "cheap"})).status, 429);
}

#[test]
#[kennel_claim::claim("gateway/budgets-hold")]
fn a_spent_budget_is_the_providers_own_error_and_ends_retries() {
    let budget = Budget { requests: Some(2), ..Budget::default() };
    for (api, path, check) in [
        (Api::Anthropic, "/v1/messages", "/error/type=rate_limit_error"),
        (Api::OpenAi, "/v1/chat/completions", "/error/code=insufficient_quota"),
        (Api::Gemini, "/v1beta/models/m:generateContent", "/error/status=RESOURCE_EXHAUSTED"),
    ] {
        let setting = Setting::new(Service::start(Speaks::H1, strict), api, |settings| {
            settings.providers[0].budget = budget;
        });
        let ask = |_| setting.post(path, &json!({"model": "m"}));
        let answers: Vec<Answer> = (0..4).map(ask).collect();
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 200, 429, 429]);
        assert_eq!(answers[2].field("x-should-retry"), Some("false"));
        assert_eq!(answers[2].field("retry-after"), None);
        let (pointer, wanted) = check.split_once('=').unwrap();
        assert_eq!(answers[2].json().pointer(pointer).unwrap(), wanted);
        assert!(answers[2].body.contains("the budget of 2 requests for models is used up"), "{answers:?}");
        assert_eq!(setting.service.seen().len(), 2);
        let used = setting.used(|used| used.total.refused == 2);
        assert_eq!((used.total.requests, used.total.refused), (2, 2));
    }
}

#[test]
#[kennel_claim::claim("gateway/budgets-hold")]
fn every_kind_of_budget_is_kept() {
    let prices = || BTreeMap::from([("m".to_owned(), Price { input: 1e6, output: 0.0, ..Price::default() })]);
    for budget in [
        Budget { input_tokens: Some(10), ..Budget::default() },
        Budget { output_tokens: Some(5), ..Budget::default() },
        Budget { tokens: Some(15), ..Budget::default() },
        Budget { bytes: Some(20), ..Budget::default() },
        Budget { cost: Some(9.5), ..Budget::default() },
    ] {
        let setting = Setting::new(Service::start(Speaks::H1, strict), Api::Anthropic, |settings| {
            settings.budget = budget;
            settings.prices = prices().into();
        });
        assert_eq!(setting.post("/v1/messages", &json!({"model": "m"})).status, 200);
        setting.used(|used| used.total.output_tokens > 0);
        assert_eq!(setting.post("/v1/messages", &json!({"model": "m"})).status, 429, "{budget:?}");
    }
}

#[test]
#[kennel_claim::claim("gateway/budgets-hold")]
fn what_would_go_around_a_budget_is_refused() {
    let setting = Setting::new(Service::start(Speaks::H1, strict), Api::OpenAi, |settings| {
        settings.budget.cost = Some(1.0);
        settings.prices = BTreeMap::from([("gpt-*".to_owned(), Price::default())]).into();
    });
    let ask = |body: Value| setting.post("/v1/responses", &body);
    let unpriced = ask(json!({"model": "o9"}));
    assert_eq!(unpriced.status, 403);
    assert!(unpriced.body.contains("add it to gateway.prices"), "{unpriced:?}");
    assert_eq!(ask(json!({})).status, 403);
    assert_eq!(ask(json!({"model": "gpt-6", "background": true})).status, 400);
    assert!(setting.service.seen().is_empty());
    assert_eq!(ask(json!({"model": "gpt-6", "background": false})).status, 200);
}

#[test]
fn an_answer_that_cannot_be_read_is_counted_by_its_length() {
    let service = Service::start(Speaks::H1, |_| Reply::of(200, "application/x-protobuf", vec![7; 4000]));
    let setting = Setting::new(service, Api::Gemini, |settings| settings.budget.output_tokens = Some(900));
    let ask = || setting.post("/v1beta/models/m:generateContent?alt=proto", &json!({"contents": []})).status;
    assert_eq!(ask(), 200);
    let used = setting.used(|used| used.total.output_tokens > 0).total;
    assert_eq!((used.output_tokens, used.estimated), (4000, 1));
    assert_eq!(ask(), 429);
}

#[test]
fn a_body_is_what_it_was_read_as() {
    let setting = Setting::new(Service::start(Speaks::H2, strict), Api::OpenAi, |settings| {
        settings.providers[0].models = vec!["small".into()];
    });
    let token = format!("Bearer {TOKEN}");
    let mut client = setting.client();
    let both = r#"{"model":"small","user":"&model=large&"}"#;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: {token}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{both}",
        both.len()
    );
    client.stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(client.answer().status, 200);
    let answer = setting.ask("GET /v1/models", &[("Authorization", &token)], "{\"model\":\"large\"}");
    assert_eq!(answer.status, 200);
    let seen = setting.service.seen();
    assert_eq!(seen[0].fields["content-type"], "application/json");
    assert_eq!(seen[1].body, "");
}

#[test]
#[kennel_claim::claim("gateway/listed-models-only")]
fn only_models_of_the_list_can_be_used() {
    let setting = Setting::new(Service::start(Speaks::H1, strict), Api::Anthropic, |settings| {
        settings.providers[0].models = vec!["claude-haiku-*".into()];
    });
    assert_eq!(setting.post("/v1/messages", &json!({"model": "claude-haiku-5"})).status, 200);
    let refused = setting.post("/v1/messages", &json!({"model": "claude-opus-5"}));
    assert_eq!((refused.status, refused.field("x-should-retry")), (403, Some("false")));
    assert!(refused.body.contains("add it to gateway.models.models"), "{refused:?}");
    let token = [("x-api-key", TOKEN)];
    for (body, status) in [
        (r#"{"model":"claude-haiku-5","model":"claude-opus-5"}"#, 400),
        (r#"{"model":"claude-haiku-5","Model":"claude-opus-5"}"#, 400),
        (r#"{"model":"claude-haiku-5"} {"model":"claude-opus-5"}"#, 400),
        (r#"{"messages":[]}"#, 400),
        ("model=claude-haiku-5", 400),
    ] {
        assert_eq!(setting.ask("POST /v1/messages", &token, body).status, status, "{body}");
    }
    let compressed = [("x-api-key", TOKEN), ("Content-Encoding", "gzip")];
    assert_eq!(setting.ask("POST /v1/messages", &compressed, "xx").status, 415);
    assert_eq!(setting.service.seen().len(), 1);
    let used = setting.used(|used| used.total.refused == 7);
    assert!(used.models.iter().all(|one| one.model.as_deref() != Some("claude-opus-5")), "{used:?}");
}

#[test]
#[kennel_claim::claim("gateway/keys-do-not-come-back")]
fn an_echo_of_the_key_shows_the_token() {
    for speaks in [Speaks::H1, Speaks::H2] {
        let service = Service::start(speaks, |seen| {
            let (sender, mut reply) = Reply::stream("application/json");
            let key = seen.fields["authorization"].clone();
            let text = json!({"you": "sent", "headers": {"authorization": key}, "again": KEY}).to_string();
            // Cut everywhere.
            for part in text.as_bytes().chunks(3) {
                sender.send(Ok(part.to_vec().into())).unwrap();
            }
            reply.fields.push(("x-echo", key));
            reply.status = 400;
            reply
        });
        let setting = Setting::new(service, Api::OpenAi, |_| {});
        let answer = setting.post("/v1/chat/completions", &json!({"model": "m"}));
        assert_eq!(answer.status, 400);
        assert_eq!(answer.field("x-echo"), Some(format!("Bearer {TOKEN}").as_str()));
        assert_eq!(answer.json()["again"], TOKEN);
        assert!(!format!("{answer:?}").contains("REAL"), "{answer:?}");
    }
}

#[test]
#[kennel_claim::claim("gateway/keys-do-not-come-back")]
fn a_redirection_is_passed_on_and_not_followed() {
    let service = Service::start(Speaks::H1, |seen| {
        let mut reply = Reply::of(302, "text/plain", "elsewhere");
        let key = seen.fields.get("x-api-key").cloned().unwrap_or_default();
        reply.fields.push(("location", format!("https://evil.test/?key={key}")));
        reply
    });
    let setting = Setting::new(service, Api::Anthropic, |_| {});
    let answer = setting.ask("POST /v1/messages", &[("x-api-key", TOKEN)], ASK);
    assert_eq!(
        (answer.status, answer.field("location")),
        (302, Some(format!("https://evil.test/?key={TOKEN}").as_str()))
    );
    assert_eq!(setting.service.seen().len(), 1);
}

#[test]
#[kennel_claim::claim("gateway/keys-do-not-come-back")]
fn an_answer_that_cannot_be_searched_is_not_passed_on() {
    let service = Service::start(Speaks::H1, |_| {
        let mut reply = Reply::of(200, "application/json", &b"\x1f\x8b\x08"[..]);
        reply.fields.push(("content-encoding", "gzip".into()));
        reply
    });
    let setting = Setting::new(service, Api::Anthropic, |_| {});
    let answer = setting.ask("POST /v1/messages", &[("x-api-key", TOKEN)], ASK);
    assert_eq!(answer.status, 502);
    assert_eq!(answer.json()["error"]["type"], "api_error");
}

#[test]
#[kennel_claim::claim("gateway/known-fields-only")]
fn fields_and_parameters_of_another_protocol_do_not_pass() {
    for (api, path, own) in [
        (Api::Anthropic, "/v1/messages", "anthropic-beta"),
        (Api::OpenAi, "/v1/chat/completions", "x-title"),
        (Api::Gemini, "/v1beta/models/m:generateContent", "x-goog-api-client"),
        (Api::Ollama, "/v1/chat/completions", "originator"),
    ] {
        let setting = Setting::new(Service::start(Speaks::H2, strict), api, |_| {});
        let fields = [
            ("x-api-key", TOKEN),
            ("anthropic-beta", "a"),
            ("x-title", "b"),
            ("x-goog-api-client", "c"),
            ("originator", "d"),
            ("x-codex-turn-metadata", "e"),
            ("x-http-method", "DELETE"),
            ("x-method-override", "DELETE"),
        ];
        let line = format!("POST {path}?beta=true&api-version=2&$alt=json&x=y");
        assert_eq!(setting.ask(&line, &fields, r#"{"model":"m"}"#).status, 200, "{api:?}");
        let seen = &setting.service.seen()[0];
        assert!(seen.fields.contains_key(own), "{seen:?}");
        let others = ["anthropic-beta", "x-title", "x-goog-api-client", "x-http-method", "x-method-override"];
        let left: Vec<&str> = others.into_iter().filter(|name| seen.fields.contains_key(*name)).collect();
        assert!(
            left.iter().all(|name| *name == own || own == "originator" && *name == "x-title"),
            "{left:?}"
        );
        let query = seen.line.split_once('?').unwrap().1;
        assert_eq!(query.split('&').count(), 1, "{query}");
    }
}

#[test]
fn errors_of_the_provider_pass_as_they_are() {
    let service = Service::start(Speaks::H2, |_| {
        let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        let mut reply = Reply::json(529, &error);
        reply.fields.push(("retry-after", "1".into()));
        reply
    });
    let setting = Setting::new(service, Api::Anthropic, |_| {});
    let answer = setting.ask("POST /v1/messages", &[("x-api-key", TOKEN)], ASK);
    assert_eq!(
        (answer.status, answer.field("retry-after"), answer.field("x-should-retry")),
        (529, Some("1"), None)
    );
    assert_eq!(answer.json()["error"]["type"], "overloaded_error");
    let used = setting.used(|used| used.total.bytes_received > 0).total;
    assert_eq!((used.requests, used.tokens(), used.refused), (1, 0, 0));
}

#[test]
fn a_stream_that_breaks_is_not_made_whole() {
    let senders = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&senders);
    let service = Service::start(Speaks::H1, move |_| {
        let (sender, reply) = Reply::stream("text/event-stream");
        sender.send(Ok("data: {\"delta\":{\"text\":\"Hello\"}}\n\n".into())).unwrap();
        own.lock().unwrap().push(sender);
        reply
    });
    let setting = Setting::new(service, Api::Anthropic, |_| {});
    let mut client = setting.client();
    client.send("POST /v1/messages", &[("x-api-key", TOKEN)], ASK);
    assert_eq!(client.head().status, 200);
    assert!(client.part().unwrap().unwrap().contains("Hello"));
    senders.lock().unwrap()[0].send(Err(std::io::ErrorKind::BrokenPipe.into())).unwrap();
    assert_eq!(client.part(), Err(()), "the client sees that it is cut");
}

#[test]
#[kennel_claim::claim("gateway/providers-are-verified")]
fn a_provider_that_cannot_be_verified_or_reached_is_told() {
    let setting = Setting::new(Service::start(Speaks::H1, strict), Api::Anthropic, |settings| {
        settings.providers[0].upstream.host = kennel_policy::domain::Host::parse("127.0.0.1").unwrap();
    });
    let answer = setting.ask("POST /v1/messages", &[("x-api-key", TOKEN)], ASK);
    assert_eq!((answer.status, answer.field("x-should-retry")), (502, Some("false")));
    assert!(
        answer.body.contains("could not be verified") && answer.body.contains("network.extra_ca"),
        "{answer:?}"
    );
    assert!(setting.service.seen().is_empty());

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let setting = Setting::new(Service::start(Speaks::H1, strict), Api::Anthropic, |settings| {
        settings.providers[0].upstream.port = closed;
        settings.budget.requests = Some(1);
    });
    for _ in 0..3 {
        let answer = setting.ask("POST /v1/messages", &[("x-api-key", TOKEN)], ASK);
        // What reached nobody used up nothing.
        assert_eq!((answer.status, answer.field("x-should-retry")), (502, None), "another try may help");
    }
}

#[test]
fn ollama_on_this_host_needs_no_token_and_streams_lines() {
    let service = Service::start(Speaks::Plain, |seen| {
        assert!(!seen.fields.contains_key("authorization"));
        let lines = "{\"message\":{\"content\":\"Hi\"},\"done\":false}\n{\"done\":true,\"prompt_eval_count\":26,\"eval_count\":290}\n";
        Reply::of(200, "application/x-ndjson", lines)
    });
    let upstream = format!("http://127.0.0.1:{}", service.port);
    let setting = Setting::at(service, &upstream, Api::Ollama, |settings| settings.providers[0].key = None);
    let answer = setting.ask("POST /api/chat", &[("Authorization", "Bearer mine")], r#"{"model":"llama4"}"#);
    assert_eq!(answer.status, 200);
    assert_eq!(setting.ask("POST /api/pull", &[], r#"{"model":"llama4"}"#).status, 404);
    let used = setting.used(|used| used.total.output_tokens > 0);
    assert_eq!((used.total.input_tokens, used.total.output_tokens), (26, 290));
}

#[test]
#[kennel_claim::claim("gateway/bodies-are-bounded")]
fn a_body_of_any_kind_is_bounded() {
    let setting = Setting::new(Service::start(Speaks::H1, strict), Api::Anthropic, |_| {});
    let mut client = setting.client();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: a\r\nx-api-key: {TOKEN}\r\nContent-Length: {}\r\n\r\n",
        65u64 << 20
    );
    client.stream.write_all(head.as_bytes()).unwrap();
    let mega = vec![b' '; 1 << 20];
    for _ in 0..65 {
        client.stream.write_all(&mega).unwrap();
    }
    let answer = client.answer();
    assert_eq!((answer.status, answer.json()["error"]["type"].as_str()), (413, Some("request_too_large")));
    // In parts whose sum nobody announced.
    let mut client = setting.client();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: a\r\nx-api-key: {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    client.stream.write_all(head.as_bytes()).unwrap();
    for part in ASK.as_bytes().chunks(5) {
        let framed = [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
        client.stream.write_all(&framed).unwrap();
    }
    client.stream.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(client.answer().status, 200);
    assert_eq!(setting.service.seen()[0].body, ASK);
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
#[kennel_claim::claim("gateway/log-holds-no-key")]
fn the_log_holds_contents_only_if_asked_and_never_a_key() {
    for contents in [false, true] {
        let memory = Memory::default();
        let own = memory.clone();
        let service =
            Service::start(Speaks::H1, |_| Reply::json(200, &json!({"echo": KEY, "said": "goodbye"})));
        let setting = Setting::new(service, Api::Anthropic, |settings| {
            settings.log = Some(Box::new(own));
            settings.log_contents = contents;
        });
        let body = r#"{"model":"claude-5","messages":"hello"}"#;
        assert_eq!(setting.ask("POST /v1/messages?secret=1", &[("x-api-key", TOKEN)], body).status, 200);
        assert_eq!(setting.ask("POST /v1/files", &[("x-api-key", TOKEN)], body).status, 404);
        let unknown = r#"{"model":"claude-5","elsewhere":"bulk"}"#;
        assert_eq!(setting.ask("POST /v1/messages", &[("x-api-key", TOKEN)], unknown).status, 400);
        setting.used(|used| used.total.refused == 2 && used.total.bytes_received > 0);
        let start = Instant::now();
        while memory.0.lock().unwrap().iter().filter(|byte| **byte == b'\n').count() < 3
            && start.elapsed() < SOON
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3, "{text}");
        let (sent, refused) = (&lines[0], &lines[1]);
        assert!(!text.contains("bulk"), "what is refused fills no disk: {text}");
        assert_eq!((sent["path"].as_str(), sent["model"].as_str()), (Some("/v1/messages"), Some("claude-5")));
        assert_eq!((sent["status"].as_u64(), refused["refused"].as_str()), (Some(200), Some("path")));
        assert_eq!(text.contains("hello"), contents);
        assert_eq!(text.contains("goodbye"), contents);
        assert!(!text.contains("REAL") && !text.contains("secret"), "{text}");
    }
}

#[test]
#[kennel_claim::claim("gateway/budgets-hold")]
fn many_requests_at_once_keep_to_the_budget_of_requests() {
    let setting = Setting::new(Service::start(Speaks::H2, strict), Api::Anthropic, |settings| {
        settings.budget.requests = Some(10);
    });
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = || setting.ask("POST /v1/messages", &[("x-api-key", TOKEN)], ASK).status;
        let threads: Vec<_> = (0..40).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 10);
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 30);
    assert_eq!(setting.service.seen().len(), 10);
}

#[test]
fn what_two_programs_could_read_in_two_ways_is_not_passed_on() {
    let setting = Setting::new(Service::start(Speaks::H1, strict), Api::Anthropic, |_| ());
    for fields in [
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        "Host: other.test\r\n\r\n",
        "X: a\nY: b\r\n\r\n",
        " folded\r\n\r\n",
    ] {
        for (mut client, line) in [
            (setting.client(), "POST /v1/messages".to_owned()),
            (Setting::client_of(setting.proxy), format!("POST http://{}/v1/messages", setting.address)),
        ] {
            let head = format!("{line} HTTP/1.1\r\nHost: {}\r\nX-Api-Key: {TOKEN}\r\n", setting.address);
            client.stream.write_all(format!("{head}{fields}").as_bytes()).unwrap();
            let answer = client.answer();
            assert_eq!(answer.status, 400, "{fields}{answer:?}");
            assert!(answer.body.contains("the request is refused: "), "{fields}{answer:?}");
        }
    }
    assert!(setting.service.seen().is_empty());
}
