//! The secrets of a sandbox: where real values are read, what the command gets in their place, and what the gate is told.
//!
//! All of this happens when PID 1 is born, so that it holds nothing of what was read. Real values live in [`SecretValue`]s, which
//! the gate's [`Inspector`] and [`Gateway`] hold for as long as the sandbox runs.

mod gateway;
mod held;
mod java;
mod masks;
pub(crate) mod memory;
mod parts;
mod place;
mod program;
mod source;
mod trust;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kennel_policy::gateway::ProviderRule;
use kennel_policy::merge::Contradiction;
use kennel_policy::policy::Policy;
#[cfg(target_os = "linux")]
use kennel_policy::secret_files::{SYSTEM_BUNDLES, SYSTEM_JAVA_STORES};
use kennel_policy::secrets::{SecretMode, SecretRule, SecretSource};
use kennel_proxy::gateway::{Gateway, GatewayError};
use kennel_proxy::secrets::{
    MaskError, Replacements, SecretValue, StandInError, Swap, replacements, stand_in_for,
};
use kennel_proxy::{Authority, AuthorityError, Inspect, Inspector, Roots, RootsError};

use crate::SandboxError;
use crate::error::Cause;
use held::WriteRoots;
use parts::Found;
use source::{Reader, SourceError};
pub(crate) use trust::{BUNDLE, JAVA_STORE};

/// Why a sandbox cannot have its secrets.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("reading the secret {name} from {from}: {why}")]
    Source { name: String, from: String, why: SourceError },
    #[error(
        "making a stand-in for the secret {name}: {why}\nhelp: check where it comes from, or use `mode = \"inject\"`"
    )]
    StandIn { name: String, why: StandInError },
    #[error(
        "masking parts of the secret {name}: {why}\nhelp: check the expression and where the value comes from"
    )]
    Parts { name: String, why: MaskError },
    #[error("masking {} for the secret {name}: {why}\nhelp: name a regular file of at most 1 MiB", path.display())]
    File { name: String, path: PathBuf, why: String },
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
    #[error("preparing the sandbox's certificate: {0}")]
    Authority(#[from] AuthorityError),
    #[error("reading the certificate authority {}: {why}\nhelp: name a certificate and its key, both in PEM", path.display())]
    AuthorityFile { path: PathBuf, why: String },
    #[error(transparent)]
    Roots(#[from] RootsError),
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    #[error("opening the gateway's log {}: {why}\nhelp: name a file in a folder that you can write", path.display())]
    Log { path: PathBuf, why: std::io::Error },
    #[error("preparing memory for secrets: {0}")]
    Memory(#[from] std::io::Error),
}

impl From<SecretError> for SandboxError {
    fn from(error: SecretError) -> SandboxError {
        match error {
            SecretError::Contradiction(error) => SandboxError::ConfigValidation(Cause::of(error)),
            error => SandboxError::Setup(Cause::of(error)),
        }
    }
}

/// Takes real values out of a text; `None` for one that holds none.
type WithoutSecrets = Box<dyn Fn(&OsStr) -> Option<OsString> + Send + Sync>;

/// What a sandbox gets in the place of secrets, and what its gate is told.
#[derive(Default)]
pub(crate) struct SandboxSecrets {
    /// Variables of the command.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Files of kennel's own inside, by their names.
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
    /// What other files show.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only mounts show something else"))]
    pub(crate) masked: Vec<(PathBuf, Vec<u8>)>,
    /// Takes real values out of what the command gets.
    pub(crate) without_secrets: Option<WithoutSecrets>,
    /// What the user is told.
    pub(crate) warnings: Vec<String>,
    /// What the gate reads of requests.
    pub(crate) inspector: Option<Arc<Inspector>>,
    /// Variables that the command does not get.
    pub(crate) unset: Vec<OsString>,
    /// The way to models.
    pub(crate) gateway: Option<Arc<Gateway>>,
}

/// What opens a provider, and what stands for it inside.
struct ProviderKey {
    token: String,
    key: Option<SecretValue>,
}

/// A secret that has been read.
struct Read<'p> {
    rule: &'p SecretRule,
    value: SecretValue,
    /// Empty for one that the command gets itself.
    stand_in: String,
}

/// Whether a policy asks for anything of this.
pub(crate) fn are_wanted(policy: &Policy) -> bool {
    !policy.secrets.is_empty() || policy.reads_requests()
}

/// Says what cannot be, before anything is read. Merging says it too; this is for policies that were made elsewhere.
pub(crate) fn check(policy: &Policy) -> Result<(), SecretError> {
    Ok(kennel_policy::merge::check(policy)?)
}

/// Reads what a policy names and prepares all that depends on it. `folder` is where files of kennel's own are inside,
/// `gateway_address` where clients find each provider of the gateway, and `environment` the caller's.
pub(crate) fn read<'e>(
    policy: &Policy,
    environment: &(impl Iterator<Item = (&'e OsStr, &'e OsStr)> + Clone),
    folder: &Path,
    gateway_address: impl Fn(usize) -> String,
) -> Result<SandboxSecrets, SecretError> {
    let variable = |name: &OsStr| environment.clone().find(|(own, _)| *own == name).map(|(_, value)| value);
    let reader = Reader { variable, keep_fds: &policy.process.keep_fds, roots: WriteRoots::of(policy) };
    let secrets =
        policy.secrets.iter().map(|rule| parts::find(&reader, rule)).collect::<Result<Vec<_>, _>>()?;
    let keys = policy
        .gateway
        .providers
        .iter()
        .map(|provider| provider_key(&reader, provider))
        .collect::<Result<Vec<_>, _>>()?;
    let swaps: Vec<Swap> = secrets.iter().flat_map(Found::swaps).collect();
    let all = Arc::new(replacements(&[swaps.clone(), of_providers(policy, &keys)].concat())?);
    let mut made = SandboxSecrets {
        masked: masks::masked(policy, &reader.roots, &secrets, &all)?,
        without_secrets: without(all),
        ..SandboxSecrets::default()
    };
    for one in &secrets {
        match one {
            Found::Whole(read) => {
                made.variables.extend(read.rule.variable.iter().map(|name| (name.clone(), read.shown())));
            }
            Found::Parts(rule, masked) => {
                let shown = || OsString::from(masked.shown.clone());
                made.variables.extend(rule.variable.iter().map(|name| (name.clone(), shown())));
            }
            Found::Withheld(rule, _) => made.unset.extend(rule.variable.clone()),
            Found::Nothing => {}
        }
        made.warnings.extend(one.warning());
    }
    let mut authority = None;
    let roots = Arc::new(Roots::load(&policy.network.tls.extra_ca, environment.clone())?);
    if policy.terminates_tls() {
        let own = Arc::new(match &policy.network.tls.authority {
            Some(files) => parts::authority(&reader.roots, files)?,
            None => Authority::new()?,
        });
        let bundle = roots.pem_with(&own);
        let java = wants_java(policy, &reader.variable);
        made.variables.extend(trust::variables(
            folder,
            java.then(|| (reader.variable)(OsStr::new("JAVA_TOOL_OPTIONS"))),
        ));
        let store = (java || policy.network.tls.system_bundles).then(|| java::store(&bundle));
        if let (Some(store), true) = (&store, java) {
            made.files.push((JAVA_STORE, store.clone()));
        }
        #[cfg(target_os = "linux")]
        if policy.network.tls.system_bundles {
            made.masked.extend(system_bundles(&bundle, &store.unwrap_or_default()));
        }
        made.files.push((BUNDLE, bundle.into_bytes()));
        authority = Some(own);
    }
    made.gateway = gateway::gateway(&policy.gateway, &keys, &roots, &reader.roots)?;
    let gateway::Variables { set, unset } = gateway::variables(&policy.gateway, &keys, gateway_address);
    made.variables.extend(set);
    made.unset.extend(unset);
    if policy.inspects() {
        let (network, tls) = (&policy.network, &policy.network.tls);
        // A secret key of AWS signs and is never sent: its stand-in stays what it is, wherever it stands as text.
        let signs = |swap: &Swap| tls.aws.pairs.iter().any(|pair| pair.secret_access_key == swap.name);
        let swaps = swaps.into_iter().filter(|swap| !signs(swap)).collect();
        made.inspector = Some(Arc::new(Inspector::new(Inspect {
            swaps,
            http: network.http.clone(),
            terminate: tls.terminate.clone(),
            exclude: tls.exclude.clone(),
            authority,
            roots,
            strip_response_headers: tls.strip_response_headers.clone(),
            refuse_opaque: tls.refuse_opaque,
            aws: parts::aws_keys(&tls.aws, &secrets),
            max_connections: tls.max_connections,
            handshake_timeout: tls.handshake_timeout,
        })?));
    }
    memory::scrub_stack();
    Ok(made)
}

/// The same for a plan, for which nothing is read: only what shows of it.
#[cfg(target_os = "linux")]
pub(crate) fn planned(policy: &Policy) -> Vec<&'static str> {
    if policy.terminates_tls() { vec![BUNDLE] } else { Vec::new() }
}

fn secret<'p, 'v, V: Fn(&OsStr) -> Option<&'v OsStr>>(
    reader: &Reader<V>,
    rule: &'p SecretRule,
) -> Result<Read<'p>, SecretError> {
    let name = || rule.name.clone();
    let from = |source: &SecretSource| source.to_string();
    let value = reader.read(&rule.source).map_err(|why| SecretError::Source {
        name: name(),
        from: from(&rule.source),
        why,
    })?;
    let stand_in = match rule.mode {
        SecretMode::Inject => String::new(),
        SecretMode::Swap => {
            stand_in_for(value.expose()).map_err(|why| SecretError::StandIn { name: name(), why })?
        }
    };
    Ok(Read { rule, value, stand_in })
}

fn provider_key<'v, V: Fn(&OsStr) -> Option<&'v OsStr>>(
    reader: &Reader<V>,
    provider: &ProviderRule,
) -> Result<ProviderKey, SecretError> {
    let name = || provider.name.clone();
    let Some(source) = &provider.key else {
        let token = stand_in_for(&[b'x'; 32]).map_err(|why| SecretError::StandIn { name: name(), why })?;
        return Ok(ProviderKey { token, key: None });
    };
    let key = reader.read(source).map_err(|why| SecretError::Source {
        name: name(),
        from: source.to_string(),
        why,
    })?;
    let token = stand_in_for(key.expose()).map_err(|why| SecretError::StandIn { name: name(), why })?;
    Ok(ProviderKey { token, key: Some(key) })
}

impl Read<'_> {
    fn swap(&self) -> Swap {
        Swap {
            name: self.rule.name.clone(),
            stand_in: self.stand_in.clone(),
            value: self.value.clone(),
            hosts: self.rule.hosts.clone(),
            swap_in: self.rule.swap_in,
        }
    }

    /// What its variable holds inside.
    fn shown(&self) -> OsString {
        match self.rule.mode {
            SecretMode::Inject => OsStr::from_bytes(self.value.expose()).to_owned(),
            SecretMode::Swap => self.stand_in.clone().into(),
        }
    }
}

/// The providers' keys as secrets, for the search in what the command gets: they are bound to no host.
fn of_providers(policy: &Policy, keys: &[ProviderKey]) -> Vec<Swap> {
    let of = |(provider, key): (&ProviderRule, &ProviderKey)| {
        Some(Swap {
            name: provider.name.clone(),
            stand_in: key.token.clone(),
            value: key.key.clone()?,
            hosts: Vec::new(),
            swap_in: Default::default(),
        })
    };
    policy.gateway.providers.iter().zip(keys).filter_map(of).collect()
}

/// The same key may be in several variables, or in a word of the command: the command gets it in none.
fn without(all: Arc<Replacements>) -> Option<WithoutSecrets> {
    if all.is_empty() {
        return None;
    }
    Some(Box::new(move |text| {
        let text = text.as_bytes();
        all.occur_in(text).then(|| OsString::from_vec(all.in_text(text).0))
    }))
}

/// Java prints a line about its options at each start, so they are set only where there is a Java.
fn wants_java<'v>(policy: &Policy, variable: &impl Fn(&OsStr) -> Option<&'v OsStr>) -> bool {
    policy.network.tls.system_bundles
        || variable(OsStr::new("JAVA_HOME")).is_some()
        || variable(OsStr::new("PATH"))
            .is_some_and(|path| std::env::split_paths(path).any(|folder| folder.join("java").exists()))
}

/// What stands over the system's bundles.
#[cfg(target_os = "linux")]
fn system_bundles(bundle: &str, store: &[u8]) -> Vec<(PathBuf, Vec<u8>)> {
    let over = |paths: &[&str], contents: &[u8]| -> Vec<(PathBuf, Vec<u8>)> {
        let there = paths.iter().map(Path::new).filter(|path| path.is_file());
        there.map(|path| (path.to_path_buf(), contents.to_vec())).collect()
    };
    let mut all = over(SYSTEM_BUNDLES, bundle.as_bytes());
    all.extend(over(SYSTEM_JAVA_STORES, store));
    all
}
