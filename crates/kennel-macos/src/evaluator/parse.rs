//! S-expressions.

use super::BadProfile;

/// A form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    Word(String),
    Text(String),
    List(Vec<Form>),
}

impl Form {
    pub fn word(word: &str) -> Form {
        Form::Word(word.to_owned())
    }
}

/// The longest string.
const LONGEST: usize = 1024;

/// All forms of a text.
pub fn forms(text: &str) -> Result<Vec<Form>, BadProfile> {
    let bad = |what: &str, at: usize| Err(BadProfile(format!("{what} at byte {at}")));
    let mut open: Vec<Vec<Form>> = vec![Vec::new()];
    let mut rest = text.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        let form = match character {
            ';' => {
                while rest.next_if(|(_, next)| *next != '\n').is_some() {}
                continue;
            }
            character if character.is_whitespace() => continue,
            '(' => {
                open.push(Vec::new());
                continue;
            }
            ')' => match (open.pop(), open.is_empty()) {
                (Some(list), false) => Form::List(list),
                _ => return bad("a parenthesis too many", at),
            },
            '"' => {
                let mut string = String::new();
                loop {
                    match rest.next() {
                        Some((_, '"')) => break,
                        Some((_, '\\')) => match rest.next() {
                            Some((_, escaped @ ('"' | '\\'))) => string.push(escaped),
                            _ => return bad("an escape that means something else", at),
                        },
                        Some((_, character)) if character.is_control() => {
                            return bad("a control character", at);
                        }
                        Some((_, character)) => string.push(character),
                        None => return bad("a string that does not end", at),
                    }
                }
                if string.len() > LONGEST {
                    return bad("a string that is too long", at);
                }
                Form::Text(string)
            }
            first => {
                let mut word = first.to_string();
                let ends = |next: char| next.is_whitespace() || "()\";".contains(next);
                while let Some((_, next)) = rest.next_if(|(_, next)| !ends(*next)) {
                    word.push(next);
                }
                Form::Word(word)
            }
        };
        match open.last_mut() {
            Some(list) => list.push(form),
            None => return bad("a parenthesis too many", at),
        }
    }
    match (open.pop(), open.is_empty()) {
        (Some(forms), true) => Ok(forms),
        _ => bad("a parenthesis that is not closed", text.len()),
    }
}
