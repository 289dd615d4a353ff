//! The first bytes of a TLS client: no beginning of a hello names another server than the whole.
#![no_main]

use kennel_proxy::tls::{Hello, client_hello, second_hello};
use libfuzzer_sys::fuzz_target;

/// Bytes as handshake records, since a fuzzer does not guess their lengths soon.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |chunk: &[u8]| [&[22, 3, 1][..], &(chunk.len() as u16).to_be_bytes(), chunk].concat();
    message.chunks(size).flat_map(record).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let _ = second_hello(bytes);
    let whole = client_hello(bytes);
    for cut in [bytes.len() / 3, bytes.len() / 2, bytes.len().saturating_sub(1)] {
        let part = client_hello(&bytes[..cut]);
        assert!(matches!(part, Hello::Incomplete) || part == whole || matches!(whole, Hello::Incomplete));
    }
    let Some((&size, message)) = bytes.split_first() else { return };
    let whole = client_hello(&records(message, 1 << 14));
    let cut = client_hello(&records(message, usize::from(size).max(1)));
    assert_eq!(whole, cut);
});
