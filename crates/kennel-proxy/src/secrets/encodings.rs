//! The ways in which a text comes back: as it is, in base64 at any place, in hexadecimal digits, escaped for addresses and for
//! JSON.

use zeroize::Zeroizing;

use super::replace::Pair;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// A shorter text is part of many others.
const MIN: usize = 6;

/// Pairs that put `put` for `find` in every encoding.
pub(super) fn pairs(find: &[u8], put: &[u8]) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut add = |find: Vec<u8>, put: Vec<u8>| {
        if find.len() >= MIN && pairs.iter().all(|pair| pair.find != find) {
            pairs.push(Pair { find, put });
        } else {
            drop(Zeroizing::new(find));
        }
    };
    add(find.to_vec(), put.to_vec());
    for alphabet in [BASE64, BASE64_URL] {
        for before in 0..3 {
            add(middle(find, before, alphabet), middle(put, before, alphabet));
        }
    }
    for digits in [&b"0123456789ABCDEF"[..], b"0123456789abcdef"] {
        for needs in [NEEDS_ESCAPE, NEEDS_FORM_ESCAPE, NEEDS_PATH_ESCAPE, ALL] {
            add(percent(find, digits, needs), percent(put, digits, needs));
        }
        add(hex(find, digits), hex(put, digits));
        add(unicode(find, digits), unicode(put, digits));
    }
    for slash in [false, true] {
        add(json(find, slash), json(put, slash));
    }
    pairs
}

/// The letters of base64 that depend on this text alone, where so many bytes stand before it.
fn middle(text: &[u8], before: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let mut bits = Vec::with_capacity(text.len() + before);
    bits.resize(before, 0);
    bits.extend_from_slice(text);
    let bits = Zeroizing::new(bits);
    // The first letter that holds no bit of what stands before, and the first that holds one of what stands behind.
    let (first, end) = ((before * 8).div_ceil(6), bits.len() * 8 / 6);
    let letter = |place: usize| {
        let bit = place * 6;
        let pair = u16::from(bits[bit / 8]) << 8 | u16::from(bits.get(bit / 8 + 1).copied().unwrap_or(0));
        alphabet[usize::from(pair >> (10 - bit % 8) & 63)]
    };
    (first..end).map(letter).collect()
}

/// The numbers, from 0 to 63, of the letters of base64 that depend on this text alone, where so many bytes stand before it.
pub(super) fn base64_inside(text: &[u8], before: usize) -> Vec<u8> {
    middle(text, before, &std::array::from_fn(|number| number as u8))
}

/// The number of a letter of base64, in either alphabet.
pub(super) fn base64_number(letter: u8) -> Option<u8> {
    Some(NUMBERS[usize::from(letter)]).filter(|number| *number < 64)
}

/// By letters; 64 for what is none.
const NUMBERS: [u8; 256] = {
    let mut numbers = [64; 256];
    let mut number = 0;
    while number < 64 {
        numbers[BASE64[number] as usize] = number as u8;
        numbers[BASE64_URL[number] as usize] = number as u8;
        number += 1;
    }
    numbers
};

/// The letter of a number.
pub(super) fn base64_letter(number: u8) -> u8 {
    BASE64[usize::from(number & 63)]
}

type Needs = fn(u8) -> bool;
const NEEDS_ESCAPE: Needs = |byte| !(byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
/// `encodeURIComponent` and forms.
const NEEDS_FORM_ESCAPE: Needs = |byte| !(byte.is_ascii_alphanumeric() || b"-._~!'()*".contains(&byte));
/// What may stand in a path as it is.
const NEEDS_PATH_ESCAPE: Needs =
    |byte| !(byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte));
const ALL: Needs = |_| true;

fn percent(text: &[u8], digits: &[u8], needs: Needs) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 3);
    for byte in text {
        match needs(*byte) {
            true => out.extend([b'%', digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]),
            false => out.push(*byte),
        }
    }
    out
}

/// A value as it stands in an address.
pub(super) fn for_address(text: &[u8]) -> Vec<u8> {
    percent(text, b"0123456789ABCDEF", NEEDS_ESCAPE)
}

/// A value as it stands in a text of JSON.
pub(super) fn for_json(text: &[u8]) -> Vec<u8> {
    json(text, false)
}

fn hex(text: &[u8], digits: &[u8]) -> Vec<u8> {
    text.iter().flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]).collect()
}

/// JSON with every character escaped.
fn unicode(text: &[u8], digits: &[u8]) -> Vec<u8> {
    let one = |byte: &u8| {
        let (high, low) = (digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]);
        [b'\\', b'u', b'0', b'0', high, low]
    };
    text.iter().flat_map(one).collect()
}

fn json(text: &[u8], slash: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if matches!(byte, b'"' | b'\\') || slash && *byte == b'/' {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::replace::Replacements;
    use super::*;

    fn encode(bytes: &[u8], alphabet: &[u8; 64]) -> Vec<u8> {
        let mut padded = bytes.to_vec();
        padded.extend([0; 3]);
        let mut text = middle(&padded, 0, alphabet);
        text.truncate((bytes.len() * 8).div_ceil(6));
        text
    }

    #[test]
    fn base64_is_base64() {
        assert_eq!(encode(b"hello, world", BASE64), b"aGVsbG8sIHdvcmxk");
        assert_eq!(encode(b"a", BASE64), b"YQ");
    }

    proptest! {
        #[test]
        fn a_text_is_found_in_base64_wherever_it_stands(
            before in proptest::collection::vec(any::<u8>(), 0..7),
            secret in "[!-~]{8,40}",
            behind in proptest::collection::vec(any::<u8>(), 0..7),
            url in any::<bool>(),
        ) {
            let all = Replacements::new(pairs(secret.as_bytes(), b"the stand-in")).unwrap();
            let whole = [&before[..], secret.as_bytes(), &behind[..]].concat();
            let text = encode(&whole, if url { BASE64_URL } else { BASE64 });
            prop_assert!(all.occur_in(&text));
        }

        #[test]
        fn escapes_are_found(secret in "[ -~]{8,40}") {
            let all = Replacements::new(pairs(secret.as_bytes(), b"the stand-in")).unwrap();
            let json = serde_json::to_string(&secret).unwrap();
            prop_assert!(all.occur_in(json.as_bytes()));
            prop_assert!(all.occur_in(&percent(secret.as_bytes(), b"0123456789abcdef", NEEDS_ESCAPE)));
            prop_assert!(all.occur_in(&hex(secret.as_bytes(), b"0123456789ABCDEF")));
        }
    }
}
