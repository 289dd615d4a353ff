//! srt's masked credentials and TLS termination, beside srt: the same requests reach a TLS server, with the same values.
//!
//! The server is the host's `localhost`, which both programs reach through the proxy only, and keeps what it was sent. Where srt
//! shows a real value inside, kennel does not; these differences are in `docs/compat.md`.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use kennel_tests::{Ran, Scratch};
use serde_json::{Value, json};

use crate::compat::world::{Place, Which, installed, run, srt};

const TOKEN: &str = "sk-ant-api03-real-0123456789-real";
const URL: &str = "postgres://me:hunter2-hunter2@db.example.org/x";
/// `{"iss":"me","key":"very-secret-claim"}`
const JWT: &str =
    "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJtZSIsImtleSI6InZlcnktc2VjcmV0LWNsYWltIn0.c2lnbmF0dXJlLW9mLWl0";

/// Answers each request and writes it down.
const SERVER: &str = r#"
import http.server, json, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        body = b""
        if self.headers.get("transfer-encoding"):
            while True:
                size = int(self.rfile.readline(), 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    break
        else:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
        fields = {name.lower(): value for name, value in self.headers.items()}
        kept = {name: value for name, value in fields.items() if name.startswith(("authorization", "x-"))}
        with open("seen", "a") as seen:
            seen.write(json.dumps([self.requestline, kept, body.decode("latin1")]) + "\n")
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.send_header("Set-Cookie", "a=b")
        self.send_header("X-Other", "c")
        self.end_headers()
        self.wfile.write(b"hello")
    do_GET = do_POST = answer
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("server.pem", "server.key")
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// A client of AWS's: `aws.py PORT [KIND]`.
const AWS: &str = r#"
import hashlib, hmac, http.client, os, ssl, sys, urllib.parse
port, kind = int(sys.argv[1]), sys.argv[2]
secret, key = os.environ["AWS_SECRET_ACCESS_KEY"], os.environ["AWS_ACCESS_KEY_ID"]
date, scope = "20261116T120000Z", "20261116/eu-central-1/service/aws4_request"
body = b"" if kind == "get" else b"a body, not short"
path, query = "/a b/c", "b=2&a=1%2F"
fields = {"host": f"localhost:{port}", "x-amz-date": date, "x-amz-security-token": os.environ["AWS_SESSION_TOKEN"]}
if kind == "streaming":
    fields["x-amz-content-sha256"] = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
elif kind == "unsigned":
    fields["x-amz-content-sha256"] = "UNSIGNED-PAYLOAD"
names = ";".join(sorted(fields))
def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
wire = urllib.parse.quote(path)
hashed = fields.get("x-amz-content-sha256", hashlib.sha256(body).hexdigest())
head = "".join(f"{name}:{fields[name]}\n" for name in sorted(fields))
method = "POST" if body else "GET"
canonical = f"{method}\n{urllib.parse.quote(wire)}\na=1%2F&b=2\n{head}\n{names}\n{hashed}"
text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
signing = ("AWS4" + secret).encode()
for part in scope.split("/"):
    signing = mac(signing, part)
algorithm = "AWS4-ECDSA-P256-SHA256" if kind == "sigv4a" else "AWS4-HMAC-SHA256"
signature = mac(signing, text).hex()
if kind == "presigned":
    query += f"&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={key}%2F{scope.replace('/', '%2F')}&X-Amz-Signature={signature}"
else:
    fields["authorization"] = f"{algorithm} Credential={key}/{scope}, SignedHeaders={names}, Signature={signature}"
if "outside" in sys.argv:
    print(fields["authorization"])
    sys.exit()
proxy = urllib.parse.urlparse(os.environ["HTTPS_PROXY"])
connection = http.client.HTTPSConnection("127.0.0.1", proxy.port, context=ssl.create_default_context(), timeout=20)
import base64
token = base64.b64encode(f"{urllib.parse.unquote(proxy.username or '')}:{urllib.parse.unquote(proxy.password or '')}".encode()).decode()
connection.set_tunnel("localhost", port, {"Proxy-Authorization": f"Basic {token}"})
connection.putrequest(method, wire + "?" + query, skip_host=True, skip_accept_encoding=True)
for name, value in fields.items():
    connection.putheader(name, value)
if body:
    connection.putheader("content-length", str(len(body)))
connection.endheaders(body)
print(kind, connection.getresponse().status)
"#;

/// What the scripts use: `ask` prints the status.
const ASK: &str = r#"PROXY="${HTTPS_PROXY/localhost/127.0.0.1}"
ask() { curl -s -m 20 -o body -w '%{http_code}\n' --noproxy '' -x "$PROXY" "$@"; }
"#;

/// A TLS server on the host's loopback.
struct Upstream {
    folder: Scratch,
    child: Child,
    port: u16,
}

impl Upstream {
    fn start() -> Option<Upstream> {
        if !installed(&["openssl", "curl", "/usr/bin/python3"]) {
            return None;
        }
        let folder = Scratch::new();
        folder.write("names", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
        let script = "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 9 -subj '/CN=A test' \
                      && openssl req -newkey rsa:2048 -nodes -keyout server.key -out request -subj /CN=localhost \
                      && openssl x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 9 -extfile names";
        let made = Command::new("sh").args(["-c", script]).current_dir(folder.path()).output().expect("sh");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut child = Command::new("/usr/bin/python3")
            .args(["-c", SERVER])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)
            .expect("it says its port");
        Some(Upstream { folder, child, port: line.trim().parse().expect("a port") })
    }

    fn authority(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// The requests since the last time.
    fn seen(&self) -> Vec<Value> {
        let file = self.folder.join("seen");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(file);
        text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
    }

    /// Settings with these credentials, and more in `network`. `PORT` is the server's port.
    fn settings(&self, network: Value, credentials: &Value) -> String {
        let port = self.port;
        let mut all = json!({
            "network": {
                "allowedDomains": [format!("localhost:{port}"), format!("127.0.0.1:{port}")],
                "deniedDomains": [],
                "tlsTerminate": {},
            },
            "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []},
            "credentials": credentials,
        });
        if let Value::Object(more) = network {
            all["network"].as_object_mut().expect("an object").extend(more);
        }
        all.to_string()
    }

    /// Runs a script under one of the two; what came of it and what the server saw.
    fn try_one(
        &self,
        which: Which,
        settings: &str,
        script: &str,
        prepare: &dyn Fn(&Place),
    ) -> Option<(Ran, Vec<Value>)> {
        let place = Place::new();
        prepare(&place);
        place.write("work/aws.py", AWS);
        let script = format!("{ASK}PORT={}\n{script}", self.port);
        let mut command = srt(which, &place, Some(settings))?;
        command
            .args(["-c", &script])
            .env("NODE_EXTRA_CA_CERTS", self.authority())
            .env_remove("SSL_CERT_FILE")
            .env("TOKEN", TOKEN)
            .env("URL", URL)
            .env("JWT", JWT)
            .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLEEXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
            .env("AWS_SESSION_TOKEN", "a session's token, not short");
        let ran = run(&mut command);
        Some((ran, self.seen()))
    }

    /// Under both: the same words, and the same requests.
    #[track_caller]
    fn same(&self, settings: &str, script: &str, prepare: &dyn Fn(&Place)) -> (Ran, Vec<Value>) {
        let (ran, seen) = self.try_one(Which::Kennel, settings, script, prepare).expect("kennel");
        if let Some((real, real_seen)) = self.try_one(Which::Real, settings, script, prepare) {
            assert_eq!(ran.stdout, real.stdout, "{}\n{}", ran.stderr, real.stderr);
            assert_eq!(seen, real_seen, "{}\n{}", ran.stderr, real.stderr);
        }
        (ran, seen)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn nothing(_: &Place) {}

#[test]
#[kennel_claim::claim("secrets/srt-masks")]
fn the_same_real_values_reach_the_server() {
    let Some(upstream) = Upstream::start() else { return };
    let credentials = json!({
        "envVars": [
            {"name": "TOKEN", "mode": "mask", "injectHosts": ["localhost"]},
            {"name": "URL", "mode": "mask", "extract": ":([^@:]+)@", "injectHosts": ["localhost"]},
            {"name": "JWT", "mode": "mask", "decode": "jwt", "maskClaims": ["key"], "injectHosts": ["localhost"]},
            {"name": "UNSET", "mode": "mask"},
        ],
        "files": [
            {"path": "netrc", "mode": "mask", "extract": "password (\\S+)", "injectHosts": ["localhost"]},
            {"path": "plain", "mode": "mask", "injectHosts": ["localhost"]},
            {"path": "tokens.json", "mode": "mask", "decode": "jwt", "injectHosts": ["localhost"]},
            {"path": "missing", "mode": "mask"},
        ],
    });
    let script = r#"
        # In two pieces: kennel takes real values out of a command's words, too.
        for real in sk-ant-api03-real-'0'123456789-real hunter'2'-hunter2 very-'s'ecret-claim c2lnb'm'F0dXJl in-n'e'trc-1234 in-p'l'ain-1234; do
            (env; cat netrc plain tokens.json) | grep -q "$real" && echo "shows $real"
        done
        echo "${UNSET-unset} ${URL%%:*} ${URL##*@} $(cut -d' ' -f1-5 netrc) ${#JWT}" | sed 's/ [0-9]*$//'
        claims() { cut -d. -f2 | tr _- /+ | base64 -d 2>/dev/null; }
        echo "$JWT" | claims | cut -d, -f1
        ask -H "Authorization: Bearer $TOKEN" https://localhost:$PORT/bearer
        ask -H "X-Url: $URL" -H "X-Jwt: $JWT" https://localhost:$PORT/fields
        ask -H "X-Claim: $(echo "$JWT" | claims | cut -d'"' -f8)" https://localhost:$PORT/claim
        ask -H "X-Netrc: $(cut -d' ' -f6 netrc)" -H "X-Plain: $(cat plain)" https://localhost:$PORT/files
        ask -H "X-Tokens: $(cut -d'"' -f4 tokens.json)" https://localhost:$PORT/tokens
        ask -H 'Content-Type: text/plain' -d "a $TOKEN b $(cat plain)" https://localhost:$PORT/body
        cat body; echo"#;
    let prepare = |place: &Place| {
        place.write("work/netrc", "machine example.org login me password in-netrc-1234\n");
        place.write("work/plain", "in-plain-1234");
        place.write("work/tokens.json", &format!(r#"{{"token": "{JWT}"}}"#));
    };
    let settings = upstream.settings(json!({"stripResponseHeaders": ["set_cookie"]}), &credentials);
    let (ran, seen) = upstream.same(&settings, script, &prepare);
    let expected = "unset postgres db.example.org/x machine example.org login me password\n{\"iss\":\"me\"\n";
    assert_eq!(ran.ok().stdout, format!("{expected}{}hello\n", "200\n".repeat(6)));
    let fields = |at: usize, name: &str| seen[at][1][name].as_str().unwrap_or_default().to_owned();
    assert_eq!(fields(0, "authorization"), format!("Bearer {TOKEN}"));
    assert_eq!((fields(1, "x-url"), fields(1, "x-jwt")), (URL.to_owned(), JWT.to_owned()));
    assert_eq!(fields(2, "x-claim"), "very-secret-claim");
    assert_eq!(
        (fields(3, "x-netrc"), fields(3, "x-plain")),
        ("in-netrc-1234".into(), "in-plain-1234".into())
    );
    assert_eq!(fields(4, "x-tokens"), JWT);
    assert_eq!(seen[5][2], format!("a {TOKEN} b in-plain-1234"));
}

#[test]
#[kennel_claim::claim("secrets/srt-masks")]
fn what_cannot_be_masked_is_withheld_and_said() {
    let Some(upstream) = Upstream::start() else { return };
    let credentials = json!({
        "envVars": [
            {"name": "TOKEN", "mode": "mask", "extract": "x(y)z"},
            {"name": "URL", "mode": "mask", "decode": "jwt"},
            {"name": "JWT", "mode": "mask", "decode": "jwt", "maskClaims": ["none"]},
        ],
        "files": [
            {"path": "text", "mode": "mask", "extract": "x(y)z"},
            {"path": "binary", "mode": "mask"},
            {"path": "folder", "mode": "mask"},
        ],
    });
    let script = r#"echo "${TOKEN-unset} ${URL-unset} ${JWT-unset}"; cat text binary folder/in 2>/dev/null | grep -ao 'a secret [a-z]*'; cat text"#;
    let prepare = |place: &Place| {
        place.write("work/text", "a secret text.");
        std::fs::write(place.work().join("binary"), b"a secret binary\xff").expect("a scratch folder");
        place.write("work/folder/in", "a secret in a folder");
    };
    let settings = upstream.settings(json!({}), &credentials);
    let (ran, _) = upstream.try_one(Which::Kennel, &settings, script, &prepare).expect("kennel");
    assert_eq!(ran.stdout, "unset unset unset\n", "{}", ran.stderr);
    assert!(ran.stderr.contains("text: Permission denied"), "{}", ran.stderr);
    for name in ["TOKEN", "URL", "JWT", "work/text", "work/folder"] {
        let said = ran.stderr.lines().any(|line| line.contains("warning") && line.contains(name));
        assert!(said, "{name}: {}", ran.stderr);
    }
    // srt shows all of them.
    if let Some((real, _)) = upstream.try_one(Which::Real, &settings, script, &prepare) {
        let all = format!("{TOKEN} {URL} {JWT}\na secret text\na secret binary\na secret in\na secret text.");
        assert_eq!(real.stdout, all, "{}", real.stderr);
    }
    // What srt withholds as well, it withholds in the same way.
    let denied =
        json!({"files": [{"path": "text", "mode": "mask", "extract": "x(y)z", "onExtractNoMatch": "deny"}]});
    let denied = upstream.settings(json!({}), &denied);
    for which in [Which::Kennel, Which::Real] {
        let Some((ran, _)) = upstream.try_one(which, &denied, "cat text; echo \"$?\"", &prepare) else {
            continue;
        };
        assert_eq!(ran.stdout, "1\n", "{}", ran.stderr);
        assert!(ran.stderr.contains("text: Permission denied"), "{}", ran.stderr);
    }
    let strict = credentials.to_string().replace("\"mode\"", "\"onExtractNoMatch\":\"error\",\"mode\"");
    let strict = upstream.settings(json!({}), &serde_json::from_str(&strict).expect("it is JSON"));
    let (ran, _) = upstream.try_one(Which::Kennel, &strict, "echo ran", &prepare).expect("kennel");
    assert!(ran.code == 1 && ran.stdout.is_empty(), "{ran:?}");
    assert!(ran.stderr.contains("matches nothing in it"), "{}", ran.stderr);
}

#[test]
fn a_stand_in_for_another_host_is_refused() {
    let Some(upstream) = Upstream::start() else { return };
    let credentials = json!({"envVars": [{"name": "TOKEN", "mode": "mask", "injectHosts": ["localhost"]}]});
    let script = "ask -H \"X-Key: $TOKEN\" https://127.0.0.1:$PORT/";
    let settings = upstream.settings(json!({}), &credentials);
    let (ran, seen) = upstream.try_one(Which::Kennel, &settings, script, &nothing).expect("kennel");
    assert_eq!((ran.stdout.as_str(), seen.len()), ("403\n", 0), "{}", ran.stderr);
    assert!(ran.stderr.contains("TOKEN is not bound to this host"), "{}", ran.stderr);
    if let Some((real, seen)) = upstream.try_one(Which::Real, &settings, script, &nothing) {
        assert_eq!((real.stdout.as_str(), seen.len()), ("200\n", 1), "{}", real.stderr);
        assert!(!seen[0].to_string().contains(TOKEN));
    }
}

#[test]
fn responses_lose_the_fields_that_settings_name() {
    let Some(upstream) = Upstream::start() else { return };
    let script = "curl -s -m 20 -D - -o /dev/null --noproxy '' -x \"$PROXY\" https://localhost:$PORT/ | tr -d '\\r' \
                  | grep -iE '^(set-cookie|x-other):' | tr A-Z a-z";
    let settings = upstream.settings(json!({"stripResponseHeaders": ["Set.Cookie"]}), &json!({}));
    assert_eq!(upstream.same(&settings, script, &nothing).0.stdout, "x-other: c\n");
    let settings = upstream.settings(json!({}), &json!({}));
    assert_eq!(upstream.same(&settings, script, &nothing).0.stdout, "set-cookie: a=b\nx-other: c\n");
}

#[test]
fn requests_must_name_their_host_and_tunnels_must_be_readable() {
    let Some(upstream) = Upstream::start() else { return };
    let settings = upstream.settings(json!({"requireHostMatch": true}), &json!({}));
    let script = "ask https://localhost:$PORT/; ask -H 'Host: other.example.org' https://localhost:$PORT/";
    assert_eq!(upstream.same(&settings, script, &nothing).0.stdout, "200\n421\n");
    let opaque = json!({"refuseOpaqueTunnels": true, "tlsTerminate": {"excludeDomains": ["127.0.0.1"]}});
    let settings = upstream.settings(opaque, &json!({}));
    let script = format!(
        "ask https://localhost:$PORT/; ask --cacert {} https://127.0.0.1:$PORT/ > /dev/null && echo read",
        upstream.authority().display()
    );
    let (ran, seen) = upstream.same(&settings, &script, &nothing);
    assert_eq!((ran.stdout.as_str(), seen.len()), ("200\n", 1), "{}", ran.stderr);
}

#[test]
fn excluded_hosts_are_not_read() {
    let Some(upstream) = Upstream::start() else { return };
    let excluded = json!({"tlsTerminate": {"excludeDomains": ["localhost"], "extraCaCertPaths": [upstream.authority(), "/no/such/file"]}});
    let settings = upstream.settings(excluded, &json!({}));
    // The server's own certificate, which only the bundle vouches for.
    let script = "curl -sv -m 20 -o body --noproxy '' -x \"$PROXY\" https://localhost:$PORT/ 2>&1 | grep -o 'issuer: CN=.*'";
    assert_eq!(upstream.same(&settings, script, &nothing).0.stdout, "issuer: CN=A test\n");
}

/// The signatures are srt's, byte for byte, and those of a client that holds the real key.
#[test]
#[kennel_claim::claim("secrets/aws-signatures")]
fn requests_to_aws_are_signed_again() {
    let Some(upstream) = Upstream::start() else { return };
    let names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
    let masks: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "mode": "mask", "injectHosts": ["localhost"]}))
        .collect();
    let settings = upstream.settings(json!({}), &json!({"envVars": masks}));
    let script = "for kind in get post unsigned streaming presigned sigv4a; do /usr/bin/python3 aws.py $PORT $kind; done";
    let (ran, seen) = upstream.same(&settings, script, &nothing);
    let expected = "get 200\npost 200\nunsigned 200\nstreaming 403\npresigned 403\nsigv4a 403\n";
    assert_eq!(ran.stdout, expected, "{}", ran.stderr);
    let outside = |kind: &str| {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", AWS, &upstream.port.to_string(), kind, "outside"]);
        command
            .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLEEXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
            .env("AWS_SESSION_TOKEN", "a session's token, not short");
        run(&mut command).ok().stdout.trim().to_owned()
    };
    for (request, kind) in seen.iter().zip(["get", "post", "unsigned"]) {
        assert_eq!(request[1]["authorization"], outside(kind), "{kind}");
    }
}

#[test]
fn an_authority_that_cannot_be_read_stops_the_start() {
    let Some(upstream) = Upstream::start() else { return };
    let files = json!({"tlsTerminate": {"caCertPath": "/no/such/cert", "caKeyPath": "/no/such/key"}});
    let settings = upstream.settings(files, &json!({}));
    for which in [Which::Kennel, Which::Real] {
        if let Some((ran, _)) = upstream.try_one(which, &settings, "echo ran", &nothing) {
            assert!(ran.code == 1 && ran.stdout.is_empty(), "{ran:?}");
        }
    }
}
