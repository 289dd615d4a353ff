//! Replacing texts in a stream, wherever it is cut.
//!
//! What comes out does not depend on how the stream came in parts: a place is decided when nothing that could still come would
//! decide it otherwise. Held back is only what may be the beginning of a text that is looked for, so that an event of a
//! stream that holds none passes at once and whole. What was put in is never searched again.

use std::io;
use std::ops::Range;

use memchr::memmem;
use zeroize::Zeroize;

use super::locked::Locked;

/// What is looked for, and what is put in its place. Either may be a secret.
#[derive(Clone)]
pub struct Pair {
    /// Never empty.
    pub find: Vec<u8>,
    /// May have another length.
    pub put: Vec<u8>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.find.zeroize();
        self.put.zeroize();
    }
}

/// All that is looked for, to be shared by many streams.
pub struct Replacements {
    /// Where the texts of each pair are.
    pairs: Vec<Places>,
    texts: Locked,
    longest: usize,
}

struct Places {
    find: Range<usize>,
    put: Range<usize>,
}

impl std::fmt::Debug for Replacements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replacements").field("texts", &self.pairs.len()).finish_non_exhaustive()
    }
}

impl Replacements {
    /// Of texts that are the same the first counts; empty ones are left out.
    ///
    /// # Errors
    /// When the system has no memory.
    pub fn new(pairs: impl IntoIterator<Item = Pair>) -> io::Result<Replacements> {
        let mut kept: Vec<Pair> = Vec::new();
        for pair in pairs {
            if !pair.find.is_empty() && kept.iter().all(|other| other.find != pair.find) {
                kept.push(pair);
            }
        }
        let mut texts = Locked::new(kept.iter().map(|pair| pair.find.len() + pair.put.len()).sum())?;
        let (mut places, mut end) = (Vec::with_capacity(kept.len()), 0);
        let mut store = |text: &[u8]| {
            let place = end..end + text.len();
            texts[place.clone()].copy_from_slice(text);
            end = place.end;
            place
        };
        for pair in &kept {
            places.push(Places { find: store(&pair.find), put: store(&pair.put) });
        }
        let longest = kept.iter().map(|pair| pair.find.len()).max().unwrap_or(0);
        Ok(Replacements { pairs: places, texts, longest })
    }

    fn find(&self, which: usize) -> &[u8] {
        &self.texts[self.pairs[which].find.clone()]
    }

    fn put(&self, which: usize) -> &[u8] {
        &self.texts[self.pairs[which].put.clone()]
    }

    fn finds(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.pairs.len()).map(|which| self.find(which))
    }

    /// Whether nothing is looked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Whether a whole text holds one of them.
    #[must_use]
    pub fn occur_in(&self, text: &[u8]) -> bool {
        self.finds().any(|find| memmem::find(text, find).is_some())
    }

    /// A whole text, replaced; and how many places were.
    #[must_use]
    pub fn in_text(&self, text: &[u8]) -> (Vec<u8>, usize) {
        let mut stream = Stream::default();
        let mut out = Vec::with_capacity(text.len());
        stream.push(self, text, &mut out);
        stream.finish(self, &mut out);
        (out, stream.replaced)
    }

    /// Where the first text starts, and which: of those that start there, the longest.
    fn first(&self, text: &[u8], next: &mut [Next]) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize)> = None;
        for (index, next) in next.iter_mut().enumerate() {
            let find = self.find(index);
            // Found before, and not passed by yet.
            let at = match *next {
                Next::At(at) => Some(at),
                Next::Nowhere => None,
                Next::Unknown(from) => {
                    let found = memmem::find(&text[from..], find).map(|at| at + from);
                    *next = found.map_or(Next::Nowhere, Next::At);
                    found
                }
            };
            let Some(at) = at else { continue };
            let better = best.is_none_or(|(other, which)| {
                at < other || at == other && find.len() > self.find(which).len()
            });
            if better {
                best = Some((at, index));
            }
        }
        best
    }

    /// From where on the end of a text may be the beginning of one that is looked for; its length if nowhere.
    fn undecided(&self, text: &[u8], from: usize) -> usize {
        let start = from.max((text.len() + 1).saturating_sub(self.longest));
        let begins = |at: usize| {
            let end = &text[at..];
            self.finds().any(|find| find.len() > end.len() && find.starts_with(end))
        };
        (start..text.len()).find(|at| begins(*at)).unwrap_or(text.len())
    }
}

/// What is known of where a text is next.
#[derive(Clone, Copy)]
enum Next {
    At(usize),
    Nowhere,
    /// From here on nobody has looked.
    Unknown(usize),
}

/// One stream.
#[derive(Default)]
pub struct Stream {
    held: Vec<u8>,
    /// How many places were replaced.
    pub replaced: usize,
    /// The pair that was replaced last, by its number among those that are kept.
    pub last: Option<usize>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.held.zeroize();
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("held", &self.held.len()).field("replaced", &self.replaced).finish()
    }
}

impl Stream {
    /// Takes a part, and adds to `out` what is decided now.
    pub fn push(&mut self, all: &Replacements, part: &[u8], out: &mut Vec<u8>) {
        if all.is_empty() {
            return out.extend_from_slice(part);
        }
        if self.held.is_empty() {
            let used = self.decide(all, part, out, false);
            self.held.extend_from_slice(&part[used..]);
            return;
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(part);
        let used = self.decide(all, &text, out, false);
        self.held.extend_from_slice(&text[used..]);
        text.zeroize();
    }

    /// The end: nothing more comes.
    pub fn finish(&mut self, all: &Replacements, out: &mut Vec<u8>) {
        let mut text = std::mem::take(&mut self.held);
        self.decide(all, &text, out, true);
        text.zeroize();
    }

    /// Whether a part passes as it is: nothing is held back, and nothing in it is looked for or may be the beginning of it.
    #[must_use]
    pub fn passes(&self, all: &Replacements, part: &[u8]) -> bool {
        self.held.is_empty() && all.undecided(part, 0) == part.len() && !all.occur_in(part)
    }

    /// How many bytes are held back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns how much of the text was decided.
    fn decide(&mut self, all: &Replacements, text: &[u8], out: &mut Vec<u8>, is_end: bool) -> usize {
        let mut next = vec![Next::Unknown(0); all.pairs.len()];
        let mut at = 0;
        loop {
            let undecided = if is_end { text.len() } else { all.undecided(text, at) };
            let Some((start, which)) = all.first(text, &mut next).filter(|(start, _)| *start < undecided)
            else {
                out.extend_from_slice(&text[at..undecided]);
                return undecided;
            };
            out.extend_from_slice(&text[at..start]);
            out.extend_from_slice(all.put(which));
            self.replaced += 1;
            self.last = Some(which);
            at = start + all.find(which).len();
            for next in &mut next {
                if matches!(*next, Next::At(place) if place < at) {
                    *next = Next::Unknown(at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn replacements(pairs: &[(&str, &str)]) -> Replacements {
        let pair = |(find, put): &(&str, &str)| Pair { find: (*find).into(), put: (*put).into() };
        Replacements::new(pairs.iter().map(pair)).unwrap()
    }

    /// The meaning, without any cleverness.
    fn plain(pairs: &[(Vec<u8>, Vec<u8>)], text: &[u8]) -> Vec<u8> {
        let (mut out, mut at) = (Vec::new(), 0);
        while at < text.len() {
            let mut here = pairs.iter().filter(|(find, _)| !find.is_empty() && text[at..].starts_with(find));
            // Of equal ones the first: `max_by_key` would take the last.
            let first = here.next();
            let best = here.fold(first, |best, one| match best {
                Some(best) if one.0.len() <= best.0.len() => Some(best),
                _ => Some(one),
            });
            match best {
                Some((find, put)) => {
                    out.extend_from_slice(put);
                    at += find.len();
                }
                None => {
                    out.push(text[at]);
                    at += 1;
                }
            }
        }
        out
    }

    #[test]
    fn a_text_that_is_cut_anywhere_is_replaced() {
        let all = replacements(&[("secret", "x"), ("secrets", "yy"), ("et", "z")]);
        assert_eq!(all.in_text(b"a secret, secrets, met").0, b"a x, yy, mz");
        let mut stream = Stream::default();
        let mut out = Vec::new();
        stream.push(&all, b"a sec", &mut out);
        assert_eq!((out.as_slice(), stream.held()), (&b"a "[..], 3));
        stream.push(&all, b"ret", &mut out);
        assert_eq!(out, b"a ", "it could still become the longer one");
        stream.push(&all, b"!", &mut out);
        assert_eq!(out, b"a x!");
    }

    #[test]
    fn what_holds_no_beginning_of_one_passes_at_once() {
        let all = replacements(&[("sk-real-key", "sk-stand-in")]);
        let mut out = Vec::new();
        let mut stream = Stream::default();
        stream.push(&all, b"data: {\"text\": \"hello\"}\n\n", &mut out);
        assert_eq!((out.as_slice(), stream.held()), (&b"data: {\"text\": \"hello\"}\n\n"[..], 0));
    }

    #[test]
    fn what_was_put_in_is_not_searched() {
        assert_eq!(replacements(&[("a", "ab"), ("b", "c")]).in_text(b"ab").0, b"abc");
    }

    #[test]
    fn debug_output_shows_nothing() {
        let all = replacements(&[("hunter2", "x")]);
        let mut stream = Stream::default();
        stream.push(&all, b"hunter", &mut Vec::new());
        let text = format!("{all:?} {stream:?}");
        assert!(!text.contains("hunter") && !text.contains("104"), "{text}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn the_result_is_the_same_however_the_stream_is_cut(
            pairs in vec((vec(0u8..3, 0..6), vec(0u8..4, 0..4)), 0..5),
            text in vec(0u8..3, 0..60),
            cuts in vec(1usize..9, 1..20),
        ) {
            let all = Replacements::new(pairs.iter().map(|(find, put)| Pair { find: find.clone(), put: put.clone() })).unwrap();
            let wanted = plain(&pairs, &text);
            prop_assert_eq!(&all.in_text(&text).0, &wanted);
            let mut stream = Stream::default();
            let (mut out, mut rest, mut cuts) = (Vec::new(), &text[..], cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (part, after) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                stream.push(&all, part, &mut out);
                prop_assert!(stream.held() < 6, "no more than a beginning is held back");
                rest = after;
            }
            stream.finish(&all, &mut out);
            prop_assert_eq!(out, wanted);
        }
    }
}
