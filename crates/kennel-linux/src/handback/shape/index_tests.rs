use super::*;
use proptest::prelude::*;

/// An index of version 2 with these entries.
fn index(entries: &[(&str, u32)]) -> Vec<u8> {
    let entries: Vec<_> = entries.iter().map(|(path, mode)| (path.as_bytes().to_vec(), *mode, 0)).collect();
    build(&entries, &[])
}

fn build(entries: &[(Vec<u8>, u32, u16)], extensions: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend((entries.len() as u32).to_be_bytes());
    for (path, mode, stage) in entries {
        let start = bytes.len();
        bytes.extend([0; 24]);
        bytes.extend(mode.to_be_bytes());
        bytes.extend([0; 12]);
        bytes.extend([7; 20]);
        bytes.extend((stage << 12 | path.len().min(0xfff) as u16).to_be_bytes());
        bytes.extend(path);
        let length = bytes.len() - start;
        bytes.resize(start + ((length + 8) & !7), 0);
    }
    for (name, data) in extensions {
        bytes.extend(*name);
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
    }
    bytes.extend([0; 20]);
    bytes
}

const FILE: u32 = 0o100_644;
const LINK: u32 = 0o120_000;

#[test]
fn what_git_writes_is_read() {
    assert_eq!(read(&index(&[]), 20), Ok(Index::default()));
    let plain =
        index(&[(".gitignore", FILE), ("a", 0o100_755), ("a.b", LINK), ("b/c", FILE), ("sub", 0o160_000)]);
    assert_eq!(read(&plain, 20), Ok(Index::default()));
    // A conflict: a file here, a folder there.
    let conflict = build(&[(b"a".to_vec(), FILE, 2), (b"a/b".to_vec(), FILE, 3)], &[]);
    assert_eq!(read(&conflict, 20), Ok(Index::default()));
}

#[test]
fn paths_that_git_refuses_are_refused() {
    for path in [
        ".git/hooks/post-checkout",
        "../.rcfile",
        "/etc/passwd",
        "a/../../b",
        ".GIT/config",
        "a/.git",
        "a//b",
        "git~1/x",
    ] {
        assert_eq!(read(&index(&[(path, FILE)]), 20), Err(Flaw::Path(path.into())), "{path}");
    }
    assert_eq!(read(&index(&[("a", 0o100_600)]), 20), Err(Flaw::Form("modes that git writes")));
    assert!(matches!(read(&index(&[("b", FILE), ("a", FILE)]), 20), Err(Flaw::Form(_))));
    assert!(matches!(read(&index(&[("a", FILE), ("a", FILE)]), 20), Err(Flaw::Form(_))));
    assert!(matches!(read(&index(&[("a/", 0o040_000)]), 20), Err(Flaw::Form(_))));
    let below = |list: &[(&str, u32)]| matches!(read(&index(list), 20), Err(Flaw::Below(_)));
    assert!(
        below(&[("a", LINK), ("a/b", FILE)])
            && below(&[("a", LINK), ("a-b", FILE), ("a.c/d", FILE), ("a/b", FILE)])
    );
    assert!(below(&[("x/a", 0o160_000), ("x/a/b/c", FILE)]));
}

#[test]
fn both_ways_to_read_it_find_the_same() {
    let entries = vec![(b"a".to_vec(), FILE, 0), (b"b".to_vec(), FILE, 0)];
    let table = |blocks: &[(u32, u32)]| {
        let mut data = 1u32.to_be_bytes().to_vec();
        blocks.iter().for_each(|(offset, count)| {
            data.extend(offset.to_be_bytes());
            data.extend(count.to_be_bytes());
        });
        data
    };
    let end = |at: u32| [at.to_be_bytes().as_slice(), &[0; 20]].concat();
    let good = build(&entries, &[(b"IEOT", table(&[(12, 1), (76, 1)])), (b"EOIE", end(140))]);
    assert_eq!(read(&good, 20), Ok(Index::default()));
    for bad in [
        build(&entries, &[(b"IEOT", table(&[(12, 1), (12, 1)]))]),
        build(&entries, &[(b"IEOT", table(&[(12, 1)]))]),
        build(&entries, &[(b"IEOT", table(&[(12, 2), (76, 1)]))]),
        build(&entries, &[(b"EOIE", end(76))]),
        build(&entries, &[(b"EOIE", end(140)), (b"UNTR", vec![0])]),
        // It is hidden at the end of another.
        build(&entries, &[(b"UNTR", [b"x".as_slice(), b"EOIE\0\0\0\x18", &end(76)].concat())]),
        build(&entries, &[(b"abcd", vec![])]),
        build(&entries, &[(b"ABCD", vec![])]),
        build(&entries, &[(b"UNTR", vec![]), (b"UNTR", vec![])]),
        build(&entries, &[(b"FSMN", b"\0\0\0\x02\"; x\0".to_vec())]),
        build(&entries, &[(b"REUC", [b"../x\x00100644\x000\x000\0".as_slice(), &[7; 20]].concat())]),
        build(&entries, &[(b"TREE", b"\0-1 1\n../x\0-1 0\n".to_vec())]),
        build(&[(Vec::new(), FILE, 0)], &[]),
    ] {
        assert!(read(&bad, 20).is_err(), "{:?}", String::from_utf8_lossy(&bad));
    }
    assert!(read(&build(&entries, &[(b"TREE", b"\0-1 1\nx\0-1 0\n".to_vec())]), 20).is_ok());
}

#[test]
fn repositories_in_the_tree_are_told() {
    let found =
        read(&index(&[("x/HEAD", FILE), ("x/config", FILE), ("x/objects/k", FILE), ("x/refs/k", FILE)]), 20)
            .unwrap();
    let expected = Embedded { folder: b"x".to_vec(), config: Some(vec![7; 20]), links: false, hooks: false };
    assert_eq!(found.embedded, [expected]);
    for list in [
        &["x/HEAD", "x/config"][..],
        &["x/HEAD", "x/objects/k"],
        &["HEAD", "objects/k", "refs/k"],
        &["x/HEAD/objects/a", "x/refs/b"],
    ] {
        let list: Vec<_> = list.iter().map(|path| (*path, FILE)).collect();
        assert_eq!(read(&index(&list), 20).unwrap().embedded, [], "{list:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes, 20);
        let _ = read(&[b"DIRC\0\0\0\x04\0\0\0\x02".as_slice(), &bytes].concat(), 32);
    }

    #[test]
    fn a_changed_index_is_read(at in 0usize..400, byte in any::<u8>(), cut in 0usize..400) {
        let mut bytes = build(
            &[(b"a/b".to_vec(), FILE, 0), (b"a/c".to_vec(), LINK, 1), (b"d".to_vec(), FILE, 0)],
            &[(b"TREE", b"\0-1 0\n".to_vec()), (b"REUC", Vec::new())],
        );
        if let Some(old) = bytes.get_mut(at) {
            *old = byte;
        }
        bytes.truncate(bytes.len() - cut.min(bytes.len()) / 8);
        if let Ok(index) = read(&bytes, 20) {
            prop_assert!(index.embedded.is_empty());
        }
    }

    #[test]
    fn no_path_that_leads_out_is_read(paths in proptest::collection::vec("[.a/git]{1,6}", 1..5)) {
        let mut entries: Vec<_> = paths.iter().map(|path| (path.as_bytes().to_vec(), FILE, 0)).collect();
        entries.sort();
        let bad = |path: &String| path.split('/').any(|name| matches!(name, "" | "." | ".." | ".git"));
        if paths.iter().any(bad) {
            prop_assert!(read(&build(&entries, &[]), 20).is_err());
        }
    }
}
