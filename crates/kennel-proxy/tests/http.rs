//! The HTTP door: requests that name their server, and CONNECT.

mod world;

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kennel_proxy::{Times, Verdict};
use world::*;

#[test]
fn a_connect_to_an_allowed_name_is_carried_and_the_server_may_speak_first() {
    let (port, seen) = recorder(b"220 welcome\r\n");
    let world = World::new(&[&format!("smtp://mail.test:{port}")]);
    world.names.set("mail.test", &["127.0.0.1"]);
    let mut client = world.tunnel(&format!("MAIL.test.:{port}"));
    assert_eq!(client.exactly(13), b"220 welcome\r\n");
    client.send("HELO x\r\n");
    client.0.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(client.rest().unwrap().is_empty());
    assert_eq!(*seen.lock().unwrap(), b"HELO x\r\n");
}

#[test]
fn a_denied_connect_has_its_reason_in_the_status_phrase_and_no_look_up_is_made() {
    let world = World::new(&["good.test:443"]);
    for (target, reason) in [
        ("evil.test:443", "evil.test:443: not on the allow list"),
        ("good.test:80", "good.test:80: allowed only on other ports (rule good.test:443)"),
        ("xgood.test:443", "not on the allow list"),
        ("good.test.evil.test:443", "not on the allow list"),
    ] {
        let mut client = world.client();
        client.send(format!("CONNECT {target} HTTP/1.1\r\n\r\n"));
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 403 Blocked by kennel: "), "{head}");
        assert!(head.lines().next().unwrap().contains(reason), "{head}");
        assert!(head.contains("\r\nX-Proxy-Error: blocked-by-allowlist\r\n"), "{head}");
        assert!(client.rest_text().contains(reason));
    }
    assert!(world.names.asked().is_empty());
    assert!(
        world.gate.summary().contains(
            "evil.test:443: not on the allow list; to allow it, add to network.allow: evil.test:443"
        )
    );
}

#[test]
fn a_name_that_resolves_to_a_refused_address_is_not_connected_to() {
    let (port, seen) = recorder(b"secret");
    let world = World::with(rules(&["rebind.test", "meta.test", "mixed.test"], &[]), |_| {});
    world.names.set("rebind.test", &["127.0.0.1"]);
    world.names.set("meta.test", &["169.254.169.254"]);
    for (name, reason) in [("rebind.test", "a loopback address"), ("meta.test", "a cloud metadata address")] {
        let mut client = world.client();
        client.send(format!("CONNECT {name}:{port} HTTP/1.1\r\n\r\n"));
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 403 ") && head.contains(reason), "{head}");
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn a_name_is_looked_up_once_and_the_checked_address_is_the_one_connected_to() {
    let (port, _) = recorder(b"hello");
    let world = World::with(rules(&["flip.test", "127.0.0.1"], &[]), |_| {});
    world.names.set("flip.test", &["127.0.0.1"]);
    let mut client = world.tunnel(&format!("flip.test:{port}"));
    assert_eq!(client.exactly(5), b"hello");
    assert_eq!(world.names.asked(), ["flip.test"]);
}

#[test]
fn without_the_token_there_is_407_and_the_same_connection_can_show_it_then() {
    let port = echo_requests();
    let world = World::with(rules(&["127.0.0.1"], &[]), |settings| settings.credentials = Some(token()));
    let mut client = world.client();
    let get = |authorization: &str| {
        format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{authorization}\r\n")
    };
    client.send(get(""));
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 407 "), "{head}");
    assert!(head.contains("Proxy-Authenticate: Basic realm=\"kennel\""));
    body(&mut client, &head);
    client.send(get("Proxy-Authorization: Basic d3Jvbmc6d3Jvbmc=\r\n"));
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 407 "), "{head}");
    body(&mut client, &head);
    client.send(get(&format!("Proxy-Authorization: {TOKEN_BASIC}\r\n")));
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    // The server never sees the token.
    assert!(!body(&mut client, &head).to_lowercase().contains("proxy-auth"));
    let mut client = world.client();
    client.send(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n"));
    assert!(client.head().starts_with("HTTP/1.1 407 "));
}

#[test]
fn a_forwarded_request_is_canonical_and_has_no_hop_by_hop_fields() {
    let port = echo_requests();
    let world = World::new(&["web.test"]);
    world.names.set("web.test", &["127.0.0.1"]);
    let mut client = world.client();
    client.send(format!(
        "GET HTTP://WEB.test.:{port}/path?q=1 HTTP/1.1\r\nhost: web.TEST:{port}\r\nAccept: */*\r\nX-Hop: 1\r\n\
         Connection: keep-alive, X-Hop\r\nProxy-Connection: keep-alive\r\nKeep-Alive: 1\r\nTE: trailers\r\n\r\n"
    ));
    let head = client.head();
    assert!(head.contains("X-Kept: yes") && !head.contains("Keep-Alive"), "{head}");
    let seen = body(&mut client, &head);
    assert_eq!(
        seen,
        format!(
            "GET /path?q=1 HTTP/1.1\r\nHost: web.test:{port}\r\nAccept: */*\r\nTE: trailers\r\nConnection: TE\r\n\r\n"
        )
    );
}

#[test]
fn a_request_whose_host_field_names_another_server_is_refused() {
    let (port, seen) = recorder(b"");
    let world = World::new(&["a.test"]);
    world.names.set("a.test", &["127.0.0.1"]);
    for head in [
        format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"),
        format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:1\r\n\r\n"),
        format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\nHost: evil.test\r\n\r\n"),
        format!("CONNECT a.test:{port} HTTP/1.1\r\nHost: evil.test:{port}\r\n\r\n"),
        format!("GET http://evil.test@a.test:{port}/ HTTP/1.1\r\n\r\n"),
        "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(),
        format!("GET https://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n"),
    ] {
        let mut client = world.client();
        client.send(&head);
        let answer = client.head();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{head}{answer}");
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn smuggled_requests_never_reach_the_server() {
    let (port, seen) = recorder(b"");
    let world = World::new(&[]);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 4\r\nContent-Length: 40\r\n\r\nabcd",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        " Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: -1\r\n\r\n",
    ] {
        let mut client = world.client();
        client.send(format!(
            "POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{fields}{smuggled}"
        ));
        let answer = client.head();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{fields}{answer}");
        assert!(!client.rest_text().contains("HTTP/1.1 200"));
    }
    assert!(seen.lock().unwrap().is_empty(), "{:?}", String::from_utf8_lossy(&seen.lock().unwrap()));
}

#[test]
fn a_chunked_body_is_cut_anew_with_its_trailers_and_what_follows_is_the_next_request() {
    let bodies = Arc::new(Mutex::new(String::new()));
    let own = Arc::clone(&bodies);
    let port = serve(move |stream| {
        let mut client = Client(stream);
        for _ in 0..2 {
            let head = client.head();
            let mut text = String::new();
            if head.contains("chunked") {
                while !text.ends_with("\r\n\r\n") {
                    text.push(char::from(client.exactly(1)[0]));
                }
            }
            own.lock().unwrap().push_str(&format!("{head}{text}"));
            client.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 5\r\n\r\n");
        }
    });
    let world = World::new(&[]);
    let mut client = world.client();
    client.send(format!(
        "POST http://127.0.0.1:{port}/a HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nTransfer-Encoding: chunked\r\n\r\n\
         3;ext=\"q\"\r\nfoo\r\n003\r\nbar\r\n0\r\nX-Check: 1\r\nContent-Length: 9\r\n\r\n\
         GET http://127.0.0.1:{port}/b HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
    ));
    for _ in 0..2 {
        let head = client.head();
        assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") {
            text.push(char::from(client.exactly(1)[0]));
        }
        assert!(text.ends_with("0\r\nX-Sum: 5\r\n\r\n") && !text.contains("x=y"), "{text}");
        let data: String =
            text.split("\r\n").skip(1).step_by(2).take_while(|part| !part.contains(':')).collect();
        assert_eq!(data, "abcde");
    }
    let seen = bodies.lock().unwrap();
    assert!(seen.contains("foo") && seen.contains("0\r\nX-Check: 1\r\n\r\nGET /b HTTP/1.1"), "{seen}");
    assert!(!seen.contains("ext=") && !seen.contains("Content-Length"), "{seen}");
}

#[test]
fn an_http_1_0_client_gets_no_chunks_and_no_interim_answers() {
    let port = serve(|stream| {
        let mut client = Client(stream);
        client.head();
        client.send("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    });
    let world = World::new(&[]);
    let mut client = world.client();
    client.send(format!("GET http://127.0.0.1:{port}/ HTTP/1.0\r\n\r\n"));
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 200 ") && !head.contains("chunked"), "{head}");
    assert_eq!(client.rest_text(), "hello");
}

#[test]
fn an_answer_that_is_cut_is_a_reset_and_not_an_end() {
    let port = serve(|stream| {
        let mut client = Client(stream);
        client.head();
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
    });
    let world = World::new(&[]);
    let mut client = world.client();
    client.send(format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n"));
    client.head();
    assert!(client.rest().is_err());
}

#[test]
fn a_websocket_is_carried_and_http_2_is_not_offered() {
    let port = serve(|stream| {
        let mut client = Client(stream);
        let head = client.head();
        if head.to_lowercase().contains("upgrade: websocket") {
            client.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nfirst");
            let mut bytes = [0; 4];
            client.0.read_exact(&mut bytes).unwrap();
            client.0.write_all(&bytes).unwrap();
        } else {
            client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len()));
        }
    });
    let world = World::new(&[]);
    let mut client = world.client();
    client.send(format!("GET http://127.0.0.1:{port}/ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nping"));
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("Upgrade: websocket"), "{head}");
    assert_eq!(client.exactly(9), b"firstping");
    let mut client = world.client();
    client.send(format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"));
    let head = client.head();
    let seen = body(&mut client, &head).to_lowercase();
    assert!(!seen.contains("h2c") && !seen.contains("http2-settings"), "{seen}");
    // Nor what else names its servers out of sight, or is known to nobody; but what carries streams.
    for (protocol, offered) in [
        ("TLS/1.0", false),
        ("anything", false),
        ("websocket, TLS/1.0", false),
        ("tcp", true),
        ("SPDY/3.1", true),
    ] {
        let mut client = world.client();
        client.send(format!(
            "GET http://127.0.0.1:{port}/ HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
        ));
        let head = client.head();
        assert_eq!(body(&mut client, &head).contains("Upgrade:"), offered, "{protocol}");
    }
}

#[test]
fn new_rules_hold_for_the_next_request_of_the_same_connection() {
    let port = echo_requests();
    let world = World::new(&["a.test", "b.test"]);
    world.names.set("a.test", &["127.0.0.1"]);
    world.names.set("b.test", &["127.0.0.1"]);
    let mut client = world.client();
    for host in ["a.test", "b.test", "a.test"] {
        client.send(format!("GET http://{host}:{port}/ HTTP/1.1\r\n\r\n"));
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(body(&mut client, &head).contains(&format!("Host: {host}:{port}")));
    }
    world.gate.update(rules(&["b.test", "127.0.0.1"], &[]));
    client.send(format!("GET http://a.test:{port}/ HTTP/1.1\r\n\r\n"));
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    body(&mut client, &head);
    client.send(format!("GET http://b.test:{port}/ HTTP/1.1\r\n\r\n"));
    assert!(client.head().starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_server_that_closes_a_kept_connection_is_connected_to_again() {
    let port = serve(|stream| {
        let mut client = Client(stream);
        client.head();
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    let world = World::new(&[]);
    let mut client = world.client();
    for _ in 0..20 {
        client.send(format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n"));
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert_eq!(body(&mut client, &head), "ok");
    }
}

#[test]
fn an_early_answer_to_a_large_upload_reaches_the_client() {
    let port = serve(|stream| {
        let mut client = Client(stream);
        client.head();
        client.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        client.0.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = client.rest();
    });
    let world = World::new(&[]);
    let mut client = world.client();
    client.send(format!("POST http://127.0.0.1:{port}/ HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n"));
    client.send(vec![0; 1 << 20]);
    assert!(client.head().starts_with("HTTP/1.1 413 "));
}

#[test]
fn a_continue_is_handed_on_before_the_body_is_sent() {
    let port = serve(|stream| {
        let mut client = Client(stream);
        let head = client.head();
        assert!(head.contains("Expect: 100-continue"), "{head}");
        client.send("HTTP/1.1 100 Continue\r\n\r\n");
        let sent = client.exactly(5);
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
        client.send(sent);
    });
    let world = World::new(&[]);
    let mut client = world.client();
    client.send(format!(
        "PUT http://127.0.0.1:{port}/ HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    ));
    assert!(client.head().starts_with("HTTP/1.1 100 "));
    client.send("hello");
    let head = client.head();
    assert_eq!(body(&mut client, &head), "hello");
}

#[test]
fn a_head_request_and_a_304_have_no_body() {
    let port = serve(|stream| {
        let mut client = Client(stream);
        client.head();
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        client.head();
        client.send("HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n");
        client.head();
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone");
    });
    let world = World::new(&[]);
    let mut client = world.client();
    client.send(format!("HEAD http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n"));
    assert!(client.head().contains("Content-Length: 1000"));
    client.send(format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n"));
    assert!(client.head().starts_with("HTTP/1.1 304 "));
    client.send(format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n"));
    let head = client.head();
    assert_eq!(body(&mut client, &head), "done");
}

fn impatient(times: Times) -> World {
    World::with(rules(&["127.0.0.1"], &[]), |settings| settings.times = times)
}

#[test]
fn header_bombs_slow_clients_and_silent_servers_end_and_leave_others_alone() {
    let silent = serve(|stream| {
        std::thread::sleep(SOON);
        drop(stream);
    });
    let working = echo_requests();
    let short = Duration::from_millis(300);
    let world = impatient(Times { head: short, response: short, ..Times::default() });

    let mut bomb = world.client();
    let mut slow = world.client();
    slow.send("GET http://127.0.0.1");
    let mut unanswered = world.client();
    unanswered.send(format!("GET http://127.0.0.1:{silent}/ HTTP/1.1\r\n\r\n"));

    let mut fine = world.client();
    fine.send(format!("GET http://127.0.0.1:{working}/ HTTP/1.1\r\n\r\n"));
    assert!(fine.head().starts_with("HTTP/1.1 200 "));

    let mut field = b"GET http://127.0.0.1/ HTTP/1.1\r\nX: ".to_vec();
    field.resize(100 << 10, b'a');
    bomb.send(field);
    assert!(bomb.head().starts_with("HTTP/1.1 431 "));
    assert!(slow.head().starts_with("HTTP/1.1 408 "));
    assert!(unanswered.head().starts_with("HTTP/1.1 504 "));
}

#[test]
fn a_port_that_nobody_listens_on_is_502_and_an_unknown_name_says_so() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let world = World::new(&["gone.test"]);
    let mut client = world.client();
    client.send(format!("GET http://127.0.0.1:{closed}/ HTTP/1.1\r\n\r\n"));
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 502 ") && head.contains("X-Proxy-Error: connect-failure"), "{head}");
    let mut client = world.client();
    client.send("CONNECT gone.test:443 HTTP/1.1\r\n\r\n");
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 502 ") && head.contains("X-Proxy-Error: dns-failure"), "{head}");
}

#[test]
fn a_name_server_that_hangs_is_given_up() {
    let mute = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = mute.local_addr().unwrap();
    let folder = std::env::temp_dir().join(format!("kennel-resolver-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let configuration = folder.join("resolv.conf");
    std::fs::write(&configuration, "options timeout:1 attempts:1\n").unwrap();
    let world = World::with(rules(&["slow.test"], &[]), |settings| {
        settings.resolver.servers = Some(vec![address]);
        settings.resolver.configuration.clone_from(&configuration);
    });
    let mut client = world.client();
    let begun = Instant::now();
    client.send("CONNECT slow.test:443 HTTP/1.1\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 504 "));
    assert!(begun.elapsed() < Duration::from_secs(5));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn every_decision_is_recorded_with_its_rule() {
    let port = echo_requests();
    let world = World::new(&["a.test"]);
    world.names.set("a.test", &["127.0.0.1"]);
    for _ in 0..3 {
        let mut client = world.client();
        client.send(format!("GET http://a.test:{port}/ HTTP/1.1\r\n\r\n"));
        client.head();
    }
    let mut client = world.client();
    client.send("CONNECT b.test:443 HTTP/1.1\r\n\r\n");
    client.head();
    let records = world.gate.records();
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!((records[0].host.as_str(), records[0].port, records[0].count), ("a.test", Some(port), 3));
    assert_eq!(records[0].rule.as_deref(), Some("a.test"));
    assert_eq!(records[0].verdict, Verdict::Allowed);
    assert!(matches!(records[1].verdict, Verdict::Denied(_)));
}

#[test]
fn the_host_is_reached_by_its_alias_only_when_that_is_allowed() {
    let (port, _) = recorder(b"host service");
    let open = World::with(rules(&[&format!("host.kennel.internal:{port}")], &[]), |_| {});
    let mut client = open.tunnel(&format!("host.kennel.internal:{port}"));
    assert_eq!(client.exactly(12), b"host service");
    // The alias opens the loopback by that name, and the loopback itself stays closed.
    let mut client = open.client();
    client.send(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n"));
    assert!(client.head().starts_with("HTTP/1.1 403 "));
    assert!(open.names.asked().is_empty());
}
