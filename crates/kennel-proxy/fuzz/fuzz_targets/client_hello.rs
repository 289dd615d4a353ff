//! The first bytes of a TLS client and of its server, as they come, as they would be inside records, and cut in two.

#![no_main]

use kennel_proxy::tls::{Hello, HelloReader, client_hello, record_between, server_answer};
use libfuzzer_sys::fuzz_target;

/// Bytes as handshake records, since a fuzzer does not guess their lengths soon.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |chunk: &[u8]| [&[22, 3, 1][..], &(chunk.len() as u16).to_be_bytes(), chunk].concat();
    message.chunks(size).flat_map(record).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let whole = client_hello(bytes);
    if let Hello::Read(hello) = &whole {
        assert!(hello.length <= bytes.len());
        // What is behind a hello does not change it, and a part of it is never another.
        assert_eq!(client_hello(&bytes[..hello.length]), whole);
        let mut reader = HelloReader::default();
        for end in 0..hello.length {
            assert_eq!(reader.read(&bytes[..end]), Hello::Incomplete);
        }
        assert_eq!(reader.read(&bytes[..hello.length]), whole);
    }
    let _ = record_between(bytes);
    let _ = server_answer(bytes);
    // However a message is cut into records, it is the same message. Its length is made to fit.
    if let Some((&size, [kind, _, _, _, body @ ..])) = bytes.split_first() {
        let message = [&[*kind], &(body.len() as u32).to_be_bytes()[1..], body].concat();
        let said = |size: usize| match client_hello(&records(&message, size)) {
            Hello::Read(hello) => Ok((hello.name, hello.encrypted)),
            other => Err(other),
        };
        assert_eq!(said(1 << 14), said(usize::from(size).max(1)));
    }
    for size in [1, 7, 300] {
        let _ = client_hello(&records(bytes, size));
        let _ = server_answer(&records(bytes, size));
    }
});
