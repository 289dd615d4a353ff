//! What a request's body says: which models it names, how, and how much it asks for.
//!
//! The body is read as the provider will read it, or refused: with two models in it, in letters that some servers take for the
//! same, in another encoding, one would be compared and another used.

use super::api::{Limits, Members};
use super::json::{Level, Scanner, Value};
use kennel_policy::printed::Ascii;
use kennel_policy::wildcard;

/// What is read of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The model.
    pub model: Option<String>,
    /// Whether the answer comes in parts.
    pub stream: bool,
    /// Whether the answer is fetched later, so that its tokens are not told now.
    pub background: bool,
    /// What it says of the usage that a stream tells beside the answer.
    pub stream_options: StreamOptions,
    /// Every other text that names a model, or may: fallbacks, models of tools and plug-ins, deployments, what stands in settings under
    /// a name that is not known.
    pub other_models: Vec<String>,
    /// A member that changes what a token costs, or costs something beside tokens.
    pub priced: Option<String>,
    /// The most tokens that one answer may have, where it says so.
    pub most_output: Option<u64>,
    /// How many answers it asks for.
    pub answers: u64,
}

impl Asked {
    /// The most tokens that a model may write for this request. One that does not say so gets what no model of today exceeds.
    #[must_use]
    pub fn output_bound(&self) -> u64 {
        self.most_output.unwrap_or(MOST_OUTPUT).saturating_mul(self.answers.max(1))
    }
}

/// What a body says of the usage of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamOptions {
    /// Nothing: the gateway may ask in its place.
    #[default]
    Absent,
    /// `include_usage` is true.
    AskForUsage,
    /// Something else, so that the usage would not be told.
    Other,
}

/// The most tokens that models of today write in one answer.
pub const MOST_OUTPUT: u64 = 128 << 10;
/// As many answers are assumed where their number is not one.
const MOST_ANSWERS: u64 = 128;
/// The most of a text of the client's that is repeated to it and logged.
const MAX_SHOWN: usize = 200;
/// As many other names of models are compared.
const MAX_OTHER_MODELS: usize = 64;

/// What is known of the bodies of a kind of requests.
#[derive(Clone, Copy)]
pub struct KnownMembers<'a> {
    /// The protocol's members.
    pub tables: &'static [&'static Members],
    /// What the policy adds to them. Nobody asks what these cost.
    pub more: &'a [String],
    /// Where it says how much may come out.
    pub limits: Limits,
}

/// What a member can name.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Settings,
    Models,
}

/// What is known of an outermost member, once for all that is in it.
#[derive(Clone, Copy)]
struct Outer {
    kind: Kind,
    is_tools: bool,
    /// What is in it is the client's own, whatever it calls it.
    is_said: bool,
    /// The values that change no price, where others do.
    neutral: Option<&'static [&'static str]>,
    /// The policy says that it passes, whatever it costs.
    is_added: bool,
}

/// What a value at some place can be.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// Nothing that names a model.
    Said,
    /// It does, or may.
    MayName,
    /// It does not, but something beside it may.
    Known,
}

/// Keywords of a JSON schema whose texts describe something, as in [`Members::inner`].
const SCHEMA: [&str; 17] = [
    "$anchor",
    "$comment",
    "$id",
    "$ref",
    "$schema",
    "cachecontrol",
    "contentencoding",
    "contentmediatype",
    "description",
    "format",
    "name",
    "nullable",
    "pattern",
    "required",
    "title",
    "ttl",
    "type",
];
/// Keywords of a JSON schema below which are names and values of the client's own, at any depth. Beside them a tool's or a plug-in's
/// `parameters` may name a model that the provider uses.
const SAID_IN_SCHEMAS: [&str; 9] = [
    "properties",
    "patternproperties",
    "$defs",
    "definitions",
    "const",
    "default",
    "enum",
    "example",
    "examples",
];
/// Outermost members in which names are the client's own, in small letters and without `_`: what is said, a client's notes, and what
/// a template makes of a conversation.
const SAID_OUTERMOST: [&str; 14] = [
    "chattemplatekwargs",
    "clientmetadata",
    "content",
    "contents",
    "input",
    "instructions",
    "labels",
    "logitbias",
    "messages",
    "metadata",
    "prediction",
    "system",
    "systeminstruction",
    "trace",
];
/// What a member is called that names models, in part: `models`, `fallback_models`, `deployment_id`. Whatever is below it does too.
const NAMES_OF_MODELS: [&str; 4] = ["model", "deployment", "preset", "fallback"];

impl KnownMembers<'_> {
    fn kind(&self, name: &str) -> Option<Kind> {
        let of = |table: &&Members| {
            let lists =
                [(table.plain, Kind::Plain), (table.settings, Kind::Settings), (table.models, Kind::Models)];
            lists.into_iter().find(|(list, _)| list.contains(&name)).map(|(_, kind)| kind)
        };
        let added = || self.more.iter().any(|member| member == name).then_some(Kind::Settings);
        self.tables.iter().find_map(of).or_else(added)
    }

    fn any(&self, list: fn(&Members) -> &'static [&'static str], name: &str) -> bool {
        self.tables.iter().any(|table| list(table).contains(&name))
    }

    /// Whether texts below a name in settings name no model.
    fn is_inner(&self, name: &str) -> bool {
        let plain = squeezed(name);
        SCHEMA.contains(&plain.as_str()) || self.any(|table| table.inner, &plain)
    }

    fn outer(&self, name: &str) -> Outer {
        Outer {
            kind: self.kind(name).unwrap_or(Kind::Settings),
            is_tools: squeezed(name) == "tools",
            is_said: SAID_OUTERMOST.contains(&squeezed(name).as_str()),
            neutral: self.neutral(name),
            is_added: self.more.iter().any(|member| member == name),
        }
    }

    /// The values of a member that change no price, where others do.
    fn neutral(&self, name: &str) -> Option<&'static [&'static str]> {
        let name = squeezed(name);
        let mut rows = self.tables.iter().flat_map(|table| table.priced);
        rows.find(|(own, _)| squeezed(own) == name).map(|(_, neutral)| *neutral)
    }

    fn role(&self, outer: &Outer, levels: &[Level]) -> Role {
        let Some(first) = levels.first().and_then(Level::name) else { return Role::Known };
        // A text, or several; an object names a prompt that the provider keeps.
        if outer.is_said || first == "prompt" && levels.get(1).is_none_or(Level::is_array) {
            return Role::Said;
        }
        if outer.kind == Kind::Models {
            return Role::MayName;
        }
        // What is known to be plain names a model only where it says so, and not by its own name.
        let is_plain = outer.kind == Kind::Plain;
        for name in levels.iter().skip(usize::from(is_plain)).filter_map(Level::name) {
            let folded = folded(name);
            if NAMES_OF_MODELS.iter().any(|part| folded.contains(part)) {
                return Role::MayName;
            }
            if SAID_IN_SCHEMAS.contains(&folded.as_str()) || self.any(|table| table.said, name) {
                return Role::Said;
            }
        }
        match levels.iter().skip(1).rev().find_map(Level::name) {
            _ if is_plain => Role::Said,
            Some(nearest) if !self.is_inner(nearest) => Role::MayName,
            _ => Role::Known,
        }
    }

    /// Whether a member's name is no model's, below one that names models: `{"models": {"gpt-6": {}}}`.
    fn is_no_model(&self, name: &str) -> bool {
        let folded = folded(name);
        self.kind(name).is_some()
            || self.is_inner(name)
            || NAMES_OF_MODELS.iter().any(|part| folded.contains(part))
    }

    /// Whether a value changes what a token costs, or costs something beside tokens.
    fn is_priced(&self, outer: &Outer, levels: &[Level], value: Value<'_>) -> bool {
        if outer.is_added {
            return false;
        }
        if outer.is_tools {
            return !self.is_free_tool(levels, value);
        }
        let second = || {
            let name = levels.get(1).filter(|_| outer.kind == Kind::Settings)?.name()?;
            self.neutral(name)
        };
        let Some(neutral) = outer.neutral.or_else(second) else { return false };
        match value {
            Value::Null | Value::Bool(false) | Value::Array => false,
            Value::Text(text, _) => !neutral.contains(&text),
            _ => true,
        }
    }

    /// Whether a value below `tools` makes a tool of none that costs something. OpenAI's and Anthropic's have a `type`, or are the
    /// client's own; Gemini's have a member for each kind.
    fn is_free_tool(&self, levels: &[Level], value: Value<'_>) -> bool {
        let is_free = |kind: &str| {
            let kinds = self.tables.iter().flat_map(|table| table.free_tools);
            kinds.into_iter().any(|free| wildcard::fits(free, kind))
        };
        let by_member = self.any(|table| table.free_tools, "functionDeclarations");
        let in_arrays = levels.iter().skip(1).all(Level::is_array);
        match (levels, value) {
            ([_], Value::Array | Value::Null) | ([_, _], Value::Array | Value::Object | Value::Null)
                if in_arrays =>
            {
                true
            }
            ([_] | [_, _], _) if in_arrays => false,
            // Not a list, for whoever takes it for one.
            ([_, second, ..], _) if !second.is_array() => false,
            (_, _) if by_member => levels.iter().skip(1).find_map(Level::name).is_some_and(is_free),
            ([.., holder, list, last], value) if list.is_array() && is_named(holder, "tools") => {
                let is_tool =
                    levels.chunks_exact(2).all(|pair| is_named(&pair[0], "tools") && pair[1].is_array());
                let is_known =
                    || last.name().is_some_and(|name| self.any(|table| table.tool_members, &squeezed(name)));
                match value {
                    _ if is_tool && !is_known() => false,
                    Value::Text(kind, _) if is_named(last, "type") => is_free(kind),
                    _ => !is_named(last, "type"),
                }
            }
            _ => true,
        }
    }
}

fn is_named(level: &Level, name: &str) -> bool {
    level.name().is_some_and(|own| squeezed(own) == name)
}

fn is_path(levels: &[Level], path: &str) -> bool {
    let mut names = path.split('.');
    levels.iter().all(|level| level.name().is_some() && level.name() == names.next())
        && names.next().is_none()
}

/// A member's name in small letters: some readers take names in other letters for the same, also those that Unicode folds
/// (`\u{17f}tream`, `\u{212a}ey`).
fn folded(name: &str) -> String {
    name.chars()
        .flat_map(char::to_lowercase)
        .map(|c| match c {
            '\u{17f}' => 's',
            '\u{212a}' => 'k',
            c => c,
        })
        .collect()
}

/// The same without `_`: readers of protocol buffers take names with and without.
fn squeezed(name: &str) -> String {
    folded(name).replace('_', "")
}

/// Why a body is not sent on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// No JSON object.
    #[error("the body is not a JSON object in UTF-8")]
    NotJson,
    /// More than one member that could be meant.
    #[error("the body names `{0}` more than once")]
    Twice(&'static str),
    /// A model that is no text, or a very long one.
    #[error("`model` in the body is not a name")]
    NotAName,
    /// A member that the protocol does not have.
    #[error(
        "the body has the member `{0}`, which is not part of what the model gateway passes on; to pass it on, add it to the provider's `members`"
    )]
    Unknown(String),
    /// More models than are compared, or a member whose name is too long to be compared.
    #[error("the body names too many models, or has a member with a very long name")]
    TooMany,
}

/// Reads a whole body, whose members have to be known.
///
/// # Errors
/// When it could be read in two ways, or has another member.
pub fn read(body: &[u8], known: &KnownMembers<'_>) -> Result<Asked, BodyError> {
    let text = str::from_utf8(body).map_err(|_| BodyError::NotJson)?;
    let mut asked = Asked::default();
    let (mut error, mut is_object) = (None, false);
    let (mut models, mut streams, mut backgrounds, mut options) = (0, 0, 0, 0);
    // Whether every limit of the output is a number.
    let mut is_limited = true;
    let mut outer =
        Outer { kind: Kind::Settings, is_tools: false, is_said: false, neutral: None, is_added: false };
    let mut tell = |levels: &[Level], value: Value<'_>| {
        if let [only] = levels {
            outer = known.outer(only.name().unwrap_or_default());
        }
        let role = known.role(&outer, levels);
        if role != Role::Said && levels.iter().any(|level| level.name().is_none() && !level.is_array()) {
            error = Some(BodyError::TooMany);
        }
        if role == Role::MayName {
            let is_model =
                matches!(levels, [only] if only.name().is_some_and(|name| folded(name) == "model"));
            let last = levels.last().and_then(Level::name).filter(|_| levels.len() > 1);
            let named = match value {
                Value::Text(text, length) if text.len() as u64 != length => {
                    error = Some(BodyError::TooMany);
                    None
                }
                Value::Text(text, _) => Some(text),
                _ => last.filter(|name| names_models(levels) && !known.is_no_model(name)),
            };
            if let Some(named) = named.filter(|_| !is_model) {
                if asked.other_models.len() == MAX_OTHER_MODELS {
                    error = Some(BodyError::TooMany);
                } else {
                    asked.other_models.push(named.to_owned());
                }
            }
        }
        if asked.priced.is_none() && known.is_priced(&outer, levels, value) {
            asked.priced = levels.first().and_then(Level::name).map(str::to_owned);
        }
        let number = match value {
            Value::Number(number) => number.parse().ok().filter(|number| *number > 0),
            _ => None,
        };
        if known.limits.output.iter().any(|path| is_path(levels, path)) && value != Value::Null {
            is_limited &= number.is_some();
            asked.most_output = asked.most_output.max(number);
        }
        if known.limits.answers.iter().any(|path| is_path(levels, path)) && value != Value::Null {
            asked.answers = asked.answers.max(number.unwrap_or(MOST_ANSWERS));
        }
        if let [first, second] = levels
            && first.name().map(folded).as_deref() == Some("stream_options")
            && second.name().map(folded).as_deref() == Some("include_usage")
        {
            options += 1;
            if value == Value::Bool(true) {
                asked.stream_options = StreamOptions::AskForUsage;
            }
        }
        let name = match levels {
            [] => {
                is_object = value == Value::Object;
                return;
            }
            [level] => level.name().unwrap_or_default(),
            _ => return,
        };
        if known.kind(name).is_none() {
            error.get_or_insert_with(|| BodyError::Unknown(cut(name)));
        }
        // Go's reader, among others, takes names in other letters for the same.
        let is = |wanted: &str| folded(name) == wanted;
        if is("model") {
            models += 1;
            match value {
                Value::Text(model, length) if model.len() as u64 == length && !model.is_empty() => {
                    asked.model = Some(model.to_owned());
                }
                _ => error = Some(BodyError::NotAName),
            }
        } else if is("stream") {
            streams += 1;
            asked.stream = value == Value::Bool(true);
        } else if is("stream_options") {
            options += 8;
            asked.stream_options = StreamOptions::Other;
        } else if is("background") {
            backgrounds += 1;
            asked.background |= value != Value::Bool(false) && value != Value::Null;
        } else if is("deferred") {
            // xAI's word for the same.
            asked.background |= value != Value::Bool(false) && value != Value::Null;
        }
    };
    let mut scanner = Scanner::default();
    let read = scanner.push(text.as_bytes(), &mut tell);
    let ended = read.and_then(|()| scanner.finish(&mut tell));
    if ended != Ok(1) || !is_object {
        return Err(BodyError::NotJson);
    }
    for (count, name) in [(models, "model"), (streams, "stream"), (backgrounds, "background")] {
        if count > 1 {
            return Err(BodyError::Twice(name));
        }
    }
    // Once, with the member once in it.
    match options {
        0 | 8 | 9 => {}
        _ => return Err(BodyError::Twice("stream_options")),
    }
    if !is_limited {
        asked.most_output = None;
    }
    error.map_or(Ok(asked), Err)
}

/// Whether one of these names models, so that the names below it may be theirs.
fn names_models(levels: &[Level]) -> bool {
    let names = |name: &str| NAMES_OF_MODELS.iter().any(|part| folded(name).contains(part));
    let above = levels.split_last().map_or(&[][..], |(_, above)| above);
    above.iter().filter_map(Level::name).any(names)
}

/// A text that the client chose, as it is repeated.
pub(crate) fn cut(text: &str) -> String {
    let text = Ascii(text).to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Whether a model is one of these; each may have a `*`, which stands for anything.
#[must_use]
pub fn allows(models: &[String], model: &str) -> bool {
    models.is_empty() || models.iter().any(|pattern| wildcard::fits(pattern, model))
}

#[cfg(test)]
mod tests {
    use kennel_policy::gateway::Api;

    use super::super::api;
    use super::*;

    fn known<'a>(api: Api, path: &str, more: &'a [String]) -> KnownMembers<'a> {
        let api = api::of(api);
        KnownMembers { tables: api.members(), more, limits: api.limits(path) }
    }

    fn read_as(api: Api, path: &str, body: &str) -> Result<Asked, BodyError> {
        super::read(body.as_bytes(), &known(api, path, &[]))
    }

    /// As OpenAI's, with some members of others.
    fn read(body: &[u8]) -> Result<Asked, BodyError> {
        let more = ["fallback", "extra_body", "deploymentId"].map(str::to_owned);
        super::read(body, &known(Api::OpenAi, "/v1/chat/completions", &more))
    }

    #[test]
    fn a_member_that_is_not_listed_is_refused_and_named() {
        assert!(read(br#"{"model":"a","messages":[{"api_base":"x"}]}"#).is_ok());
        for (body, name) in [
            (&br#"{"model":"a","api_base":"http://other.test/"}"#[..], "api_base"),
            (br#"{"model":"a","Messages":[]}"#, "Messages"),
            (br#"{"model":"a","api\u005fkey":1}"#, "api_key"),
            (br#"{"model":"a","":{}}"#, ""),
            (br#"{"model":"a","x\ny":[]}"#, "x\\ny"),
        ] {
            assert_eq!(read(body), Err(BodyError::Unknown(name.into())), "{name}");
        }
    }

    #[test]
    fn the_model_is_found_wherever_it_stands() {
        let asked =
            read(br#"{"messages":[{"model":"x","role":"user"}],"stream":true,"model":"claude-5"}"#).unwrap();
        assert_eq!(asked, Asked { model: Some("claude-5".into()), stream: true, ..Asked::default() });
        assert_eq!(read(br#" {"\u006dodel":"a\/b"} "#).unwrap().model.as_deref(), Some("a/b"));
        assert_eq!(read(b"{}").unwrap(), Asked::default());
        assert!(read(br#"{"background":1}"#).unwrap().background);
    }

    #[test]
    #[kennel_claim::claim("gateway/known-requests-only")]
    fn every_model_that_a_provider_could_use_is_found() {
        for (body, wanted) in [
            (r#"{"model":"a","models":["b","c"]}"#, &["b", "c"][..]),
            (r#"{"model":"a","tools":[{"type":"advisor","model":"b"}]}"#, &["b"]),
            (r#"{"model":"a","plugins":[{"id":"x","Model":"b"}]}"#, &["x", "b"]),
            (r#"{"model":"a","fallback":{"model":{"primary":"b"}}}"#, &["b"]),
            (r#"{"model":"a","extra_body":{"fallback_models":["b"]}}"#, &["b"]),
            (r#"{"model":"a","deploymentId":"b"}"#, &["b"]),
            (r#"{"model":"a","preset":"b"}"#, &["b"]),
            (r#"{"model":"a","mode\u006cs":["b"]}"#, &["b"]),
            (r#"{"model":"a","tools":[{"type":"x:advisor","parameters":{"model":"b"}}]}"#, &["b"]),
            (r#"{"model":"a","plugins":[{"schema":{"analysis_models":["b"]}}]}"#, &["b"]),
            (r#"{"model":"a","response_format":{"json_schema":{"model":"b"}}}"#, &["b"]),
            (r#"{"model":"a","prompt":{"id":"x","model":"b"}}"#, &["x", "b"]),
            (r#"{"model":"a","fallbacks":["b",{"c":["d"]}]}"#, &["b", "c", "d"]),
            (r#"{"model":"a","fallbacks":{"b":{"weight":1}}}"#, &["b", "weight"]),
            (r#"{"model":"a","models":{"b":1}}"#, &["b"]),
            (r#"{"model":"a","provider":{"order":["x"],"llm":"b"}}"#, &["b"]),
            (r#"{"model":"a","tools":[{"type":"x","Engine":"b"}]}"#, &["b"]),
            (
                r#"{"model":"a","tools":[{"type":"x","parameters":{"judge":{"name":"x","use":["b"]}}}]}"#,
                &["b"],
            ),
            (r#"{"model":"a","reasoning":{"effort":"low","with":"b"}}"#, &["b"]),
            (r#"{"model":"a","text":{"format":{"type":"text"},"writer":"b"}}"#, &["b"]),
            (r#"{"model":"a","extra_body":"x"}"#, &[]),
            (r#"{"model":"a","text":{"verbosity":"low"},"reasoning":{"summary":"auto"}}"#, &[]),
            (
                r#"{"model":"a","tools":[{"type":"mcp","headers":{"x":"y"},"server_url":"u","require_approval":"never"}]}"#,
                &[],
            ),
            (
                r#"{"model":"a","tools":[{"parameters":{"type":"object","$schema":"s","required":["model"],"additionalProperties":false}}]}"#,
                &[],
            ),
            (r#"{"model":"a","prompt":["b",{"model":"b"}]}"#, &[]),
            (r#"{"model":"a","tools":[{"parameters":{"$defs":{"Model":{"enum":["b"]}}}}]}"#, &[]),
            (r#"{"messages":[{"content":[{"type":"tool_use","input":{"model":"b"}}]}],"model":"a"}"#, &[]),
            (r#"{"model":"a","tools":[{"input_schema":{"properties":{"model":{"type":"string"}}}}]}"#, &[]),
            (r#"{"model":"a","metadata":{"model":"b"}}"#, &[]),
            (r#"{"model":"a","search_parameters":{"sources":[{"type":"x","model":"b"}]}}"#, &["b"]),
            (r#"{"model":"a","web_search_options":{"Search_Model":"b"}}"#, &["b"]),
            (r#"{"model":"a","audio":{"voice":"x","deployment":{"b":1}}}"#, &["b"]),
            (r#"{"model":"a","audio":{"voice":"x","format":"y"},"stop":["b"]}"#, &[]),
            (r#"{"model":"a","structured_outputs":{"json":{"properties":{"model":{"type":"x"}}}}}"#, &[]),
            (r#"{"model":"a","chat_template_kwargs":{"model_identity":"x"}}"#, &[]),
        ] {
            assert_eq!(read(body.as_bytes()).unwrap().other_models, wanted, "{body}");
        }
        let path = "/v1beta/models/m:generateContent";
        for (api, body, wanted) in [
            (Api::Gemini, r#"{"contents":[{"parts":[{"functionCall":{"args":{"model":"b"}}}]}]}"#, &[][..]),
            (Api::Gemini, r#"{"requests":[{"model":"b","content":{"parts":[{"text":"x"}]}}]}"#, &["b"]),
            (
                Api::Gemini,
                r#"{"generationConfig":{"routingConfig":{"manualMode":{"modelName":"b"}}}}"#,
                &["b"],
            ),
            (Api::Gemini, r#"{"generation_config":{"routing_config":{"manual_mode":{"use":"b"}}}}"#, &["b"]),
            (
                Api::Gemini,
                r#"{"generationConfig":{"responseMimeType":"x","thinkingConfig":{"thinkingLevel":"low"}}}"#,
                &[],
            ),
            (Api::Anthropic, r#"{"fallbacks":[{"model":"b","max_tokens":3}]}"#, &["b"]),
            (Api::Anthropic, r#"{"fallbacks":["b"]}"#, &["b"]),
            (Api::Anthropic, r#"{"context_management":{"edits":[{"type":"x","summarizer":"b"}]}}"#, &["b"]),
            (
                Api::Anthropic,
                r#"{"tools":[{"name":"x","input_examples":[{"a":"b"}]}],"tool_choice":{"type":"tool","name":"x"}}"#,
                &[],
            ),
            (
                Api::Anthropic,
                r#"{"container":{"skills":[{"Model":"b"}]},"fallback_credit_token":"x"}"#,
                &["b"],
            ),
            (Api::Ollama, r#"{"name":"b"}"#, &["b"]),
            (Api::Ollama, r#"{"options":{"num_predict":5},"options":{"draft_model":"b"}}"#, &["b"]),
            (Api::Ollama, r#"{"options":{"mod\u0065l":{"b":{}}}}"#, &["b"]),
            (Api::Ollama, r#"{"options":{"stop":["x"],"num_ctx":1},"format":{"type":"x"}}"#, &[]),
        ] {
            assert_eq!(read_as(api, path, body).unwrap().other_models, wanted, "{body}");
        }
        let many = format!("{{\"models\":[{}\"x\"]}}", "\"x\",".repeat(64));
        assert_eq!(read(many.as_bytes()), Err(BodyError::TooMany));
        let long = format!("{{\"{}model\":\"x\"}}", "a".repeat(10_000));
        assert_eq!(read(long.as_bytes()), Err(BodyError::TooMany));
    }

    #[test]
    #[kennel_claim::claim("gateway/uncountable-budgets-refuse")]
    fn what_changes_a_price_is_found() {
        let (chat, gemini) = ("/v1/chat/completions", "/v1beta/models/m:generateContent");
        for (api, path, body, wanted) in [
            (Api::OpenAi, chat, r#"{"service_tier":"priority"}"#, Some("service_tier")),
            (Api::OpenAi, chat, r#"{"service_tier":"auto"}"#, Some("service_tier")),
            (Api::OpenAi, chat, r#"{"service_tier":["default","priority"]}"#, Some("service_tier")),
            (Api::OpenAi, chat, r#"{"service_tier":"default","speed":null}"#, None),
            (Api::OpenAi, chat, r#"{"web_search_options":{}}"#, Some("web_search_options")),
            (Api::OpenAi, chat, r#"{"provider":{"sort":"price"}}"#, Some("provider")),
            (Api::OpenAi, chat, r#"{"plugins":[]}"#, None),
            (Api::OpenAi, chat, r#"{"plugins":[{"id":"web"}]}"#, Some("plugins")),
            (Api::OpenAi, chat, r#"{"modalities":["text"]}"#, None),
            (Api::OpenAi, chat, r#"{"modalities":["text","audio"]}"#, Some("modalities")),
            (
                Api::OpenAi,
                chat,
                r#"{"tools":[{"type":"function","function":{"parameters":{"type":"object"}}}]}"#,
                None,
            ),
            (Api::OpenAi, chat, r#"{"tools":[{"type":"function"},{"type":"web_search"}]}"#, Some("tools")),
            (
                Api::OpenAi,
                chat,
                r#"{"tools":[{"type":"function","Type":"image_generation"}]}"#,
                Some("tools"),
            ),
            (
                Api::OpenAi,
                chat,
                r#"{"tools":[{"type":"namespace","tools":[{"type":"code_interpreter"}]}]}"#,
                Some("tools"),
            ),
            (Api::OpenAi, chat, r#"{"tools":["web_search"]}"#, Some("tools")),
            // By the members that another protocol's tools are known by, and in shapes that one server or another takes for a list.
            (Api::OpenAi, chat, r#"{"tools":[{"googleSearch":{}}]}"#, Some("tools")),
            (Api::OpenAi, chat, r#"{"tools":[{"type":"function","web_search":{}}]}"#, Some("tools")),
            (Api::OpenAi, chat, r#"{"tools":[{"type":"namespace","tools":[{"x":1}]}]}"#, Some("tools")),
            (Api::OpenAi, chat, r#"{"tools":[{"type":["web_search"]}]}"#, Some("tools")),
            (Api::OpenAi, chat, r#"{"tools":[{"type":{"web_search":1}}]}"#, Some("tools")),
            (Api::OpenAi, chat, r#"{"tools":{"0":{"type":"web_search"}}}"#, Some("tools")),
            (Api::OpenAi, chat, r#"{"tools":{"type":"web_search"}}"#, Some("tools")),
            (Api::OpenAi, chat, r#"{"tools":[[{"type":"web_search"}]]}"#, Some("tools")),
            (Api::Ollama, "/api/chat", r#"{"tools":[{"googleSearch":{}}]}"#, Some("tools")),
            (Api::Anthropic, "/v1/messages", r#"{"tools":[{"name":"x","googleSearch":{}}]}"#, Some("tools")),
            (
                Api::OpenAi,
                chat,
                r#"{"tools":[{"parameters":{"properties":{"a":{"type":"integer"}}}}]}"#,
                None,
            ),
            (Api::Anthropic, "/v1/messages", r#"{"speed":"fast"}"#, Some("speed")),
            (Api::Anthropic, "/v1/messages", r#"{"inference_geo":"us"}"#, Some("inference_geo")),
            (Api::Anthropic, "/v1/messages", r#"{"tools":[{"name":"x"},{"type":"bash_20250124"}]}"#, None),
            (Api::Anthropic, "/v1/messages", r#"{"tools":[{"type":"web_search_20250305"}]}"#, Some("tools")),
            (
                Api::Gemini,
                gemini,
                r#"{"tools":[{"functionDeclarations":[{"name":"x","parameters":{"type":"OBJECT"}}]}]}"#,
                None,
            ),
            (Api::Gemini, gemini, r#"{"tools":[{"googleSearch":{}}]}"#, Some("tools")),
            (Api::Gemini, gemini, r#"{"tools":{"google_maps":{}}}"#, Some("tools")),
            (
                Api::Gemini,
                gemini,
                r#"{"generationConfig":{"responseModalities":["AUDIO"]}}"#,
                Some("generationConfig"),
            ),
            (Api::Gemini, gemini, r#"{"serviceTier":"priority"}"#, Some("serviceTier")),
        ] {
            assert_eq!(read_as(api, path, body).unwrap().priced.as_deref(), wanted, "{body}");
        }
        let more = ["tools".to_owned()];
        let vouched = super::read(br#"{"tools":[{"type":"web_search"}]}"#, &known(Api::OpenAi, chat, &more));
        assert_eq!(vouched.unwrap().priced, None);
    }

    #[test]
    #[kennel_claim::claim("gateway/budgets-hold")]
    fn what_a_request_says_of_its_length_is_read_where_its_server_reads_it() {
        let (chat, gemini) = ("/v1/chat/completions", "/v1beta/models/m:generateContent");
        for (api, path, body, wanted) in [
            (Api::Anthropic, "/v1/messages", r#"{"max_tokens":7}"#, 7),
            (Api::Anthropic, "/v1/messages", r#"{"max_tokens_to_sample":7}"#, MOST_OUTPUT),
            (Api::OpenAi, chat, r#"{"max_tokens":7}"#, 7),
            (Api::OpenAi, chat, r#"{"max_tokens":7,"max_completion_tokens":9,"n":3}"#, 27),
            (Api::OpenAi, chat, r#"{"max_tokens":7,"max_completion_tokens":"9"}"#, MOST_OUTPUT),
            (Api::OpenAi, chat, r#"{"max_tokens":7,"max_tokens":900}"#, 900),
            (Api::OpenAi, chat, r#"{"max_output_tokens":7}"#, MOST_OUTPUT),
            (Api::OpenAi, chat, r#"{"max_tokens":0}"#, MOST_OUTPUT),
            (Api::OpenAi, chat, r#"{"max_tokens":2,"n":"3"}"#, 256),
            (Api::OpenAi, "/v1/responses", r#"{"max_output_tokens":7,"max_tokens":3}"#, 7),
            (Api::Gemini, gemini, r#"{"generationConfig":{"maxOutputTokens":7,"candidateCount":2}}"#, 14),
            (Api::Gemini, gemini, r#"{"generation_config":{"max_output_tokens":7}}"#, 7),
            (Api::Gemini, gemini, r#"{"toolConfig":{"maxOutputTokens":7}}"#, MOST_OUTPUT),
            (Api::Ollama, "/api/chat", r#"{"options":{"num_predict":7},"max_tokens":3}"#, 7),
            (Api::Ollama, "/api/chat", r#"{"options":{"num_predict":-1}}"#, MOST_OUTPUT),
            (Api::Ollama, "/v1/chat/completions", r#"{"max_tokens":7}"#, 7),
        ] {
            assert_eq!(read_as(api, path, body).unwrap().output_bound(), wanted, "{path} {body}");
        }
    }

    #[test]
    #[kennel_claim::claim("gateway/uncountable-budgets-refuse")]
    fn only_the_plain_question_for_usage_is_one() {
        for (body, wanted) in [
            (r#"{"stream":true}"#, Ok(StreamOptions::Absent)),
            (r#"{"stream_options":{"include_usage":true}}"#, Ok(StreamOptions::AskForUsage)),
            (r#"{"stream_options":{"x":1,"include_usage":true}}"#, Ok(StreamOptions::AskForUsage)),
            (r#"{"stream_options":{}}"#, Ok(StreamOptions::Other)),
            (r#"{"stream_options":null}"#, Ok(StreamOptions::Other)),
            (r#"{"stream_options":{"include_usage":false}}"#, Ok(StreamOptions::Other)),
            (r#"{"stream_options":{"include_usage":"true"}}"#, Ok(StreamOptions::Other)),
            (r#"{"stream_options":[{"include_usage":true}]}"#, Ok(StreamOptions::Other)),
            (r#"{"\u017ftream_options":{}}"#, Err(BodyError::Unknown("\\u{17f}tream_options".into()))),
            (
                r#"{"stream_options":{"include_usage":true},"stream_options":{}}"#,
                Err(BodyError::Twice("stream_options")),
            ),
            (
                r#"{"stream_options":{"include_usage":true,"Include_Usage":false}}"#,
                Err(BodyError::Twice("stream_options")),
            ),
        ] {
            assert_eq!(read(body.as_bytes()).map(|asked| asked.stream_options), wanted, "{body}");
        }
    }

    #[test]
    #[kennel_claim::claim("gateway/listed-models-only")]
    fn what_could_be_read_in_two_ways_is_refused() {
        for (body, expected) in [
            (&br#"{"model":"a","model":"b"}"#[..], BodyError::Twice("model")),
            (br#"{"model":"a","Model":"b"}"#, BodyError::Twice("model")),
            (br#"{"model":"a","mod\u0065l":"b"}"#, BodyError::Twice("model")),
            (br#"{"model":"a","model":["b"]}"#, BodyError::Twice("model")),
            (br#"{"model":["a"]}"#, BodyError::NotAName),
            (br#"{"model":""}"#, BodyError::NotAName),
            (br#"{"model":"a"}{"model":"b"}"#, BodyError::NotJson),
            (br#"[{"model":"a"}]"#, BodyError::NotJson),
            (br#"{"model":"a"} x"#, BodyError::NotJson),
            (br#"{"model":"a""#, BodyError::NotJson),
            (b"", BodyError::NotJson),
            (b"\xff\xfe{\0}\0", BodyError::NotJson),
            (b"\xef\xbb\xbf{}", BodyError::NotJson),
            (b"model=a", BodyError::NotJson),
        ] {
            assert_eq!(read(body), Err(expected), "{}", String::from_utf8_lossy(body));
        }
        let long = format!("{{\"model\":\"{}\"}}", "a".repeat(600));
        assert_eq!(read(long.as_bytes()), Err(BodyError::NotAName));
    }

    #[test]
    fn a_list_of_models_has_stars() {
        let models = ["claude-haiku-*".to_owned(), "gpt-6".to_owned(), "*-mini".to_owned()];
        for model in ["claude-haiku-5", "gpt-6", "gpt-6-mini"] {
            assert!(allows(&models, model), "{model}");
        }
        for model in ["claude-opus-5", "gpt-6-pro", "xgpt-6", "", "mini"] {
            assert!(!allows(&models, model), "{model}");
        }
        assert!(allows(&[], "anything"));
    }
}
