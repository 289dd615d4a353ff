//! How many tokens a response tells of, read as it passes.
//!
//! Providers say it in different places: Anthropic at the beginning and, cumulated, at the end of a stream; OpenAI in the last event or
//! in the one that completes the response; Gemini in each part, cumulated; Ollama in the last line. The names do not collide, so one
//! reader knows all of them, and a provider that speaks another's protocol is understood. What comes later may raise what came before.
//!
//! What is not told is counted by an upper bound: no token is less than a byte, and no answer has more than its request may get.

use super::budget::Tokens;
use super::json::{Level, Scanner, Value};

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
    /// The tokens that went in, all of them.
    pub input: Option<u64>,
    /// The tokens that came out.
    pub output: Option<u64>,
    /// Both together, where that is told. Some providers tell of thoughts only here.
    pub total: Option<u64>,
    /// What else is known of the input.
    pub cache: Tokens,
    /// Whether they are of all that came until they were told, and not of the beginning.
    pub is_final: bool,
    /// Whether the response said that nothing more comes.
    pub is_ended: bool,
    /// All bytes.
    pub bytes: u64,
    /// What came after the tokens were told: bytes of names and values.
    pub after: u64,
}

/// A request, as far as it bounds what is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// With how many bytes was asked.
    pub sent: u64,
    /// The most tokens that may come out of it, where there is a budget of them.
    pub output: u64,
    /// Whether a model writes the answer, and does not only compute vectors.
    pub writes: bool,
}

impl Reported {
    /// Whether it told any tokens.
    #[must_use]
    pub fn told(&self) -> bool {
        self.input.is_some() || self.output.is_some()
    }

    /// What is counted, and whether it is a bound. `whole` says that the response came to its end.
    ///
    /// A client that goes away before the end would otherwise use what nobody counts: some providers write on.
    #[must_use]
    pub fn counted(&self, whole: bool, bounds: Bounds) -> (Tokens, bool) {
        let rest = |part: Option<u64>| self.total.zip(part).map(|(total, part)| total.saturating_sub(part));
        let input = self.input.or(rest(self.output)).unwrap_or(bounds.sent);
        let told = self.output.max(rest(self.input));
        let seen = match told {
            Some(told) if self.is_final => told.saturating_add(self.after),
            // What cannot be read (`alt=proto`, sound) is no less than what can.
            told => told.unwrap_or(0).max(self.bytes),
        };
        let (output, is_bound) = match told {
            _ if !bounds.writes => (told.unwrap_or(0), self.input.is_none()),
            // The end of a stream tells nothing more: many clients do not wait for it.
            Some(told) if self.is_final && (whole || self.is_ended) => (told, self.input.is_none()),
            _ if whole => (seen, true),
            _ => (seen.max(bounds.output), true),
        };
        let cache_read = self.cache.cache_read.min(input);
        (Tokens { input, output, cache_read, ..self.cache }, is_bound)
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
        found.is_ended |= events.as_ref().is_some_and(|events| events.is_done);
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
    total: Option<u64>,
    /// Beside the input, in Anthropic's way.
    cache_read: u64,
    cache_write: u64,
    /// Part of those written, kept for an hour.
    cache_write_long: u64,
    /// Part of the input, in everybody else's.
    cached: u64,
    /// Gemini counts its thoughts, and what its tools say, apart.
    thoughts: u64,
    tools: u64,
    is_final: bool,
    is_ended: bool,
    bytes: u64,
    after: u64,
}

impl Found {
    fn see(&mut self, levels: &[Level], value: Value<'_>) {
        // Gemini's stream without events is an array of what its events would be.
        let levels = match levels {
            [first, rest @ ..] if first.is_array() => rest,
            levels => levels,
        };
        let name = |at: usize| levels.get(at).and_then(Level::name).unwrap_or_default();
        let length = match value {
            Value::Text(_, length) => length,
            Value::Number(number) => number.len() as u64,
            _ => 1,
        };
        let own_name = levels.last().and_then(Level::name).map_or(0, str::len);
        self.after = self.after.saturating_add(length).saturating_add(own_name as u64);
        let Value::Number(number) = value else {
            self.is_ended |= match (levels.len(), value) {
                (1, Value::Text(kind, _)) if name(0) == "type" => matches!(
                    kind,
                    "message_stop" | "response.completed" | "response.incomplete" | "response.failed"
                ),
                (1, Value::Bool(true)) => name(0) == "done",
                (2, Value::Text(..)) => name(0) == "delta" && name(1) == "stop_reason",
                _ => false,
            };
            return;
        };
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
            (3, "usage", "cache_creation", "ephemeral_1h_input_tokens") => {
                self.cache_write_long = self.cache_write_long.max(number);
                true
            }
            (1, member @ ("prompt_eval_count" | "eval_count"), _, _) => self.plain(member, number),
            _ => false,
        };
        if known && is_final {
            (self.is_final, self.after) = (true, 0);
        }
    }

    fn plain(&mut self, member: &str, number: u64) -> bool {
        // What was told once is not taken back.
        match member {
            "input_tokens" | "prompt_tokens" | "promptTokenCount" | "prompt_eval_count" => {
                self.input = self.input.max(Some(number));
            }
            "output_tokens" | "completion_tokens" | "candidatesTokenCount" | "eval_count" => {
                self.output = self.output.max(Some(number));
            }
            "total_tokens" | "totalTokenCount" => self.total = self.total.max(Some(number)),
            "cache_creation_input_tokens" => self.cache_write = self.cache_write.max(number),
            "cache_read_input_tokens" => self.cache_read = self.cache_read.max(number),
            "cachedContentTokenCount" | "prompt_cache_hit_tokens" => self.cached = number,
            "thoughtsTokenCount" => self.thoughts = self.thoughts.max(number),
            "toolUsePromptTokenCount" => self.tools = self.tools.max(number),
            _ => return false,
        }
        true
    }

    fn reported(&self) -> Reported {
        let sum = |numbers: [u64; 3]| numbers.into_iter().fold(0, u64::saturating_add);
        let input = self.input.or((self.cache_read > 0 || self.cache_write > 0).then_some(0));
        let input =
            input.map(|input| sum([input, self.cache_read, self.cache_write]).saturating_add(self.tools));
        let output = self.output.or((self.thoughts > 0).then_some(0));
        let Found { total, is_final, is_ended, bytes, after, .. } = *self;
        Reported {
            input,
            output: output.map(|output| output.saturating_add(self.thoughts)),
            total,
            cache: Tokens {
                cache_read: self.cache_read.saturating_add(self.cached),
                cache_write: self.cache_write,
                cache_write_long: self.cache_write_long,
                ..Tokens::default()
            },
            is_final,
            is_ended,
            bytes,
            after,
        }
    }
}

/// A provider may write `12.0`, and nonsense is no number of tokens.
fn count(number: &str) -> Option<u64> {
    number.parse().ok().or_else(|| {
        let number: f64 = number.parse().ok()?;
        (0.0..1e15).contains(&number).then_some(number as u64)
    })
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
    /// What the event's data began with.
    start: Vec<u8>,
    /// OpenAI's last event has come.
    is_done: bool,
}

const DONE: &[u8] = b"[DONE]";

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
                    let room = DONE.len() + 1 - self.start.len();
                    self.start.extend_from_slice(&rest[..end.min(room)]);
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
            self.is_done |= self.start == DONE;
            self.start.clear();
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
        Tokens { input, output, cache_read, cache_write, ..Tokens::default() }
    }

    /// Without a bound of the output.
    fn sent(sent: u64) -> Bounds {
        Bounds { sent, output: 0, writes: true }
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
        assert!(reported.is_final && reported.is_ended);
        assert_eq!(reported.counted(true, sent(1000)), (tokens(175, 15, 50, 100), false));
        assert_eq!(reported.counted(false, sent(1000)), (tokens(175, 15, 50, 100), false), "all was told");

        let begun = read(SSE, stream.split("event: message_delta").next().unwrap());
        assert!(begun.told() && !begun.is_final && !begun.is_ended);
        let bytes = begun.bytes;
        assert_eq!(begun.counted(false, sent(1000)), (tokens(175, bytes, 50, 100), true));
        assert_eq!(
            begun.counted(true, sent(1000)),
            (tokens(175, bytes, 50, 100), true),
            "cut by the provider"
        );
        let bounds = Bounds { output: 32_000, ..sent(1000) };
        assert_eq!(begun.counted(false, bounds), (tokens(175, 32_000, 50, 100), true), "it may write on");
        assert_eq!(reported.counted(false, bounds), (tokens(175, 15, 50, 100), false));

        let plain = r#"{"id":"m","content":[{"type":"text","text":"Hi"}],"usage":{"input_tokens":10,"output_tokens":3,"cache_read_input_tokens":0}}"#;
        assert_eq!(read("application/json", plain).counted(true, sent(9)), (tokens(10, 3, 0, 0), false));
    }

    #[test]
    fn openai_chat_tells_at_the_end_if_asked() {
        let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}],\"usage\":null}\n\n\
            data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":12,\"total_tokens\":21,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n\
            data: [DONE]\n\n";
        assert_eq!(read(SSE, stream).counted(true, sent(1)), (tokens(9, 12, 4, 0), false));
        let silent = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\ndata: [DONE]\n\n";
        let bytes = silent.len() as u64;
        assert_eq!(read(SSE, silent).counted(true, sent(100)), (tokens(100, bytes, 0, 0), true));
        let told = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\n";
        let bounds = Bounds { output: 50, ..sent(100) };
        assert_eq!(read(SSE, told).counted(false, bounds), (tokens(9, 50, 0, 0), true), "more may come");
        let done = format!("{told}data: [DONE]\n\n");
        assert_eq!(read(SSE, &done).counted(false, bounds), (tokens(9, 2, 0, 0), false));
        let no_end = format!("{told}data: x[DONE]\n\ndata: [DONE]x\n\ndata: {{\"a\":\"[DONE]\"}}\n\n");
        assert_eq!(read(SSE, &no_end).counted(false, bounds), (tokens(9, 50, 0, 0), true));
        let plain =
            r#"{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":9,"completion_tokens":12}}"#;
        assert_eq!(read("application/json", plain).counted(true, sent(1)), (tokens(9, 12, 0, 0), false));
    }

    #[test]
    fn openai_responses_tell_when_they_are_complete() {
        let stream = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n\
            event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"usage\":{\"input_tokens\":37,\"input_tokens_details\":{\"cached_tokens\":7},\"output_tokens\":11,\"total_tokens\":48}}}\n\n";
        assert_eq!(read(SSE, stream).counted(true, sent(1)), (tokens(37, 11, 7, 0), false));
        let plain = r#"{"id":"r","usage":{"input_tokens":37,"output_tokens":11}}"#;
        assert_eq!(read("application/json", plain).counted(true, sent(1)), (tokens(37, 11, 0, 0), false));
    }

    #[test]
    fn gemini_tells_in_each_part_of_a_stream_or_an_array() {
        let part = |output: u64| {
            format!(
                "{{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"a\"}}]}}}}],\"usageMetadata\":{{\"promptTokenCount\":8,\"candidatesTokenCount\":{output},\"thoughtsTokenCount\":5,\"cachedContentTokenCount\":2,\"toolUsePromptTokenCount\":1,\"totalTokenCount\":{}}}}}",
                14 + output
            )
        };
        let wanted = (tokens(9, 25, 2, 0), false);
        let stream = format!("data: {}\r\n\r\ndata: {}\r\n\r\n", part(3), part(20));
        assert_eq!(read(SSE, &stream).counted(true, sent(1)), wanted);
        let array = format!("[{}\n,\r\n{}\n]\n", part(3), part(20));
        assert_eq!(read("application/json; charset=UTF-8", &array).counted(true, sent(1)), wanted);
        assert_eq!(read("application/json", &part(20)).counted(true, sent(1)), wanted);
    }

    #[test]
    fn ollama_tells_in_its_last_line() {
        let lines = "{\"message\":{\"content\":\"Hi\"},\"done\":false}\n{\"message\":{\"content\":\"\"},\"done\":true,\"prompt_eval_count\":26,\"eval_count\":290}\n";
        assert_eq!(
            read("application/x-ndjson", lines).counted(true, sent(1)),
            (tokens(26, 290, 0, 0), false)
        );
        let begun =
            read("application/x-ndjson", "{\"message\":{\"content\":\"Hello you\"},\"done\":false}\n{\"mess");
        assert_eq!(begun.counted(false, sent(8)), (tokens(8, begun.bytes, 0, 0), true));
        assert!(begun.bytes > 50);
    }

    #[test]
    #[kennel_claim::claim("gateway/models-do-not-count")]
    fn what_a_model_says_is_no_report() {
        let said = "data: {\"choices\":[{\"usage\":{\"completion_tokens\":5},\"delta\":{\"content\":\"\\n\\ndata: {\\\"usage\\\":{\\\"completion_tokens\\\":7}}\\n\\n\"}}]}\n\n";
        assert!(!read(SSE, said).told());
        let nested = r#"{"output":[{"usage":{"output_tokens":7}}],"metadata":{"usage":{"output_tokens":7}}}"#;
        assert!(!read("application/json", nested).told());
        for odd in ["-5", "1e400", "\"7\"", "null", "[7]", "{}"] {
            let text = format!("{{\"usage\":{{\"output_tokens\":{odd}}}}}");
            assert!(!read("application/json", &text).told(), "{odd}");
        }
    }

    #[test]
    #[kennel_claim::claim("gateway/models-do-not-count")]
    fn lines_of_events_end_in_three_ways_and_data_has_many_lines() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = format!(
                "\u{feff}data:{{\"usage\":{end}data: {{\"output_tokens\":{end}data:  7}}}}{end}id: 1{end}{end}: comment{end}{end}event: x{end}data{end}{end}"
            );
            assert_eq!(read(SSE, &stream).output, Some(7), "{end:?}");
        }
        let broken = "data: {oops\n\ndata: {\"usage\":{\"output_tokens\":7}}\n\n";
        assert_eq!(read(SSE, broken).output, Some(7), "an event that is no JSON is left out");
        assert_eq!(read("audio/mpeg", "ID3 and more").counted(true, sent(40)), (tokens(40, 12, 0, 0), true));
    }

    #[test]
    #[kennel_claim::claim("gateway/budgets-hold")]
    fn what_is_not_told_is_counted_by_every_byte() {
        // Whatever a member is called, and in names and numbers too.
        for text in [
            r#"{"candidates":[{"functionCall":{"args":{"written by a model":1}}}]}"#,
            r#"{"choices":[{"message":{"audio":{"transcript":"spoken"}}}]}"#,
            r#"{"choices":[{"token_ids":[1,2,3]}]}"#,
            r#"{"output":[{"encrypted_content":"gAAA"}]}"#,
            "plain text",
            "{\"broken\": ",
        ] {
            let whole = read("application/json", text).counted(true, sent(9));
            assert_eq!(whole, (tokens(9, text.len() as u64, 0, 0), true), "{text}");
        }
        for (usage, wanted) in [
            // Thoughts that only the sum tells of.
            (
                r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":400}"#,
                (tokens(10, 390, 0, 0), false),
            ),
            (r#"{"prompt_tokens":10,"total_tokens":10}"#, (tokens(10, 0, 0, 0), false)),
            (r#"{"completion_tokens":5,"total_tokens":30}"#, (tokens(25, 5, 0, 0), true)),
            (r#"{"completion_tokens":5}"#, (tokens(99, 5, 0, 0), true)),
            (
                r#"{"completion_tokens":500,"prompt_tokens":1,"completion_tokens":0}"#,
                (tokens(1, 500, 0, 0), false),
            ),
        ] {
            let text = format!("{{\"usage\":{usage}}}");
            assert_eq!(read("application/json", &text).counted(true, sent(99)), wanted, "{usage}");
        }
        let halved = r#"{"usage":{"input_tokens":10}}"#;
        let (counted, is_bound) = read("application/json", halved).counted(true, sent(99));
        assert_eq!((counted, is_bound), (tokens(10, halved.len() as u64, 0, 0), true));
        let vectors = Bounds { writes: false, ..sent(99) };
        assert_eq!(read("application/json", halved).counted(true, vectors), (tokens(10, 0, 0, 0), false));
        let long = r#"{"usage":{"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_1h_input_tokens":8}}}"#;
        let (counted, _) = read("application/json", long).counted(true, sent(1));
        assert_eq!(counted, Tokens { cache_write_long: 8, ..tokens(10, 2, 0, 9) });
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
