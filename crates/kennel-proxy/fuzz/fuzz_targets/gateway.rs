//! What a provider answers, cut anywhere, and what a client asks: the readers end, tell the same however the stream is cut, and take
//! nothing out of it but the one event.
#![no_main]

use kennel_policy::gateway::Api;
use kennel_proxy::gateway::stream_usage::WithoutUsage;
use kennel_proxy::gateway::usage::UsageReader;
use kennel_proxy::gateway::{request, token};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, Vec<u8>, Vec<u8>)| {
    let (events, text, cuts) = input;
    let kind = if events { "text/event-stream" } else { "application/json" };
    let mut whole = UsageReader::new(kind);
    whole.push(&text);
    let mut parts = UsageReader::new(kind);
    let (mut once, mut cut) = (WithoutUsage::default(), WithoutUsage::default());
    let mut all = once.push(&text);
    all.extend(once.finish());
    let (mut out, mut rest) = (Vec::new(), text.as_slice());
    let mut sizes = cuts.iter().map(|size| usize::from(*size) + 1).cycle();
    while !rest.is_empty() {
        let (part, after) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
        parts.push(part);
        out.extend(cut.push(part));
        rest = after;
    }
    out.extend(cut.finish());
    assert_eq!(whole.finish(), parts.finish());
    // Above that, where the parts are cut decides when an event is too large.
    assert!(text.len() > 64 << 10 || out == all);
    let known = request::Known { tables: &[], more: &[], limits: Default::default() };
    let _ = request::read(&text, &known);
    if let Ok(query) = std::str::from_utf8(&text) {
        assert!(!token::strip_query(Api::Gemini, query).split('&').any(|pair| pair.starts_with("key=")));
    }
});
