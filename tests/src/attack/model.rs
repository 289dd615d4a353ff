//! What a policy permits at most: the few sentences of docs/settings.md, written down a second time, and read from no
//! code of kennel's.
//!
//! - The rule whose path is the longest decides; at a tie, the deny.
//! - A rule about writing never shows what a rule about reading hides, and what is hidden cannot be written.
//! - A rule is about a name, for the whole run: what stands there later has the same rule.
//! - A deny is about the thing: it follows links, holds for every other name of the same file or folder, and keeps the
//!   links on its way in their places. What a glob matches in a folder that is denied is part of that folder, and not
//!   looked for elsewhere.
//! - An allow does not lead through a link that a sandbox made.
//! - What `git` keeps stays, unless an `allow_write` names it; kennel's own settings stay always.
//!
//! A sandbox that is stricter than this is no finding. Paths are words relative to the top of the scratch area, or
//! absolute.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::script::Run;
use super::snapshot::{Kind, Snapshot, TOP};
use super::word::{self, is_within, join, upwards};

/// Which list a rule is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    /// `--deny-read`
    DenyRead,
    /// `--allow-read`
    AllowRead,
    /// `--allow-write`
    AllowWrite,
    /// `--deny-write`
    DenyWrite,
}

impl List {
    fn denies(self) -> bool {
        matches!(self, List::DenyRead | List::DenyWrite)
    }
}

/// What a policy permits in one tree.
#[derive(Clone, Debug, Default)]
pub struct Model {
    rules: BTreeSet<(List, String)>,
    /// Sources of mounts, and whether they can be written there.
    mounts: Vec<(String, bool)>,
    /// Kept for git, unless an `allow_write` names it.
    kept: Vec<String>,
    /// Links on the way to what is denied, and kennel's own settings.
    held: BTreeSet<String>,
    listed: bool,
    any_deny_of_writing_wins: bool,
    /// Whether of the folder `home` only what rules allow is there.
    private_home: bool,
}

impl Model {
    /// Whether a file of this name may be read.
    #[must_use]
    pub fn may_read(&self, path: &str) -> bool {
        let tie_is_allowed = self.any_deny_of_writing_wins;
        if self.is_of_private_home(path) {
            let mounted = self.mounts.iter().any(|(source, _)| is_within(path, source));
            return mounted && !self.covered(path, List::DenyRead);
        }
        self.nearest(path, List::AllowRead, List::DenyRead, tie_is_allowed).unwrap_or_else(|| {
            let shown = self.mounts.iter().any(|(source, _)| is_within(path, source));
            !self.listed || shown || self.covered(path, List::AllowWrite)
        })
    }

    /// Whether a file of this name may be changed, made or removed.
    #[must_use]
    pub fn may_write(&self, path: &str) -> bool {
        let mounted = self.mounts.iter().any(|(source, write)| *write && is_within(path, source));
        let denied = self.covered(path, List::DenyWrite);
        let allowed = if self.any_deny_of_writing_wins {
            !denied && self.covered(path, List::AllowWrite)
        } else {
            self.nearest(path, List::AllowWrite, List::DenyWrite, false) == Some(true)
        };
        (allowed || mounted && !denied) && self.may_read(path) && !self.is_kept(path)
    }

    /// Whether a rule denies this very name, or something above it, rather than nothing allowing it.
    #[must_use]
    pub fn is_denied(&self, path: &str) -> bool {
        (self.covered(path, List::DenyRead) || self.covered(path, List::DenyWrite) || self.is_kept(path))
            && !self.may_write(path)
    }

    /// Whether a rule names this very path.
    #[must_use]
    pub fn names(&self, path: &str) -> bool {
        self.rules.iter().any(|(_, rule)| rule == path)
    }

    /// Whether it is in a home that is private, and in nothing of it that a rule allows.
    fn is_of_private_home(&self, path: &str) -> bool {
        let opened = |above: &str| self.has(List::AllowRead, above) || self.has(List::AllowWrite, above);
        self.private_home
            && is_within(path, "home")
            && !upwards(path).take_while(|above| is_within(above, "home")).any(opened)
    }

    fn nearest(&self, path: &str, allow: List, deny: List, tie_is_allowed: bool) -> Option<bool> {
        upwards(path).find_map(|above| match (self.has(allow, above), self.has(deny, above)) {
            (false, false) => None,
            (true, true) => Some(tie_is_allowed),
            (allowed, _) => Some(allowed),
        })
    }

    fn covered(&self, path: &str, list: List) -> bool {
        upwards(path).any(|above| self.has(list, above))
    }

    fn has(&self, list: List, path: &str) -> bool {
        // Looked up by reference: this is asked for every name of every snapshot.
        self.rules.iter().any(|(of, rule)| *of == list && rule == path)
    }

    fn is_kept(&self, path: &str) -> bool {
        let opened = |kept: &str| {
            let names_it = |(list, rule): &(List, String)| {
                *list == List::AllowWrite && is_within(rule, kept) && is_within(path, rule)
            };
            self.rules.iter().any(names_it)
        };
        let kept = self.kept.iter().any(|kept| is_within(path, kept) && !opened(kept));
        kept || self.held.contains(path) || is_within(path, SETTINGS)
    }
}

/// Where kennel's own settings are: the home of a history is the folder `home`.
const SETTINGS: &str = "home/.config/kennel";

/// What profile `agent` hides, of what the trees have.
const SECRETS_OF_A_HOME: [&str; 4] = [".ssh", ".netrc", ".aws", ".config/gh"];

impl Model {
    /// What a run's flags mean in a tree. `planted` are the links that sandboxes made in earlier runs.
    #[must_use]
    pub fn of(run: &Run, tree: &Snapshot, planted: &BTreeSet<String>) -> Model {
        let mut model = Model {
            listed: run.flag("--reads") == Some("listed"),
            any_deny_of_writing_wins: run.flag("--precedence") == Some("deny-write"),
            private_home: matches!(run.flag("--profile"), Some("agent" | "build")),
            ..Model::default()
        };
        let lists = [
            ("--deny-read", List::DenyRead),
            ("--deny-write", List::DenyWrite),
            ("--allow-read", List::AllowRead),
            ("--allow-write", List::AllowWrite),
        ];
        let cwd = if run.cwd.is_empty() { "." } else { &run.cwd };
        let agent = run.flag("--profile") == Some("agent");
        let works_here = agent || run.flag("--profile") == Some("build");
        // What a flag shows by the very same name is shown.
        let hides = |path: &String| run.all("--allow-read").all(|shown| shown.trim_end_matches('/') != path);
        let home = SECRETS_OF_A_HOME.iter().filter(|_| agent).map(|name| join("home", name));
        let home = home.filter(hides).map(|path| (List::DenyRead, path));
        let by_profile = home.chain(works_here.then(|| (List::AllowWrite, cwd.to_owned())));
        let said = lists.iter().flat_map(|(flag, list)| run.all(flag).map(|path| (*list, path.to_owned())));
        let said: Vec<(List, String)> = said.chain(by_profile).collect();
        let all: Vec<(List, bool, Found)> = said
            .iter()
            .flat_map(|(list, path)| {
                let (list, glob) = (*list, is_glob(path));
                find(tree, path, list.denies()).into_iter().map(move |found| (list, glob, found))
            })
            .collect();
        let folders: BTreeSet<(List, String)> =
            all.iter().map(|(list, _, found)| (*list, found.path.clone())).collect();
        // Whether what is above a path denies it already.
        let in_denied = |list: List, path: &str| {
            upwards(path).skip(1).find_map(|above| {
                let has = |list: List| folders.contains(&(list, above.to_owned()));
                has(list).then_some(true).or(has(allowing(list)).then_some(false))
            })
        };
        for (list, glob, found) in all {
            let through_planted = found.links.iter().any(|link| planted.contains(link));
            if !list.denies() && through_planted {
                continue;
            }
            // A glob speaks of a folder and of what is in it where it matches the folder, and says nothing more of what it
            // matches below: `w/**` is a rule about `w`.
            let said_above =
                || upwards(&found.path).skip(1).any(|above| folders.contains(&(list, above.to_owned())));
            let opposite = if list.denies() { allowing(list) } else { list };
            if model.any_deny_of_writing_wins
                && list == List::DenyRead
                && glob
                && said_above()
                && !folders.contains(&(opposite, found.path.clone()))
            {
                continue;
            }
            if list.denies() {
                if !glob || in_denied(list, &found.path) != Some(true) {
                    let others = other_names(tree, &found.path);
                    // Who allows a second name by a rule of its own means that.
                    let others = others.filter(|name| !said.contains(&(allowing(list), name.clone())));
                    model.rules.extend(others.map(|name| (list, name)));
                }
                model.held.extend(found.links);
            }
            // As srt has it: what a rule opens for writing by its name shows in what is hidden, unless it is a file that is
            // hidden by its name too.
            let shows = model.any_deny_of_writing_wins && list == List::AllowWrite && !glob;
            let is_folder = tree.get(&found.path).is_some_and(|entry| entry.kind == Kind::Folder);
            let hidden_by_name = || folders.contains(&(List::DenyRead, found.path.clone()));
            if shows && (is_folder || !hidden_by_name()) {
                model.rules.insert((List::AllowRead, found.path.clone()));
            }
            model.rules.insert((list, found.path));
        }
        for mount in run.all("--mount") {
            let (source, rest) = mount.split_once(':').unwrap_or((mount, ""));
            for found in find(tree, source, false) {
                if !found.links.iter().any(|link| planted.contains(link)) {
                    model.mounts.push((found.path, rest.ends_with(":rw")));
                }
            }
        }
        let level =
            run.flag("--git").unwrap_or(if works_here { "hooks-and-config-read-only" } else { "off" });
        model.kept = kept_for_git(level, tree);
        model.share_with_worktrees(level, tree);
        model
    }
}

impl Model {
    /// What commits in a worktree write in its repository: a worktree `wt` of `main` is the only one that histories have.
    fn share_with_worktrees(&mut self, level: &str, tree: &Snapshot) {
        const SHARED: &[&str] = &[
            "objects",
            "refs",
            "logs/refs",
            "rr-cache",
            "packed-refs",
            "packed-refs.lock",
            "packed-refs.new",
            "shallow",
            "shallow.lock",
            "worktrees/wt",
        ];
        const KEPT: &[&str] =
            &["worktrees/wt/commondir", "worktrees/wt/gitdir", "worktrees/wt/config.worktree"];
        let opened = self.rules.contains(&(List::AllowWrite, "wt".into()));
        if !opened
            || !tree.contains_key("main/.git/worktrees/wt")
            || matches!(level, "off" | "metadata-read-only")
        {
            return;
        }
        let own = |name: &&str| join("main/.git", name);
        self.rules.extend(SHARED.iter().map(|name| (List::AllowWrite, own(name))));
        self.kept.extend(KEPT.iter().map(own));
    }
}

fn allowing(list: List) -> List {
    if list == List::DenyRead { List::AllowRead } else { List::AllowWrite }
}

/// What stays as it is in the repositories of a tree.
fn kept_for_git(level: &str, tree: &Snapshot) -> Vec<String> {
    let names: &[&str] = match level {
        "metadata-read-only" => &["."],
        "hooks-and-config-read-only" => &["hooks", "config", "config.worktree", "info/attributes"],
        "hooks-read-only" => &["hooks", "info/attributes"],
        _ => &[],
    };
    let repositories = tree.keys().filter(|path| {
        word::name(path) == ".git"
            && tree.get(&join(path, "HEAD")).is_some_and(|head| head.kind == Kind::File)
    });
    let kept = |git: &String| {
        names.iter().map(|name| if *name == "." { git.clone() } else { join(git, name) }).collect::<Vec<_>>()
    };
    repositories.flat_map(kept).collect()
}

/// The other names of the same file or folder: hard links and second mounts.
pub fn other_names<'t>(tree: &'t Snapshot, path: &'t str) -> impl Iterator<Item = String> + 't {
    // The nearest thing that exists has the other names; what is missing below it is missing there too.
    let there = upwards(path).find(|above| tree.contains_key(*above)).filter(|above| *above != ".");
    let names = there.into_iter().flat_map(move |there| {
        let same = tree.iter().filter(move |(name, entry)| {
            entry.identity == tree[there].identity && *name != there && entry.kind != Kind::Link
        });
        same.map(move |(name, _)| format!("{name}{}", &path[there.len()..]))
    });
    names.collect::<Vec<_>>().into_iter()
}

/// Something that a path of a rule stands for, and the links that lead there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Its path without links; it need not exist.
    pub path: String,
    /// The links on the way, in the order they are met.
    pub links: Vec<String>,
}

/// What a path, or a glob, stands for in a tree. A glob follows links only in a deny list, and finds only what is there.
#[must_use]
pub fn find(tree: &Snapshot, path: &str, denies: bool) -> Vec<Found> {
    if path.starts_with('/') || !is_glob(path) {
        return resolve(tree, &Found { path: start_of(path).into(), ..Found::default() }, path)
            .into_iter()
            .collect();
    }
    let mut found = vec![Found { path: ".".into(), ..Found::default() }];
    let parts: Vec<&str> = path.split('/').collect();
    for (index, part) in parts.iter().enumerate() {
        let from = std::mem::take(&mut found);
        for folder in from {
            if *part == "**" {
                let below = tree.iter().filter(|(name, entry)| {
                    is_within(name, &folder.path) && (entry.kind == Kind::Folder || index + 1 == parts.len())
                });
                let links = &folder.links;
                found.extend(below.map(|(name, _)| Found { path: name.clone(), links: links.clone() }));
                continue;
            }
            let names: Vec<&str> = if is_glob(part) {
                let inside = tree.keys().filter(|name| word::parent(name) == Some(&folder.path));
                inside.map(|name| word::name(name)).filter(|name| matches(part, name)).collect()
            } else {
                vec![part]
            };
            for name in names {
                let is_link =
                    tree.get(&join(&folder.path, name)).is_some_and(|entry| entry.kind == Kind::Link);
                if is_link && is_glob(part) && !denies {
                    continue;
                }
                found.extend(resolve(tree, &folder, name).filter(|found| tree.contains_key(&found.path)));
            }
        }
    }
    found
}

fn is_glob(path: &str) -> bool {
    path.contains(['*', '?'])
}

fn start_of(path: &str) -> &str {
    if path.starts_with('/') { "/" } else { "." }
}

/// Follows a path from a place. `None` where links lead around in a circle.
#[must_use]
pub fn resolve(tree: &Snapshot, from: &Found, path: &str) -> Option<Found> {
    let mut at = from.clone();
    let mut todo: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
    while let Some(part) = todo.pop() {
        match part.as_str() {
            "" | "." => {}
            ".." => at.path = word::parent(&at.path).unwrap_or(&at.path).to_owned(),
            part => {
                let next = join(&at.path, part);
                let link = tree.get(&next).filter(|entry| entry.kind == Kind::Link);
                let Some(link) = link else {
                    at.path = next;
                    continue;
                };
                if at.links.len() > 40 {
                    return None;
                }
                at.links.push(next);
                let (text, in_tree) = match link.content.strip_prefix(TOP.as_bytes()) {
                    Some(rest) => (rest, true),
                    None => (link.content.as_slice(), false),
                };
                if in_tree || text.starts_with(b"/") {
                    at.path = if in_tree { "." } else { "/" }.into();
                }
                let text = word::escape(OsStr::from_bytes(text));
                todo.extend(text.split('/').rev().map(str::to_owned));
            }
        }
    }
    Some(at)
}

/// Whether a name matches one component of a glob.
fn matches(glob: &str, name: &str) -> bool {
    match (glob.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some('*'), _) => {
            matches(&glob[1..], name)
                || name.chars().next().is_some_and(|first| matches(glob, &name[first.len_utf8()..]))
        }
        (Some('?'), Some(first)) => matches(&glob[1..], &name[first.len_utf8()..]),
        (Some(wanted), Some(first)) if wanted == first => {
            matches(&glob[wanted.len_utf8()..], &name[first.len_utf8()..])
        }
        _ => false,
    }
}
