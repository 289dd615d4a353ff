//! Replacing texts in a stream: the same result however it is cut, and nothing of what is looked for left in it.
#![no_main]

use kennel_proxy::secrets::{Pair, Replacements, Stream};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    parts: Vec<Vec<u8>>,
}

fuzz_target!(|input: Input| {
    let pairs = input.pairs.into_iter().take(8).map(|(find, put)| Pair { find, put });
    let Ok(all) = Replacements::new(pairs) else { return };
    let whole = input.parts.concat();
    let (at_once, replaced) = all.in_text(&whole);
    let (mut stream, mut out) = (Stream::default(), Vec::new());
    for part in &input.parts {
        if stream.passes(&all, part) {
            let before = out.len();
            stream.push(&all, part, &mut out);
            assert_eq!(&out[before..], part, "what passes is not changed");
        } else {
            stream.push(&all, part, &mut out);
        }
    }
    stream.finish(&all, &mut out);
    assert_eq!(out, at_once);
    assert_eq!(stream.replaced, replaced);
});
