//! What the network gate does with requests, in words, for whoever looks at a plan: secrets, rules about requests, TLS, models.
//! No value of a secret is part of it.

use std::fmt::Display;

use crate::gateway::{Budget, GatewayPolicy, ProviderRule};
use crate::policy::{Origin, Policy};
use crate::printed::show;
use crate::secrets::{SecretMode, SecretRule};

/// Something that the gate does, and the rule behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateWork {
    /// What is done.
    pub what: String,
    /// Where that was set.
    pub origin: Origin,
}

/// All that the gate does with requests, by a policy.
#[must_use]
pub fn of(policy: &Policy) -> Vec<GateWork> {
    let mut list = Vec::new();
    let mut add = |what: String, origin: &Origin| list.push(GateWork { what, origin: origin.clone() });
    for rule in &policy.network.http {
        add(format!("allow requests {rule}"), &rule.host.origin);
    }
    let tls = &policy.network.tls;
    for host in &tls.terminate {
        add(format!("end TLS to {host} at the gate"), &host.origin);
    }
    for host in &tls.exclude {
        add(format!("leave TLS to {host} as it is"), &host.origin);
    }
    for secret in &policy.secrets {
        add(secret_text(secret), &secret.origin);
    }
    for provider in &policy.gateway.providers {
        add(provider_text(provider), &provider.origin);
    }
    let GatewayPolicy { budget, log, log_contents, .. } = &policy.gateway;
    if let Some(limits) = limits(budget) {
        add(format!("limit the model gateway to {limits}"), &Origin("gateway.budget".to_owned()));
    }
    if let Some(log) = log {
        let contents = if *log_contents { " and their contents" } else { "" };
        let log = show(log.as_os_str().as_encoded_bytes());
        add(format!("log requests to models{contents} to {log}"), &Origin("gateway.log".to_owned()));
    }
    list
}

fn secret_text(secret: &SecretRule) -> String {
    let SecretRule { name, source, mode, hosts, variable, files, swap_in, .. } = secret;
    let variable = variable.iter().map(|name| format!("${}", show(name.as_encoded_bytes())));
    let files = files.iter().map(|file| show(file.path.as_os_str().as_encoded_bytes()));
    let places = joined(variable.chain(files));
    match mode {
        SecretMode::Inject => format!("put the secret {name} from {source} into {places}"),
        SecretMode::Swap => {
            let also = [
                (swap_in.query, ", their addresses"),
                (swap_in.body, ", their bodies"),
                (swap_in.plaintext, ", also without TLS"),
            ];
            let also: String = also.into_iter().filter(|(said, _)| *said).map(|(_, text)| text).collect();
            let hosts = joined(hosts);
            format!(
                "put a stand-in into {places}, and the secret {name} from {source} into requests to {hosts}{also}"
            )
        }
    }
}

fn provider_text(provider: &ProviderRule) -> String {
    let ProviderRule { name, api, key, upstream, models, budget, .. } = provider;
    let mut text = format!("lead clients of {} to {name} at {upstream}", api.word());
    match key {
        Some(key) => text.push_str(&format!(" with the key from {key}")),
        None => text.push_str(" without a key"),
    }
    if !models.is_empty() {
        text.push_str(&format!(", models {}", joined(models)));
    }
    if let Some(limits) = limits(budget) {
        text.push_str(&format!(", at most {limits}"));
    }
    text
}

fn limits(budget: &Budget) -> Option<String> {
    let Budget { requests, input_tokens, output_tokens, tokens, bytes, cost } = budget;
    let counts = [
        (requests, "requests"),
        (input_tokens, "input tokens"),
        (output_tokens, "output tokens"),
        (tokens, "tokens"),
        (bytes, "bytes"),
    ];
    let counts = counts.into_iter().filter_map(|(limit, what)| Some(format!("{} {what}", (*limit)?)));
    let limits: Vec<String> = counts.chain(cost.map(|cost| format!("a cost of {cost}"))).collect();
    (!limits.is_empty()).then(|| limits.join(", "))
}

fn joined(items: impl IntoIterator<Item = impl Display>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::{Sources, merge};
    use crate::settings::{Base, Format, Provenance, Settings, parse};

    #[test]
    fn a_plan_tells_what_becomes_of_secrets_and_requests() {
        let text = "[secrets.GITHUB_TOKEN]\n\
                    [secrets.acme]\nfrom = \"command:pass show hunter2\"\nhosts = [\"a.test\"]\nfiles = [\"/k\"]\nbody = true\n\
                    [secrets.seen]\nmode = \"inject\"\n\
                    [network]\nallow = [\"GET docs.rs/*\"]\nterminate = [\"x.test\"]\nno_terminate = [\"y.test\"]\n\
                    [gateway]\nbudget = { requests = 5, cost = 2.5 }\nlog = \"/l\"\nprices.m = { input = 1, output = 2 }\n\
                    [gateway.anthropic]\nmodels = [\"claude-*\"]\n[gateway.ollama]\nbudget.tokens = 9";
        let base = Base::new("/work", None);
        let flags = parse(text.as_bytes(), Format::Toml, Provenance::File("f"), &base).unwrap();
        let policy = merge(Sources::flags(base, flags)).unwrap().policy;
        let lines: Vec<String> =
            of(&policy).into_iter().map(|work| format!("{}  # {}", work.what, work.origin)).collect();
        assert_eq!(
            lines,
            [
                "allow requests GET docs.rs/*  # f:10",
                "end TLS to x.test at the gate  # f:11",
                "leave TLS to y.test as it is  # f:12",
                "put a stand-in into $GITHUB_TOKEN, and the secret GITHUB_TOKEN from env:GITHUB_TOKEN into requests to github.com, api.github.com  # f:1",
                "put a stand-in into /k, and the secret acme from command:pass … into requests to a.test, their bodies  # f:2",
                "put the secret seen from env:seen into $seen  # f:7",
                "lead clients of anthropic to anthropic at https://api.anthropic.com with the key from env:ANTHROPIC_API_KEY, models claude-*  # f:17",
                "lead clients of ollama to ollama at http://127.0.0.1:11434 without a key, at most 9 tokens  # f:19",
                "limit the model gateway to 5 requests, a cost of 2.5  # gateway.budget",
                "log requests to models to /l  # gateway.log",
            ]
        );
        assert_eq!(of(&merge(Sources::flags(Base::default(), Settings::default())).unwrap().policy), []);
    }
}
