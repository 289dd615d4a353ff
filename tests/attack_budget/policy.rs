//! A random policy of a gateway with one provider.

use std::path::Path;

use serde_json::{Value, json};

use crate::attack_budget::tries::Protocol;
use crate::attack_gate::rng::Rng;

/// What a token costs here, by the million: in, and out.
pub const PRICES: (f64, f64) = (3.0, 15.0);

/// How much may be used; what is not there has no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    pub requests: Option<u64>,
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub tokens: Option<u64>,
    pub bytes: Option<u64>,
    pub cost: Option<f64>,
}

impl Budget {
    /// Whether there is no limit at all.
    pub fn is_none(&self) -> bool {
        let Budget { requests, input, output, tokens, bytes, cost } = self;
        requests.or(*input).or(*output).or(*tokens).or(*bytes).is_none() && cost.is_none()
    }
}

/// A policy, and what is tried with it.
#[derive(Debug)]
pub struct Policy {
    pub protocol: Protocol,
    pub budget: Budget,
    /// The budget is that of all providers together.
    pub of_all: bool,
    pub contents: bool,
    pub tries: u64,
    pub threads: u64,
}

impl Policy {
    /// Another one for each state of the numbers.
    pub fn make(rng: &mut Rng) -> Policy {
        let protocol = Protocol::ALL[rng.below(4)];
        let mut budget = Budget::default();
        let mut amount = |all: &[u64]| Some(all[rng.below(all.len())]);
        match amount(&[0, 1, 2, 3, 4, 5, 6, 7]) {
            Some(0) => budget.requests = amount(&[0, 1, 7, 40]),
            Some(1) => budget.input = amount(&[0, 1, 5_000, 20_000]),
            Some(2) => budget.output = amount(&[1, 5_000, 100_000, 400_000]),
            Some(3) => budget.tokens = amount(&[1, 20_000, 100_000, 400_000]),
            Some(4) => budget.bytes = amount(&[1, 50_000, 200_000]),
            Some(5) => budget.cost = amount(&[1, 10, 100, 600]).map(|cents| cents as f64 / 100.0),
            Some(6) => {
                budget.requests = amount(&[30, 60]);
                budget.tokens = amount(&[50_000, 300_000]);
                budget.cost = Some(2.0);
            }
            _ => {}
        }
        Policy {
            protocol,
            budget,
            of_all: rng.one_in(2),
            contents: rng.one_in(4),
            tries: 60 + rng.below(100) as u64,
            threads: [1, 4, 12][rng.below(3)],
        }
    }

    /// Whether tokens have to be counted.
    pub fn limits_tokens(&self) -> bool {
        let Budget { input, output, tokens, cost, .. } = self.budget;
        input.or(output).or(tokens).is_some() || cost.is_some()
    }

    /// The same as settings.
    pub fn settings(&self, port: u16, log: &Path) -> Value {
        let Budget { requests, input, output, tokens, bytes, cost } = self.budget;
        let mut budget = json!({});
        for (name, limit) in [
            ("requests", requests),
            ("input_tokens", input),
            ("output_tokens", output),
            ("tokens", tokens),
            ("bytes", bytes),
        ] {
            if let Some(limit) = limit {
                budget[name] = json!(limit);
            }
        }
        if let Some(cost) = cost {
            budget["cost"] = json!(cost);
        }
        let mut provider = json!({
            "upstream": format!("http://127.0.0.1:{port}"),
            "models": ["small-*"],
            "key": format!("env:{}", self.protocol.key()),
        });
        let mut gateway = json!({
            "log": log,
            "log_contents": self.contents,
            "prices": {"small-*": {"input": PRICES.0, "output": PRICES.1}},
        });
        if self.of_all {
            gateway["budget"] = budget;
        } else {
            provider["budget"] = budget;
        }
        gateway[self.protocol.word()] = provider;
        json!({"gateway": gateway})
    }
}
