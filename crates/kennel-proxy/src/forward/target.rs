//! Which server a request is for. A client either knows that it talks to a proxy and names the server in the request's target, or
//! believes that it talks to the server and names it in `Host`.

use kennel_policy::domain::Host;

use super::refusal::Page;
use crate::http::head::{Field, Request};
use crate::parent::split_authority;
use crate::route::Target;

/// What a request asks for.
pub(crate) struct Wanted {
    pub(crate) target: Target,
    pub(crate) path: String,
}

impl Wanted {
    /// The canonical host for the `Host` field: what was compared is what is asked for.
    pub(crate) fn authority(&self) -> String {
        if self.target.port == 80 {
            let full = self.target.to_string();
            return full.strip_suffix(":80").unwrap_or(&full).to_owned();
        }
        self.target.to_string()
    }
}

/// What CONNECT, plain requests and those of HTTP/2 are told alike.
fn bad(text: &str) -> Page {
    Page::request(400, "Bad Request", text)
}

/// An address that a request names: its scheme, host and port, and path.
fn split(request: &Request) -> Option<(&str, &str, String)> {
    let (scheme, rest) = request.target.split_once("://").filter(|_| !request.target.starts_with('/'))?;
    let split = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(split);
    let path = match path {
        "" if request.method == "OPTIONS" => "*".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    };
    Some((scheme, authority, path))
}

/// The path of a request, in whichever form, to whichever server.
#[cfg(unix)]
pub(crate) fn path(request: &Request) -> Result<String, Page> {
    let path = split(request).map_or_else(|| request.target.clone(), |(_, _, path)| path);
    plain_path(path)
}

fn plain_path(path: String) -> Result<String, Page> {
    match path.starts_with('/') || path == "*" {
        true if path.contains('#') => Err(bad("the address has a fragment, which a request must not have.")),
        true => Ok(path),
        false => Err(bad("the request target is not a path.")),
    }
}

/// `GET http://host/path`, with a `Host` that says the same.
pub(crate) fn absolute_form(request: &Request) -> Result<Wanted, Page> {
    let (scheme, authority, path) = split(request).ok_or_else(|| {
        bad("this is a proxy: a request must name its server, as in `GET http://example.com/`.")
    })?;
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "ws" => named(request, authority, path, 80),
        "https" | "wss" => {
            Err(bad("use CONNECT to reach an https address, so that only its server reads the request."))
        }
        _ => Err(Page::request(501, "Not Implemented", "only http addresses are forwarded.")),
    }
}

/// The server of an address, which is also the one that `Host` names.
fn named(request: &Request, authority: &str, path: String, default_port: u16) -> Result<Wanted, Page> {
    if authority.contains('@') {
        return Err(bad("the address has a user name, which a request must not have."));
    }
    let (host, port) = split_authority(authority, Some(default_port))
        .ok_or_else(|| bad("the address has no valid host."))?;
    let wanted = Wanted { target: Target { host, port }, path: plain_path(path)? };
    agree(&request.fields, &wanted.target, default_port)?;
    Ok(wanted)
}

/// `GET /path`, or the absolute form, over a connection to `target`; the server is the one that the request names, and `target` where
/// nothing does.
pub(crate) fn origin_form(request: &Request, target: &Target, is_encrypted: bool) -> Result<Wanted, Page> {
    if request.method == "CONNECT" {
        // An allowed host that is itself a proxy would carry this to hosts that are not allowed.
        return Err(Page::request(
            405,
            "Method Not Allowed",
            "CONNECT through another server is not supported.",
        ));
    }
    match split(request) {
        Some((scheme, authority, path))
            if is_encrypted && ["https", "wss"].iter().any(|own| scheme.eq_ignore_ascii_case(own)) =>
        {
            return named(request, authority, path, 443);
        }
        Some(_) => return absolute_form(request),
        None => {}
    }
    let path = plain_path(request.target.clone())?;
    let named = match request.fields.iter().find(|field| field.is("host")) {
        None => target.clone(),
        Some(field) => {
            let text = std::str::from_utf8(&field.value).unwrap_or_default();
            // The port that a client left out is the one it connected to.
            let (host, port) = split_authority(text, Some(target.port))
                .ok_or_else(|| bad("the Host field has no valid host."))?;
            Target { host, port }
        }
    };
    Ok(Wanted { target: named, path })
}

/// The `Host` field, where there is one, has to name the target: a server may go by it alone.
pub(crate) fn agree(fields: &[Field], target: &Target, default_port: u16) -> Result<(), Page> {
    let Some(field) = fields.iter().find(|field| field.is("host")) else { return Ok(()) };
    let text = std::str::from_utf8(&field.value).unwrap_or_default();
    let host_only = Host::parse(text).is_ok_and(|host| host == target.host);
    let full = split_authority(text, Some(default_port))
        .is_some_and(|(host, port)| host == target.host && port == target.port);
    if full || host_only {
        return Ok(());
    }
    Err(bad("the Host field names a different server than the request."))
}
