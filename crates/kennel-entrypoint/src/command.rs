//! Which command to run: `AGENT_COMMAND` or else the entrypoint's first argument, and `AGENT_ARGS` or else the
//! arguments after that.
//!
//! The two are decided apart. With `kennel-entrypoint my-agent --flag` as an image's default, setting only
//! `AGENT_ARGS` gives `my-agent` other arguments, and setting only `AGENT_COMMAND` gives another program `--flag`;
//! `AGENT_ARGS=[]` gives it none.

use alloc::borrow::ToOwned;
use alloc::ffi::CString;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::environment::Configuration;
use crate::report::Trouble;
use crate::{json, words};

/// A program's name and its arguments, not yet looked for.
#[derive(Debug, PartialEq)]
pub struct Command {
    pub name: CString,
    pub arguments: Vec<CString>,
}

impl Command {
    pub fn resolve(configuration: &Configuration, own_arguments: Vec<&CStr>) -> Result<Self, Trouble> {
        let mut own_arguments = own_arguments.into_iter();
        let own_command = own_arguments.next().filter(|name| !name.is_empty());
        let Some(name) = configuration.command().or(own_command) else {
            return Err(Trouble::new("resolving the agent's command", "", "no agent command specified")
                .help(
                    "set AGENT_COMMAND, or pass the command as arguments: kennel-entrypoint my-agent --flag",
                ));
        };
        let arguments = match configuration.arguments() {
            Some(text) => parse_arguments(text.to_bytes())?,
            None => own_arguments.map(ToOwned::to_owned).collect(),
        };
        Ok(Self { name: name.to_owned(), arguments })
    }
}

/// A text that starts with `[` is JSON, any other is words.
///
/// The text itself is in no message: arguments may hold secrets.
fn parse_arguments(text: &[u8]) -> Result<Vec<CString>, Trouble> {
    let arguments = if text.trim_ascii_start().starts_with(b"[") {
        json::strings(text).map_err(|error| {
            let place = [error.why, " (at byte ", &error.at.to_string(), ")"].concat();
            refuse(place).help(
                "AGENT_ARGS that starts with [ is a JSON array of strings; quote a [ that is a word: '['",
            )
        })?
    } else {
        words::split(text).map_err(|error| {
            refuse(error.text()).help("quote as in a shell, or give AGENT_ARGS as a JSON array of strings")
        })?
    };
    arguments
        .into_iter()
        .map(|argument| CString::new(argument).map_err(|_| refuse("it holds a NUL")))
        .collect()
}

fn refuse(why: impl Into<Vec<u8>>) -> Trouble {
    Trouble::new("reading the agent's arguments", "AGENT_ARGS", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<CString> {
        parse_arguments(text.as_bytes()).unwrap()
    }

    #[test]
    fn words_and_json_are_told_apart_by_the_first_character() {
        assert_eq!(parsed("-p 'a b'"), [c"-p".to_owned(), c"a b".to_owned()]);
        assert_eq!(parsed(r#" ["-p", "a b"]"#), [c"-p".to_owned(), c"a b".to_owned()]);
        assert_eq!(parsed("'[' x"), [c"[".to_owned(), c"x".to_owned()]);
    }

    #[test]
    fn no_message_quotes_an_argument() {
        for text in [r#"["hunter2", 1]"#, "--password 'hunter2"] {
            let message = format!("{:?}", parse_arguments(text.as_bytes()).unwrap_err());
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}
