//! What `kennel run` says about agents that it knows by the name of their command: which profile there is for them, and
//! when one failed at once, what of its state it could not write.
//!
//! Only kennel's own knowledge counts as evidence: the name of the command, its exit code and time, the profile and the
//! policy. What the command prints is not read: it could make kennel advise to open whatever it likes.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kennel_policy::merge::Merged;
use kennel_policy::outcome::{Ended, Outcome};
use kennel_policy::policy::{FilePolicy, Missing};
use kennel_policy::profiles;
use kennel_policy::settings::{Base, Format, Provenance, parse};

use super::{policy, say};
use crate::flags::RunArgs;

/// A command that ends later than this did not fail because of where its state is.
const EARLY: Duration = Duration::from_secs(15);

/// The agent that a command is, if it is one that has a profile and is not run with it. Names are compared, and
/// nothing else: this costs a start-up nothing.
pub fn without_profile(args: &RunArgs, merged: &Merged) -> Option<&'static str> {
    let name = Path::new(args.command.first()?).file_name().and_then(OsStr::to_str)?;
    let agent = profiles::AGENTS.into_iter().find(|agent| *agent == name)?;
    // Whoever chose another profile knows why.
    let generic = matches!(merged.profile.as_deref(), None | Some("default" | "agent"));
    (generic && !args.quiet && std::io::stderr().is_terminal()).then_some(agent)
}

/// Says that there is a profile for this agent.
pub fn suggest(agent: &str) {
    say(&format!("kennel: note: {agent} has a profile, with its state and its hosts: --profile {agent}"));
}

/// Says which of its folders an agent could not write that failed at once.
pub fn explain(agent: &str, outcome: &Outcome, files: &FilePolicy) {
    let Ended::Exited(code @ 1..) = outcome.ended else { return };
    if outcome.wall_time > EARLY {
        return;
    }
    let homes = policy::Lazy::default();
    let base = homes.base(Path::new("/"));
    let closed = closed(agent, files, &base);
    let Some((first, access)) = closed.first() else { return };
    let shown = |path: &Path| match base.home.as_deref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    };
    let all: Vec<String> = closed.iter().map(|(path, _)| shown(path)).collect();
    say(&format!(
        "kennel: {agent} exited with {code} after {:.1} s; it keeps its state in {}, which {access} here\n\
         help: --profile {agent} opens it; so does --allow-write {}",
        outcome.wall_time.as_secs_f64(),
        all.join(" and "),
        shown(first),
    ));
}

/// The folders that the agent's profile opens for writing and these rules do not, and how they stand.
fn closed(agent: &str, files: &FilePolicy, base: &Base) -> Vec<(PathBuf, &'static str)> {
    let text = profiles::text(agent).unwrap_or_default();
    let Ok(profile) = parse(text.as_bytes(), Format::Toml, Provenance::Profile(agent), base) else {
        return Vec::new();
    };
    let state = profile.files.allow_write.iter().filter(|entry| entry.missing == Some(Missing::Create));
    let closed = state.filter_map(|entry| {
        let path = entry.pattern.as_path();
        let above = |rule: &kennel_policy::policy::PathRule| {
            path.ancestors().any(|above| rule.pattern.matches(above))
        };
        if files.deny_read.iter().any(above) {
            Some((path.to_path_buf(), "is hidden"))
        } else if files.allow_write.iter().any(above) {
            None
        } else if path.is_dir() {
            Some((path.to_path_buf(), "is read-only"))
        } else {
            Some((path.to_path_buf(), "does not exist and cannot be created"))
        }
    });
    closed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kennel_policy::pattern::PathPattern;
    use kennel_policy::policy::PathRule;

    fn rule(path: &str) -> PathRule {
        PathRule {
            pattern: PathPattern::literal(path),
            missing: Missing::Error,
            follow_link: true,
            lenient: false,
            look: Default::default(),
            origin: Default::default(),
        }
    }

    #[test]
    fn the_state_that_rules_do_not_open_is_told_with_how_it_stands() {
        let base = Base::new("/", Some("/no/home".into()));
        let mut files = FilePolicy::default();
        let codex = |files: &FilePolicy| closed("codex", files, &base);
        assert_eq!(
            codex(&files),
            [(PathBuf::from("/no/home/.codex"), "does not exist and cannot be created")]
        );
        files.allow_write.push(rule("/no/home/.codex"));
        assert_eq!(codex(&files), []);
        files.deny_read.push(rule("/no/home"));
        assert_eq!(codex(&files), [(PathBuf::from("/no/home/.codex"), "is hidden")]);
        let usr = Base::new("/", Some("/usr".into()));
        for agent in profiles::AGENTS {
            assert!(!closed(agent, &FilePolicy::default(), &usr).is_empty(), "{agent}");
        }
        assert_eq!(closed("ls", &FilePolicy::default(), &usr), []);
    }
}
