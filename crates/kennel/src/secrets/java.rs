//! A trust store for Java, which reads no PEM: the same certificates as PKCS #12 (RFC 7292), neither encrypted nor signed, because
//! certificates are no secret and nobody inside can write the file.

/// Java asks for one, and does not check it where nothing is signed.
pub(crate) const PASSWORD: &str = "changeit";

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
/// `[0]`, with something in it.
const EXPLICIT: u8 = 0xa0;
const UTF16: u8 = 0x1e;

/// 1.2.840.113549.1.7.1
const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
/// 1.2.840.113549.1.12.10.1.3
const CERTIFICATE_BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x03];
/// 1.2.840.113549.1.9.22.1
const X509: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x16, 0x01];
/// 1.2.840.113549.1.9.20
const NAME: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x14];
/// 2.16.840.1.113894.746875.1.1: to Java, a certificate without it is nobody's authority.
const TRUSTED: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x86, 0xf9, 0x66, 0xad, 0xca, 0x7b, 0x01, 0x01];
/// 2.5.29.37.0: for every use.
const ANY_USE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];

/// The certificates of a PEM text as a trust store.
pub(crate) fn store(pem: &str) -> Vec<u8> {
    let mut bags = Vec::with_capacity(pem.len());
    for (number, certificate) in certificates(pem).enumerate() {
        bags.extend_from_slice(&bag(number, &certificate));
    }
    // What stands around them, from the inside out, so that the bags themselves are copied once: a `SafeContents` in a
    // `ContentInfo`, in the `AuthenticatedSafe`, in a `ContentInfo`, in the whole with its version.
    let data = tagged(OID, DATA);
    let around: [(u8, &[u8]); 9] = [
        (SEQUENCE, &[]),
        (OCTETS, &[]),
        (EXPLICIT, &[]),
        (SEQUENCE, &data),
        (SEQUENCE, &[]),
        (OCTETS, &[]),
        (EXPLICIT, &[]),
        (SEQUENCE, &data),
        (SEQUENCE, &[0x02, 0x01, 0x03]),
    ];
    let mut front = Vec::new();
    for (tag, before) in around {
        let mut outer = header(tag, before.len() + front.len() + bags.len());
        outer.extend_from_slice(before);
        outer.extend_from_slice(&front);
        front = outer;
    }
    front.extend_from_slice(&bags);
    front
}

fn bag(number: usize, certificate: &[u8]) -> Vec<u8> {
    let value = [tagged(OID, X509), tagged(EXPLICIT, &tagged(OCTETS, certificate))].concat();
    let name: Vec<u8> = format!("kennel-{number}").encode_utf16().flat_map(u16::to_be_bytes).collect();
    let attribute =
        |kind: &[u8], value: Vec<u8>| tagged(SEQUENCE, &[tagged(OID, kind), tagged(SET, &value)].concat());
    let attributes =
        [attribute(NAME, tagged(UTF16, &name)), attribute(TRUSTED, tagged(OID, ANY_USE))].concat();
    let parts =
        [tagged(OID, CERTIFICATE_BAG), tagged(EXPLICIT, &tagged(SEQUENCE, &value)), tagged(SET, &attributes)];
    tagged(SEQUENCE, &parts.concat())
}

/// A value of DER.
fn tagged(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut out = header(tag, contents.len());
    out.extend_from_slice(contents);
    out
}

/// The beginning of a value of DER that has so many bytes.
fn header(tag: u8, length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(6);
    out.push(tag);
    match length {
        short @ 0..128 => out.push(short as u8),
        long => {
            let bytes = long.to_be_bytes();
            let bytes = &bytes[(long.leading_zeros() / 8) as usize..];
            out.push(0x80 | bytes.len() as u8);
            out.extend_from_slice(bytes);
        }
    }
    out
}

/// The certificates of a PEM text. What is none is left out.
fn certificates(pem: &str) -> impl Iterator<Item = Vec<u8>> {
    let blocks = pem.split("-----BEGIN CERTIFICATE-----").skip(1);
    blocks.filter_map(|block| decoded(block.split("-----END CERTIFICATE-----").next()?))
}

/// The value of each letter of base64; 255 for what is none.
const VALUES: [u8; 256] = {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut values = [255; 256];
    let mut place = 0;
    while place < 64 {
        values[LETTERS[place] as usize] = place as u8;
        place += 1;
    }
    values
};

/// Lines of base64, each of whole groups of four letters, as certificates are written.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for line in text.lines() {
        for group in line.trim().as_bytes().chunks(4) {
            let letters = group.iter().take_while(|byte| **byte != b'=').count();
            let mut bits = 0u32;
            for byte in &group[..letters] {
                let value = VALUES[usize::from(*byte)];
                if value == 255 {
                    return None;
                }
                bits = bits << 6 | u32::from(value);
            }
            match (letters, group.len()) {
                (4, 4) => out.extend_from_slice(&bits.to_be_bytes()[1..]),
                (3, 4) => out.extend_from_slice(&(bits << 6).to_be_bytes()[1..3]),
                (2, 4) => out.extend_from_slice(&(bits << 12).to_be_bytes()[1..2]),
                _ => return None,
            }
        }
    }
    Some(out).filter(|out| !out.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_der() {
        assert_eq!(tagged(4, &[1; 3]), [4, 3, 1, 1, 1]);
        assert_eq!(tagged(4, &[0; 200])[..3], [4, 0x81, 200]);
        assert_eq!(tagged(4, &[0; 70_000])[..5], [4, 0x83, 0x01, 0x11, 0x70]);
    }

    #[test]
    fn a_store_holds_each_certificate_once() {
        let pem = "# a root\n-----BEGIN CERTIFICATE-----\nAQID\nBA==\n-----END CERTIFICATE-----\nx\n\
                   -----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        assert_eq!(certificates(pem).collect::<Vec<_>>(), [[1, 2, 3, 4]]);
        let store = store(pem);
        assert_eq!(store[0], SEQUENCE);
        // The same, written layer by layer.
        let data = |contents: &[u8]| {
            tagged(SEQUENCE, &[tagged(OID, DATA), tagged(EXPLICIT, &tagged(OCTETS, contents))].concat())
        };
        let safe = data(&tagged(SEQUENCE, &bag(0, &[1, 2, 3, 4])));
        let contents = data(&tagged(SEQUENCE, &safe));
        assert_eq!(store, tagged(SEQUENCE, &[&[0x02, 0x01, 0x03][..], &contents].concat()));
        assert_eq!(store.windows(4).filter(|part| *part == [1, 2, 3, 4]).count(), 1);
    }
}
