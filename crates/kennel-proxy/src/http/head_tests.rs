//! Heads that are read, heads that are refused, and what is never handed on.

use super::*;
use proptest::prelude::*;

fn request(text: &str) -> Result<Request, HeadError> {
    Request::parse(text.as_bytes())
}

fn body_of(headers: &str) -> Result<Body, HeadError> {
    request(&format!("POST / HTTP/1.1\r\n{headers}\r\n")).and_then(|head| head.body())
}

#[test]
fn a_plain_request_is_read() {
    let head = request("GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\nX:  y \r\n\r\n").unwrap();
    assert_eq!((head.method.as_str(), head.target.as_str(), head.minor), ("GET", "http://a.test/x", 1));
    assert_eq!(head.fields, [Field::new("Host", "a.test"), Field::new("X", "y")]);
    assert_eq!(head.body(), Ok(Body::None));
    assert!(head.keeps_alive());
}

#[test]
#[kennel_claim::claim("network/no-smuggling")]
fn what_could_be_read_in_two_ways_is_refused() {
    for text in [
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\0b\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\n: empty\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1 \r\n\r\n",
        "GET /\u{e9} HTTP/1.1\r\n\r\n",
        "G\x01T / HTTP/1.1\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET / HTTP/1.10\r\n\r\n",
        "GET /\r\n\r\n",
        "\r\n\r\n",
    ] {
        assert!(request(text).is_err(), "{text:?}");
    }
}

#[test]
fn framing_that_smuggles_is_refused() {
    assert_eq!(body_of("Content-Length: 5\r\n"), Ok(Body::Length(5)));
    assert_eq!(body_of("Transfer-Encoding: Chunked\r\n"), Ok(Body::Chunked));
    for headers in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: \r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: \x0bchunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ] {
        assert!(body_of(headers).is_err(), "{headers:?}");
    }
    let old = request("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    assert!(old.body().is_err());
}

#[test]
fn a_response_body_ends_as_the_protocol_says() {
    let response = |head: &str| Response::parse(head.as_bytes()).unwrap();
    let plain = response("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(plain.body("GET"), Ok(Body::Length(3)));
    assert_eq!(plain.body("HEAD"), Ok(Body::None));
    assert_eq!(response("HTTP/1.1 200\r\n\r\n").body("GET"), Ok(Body::UntilClose));
    assert_eq!(response("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").body("GET"), Ok(Body::None));
    assert_eq!(
        response("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n").body("GET"),
        Ok(Body::None)
    );
    assert_eq!(response("HTTP/1.0 200 OK\nServer: old\n\n").fields, [Field::new("Server", "old")]);
    assert!(Response::parse(b"HTTP/1.1 20 OK\r\n\r\n").is_err());
    assert!(Response::parse(b"ICY 200 OK\r\n\r\n").is_err());
}

#[test]
fn hop_by_hop_fields_stay_behind_with_all_that_connection_names() {
    let head = request(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Secret, host, content-length\r\nX-Secret: 1\r\n\
         Keep-Alive: 5\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\
         Accept: b\r\n\r\n",
    )
    .unwrap();
    let kept: Vec<String> = end_to_end(&head.fields).into_iter().map(|field| field.name).collect();
    assert_eq!(kept, ["Host", "Content-Length", "Accept"]);
}

#[test]
fn the_end_of_a_head_is_found_wherever_the_reads_fall() {
    let bytes = b"GET / HTTP/1.1\r\nA: b\r\n\r\nbody\r\n\r\n";
    for seen in 0..=24 {
        assert_eq!(end(bytes, seen), Some(24), "{seen}");
    }
    for cut in 0..24 {
        assert_eq!(end(&bytes[..cut], 0), None, "{cut}");
    }
}

#[test]
fn too_many_fields_are_refused() {
    let head = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MAX_FIELDS + 1));
    assert_eq!(request(&head), Err(HeadError::TooLarge));
}

proptest! {
    #[test]
    fn parsing_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Request::parse(&bytes).map(|head| head.body());
        let _ = Response::parse(&bytes).map(|head| head.body("GET"));
        let _ = end(&bytes, bytes.len() / 2);
    }

    #[test]
    fn parsing_never_panics_on_what_looks_like_http(text in "[A-Z]{1,5} [ -~]{0,30} HTTP/1\\.[01]\r\n([ -~\r\n]{0,40}\r\n){0,6}\r\n") {
        let _ = Request::parse(text.as_bytes()).map(|head| head.body());
    }

    #[test]
    fn what_is_handed_on_is_read_back_the_same(
        name in "[A-Za-z-]{1,12}", value in "[!-~]([ -~]{0,20}[!-~])?", target in "/[!-~]{0,20}"
    ) {
        let head = Request { method: "GET".into(), target, minor: 1, fields: vec![Field::new(name, value)] };
        prop_assert_eq!(Request::parse(&head.to_bytes()), Ok(head));
    }
}
