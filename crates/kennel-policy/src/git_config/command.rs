//! The files that a command line of a configuration may run. Pure and bounded.
//!
//! Git gives such a value to a shell, and a shell finds a file in more ways than anybody can list. So there are two kinds
//! of values. What is *understood* is plain: words without any meaning to a shell, and a program of which it is known what it
//! runs. Its files are those that its words name. Of all others every part that might be a path counts, by
//! itself and below every folder that the value goes to; and the user is told that there may be more.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// As many parts of one value are looked at.
const MAX_PARTS: usize = 64;
/// As many folders that a value goes to.
const MAX_FOLDERS: usize = 4;

/// Programs that run nothing of the work tree unless a word of theirs says so; then that word is a path.
const PLAIN: &[&str] = &[
    "git",
    "git-lfs",
    "git-crypt",
    "git-annex",
    "ssh",
    "gpg",
    "gpg2",
    "gpgsm",
    "less",
    "more",
    "most",
    "bat",
    "cat",
    "delta",
    "diff-so-fancy",
    "vi",
    "vim",
    "nvim",
    "nano",
    "emacs",
    "emacsclient",
    "code",
    "tr",
    "jq",
    "true",
    "false",
    "cache",
    "store",
    "osxkeychain",
    "manager",
    "manager-core",
    "libsecret",
    "wincred",
    "netrc",
    "gh",
    "glab",
    "rbw",
    "pass",
    "ssh-askpass",
    "exiftool",
    "pandoc",
    "pdftotext",
    "hexdump",
    "xxd",
    "nbstripout",
    "nbdime",
    "git-nbdiffdriver",
    "git-nbmergedriver",
    "checkout",
    "rebase",
    "merge",
    "none",
    "meld",
    "kdiff3",
    "vimdiff",
    "nvimdiff",
    "opendiff",
    "difft",
    "git-upload-pack",
    "git-receive-pack",
];
/// Programs that run the file that is their first word, or a line of a program if an option says so.
const INTERPRETERS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "fish", "python", "python3", "node", "perl", "ruby", "php", "lua",
    "deno", "bun",
];
/// Programs that run what a file of theirs says, which nobody names: it is looked for where they start.
const BY_FILE: &[(&str, &[&str])] = &[
    ("make", &["Makefile", "makefile", "GNUmakefile"]),
    ("gmake", &["Makefile", "makefile", "GNUmakefile"]),
    ("npm", &["package.json"]),
    ("npx", &["package.json"]),
    ("pnpm", &["package.json"]),
    ("yarn", &["package.json", ".yarnrc.yml"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("task", &["Taskfile.yml", "Taskfile.yaml"]),
    ("rake", &["Rakefile"]),
    ("cargo", &["Cargo.toml", ".cargo/config.toml"]),
];
/// What goes to a folder: the next word is one.
const GOES_TO: &[&[u8]] = &[
    b"cd",
    b"pushd",
    b"-C",
    b"--directory",
    b"--prefix",
    b"--cwd",
    b"--dir",
    b"--project",
    b"-f",
    b"--file",
];

/// A file that a command may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Relative to where git starts the command, or absolute.
    pub path: PathBuf,
    /// Whether it counts only if it is a file: a word that may be something else.
    pub only_a_file: bool,
}

/// Whether all that a command line runs can be told from it.
pub fn is_understood(value: &[u8]) -> bool {
    let literal =
        |byte: &u8| byte.is_ascii_alphanumeric() || b" \t_./,:@%+=^-".contains(byte) || !byte.is_ascii();
    let value = without_mark(value);
    if !value.iter().all(literal) {
        return false;
    }
    let mut words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let Some(program) = words.next() else { return true };
    // Before the program stands a variable.
    if program.contains(&b'=') {
        return false;
    }
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or(program);
    let is = |list: &[&str]| list.iter().any(|known| known.as_bytes() == name);
    if is(INTERPRETERS) {
        // An option may be code, or a module that is looked for.
        return words.next().is_some_and(|word| !word.starts_with(b"-"));
    }
    is(PLAIN) || (program.contains(&b'/') && !BY_FILE.iter().any(|(known, _)| known.as_bytes() == name))
}

/// What a command line may run.
pub fn files(value: &[u8]) -> Vec<File> {
    let mut value = without_mark(value);
    let mut files = Vec::new();
    if let Some(program) = quoted_program(value) {
        files.push(File { path: path(program), only_a_file: false });
        value = &value[program.len() + 2..];
    }
    let parts: Vec<Part> = parts(value).take(MAX_PARTS).collect();
    let mut folders: Vec<PathBuf> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let goes_to = at > 0 && GOES_TO.contains(&parts[at - 1].text);
        if goes_to && folders.len() < MAX_FOLDERS {
            folders.push(part.path());
        }
        if part.text.starts_with(b"-")
            || part.text.starts_with(b"%")
            || part.text == b"."
            || part.text == b".."
        {
            continue;
        }
        let only_a_file = goes_to || !part.text.contains(&b'/');
        // The program itself, without a slash, is looked for in PATH.
        if at > 0 || !only_a_file || !files.is_empty() {
            files.push(File { path: part.path(), only_a_file });
        }
        let name = part.text.rsplit(|byte| *byte == b'/').next().unwrap_or(part.text);
        for (_, names) in BY_FILE.iter().filter(|(known, _)| known.as_bytes() == name) {
            files.extend(names.iter().map(|name| File { path: name.into(), only_a_file: true }));
        }
        // `python -m tools.clean`
        if at > 0 && parts[at - 1].text == b"-m" {
            files.extend(module(part.text));
        }
    }
    let below = |folder: &PathBuf| -> Vec<File> {
        let there = files.iter().filter(|file| file.path.is_relative() && file.path != *folder);
        there.map(|file| File { path: folder.join(&file.path), only_a_file: true }).collect()
    };
    let further: Vec<File> = folders.iter().flat_map(below).collect();
    files.extend(further);
    let mut seen = std::collections::HashSet::new();
    files.retain(|file| names_a_file(&file.path) && seen.insert(file.path.clone()));
    files
}

/// Without the `!` that says that it is a command line.
fn without_mark(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii_start();
    value.strip_prefix(b"!").unwrap_or(value).trim_ascii_start()
}

/// A program in quotes, which may have blanks in it.
fn quoted_program(value: &[u8]) -> Option<&[u8]> {
    let quote = value.first().filter(|quote| matches!(quote, b'"' | b'\''))?;
    let end = value[1..].iter().position(|byte| byte == quote)?;
    let program = &value[1..=end];
    let plain = program.contains(&b'/') && !program.iter().any(|byte| b"$`\\\0".contains(byte));
    plain.then_some(program)
}

/// A part of a value that may be a path.
struct Part<'v> {
    text: &'v [u8],
    /// Whether what stands before it may be the top of the work tree: `$PWD`, or what another command says.
    follows: bool,
}

impl Part<'_> {
    fn path(&self) -> PathBuf {
        let text = if self.follows {
            &self.text[self.text.iter().position(|byte| *byte != b'/').unwrap_or(0)..]
        } else {
            self.text
        };
        path(text)
    }
}

/// The longest parts of a value of which each byte may stand in a path, without globs.
fn parts(value: &[u8]) -> impl Iterator<Item = Part<'_>> {
    let stands =
        |byte: u8| byte.is_ascii_alphanumeric() || b"_./@%+:,^~-".contains(&byte) || !byte.is_ascii();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            at += value[at..].iter().position(|byte| stands(*byte))?;
            let length = value[at..].iter().position(|byte| !stands(*byte)).unwrap_or(value.len() - at);
            let (mut text, before) = (&value[at..at + length], at.checked_sub(1).map(|before| value[before]));
            at += length;
            // `$PWD/x`: the name of a variable, and what follows.
            if before == Some(b'$') {
                let name = text.iter().position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'_'));
                let Some(name) = name else { continue };
                text = &text[name..];
                return Some(Part { text, follows: true });
            }
            let follows = matches!(before, Some(b')' | b'}' | b'`' | b'"' | b'\'')) && text.starts_with(b"/");
            // After a glob comes the end of a name that is not known: the folder before it was a part of its own.
            return Some(Part { text, follows });
        }
    })
}

/// The files of a module of Python's.
fn module(name: &[u8]) -> Vec<File> {
    let way = PathBuf::from(OsStr::from_bytes(name).to_string_lossy().replace('.', "/"));
    let mut file = way.clone().into_os_string();
    file.push(".py");
    let file = PathBuf::from(file);
    let files = [way.join("__main__.py"), way.join("__init__.py"), file];
    files.into_iter().map(|path| File { path, only_a_file: true }).collect()
}

fn path(text: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(text))
}

/// Whether a path leads anywhere but to a folder it starts from.
fn names_a_file(path: &Path) -> bool {
    let named = path.components().any(|part| matches!(part, Component::Normal(_)));
    named && !path.as_os_str().as_bytes().contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(value: &str) -> Vec<String> {
        files(value.as_bytes()).into_iter().map(|file| file.path.display().to_string()).collect()
    }

    #[track_caller]
    fn names(value: &str, expected: &[&str]) {
        let found = named(value);
        for path in expected {
            assert!(
                found.iter().any(|found| Path::new(found) == Path::new(path)),
                "{value}: {path} is not in {found:?}"
            );
        }
    }

    #[test]
    fn paths_are_found_in_all_spellings() {
        names("\"$(git rev-parse --show-toplevel)/tools/x\" %f", &["tools/x"]);
        names("`git rev-parse --show-toplevel`/tools/x", &["tools/x"]);
        names("$PWD/tools/x --fast", &["tools/x"]);
        names("${GIT_WORK_TREE:-.}/tools/x", &["tools/x"]);
        names("cd tools && ./x", &["tools/x"]);
        names("(cd tools; exec ./x)", &["tools/x"]);
        names("env X=1 ./y", &["./y"]);
        names("X=1 tools/y", &["tools/y"]);
        names("sh -c './tools/x \"$1\"' -", &["./tools/x"]);
        names("sh -c 'exec ./tools/x'", &["./tools/x"]);
        names("bash -lc \"tools/x\"", &["tools/x"]);
        names("python3 -m tools.clean", &["tools/clean.py", "tools/clean/__main__.py"]);
        names("node tools/x.js", &["tools/x.js"]);
        names("make -C tools clean", &["tools/Makefile", "Makefile"]);
        names("npm --prefix web run clean", &["web/package.json", "package.json"]);
        names("./gradlew -q clean", &["./gradlew"]);
        names("tools/a|tools/b>tools/c", &["tools/a", "tools/b", "tools/c"]);
        names("f() { ./x; }; f", &["./x"]);
        names("'bin/with space' %f", &["bin/with space"]);
        names("clean.sh", &[]);
        names("sh clean.sh", &["clean.sh"]);
    }

    #[test]
    fn plain_values_are_understood_and_others_are_not() {
        for plain in [
            "git-lfs clean -- %f",
            "./tools/x --fast %f",
            "sh tools/clean.sh %f",
            "python3 tools/clean.py",
            "less -FRX",
            "gpg2",
            "",
            "!gh auth git-credential",
            "/usr/bin/diff-tool %A %B",
        ] {
            assert!(is_understood(plain.as_bytes()), "{plain}");
        }
        for other in [
            "$PWD/x",
            "cd tools && ./x",
            "sh -c ./x",
            "python3 -m tools",
            "make clean",
            "npm run clean",
            "env X=1 ./y",
            "X=1 ./y",
            "tools/*.sh",
            "./x; ./y",
            "clean.sh",
            "'a b'",
            "./make",
        ] {
            assert!(!is_understood(other.as_bytes()), "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_value_is_read_to_its_end(value in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let found = files(&value);
            prop_assert!(found.len() <= (MAX_PARTS + 1) * 6 * (MAX_FOLDERS + 1));
            is_understood(&value);
        }
    }
}
