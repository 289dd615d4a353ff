//! `kennel secrets`: what variables that look like secrets look like, and which of the caller's do. And the line that `kennel run`
//! says about those that it kept back.

use std::ffi::OsStr;
use std::fmt::Write as _;

use kennel_policy::environment::leads_to_open_socket;
use kennel_policy::policy::{EnvironmentBase, Policy, SecretVariables};
use kennel_policy::secret_variables::{ANYWHERE, FORMS, NAMES, is_withheld};
use kennel_policy::secrets::known;
use serde_json::json;

use super::{FAILED, json_text, policy, print, say};
use crate::flags::RunArgs;
use crate::platform;

/// The most names in one line.
const MAX_SHOWN: usize = 8;

/// Lists them.
pub fn secrets(as_json: bool) -> i32 {
    // What the user's own settings add or pass counts here too.
    let mut policy = match policy::policy(&RunArgs::default()) {
        Ok((merged, _)) => merged.policy,
        Err(error) => {
            say(&format!("kennel: {error}"));
            return FAILED;
        }
    };
    policy.environment.secrets = SecretVariables::Withhold;
    let found = withheld(&policy);
    let environment = policy.environment;
    if as_json {
        let forms: Vec<_> = FORMS
            .iter()
            .map(|form| json!({ "starts": form.start, "more": form.more, "what": form.what }))
            .collect();
        let own: Vec<_> = environment.secret_names.iter().map(|name| name.to_string_lossy()).collect();
        return print(&json_text(&json!({
            "names": NAMES, "own_names": own, "values": forms, "anywhere": ANYWHERE, "found": found,
        })));
    }
    let mut text = String::from("Names of secrets, in any case:\n");
    let own = environment.secret_names.iter().map(|name| name.to_string_lossy().into_owned());
    for name in NAMES.iter().map(|name| (*name).to_owned()).chain(own) {
        let _ = writeln!(text, "  {name}");
    }
    text.push_str("Words of values that are secrets, whatever their name:\n");
    for form in FORMS {
        let _ =
            writeln!(text, "  {}…  {}, with at least {} more characters", form.start, form.what, form.more);
    }
    for part in ANYWHERE {
        let _ = writeln!(text, "  {part}");
    }
    match found.is_empty() {
        true => text.push_str("None of your variables looks like one.\n"),
        false => {
            text.push_str("Of your variables these look like secrets:\n");
            for name in &found {
                let _ = writeln!(text, "  {name}");
            }
        }
    }
    print(&kennel_policy::printed::show_lines(&text))
}

/// Says which variables stay outside, in one line.
pub fn tell_withheld(policy: &Policy) {
    let names = kept_outside(policy);
    let Some(first) = names.first() else { return };
    let shown = names.iter().take(MAX_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(MAX_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let look = if names.len() == 1 { "looks like a secret" } else { "look like secrets" };
    // A secret that the command only uses need not be passed on.
    let known = names.iter().find(|name| cfg!(target_os = "linux") && !known::hosts(name).is_empty());
    let used = known.map(|name| format!("to let it be used: --secret {name}; ")).unwrap_or_default();
    say(&format!(
        "kennel: note: kept {shown}{more} outside: {look}; {used}to pass one on: --pass-env {first}"
    ));
}

/// The names of those that a policy keeps outside.
pub fn kept_outside(policy: &Policy) -> Vec<String> {
    let environment = &policy.environment;
    // Whoever clears the environment has named what is to pass.
    if environment.secrets == SecretVariables::Pass || environment.base == EnvironmentBase::Clear {
        return Vec::new();
    }
    withheld(policy)
}

/// The names of the caller's variables that stay outside.
fn withheld(policy: &Policy) -> Vec<String> {
    let environment = &policy.environment;
    let variables = platform::variables();
    let stays = |name: &OsStr, value: &OsStr| {
        !environment.unset.iter().any(|unset| unset == name)
            && !leads_to_open_socket(policy, name, value)
            && is_withheld(environment, name, value)
    };
    let names = variables.iter().filter(|(name, value)| stays(name, value));
    let mut names: Vec<String> = names.map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
