//! What a policy means, in about ten lines for a person: what `kennel plan` shows first.

use std::fmt::Display;
use std::path::Path;

use kennel_policy::domain::{HostPattern, HostRule};
use kennel_policy::policy::{
    EnvironmentBase, FilePolicy, GitLevel, HomeMode, Limits, MountAccess, NetworkMode, Origin, PathRule,
    Policy, ReadModel, SecretVariables, TmpMode, UnixSockets,
};
use kennel_policy::settings::{Base, Stated};

use super::stats::bytes;

/// The most entries of a list in one line.
const MAX_SHOWN: usize = 6;
/// Where the text of a line starts.
const COLUMN: usize = 13;

/// What a policy means. `base` says what is called `~` and where the command starts, `withheld` are the names of variables that stay
/// outside, `answers` are those to questions that would be put, and `only`
/// the lists that started anew.
pub fn summary<'p>(
    policy: &'p Policy,
    base: &Base,
    withheld: &[String],
    answers: &[(String, Origin)],
    only: &[Stated<&'static str>],
) -> String {
    let (files, home) = (&policy.files, base.home.as_deref());
    let shown = |path: &Path| match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    };
    // What is said below `~` holds in every home that is known, and is shown once.
    let is_twin = |rule: &PathRule, rules: &[PathRule]| {
        let path = rule.pattern.as_path();
        let below = base.other_homes.iter().find_map(|other| path.strip_prefix(other).ok());
        below.zip(home).is_some_and(|(below, home)| {
            let first = home.join(below);
            rules.iter().any(|other| other.pattern.as_path() == first)
        })
    };
    // Where a folder of kennel's stands in its place, nobody meets the rule.
    let is_under = |rule: &PathRule| files.mounts.iter().any(|mount| mount.target == rule.pattern.as_path());
    let paths = |rules: &'p [PathRule]| {
        let told = rules.iter().filter(|rule| !is_twin(rule, rules) && !is_under(rule));
        told.map(|rule| (shown(rule.pattern.as_path()), &rule.origin)).collect::<Vec<_>>()
    };
    let mut text = String::new();
    let mut line = |name: &str, what: String| text.push_str(&format!("{name:COLUMN$}{what}\n"));

    if let Some(only) = list(only.iter().map(|list| (list.value.to_owned(), &list.origin))) {
        line("anew", format!("{only}: nothing of weaker sources and profiles in it"));
    }
    line("starts in", shown(policy.process.workdir.as_deref().unwrap_or(&base.folder)));
    let mounted = files.mounts.iter().filter(|mount| mount.access == MountAccess::ReadWrite);
    let mounted =
        mounted.map(|mount| (format!("{} as {}", shown(&mount.source), shown(&mount.target)), &mount.origin));
    let writes = list(paths(&files.allow_write).into_iter().chain(mounted));
    let fresh =
        if files.tmp == TmpMode::Private { "a fresh /tmp, gone at the end" } else { "the host's /tmp" };
    let home_is_fresh = (files.home == HomeMode::Private).then(|| "a fresh home around it".to_owned());
    line(
        "writes",
        [writes, home_is_fresh, Some(fresh.to_owned())].into_iter().flatten().collect::<Vec<_>>().join("; "),
    );
    let kept = [list(paths(&files.deny_write)), kept(files)];
    if let Some(kept) = joined(kept) {
        line("but not", kept);
    }
    let reads = match (files.reads, files.home) {
        (ReadModel::Listed, _) => list(paths(&files.allow_read)).map_or_else(
            || "what is written, and the system's own files".to_owned(),
            |list| format!("only {list}, what is written, and the system's own files"),
        ),
        (ReadModel::Open, HomeMode::Private) => {
            let more = list(paths(&files.allow_read)).map(|list| format!(", and {list}")).unwrap_or_default();
            format!("everything outside of homes; of the home what toolchains need{more}")
        }
        (ReadModel::Open, HomeMode::Host) => "everything that is not hidden".to_owned(),
    };
    line("reads", reads);
    if let Some(hidden) = list(paths(&files.deny_read)) {
        line("hidden", hidden);
    }
    line("network", network(policy, answers));
    if let Some(secrets) = secrets(policy) {
        line("secrets", secrets);
    }
    line("limits", limits(&policy.limits));
    let outside = match withheld.is_empty() {
        true => match (policy.environment.base, policy.environment.secrets) {
            (EnvironmentBase::Clear, _) => "only PATH, HOME and the like, and what rules name".to_owned(),
            (_, SecretVariables::Withhold) => "none of yours looks like a secret".to_owned(),
            (_, SecretVariables::Pass) => "yours pass, also secrets".to_owned(),
        },
        false => format!("kept outside: {}", names(withheld)),
    };
    line("variables", outside);
    if policy.best_effort {
        line(
            "not enforced",
            "what this host cannot enforce (--best-effort); `kennel doctor` lists that, and the end of a run"
                .to_owned(),
        );
    }
    text
}

/// The first of a list, each group with the rule that says so.
fn list<'o>(entries: impl IntoIterator<Item = (String, &'o Origin)>) -> Option<String> {
    let entries: Vec<(String, String)> =
        entries.into_iter().map(|(what, origin)| (what, source(origin))).collect();
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (what, origin) in &entries {
        match groups.iter_mut().find(|(own, _)| own == origin) {
            Some((_, list)) => list.push(what),
            None => groups.push((origin, vec![what])),
        }
    }
    let groups: Vec<String> =
        groups.into_iter().map(|(origin, list)| format!("{} ({origin})", names(&list))).collect();
    joined([Some(groups.join(", ")).filter(|text| !text.is_empty())])
}

/// Where a rule comes from, without the line.
fn source(origin: &Origin) -> String {
    let text = origin.to_string();
    match text.rsplit_once(':') {
        Some((file, line)) if line.bytes().all(|byte| byte.is_ascii_digit()) => file.to_owned(),
        _ => text,
    }
}

fn names<T: Display>(list: &[T]) -> String {
    let shown = list.iter().take(MAX_SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match list.len().saturating_sub(MAX_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn joined(parts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// What stays as it is in all folders that can be written.
fn kept(files: &FilePolicy) -> Option<String> {
    if files.allow_write.is_empty() {
        return None;
    }
    let git = match files.git {
        GitLevel::Off => None,
        GitLevel::MetadataReadOnly => Some(".git".to_owned()),
        GitLevel::HooksAndConfigReadOnly => Some("git's hooks and configuration".to_owned()),
        GitLevel::HooksReadOnly => Some("git's hooks".to_owned()),
    };
    joined([git, files.kept_names.as_ref().map(|_| "names that shells, editors and agents obey".to_owned())])
}

fn network(policy: &Policy, answers: &[(String, Origin)]) -> String {
    let network = &policy.network;
    let host = |rule: &HostRule| rule.to_string();
    let mode = match network.mode {
        NetworkMode::Host => "the host's, without rules".to_owned(),
        NetworkMode::None => "none".to_owned(),
        NetworkMode::AllowList | NetworkMode::Public => {
            let public = (network.mode == NetworkMode::Public).then(|| "every public address".to_owned());
            let hosts = network.allow.iter().map(|rule| (host(rule), &rule.origin));
            let requests = network.http.iter().map(|rule| (rule.to_string(), &rule.host.origin));
            let answered = answers.iter().map(|(what, origin)| (what.clone(), origin));
            let ask = network.ask.then(|| "other hosts after a question".to_owned());
            joined([public, list(hosts.chain(requests).chain(answered)), ask])
                .unwrap_or_else(|| "no host is allowed".to_owned())
        }
    };
    // An address that a name leads to can be reached by who knows it, where all addresses can.
    let is_name = |rule: &&HostRule| match rule.host {
        HostPattern::Ip(_) | HostPattern::Net(..) | HostPattern::Any => false,
        _ => network.mode == NetworkMode::Public,
    };
    let denied = |names: bool| {
        let rules = network.deny.iter().filter(|rule| network.mode.is_gated() && is_name(rule) == names);
        list(rules.map(|rule| (host(rule), &rule.origin)))
    };
    let by_name = denied(true).map(|list| format!("never by the name {list}"));
    let denied = denied(false).map(|list| format!("never {list}"));
    let ports: Vec<String> = network.publish.iter().map(ToString::to_string).collect();
    let ports = (!ports.is_empty()).then(|| format!("published ports {}", names(&ports)));
    let sockets = match network.unix_sockets {
        UnixSockets::None => None,
        UnixSockets::All => Some("all unix sockets".to_owned()),
        _ => list(network.allow_unix_sockets.iter().map(|rule| (rule.pattern.to_string(), &rule.origin)))
            .map(|list| format!("unix sockets {list}")),
    };
    let budget = list(network.budget.iter().map(|limit| {
        let way = if limit.measure.is_out() { "out" } else { "in" };
        (format!("{limit} {way}"), &limit.origin)
    }));
    let budget = budget.map(|list| format!("at most {list}"));
    joined([Some(mode), denied, by_name, ports, sockets, budget]).unwrap_or_default()
}

fn secrets(policy: &Policy) -> Option<String> {
    let used = policy.secrets.iter().map(|secret| {
        let hosts: Vec<String> = secret.hosts.iter().map(ToString::to_string).collect();
        match hosts.is_empty() {
            true => secret.name.clone(),
            false => format!("{} for {}", secret.name, names(&hosts)),
        }
    });
    let used: Vec<String> = used.collect();
    let models: Vec<&str> = policy.gateway.providers.iter().map(|provider| provider.name.as_str()).collect();
    joined([
        (!used.is_empty()).then(|| names(&used)),
        (!models.is_empty()).then(|| format!("the keys of {}, by the gateway", names(&models))),
    ])
}

fn limits(limits: &Limits) -> String {
    let parts = [
        limits.memory.map(|amount| format!("memory {}", bytes(amount))),
        limits.cpus.map(|count| format!("{count} CPUs")),
        limits.wall_time.map(|time| format!("{time:?}")),
        limits.cpu_time.map(|time| format!("{time:?} of CPU time a process")),
        limits.pids.map(|count| format!("{count} processes")),
        limits
            .open_files
            .filter(|count| *count != u32::MAX)
            .map(|count| format!("{count} open files a process")),
        limits.file_size.map(|amount| format!("files of {}", bytes(amount))),
        limits.output.map(|amount| format!("output of {}", bytes(amount))),
        limits.tmp_size.map(|amount| format!("/tmp of {}", bytes(amount))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "none of yours".to_owned() } else { parts.join(", ") }
}
