//! Programs that people use, through the proxy door: curl, python and openssl, against real servers.

mod world;

use std::process::{Command, Stdio};

use world::*;

fn curl(world: &World, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("curl")
        .args(["-sS", "-m", "10", "-w", "%{http_connect} %{http_code}"])
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("http_proxy", format!("http://kennel:token@{}", world.proxy))
        .env("https_proxy", format!("http://kennel:token@{}", world.proxy))
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn guarded(allow: &[&str]) -> World {
    let mut allow = allow.to_vec();
    allow.push("127.0.0.1");
    let world = World::with(rules(&allow, &[]), |settings| settings.credentials = Some(token()));
    world.names.set("web.test", &["127.0.0.1"]);
    world
}

#[test]
fn curl_fetches_an_allowed_page_and_shows_why_another_is_blocked() {
    if !installed("curl") {
        println!("SKIPPED: curl is not installed");
        return;
    }
    let port = echo_requests();
    let world = guarded(&["web.test"]);
    let (good, text) = curl(&world, &[&format!("http://web.test:{port}/page")]);
    assert!(good && text.contains("GET /page HTTP/1.1") && text.ends_with(" 200"), "{text}");
    let (_, text) = curl(&world, &["http://evil.test/"]);
    assert!(text.contains("kennel blocked this connection: evil.test:80: not on the allow list"), "{text}");
    let (good, text) = curl(&world, &["https://evil.test/"]);
    assert!(!good && text.contains("403"), "{text}");
    let socks = format!("socks5h://kennel:token@{}", world.proxy);
    let (good, text) = curl(&world, &["-x", &socks, &format!("http://web.test:{port}/socks")]);
    assert!(good && text.contains("GET /socks HTTP/1.1"), "{text}");
}

/// A real TLS server with a certificate of its own.
struct TlsServer {
    process: std::process::Child,
    folder: std::path::PathBuf,
    port: u16,
}

impl TlsServer {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("kennel-tls-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-days", "2", "-subj", "/CN=web.test", "-addext", "subjectAltName=DNS:web.test"])
            .args(["-keyout", "key.pem", "-out", "cert.pem"])
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new("openssl")
            .args(["s_server", "-www", "-quiet", "-key", "key.pem", "-cert", "cert.pem"])
            .args(["-accept", &format!("127.0.0.1:{port}")])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let up = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        let begun = std::time::Instant::now();
        while !up() && begun.elapsed() < SOON {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        TlsServer { process, folder, port }
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn tls_goes_through_for_its_own_name_and_for_no_other() {
    if !installed("curl") || !installed("openssl") {
        println!("SKIPPED: curl or openssl is not installed");
        return;
    }
    let server = TlsServer::start();
    let world = guarded(&["web.test"]);
    let certificate = server.folder.join("cert.pem");
    let url = format!("https://web.test:{}/", server.port);
    let (good, text) = curl(&world, &["--cacert", certificate.to_str().unwrap(), &url]);
    assert!(good && text.contains("200 200"), "{text}");
    let python = "import ssl,sys,socket\n\
        s=socket.create_connection(('127.0.0.1',int(sys.argv[1])))\n\
        s.sendall(b'CONNECT web.test:%s HTTP/1.1\\r\\nProxy-Authorization: Basic a2VubmVsOnRva2Vu\\r\\n\\r\\n' % sys.argv[2].encode())\n\
        assert b' 200 ' in s.recv(4096)\n\
        c=ssl.create_default_context(); c.check_hostname=False; c.verify_mode=ssl.CERT_NONE\n\
        try:\n    t=c.wrap_socket(s,server_hostname=sys.argv[3]); print('CONNECTED',t.version())\n\
        except ssl.SSLError as e:\n    print('REFUSED',e)\n";
    if !installed("python3") {
        println!("SKIPPED: python3 is not installed");
        return;
    }
    let told = |name: &str| {
        let output = Command::new("python3")
            .args(["-c", python, &world.proxy.port().to_string(), &server.port.to_string(), name])
            .output()
            .unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert!(told("web.test").starts_with("CONNECTED"), "{}", told("web.test"));
    let refused = told("evil.test");
    assert!(refused.starts_with("REFUSED") && refused.to_lowercase().contains("access denied"), "{refused}");
}

#[test]
fn python_reads_the_proxy_variables_and_gets_the_same_answers() {
    if !installed("python3") {
        println!("SKIPPED: python3 is not installed");
        return;
    }
    let port = echo_requests();
    let world = guarded(&["web.test"]);
    let program = "import sys,urllib.request,urllib.error\n\
        try:\n    print(urllib.request.urlopen(sys.argv[1],timeout=10).read().decode())\n\
        except urllib.error.HTTPError as e:\n    print(e.code, e.headers['X-Proxy-Error'], e.read().decode())\n";
    let fetch = |url: &str| {
        let output = Command::new("python3")
            .args(["-c", program, url])
            .env("http_proxy", format!("http://kennel:token@{}", world.proxy))
            .env_remove("no_proxy")
            .env_remove("NO_PROXY")
            .output()
            .unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let page = fetch(&format!("http://web.test:{port}/from-python"));
    assert!(page.contains("GET /from-python HTTP/1.1"), "{page}");
    let blocked = fetch("http://evil.test/");
    assert!(blocked.contains("403 blocked-by-allowlist"), "{blocked}");
}
