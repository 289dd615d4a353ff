//! Proxies that take the place of srt's own: nothing gets past them.

use std::io::{Read, Write};
use std::net::TcpStream;

use kennel_tests::{program, skipped};

use crate::compat::world::{Place, Which, run, serve, srt};

/// A proxy that answers in the place of every host, in HTTP and in SOCKS, and says for which.
fn proxy() -> u16 {
    serve(answer)
}

/// A server of the host's, which nobody is to reach without a proxy.
fn server() -> u16 {
    serve(|mut stream| {
        let _ = head(&mut stream);
        let _ = say(&mut stream, "direct");
    })
}

fn say(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    let length = text.len() + 1;
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}\n")
}

fn head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

fn answer(mut stream: TcpStream) -> Option<()> {
    let mut first = [0];
    stream.peek(&mut first).ok()?;
    if first == [5] {
        let mut greeting = [0; 2];
        stream.read_exact(&mut greeting).ok()?;
        stream.read_exact(&mut vec![0; greeting[1].into()]).ok()?;
        stream.write_all(&[5, 0]).ok()?;
        let mut request = [0; 5];
        stream.read_exact(&mut request).ok()?;
        let mut rest = vec![0; if request[3] == 3 { usize::from(request[4]) + 2 } else { 5 }];
        stream.read_exact(&mut rest).ok()?;
        let name = match request[3] {
            3 => String::from_utf8_lossy(&rest[..rest.len() - 2]).into_owned(),
            _ => format!("{}.{}.{}.{}", request[4], rest[0], rest[1], rest[2]),
        };
        stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).ok()?;
        head(&mut stream)?;
        return say(&mut stream, &format!("by SOCKS for {name}")).ok();
    }
    let text = head(&mut stream)?;
    let place = text.split_whitespace().nth(1)?.to_owned();
    if !text.starts_with("CONNECT ") {
        return say(&mut stream, &format!("by request for {place}")).ok();
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    head(&mut stream)?;
    say(&mut stream, &format!("by CONNECT for {}", place.split(':').next()?)).ok()
}

fn settings(allowed: &str, keys: &str) -> String {
    format!(
        r#"{{"network": {{"allowedDomains": [{allowed}], "deniedDomains": [], {keys}}},
            "filesystem": {{"denyRead": [], "allowWrite": ["."], "denyWrite": []}}}}"#
    )
}

const GET: &str = r#"get() { echo "$1: $(curl -s -m 20 "${@:2}" || echo nothing)"; }
    here=127.0.0.1:3128"#;

/// With an HTTP proxy in its place: what comes as HTTP is handed over, what comes by SOCKS or without a proxy at all follows
/// the lists and leaves by the same proxy.
#[test]
#[kennel_claim::claim("handed-back/srt-proxies")]
fn nothing_gets_past_an_http_proxy() {
    if program("curl").is_none() {
        return skipped("curl is not installed");
    }
    let (proxy, server) = (proxy(), server());
    let script = format!(
        r#"{GET}
        get request --noproxy '' -x http://$here http://not-listed.example.com/
        get CONNECT --noproxy '' -p -x http://$here http://not-listed.example.com/"#
    );
    let allowed = format!(r#""listed.example.com", "host.kennel.internal:{server}""#);
    let text = settings(&allowed, &format!(r#""httpProxyPort": {proxy}"#));
    for which in [Which::Kennel, Which::Real] {
        let place = Place::new();
        let Some(mut command) = srt(which, &place, Some(&text)) else { continue };
        let ran = run(command.args(["-c", &script]));
        let expected = "request: by request for http://not-listed.example.com/\n\
                        CONNECT: by CONNECT for not-listed.example.com\n";
        assert_eq!(ran.stdout, expected, "{which:?}: {}", ran.stderr);
    }
    let ways = format!(
        r#"{GET}
        get plain --noproxy '*' http://listed.example.com/
        get other --noproxy '*' http://not-listed.example.com/
        get host --noproxy '*' http://host.kennel.internal:{server}/
        get loopback --noproxy '*' http://127.0.0.1:{server}/
        get listed --noproxy '' -x socks5h://$here http://listed.example.com/
        get unlisted --noproxy '' -x socks5h://$here http://not-listed.example.com/
        get socks-host --noproxy '' -x socks5h://$here http://host.kennel.internal:{server}/
        echo port: $CLAUDE_CODE_HOST_HTTP_PROXY_PORT"#
    );
    let place = Place::new();
    let ran = run(srt(Which::Kennel, &place, Some(&text)).expect("kennel").args(["-c", &ways]));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    // SOCKS wants the token there, which the variables for an HTTP proxy of somebody else's do not show.
    let expected = [
        "plain: by CONNECT for listed.example.com",
        "other: nothing",
        "host: by CONNECT for localhost",
        "loopback: nothing",
        "listed: nothing",
        "unlisted: nothing",
        "socks-host: nothing",
        &format!("port: {proxy}"),
    ];
    assert_eq!(lines, expected, "{}", ran.stderr);
    // With the token, by which SOCKS stays the gate's.
    let by_variable = format!(
        r#"{GET}
        get listed --noproxy '' -x "$FTP_PROXY" http://listed.example.com/
        get unlisted --noproxy '' -x "$FTP_PROXY" http://not-listed.example.com/
        get host --noproxy '' -x "$FTP_PROXY" http://host.kennel.internal:{server}/"#
    );
    let place = Place::new();
    let ran = run(srt(Which::Kennel, &place, Some(&text)).expect("kennel").args(["-c", &by_variable]));
    let expected =
        "listed: by CONNECT for listed.example.com\nunlisted: nothing\nhost: by CONNECT for localhost\n";
    assert_eq!(ran.stdout, expected, "{}", ran.stderr);
}

/// The same with a SOCKS proxy in its place.
#[test]
#[kennel_claim::claim("handed-back/srt-proxies")]
fn nothing_gets_past_a_socks_proxy() {
    if program("curl").is_none() {
        return skipped("curl is not installed");
    }
    let (proxy, server) = (proxy(), server());
    let script = format!(
        r#"{GET}
        get socks --noproxy '' -x socks5h://$here http://not-listed.example.com/
        get plain --noproxy '*' http://listed.example.com/
        get host --noproxy '*' http://host.kennel.internal:{server}/
        get request --noproxy '' -x "$HTTP_PROXY" http://listed.example.com/
        get CONNECT --noproxy '' -p -x "$HTTP_PROXY" http://listed.example.com/
        get request-host --noproxy '' -x "$HTTP_PROXY" http://host.kennel.internal:{server}/
        get unlisted --noproxy '' -f -x "$HTTP_PROXY" http://not-listed.example.com/"#
    );
    let allowed = format!(r#""listed.example.com", "host.kennel.internal:{server}""#);
    let text = settings(&allowed, &format!(r#""socksProxyPort": {proxy}"#));
    let place = Place::new();
    let ran = run(srt(Which::Kennel, &place, Some(&text)).expect("kennel").args(["-c", &script]));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let expected = [
        "socks: by SOCKS for not-listed.example.com",
        "plain: by SOCKS for listed.example.com",
        "host: by SOCKS for localhost",
        "request: by SOCKS for listed.example.com",
        "CONNECT: by SOCKS for listed.example.com",
        "request-host: by SOCKS for localhost",
        "unlisted: nothing",
    ];
    assert_eq!(lines, expected, "{}", ran.stderr);
}
