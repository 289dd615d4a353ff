//! Chunked bodies: cutting the input differently changes nothing.
#![no_main]

use kennel_proxy::http::chunked::Decoder;
use libfuzzer_sys::fuzz_target;

fn decode(bytes: &[u8], step: usize) -> Option<(Vec<u8>, usize, bool)> {
    let (mut decoder, mut data, mut used) = (Decoder::default(), Vec::new(), 0);
    for piece in bytes.chunks(step) {
        let mut piece = piece.to_vec();
        let decoded = decoder.decode(&mut piece).ok()?;
        assert!(decoded.data <= decoded.used && decoded.used <= piece.len());
        data.extend_from_slice(&piece[..decoded.data]);
        used += decoded.used;
        if decoder.finished().is_some() {
            break;
        }
    }
    Some((data, used, decoder.finished().is_some()))
}

fuzz_target!(|bytes: &[u8]| {
    if let Some((&first, rest)) = bytes.split_first() {
        let whole = decode(rest, rest.len().max(1));
        assert_eq!(decode(rest, usize::from(first).max(1)), whole);
    }
});
