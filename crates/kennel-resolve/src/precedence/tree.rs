//! A map by path that answers quickly what is said of a path and of the folders above it.
//!
//! A policy in a workspace with hundreds of repositories has thousands of entries, and every decision asks about all
//! ancestors of a path. Here a path is kept as its bytes with NUL, which no path holds, for the slash: then bytes compare
//! as components do, parents before children, and a path's ancestors are prefixes of its key, found by hash.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The map.
#[derive(Clone, Debug)]
pub struct Tree<T> {
    kept: Vec<(PathBuf, T)>,
    by_key: HashMap<Rc<[u8]>, usize>,
    in_order: BTreeMap<Rc<[u8]>, usize>,
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Tree { kept: Vec::new(), by_key: HashMap::new(), in_order: BTreeMap::new() }
    }
}

impl<T> Tree<T> {
    /// What is kept at an absolute path.
    pub fn get(&self, path: &Path) -> Option<&T> {
        self.by_key.get(key(path).as_slice()).map(|at| &self.kept[*at].1)
    }

    /// The same, made if there is nothing.
    pub fn at(&mut self, path: &Path) -> &mut T
    where
        T: Default,
    {
        let key = key(path);
        let at = self.by_key.get(key.as_slice()).copied().unwrap_or_else(|| {
            let key: Rc<[u8]> = key.into();
            self.by_key.insert(key.clone(), self.kept.len());
            self.in_order.insert(key, self.kept.len());
            self.kept.push((path.to_path_buf(), T::default()));
            self.kept.len() - 1
        });
        &mut self.kept[at].1
    }

    /// What is kept at a path and at the folders above it, the nearest first.
    pub fn upwards(&self, path: &Path) -> impl Iterator<Item = &T> {
        let key = key(path);
        let mut end = Some(key.len());
        std::iter::from_fn(move || {
            loop {
                let now = end?;
                end = match key[..now].iter().rposition(|byte| *byte == 0) {
                    _ if now <= 1 => None,
                    Some(0) => Some(1),
                    Some(slash) => Some(slash),
                    None => None,
                };
                if let Some(at) = self.by_key.get(&key[..now]) {
                    return Some(&self.kept[*at].1);
                }
            }
        })
    }

    /// What is kept below a path, in the order of paths.
    pub fn below<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = (&'a Path, &'a T)> {
        let after = self.in_order.range::<[u8], _>((Bound::Excluded(key(path).as_slice()), Bound::Unbounded));
        let inside = move |(own, _): &(&Path, &T)| own.starts_with(path);
        after.map(|(_, at)| self.pair(*at)).take_while(inside)
    }

    /// Everything, parents before children.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &T)> {
        self.in_order.values().map(|at| self.pair(*at))
    }

    /// Everything that is kept.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.kept.iter().map(|(_, value)| value)
    }

    fn pair(&self, at: usize) -> (&Path, &T) {
        let (path, value) = &self.kept[at];
        (path, value)
    }
}

/// Bytes that compare as the components of paths do.
pub fn key(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tree(paths: &[&str]) -> Tree<String> {
        let mut tree = Tree::default();
        for path in paths {
            *tree.at(Path::new(path)) = (*path).to_owned();
        }
        tree
    }

    #[test]
    fn ancestors_come_from_the_nearest_to_the_root() {
        let tree = tree(&["/", "/a", "/a/b/c", "/a-b", "/ab"]);
        let upwards = |path: &str| tree.upwards(Path::new(path)).cloned().collect::<Vec<_>>();
        assert_eq!(upwards("/a/b/c/d"), ["/a/b/c", "/a", "/"]);
        assert_eq!(upwards("/a/b"), ["/a", "/"]);
        assert_eq!(upwards("/ab/c"), ["/ab", "/"]);
        assert_eq!(upwards("/"), ["/"]);
    }

    #[test]
    fn what_is_below_is_found_in_order_and_nothing_else() {
        let tree = tree(&["/", "/a", "/a-b", "/a/b", "/a/b/c", "/ab", "/b"]);
        let below = |path: &str| {
            tree.below(Path::new(path)).map(|(path, _)| path.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(below("/a"), ["/a/b", "/a/b/c"]);
        assert_eq!(below("/").len(), 6);
        assert_eq!(below("/b"), [""; 0]);
    }

    proptest! {
        #[test]
        fn it_answers_as_paths_do(paths in proptest::collection::vec("(/[ab-]{1,2}){1,4}", 1..12), asked in "(/[ab-]{1,2}){1,4}") {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            let mut tree = Tree::default();
            for path in &paths {
                *tree.at(path) = path.clone();
            }
            let asked = Path::new(&asked);
            let upwards: Vec<&PathBuf> = tree.upwards(asked).collect();
            let expected: Vec<&Path> = asked.ancestors().filter(|above| paths.iter().any(|own| own.as_path() == *above)).collect();
            prop_assert_eq!(upwards, expected);
            let order: Vec<&Path> = tree.iter().map(|(path, _)| path).collect();
            let mut sorted = order.clone();
            sorted.sort();
            prop_assert_eq!(order, sorted);
        }
    }
}
