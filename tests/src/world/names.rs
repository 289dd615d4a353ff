//! The name server of the other side.

use std::io;
use std::net::{IpAddr, UdpSocket};

use super::{DNS, ip};

const A: u16 = 1;
const CNAME: u8 = 5;
const AAAA: u16 = 28;

/// Answers questions for as long as the process lives. `lookup` is asked with a name and the type of record that is wanted,
/// and returns all addresses of the name: without any the name does not exist, and without a list there is no answer.
///
/// # Errors
/// When its address is taken.
pub fn serve(lookup: impl Fn(&str, u16) -> Option<Vec<IpAddr>> + Send + 'static) -> io::Result<()> {
    serve_aliases(|_| Vec::new(), lookup)
}

/// The same with names that stand for other ones: `aliases` tells what a name stands for, what that stands for, and so on. The
/// addresses are those of the name that was asked for.
///
/// # Errors
/// When its address is taken.
pub fn serve_aliases(
    aliases: impl Fn(&str) -> Vec<String> + Send + 'static,
    lookup: impl Fn(&str, u16) -> Option<Vec<IpAddr>> + Send + 'static,
) -> io::Result<()> {
    let socket = UdpSocket::bind((ip(DNS), 53))?;
    std::thread::spawn(move || {
        let mut message = [0; 1500];
        while let Ok((length, client)) = socket.recv_from(&mut message) {
            let Some((name, kind, end)) = question(&message[..length]) else { continue };
            let Some(addresses) = lookup(&name, kind) else { continue };
            let _ = socket.send_to(&reply(&message[..end], kind, &aliases(&name), &addresses), client);
        }
    });
    Ok(())
}

/// The answer to a question, with those of the addresses that are of the type that it asks for.
fn reply(question: &[u8], kind: u16, aliases: &[String], addresses: &[IpAddr]) -> Vec<u8> {
    let wanted: Vec<Vec<u8>> = addresses
        .iter()
        .filter_map(|address| match (address, kind) {
            (IpAddr::V4(v4), A) => Some(v4.octets().to_vec()),
            (IpAddr::V6(v6), AAAA) => Some(v6.octets().to_vec()),
            _ => None,
        })
        .collect();
    let code = if addresses.is_empty() { 3 } else { 0 };
    let mut reply = question[..2].to_vec();
    reply.extend_from_slice(&[0x81, 0x80 | code, 0, 1, 0, (aliases.len() + wanted.len()) as u8, 0, 0, 0, 0]);
    reply.extend_from_slice(&question[12..]);
    // A pointer to the question's name.
    let mut name = vec![0xc0, 12];
    for alias in aliases {
        let labels = alias.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
        let target: Vec<u8> = labels.chain([0]).collect();
        reply.extend_from_slice(&name);
        reply.extend_from_slice(&[0, CNAME, 0, 1, 0, 0, 0, 0, 0, target.len() as u8]);
        reply.extend_from_slice(&target);
        name = target;
    }
    for address in wanted {
        // The type, IN, no time to live, the address.
        reply.extend_from_slice(&name);
        reply.extend_from_slice(&[0, kind as u8, 0, 1, 0, 0, 0, 0, 0, address.len() as u8]);
        reply.extend_from_slice(&address);
    }
    reply
}

/// The name and the type that a packet asks for, and where its question ends.
fn question(message: &[u8]) -> Option<(String, u16, usize)> {
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(message.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
    let kind = message.get(at..at + 2)?;
    Some((labels.join("."), u16::from_be_bytes([kind[0], kind[1]]), at + 4))
}
