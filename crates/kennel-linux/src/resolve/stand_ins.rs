//! Files that show something else inside than on the host, in the place of a secret.
//!
//! To all rules they are denied files: other names of theirs are hidden, folders on the way stay where they are, and a file that
//! the host puts at the name is hidden too. Only in the end something is shown there after all.

use std::path::{Path, PathBuf};

use kennel_policy::policy::{PathRule, Policy};
use kennel_resolve::precedence::key;

use super::{Kind, Location, Point, ResolvedRoot, State, locate};

/// The policy with rules that hide the files of its secrets; `None` where there are none.
pub(super) fn hiding_secrets(policy: &Policy) -> Option<Policy> {
    let rules = policy.secret_files();
    if rules.is_empty() {
        return None;
    }
    let mut policy = policy.clone();
    if policy.files.rootfs.is_some() {
        let elsewhere: Vec<PathRule> = rules.iter().flat_map(|rule| shown_elsewhere(&policy, rule)).collect();
        policy.files.deny_read.extend(elsewhere);
    }
    policy.files.deny_read.extend(rules);
    Some(policy)
}

/// In a root file system a rule is about what the command sees: a file shows wherever its folder was mounted.
fn shown_elsewhere(policy: &Policy, rule: &PathRule) -> Vec<PathRule> {
    let path = rule.pattern.as_path();
    let place = match locate(path) {
        Ok(Location::Found(found)) => found.path,
        _ => path.to_path_buf(),
    };
    let moved = policy.files.mounts.iter().filter_map(|mount| {
        let source = match locate(&mount.source) {
            Ok(Location::Found(found)) => found.path,
            _ => mount.source.clone(),
        };
        let rest = place.strip_prefix(&source).ok()?;
        let target = if rest.as_os_str().is_empty() { mount.target.clone() } else { mount.target.join(rest) };
        Some(PathRule { pattern: kennel_policy::pattern::PathPattern::literal(target), ..rule.clone() })
    });
    moved.collect()
}

/// Shows the masked files among `points`, which are sorted. A file that is not there, or that is in a folder of the root file
/// system's, stays as it is: hidden.
pub(super) fn show(points: &mut Vec<Point>, policy: &Policy, root: Option<&ResolvedRoot>) {
    for file in policy.masked_files() {
        let Some(path) = place(file, root) else { continue };
        let state = State::Masked { file: file.to_path_buf() };
        match points.binary_search_by(|point| key(&point.path).cmp(&key(&path))) {
            Ok(at) => points[at].state = state,
            Err(at) => {
                let reason = format!("secrets: {} shows a stand-in", file.display()).into();
                points.insert(at, Point { path, state, reason });
            }
        }
    }
}

/// Where it shows, if it is a file.
fn place(file: &Path, root: Option<&ResolvedRoot>) -> Option<PathBuf> {
    match (locate(file), root) {
        (Ok(Location::Found(found)), None) if found.kind == Kind::File => Some(found.path),
        (Ok(Location::Found(found)), Some(root)) if found.kind == Kind::File => {
            root.file(file).map(|(inside, _)| inside)
        }
        _ => None,
    }
}
