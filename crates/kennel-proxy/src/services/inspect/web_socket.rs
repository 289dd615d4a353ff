//! WebSocket's frames on their way to the client (RFC 6455 §5): a message is searched as a whole, however it is in frames, and
//! written anew. What is in two messages is two texts.

use std::io;

use crate::secrets::{EchoStream, Redaction};

/// A message in one frame of at most this size is kept until it is whole, and stays one frame.
const MAX_WHOLE: usize = 64 << 10;
/// A frame about the connection has no more (§5.5).
const MAX_CONTROL: usize = 125;

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// The frames of one direction.
pub(super) struct Frames {
    redaction: Redaction,
    /// The message that has begun.
    stream: EchoStream,
    /// What is not a whole head yet, or not a whole frame of those that are kept.
    inbox: Vec<u8>,
    /// What of a large frame, or a part of a message, is still to come.
    current: Option<Current>,
    /// How the next frame of the message begins: with its kind, or none for its second and later frames.
    kind: u8,
    /// A message has begun, and its last frame has not come.
    within: bool,
}

#[derive(Clone, Copy)]
struct Current {
    left: u64,
    is_last: bool,
}

/// A frame's head.
struct Head {
    fin: bool,
    opcode: u8,
    length: u64,
    size: usize,
}

fn broken(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Head {
    /// `None` while it is not whole.
    fn parse(bytes: &[u8]) -> io::Result<Option<Head>> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        if first & RESERVED != 0 || second & MASKED != 0 {
            return Err(broken("a WebSocket frame that nobody agreed on"));
        }
        let (length, more) = match (second, rest) {
            (126, [a, b, ..]) => (u64::from(u16::from_be_bytes([*a, *b])), 2),
            (127, _) if rest.len() >= 8 => {
                (rest[..8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), 8)
            }
            (126 | 127, _) => return Ok(None),
            (length, _) => (u64::from(*length), 0),
        };
        Ok(Some(Head { fin: first & FIN != 0, opcode: first & 0xf, length, size: 2 + more }))
    }
}

fn write(fin: bool, opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(if fin { FIN | opcode } else { opcode });
    match payload.len() {
        length @ 0..=125 => out.push(length as u8),
        length @ 126..=0xffff => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

impl Frames {
    pub(super) fn new(redaction: &Redaction) -> Frames {
        Frames {
            stream: redaction.body(),
            redaction: redaction.clone(),
            inbox: Vec::new(),
            current: None,
            kind: 0,
            within: false,
        }
    }

    /// What goes to the client, now that these bytes have come. An error ends the connection.
    pub(super) fn push(&mut self, part: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(part.len() + 16);
        let mut kept = std::mem::take(&mut self.inbox);
        let mut bytes = part;
        if !kept.is_empty() {
            kept.extend_from_slice(part);
            bytes = &kept;
        }
        while !bytes.is_empty() {
            let used = self.step(bytes, &mut out)?;
            if used == 0 {
                break;
            }
            bytes = &bytes[used..];
        }
        self.inbox = bytes.to_vec();
        Ok(out)
    }

    /// Takes a frame or a part of one; 0 if more has to come first.
    fn step(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        if let Some(current) = self.current {
            return self.part(current, bytes, out);
        }
        let Some(head) = Head::parse(bytes)? else { return Ok(0) };
        let whole = usize::try_from(head.length)
            .ok()
            .and_then(|length| bytes.get(head.size..head.size.checked_add(length)?));
        match head.opcode {
            0x8..=0xa => {
                if !head.fin || head.length > MAX_CONTROL as u64 {
                    return Err(broken("a WebSocket frame that is not valid"));
                }
                let Some(payload) = whole else { return Ok(0) };
                let mut text = self.redaction.text(payload);
                if let Some(text) = &mut text {
                    text.truncate(MAX_CONTROL);
                }
                write(true, head.opcode, text.as_deref().unwrap_or(payload), out);
                return Ok(head.size + payload.len());
            }
            0x0 if self.within => {}
            0x1 | 0x2 if !self.within => self.kind = head.opcode,
            _ => return Err(broken("a WebSocket frame that is not valid")),
        }
        if head.fin && !self.within && head.length <= MAX_WHOLE as u64 {
            let Some(payload) = whole else { return Ok(0) };
            let text = self.redaction.text(payload);
            write(true, head.opcode, text.as_deref().unwrap_or(payload), out);
            return Ok(head.size + payload.len());
        }
        self.within = true;
        let current = Current { left: head.length, is_last: head.fin };
        self.current = Some(current);
        match head.length {
            0 => self.part(current, &[], out).map(|used| head.size + used),
            _ => Ok(head.size),
        }
    }

    /// More of a message that is passed on in parts.
    fn part(&mut self, current: Current, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let count = usize::try_from(current.left).unwrap_or(usize::MAX).min(bytes.len());
        let split = |_| broken("a value in two parts");
        let mut ready =
            self.stream.push(&bytes[..count]).map_err(split)?.unwrap_or_else(|| bytes[..count].to_vec());
        let left = current.left - count as u64;
        let ends = left == 0 && current.is_last;
        if ends {
            ready.extend(self.stream.finish().map_err(split)?);
        }
        if ends || !ready.is_empty() {
            write(ends, self.kind, &ready, out);
            self.kind = 0;
        }
        self.current = (left > 0).then_some(Current { left, ..current });
        self.within = !ends;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use kennel_policy::secrets::SwapIn;
    use proptest::prelude::*;

    use super::*;
    use crate::secrets::{SecretValue, Swap};

    const VALUE: &str = "short-key";
    const STAND_IN: &str = "a-stand-in-that-is-longer";

    fn frames() -> Frames {
        let swap = Swap {
            name: "KEY".into(),
            stand_in: STAND_IN.into(),
            value: SecretValue::from_bytes(VALUE.into()).unwrap(),
            hosts: Vec::new(),
            swap_in: SwapIn::default(),
        };
        Frames::new(&Redaction::new([&swap]).unwrap())
    }

    /// Reads frames: each message with its opcode, and frames about the connection.
    fn read(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let (mut all, mut message) = (Vec::new(), None::<(u8, Vec<u8>)>);
        while !bytes.is_empty() {
            let head = Head::parse(bytes).unwrap().unwrap();
            let payload = bytes[head.size..head.size + head.length as usize].to_vec();
            bytes = &bytes[head.size + payload.len()..];
            if head.opcode >= 8 {
                all.push((head.opcode, payload));
                continue;
            }
            let (_, text) = message.get_or_insert_with(|| (head.opcode, Vec::new()));
            assert!(head.opcode == 0 || text.is_empty());
            text.extend(payload);
            if head.fin {
                all.extend(message.take());
            }
        }
        assert!(message.is_none(), "every message ends");
        all
    }

    #[test]
    fn a_value_shorter_than_its_stand_in_is_replaced_and_so_are_its_escapes() {
        let percent: String = VALUE.bytes().map(|byte| format!("%{byte:02x}")).collect();
        for form in [VALUE, &percent] {
            for opcode in [1, 2, 8, 9, 10] {
                let mut bytes = Vec::new();
                write(true, opcode, format!("a {form} b").as_bytes(), &mut bytes);
                let out = read(&frames().push(&bytes).unwrap());
                assert_eq!(out[0].0, opcode);
                let text = String::from_utf8_lossy(&out[0].1).into_owned();
                assert!(text.starts_with("a ") && text.ends_with(" b") && !text.contains(form), "{text}");
            }
        }
    }

    #[test]
    fn a_message_in_many_frames_is_one_text() {
        let mut bytes = Vec::new();
        write(false, 1, b"a sho", &mut bytes);
        write(true, 9, b"ping", &mut bytes);
        write(false, 0, b"", &mut bytes);
        write(true, 0, b"rt-key b", &mut bytes);
        write(true, 1, b"next", &mut bytes);
        let out = read(&frames().push(&bytes).unwrap());
        let text = format!("a {STAND_IN} b").into_bytes();
        assert_eq!(out, [(9, b"ping".to_vec()), (1, text), (1, b"next".to_vec())]);
    }

    #[test]
    fn what_is_not_a_frame_ends_the_connection() {
        for bad in [
            &[0xc1, 0][..],
            &[0x81, 0x80, 0, 0, 0, 0],
            &[0x80, 0],
            &[0x08, 0],
            &[0x89, 126, 0, 200],
            &[0x83, 0],
        ] {
            assert!(frames().push(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_comes_out_does_not_depend_on_how_it_came(
            messages in prop::collection::vec((any::<bool>(), prop::collection::vec("[a-z \n]{0,9}|short-key", 1..4)), 1..5),
            cuts in prop::collection::vec(1usize..40, 1..20),
        ) {
            let (mut bytes, mut wanted) = (Vec::new(), Vec::new());
            for (ping, parts) in &messages {
                for (at, part) in parts.iter().enumerate() {
                    write(at + 1 == parts.len(), u8::from(at == 0), part.as_bytes(), &mut bytes);
                    if *ping && at + 1 < parts.len() {
                        write(true, 9, b"p", &mut bytes);
                    }
                }
                wanted.push(parts.concat().replace(VALUE, STAND_IN));
            }
            let (mut frames, mut out, mut rest, mut cuts) = (frames(), Vec::new(), &bytes[..], cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (part, next) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                out.extend(frames.push(part).unwrap());
                rest = next;
            }
            let texts: Vec<String> = read(&out).into_iter().filter(|(opcode, _)| *opcode < 8)
                .map(|(_, text)| String::from_utf8(text).unwrap()).collect();
            prop_assert_eq!(texts, wanted);
        }

        #[test]
        fn nothing_makes_it_panic_or_keep_much(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut frames = frames();
            for part in bytes.chunks(7) {
                if frames.push(part).is_err() {
                    break;
                }
                prop_assert!(frames.inbox.len() <= MAX_WHOLE + 20);
            }
        }
    }
}
