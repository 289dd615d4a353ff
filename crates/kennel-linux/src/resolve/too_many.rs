//! A bound on how many places are protected one by one.
//!
//! Each costs a mount or two, in every run, and what the command makes in one run is there in the next: tens of thousands of
//! protected names in as many folders would make each start slow, and then impossible. Past a bound the start fails at once,
//! and says where they are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use kennel_resolve::error::ResolveError;
use kennel_resolve::resolver::Looked;

use super::{Point, State};

/// More than any project has; a start with as many takes a second or two.
const MAX: usize = 10_000;

/// What a search came back with, before each find is looked at. A repository has several places.
pub(super) fn found(looked: &Looked) -> Result<(), ResolveError> {
    let repositories = looked.repositories.iter().map(|place| place.path());
    check(&looked.kept.iter().map(PathBuf::as_path).chain(repositories))
}

/// What is to be mounted.
pub(super) fn planned(points: &[Point]) -> Result<(), ResolveError> {
    let one_by_one = |point: &&Point| matches!(point.state, State::Host { .. } | State::Hidden { .. });
    check(&points.iter().filter(one_by_one).map(|point| point.path.as_path()))
}

fn check<'p>(places: &(impl Iterator<Item = &'p Path> + Clone)) -> Result<(), ResolveError> {
    let count = places.clone().count();
    if count <= MAX {
        return Ok(());
    }
    // The innermost folder that still holds half of them.
    let (mut folder, mut inside) = (Path::new("/"), count);
    for depth in 2.. {
        let mut held: HashMap<&Path, usize> = HashMap::new();
        let below = places.clone().filter(|place| place.starts_with(folder));
        // The place itself is no folder of places.
        let folders = below.filter_map(|place| ancestor(place.parent()?, depth));
        folders.for_each(|folder| *held.entry(folder).or_default() += 1);
        match held.into_iter().max_by_key(|(_, count)| *count) {
            Some((most, held)) if held * 2 > count => (folder, inside) = (most, held),
            _ => break,
        }
    }
    Err(ResolveError::TooManyPlaces { count, most: MAX, folder: folder.to_path_buf(), inside })
}

/// The folder of so many components that `path` is, or lies in.
fn ancestor(path: &Path, depth: usize) -> Option<&Path> {
    let length = path.components().count();
    path.ancestors().nth(length.checked_sub(depth)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_that_holds_most_of_too_many_places_is_named() {
        let places: Vec<PathBuf> =
            (0..=MAX).map(|n| format!("/home/u/w/planted/{}/p{n}/.vscode", n % 3).into()).collect();
        assert!(check(&places[1..].iter().map(PathBuf::as_path)).is_ok());
        let error = check(&places.iter().map(PathBuf::as_path));
        let Err(ResolveError::TooManyPlaces { count, folder, inside, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!((count, inside, folder.as_path()), (MAX + 1, MAX + 1, Path::new("/home/u/w/planted")));
    }
}
