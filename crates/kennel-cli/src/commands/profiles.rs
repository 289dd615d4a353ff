//! `kennel profiles`: which profiles there are, where they come from, and what each one says.

use std::io::Write;

use kennel_policy::merge::{Sources, merge_with};
use kennel_policy::nearest::nearest;
use kennel_policy::policy::Origin;
use kennel_policy::printed::show_lines;
use kennel_policy::profiles::{self, OwnProfiles, summary};
use kennel_policy::registries::NoMirrors;
use kennel_policy::settings::{Base, Settings, Stated, profile_name};
use serde_json::json;

use super::{FAILED, json_text, policy, print, say};

/// A profile that there is.
struct ListedProfile {
    name: String,
    summary: String,
    /// The file of the user's own.
    file: Option<String>,
    /// Whether there is also a built-in one of this name.
    built_in: bool,
    /// Why it cannot be used.
    error: Option<String>,
}

/// Lists the profiles.
pub fn profiles(as_json: bool) -> i32 {
    let homes = policy::Lazy::default();
    let own = policy::user_profiles(&homes);
    let names = own.names();
    let built_in = profiles::NAMES.into_iter().filter(|name| !names.iter().any(|own| own == name));
    let listed = built_in.map(|name| ListedProfile {
        name: name.to_owned(),
        summary: summary(profiles::text(name).unwrap_or_default()).to_owned(),
        file: None,
        built_in: true,
        error: None,
    });
    let base = homes.base(std::path::Path::new("/"));
    let mine = names.iter().filter_map(|name| of_user(name, &own, &base));
    let listed: Vec<ListedProfile> = listed.chain(mine).collect();
    if as_json {
        let list: Vec<_> = listed
            .iter()
            .map(|one| {
                json!({
                    "name": one.name,
                    "summary": one.summary,
                    "from": if one.file.is_some() { "own" } else { "built-in" },
                    "file": one.file,
                    "replaces_built_in": one.file.is_some() && one.built_in,
                    "error": one.error,
                })
            })
            .collect();
        return print(&json_text(&json!({ "profiles": list })));
    }
    let width = listed.iter().map(|one| one.name.len()).max().unwrap_or_default();
    let mut text = String::from("Built-in:\n");
    for one in listed.iter().filter(|one| one.file.is_none()) {
        text.push_str(&format!("  {:width$}  {}\n", one.name, one.summary));
    }
    let folder = own.folder().map(|folder| folder.display().to_string());
    if let (Some(folder), false) = (&folder, names.is_empty()) {
        text.push_str(&format!("\nYours, in {folder}:\n"));
    }
    for one in listed.iter().filter(|one| one.file.is_some()) {
        let instead = if one.built_in { " (instead of the built-in one)" } else { "" };
        text.push_str(&format!("  {:width$}  {}{instead}\n", one.name, one.summary));
        if let Some(error) = &one.error {
            text.push_str(&format!("  {:width$}  cannot be used: {error}\n", ""));
        }
    }
    text.push_str("\nkennel profiles NAME prints a profile.");
    if let Some(folder) = &folder {
        text.push_str(&format!(" To have one of your own, write {folder}/NAME.toml."));
    }
    print(&show_lines(&format!("{text}\n")))
}

/// One of the user's own.
fn of_user(name: &str, own: &dyn OwnProfiles, base: &Base) -> Option<ListedProfile> {
    let (summary, file, error) = match own.find(name) {
        Ok(None) => return None,
        Ok(Some(found)) => {
            let text = String::from_utf8_lossy(&found.text);
            let stated = Stated { value: name.to_owned(), origin: Origin("kennel profiles".to_owned()) };
            let flags = Settings { profiles: vec![stated], ..Settings::default() };
            let error = merge_with(Sources::flags(base.clone(), flags), own, &NoMirrors).err();
            (summary(&text).to_owned(), found.file, error.map(|error| error.to_string()))
        }
        Err(error) => (String::new(), name.to_owned(), Some(error)),
    };
    let built_in = profiles::text(name).is_some();
    Some(ListedProfile { name: name.to_owned(), summary, file: Some(file), built_in, error })
}

/// Prints one profile, as it can be copied to a file.
pub fn profile(name: &str) -> i32 {
    if let Err(error) = profile_name(name) {
        say(&format!("kennel profiles: {error}"));
        return FAILED;
    }
    let homes = policy::Lazy::default();
    let own = policy::user_profiles(&homes);
    let text = match own.find(name) {
        Ok(found) => found.map(|found| found.text),
        Err(error) => {
            say(&format!("kennel: reading a profile: {error}"));
            return FAILED;
        }
    };
    let Some(text) = text.or_else(|| profiles::text(name).map(|text| text.as_bytes().to_vec())) else {
        let mut names = own.names();
        names.extend(profiles::NAMES.map(str::to_owned));
        let hint = match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`kennel profiles` lists them".to_owned(),
        };
        say(&format!("kennel: there is no profile `{name}`; {hint}"));
        return FAILED;
    };
    match std::io::stdout().write_all(&text) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}
