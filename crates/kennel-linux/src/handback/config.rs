//! Whether a git configuration can make git run something. Pure and bounded: bytes in, a judgement out.
//!
//! The reader takes less than git does, on purpose: one setting on a line, nothing that goes on in the next one, no
//! control characters. Whatever git writes by itself reads that way, and within these bounds a line means the same here
//! as there (`tests/git` compares the two over random texts). A file that is written otherwise counts as dangerous.

use super::keys;

/// More than any real configuration has.
pub const MAX_BYTES: usize = 1 << 20;

/// What a configuration is found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Every setting in it is known to be harmless.
    Harmless,
    /// These settings are not; the text is what is left without them.
    Names {
        /// The settings, each once.
        settings: Vec<String>,
        /// The configuration without them.
        rest: Vec<u8>,
    },
    /// It is not written as git writes it.
    Unreadable,
}

/// One setting of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// `core`, in lower case.
    pub section: String,
    /// What follows in quotes, as it is written, or after a dot, in lower case.
    pub subsection: Option<Vec<u8>>,
    /// `fsmonitor`, in lower case.
    pub name: String,
    /// `None` for a name that stands by itself, which means true.
    pub value: Option<Vec<u8>>,
}

impl Setting {
    /// The key as people write it.
    #[must_use]
    pub fn key(&self) -> String {
        match &self.subsection {
            Some(inner) => format!("{}.{}.{}", self.section, String::from_utf8_lossy(inner), self.name),
            None => format!("{}.{}", self.section, self.name),
        }
    }
}

/// Judges a configuration.
///
/// `before` is what it said at the start of the run, if it was there: settings that it has kept since are its owner's.
/// `is_work_tree` says whether a value of `core.worktree` leads to where it may.
#[must_use]
pub fn judge(text: &[u8], before: Option<&[u8]>, is_work_tree: impl Fn(&[u8]) -> bool) -> Judgement {
    if before == Some(text) {
        return Judgement::Harmless;
    }
    let Some(lines) = read(text) else { return Judgement::Unreadable };
    let kept: Vec<Setting> = match before.map(read) {
        None => Vec::new(),
        Some(Some(lines)) => lines.into_iter().filter_map(|line| line.setting).collect(),
        // What its owner wrote cannot be told from what was added.
        Some(None) => return Judgement::Unreadable,
    };
    let harmless = |setting: &Setting| {
        let moves = setting.section == "core" && setting.subsection.is_none() && setting.name == "worktree";
        let known = if moves {
            setting.value.as_deref().is_some_and(&is_work_tree)
        } else {
            keys::is_harmless(setting)
        };
        known || kept.contains(setting)
    };
    let mut settings: Vec<String> = Vec::new();
    let mut rest = Vec::with_capacity(text.len());
    for line in lines {
        match &line.setting {
            Some(setting) if !harmless(setting) => {
                let key = setting.key();
                if !settings.contains(&key) {
                    settings.push(key);
                }
            }
            _ => rest.extend_from_slice(line.text),
        }
    }
    if settings.is_empty() { Judgement::Harmless } else { Judgement::Names { settings, rest } }
}

/// A configuration without one of its settings; `None` if it is not written as git writes it.
#[must_use]
pub fn without(text: &[u8], setting: &Setting) -> Option<Vec<u8>> {
    let lines = read(text)?.into_iter().filter(|line| line.setting.as_ref() != Some(setting));
    Some(lines.flat_map(|line| line.text.iter().copied()).collect())
}

/// The settings of a configuration that is written as git writes it, in their order.
#[must_use]
pub fn settings(text: &[u8]) -> Option<Vec<Setting>> {
    Some(read(text)?.into_iter().filter_map(|line| line.setting).collect())
}

struct Line<'a> {
    /// All of it, its end included.
    text: &'a [u8],
    setting: Option<Setting>,
}

/// `None` for what goes beyond the plain form.
fn read(text: &[u8]) -> Option<Vec<Line<'_>>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let mut section: Option<(String, Option<Vec<u8>>)> = None;
    let mut lines = Vec::new();
    for whole in text.split_inclusive(|byte| *byte == b'\n') {
        let line = whole.strip_suffix(b"\n").unwrap_or(whole);
        let line = if whole.ends_with(b"\r\n") { &line[..line.len() - 1] } else { line };
        // Git takes a lone carriage return, a NUL or a form feed for one thing here and another there.
        if line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return None;
        }
        let line = trimmed(line);
        let setting = match line.first() {
            None | Some(b'#' | b';') => None,
            Some(b'[') => {
                section = Some(header(&line[1..])?);
                None
            }
            Some(_) => {
                let (section, subsection) = section.clone()?;
                let (name, value) = assignment(line)?;
                Some(Setting { section, subsection, name, value })
            }
        };
        lines.push(Line { text: whole, setting });
    }
    Some(lines)
}

/// What follows the opening bracket of `[name]`, `[name "subsection"]` or `[name.subsection]`.
fn header(text: &[u8]) -> Option<(String, Option<Vec<u8>>)> {
    let end = text.iter().position(|byte| !is_name(*byte) && *byte != b'.')?;
    let name = text[..end].to_ascii_lowercase();
    let mut rest = &text[end..];
    let mut quoted = None;
    if matches!(rest.first(), Some(b' ' | b'\t')) {
        rest = trimmed_start(rest).strip_prefix(b"\"")?;
        let mut inner = Vec::new();
        loop {
            let (byte, after) = rest.split_first()?;
            rest = after;
            match byte {
                b'"' => break,
                b'\\' => {
                    let (escaped, after) = rest.split_first()?;
                    inner.push(*escaped);
                    rest = after;
                }
                byte => inner.push(*byte),
            }
        }
        quoted = Some(inner);
    }
    // A setting may follow on the same line; nobody writes that.
    let rest = trimmed(rest.strip_prefix(b"]")?);
    if !matches!(rest.first(), None | Some(b'#' | b';')) {
        return None;
    }
    let (section, dotted) = match name.iter().position(|byte| *byte == b'.') {
        Some(dot) => (&name[..dot], Some(name[dot + 1..].to_vec())),
        None => (&name[..], None),
    };
    let subsection = match (dotted, quoted) {
        (None, quoted) => quoted,
        (dotted, None) => dotted,
        // `[a.b "c"]` is the subsection `b.c`.
        (Some(mut dotted), Some(quoted)) => {
            dotted.push(b'.');
            dotted.extend(quoted);
            Some(dotted)
        }
    };
    let section = String::from_utf8(section.to_vec()).ok().filter(|name| !name.is_empty())?;
    Some((section, subsection))
}

/// `name = value`, or a name by itself.
fn assignment(line: &[u8]) -> Option<(String, Option<Vec<u8>>)> {
    if !line.first()?.is_ascii_alphabetic() {
        return None;
    }
    let end = line.iter().position(|byte| !is_name(*byte)).unwrap_or(line.len());
    let name = String::from_utf8(line[..end].to_ascii_lowercase()).ok()?;
    match trimmed_start(&line[end..]) {
        [] => Some((name, None)),
        [b'=', value @ ..] => Some((name, Some(value_of(value)?))),
        // A comment behind a name that stands by itself is an error to git.
        _ => None,
    }
}

fn value_of(text: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    // As much of it as stays when what follows is only space.
    let mut kept = 0;
    let mut quoted = false;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' if !quoted => {
                if kept > 0 {
                    value.push(byte);
                }
                continue;
            }
            b'#' | b';' if !quoted => break,
            b'"' => quoted = !quoted,
            // At the end of a line it would go on in the next.
            b'\\' => value.push(match bytes.next()? {
                b'n' => b'\n',
                b't' => b'\t',
                b'b' => 8,
                byte @ (b'\\' | b'"') => byte,
                _ => return None,
            }),
            byte => value.push(byte),
        }
        kept = value.len();
    }
    value.truncate(kept);
    (!quoted).then_some(value)
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn trimmed_start(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
    &text[start..]
}

fn trimmed(text: &[u8]) -> &[u8] {
    let text = trimmed_start(text);
    let end = text.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |last| last + 1);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judged(text: &str) -> Judgement {
        judge(text.as_bytes(), None, |_| false)
    }

    fn names(text: &str) -> Vec<String> {
        match judged(text) {
            Judgement::Names { settings, .. } => settings,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn what_git_writes_by_itself_is_harmless() {
        let texts = [
            "",
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
            "[remote \"origin\"]\n\turl = https://example.org/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
             [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n",
            "[submodule]\n\tactive = .\n[submodule \"lib\"]\n\turl = ../lib\n\tactive = true\n",
            "[user]\r\n\tname = \"A # B\"\r\n\temail = a@example.org ; me\r\n",
            "# a comment\n[extensions]\n\tobjectFormat = sha256\n",
        ];
        for text in texts {
            assert_eq!(judged(text), Judgement::Harmless, "{text}");
        }
    }

    #[test]
    fn settings_that_name_programs_are_taken_out_and_the_rest_stays() {
        let text = "[core]\n\tbare = false\n\tfsmonitor = ./x\n[alias]\n\tst = !sh\n[user]\n\tname = me\n";
        assert_eq!(
            judged(text),
            Judgement::Names {
                settings: vec!["core.fsmonitor".into(), "alias.st".into()],
                rest: b"[core]\n\tbare = false\n[alias]\n[user]\n\tname = me\n".to_vec(),
            }
        );
        assert_eq!(names("[Core] # x\nFSMonitor=x"), ["core.fsmonitor"]);
        assert_eq!(names("[filter \"a\\\"b\"]\nclean = x"), ["filter.a\"b.clean"]);
        assert_eq!(names("[diff.X]\ncommand = x"), ["diff.x.command"]);
        assert_eq!(names("[include]\npath = ../x\n[includeIf \"gitdir:/\"]\npath = y\n").len(), 2);
        assert_eq!(names("[core]\nworktree = ..\n"), ["core.worktree"]);
        assert_eq!(names("[nobody]\nknows = this\n"), ["nobody.knows"]);
    }

    #[test]
    fn a_text_that_goes_beyond_the_plain_form_is_unreadable() {
        for text in [
            "\u{feff}[core]\n",
            "name = x\n",
            "[core] bare = true\n",
            "[core\n",
            "[core \"x]\n",
            "[]\n",
            "[core]\nbare = a\\\n\tb\n",
            "[core]\nbare = \"x\n",
            "[core]\nbare = \\x\n",
            "[core]\nbare x\n",
            "[core]\nbare # true\n",
            "[core]\nba\0re = x\n",
            "[core]\nbare = x\r\r\n",
            "[core]\n\u{b}bare = x\n",
            "[core]\n-bare = x\n",
        ] {
            assert_eq!(judged(text), Judgement::Unreadable, "{text:?}");
        }
        assert_eq!(judge(&vec![b'\n'; MAX_BYTES + 1], None, |_| true), Judgement::Unreadable);
    }

    #[test]
    fn what_was_there_before_is_its_owners() {
        let before = b"[core]\n\tpager = less\n\tfsmonitor = ./mine\n";
        let added = [before, b"[remote \"o\"]\n\turl = /srv/x\n".as_slice()].concat();
        assert_eq!(judge(&added, Some(before), |_| false), Judgement::Harmless);
        let evil = [before, b"\tfsmonitor = ./evil\n".as_slice()].concat();
        let Judgement::Names { settings, rest } = judge(&evil, Some(before), |_| false) else { panic!() };
        assert_eq!((settings, rest), (vec!["core.fsmonitor".to_owned()], before.to_vec()));
        // An odd file stays its owner's only as long as nothing is changed in it.
        let odd = b"[core] pager = less\n";
        assert_eq!(judge(odd, Some(odd), |_| false), Judgement::Harmless);
        assert_eq!(judge(b"[core]\n", Some(odd), |_| false), Judgement::Unreadable);
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = judge(&text, None, |_| true);
        }

        #[test]
        fn what_is_left_is_harmless(text in "(\\[[a-z]{1,6}( \"[a-z]{0,3}\")?\\]\n|[a-z]{1,9} = [a-z./\"!]{0,6}\n|#x\n){0,12}") {
            if let Judgement::Names { rest, .. } = judge(text.as_bytes(), None, |_| false) {
                prop_assert_eq!(judge(&rest, None, |_| false), Judgement::Harmless);
            }
        }
    }
}
