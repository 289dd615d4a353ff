//! The one tree that both formats are read into: plain values that know where they stand in the text.

use std::borrow::Cow;

use toml::de::{DeTable, DeValue};

use super::{Format, Problem, json};

/// More than any settings file needs, and little enough that no recursion over the tree can exhaust a stack.
pub(crate) const MAX_DEPTH: usize = 64;

/// A value and the byte it starts at.
#[derive(Debug)]
pub(crate) struct Node<'i> {
    pub at: usize,
    pub value: Value<'i>,
}

#[derive(Debug)]
pub(crate) enum Value<'i> {
    Null,
    Date,
    Bool(bool),
    /// As it was written (in decimal), so that numbers and texts go through the same readers and no digit is lost.
    Number(Cow<'i, str>),
    Text(Cow<'i, str>),
    List(Vec<Node<'i>>),
    /// In the order of the file, so that the first of several mistakes is the one reported.
    Table(Vec<Entry<'i>>),
}

#[derive(Debug)]
pub(crate) struct Entry<'i> {
    pub at: usize,
    pub key: Cow<'i, str>,
    pub node: Node<'i>,
}

/// What is wrong, and the byte where it is.
#[derive(Debug)]
pub(crate) struct Fault {
    pub at: usize,
    pub problem: Problem,
}

impl Value<'_> {
    /// The value's type in the words of both formats.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Date => "a date",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

pub(crate) fn read(text: &str, format: Format) -> Result<Node<'_>, Fault> {
    match format {
        Format::Json => json::read(text),
        Format::Toml => {
            let table = DeTable::parse(text).map_err(|error| {
                let at = error.span().map_or(0, |span| span.start);
                // The library's own limit is a little above ours and speaks of recursion.
                let problem = match error.message() {
                    message if message.contains("recursion") => Problem::TooDeep,
                    message => Problem::Syntax(message.to_owned()),
                };
                Fault { at, problem }
            })?;
            from_toml(table.span().start, DeValue::Table(table.into_inner()), 0)
        }
    }
}

fn from_toml(at: usize, value: DeValue<'_>, depth: usize) -> Result<Node<'_>, Fault> {
    if depth > MAX_DEPTH {
        return Err(Fault { at, problem: Problem::TooDeep });
    }
    let value = match value {
        DeValue::String(text) => Value::Text(text),
        DeValue::Integer(number) if number.radix() == 10 => Value::Number(number.as_str().to_owned().into()),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(value) => Value::Number(value.to_string().into()),
            Err(_) => Value::Number(number.to_string().into()),
        },
        DeValue::Float(number) => Value::Number(number.as_str().to_owned().into()),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => {
            let items =
                items.into_iter().map(|item| from_toml(item.span().start, item.into_inner(), depth + 1));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => {
            let mut entries = Vec::with_capacity(table.len());
            for (key, value) in table {
                let node = from_toml(value.span().start, value.into_inner(), depth + 1)?;
                entries.push(Entry { at: key.span().start, key: key.into_inner(), node });
            }
            entries.sort_by_key(|entry| entry.at);
            Value::Table(entries)
        }
    };
    Ok(Node { at, value })
}

/// The line, counted from one, that a byte stands in.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
}
