//! `credentials` and `network.tlsTerminate`: what they say, and which of it contradicts itself. srt refuses the same.

use std::ffi::OsString;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use super::read::{Reader, SrtTable, inconsistent, text_of, value};
use super::{Mask, MaskSource, SrtTls};
use crate::domain::{HostPattern, HostRule, HostRuleError, ListKind};
use crate::extract::ExtractPattern;
use crate::policy::Origin;
use crate::printed::show;
use crate::secrets::{AuthorityFiles, AwsPair, CannotSign, NoMatch, SecretParts};
use crate::settings::tree::{Fault, Node};
use crate::settings::{Sense, ValueError};

/// The variables that AWS's own programs read, which make a pair without being named.
const USUAL_PAIR: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

impl Reader<'_> {
    pub(super) fn tls_terminate(&mut self, tls: &SrtTable<'_, '_>) -> Result<(), Fault> {
        let path = |key| -> Result<Option<PathBuf>, Fault> {
            let text = tls.get(key).map(|node| text_of(&tls.name(key), node)).transpose()?;
            Ok(text.map(|text| self.base.folder.join(text)))
        };
        let authority = match (path("caCertPath")?, path("caKeyPath")?) {
            (Some(certificate), Some(key)) => Some(AuthorityFiles { certificate, key }),
            (None, None) => None,
            _ => return Err(inconsistent(&tls.name, tls.node, "caCertPath and caKeyPath are used together")),
        };
        let mut exclude = Vec::new();
        for item in tls.list("excludeDomains")? {
            exclude.push(self.whole_host(&tls.name("excludeDomains"), item)?);
        }
        let mut extra_ca = Vec::new();
        for item in tls.list("extraCaCertPaths")? {
            extra_ca.push(self.base.folder.join(text_of(&tls.name("extraCaCertPaths"), item)?));
        }
        let timeout = tls.number("handshakeTimeoutMs");
        self.settings.tls = Some(SrtTls {
            authority,
            exclude,
            extra_ca,
            max_tunnels: tls.number("maxTunnels"),
            handshake_timeout: timeout.map(|milliseconds| Duration::from_millis(milliseconds.into())),
        });
        Ok(())
    }

    pub(super) fn credentials(&mut self, credentials: &SrtTable<'_, '_>) -> Result<(), Fault> {
        self.settings.plaintext_inject = credentials.boolean("allowPlaintextInject")?;
        for item in credentials.list("files")? {
            let file = SrtTable::of("credentials.files", item)?;
            self.check_hosts(&file)?;
            let path = file.required("path")?;
            let name = file.name("path");
            if file.word("mode", &["deny", "mask"])? == "deny" {
                let entries = self.entry(&name, path, Sense::Deny)?;
                self.settings.credentials.extend(entries);
                continue;
            }
            let text = text_of(&name, path)?;
            if text.ends_with('/') {
                let why = "mode \"mask\" is for a file; use mode \"deny\" for a folder";
                return Err(inconsistent(&name, path, why));
            }
            // The file of that name, whatever characters it has. Where the home is uncertain, the others are hidden.
            let mut entries = self.entry_of(&name, path, text, true, Sense::Deny)?.into_iter();
            let Some(own) = entries.next() else { continue };
            self.settings.credentials.extend(entries);
            self.mask(&file, MaskSource::File(own.path))?;
        }
        for item in credentials.list("envVars")? {
            let variable = SrtTable::of("credentials.envVars", item)?;
            self.check_hosts(&variable)?;
            let name = OsString::from(text_of(&variable.name("name"), variable.required("name")?)?);
            match variable.word("mode", &["deny", "mask"])? {
                "deny" => self.settings.unset.push(name),
                _ => self.mask(&variable, MaskSource::Variable(name))?,
            }
        }
        if !self.settings.masks.is_empty() && self.settings.tls.is_none() && !self.settings.plaintext_inject {
            let why = "mode \"mask\" needs network.tlsTerminate, so that the real value goes to a verified host only \
                       (or allowPlaintextInject, for tests)";
            return Err(inconsistent("credentials", credentials.node, why));
        }
        self.aws(credentials)
    }

    /// A credential that is masked.
    fn mask(&mut self, credential: &SrtTable<'_, '_>, source: MaskSource) -> Result<(), Fault> {
        let name = credential.name("injectHosts");
        let excluded = |host: &HostPattern| {
            let exclude = self.settings.tls.iter().flat_map(|tls| &tls.exclude);
            exclude.into_iter().any(|rule| rule.host.covers(host))
        };
        let hosts = match credential.get("injectHosts") {
            None => {
                let allowed = &self.settings.allowed;
                if !allowed.is_empty() && allowed.iter().all(|rule| excluded(&rule.host)) {
                    let why = "network.tlsTerminate.excludeDomains has every allowed host, so that none could get it";
                    return Err(inconsistent(&credential.name, credential.node, why));
                }
                None
            }
            Some(node) => {
                let items = credential.list("injectHosts")?;
                if items.is_empty() {
                    let why =
                        "the list is empty, so that no host would get it; leave it out for all allowed hosts";
                    return Err(inconsistent(&name, node, why));
                }
                let mut hosts = Vec::with_capacity(items.len());
                for item in items {
                    let rule = self.whole_host(&name, item)?;
                    if excluded(&rule.host) {
                        let why =
                            "network.tlsTerminate.excludeDomains has this host, so that it would not get it";
                        return Err(inconsistent(&name, item, why));
                    }
                    hosts.push(rule);
                }
                Some(hosts)
            }
        };
        let parts = parts(credential, &source)?;
        let origin = self.origin(credential.node);
        self.settings.masks.push(Mask { source, hosts, parts, origin });
        Ok(())
    }

    /// What says how a credential is masked has to make sense, whether it is masked or not.
    fn check_hosts(&self, credential: &SrtTable<'_, '_>) -> Result<(), Fault> {
        if let (Some(claims), None) = (credential.get("maskClaims"), credential.get("decode")) {
            let why = "it names claims of a decoded value; set decode as well";
            return Err(inconsistent(&credential.name("maskClaims"), claims, why));
        }
        for item in credential.list("injectHosts")? {
            let name = credential.name("injectHosts");
            let rule = self.whole_host(&name, item)?;
            if !self.settings.allowed.iter().any(|allowed| allowed.host.covers(&rule.host)) {
                return Err(inconsistent(&name, item, "network.allowedDomains does not allow this host"));
            }
        }
        Ok(())
    }

    /// A host without a port. An IPv6 address has no brackets here, since no port follows.
    fn whole_host(&self, name: &str, item: &Node<'_>) -> Result<HostRule, Fault> {
        let text = text_of(name, item)?;
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            let host = HostPattern::Ip(std::net::IpAddr::V6(address).to_canonical());
            let rule = HostRule { protocol: None, host, port: None, reason: None, origin: Origin::default() };
            return Ok(rule.from_origin(self.origin(item)));
        }
        if text.starts_with('[') {
            return Err(value(name, item, HostRuleError::Address6(show(text.as_bytes())).into()));
        }
        let rule = self.host(name, item, ListKind::Allow)?;
        match rule.port {
            None => Ok(rule),
            Some(_) => Err(inconsistent(name, item, "the host is meant on every port; write it without one")),
        }
    }

    /// The pairs of variables that are a key of AWS's, and what becomes of requests that cannot be signed again.
    fn aws(&mut self, credentials: &SrtTable<'_, '_>) -> Result<(), Fault> {
        let mut pairs: Vec<AwsPair> = Vec::new();
        let mut seen: Vec<String> = Vec::new();
        for item in credentials.list("awsPairs")? {
            let pair = SrtTable::of("credentials.awsPairs", item)?;
            let mut variable = |key: &'static str| -> Result<Option<String>, Fault> {
                let Some(node) = pair.get(key) else { return Ok(None) };
                let name = pair.name(key);
                let text = text_of(&name, node)?;
                if seen.iter().any(|seen| seen == text) {
                    let why = format!("`{text}` is already part of a pair");
                    return Err(inconsistent(&name, node, &why));
                }
                match self.settings.masked_variable(text) {
                    None => {
                        let why = format!("credentials.envVars does not mask `{text}`");
                        return Err(inconsistent(&name, node, &why));
                    }
                    Some(Mask { parts: Some(_), .. }) => {
                        let why = format!("`{text}` must be masked as a whole, without extract and decode");
                        return Err(inconsistent(&name, node, &why));
                    }
                    Some(_) => {}
                }
                seen.push(text.to_owned());
                Ok(Some(text.to_owned()))
            };
            let (id, secret) = (variable("accessKeyIdVar")?, variable("secretAccessKeyVar")?);
            let session_token = variable("sessionTokenVar")?;
            if let (Some(access_key_id), Some(secret_access_key)) = (id, secret) {
                pairs.push(AwsPair { access_key_id, secret_access_key, session_token });
            }
        }
        let [id, secret, token] = USUAL_PAIR;
        let whole =
            |name: &str| matches!(self.settings.masked_variable(name), Some(Mask { parts: None, .. }));
        if !seen.iter().any(|seen| USUAL_PAIR.contains(&seen.as_str())) {
            if whole(id) && whole(secret) {
                pairs.push(AwsPair {
                    access_key_id: id.to_owned(),
                    secret_access_key: secret.to_owned(),
                    session_token: whole(token).then(|| token.to_owned()),
                });
            } else if whole(secret) {
                let note = format!(
                    "{secret} is masked and {id} is not, so that requests to AWS cannot be signed again and will fail; mask both"
                );
                self.settings.warnings.push(note);
            }
        }
        self.settings.aws.pairs = pairs;
        let Some(node) = credentials.get("sigv4") else { return Ok(()) };
        let sigv4 = SrtTable::of("credentials.sigv4", node)?;
        let policy = |key: &'static str| -> Result<CannotSign, Fault> {
            match sigv4.get(key).is_some() && sigv4.word(key, &["deny", "passthrough"])? == "passthrough" {
                true => Ok(CannotSign::Pass),
                false => Ok(CannotSign::Refuse),
            }
        };
        let (streaming, presigned, sigv4a) = (policy("streaming")?, policy("presigned")?, policy("sigv4a")?);
        let aws = &mut self.settings.aws;
        (aws.streaming, aws.presigned, aws.sigv4a) = (streaming, presigned, sigv4a);
        Ok(())
    }
}

/// Which parts of a credential are secret; `None` if all of it is.
fn parts(credential: &SrtTable<'_, '_>, source: &MaskSource) -> Result<Option<SecretParts>, Fault> {
    let jwt = credential.get("decode").is_some();
    let extract = credential.get("extract").map(|node| {
        let name = credential.name("extract");
        let text = text_of(&name, node)?;
        let error = |error: crate::extract::ExtractError| {
            let (text, expected) = (show(text.as_bytes()), error.to_string());
            value(&name, node, ValueError::Unfit { text, expected })
        };
        ExtractPattern::parse(text).map_err(error)
    });
    let pattern = extract.transpose()?;
    if pattern.is_none() && !jwt {
        return Ok(None);
    }
    let mut claims = Vec::new();
    for item in credential.list("maskClaims")? {
        claims.push(text_of(&credential.name("maskClaims"), item)?.to_owned());
    }
    let no_match = match credential.get("onExtractNoMatch").is_some()
        && credential.word("onExtractNoMatch", &["warn", "deny", "error"])? == "error"
    {
        true => NoMatch::Error,
        // Where srt warns and shows the real value, it is withheld.
        false => NoMatch::Withhold,
    };
    // A variable that is decoded has to be a JWT as a whole, whatever `extract` says.
    let whole = jwt && matches!(source, MaskSource::Variable(_));
    Ok(Some(SecretParts { pattern: pattern.filter(|_| !whole), jwt, claims, no_match }))
}
