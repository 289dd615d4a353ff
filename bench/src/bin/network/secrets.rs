//! What it costs that the gate reads requests: a download over TLS that ends at the gate, a model's events by the gateway, and the
//! start of a sandbox with an authority of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kennel_bench::fixture::Folder;
use kennel_bench::rounds::{Sample, Way, take_turns};
use kennel_bench::{Failure, programs, quick, table};

use super::{HOST, by_curl, outside, round};

/// The word by which this program is a client: it prints how long it waited, for the first byte and for each event.
pub const CLIENT: &str = "--events";
/// How far apart a model's events are. They have to be apart, so that none waits for another.
const APART: Duration = Duration::from_millis(5);

/// nginx on a port of the host's loopback, with a certificate by an authority of its own. It ends with the value.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its worker ends with it.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

const CERTIFICATES: &str = "set -e; exec 2>openssl.log
    key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2'
    openssl req -x509 $key -subj /CN=bench-ca -keyout ca.key -out ca.pem
    openssl req -new $key -subj /CN=bench -keyout server.key -out server.csr
    echo \"subjectAltName=DNS:$1,DNS:localhost\" > server.ext
    openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile server.ext -out server.pem";

impl Server {
    fn start(folder: &Folder, size: usize) -> Result<Server, Failure> {
        let mut certificates = Command::new("sh");
        certificates.args(["-c", CERTIFICATES, "sh", HOST]).current_dir(folder.path());
        if !certificates.status()?.success() {
            return Err("openssl made no certificates".into());
        }
        let large = std::fs::File::create(folder.path().join("large"))?;
        large.set_len(size as u64)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let at = |name: &str| folder.text(name);
        let settings = format!(
            "daemon off; master_process off; pid {}; error_log {} warn;\nevents {{ }}\nhttp {{ access_log off; sendfile off; \
             client_body_temp_path {}; proxy_temp_path {}; fastcgi_temp_path {}; uwsgi_temp_path {}; scgi_temp_path {};\n\
             server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {}; ssl_certificate_key {}; root {}; }} }}\n",
            at("pid"),
            at("error.log"),
            at("b"),
            at("p"),
            at("f"),
            at("u"),
            at("s"),
            at("server.pem"),
            at("server.key"),
            folder.path().display()
        );
        std::fs::write(folder.path().join("nginx.conf"), settings)?;
        let nginx = programs::installed("nginx").unwrap_or_else(|| "/usr/sbin/nginx".into());
        let child = Command::new(nginx)
            .arg("-c")
            .arg(at("nginx.conf"))
            .arg("-p")
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Server { child, port };
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if std::time::Instant::now() > deadline {
                let said = std::fs::read_to_string(at("error.log")).unwrap_or_default();
                return Err(format!("nginx does not listen: {said}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

/// A download over TLS: direct, by a gate that carries it unread, and by one that reads it.
pub fn terminated() -> Result<(), Failure> {
    let has = |name: &str| programs::installed(name).is_some() || Path::new("/usr/sbin").join(name).is_file();
    if !has("nginx") || !has("openssl") {
        println!(
            "Skipped: nginx and openssl are not both installed, so TLS that ends at the gate is not measured.\n"
        );
        return Ok(());
    }
    let size = if quick() { 64 << 20 } else { 512 << 20 };
    let folder = Folder::new("terminated")?;
    let server = Server::start(&folder, size)?;
    let (port, ca) = (server.port, folder.text("ca.pem"));
    let rounds = if quick() { 2 } else { 9 };
    let address = format!("{HOST}:{port}");
    for (version, what) in [("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2")] {
        let curl = |flags: &str, host: &str| {
            format!(
                "curl -sS -o /dev/null -w '%{{time_total}}\\n' {version} {flags} https://{host}:{port}/large"
            )
        };
        let direct = curl(&format!("--noproxy '*' --cacert {ca}"), "localhost");
        let mut ways = vec![by_curl("direct TLS", outside(&direct))];
        let allow = ["--allow-domain".to_owned(), address.clone()];
        let mut unread = programs::kennel(&allow)?;
        unread.args(["sh", "-c", &curl(&format!("--cacert {ca}"), HOST)]);
        ways.push(by_curl("carried unread", unread));
        let extra = ["--extra-ca".to_owned(), ca.clone(), "--terminate".to_owned(), address.clone()];
        let mut read = programs::kennel(&[&allow[..], &extra[..]].concat())?;
        read.args(["sh", "-c", &curl("", HOST)]);
        ways.push(by_curl("ends at the gate", read));
        let secret = [
            "--extra-ca".to_owned(),
            ca.clone(),
            "--secret".to_owned(),
            format!("BENCH_KEY=env:BENCH_KEY@{address}"),
        ];
        let mut searched = programs::kennel(&secret)?;
        searched.args(["sh", "-c", &curl("-H \"x-api-key: $BENCH_KEY\"", HOST)]);
        searched.env("BENCH_KEY", "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz");
        ways.push(by_curl("and is searched for a secret", searched));
        take_turns(&mut ways, rounds)?;
        println!("A download of {} MiB over TLS, {what}, {rounds} rounds.\n", size >> 20);
        println!("{}", table::of(&ways, &[0]));
        for way in &ways[2..] {
            print!(
                "{}",
                table::goal(
                    &format!("{} × direct", way.name),
                    table::ratio(way, &ways[0]),
                    round(1.0 / 0.40)
                )
            );
        }
        println!();
    }
    Ok(())
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A model that says at what time it says something.
fn model(mut stream: TcpStream, events: usize) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        stream
            .write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            )
            .ok()?;
        for _ in 0..events {
            let choice = r#"{"index":0,"delta":{"content":"word "},"finish_reason":null}"#;
            let event = format!(
                "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"at\":{},\"model\":\"m\",\"choices\":[{choice}]}}\n\n",
                now().as_nanos()
            );
            stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).ok()?;
            std::thread::sleep(APART);
        }
        stream.write_all(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n").ok()?;
    }
}

/// This program as a client: asks again and again over one connection, as SDKs do.
///
/// # Errors
/// When the server cannot be reached or answers otherwise.
pub fn client(base: &str, key: &str, times: usize) -> Result<(), Failure> {
    let address = base.strip_prefix("http://").ok_or("a plain address")?;
    let (address, path) = address.split_once('/').unwrap_or((address, ""));
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}"#;
    for _ in 0..times {
        let asked = now();
        write!(
            stream,
            "POST /{path}/chat/completions HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut first = None;
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Err("the answer ended early".into());
            }
            let arrived = now();
            if first.is_none() {
                if !line.contains(" 200 ") {
                    return Err(format!("the answer is {line}").into());
                }
                first = Some(arrived);
                println!("first {}", arrived.saturating_sub(asked).as_nanos());
            }
            if let Some(at) = line.split("\"at\":").nth(1).and_then(|rest| rest.split(',').next()) {
                let sent = Duration::from_nanos(at.parse()?);
                println!("event {}", arrived.saturating_sub(sent).as_nanos());
            }
            if line.starts_with("data: [DONE]") {
                break;
            }
        }
        // The end of the last chunk, and the chunk that ends all.
        while line != "0\r\n" {
            line.clear();
            reader.read_line(&mut line)?;
        }
        reader.read_line(&mut line)?;
    }
    Ok(())
}

/// The middle of what the client printed under a word.
fn middle(text: &str, word: &str, percent: usize) -> Option<Duration> {
    let mut all: Vec<u64> =
        text.lines().filter_map(|line| line.strip_prefix(word)?.trim().parse().ok()).collect();
    all.sort_unstable();
    all.get(all.len() * percent / 100).map(|nanos| Duration::from_nanos(*nanos))
}

/// A model's first byte and events: direct, and by the gateway.
pub fn gateway() -> Result<(), Failure> {
    let events = 40;
    let times = if quick() { 3 } else { 20 };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || model(stream, events));
        }
    });
    let folder = Folder::new("gateway")?;
    // Without a key nothing is searched for, so nothing is held back either.
    for (name, source) in [("with-key", "env:BENCH_KEY"), ("without-key", "none")] {
        let settings =
            format!("[gateway.openai]\nkey = \"{source}\"\nupstream = \"http://127.0.0.1:{port}\"\n");
        std::fs::write(folder.path().join(name), settings)?;
    }
    let own = std::env::current_exe()?.display().to_string();
    let script = format!("exec {own} {CLIENT} \"$OPENAI_BASE_URL\" \"$OPENAI_API_KEY\" {times}");
    let key = "sk-proj-0123456789abcdefghijklmnopqrstuvwxyz";
    let ways = [
        ("direct", None),
        ("by the gateway", Some("with-key")),
        ("by the gateway, nothing searched for", Some("without-key")),
    ];
    let mut all = Vec::new();
    for (kind, what) in [("first", "first byte"), ("event", "each event")] {
        for (way, settings) in ways {
            let mut command = match settings {
                Some(settings) => {
                    let mut command = programs::kennel(&["--settings", &folder.text(settings)])?;
                    command.args(["sh", "-c", &script]).env("BENCH_KEY", key);
                    command
                }
                None => {
                    let mut command = outside(&script);
                    command
                        .env("OPENAI_BASE_URL", format!("http://127.0.0.1:{port}/v1"))
                        .env("OPENAI_API_KEY", key);
                    command
                }
            };
            all.push(Way::new(&format!("{what}, {way}"), move || {
                let output = command.stdout(Stdio::piped()).output()?;
                let text = String::from_utf8_lossy(&output.stdout);
                let time = middle(&text, kind, 50)
                    .ok_or_else(|| format!("the client: {}: {text}", output.status))?;
                Ok(Sample { time, peak_memory: None })
            }));
        }
    }
    take_turns(&mut all, if quick() { 1 } else { 9 })?;
    println!(
        "A model that streams {events} events, {} ms apart; {times} answers over one connection in each round.\n",
        APART.as_millis()
    );
    println!("{}", table::of(&all, &[0]));
    let added = |at: usize| {
        let direct = all[at / ways.len() * ways.len()].median();
        all[at].median().saturating_sub(direct).as_secs_f64() * 1e3
    };
    print!("{}", table::goal("added to the first byte, in ms", added(1), 1.0));
    print!("{}", table::goal("added to each event, in ms", added(4), 1.0));
    println!();
    Ok(())
}

/// `/bin/true` with an allow list, and with a secret, for which a sandbox has an authority of its own.
pub fn authority() -> Result<(), Failure> {
    const TRUE: &str = "/bin/true";
    let mut ways = Vec::new();
    for (name, flags) in [
        ("kennel, an allow list", &["--allow-domain", "example.com"][..]),
        (
            "kennel, TLS that ends at the gate",
            &["--allow-domain", "example.com", "--terminate", "example.com"],
        ),
        ("kennel, a secret", &["--secret", "BENCH_KEY=env:BENCH_KEY@example.com"]),
    ] {
        let mut command = programs::kennel(flags)?;
        command.arg(TRUE);
        // Elsewhere it would be a variable to speak of.
        if flags.contains(&"--secret") {
            command.env("BENCH_KEY", "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz");
        }
        ways.push(Way::command(name, command));
    }
    let rounds = if quick() { 20 } else { 500 };
    take_turns(&mut ways, rounds)?;
    println!("`{TRUE}`, {rounds} rounds.\n");
    println!("{}", table::of(&ways, &[0]));
    for way in &ways[1..] {
        let added = way.median().saturating_sub(ways[0].median()).as_secs_f64() * 1e3;
        print!("{}", table::goal(&format!("{}, added in ms", way.name), added, 1.0));
    }
    println!();
    Ok(())
}
