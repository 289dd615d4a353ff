//! `AGENT_ARGS` as plain words: split at blanks, with the quoting of a POSIX shell and none of its expansions.
//!
//! - blanks (space, tab, line break) separate words;
//! - `'…'` takes everything literally;
//! - `"…"` too, except that a backslash before `"`, `\`, `$` or a backquote stands for that character, and one at
//!   the end of a line joins the lines;
//! - outside quotes a backslash takes the next character literally, or joins lines;
//! - `$`, `*`, `~`, `#`, `|`, `;` and so on mean nothing here: no shell is involved.

use alloc::vec::Vec;

/// Why a text is not a list of words.
#[derive(Debug, PartialEq)]
pub enum Unfinished {
    SingleQuote,
    DoubleQuote,
    Backslash,
}

impl Unfinished {
    pub fn text(&self) -> &'static str {
        match self {
            Self::SingleQuote => "a single quote is not closed",
            Self::DoubleQuote => "a double quote is not closed",
            Self::Backslash => "it ends with a backslash that quotes nothing",
        }
    }
}

/// Splits `text` into words.
pub fn split(text: &[u8]) -> Result<Vec<Vec<u8>>, Unfinished> {
    let mut words = Vec::new();
    // None between words: `''` is a word, a row of blanks is not.
    let mut word: Option<Vec<u8>> = None;
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b' ' | b'\t' | b'\n' => words.extend(word.take()),
            b'\'' => single_quoted(&mut rest, word.get_or_insert_default())?,
            b'"' => double_quoted(&mut rest, word.get_or_insert_default())?,
            b'\\' => match rest.next().ok_or(Unfinished::Backslash)? {
                b'\n' => {}
                quoted => word.get_or_insert_default().push(quoted),
            },
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    Ok(words)
}

fn single_quoted(rest: &mut impl Iterator<Item = u8>, word: &mut Vec<u8>) -> Result<(), Unfinished> {
    loop {
        match rest.next().ok_or(Unfinished::SingleQuote)? {
            b'\'' => return Ok(()),
            byte => word.push(byte),
        }
    }
}

fn double_quoted(rest: &mut impl Iterator<Item = u8>, word: &mut Vec<u8>) -> Result<(), Unfinished> {
    loop {
        match rest.next().ok_or(Unfinished::DoubleQuote)? {
            b'"' => return Ok(()),
            b'\\' => match rest.next().ok_or(Unfinished::DoubleQuote)? {
                b'\n' => {}
                byte @ (b'"' | b'\\' | b'$' | b'`') => word.push(byte),
                byte => word.extend([b'\\', byte]),
            },
            byte => word.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    #[test]
    fn blanks_separate_and_quotes_join() {
        assert_eq!(
            split(b"  --model  x\t-p\n'say \"hi\"' \"it's\" a\\ b ''").unwrap(),
            [b"--model".as_slice(), b"x", b"-p", b"say \"hi\"", b"it's", b"a b", b""]
        );
        assert_eq!(split(b" \n").unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn bytes_that_are_not_utf8_pass_through() {
        assert_eq!(split(b"\xff '\xfe '").unwrap(), [b"\xff".as_slice(), b"\xfe "]);
    }

    #[test]
    fn nothing_is_expanded() {
        assert_eq!(
            split(b"$HOME `id` * ~ #x ;").unwrap(),
            [b"$HOME".as_slice(), b"`id`", b"*", b"~", b"#x", b";"]
        );
    }

    #[test]
    fn what_is_left_open_is_an_error() {
        assert_eq!(split(b"a 'b"), Err(Unfinished::SingleQuote));
        assert_eq!(split(b"a \"b\\\""), Err(Unfinished::DoubleQuote));
        assert_eq!(split(b"a \\"), Err(Unfinished::Backslash));
    }

    /// Every text of up to six of the characters that matter, against the shell of this host: the same words, or
    /// both refuse.
    #[test]
    fn a_shell_splits_the_same_way() {
        const ALPHABET: [u8; 6] = [b'a', b' ', b'\'', b'"', b'\\', b'\n'];
        const LENGTH: u32 = 5;
        let mut script = Vec::new();
        let mut expected = Vec::new();
        for number in 0..6usize.pow(LENGTH) {
            let text: Vec<u8> = (0..LENGTH).map(|digit| ALPHABET[number / 6usize.pow(digit) % 6]).collect();
            // An unquoted line break ends a shell command, so it cannot be asked about there.
            let Ok(words) = split(&text) else { continue };
            if has_bare_line_break(&text) {
                continue;
            }
            script.extend_from_slice(b"printf '<%s>' ");
            script.extend_from_slice(&text);
            script.extend_from_slice(b"\nprintf '\\0'\n");
            // printf repeats its format per argument, and uses it once if there is none.
            for word in if words.is_empty() { vec![Vec::new()] } else { words } {
                expected.extend_from_slice(b"<");
                expected.extend_from_slice(&word);
                expected.extend_from_slice(b">");
            }
            expected.push(0);
        }
        let file = std::env::temp_dir().join(format!("kennel-entrypoint-words-{}", std::process::id()));
        std::fs::write(&file, script).unwrap();
        let output = Command::new("sh").arg(&file).output();
        std::fs::remove_file(&file).unwrap();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", OsStr::from_bytes(&output.stderr).display());
        let cases = |bytes: &[u8]| bytes.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert!(cases(&expected).len() > 1000);
        for (number, (ours, theirs)) in cases(&expected).iter().zip(cases(&output.stdout)).enumerate() {
            assert_eq!(ours, &theirs, "case {number}");
        }
        assert_eq!(expected.len(), output.stdout.len());
    }

    fn has_bare_line_break(text: &[u8]) -> bool {
        let mut quote = None;
        let mut escaped = false;
        for &byte in text {
            match (quote, byte) {
                _ if escaped => escaped = false,
                (None | Some(b'"'), b'\\') => escaped = true,
                (None, b'\'' | b'"') => quote = Some(byte),
                (Some(open), _) if open == byte => quote = None,
                (None, b'\n') => return true,
                _ => {}
            }
        }
        false
    }
}
