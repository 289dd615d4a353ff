//! What is used, what it costs, and when it is enough.
//!
//! A request takes its place in the budget of requests before it is sent, and gives it back if its provider was not reached. What
//! it uses of the rest is known when the provider has answered, so requests that run at the same time can go beyond a budget by what each of them uses; the next one is refused.

use std::collections::BTreeMap;
use std::fmt;

use kennel_policy::gateway::{Budget, Price};
use kennel_policy::outcome::{GatewayUse, ModelCounts, ModelUse};

/// The most models that are counted one by one.
const MAX_MODELS: usize = 256;

/// What a million tokens cost, by model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices(BTreeMap<String, Price>);

impl From<BTreeMap<String, Price>> for Prices {
    fn from(prices: BTreeMap<String, Price>) -> Prices {
        Prices(prices)
    }
}

impl Prices {
    /// The price of a model: its own, else that of the longest name with a `*` at its end that it begins with.
    #[must_use]
    pub fn of(&self, model: &str) -> Option<&Price> {
        let beginning =
            |name: &str| name.strip_suffix('*').filter(|start| model.starts_with(start)).map(str::len);
        self.0.get(model).or_else(|| {
            let fitting = self.0.iter().filter_map(|(name, price)| Some((beginning(name)?, price)));
            fitting.max_by_key(|(length, _)| *length).map(|(_, price)| price)
        })
    }
}

/// What one request used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All that went in.
    pub input: u64,
    /// All that came out.
    pub output: u64,
    /// Of those that went in, read from a cache.
    pub cache_read: u64,
    /// Of those that went in, written to a cache.
    pub cache_write: u64,
    /// Of those that were written, to be kept for an hour.
    pub cache_write_long: u64,
}

impl Tokens {
    /// What they cost.
    #[must_use]
    pub fn cost(&self, price: &Price) -> f64 {
        let plain = self.input.saturating_sub(self.cache_read).saturating_sub(self.cache_write);
        let of = |count: u64, price: f64| count as f64 * price / 1e6;
        let write = price.cache_write.unwrap_or(price.input);
        let long = self.cache_write_long.min(self.cache_write);
        of(plain, price.input)
            + of(self.cache_read, price.cache_read.unwrap_or(price.input))
            + of(self.cache_write - long, write)
            // Anthropic's rule, and nobody else has such.
            + of(long, write.max(2.0 * price.input))
            + of(self.output, price.output)
    }
}

/// A budget that is used up.
#[derive(Clone, Debug, PartialEq)]
pub struct Spent {
    /// The provider's name; `None` where it is the budget of all together.
    pub provider: Option<String>,
    /// What is used up: `requests`, `tokens`, …
    pub what: &'static str,
    /// How much there was.
    pub limit: String,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spent { provider, what, limit } = self;
        match provider {
            Some(name) => write!(f, "the budget of {limit} {what} for {name} is used up"),
            None => write!(f, "the budget of {limit} {what} is used up"),
        }
    }
}

/// What was used, and what may be.
#[derive(Debug)]
pub struct Counters {
    budget: Budget,
    budgets: Vec<Budget>,
    prices: Prices,
    total: ModelCounts,
    by_provider: Vec<ModelCounts>,
    models: Vec<(usize, Option<String>, ModelCounts)>,
}

impl Counters {
    /// Nothing was used; `budgets` are those of the providers.
    #[must_use]
    pub fn new(budget: Budget, budgets: Vec<Budget>, prices: Prices) -> Counters {
        let by_provider = vec![ModelCounts::default(); budgets.len()];
        Counters { budget, budgets, prices, total: ModelCounts::default(), by_provider, models: Vec::new() }
    }

    /// Whether a cost has to be known.
    #[must_use]
    pub fn limits_cost(&self, provider: usize) -> bool {
        self.budget.cost.is_some() || self.budgets[provider].cost.is_some()
    }

    /// Whether tokens have to be known, or a cost.
    #[must_use]
    pub fn limits_tokens(&self, provider: usize) -> bool {
        let limits = |budget: &Budget| {
            budget.input_tokens.or(budget.output_tokens).or(budget.tokens).is_some() || budget.cost.is_some()
        };
        limits(&self.budget) || limits(&self.budgets[provider])
    }

    /// The price of a model.
    #[must_use]
    pub fn price(&self, model: &str) -> Option<&Price> {
        self.prices.of(model)
    }

    /// Whether something is used up.
    #[must_use]
    pub fn spent(&self, provider: usize, name: &str) -> Option<Spent> {
        let of = |budget: &Budget, used: &ModelCounts, provider: Option<&str>| {
            let (what, limit) = spent(budget, used)?;
            Some(Spent { provider: provider.map(str::to_owned), what, limit })
        };
        of(&self.budgets[provider], &self.by_provider[provider], Some(name))
            .or_else(|| of(&self.budget, &self.total, None))
    }

    /// Whether a model is counted.
    #[must_use]
    pub fn knows(&self, provider: usize, model: &str) -> bool {
        self.models.iter().any(|(number, name, _)| *number == provider && name.as_deref() == Some(model))
    }

    /// Counts what a request used.
    pub fn add(&mut self, provider: usize, model: Option<&str>, more: &ModelCounts) {
        self.total.add(more);
        self.by_provider[provider].add(more);
        let is_own = |(number, name, _): &(usize, Option<String>, ModelCounts)| {
            *number == provider && name.as_deref() == model
        };
        match self.models.iter().position(is_own) {
            Some(place) => self.models[place].2.add(more),
            None if self.models.len() < MAX_MODELS => {
                self.models.push((provider, model.map(str::to_owned), *more));
            }
            None => {}
        }
    }

    /// Gives back the place of a request that never reached its provider.
    pub fn give_back(&mut self, provider: usize, model: Option<&str>, bytes: u64) {
        let own =
            self.models.iter_mut().find(|(number, name, _)| *number == provider && name.as_deref() == model);
        let own = own.map(|(_, _, counts)| counts);
        for counts in [&mut self.total, &mut self.by_provider[provider]].into_iter().chain(own) {
            counts.requests = counts.requests.saturating_sub(1);
            counts.bytes_sent = counts.bytes_sent.saturating_sub(bytes);
        }
    }

    /// Counts tokens, with what they cost: by this price, or else by that of the model.
    #[must_use]
    pub fn counts(
        &self,
        model: Option<&str>,
        price: Option<&Price>,
        tokens: Tokens,
        estimated: bool,
    ) -> ModelCounts {
        let price = price.or_else(|| model.and_then(|model| self.price(model)));
        ModelCounts {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cache_read_tokens: tokens.cache_read,
            cache_write_tokens: tokens.cache_write,
            cost: price.map_or(0.0, |price| tokens.cost(price)),
            estimated: u64::from(estimated),
            ..ModelCounts::default()
        }
    }

    /// For the report; `names` are those of the providers.
    #[must_use]
    pub fn used(&self, names: &[&str]) -> GatewayUse {
        let model = |(number, model, counts): &(usize, Option<String>, ModelCounts)| ModelUse {
            provider: names.get(*number).copied().unwrap_or_default().to_owned(),
            model: model.clone(),
            counts: *counts,
        };
        GatewayUse { models: self.models.iter().map(model).collect(), total: self.total }
    }
}

fn spent(budget: &Budget, used: &ModelCounts) -> Option<(&'static str, String)> {
    let whole = [
        ("requests", budget.requests, used.requests),
        ("input tokens", budget.input_tokens, used.input_tokens),
        ("output tokens", budget.output_tokens, used.output_tokens),
        ("tokens", budget.tokens, used.tokens()),
        ("bytes", budget.bytes, used.bytes()),
    ];
    let over = |(what, limit, used): (&'static str, Option<u64>, u64)| {
        limit.filter(|limit| used >= *limit).map(|limit| (what, limit.to_string()))
    };
    let cost = budget.cost.filter(|limit| used.cost >= *limit);
    whole.into_iter().find_map(over).or_else(|| cost.map(|limit| ("cost", limit.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(list: &[(&str, f64)]) -> Prices {
        let price = |input: f64| Price { input, output: 2.0 * input, ..Price::default() };
        list.iter()
            .map(|(name, input)| ((*name).to_owned(), price(*input)))
            .collect::<BTreeMap<_, _>>()
            .into()
    }

    #[test]
    fn the_longest_name_that_fits_gives_the_price() {
        let prices = prices(&[("*", 1.0), ("claude-*", 2.0), ("claude-opus-*", 3.0), ("claude-opus-5", 4.0)]);
        for (model, input) in
            [("gpt-6", 1.0), ("claude-haiku-5", 2.0), ("claude-opus-4", 3.0), ("claude-opus-5", 4.0)]
        {
            assert_eq!(prices.of(model).unwrap().input, input, "{model}");
        }
        assert_eq!(Prices::default().of("gpt-6"), None);
    }

    #[test]
    fn tokens_of_a_cache_have_their_own_price() {
        let tokens = Tokens {
            input: 1_000_000,
            output: 500_000,
            cache_read: 600_000,
            cache_write: 100_000,
            cache_write_long: 0,
        };
        let price = Price { input: 3.0, output: 15.0, cache_read: Some(0.3), cache_write: Some(3.75) };
        assert!((tokens.cost(&price) - (0.9 + 0.18 + 0.375 + 7.5)).abs() < 1e-9);
        let kept_long = Tokens { cache_write_long: 100_000, ..tokens };
        assert!((kept_long.cost(&price) - (0.9 + 0.18 + 0.6 + 7.5)).abs() < 1e-9, "twice the input's");
        let plain = Price { input: 3.0, output: 15.0, ..Price::default() };
        assert!((tokens.cost(&plain) - 10.5).abs() < 1e-9);
        assert_eq!(Tokens { cache_read: 5, ..Tokens::default() }.cost(&Price::default()), 0.0);
    }

    #[test]
    fn each_limit_is_kept_for_the_provider_and_for_all() {
        let used = ModelCounts {
            requests: 3,
            input_tokens: 10,
            output_tokens: 5,
            bytes_sent: 7,
            bytes_received: 8,
            cost: 0.5,
            ..ModelCounts::default()
        };
        let budgets = [
            (Budget { requests: Some(3), ..Budget::default() }, "3 requests"),
            (Budget { input_tokens: Some(10), ..Budget::default() }, "10 input tokens"),
            (Budget { output_tokens: Some(4), ..Budget::default() }, "4 output tokens"),
            (Budget { tokens: Some(15), ..Budget::default() }, "15 tokens"),
            (Budget { bytes: Some(15), ..Budget::default() }, "15 bytes"),
            (Budget { cost: Some(0.5), ..Budget::default() }, "0.5 cost"),
        ];
        for (budget, text) in budgets {
            let mut counters =
                Counters::new(Budget::default(), vec![Budget::default(), budget], Prices::default());
            assert_eq!(counters.spent(1, "b"), None);
            counters.add(1, Some("m"), &used);
            assert_eq!(counters.spent(0, "a"), None, "its own budget is nobody else's");
            let spent = counters.spent(1, "b").unwrap().to_string();
            assert_eq!(spent, format!("the budget of {text} for b is used up"));

            let mut counters = Counters::new(budget, vec![Budget::default(); 2], Prices::default());
            counters.add(1, Some("m"), &used);
            assert_eq!(
                counters.spent(0, "a").unwrap().to_string(),
                format!("the budget of {text} is used up")
            );
        }
        let none = Budget { requests: Some(0), ..Budget::default() };
        assert!(Counters::new(none, vec![Budget::default()], Prices::default()).spent(0, "a").is_some());
    }

    #[test]
    fn models_are_counted_one_by_one_up_to_a_bound() {
        let mut counters = Counters::new(Budget::default(), vec![Budget::default()], Prices::default());
        let one = ModelCounts { requests: 1, ..ModelCounts::default() };
        for number in 0..MAX_MODELS + 10 {
            counters.add(0, Some(&format!("m{number}")), &one);
        }
        counters.add(0, Some("m0"), &one);
        let used = counters.used(&["a"]);
        assert_eq!((used.models.len(), used.models[0].counts.requests), (MAX_MODELS, 2));
        assert_eq!(used.total.requests, MAX_MODELS as u64 + 11);
    }
}
