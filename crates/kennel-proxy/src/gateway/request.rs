//! What a request's body says: which model it asks for, and how.
//!
//! The body is read as the provider will read it, or refused: with two models in it, in letters that some servers take for the
//! same, in another encoding, one would be compared and another used.

use super::json::{Level, Scanner, Value};
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
    /// Whether it says anything of what a stream tells beside the answer.
    pub has_stream_options: bool,
}

/// Why a body is not sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
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
}

/// Reads a whole body.
///
/// # Errors
/// When it could be read in two ways.
pub fn read(body: &[u8]) -> Result<Asked, BodyError> {
    let text = str::from_utf8(body).map_err(|_| BodyError::NotJson)?;
    let mut asked = Asked::default();
    let (mut error, mut is_object) = (None, false);
    let (mut models, mut streams, mut backgrounds) = (0, 0, 0);
    let mut tell = |levels: &[Level], value: Value<'_>| {
        let name = match levels {
            [] => {
                is_object = value == Value::Object;
                return;
            }
            [level] => level.name().unwrap_or_default(),
            _ => return,
        };
        // Go's reader, among others, takes names in other letters for the same.
        let is = |wanted: &str| name.to_lowercase() == wanted;
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
            asked.has_stream_options = true;
        } else if is("background") {
            backgrounds += 1;
            asked.background = value != Value::Bool(false) && value != Value::Null;
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
    error.map_or(Ok(asked), Err)
}

/// Whether a model is one of these; each may have a `*`, which stands for anything.
#[must_use]
pub fn allows(models: &[String], model: &str) -> bool {
    models.is_empty() || models.iter().any(|pattern| wildcard::fits(pattern, model))
}

#[cfg(test)]
mod tests {
    use super::*;

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
