//! The line in a shell's start-up file that puts the folder of the shims first in `PATH`, and how it is taken out again: a file is
//! left as it was found, byte for byte.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::shims::quoted;
use crate::platform::{self, variable};

/// The comment by which the line is found again; what follows it says what else was added.
const MARK: &str = "# kennel enable";
const AFTER_NO_LINE_END: &str = "; the line above had no end";
const MADE_THE_FILE: &str = "; kennel made this file";
/// No start-up file that a person wrote is larger.
const MAX_BYTES: u64 = 16 << 20;

/// What a shell calls its `PATH`, and how it quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// bash and zsh.
    Posix,
    /// fish.
    Fish,
}

/// A file that a shell of this user's reads when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartupFile {
    /// Its path, as the shell knows it.
    pub path: PathBuf,
    /// Whether it is that of the login shell, and is made where it does not exist.
    of_login: bool,
    syntax: Syntax,
}

/// A file's contents, where there is one.
pub struct Contents {
    text: Vec<u8>,
    /// The file itself, behind links.
    place: PathBuf,
    data: Metadata,
}

/// The files of the shells that this user has: that of the login shell, and those of the others that exist. `all` is also those
/// that do not.
pub fn of_user(home: &Path, all: bool) -> Vec<StartupFile> {
    let folder = |name: &str, otherwise: &str| {
        let said = variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
        said.unwrap_or_else(|| home.join(otherwise))
    };
    let login = variable("SHELL").and_then(|shell| Path::new(shell).file_name()).unwrap_or_default();
    let files = [
        ("bash", home.join(".bashrc"), Syntax::Posix),
        ("zsh", folder("ZDOTDIR", "").join(".zshrc"), Syntax::Posix),
        ("fish", folder("XDG_CONFIG_HOME", ".config").join("fish/config.fish"), Syntax::Fish),
    ];
    let files =
        files.into_iter().map(|(shell, path, syntax)| StartupFile { path, of_login: login == shell, syntax });
    files.filter(|file| all || file.of_login || file.path.exists()).collect()
}

impl StartupFile {
    /// The one that was written at a path, for the line to be taken out.
    pub fn written(path: PathBuf) -> StartupFile {
        StartupFile { path, of_login: false, syntax: Syntax::Posix }
    }

    /// The line, without its end.
    pub fn line(&self, folder: &Path) -> Vec<u8> {
        let word = match self.syntax {
            Syntax::Posix => quoted(folder.as_os_str()),
            Syntax::Fish => quoted_fish(folder.as_os_str()),
        };
        let parts: [&[u8]; 5] = match self.syntax {
            Syntax::Posix => [b"[ \"${PATH%%:*}\" = ", &word, b" ] || export PATH=", &word, b":\"$PATH\" "],
            Syntax::Fish => [b"test \"$PATH[1]\" = ", &word, b"; or set -gx PATH ", &word, b" $PATH "],
        };
        [&parts.concat(), MARK.as_bytes()].concat()
    }

    /// Reads it; `None` where it does not exist.
    ///
    /// # Errors
    /// When it cannot be read, or is nothing that can be written as a whole and stay what it is.
    pub fn read(&self) -> io::Result<Option<Contents>> {
        let place = match self.path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.path.is_symlink() => {
                return Ok(None);
            }
            place => place?,
        };
        let data = place.metadata()?;
        if !data.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut text = Vec::new();
        std::fs::File::open(&place)?.take(MAX_BYTES + 1).read_to_end(&mut text)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(io::Error::other("larger than 16M"));
        }
        Ok(Some(Contents { text, place, data }))
    }

    /// The text with the line in it; `None` where it is there already.
    pub fn with_line(&self, found: Option<&Contents>, folder: &Path) -> Option<Vec<u8>> {
        let line = self.line(folder);
        let Some(found) = found else {
            return Some([line.as_slice(), MADE_THE_FILE.as_bytes(), b"\n"].concat());
        };
        let mut own = found.text.split_inclusive(|byte| *byte == b'\n').filter(|chunk| kind(chunk).is_some());
        if own.any(|chunk| chunk.starts_with(&line)) {
            return None;
        }
        // One of another folder makes room.
        let (mut text, made) = without_line(&found.text).unwrap_or_else(|| (found.text.clone(), false));
        let more: &[u8] = match text.last() {
            _ if made => MADE_THE_FILE.as_bytes(),
            None | Some(b'\n') => b"",
            Some(_) => {
                text.push(b'\n');
                AFTER_NO_LINE_END.as_bytes()
            }
        };
        Some([text.as_slice(), &line, more, b"\n"].concat())
    }

    /// Writes `text` in the place of what was found.
    ///
    /// # Errors
    /// When it cannot be written and stay what it is.
    pub fn write(&self, found: Option<&Contents>, text: &[u8]) -> io::Result<()> {
        match found {
            Some(found) => found.replace(text),
            None => {
                if let Some(folder) = self.path.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                platform::write_whole(&self.path, text, None, 0o644)
            }
        }
    }

    /// Takes the line out; whether it was there.
    ///
    /// # Errors
    /// When it cannot be written and stay what it is.
    pub fn take_out(&self) -> io::Result<bool> {
        let Some(found) = self.read()? else { return Ok(false) };
        let Some((text, made)) = without_line(&found.text) else { return Ok(false) };
        if made && text.is_empty() && !self.path.is_symlink() {
            std::fs::remove_file(&found.place)?;
        } else {
            found.replace(&text)?;
        }
        Ok(true)
    }

    /// The line in which it makes `name` an alias, which comes before all that is in `PATH`.
    pub fn alias(&self, name: &str) -> Option<usize> {
        let text = self.read().ok()??.text;
        let start = [format!("alias {name}="), format!("alias {name} ")];
        let is_alias =
            |line: &[u8]| start.iter().any(|start| line.trim_ascii_start().starts_with(start.as_bytes()));
        text.split(|byte| *byte == b'\n').position(is_alias).map(|index| index + 1)
    }
}

impl Contents {
    fn replace(&self, text: &[u8]) -> io::Result<()> {
        if !platform::has_one_name(&self.data) {
            return Err(io::Error::other("it has other names (hard links)"));
        }
        platform::write_whole(&self.place, text, Some(&self.data), 0o600)
    }
}

/// What the line says of itself after its mark, if it is one of kennel's.
fn kind(chunk: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(chunk.trim_ascii_end()).ok()?;
    let (_, kind) = line.rsplit_once(MARK)?;
    ["", AFTER_NO_LINE_END, MADE_THE_FILE].contains(&kind).then_some(kind)
}

/// The text without kennel's line, and whether kennel made the file; `None` where there is no such line.
fn without_line(text: &[u8]) -> Option<(Vec<u8>, bool)> {
    let (mut rest, mut found, mut made) = (Vec::with_capacity(text.len()), false, false);
    let mut chunks = text.split_inclusive(|byte| *byte == b'\n').peekable();
    while let Some(chunk) = chunks.next() {
        let Some(kind) = kind(chunk) else {
            rest.extend_from_slice(chunk);
            continue;
        };
        (found, made) = (true, made || kind == MADE_THE_FILE);
        // What was added since would run into the line above.
        if kind == AFTER_NO_LINE_END && chunks.peek().is_none() && rest.last() == Some(&b'\n') {
            rest.pop();
        }
    }
    found.then_some((rest, made))
}

/// A path as one word of fish's.
fn quoted_fish(path: &OsStr) -> Vec<u8> {
    let plain = quoted(path);
    if plain == path.as_encoded_bytes() {
        return plain;
    }
    let mut text = vec![b'\''];
    for byte in path.as_encoded_bytes() {
        if matches!(byte, b'\'' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    text.push(b'\'');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a file with `text`, with the line, with `more` at its end, and without the line again.
    fn round(text: Option<&str>, more: &str) -> Option<String> {
        let folder = std::env::temp_dir().join(format!(
            "kennel-startup-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        let file = StartupFile { path: folder.join("rc"), of_login: true, syntax: Syntax::Posix };
        if let Some(text) = text {
            std::fs::write(&file.path, text).unwrap();
        }
        for _ in 0..2 {
            let found = file.read().unwrap();
            if let Some(text) = file.with_line(found.as_ref(), Path::new("/a b/shims")) {
                file.write(found.as_ref(), &text).unwrap();
            }
        }
        let with = std::fs::read_to_string(&file.path).unwrap();
        assert_eq!(
            with.split_inclusive('\n').filter(|line| kind(line.as_bytes()).is_some()).count(),
            1,
            "{with}"
        );
        assert!(with.starts_with(text.unwrap_or_default()));
        std::fs::write(&file.path, with + more).unwrap();
        assert!(file.take_out().unwrap());
        assert!(!file.take_out().unwrap());
        let left = std::fs::read_to_string(&file.path).ok();
        std::fs::remove_dir_all(&folder).unwrap();
        left
    }

    #[test]
    fn a_file_is_as_it_was_when_the_line_is_out_again() {
        for text in ["", "a\n", "a\nb", "\n", "a\r\n", "# kennel enabled\n", "a\n\n\n"] {
            assert_eq!(round(Some(text), "").as_deref(), Some(text), "{text:?}");
        }
        assert_eq!(round(None, ""), None, "what was made is removed");
    }

    #[test]
    fn what_was_added_since_stays() {
        assert_eq!(round(Some("a\n"), "b\n").as_deref(), Some("a\nb\n"));
        assert_eq!(round(Some("a"), "b\n").as_deref(), Some("a\nb\n"));
        assert_eq!(round(None, "b").as_deref(), Some("b"));
    }

    #[test]
    fn a_word_of_fish_is_quoted_as_fish_does() {
        assert_eq!(quoted_fish("/a b'c\\d".as_ref()), b"'/a b\\'c\\\\d'");
        assert_eq!(quoted_fish("/a/b".as_ref()), b"/a/b");
    }
}
