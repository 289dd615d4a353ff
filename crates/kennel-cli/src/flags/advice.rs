//! Advice in the words of the command line.
//!
//! The library names settings by their keys, in backticks: whoever embeds it has no flags. Here the keys become the flags
//! of the [`table`](super::table), and what `kennel` itself offers is added.

use kennel::SandboxError;
use kennel_policy::merge::Note;

use super::table::{Effect, FLAGS};

/// The text with every setting that stands in backticks, alone or with a value, called by its flag.
pub fn in_flags(text: &str) -> String {
    let mut text = text.to_owned();
    for flag in FLAGS {
        match flag.effect {
            Effect::Says(setting) => {
                let key = setting.name;
                text = text.replace(&format!("`{key}`"), &format!("`--{}`", flag.name));
                text = with_value(&text, key, flag.name);
            }
            Effect::SaysWord(setting, word) => {
                let key = setting.name;
                for said in [format!("`{key} = {word}`"), format!("`{key} = \"{word}\"`")] {
                    text = text.replace(&said, &format!("`--{}`", flag.name));
                }
                if word == "true" {
                    text = text.replace(&format!("`{key}`"), &format!("`--{}`", flag.name));
                }
            }
            Effect::SaysPart(setting, part) => {
                let key = format!("{}.{part}", setting.name);
                text = text.replace(&format!("`{key}`"), &format!("`--{}`", flag.name));
            }
            Effect::KeepFd => text = text.replace("`keep_fds`", &format!("`--{}`", flag.name)),
            _ => {}
        }
    }
    text
}

/// `key = "value"` as `--name value`; of a list, its one element.
fn with_value(text: &str, key: &str, name: &str) -> String {
    let start = format!("`{key} = ");
    let mut parts = text.split(start.as_str());
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('`') {
            Some((value, rest)) => {
                let value = value.trim_matches(['[', ']', '"']);
                out.push_str(&format!("`--{name} {value}`{rest}"));
            }
            None => out.push_str(&format!("{start}{part}")),
        }
    }
    out
}

/// Why there is no sandbox, and what kennel has to say about it. Other errors speak of what was typed or written in a
/// file, and stay as they are.
pub fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let Some(of_sandbox) = error.downcast_ref::<SandboxError>() else { return error.to_string() };
    let mut text = in_flags(&error.to_string());
    if of_sandbox.lacks_of_host() {
        text.push_str("\nhelp: `kennel doctor` shows what this host offers");
    }
    text
}

/// What settings files said in vain, a line for each file, and how to have them heard.
pub fn noted(notes: &[Note]) -> Vec<String> {
    let mut files: Vec<&str> = notes.iter().map(|note| note.file.as_str()).collect();
    files.dedup();
    let line = |file: &str| {
        let mut keys: Vec<&str> =
            notes.iter().filter(|note| note.file == file).map(|note| note.key.as_str()).collect();
        keys.dedup();
        let keys = keys.join(", ");
        format!(
            "{file} was merely found and may only tighten; not applied: {keys}; to accept it: kennel trust {file}"
        )
    };
    files.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use kennel_policy::settings::keys;

    use super::*;
    use crate::flags::table::COMMANDS;

    #[test]
    fn settings_in_backticks_become_flags() {
        for (said, told) in [
            ("use `best_effort`", "use `--best-effort`"),
            ("say `files.tmp = \"host\"` or drop it", "say `--host-tmp` or drop it"),
            ("`files.refuse_home = false` starts", "`--allow-home` starts"),
            ("`files.git = \"off\"`", "`--git off`"),
            ("or `files.tmpfs = [\"/run\"]`, or", "or `--tmpfs /run`, or"),
            ("in `files.devices`, in `keep_fds`", "in `--device`, in `--keep-fd`"),
            ("files.git, `sudo sysctl`, `unknown.key`, `", "files.git, `sudo sysctl`, `unknown.key`, `"),
        ] {
            assert_eq!(in_flags(said), told);
        }
    }

    /// The strings of a file of Rust, without those of its comments and its tests.
    fn strings(source: &str) -> Vec<String> {
        let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let (mut list, mut rest) = (Vec::new(), source);
        while let Some(at) = rest.find(['"', '/', '\'']) {
            let (before, from) = rest.split_at(at);
            rest = &from[1..];
            if from.starts_with("//") {
                rest = from.split_once('\n').map_or("", |(_, next)| next);
            } else if from.starts_with("'\"'") || from.starts_with("'\\\"'") {
                rest = from[1..].split_once('\'').map_or("", |(_, next)| next);
            } else if from.starts_with('"') {
                let hashes = before.len() - before.trim_end_matches('#').len();
                let raw = before.trim_end_matches('#').ends_with('r');
                let end = if raw { format!("\"{}", "#".repeat(hashes)) } else { "\"".to_owned() };
                let mut from = 0;
                let length = loop {
                    let found = from + rest[from..].find(&end).expect("a string that ends");
                    let escapes = rest[..found].len() - rest[..found].trim_end_matches('\\').len();
                    if raw || escapes % 2 == 0 {
                        break found;
                    }
                    from = found + 1;
                };
                list.push(rest[..length].replace("\\\"", "\""));
                rest = &rest[length + end.len()..];
            }
        }
        list
    }

    /// All strings of the crates that library users have to do with.
    fn library_strings() -> Vec<(PathBuf, String)> {
        fn walk(folder: &Path, list: &mut Vec<(PathBuf, String)>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.file_name().unwrap().to_str().unwrap() {
                    "tests" | "tests.rs" => {}
                    _ if path.is_dir() => walk(&path, list),
                    _ => {
                        let found = strings(&fs::read_to_string(&path).unwrap());
                        list.extend(found.into_iter().map(|string| (path.clone(), string)));
                    }
                }
            }
        }
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut list = Vec::new();
        for name in ["kennel-linux", "kennel-proxy", "kennel-init"] {
            walk(&crates.join(name).join("src"), &mut list);
        }
        list
    }

    /// What stands in backticks.
    fn quoted(text: &str) -> impl Iterator<Item = &str> {
        text.split('`').skip(1).step_by(2)
    }

    /// Flags of kennel's that a text names. What follows another program in backticks is that program's.
    fn named_flags(text: &str) -> Vec<&'static str> {
        let others = quoted(text).filter(|part| !part.starts_with(['-', ' ']) && !part.starts_with("kennel"));
        let mut own = text.to_owned();
        others.for_each(|part| own = own.replace(part, ""));
        let words: Vec<&str> = own
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
            .filter_map(|word| word.strip_prefix("--"))
            .collect();
        FLAGS.iter().map(|flag| flag.name).filter(|name| words.contains(name)).collect()
    }

    fn named_command(text: &str) -> Option<&'static str> {
        COMMANDS.iter().map(|command| command.name).find(|name| text.contains(&format!("kennel {name}")))
    }

    #[test]
    fn the_library_names_no_flag_and_no_command_of_the_command_line() {
        let strings = library_strings();
        assert!(strings.len() > 1000, "{} strings: the source was not understood", strings.len());
        let named = strings.iter().filter(|(_, text)| {
            !named_flags(text).is_empty() || named_command(text).is_some() || text.contains(" -C")
        });
        assert_eq!(named.collect::<Vec<_>>(), [] as [&(PathBuf, String); 0]);
    }

    #[test]
    fn flags_are_seen_wherever_they_stand() {
        assert_eq!(named_flags("drop --keep-fd {fd}, or `--best-effort`"), ["keep-fd", "best-effort"]);
        assert_eq!(named_flags("`kennel run --best-effort` goes on"), ["best-effort"]);
        assert_eq!(named_flags("check `systemctl --user status` and `--security-opt x`"), [""; 0]);
        assert_eq!(named_command("run `kennel doctor`"), Some("doctor"));
        assert_eq!(strings("a('\"', r#\"x\"y\"#, \"b\\\"c\") // \"no\"\n\"d\""), ["x\"y", "b\"c", "d"]);
    }

    #[test]
    fn every_setting_that_the_library_advises_has_a_flag() {
        let mut advised = 0;
        for (path, text) in library_strings() {
            for part in quoted(&text) {
                let name = part.split(' ').next().unwrap_or_default();
                let section = name.split_once('.').map(|(section, _)| section);
                let meant = section.is_some_and(|section| {
                    keys::all()
                        .any(|(key, _)| key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.')))
                });
                if meant || keys::find(name).is_some() {
                    let said = format!("`{part}`");
                    assert!(in_flags(&said).starts_with("`--"), "{}: {said}", path.display());
                    advised += 1;
                }
            }
        }
        assert!(advised >= 8, "{advised}");
    }
}
