//! The SDKs: where they are installed, how they are told of keys and servers, and what each says of a round.

use std::path::PathBuf;
use std::process::Command;

use kennel_tests::{Ran, Scratch, program, ran_within, skipped, world};
use serde_json::Value;

use crate::secrets::{LONG, Upstream, plain};

/// What the upstream's models say.
pub const TEXT: &str = "The kennel keeps the keys for the hound.";
/// The tokens that the upstream reports: in, out.
pub const TOKENS: (u64, u64) = (25, 15);

/// An SDK.
#[derive(Debug)]
pub struct Sdk {
    /// Its name, here and in the models that it asks for.
    pub name: &'static str,
    /// The provider, as the gateway and the upstream's keys call it.
    pub provider: &'static str,
    /// The variable that it takes its key from.
    pub key: &'static str,
    /// The host that it talks to unless told otherwise.
    pub host: &'static str,
    /// Where the key arrives.
    pub place: &'static str,
    /// The error that it raises for 429.
    pub limited: &'static str,
    /// All that it can do here.
    pub actions: &'static [&'static str],
    /// Where its package is, below the folder of clients.
    package: &'static str,
    program: &'static str,
    script: (&'static str, &'static str),
}

/// Anthropic's for Python.
pub const ANTHROPIC: Sdk = Sdk {
    name: "anthropic-python",
    provider: "anthropic",
    key: "ANTHROPIC_API_KEY",
    host: "api.anthropic.com",
    place: "authorization",
    limited: "RateLimitError",
    actions: &["whole", "stream", "count"],
    package: "python/anthropic",
    program: "python3",
    script: ("anthropic.py", include_str!("clients/anthropic.py")),
};

/// Its major before, which sends the key in another header field.
pub const ANTHROPIC_PREVIOUS: Sdk = Sdk {
    name: "anthropic-python-previous",
    place: "x-api-key",
    package: "python-previous/anthropic",
    ..ANTHROPIC
};

/// Anthropic's for Node.
pub const ANTHROPIC_NODE: Sdk = Sdk {
    name: "anthropic-node",
    actions: &["whole", "stream"],
    package: "node_modules/@anthropic-ai/sdk",
    program: "node",
    script: ("anthropic.cjs", include_str!("clients/anthropic.cjs")),
    ..ANTHROPIC
};

/// Its major before.
pub const ANTHROPIC_NODE_PREVIOUS: Sdk = Sdk {
    name: "anthropic-node-previous",
    place: "x-api-key",
    package: "node_modules/anthropic-previous",
    ..ANTHROPIC_NODE
};

/// OpenAI's for Python.
pub const OPENAI: Sdk = Sdk {
    name: "openai-python",
    provider: "openai",
    key: "OPENAI_API_KEY",
    host: "api.openai.com",
    actions: &["whole", "stream", "responses", "responses-stream"],
    package: "python/openai",
    script: ("openai.py", include_str!("clients/openai.py")),
    ..ANTHROPIC
};

/// OpenAI's for Node.
pub const OPENAI_NODE: Sdk = Sdk {
    name: "openai-node",
    package: "node_modules/openai",
    program: "node",
    script: ("openai.cjs", include_str!("clients/openai.cjs")),
    ..OPENAI
};

/// Google's for Python.
pub const GEMINI: Sdk = Sdk {
    name: "gemini-python",
    provider: "gemini",
    key: "GEMINI_API_KEY",
    host: "generativelanguage.googleapis.com",
    place: "x-goog-api-key",
    limited: "ClientError",
    actions: &["whole", "stream"],
    package: "python/google/genai",
    script: ("gemini.py", include_str!("clients/gemini.py")),
    ..ANTHROPIC
};

/// The folder that `cargo xtask test` installs packages in.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("KENNEL_CLIENTS").map(PathBuf::from).filter(|folder| folder.is_dir())
}

/// Where Python and Node find the packages.
pub fn variables() -> Vec<(&'static str, PathBuf)> {
    let clients = folder().unwrap_or_default();
    vec![("PYTHONPATH", clients.join("python")), ("NODE_PATH", clients.join("node_modules"))]
}

impl Sdk {
    /// Whether it is installed; else says so.
    pub fn is_installed(&self) -> bool {
        let is_there = folder().is_some_and(|folder| folder.join(self.package).is_dir());
        if !is_there || program(self.program).is_none() {
            skipped(&format!("{} is not installed (KENNEL_CLIENTS)", self.name));
            return false;
        }
        true
    }

    /// The model to ask for, by a word of the test's own: the upstream's log is searched for it.
    pub fn model(&self, word: &str, trick: &str) -> String {
        let trick = if trick.is_empty() { String::new() } else { format!("-{trick}") };
        format!("{word}-{}-stand-in{trick}", self.name)
    }

    /// The words that do these actions, after the script was put into a folder.
    pub fn words(&self, home: &Scratch, actions: &[String]) -> Vec<String> {
        // Under the name of its package it would be taken for the package.
        let name = format!("client-{}", self.script.0);
        let script = home.write(&name, self.script.1).display().to_string();
        let program = match self.program {
            "python3" => world::python().unwrap_or_default().display().to_string(),
            other => other.to_owned(),
        };
        // One of the packages is beside the others.
        let (clients, package) = (folder().unwrap_or_default(), self.package);
        let previous = clients.join("python-previous").display().to_string();
        let path = if package.starts_with("python-previous") {
            format!("PYTHONPATH={previous}")
        } else {
            String::new()
        };
        let package = format!("PACKAGE={}", package.strip_prefix("node_modules/").unwrap_or(package));
        let mut words = vec!["env".to_owned(), package];
        words.extend([path].into_iter().filter(|word| !word.is_empty()));
        words.extend([program, script]);
        words.extend(actions.iter().cloned());
        words
    }

    /// All its actions with one model.
    pub fn all(&self, model: &str) -> Vec<String> {
        self.actions.iter().map(|action| format!("{action}:{model}")).collect()
    }

    /// Does actions without kennel, with the real key.
    pub fn outside(&self, upstream: &Upstream, actions: &[String]) -> Vec<Value> {
        let home = Scratch::new();
        let words = self.words(&home, actions);
        let mut command = Command::new(&words[0]);
        plain(&mut command, &home);
        command.args(&words[1..]).env(self.key, upstream.key(self.provider));
        command.env("SSL_CERT_FILE", upstream.authority()).env("NODE_EXTRA_CA_CERTS", upstream.authority());
        lines(&ran_within(LONG, &mut command).ok())
    }

    /// Fails the test unless these are the answers to all actions, whole and in pieces.
    #[track_caller]
    pub fn check_round(&self, upstream: &Upstream, model: &str, said: &[Value]) {
        assert_eq!(said.len(), self.actions.len(), "{}: {said:#?}", self.name);
        let requests = upstream.requests(model);
        for (action, said) in self.actions.iter().zip(said) {
            let about = format!("{} {action}: {said:#}", self.name);
            assert_eq!(said["in"], TOKENS.0, "{about}");
            if *action == "count" {
                continue;
            }
            assert_eq!(said["text"], TEXT, "{about}");
            assert_eq!(said["out"], TOKENS.1, "{about}");
            let Some(times) = said["times"].as_array() else { continue };
            assert_eq!(times.len(), TEXT.split_inclusive(' ').count(), "each event by itself: {about}");
            // Nothing waits for the end: the first had arrived before the last was sent.
            let arrived = times[0].as_f64().unwrap_or(f64::MAX);
            let sent = requests.iter().filter_map(|one| one["sent"].as_array()?.last()?.as_f64());
            assert!(
                sent.into_iter().any(|last| arrived < last && arrived > last - 5_000.0),
                "{about} {requests:#?}"
            );
        }
        assert_eq!(requests.len(), self.actions.len(), "{}: {requests:#?}", self.name);
        for request in &requests {
            assert_eq!(request["real"], self.provider, "the real key arrived: {request:#}");
            let places: Vec<&Value> =
                request["credentials"].as_array().into_iter().flatten().map(|one| &one[0]).collect();
            assert_eq!(places, [self.place], "where the client sends it, and nowhere else: {request:#}");
        }
    }
}

/// What a client printed, line by line.
#[track_caller]
pub fn lines(ran: &Ran) -> Vec<Value> {
    let read =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}: {ran:#?}"));
    ran.stdout.lines().map(read).collect()
}
