//! `kennel caches`: the layers that sandboxes have written above the caches of package managers and compilers, and their end.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use kennel::caches::{CacheProject, Cleared, clear, folder, list};
use kennel_policy::printed::{show, show_lines};
use serde_json::json;

use super::stats::bytes;
use super::{FAILED, json_text, print, say};

/// Prints the table of tools.
pub fn cache_table() -> i32 {
    print(kennel_policy::caches::TEXT)
}

/// Lists the layers.
pub fn caches(as_json: bool) -> i32 {
    let projects = match list() {
        Ok(projects) => projects,
        Err(error) => return failed("looking at the layers of caches", &error),
    };
    if as_json {
        let list: Vec<_> = projects.iter().map(as_value).collect();
        return print(&json_text(&json!({ "projects": list })));
    }
    let mut text = String::new();
    for project in &projects {
        let total: u64 = project.layers.iter().map(|(_, size)| size).sum();
        let at_least = if project.at_least { "at least " } else { "" };
        let used = if project.in_use { "in use".to_owned() } else { used(project) };
        let whose = whose(project).map(|whose| format!(", {whose}")).unwrap_or_default();
        let path = shown(&project.path);
        text.push_str(&format!("{path}{whose}: {at_least}{}, {used}\n", bytes(total)));
        for (name, size) in &project.layers {
            text.push_str(&format!("  {:>10}  {name}\n", bytes(*size)));
        }
    }
    match folder() {
        Some(folder) if projects.is_empty() => {
            text.push_str(&format!("There are no layers of caches in {}.\n", shown(&folder)));
        }
        Some(folder) => text.push_str(&format!(
            "\nThey are in {}. kennel caches clear removes those of this project, --all all of them.\n",
            shown(&folder)
        )),
        None => text.push_str("There are no layers of caches here.\n"),
    }
    print(&show_lines(&text))
}

/// Removes the layers of a project: the one at this path or around it, or around the working directory; or of all.
pub fn clear_caches(project: Option<&OsString>, all: bool) -> i32 {
    let projects = match list() {
        Ok(projects) => projects,
        Err(error) => return failed("looking at the layers of caches", &error),
    };
    let wanted: Vec<&CacheProject> = if all {
        projects.iter().collect()
    } else {
        let path = project.map_or_else(|| PathBuf::from("."), PathBuf::from);
        // One that is gone is known by the path that is listed.
        let path = path.canonicalize().unwrap_or(path);
        let around = |project: &&CacheProject| path.starts_with(&project.path);
        let Some(nearest) = projects
            .iter()
            .filter(around)
            .max_by_key(|project| project.path.as_os_str().len())
            .map(|one| &one.path)
        else {
            say(&format!(
                "kennel: {} has no layers of caches\nhelp: `kennel caches` lists those that have",
                shown(&path)
            ));
            return FAILED;
        };
        projects.iter().filter(|project| project.path == *nearest).collect()
    };
    let mut code = 0;
    for project in wanted {
        match clear(project) {
            Ok(Cleared::All) => {}
            Ok(Cleared::InUse) => {
                say(&format!("kennel: {}: in use by a run, and left", shown(&project.path)));
                code = 1;
            }
            Err(error) => {
                code = failed(&format!("removing the layers of {}", shown(&project.path)), &error);
            }
        }
    }
    code
}

fn as_value(project: &CacheProject) -> serde_json::Value {
    let seconds = project.used.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let layers = project.layers.iter().map(|(name, size)| json!({ "name": name, "bytes": size }));
    json!({
        "path": project.path.to_string_lossy(),
        "folder": project.name.to_string_lossy(),
        "states": project.states.iter().map(|state| state.to_string_lossy()).collect::<Vec<_>>(),
        "used": seconds,
        "in_use": project.in_use,
        "at_least": project.at_least,
        "layers": layers.collect::<Vec<_>>(),
    })
}

/// Which agents' they are.
fn whose(project: &CacheProject) -> Option<String> {
    let names = project.states.iter().filter_map(|state| state.file_name());
    let names: Vec<String> = names.map(|name| shown(Path::new(name))).collect();
    Some(names.join(", ")).filter(|names| !names.is_empty())
}

fn used(project: &CacheProject) -> String {
    let days =
        SystemTime::now().duration_since(project.used).map_or(0, |since| since.as_secs() / (24 * 3600));
    match days {
        0 => "used today".to_owned(),
        1 => "used yesterday".to_owned(),
        days => format!("used {days} days ago"),
    }
}

fn shown(path: &Path) -> String {
    show(path.as_os_str().as_encoded_bytes())
}

fn failed(doing: &str, error: &std::io::Error) -> i32 {
    say(&format!("kennel: {doing}: {error}"));
    FAILED
}
