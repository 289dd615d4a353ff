//! SOCKS5, and what is judged inside a tunnel: TLS and HTTP clients that name another host than the one they
//! connected to.

mod world;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kennel_proxy::{
    Answer, Bypass, DenyReason, ParentProxies, ParentProxy, Question, Rules, Times, Unlisted, Verdict,
};
use world::*;

/// Greets without a password and sends this request; gives back the reply's code.
fn socks(client: &mut Client, request: &[u8]) -> u8 {
    client.send([5, 1, 0]);
    assert_eq!(client.exactly(2), [5, 0]);
    client.send(request);
    let reply = client.exactly(10);
    assert_eq!((reply[0], reply[2], reply[3]), (5, 0, 1));
    reply[1]
}

#[test]
fn socks_connects_by_name_and_by_address() {
    let (port, _) = recorder(b"hello");
    let world = World::new(&["a.test"]);
    world.names.set("a.test", &["127.0.0.1"]);
    let loopback = "127.0.0.1".parse().unwrap();
    let mapped = "::ffff:127.0.0.1".parse().unwrap();
    for request in [
        socks_request(b"a.test", port),
        socks_request(b"127.0.0.1", port),
        socks_request(b"0x7f.1", port),
        socks_address(loopback, port),
        socks_address(mapped, port),
    ] {
        let mut client = world.client();
        assert_eq!(socks(&mut client, &request), 0, "{request:?}");
        assert_eq!(client.exactly(5), b"hello");
    }
}

#[test]
fn socks_names_that_are_none_and_hosts_that_are_not_allowed_get_reply_02() {
    let world = World::new(&["*.allowed.com"]);
    for name in [
        &b"evil.test"[..],
        b"a.allowed.com\0.evil.test",
        b"evil.test\r\n.allowed.com",
        b"fe80::1%zone.allowed.com",
        b"%zone.allowed.com",
        b"allowed.com",
        b"",
        b"\xff\xfe.allowed.com",
    ] {
        let mut client = world.client();
        assert_eq!(socks(&mut client, &socks_request(name, 443)), 2, "{:?}", name.escape_ascii().to_string());
    }
    assert!(world.names.asked().is_empty());
    assert!(!world.gate.summary().contains(['\0', '\r']), "{}", world.gate.summary());
}

#[test]
fn socks_wants_the_token_where_there_is_one() {
    let (port, _) = recorder(b"hello");
    let world = World::with(rules(&["127.0.0.1"], &[]), |settings| settings.credentials = Some(token()));
    let mut client = world.client();
    // Without it one is heard out, and refused.
    assert_eq!(socks(&mut client, &socks_request(b"127.0.0.1", port)), 2);
    assert!(world.gate.summary().contains("password"), "{}", world.gate.summary());
    let mut client = world.client();
    client.send([5, 1, 0]);
    client.send(socks_request(b"127.0.0.1", 22));
    assert_eq!(client.exactly(12)[..4], [5, 0, 5, 0]);
    assert_eq!(client.exactly(8), b"SSH-2.0-");
    let mut client = world.client();
    client.send(b"\x05\x02\x00\x02");
    assert_eq!(client.exactly(2), [5, 2]);
    client.send(b"\x01\x06kennel\x05wrong");
    assert_eq!(client.exactly(2), [1, 1]);
    let mut client = world.client();
    client.send(b"\x05\x01\x02\x01\x06kennel\x05token");
    client.send(socks_request(b"127.0.0.1", port));
    assert_eq!(client.exactly(4), [5, 2, 1, 0]);
    assert_eq!(client.exactly(10)[1], 0);
    assert_eq!(client.exactly(5), b"hello");
}

#[test]
fn socks_does_nothing_but_connect() {
    let world = World::new(&[]);
    let mut bind = socks_request(b"127.0.0.1", 80);
    bind[1] = 2;
    assert_eq!(socks(&mut world.client(), &bind), 7);
    let mut udp = socks_request(b"127.0.0.1", 80);
    udp[1] = 3;
    assert_eq!(socks(&mut world.client(), &udp), 7);
    assert_eq!(socks(&mut world.client(), &[5, 1, 0, 9]), 8);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_eq!(socks(&mut world.client(), &socks_request(b"127.0.0.1", closed)), 5);
}

#[test]
fn denied_ssh_says_why_in_its_own_words() {
    let world = World::new(&[]);
    let mut client = world.client();
    assert_eq!(socks(&mut client, &socks_request(b"git.test", 22)), 0);
    client.send("SSH-2.0-client\r\n");
    let text = client.rest_text();
    assert!(text.starts_with("SSH-2.0-kennel\r\n"), "{text:?}");
    assert!(text.contains("kennel blocked this connection: git.test:22: not on the allow list"), "{text:?}");
}

#[test]
fn the_ssh_program_shows_the_reason() {
    if !installed("ssh") {
        println!("SKIPPED: ssh is not installed");
        return;
    }
    let world = World::new(&[]);
    // What a ProxyCommand would do: SOCKS first, then bytes.
    let bridge = serve({
        let address = world.proxy;
        move |stream| {
            let mut upstream = Client::connect(address);
            assert_eq!(socks(&mut upstream, &socks_request(b"git.test", 22)), 0);
            let mut down = stream.try_clone().unwrap();
            let mut up = upstream.0.try_clone().unwrap();
            std::thread::spawn(move || std::io::copy(&mut &stream, &mut up));
            let _ = std::io::copy(&mut upstream.0, &mut down);
        }
    });
    let output = std::process::Command::new("ssh")
        .args(["-F", "/dev/null", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"])
        .args(["-o", "UserKnownHostsFile=/dev/null", "-p", &bridge.to_string(), "127.0.0.1", "true"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("kennel blocked this connection: git.test:22"), "{text}");
}

#[test]
fn a_hello_for_the_host_is_carried_however_it_is_cut() {
    let (port, seen) = answering(&SERVER_HELLO);
    let world = World::new(&["a.test"]);
    world.names.set("a.test", &["127.0.0.1"]);
    for record in [1000, 7, 1] {
        seen.lock().unwrap().clear();
        let hello = client_hello("A.test", record);
        let mut client = world.tunnel(&format!("a.test:{port}"));
        for piece in hello.chunks(hello.len().div_ceil(9)) {
            client.send(piece);
            std::thread::sleep(Duration::from_millis(2));
        }
        client.send([23, 3, 3, 0, 1, 9]);
        client.0.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.rest().unwrap(), SERVER_HELLO);
        assert_eq!(*seen.lock().unwrap(), [hello, vec![23, 3, 3, 0, 1, 9]].concat());
    }
}

#[test]
fn a_hello_for_another_host_never_reaches_the_server() {
    let (port, seen) = recorder(b"");
    let world = World::new(&["a.test", "b.test"]);
    world.names.set("a.test", &["127.0.0.1"]);
    let first = client_hello("a.test", 1000);
    for hello in [
        client_hello("evil.test", 1000),
        client_hello("evil.test", 3),
        // Allowed too, but not the one that was connected to.
        client_hello("b.test", 1000),
        client_hello("a.test.evil.test", 1000),
        client_hello("xa.test", 1000),
    ] {
        for door in ["connect", "socks"] {
            seen.lock().unwrap().clear();
            let mut client = if door == "connect" {
                world.tunnel(&format!("a.test:{port}"))
            } else {
                let mut client = world.client();
                assert_eq!(socks(&mut client, &socks_request(b"a.test", port)), 0);
                client
            };
            client.send(&hello);
            assert_eq!(client.rest().unwrap(), [21, 3, 3, 0, 2, 2, 49], "the alert access_denied");
            assert!(seen.lock().unwrap().is_empty());
        }
    }
    // A second hello, which the server asks for, with another name: behind a change-cipher-spec, spread over
    // records of one byte, and in the record of the first one, which is not whole when it is looked at.
    let (port, seen) = answering(&HELLO_RETRY_REQUEST);
    let packed = [&client_hello("a.test", 9999)[5..], &client_hello("evil.test", 9999)[5..]].concat();
    let one_record = [&[22, 3, 1][..], &(packed.len() as u16).to_be_bytes(), &packed].concat();
    for (begin, end) in [
        (&first[..], &[&[20, 3, 3, 0, 1, 1][..], &client_hello("evil.test", 1000)].concat()[..]),
        (&first, &client_hello("evil.test", 1)),
        one_record.split_at(first.len()),
    ] {
        seen.lock().unwrap().clear();
        let mut client = world.tunnel(&format!("a.test:{port}"));
        client.send(begin);
        std::thread::sleep(Duration::from_millis(50));
        client.send(end);
        assert!(client.rest().unwrap().ends_with(&[21, 3, 3, 0, 2, 2, 49]));
        assert!(!seen.lock().unwrap().windows(4).any(|bytes| bytes == b"evil"));
    }
    let mismatch = |record: &kennel_proxy::Record| match &record.verdict {
        Verdict::Denied(DenyReason::NameMismatch(told)) => told == "evil.test",
        _ => false,
    };
    assert!(world.gate.records().iter().any(mismatch));
}

#[test]
fn a_mismatch_can_be_allowed() {
    let (port, seen) = recorder(b"");
    let world =
        World::with(Rules { allow_sni_mismatch: true, ..rules(&["a.test", "127.0.0.1"], &[]) }, |_| {});
    world.names.set("a.test", &["127.0.0.1"]);
    let hello = client_hello("front.test", 1000);
    let mut client = world.tunnel(&format!("a.test:{port}"));
    client.send(&hello);
    client.0.shutdown(std::net::Shutdown::Write).unwrap();
    client.rest().unwrap();
    assert_eq!(*seen.lock().unwrap(), hello);
}

#[test]
fn plain_http_in_a_tunnel_is_held_to_its_host_request_by_request() {
    let port = echo_requests();
    let world = World::new(&["a.test"]);
    world.names.set("a.test", &["127.0.0.1"]);
    let mut client = world.tunnel(&format!("a.test:{port}"));
    for path in ["/1", "/2"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n"));
        let head = client.head();
        assert!(body(&mut client, &head).contains(path));
    }
    client.send(format!("GET /3 HTTP/1.1\r\nHost: evil.test:{port}\r\n\r\n"));
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 403 ") && head.contains("evil.test"), "{head}");
    for request in [
        "GET / HTTP/1.1\nHost: evil.test\n\n".to_owned(),
        "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n".to_owned(),
        "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nHost: a.test:{port}\r\nHost: evil.test\r\n\r\n"),
    ] {
        let mut client = world.tunnel(&format!("a.test:{port}"));
        client.send(&request);
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 40"), "{request}{head}");
    }
}

#[test]
fn a_server_that_closes_after_an_answer_or_later_has_closed_to_its_client() {
    let says = |connection: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n{connection}\r\ndone");
    for (connection, told) in [("Connection: close\r\n", true), ("", false)] {
        let answer = says(connection);
        let port = serve(move |mut stream| {
            let mut seen = [0; 1024];
            let _ = std::io::Read::read(&mut stream, &mut seen);
            let _ = stream.write_all(answer.as_bytes());
            // One that keeps its connections closes an idle one after a while.
            std::thread::sleep(Duration::from_millis(if told { 0 } else { 300 }));
        });
        let world = World::new(&["a.test"]);
        world.names.set("a.test", &["127.0.0.1"]);
        let mut client = world.tunnel(&format!("a.test:{port}"));
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n"));
        let head = client.head();
        assert_eq!(head.contains("Connection: close"), told, "{head}");
        assert_eq!(client.rest().unwrap(), b"done", "and then an end, not silence");
    }
}

#[test]
fn a_reset_stays_a_reset() {
    let port = serve(|mut stream| {
        let _ = stream.write_all(b"some");
        std::thread::sleep(Duration::from_millis(100));
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    let world = World::new(&[]);
    let mut client = world.tunnel(&format!("127.0.0.1:{port}"));
    assert!(client.rest().is_err());
}

#[test]
fn a_peer_that_stops_reading_and_one_that_is_half_open_are_given_up_and_others_go_on() {
    // Sends without end; says nothing; echoes.
    let flood = serve(|mut stream| while stream.write_all(&[0; 1 << 16]).is_ok() {});
    let mute = serve(|stream| {
        std::thread::sleep(Duration::from_secs(20));
        drop(stream);
    });
    let echo = serve(|mut stream| {
        let mut reader = stream.try_clone().unwrap();
        let _ = std::io::copy(&mut reader, &mut stream);
    });
    let short = Duration::from_millis(400);
    let world = World::with(rules(&["127.0.0.1"], &[]), |settings| {
        settings.times = Times { stall: short, half_closed: short, ..Times::default() };
    });
    let mut stuck = world.tunnel(&format!("127.0.0.1:{flood}"));
    let mut half = world.tunnel(&format!("127.0.0.1:{mute}"));
    half.0.shutdown(std::net::Shutdown::Write).unwrap();
    // An idle connection with both ends open is not given up.
    let mut idle = world.tunnel(&format!("127.0.0.1:{echo}"));
    std::thread::sleep(4 * short);
    idle.send(b"still here");
    assert_eq!(idle.exactly(10), b"still here");
    // What had been sent before comes, and then a reset: not an end, which would make it look whole.
    assert!(stuck.rest().is_err());
    let begun = std::time::Instant::now();
    assert!(half.rest().is_err());
    assert!(begun.elapsed() < Duration::from_secs(5), "it was given up before");
}

fn asking(answer: impl Fn(&Question) -> Answer + Send + Sync + 'static) -> World {
    let rules = Rules { unlisted: Unlisted::Ask, ..rules(&["127.0.0.1"], &["never.test"]) };
    World::with(rules, |settings| {
        settings.ask = Some(Arc::new(answer));
        settings.times.ask = Duration::from_millis(500);
    })
}

#[test]
fn an_unlisted_host_is_asked_about_once_and_the_answer_holds() {
    let (port, _) = recorder(b"hello");
    let count = Arc::new(AtomicUsize::new(0));
    let own = Arc::clone(&count);
    let world = asking(move |question| {
        own.fetch_add(1, Ordering::SeqCst);
        match question.host.to_string().as_str() {
            "yes.test" => Answer::Allow,
            _ => Answer::Deny,
        }
    });
    world.names.set("yes.test", &["127.0.0.1"]);
    for _ in 0..3 {
        let mut client = world.tunnel(&format!("yes.test:{port}"));
        assert_eq!(client.exactly(5), b"hello");
    }
    for host in ["no.test", "no.test", "never.test"] {
        let mut client = world.client();
        client.send(format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\n"));
        assert!(client.head().starts_with("HTTP/1.1 403 "));
    }
    assert_eq!(count.load(Ordering::SeqCst), 2);
    assert!(!world.names.asked().contains(&"no.test".to_owned()));
}

#[test]
fn a_question_that_nobody_answers_is_a_no() {
    let world = asking(|_| {
        std::thread::sleep(Duration::from_secs(3));
        Answer::Allow
    });
    let mut client = world.client();
    client.send("CONNECT slow.test:443 HTTP/1.1\r\n\r\n");
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 403 ") && head.contains("no answer to the question"), "{head}");
}

#[test]
fn an_answer_for_one_connection_admits_one_of_those_that_wait() {
    const MANY: usize = 20;
    let (port, _) = recorder(b"hello");
    let (asked, arrived) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let world = {
        let (asked, arrived) = (Arc::clone(&asked), Arc::clone(&arrived));
        asking(move |_| {
            // Three times yes, for one each; all wait by then.
            while arrived.load(Ordering::SeqCst) < MANY {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(50));
            match asked.fetch_add(1, Ordering::SeqCst) {
                ..3 => Answer::AllowOnce,
                _ => Answer::Deny,
            }
        })
    };
    world.names.set("once.test", &["127.0.0.1"]);
    let clients: Vec<Client> = (0..MANY)
        .map(|_| {
            let mut client = world.client();
            client.send(format!("CONNECT once.test:{port} HTTP/1.1\r\n\r\n"));
            arrived.fetch_add(1, Ordering::SeqCst);
            client
        })
        .collect();
    let admitted =
        clients.into_iter().map(|mut client| client.head()).filter(|head| head.contains(" 200 ")).count();
    assert_eq!((admitted, asked.load(Ordering::SeqCst)), (3, 4));
}

#[test]
fn an_unanswered_question_is_told_in_the_same_words_whoever_keeps_the_time() {
    for answer in [Answer::NoAnswer, Answer::Allow] {
        let count = Arc::new(AtomicUsize::new(0));
        let own = Arc::clone(&count);
        let world = asking(move |_| {
            own.fetch_add(1, Ordering::SeqCst);
            // The gate's own patience is half a second.
            std::thread::sleep(Duration::from_millis(if answer == Answer::NoAnswer { 20 } else { 900 }));
            answer
        });
        let mut client = world.client();
        client.send("CONNECT silent.test:443 HTTP/1.1\r\n\r\n");
        assert!(client.head().contains("no answer to the question in time"));
        if answer == Answer::NoAnswer {
            let mut client = world.client();
            client.send("CONNECT silent.test:443 HTTP/1.1\r\n\r\n");
            client.head();
            assert_eq!(count.load(Ordering::SeqCst), 2, "silence is not remembered");
        }
    }
}

#[test]
fn a_question_that_stands_in_line_has_its_time_when_its_turn_comes() {
    let world = asking(|question| {
        std::thread::sleep(Duration::from_millis(350));
        if question.host.to_string() == "second.test" { Answer::Deny } else { Answer::NoAnswer }
    });
    let mut clients: Vec<Client> = ["first.test", "second.test"]
        .map(|host| {
            let mut client = world.client();
            client.send(format!("CONNECT {host}:443 HTTP/1.1\r\n\r\n"));
            std::thread::sleep(Duration::from_millis(30));
            client
        })
        .into();
    assert!(clients[0].head().contains("no answer to the question"));
    assert!(clients[1].head().contains("refused when asked"), "700 ms after it was asked, of 500");
}

/// A proxy that answers every CONNECT and request with what it was asked, but for the password.
fn parent_proxy() -> u16 {
    serve(|stream| {
        let mut client = Client(stream);
        // user:pass
        let head = client.head().replace("Basic dXNlcjpwYXNz", "the password");
        if head.starts_with("CONNECT ") {
            client.send(format!("HTTP/1.1 200 OK\r\n\r\n{head}"));
        } else {
            client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len()));
        }
        let _ = client.rest();
    })
}

#[test]
fn a_parent_proxy_is_used_for_all_but_its_exceptions() {
    let parent = parent_proxy();
    let (direct, _) = recorder(b"direct");
    let proxy = ParentProxy::parse(&format!("http://user:pass@127.0.0.1:{parent}")).unwrap();
    let world = World::with(rules(&["far.test", "near.test", "127.0.0.1"], &["denied.test"]), |settings| {
        settings.parents = ParentProxies {
            http: Some(proxy.clone()),
            https: Some(proxy),
            bypass: Bypass::parse(&format!("near.test:{direct}")),
        };
    });
    world.names.set("near.test", &["127.0.0.1"]);
    let mut client = world.tunnel("far.test:443");
    let asked = client.head();
    assert_eq!(
        asked,
        "CONNECT far.test:443 HTTP/1.1\r\nHost: far.test:443\r\nProxy-Authorization: the password\r\n\r\n"
    );
    let mut client = world.client();
    client.send("GET http://far.test/x HTTP/1.1\r\nHost: far.test\r\n\r\n");
    let head = client.head();
    let asked = body(&mut client, &head);
    assert!(asked.starts_with("GET http://far.test/x HTTP/1.1\r\nHost: far.test\r\n"), "{asked}");
    assert!(asked.contains("Proxy-Authorization: the password"), "{asked}");
    // Names behind a parent proxy are looked up there and not here.
    assert!(world.names.asked().is_empty());
    for target in [format!("near.test:{direct}"), format!("127.0.0.1:{direct}")] {
        let mut client = world.tunnel(&target);
        assert_eq!(client.exactly(6), b"direct", "{target}");
    }
    let mut client = world.client();
    client.send("CONNECT denied.test:443 HTTP/1.1\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 403 "));
}

#[test]
fn a_thousand_connections_are_served_at_once() {
    // Each takes a descriptor at the client, two at the gate and one at the server, all in this process; and a gate by itself
    // takes no more than half of what there is.
    let (soft, hard) = {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX))
    };
    if hard < 8000 {
        println!("SKIPPED: at most {hard} open files are allowed here");
        return;
    }
    if soft < 8000 {
        let limit = rustix::process::Rlimit { current: Some(8000), maximum: Some(hard) };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // One thread that greets and keeps them all.
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().flatten() {
            stream.write_all(b"hello").unwrap();
            kept.push(stream);
        }
    });
    let world = World::new(&[]);
    let before = resident();
    let mut clients: Vec<Client> = (0..1000).map(|_| world.tunnel(&format!("127.0.0.1:{port}"))).collect();
    for client in &mut clients {
        assert_eq!(client.exactly(5), b"hello");
    }
    let grown = resident().saturating_sub(before);
    // This process is the gate, the clients and the server together.
    assert!(grown < 16 << 20, "{grown} bytes for a thousand idle connections");
}

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
