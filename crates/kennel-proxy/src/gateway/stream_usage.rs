//! OpenAI's chat tells the tokens of a stream only if it is asked to (`stream_options.include_usage`), and most clients do not ask. The
//! gateway asks in their place, and keeps the event that answers to itself: it has no choice in it, which clients that did not ask for
//! it do not expect.

use memchr::memmem;
use serde_json::Value;

use super::paths::Endpoint;
use super::request::{Asked, StreamOptions};

const OPTION: &[u8] = b"\"stream_options\":{\"include_usage\":true}";
/// A larger event is not held back. Those that tell usage have some hundred bytes.
const MAX_EVENT: usize = 64 << 10;

/// Whether a request goes where a stream tells its tokens only when it is asked to.
fn is_chat(endpoint: &Endpoint) -> bool {
    endpoint.path.ends_with("/completions")
}

/// Whether nobody would tell the tokens of the answer.
#[must_use]
pub fn hides_usage(endpoint: &Endpoint, asked: &Asked) -> bool {
    is_chat(endpoint) && asked.stream && asked.stream_options == StreamOptions::Other
}

/// The same body with the question in it; `None` where it does not belong.
#[must_use]
pub fn asking(endpoint: &Endpoint, asked: &Asked, body: &[u8]) -> Option<Vec<u8>> {
    if !is_chat(endpoint) || !asked.stream || asked.stream_options != StreamOptions::Absent {
        return None;
    }
    // The body was read: it is an object, and has members.
    let start = body.iter().position(|byte| *byte == b'{')? + 1;
    let mut more = Vec::with_capacity(body.len() + OPTION.len() + 1);
    more.extend_from_slice(&body[..start]);
    more.extend_from_slice(OPTION);
    more.push(b',');
    more.extend_from_slice(&body[start..]);
    Some(more)
}

/// A stream of events without the one that tells usage and nothing else.
#[derive(Debug, Default)]
pub struct WithoutUsage {
    held: Vec<u8>,
    /// What is held was searched so far for the end of an event.
    searched: usize,
    /// An event was too large: everything passes from here on.
    open: bool,
}

impl WithoutUsage {
    /// What may be handed on, now that this part has come: whole events.
    pub fn push(&mut self, part: &[u8]) -> Vec<u8> {
        if self.open {
            return part.to_vec();
        }
        self.held.extend_from_slice(part);
        let mut out = Vec::with_capacity(self.held.len());
        while let Some(end) = end_of_event(&self.held, self.searched) {
            let event: Vec<u8> = self.held.drain(..end).collect();
            self.searched = 0;
            if !tells_usage_alone(&event) {
                out.extend_from_slice(&event);
            }
        }
        // The end of an event can begin in the last three bytes.
        self.searched = self.held.len().saturating_sub(3);
        if self.held.len() > MAX_EVENT {
            self.open = true;
            out.append(&mut self.held);
        }
        out
    }

    /// What was held back, at the end.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// Behind the empty line that ends the first event.
fn end_of_event(text: &[u8], from: usize) -> Option<usize> {
    let ends: [&[u8]; 3] = [b"\n\n", b"\r\n\r\n", b"\r\r"];
    let found = ends.iter().filter_map(|end| Some(memmem::find(&text[from..], end)? + from + end.len()));
    found.min()
}

fn tells_usage_alone(event: &[u8]) -> bool {
    if memmem::find(event, b"\"usage\"").is_none() {
        return false;
    }
    let lines = event.split(|byte| matches!(byte, b'\n' | b'\r'));
    let data: Vec<&[u8]> = lines.filter_map(|line| line.strip_prefix(b"data:")).collect();
    let Ok(value) = serde_json::from_slice::<Value>(&data.join(&b"\n"[..])) else { return false };
    value["usage"].is_object() && value["choices"].as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use kennel_policy::gateway::Api;

    use super::super::paths::ModelIn;
    use super::super::{api, request};
    use super::*;

    fn known() -> request::KnownMembers<'static> {
        let api = api::of(Api::OpenAi);
        request::KnownMembers { tables: api.members(), more: &[], limits: Default::default() }
    }

    fn ask(path: &str, body: &str) -> Option<String> {
        let endpoint = Endpoint::of(path.into(), ModelIn::Body, true);
        let asked = request::read(body.as_bytes(), &known()).unwrap();
        asking(&endpoint, &asked, body.as_bytes()).map(|body| String::from_utf8(body).unwrap())
    }

    #[test]
    fn only_a_chat_that_streams_and_does_not_ask_itself_is_asked() {
        let chat = "/v1/chat/completions";
        let asks = ask(chat, r#" {"model":"m","stream":true}"#).unwrap();
        assert_eq!(asks, r#" {"stream_options":{"include_usage":true},"model":"m","stream":true}"#);
        assert_eq!(
            request::read(asks.as_bytes(), &known()).unwrap().stream_options,
            StreamOptions::AskForUsage
        );
        assert_eq!(ask(chat, r#"{"model":"m"}"#), None);
        assert_eq!(ask(chat, r#"{"model":"m","stream":false}"#), None);
        assert_eq!(ask(chat, r#"{"stream":true,"stream_options":{"include_usage":false}}"#), None);
        assert_eq!(ask("/v1/responses", r#"{"model":"m","stream":true}"#), None);
    }

    const EVENTS: [&str; 5] = [
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n",
        ": comment\n\n",
        "data: {\"choices\":[],\"prompt_filter_results\":[]}\r\n\r\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\"\"}}],\"usage\":{\"prompt_tokens\":1}}\n\n",
        "data: [DONE]\n\n",
    ];

    proptest! {
        #[test]
        fn nothing_but_that_event_is_kept_back(
            places in prop::collection::vec(0usize..6, 0..4),
            cuts in prop::collection::vec(1usize..40, 1..9),
        ) {
            let (mut text, wanted) = (String::new(), EVENTS.concat());
            for (number, event) in EVENTS.iter().enumerate() {
                for _ in places.iter().filter(|place| **place == number) {
                    text += "data: {\"choices\":[],\n";
                    text += "data: \"usage\":{\"prompt_tokens\":9}}\r\n\r\n";
                }
                text += event;
            }
            let mut stream = WithoutUsage::default();
            let (mut out, mut rest, mut cuts) = (Vec::new(), text.as_bytes(), cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (part, after) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                out.extend(stream.push(part));
                rest = after;
            }
            out.extend(stream.finish());
            prop_assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
    }

    #[test]
    fn a_whole_event_passes_at_once_and_a_large_one_in_parts() {
        let mut stream = WithoutUsage::default();
        assert_eq!(stream.push(EVENTS[0].as_bytes()), EVENTS[0].as_bytes());
        let large = vec![b'x'; MAX_EVENT];
        assert!(stream.push(&large).is_empty());
        assert_eq!(stream.push(b"y").len(), MAX_EVENT + 1);
        assert_eq!(stream.push(b"z"), b"z");
    }
}
