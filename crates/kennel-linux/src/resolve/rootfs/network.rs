//! `/etc/resolv.conf`, `/etc/hosts` and `/etc/nsswitch.conf` in a root: what the sandbox's network needs there, whatever the root
//! has. In a root they are often missing, empty, or links into a `/run` that nobody has filled.

use std::path::{Path, PathBuf};

use kennel_policy::policy::NetworkMode;

use super::points::{Covers, Standing, make, nearest, standing};
use super::{Made, Root};
use crate::network::{FILES, HOSTS, SERVICES, asks_only_dns};
use crate::resolve::{Kind, Location, Point, State, locate};

/// What of the host's shows with its network.
const HOSTS_OWN: [&str; 2] = ["/etc/resolv.conf", HOSTS];

/// The files that show other contents, and the host's that show. `made` grows by what they are mounted on.
pub(super) fn files(
    root: &Root,
    points: &[Point],
    mode: NetworkMode,
    made: &mut Vec<Made>,
) -> (Covers, Vec<Point>) {
    let (mut covers, mut shown) = (Vec::new(), Vec::new());
    match mode {
        NetworkMode::AllowList | NetworkMode::Public => {
            for (path, contents) in FILES {
                let wanted = *path != SERVICES;
                let host = |place: &Path| wanted || !asks_only_dns(place);
                covers.extend(target(root, points, path, wanted, host, made).map(|path| (path, *contents)));
            }
        }
        NetworkMode::None => {
            // Its own, but for one that holds nothing: a container engine leaves such a file behind.
            let contents = FILES.iter().find(|(path, _)| *path == HOSTS).map(|(_, contents)| *contents);
            let empty = |place: &Path| !matches!(standing(place), Standing::File { empty: false });
            let target = target(root, points, HOSTS, true, empty, made);
            covers.extend(target.zip(contents));
        }
        NetworkMode::Host => {
            for path in HOSTS_OWN {
                let end = root.view.lead(Path::new(path));
                let place = match standing(&root.view.in_root(&end)) {
                    Standing::File { .. } => end,
                    _ => beside(root, path),
                };
                if let Ok(Location::Found(found)) = locate(Path::new(path))
                    && found.kind == Kind::File
                    && root.owns(points, &place)
                {
                    let state = State::Host { source: found.into(), write: false };
                    let reason = format!("the host's network needs {path}").into();
                    shown.push(Point { path: place, state, reason });
                }
            }
        }
    }
    (covers, shown)
}

/// The path of a file with the links above it followed, and one at its end not.
fn beside(root: &Root, path: &str) -> PathBuf {
    let path = Path::new(path);
    let folder = root.view.lead(path.parent().unwrap_or(path));
    super::join(&folder, Path::new(path.file_name().unwrap_or_default()))
}

/// Where a file is covered; `None` if it does not have to be. `needed` says that it is to be there even if the root has none.
fn target(
    root: &Root,
    points: &[Point],
    path: &str,
    needed: bool,
    must: impl Fn(&Path) -> bool,
    made: &mut Vec<Made>,
) -> Option<PathBuf> {
    let end = root.view.lead(Path::new(path));
    if root.view.shown_at(&end).is_some() {
        let host = root.view.host_path(&end);
        let shows = matches!(nearest(points, &end).map(|point| &point.state), Some(State::Host { .. }));
        let is_file = matches!(standing(&host), Standing::File { .. });
        return (shows && is_file && must(&host)).then_some(end);
    }
    let place = root.view.in_root(&end);
    if let Standing::File { .. } = standing(&place) {
        return (root.owns(points, &end) && must(&place)).then_some(end);
    }
    let path = beside(root, path);
    // Without a layer it stays missing. A C library asks 127.0.0.1 then, which is where the gate is.
    if !needed || !root.layer || !root.owns(points, &path) || root.view.shown_at(&path).is_some() {
        return None;
    }
    make(made, &root.view, &path, Kind::File);
    Some(path)
}
