//! What a git configuration names that git on the host would run or read: folders of hooks, further configuration,
//! programs. Pure and bounded: the bytes of a file in, paths out.
//!
//! It reads as git does (sections, subsections, quotes, escapes, comments, lines that go on), but forgives what git
//! refuses: of a broken file everything that can be understood is protected.

mod command;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// More than any real configuration has.
pub const MAX_BYTES: usize = 1 << 20;
/// As many paths are protected; a configuration that names more is somebody's test of kennel.
const MAX_NAMED: usize = 1024;
/// As many settings are told of that are not understood.
const MAX_TOLD: usize = 8;

/// A path that a configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// As it was written.
    pub path: PathBuf,
    /// What a relative one is relative to.
    pub relative_to: RelativeTo,
    /// The setting.
    pub key: String,
    /// Whether it counts only if it is a file: a word of a command that may be something else, `x.sh` in `sh x.sh`.
    pub only_a_file: bool,
}

impl Named {
    /// Whether it says that there is more configuration at that path.
    pub fn is_include(&self) -> bool {
        self.relative_to == RelativeTo::File
    }
}

/// What a path in a configuration is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelativeTo {
    /// The folder of the configuration file.
    File,
    /// The top of the work tree: git runs programs and hooks there.
    WorkTree,
}

/// The settings of which the program may run files that cannot be told from their text.
pub fn not_understood(text: &[u8]) -> Vec<String> {
    let mut keys = Vec::new();
    let mut reader = Reader::of(text);
    while let Some((key, value)) = reader.next_value() {
        if program(&key) && keys.len() < MAX_TOLD && !keys.contains(&key) && !is_understood(&key, &value) {
            keys.push(key);
        }
    }
    keys
}

/// Whether all that the value of a setting runs can be told from its text.
fn is_understood(key: &str, value: &[u8]) -> bool {
    // An alias is git's own command unless it starts with `!`, and a submodule's update one of git's words.
    let own = |start: &str| key.starts_with(start) && !value.trim_ascii_start().starts_with(b"!");
    let switch = matches!(value.to_ascii_lowercase().as_slice(), b"true" | b"false" | b"1" | b"0" | b"");
    own("alias.") || own("submodule.") || switch || command::is_understood(value)
}

/// What a configuration names.
pub fn named(text: &[u8]) -> Vec<Named> {
    let mut named = Vec::new();
    let mut reader = Reader::of(text);
    while let Some((key, value)) = reader.next_value() {
        if named.len() >= MAX_NAMED {
            break;
        }
        let (path, relative_to) = match key.as_str() {
            "core.hookspath" | "core.attributesfile" | "init.templatedir" => {
                (value.as_slice(), RelativeTo::WorkTree)
            }
            "include.path" => (value.as_slice(), RelativeTo::File),
            _ if key.starts_with("includeif.") && key.ends_with(".path") => {
                (value.as_slice(), RelativeTo::File)
            }
            _ if program(&key) => {
                named.extend(command::files(&value).into_iter().map(
                    |command::File { path, only_a_file }| Named {
                        path,
                        relative_to: RelativeTo::WorkTree,
                        key: key.clone(),
                        only_a_file,
                    },
                ));
                continue;
            }
            _ => continue,
        };
        if !path.is_empty() && !path.contains(&0) {
            let path = PathBuf::from(OsStr::from_bytes(path));
            named.push(Named { path, relative_to, key, only_a_file: false });
        }
    }
    named.truncate(MAX_NAMED);
    named
}

/// The settings of a configuration, in their order: the key in lower case but for the subsection, and the value. A name that
/// stands by itself means true.
#[must_use]
pub fn settings(text: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut reader = Reader::of(text);
    std::iter::from_fn(|| {
        let (key, value) = reader.next_value()?;
        Some((key, if reader.no_value { b"true".to_vec() } else { value }))
    })
    .collect()
}

/// Whether git runs the value of this setting.
fn program(key: &str) -> bool {
    const WHOLE: &[&str] = &[
        "core.fsmonitor",
        "core.sshcommand",
        "core.editor",
        "core.pager",
        "core.askpass",
        "core.gitproxy",
        "core.alternaterefscommand",
        "sequence.editor",
        "diff.external",
        "gpg.program",
        "gpg.ssh.program",
        "gpg.ssh.defaultkeycommand",
        "gpg.x509.program",
        "gpg.openpgp.program",
        "credential.helper",
        "interactive.difffilter",
        "uploadpack.packobjectshook",
        "gc.recentobjectshook",
        "web.browser",
    ];
    const FAMILIES: &[(&str, &[&str])] = &[
        ("filter.", &[".clean", ".smudge", ".process"]),
        ("diff.", &[".command", ".textconv"]),
        ("merge.", &[".driver"]),
        ("mergetool.", &[".cmd", ".path"]),
        ("difftool.", &[".cmd", ".path"]),
        ("credential.", &[".helper"]),
        ("remote.", &[".uploadpack", ".receivepack"]),
        ("pager.", &[""]),
        ("alias.", &[""]),
        ("submodule.", &[".update"]),
        ("trailer.", &[".command", ".cmd"]),
        ("browser.", &[".cmd", ".path"]),
        ("man.", &[".cmd", ".path"]),
        ("hook.", &[".command"]),
        ("tar.", &[".command"]),
        ("guitool.", &[".cmd"]),
    ];
    WHOLE.contains(&key)
        || FAMILIES
            .iter()
            .any(|(start, ends)| key.starts_with(start) && ends.iter().any(|end| key.ends_with(end)))
}

struct Reader<'a> {
    rest: &'a [u8],
    /// The section that is being read, with its subsection: `filter.lfs`.
    section: String,
    /// Whether the last name stood by itself.
    no_value: bool,
}

impl Reader<'_> {
    fn of(text: &[u8]) -> Reader<'_> {
        Reader { rest: &text[..text.len().min(MAX_BYTES)], section: String::new(), no_value: false }
    }

    /// The next setting with its section in front, in lower case but for the subsection, and its value.
    fn next_value(&mut self) -> Option<(String, Vec<u8>)> {
        loop {
            match *self.rest.first()? {
                b'#' | b';' => self.skip_line(),
                b'[' => self.section = self.section_header(),
                byte if byte.is_ascii_alphanumeric() => {
                    let end =
                        self.rest.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-');
                    let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                    self.rest = rest;
                    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                    return Some((format!("{}.{name}", self.section), self.value()));
                }
                _ => self.rest = &self.rest[1..],
            }
        }
    }

    fn skip_line(&mut self) {
        let end = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
    }

    /// `[name]`, `[name "subsection"]`, or `[name.subsection]` as it was once written.
    fn section_header(&mut self) -> String {
        let mut bytes = self.rest[1..].iter().copied().enumerate();
        let (mut name, mut subsection) = (Vec::new(), None::<Vec<u8>>);
        let mut quoted = false;
        let mut end = self.rest.len();
        while let Some((at, byte)) = bytes.next() {
            match (byte, &mut subsection) {
                (b'\n', _) | (b']', _) if !quoted || byte == b'\n' => {
                    end = at + 2;
                    break;
                }
                (b'"', _) => {
                    quoted = !quoted;
                    subsection.get_or_insert_default();
                }
                (b'\\', Some(text)) if quoted => text.extend(bytes.next().map(|(_, escaped)| escaped)),
                (byte, Some(text)) if quoted => text.push(byte),
                (byte, None) if !byte.is_ascii_whitespace() => name.push(byte.to_ascii_lowercase()),
                _ => {}
            }
        }
        self.rest = &self.rest[end.min(self.rest.len())..];
        let mut section = String::from_utf8_lossy(&name).into_owned();
        if let Some(subsection) = subsection {
            section.push('.');
            section.push_str(&String::from_utf8_lossy(&subsection));
        }
        section
    }

    /// What follows a setting's name, up to the end of the line; nothing when it stands for itself.
    fn value(&mut self) -> Vec<u8> {
        let mut value = Vec::new();
        // As much of it as is kept when what follows is only space.
        let mut kept = 0;
        let (mut begun, mut quoted) = (false, false);
        let mut bytes = self.rest.iter().copied().enumerate();
        let mut end = self.rest.len();
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'\n' => {
                    end = at;
                    break;
                }
                b'=' if !begun => begun = true,
                b' ' | b'\t' | b'\r' if !quoted => {
                    if kept > 0 {
                        value.push(byte);
                    }
                    continue;
                }
                _ if !begun => {}
                b'"' => quoted = !quoted,
                b'#' | b';' if !quoted => {
                    end = at
                        + self.rest[at..]
                            .iter()
                            .position(|byte| *byte == b'\n')
                            .unwrap_or(self.rest.len() - at);
                    break;
                }
                b'\\' => match bytes.next().map(|(_, escaped)| escaped) {
                    // The line goes on.
                    Some(b'\n') | None => {}
                    Some(b'n') => value.push(b'\n'),
                    Some(b't') => value.push(b'\t'),
                    Some(b'b') => value.push(8),
                    Some(other) => value.push(other),
                },
                byte => value.push(byte),
            }
            kept = value.len();
        }
        self.rest = &self.rest[end..];
        self.no_value = !begun;
        value.truncate(kept);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(text: &str) -> Vec<(String, String)> {
        named(text.as_bytes())
            .into_iter()
            .filter(|named| !named.only_a_file)
            .map(|named| (named.key, named.path.display().to_string()))
            .collect()
    }

    fn one(text: &str) -> String {
        let found = paths(text);
        assert_eq!(found.len(), 1, "{text:?}: {found:?}");
        found[0].1.clone()
    }

    #[test]
    fn hooks_includes_and_programs_are_named() {
        let text = "[core]\n\trepositoryformatversion = 0\n\thooksPath = .githooks\n\tfsmonitor = ./tools/watch --fast\n\
                    [include]\n path = ../shared.inc\n[includeIf \"gitdir:~/Work/\"]\n path = /w.inc\n\
                    [filter \"lfs\"]\n clean = git-lfs clean -- %f\n[filter \"mine\"]\n smudge = 'bin/with space' %f\n\
                    [alias]\n st = status\n go = !bin/go now\n[remote \"origin\"]\n url = /srv/x.git\n";
        let expected = [
            ("core.hookspath", ".githooks"),
            ("core.fsmonitor", "./tools/watch"),
            ("include.path", "../shared.inc"),
            ("includeif.gitdir:~/Work/.path", "/w.inc"),
            ("filter.mine.smudge", "bin/with space"),
            ("alias.go", "bin/go"),
        ];
        let expected = expected.map(|(key, path)| (key.to_owned(), path.to_owned()));
        assert_eq!(paths(text), expected);
    }

    #[test]
    fn values_are_read_as_git_reads_them() {
        assert_eq!(one("[CORE] HooksPath=a/b ; why\n"), "a/b");
        assert_eq!(one("[core]hookspath = \"a # b\"  # why\n"), "a # b");
        assert_eq!(one("[core]\nhookspath = a\\\nb\n"), "ab");
        assert_eq!(one("[core]\nhookspath = a\\tb\\\"c\n"), "a\tb\"c");
        assert_eq!(one("[core]\nhookspath =  two words  \n"), "two words");
        assert_eq!(one("# [x]\n[core]\n\tbare\n\thookspath = x"), "x");
        assert_eq!(one("[include]\npath = a\n[user]\nname = path\n"), "a");
        assert_eq!(paths("[core]\nhookspath =\nhookspath\nfsmonitor = true\n"), []);
    }

    #[test]
    fn scripts_that_a_command_hands_to_an_interpreter_are_named_too() {
        assert_eq!(one("[filter \"x\"]\nclean = sh tools/clean.sh %f\n"), "tools/clean.sh");
        assert_eq!(one("[core]\nfsmonitor = env A=1 ./watch\n"), "./watch");
        assert_eq!(one("[alias]\nx = \"!f() { bin/go $1; }; f\"\n"), "bin/go");
        assert_eq!(one("[core]\nsshCommand = ssh -F=conf/ssh\n"), "conf/ssh");
        let words: Vec<_> = named(b"[filter \"x\"]\nclean = python3 clean.py -- %f\n");
        assert_eq!(words.iter().map(|word| word.path.to_str().unwrap()).collect::<Vec<_>>(), ["clean.py"]);
        assert!(words[0].only_a_file);
    }

    #[test]
    fn a_broken_configuration_still_says_what_it_says() {
        assert_eq!(one("[core\nhookspath = x\n[user]\nhookspath = y\n].\n").as_str(), "x");
        assert_eq!(one("]]] = \n[core] = 3\nhookspath = x"), "x");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            named(&text);
        }

        #[test]
        fn any_configuration_is_read_to_its_end(text in "[\\[\\]a-z\"\\\\= \n#;./!']{0,200}") {
            named(format!("[core]\nhookspath = a\n{text}").as_bytes());
        }
    }
}
