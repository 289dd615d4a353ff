//! Where clients show the session's token, and where the real key goes: the same place.
//!
//! Anthropic's current clients send `Authorization: Bearer`, those before `x-api-key`; Google's send `x-goog-api-key` or `?key=`,
//! Azure's `api-key`. Whatever else of a request could let somebody in is left out: an agent that has got hold of another
//! key could carry out under a foreign account what it was shown.

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use kennel_policy::gateway::Api;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::api;

/// Where a token was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenPlace {
    /// `Authorization: Bearer`.
    Bearer,
    /// A field that holds nothing else.
    Field(&'static str),
    /// `?key=`.
    Query,
}

const FIELDS: [&str; 3] = ["x-api-key", "x-goog-api-key", "api-key"];
/// Finds the token. Takes as long wherever a wrong one differs.
#[must_use]
pub fn find(api: Api, fields: &HeaderMap, query: Option<&str>, token: &str) -> Option<TokenPlace> {
    let is_token = |shown: &[u8]| bool::from(shown.ct_eq(token.as_bytes()));
    let bearer =
        fields.get_all(AUTHORIZATION).iter().any(|value| bearer(value.as_bytes()).is_some_and(is_token));
    if bearer {
        return Some(TokenPlace::Bearer);
    }
    let field =
        |name: &&&str| fields.get_all(**name).iter().any(|value| is_token(value.as_bytes().trim_ascii()));
    if let Some(name) = FIELDS.iter().find(field) {
        return Some(TokenPlace::Field(name));
    }
    let query = query.filter(|_| api::of(api).takes_token_in_query()).unwrap_or_default();
    let key = |pair: &str| pair.strip_prefix("key=").is_some_and(|shown| is_token(shown.as_bytes()));
    query.split('&').any(key).then_some(TokenPlace::Query)
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

/// Takes out everything by which somebody is let in, what belongs to this connection alone, and what would have a server read
/// another method or path than those that were looked at.
pub fn strip(api: Api, fields: &mut HeaderMap) {
    let named: Vec<HeaderName> = fields
        .get_all(hyper::header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let unwanted: Vec<HeaderName> =
        fields.keys().filter(|name| !passes(api, name.as_str())).cloned().collect();
    for name in named.into_iter().chain(unwanted) {
        fields.remove(name);
    }
}

/// What clients of every protocol send.
const PASS: [&str; 11] = [
    "accept",
    "accept-language",
    "content-type",
    "user-agent",
    "x-request-id",
    "x-client-request-id",
    "request-id",
    "idempotency-key",
    "x-idempotency-key",
    "traceparent",
    "tracestate",
];

fn passes(api: Api, name: &str) -> bool {
    // A second look, for names that begin as those of clients do.
    let lets_in = ["auth", "key", "cookie", "secret", "password", "credential", "token"];
    let own = api::of(api).passes();
    PASS.contains(&name)
        || own.fields.contains(&name)
        || own.beginnings.iter().any(|start| name.starts_with(start))
            && !lets_in.iter().any(|part| name.contains(part))
}

/// The query without parameters that the protocol does not have: some let somebody in. Names that are escaped are not known either.
/// `key` is put in again where it was the token's place.
#[must_use]
pub fn strip_query(api: Api, query: &str) -> String {
    let own = api::of(api).passes();
    let stays = |pair: &&str| own.parameters.contains(&pair.split('=').next().unwrap_or_default());
    query.split('&').filter(stays).collect::<Vec<_>>().join("&")
}

/// Puts the key where the token was. Returns what is added to the query, where that is the place.
///
/// # Errors
/// When no field can hold the key, which [`super::Gateway::new`] has seen to.
pub fn put(
    fields: &mut HeaderMap,
    place: TokenPlace,
    key: &[u8],
) -> Result<Option<Zeroizing<String>>, hyper::header::InvalidHeaderValue> {
    let sensitive = |bytes: &[u8]| {
        HeaderValue::from_bytes(bytes).map(|mut value| {
            // In HTTP/2 it is then sent without being kept in a table.
            value.set_sensitive(true);
            value
        })
    };
    match place {
        TokenPlace::Bearer => {
            let value = Zeroizing::new([b"Bearer ", key].concat());
            fields.insert(AUTHORIZATION, sensitive(&value)?);
        }
        TokenPlace::Field(name) => {
            fields.insert(name, sensitive(key)?);
        }
        TokenPlace::Query => {
            let mut pair = Zeroizing::new(String::with_capacity(4 + 3 * key.len()));
            pair.push_str("key=");
            for &byte in key {
                if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                    pair.push(char::from(byte));
                } else {
                    pair.push('%');
                    for digit in [byte >> 4, byte & 15] {
                        pair.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
                    }
                }
            }
            return Ok(Some(pair));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    #[kennel_claim::claim("gateway/keys-stay-outside")]
    fn the_token_is_found_where_clients_send_it() {
        let look = |api, list: &[(&'static str, &str)], query| find(api, &fields(list), query, "tok-1");
        assert_eq!(
            look(Api::Anthropic, &[("authorization", "Bearer tok-1")], None),
            Some(TokenPlace::Bearer)
        );
        assert_eq!(look(Api::OpenAi, &[("authorization", "bearer  tok-1 ")], None), Some(TokenPlace::Bearer));
        for name in FIELDS {
            assert_eq!(look(Api::OpenAi, &[(name, "tok-1")], None), Some(TokenPlace::Field(name)));
        }
        assert_eq!(look(Api::Gemini, &[], Some("alt=sse&key=tok-1")), Some(TokenPlace::Query));
        let both = [("authorization", "Bearer other"), ("x-api-key", "tok-1")];
        assert_eq!(look(Api::Anthropic, &both, None), Some(TokenPlace::Field("x-api-key")));
        for wrong in [
            ("authorization", "tok-1"),
            ("authorization", "Basic tok-1"),
            ("authorization", "Bearer tok-12"),
            ("authorization", "Bearer tok-"),
            ("authorization", "Bearer"),
            ("x-api-key", ""),
            ("x-other", "tok-1"),
        ] {
            assert_eq!(look(Api::Anthropic, &[wrong], Some("key=tok-1")), None, "{wrong:?}");
        }
    }

    #[test]
    #[kennel_claim::claim("gateway/no-other-account", "gateway/known-fields-only")]
    fn everything_that_lets_somebody_in_is_left_out() {
        let mut map = fields(&[
            ("authorization", "Bearer a"),
            ("proxy-authorization", "b"),
            ("x-api-key", "c"),
            ("openai-api-key", "d"),
            ("cookie", "e"),
            ("x-amz-security-token", "f"),
            ("x-http-method-override", "DELETE"),
            ("connection", "close, X-Mine"),
            ("x-mine", "g"),
            ("host", "h"),
            ("content-length", "1"),
            ("anthropic-version", "2023-06-01"),
            ("anthropic-beta", "b1"),
            ("content-type", "application/json"),
            ("x-stainless-lang", "python"),
            ("x-stainless-api-key", "i"),
            ("ocp-apim-subscription-key", "j"),
            ("x-portkey-custom-host", "evil.test"),
            ("helicone-target-url", "https://evil.test"),
            ("cf-aig-authorization", "k"),
            ("x-original-host", "l"),
            ("x-goog-user-project", "m"),
            ("x-anything-new", "n"),
        ]);
        let mut of_another = map.clone();
        strip(Api::Anthropic, &mut map);
        let mut left: Vec<&str> = map.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["anthropic-beta", "anthropic-version", "content-type", "x-stainless-lang"]);
        assert_eq!(
            strip_query(
                Api::Anthropic,
                "alt=sse&key=a&KEY=b&%6bey=c&access_token=d&x=1&&=e&token=f&subscription-key=g&beta=true"
            ),
            "beta=true"
        );
        // Each protocol has its own.
        strip(Api::OpenAi, &mut of_another);
        let mut left: Vec<&str> = of_another.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-type", "x-stainless-lang"]);
        let query = "alt=sse&beta=true&api-version=1&pageSize=2&after_id=x&after=y&$alt=proto";
        for (api, left) in [
            (Api::Anthropic, "beta=true&after_id=x"),
            (Api::OpenAi, "api-version=1&after=y"),
            (Api::Gemini, "alt=sse&pageSize=2&$alt=proto"),
            (Api::Ollama, "api-version=1&after=y"),
        ] {
            assert_eq!(strip_query(api, query), left, "{api:?}");
        }
        let mut map = fields(&[("x-goog-api-client", "a"), ("x-codex-turn", "b"), ("openai-beta", "c")]);
        strip(Api::Gemini, &mut map);
        assert_eq!(map.keys().collect::<Vec<_>>(), ["x-goog-api-client"]);
    }

    #[test]
    fn the_key_goes_where_the_token_was() {
        let mut map = HeaderMap::new();
        assert_eq!(put(&mut map, TokenPlace::Bearer, b"k").unwrap(), None);
        assert_eq!(put(&mut map, TokenPlace::Field("x-api-key"), b"k").unwrap(), None);
        assert_eq!(
            (&map["authorization"], &map["x-api-key"]),
            (&"Bearer k".parse().unwrap(), &"k".parse().unwrap())
        );
        assert!(map.values().all(HeaderValue::is_sensitive));
        assert_eq!(put(&mut map, TokenPlace::Query, b"a/b&c").unwrap().unwrap().as_str(), "key=a%2Fb%26c");
    }
}
