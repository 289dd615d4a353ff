//! What a sandbox used of the model gateway, as the caller is told.

/// What was used, by provider and model, in the order in which they were first asked for.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GatewayUse {
    /// One entry for each provider and model, up to 256.
    pub models: Vec<ModelUse>,
    /// Everything together, also of models beyond those.
    pub total: ModelCounts,
}

/// What was used of one model.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ModelUse {
    /// The provider's name in the policy.
    pub provider: String,
    /// The model that requests named; `None` for requests about no model.
    pub model: Option<String>,
    /// How much.
    pub counts: ModelCounts,
}

/// How much was used. Tokens are what the provider reported.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ModelCounts {
    /// Requests that were sent to the provider.
    pub requests: u64,
    /// Requests that kennel refused.
    pub refused: u64,
    /// Tokens that went in, those of the provider's cache included.
    pub input_tokens: u64,
    /// Tokens that came out.
    pub output_tokens: u64,
    /// Those that went in and were read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Those that went in and were written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Bytes of requests.
    pub bytes_sent: u64,
    /// Bytes of responses.
    pub bytes_received: u64,
    /// What it cost by the price table, in the table's unit; 0 for what has no price.
    pub cost: f64,
    /// Requests whose tokens the provider did not report to the end; they were estimated by the length of the texts.
    pub estimated: u64,
}

impl ModelCounts {
    /// Tokens in both directions.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Bytes in both directions.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes_sent.saturating_add(self.bytes_received)
    }

    /// Adds what another one counted.
    pub fn add(&mut self, more: &ModelCounts) {
        let ModelCounts {
            requests,
            refused,
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
            bytes_sent,
            bytes_received,
            cost,
            estimated,
        } = *more;
        for (own, more) in [
            (&mut self.requests, requests),
            (&mut self.refused, refused),
            (&mut self.input_tokens, input_tokens),
            (&mut self.output_tokens, output_tokens),
            (&mut self.cache_read_tokens, cache_read_tokens),
            (&mut self.cache_write_tokens, cache_write_tokens),
            (&mut self.bytes_sent, bytes_sent),
            (&mut self.bytes_received, bytes_received),
            (&mut self.estimated, estimated),
        ] {
            *own = own.saturating_add(more);
        }
        self.cost += cost;
    }
}
