//! From the JSON of a policy to [`Permissions`].

use std::path::PathBuf;

use super::{CodexAccess, CodexFiles, CodexPlace, Entry, ManagedNetwork, Permissions};
use crate::pattern::{PathPattern, PatternError};
use crate::printed::show;
use crate::settings::tree::{Fault, Node, Value};
use crate::settings::{Problem, SettingsError, ValueError, json};

/// An argument cannot be longer than 128 KiB, so this only bounds who calls us otherwise.
const MAX_SIZE: usize = 1 << 20;

/// `--sandbox-policy`
pub fn sandbox_policy(text: &str) -> Result<Permissions, SettingsError> {
    document("--sandbox-policy", text, legacy)
}

/// `--permission-profile`
pub fn permission_profile(text: &str) -> Result<Permissions, SettingsError> {
    document("--permission-profile", text, profile)
}

/// `--file-system-sandbox-policy` and `--network-sandbox-policy`
pub fn split_policies(files: &str, network: &str) -> Result<Permissions, SettingsError> {
    Ok(Permissions {
        files: document("--file-system-sandbox-policy", files, |root| {
            match word(root, "kind", &["restricted", "unrestricted", "external-sandbox"])? {
                "restricted" => Ok(CodexFiles::Restricted(entries(root)?)),
                _ => Ok(CodexFiles::Unrestricted),
            }
        })?,
        network: document("--network-sandbox-policy", network, network_word)?,
    })
}

/// `--managed-network`; `null` says that there is none. What is said of ports and of local sockets does not matter: the
/// variables name the ports, and the command's loopback is its own.
pub fn managed_network(text: &str) -> Result<Option<ManagedNetwork>, SettingsError> {
    document("--managed-network", text, |root| match root.value {
        Value::Null => Ok(None),
        Value::Table(_) => {
            let all_unix_sockets = boolean(root, "dangerouslyAllowAllUnixSockets")?;
            let local_binding = boolean(root, "allowLocalBinding")?;
            Ok(Some(ManagedNetwork { all_unix_sockets, local_binding }))
        }
        _ => Err(wrong_type("--managed-network", "an object", root)),
    })
}

fn document<T>(
    name: &str,
    text: &str,
    read: impl Fn(&Node<'_>) -> Result<T, Fault>,
) -> Result<T, SettingsError> {
    let whole = |problem| SettingsError { file: name.to_owned(), line: None, problem: Box::new(problem) };
    if text.len() > MAX_SIZE {
        return Err(whole(Problem::TooLarge));
    }
    json::read(text).and_then(|root| read(&root)).map_err(|fault| whole(fault.problem))
}

fn legacy(root: &Node<'_>) -> Result<Permissions, Fault> {
    // Early releases called the tag `mode`.
    let tag = if get(root, "type").is_none() && get(root, "mode").is_some() { "mode" } else { "type" };
    let kinds = ["danger-full-access", "read-only", "external-sandbox", "workspace-write"];
    match word(root, tag, &kinds)? {
        "danger-full-access" => Ok(Permissions { files: CodexFiles::Unrestricted, network: true }),
        "external-sandbox" => {
            let network = get(root, "network_access").map(network_word).transpose()?.unwrap_or(false);
            Ok(Permissions { files: CodexFiles::Unrestricted, network })
        }
        "read-only" => {
            let network = boolean(root, "network_access")?;
            Ok(Permissions { files: CodexFiles::Restricted(readable(get(root, "access"))?), network })
        }
        _ => {
            let mut entries = readable(get(root, "read_only_access"))?;
            let write = |place| Entry { place, access: CodexAccess::Write, skip_missing: false };
            entries.push(write(CodexPlace::ProjectRoots(None)));
            for item in list(root, "writable_roots")? {
                entries.push(write(CodexPlace::Path(absolute("writable_roots", item)?)));
            }
            if !boolean(root, "exclude_slash_tmp")? {
                entries.push(write(CodexPlace::SlashTmp));
            }
            if !boolean(root, "exclude_tmpdir_env_var")? {
                entries.push(write(CodexPlace::TmpDir));
            }
            Ok(Permissions {
                files: CodexFiles::Restricted(entries),
                network: boolean(root, "network_access")?,
            })
        }
    }
}

/// What can be read: everything unless said otherwise.
fn readable(access: Option<&Node<'_>>) -> Result<Vec<Entry>, Fault> {
    let read = |place| Entry { place, access: CodexAccess::Read, skip_missing: false };
    let Some(access) = access else { return Ok(vec![read(CodexPlace::Root)]) };
    if word(access, "type", &["full-access", "restricted"])? == "full-access" {
        return Ok(vec![read(CodexPlace::Root)]);
    }
    let mut entries = Vec::new();
    if get(access, "include_platform_defaults").is_none() || boolean(access, "include_platform_defaults")? {
        entries.push(read(CodexPlace::Minimal));
    }
    for item in list(access, "readable_roots")? {
        entries.push(read(CodexPlace::Path(absolute("readable_roots", item)?)));
    }
    Ok(entries)
}

fn profile(root: &Node<'_>) -> Result<Permissions, Fault> {
    if get(root, "type").is_none() {
        return untagged(root);
    }
    let network = || get(root, "network").map(network_word).transpose().map(|said| said.unwrap_or(false));
    match word(root, "type", &["managed", "disabled", "external"])? {
        "disabled" => Ok(Permissions { files: CodexFiles::Unrestricted, network: true }),
        "external" => Ok(Permissions { files: CodexFiles::Unrestricted, network: network()? }),
        _ => {
            let files = required(root, "file_system")?;
            let files = match word(files, "type", &["restricted", "unrestricted"])? {
                "restricted" => CodexFiles::Restricted(entries(files)?),
                _ => CodexFiles::Unrestricted,
            };
            Ok(Permissions { files, network: network()? })
        }
    }
}

/// `{"file_system": {"read": [], "write": []}, "network": {"enabled": false}}`, each part or not.
fn untagged(root: &Node<'_>) -> Result<Permissions, Fault> {
    let mut entries = Vec::new();
    if let Some(files) = get(root, "file_system").filter(|node| !matches!(node.value, Value::Null)) {
        for (key, access) in [("read", CodexAccess::Read), ("write", CodexAccess::Write)] {
            for item in list(files, key)? {
                let place = CodexPlace::Path(absolute(key, item)?);
                entries.push(Entry { place, access, skip_missing: false });
            }
        }
    } else if get(root, "network").is_none() {
        return Err(missing(root, "type"));
    }
    let network = match get(root, "network").filter(|node| !matches!(node.value, Value::Null)) {
        Some(network) => boolean(network, "enabled")?,
        None => false,
    };
    Ok(Permissions { files: CodexFiles::Restricted(entries), network })
}

fn entries(files: &Node<'_>) -> Result<Vec<Entry>, Fault> {
    if let Some(depth) = get(files, "glob_scan_max_depth")
        && !matches!(depth.value, Value::Number(_) | Value::Null)
    {
        return Err(wrong_type("glob_scan_max_depth", "a number", depth));
    }
    list(files, "entries")?.iter().filter_map(|item| entry(item).transpose()).collect()
}

/// One entry; `None` for one that speaks of something unknown, which newer releases may have.
fn entry(item: &Node<'_>) -> Result<Option<Entry>, Fault> {
    let access = match word(item, "access", &["read", "write", "deny", "none"])? {
        "read" => CodexAccess::Read,
        "write" => CodexAccess::Write,
        _ => CodexAccess::Deny,
    };
    let skip_missing = match get(item, "missing_path_behavior") {
        None | Some(Node { value: Value::Null, .. }) => false,
        Some(_) => word(item, "missing_path_behavior", &["skip", "protect", "deny"])? == "skip",
    };
    let path = required(item, "path")?;
    let place = match word(path, "type", &["path", "glob_pattern", "special"])? {
        "path" => CodexPlace::Path(absolute("path", required(path, "path")?)?),
        "glob_pattern" => {
            let node = required(path, "pattern")?;
            let pattern = string("pattern", node)?;
            if access != CodexAccess::Deny {
                return Err(wrong_type("access", "\"deny\" for a glob_pattern", item));
            }
            let error = |error| fault_of_path("pattern", node, pattern, error);
            CodexPlace::Glob(PathPattern::parse(pattern).map_err(error)?)
        }
        _ => match special(required(path, "value")?)? {
            Some(place) => place,
            None => return Ok(None),
        },
    };
    Ok(Some(Entry { place, access, skip_missing }))
}

fn special(value: &Node<'_>) -> Result<Option<CodexPlace>, Fault> {
    let kind = string("kind", required(value, "kind")?)?;
    Ok(match kind {
        "root" => Some(CodexPlace::Root),
        "minimal" => Some(CodexPlace::Minimal),
        "project_roots" | "current_working_directory" => {
            let subpath = match get(value, "subpath").filter(|node| !matches!(node.value, Value::Null)) {
                None => None,
                Some(node) => {
                    let path = PathBuf::from(string("subpath", node)?);
                    let inside =
                        path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
                    if !inside {
                        return Err(wrong_type("subpath", "a relative path without `..`", node));
                    }
                    Some(path)
                }
            };
            Some(CodexPlace::ProjectRoots(subpath))
        }
        "tmpdir" => Some(CodexPlace::TmpDir),
        "slash_tmp" => Some(CodexPlace::SlashTmp),
        _ => None,
    })
}

fn network_word(node: &Node<'_>) -> Result<bool, Fault> {
    match &node.value {
        Value::Text(text) if text == "enabled" => Ok(true),
        Value::Text(text) if text == "restricted" => Ok(false),
        _ => Err(wrong_type("network", "\"restricted\" or \"enabled\"", node)),
    }
}

fn absolute(name: &str, node: &Node<'_>) -> Result<PathBuf, Fault> {
    let text = string(name, node)?;
    let path = PathBuf::from(text);
    if text.contains('\0') {
        return Err(fault_of_path(name, node, text, PatternError::Nul));
    }
    if path.is_absolute() { Ok(path) } else { Err(fault_of_path(name, node, text, PatternError::Relative)) }
}

fn fault_of_path(name: &str, node: &Node<'_>, text: &str, error: PatternError) -> Fault {
    let error = ValueError::Path { text: text.to_owned(), error };
    Fault { at: node.at, problem: Problem::Value { key: name.to_owned(), error } }
}

fn get<'n, 'i>(node: &'n Node<'i>, key: &str) -> Option<&'n Node<'i>> {
    let Value::Table(entries) = &node.value else { return None };
    entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
}

fn required<'n, 'i>(node: &'n Node<'i>, key: &'static str) -> Result<&'n Node<'i>, Fault> {
    match node.value {
        Value::Table(_) => get(node, key).ok_or_else(|| missing(node, key)),
        _ => Err(wrong_type("the policy", "an object", node)),
    }
}

fn missing(node: &Node<'_>, key: &'static str) -> Fault {
    Fault { at: node.at, problem: Problem::MissingKey { key, inside: "the policy".to_owned() } }
}

fn word(node: &Node<'_>, key: &'static str, words: &[&'static str]) -> Result<&'static str, Fault> {
    let value = required(node, key)?;
    let text = string(key, value)?;
    words.iter().copied().find(|word| *word == text).ok_or_else(|| {
        let error = ValueError::Word {
            text: show(text.as_bytes()),
            words: words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
            hint: None,
        };
        Fault { at: value.at, problem: Problem::Value { key: key.to_owned(), error } }
    })
}

fn boolean(node: &Node<'_>, key: &str) -> Result<bool, Fault> {
    match get(node, key) {
        None => Ok(false),
        Some(Node { value: Value::Bool(value), .. }) => Ok(*value),
        Some(node) => Err(wrong_type(key, "true or false", node)),
    }
}

fn list<'n, 'i>(node: &'n Node<'i>, key: &str) -> Result<&'n [Node<'i>], Fault> {
    match get(node, key) {
        None | Some(Node { value: Value::Null, .. }) => Ok(&[]),
        Some(Node { value: Value::List(items), .. }) => Ok(items),
        Some(node) => Err(wrong_type(key, "a list", node)),
    }
}

fn string<'n>(name: &str, node: &'n Node<'_>) -> Result<&'n str, Fault> {
    match &node.value {
        Value::Text(text) => Ok(text),
        _ => Err(wrong_type(name, "a string", node)),
    }
}

fn wrong_type(key: &str, expected: &str, node: &Node<'_>) -> Fault {
    let (key, expected) = (key.to_owned(), expected.to_owned());
    Fault { at: node.at, problem: Problem::Type { key, expected, found: node.value.kind() } }
}
