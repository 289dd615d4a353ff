//! Which forms of a response a host that receives secrets is asked for, and which of those that come can be searched.
//!
//! The client chooses much of how a server writes: `Accept-Encoding`, `Accept-Charset`, gRPC's and Connect's own compression,
//! differences to an earlier response (RFC 3229), dictionaries. None of it is asked for. What comes all the same is refused
//! unless it is on the lists here.

use hyper::StatusCode;
use hyper::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_RANGE, RANGE,
    SEC_WEBSOCKET_EXTENSIONS,
};

/// Fields that tell how the request itself is written.
const OF_THE_REQUEST: [&str; 5] = [
    "content-encoding",
    "transfer-encoding",
    "grpc-encoding",
    "connect-content-encoding",
    "content-transfer-encoding",
];
/// Fields that ask for something else than the whole response as it is.
const ASKS_FOR_ANOTHER: [HeaderName; 3] = [
    RANGE,
    IF_RANGE,
    // Messages are searched as they are.
    SEC_WEBSOCKET_EXTENSIONS,
];
const ASKS_FOR_ANOTHER_BY_NAME: [&str; 3] = ["a-im", "available-dictionary", "dictionary-id"];
/// Encodings of the body that a client undoes.
const ENCODINGS: [HeaderName; 1] = [CONTENT_ENCODING];
const ENCODINGS_BY_NAME: [&str; 3] = ["grpc-encoding", "connect-content-encoding", "x-content-encoding"];
/// Charsets in which ASCII is ASCII.
const CHARSETS: [&str; 8] =
    ["utf-8", "utf8", "us-ascii", "ascii", "latin1", "binary", "iso-8859-1", "windows-1252"];
const CHARSET_FAMILIES: [&str; 2] = ["iso-8859-", "windows-125"];

/// Leaves a request no choice of a form that cannot be searched.
pub(crate) fn ask_for_searchable(fields: &mut HeaderMap) {
    let unwanted: Vec<HeaderName> = fields
        .keys()
        .filter(|name| {
            let text = name.as_str();
            let chooses =
                (text.contains("encoding") || text.contains("charset")) && !OF_THE_REQUEST.contains(&text);
            chooses || ASKS_FOR_ANOTHER.contains(name) || ASKS_FOR_ANOTHER_BY_NAME.contains(&text)
        })
        .cloned()
        .collect();
    for name in unwanted {
        fields.remove(name);
    }
    fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// Why a response cannot be searched; `None` if it can.
pub(crate) fn unsearchable(status: StatusCode, fields: &HeaderMap) -> Option<&'static str> {
    // Of several such fields each counts: clients undo all of them.
    let identity = |value: &HeaderValue| {
        let Ok(text) = value.to_str() else { return false };
        text.split(',').all(|word| matches!(word.trim(), "" | "identity"))
    };
    let by_name = ENCODINGS_BY_NAME.iter().flat_map(|name| fields.get_all(*name));
    if !ENCODINGS.iter().flat_map(|name| fields.get_all(name)).chain(by_name).all(identity) {
        return Some(
            "it is compressed though no compression was asked for, so it cannot be searched for secrets",
        );
    }
    if status == StatusCode::IM_USED || fields.contains_key("im") {
        return Some("it is a difference to another response, so it cannot be searched for secrets");
    }
    if status == StatusCode::PARTIAL_CONTENT {
        return Some("it is a part though the whole was asked for, so it cannot be searched for secrets");
    }
    if !fields.get_all(CONTENT_TYPE).iter().all(has_known_charset) {
        return Some("it is in a charset that cannot be searched for secrets");
    }
    None
}

/// Whether every charset that a type names, in whatever way, is known.
fn has_known_charset(value: &HeaderValue) -> bool {
    let text = value.as_bytes().to_ascii_lowercase();
    let text = String::from_utf8_lossy(&text);
    let mut parts = text.split("charset");
    parts.next();
    parts.all(|rest| {
        let Some(rest) = rest.trim_start().strip_prefix('=') else { return false };
        let rest = rest.trim_start().trim_start_matches(['"', '\'']);
        let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-_:.+".contains(letter)));
        let name = &rest[..end.unwrap_or(rest.len())];
        let in_family = |family: &&str| {
            name.strip_prefix(*family)
                .is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
        };
        CHARSETS.contains(&name) || CHARSET_FAMILIES.iter().any(in_family)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    #[test]
    fn nothing_is_asked_for_that_cannot_be_searched() {
        let mut asked = fields(&[
            ("accept", "text/plain"),
            ("accept-language", "de"),
            ("accept-encoding", "gzip, br"),
            ("accept-charset", "utf-16"),
            ("grpc-accept-encoding", "gzip"),
            ("connect-accept-encoding", "gzip"),
            ("x-accept-encoding", "gzip"),
            ("a-im", "gzip"),
            ("available-dictionary", ":x:"),
            ("range", "bytes=3-9"),
            ("sec-websocket-extensions", "permessage-deflate"),
            ("content-encoding", "gzip"),
            ("grpc-encoding", "gzip"),
        ]);
        ask_for_searchable(&mut asked);
        let mut left: Vec<&str> = asked.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(
            left,
            ["accept", "accept-encoding", "accept-language", "content-encoding", "grpc-encoding"]
        );
        assert_eq!(asked["accept-encoding"], "identity");
    }

    #[test]
    fn what_can_be_searched_is_listed() {
        let ok = |pairs: &[(&'static str, &str)]| unsearchable(StatusCode::OK, &fields(pairs)).is_none();
        for kind in [
            "application/json",
            "text/html; charset=UTF-8",
            "text/html;charset=\"utf-8\"; x=y",
            "text/plain; charset = iso-8859-15",
            "text/plain; charset='utf-8'",
            "application/octet-stream",
        ] {
            assert!(ok(&[("content-type", kind)]), "{kind}");
        }
        for kind in [
            "text/plain; charset=utf-16",
            "text/plain; charset=utf-8; charset=utf-16",
            "text/plain; charset=\"utf-7\"",
            "text/plain; charset*=utf-8''utf-16",
            "text/plain; charset=ibm037",
            "text/plain; charset=",
            "text/plain; charset=iso-8859-1-u",
            "text/plain; CHARSET=UCS-2",
            "text/plain; charset=utf-8x",
        ] {
            assert!(!ok(&[("content-type", kind)]), "{kind}");
        }
        assert!(ok(&[("content-encoding", "identity")]));
        assert!(ok(&[("x-goog-stored-content-encoding", "gzip"), ("grpc-accept-encoding", "gzip")]));
        assert!(!ok(&[("content-type", "text/plain"), ("content-type", "text/plain; charset=utf-16")]));
        assert!(!ok(&[("content-encoding", "identity"), ("content-encoding", "gzip")]));
        assert!(!ok(&[("grpc-encoding", "gzip")]) && !ok(&[("connect-content-encoding", "br")]));
        assert!(!ok(&[("im", "gzip")]));
        assert!(unsearchable(StatusCode::IM_USED, &HeaderMap::new()).is_some());
        assert!(unsearchable(StatusCode::PARTIAL_CONTENT, &HeaderMap::new()).is_some());
    }
}
