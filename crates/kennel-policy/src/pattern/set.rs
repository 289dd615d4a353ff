//! Many patterns along one walk: what of them is still alive in a folder, and which match a name in it.
//!
//! A walk asks about every name that it sees. Asking each pattern about each name takes the product of the two numbers, and
//! a settings file can hold thousands of patterns. Here the patterns are advanced name by name, all together: what is alive
//! in a folder is a set of places within the patterns, most folders have the same set as the one above, and a set knows by
//! the name's text which of its places could take it. Only patterns with stars in the middle of a name are asked one by one.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{PathPattern, Segment, Token, components};

/// A pattern by its number, and how many of its segments have been used up.
type IndexedPlace = (u32, u32);

/// With fewer places than this, asking each is quicker than looking any up.
const FEW: usize = 8;

/// The patterns.
#[derive(Debug)]
pub struct PatternSet<'a> {
    patterns: Vec<&'a PathPattern>,
    known: Mutex<HashMap<Box<[IndexedPlace]>, Arc<Alive>>>,
}

/// What is alive in a folder.
#[derive(Debug)]
pub struct Alive {
    /// In order, each once.
    places: Box<[IndexedPlace]>,
    /// Patterns that match whatever name comes: they end in `**`.
    always: Box<[u32]>,
    index: Index,
    /// What is alive in a folder of whose name no place takes notice.
    below: OnceLock<Below>,
}

/// What is alive one level down, if the name there is no pattern's.
#[derive(Debug)]
enum Below {
    Same,
    Other(Arc<Alive>),
}

/// Places by the bytes of a name, or of a part of it.
type ByBytes = HashMap<Box<[u8]>, Vec<u32>>;

/// Which places could take a name, as numbers of [`Alive::places`].
#[derive(Debug, Default)]
struct Index {
    /// By the whole name.
    literal: ByBytes,
    /// By its end: for each length, by the bytes.
    ends: Vec<(usize, ByBytes)>,
    /// By its start.
    starts: Vec<(usize, ByBytes)>,
    /// Have to be asked.
    others: Vec<u32>,
}

/// What a name leads to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PatternMatches {
    /// The patterns that match, by their numbers, each once.
    pub matched: Vec<usize>,
    /// Places that come on top of what is alive below any name.
    advanced: Vec<IndexedPlace>,
}

impl<'a> PatternSet<'a> {
    /// A set of these, which are known by their numbers from then on.
    #[must_use]
    pub fn new(patterns: &[&'a PathPattern]) -> PatternSet<'a> {
        PatternSet { patterns: patterns.to_vec(), known: Mutex::default() }
    }

    /// What is alive in a folder, and which patterns match the folder itself.
    #[must_use]
    pub fn at(&self, folder: &Path) -> (Arc<Alive>, Vec<usize>) {
        let mut places = Vec::new();
        let mut matched = Vec::new();
        for pattern in 0..self.patterns.len() as u32 {
            self.arrive((pattern, 0), &mut places, &mut matched);
        }
        let mut alive = self.known(places);
        for name in components(folder) {
            let looked = self.look(&alive, name);
            alive = self.below(&alive, &looked);
            matched = looked.matched;
        }
        (alive, matched)
    }

    /// What a name in a folder leads to.
    #[must_use]
    pub fn look(&self, alive: &Alive, name: &[u8]) -> PatternMatches {
        let mut looked = PatternMatches::default();
        let mut take = |numbers: &[u32]| {
            for number in numbers {
                let (pattern, used) = alive.places[*number as usize];
                if self.segment((pattern, used)).is_some_and(|segment| segment.matches(name)) {
                    self.arrive((pattern, used + 1), &mut looked.advanced, &mut looked.matched);
                }
            }
        };
        let Index { literal, ends, starts, others } = &alive.index;
        if let Some(numbers) = literal.get(name).filter(|_| !literal.is_empty()) {
            take(numbers);
        }
        for (length, by_bytes) in ends {
            let end = name.len().checked_sub(*length).and_then(|from| by_bytes.get(&name[from..]));
            end.into_iter().for_each(|numbers| take(numbers));
        }
        for (length, by_bytes) in starts {
            let start = name.get(..*length).and_then(|start| by_bytes.get(start));
            start.into_iter().for_each(|numbers| take(numbers));
        }
        take(others);
        looked.matched.extend(alive.always.iter().map(|pattern| *pattern as usize));
        if looked.matched.len() > 1 {
            looked.matched.sort_unstable();
            looked.matched.dedup();
        }
        looked
    }

    /// What is alive in a folder of that name.
    #[must_use]
    pub fn below(&self, alive: &Arc<Alive>, looked: &PatternMatches) -> Arc<Alive> {
        let stay = || alive.places.iter().filter(|place| self.segment(**place) == Some(&Segment::AnyDepth));
        if looked.advanced.is_empty() {
            let below = alive.below.get_or_init(|| {
                let mut places = Vec::new();
                stay().for_each(|place| self.arrive(*place, &mut places, &mut Vec::new()));
                let below = self.known(places);
                if Arc::ptr_eq(&below, alive) { Below::Same } else { Below::Other(below) }
            });
            return match below {
                Below::Same => Arc::clone(alive),
                Below::Other(below) => Arc::clone(below),
            };
        }
        let mut places = looked.advanced.clone();
        stay().for_each(|place| self.arrive(*place, &mut places, &mut Vec::new()));
        self.known(places)
    }

    /// Comes to a place, and to the one behind a `**`; or to the end, which is a match.
    fn arrive(
        &self,
        (pattern, used): IndexedPlace,
        places: &mut Vec<IndexedPlace>,
        matched: &mut Vec<usize>,
    ) {
        match self.segment((pattern, used)) {
            None => matched.push(pattern as usize),
            Some(segment) => {
                places.push((pattern, used));
                if *segment == Segment::AnyDepth {
                    self.arrive((pattern, used + 1), places, matched);
                }
            }
        }
    }

    fn segment(&self, (pattern, used): IndexedPlace) -> Option<&Segment> {
        self.patterns[pattern as usize].segments.get(used as usize)
    }

    /// The one value for these places.
    fn known(&self, mut places: Vec<IndexedPlace>) -> Arc<Alive> {
        places.sort_unstable();
        places.dedup();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(alive) = known.get(places.as_slice()) {
            return Arc::clone(alive);
        }
        let places: Box<[IndexedPlace]> = places.into();
        let alive = Arc::new(self.alive(places.clone()));
        known.insert(places, Arc::clone(&alive));
        alive
    }

    fn alive(&self, places: Box<[IndexedPlace]>) -> Alive {
        let last = |(pattern, used): &&IndexedPlace| {
            let left = &self.patterns[*pattern as usize].segments[*used as usize..];
            left == [Segment::AnyDepth]
        };
        let always = places.iter().filter(last).map(|(pattern, _)| *pattern).collect();
        let mut index = Index::default();
        for (number, place) in places.iter().enumerate() {
            let number = number as u32;
            match self.segment(*place) {
                None | Some(Segment::AnyDepth) => {}
                Some(Segment::Literal(name)) if places.len() > FEW => {
                    index.literal.entry(name.clone()).or_default().push(number);
                }
                Some(Segment::Glob(tokens)) if places.len() > FEW => index.glob(tokens, number),
                Some(_) => index.others.push(number),
            }
        }
        Alive { places, always, index, below: OnceLock::new() }
    }

    /// What is alive in a folder further down.
    #[must_use]
    pub fn further(&self, alive: &Arc<Alive>, way: &Path) -> Arc<Alive> {
        components(way).fold(Arc::clone(alive), |alive, name| self.below(&alive, &self.look(&alive, name)))
    }

    /// The places that are alive, as a pattern's number and its position.
    pub fn places(alive: &Alive) -> impl Iterator<Item = (usize, usize)> {
        alive.places.iter().map(|(pattern, used)| (*pattern as usize, *used as usize))
    }
}

impl Index {
    /// Text and one star, at the start or at the end, can be looked up.
    fn glob(&mut self, tokens: &[Token], number: u32) {
        let (table, text) = match tokens {
            [Token::Run, text @ ..] if bytes(text).is_some() => (&mut self.ends, bytes(text)),
            [text @ .., Token::Run] if bytes(text).is_some() => (&mut self.starts, bytes(text)),
            _ => return self.others.push(number),
        };
        let text = text.unwrap_or_default();
        if text.is_empty() {
            return self.others.push(number);
        }
        match table.iter_mut().find(|(length, _)| *length == text.len()) {
            Some((_, by_bytes)) => by_bytes.entry(text.into()).or_default().push(number),
            None => table.push((text.len(), HashMap::from([(text.into(), vec![number])]))),
        }
    }
}

/// The bytes of tokens that are all plain characters.
fn bytes(tokens: &[Token]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for token in tokens {
        let Token::Unit(unit) = token else { return None };
        match char::from_u32(*unit) {
            Some(character) => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            None => bytes.push((unit - u32::from(char::MAX) - 1) as u8),
        }
    }
    Some(bytes)
}

impl PatternMatches {
    /// How much work the name made, besides asking: a set that differs from the one above has to be put together.
    #[must_use]
    pub fn cost(&self, alive: &Alive) -> usize {
        if self.advanced.is_empty() { 0 } else { 8 * (self.advanced.len() + alive.places.len()) }
    }
}

impl Alive {
    /// Whether nothing below can match.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The patterns of which something is alive, each once.
    #[must_use]
    pub fn patterns(&self) -> Vec<usize> {
        let mut patterns: Vec<usize> = self.places.iter().map(|(pattern, _)| *pattern as usize).collect();
        patterns.dedup();
        patterns
    }

    /// How much work it is to ask about a name, compared with the least.
    #[must_use]
    pub fn cost(&self) -> usize {
        1 + self.index.others.len() + self.index.ends.len() + self.index.starts.len() + self.always.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;

    fn patterns(texts: &[String]) -> Vec<PathPattern> {
        texts.iter().map(|text| PathPattern::parse(text).unwrap()).collect()
    }

    /// What a walk along a path would be told, at each of its folders.
    fn walked(set: &PatternSet, path: &Path) -> Vec<usize> {
        set.at(path).1
    }

    #[test]
    fn folders_that_no_pattern_names_share_one_set() {
        let patterns = patterns(&["/a/**/*.key".into(), "/a/**/secret/x".into()]);
        let references: Vec<&PathPattern> = patterns.iter().collect();
        let set = PatternSet::new(&references);
        let (top, _) = set.at(Path::new("/a"));
        for path in ["/a/b", "/a/b/c", "/a/x.key"] {
            assert!(Arc::ptr_eq(&set.at(Path::new(path)).0, &top), "{path}");
        }
        assert_eq!(set.at(Path::new("/a/secret")).0.places.len(), top.places.len() + 1);
        assert!(set.at(Path::new("/b")).0.is_empty());
        assert_eq!(set.look(&top, b"y.key").matched, [0]);
    }

    #[test]
    fn thousands_of_patterns_cost_no_more_than_a_few() {
        let texts: Vec<String> = (0..20_000)
            .map(|number| match number % 3 {
                0 => format!("/**/name-{number}"),
                1 => format!("/**/*.end{number}"),
                _ => format!("/**/start{number}*"),
            })
            .collect();
        let patterns = patterns(&texts);
        let references: Vec<&PathPattern> = patterns.iter().collect();
        let set = PatternSet::new(&references);
        let (top, _) = set.at(Path::new("/"));
        assert!(top.cost() < 20, "{}", top.cost());
        assert_eq!(set.look(&top, b"name-9999").matched, [9999]);
        assert_eq!(set.look(&top, b"a.end10000").matched, [10_000]);
        assert_eq!(set.look(&top, b"start5x").matched, [5]);
        assert_eq!(
            set.look(&top, b"start500").matched,
            [5, 50, 500].iter().copied().filter(|n| n % 3 == 2).collect::<Vec<_>>()
        );
    }

    fn component() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => "[abcé]",
            2 => Just("*".to_owned()),
            1 => Just("?".to_owned()),
            1 => Just("[a-b]".to_owned()),
        ];
        prop_oneof![
            4 => proptest::collection::vec(piece, 1..4).prop_map(|p| p.concat()),
            2 => "\\*[abé]{1,2}",
            2 => "[abé]{1,2}\\*",
            1 => Just("**".to_owned())
        ]
    }

    proptest! {
        #[test]
        fn a_set_matches_what_its_patterns_match(
            texts in proptest::collection::vec(proptest::collection::vec(component(), 1..4), 1..24),
            path in proptest::collection::vec("[abcé]{1,3}", 0..6),
        ) {
            let texts: Vec<String> = texts.iter().map(|parts| format!("/{}", parts.join("/"))).collect();
            let patterns = patterns(&texts);
            let references: Vec<&PathPattern> = patterns.iter().collect();
            let set = PatternSet::new(&references);
            let path: PathBuf = std::iter::once("/").chain(path.iter().map(String::as_str)).collect();
            let expected: Vec<usize> = (0..patterns.len()).filter(|n| patterns[*n].matches(&path)).collect();
            prop_assert_eq!(walked(&set, &path), expected);
            let alive: Vec<usize> = (0..patterns.len()).filter(|n| patterns[*n].could_match_below(&path)).collect();
            let told = set.at(&path).0.patterns();
            // The set is more exact: it may know earlier that nothing below can match.
            prop_assert!(told.iter().all(|n| alive.contains(n)), "{:?} {:?}", told, alive);
        }

        #[test]
        #[cfg(unix)]
        fn bytes_that_are_no_text_are_looked_up_as_well(
            texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..4), 9..16),
            name in proptest::collection::vec(any::<u8>(), 1..6),
        ) {
            use std::ffi::OsStr;
            use std::os::unix::ffi::OsStrExt;
            let plain = |bytes: &[u8]| bytes.iter().all(|byte| !b"/\0*?[.".contains(byte));
            prop_assume!(plain(&name));
            let mut patterns = Vec::new();
            for text in texts.iter().filter(|text| plain(text)) {
                for pattern in [[b"/*", &text[..]].concat(), [b"/", &text[..], b"*"].concat()] {
                    patterns.extend(PathPattern::parse(OsStr::from_bytes(&pattern)));
                }
            }
            let references: Vec<&PathPattern> = patterns.iter().collect();
            let set = PatternSet::new(&references);
            let path = Path::new("/").join(OsStr::from_bytes(&name));
            let expected: Vec<usize> = (0..patterns.len()).filter(|n| patterns[*n].matches(&path)).collect();
            prop_assert_eq!(walked(&set, &path), expected);
        }
    }
}
