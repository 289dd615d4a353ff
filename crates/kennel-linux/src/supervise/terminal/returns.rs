//! Line feeds that two terminals in a row turn into a carriage return and a line feed: the first one's return is taken out
//! again, so that there is one. A pair that comes in two parts stays; it shows no difference.

/// Writes `bytes` without the returns that stand before line feeds, by one `write`. Returns how many of the bytes that has
/// taken care of.
pub(super) fn write_without<E>(
    bytes: &[u8],
    write: impl FnOnce(&[u8]) -> Result<usize, E>,
) -> Result<usize, E> {
    let mut text = [0u8; 4096];
    let (mut length, mut at) = (0, 0);
    while at < bytes.len() && length < text.len() {
        match bytes[at..] {
            [b'\r', b'\n', ..] => {}
            [byte, ..] => {
                text[length] = byte;
                length += 1;
            }
            [] => break,
        }
        at += 1;
    }
    if length == 0 {
        return Ok(at);
    }
    let written = write(&text[..length])?;
    Ok(if written >= length { at } else { position_after(bytes, written) })
}

/// Behind which of the bytes so many have been written.
fn position_after(bytes: &[u8], mut written: usize) -> usize {
    for (at, byte) in bytes.iter().enumerate() {
        if written == 0 {
            return at;
        }
        if !(*byte == b'\r' && bytes.get(at + 1) == Some(&b'\n')) {
            written -= 1;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What arrives at a terminal that takes so many bytes at a time, of which so many have come at a time.
    fn shown(whole: &[u8], come: usize, take: usize) -> Vec<u8> {
        let (mut out, mut waiting) = (Vec::new(), Vec::new());
        let mut rest = whole;
        loop {
            let (some, more) = rest.split_at(rest.len().min(come));
            (waiting, rest) = ([waiting, some.to_vec()].concat(), more);
            let taken = write_without(&waiting, |bytes| {
                let count = bytes.len().min(take);
                out.extend_from_slice(&bytes[..count]);
                Ok::<_, ()>(count)
            });
            waiting.drain(..taken.unwrap());
            if rest.is_empty() && waiting.is_empty() {
                return out;
            }
        }
    }

    #[test]
    fn returns_before_line_feeds_are_taken_out_however_they_come_and_are_taken() {
        let whole = b"a\r\nb\r\r\nc\rd\n\r\n\r";
        for take in 1..=whole.len() {
            assert_eq!(shown(whole, whole.len(), take), b"a\nb\r\nc\rd\n\n\r", "{take}");
        }
        for come in 1..=whole.len() {
            let plain =
                |bytes: &[u8]| bytes.iter().copied().filter(|byte| *byte != b'\r').collect::<Vec<u8>>();
            assert_eq!(plain(&shown(whole, come, 1)), b"a\nb\ncd\n\n", "{come}");
        }
    }
}
