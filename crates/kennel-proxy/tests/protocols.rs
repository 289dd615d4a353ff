//! What is carried to a name beside TLS and HTTP for it, and what is not: real connections, and a server that remembers
//! every byte it is sent.

mod world;

use std::time::Duration;

use kennel_proxy::{DenyReason, ParentProxies, ParentProxy, Rules, Times, Verdict};
use world::*;

/// Sends these bytes to a.test by a tunnel, and gives back what comes until the end, if it ends well.
fn sent(world: &World, port: u16, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut client = world.tunnel(&format!("a.test:{port}"));
    client.send(bytes);
    client.rest().ok()
}

fn world_of(rules: &[&str]) -> World {
    let world = World::new(rules);
    world.names.set("a.test", &["127.0.0.1"]);
    world
}

fn reasons(world: &World) -> Vec<DenyReason> {
    let reason = |record: kennel_proxy::Record| match record.verdict {
        Verdict::Denied(reason) => Some(reason),
        Verdict::Allowed => None,
    };
    world.gate.records().into_iter().filter_map(reason).collect()
}

#[test]
fn what_only_a_kind_server_would_take_for_http_never_reaches_it() {
    let (port, seen) = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret");
    let world = world_of(&["a.test"]);
    let rest = " HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    let long = format!("GET /{}{rest}", "x".repeat(17 << 10));
    for request in [
        format!("get /{rest}"),
        format!("G3T /{rest}"),
        format!(" GET /{rest}"),
        format!("\tGET /{rest}"),
        format!("\nGET /{rest}"),
        format!("\0GET /{rest}"),
        format!("GET\t/{rest}"),
        format!("GET  /{rest}"),
        format!("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET /{rest}"),
        format!("\r\n\r\n\0\r\nQUIT\nGET /{rest}"),
        "GET / HTTP/01.1\r\nHost: evil.test\r\n\r\n".into(),
        "GET / HTTP/1.1\nHost: evil.test\n\n".into(),
        "GET / HTTP/1.10\r\nHost: evil.test\r\n\r\n".into(),
        "GET / http/1.1\r\nHost: evil.test\r\n\r\n".into(),
        "GET / HTTPS/1.1\r\nHost: evil.test\r\n\r\n".into(),
        "GET / ICAP/1.0\r\nHost: evil.test\r\n\r\n".into(),
        "GET http://evil.test/\r\n".into(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(),
        "GET / HTTP/1.1\r\nHost: evil.test\r\nHost: a.test\r\n\r\n".into(),
        "GET / HTTP/1.1\r\nHost:\r\n evil.test\r\n\r\n".into(),
        format!("POST / HTTP/1.1\r\nHost: a.test:{port}\r\nTransfer_Encoding: chunked\r\n\r\n"),
        long,
    ] {
        let answer = sent(&world, port, request.as_bytes()).unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer);
        assert!(!answer.contains("secret"), "{request:?}: {answer}");
        assert!(seen.lock().unwrap().is_empty(), "{request:?}");
    }
    // The same in two parts, the second of which comes when the first has been looked at.
    let mut client = world.tunnel(&format!("a.test:{port}"));
    client.send(format!("GET /{}", "x".repeat(17 << 10)));
    std::thread::sleep(Duration::from_millis(50));
    client.send(rest);
    assert!(client.rest_text().starts_with("HTTP/1.1 403"));
    assert!(seen.lock().unwrap().is_empty());
    // It is a server that answers whatever it is sent.
    let mut client = Client::connect(([127, 0, 0, 1], port).into());
    client.send("get / anything\r\n");
    assert_eq!(client.exactly(4), b"HTTP");
}

#[test]
fn a_server_that_speaks_first_is_not_asked_for_another_host_either() {
    let (port, seen) = recorder(b"HTTP/1.1 408 Request Timeout\r\n\r\n");
    let world = world_of(&["a.test"]);
    let mut client = world.tunnel(&format!("a.test:{port}"));
    client.exactly(32);
    client.send("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n");
    let _ = client.rest();
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn what_only_a_kind_server_would_take_for_tls_never_reaches_it() {
    let (port, seen) = answering(&[22, 3, 3, 0, 74]);
    let world = world_of(&["a.test"]);
    let evil = client_hello("evil.test", 9999);
    let mut old = evil.clone();
    old[1] = 2;
    let mut dtls = evil.clone();
    (dtls[1], dtls[2]) = (0xfe, 0xff);
    for bytes in [
        [&[21, 3, 1, 0, 2, 1, 0][..], &evil].concat(),
        [&[20, 3, 1, 0, 1, 1][..], &evil].concat(),
        [&[23, 3, 1, 0, 1, 1][..], &evil].concat(),
        [&[22, 3, 1, 0, 0][..], &evil].concat(),
        [&[22, 3, 1, 0, 4, 0, 0, 0, 0][..], &evil].concat(),
        [&b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"[..], &evil].concat(),
        [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &[1; 12], &evil].concat(),
        [&[0x80, 0x2e, 1, 3, 1, 0, 3, 0, 0, 0, 16, 0, 0, 5][..], &evil].concat(),
        old,
        dtls,
        client_hello("a.test.", 9999),
        client_hello("evil.test", 1),
        evil[..evil.len() - 1].to_vec(),
    ] {
        let mut client = world.tunnel(&format!("a.test:{port}"));
        client.send(&bytes);
        // It may have been reset already.
        let _ = client.0.shutdown(std::net::Shutdown::Write);
        let _ = client.rest();
        assert!(seen.lock().unwrap().is_empty(), "{bytes:?}");
    }
    assert!(reasons(&world).contains(&DenyReason::Protocol("a protocol that is not known on this port")));
}

#[test]
fn a_hello_that_names_nobody_or_hides_a_name_is_refused_unless_that_is_allowed() {
    let (port, seen) = answering(b"");
    let hidden = with_extension("a.test", [0xfe, 0x0d]);
    let nameless =
        with_extension("a.test", [0xaa, 0xaa]).windows(6).position(|part| part == b"a.test").map(|at| {
            // The name's extension becomes one that nobody knows.
            let mut bytes = with_extension("a.test", [0xaa, 0xaa]);
            (bytes[at - 9], bytes[at - 8]) = (0xba, 0xba);
            bytes
        });
    let nameless = nameless.unwrap();
    let world = world_of(&["a.test"]);
    for (bytes, reason) in [(&hidden, DenyReason::EncryptedName), (&nameless, DenyReason::NoServerName)] {
        assert_eq!(sent(&world, port, bytes).unwrap(), [21, 3, 3, 0, 2, 2, 49]);
        assert!(reasons(&world).contains(&reason), "{:?}", reasons(&world));
    }
    assert!(seen.lock().unwrap().is_empty());
    assert!(
        world.gate.summary().contains(&format!("network.allow: tcp://a.test:{port}")),
        "{}",
        world.gate.summary()
    );
    assert!(world.gate.summary().contains("network.allow_ech"), "{}", world.gate.summary());
    let open = World::with(Rules { allow_ech: true, ..rules(&["a.test", "127.0.0.1"], &[]) }, |_| {});
    open.names.set("a.test", &["127.0.0.1"]);
    let mut client = open.tunnel(&format!("a.test:{port}"));
    client.send(&hidden);
    client.0.shutdown(std::net::Shutdown::Write).unwrap();
    client.rest().unwrap();
    assert_eq!(*seen.lock().unwrap(), hidden);
}

/// A ClientHello with one more extension.
fn with_extension(name: &str, kind: [u8; 2]) -> Vec<u8> {
    let mut bytes = client_hello(name, 9999);
    bytes.extend_from_slice(&[kind[0], kind[1], 0, 1, 0]);
    let name_extension = name.len() + 9;
    let at = bytes.len() - 5 - name_extension - 2;
    bytes[at..at + 2].copy_from_slice(&(name_extension as u16 + 5).to_be_bytes());
    let length = bytes.len() as u16;
    bytes[3..5].copy_from_slice(&(length - 5).to_be_bytes());
    bytes[7..9].copy_from_slice(&(length - 9).to_be_bytes());
    bytes
}

#[test]
fn a_rule_for_any_bytes_carries_them_on_that_port_of_that_host() {
    let (port, seen) = answering(b"fine");
    let (other, untouched) = answering(b"fine");
    let world = world_of(&["a.test", "b.test", &format!("tcp://a.test:{port}")]);
    world.names.set("b.test", &["127.0.0.1"]);
    let mut client = world.tunnel(&format!("a.test:{port}"));
    client.send(b"\0raw bytes");
    assert_eq!(client.exactly(4), b"fine");
    assert_eq!(*seen.lock().unwrap(), b"\0raw bytes");
    assert!(sent(&world, other, b"\0raw bytes").is_none(), "another port");
    assert!(untouched.lock().unwrap().is_empty());
    let mut client = world.tunnel(&format!("b.test:{port}"));
    client.send(b"\0more");
    assert!(client.rest().is_err(), "another host");
    assert_eq!(*seen.lock().unwrap(), b"\0raw bytes");
    let summary = world.gate.summary();
    assert!(
        summary.contains(&format!("to allow it, add to network.allow: tcp://b.test:{port}")),
        "{summary}"
    );
}

#[test]
fn a_server_that_does_not_answer_in_tls_is_not_heard() {
    let (port, _) = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret");
    let world = world_of(&["a.test"]);
    let answer = sent(&world, port, &client_hello("a.test", 9999)).unwrap_or_default();
    assert!(!answer.windows(6).any(|part| part == b"secret"));
    assert!(reasons(&world).contains(&DenyReason::Answer("TLS")));
}

#[test]
fn a_client_that_says_nothing_is_waited_for_and_one_that_ends_at_once_hears_its_server() {
    let (port, seen) = recorder(b"good day\n");
    let short = Duration::from_millis(200);
    let world = World::with(rules(&["a.test", "127.0.0.1"], &[]), |settings| {
        settings.times = Times { head: short, ..Times::default() };
    });
    world.names.set("a.test", &["127.0.0.1"]);
    let mut silent = world.tunnel(&format!("a.test:{port}"));
    assert_eq!(silent.exactly(9), b"good day\n");
    let mut ends = world.tunnel(&format!("a.test:{port}"));
    ends.0.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(ends.rest().unwrap(), b"good day\n");
    // One that begins and does not go on is given up.
    let (quiet, _) = answering(b"");
    for begun in [&b"GE"[..], &[22, 3, 1], b"SSH-"] {
        let mut slow = world.tunnel(&format!("a.test:{quiet}"));
        slow.send(begun);
        assert!(slow.rest().is_err(), "{begun:?}");
    }
    std::thread::sleep(2 * short);
    silent.0.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(silent.rest().unwrap().is_empty(), "it was not given up");
    assert!(seen.lock().unwrap().is_empty());
}

/// A server that says these bytes when it is spoken to, says no more if it should end, and tells when its client has ended.
fn telling(answer: &'static [u8], ends: bool) -> (u16, std::sync::mpsc::Receiver<()>) {
    let (told, ended) = std::sync::mpsc::channel();
    let port = serve(move |mut stream| {
        let mut bytes = [0; 4096];
        if std::io::Read::read(&mut stream, &mut bytes).is_ok() {
            let _ = std::io::Write::write_all(&mut stream, answer);
        }
        if ends {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        while let Ok(1..) = std::io::Read::read(&mut stream, &mut bytes) {}
        let _ = told.send(());
    });
    (port, ended)
}

#[test]
fn a_client_that_gave_up_on_a_silent_server_keeps_no_place() {
    let short = Duration::from_millis(200);
    let world = World::with(rules(&["a.test", "127.0.0.1"], &[]), |settings| {
        settings.times = Times { head: short, ..Times::default() };
    });
    world.names.set("a.test", &["127.0.0.1"]);
    // What waits for the server's word: a little, and more than is ever held.
    for length in [1, 200 << 10] {
        let (port, ended) = telling(b"", false);
        let mut client = world.tunnel(&format!("a.test:{port}"));
        client.send(client_hello("a.test", 9999));
        let stream = client.0.try_clone().unwrap();
        let writer = std::thread::spawn(move || {
            let _ = std::io::Write::write_all(&mut &stream, &vec![23; length]);
        });
        // The larger one is not taken whole before the client is given up.
        if length == 1 {
            writer.join().unwrap();
        }
        drop(client);
        ended.recv_timeout(Duration::from_secs(10)).expect("the connection is given up");
    }
    // One that is still there is not given up, and hears a server that takes its time.
    let port = serve(move |mut stream| {
        std::thread::sleep(3 * short);
        let _ = std::io::Write::write_all(&mut stream, &SERVER_HELLO);
    });
    let mut client = world.tunnel(&format!("a.test:{port}"));
    client.send(client_hello("a.test", 9999));
    client.send([20, 3, 3, 0, 1, 1]);
    assert_eq!(client.exactly(SERVER_HELLO.len()), SERVER_HELLO);
}

#[test]
fn a_server_that_ends_before_it_takes_a_hello_keeps_no_place() {
    const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];
    let world = world_of(&["a.test"]);
    for answer in [&ALERT[..], b""] {
        for stays in [true, false] {
            let (port, ended) = telling(answer, true);
            let mut client = world.tunnel(&format!("a.test:{port}"));
            client.send(client_hello("a.test", 9999));
            client.send([20, 3, 3, 0, 1, 1]);
            if !stays {
                client.0.shutdown(std::net::Shutdown::Write).unwrap();
            }
            assert_eq!(client.rest().unwrap(), answer, "what it said arrives, and the end of it");
            ended.recv_timeout(Duration::from_secs(10)).expect("the connection is given up");
        }
    }
}

#[test]
fn through_a_parent_proxy_names_are_compared_as_well() {
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let parent = serve({
        let asked = std::sync::Arc::clone(&asked);
        move |stream| {
            let mut client = Client(stream);
            assert!(client.head().starts_with("CONNECT a.test:"));
            client.send("HTTP/1.1 200 OK\r\n\r\n");
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = std::io::Read::read(&mut client.0, &mut bytes) {
                asked.lock().unwrap().extend_from_slice(&bytes[..count]);
                client.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret");
            }
        }
    });
    let world = World::with(rules(&["a.test"], &[]), |settings| {
        let proxy = ParentProxy::parse(&format!("http://127.0.0.1:{parent}")).unwrap();
        settings.parents = ParentProxies { https: Some(proxy), ..ParentProxies::default() };
    });
    for bytes in
        [&b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"[..], &client_hello("evil.test", 9999), b"get / x\r\n"]
    {
        let answer = sent(&world, 80, bytes).unwrap_or_default();
        assert!(!answer.windows(6).any(|part| part == b"secret"), "{:?}", answer.escape_ascii().to_string());
    }
    assert!(asked.lock().unwrap().is_empty());
    let mut client = world.tunnel("a.test:80");
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 200"));
}

/// A proxy that returns each request: in a body, in a field, in chunks, or cut into pieces.
fn echoing_parent() -> u16 {
    serve(|stream| {
        let mut client = Client(stream);
        let head = client.head();
        let one_line = head.replace("\r\n", " ");
        match head.split(' ').nth(1).unwrap_or_default().rsplit('/').next().unwrap_or_default() {
            "field" => {
                client.send(format!("HTTP/1.1 200 OK\r\nX-Asked: {one_line}\r\nContent-Length: 0\r\n\r\n"));
            }
            "chunks" => {
                client.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                for part in head.as_bytes().chunks(3) {
                    client.send([format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat());
                }
                client.send("0\r\n\r\n");
            }
            "trailer" => {
                client.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
                client.send(format!("X-Asked: {one_line}\r\n\r\n"));
            }
            "pieces" => {
                client.send(format!("HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\n\r\n", head.len()));
                for byte in head.as_bytes().chunks(7) {
                    client.send(byte);
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            _ => client.send(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{head}")),
        }
        let _ = client.0.shutdown(std::net::Shutdown::Write);
        let _ = client.rest();
    })
}

#[test]
fn the_parent_proxys_password_does_not_come_back() {
    let parent = echoing_parent();
    let through = |login: &str| {
        let proxy = ParentProxy::parse(&format!("http://{login}127.0.0.1:{parent}")).unwrap();
        World::with(rules(&["far.test"], &[]), |settings| {
            settings.parents = ParentProxies { http: Some(proxy), ..ParentProxies::default() };
        })
    };
    let world = through("user:a%20password@");
    // user:a password
    let secret = "dXNlcjphIHBhc3N3b3Jk";
    for request in [
        "TRACE http://far.test/ HTTP/1.1\r\nMax-Forwards: 0\r\nConnection: close\r\n\r\n",
        "trace http://far.test/ HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET http://far.test/ HTTP/1.1\r\nConnection: close\r\n\r\n",
        "OPTIONS http://far.test/ HTTP/1.1\r\nMax-Forwards: 0\r\nConnection: close\r\n\r\n",
        "GET http://far.test/field HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET http://far.test/chunks HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET http://far.test/chunks HTTP/1.0\r\nConnection: close\r\n\r\n",
        "GET http://far.test/trailer HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET http://far.test/pieces HTTP/1.1\r\nConnection: close\r\n\r\n",
    ] {
        let mut client = world.client();
        client.send(request);
        let mut bytes = Vec::new();
        let _ = std::io::Read::read_to_end(&mut client.0, &mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        // Of the whole, no part that could be tried: a chunk has three bytes.
        assert!(!text.replace("\r\n", "").contains(&secret[..12]), "{request}: {text}");
    }
    assert!(reasons(&world).contains(&DenyReason::Leak));
    // A parent without a password has nothing to tell, and answers come as they are.
    let world = through("");
    let mut client = world.client();
    client.send(
        "TRACE http://far.test/ HTTP/1.1\r\nMax-Forwards: 7\r\nX-Mine: here\r\nConnection: close\r\n\r\n",
    );
    assert!(client.rest_text().contains("X-Mine: here"));
}
