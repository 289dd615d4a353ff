//! How many tokens a response tells of, read as it passes.
//!
//! Providers say it in different places: Anthropic at the beginning and, cumulated, at the end of a stream; OpenAI in the last event or
//! in the one that completes the response; Gemini in each part, cumulated; Ollama in the last line. The names do not collide, so one
//! reader knows all of them, and a provider that speaks another's protocol is understood. What comes later replaces what came before.

use super::budget::Tokens;
use super::json::{Level, Scanner, Value};

/// How many bytes of text stand for a token where a provider does not tell.
pub const BYTES_PER_TOKEN: u64 = 4;

/// Reads one response.
#[derive(Debug)]
pub struct UsageReader {
    events: Option<Events>,
    json: Scanner,
    found: Found,
}

/// What a response told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// The tokens; `None` where it did not say.
    pub tokens: Option<Tokens>,
    /// Whether they are of all that came until they were told, and not of the beginning.
    pub is_final: bool,
    /// Bytes of text that a model wrote, as far as the names of members tell.
    pub text: u64,
    /// Those of them that came after the tokens were told.
    pub text_after: u64,
    /// All bytes.
    pub bytes: u64,
}

impl Reported {
    /// What is counted, and whether it is an estimate. `whole` says that the response came to its end, `sent` how many bytes were
    /// asked with.
    ///
    /// A client that goes away before the end would otherwise use what nobody counts.
    #[must_use]
    pub fn counted(&self, whole: bool, sent: u64) -> (Tokens, bool) {
        let estimate = |bytes: u64| bytes.div_ceil(BYTES_PER_TOKEN);
        match self.tokens {
            // The end of a stream tells nothing more: many clients do not wait for it.
            Some(tokens) if self.is_final && (whole || self.text_after == 0) => (tokens, false),
            Some(tokens) if self.is_final => {
                let output = tokens.output.saturating_add(estimate(self.text_after));
                (Tokens { output, ..tokens }, true)
            }
            Some(tokens) => (Tokens { output: tokens.output.max(estimate(self.text)), ..tokens }, true),
            None => {
                // What cannot be read (`alt=proto`, sound) is no less than what can.
                let output = estimate(if self.text > 0 { self.text } else { self.bytes });
                (Tokens { input: estimate(sent), output, ..Tokens::default() }, true)
            }
        }
    }
}

impl UsageReader {
    /// For a response of this `Content-Type`.
    #[must_use]
    pub fn new(content_type: &str) -> UsageReader {
        let events = UsageReader::is_events(content_type).then(Events::default);
        UsageReader { events, json: Scanner::default(), found: Found::default() }
    }

    /// Whether a `Content-Type` is that of server-sent events.
    #[must_use]
    pub fn is_events(content_type: &str) -> bool {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("text/event-stream")
    }

    /// Takes a part, cut anywhere.
    pub fn push(&mut self, part: &[u8]) {
        let UsageReader { events, json, found } = self;
        found.bytes = found.bytes.saturating_add(part.len() as u64);
        let mut tell = |levels: &[Level], value: Value<'_>| found.see(levels, value);
        match events {
            // What is no JSON tells nothing, and neither does what comes after it.
            None => drop(json.push(part, &mut tell)),
            Some(events) => events.push(part, &mut |piece| match piece {
                Piece::Data(bytes) => drop(json.push(bytes, &mut tell)),
                Piece::End => drop(json.finish(&mut tell)),
            }),
        }
    }

    /// The end.
    #[must_use]
    pub fn finish(mut self) -> Reported {
        let found = &mut self.found;
        let _ = self.json.finish(&mut |levels: &[Level], value: Value<'_>| found.see(levels, value));
        self.found.reported()
    }
}

#[derive(Debug, Default)]
struct Found {
    input: Option<u64>,
    output: Option<u64>,
    /// Beside the input, in Anthropic's way.
    cache_read: u64,
    cache_write: u64,
    /// Part of the input, in everybody else's.
    cached: u64,
    /// Gemini counts its thoughts, and what its tools say, apart.
    thoughts: u64,
    tools: u64,
    is_final: bool,
    text: u64,
    text_after: u64,
    bytes: u64,
}

impl Found {
    fn see(&mut self, levels: &[Level], value: Value<'_>) {
        // Gemini's stream without events is an array of what its events would be.
        let levels = match levels {
            [first, rest @ ..] if first.is_array() => rest,
            levels => levels,
        };
        let name = |at: usize| levels.get(at).and_then(Level::name).unwrap_or_default();
        match value {
            Value::Text(_, length) if is_text(levels.last().and_then(Level::name).unwrap_or_default()) => {
                self.text = self.text.saturating_add(length);
                self.text_after = self.text_after.saturating_add(length);
            }
            Value::Number(number) => {
                let Some(number) = count(number) else { return };
                let (inner, is_final) = match name(0) {
                    "message" => (1, false),
                    "response" => (1, true),
                    _ => (0, true),
                };
                let depth = levels.len() - inner.min(levels.len());
                let [outer, one, two] = [name(inner), name(inner + 1), name(inner + 2)];
                let known = match (depth, outer, one, two) {
                    (2, "usage", member, _) | (2, "usageMetadata", member, _) => self.plain(member, number),
                    (3, "usage", "prompt_tokens_details" | "input_tokens_details", "cached_tokens") => {
                        self.cached = number;
                        true
                    }
                    (1, member @ ("prompt_eval_count" | "eval_count"), _, _) => self.plain(member, number),
                    _ => false,
                };
                if known && is_final {
                    (self.is_final, self.text_after) = (true, 0);
                }
            }
            _ => {}
        }
    }

    fn plain(&mut self, member: &str, number: u64) -> bool {
        match member {
            "input_tokens" | "prompt_tokens" | "promptTokenCount" | "prompt_eval_count" => {
                self.input = Some(number);
            }
            "output_tokens" | "completion_tokens" | "candidatesTokenCount" | "eval_count" => {
                self.output = Some(number);
            }
            "cache_creation_input_tokens" => self.cache_write = number,
            "cache_read_input_tokens" => self.cache_read = number,
            "cachedContentTokenCount" | "prompt_cache_hit_tokens" => self.cached = number,
            "thoughtsTokenCount" => self.thoughts = number,
            "toolUsePromptTokenCount" => self.tools = number,
            _ => return false,
        }
        true
    }

    fn reported(&self) -> Reported {
        let told = self.input.is_some() || self.output.is_some() || self.thoughts > 0;
        let sum = |numbers: [u64; 3]| numbers.into_iter().fold(0, u64::saturating_add);
        let input =
            sum([self.input.unwrap_or(0), self.cache_read, self.cache_write]).saturating_add(self.tools);
        let tokens = Tokens {
            input,
            output: self.output.unwrap_or(0).saturating_add(self.thoughts),
            cache_read: sum([self.cache_read, self.cached, 0]).min(input),
            cache_write: self.cache_write,
        };
        let Found { is_final, text, text_after, bytes, .. } = *self;
        Reported { tokens: told.then_some(tokens), is_final, text, text_after, bytes }
    }
}

/// A provider may write `12.0`, and nonsense is no number of tokens.
fn count(number: &str) -> Option<u64> {
    number.parse().ok().or_else(|| {
        let number: f64 = number.parse().ok()?;
        (0.0..1e15).contains(&number).then_some(number as u64)
    })
}

/// Members that hold what a model writes, in any of the protocols.
fn is_text(name: &str) -> bool {
    matches!(
        name,
        "text"
            | "content"
            | "partial_json"
            | "thinking"
            | "arguments"
            | "delta"
            | "reasoning"
            | "reasoning_content"
            | "refusal"
            | "response"
    )
}

/// Splits a stream of server-sent events into what their `data:` lines hold.
#[derive(Debug, Default)]
struct Events {
    /// What the line began with, until it is known.
    field: Vec<u8>,
    line: Line,
    /// The event has data.
    has_data: bool,
    /// The last byte was a carriage return, so that a line feed belongs to it.
    after_return: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Line {
    #[default]
    Field,
    /// Behind the colon, where one space is left out.
    Space,
    Data,
    Other,
}

enum Piece<'a> {
    Data(&'a [u8]),
    End,
}

impl Events {
    fn push(&mut self, part: &[u8], take: &mut impl FnMut(Piece<'_>)) {
        let mut rest = part;
        while let Some(&byte) = rest.first() {
            if std::mem::take(&mut self.after_return) && byte == b'\n' {
                rest = &rest[1..];
                continue;
            }
            if matches!(byte, b'\n' | b'\r') {
                self.after_return = byte == b'\r';
                self.end_of_line(take);
                rest = &rest[1..];
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            match self.line {
                Line::Field => {
                    match byte {
                        b':' if self.field == b"data" => {
                            if std::mem::replace(&mut self.has_data, true) {
                                take(Piece::Data(b"\n"));
                            }
                            self.line = Line::Space;
                        }
                        // A mark of the byte order may come before the first line.
                        b':' if self.field == b"\xef\xbb\xbfdata" => {
                            self.has_data = true;
                            self.line = Line::Space;
                        }
                        _ if byte == b':' || self.field.len() == 8 => self.line = Line::Other,
                        _ => self.field.push(byte),
                    }
                    rest = &rest[1..];
                }
                Line::Space => {
                    rest = &rest[usize::from(byte == b' ')..];
                    self.line = Line::Data;
                }
                Line::Data => {
                    take(Piece::Data(&rest[..end]));
                    rest = &rest[end..];
                }
                Line::Other => rest = &rest[end..],
            }
        }
    }

    fn end_of_line(&mut self, take: &mut impl FnMut(Piece<'_>)) {
        let is_empty = self.line == Line::Field && self.field.is_empty();
        self.field.clear();
        self.line = Line::Field;
        if is_empty && std::mem::take(&mut self.has_data) {
            take(Piece::End);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SSE: &str = "text/event-stream; charset=utf-8";

    fn tokens(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Tokens {
        Tokens { input, output, cache_read, cache_write }
    }

    /// However it is cut.
    fn read(content_type: &str, text: &str) -> Reported {
        let whole = in_parts(content_type, text, text.len().max(1));
        for size in [1, 2, 3, 7, 64] {
            assert_eq!(in_parts(content_type, text, size), whole, "in parts of {size}");
        }
        whole
    }

    fn in_parts(content_type: &str, text: &str, size: usize) -> Reported {
        let mut reader = UsageReader::new(content_type);
        text.as_bytes().chunks(size).for_each(|part| reader.push(part));
        reader.finish()
    }

    #[test]
    fn anthropic_cumulates() {
        let stream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":25,\"cache_creation_input_tokens\":100,\"cache_read_input_tokens\":50,\"output_tokens\":1}}}\n\n\
            event: ping\ndata: {\"type\": \"ping\"}\n\n\
            event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello \\\"usage\\\": {\"}}\n\n\
            event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":10}}\n\n\
            event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":15}}\n\n\
            event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
        let reported = read(SSE, stream);
        assert_eq!(reported.tokens, Some(tokens(175, 15, 50, 100)));
        assert!(reported.is_final);
        assert_eq!(reported.counted(true, 1000), (tokens(175, 15, 50, 100), false));
        assert_eq!(reported.counted(false, 1000), (tokens(175, 15, 50, 100), false), "all was told");
        let more = format!("{stream}data: {{\"delta\":{{\"text\":\"12345678\"}}}}\n\n");
        assert_eq!(read(SSE, &more).counted(false, 1), (tokens(175, 17, 50, 100), true));

        let begun = read(SSE, stream.split("event: message_delta").next().unwrap());
        assert_eq!((begun.tokens, begun.is_final), (Some(tokens(175, 1, 50, 100)), false));
        assert_eq!(begun.counted(false, 1000), (tokens(175, 4, 50, 100), true), "16 bytes of text");

        let plain = r#"{"id":"m","content":[{"type":"text","text":"Hi"}],"usage":{"input_tokens":10,"output_tokens":3,"cache_read_input_tokens":0}}"#;
        assert_eq!(read("application/json", plain).counted(true, 9), (tokens(10, 3, 0, 0), false));
    }

    #[test]
    fn openai_chat_tells_at_the_end_if_asked() {
        let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}],\"usage\":null}\n\n\
            data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":12,\"total_tokens\":21,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n\
            data: [DONE]\n\n";
        assert_eq!(read(SSE, stream).counted(true, 1), (tokens(9, 12, 4, 0), false));
        let silent = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\ndata: [DONE]\n\n";
        assert_eq!(read(SSE, silent).counted(true, 100), (tokens(25, 2, 0, 0), true));
        let plain =
            r#"{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":9,"completion_tokens":12}}"#;
        assert_eq!(read("application/json", plain).counted(true, 1), (tokens(9, 12, 0, 0), false));
    }

    #[test]
    fn openai_responses_tell_when_they_are_complete() {
        let stream = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n\
            event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"usage\":{\"input_tokens\":37,\"input_tokens_details\":{\"cached_tokens\":7},\"output_tokens\":11,\"total_tokens\":48}}}\n\n";
        assert_eq!(read(SSE, stream).counted(true, 1), (tokens(37, 11, 7, 0), false));
        let plain = r#"{"id":"r","usage":{"input_tokens":37,"output_tokens":11}}"#;
        assert_eq!(read("application/json", plain).counted(true, 1), (tokens(37, 11, 0, 0), false));
    }

    #[test]
    fn gemini_tells_in_each_part_of_a_stream_or_an_array() {
        let part = |output: u64| {
            format!(
                "{{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"a\"}}]}}}}],\"usageMetadata\":{{\"promptTokenCount\":8,\"candidatesTokenCount\":{output},\"thoughtsTokenCount\":5,\"cachedContentTokenCount\":2,\"toolUsePromptTokenCount\":1,\"totalTokenCount\":99}}}}"
            )
        };
        let wanted = (tokens(9, 25, 2, 0), false);
        let stream = format!("data: {}\r\n\r\ndata: {}\r\n\r\n", part(3), part(20));
        assert_eq!(read(SSE, &stream).counted(true, 1), wanted);
        let array = format!("[{}\n,\r\n{}\n]\n", part(3), part(20));
        assert_eq!(read("application/json; charset=UTF-8", &array).counted(true, 1), wanted);
        assert_eq!(read("application/json", &part(20)).counted(true, 1), wanted);
    }

    #[test]
    fn ollama_tells_in_its_last_line() {
        let lines = "{\"message\":{\"content\":\"Hi\"},\"done\":false}\n{\"message\":{\"content\":\"\"},\"done\":true,\"prompt_eval_count\":26,\"eval_count\":290}\n";
        assert_eq!(read("application/x-ndjson", lines).counted(true, 1), (tokens(26, 290, 0, 0), false));
        let begun =
            read("application/x-ndjson", "{\"message\":{\"content\":\"Hello you\"},\"done\":false}\n{\"mess");
        assert_eq!(begun.counted(false, 8), (tokens(2, 3, 0, 0), true));
    }

    #[test]
    fn what_a_model_says_is_no_report() {
        let said = "data: {\"choices\":[{\"usage\":{\"completion_tokens\":5},\"delta\":{\"content\":\"\\n\\ndata: {\\\"usage\\\":{\\\"completion_tokens\\\":7}}\\n\\n\"}}]}\n\n";
        assert_eq!(read(SSE, said).tokens, None);
        let nested = r#"{"output":[{"usage":{"output_tokens":7}}],"metadata":{"usage":{"output_tokens":7}}}"#;
        assert_eq!(read("application/json", nested).tokens, None);
        for odd in ["-5", "1e400", "\"7\"", "null", "[7]", "{}"] {
            let text = format!("{{\"usage\":{{\"output_tokens\":{odd}}}}}");
            assert_eq!(read("application/json", &text).tokens, None, "{odd}");
        }
    }

    #[test]
    fn lines_of_events_end_in_three_ways_and_data_has_many_lines() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = format!(
                "\u{feff}data:{{\"usage\":{end}data: {{\"output_tokens\":{end}data:  7}}}}{end}id: 1{end}{end}: comment{end}{end}event: x{end}data{end}{end}"
            );
            assert_eq!(read(SSE, &stream).tokens, Some(tokens(0, 7, 0, 0)), "{end:?}");
        }
        let broken = "data: {oops\n\ndata: {\"usage\":{\"output_tokens\":7}}\n\n";
        assert_eq!(
            read(SSE, broken).tokens,
            Some(tokens(0, 7, 0, 0)),
            "an event that is no JSON is left out"
        );
        assert_eq!(read("audio/mpeg", "ID3 and more").counted(true, 40), (tokens(10, 3, 0, 0), true));
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            events in prop::collection::vec(("[a-z: \\[\\]{}\",0-9]{0,12}", 0u64..99, 0usize..4), 0..6),
            cuts in prop::collection::vec(1usize..9, 1..9),
        ) {
            let mut text = String::new();
            for (odd, number, kind) in &events {
                let end = ["\n", "\r\n", "\r"][*number as usize % 3];
                match kind {
                    0 => text += &format!("data: {{\"usage\":{{\"output_tokens\":{number}}}}}{end}{end}"),
                    1 => text += &format!("data: {{\"message\":{{\"usage\":{{\"input_tokens\":{number}}}}}}}{end}{end}"),
                    2 => text += &format!("data: {odd}{end}{end}"),
                    _ => text += &format!("{odd}{end}"),
                }
            }
            let whole = in_parts(SSE, &text, text.len().max(1));
            let mut reader = UsageReader::new(SSE);
            let (mut rest, mut cuts) = (text.as_bytes(), cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (part, after) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                reader.push(part);
                rest = after;
            }
            prop_assert_eq!(reader.finish(), whole);
        }
    }
}
