//! What a client says inside a connection that was let through: other names in `Host` and SNI, smuggled requests,
//! proxies behind proxies.

use crate::network::there::{ODD_HTTP, OPEN_PROXY};
use crate::network::{BOTH, Told, Way, allowed_sh, python_inside};
use kennel_tests::world::{THERE, world};

/// What the scripts here have in common: a raw connection by either way, and an answer read to its end.
const RAW: &str = "
import os, socket, ssl, sys, base64, struct, urllib.parse
def dial(host, port):
    proxy = os.environ.get('HTTP_PROXY')
    if not proxy: return socket.create_connection((host, port), 20)
    url = urllib.parse.urlsplit(proxy)
    s = socket.create_connection((url.hostname, url.port), 20)
    s.sendall(f'CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\nProxy-Authorization: {auth()}\\r\\n\\r\\n'.encode())
    head = b''
    while not head.endswith(b'\\r\\n\\r\\n'): head += s.recv(1) or sys.exit(head)
    assert b' 200 ' in head, head
    return s
def auth():
    url = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
    return 'Basic ' + base64.b64encode(f'{url.username}:{url.password}'.encode()).decode()
def door():
    url = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
    return socket.create_connection((url.hostname, url.port), 20)
def hello(name):
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    outbound = ssl.MemoryBIO(); tls = c.wrap_bio(ssl.MemoryBIO(), outbound, server_hostname=name)
    try: tls.do_handshake()
    except ssl.SSLWantReadError: pass
    return outbound.read()
def rest(s):
    s.settimeout(20); data = b''
    try:
        while True:
            part = s.recv(65536)
            if not part: return data
            data += part
    except OSError: return data
def status(answer): return [int(line.split()[1]) for line in answer.replace(b'HTTP/1.', b'\\nHTTP/1.').split(b'\\n') if line.startswith(b'HTTP/1.')]
";

fn raw(way: Way, hosts: &[&str], script: &str) -> Option<Told> {
    Some(python_inside(way, hosts, &format!("{RAW}{script}"))?.ok())
}

#[test]
#[kennel_claim::claim("network/one-host-per-connection")]
fn host_header_connect_target_and_absolute_uri_must_agree() {
    let Some(world) = world() else { return };
    let absolute = "
for target, host in (('http://agreed.web.test/disagree', 'evil.web.test'), ('http://evil.web.test/disagree', 'agreed.web.test'),
                     ('http://agreed.web.test/disagree', 'agreed.web.test:81'), ('http://agreed.web.test@evil.web.test/disagree', 'agreed.web.test')):
    s = door(); s.sendall(f'GET {target} HTTP/1.1\\r\\nHost: {host}\\r\\nProxy-Authorization: {auth()}\\r\\nConnection: close\\r\\n\\r\\n'.encode())
    answer = rest(s); assert status(answer)[0] in (400, 403), (target, host, answer)
s = door(); s.sendall(f'GET http://agreed.web.test/disagree HTTP/1.1\\r\\nHost: agreed.web.test\\r\\nHost: evil.web.test\\r\\nProxy-Authorization: {auth()}\\r\\n\\r\\n'.encode())
assert status(rest(s))[0] == 400
print('refused')";
    let Some(told) = raw(Way::Proxy, &["agreed.web.test"], absolute) else { return };
    assert_eq!(told.ran.stdout, "refused\n");
    // Inside a tunnel, and without any proxy: each request of the connection has to be for that host.
    let inside = "
for first in ('', 'GET /hello HTTP/1.1\\r\\nHost: agreed.web.test\\r\\n\\r\\n'):
    for request in ('GET /disagree HTTP/1.1\\r\\nHost: evil.web.test\\r\\n\\r\\n', 'GET http://evil.web.test/disagree HTTP/1.1\\r\\nHost: agreed.web.test\\r\\n\\r\\n',
                    'GET /disagree HTTP/1.1\\r\\nHost: agreed.web.test\\r\\nHost: evil.web.test\\r\\n\\r\\n', 'GET /disagree HTTP/1.1\\r\\nhost : evil.web.test\\r\\n\\r\\n'):
        s = dial('agreed.web.test', 80); s.sendall((first + request).encode())
        answer = rest(s); codes = status(answer)
        assert codes[-1:] in ([400], [403]) and len(codes) == 1 + bool(first), (first, request, answer)
print('refused')";
    for way in BOTH {
        let Some(told) = raw(way, &["agreed.web.test"], inside) else { return };
        assert_eq!(told.ran.stdout, "refused\n");
    }
    world.saw_nothing_of("/disagree");
}

#[test]
#[kennel_claim::claim("network/one-host-per-connection")]
fn sni_must_be_the_name_that_was_connected_to() {
    let Some(world) = world() else { return };
    if world.https().is_none() {
        return;
    }
    let script = "
c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
c.wrap_socket(dial('sni.web.test', 443), server_hostname='sni.web.test').close()
try: c.wrap_socket(dial('sni.web.test', 443), server_hostname='evil.web.test'); print('carried')
except (ssl.SSLError, OSError) as error: print('refused', type(error).__name__)";
    for way in BOTH {
        let Some(told) = raw(way, &["sni.web.test"], script) else { return };
        assert!(told.ran.stdout.starts_with("refused"), "{told:#?}");
        assert_eq!(told.reason("sni.web.test"), "the client asked this host for evil.web.test");
    }
}

#[test]
#[kennel_claim::claim("network/one-host-per-connection")]
fn sni_split_over_records_and_packets() {
    let Some(world) = world() else { return };
    if world.https().is_none() {
        return;
    }
    let script = "
import time
def attempt(name, sizes, pause):
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    inbound, outbound = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = c.wrap_bio(inbound, outbound, server_hostname=name)
    s = dial('split.web.test', 443)
    first = True
    while True:
        try:
            tls.do_handshake(); return True
        except ssl.SSLWantReadError: pass
        except ssl.SSLError: return False
        data = outbound.read()
        if first:
            body, at = data[5:], 0
            while at < len(body):
                part = body[at:at + sizes]; at += sizes
                s.sendall(data[:3] + struct.pack('>H', len(part)) + part)
                if pause: time.sleep(pause)
            first = False
        elif data: s.sendall(data)
        try: got = s.recv(65536)
        except OSError: return False
        if not got: return False
        inbound.write(got)
for sizes, pause in ((1000, 0), (37, 0), (5, 0), (60, 0.02)):
    assert attempt('split.web.test', sizes, pause), (sizes, pause)
    assert not attempt('evil.web.test', sizes, pause), (sizes, pause)
print('told apart')";
    for way in BOTH {
        let Some(told) = raw(way, &["split.web.test"], script) else { return };
        assert_eq!(told.ran.stdout, "told apart\n");
    }
}

#[test]
#[kennel_claim::claim("network/one-host-per-connection")]
fn a_second_client_hello_cannot_name_another_host() {
    let Some(world) = world() else { return };
    if world.https().is_none() {
        return;
    }
    // Two hellos in one go: a server that answers the first with HelloRetryRequest would read the second.
    let script = "
s = dial('twice.web.test', 443); s.sendall(hello('twice.web.test') + hello('evil.web.test')); rest(s)
print('sent')";
    for way in BOTH {
        let Some(told) = raw(way, &["twice.web.test"], script) else { return };
        assert_eq!(told.reason("twice.web.test"), "the client asked this host for evil.web.test");
    }
}

#[test]
#[kennel_claim::claim("network/no-smuggling")]
fn content_length_and_transfer_encoding_smuggling_and_pipelining() {
    let Some(world) = world() else { return };
    let script = "
smuggled = 'GET /smuggled HTTP/1.1\\r\\nHost: evil.web.test\\r\\n\\r\\n'
bodies = ['Content-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n' + smuggled,
    'Transfer-Encoding: chunked\\r\\nContent-Length: 4\\r\\n\\r\\n0\\r\\n\\r\\n' + smuggled,
    'Content-Length: 0\\r\\nContent-Length: 60\\r\\n\\r\\n' + smuggled,
    'Content-Length: +0\\r\\n\\r\\n' + smuggled, 'Content-Length : 0\\r\\n\\r\\n' + smuggled,
    'Transfer-Encoding: xchunked\\r\\n\\r\\n0\\r\\n\\r\\n' + smuggled, 'Transfer-Encoding:\\x0bchunked\\r\\n\\r\\n0\\r\\n\\r\\n' + smuggled,
    'Transfer-Encoding: chunked\\r\\nTransfer-Encoding: identity\\r\\n\\r\\n0\\r\\n\\r\\n' + smuggled,
    'X: y\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n' + smuggled, ' folded: x\\r\\n\\r\\n' + smuggled,
    'Transfer-Encoding: chunked\\r\\n\\r\\n0x0\\r\\n\\r\\n' + smuggled, 'Transfer-Encoding: chunked\\r\\n\\r\\n0;a=\\n\\r\\n\\r\\n' + smuggled]
for body in bodies:
    s = dial('smuggle.web.test', 80)
    s.sendall(('POST /echo HTTP/1.1\\r\\nHost: smuggle.web.test\\r\\n' + body).encode()); s.shutdown(socket.SHUT_WR)
    answer = rest(s); assert b'somewhere' not in answer, (body, answer)
    if os.environ.get('HTTP_PROXY'):
        s = door(); s.sendall((f'POST http://smuggle.web.test/echo HTTP/1.1\\r\\nHost: smuggle.web.test\\r\\nProxy-Authorization: {auth()}\\r\\n' + body).encode())
        s.shutdown(socket.SHUT_WR); answer = rest(s); assert b'somewhere' not in answer, (body, answer)
# Requests that follow one another without waiting are each answered, in order.
s = dial('smuggle.web.test', 80)
s.sendall(b'GET /hello HTTP/1.1\\r\\nHost: smuggle.web.test\\r\\n\\r\\n' * 3 + b'GET /hello HTTP/1.1\\r\\nHost: smuggle.web.test\\r\\nConnection: close\\r\\n\\r\\n')
answer = rest(s); assert status(answer) == [200] * 4, answer
print('refused')";
    for way in BOTH {
        let Some(told) = raw(way, &["smuggle.web.test"], script) else { return };
        assert_eq!(told.ran.stdout, "refused\n");
    }
    world.saw_nothing_of("/smuggled");
}

#[test]
#[kennel_claim::claim("network/no-smuggling")]
fn an_upgrade_to_http2_does_not_carry_other_hosts() {
    let Some(world) = world() else { return };
    let script = "
# h2c: the server of this world does not take it; what follows must not be carried as if it had.
s = dial('two.web.test', 80)
s.sendall(b'GET /hello HTTP/1.1\\r\\nHost: two.web.test\\r\\nConnection: Upgrade, HTTP2-Settings\\r\\nUpgrade: h2c\\r\\nHTTP2-Settings: AAMAAABk\\r\\n\\r\\n'
          b'GET /coalesced HTTP/1.1\\r\\nHost: evil.web.test\\r\\n\\r\\n')
codes = status(rest(s)); assert codes[0] in (200, 400, 403) and codes[-1] != 200 or len(codes) == 1, codes
print('refused')";
    for way in BOTH {
        let Some(told) = raw(way, &["two.web.test"], script) else { return };
        assert_eq!(told.ran.stdout, "refused\n");
    }
    world.saw_nothing_of("/coalesced");
}

#[test]
#[kennel_claim::claim("network/no-smuggling")]
fn connect_relayed_through_an_allowed_proxy() {
    let Some(world) = world() else { return };
    let rule = format!("open.web.test:{OPEN_PROXY}");
    let script = format!(
        "
for request in ('CONNECT evil.web.test:80 HTTP/1.1\\r\\nHost: evil.web.test:80\\r\\n\\r\\n', 'GET http://evil.web.test/relayed HTTP/1.1\\r\\nHost: evil.web.test\\r\\n\\r\\n',
                'CONNECT evil.web.test:80 HTTP/1.1\\r\\nHost: open.web.test:{OPEN_PROXY}\\r\\n\\r\\n'):
    s = dial('open.web.test', {OPEN_PROXY}); s.sendall(request.encode())
    codes = status(rest(s)); assert codes and codes[0] in (400, 403, 405), (request, codes)
print('refused')"
    );
    for way in BOTH {
        let Some(told) = raw(way, &[&rule], &script) else { return };
        assert_eq!(told.ran.stdout, "refused\n");
    }
    world.saw_nothing_of("evil.web.test");
    // It is a proxy: from outside it does as it is told.
    let script = format!(
        "curl -s --noproxy '' --proxy http://{THERE}:{OPEN_PROXY} http://outside.elsewhere.test/hello"
    );
    let ran = kennel_tests::ran(std::process::Command::new("sh").args(["-c", &script])).ok();
    assert_eq!(ran.stdout, "hello from outside.elsewhere.test\n");
}

#[test]
fn hop_by_hop_headers_and_credentials_stay_here() {
    if world().is_none() {
        return;
    }
    let script = "curl -s -H 'Connection: close, X-Secret' -H 'X-Secret: 1' -H 'Proxy-Connection: keep-alive' -H 'TE: trailers' http://hop.web.test/head";
    let told = allowed_sh(Way::Proxy, &["hop.web.test"], script).ok();
    let head = told.ran.stdout.to_ascii_lowercase();
    assert!(
        head.starts_with("get /head http/1.1\r\n") && head.contains("\r\nhost: hop.web.test\r\n"),
        "{head}"
    );
    // `TE` is the gate's own word to the server here: it can pass trailers on.
    for absent in ["proxy-", "x-secret", "connection: close"] {
        assert!(!head.contains(absent), "{absent}: {head}");
    }
}

#[test]
fn chunks_trailers_redirects_and_odd_ports_come_through() {
    let Some(world) = world() else { return };
    for way in BOTH {
        let told = allowed_sh(way, &["*.web.test"], "curl -sS http://chunks.web.test/chunked").ok();
        assert_eq!(told.ran.stdout, "hello chunks");
        let told =
            allowed_sh(way, &["*.web.test"], &format!("curl -sS http://chunks.web.test:{ODD_HTTP}/hello"))
                .ok();
        assert_eq!(told.ran.stdout, format!("hello from chunks.web.test:{ODD_HTTP}\n"));
        let told = allowed_sh(way, &["*.web.test"], "curl -sS -L http://chunks.web.test/moved; exit 0").ok();
        assert_eq!(told.reason("elsewhere.test"), "not on the allow list");
        let script =
            "head -c 900000 /dev/zero | curl -sS --data-binary @- http://chunks.web.test/echo | wc -c";
        let told = allowed_sh(way, &["*.web.test"], script).ok();
        assert_eq!(told.ran.stdout.trim(), "900000");
        let told =
            allowed_sh(way, &["*.web.test"], "curl -sS http://chunks.web.test/big/30000000 | wc -c").ok();
        assert_eq!(told.ran.stdout.trim(), "30000000");
    }
    world.saw_nothing_of("for elsewhere.test");
}

/// Requests for another host that some servers take, and that are not HTTP as the gate reads it.
const KIND: &str = "
import time
end = b' HTTP/1.1\\r\\nHost: evil.web.test\\r\\nConnection: close\\r\\n\\r\\n'
tries = [b'get /kind' + end, b'G3T /kind' + end, b' GET /kind' + end, b'\\nGET /kind' + end, b'GET /kind HTTP/01.1' + end[9:],
    b'GET /kind http/1.1' + end[9:], b'GET\\t/kind' + end, b'GET  /kind' + end, b'GET /kind' + b'x' * 17000 + end,
    b'PROXY TCP4 192.0.2.1 192.0.2.2 1 2\\r\\nGET /kind' + end, b'\\0GET /kind' + end, b'GET /kind HTTP/1.1\\nHost: evil.web.test\\n\\n',
    b'GET http://evil.web.test/kind\\r\\n\\r\\n', b'FOO BAR BAZ QUX /kind' + end]
answered = 0
for request in tries:
    for cut in (len(request), 3):
        s = dial('kind.web.test', 80)
        try:
            s.sendall(request[:cut]); time.sleep(0.02 if cut < len(request) else 0); s.sendall(request[cut:])
            s.shutdown(socket.SHUT_WR); answered += rest(s).startswith(b'HTTP/1.1 200')
        except OSError: pass
print(answered > 0)";

#[test]
#[kennel_claim::claim("network/known-protocols-only")]
fn what_only_kind_servers_take_for_http_is_refused() {
    let Some(world) = world() else { return };
    for way in BOTH {
        let Some(told) = raw(way, &["kind.web.test"], KIND) else { return };
        assert_eq!(told.ran.stdout, "False\n", "{told:#?}");
    }
    world.saw_nothing_of("/kind");
    // The server takes some of them, where nobody looks.
    let Some(python) = kennel_tests::world::python() else { return };
    let words = [python.display().to_string(), "-c".into(), format!("{RAW}{KIND}")];
    let mut flags = crate::network::allowing(&["kind.web.test"]);
    flags.push("--allow-sni-mismatch".into());
    let told = crate::network::told(&flags, &words).ok();
    assert_eq!(told.ran.stdout, "True\n", "{told:#?}");
    assert!(!world.seen("/kind").is_empty());
}

#[test]
#[kennel_claim::claim("network/known-protocols-only")]
fn what_only_kind_servers_take_for_tls_is_refused() {
    let Some(world) = world() else { return };
    if world.https().is_none() {
        return;
    }
    // A server that says which name it was told, whatever comes before the hello: Go's and BoringSSL's take an alert or
    // another version there.
    let script = "
evil = hello('evil.web.test'); nameless = hello(None)
tries = [b'\\x15\\x03\\x01\\0\\x02\\x01\\0' + evil, evil[:1] + b'\\x02' + evil[2:], b'\\x16\\xfe\\xff' + evil[3:], b'\\x14\\x03\\x01\\0\\x01\\x01' + evil,
    b'PROXY TCP4 192.0.2.1 192.0.2.2 1 2\\r\\n' + evil, b'\\r\\n\\r\\n\\0\\r\\nQUIT\\n\\x20\\0\\0\\0' + evil, b'\\x80' + evil, evil[:-1], nameless,
    b'\\x16\\x03\\x01\\0\\0' + evil, b''.join(b'\\x16\\x03\\x01\\0\\x01' + evil[5 + i:6 + i] for i in range(len(evil) - 5))]
for data in tries:
    s = dial('kinder.web.test', 7)
    try:
        s.sendall(data); s.shutdown(socket.SHUT_WR); answer = rest(s)
        assert answer in (b'', b'\\x15\\x03\\x03\\0\\x02\\x02\\x31') or answer.startswith(b'HTTP/1.1 403'), (data[:20], answer)
    except OSError: pass
print('refused')";
    for way in BOTH {
        let Some(told) = raw(way, &["kinder.web.test"], script) else { return };
        assert_eq!(told.ran.stdout, "refused\n");
    }
    // Port 7 sends back what comes: without the check, all of it.
    let Some(python) = kennel_tests::world::python() else { return };
    let words = [python.display().to_string(), "-c".into(), format!("{RAW}{script}")];
    let mut flags = crate::network::allowing(&["kinder.web.test"]);
    flags.push("--allow-sni-mismatch".into());
    assert_ne!(crate::network::told(&flags, &words).ran.code, 0, "an echo is an answer");
}
