//! The first bytes of a TLS client: no beginning of a hello names another server than the whole.
#![no_main]

use kennel_proxy::tls::{Hello, client_hello, hello_end, record_between, second_hello};
use libfuzzer_sys::fuzz_target;

/// Bytes as handshake records, since a fuzzer does not guess their lengths soon.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |chunk: &[u8]| [&[22, 3, 1][..], &(chunk.len() as u16).to_be_bytes(), chunk].concat();
    message.chunks(size).flat_map(record).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let _ = record_between(bytes);
    for read in [client_hello, second_hello] {
        let whole = read(bytes);
        for cut in [bytes.len() / 3, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let part = read(&bytes[..cut]);
            assert!(part == Hello::Incomplete || part == whole, "{part:?}, then {whole:?}");
        }
    }
    // What follows a hello is not part of it, and has to be judged by itself.
    if let Hello::Named(name) = client_hello(bytes) {
        let end = hello_end(bytes);
        assert!((5..=bytes.len()).contains(&end));
        assert_eq!(client_hello(&bytes[..end]), Hello::Named(name));
    }
    // However a message is cut into records, it is the same message. Its length is made to fit.
    let Some((&size, [kind, _, _, _, body @ ..])) = bytes.split_first() else { return };
    let message = [&[*kind], &(body.len() as u32).to_be_bytes()[1..], body].concat();
    let whole = client_hello(&records(&message, 1 << 14));
    let cut = client_hello(&records(&message, usize::from(size).max(1)));
    assert_eq!(whole, cut);
});
