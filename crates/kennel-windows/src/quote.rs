//! One command line from many words, so that the program gets the same words back.
//!
//! Windows passes a program one text, which the program splits itself. Most do it as `CommandLineToArgvW` and the C runtime do;
//! batch files are read by `cmd.exe`, whose rules are others and in which `%`, `"`, `&` or a line break in a word can start
//! another command (CVE-2024-24576). What cannot be passed on unchanged is refused.
//!
//! Texts are UTF-16 units, since file names and arguments on Windows need not be valid Unicode.

/// The longest command line of `CreateProcess`, with the zero at its end.
const LONGEST: usize = 32_767;
/// The longest line that `cmd.exe` reads.
const LONGEST_OF_CMD: usize = 8_191;

const QUOTE: u16 = b'"' as u16;
const BACKSLASH: u16 = b'\\' as u16;

/// Why words cannot become a command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuoteError {
    /// No program.
    #[error("the command is empty")]
    Empty,
    /// A zero would end the text.
    #[error("argument {0} contains a NUL character")]
    Nul(usize),
    /// The name of a program has no way to write a quote.
    #[error("the program's name contains a quotation mark")]
    ProgramQuote,
    /// What `cmd.exe` would read as something else than a word.
    #[error(
        "argument {index} of a batch file contains {character}, which cmd.exe cannot be given safely\nhelp: pass it in a variable or a file, or start the program that the batch file starts"
    )]
    Batch {
        /// Which argument; the first is 1.
        index: usize,
        /// What is in it.
        character: &'static str,
    },
    /// Too long.
    #[error("the command line has {length} characters, and Windows takes {longest}")]
    TooLong {
        /// Its length.
        length: usize,
        /// What would be possible.
        longest: usize,
    },
}

/// The command line of an ordinary program. `words` are the program's name and its arguments.
///
/// # Errors
/// When the words cannot be written so that they come back unchanged.
pub fn command_line(words: &[Vec<u16>]) -> Result<Vec<u16>, QuoteError> {
    let (program, arguments) = words.split_first().ok_or(QuoteError::Empty)?;
    check_nul(words)?;
    if program.contains(&QUOTE) {
        return Err(QuoteError::ProgramQuote);
    }
    // The first word has rules of its own: it ends at the next quotation mark, and backslashes mean nothing in it.
    let mut line = Vec::new();
    line.push(QUOTE);
    line.extend(program);
    line.push(QUOTE);
    for argument in arguments {
        line.push(b' '.into());
        push_argument(&mut line, argument);
    }
    check_length(line, LONGEST)
}

/// The command line for `cmd.exe` to run a batch file. `script` is its absolute path; `cmd` is that of `cmd.exe`.
///
/// # Errors
/// When an argument has something in it that `cmd.exe` would not take for a part of a word.
pub fn batch_command_line(
    cmd: &[u16],
    script: &[u16],
    arguments: &[Vec<u16>],
) -> Result<Vec<u16>, QuoteError> {
    check_nul(arguments)?;
    if cmd.is_empty() || script.is_empty() {
        return Err(QuoteError::Empty);
    }
    for (index, word) in [script].into_iter().chain(arguments.iter().map(Vec::as_slice)).enumerate() {
        if let Some(character) = word.iter().find_map(|unit| refused_by_cmd(*unit)) {
            return Err(QuoteError::Batch { index, character });
        }
    }
    let mut line = Vec::new();
    line.push(QUOTE);
    line.extend(cmd);
    line.push(QUOTE);
    // Extensions on, `!` without a meaning, no AutoRun of the registry, and the outer quotation marks are taken off.
    line.extend(" /e:ON /v:OFF /d /s /c \"".encode_utf16());
    line.push(QUOTE);
    line.extend(script);
    line.push(QUOTE);
    for argument in arguments {
        line.push(b' '.into());
        // Whatever is quoted is a word to cmd.exe. A backslash at the end would take the meaning from the quotation mark,
        // not for cmd.exe but for the program that the batch file hands the word to.
        line.push(QUOTE);
        line.extend(argument);
        line.extend(std::iter::repeat_n(BACKSLASH, trailing_backslashes(argument)));
        line.push(QUOTE);
    }
    line.push(QUOTE);
    check_length(line, LONGEST_OF_CMD)
}

/// What has a meaning to `cmd.exe` between quotation marks too.
fn refused_by_cmd(unit: u16) -> Option<&'static str> {
    Some(match unit {
        QUOTE => "a quotation mark",
        // `%NAME%` is replaced by a variable wherever it stands.
        0x25 => "a percent sign",
        0x0a | 0x0d => "a line break",
        // Ctrl-Z ends a file to cmd.exe, and other control characters separate words or print.
        0x00..=0x08 | 0x0b..=0x1f | 0x7f => "a control character",
        _ => return None,
    })
}

/// Whether `cmd.exe` would run this file. Windows leaves dots and blanks at the end of a name away, and what follows a colon in
/// the last part is a stream of the same file.
#[must_use]
pub fn is_batch_file(path: &[u16]) -> bool {
    let start =
        path.iter().rposition(|unit| [b'\\', b'/'].map(u16::from).contains(unit)).map_or(0, |at| at + 1);
    let mut name = &path[start..];
    // A drive's letter is no stream.
    let colon = name.iter().skip(2).position(|unit| *unit == u16::from(b':')).map(|at| at + 2);
    name = &name[..colon.unwrap_or(name.len())];
    while let [rest @ .., last] = name
        && [b'.', b' '].map(u16::from).contains(last)
    {
        name = rest;
    }
    [".bat", ".cmd"].iter().any(|extension| {
        name.len() >= 4
            && name[name.len() - 4..]
                .iter()
                .zip(extension.bytes())
                .all(|(unit, byte)| u8::try_from(*unit).is_ok_and(|own| own.eq_ignore_ascii_case(&byte)))
    })
}

/// Adds a word by the rules of `CommandLineToArgvW`: backslashes are themselves, unless a quotation mark follows them.
fn push_argument(line: &mut Vec<u16>, argument: &[u16]) {
    let is_plain = |unit: &u16| {
        // Not only blanks: some programs split at other characters, and quotation marks do no harm.
        u8::try_from(*unit).is_ok_and(|byte| byte.is_ascii_alphanumeric() || b"-_./\\:=,+@".contains(&byte))
    };
    if !argument.is_empty() && argument.iter().all(is_plain) {
        line.extend(argument);
        return;
    }
    line.push(QUOTE);
    let mut backslashes = 0;
    for unit in argument {
        match *unit {
            BACKSLASH => backslashes += 1,
            QUOTE => {
                // Those before it twice, and one for itself.
                line.extend(std::iter::repeat_n(BACKSLASH, backslashes + 1));
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        line.push(*unit);
    }
    line.extend(std::iter::repeat_n(BACKSLASH, backslashes));
    line.push(QUOTE);
}

fn trailing_backslashes(text: &[u16]) -> usize {
    text.iter().rev().take_while(|unit| **unit == BACKSLASH).count()
}

fn check_nul(words: &[Vec<u16>]) -> Result<(), QuoteError> {
    match words.iter().position(|word| word.contains(&0)) {
        Some(index) => Err(QuoteError::Nul(index)),
        None => Ok(()),
    }
}

fn check_length(line: Vec<u16>, longest: usize) -> Result<Vec<u16>, QuoteError> {
    // The zero at the end counts.
    let length = line.len() + 1;
    if length > longest { Err(QuoteError::TooLong { length, longest }) } else { Ok(line) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wide(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn text(units: &[u16]) -> String {
        String::from_utf16_lossy(units)
    }

    /// The rules of `CommandLineToArgvW`, written from Microsoft's description and not from the code above: a machine with
    /// one state, "between quotation marks", over runs of backslashes.
    fn command_line_to_argv(line: &[u16]) -> Vec<Vec<u16>> {
        let (quote, backslash, blank, tab) = (0x22u16, 0x5cu16, 0x20u16, 0x09u16);
        let mut words = Vec::new();
        let mut at = 0;
        // The program's name: to the next quotation mark if it starts with one, else to the next blank.
        let mut program = Vec::new();
        if line.first() == Some(&quote) {
            at = 1;
            while at < line.len() && line[at] != quote {
                program.push(line[at]);
                at += 1;
            }
            at += 1;
        } else {
            while at < line.len() && line[at] > blank {
                program.push(line[at]);
                at += 1;
            }
        }
        words.push(program);
        loop {
            while at < line.len() && (line[at] == blank || line[at] == tab) {
                at += 1;
            }
            if at >= line.len() {
                return words;
            }
            let (mut word, mut quoted) = (Vec::new(), false);
            while at < line.len() {
                let unit = line[at];
                if unit == backslash {
                    let run = line[at..].iter().take_while(|unit| **unit == backslash).count();
                    at += run;
                    if line.get(at) == Some(&quote) {
                        word.extend(vec![backslash; run / 2]);
                        if run % 2 == 1 {
                            word.push(quote);
                            at += 1;
                        }
                    } else {
                        word.extend(vec![backslash; run]);
                    }
                } else if unit == quote {
                    // Two in a row between quotation marks are one that is meant.
                    if quoted && line.get(at + 1) == Some(&quote) {
                        word.push(quote);
                        at += 1;
                    } else {
                        quoted = !quoted;
                    }
                    at += 1;
                } else if !quoted && (unit == blank || unit == tab) {
                    break;
                } else {
                    word.push(unit);
                    at += 1;
                }
            }
            words.push(word);
        }
    }

    #[test]
    fn plain_words_stay_readable_and_others_are_quoted() {
        let words = ["C:\\a b\\x.exe", "--flag=1", "", "a b", r#"say "hi""#, r"C:\dir\", r"C:\my dir\"];
        let line = command_line(&words.map(wide)).unwrap();
        assert_eq!(text(&line), r#""C:\a b\x.exe" --flag=1 "" "a b" "say \"hi\"" C:\dir\ "C:\my dir\\""#);
    }

    #[test]
    fn what_no_command_line_can_hold_is_refused() {
        assert_eq!(command_line(&[]), Err(QuoteError::Empty));
        assert_eq!(command_line(&[wide("x"), wide("a\0b")]), Err(QuoteError::Nul(1)));
        assert_eq!(command_line(&[wide("x\"y")]), Err(QuoteError::ProgramQuote));
        assert!(matches!(
            command_line(&[wide("x"), wide(&"a".repeat(32_767))]),
            Err(QuoteError::TooLong { .. })
        ));
        let longest = command_line(&[wide("x"), wide(&"a".repeat(32_767 - 1 - 4))]);
        assert_eq!(longest.map(|line| line.len()), Ok(32_766));
    }

    #[test]
    fn a_batch_file_gets_no_argument_that_cmd_would_run() {
        let line = |argument: &str| {
            let (cmd, script) = (wide(r"C:\Windows\System32\cmd.exe"), wide(r"C:\tools\build.bat"));
            batch_command_line(&cmd, &script, &[wide(argument)])
        };
        for (argument, character) in [
            (r#"" & calc.exe & ""#, "a quotation mark"),
            ("%CMDCMDLINE:~-1%&calc.exe", "a percent sign"),
            ("a\r\ncalc.exe", "a line break"),
            ("a\ncalc.exe", "a line break"),
            ("a\u{1a}b", "a control character"),
        ] {
            assert_eq!(line(argument), Err(QuoteError::Batch { index: 1, character }), "{argument:?}");
        }
        assert_eq!(line("a\0b"), Err(QuoteError::Nul(0)));
        for argument in ["a b", "a&calc.exe", "a|b", "a^b", "(a)", "!PATH!", "a<b>c", "'", "ä", ""] {
            let expected = format!(
                r#""C:\Windows\System32\cmd.exe" /e:ON /v:OFF /d /s /c ""C:\tools\build.bat" "{argument}"""#
            );
            assert_eq!(line(argument).map(|line| text(&line)), Ok(expected));
        }
        assert!(text(&line(r"C:\dir\").unwrap()).ends_with(r#" "C:\dir\\"""#));
        assert!(matches!(line(&"a".repeat(8_191)), Err(QuoteError::TooLong { longest: 8_191, .. })));
        let script = batch_command_line(&wide("cmd.exe"), &wide("C:\\a%b.bat"), &[]);
        assert_eq!(script, Err(QuoteError::Batch { index: 0, character: "a percent sign" }));
    }

    #[test]
    fn a_batch_file_is_known_by_every_spelling_of_its_name() {
        for name in [
            "a.bat",
            "A.BAT",
            r"C:\x\a.Cmd",
            "a.bat.",
            "a.bat . .",
            "a.cmd ",
            "a.bat::$DATA",
            "C:/x/a.cmd",
            ".bat",
        ] {
            assert!(is_batch_file(&wide(name)), "{name}");
        }
        for name in ["a.exe", "a.bat.exe", r"C:\a.bat\b.exe", "bat", "", "a.batx", "C:a"] {
            assert!(!is_batch_file(&wide(name)), "{name}");
        }
    }

    /// Any text, and often the characters that have a meaning.
    fn word() -> impl Strategy<Value = Vec<u16>> {
        let unit = prop_oneof![
            4 => prop::sample::select(wide("\"\\ \t'^%&|<>()!;,=a")),
            1 => 1u16..=u16::MAX,
        ];
        prop::collection::vec(unit, 0..24)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn every_word_comes_back(program in word(), arguments in prop::collection::vec(word(), 0..6)) {
            let program: Vec<u16> = program.into_iter().filter(|unit| *unit != QUOTE).collect();
            let words: Vec<Vec<u16>> = [program].into_iter().chain(arguments).collect();
            let line = command_line(&words).unwrap();
            prop_assert_eq!(command_line_to_argv(&line), words);
        }

        #[test]
        fn a_batch_file_gets_every_word_between_quotation_marks_of_its_own(arguments in prop::collection::vec(word(), 0..6)) {
            let Ok(line) = batch_command_line(&wide("cmd"), &wide("x.bat"), &arguments) else { return Ok(()) };
            // cmd.exe leaves its quoted state only at a quotation mark: with those that we wrote and no others, all that is
            // outside of them is ours too.
            let (mut outside, mut quoted) = (Vec::new(), false);
            let inner = text(&line);
            let inner = inner.split_once(" /s /c \"").unwrap().1;
            for character in inner[..inner.len() - 1].chars() {
                if character == '"' { quoted = !quoted } else if !quoted { outside.push(character) }
            }
            prop_assert!(!quoted);
            prop_assert!(outside.iter().all(|character| *character == ' '), "{:?}", outside);
        }
    }
}
