//! Profiles: settings for a purpose, in the same format as everyone's own.
//!
//! The built-in ones are data, in `profiles/`. A user can have others, in files that the caller of [`crate::merge`] finds
//! ([`OwnProfiles`]): this crate opens none. A profile may build on another one, by the same key `profile` by which a
//! settings file does; `claude`, `codex` and the other agents' build on `agent`.
//!
//! Their relative paths are relative to where the command starts. Where a profile leaves the network mode unsaid there
//! is no network, as everywhere; allowing a host then is enough to have that host. `judge` says `none`, so a host that
//! is allowed on top of it is a contradiction, and reported as one.

/// The names of the built-in profiles: those for a purpose, then those for an agent.
pub const NAMES: [&str; 13] = [
    "default", "judge", "agent", "build", "data", "browser", "claude", "codex", "gemini", "opencode",
    "aider", "goose", "amp",
];

/// The profiles for one agent each. An agent's command has the name of its profile.
pub const AGENTS: [&str; 7] = ["claude", "codex", "gemini", "opencode", "aider", "goose", "amp"];

/// The text of a built-in profile, as it could stand in a settings file.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    Some(match name {
        "default" => include_str!("profiles/default.toml"),
        "judge" => include_str!("profiles/judge.toml"),
        "agent" => include_str!("profiles/agent.toml"),
        "build" => include_str!("profiles/build.toml"),
        "data" => include_str!("profiles/data.toml"),
        "browser" => include_str!("profiles/browser.toml"),
        "claude" => include_str!("profiles/claude.toml"),
        "codex" => include_str!("profiles/codex.toml"),
        "gemini" => include_str!("profiles/gemini.toml"),
        "opencode" => include_str!("profiles/opencode.toml"),
        "aider" => include_str!("profiles/aider.toml"),
        "goose" => include_str!("profiles/goose.toml"),
        "amp" => include_str!("profiles/amp.toml"),
        _ => return None,
    })
}

/// What a profile is for: its first line, which is a comment. Empty where that is something else.
///
/// ```
/// use kennel_policy::profiles::{summary, text};
/// assert!(summary(text("build").unwrap()).starts_with("For a build step"));
/// assert_eq!(summary("[files]\n# a comment"), "");
/// ```
#[must_use]
pub fn summary(text: &str) -> &str {
    text.lines().next().and_then(|line| line.strip_prefix('#')).map(str::trim).unwrap_or_default()
}

/// A profile of the user's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnProfile {
    /// Its file, as the user would name it.
    pub file: String,
    /// What is in it: TOML.
    pub text: Vec<u8>,
}

/// Finds the user's own profiles. They come before built-in ones of the same name.
pub trait OwnProfiles {
    /// The profile of this name, which [`crate::settings::profile_name`] has accepted; `None` if there is none.
    ///
    /// # Errors
    /// When there is one that cannot be read: the file, and why.
    fn find(&self, name: &str) -> Result<Option<OwnProfile>, String>;

    /// The names of all of them.
    fn names(&self) -> Vec<String>;
}

/// There are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOwnProfiles;

impl OwnProfiles for NoOwnProfiles {
    fn find(&self, _: &str) -> Result<Option<OwnProfile>, String> {
        Ok(None)
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
