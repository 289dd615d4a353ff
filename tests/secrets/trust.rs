//! TLS that ends at the gate: who trusts whom, what each side is told when trust fails, and requests that try to slip through.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use kennel_tests::{program, skipped, world};
use serde_json::{Value, json};

use crate::secrets::there::{MUTUAL, UNTRUSTED};
use crate::secrets::{Setup, have, upstream};

const CURL: &str = "curl -sS -w '\\n%{http_code}\\n'";

/// The variables of the reference that lead a client to certificates.
const VARIABLES: [&str; 16] = [
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
    "AWS_CA_BUNDLE",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "NIX_SSL_CERT_FILE",
    "npm_config_cafile",
    "BUNDLE_SSL_CA_CERT",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "SSL_CERT_DIR",
    "JAVA_TOOL_OPTIONS",
];

#[test]
#[kennel_claim::claim("secrets/servers-are-verified")]
fn every_variable_leads_to_a_bundle_with_the_sandboxs_authority_and_the_hosts() {
    let Some(upstream) = upstream() else { return };
    let host = "bundle.web.test";
    let setup = Setup::new(upstream, &[host]).set("network.terminate", json!([host]));
    let script: String = VARIABLES[..14]
        .iter()
        .map(|name| {
            format!("echo {name} $(grep -c 'BEGIN CERT' \"${name}\") $(grep -c 'PRIVATE' \"${name}\")\n")
        })
        .collect();
    let told = setup.sh(&format!("{script} cat \"$SSL_CERT_FILE\" >&2")).ok();
    let own = std::fs::read_to_string(upstream.authority()).expect("the test's authority is there");
    assert!(told.ran.stderr.contains(own.trim()), "what the caller trusts is trusted inside");
    for (name, line) in VARIABLES.iter().zip(told.ran.stdout.lines()) {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0], *name);
        assert!(words[1].parse::<u32>().is_ok_and(|count| count >= 2), "{told:#?}");
        assert_eq!(words[2], "0", "no private key: {told:#?}");
    }
}

#[test]
#[kennel_claim::claim("secrets/servers-are-verified")]
fn without_the_variables_a_client_trusts_nothing_that_ends_at_the_gate() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let host = "no-variables.web.test";
    let setup = Setup::new(upstream, &[]).secret("KEY", upstream.key("anthropic"), &[host]);
    let unset = VARIABLES.map(|name| format!("-u {name}")).join(" ");
    let ask = format!(r#"{CURL} -H "x-api-key: $KEY" https://{host}/hello"#);
    let told = setup.sh(&ask).ok();
    assert!(told.ran.stdout.contains("hello from"), "{told:#?}");
    let bare = setup.sh(&format!("env {unset} {ask}"));
    assert_eq!(bare.ran.code, 60, "curl says that it cannot verify: {bare:#?}");
    // The user is told what to do, since the client cannot be.
    let all = format!("{}{}", bare.text, bare.ran.stderr);
    assert!(all.contains("no_terminate"), "{bare:#?}");
    assert_eq!(upstream.requests(host).len(), 1, "only the first was sent");
    // Where asked, the system's own bundles have it too.
    let setup = setup.set("network.system_bundles", json!(true));
    let told = setup.sh(&format!("env {unset} {ask}")).ok();
    assert!(told.ran.stdout.contains("hello from"), "{told:#?}");
}

#[test]
fn java_trusts_the_sandboxs_authority() {
    let Some(upstream) = upstream() else { return };
    if program("java").is_none() {
        return skipped("java is not installed");
    }
    let host = "java.web.test";
    let setup = Setup::new(upstream, &[]).secret("KEY", upstream.key("anthropic"), &[host]);
    let source = r#"
import java.net.*;
public class Fetch {
    public static void main(String[] words) throws Exception {
        URLConnection ask = new URI("https://java.web.test/hello").toURL().openConnection();
        ask.setRequestProperty("x-api-key", System.getenv("KEY"));
        System.out.print(new String(ask.getInputStream().readAllBytes()));
    }
}"#;
    let file = setup.home.write("Fetch.java", source).display().to_string();
    let told = setup.run(&["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", &file]);
    assert_eq!(told.ran.stdout, "hello from java.web.test\n", "{told:#?}");
    assert_eq!(upstream.requests(host)[0]["real"], "anthropic");
}

#[test]
#[kennel_claim::claim("secrets/servers-are-verified")]
fn upstream_is_verified_and_failures_are_explained() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let host = "verified.web.test";
    let hosts = [format!("{host}:{UNTRUSTED}"), format!("{host}:{MUTUAL}"), host.to_owned()];
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let setup = Setup::new(upstream, &[]).secret("KEY", upstream.key("anthropic"), &hosts);
    let ask = |port: u16| format!(r#"{CURL} -H "x-api-key: $KEY" https://{host}:{port}/verified-{port}"#);
    for port in [UNTRUSTED, MUTUAL] {
        let told = setup.sh(&ask(port));
        assert!(told.ran.stdout.trim().ends_with("502"), "{told:#?}");
        let way_out = if port == UNTRUSTED { "extra_ca" } else { "no_terminate" };
        assert!(told.ran.stdout.contains(way_out), "{told:#?}");
        assert_eq!(upstream.requests(&format!("/verified-{port}")), Vec::<Value>::new());
    }
    let told = setup.sh(&ask(443)).ok();
    assert!(told.ran.stdout.contains("404"), "{told:#?}");
    // A name that the certificate does not have.
    let other = "not.in.the.certificate.test";
    let setup = Setup::new(upstream, &[]).secret("KEY", upstream.key("anthropic"), &[other]);
    let told = setup.sh(&format!(r#"{CURL} -H "x-api-key: $KEY" https://{other}/hello"#));
    assert!(told.ran.stdout.trim().ends_with("502"), "{told:#?}");
    assert_eq!(upstream.requests(other), Vec::<Value>::new());
}

#[test]
#[kennel_claim::claim("secrets/servers-are-verified")]
fn a_server_that_breaks_off_says_why_however_its_reset_comes() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let host = "breaks-off.web.test";
    let setup =
        Setup::new(upstream, &[]).secret("KEY", upstream.key("anthropic"), &[&format!("{host}:{MUTUAL}")]);
    // With large requests and small ones, and many at once: the alert and the reset come while they are written.
    let script = format!(
        r#"head -c 300000 /dev/zero | tr '\0' x > /tmp/large
        for round in 1 2 3 4 5; do for version in --http1.1 --http2; do for data in x @/tmp/large; do
            for many in 1 2 3 4; do
                {CURL} $version -H "x-api-key: $KEY" -H Expect: --data-binary $data https://{host}:{MUTUAL}/breaks &
            done; wait
        done; done; done"#
    );
    let told = setup.sh(&script);
    assert_eq!(told.ran.stdout.matches("no_terminate").count(), 80, "{told:#?}");
    assert_eq!(upstream.requests("/breaks"), Vec::<Value>::new());
}

#[test]
fn an_excluded_host_is_carried_unread() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let host = "excluded.web.test";
    let setup = Setup::new(upstream, &["*.web.test"])
        .set("network.terminate", json!(["*"]))
        .set("network.no_terminate", json!([host]));
    // As a client that pins: it accepts the server's own certificate only.
    let ca = upstream.authority().display().to_string();
    let told = setup.sh(&format!(
        "{CURL} --cacert {ca} https://{host}/hello; {CURL} --cacert {ca} https://terminated.web.test/hello"
    ));
    assert_eq!(told.ran.stdout.matches("hello from excluded.web.test").count(), 1, "{told:#?}");
    assert!(!told.ran.stdout.contains("hello from terminated"), "{told:#?}");
}

#[test]
#[kennel_claim::claim("secrets/request-rules-hold")]
fn another_host_is_not_asked_for_over_a_connection_to_this_one() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl", "node"]) {
        return;
    }
    let (host, other) = ("connected.web.test", "asked-for.web.test");
    let setup = Setup::new(upstream, &[host, other]).set("network.terminate", json!([host, other]));
    let script = format!(
        r#"{CURL} --http1.1 -H 'Host: {other}' https://{host}/authority-1
           node -e '
             const client = require("node:http2").connect("https://{host}");
             const stream = client.request({{ ":path": "/authority-2", ":authority": "{other}" }});
             stream.on("response", (head) => console.log(head[":status"]));
             stream.on("data", () => {{}}); stream.on("close", () => client.close());'"#
    );
    let told = setup.sh(&script).ok();
    let statuses: Vec<&str> = told.ran.stdout.lines().filter(|line| line.parse::<u16>().is_ok()).collect();
    assert_eq!(statuses, ["421", "421"], "{told:#?}");
    assert_eq!(upstream.requests("/authority-"), Vec::<Value>::new());
}

#[test]
fn alternative_services_are_not_passed_on() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let host = "alternative.web.test";
    let setup = Setup::new(upstream, &[host]).set("network.terminate", json!([host]));
    for version in ["--http1.1", "--http2"] {
        let told = setup.sh(&format!("curl -sSi {version} https://{host}/alternative")).ok();
        assert!(
            told.ran.stdout.ends_with("ok\n") && !told.ran.stdout.to_lowercase().contains("alt-svc"),
            "{told:#?}"
        );
    }
}

/// Requests that some servers take for two, or for another one.
const SMUGGLED: &str = r#"
import os, socket, ssl, sys
host = sys.argv[1]
key = os.environ["KEY"]
inner = "GET /smuggled HTTP/1.1\r\nHost: %s\r\n\r\n" % host
ways = [
    "POST /outer HTTP/1.1\r\nHost: %s\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % host + inner,
    "POST /outer HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\nContent-Length: %d\r\n\r\n" % (host, len(inner)) + inner,
    "POST /outer HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: xchunked\r\nContent-Length: %d\r\n\r\n" % (host, len(inner)) + inner,
    "POST /outer HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding : chunked\r\nContent-Length: %d\r\n\r\n" % (host, len(inner)) + inner,
    "POST /outer HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" % host + inner,
    "POST /outer HTTP/1.1\r\nHost: %s\r\nContent-Length: +%d\r\n\r\n" % (host, len(inner)) + inner,
    "POST /outer HTTP/1.1\r\nHost: %s\r\nX: y\n\r\nContent-Length: %d\r\n\r\n" % (host, len(inner)) + inner,
    "GET /outer HTTP/1.1\r\nHost: %s\r\nHost: elsewhere.web.test\r\n\r\n" % host,
    "GET /outer HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\n Host: elsewhere.web.test\r\n\r\n" % (host, key),
    "GET https://elsewhere.web.test/smuggled HTTP/1.1\r\nHost: %s\r\n\r\n" % host,
    "POST /outer HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n5;a=%s\r\nhello\r\n0\r\n\r\n" % (host, "\n" + inner),
    "GET /outer HTTP/1.1\r\nHost: %s\r\nConnection: Host, X-Api-Key\r\nX-Api-Key: %s\r\n\r\n" % (host, key),
]
for number, request in enumerate(ways):
    raw = socket.create_connection((host, 443))
    context = ssl.create_default_context()
    stream = context.wrap_socket(raw, server_hostname=host)
    stream.settimeout(3)
    stream.sendall(request.encode())
    answer = b""
    try:
        while b"\r\n\r\n" not in answer and (piece := stream.recv(65536)):
            answer += piece
    except (TimeoutError, OSError) as error:
        answer = answer or str(error).encode()
    print(number, answer.split(b"\r\n")[0].decode("latin-1"), flush=True)
    stream.close()
"#;

#[test]
#[kennel_claim::claim("secrets/request-rules-hold")]
fn no_request_is_smuggled_through_a_terminated_connection() {
    let Some(upstream) = upstream() else { return };
    let Some(python) = world::python() else { return skipped("python3 is not installed") };
    let host = "smuggling.web.test";
    // Only one path is allowed, so a request that arrives for another one was not compared.
    let setup = Setup::new(upstream, &[&format!("* {host}/outer"), "elsewhere.web.test"]).secret(
        "KEY",
        upstream.key("anthropic"),
        &[host],
    );
    let told = setup.run(&[&python.display().to_string(), "-c", SMUGGLED, host]).ok();
    println!("{}", told.ran.stdout);
    assert_eq!(told.ran.stdout.lines().count(), 12, "{told:#?}");
    assert_eq!(upstream.requests("/smuggled"), Vec::<Value>::new(), "{told:#?}");
    let seen = upstream.requests(host);
    for request in &seen {
        assert_eq!(request["host"], host, "{request:#}");
        assert_eq!(request["path"], "/outer", "{request:#}");
        // The upstream reads each body as the gate did.
        assert!(
            !request["body"].as_str().is_some_and(|body| body.contains("Host: elsewhere")),
            "{request:#}"
        );
    }
}

#[test]
#[kennel_claim::claim("secrets/request-rules-hold")]
fn rules_about_requests_hold_whatever_the_spelling() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let host = "ruled.web.test";
    let setup =
        Setup::new(upstream, &[&format!("GET {host}/public/*"), &format!("POST {host}/repos/me/*/issues")]);
    let curl = format!("{CURL} --path-as-is");
    let allowed = [
        format!("{host}/public/a"),
        format!("{host}/public/a/b?q=1"),
        format!("{host}//public///a"),
        format!("{host}/%70ublic/a"),
    ];
    let refused = [
        format!("{host}/private/a"),
        format!("{host}/public/../private/a"),
        format!("{host}/public/%2e%2e/private/a"),
        format!("{host}/public/%2E./private/a"),
        format!("{host}/public/..%2fprivate/a"),
        format!("{host}/public/..%5cprivate/a"),
        format!(r"{host}/public/..\\private/a"),
        format!("{host}/public/..;/private/a"),
        format!("{host}/PUBLIC/a"),
        format!("{host}/public%00/a"),
        host.to_owned(),
    ];
    for version in ["--http1.1", "--http2"] {
        let ask = |paths: &[String]| {
            paths
                .iter()
                .map(|path| format!("{curl} {version} -o /tmp/out 'https://{path}'; "))
                .collect::<String>()
        };
        let told = setup.sh(&ask(&allowed)).ok();
        let statuses: Vec<&str> = told.ran.stdout.split_whitespace().collect();
        assert_eq!(statuses, ["404"; 4], "{version}: {told:#?}");
        let told = setup.sh(&ask(&refused));
        let statuses: Vec<&str> = told.ran.stdout.split_whitespace().collect();
        assert_eq!(statuses.len(), refused.len(), "{version}: {told:#?}");
        assert!(statuses.iter().all(|status| *status == "403" || *status == "400"), "{version}: {told:#?}");
        let told = setup.sh(&format!(
            "{curl} {version} -X POST https://{host}/public/a; {curl} {version} -d x https://{host}/repos/me/kennel/issues -o /tmp/out; {curl} {version} -d x https://{host}/repos/you/kennel/issues"
        ));
        assert!(
            told.ran.stdout.contains(&format!("POST {host}/public/a")),
            "the rule to add is told to the client: {told:#?}"
        );
        assert!(told.text.contains(&format!("POST {host}/public/a")), "and to the user: {told:#?}");
        let statuses: Vec<&str> =
            told.ran.stdout.lines().filter(|line| line.parse::<u16>().is_ok()).collect();
        assert_eq!(statuses, ["403", "401", "403"], "{version}: {told:#?}");
    }
    let seen = upstream.requests(host);
    assert!(seen.iter().all(|request| !request["path"].to_string().contains("private")), "{seen:#?}");
    // Both spellings arrive in the one that was compared.
    assert!(seen.iter().all(|request| !request["path"].to_string().contains("//")), "{seen:#?}");
    // Plain requests to the host are compared too, and by no other protocol is it reached.
    let told = setup.sh(&format!("{CURL} http://{host}/private/a; exec 3<>/dev/null"));
    assert!(!told.ran.stdout.contains("404"), "{told:#?}");
}

/// A proxy that carries connections and remembers where to.
fn parent() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it has one").port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && client.read_exact(&mut byte).is_ok() {
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                log.lock().expect("nobody panics with it").push(head.clone());
                let place = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let port = place.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(443);
                let Ok(server) = std::net::TcpStream::connect((world::THERE, port)) else { return };
                let _ = client.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                let (mut a, mut b) =
                    (client.try_clone().expect("it can"), server.try_clone().expect("it can"));
                let up = std::thread::spawn(move || std::io::copy(&mut a, &mut b));
                let _ = std::io::copy(&mut &server, &mut &client);
                let _ = up.join();
            });
        }
    });
    (port, asked)
}

#[test]
fn a_parent_proxy_carries_what_the_gate_reads() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let (port, asked) = parent();
    let host = "by-parent.web.test";
    let setup = Setup::new(upstream, &[])
        .secret("KEY", upstream.key("anthropic"), &[host])
        .set("network.parent_proxy", json!(format!("http://127.0.0.1:{port}")));
    let told = setup.sh(&format!(r#"{CURL} -H "x-api-key: $KEY" https://{host}/hello"#)).ok();
    assert!(told.ran.stdout.contains("hello from"), "{told:#?}");
    assert_eq!(upstream.requests(host)[0]["real"], "anthropic");
    let asked = asked.lock().expect("nobody panics with it").clone();
    assert!(asked.iter().any(|head| head.starts_with(&format!("CONNECT {host}:443 "))), "{asked:?}");
    upstream.assert_clean("what the proxy saw", &asked.concat());
}
