//! What a connection is: any client, any server, on each port that is known, in any order.

#![no_main]

use kennel_policy::domain::Protocol;
use kennel_proxy::protocols::http_line::{Line, LineReader, UNKNOWN};
use kennel_proxy::protocols::{Opening, Step, Terms};
use libfuzzer_sys::fuzz_target;

const PORTS: [u16; 12] = [22, 25, 80, 110, 143, 443, 587, 873, 3306, 5432, 6379, 9418];

fuzz_target!(|input: (u8, bool, Vec<(bool, Vec<u8>)>)| {
    let (port, named, turns) = input;
    let named = if named { vec![Protocol::Redis, Protocol::Postgres, Protocol::Imap] } else { Vec::new() };
    let port = PORTS[usize::from(port) % PORTS.len()];
    let terms = Terms { name: "a.test".into(), port, named, allow_ech: false };
    let mut opening = Opening::new(terms, UNKNOWN);
    let mut held: Vec<u8> = Vec::new();
    for (from_server, bytes) in turns {
        if from_server {
            if opening.server(&bytes).is_err() {
                return;
            }
        } else {
            held.extend_from_slice(&bytes);
        }
        loop {
            match opening.client(&held) {
                Step::Pass(count) => {
                    assert!(count > 0 && count <= held.len());
                    // HTTP for anybody goes by another reader, and never by this one.
                    assert_ne!(LineReader::default().read(&held[..count]), Line::Http);
                    held.drain(..count);
                }
                Step::Open => {
                    assert!(opening.is_open());
                    return;
                }
                Step::Refuse(_) => return,
                Step::More | Step::Hold => break,
            }
        }
    }
});
