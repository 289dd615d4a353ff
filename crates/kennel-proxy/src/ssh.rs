//! A refusal in SSH's own words.
//!
//! `ssh` and `git` show nothing but "connection closed" when a connection ends before the protocol has begun. A
//! server may end it with a reason instead (RFC 4253 §11.1), and every client prints that.

/// A version line and an unencrypted disconnect message with this text.
#[must_use]
pub fn disconnect(text: &str) -> Vec<u8> {
    const DISCONNECT: u8 = 1;
    const HOST_NOT_ALLOWED_TO_CONNECT: u32 = 1;
    let mut payload = vec![DISCONNECT];
    payload.extend_from_slice(&HOST_NOT_ALLOWED_TO_CONNECT.to_be_bytes());
    payload.extend_from_slice(&(text.len() as u32).to_be_bytes());
    payload.extend_from_slice(text.as_bytes());
    payload.extend_from_slice(&0u32.to_be_bytes());
    // RFC 4253 §6: length, padding length, payload and padding together are a multiple of 8, with at least 4
    // bytes of padding.
    let padding = 8 - (4 + 1 + payload.len()) % 8;
    let padding = if padding < 4 { padding + 8 } else { padding };
    let mut bytes = b"SSH-2.0-kennel\r\n".to_vec();
    bytes.extend_from_slice(&((1 + payload.len() + padding) as u32).to_be_bytes());
    bytes.push(padding as u8);
    bytes.extend_from_slice(&payload);
    bytes.resize(bytes.len() + padding, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packet_is_padded_as_the_protocol_wants() {
        for length in 0..40 {
            let bytes = disconnect(&"x".repeat(length));
            let packet = &bytes[16..];
            assert_eq!(packet.len() % 8, 0);
            let announced = u32::from_be_bytes(packet[..4].try_into().unwrap()) as usize;
            assert_eq!(announced + 4, packet.len());
            assert!((4..=255).contains(&packet[4]));
            assert_eq!(packet[5], 1);
        }
    }
}
