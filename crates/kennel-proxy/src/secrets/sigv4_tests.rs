//! The requests of AWS's own test suite for signers (aws-c-auth, `aws-signing-test-suite/v4`), as far as they can be sent, and
//! what is not signed.

use kennel_policy::domain::ListKind;

use super::*;

const STAND_IN: &str = "AKIAstandinstandinstandin";
const TOKEN_STAND_IN: &str = "the-session-token-stand-in";

#[derive(Clone, Copy, PartialEq)]
enum Path {
    Folded,
    AsSent,
}

type Fields = &'static [(&'static str, &'static str)];
/// Its name, how the path is signed, method, target, fields beside host and date, body, names of signed fields, signature.
type Vector =
    (&'static str, Path, &'static str, &'static str, Fields, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const VECTORS: &[Vector] = &[
    ("get-header-key-duplicate", Path::Folded, "GET", "/", &[("my-header1", "value2"), ("my-header1", "value2"), ("my-header1", "value1")], "", "host;my-header1;x-amz-date", "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"),
    ("get-header-value-multiline", Path::Folded, "GET", "/", &[("my-header1", "value1 value2 value3")], "", "host;my-header1;x-amz-date", "cfd34249e4b1c8d6b91ef74165d41a32e5fab3306300901bb65a51a73575eefd"),
    ("get-header-value-order", Path::Folded, "GET", "/", &[("my-header1", "value4"), ("my-header1", "value1"), ("my-header1", "value3"), ("my-header1", "value2")], "", "host;my-header1;x-amz-date", "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"),
    ("get-header-value-trim", Path::Folded, "GET", "/", &[("my-header1", " value1"), ("my-header2", " \"a   b   c\"")], "", "host;my-header1;my-header2;x-amz-date", "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"),
    ("get-relative-normalized", Path::Folded, "GET", "/example/..", &[], "", "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ("get-relative-relative-normalized", Path::Folded, "GET", "/example1/example2/../..", &[], "", "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ("get-relative-relative-unnormalized", Path::AsSent, "GET", "/example1/example2/../..", &[], "", "host;x-amz-date", "dc33e0856fd4baca4d7aa2146c38958283844764f38c74252a333df5e613003b"),
    ("get-relative-unnormalized", Path::AsSent, "GET", "/example/..", &[], "", "host;x-amz-date", "eca7ead57bb5aa5c8e28007acd4ff04e1ff9a0ff3b237ec1554a184887ff9282"),
    ("get-slash-dot-slash-normalized", Path::Folded, "GET", "/./", &[], "", "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ("get-slash-dot-slash-unnormalized", Path::AsSent, "GET", "/./", &[], "", "host;x-amz-date", "68714168e6557f8f2de0ef956fc24dc2593a4bd2961f8df51898d8a134695145"),
    ("get-slash-normalized", Path::Folded, "GET", "//", &[], "", "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ("get-slash-pointless-dot-normalized", Path::Folded, "GET", "/./example", &[], "", "host;x-amz-date", "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5"),
    ("get-slash-pointless-dot-unnormalized", Path::AsSent, "GET", "/./example", &[], "", "host;x-amz-date", "beb03f223f7deae4146464f06e29eebbee9c8afbe15c290cf07aa8b119e14cff"),
    ("get-slash-unnormalized", Path::AsSent, "GET", "//", &[], "", "host;x-amz-date", "c88bcd3d312d75078c0cd961d6deae3f4c754924b01669efcfcb439fd5e5b76e"),
    ("get-slashes-normalized", Path::Folded, "GET", "//example//", &[], "", "host;x-amz-date", "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"),
    ("get-slashes-unnormalized", Path::AsSent, "GET", "//example//", &[], "", "host;x-amz-date", "87cca117541a147f6df867677d98a7d80dff226d2bfca9e4ffa899665623c7e5"),
    ("get-unreserved", Path::Folded, "GET", "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", &[], "", "host;x-amz-date", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"),
    ("get-vanilla", Path::Folded, "GET", "/", &[], "", "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ("get-vanilla-empty-query-key", Path::Folded, "GET", "/?Param1=value1", &[], "", "host;x-amz-date", "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"),
    ("get-vanilla-query-order-encoded", Path::Folded, "GET", "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1", &[], "", "host;x-amz-date", "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"),
    ("get-vanilla-query-order-key-case", Path::Folded, "GET", "/?Param2=value2&Param1=value1", &[], "", "host;x-amz-date", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
    ("get-vanilla-query-unreserved", Path::Folded, "GET", "/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", &[], "", "host;x-amz-date", "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"),
    ("get-vanilla-with-session-token", Path::Folded, "GET", "/", &[("x-amz-security-token", "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267")], "", "host;x-amz-date;x-amz-security-token", "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"),
    ("post-header-key-case", Path::Folded, "POST", "/", &[], "", "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    ("post-header-key-sort", Path::Folded, "POST", "/", &[("my-header1", "value1")], "", "host;my-header1;x-amz-date", "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"),
    ("post-header-value-case", Path::Folded, "POST", "/", &[("my-header1", "VALUE1")], "", "host;my-header1;x-amz-date", "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"),
    ("post-sts-header-after", Path::Folded, "POST", "/", &[("x-amz-security-token", "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==")], "", "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    ("post-sts-header-before", Path::Folded, "POST", "/", &[("x-amz-security-token", "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==")], "", "host;x-amz-date;x-amz-security-token", "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"),
    ("post-vanilla-empty-query-value", Path::Folded, "POST", "/?Param1=value1", &[], "", "host;x-amz-date", "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"),
    ("post-x-www-form-urlencoded", Path::Folded, "POST", "/", &[("content-type", "application/x-www-form-urlencoded"), ("content-length", "13"), ("x-amz-content-sha256", "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e")], "Param1=value1", "content-length;content-type;host;x-amz-content-sha256;x-amz-date", "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b"),
    ("post-x-www-form-urlencoded-parameters", Path::Folded, "POST", "/", &[("content-type", "application/x-www-form-urlencoded; charset=utf-8"), ("content-length", "13"), ("x-amz-content-sha256", "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e")], "Param1=value1", "content-length;content-type;host;x-amz-content-sha256;x-amz-date", "328d1b9eaadca9f5818ef05e8392801e091653bafec24fcab71e7344e7f51422"),
];

fn key(session_token: Option<&str>) -> AwsKey {
    let value = |text: &str| SecretValue::from_bytes(text.as_bytes().to_vec()).unwrap();
    AwsKey {
        id_stand_in: STAND_IN.into(),
        id: value("AKIDEXAMPLE"),
        secret: value("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        session_token: session_token.map(value),
        hosts: vec![HostRule::parse("*.amazonaws.com", ListKind::Allow).unwrap()],
    }
}

fn keys() -> AwsKeys {
    AwsKeys { keys: vec![key(None)], ..AwsKeys::default() }
}

fn target(host: &str) -> Target {
    Target { host: Host::parse(host).unwrap(), port: 443 }
}

fn aws() -> Target {
    target("example.amazonaws.com")
}

fn fields(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in pairs {
        fields.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    fields
}

/// The field of a client that signed with the stand-in.
fn signed_by_client(service: &str, names: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential={STAND_IN}/20150830/us-east-1/{service}/aws4_request, SignedHeaders={names}, Signature=0bad"
    )
}

#[test]
#[kennel_claim::claim("secrets/aws-signatures")]
fn awss_own_requests_are_signed_as_aws_signs_them() {
    for (name, path, method, line, extra, body, signed, signature) in VECTORS {
        let token = extra.iter().find(|(name, _)| *name == TOKEN && signed.contains(TOKEN));
        let keys = AwsKeys { keys: vec![key(token.map(|(_, value)| *value))], ..AwsKeys::default() };
        let mut head = fields(extra);
        if token.is_some() {
            head.insert(TOKEN, HeaderValue::from_static(TOKEN_STAND_IN));
        }
        head.insert(DATE, HeaderValue::from_static("20150830T123600Z"));
        head.insert(AUTHORIZATION, HeaderValue::from_str(&signed_by_client("service", signed)).unwrap());
        let mut plan = keys.plan(&aws(), &head, line).unwrap().expect("it is signed with the stand-in");
        plan.folds_path = *path == Path::Folded;
        let digest = digest::digest(&digest::SHA256, body.as_bytes());
        plan.sign(method, line, "example.amazonaws.com", &mut head, Some(&digest)).unwrap();
        let expected = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders={signed}, Signature={signature}"
        );
        assert_eq!(head[AUTHORIZATION], expected, "{name}");
        assert!(head[AUTHORIZATION].is_sensitive());
    }
}

#[test]
fn paths_are_escaped_once_more_but_for_s3() {
    let plan = |service: &str| {
        let head = fields(&[(DATE, "x"), ("authorization", &signed_by_client(service, "host"))]);
        keys().plan(&aws(), &head, "/").unwrap().unwrap()
    };
    let line = |service: &str| {
        let canonical =
            plan(service).canonical("GET", "/a%3Db/@c//d?x=a+b&x=%41", "h", &HeaderMap::new(), "-");
        let text = String::from_utf8(canonical.unwrap().to_vec()).unwrap();
        text.lines().skip(1).take(2).collect::<Vec<_>>().join("?")
    };
    assert_eq!(line("lambda"), "/a%253Db/%40c/d?x=A&x=a%2Bb");
    assert_eq!(line("s3"), "/a%3Db/@c//d?x=A&x=a%2Bb");
}

#[test]
#[kennel_claim::claim("secrets/aws-signatures")]
fn other_keys_and_other_hosts_are_left_alone() {
    let theirs = signed_by_client("s3", "host").replace(STAND_IN, "AKIDOTHER");
    assert!(keys().plan(&aws(), &fields(&[("authorization", &theirs)]), "/").unwrap().is_none());
    let ours = signed_by_client("s3", "host");
    assert!(keys().plan(&target("evil.test"), &fields(&[("authorization", &ours)]), "/").unwrap().is_none());
    let bearer = format!("Bearer {STAND_IN}");
    assert!(keys().plan(&aws(), &fields(&[("authorization", &bearer)]), "/").unwrap().is_none());
}

#[test]
fn what_cannot_be_signed_again_is_refused_or_passed() {
    let why = |keys: &AwsKeys, pairs: &[(&'static str, &str)], line: &str| {
        keys.plan(&aws(), &fields(pairs), line).map(|plan| plan.is_some())
    };
    let refuse = keys();
    let pass = AwsKeys {
        streaming: CannotSign::Pass,
        presigned: CannotSign::Pass,
        sigv4a: CannotSign::Pass,
        ..keys()
    };
    let plain = signed_by_client("s3", "host");
    let ecdsa = plain.replace(ALGORITHM, ASYMMETRIC);
    let address = format!(
        "/x?X-Amz-Credential={STAND_IN}%2F20150830%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Signature=0"
    );
    let streaming =
        [("authorization", plain.as_str()), (HASH, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), (DATE, "x")];
    for (fields, line, refusal) in [
        (&streaming[..], "/", AwsRefusal::Streaming),
        (&[("authorization", ecdsa.as_str())], "/", AwsRefusal::Asymmetric),
        (&[], address.as_str(), AwsRefusal::Presigned),
        (&[("authorization", "Basic eDp5")], &address.replace("X-Amz-C", "%58-amz-c"), AwsRefusal::Presigned),
    ] {
        assert_eq!(why(&refuse, fields, line), Err(refusal));
        assert_eq!(why(&pass, fields, line), Ok(false));
    }
    let broken = format!("AWS4-HMAC-SHA256 Credential={STAND_IN}/x, SignedHeaders=host, Signature=0");
    assert_eq!(why(&pass, &[("authorization", &broken)], "/"), Err(AwsRefusal::Malformed));
    let new = plain.replace(ALGORITHM, "AWS4-HMAC-SHA512");
    assert_eq!(why(&pass, &[("authorization", &new)], "/"), Err(AwsRefusal::Malformed));
    let twice = [("authorization", "Bearer x"), ("authorization", plain.as_str())];
    assert_eq!(why(&pass, &twice, "/"), Err(AwsRefusal::Malformed));
    assert_eq!(why(&pass, &[("authorization", &plain)], "/"), Err(AwsRefusal::NoDate));
    let field = signed_by_client("s3", "host;x-none");
    let mut head = fields(&[("authorization", &field), (DATE, "x")]);
    let plan = keys().plan(&aws(), &head, "/").unwrap().unwrap();
    let missing = plan.sign("GET", "/", "h", &mut head, None);
    assert_eq!(missing, Err(AwsRefusal::MissingField("x-none".into())));
}

#[test]
fn a_body_that_is_not_signed_stays_so_and_the_token_is_put_in() {
    let keys = AwsKeys { keys: vec![key(Some("the real token"))], ..AwsKeys::default() };
    let field = signed_by_client("s3", "host;range;x-amz-content-sha256;x-amz-date");
    let mut head = fields(&[("authorization", &field), (DATE, "20150830T123600Z"), (HASH, UNSIGNED)]);
    let plan = keys.plan(&aws(), &head, "/").unwrap().unwrap();
    assert!(plan.unsigned_body);
    plan.sign("PUT", "/", "example.amazonaws.com", &mut head, None).unwrap();
    assert_eq!((&head[HASH], &head[TOKEN]), (&UNSIGNED.parse().unwrap(), &"the real token".parse().unwrap()));
    let text = head[AUTHORIZATION].to_str().unwrap();
    assert!(
        text.contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,"),
        "{text}"
    );
}
