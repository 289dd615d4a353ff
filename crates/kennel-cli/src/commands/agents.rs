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
use kennel_policy::policy::{FilePolicy, HomeMode, Missing, Origin, PathRule};
use kennel_policy::profiles;
use kennel_policy::settings::{Base, Format, Provenance, parse};

use super::{policy, say};
use crate::flags::RunArgs;

/// A command that ends later than this did not fail because of where its state is.
pub const EARLY: Duration = Duration::from_secs(15);

/// The agent that a command is, if it is one that has a profile and is not run with it. Names are compared, and
/// nothing else: this costs a start-up nothing.
pub fn without_profile(args: &RunArgs, merged: &Merged) -> Option<&'static str> {
    let name = Path::new(args.command.first()?).file_name().and_then(OsStr::to_str)?;
    let agent = profiles::AGENTS.into_iter().find(|agent| *agent == name)?;
    // Whoever chose another profile knows why.
    let generic = merged.profiles.iter().all(|name| matches!(name.as_str(), "default" | "agent"));
    (generic && !args.quiet && std::io::stderr().is_terminal()).then_some(agent)
}

/// Says that there is a profile for this agent.
pub fn suggest(agent: &str) {
    say(&format!("kennel: note: {agent} has a profile, with its state and its hosts: --profile {agent}"));
}

/// Says which of its folders an agent could not write that failed at once, if there is one.
pub fn explain(agent: &str, outcome: &Outcome, files: &FilePolicy) -> bool {
    let Ended::Exited(code @ 1..) = outcome.ended else { return false };
    if outcome.wall_time > EARLY {
        return false;
    }
    let homes = policy::Lazy::default();
    let base = homes.base(Path::new("/"));
    let closed = closed(agent, files, &base);
    let Some((_, first)) = closed.first() else { return false };
    let shown = |path: &Path| match base.home.as_deref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    };
    let same = closed.iter().filter(|(_, other)| other == first);
    let folders: Vec<String> = same.map(|(path, _)| shown(path)).collect();
    let (stands, help) = match first {
        Closed::ReadOnly | Closed::Private => {
            let flags = folders.join(" --allow-write ");
            let stands = if *first == Closed::Private { "is private and empty" } else { "is read-only" };
            (stands, format!("--profile {agent} gives it one of its own; --allow-write {flags} opens yours"))
        }
        Closed::Missing => ("does not exist", format!("--profile {agent} gives it one of its own")),
        Closed::Hidden(rule) => ("is hidden", format!("drop the rule that hides it: {rule}")),
    };
    say(&format!(
        "kennel: {agent} exited with {code} after {:.1} s; it keeps its state in {}, which {stands} here\nhelp: {help}",
        outcome.wall_time.as_secs_f64(),
        folders.join(" and "),
    ));
    true
}

/// How a folder stands that cannot be written.
#[derive(Debug, PartialEq, Eq)]
enum Closed {
    ReadOnly,
    /// It is not there in a private home.
    Private,
    /// It would be made in a folder that is read-only.
    Missing,
    /// By the rule that comes from there.
    Hidden(Origin),
}

/// The folders that the agent's profile opens for writing and these rules do not, and how they stand.
fn closed(agent: &str, files: &FilePolicy, base: &Base) -> Vec<(PathBuf, Closed)> {
    let text = profiles::text(agent).unwrap_or_default();
    let Ok(profile) = parse(text.as_bytes(), Format::Toml, Provenance::Profile(agent), base) else {
        return Vec::new();
    };
    let state = profile.files.mounts.iter().filter(|mount| mount.missing == Missing::Create);
    let state = state.map(|mount| mount.target.as_path());
    let closed = state.filter_map(|path| {
        let above = |rule: &&PathRule| path.ancestors().any(|above| rule.pattern.matches(above));
        let closed = match files.deny_read.iter().find(above) {
            Some(rule) => Closed::Hidden(rule.origin.clone()),
            None if files.allow_write.iter().any(|rule| above(&rule)) => return None,
            None if path.is_dir() && files.home == HomeMode::Private => Closed::Private,
            None if path.is_dir() => Closed::ReadOnly,
            None => Closed::Missing,
        };
        Some((path.to_path_buf(), closed))
    });
    closed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kennel_policy::pattern::PathPattern;

    fn rule(path: &str) -> PathRule {
        PathRule {
            pattern: PathPattern::literal(path),
            missing: Missing::Error,
            follow_link: true,
            lenient: false,
            without_exceptions: false,
            of_profile: false,
            look: Default::default(),
            origin: Origin("here".to_owned()),
        }
    }

    #[test]
    fn the_state_that_rules_do_not_open_is_told_with_how_it_stands() {
        let base = Base::new("/", Some("/no/home".into()));
        let mut files = FilePolicy::default();
        let codex = |files: &FilePolicy| closed("codex", files, &base);
        assert_eq!(codex(&files), [(PathBuf::from("/no/home/.codex"), Closed::Missing)]);
        files.allow_write.push(rule("/no/home/.codex"));
        assert_eq!(codex(&files), []);
        files.deny_read.push(rule("/no/home"));
        let hidden = Closed::Hidden(Origin("here".to_owned()));
        assert_eq!(codex(&files), [(PathBuf::from("/no/home/.codex"), hidden)]);
        let usr = Base::new("/", Some("/usr".into()));
        for agent in profiles::AGENTS {
            assert!(!closed(agent, &FilePolicy::default(), &usr).is_empty(), "{agent}");
        }
        assert_eq!(closed("ls", &FilePolicy::default(), &usr), []);
    }
}
