//! The names and contents of refs, as git accepts them (`git check-ref-format`), and lists of object names.
//!
//! Git accepts names that are code to a shell (`x;touch${IFS}y`), and so does this: they do harm only where git writes
//! them into a file that a shell reads, and in a repository's folder there is no link that leads to one.

/// A list of refs longer than this is nobody's.
pub const MAX_PACKED: usize = 64 << 20;
/// The longest name of a ref.
const MAX_NAME: usize = 1024;

/// Whether a folder or a file below `refs` may be called so. A file may be the lock of another, which a killed git left.
#[must_use]
pub fn is_component(name: &[u8]) -> bool {
    let odd = |byte: &u8| *byte <= b' ' || *byte == 0x7f || b"~^:?*[\\".contains(byte);
    let pair = |two: &[u8]| name.windows(2).any(|window| window == two);
    !name.is_empty()
        && name[0] != b'.'
        && !name.iter().any(odd)
        && !pair(b"..")
        && !pair(b"@{")
        && !name.ends_with(b".")
}

/// Whether it is the whole name of a ref: `refs/…`.
#[must_use]
pub fn is_name(name: &[u8]) -> bool {
    // What git itself writes where refs are kept in another way.
    if name == b"refs/heads/.invalid" {
        return true;
    }
    let mut parts = name.split(|byte| *byte == b'/');
    let fits = |part: &[u8]| is_component(part) && !part.ends_with(b".lock");
    name.len() <= MAX_NAME
        && parts.next() == Some(b"refs")
        && parts.clone().next().is_some()
        && parts.all(fits)
}

/// Whether a text is the name of an object: of SHA-1 or of SHA-256.
#[must_use]
pub fn is_object(text: &[u8]) -> bool {
    matches!(text.len(), 40 | 64) && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a file is a ref: an object's name, or the name of another ref.
#[must_use]
pub fn is_ref(text: &[u8]) -> bool {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    match text.strip_prefix(b"ref: ") {
        Some(name) => is_name(name),
        // Where refs are kept in another way.
        None => is_object(text) || text == b"this repository uses the reftable format",
    }
}

/// Whether a file holds nothing but names of objects, separated by blanks and ends of lines.
#[must_use]
pub fn are_objects(text: &[u8]) -> bool {
    text.split(|byte| matches!(byte, b'\n' | b' ')).all(|name| name.is_empty() || is_object(name))
}

/// Whether a file is a list of packed refs.
#[must_use]
pub fn are_packed(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n').enumerate().all(|(number, line)| match line {
        b"" => true,
        [b'#', rest @ ..] => number == 0 && rest.iter().all(|byte| matches!(byte, b' '..=b'~')),
        [b'^', peeled @ ..] => is_object(peeled),
        line => line
            .iter()
            .position(|byte| *byte == b' ')
            .is_some_and(|end| is_object(&line[..end]) && is_name(&line[end + 1..])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn refs_are_what_git_accepts() {
        for name in [
            "refs/heads/main",
            "refs/heads/a/b.c",
            "refs/tags/v1",
            "refs/heads/x;touch${IFS}y",
            "refs/heads/@",
            "refs/stash",
            "refs/heads/\u{e9}",
        ] {
            assert!(is_name(name.as_bytes()), "{name}");
        }
        for name in [
            "",
            "refs",
            "refs/",
            "HEAD",
            "config",
            "refs/../x",
            "refs/heads/..",
            "refs/heads/.x",
            "refs/heads//x",
            "refs/a b",
            "refs/a\tb",
            "refs/a~1",
            "refs/a.lock",
            "refs/a.",
            "refs/a@{1}",
            "refs/a\n",
            "refs/a\\b",
            "/refs/x",
        ] {
            assert!(!is_name(name.as_bytes()), "{name:?}");
        }
        for text in
            [format!("{ID}\n"), ID.into(), "ref: refs/heads/main\n".into(), format!("{ID}{}\n", &ID[..24])]
        {
            assert!(is_ref(text.as_bytes()), "{text:?}");
        }
        for text in [
            "",
            "\n",
            "ref: HEAD\n",
            "ref: refs/../config\n",
            "ref: ../x",
            "x",
            "ref:refs/heads/x",
            "ref: refs/heads/x\ny\n",
        ] {
            assert!(!is_ref(text.as_bytes()), "{text:?}");
        }
    }

    #[test]
    fn lists_are_read_line_by_line() {
        let packed = format!(
            "# pack-refs with: peeled fully-peeled sorted \n{ID} refs/heads/a\n{ID} refs/tags/v\n^{ID}\n"
        );
        assert!(are_packed(packed.as_bytes()) && are_packed(b""));
        for text in [
            format!("{ID} refs/../x\n"),
            format!("{ID} HEAD\n"),
            "x\n".into(),
            format!("{ID} refs/a\n# x\n"),
            format!("{ID}\trefs/a\n"),
            "#\x1b[2J\n".into(),
        ] {
            assert!(!are_packed(text.as_bytes()), "{text:?}");
        }
        assert!(are_objects(format!("{ID}\n{ID} {ID}\n").as_bytes()) && !are_objects(b"x\n"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (is_ref(&text), are_packed(&text), are_objects(&text), is_name(&text), is_component(&text));
        }

        #[test]
        fn no_name_goes_up_or_steers_a_terminal(name in "refs/[ -~\u{0}-\u{1f}]{0,12}") {
            if is_name(name.as_bytes()) {
                prop_assert!(!name.contains("..") && !name.chars().any(char::is_control) && !name.contains("//"));
            }
        }
    }
}
