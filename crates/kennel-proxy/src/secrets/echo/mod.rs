//! Real values in what a server sends back: found, and shown as the stand-ins.
//!
//! The agent asked, the gate put the key in, and whoever echoes the request (an error page, a debugging endpoint, a model that
//! was told to repeat its headers) would hand the key to the agent. So responses of a host are searched for the values that the
//! host receives, and for no others.
//!
//! An agent can have a host send back what it chose, and watch. So what the search does may tell only whether a whole value was
//! there, which nobody guesses: where a stream is cut is decided by [`hold`], which knows no value, and the time of a search does
//! not depend on the value either ([`find`]).

mod decode;
mod find;
mod hold;
mod put;

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use zeroize::{Zeroize, Zeroizing};

use super::encodings;
use decode::{Kind, View};
use find::Finder;
use hold::Lines;

/// A shorter value is part of many texts.
const MIN: usize = 6;
/// A value has this many times its length in the longest form that is found in a stream that goes on: every character escaped, and
/// some of them twice.
const LONGEST_FORM: usize = 16;
/// No stream holds back more than twice this.
const MAX_HELD: usize = 128 << 10;

/// What is looked for in the responses of one host.
pub(crate) struct Echoes {
    stand_ins: Vec<Vec<u8>>,
    /// Of the values.
    lengths: Vec<usize>,
    /// Values as they are, and as they read once what looks like an escape in them is undone.
    line: Finder,
    /// By their letters' numbers from 0 to 63, three for each value: base64 at any place.
    base64: Finder,
    /// By their digits from 0 to 15.
    hex: Finder,
    /// What a stream may hold back.
    window: usize,
}

impl std::fmt::Debug for Echoes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Echoes").field("values", &self.stand_ins.len()).finish_non_exhaustive()
    }
}

/// How a value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Its characters, escaped or not.
    Line,
    /// Base64.
    Base64(Edges),
    Hex,
}

/// How a value stands in base64: the letters at its edges may hold bits of it and of its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edges {
    /// How many bytes stand before it in its group of three.
    before: usize,
    /// Whether the letter before those that depend on the value alone is part of the place.
    first: bool,
    /// How many bits of the letter behind them are the value's, which is part of the place then.
    last_bits: usize,
}

/// A value in a text.
#[derive(Debug)]
struct Match {
    place: Range<usize>,
    value: usize,
    form: Form,
}

/// A server that pauses for so long is taken to wait for the client: what was held back is handed on. Longer than TCP takes to
/// send a lost packet once more, so that an echo on its way is not cut there.
pub(crate) const PAUSE: Duration = Duration::from_millis(500);

/// A value spans what was handed on because the server had paused, and what came later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitEcho;

impl Echoes {
    /// Of values, each with its stand-in.
    pub(crate) fn new<'v>(values: impl IntoIterator<Item = (&'v [u8], &'v [u8])>) -> io::Result<Echoes> {
        let values: Vec<_> = values.into_iter().filter(|(value, _)| value.len() >= MIN).collect();
        let (mut line, mut base64, mut hex) = (Vec::new(), Vec::new(), Vec::new());
        let mut view = View::default();
        for (number, (value, _)) in values.iter().enumerate() {
            line.push((number, Zeroizing::new(value.to_vec())));
            view.read(value, Kind::Nested);
            if view.letters != *value && view.letters.len() >= MIN {
                line.push((number, Zeroizing::new(view.letters.clone())));
            }
            for before in 0..3 {
                let letters = encodings::base64_inside(value, before);
                base64.push((number * 3 + before, Zeroizing::new(letters)));
            }
            let nibbles = value.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
            hex.push((number, Zeroizing::new(nibbles)));
        }
        view.letters.zeroize();
        let finder = |texts: &[(usize, Zeroizing<Vec<u8>>)]| {
            let texts: Vec<(usize, &[u8])> =
                texts.iter().map(|(number, text)| (*number, text.as_slice())).collect();
            Finder::new(&texts)
        };
        // The stand-in's length is known to everybody inside. Classes, because one may be shorter or longer than its value.
        let longest = values.iter().map(|(value, stand_in)| value.len().max(stand_in.len())).max();
        let class = longest.unwrap_or(0).max(64).next_power_of_two();
        Ok(Echoes {
            stand_ins: values.iter().map(|(_, stand_in)| stand_in.to_vec()).collect(),
            lengths: values.iter().map(|(value, _)| value.len()).collect(),
            line: finder(&line)?,
            base64: finder(&base64)?,
            hex: finder(&hex)?,
            window: (class * LONGEST_FORM).min(MAX_HELD),
        })
    }

    /// Whether nothing is looked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.stand_ins.is_empty()
    }

    /// A whole text with stand-ins; `None` for one that holds no value.
    pub(crate) fn in_text(&self, text: &[u8]) -> Option<Vec<u8>> {
        let found = self.find(text);
        if found.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(text.len());
        self.write(text, 0..text.len(), &found, &mut out);
        Some(out)
    }

    /// Header fields of a response, or its trailers.
    pub(crate) fn fields(&self, fields: &mut HeaderMap) {
        if self.is_empty() {
            return;
        }
        for value in fields.values_mut() {
            if let Some(text) = self.in_text(value.as_bytes()) {
                *value = HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static(""));
            }
        }
        // Nobody needs a field whose name is a key.
        let telling: Vec<HeaderName> =
            fields.keys().filter(|name| self.in_text(name.as_str().as_bytes()).is_some()).cloned().collect();
        for name in telling {
            fields.remove(name);
        }
    }

    /// A stream of a response.
    pub(crate) fn stream(self: &Arc<Self>) -> EchoStream {
        EchoStream { echoes: Arc::clone(self), held: Vec::new(), sent: 0, found: false }
    }

    /// Every value in a text, by its place; none within another.
    fn find(&self, text: &[u8]) -> Vec<Match> {
        let mut found = Vec::new();
        if self.is_empty() {
            return found;
        }
        let mut search =
            Search { echoes: self, view: View::default(), letters: Letters::default(), found: &mut found };
        search.lines(text);
        search.spaced(text);
        found.sort_by_key(|one| (one.place.start, std::cmp::Reverse(one.place.end)));
        let mut end = 0;
        found.retain(|one| {
            let is_new = one.place.end > end;
            end = end.max(one.place.end);
            is_new
        });
        found
    }

    /// Writes part of a text. What overlaps goes with the value before it.
    fn write(&self, text: &[u8], part: Range<usize>, found: &[Match], out: &mut Vec<u8>) {
        let mut at = part.start;
        for one in found {
            if one.place.end <= at || one.place.start >= part.end {
                continue;
            }
            out.extend_from_slice(&text[at..one.place.start.max(at)]);
            put::put(one.form, &self.stand_ins[one.value], &text[one.place.clone()], out);
            at = one.place.end;
        }
        out.extend_from_slice(&text[at.min(part.end)..part.end]);
    }
}

/// Letters of base64 or digits, without what stands between.
#[derive(Default)]
struct Letters {
    codes: Vec<u8>,
    places: Vec<u32>,
}

impl Letters {
    fn push(&mut self, code: u8, place: usize) {
        self.codes.push(code);
        self.places.push(place as u32);
    }

    fn pop(&mut self) {
        self.codes.pop();
        self.places.pop();
    }

    fn clear(&mut self) {
        self.codes.clear();
        self.places.clear();
    }
}

struct Search<'e> {
    echoes: &'e Echoes,
    view: View,
    letters: Letters,
    found: &'e mut Vec<Match>,
}

impl Search<'_> {
    fn add(&mut self, place: Range<usize>, value: usize, form: Form) {
        self.found.push(Match { place, value, form });
    }

    /// Values in lines.
    fn lines(&mut self, text: &[u8]) {
        let finder = &self.echoes.line;
        let (least, mut from) = (finder.least(), 0);
        while let Some(run) = hold::next_run(text, from, least, hold::ends_line_form) {
            from = run.end;
            let mut places = Vec::new();
            finder.search(&text[run.clone()], |place, value| places.push((place, value)));
            for near in around_escapes(&text[run.clone()], finder.most()) {
                self.escaped(&text[run.clone()][near.clone()], near.start, &mut places);
            }
            for (place, value) in places {
                self.add(run.start + place.start..run.start + place.end, value, Form::Line);
            }
        }
    }

    /// Values with escapes in a part of a line.
    fn escaped(&mut self, part: &[u8], start: usize, places: &mut Vec<(Range<usize>, usize)>) {
        let finder = &self.echoes.line;
        let mut view = std::mem::take(&mut self.view);
        let mut search = |view: &View| {
            for near in around(&view.escaped, finder.most(), view.letters.len()) {
                finder.search(&view.letters[near.clone()], |place, value| {
                    let place = view.place(near.start + place.start..near.start + place.end);
                    places.push((start + place.start..start + place.end, value));
                });
            }
        };
        let has = |byte| memchr::memchr(byte, part).is_some();
        let single = [(b'\\', Kind::Json), (b'%', Kind::Percent), (b'&', Kind::Html)];
        let (mut count, mut again) = (0, has(0));
        for (_, kind) in single.into_iter().filter(|(byte, _)| has(*byte)) {
            view.read(part, kind);
            search(&view);
            count += 1;
            // What only now reads as an escape.
            again |= view.escaped.iter().any(|at| matches!(view.letters[*at as usize], b'\\' | b'%' | b'&'));
        }
        if again || count > 1 {
            view.read(part, Kind::Nested);
            search(&view);
        }
        self.view = view;
    }

    /// Base64 and hexadecimal digits.
    fn spaced(&mut self, text: &[u8]) {
        let least = self.echoes.base64.least().min(self.echoes.hex.least());
        let mut from = 0;
        while let Some(run) = hold::next_run(text, from, least, |byte| !hold::in_spaced_form(byte)) {
            from = run.end;
            let (mut start, mut lines) = (run.start, Lines::default());
            for at in run.clone() {
                if lines.is_empty_line(text[at]) {
                    self.spaced_run(&text[start..at], start);
                    start = at + 1;
                }
            }
            self.spaced_run(&text[start..run.end], start);
        }
    }

    fn spaced_run(&mut self, run: &[u8], start: usize) {
        if run.len() < self.echoes.base64.least().min(self.echoes.hex.least()) {
            return;
        }
        self.letters_of(run, start, None);
        if has_escapes(run) {
            let mut view = std::mem::take(&mut self.view);
            view.read(run, Kind::Nested);
            let letters = std::mem::take(&mut view.letters);
            self.letters_of(&letters, start, Some(&view));
            view.letters = letters;
            self.view = view;
        }
    }

    /// `start` is where the run is in the text; a view says where its letters are in the run.
    fn letters_of(&mut self, run: &[u8], start: usize, view: Option<&View>) {
        let is_base64 = |byte| {
            encodings::base64_number(byte).is_some() || matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0)
        };
        let mut from = 0;
        while let Some(part) = hold::next_run(run, from, self.echoes.base64.least(), |byte| !is_base64(byte))
        {
            from = part.end;
            let mut letters = std::mem::take(&mut self.letters);
            for at in part {
                if let Some(number) = encodings::base64_number(run[at]) {
                    letters.push(number, at);
                }
            }
            self.compare(&letters, start, view, false);
            letters.clear();
            self.letters = letters;
        }
        let is_hex = |byte: u8| {
            byte.is_ascii_hexdigit() || hold::separates(byte) || matches!(byte, b'-' | b'x' | b'X')
        };
        let mut from = 0;
        while let Some(part) = hold::next_run(run, from, self.echoes.hex.least(), |byte| !is_hex(byte)) {
            from = part.end;
            let mut letters = std::mem::take(&mut self.letters);
            for at in part {
                let byte = run[at];
                if let Some(digit) = char::from(byte).to_digit(16) {
                    letters.push(digit as u8, at);
                } else if matches!(byte, b'x' | b'X') {
                    // `0x41, 0x42`; by itself it is no part of such a text.
                    match at > 0 && run[at - 1] == b'0' && letters.places.last() == Some(&(at as u32 - 1)) {
                        true => letters.pop(),
                        false => {
                            self.compare(&letters, start, view, true);
                            letters.clear();
                        }
                    }
                }
            }
            self.compare(&letters, start, view, true);
            letters.clear();
            self.letters = letters;
        }
    }

    fn compare(&mut self, letters: &Letters, start: usize, view: Option<&View>, is_hex: bool) {
        let finder = if is_hex { &self.echoes.hex } else { &self.echoes.base64 };
        if letters.codes.len() < finder.least() {
            return;
        }
        let mut places = Vec::new();
        finder.search(&letters.codes, |place, number| places.push((place, number)));
        for (mut place, number) in places {
            let (value, form) = match is_hex {
                true => (number, Form::Hex),
                false => {
                    let (value, before) = (number / 3, number % 3);
                    let first = before > 0 && place.start > 0;
                    let bits = (before + self.echoes.lengths[value]) * 8 % 6;
                    let last_bits = if place.end < letters.codes.len() { bits } else { 0 };
                    place = place.start - usize::from(first)..place.end + usize::from(last_bits > 0);
                    (value, Form::Base64(Edges { before, first, last_bits }))
                }
            };
            let letter = |at: usize| {
                let at = letters.places[at] as usize;
                view.map_or(at..at + 1, |view| view.place_of(at))
            };
            self.add(start + letter(place.start).start..start + letter(place.end - 1).end, value, form);
        }
    }
}

fn has_escapes(text: &[u8]) -> bool {
    memchr::memchr3(b'\\', b'%', b'&', text).is_some() || memchr::memchr(0, text).is_some()
}

/// The parts of a line in which a value of at most this many letters would be if one of them is escaped.
fn around_escapes(line: &[u8], most: usize) -> Vec<Range<usize>> {
    let mut places: Vec<u32> = memchr::memchr3_iter(b'\\', b'%', b'&', line).map(|at| at as u32).collect();
    if memchr::memchr(0, line).is_some() {
        places.extend(memchr::memchr_iter(0, line).map(|at| at as u32));
        places.sort_unstable();
    }
    around(&places, most + decode::LONGEST, line.len())
}

/// What is less than so far from these places, in one part where they are near each other.
fn around(places: &[u32], far: usize, length: usize) -> Vec<Range<usize>> {
    let mut near: Vec<Range<usize>> = Vec::new();
    for place in places {
        let place = *place as usize;
        let (start, end) = ((place + 1).saturating_sub(far), (place + far).min(length));
        match near.last_mut() {
            Some(last) if last.end >= start => last.end = end,
            _ => near.push(start..end),
        }
    }
    near
}

/// One stream of a response.
pub(crate) struct EchoStream {
    echoes: Arc<Echoes>,
    held: Vec<u8>,
    /// So much of what is held was handed on already, since nothing had come for a while.
    sent: usize,
    found: bool,
}

impl Drop for EchoStream {
    fn drop(&mut self) {
        self.held.zeroize();
    }
}

impl EchoStream {
    /// What of the stream may be handed on, now that this part has come; `None` for the part as it is.
    pub(crate) fn push(&mut self, part: &[u8]) -> Result<Option<Vec<u8>>, SplitEcho> {
        if self.echoes.is_empty() {
            return Ok(None);
        }
        let window = self.echoes.window;
        if self.held.is_empty() && hold::open_from(part, window) == part.len() {
            let changed = self.echoes.in_text(part);
            self.found |= changed.is_some();
            return Ok(changed);
        }
        self.held.extend_from_slice(part);
        let mut upto = hold::open_from(&self.held, 2 * window);
        if self.held.len() - upto >= 2 * window {
            // Not at each byte: each time all of it is searched.
            upto = self.held.len() - window;
        }
        let mut out = Vec::new();
        self.release(upto, &mut out)?;
        Ok(Some(out))
    }

    /// Whether a value was in it so far.
    pub(crate) fn has_found(&self) -> bool {
        self.found
    }

    /// Whether something is held back.
    pub(crate) fn holds(&self) -> bool {
        self.held.len() > self.sent
    }

    /// The server has paused: what was held back is handed on. It is still remembered, so that a value of which this was the
    /// beginning ends the stream.
    pub(crate) fn paused(&mut self) -> Result<Vec<u8>, SplitEcho> {
        let mut out = Vec::new();
        let found = self.echoes.find(&self.held);
        self.refuse_split(&found)?;
        self.echoes.write(&self.held, self.sent..self.held.len(), &found, &mut out);
        self.sent = self.held.len();
        Ok(out)
    }

    /// What was held back, at the end of the stream or of a text in it. The next text may follow.
    pub(crate) fn finish(&mut self) -> Result<Vec<u8>, SplitEcho> {
        let mut out = Vec::new();
        self.release(self.held.len(), &mut out)?;
        Ok(out)
    }

    fn refuse_split(&mut self, found: &[Match]) -> Result<(), SplitEcho> {
        self.found |= !found.is_empty();
        let is_split = |one: &Match| one.place.start < self.sent && self.sent < one.place.end;
        if found.iter().any(is_split) { Err(SplitEcho) } else { Ok(()) }
    }

    /// Hands on all up to here, and the rest of a value that has begun before.
    fn release(&mut self, mut upto: usize, out: &mut Vec<u8>) -> Result<(), SplitEcho> {
        if upto == 0 {
            return Ok(());
        }
        let found = self.echoes.find(&self.held);
        self.refuse_split(&found)?;
        for one in &found {
            if one.place.start < upto {
                upto = upto.max(one.place.end);
            }
        }
        let from = self.sent.min(upto);
        self.echoes.write(&self.held, from..upto, &found, out);
        self.sent = self.sent.saturating_sub(upto);
        self.held[..upto].zeroize();
        self.held.drain(..upto);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
