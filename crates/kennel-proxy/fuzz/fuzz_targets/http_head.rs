//! Message heads: what is read and handed on is read the same by whoever reads it next.
#![no_main]

use kennel_proxy::http::head::{self, Request, Response};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(end) = head::end(bytes, 0) {
        assert!(end <= bytes.len());
        for seen in [1, bytes.len() / 2] {
            if seen < end {
                assert_eq!(head::end(bytes, seen.min(end - 1)), Some(end));
            }
        }
    }
    if let Ok(request) = Request::parse(bytes) {
        let again = Request::parse(&request.to_bytes()).expect("what was read can be read again");
        assert_eq!((&again.method, &again.target, &again.fields), (&request.method, &request.target, &request.fields));
        if request.minor == 1 {
            assert_eq!(again.body(), request.body());
        }
        let kept = head::end_to_end(&request.fields);
        assert!(!kept.iter().any(|field| field.is("connection") || field.is("transfer-encoding")));
    }
    if let Ok(response) = Response::parse(bytes) {
        let again = Response::parse(&response.to_bytes()).expect("what was read can be read again");
        assert_eq!(again.body("GET"), response.body("GET"));
    }
});
