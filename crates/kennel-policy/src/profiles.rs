//! Built-in profiles: settings for a purpose, in the same format as everyone's own.
//!
//! Their relative paths are relative to where the command starts. Where a profile leaves the network mode unsaid there
//! is no network, as everywhere; allowing a host then is enough to have that host. `judge` says `none`, so a host that
//! is allowed on top of it is a contradiction, and reported as one.

use crate::settings::{Base, Format, Provenance, Settings, SettingsError, parse};

/// The names that `--profile` accepts.
pub const NAMES: [&str; 5] = ["default", "judge", "agent", "build", "data"];

/// The text of a profile, as it could stand in a settings file.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    Some(match name {
        "default" => "",
        "judge" => include_str!("profiles/judge.toml"),
        "agent" => include_str!("profiles/agent.toml"),
        "build" => include_str!("profiles/build.toml"),
        "data" => include_str!("profiles/data.toml"),
        _ => return None,
    })
}

/// The settings of a profile, or `None` if there is none of that name.
#[must_use]
pub fn settings(name: &str, base: &Base) -> Option<Result<Settings, SettingsError>> {
    let text = text(name)?;
    if text.is_empty() {
        return Some(Ok(Settings::default()));
    }
    Some(parse(text.as_bytes(), Format::Toml, Provenance::Profile(name), base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_reads() {
        let base = Base::new("/work", Some("/home/me".into()));
        for name in NAMES {
            settings(name, &base).unwrap().unwrap_or_else(|error| panic!("{error}"));
        }
        assert!(settings("none", &base).is_none());
    }

    #[test]
    fn an_agent_writes_where_it_starts_and_sees_no_keys() {
        let base = Base::new("/work", Some("/home/me".into()));
        let agent = settings("agent", &base).unwrap().unwrap();
        let paths = |list: &[crate::settings::PathEntry]| -> Vec<String> {
            list.iter().map(|entry| entry.pattern.to_string()).collect()
        };
        assert_eq!(paths(&agent.files.allow_write), ["/work"]);
        assert!(paths(&agent.files.deny_read).contains(&"/home/me/.ssh".to_owned()));
        assert_eq!(agent.files.allow_write[0].origin.to_string(), "profile agent");
    }
}
