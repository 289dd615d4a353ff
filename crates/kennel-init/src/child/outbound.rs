//! Whether anything inside tried to reach a network that is not there, by the counts that the kernel keeps of the sandbox's
//! own network. Read when the command has ended, and at no other time.
//!
//! A network with nothing but a loopback has no route to anywhere else: each connection, packet and look-up to another
//! address ends there and is counted (`OutNoRoutes`). What stays on the loopback is not. A look-up by a name server on the
//! loopback, as systemd-resolved is, finds nobody at that port; that is counted too (`NoPorts`), and means a look-up only
//! where such a name server is the one to ask.

use core::ffi::CStr;

use super::sys::{self, AT_FDCWD, open};

/// Each of the files has less.
const MAX: usize = 8192;

/// Whether somebody tried.
pub(super) fn tried() -> bool {
    let mut buffer = [0; MAX];
    let mut lookups = 0;
    // One line of names and one of numbers for each protocol, with the protocol in front of both.
    let v4 = read(c"/proc/self/net/snmp", &mut buffer);
    if column(v4, b"Ip:", b"OutNoRoutes") > 0 {
        return true;
    }
    lookups += column(v4, b"Udp:", b"NoPorts");
    let v6 = read(c"/proc/self/net/snmp6", &mut buffer);
    if row(v6, b"Ip6OutNoRoutes") > 0 {
        return true;
    }
    lookups += row(v6, b"Udp6NoPorts");
    lookups > 0 && asks_the_loopback(read(c"/etc/resolv.conf", &mut buffer))
}

/// As much of a file as there is room for; nothing where it cannot be read.
fn read<'b>(path: &CStr, buffer: &'b mut [u8; MAX]) -> &'b [u8] {
    // Whatever stands at that path, a FIFO included, does not hold this process up.
    let Ok(file) = sys::openat(AT_FDCWD, path, open::RDONLY | open::NONBLOCK | open::NOCTTY) else {
        return &[];
    };
    let mut filled = 0;
    while let Ok(count @ 1..) = sys::read(file.raw(), &mut buffer[filled..]) {
        filled += count;
    }
    &buffer[..filled]
}

/// The number below a name.
fn column(text: &[u8], protocol: &[u8], name: &[u8]) -> u64 {
    let mut lines = lines(text).filter(|line| line.starts_with(protocol));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return 0 };
    let found = words(names).zip(words(numbers)).find(|(own, _)| *own == name);
    found.map_or(0, |(_, digits)| number(digits))
}

/// The number behind a name.
fn row(text: &[u8], name: &[u8]) -> u64 {
    let mut found = lines(text).map(words).filter_map(|mut line| Some((line.next()?, line.next()?)));
    found.find(|(own, _)| *own == name).map_or(0, |(_, digits)| number(digits))
}

/// Whether look-ups go to the loopback, by what resolv.conf says or where it says nothing.
fn asks_the_loopback(text: &[u8]) -> bool {
    let mut servers = lines(text).map(words).filter_map(|mut line| {
        let first = line.next()?;
        if first == b"nameserver" { line.next() } else { None }
    });
    match servers.next() {
        None => true,
        Some(server) => server.starts_with(b"127.") || server == b"::1",
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |sum: u64, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit & 15)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_their_names() {
        let text =
            b"Ip: Forwarding OutDiscards OutNoRoutes\nIp: 2 0 17\nUdp: InDatagrams NoPorts\nUdp: 5 1\n";
        assert_eq!((column(text, b"Ip:", b"OutNoRoutes"), column(text, b"Udp:", b"NoPorts")), (17, 1));
        assert_eq!((column(text, b"Ip:", b"Missing"), column(b"", b"Ip:", b"x")), (0, 0));
        let text = b"Ip6InReceives                   \t0\nIp6OutNoRoutes                  \t12\n";
        assert_eq!((row(text, b"Ip6OutNoRoutes"), row(text, b"Ip6InReceives"), row(b"x", b"x")), (12, 0, 0));
    }

    #[test]
    fn a_name_server_on_the_loopback_is_known() {
        for (text, expected) in [
            (&b""[..], true),
            (b"# comment\nnameserver 127.0.0.53\n", true),
            (b"search x\nnameserver\t::1\n", true),
            (b"nameserver 10.0.0.1\nnameserver 127.0.0.1\n", false),
        ] {
            assert_eq!(asks_the_loopback(text), expected);
        }
    }
}
