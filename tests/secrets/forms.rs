//! Echoes in the forms that programs write, and those that cannot be searched; and what the gate does not search for.

use serde_json::json;

use crate::secrets::{Setup, Told, Upstream, have, skipped, upstream};

/// Fails the test if a text has the middle of this key, in whatever is left of it without escapes and what stands between letters.
#[track_caller]
fn assert_no_middle(text: &str, key: &str) {
    // Within the random part.
    let start = key.rfind('-').unwrap_or(0) + 2;
    let middle = &key[start..start + 8];
    let hex: String = middle.bytes().map(|byte| format!("{byte:02x}")).collect();
    let entities: String = middle.bytes().map(|byte| format!("&#x{byte:02x};")).collect();
    let escaped: String = middle.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
    let numbers: String = middle.bytes().map(|byte| format!("0x{byte:02x}")).collect();
    let percent: String = middle.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let bare: String = text.chars().filter(|c| !c.is_whitespace() && !":,\0".contains(*c)).collect();
    let bare = bare.replace("\\n", "");
    for form in [middle, &hex, &entities, &escaped, &numbers, &percent] {
        for (what, text) in [("as it is", text), ("without what stands between", &bare)] {
            assert!(!text.to_lowercase().contains(&form.to_lowercase()), "{form} {what}: {text}");
        }
    }
    assert!(!bare.replace('-', "").to_lowercase().contains(&hex), "{text}");
    for before in ["x", "xy", "xyz"] {
        let whole = crate::secrets::search::forms(&format!("{before}{middle}"));
        let (_, base64) = whole.iter().find(|(name, _)| *name == "base64").expect("it is one of them");
        assert!(!bare.contains(&base64[6..base64.len() - 2]), "base64 {before}: {text}");
    }
}

fn bound(upstream: &Upstream, key: &str, host: &str) -> Setup {
    Setup::new(upstream, &[]).secret("KEY", upstream.key(key), &[host])
}

#[test]
#[kennel_claim::claim("secrets/echoes-show-the-stand-in")]
fn an_echo_in_escapes_and_wrapped_encodings_shows_the_stand_in() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    for (key, field) in [("anthropic", "x-api-key"), ("other", "private-token"), ("short", "x-api-key")] {
        let host = format!("forms-{key}.web.test");
        for version in ["--http1.1", "--http2"] {
            let script = format!(
                r#"printenv KEY >&2; curl -sS {version} -H "{field}: $KEY" https://{host}/forms | base64 -w0"#
            );
            let told = bound(upstream, key, &host).sh(&script).ok();
            let bytes = unbase64(&told.ran.stdout);
            let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
            assert_eq!(text.matches("\n\n").count(), 18, "every form came: {text}");
            assert_no_middle(&text, upstream.key(key));
            // Where lengths are the same, the stand-in is as long.
            if key != "short" {
                let stand_in = told.ran.stderr.trim();
                // Which letters were escaped would tell something of them.
                for form in ["json", "percent", "twice", "entity"] {
                    assert!(
                        text.contains(&format!("{form} {stand_in}\n")),
                        "{form} of {stand_in} is not in {text}"
                    );
                }
            }
        }
    }
}

fn unbase64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut out) = (0u32, 0, Vec::new());
    for letter in text.bytes() {
        let Some(number) = ALPHABET.iter().position(|own| *own == letter) else { continue };
        bits = bits << 6 | number as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

/// A client of WebSockets: prints its head, and each frame as its flags and its payload.
const SOCKET: &str = r#"
import os, socket, ssl, sys
host, path, field = sys.argv[1:4]
context = ssl.create_default_context()
stream = context.wrap_socket(socket.create_connection((host, 443)), server_hostname=host)
stream.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
               f"Sec-WebSocket-Extensions: permessage-deflate\r\n{field}: {os.environ['KEY']}\r\n\r\n".encode())
data = b""
while True:
    piece = stream.recv(4096)
    if not piece:
        break
    data += piece
    # One that was refused is not closed.
    if b"\r\n\r\n" in data and b" 101 " not in data[:20]:
        break
head, _, data = data.partition(b"\r\n\r\n")
print(head.decode().split("\r\n")[0])
while data and b"101" in head:
    flags, length = data[0], data[1]
    assert length < 126, length
    print("%02x %s" % (flags, data[2:2 + length].decode("latin1")))
    data = data[2 + length:]
print(data.decode("latin1"))
"#;

fn socket(setup: &Setup, host: &str, path: &str, field: &str) -> Option<Told> {
    let Some(python) = kennel_tests::world::python() else {
        skipped("python3 is not installed");
        return None;
    };
    Some(setup.run(&[&python.display().to_string(), "-c", SOCKET, host, path, field]))
}

#[test]
#[kennel_claim::claim("secrets/echoes-show-the-stand-in")]
fn a_web_socket_returns_no_value_in_a_frame_in_several_or_escaped() {
    let Some(upstream) = upstream() else { return };
    for (key, field) in [("short", "x-api-key"), ("other", "private-token"), ("anthropic", "x-api-key")] {
        let host = format!("messages-{key}.web.test");
        let setup = bound(upstream, key, &host);
        let Some(told) = socket(&setup, &host, "/messages", field) else { return };
        let told = told.ok();
        assert!(told.ran.stdout.starts_with("HTTP/1.1 101 "), "{told:#?}");
        assert_no_middle(&told.ran.stdout, upstream.key(key));
        for flags in ["81 <", "82 <", "89 ", "8a ", "81 end", "88 "] {
            assert!(told.ran.stdout.lines().any(|line| line.starts_with(flags)), "{flags}: {told:#?}");
        }
    }
}

#[test]
#[kennel_claim::claim("secrets/echoes-show-the-stand-in")]
fn a_web_socket_that_compresses_unasked_is_refused() {
    let Some(upstream) = upstream() else { return };
    let host = "packed.web.test";
    let Some(told) = socket(&bound(upstream, "short", host), host, "/packed", "x-api-key") else { return };
    let told = told.ok();
    assert!(told.ran.stdout.starts_with("HTTP/1.1 502 "), "{told:#?}");
    let seen = upstream.requests(host);
    assert!(seen.iter().all(|request| request["fields"]["sec-websocket-extensions"].is_null()), "{seen:#?}");
}

/// What the upstream is asked to say, for curl.
fn say(fields: &serde_json::Value, kind: &str) -> String {
    json!({"parts": ["text"], "type": kind, "fields": fields}).to_string()
}

#[test]
#[kennel_claim::claim("secrets/echoes-show-the-stand-in")]
fn forms_that_cannot_be_searched_are_not_asked_for_and_refused() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let host = "unsearchable.web.test";
    let setup = Setup::new(upstream, &[])
        .secret("KEY", upstream.key("anthropic"), &[host])
        .set("network.allow", json!(["free.web.test"]))
        .set("network.terminate", json!(["free.web.test"]));
    let status = |host: &str, body: &str| {
        let script = format!(
            "curl -sS -o /dev/null -w '%{{http_code}}' -H 'Content-Type: application/json' -d '{body}' https://{host}/say"
        );
        setup.sh(&script).ok().ran.stdout
    };
    for (fields, kind) in [
        (json!({}), "text/plain; charset=utf-16"),
        (json!({}), "text/html; charset=\"UTF-7\""),
        (json!({}), "application/json;charset=ibm037"),
        (json!({}), "text/plain; charset*=utf-8''utf-16"),
        (json!({"grpc-encoding": "gzip"}), "application/grpc"),
        (json!({"connect-content-encoding": "br"}), "application/json"),
        (json!({"im": "gzip"}), "text/plain"),
    ] {
        assert_eq!(status(host, &say(&fields, kind)), "502", "{fields} {kind}");
        assert_eq!(
            status("free.web.test", &say(&fields, kind)),
            "200",
            "where no secret goes: {fields} {kind}"
        );
    }
    for kind in ["text/plain; charset=utf-8", "text/html; charset=ISO-8859-1", "application/octet-stream"] {
        assert_eq!(status(host, &say(&json!({}), kind)), "200", "{kind}");
    }
    let script = format!(
        r#"curl -sS -H "x-api-key: $KEY" -H 'Accept-Charset: utf-16' -H 'grpc-accept-encoding: gzip' -H 'A-IM: gzip' \
            -H 'X-Accept-Encoding: gzip' -H 'connect-accept-encoding: br' -H 'Accept-Encoding: gzip' -H 'Range: bytes=3-9' \
            -H 'Accept: text/plain' https://{host}/asked"#
    );
    setup.sh(&script).ok();
    let seen = upstream.requests("/asked");
    let fields = seen[0]["fields"].as_object().expect("a request has fields").clone();
    let negotiated: Vec<&String> = fields
        .keys()
        .filter(|name| {
            ["accept", "encoding", "charset", "range", "a-im"].iter().any(|word| name.contains(word))
        })
        .collect();
    assert_eq!(negotiated, ["accept", "accept-encoding"], "{fields:#?}");
    assert_eq!(fields["accept-encoding"], "identity");
}

#[test]
#[kennel_claim::claim("secrets/nothing-tells-a-guess")]
fn a_response_is_searched_for_what_its_host_receives_and_for_nothing_else() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let setup = Setup::new(upstream, &[]).secret("KEY", upstream.key("github"), &["own.web.test"]).secret(
        "OTHER",
        upstream.key("other"),
        &["elsewhere.web.test"],
    );
    // In halves: the whole would be taken out of the command's words.
    let halves = |key: &str| {
        let (first, second) = upstream.key(key).split_at(10);
        format!("'{first}''{second}'")
    };
    let say = |key: &str| {
        format!(
            r#"value={}; curl -sS -H 'Content-Type: application/json' -d '{{"parts": ["<'"$value"'>"]}}' https://own.web.test/say"#,
            halves(key)
        )
    };
    let told = setup.sh(&say("other")).ok();
    assert!(
        told.ran.stdout.contains(upstream.key("other")),
        "nobody learns another host's key here: {told:#?}"
    );
    let told = setup.sh(&say("github")).ok();
    assert!(
        told.ran.stdout.starts_with("<ghp_") && !told.ran.stdout.contains(upstream.key("github")),
        "{told:#?}"
    );
}
