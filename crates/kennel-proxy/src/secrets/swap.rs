//! Real values for stand-ins in requests, only to the hosts that each secret is bound to.
//!
//! A stand-in that is sent elsewhere is worth nothing there. It is refused all the same, and recorded: somebody tries to carry
//! a key away, or the policy lacks a host.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, COOKIE, HeaderMap, HeaderValue};
use kennel_policy::domain::{Host, HostRule};
use kennel_policy::secrets::SwapIn;
use zeroize::Zeroizing;

use super::encodings;
use super::locked::SecretValue;
use super::redact::Redaction;
use super::replace::{Pair, Replacements, Stream};
use crate::auth::{decode, encode};
use crate::route::Target;

/// A secret that stays outside.
#[derive(Clone, Debug)]
pub struct Swap {
    /// What it is called.
    pub name: String,
    /// What the sandbox has in its place.
    pub stand_in: String,
    /// What it is.
    pub value: SecretValue,
    /// The hosts that get it.
    pub hosts: Vec<HostRule>,
    /// Where in a request, beside the header fields.
    pub swap_in: SwapIn,
}

impl Swap {
    /// Whether this host gets it on any port. What it keeps, another of its ports may tell.
    pub(crate) fn is_received_by(&self, host: &Host) -> bool {
        matches!(host, Host::Name(_)) && self.hosts.iter().any(|rule| rule.host.matches(host))
    }

    /// Whether it is bound to this host. Addresses get none: they prove no name.
    fn is_bound_to(&self, target: &Target) -> bool {
        matches!(target.host, Host::Name(_))
            && self.hosts.iter().any(|rule| rule.matches(&target.host, target.port))
    }
}

/// Why a request with a stand-in is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SwapRefusal {
    /// The secret's name.
    pub(crate) secret: String,
    pub(crate) why: WhyNot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhyNot {
    WrongHost,
    Plaintext,
    Query,
    TwoInOne,
    Encoded,
    Other,
}

/// What the names of fields have in them that say who a client is.
const CREDENTIAL_FIELDS: [&str; 15] = [
    "authorization",
    "token",
    "secret",
    "password",
    "passwd",
    "credential",
    "api-key",
    "apikey",
    "access-key",
    "private-key",
    "subscription-key",
    "auth-key",
    "app-key",
    "application-key",
    "functions-key",
];
/// Those that only tell that a request comes from the page that it should.
const NO_CREDENTIALS: [&str; 2] = ["x-csrf-token", "x-xsrf-token"];
/// Parameters of addresses that say who a client is. Many are called something with `token` that only tell a page's number.
const CREDENTIAL_PARAMETERS: [&str; 20] = [
    "access_token",
    "accesstoken",
    "api_key",
    "api-key",
    "apikey",
    "auth",
    "auth_token",
    "authorization",
    "bearer_token",
    "client_secret",
    "key",
    "oauth_token",
    "password",
    "private_token",
    "secret",
    "sig",
    "signature",
    "subscription-key",
    "token",
    "x-api-key",
];
/// Words that may stand beside a stand-in in a field that says who a client is.
const SCHEMES: [&str; 13] = [
    "bearer",
    "token",
    "key",
    "apikey",
    "api-key",
    "api_key",
    "genie-key",
    "geniekey",
    "oauth",
    "oauth_token",
    "splunk",
    "sso-key",
    "private-token",
];

impl std::fmt::Display for SwapRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.secret;
        match self.why {
            WhyNot::WrongHost => write!(f, "the secret {name} is not bound to this host"),
            WhyNot::Plaintext => write!(f, "the secret {name} is not sent without encryption"),
            WhyNot::Query => write!(f, "the secret {name} is not put in addresses"),
            WhyNot::TwoInOne => write!(f, "{name} and another secret are in one field"),
            WhyNot::Other => {
                write!(
                    f,
                    "the request has other credentials than the secret {name}, which this host is bound to"
                )
            }
            WhyNot::Encoded => {
                write!(f, "the body is compressed, so the secret {name} cannot be put in")
            }
        }
    }
}

impl SwapRefusal {
    /// How to have it otherwise.
    pub(crate) fn help(&self) -> String {
        let name = &self.secret;
        match self.why {
            WhyNot::WrongHost => format!("add the host to secrets.{name}.hosts if it should get the secret"),
            WhyNot::Plaintext => format!("use https, or set secrets.{name}.plaintext = true"),
            WhyNot::Query => format!("send it in a header field, or set secrets.{name}.query = true"),
            WhyNot::TwoInOne => "send one secret in a field".into(),
            WhyNot::Other => {
                format!(
                    "use the stand-in, or set secrets.{name}.other_credentials = true to allow accounts of others"
                )
            }
            WhyNot::Encoded => "send the body without Content-Encoding".into(),
        }
    }
}

/// All secrets of a sandbox.
#[derive(Debug)]
pub(crate) struct Swaps {
    all: Vec<Swap>,
    /// What holds for a host. A command may ask for any number of them.
    views: Mutex<HashMap<(Target, bool), Arc<View>>>,
}

const MAX_VIEWS: usize = 256;

/// What holds for requests to one host.
#[derive(Debug)]
struct View {
    /// Stand-ins that may not be sent there, in every encoding, and whose they are.
    foreign: Replacements,
    owners: Vec<SwapRefusal>,
    fields: Replacements,
    names: Vec<String>,
    url: Replacements,
    /// Stand-ins that are not put in addresses.
    url_refused: Replacements,
    url_owners: Vec<String>,
    body: [Replacements; 3],
    body_names: Vec<String>,
    /// Those of them that no body in an encoding may go without.
    encoded_names: Vec<String>,
    /// Whether every value in a body is as long as its stand-in.
    same_length: bool,
    /// What its responses are searched for: what it receives, on whichever port.
    redaction: Option<Redaction>,
    /// The secret beside which the host takes no other credentials.
    exclusive: Option<String>,
    /// The stand-ins that are exchanged here, and their values.
    stand_ins: Vec<String>,
    values: Vec<SecretValue>,
}

/// How values are written in a body.
#[derive(Clone, Copy)]
enum Written {
    AsTheyAre,
    Json,
    Form,
}

/// What was done to a request.
#[derive(Debug, Default)]
pub(crate) struct Swapped {
    /// The target with the value in it, where one was put there.
    pub(crate) target: Option<String>,
    /// How many values were put in.
    pub(crate) count: usize,
}

impl Swaps {
    pub(crate) fn new(all: Vec<Swap>) -> Swaps {
        Swaps { all, views: Mutex::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn view(&self, target: &Target, encrypted: bool) -> io::Result<Arc<View>> {
        let key = (target.clone(), encrypted);
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = views.get(&key) {
            return Ok(Arc::clone(view));
        }
        let view = Arc::new(View::new(&self.all, target, encrypted)?);
        if views.len() >= MAX_VIEWS {
            views.clear();
        }
        views.insert(key, Arc::clone(&view));
        Ok(view)
    }

    /// Puts values in the header fields and the target of a request.
    pub(crate) fn head(
        &self,
        target: &Target,
        encrypted: bool,
        fields: &mut HeaderMap,
        line: &str,
    ) -> Result<Swapped, SwapError> {
        let mut swapped = Swapped::default();
        if self.is_empty() {
            return Ok(swapped);
        }
        let view = self.view(target, encrypted)?;
        view.refuse_in(line.as_bytes())?;
        if let Some(at) = first_of(&view.url_refused, line.as_bytes()) {
            return Err(SwapRefusal { secret: view.url_owners[at].clone(), why: WhyNot::Query }.into());
        }
        if view.url.occur_in(line.as_bytes()) {
            let (text, count) = view.url.in_text(line.as_bytes());
            swapped.count += count;
            swapped.target = String::from_utf8(text).ok();
        }
        for (name, value) in fields.iter_mut() {
            view.refuse_in(value.as_bytes())?;
            let before = swapped.count;
            let alone = view.stands_alone(value.as_bytes());
            if let Some(inner) = basic(value.as_bytes()) {
                view.refuse_in(&inner)?;
                let halves: Vec<&[u8]> = inner.splitn(2, |byte| *byte == b':').collect();
                let (text, count) = (halves.iter().map(|half| view.fields.in_text(half)))
                    .reduce(|(mut text, count), (more, others)| {
                        text.push(b':');
                        text.extend_from_slice(&more);
                        (text, count + others)
                    })
                    .unwrap_or_default();
                let text = Zeroizing::new(text);
                if count > 1 {
                    let secret = view.names.first().cloned().unwrap_or_default();
                    return Err(SwapRefusal { secret, why: WhyNot::TwoInOne }.into());
                }
                if count == 1 {
                    let whole = Zeroizing::new(format!("Basic {}", *Zeroizing::new(encode(&text))));
                    *value = sensitive(whole.as_bytes())?;
                    swapped.count += 1;
                }
            } else if view.fields.occur_in(value.as_bytes()) {
                let (text, count) = view.fields.in_text(value.as_bytes());
                *value = sensitive(&Zeroizing::new(text))?;
                swapped.count += count;
            }
            if let Some(secret) = &view.exclusive
                && is_credential(name.as_str())
                && (swapped.count == before || !alone)
            {
                return Err(SwapRefusal { secret: secret.clone(), why: WhyNot::Other }.into());
            }
        }
        if let Some(secret) = &view.exclusive {
            if view.other_parameter(line) {
                return Err(SwapRefusal { secret: secret.clone(), why: WhyNot::Other }.into());
            }
            view.own_cookies(fields)?;
        }
        Ok(swapped)
    }

    /// What is to be done with the body of a request; `None` for nothing.
    pub(crate) fn body(
        &self,
        target: &Target,
        encrypted: bool,
        fields: &HeaderMap,
    ) -> Result<Option<SwapStream>, SwapError> {
        if self.is_empty() {
            return Ok(None);
        }
        let view = self.view(target, encrypted)?;
        let encoded = fields.get_all(CONTENT_ENCODING).iter().any(|value| value != "identity");
        if encoded && let Some(secret) = view.encoded_names.first().cloned() {
            return Err(SwapRefusal { secret, why: WhyNot::Encoded }.into());
        }
        if encoded || view.foreign.is_empty() && view.body_names.is_empty() {
            return Ok(None);
        }
        let kind = fields.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let written = match kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/x-www-form-urlencoded" => Written::Form,
            kind if kind == "application/json" || kind.ends_with("+json") => Written::Json,
            _ => Written::AsTheyAre,
        };
        Ok(Some(SwapStream { view, written, search: Stream::default(), swap: Stream::default() }))
    }

    /// What responses of this host are searched for; `None` for one that receives no secret.
    pub(crate) fn redaction(&self, target: &Target) -> io::Result<Option<Redaction>> {
        match self.is_empty() {
            true => Ok(None),
            false => Ok(self.view(target, true)?.redaction.clone()),
        }
    }
}

/// Why a request does not go on.
#[derive(Debug)]
pub(crate) enum SwapError {
    Refused(SwapRefusal),
    System(io::Error),
}

impl From<SwapRefusal> for SwapError {
    fn from(refusal: SwapRefusal) -> Self {
        SwapError::Refused(refusal)
    }
}

impl From<io::Error> for SwapError {
    fn from(error: io::Error) -> Self {
        SwapError::System(error)
    }
}

/// A body on its way to the server.
pub(crate) struct SwapStream {
    view: Arc<View>,
    written: Written,
    search: Stream,
    swap: Stream,
}

impl SwapStream {
    /// Whether the body has the length that was announced.
    pub(crate) fn keeps_length(&self) -> bool {
        self.view.body_names.is_empty() || self.view.same_length && matches!(self.written, Written::AsTheyAre)
    }

    fn texts(&self) -> &Replacements {
        &self.view.body[self.written as usize]
    }

    /// What of the body goes on, now that this part has come; `None` for the part as it is.
    pub(crate) fn push(&mut self, part: &[u8]) -> Result<Option<Vec<u8>>, SwapRefusal> {
        let view = Arc::clone(&self.view);
        if self.search.passes(&view.foreign, part) && self.swap.passes(self.texts(), part) {
            return Ok(None);
        }
        let mut searched = Vec::with_capacity(part.len());
        self.search.push(&view.foreign, part, &mut searched);
        self.refuse()?;
        let mut out = Vec::with_capacity(searched.len());
        self.swap.push(&view.body[self.written as usize], &searched, &mut out);
        Ok(Some(out))
    }

    /// What was held back, at the end.
    pub(crate) fn finish(&mut self) -> Result<Vec<u8>, SwapRefusal> {
        let view = Arc::clone(&self.view);
        let mut searched = Vec::new();
        self.search.finish(&view.foreign, &mut searched);
        self.refuse()?;
        let mut out = Vec::new();
        let texts = &view.body[self.written as usize];
        self.swap.push(texts, &searched, &mut out);
        self.swap.finish(texts, &mut out);
        Ok(out)
    }

    fn refuse(&self) -> Result<(), SwapRefusal> {
        match self.search.last {
            Some(at) => Err(self.view.owners[at].clone()),
            None => Ok(()),
        }
    }
}

impl View {
    fn new(all: &[Swap], target: &Target, encrypted: bool) -> io::Result<View> {
        let why_not = |swap: &Swap| match swap.is_bound_to(target) {
            false => Some(WhyNot::WrongHost),
            true if !encrypted && !swap.swap_in.plaintext => Some(WhyNot::Plaintext),
            true => None,
        };
        let (bound, others): (Vec<&Swap>, Vec<&Swap>) = all.iter().partition(|swap| why_not(swap).is_none());
        let (mut foreign, mut owners) = (Vec::<Pair>::new(), Vec::new());
        for swap in others {
            let why = why_not(swap).unwrap_or(WhyNot::WrongHost);
            for mut pair in encodings::pairs(swap.stand_in.as_bytes(), b"") {
                if foreign.iter().all(|other| other.find != pair.find) {
                    pair.put.clear();
                    foreign.push(pair);
                    owners.push(SwapRefusal { secret: swap.name.clone(), why });
                }
            }
        }
        let names = |wanted: fn(&Swap) -> bool| -> Vec<String> {
            bound.iter().filter(|swap| wanted(swap)).map(|swap| swap.name.clone()).collect()
        };
        let texts = |wanted: fn(&Swap) -> bool, write: fn(&[u8]) -> Vec<u8>| {
            let pair = |swap: &&&Swap| Pair {
                find: swap.stand_in.clone().into_bytes(),
                put: write(swap.value.expose()),
            };
            let pairs: Vec<Pair> = bound.iter().filter(|swap| wanted(swap)).map(|swap| pair(&swap)).collect();
            Replacements::new(pairs)
        };
        let in_body: fn(&Swap) -> bool = |swap| swap.swap_in.body;
        Ok(View {
            foreign: Replacements::new(foreign)?,
            owners,
            fields: texts(|_| true, <[u8]>::to_vec)?,
            names: names(|_| true),
            url: texts(|swap| swap.swap_in.query, encodings::for_address)?,
            url_refused: texts(|swap| !swap.swap_in.query, |_| Vec::new())?,
            url_owners: names(|swap| !swap.swap_in.query),
            body: [
                texts(in_body, <[u8]>::to_vec)?,
                texts(in_body, encodings::for_json)?,
                texts(in_body, encodings::for_address)?,
            ],
            body_names: names(in_body),
            encoded_names: names(|swap| swap.swap_in.body && !swap.swap_in.pass_encoded),
            same_length: bound.iter().all(|swap| swap.stand_in.len() == swap.value.expose().len()),
            redaction: match all.iter().any(|swap| swap.is_received_by(&target.host)) {
                true => Some(Redaction::new(all.iter().filter(|swap| swap.is_received_by(&target.host)))?),
                false => None,
            },
            // On none of its ports, and by no other protocol.
            exclusive: {
                let mut here = all.iter().filter(|swap| swap.is_received_by(&target.host)).peekable();
                let first = here.peek().map(|swap| swap.name.clone());
                first.filter(|_| here.all(|swap| !swap.swap_in.others))
            },
            stand_ins: bound.iter().map(|swap| swap.stand_in.clone()).collect(),
            values: bound.iter().map(|swap| swap.value.clone()).collect(),
        })
    }

    /// Whether a field has one stand-in in it, and nothing else that could be a credential.
    fn stands_alone(&self, value: &[u8]) -> bool {
        if let Some(inner) = basic(value) {
            return inner.splitn(2, |byte| *byte == b':').any(|half| self.is_stand_in(half));
        }
        let word = |byte: &u8| matches!(byte, b' ' | b'\t' | b',' | b';' | b'=' | b'"');
        let words: Vec<&[u8]> = value.split(word).filter(|word| !word.is_empty()).collect();
        let (own, others): (Vec<&[u8]>, Vec<&[u8]>) =
            words.into_iter().partition(|word| self.is_stand_in(word));
        let known = |word: &[u8]| SCHEMES.iter().any(|scheme| scheme.as_bytes().eq_ignore_ascii_case(word));
        own.len() == 1 && others.into_iter().all(known)
    }

    fn is_stand_in(&self, text: &[u8]) -> bool {
        self.stand_ins.iter().any(|stand_in| stand_in.as_bytes() == text)
    }

    /// Whether a request's address says who its client is, by something else than a stand-in.
    fn other_parameter(&self, line: &str) -> bool {
        let Some((_, query)) = line.split_once('?') else { return false };
        query.split(['&', ';']).filter_map(|pair| pair.split_once('=')).any(|(name, value)| {
            let name = percent_decoded(name).to_ascii_lowercase();
            let is_one = CREDENTIAL_PARAMETERS.contains(&name.as_str())
                || name.ends_with("-signature")
                || name.ends_with("-credential");
            is_one && !value.is_empty() && !self.is_stand_in(value.as_bytes())
        })
    }

    /// Leaves of the cookies those that are stand-ins. A client that keeps what the server gave it goes on without.
    fn own_cookies(&self, fields: &mut HeaderMap) -> Result<(), SwapError> {
        if !fields.contains_key(COOKIE) {
            return Ok(());
        }
        // By now a stand-in is its value.
        let is_own = |cookie: &&[u8]| {
            let value = cookie.splitn(2, |byte| *byte == b'=').nth(1).unwrap_or_default();
            self.values.iter().any(|own| own.expose() == value)
        };
        let all: Vec<HeaderValue> = fields.get_all(COOKIE).iter().cloned().collect();
        fields.remove(COOKIE);
        for field in all {
            let cookies = field.as_bytes().split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let own: Vec<&[u8]> = cookies.filter(is_own).collect();
            if !own.is_empty() {
                fields.append(COOKIE, sensitive(&Zeroizing::new(own.join(&b"; "[..])))?);
            }
        }
        Ok(())
    }

    fn refuse_in(&self, text: &[u8]) -> Result<(), SwapRefusal> {
        match first_of(&self.foreign, text) {
            Some(at) => Err(self.owners[at].clone()),
            None => Ok(()),
        }
    }
}

fn is_credential(name: &str) -> bool {
    CREDENTIAL_FIELDS.iter().any(|word| name.contains(word)) && !NO_CREDENTIALS.contains(&name)
}

/// A parameter's name as servers read it.
fn percent_decoded(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, after @ ..] = rest {
        let digits =
            after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => (bytes.push(byte), rest = &after[2..]).1,
            None => (bytes.push(*first), rest = after).1,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The number of the first text that occurs.
fn first_of(all: &Replacements, text: &[u8]) -> Option<usize> {
    if !all.occur_in(text) {
        return None;
    }
    let mut stream = Stream::default();
    stream.push(all, text, &mut Vec::new());
    stream.finish(all, &mut Vec::new());
    stream.last
}

/// A value that is never kept in a table of header fields (HPACK) and never shown.
fn sensitive(text: &[u8]) -> Result<HeaderValue, SwapError> {
    let mut value = HeaderValue::from_bytes(text)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a header field cannot hold the value"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// What a field with a user name and a password says.
fn basic(value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (scheme, encoded) = value.split_at_checked(6)?;
    scheme.eq_ignore_ascii_case(b"basic ").then(|| decode(encoded.trim_ascii()).map(Zeroizing::new))?
}

#[cfg(test)]
mod tests {
    use hyper::header::{AUTHORIZATION, HeaderName};
    use kennel_policy::domain::ListKind;

    use super::*;

    const STAND_IN: &str = "sk-0123456789abcdefghijklmnopqr";
    const REAL: &str = "sk-REALREALREALREALREALREALREAL";

    fn swap(name: &str, stand_in: &str, value: &str, host: &str, swap_in: SwapIn) -> Swap {
        Swap {
            name: name.into(),
            stand_in: stand_in.into(),
            value: SecretValue::from_bytes(value.as_bytes().to_vec()).unwrap(),
            hosts: vec![HostRule::parse(host, ListKind::Allow).unwrap()],
            swap_in,
        }
    }

    fn target(host: &str) -> Target {
        Target { host: Host::parse(host).unwrap(), port: 443 }
    }

    fn fields(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn why(result: Result<impl std::fmt::Debug, SwapError>) -> WhyNot {
        match result {
            Err(SwapError::Refused(refusal)) => refusal.why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_value_goes_where_the_stand_in_arrived() {
        let swaps = Swaps::new(vec![swap("KEY", STAND_IN, REAL, "api.test", SwapIn::default())]);
        let mut head = fields(&[("x-api-key", STAND_IN), ("authorization", &format!("Bearer {STAND_IN}"))]);
        let swapped = swaps.head(&target("api.test"), true, &mut head, "/v1").unwrap();
        assert_eq!((swapped.count, swapped.target), (2, None));
        assert_eq!(head["x-api-key"], REAL);
        assert_eq!(head[AUTHORIZATION], format!("Bearer {REAL}"));
        assert!(head[AUTHORIZATION].is_sensitive());
    }

    #[test]
    fn a_bound_host_takes_no_other_credentials() {
        let key = swap("KEY", STAND_IN, REAL, "api.test", SwapIn::default());
        let swaps = Swaps::new(vec![key.clone()]);
        let other = || fields(&[("authorization", "Bearer sk-somebody-elses-key")]);
        assert_eq!(why(swaps.head(&target("api.test"), true, &mut other(), "/")), WhyNot::Other);
        assert!(swaps.head(&target("other.test"), true, &mut other(), "/").is_ok());
        assert!(swaps.head(&target("api.test"), true, &mut fields(&[("accept", "*/*")]), "/").is_ok());
        let refuses = |name: &'static str, value: &str, encrypted| {
            why(swaps.head(&target("api.test"), encrypted, &mut fields(&[(name, value)]), "/"))
        };
        for (name, value) in [
            ("authorization", format!("Bearer sk-somebody-elses, Bearer {STAND_IN}")),
            ("authorization", format!("Bearer {STAND_IN} sk-somebody-elses")),
            ("authorization", format!("Bearer sk-somebody-elses{STAND_IN}")),
            ("authorization", format!("Basic {}", encode(format!("me:else{STAND_IN}").as_bytes()))),
            ("x-github-token", "somebody-elses".into()),
            ("ocp-apim-subscription-key", "somebody-elses".into()),
            ("x-client-secret", "somebody-elses".into()),
        ] {
            assert_eq!(refuses(name, &value, true), WhyNot::Other, "{name}: {value}");
        }
        assert_eq!(refuses("authorization", "Bearer sk-somebody-elses", false), WhyNot::Other, "without TLS");
        for line in ["/?access_token=else", "/?a=b&api%5Fkey=else", "/?X-Amz-Signature=else", "/x?key=else"] {
            let refused = swaps.head(&target("api.test"), true, &mut HeaderMap::new(), line);
            assert_eq!(why(refused), WhyNot::Other, "{line}");
        }
        for line in ["/?page_token=2&q=token", "/?key=", "/token=x"] {
            assert!(swaps.head(&target("api.test"), true, &mut HeaderMap::new(), line).is_ok(), "{line}");
        }
        for value in
            [format!("Bearer {STAND_IN}"), format!("token {STAND_IN}"), format!("Token token=\"{STAND_IN}\"")]
        {
            assert!(
                swaps.head(&target("api.test"), true, &mut fields(&[("authorization", &value)]), "/").is_ok()
            );
        }
        let mut cookies = fields(&[("cookie", &format!("session=else; own={STAND_IN}; __cf=x"))]);
        swaps.head(&target("api.test"), true, &mut cookies, "/").unwrap();
        assert_eq!(cookies["cookie"], format!("own={REAL}"));
        let mut cookies = fields(&[("cookie", "session=else")]);
        swaps.head(&target("api.test"), true, &mut cookies, "/").unwrap();
        assert!(cookies.is_empty());
        let swaps = Swaps::new(vec![Swap { swap_in: SwapIn { others: true, ..key.swap_in }, ..key }]);
        assert!(swaps.head(&target("api.test"), true, &mut other(), "/").is_ok());
    }

    #[test]
    fn basic_is_taken_apart_and_put_together() {
        let swaps = Swaps::new(vec![swap("KEY", STAND_IN, REAL, "api.test", SwapIn::default())]);
        for (inside, outside) in [
            (format!("me:{STAND_IN}"), format!("me:{REAL}")),
            (format!("{STAND_IN}:x-oauth-basic"), format!("{REAL}:x-oauth-basic")),
        ] {
            let mut head = fields(&[("authorization", &format!("Basic {}", encode(inside.as_bytes())))]);
            swaps.head(&target("api.test"), true, &mut head, "/").unwrap();
            assert_eq!(head[AUTHORIZATION], format!("Basic {}", encode(outside.as_bytes())));
        }
        let both = format!("Basic {}", encode(format!("{STAND_IN}:{STAND_IN}").as_bytes()));
        let refused = swaps.head(&target("api.test"), true, &mut fields(&[("authorization", &both)]), "/");
        assert_eq!(why(refused), WhyNot::TwoInOne);
    }

    #[test]
    fn elsewhere_a_stand_in_is_refused_in_whatever_form() {
        let swaps = Swaps::new(vec![swap("KEY", STAND_IN, REAL, "api.test", SwapIn::default())]);
        let elsewhere = target("evil.test");
        let basic = format!("Basic {}", encode(format!("me:{STAND_IN}").as_bytes()));
        for value in [STAND_IN, &format!("x{STAND_IN}y"), &basic, &encode(format!("..{STAND_IN}").as_bytes())]
        {
            let refused = swaps.head(&elsewhere, true, &mut fields(&[("x-any", value)]), "/");
            assert_eq!(why(refused), WhyNot::WrongHost, "{value}");
        }
        let percent: String = STAND_IN.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for line in [format!("/?k={STAND_IN}"), format!("/{percent}")] {
            assert_eq!(why(swaps.head(&elsewhere, true, &mut HeaderMap::new(), &line)), WhyNot::WrongHost);
        }
        let address = Target { host: Host::parse("192.0.2.1").unwrap(), port: 443 };
        let refused = swaps.head(&address, true, &mut fields(&[("x-any", STAND_IN)]), "/");
        assert_eq!(why(refused), WhyNot::WrongHost);
        let plain = swaps.head(&target("api.test"), false, &mut fields(&[("x-any", STAND_IN)]), "/");
        assert_eq!(why(plain), WhyNot::Plaintext);
        let mut body = swaps.body(&elsewhere, true, &HeaderMap::new()).unwrap().unwrap();
        let (first, second) = STAND_IN.split_at(9);
        assert_eq!(body.push(first.as_bytes()).unwrap().unwrap(), b"");
        assert_eq!(body.push(second.as_bytes()).unwrap_err().why, WhyNot::WrongHost);
    }

    #[test]
    fn addresses_and_bodies_only_where_asked() {
        let swaps = Swaps::new(vec![swap("KEY", STAND_IN, REAL, "api.test", SwapIn::default())]);
        let line = format!("/v1?key={STAND_IN}");
        let api = target("api.test");
        assert_eq!(why(swaps.head(&api, true, &mut HeaderMap::new(), &line)), WhyNot::Query);
        assert!(swaps.body(&api, true, &HeaderMap::new()).unwrap().is_none());

        let both = SwapIn { query: true, body: true, ..SwapIn::default() };
        let swaps = Swaps::new(vec![swap("KEY", STAND_IN, "a \"real\" key", "api.test", both)]);
        let swapped = swaps.head(&api, true, &mut HeaderMap::new(), &line).unwrap();
        assert_eq!(swapped.target.unwrap(), "/v1?key=a%20%22real%22%20key");
        let json = fields(&[("content-type", "application/json; charset=utf-8")]);
        let mut body = swaps.body(&api, true, &json).unwrap().unwrap();
        assert!(!body.keeps_length());
        let mut sent = Vec::new();
        for part in format!("{{\"key\": \"{STAND_IN}\"}}").as_bytes().chunks(5) {
            sent.extend(body.push(part).unwrap().unwrap_or_else(|| part.to_vec()));
        }
        sent.extend(body.finish().unwrap());
        assert_eq!(String::from_utf8(sent).unwrap(), "{\"key\": \"a \\\"real\\\" key\"}");
        let packed = fields(&[("content-encoding", "gzip")]);
        assert_eq!(why(swaps.body(&api, true, &packed).map(|_| ())), WhyNot::Encoded);
        let passed = SwapIn { pass_encoded: true, ..both };
        let swaps = Swaps::new(vec![swap("KEY", STAND_IN, REAL, "api.test", passed)]);
        assert!(swaps.body(&api, true, &packed).unwrap().is_none());
    }
}
