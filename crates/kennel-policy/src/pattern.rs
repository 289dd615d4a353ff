//! Path patterns: one entry of a path list, either an absolute path or a glob over absolute paths.
//!
//! The grammar is small on purpose. Within one component `*` stands for any run of characters, `?` for one, and
//! `[a-z]`, `[!a-z]` or `[^a-z]` for one of a set; a component that is exactly `**` stands for any number of
//! components, none included, so `dir/**` matches `dir` too. Names that start with a dot are ordinary names: a
//! deny rule that overlooked hidden files would protect nothing. There are no escapes and no braces; a set of one
//! (`[*]`, `[[]`) says a special character literally.
//!
//! Matching works on bytes, since names on Linux are bytes. Where they are valid UTF-8, `?` and sets take one
//! character; a byte that is not counts as a character of its own.
//!
//! Cost is bounded: a match backtracks only to the last `*` (or `**`) it passed, so it takes at most the product
//! of the two lengths, whatever the pattern.

use std::ffi::{OsStr, OsString};
use std::path::{Component as PathComponent, Path, PathBuf};

use crate::ostext::{bracketed, unbracketed};
use crate::printed;

mod pieces;
mod set;

pub use pieces::{Component, Piece};
pub use set::{Alive, PatternMatches, PatternSet};

/// An absolute path, or a glob over absolute paths.
///
/// ```
/// use kennel_policy::pattern::PathPattern;
/// use std::path::Path;
///
/// let secrets = PathPattern::parse("/srv/**/*.pem")?;
/// assert!(secrets.matches(Path::new("/srv/tls/site/key.pem")));
/// assert!(!secrets.matches(Path::new("/srv/key.pem.txt")));
/// assert_eq!(secrets.literal_prefix(), Path::new("/srv"));
/// # Ok::<(), kennel_policy::pattern::PatternError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathPattern {
    path: PathBuf,
    prefix: PathBuf,
    segments: Vec<Segment>,
    glob: bool,
    only_folders: bool,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing at all.
    #[error("the path is empty")]
    Empty,
    /// A pattern is matched against absolute paths only.
    #[error("the path is not absolute")]
    Relative,
    /// No path of any system holds one.
    #[error("the path contains a NUL byte")]
    Nul,
    /// Whether `..` goes where it seems to go depends on symlinks, which a glob cannot ask about.
    #[error("a glob cannot contain `..`; write the actual folder")]
    ParentInGlob,
    /// A `[` with no `]`.
    #[error("`[` starts a set that is not closed; write `[[]` for the character itself")]
    OpenSet,
    /// A range such as `z-a`.
    #[error("the range `{0}` is reversed")]
    EmptyRange(String),
    /// Another program's glob that takes a great many patterns of kennel's.
    #[error("it has too many `**` within names; write one rule for each folder")]
    TooManyReadings,
}

/// One component of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Segment {
    /// `**`
    AnyDepth,
    Literal(Box<[u8]>),
    Glob(Box<[Token]>),
}

/// One piece of a component with special characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Token {
    Unit(Unit),
    /// `?`
    One,
    /// As many `?` of a program that counts in UTF-16, in which characters beyond U+FFFF count twice; or, beside a `*`, at
    /// least as many.
    Utf16 {
        count: usize,
        open: bool,
    },
    /// `*`
    Run,
    Set {
        negated: bool,
        ranges: Box<[(Unit, Unit)]>,
    },
}

/// A character, or a byte that is part of none (numbered after the last character).
type Unit = u32;

impl PathPattern {
    /// The path itself, whatever characters it holds. It should be absolute: nothing matches one that is not.
    ///
    /// Repeated and trailing slashes and `.` are dropped; `..` stays, because only a file system can tell where
    /// it leads.
    #[must_use]
    pub fn literal(path: impl AsRef<Path>) -> Self {
        let path = tidy(path.as_ref());
        let segments = components(&path).map(|c| Segment::Literal(c.into())).collect();
        PathPattern { prefix: path.clone(), path, segments, glob: false, only_folders: false }
    }

    /// A glob if the text holds `*`, `?` or `[`, else the path itself.
    pub fn parse(text: impl AsRef<OsStr>) -> Result<Self, PatternError> {
        let text = text.as_ref();
        if !text.is_empty() && !Path::new(text).has_root() {
            return Err(PatternError::Relative);
        }
        Self::parse_in(Path::new("/"), text)
    }

    /// The same for a text that may be relative to a folder, whose own special characters mean themselves: in
    /// `/app/[slug]` the text `*.ts` speaks of that folder and of no other.
    pub fn parse_in(folder: &Path, text: impl AsRef<OsStr>) -> Result<Self, PatternError> {
        let text = text.as_ref();
        let bytes = text.as_encoded_bytes();
        if bytes.is_empty() {
            return Err(PatternError::Empty);
        }
        if bytes.contains(&0) {
            return Err(PatternError::Nul);
        }
        let text = Path::new(text);
        // `join` leaves a text that is absolute as it is.
        if !is_special(bytes) {
            return Ok(Self::literal(folder.join(text)));
        }

        let folder = if text.has_root() { tidy(Path::new("/")) } else { tidy(folder) };
        let mut segments: Vec<_> = components(&folder).map(|c| Segment::Literal(c.into())).collect();
        let (mut path, mut prefix, mut glob) = (folder.clone(), folder, false);
        for component in text.components() {
            let PathComponent::Normal(component) = component else {
                if component == PathComponent::ParentDir {
                    return Err(PatternError::ParentInGlob);
                }
                continue;
            };
            let name = unbracketed(component);
            let segment = match component.as_encoded_bytes() {
                b"**" if segments.last() == Some(&Segment::AnyDepth) => continue,
                b"**" => Segment::AnyDepth,
                plain if !is_special(plain) => Segment::Literal(plain.into()),
                special => match tokens(special)? {
                    // A name all of whose special characters are said literally is a name.
                    tokens if tokens.iter().all(Token::is_literal) => {
                        Segment::Literal(name.as_encoded_bytes().into())
                    }
                    tokens => Segment::Glob(tokens),
                },
            };
            if matches!(segment, Segment::Literal(_)) {
                path.push(&name);
            } else {
                glob = true;
                path.push(component);
            }
            if !glob {
                prefix.clone_from(&path);
            }
            segments.push(segment);
        }
        Ok(PathPattern { path, prefix, segments, glob, only_folders: false })
    }

    /// A text that [`Self::parse`] reads as this very pattern.
    ///
    /// ```
    /// use kennel_policy::pattern::PathPattern;
    /// let page = PathPattern::parse_in("/app/[slug]".as_ref(), "*.ts")?;
    /// assert_eq!(page.to_text(), "/app/[[]slug]/*.ts");
    /// # Ok::<(), kennel_policy::pattern::PatternError>(())
    /// ```
    #[must_use]
    pub fn to_text(&self) -> OsString {
        self.text_with(OsStr::to_owned)
    }

    /// The text of a pattern, with components that have special characters written by `write`.
    fn text_with(&self, write: impl Fn(&OsStr) -> OsString) -> OsString {
        let names = self.path.components().filter(|part| *part != PathComponent::RootDir);
        let mut text = OsString::new();
        for (name, segment) in names.zip(&self.segments) {
            text.push("/");
            match segment {
                Segment::Literal(_) => text.push(said_literally(name.as_os_str())),
                Segment::AnyDepth => text.push(name),
                Segment::Glob(_) => text.push(write(name.as_os_str())),
            }
        }
        if text.is_empty() { "/".into() } else { text }
    }

    /// The same pattern with another folder in the place of [`Self::literal_prefix`], whose special characters mean
    /// themselves.
    #[must_use]
    pub fn moved_to(&self, folder: &Path) -> PathPattern {
        self.rest_in(components(&self.prefix).count(), folder)
    }

    /// What is left of the pattern when `used` of its segments have been, in a folder: see [`PatternSet`].
    #[must_use]
    pub fn rest_in(&self, used: usize, folder: &Path) -> PathPattern {
        let mut path = tidy(folder);
        let mut segments: Vec<_> = components(&path).map(|name| Segment::Literal(name.into())).collect();
        let mut prefix = path.clone();
        let names = self.path.components().filter(|part| *part != PathComponent::RootDir);
        let mut glob = false;
        for (name, segment) in names.zip(&self.segments).skip(used) {
            path.push(name);
            segments.push(segment.clone());
            glob |= !matches!(segment, Segment::Literal(_));
            if !glob {
                prefix.clone_from(&path);
            }
        }
        PathPattern { path, prefix, segments, glob, only_folders: self.only_folders }
    }

    /// How many segments it has: names, and `**`.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.segments.len()
    }

    /// The same for folders alone: what matches and is none is not meant. [`Self::matches`] cannot tell, as it sees no disk.
    #[must_use]
    pub fn of_folders(self) -> PathPattern {
        PathPattern { only_folders: true, ..self }
    }

    /// The same with every `?` standing for one unit of UTF-16, as programs in JavaScript have it.
    #[must_use]
    pub fn in_utf16(mut self) -> PathPattern {
        for segment in &mut self.segments {
            if let Segment::Glob(tokens) = segment {
                *tokens = in_utf16(tokens);
            }
        }
        self
    }

    /// Whether only folders are meant.
    #[must_use]
    pub fn is_of_folders(&self) -> bool {
        self.only_folders
    }

    /// The same with brackets that mean themselves; `None` where it has no set. Whoever denies `[id]/*` may well mean a
    /// folder of that name.
    #[must_use]
    pub fn with_brackets_as_text(&self) -> Option<PathPattern> {
        // `[*]` and its like say that they are text themselves.
        let set = |token: &Token| matches!(token, Token::Set { .. }) && !token.is_literal();
        let has_set = |segment: &Segment| matches!(segment, Segment::Glob(tokens) if tokens.iter().any(set));
        if !self.segments.iter().any(has_set) {
            return None;
        }
        let pattern = PathPattern::parse(self.text_with(with_text_brackets)).ok()?;
        Some(PathPattern { only_folders: self.only_folders, ..pattern })
    }

    /// Whether it can stand for more than one path.
    #[must_use]
    pub fn is_glob(&self) -> bool {
        self.glob
    }

    /// The pattern as text, tidied.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.path
    }

    /// The folder that holds everything the glob can match; the whole path if it is none.
    #[must_use]
    pub fn literal_prefix(&self) -> &Path {
        &self.prefix
    }

    /// Whether the whole path matches.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        let mut names = components(path);
        let mut at = 0;
        // Where to take up again after a mismatch: behind the last `**`, with one more name left to it.
        let mut again: Option<(usize, _)> = None;
        loop {
            if self.segments.get(at) == Some(&Segment::AnyDepth) {
                at += 1;
                again = Some((at, names.clone()));
                continue;
            }
            match names.next() {
                None if at == self.segments.len() => return true,
                // Giving more names to `**` leaves fewer for the rest, so no retry can help.
                None => return false,
                Some(name) if self.segments.get(at).is_some_and(|s| s.matches(name)) => at += 1,
                Some(_) => {
                    let Some((segment, rest)) = &mut again else { return false };
                    rest.next();
                    at = *segment;
                    names = rest.clone();
                }
            }
        }
    }

    /// Whether anything below this folder can match, so that a walk can leave out the rest.
    #[must_use]
    pub fn could_match_below(&self, folder: &Path) -> bool {
        let mut segments = self.segments.iter();
        for name in components(folder) {
            match segments.next() {
                Some(Segment::AnyDepth) => return true,
                Some(segment) if segment.matches(name) => {}
                _ => return false,
            }
        }
        segments.next().is_some()
    }
}

impl std::fmt::Display for PathPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&printed::show(self.path.as_os_str().as_encoded_bytes()))
    }
}

impl Segment {
    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Segment::AnyDepth => true,
            Segment::Literal(literal) => **literal == *name,
            Segment::Glob(tokens) => matches_name(tokens, name),
        }
    }
}

impl Token {
    /// Whether it is a character, or one that has to be put in brackets to mean itself.
    fn is_literal(&self) -> bool {
        match self {
            Token::Unit(_) => true,
            Token::One | Token::Run | Token::Utf16 { .. } => false,
            Token::Set { negated: true, .. } => false,
            Token::Set { ranges, .. } => match **ranges {
                [(low, high)] => low == high && u8::try_from(low).is_ok_and(means_itself_in_brackets),
                _ => false,
            },
        }
    }

    fn takes_one(&self, unit: Unit) -> bool {
        !matches!(self, Token::Utf16 { .. }) && self.takes(unit)
    }

    fn takes(&self, unit: Unit) -> bool {
        match self {
            Token::Unit(own) => *own == unit,
            Token::One | Token::Run | Token::Utf16 { .. } => true,
            Token::Set { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&unit)) != *negated
            }
        }
    }
}

fn matches_name(tokens: &[Token], mut rest: &[u8]) -> bool {
    let mut at = 0;
    let mut again: Option<(usize, &[u8])> = None;
    loop {
        if tokens.get(at) == Some(&Token::Run) {
            at += 1;
            again = Some((at, rest));
            continue;
        }
        if let Some(Token::Utf16 { count, open }) = tokens.get(at)
            && let Some(after) = behind_utf16(rest, *count, *open)
        {
            at += 1;
            rest = after;
            continue;
        }
        match next_unit(rest) {
            None => return at == tokens.len(),
            Some((unit, after)) if tokens.get(at).is_some_and(|t| t.takes_one(unit)) => {
                at += 1;
                rest = after;
            }
            Some(_) => {
                let Some((token, from)) = &mut again else { return false };
                let Some((_, after)) = next_unit(from) else { return false };
                *from = after;
                at = *token;
                rest = after;
            }
        }
    }
}

/// What follows so many units of UTF-16. One half of a character is none, unless a star beside it takes the other.
fn behind_utf16(mut rest: &[u8], mut count: usize, open: bool) -> Option<&[u8]> {
    while count > 0 {
        let (unit, after) = next_unit(rest)?;
        let units = char::from_u32(unit).map_or(1, char::len_utf16);
        if units > count && !open {
            return None;
        }
        count = count.saturating_sub(units);
        rest = after;
    }
    Some(rest)
}

fn in_utf16(tokens: &[Token]) -> Box<[Token]> {
    let mut counted = Vec::with_capacity(tokens.len());
    for token in tokens {
        match (token, counted.last_mut()) {
            (Token::One, Some(Token::Utf16 { count, .. })) => *count += 1,
            (Token::One, last) => {
                let open = last == Some(&mut Token::Run);
                counted.push(Token::Utf16 { count: 1, open });
            }
            (Token::Run, Some(Token::Utf16 { open, .. })) => {
                *open = true;
                counted.push(Token::Run);
            }
            (token, _) => counted.push(token.clone()),
        }
    }
    counted.into()
}

/// The first character of a name and what follows it.
fn next_unit(bytes: &[u8]) -> Option<(Unit, &[u8])> {
    let (&first, after) = bytes.split_first()?;
    if first.is_ascii() {
        return Some((first.into(), after));
    }
    // At most four bytes make a character, so this looks at no more than that.
    let head = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
    };
    match valid.chars().next() {
        Some(character) => Some((character.into(), &bytes[character.len_utf8()..])),
        None => Some((u32::from(char::MAX) + 1 + Unit::from(first), after)),
    }
}

fn tokens(component: &[u8]) -> Result<Box<[Token]>, PatternError> {
    let mut tokens = Vec::new();
    let mut rest = component;
    while let Some((unit, after)) = next_unit(rest) {
        rest = after;
        let token = match char::from_u32(unit) {
            Some('?') => Token::One,
            Some('*') if tokens.last() == Some(&Token::Run) => continue,
            Some('*') => Token::Run,
            Some('[') => {
                let (set, after) = set(rest)?;
                rest = after;
                set
            }
            _ => Token::Unit(unit),
        };
        tokens.push(token);
    }
    Ok(tokens.into())
}

/// A set, from behind its `[`. A `]` that comes first is one of its members.
fn set(text: &[u8]) -> Result<(Token, &[u8]), PatternError> {
    const CLOSE: Unit = ']' as Unit;
    const DASH: Unit = '-' as Unit;

    let (negated, mut rest) = match text {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut ranges = Vec::new();
    loop {
        let (low, after) = next_unit(rest).ok_or(PatternError::OpenSet)?;
        if low == CLOSE && !ranges.is_empty() {
            return Ok((Token::Set { negated, ranges: ranges.into() }, after));
        }
        rest = after;
        let high = match next_unit(rest) {
            // A `-` before the closing bracket is one of the members.
            Some((DASH, after)) => match next_unit(after) {
                Some((high, after)) if high != CLOSE => {
                    rest = after;
                    high
                }
                _ => low,
            },
            _ => low,
        };
        if low > high {
            let show = |unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
            return Err(PatternError::EmptyRange(format!("{}-{}", show(low), show(high))));
        }
        ranges.push((low, high));
    }
}

/// A name with its special characters in brackets, so that they mean themselves. So do a `$` and a blank at the start, which
/// settings refuse.
fn said_literally(name: &OsStr) -> OsString {
    bracketed(name, |at, byte| is_special(&[byte]) || (at == 0 && means_itself_in_brackets(byte)))
}

/// A name whose `[` mean themselves, and whose stars and question marks do not.
fn with_text_brackets(name: &OsStr) -> OsString {
    bracketed(name, |_, byte| byte == b'[')
}

/// Whether settings give a character another meaning in some place.
fn means_itself_in_brackets(byte: u8) -> bool {
    is_special(&[byte]) || byte == b'$' || byte.is_ascii_whitespace()
}

fn is_special(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

fn components(path: &Path) -> impl Iterator<Item = &[u8]> + Clone {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.split(|byte| *byte == b'/').filter(|name| !matches!(name, [] | [b'.']))
}

/// Without repeated and trailing slashes and without `.`, which are all that `components` drops.
fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}

#[cfg(test)]
mod tests;
