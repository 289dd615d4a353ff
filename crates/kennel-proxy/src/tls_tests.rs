use super::*;
use proptest::prelude::*;

fn vector(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

fn name_extension(names: &[&str]) -> Vec<u8> {
    let entries: Vec<u8> =
        names.iter().flat_map(|name| [vec![0], vector(name.as_bytes())].concat()).collect();
    [vec![0, 0], vector(&vector(&entries))].concat()
}

fn hello(extensions: &[u8]) -> Vec<u8> {
    hello_of(&[3, 3], extensions)
}

fn hello_of(version: &[u8], extensions: &[u8]) -> Vec<u8> {
    let mut body = version.to_vec();
    body.extend_from_slice(&[9; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend_from_slice(&vector(extensions));
    let length = body.len() as u32;
    [&[1][..], &length.to_be_bytes()[1..], &body].concat()
}

fn records(message: &[u8], size: usize) -> Vec<u8> {
    message.chunks(size).flat_map(|chunk| [&[22, 3, 1][..], &vector(chunk)].concat()).collect()
}

fn read(bytes: &[u8]) -> Option<ClientHello> {
    match client_hello(bytes) {
        Hello::Read(hello) => Some(hello),
        _ => None,
    }
}

fn named(bytes: &[u8], name: &str) -> bool {
    read(bytes).is_some_and(|hello| hello.name.as_deref() == Some(name))
}

fn malformed(bytes: &[u8]) -> bool {
    matches!(client_hello(bytes), Hello::Malformed(_))
}

#[test]
fn the_name_is_found_however_the_hello_is_cut_into_records() {
    let message = hello(&[&[0, 0x2b, 0, 3, 2, 3, 4][..], &name_extension(&["a.test"])].concat());
    for size in 1..=message.len() {
        let bytes = records(&message, size);
        assert!(named(&bytes, "a.test"), "records of {size}");
        let mut reader = HelloReader::default();
        for cut in 0..bytes.len() {
            // The last record's tail may be missing without the name being known; never may it be another.
            assert!(matches!(client_hello(&bytes[..cut]), Hello::Incomplete), "{size} {cut}");
            assert!(matches!(reader.read(&bytes[..cut]), Hello::Incomplete), "{size} {cut}");
        }
        assert_eq!(reader.read(&bytes), client_hello(&bytes));
    }
}

#[test]
fn what_is_behind_a_hello_is_not_part_of_it() {
    let message = hello(&name_extension(&["a.test"]));
    for size in 1..=message.len() {
        let one = records(&message, size);
        let two = [&one[..], &one].concat();
        assert!(named(&two, "a.test"));
        assert_eq!(read(&two).unwrap().length, one.len(), "records of {size}");
    }
    let packed = records(&[&message[..], &message].concat(), 2 * message.len());
    assert!(malformed(&packed));
    for cut in 0..packed.len() {
        assert_eq!(client_hello(&packed[..cut]), Hello::Incomplete, "{cut}");
    }
}

#[test]
fn a_hello_without_a_name_has_none_and_one_with_an_encrypted_name_says_so() {
    assert_eq!(read(&records(&hello(&[]), 999)).unwrap().name, None);
    let without = &hello(&[])[..];
    let short = [&without[..3], &[without[3] - 2], &without[4..without.len() - 2]].concat();
    assert_eq!(read(&records(&short, 999)).unwrap().name, None, "no extensions at all");
    for kind in EXTENSIONS_ENCRYPTED_HELLO {
        let extension = [&kind.to_be_bytes()[..], &vector(&[0; 10])].concat();
        let hidden = hello(&[name_extension(&["a.test"]), extension].concat());
        assert!(read(&records(&hidden, 999)).is_some_and(|hello| hello.encrypted), "{kind:x}");
    }
    assert!(!read(&records(&hello(&name_extension(&["a.test"])), 999)).unwrap().encrypted);
}

#[test]
fn two_names_are_refused_however_they_are_written() {
    let twice = [name_extension(&["a.test"]), name_extension(&["b.test"])].concat();
    assert!(malformed(&records(&hello(&twice), 999)));
    assert!(malformed(&records(&hello(&name_extension(&["a.test", "b.test"])), 999)));
}

#[test]
fn what_a_server_could_read_in_another_way_is_malformed() {
    let good = name_extension(&["a.test"]);
    // SSL 3.0 has no extensions; an extension of any kind comes once; ciphers are pairs of bytes.
    assert!(malformed(&records(&hello_of(&[3, 0], &good), 999)));
    assert!(malformed(&records(&hello_of(&[2, 0], &good), 999)));
    assert!(malformed(&records(&hello(&[&good[..], &[0, 10, 0, 0, 0, 10, 0, 0]].concat()), 999)));
    let many: Vec<u8> =
        (0..300u16).flat_map(|kind| [&(kind + 100).to_be_bytes()[..], &[0, 0]].concat()).collect();
    assert!(malformed(&records(&hello(&many), 9999)));
    let mut odd = hello(&good);
    odd[40] = 1;
    assert!(malformed(&records(&odd, 999)));
    let mut compressed = hello(&good);
    compressed[44] = 1;
    assert!(malformed(&records(&compressed, 999)));
}

#[test]
fn other_protocols_are_known_at_their_first_bytes() {
    for bytes in [
        &b"GET / HTTP/1.1"[..],
        b"SSH-2.0-x",
        b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
        b"\x16\x02",
        b"\x16\xfe\xff",
        b"\x15\x03\x01\x00\x02\x01\x00\x16\x03\x01",
        b"\x80\x2e\x01\x03\x01",
        b"\x16\x03\x7f",
    ] {
        assert_eq!(client_hello(bytes), Hello::NotTls, "{bytes:?}");
    }
    assert_eq!(client_hello(b"\x16"), Hello::Incomplete);
}

#[test]
fn between_two_hellos_only_records_come_that_carry_no_name() {
    assert_eq!(record_between(&[23, 3, 3, 0, 2, 9, 9, 1]), Between::Harmless(7));
    assert_eq!(record_between(&[20, 3, 3, 0, 1, 1]), Between::Harmless(6));
    assert_eq!(record_between(&[21, 3, 3, 0, 2, 2, 40]), Between::Harmless(7));
    assert_eq!(record_between(&[23, 3, 3, 0, 2, 9]), Between::Incomplete);
    assert_eq!(record_between(&[20, 3, 3, 0]), Between::Incomplete);
    assert_eq!(record_between(&records(&hello(&[]), 9)), Between::Handshake);
    for bad in [&[24, 3, 3, 0, 0][..], b"GET ", &[23, 2], &[23, 3, 3, 0xff, 0xff]] {
        assert_eq!(record_between(bad), Between::Malformed, "{bad:?}");
    }
}

#[test]
fn a_server_takes_a_hello_or_asks_for_another() {
    let answer = |random: &[u8]| [&[2, 0, 0, 70, 3, 3][..], random, &[0; 36]].concat();
    let (plain, retry) = (answer(&[5; 32]), answer(&RETRY));
    for size in [1, 5, 37, 999] {
        assert_eq!(server_answer(&records(&plain, size)), Answer::Hello, "{size}");
        let bytes = records(&retry, size);
        assert_eq!(server_answer(&bytes), Answer::Retry, "{size}");
        let warned = [&[21, 3, 3, 0, 2, 1, 112][..], &bytes].concat();
        assert_eq!(server_answer(&warned), Answer::Retry);
        let first = (0..bytes.len()).find(|end| server_answer(&bytes[..*end]) != Answer::Incomplete).unwrap();
        assert_eq!(server_answer(&bytes[..first]), Answer::Retry);
    }
    assert_eq!(server_answer(&[21, 3, 3, 0, 2, 2, 40]), Answer::Alert);
    for other in
        [&b"HTTP/1.1 400 Bad Request"[..], b"220 ", &[22, 2], &[22, 3, 3, 0, 4, 11, 0, 0, 0], &[23, 3, 3]]
    {
        assert_eq!(server_answer(other), Answer::NotTls, "{other:?}");
    }
}

proptest! {
    #[test]
    fn parsing_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = client_hello(&bytes);
        let _ = client_hello(&records(&bytes, 64));
        let _ = client_hello(&records(&hello(&bytes), 64));
        let _ = server_answer(&bytes);
        let _ = server_answer(&records(&bytes, 3));
        let _ = record_between(&bytes);
    }

    #[test]
    fn a_hello_ends_within_what_came(bytes in proptest::collection::vec(any::<u8>(), 0..100), size in 1usize..60) {
        let all = [records(&hello(&name_extension(&["a.test"])), size), bytes].concat();
        prop_assert!(read(&all).unwrap().length <= all.len());
    }

    #[test]
    fn no_cut_of_a_hello_gives_another_name(name in "[a-z]{1,30}\\.test", size in 1usize..400, cut in 0usize..600) {
        let bytes = records(&hello(&name_extension(&[&name])), size);
        let seen = client_hello(&bytes[..cut.min(bytes.len())]);
        prop_assert!(seen == Hello::Incomplete || named(&bytes, &name));
    }
}
