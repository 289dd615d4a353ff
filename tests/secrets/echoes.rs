//! Echoes: whatever upstream sends back of a real key arrives as the stand-in, in every encoding, wherever the stream is cut.

use kennel_tests::skipped;

use crate::secrets::search::forms;
use crate::secrets::{Setup, Told, Upstream, have, upstream};

/// A sandbox whose `$KEY` is a stand-in that this host gets the real key for.
fn bound(upstream: &Upstream, host: &str) -> Setup {
    Setup::new(upstream, &[]).secret("KEY", upstream.key("anthropic"), &[host])
}

/// Runs a script for both versions of HTTP, as `$HTTP`; returns what each printed after the stand-in.
fn both_versions(setup: &Setup, script: &str) -> [(Told, String); 2] {
    ["--http1.1", "--http2"].map(|version| {
        let told = setup.sh(&format!("HTTP={version}; printenv KEY >&2; {script}"));
        let stand_in =
            told.ran.stderr.lines().find(|line| line.starts_with("sk-ant-")).unwrap_or_default().to_owned();
        assert!(stand_in.len() > 40, "{version}: {told:#?}");
        (told, stand_in)
    })
}

/// Fails the test unless a text has the stand-in where upstream has put the real key: as it is where that was escaped, and in the other
/// encodings.
#[track_caller]
fn assert_redacted(upstream: &Upstream, told: &Told, stand_in: &str) {
    upstream.assert_clean("what came in", &told.ran.stdout);
    upstream.assert_clean("the report", &told.text);
    let output = &told.ran.stdout;
    let shown = |name: &str| name == "raw" || name == "hex" || name.starts_with("base64");
    for (name, form) in forms(stand_in).into_iter().filter(|(name, _)| shown(name)) {
        // Of the two alphabets of base64 one is enough, where they differ.
        let other = form.replace('-', "+").replace('_', "/");
        assert!(output.contains(&form) || output.contains(&other), "{name} is not there: {told:#?}");
    }
}

#[test]
#[kennel_claim::claim("secrets/echoes-show-the-stand-in")]
fn an_echo_shows_the_stand_in_in_fields_and_body() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let setup = bound(upstream, "echo.web.test");
    let script = r#"curl -sSi $HTTP -H "x-api-key: $KEY" https://echo.web.test/echo"#;
    for (told, stand_in) in both_versions(&setup, script) {
        assert_redacted(upstream, &told.ok(), &stand_in);
    }
    let seen = upstream.requests("echo.web.test");
    assert_eq!(seen.iter().filter(|request| request["real"] == "anthropic").count(), 2, "{seen:#?}");
    let versions: Vec<_> = seen.iter().map(|request| request["version"].clone()).collect();
    assert_eq!(versions, ["1.1", "2.0"], "HTTP/2 inside is HTTP/2 outside");
}

#[test]
#[kennel_claim::claim("secrets/echoes-show-the-stand-in")]
fn an_echo_in_pieces_of_any_size_shows_the_stand_in() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let setup = bound(upstream, "drip.web.test");
    let script = r#"for size in 1 2 3 7 50 107 500; do
        curl -sS $HTTP -H "x-api-key: $KEY" "https://drip.web.test/drip?size=$size" || exit 1; done"#;
    for (told, stand_in) in both_versions(&setup, script) {
        let told = told.ok();
        assert_redacted(upstream, &told, &stand_in);
        assert_eq!(told.ran.stdout.matches("begin ").count(), 7, "{told:#?}");
        assert_eq!(told.ran.stdout.matches(" end\n").count(), 7, "{told:#?}");
    }
}

#[test]
#[kennel_claim::claim("secrets/echoes-show-the-stand-in")]
fn a_compressed_echo_is_not_passed_on_unread() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let setup = bound(upstream, "compressed.web.test");
    for how in ["gzip", "deflate", "br", "kennel", "gzip&twice=1"] {
        // With --raw it would be bytes that nobody can compare: curl decodes what came.
        let script = format!(
            r#"curl -sS $HTTP --compressed -w '%{{http_code}}' -H "x-api-key: $KEY" 'https://compressed.web.test/compressed?how={how}' || true"#
        );
        for (told, stand_in) in both_versions(&setup, &script) {
            upstream.assert_clean("what came in", &told.ran.stdout);
            let refused = told.ran.stdout.ends_with("502");
            assert!(
                refused || told.ran.stdout.contains(&format!("the key is {stand_in}")),
                "{how}: {told:#?}"
            );
        }
    }
    let seen = upstream.requests("compressed.web.test");
    assert!(seen.iter().all(|request| request["fields"]["accept-encoding"] == "identity"), "{seen:#?}");
}

#[test]
#[kennel_claim::claim("secrets/echoes-show-the-stand-in")]
fn an_echo_behind_the_body_or_in_the_reason_shows_the_stand_in() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let setup = bound(upstream, "trailer.web.test");
    let script = r#"for page in trailer reason; do
        curl -sSi $HTTP --raw -H 'TE: trailers' -H "x-api-key: $KEY" https://trailer.web.test/$page || exit 1; done"#;
    for (told, _) in both_versions(&setup, script) {
        let told = told.ok();
        upstream.assert_clean("what came in", &told.ran.stdout);
        assert!(told.ran.stdout.contains("body"), "{told:#?}");
    }
}

#[test]
fn a_model_that_repeats_its_headers_tells_the_stand_in() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let setup = Setup::new(upstream, &[]).secret("KEY", upstream.key("openai"), &["api.openai.com"]);
    let told = setup
        .sh(r#"printenv KEY; curl -sSN -H "Authorization: Bearer $KEY" -H 'content-type: application/json' \
            -d '{"model":"repeats-stand-in-echo","stream":true,"messages":[]}' https://api.openai.com/v1/chat/completions"#)
        .ok();
    let stand_in = told.ran.stdout.lines().next().unwrap_or_default().to_owned();
    upstream.assert_clean("what came in", &told.ran.stdout);
    assert_eq!(told.ran.stdout.matches(&stand_in).count(), 2, "{told:#?}");
    assert!(told.ran.stdout.ends_with("data: [DONE]\n\n"), "{told:#?}");
}

#[test]
#[kennel_claim::claim("secrets/echoes-show-the-stand-in")]
fn a_web_socket_gets_the_key_in_its_head_and_no_echo_comes_back() {
    let Some(upstream) = upstream() else { return };
    let Some(python) = kennel_tests::world::python() else { return skipped("python3 is not installed") };
    let setup = bound(upstream, "socket.web.test");
    let script = r#"
import os, socket, ssl, sys
context = ssl.create_default_context()
stream = context.wrap_socket(socket.create_connection(("socket.web.test", 443)), server_hostname="socket.web.test")
stream.sendall(b"GET /chat HTTP/1.1\r\nHost: socket.web.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
               b"x-api-key: " + os.environ["KEY"].encode() + b"\r\n\r\n")
head = b""
while b"\r\n\r\n" not in head:
    piece = stream.recv(4096)
    assert piece, head
    head += piece
print(head.decode().split("\r\n")[0])
# Every byte comes back, at once: nobody waits for more.
stream.sendall(b"\x81\x05hello")
back = b""
while len(back) < 7:
    back += stream.recv(100)
print(back)
"#;
    let told = setup.run(&[&python.display().to_string(), "-c", script]).ok();
    assert!(told.ran.stdout.starts_with("HTTP/1.1 101 "), "{told:#?}");
    assert!(told.ran.stdout.contains(r"b'\x81\x05hello'"), "{told:#?}");
    let seen = upstream.requests("socket.web.test");
    assert_eq!(seen[0]["real"], "anthropic", "{seen:#?}");
}
