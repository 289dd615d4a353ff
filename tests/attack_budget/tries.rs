//! What is asked, and what the provider makes of it: both come from the same number, so whoever knows that knows what was said by
//! either side, and need not read it.

use crate::attack_gate::rng::Rng;

/// A model that no policy here allows. Nothing that a provider gets may have it in it.
pub const FORBIDDEN: &str = "forbidden";
/// As many tokens are assumed where a request does not say how many it wants.
const UNLIMITED: u64 = 131_072;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    OpenAi,
    Anthropic,
    Gemini,
    Ollama,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 4] =
        [Protocol::OpenAi, Protocol::Anthropic, Protocol::Gemini, Protocol::Ollama];

    /// Its name in settings.
    pub fn word(self) -> &'static str {
        self.row().0
    }

    /// The protocol of this name.
    pub fn of_word(word: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.word() == word)
    }

    /// The variable that leads clients to it.
    pub fn base(self) -> &'static str {
        self.row().1
    }

    /// The variable with the key.
    pub fn key(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Protocol::OpenAi => ("openai", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
            Protocol::Anthropic => ("anthropic", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
            Protocol::Gemini => ("gemini", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
            Protocol::Ollama => ("ollama", "OLLAMA_HOST", "OLLAMA_API_KEY"),
        }
    }
}

/// A request, and its answer.
#[derive(Debug)]
pub struct Try {
    pub ask: Ask,
    pub answer: Answer,
}

/// A request.
#[derive(Debug)]
pub struct Ask {
    /// The path and the query.
    pub line: String,
    /// With [`SAID`] where the number of the try goes.
    pub body: String,
    pub chunked: bool,
    pub with_token: bool,
    /// The client goes away when it has as many bytes of the answer.
    pub leaves_after: Option<usize>,
    /// Before it goes, it stays for a while and reads nothing.
    pub dawdles: bool,
    /// The most that a model may write for it, where a model writes.
    pub most: Option<u64>,
    /// There is nothing odd about it: while there is budget it has to pass.
    pub is_plain: bool,
}

/// Where the number of a try goes.
pub const SAID: &str = "@SAID@";

/// How the end of an answer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length,
    Chunked,
    /// With fields behind it that look like usage.
    Trailers,
    UntilClose,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Whole,
    /// The connection is closed after as many bytes of the body.
    Cut(usize),
    /// It is closed before anything is said.
    Nothing,
    /// What comes is no HTTP.
    Garbage,
    /// It goes on for as long as anybody listens.
    Endless,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Interim answers before it.
    pub interim: usize,
    pub status: u16,
    pub fields: Vec<(&'static str, &'static str)>,
    pub framing: Framing,
    pub end: End,
    pub body: Vec<u8>,
    /// What it says was used, in the places where its protocol says that.
    pub told: Option<(u64, u64)>,
    /// Behind as many bytes all was told, also that it is all.
    pub told_by: usize,
    /// It is read as its protocol says.
    pub is_readable: bool,
    /// It cannot be passed on.
    pub is_encoded: bool,
}

/// What was used at least.
#[derive(Clone, Copy, Debug, Default)]
pub struct Least {
    pub input: u64,
    pub output: u64,
    /// It is no more either.
    pub is_exact: bool,
}

/// What a provider says of the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Honest,
    Nothing,
    Zero,
    Huge,
    /// Much, and then little.
    TakenBack,
    Negative,
    Text,
    Null,
    List,
    /// In a place where nobody says it.
    Elsewhere,
    /// In letters that nobody uses.
    OtherCase,
    /// In what the model says.
    InText,
    OnlyTotal,
}

const WORDS: [Word; 13] = [
    Word::Honest,
    Word::Nothing,
    Word::Zero,
    Word::Huge,
    Word::TakenBack,
    Word::Negative,
    Word::Text,
    Word::Null,
    Word::List,
    Word::Elsewhere,
    Word::OtherCase,
    Word::InText,
    Word::OnlyTotal,
];

impl Try {
    /// The try of this number.
    pub fn make(seed: u64, protocol: Protocol, number: u64) -> Try {
        let mut rng = Rng::new(seed ^ 0xb0d9, number);
        let mut ask = Asking { rng: &mut rng, protocol, number }.make();
        let (streams, writes) = (ask.1, ask.0.most.is_some());
        let answer = Answering { rng: &mut rng, protocol, streams, writes }.make(&ask.0.line);
        if answer.end == End::Endless {
            ask.0.leaves_after = Some(1 + rng.below(20_000));
        } else if rng.one_in(8) {
            ask.0.leaves_after = Some(rng.below(answer.body.len() + 1));
        }
        Try { ask: ask.0, answer }
    }

    /// What was used at least, by what docs/secrets.md promises, read from how the two were made: of a request with `sent` bytes
    /// of a body. `limited` says whether there is a budget of tokens or cost, and `stayed` whether the client waited for the end.
    pub fn least(&self, sent: u64, limited: bool, stayed: bool) -> Least {
        let Try { ask, answer } = self;
        let told = answer.told.filter(|_| answer.is_readable);
        let writes = |tokens: u64| if ask.most.is_some() { tokens } else { 0 };
        // Of what may have been told nobody knows whether it was still read.
        let at_least = |unknown: u64, told: Option<u64>| told.map_or(unknown, |told| told.min(unknown));
        let most = if limited { ask.most.unwrap_or(0) } else { 0 };
        let (input, output) = (answer.told.map(|told| told.0), answer.told.map(|told| told.1));
        let is_error = !(200..300).contains(&answer.status);
        let bytes = answer.body.len() as u64;
        let is_whole = answer.end == End::Whole && stayed;
        if answer.is_encoded && !is_error {
            return Least { input: sent, output: writes(most), is_exact: false };
        }
        if is_error {
            // Nothing is charged for it, unless it says so itself.
            let output = if limited && is_whole && !answer.is_encoded { at_least(bytes, output) } else { 0 };
            return Least { input: 0, output: writes(output), is_exact: false };
        }
        match (answer.end, told) {
            (End::Whole, Some((input, output))) if is_whole => {
                Least { input, output: writes(output), is_exact: ask.most.is_some() }
            }
            (End::Whole, None) if is_whole => Least {
                input: at_least(sent, input),
                output: writes(at_least(bytes, output)),
                is_exact: false,
            },
            (End::Nothing | End::Garbage, _) => Least { input: sent, output: writes(most), is_exact: false },
            (End::Cut(at), _) if at < answer.told_by => {
                Least { input: at_least(sent, input), output: writes(most), is_exact: false }
            }
            (End::Endless, _) => {
                Least { input: at_least(sent, input), output: writes(most), is_exact: false }
            }
            // All of it may have come before the client went.
            _ => Least {
                input: at_least(sent, input),
                output: writes(at_least(most.min(bytes), output)),
                is_exact: false,
            },
        }
    }
}

struct Asking<'r> {
    rng: &'r mut Rng,
    protocol: Protocol,
    number: u64,
}

impl Asking<'_> {
    /// The request, and whether it wants a stream.
    fn make(mut self) -> (Ask, bool) {
        let model = format!("small-{}", self.number);
        let mut streams = self.rng.one_in(2);
        let (mut line, said) = match self.protocol {
            Protocol::OpenAi => match self.rng.below(8) {
                0 => ("/responses".to_owned(), format!("\"input\":\"{SAID}\"")),
                1 => ("/embeddings".to_owned(), format!("\"input\":[\"{SAID}\"]")),
                2 => ("/completions".to_owned(), format!("\"prompt\":\"{SAID}\"")),
                _ => ("/chat/completions".to_owned(), messages()),
            },
            Protocol::Anthropic => ("/v1/messages".to_owned(), messages()),
            Protocol::Gemini => {
                let verb = match (streams, self.rng.one_in(2)) {
                    (false, _) => "generateContent",
                    (true, false) => "streamGenerateContent",
                    (true, true) => "streamGenerateContent?alt=sse",
                };
                (
                    format!("/v1beta/models/{model}:{verb}"),
                    format!("\"contents\":[{{\"parts\":[{{\"text\":\"{SAID}\"}}]}}]"),
                )
            }
            Protocol::Ollama => ("/api/chat".to_owned(), messages()),
        };
        let writes = !line.starts_with("/embeddings");
        streams &= writes;
        let mut members = vec![said];
        if self.protocol != Protocol::Gemini {
            members.push(format!("\"model\":\"{model}\""));
            if writes && (streams || self.protocol == Protocol::Ollama) {
                members.push(format!("\"stream\":{streams}"));
            }
        }
        let mut is_plain = true;
        let most = writes.then(|| self.limit(&line, &mut members));
        // A limit that is none is taken for the name of a model in some places.
        is_plain &= most.is_none_or(|most| most < UNLIMITED);
        if self.rng.one_in(5) {
            is_plain = false;
            self.odd(&mut line, &mut members);
        }
        // Which comes first is nobody's business.
        for at in (1..members.len()).rev() {
            let other = self.rng.below(at + 1);
            members.swap(at, other);
        }
        if self.protocol == Protocol::OpenAi && !line.starts_with("/openai") {
            line.insert_str(0, "/v1");
        }
        let body = format!("{{{}}}", members.join(","));
        let with_token = !self.rng.one_in(40);
        let ask = Ask {
            line,
            body,
            chunked: self.rng.one_in(6),
            with_token,
            leaves_after: None,
            dawdles: self.rng.one_in(8),
            most,
            is_plain: is_plain && with_token,
        };
        (ask, streams)
    }

    /// Says how much is wanted, in one of many ways, and returns the most that a provider may take it for.
    fn limit(&mut self, line: &str, members: &mut Vec<String>) -> u64 {
        let amount = [1, 5, 50, 400, 3000][self.rng.below(5)];
        let odd = self.rng.one_in(6);
        let (text, most) = match self.rng.below(if odd { 7 } else { 1 }) {
            0 => (amount.to_string(), amount),
            1 => ("0".into(), UNLIMITED),
            2 => ("-1".into(), UNLIMITED),
            3 => ("\"9\"".into(), UNLIMITED),
            4 => ("9.5".into(), UNLIMITED),
            5 => ("null".into(), UNLIMITED),
            _ => (String::new(), UNLIMITED),
        };
        let answers = if self.rng.one_in(6) { 1 + self.rng.below(5) as u64 } else { 1 };
        let mut inner = Vec::new();
        let names: &[&str] = match self.protocol {
            Protocol::OpenAi if line.contains("/responses") => &["max_output_tokens"],
            Protocol::OpenAi => &["max_tokens", "max_completion_tokens"],
            Protocol::Anthropic => &["max_tokens"],
            Protocol::Gemini => &["maxOutputTokens"],
            Protocol::Ollama => &["num_predict"],
        };
        let name = self.rng.pick(names);
        if !text.is_empty() {
            inner.push(format!("\"{name}\":{text}"));
        }
        let mut most = most;
        if names.len() > 1 && most != UNLIMITED && self.rng.one_in(6) {
            // A second one under the other name: which counts, only the provider knows.
            let other = names.iter().find(|other| **other != name).map_or("", |other| other);
            inner.push(format!("\"{other}\":{}", 2 * amount));
            most = most.max(2 * amount);
        }
        match self.protocol {
            Protocol::OpenAi if !line.contains("/responses") && answers > 1 => {
                inner.push(format!("\"n\":{answers}"));
                most *= answers;
            }
            Protocol::Gemini if answers > 1 => {
                inner.push(format!("\"candidateCount\":{answers}"));
                most *= answers;
            }
            _ => {}
        }
        let inner = inner.join(",");
        match self.protocol {
            Protocol::Gemini => members.push(format!("\"generationConfig\":{{{inner}}}")),
            Protocol::Ollama => members.push(format!("\"options\":{{{inner}}}")),
            _ if inner.is_empty() => {}
            _ => members.push(inner),
        }
        most
    }

    /// Something that a policy forbids, or that two servers would read in two ways.
    fn odd(&mut self, line: &mut String, members: &mut Vec<String>) {
        let body = [
            "\"model\":\"@\"",
            "\"Model\":\"@\"",
            "\"MODEL\":\"@\"",
            "\"mod\\u0065l\":\"@\"",
            "\"model\":[\"@\"]",
            "\"model\":{\"id\":\"@\"}",
            "\"models\":[\"@\"]",
            "\"fallbacks\":[{\"model\":\"@\"}]",
            "\"fallback\":\"@\"",
            "\"tools\":[{\"type\":\"function\",\"model\":\"@\"}]",
            "\"tools\":[{\"type\":\"function\",\"parameters\":{\"engine\":\"@\"}}]",
            "\"reasoning\":{\"deep\":{\"Model_Name\":\"@\"}}",
            "\"tool_choice\":{\"deployment\":{\"@\":1}}",
            "\"extra_body\":{\"model\":\"@\"}",
            "\"\\u006dodel_id\":\"@\"",
            "\"plugins\":[{\"id\":\"web\",\"engine\":\"@\"}]",
            "\"preset\":\"@\"",
            "\"thinking\":{\"by\":\"@\"}",
            "\"generationConfig\":{\"routingConfig\":{\"modelName\":\"@\"}}",
            "\"toolConfig\":{\"by\":\"models/@\"}",
            "\"options\":{\"draft_model\":\"@\"}",
            "\"speculative\":{\"\\u006dodel\":\"@\"}",
            "\"stream_options\":{\"include_usage\":false}",
            "\"stream_options\":null",
            "\"stream_options\":{\"include_usage\":true,\"include_usage\":false}",
            "\"stream\":true,\"stream\":false",
            "\"background\":true",
            "\"deferred\":true",
            "\"service_tier\":\"priority\"",
            "\"serviceTier\":\"PRIORITY\"",
            "\"speed\":\"fast\"",
            "\"tools\":[{\"type\":\"web_search\"}]",
            "\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}]",
            "\"tools\":[{\"googleSearch\":{}}]",
        ];
        let forbidden = match self.rng.below(3) {
            0 => FORBIDDEN.to_owned(),
            1 => format!("{FORBIDDEN}-small-1"),
            _ => "forb\\u0069dden".into(),
        };
        let lines = ["?model=@", "?models=@&alt=json", "/@", "/../@", "%2f@", ":@", ";model=@", "#@"];
        match self.rng.below(4) {
            0 => {
                let more = self.rng.pick(&lines).replace('@', FORBIDDEN);
                let (path, query) = line.split_once('?').unwrap_or((line, ""));
                let mark = if query.is_empty() {
                    ""
                } else if more.contains('?') {
                    "&"
                } else {
                    "?"
                };
                *line = format!("{path}{more}{mark}{query}");
            }
            1 if self.protocol == Protocol::OpenAi => {
                *line = match self.rng.below(3) {
                    0 => format!("/openai/deployments/{FORBIDDEN}/chat/completions"),
                    1 => format!("/files/{FORBIDDEN}"),
                    _ => format!("/batches?model={FORBIDDEN}"),
                }
            }
            1 => *line = line.replace("small-", FORBIDDEN).replace("/messages", "/messages/batches"),
            _ => members.push(self.rng.pick(&body).replace('@', &forbidden)),
        }
    }
}

fn messages() -> String {
    format!("\"messages\":[{{\"role\":\"user\",\"content\":\"{SAID}\"}}]")
}

struct Answering<'r> {
    rng: &'r mut Rng,
    protocol: Protocol,
    streams: bool,
    writes: bool,
}

impl Answering<'_> {
    fn make(mut self, line: &str) -> Answer {
        let is_calm = self.rng.one_in(2);
        let word = if is_calm { Word::Honest } else { WORDS[self.rng.below(WORDS.len())] };
        let numbers = match word {
            Word::Zero => (0, 0),
            Word::Huge => (1_000_000_000_000_000_000, 1_000_000_000_000_000_000),
            _ => (1 + self.rng.below(500) as u64, 1 + self.rng.below(800) as u64),
        };
        let numbers = if self.writes { numbers } else { (numbers.0, 0) };
        let in_lines =
            line.contains("alt=sse") || !matches!(self.protocol, Protocol::Gemini | Protocol::Ollama);
        let (kind, body, told_by) = match self.protocol {
            _ if !self.streams => ("application/json", self.object(line, word, numbers), usize::MAX),
            Protocol::Ollama => {
                let parts = self.parts(line, word, numbers);
                let text = parts.join("\n") + "\n";
                // It says so before it tells, and a part of that line may tell enough.
                let told_by = text.find("\"done\":true").unwrap_or(usize::MAX);
                ("application/x-ndjson", text, told_by)
            }
            _ if !in_lines => {
                let parts = self.parts(line, word, numbers);
                ("application/json", format!("[{}]", parts.join(",\r\n")), usize::MAX)
            }
            _ => {
                let mut text = String::new();
                let mut parts = self.parts(line, word, numbers);
                if self.protocol == Protocol::OpenAi && !line.contains("/responses") {
                    parts.push("[DONE]".into());
                }
                let end = self.rng.pick(&["\n", "\r\n", "\r"]).to_owned();
                for part in parts {
                    text += &format!("data: {part}{end}{end}");
                }
                // The last event, where it says that it is the last one.
                let says_so = self.protocol != Protocol::Gemini;
                let told_by = if says_so { text.len().saturating_sub(1) } else { usize::MAX };
                ("text/event-stream", text, told_by)
            }
        };
        let told = match word {
            Word::Honest | Word::Zero | Word::Huge | Word::TakenBack => Some(numbers),
            _ => None,
        };
        let mut answer = Answer {
            interim: 0,
            status: 200,
            fields: vec![("Content-Type", kind)],
            framing: Framing::Chunked,
            end: End::Whole,
            body: body.into_bytes(),
            told,
            told_by,
            is_readable: true,
            is_encoded: false,
        };
        if !is_calm {
            self.disturb(&mut answer);
        }
        answer
    }

    fn disturb(&mut self, answer: &mut Answer) {
        if self.rng.one_in(4) {
            answer.interim = 1 + self.rng.below(3);
        }
        answer.framing = match self.rng.below(5) {
            0 => Framing::Length,
            1 => Framing::Trailers,
            2 => Framing::UntilClose,
            _ => Framing::Chunked,
        };
        if self.rng.one_in(4) {
            let statuses = [201, 206, 302, 400, 401, 404, 422, 429, 500, 503, 529];
            answer.status = statuses[self.rng.below(statuses.len())];
            // A part of something is not passed on where it may have the key in it.
            answer.is_encoded = answer.status == 206;
            answer.fields.push(("Retry-After", "0"));
            answer.fields.push(("x-should-retry", "true"));
        }
        match self.rng.below(12) {
            0 => {
                answer.fields[0].1 = self.rng.pick(&[
                    "text/event-stream",
                    "application/json",
                    "application/x-ndjson",
                    "application/octet-stream",
                    "audio/mpeg",
                ]);
                answer.is_readable = false;
            }
            1 => {
                answer.fields.push(("Content-Encoding", self.rng.pick(&["gzip", "br", "identity, gzip"])));
                answer.is_encoded = true;
            }
            _ => {}
        }
        answer.end = match self.rng.below(10) {
            0 => End::Nothing,
            1 => End::Garbage,
            2 if self.streams => End::Endless,
            3..=5 if answer.framing != Framing::UntilClose => End::Cut(self.rng.below(answer.body.len())),
            _ => End::Whole,
        };
        if answer.end == End::Endless {
            answer.framing = Framing::Chunked;
            (answer.told, answer.told_by, answer.status) = (None, usize::MAX, 200);
            answer.body.clear();
        }
    }

    /// What the protocol calls it, with these values.
    fn usage(&self, line: &str, input: &str, output: &str) -> String {
        match self.protocol {
            Protocol::OpenAi if line.contains("/responses") => {
                format!("\"usage\":{{\"input_tokens\":{input},\"output_tokens\":{output}}}")
            }
            Protocol::OpenAi if !self.writes => format!("\"usage\":{{\"prompt_tokens\":{input}}}"),
            Protocol::OpenAi => {
                format!("\"usage\":{{\"prompt_tokens\":{input},\"completion_tokens\":{output}}}")
            }
            Protocol::Anthropic => {
                format!("\"usage\":{{\"input_tokens\":{input},\"output_tokens\":{output}}}")
            }
            Protocol::Gemini => {
                format!(
                    "\"usageMetadata\":{{\"promptTokenCount\":{input},\"candidatesTokenCount\":{output}}}"
                )
            }
            Protocol::Ollama => format!("\"prompt_eval_count\":{input},\"eval_count\":{output}"),
        }
    }

    /// What stands beside the rest of an object: usage, or what looks like it.
    fn members(&self, line: &str, word: Word, (input, output): (u64, u64)) -> String {
        let (input, output) = (input.to_string(), output.to_string());
        let both = |value: &str| self.usage(line, value, value);
        let honest = self.usage(line, &input, &output);
        match word {
            Word::Honest | Word::Zero | Word::Huge => honest,
            Word::TakenBack => format!("{honest},{}", both("0")),
            Word::Nothing | Word::InText => "\"object\":\"nothing\"".into(),
            Word::Negative => both("-7"),
            Word::Text => both("\"7\""),
            Word::Null => both("null"),
            Word::List => both("[7]"),
            Word::Elsewhere => {
                format!("\"choices\":[{{{honest}}}],\"metadata\":{{{honest}}},\"x\":{{\"y\":{{{honest}}}}}")
            }
            Word::OtherCase => honest
                .replace("usage", "Usage")
                .replace("eval_count", "Eval_Count")
                .replace("tokens", "Tokens"),
            Word::OnlyTotal => {
                let name = if self.protocol == Protocol::Gemini { "usageMetadata" } else { "usage" };
                format!("\"{name}\":{{\"total_tokens\":1,\"totalTokenCount\":1}}")
            }
        }
    }

    fn words(&mut self, word: Word) -> String {
        let mut said = "so it goes on, ".repeat(1 + self.rng.below(30));
        if word == Word::InText {
            said += "\\n\\ndata: {\\\"usage\\\":{\\\"prompt_tokens\\\":0,\\\"completion_tokens\\\":0},\\\"type\\\":\\\"message_stop\\\"}\\n\\ndata: [DONE]\\n\\n";
        }
        said
    }

    fn object(&mut self, line: &str, word: Word, numbers: (u64, u64)) -> String {
        let (said, members) = (self.words(word), self.members(line, word, numbers));
        format!("{{\"id\":\"r\",\"content\":\"{said}\",{members}}}")
    }

    /// The objects of a stream. The last one tells, and that it is the last.
    fn parts(&mut self, line: &str, word: Word, numbers: (u64, u64)) -> Vec<String> {
        let count = 1 + self.rng.below(6);
        let mut parts: Vec<String> = Vec::new();
        for _ in 0..count {
            let said = self.words(word);
            parts.push(format!("{{\"type\":\"delta\",\"content\":\"{said}\"}}"));
        }
        let members = self.members(line, word, numbers);
        parts.push(match self.protocol {
            Protocol::OpenAi if line.contains("/responses") => {
                format!("{{\"type\":\"response.completed\",\"response\":{{{members}}}}}")
            }
            Protocol::OpenAi => {
                format!("{{\"choices\":[],{members}}}").replace("\"choices\":[],\"choices\"", "\"choices\"")
            }
            Protocol::Anthropic => format!("{{\"type\":\"message_delta\",{members}}}"),
            Protocol::Gemini => format!("{{\"candidates\":[],{members}}}"),
            Protocol::Ollama => format!("{{\"done\":true,{members}}}"),
        });
        if self.protocol == Protocol::Anthropic {
            parts.push("{\"type\":\"message_stop\"}".into());
        }
        parts
    }
}
