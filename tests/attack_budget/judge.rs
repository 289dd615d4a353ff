//! What came of a round, against the book.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::attack_budget::inside::{Ended, Went};
use crate::attack_budget::policy::{Budget, PRICES, Policy};
use crate::attack_budget::provider::Seen;
use crate::attack_budget::tries::{FORBIDDEN, Least, Protocol, Try};

/// All that is known of a round.
pub struct Evidence<'p> {
    pub seed: u64,
    pub policy: &'p Policy,
    /// How it went for the clients.
    pub clients: BTreeMap<u64, Went>,
    /// What reached the provider.
    pub seen: Vec<Seen>,
    pub log: Vec<Value>,
    pub log_bytes: usize,
    pub report: Value,
}

/// What was found.
pub struct Judged {
    pub asked: u64,
    pub passed: u64,
    /// What kennel took of memory, in KiB.
    pub memory: u64,
    pub findings: Vec<String>,
}

/// What was used, added up.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    requests: u64,
    input: u64,
    output: u64,
    bytes: u64,
    cost: f64,
}

impl Used {
    fn add(&mut self, least: &Least, bytes: u64) {
        self.requests += 1;
        self.input = self.input.saturating_add(least.input);
        self.output = self.output.saturating_add(least.output);
        self.bytes += bytes;
        self.cost += (least.input as f64 * PRICES.0 + least.output as f64 * PRICES.1) / 1e6;
    }

    /// Which budget it exceeds.
    fn spends(&self, budget: &Budget) -> Option<&'static str> {
        let tokens = self.input.saturating_add(self.output);
        let whole = [
            ("requests", budget.requests, self.requests),
            ("input tokens", budget.input, self.input),
            ("output tokens", budget.output, self.output),
            ("tokens", budget.tokens, tokens),
            ("bytes", budget.bytes, self.bytes),
        ];
        let over =
            |(what, limit, used): (_, Option<u64>, u64)| limit.filter(|limit| used >= *limit).map(|_| what);
        // Sums in another order differ in their last digits.
        let cost = budget.cost.filter(|limit| self.cost >= *limit * (1.0 + 1e-9));
        whole.into_iter().find_map(over).or(cost.map(|_| "cost"))
    }
}

/// What a line of a request that reached the provider has to look like: nothing else is known to it.
fn is_known(protocol: Protocol, line: &str) -> bool {
    let Some(path) = line.strip_prefix("POST ").and_then(|rest| rest.strip_suffix(" HTTP/1.1")) else {
        return false;
    };
    match protocol {
        Protocol::OpenAi => {
            matches!(path, "/v1/responses" | "/v1/embeddings" | "/v1/completions" | "/v1/chat/completions")
        }
        Protocol::Anthropic => path == "/v1/messages",
        Protocol::Ollama => path == "/api/chat",
        Protocol::Gemini => {
            let call = path.strip_prefix("/v1beta/models/small-").and_then(|rest| rest.split_once(':'));
            call.is_some_and(|(number, verb)| {
                number.bytes().all(|byte| byte.is_ascii_digit())
                    && matches!(
                        verb.split_once('?').map_or(verb, |(verb, _)| verb),
                        "generateContent" | "streamGenerateContent"
                    )
            })
        }
    }
}

/// A text as anybody may read it: with escapes of JSON and of addresses undone, in small letters.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (digits, length) = match c {
            '\\' if rest[1..].starts_with('u') => (rest.get(2..6), 6),
            '%' => (rest.get(1..3), 3),
            _ => (None, 0),
        };
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
        match code {
            Some(code) => {
                out.push(code);
                rest = &rest[length..];
            }
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out.to_lowercase()
}

/// Compares.
pub fn judge(evidence: &Evidence<'_>) -> Judged {
    let Evidence { seed, policy, clients, seen, log, report, .. } = evidence;
    let limited = policy.limits_tokens();
    let mut findings = Vec::new();
    let tries: BTreeMap<u64, Try> =
        clients.keys().map(|number| (*number, Try::make(*seed, policy.protocol, *number))).collect();

    // What reached the provider.
    let mut times: BTreeMap<u64, Vec<&Seen>> = BTreeMap::new();
    for came in seen {
        let text = format!("{} {}", came.line, String::from_utf8_lossy(&came.body));
        if plain(&plain(&text)).contains(FORBIDDEN) || came.fields.contains(FORBIDDEN) {
            findings.push(format!("a model that is not allowed reached the provider: {text:.400}"));
        }
        if !is_known(policy.protocol, &came.line) {
            findings.push(format!("the provider was asked for {}", came.line));
        }
        if limited {
            // What would not be counted.
            let hidden =
                ["\"background\":true", "\"deferred\":true"].iter().any(|member| text.contains(member));
            let is_chat = came.line.contains("/completions") && text.contains("\"stream\":true");
            let asks = text.contains("\"stream_options\":{\"include_usage\":true}");
            if hidden || is_chat && !asks {
                findings.push(format!("an answer that tells no tokens was asked for: {text:.400}"));
            }
        }
        if policy.budget.cost.is_some() {
            let dear = ["riority", "PRIORITY", "\"fast\"", "web_search", "googleSearch"];
            if dear.iter().any(|word| text.contains(word)) {
                findings.push(format!("something dearer was asked for: {text:.400}"));
            }
        }
        match came.number {
            Some(number) => times.entry(number).or_default().push(came),
            None => findings.push(format!("somebody asked who is not known: {text:.400}")),
        }
    }
    for (number, came) in &times {
        let Some(attempt) = tries.get(number) else { continue };
        let retries = !limited && [400, 422].contains(&attempt.answer.status);
        if came.len() > if retries { 2 } else { 1 } {
            findings.push(format!("try {number} came {} times", came.len()));
        }
        if !attempt.ask.with_token {
            findings.push(format!("try {number} had no token, and came"));
        }
    }
    if let Some(limit) = policy.budget.requests.filter(|limit| seen.len() as u64 > *limit) {
        findings.push(format!("{} requests came, and {limit} may", seen.len()));
    }

    // What each is worth, and what kennel wrote down.
    let mut lines: BTreeMap<u64, &Value> = BTreeMap::new();
    for line in log {
        let number = line["model"].as_str().and_then(|model| model.strip_prefix("small-")?.parse().ok());
        if let Some(number) = number.filter(|number| times.contains_key(number))
            && lines.insert(number, line).is_some()
        {
            findings.push(format!("try {number} is in the log twice"));
        }
    }
    let worth = |number: u64| -> Option<(Least, u64)> {
        let came = times.get(&number)?.last()?;
        let (attempt, went) = (tries.get(&number)?, clients.get(&number)?);
        let sent = came.body.len() as u64;
        let is_whole = went.end == Ended::Whole;
        let stayed = is_whole || went.end == Ended::Broken;
        let least = attempt.least(asked_bytes(came), limited, stayed);
        let bytes = if is_whole && went.refused.is_none() { sent.min(asked_bytes(came)) } else { 0 };
        Some((least, bytes))
    };
    let counted = |line: &Value, name: &str| line[name].as_u64().unwrap_or(0);
    for number in times.keys() {
        let Some((least, _)) = worth(*number) else { continue };
        let what = |why: &str| {
            let attempt = &tries[number];
            let body = String::from_utf8_lossy(&attempt.answer.body).into_owned();
            format!(
                "try {number}: {why}: at least {least:?}, the client saw {:?}, the log says {}\n  {} {:.300}\n  {:?} {:?} {:?} {} ended {:?} told {:?}: {:.200} … {}",
                clients.get(number),
                lines.get(number).map_or_else(String::new, |line| line.to_string()),
                attempt.ask.line,
                attempt.ask.body,
                attempt.answer.fields,
                attempt.answer.framing,
                attempt.answer.end,
                attempt.answer.status,
                attempt.ask.leaves_after,
                attempt.answer.told,
                body,
                body.chars().skip(body.chars().count().saturating_sub(200)).collect::<String>()
            )
        };
        let Some(line) = lines.get(number) else {
            findings.push(what("it is not in the log"));
            continue;
        };
        let used = (counted(line, "input_tokens"), counted(line, "output_tokens"));
        if used.0 < least.input || used.1 < least.output {
            findings.push(what("too little is counted"));
        } else if least.is_exact && used != (least.input, least.output) {
            findings.push(what("something else is counted"));
        }
    }

    // What was let through although it was known that the budget is spent.
    for came in seen {
        let Some(number) = came.number else { continue };
        let mut used = Used::default();
        let mut by_log = Used::default();
        for other in came.after.iter().filter(|other| **other != number) {
            let Some((least, bytes)) = worth(*other) else { continue };
            used.add(&least, bytes);
            if let Some(line) = lines.get(other) {
                let least = Least {
                    input: counted(line, "input_tokens"),
                    output: counted(line, "output_tokens"),
                    is_exact: false,
                };
                by_log.add(&least, counted(line, "bytes_sent") + counted(line, "bytes_received"));
            }
        }
        for (used, whose) in [(used, "the book"), (by_log, "the log")] {
            if let Some(what) = used.spends(&policy.budget) {
                findings
                    .push(format!("try {number} passed though {what} were used up, by {whose}: {used:?}"));
            }
        }
    }

    // What clients were told.
    let mut refused = 0;
    for (number, went) in clients {
        let came = times.contains_key(number);
        let word = went.refused.as_deref();
        refused += u64::from(word.is_some());
        // One that is sent a second time takes a second place.
        let is_second = || [400, 422].contains(&tries[number].answer.status) && word == Some("budget");
        if came && word.is_some_and(|word| word != "upstream") && !is_second() {
            findings.push(format!("try {number} was refused ({word:?}), and came"));
        }
        if went.end == Ended::Hung {
            findings.push(format!("try {number} hung"));
        }
        let unlimited = policy.budget.is_none();
        if unlimited && !came && tries[number].ask.is_plain && went.end != Ended::Left {
            findings.push(format!("try {number} is plain and did not pass: {went:?}"));
        }
    }

    // The report and the log say the same.
    let total = &report["gateway"]["total"];
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for line in log {
        for name in ["input_tokens", "output_tokens", "bytes_received"] {
            let sum = sums.entry(name).or_default();
            *sum = sum.saturating_add(counted(line, name));
        }
    }
    for (name, sum) in sums {
        if total[name].as_u64() != Some(sum) {
            findings.push(format!("the report says {} {name} and the log {sum}", total[name]));
        }
    }
    let came = seen.len() as u64;
    if total["requests"].as_u64().is_none_or(|requests| requests < came) {
        findings.push(format!("the report says {} requests, and {came} came", total["requests"]));
    }
    if log.len() > clients.len() {
        findings.push(format!("the log has {} lines for {} requests", log.len(), clients.len()));
    }
    let each = if policy.contents { 1 << 20 } else { 2000 };
    if evidence.log_bytes > clients.len() * each {
        findings.push(format!("the log has {} bytes", evidence.log_bytes));
    }
    if total["refused"].as_u64().is_some_and(|told| told > refused + clients.len() as u64) {
        findings.push(format!("the report says {} were refused", total["refused"]));
    }
    Judged { asked: clients.len() as u64, passed: times.len() as u64, memory: 0, findings }
}

/// How long the body was that the client sent: the gate adds a question for usage.
fn asked_bytes(came: &Seen) -> u64 {
    let added = b"\"stream_options\":{\"include_usage\":true},";
    let length = came.body.len();
    let has = came.body.windows(added.len()).any(|window| window == added);
    (if has { length - added.len() } else { length }) as u64
}
