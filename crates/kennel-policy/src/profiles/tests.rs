//! The built-in profiles say what they should, and go together.

use super::*;
use crate::merge::{Sources, merge};
use crate::policy::{FilePolicy, Missing, MountAccess, NetworkMode, PathRule, Policy};
use crate::settings::{Base, Settings, Stated};

fn policy(name: &str) -> Policy {
    let origin = crate::policy::Origin("--profile".to_owned());
    let flags = Settings { profiles: vec![Stated { value: name.to_owned(), origin }], ..Settings::default() };
    let base = Base::new("/work", Some("/home/me".into()));
    merge(Sources::flags(base, flags)).unwrap_or_else(|error| panic!("{error}")).policy
}

fn has(rules: &[PathRule], path: &str) -> bool {
    rules.iter().any(|rule| rule.pattern.to_string() == path)
}

/// Whether the rules hide a path, by naming it or a folder above it.
fn hides(files: &FilePolicy, path: &std::path::Path) -> bool {
    files.deny_read.iter().any(|rule| path.starts_with(rule.pattern.as_path()))
}

#[test]
fn every_profile_reads_and_says_in_a_line_what_it_is_for() {
    for name in NAMES {
        policy(name);
        let line = summary(text(name).unwrap());
        assert!(line.starts_with("For ") && line.ends_with('.') && line.len() <= 120, "{name}: {line}");
    }
    assert_eq!(text("none"), None);
    assert!(AGENTS.iter().all(|agent| NAMES.contains(agent)));
}

#[test]
fn an_agent_writes_where_it_starts_and_sees_no_keys() {
    let files = policy("agent").files;
    assert_eq!(files.allow_write[0].origin.to_string(), "profile agent");
    assert!(files.allow_write.len() == 1 && has(&files.allow_write, "/work"));
    assert!(has(&files.deny_read, "/home/me/.ssh"));
}

#[test]
fn the_profile_of_an_agent_has_all_of_profile_agent_and_its_own_state() {
    let agent = policy("agent");
    for name in AGENTS {
        let own = policy(name);
        let kept = |rule: &&PathRule| !has(&own.files.deny_read, &rule.pattern.to_string());
        assert_eq!(agent.files.deny_read.iter().find(kept), None, "{name}");
        assert!(own.files.refuse_home && own.files.kept_names.is_some(), "{name}");
        assert_eq!(own.files.git, agent.files.git, "{name}");
        assert!(agent.environment.unset.iter().all(|unset| own.environment.unset.contains(unset)), "{name}");
        // What it writes is a state of its own, which no program outside reads.
        let (state, shown): (Vec<_>, Vec<_>) =
            own.files.mounts.iter().partition(|mount| mount.missing == Missing::Create);
        assert!(!state.is_empty(), "{name}");
        for mount in &state {
            let folder = std::path::Path::new("/home/me/.local/state/kennel/agents").join(name);
            assert!(mount.source.starts_with(folder), "{name}");
            assert!(mount.target.starts_with("/home/me/") && !hides(&own.files, &mount.target), "{name}");
        }
        for mount in shown {
            assert_eq!((mount.access, mount.missing), (MountAccess::ReadOnly, Missing::Skip), "{name}");
            assert_eq!(mount.source, mount.target, "{name}");
            assert!(state.iter().any(|state| mount.target.starts_with(&state.target)), "{name}");
        }
        for rule in &own.files.allow_write[1..] {
            assert!(rule.missing.creates(), "{name}");
            let path = rule.pattern.as_path();
            let kept = |deny: &PathRule| path.starts_with(deny.pattern.as_path());
            assert!(own.files.deny_write.iter().any(kept), "{name}: {} is only made", path.display());
        }
        assert_eq!(own.network.mode, NetworkMode::AllowList, "{name}");
    }
}

#[test]
fn no_agent_sees_the_state_of_another_one() {
    for name in AGENTS {
        let own = policy(name).files;
        for other in AGENTS.into_iter().filter(|other| *other != name) {
            let state = policy(other).files.mounts;
            let state = state.iter().filter(|mount| mount.missing == Missing::Create);
            for path in state.flat_map(|mount| [mount.source.as_path(), mount.target.as_path()]) {
                // What is only a cache or a state of its screen holds no login.
                let plain = path.starts_with("/home/me/.cache") || path.ends_with(".local/state/opencode");
                assert!(plain || hides(&own, path), "{name} sees {} of {other}", path.display());
            }
        }
    }
}

#[test]
fn a_profile_of_an_agent_says_which_version_it_was_tried_with() {
    for name in AGENTS {
        let second = text(name).unwrap().lines().nth(1).unwrap_or_default();
        assert!(
            second.starts_with("# Tried with ") || second.contains("not tried with it yet"),
            "{name}: {second}"
        );
    }
}
