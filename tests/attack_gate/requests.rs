//! HTTP requests for another host, in all the ways in which some server may take one for it.

use crate::attack_gate::rng::Rng;
use crate::attack_gate::tries::{ALLOWED, disturb, other};

/// How seldom each part of a request differs from what it should be: a server that takes one oddity seldom takes five.
const SELDOM: usize = 6;

const METHODS: [&str; 7] = ["GET", "get", "Get", "G3T", "POST", "FOO", "OPTIONS"];
const VERSIONS: [&str; 11] = [
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/01.1",
    "HTTP/1.01",
    "http/1.1",
    "HTTP/1.10",
    "HTTP/1.2",
    "HTTP/2.0",
    "HTTP/3",
    "HTTP /1.1",
    "HTTPS/1.1",
];
const ENDS: [&str; 5] = ["\r\n", "\n", "\r", "\r\r\n", "\n\r"];
const BLANKS: [&str; 5] = [" ", "  ", "\t", " \t", "\u{b}"];

/// `Host` as some servers read it, with `{}` for the name.
const HOSTS: [&str; 21] = [
    "Host: {}",
    "host: {}",
    "HOST:{}",
    "Host : {}",
    "Host\t: {}",
    " Host: {}",
    "Host:\t{}",
    "Host:\u{b}{}",
    "Host: {}.",
    "Host: {}:80",
    "Host: {}, {allowed}",
    "Host: {allowed}, {}",
    "Host: {allowed}\r\nHost: {}",
    "Host: {}\r\nHost: {allowed}",
    "Host: {allowed}\r\n {}",
    "Host:\r\n {}",
    "Host: {allowed}@{}",
    "Host: {}#{allowed}",
    "X: y\nHost: {}",
    "X: y\rHost: {}\r\nHost: {allowed}",
    "Host_: {}\r\nHost: {allowed}",
];

/// Targets, with `{}` for the name.
const TARGETS: [&str; 10] = [
    "/",
    "/index.html",
    "http://{}/",
    "HTTP://{}/",
    "http://{allowed}@{}/",
    "http:/{}/",
    "//{}/",
    "https://{}/",
    "{}/",
    "http://{}#{allowed}/",
];

fn allowed(port: u16) -> String {
    if port == 80 { ALLOWED.to_owned() } else { format!("{ALLOWED}:{port}") }
}

fn fill(pattern: &str, number: u64, port: u16) -> String {
    pattern.replace("{allowed}", &allowed(port)).replace("{}", &other(number))
}

/// A request for the other host.
fn for_other(rng: &mut Rng, number: u64, port: u16) -> Vec<u8> {
    let end = rng.mostly_first(SELDOM, &ENDS).to_owned();
    let target = fill(rng.mostly_first(SELDOM, &TARGETS), number, port);
    let filler = match rng.below(40) {
        0 => "x".repeat(17 << 10),
        1 => "x".repeat(66 << 10),
        _ => String::new(),
    };
    let blank = rng.mostly_first(SELDOM, &BLANKS).to_owned();
    let (method, version) = (rng.mostly_first(SELDOM, &METHODS), rng.mostly_first(SELDOM, &VERSIONS));
    let line = format!("{method}{blank}{target}{filler}{blank}{version}");
    let host = fill(rng.mostly_first(SELDOM, &HOSTS), number, port);
    let more = match rng.below(20) {
        0 => "Connection: close\r\n".to_owned(),
        1 => format!("X-Forwarded-Host: {}\r\n", other(number)),
        2 => "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n".to_owned(),
        3 => "Content-Length: 0\r\n".to_owned(),
        _ => String::new(),
    };
    format!("{line}{end}{host}{end}{more}{end}").into_bytes()
}

fn plain_for_other(number: u64) -> String {
    format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", other(number))
}

/// Requests over a connection to the allowed host.
pub fn make(rng: &mut Rng, number: u64, port: u16) -> Vec<u8> {
    let good = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", allowed(port));
    let mut bytes = match rng.below(10) {
        // One behind the other.
        0 => [good.as_bytes(), &for_other(rng, number, port)].concat(),
        1 => smuggled(rng, number, &format!("POST / HTTP/1.1\r\nHost: {}\r\n", allowed(port))),
        2 => format!("GET http://{}/\r\n\r\n", other(number)).into_bytes(),
        3 => format!(
            "CONNECT {}:{port} HTTP/1.1\r\nHost: {}\r\n\r\n{}",
            other(number),
            other(number),
            plain_for_other(number)
        )
        .into_bytes(),
        _ => for_other(rng, number, port),
    };
    if rng.one_in(3) {
        disturb(rng, &mut bytes, 2);
    }
    bytes
}

/// A request to the proxy, in absolute form.
pub fn forwarded(rng: &mut Rng, number: u64, port: u16) -> Vec<u8> {
    let own = allowed(port);
    let mut bytes = match rng.below(4) {
        0 => smuggled(rng, number, &format!("POST http://{own}/ HTTP/1.1\r\nHost: {own}\r\nAUTH\r\n")),
        1 => [
            format!("GET http://{own}/ HTTP/1.1\r\nHost: {own}\r\nAUTH\r\n\r\n").into_bytes(),
            for_other(rng, number, port),
        ]
        .concat(),
        2 => {
            let target = fill(rng.pick(&TARGETS), number, port);
            format!("GET {target} HTTP/1.1\r\nAUTH\r\nHost: {own}\r\n\r\n").into_bytes()
        }
        _ => {
            let host = fill(rng.pick(&HOSTS), number, port);
            let version = rng.pick(&VERSIONS);
            format!("GET http://{own}/ {version}\r\nAUTH\r\n{host}\r\n\r\n").into_bytes()
        }
    };
    // Not the place where the login will stand.
    let at = bytes.windows(4).position(|part| part == b"AUTH").unwrap_or(0);
    let mut after = bytes.split_off((at + 4).min(bytes.len()));
    if rng.one_in(3) {
        disturb(rng, &mut after, 2);
    }
    bytes.extend(after);
    bytes
}

/// A body in which a request for the other host is hidden, for servers that read its length in another way.
fn smuggled(rng: &mut Rng, number: u64, head: &str) -> Vec<u8> {
    let hidden = plain_for_other(number);
    let chunked = format!("0\r\n\r\n{hidden}");
    let fields = [
        format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", chunked.len()),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {}\r\n", chunked.len()),
        format!("Content-Length: {}\r\nTransfer-Encoding: xchunked\r\n", chunked.len()),
        format!("Content-Length: {}\r\nTransfer-Encoding : chunked\r\n", chunked.len()),
        format!("Content-Length: {}\r\nTransfer_Encoding: chunked\r\n", chunked.len()),
        format!("Content-Length: {}\r\nTransfer-Encoding:\u{b}chunked\r\n", chunked.len()),
        format!("Content-Length: {}\r\nX: y\nTransfer-Encoding: chunked\r\n", chunked.len()),
        format!("Content-Length: {}\r\nX: y\rTransfer-Encoding: chunked\r\n", chunked.len()),
        format!("Content-Length: 0\r\nContent-Length: {}\r\n", chunked.len()),
        format!("Content-Length: {}\r\nContent-Length: 0\r\n", chunked.len()),
        format!("Content-Length: +{}\r\n", chunked.len()),
        format!("Content-Length: 0x{:x}\r\n", chunked.len()),
        "Transfer-Encoding: identity\r\n".to_owned(),
        "Transfer-Encoding: chunked, identity\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n".to_owned(),
    ];
    let bodies = [
        chunked.clone(),
        format!("1\nx\r\n0\r\n\r\n{hidden}"),
        format!("0;\n\r\n\r\n{hidden}"),
        format!("0\r\nHost: {}\r\n\r\n{hidden}", other(number)),
        format!("00000000000000000\r\n\r\n{hidden}"),
        format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len()),
        format!("-1\r\n\r\n{hidden}"),
    ];
    let field = &fields[rng.below(fields.len())];
    format!("{head}{field}\r\n{}", bodies[rng.below(bodies.len())]).into_bytes()
}
