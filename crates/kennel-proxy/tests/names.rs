//! The name server's door.

mod world;

use std::net::UdpSocket;

use kennel_proxy::{Rules, Unlisted};
use world::*;

const A: u16 = 1;
const AAAA: u16 = 28;

struct Reply {
    code: u8,
    answers: u16,
    bytes: Vec<u8>,
}

fn query(name: &str, kind: u16, edns: bool) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns)];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    if edns {
        message.extend_from_slice(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]);
    }
    message
}

fn read(bytes: Vec<u8>) -> Reply {
    assert_eq!(bytes[..2], [0x12, 0x34]);
    Reply { code: bytes[3] & 0xf, answers: u16::from_be_bytes([bytes[6], bytes[7]]), bytes }
}

fn ask(world: &World, name: &str, kind: u16, edns: bool) -> Reply {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket.send_to(&query(name, kind, edns), world.dns).unwrap();
    let mut bytes = vec![0; 1500];
    let length = socket.recv(&mut bytes).unwrap();
    bytes.truncate(length);
    read(bytes)
}

#[test]
fn an_allowed_name_has_the_same_synthetic_addresses_each_time_and_nobody_is_asked() {
    let world = World::new(&["a.test:443", "*.b.test"]);
    let first = ask(&world, "a.test", A, false);
    assert_eq!((first.code, first.answers), (0, 1));
    assert_eq!(first.bytes[first.bytes.len() - 4..][..2], [198, 18]);
    let again = ask(&world, "A.TEST", A, false);
    assert_eq!(again.bytes[again.bytes.len() - 4..], first.bytes[first.bytes.len() - 4..]);
    let other = ask(&world, "x.b.test", A, false);
    assert_ne!(other.bytes[other.bytes.len() - 4..], first.bytes[first.bytes.len() - 4..]);
    let v6 = ask(&world, "a.test", AAAA, true);
    assert_eq!((v6.code, v6.answers), (0, 1));
    assert!(world.names.asked().is_empty());
}

#[test]
fn a_name_that_is_not_allowed_does_not_exist_and_says_why() {
    let world = World::new(&["a.test"]);
    for name in ["evil.test", "xa.test", "a.test.evil.test", "sub.a.test", "com"] {
        let reply = ask(&world, name, A, true);
        assert_eq!((reply.code, reply.answers), (3, 0), "{name}");
        let text = String::from_utf8_lossy(&reply.bytes).into_owned();
        assert!(text.ends_with(&format!("kennel: {name} is not on the allow list")), "{text:?}");
    }
    assert!(world.names.asked().is_empty());
    assert!(
        world
            .gate
            .summary()
            .contains("evil.test: not on the allow list; to allow it, add to network.allow: evil.test")
    );
}

#[test]
fn other_record_types_of_an_allowed_name_are_empty_or_refused() {
    let world = World::new(&["a.test"]);
    for (kind, code) in [(65, 0), (64, 0), (2, 0), (6, 0), (257, 0), (15, 5), (16, 5), (33, 5), (255, 5)] {
        let reply = ask(&world, "a.test", kind, true);
        assert_eq!((reply.code, reply.answers), (code, 0), "type {kind}");
    }
    // Not even a TXT record of a name that is not allowed can carry something out or in.
    assert_eq!(ask(&world, "c2VjcmV0.evil.test", 16, false).code, 3);
    assert!(world.names.asked().is_empty());
}

#[test]
fn the_loopback_has_its_names_and_synthetic_addresses_have_theirs() {
    let world = World::new(&["a.test"]);
    let local = ask(&world, "localhost", A, false);
    assert!(local.bytes.ends_with(&[127, 0, 0, 1]));
    let reply = ask(&world, "a.test", A, false);
    let [a, b, c, d] = reply.bytes[reply.bytes.len() - 4..] else { unreachable!() };
    let reverse = ask(&world, &format!("{d}.{c}.{b}.{a}.in-addr.arpa"), 12, false);
    assert!(reverse.bytes.ends_with(b"\x01a\x04test\0"), "{:?}", reverse.bytes);
    assert_eq!(ask(&world, "8.8.8.8.in-addr.arpa", 12, false).code, 3);
}

#[test]
fn a_client_that_gives_the_proxy_a_synthetic_address_means_the_name() {
    let (port, _) = recorder(b"hello");
    let world = World::new(&["a.test"]);
    world.names.set("a.test", &["127.0.0.1"]);
    let reply = ask(&world, "a.test", A, false);
    let [a, b, c, d] = reply.bytes[reply.bytes.len() - 4..] else { unreachable!() };
    let mut client = world.tunnel(&format!("{a}.{b}.{c}.{d}:{port}"));
    assert_eq!(client.exactly(5), b"hello");
    let mut client = world.client();
    client.send([5, 1, 0]);
    client.send(socks_address([a, b, c, d].into(), port));
    assert_eq!(client.exactly(12)[3], 0);
    assert_eq!(client.exactly(5), b"hello");
    // One that was never given out stands for nothing.
    let mut client = world.client();
    client.send(format!("CONNECT 198.18.9.9:{port} HTTP/1.1\r\n\r\n"));
    assert!(client.head().starts_with("HTTP/1.1 403 "));
}

#[test]
fn look_ups_over_tcp_are_answered_one_after_the_other() {
    let world = World::new(&["a.test"]);
    let mut client = Client::connect(world.dns);
    for name in ["a.test", "evil.test"] {
        let message = query(name, A, false);
        client.send([&(message.len() as u16).to_be_bytes()[..], &message].concat());
    }
    for code in [0, 3] {
        let length = client.exactly(2);
        let reply = read(client.exactly(usize::from(u16::from_be_bytes([length[0], length[1]]))));
        assert_eq!(reply.code, code);
    }
}

#[test]
fn where_someone_is_asked_about_hosts_a_look_up_asks_nobody_yet() {
    let rules = Rules { unlisted: Unlisted::Ask, ..rules(&[], &["never.test"]) };
    let world = World::with(rules, |settings| {
        settings.ask = Some(std::sync::Arc::new(|_| unreachable!("nothing was connected to")));
    });
    assert_eq!(ask(&world, "perhaps.test", A, false).code, 0);
    assert_eq!(ask(&world, "never.test", A, false).code, 3);
    assert!(world.names.asked().is_empty());
}
