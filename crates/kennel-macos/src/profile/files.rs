//! File rules: from points to rules of a profile.
//!
//! Seatbelt decides so: a rule on a specific operation (`file-write-unlink`) beats one on its group (`file-write*`), whichever
//! comes first; then one with a filter beats one without; then the last that matches wins. So every point says all there is to
//! say with one fixed set of operations, parents come before children, and the only rules on specific operations are those that
//! keep names in their places: they are denies, and nothing allows the same operations.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kennel_policy::pattern::{PathPattern, PatternSet};
use kennel_policy::policy::ReadModel;

use super::ProfileError;
use super::regex::{self, Names};
use super::resolve::{Access, Denial, DeniedPattern, Point, Resolved};
use super::text::{Decision, Filters, Writer, path_text, quoted};

/// What reading is. `file-clone` and mapping are no part of `file-read*`; metadata is, and is named because folders on the way
/// are opened for it alone.
const READ: &str = "file-read* file-read-metadata file-map-executable file-clone";
/// What writing is.
const WRITE: &str = "file-write* file-link";
/// Both.
const BOTH: &str = "file-read* file-read-metadata file-map-executable file-clone file-write* file-link";
/// To remove a name, or to move it away.
const LEAVE: &str = "file-write-unlink";
/// The same, and to make it, or to move something there.
const COME_AND_LEAVE: &str = "file-write-unlink file-write-create";
const METADATA: &str = "file-read-metadata";

/// Mistakes that a generator could make, for tests to show that they are found.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    NoMoveBlocking,
    NoAncestors,
    ReversedOrder,
    NoLiteral,
    NoPatterns,
    PatternsFirst,
    NoMissingFolders,
    NoFolding,
    DenyReadsOnly,
    AllowUnlink,
    NoCanonicalPaths,
    NoWritesDenied,
}

#[cfg(test)]
thread_local! {
    pub static MISTAKE: std::cell::Cell<Option<Mistake>> = const { std::cell::Cell::new(None) };
}

/// Whether the generator is to make a mistake. Outside of tests it never is.
macro_rules! mistaken {
    ($mistake:ident) => {{
        #[cfg(test)]
        let mistaken = MISTAKE.get() == Some(Mistake::$mistake);
        #[cfg(not(test))]
        let mistaken = false;
        mistaken
    }};
}

/// The rules for files.
pub(super) struct Files<'a> {
    resolved: &'a Resolved,
    names: Names,
}

impl<'a> Files<'a> {
    pub fn new(resolved: &'a Resolved) -> Files<'a> {
        let folded = resolved.folds_names && !mistaken!(NoFolding);
        Files { resolved, names: if folded { Names::Folded } else { Names::Exact } }
    }

    /// Everything but devices.
    pub fn write(&self, writer: &mut Writer) -> Result<(), ProfileError> {
        writer.section("reads that no rule covers");
        match self.resolved.reads {
            ReadModel::Open => writer.all(Decision::Allow, READ, "everything is readable by default"),
            ReadModel::Listed => self.write_path_folders(writer)?,
        }
        writer.section("files, parents before children: the last rule that matches decides");
        if mistaken!(PatternsFirst) {
            self.write_patterns(writer, Path::new("/"), true)?;
        }
        let mut points: Vec<&Point> = self.resolved.points.iter().collect();
        if mistaken!(ReversedOrder) {
            points.reverse();
        }
        // Where nothing shows there is nothing to deny.
        if self.access(Path::new("/")) != Access::None
            && !points.iter().any(|point| point.path == Path::new("/"))
        {
            self.write_patterns(writer, Path::new("/"), true)?;
        }
        for point in points.iter().filter(|point| !is_device(&point.path)) {
            self.write_point(writer, point)?;
            // Globs go on in what is opened. At a tie the point itself has been decided already.
            if point.access != Access::None && self.opens(point) && !mistaken!(PatternsFirst) {
                self.write_patterns(writer, &point.path, false)?;
            }
        }
        self.write_ways(writer)?;
        Ok(())
    }

    /// What rules say of devices, behind those that every sandbox has.
    pub fn write_devices(&self, writer: &mut Writer) -> Result<(), ProfileError> {
        const DEVICE: &str = "file-read* file-read-metadata file-write* file-ioctl";
        for path in &self.resolved.devices {
            let reason = "devices of the policy".to_owned();
            let text = vec![format!("(subpath {})", quoted(path_text(path, &reason)?))];
            writer.rule(Decision::Allow, DEVICE, Filters { reason, text });
        }
        let devices = self.resolved.points.iter().filter(|point| point.path != Path::new("/dev"));
        for point in devices.filter(|point| is_device(&point.path)) {
            self.write_point(writer, point)?;
        }
        Ok(())
    }

    fn write_point(&self, writer: &mut Writer, point: &Point) -> Result<(), ProfileError> {
        let filters = |decision| self.filters(point, decision);
        match point.access {
            Access::None if mistaken!(DenyReadsOnly) => {
                writer.rule(Decision::Deny, READ, filters(Decision::Deny)?);
            }
            Access::None => writer.rule(Decision::Deny, BOTH, filters(Decision::Deny)?),
            Access::Read => {
                if self.opens(point) {
                    writer.rule(Decision::Allow, READ, filters(Decision::Allow)?);
                }
                if !mistaken!(NoWritesDenied) {
                    writer.rule(Decision::Deny, WRITE, filters(Decision::Deny)?);
                }
            }
            Access::Write => {
                writer.rule(Decision::Allow, BOTH, filters(Decision::Allow)?);
                if mistaken!(AllowUnlink) {
                    writer.rule(Decision::Allow, COME_AND_LEAVE, filters(Decision::Allow)?);
                }
            }
        }
        Ok(())
    }

    /// Whether a point gives back something that an earlier rule took: what is above it, or a glob.
    fn opens(&self, point: &Point) -> bool {
        let Some(parent) = point.path.parent() else { return true };
        let denied = |glob: &DeniedPattern| point.path.ancestors().any(|above| glob.pattern.matches(above));
        point.access > self.access(parent) || self.resolved.patterns.iter().any(denied)
    }

    /// The path and all below it. `subpath` alone lets the path itself be made as a folder, where it does not exist.
    fn filters(&self, point: &Point, decision: Decision) -> Result<Filters, ProfileError> {
        let reason = point.reason.to_string();
        let path = quoted(path_text(&point.path, &reason)?);
        let path = if mistaken!(NoCanonicalPaths) { path.replacen('/', "//", 1) } else { path };
        let mut text = vec![format!("(subpath {path})")];
        if !mistaken!(NoLiteral) {
            text.insert(0, format!("(literal {path})"));
        }
        if decision == Decision::Deny && self.names == Names::Folded && point.path != Path::new("/") {
            // What exists is named by the kernel as the disk spells it; but it may be removed by the host.
            let parent = point.path.parent().unwrap_or(Path::new("/"));
            let nearest = point.nearest.as_deref().unwrap_or(parent);
            if point.nearest.is_some() || self.is_written(parent) {
                text.push(regex::any_spelling(&point.path, nearest, &reason)?);
            }
        }
        Ok(Filters { reason, text })
    }

    /// What globs deny in a folder; of the folder itself only if `itself`.
    fn write_patterns(&self, writer: &mut Writer, folder: &Path, itself: bool) -> Result<(), ProfileError> {
        if mistaken!(NoPatterns) {
            return Ok(());
        }
        for glob in &self.resolved.patterns {
            if itself {
                self.write_pattern(writer, glob, &glob.pattern, &glob.nearest)?;
                continue;
            }
            // Each place in the glob that goes on here, as a glob of its own in this folder.
            let (alive, _) = PatternSet::new(&[&glob.pattern]).at(folder);
            let places: BTreeSet<usize> = PatternSet::places(&alive).map(|(_, used)| used).collect();
            for used in places {
                let mut rest = glob.pattern.rest_in(used, folder);
                // All that is in the folder: not the folder.
                if rest.literal_prefix() == folder && rest.matches(folder) {
                    rest = PathPattern::parse_in(folder, "*").unwrap_or(rest);
                }
                let nearest = if glob.nearest.starts_with(folder) { &glob.nearest } else { folder };
                self.write_pattern(writer, glob, &rest, nearest)?;
            }
        }
        Ok(())
    }

    fn write_pattern(
        &self,
        writer: &mut Writer,
        glob: &DeniedPattern,
        pattern: &PathPattern,
        nearest: &Path,
    ) -> Result<(), ProfileError> {
        let operations = match glob.denies {
            Denial::Everything => BOTH,
            Denial::Reading => READ,
            Denial::Writing => WRITE,
        };
        let reason = glob.reason.to_string();
        let text = if pattern.is_of_folders() {
            let itself = regex::glob_itself(pattern, nearest, self.names, &reason)?;
            let folder = format!("(require-all {itself} (vnode-type DIRECTORY))");
            vec![folder, regex::glob_below(pattern, nearest, self.names, &reason)?]
        } else {
            vec![regex::glob(pattern, nearest, self.names, &reason)?]
        };
        writer.rule(Decision::Deny, operations, Filters { reason, text });
        Ok(())
    }

    /// Names of programs can be asked for in the folders of `PATH`.
    fn write_path_folders(&self, writer: &mut Writer) -> Result<(), ProfileError> {
        for folder in &self.resolved.metadata {
            let reason = "a shell stops looking for a program at the first refusal".to_owned();
            let text = vec![format!("(subpath {})", quoted(path_text(folder, &reason)?))];
            writer.rule(Decision::Allow, METADATA, Filters { reason, text });
        }
        Ok(())
    }

    /// The folders above what shows in something hidden can be asked about: a program that resolves its own path does.
    fn write_ways(&self, writer: &mut Writer) -> Result<(), ProfileError> {
        let mut ways: BTreeSet<&Path> = BTreeSet::new();
        for point in self.resolved.points.iter().filter(|point| point.access != Access::None) {
            ways.extend(point.path.ancestors().skip(1).filter(|above| self.access(above) == Access::None));
        }
        writer.section("folders on the way");
        for way in ways {
            let reason = "on the way to what shows".to_owned();
            let text = vec![format!("(literal {})", quoted(path_text(way, &reason)?))];
            writer.rule(Decision::Allow, METADATA, Filters { reason, text });
        }
        if let Some(temp) = &self.resolved.user_temp
            && self.access(temp) != Access::Write
        {
            // Not to be written: the host's own tools go by it.
            let reason = "the database of the developer tools: git, cc".to_owned();
            let file = temp.join("xcrun_db");
            let text = vec![format!("(literal {})", quoted(path_text(&file, &reason)?))];
            writer.rule(Decision::Allow, "file-read* file-read-metadata", Filters { reason, text });
        }
        let root = Filters {
            reason: "no program starts without it".to_owned(),
            text: vec!["(literal \"/\")".to_owned()],
        };
        writer.rule(Decision::Allow, "file-read* file-read-metadata", root);
        Ok(())
    }

    /// Rules that keep names in their places: what is denied is not moved away, nor is a folder on the way to it, and no prepared
    /// folder is moved to where one would be.
    pub fn write_moves(&self, writer: &mut Writer) -> Result<(), ProfileError> {
        if mistaken!(NoMoveBlocking) {
            return Ok(());
        }
        writer.section("names that stay in their places");
        let mut leave: BTreeSet<(PathBuf, String)> = BTreeSet::new();
        let mut both: BTreeSet<(PathBuf, String)> = BTreeSet::new();
        let mut pin = |path: &Path, reason: &str| {
            let above = path.ancestors().skip(1).filter(|_| !mistaken!(NoAncestors));
            for folder in above.take_while(|folder| self.access(folder) == Access::Write) {
                leave.insert((folder.to_path_buf(), format!("keeps it in its place: {reason}")));
            }
        };
        for point in &self.resolved.points {
            let parent = point.path.parent().unwrap_or(Path::new("/"));
            if point.access != Access::Write && self.access(parent) == Access::Write {
                both.insert((point.path.clone(), point.reason.to_string()));
                pin(&point.path, &point.reason);
            }
        }
        for glob in &self.resolved.patterns {
            pin(&glob.nearest.join("*"), &glob.reason);
        }
        for point in self.resolved.points.iter().filter(|point| point.access == Access::Write) {
            // What is opened stays where it is, as a mount on Linux does.
            if !point.path.parent().is_some_and(|parent| self.is_written(parent)) {
                leave.insert((point.path.clone(), point.reason.to_string()));
            }
        }
        let mut last: Option<PathBuf> = None;
        for (path, reason) in leave {
            // One reason is enough.
            if last.as_ref() != Some(&path) {
                let text = vec![format!("(literal {})", quoted(path_text(&path, &reason)?))];
                writer.rule(Decision::Deny, LEAVE, Filters { reason, text });
                last = Some(path);
            }
        }
        for (path, reason) in both {
            let text = vec![format!("(literal {})", quoted(path_text(&path, &reason)?))];
            let operations = if mistaken!(NoLiteral) { LEAVE } else { COME_AND_LEAVE };
            writer.rule(Decision::Deny, operations, Filters { reason, text });
        }
        for folder in self.resolved.missing_folders.iter().filter(|_| !mistaken!(NoMissingFolders)) {
            let reason = "a folder with a denied name in it could be moved there".to_owned();
            let mut text = vec![format!("(literal {})", quoted(path_text(folder, &reason)?))];
            if self.names == Names::Folded {
                let nearest = folder.parent().unwrap_or(folder);
                text.push(regex::any_spelling(folder, nearest, &reason)?);
            }
            writer.rule(Decision::Deny, COME_AND_LEAVE, Filters { reason, text });
        }
        Ok(())
    }

    /// What can be done at a path, by the nearest point.
    pub fn access(&self, path: &Path) -> Access {
        self.resolved.access(path)
    }

    fn is_written(&self, path: &Path) -> bool {
        self.access(path) == Access::Write
    }
}

fn is_device(path: &Path) -> bool {
    path.starts_with("/dev") && path != Path::new("/dev")
}
