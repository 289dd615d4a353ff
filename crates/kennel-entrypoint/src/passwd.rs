//! `/etc/passwd`, read by this program itself: the C library's lookup would load NSS modules, which a static binary
//! cannot rely on and which run code of the image as root.

use core::ffi::CStr;

use crate::report::Trouble;
use crate::sys::{self, Errno};

const PATH: &CStr = c"/etc/passwd";

/// No image's password file comes near this. Without a bound, a file that never ends would hang the container.
const LIMIT: usize = 4 << 20;

/// The ids of one user.
#[derive(Debug, PartialEq, Clone, Copy)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

/// Looks `name` up. No such user and no such file are the same thing, `None`: images without any users have none.
///
/// All other trouble is an error and not a missing user, because a missing user lets the agent run on as root.
pub fn look_up(name: &[u8]) -> Result<Option<User>, Trouble> {
    let refuse = |why: &[u8]| {
        let place = [PATH.to_bytes(), b": ", name].concat();
        Err(Trouble::new("looking up the agent's user", place, why)
            .help("the image's /etc/passwd has to be a readable file with lines name:x:UID:GID:..."))
    };
    let text = match sys::read_file(PATH, LIMIT + 1) {
        Ok(text) if text.len() > LIMIT => return refuse(b"larger than 4 MiB"),
        Ok(text) => text,
        Err(Errno::ENOENT) => return Ok(None),
        Err(errno) => return refuse(&errno.text()),
    };
    match find(&text, name) {
        Entry::Missing => Ok(None),
        Entry::Malformed => refuse(b"the user's line has no valid UID and GID"),
        Entry::Found(user) => Ok(Some(user)),
    }
}

#[derive(Debug, PartialEq)]
enum Entry {
    Missing,
    Malformed,
    Found(User),
}

/// The first line of that name counts, as in the C library.
fn find(text: &[u8], name: &[u8]) -> Entry {
    let named =
        |line: &&[u8]| line.split(|&byte| byte == b':').next() == Some(name) && !line.starts_with(b"#");
    let line = text.split(|&byte| byte == b'\n').find(named);
    let Some(line) = line else { return Entry::Missing };
    let mut fields = line.split(|&byte| byte == b':').skip(2);
    match (fields.next().and_then(id), fields.next().and_then(id)) {
        (Some(uid), Some(gid)) => Entry::Found(User { uid, gid }),
        _ => Entry::Malformed,
    }
}

/// Decimal digits only: no sign, no blanks. The highest value is not an id: to the kernel it means "leave as it is".
fn id(field: &[u8]) -> Option<u32> {
    let digits = field.iter().all(u8::is_ascii_digit);
    let number = core::str::from_utf8(field).ok().filter(|_| digits)?.parse().ok()?;
    (number != u32::MAX).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = b"root:x:0:0:root:/root:/bin/sh\n\
        agent2:x:7:7::/:/bin/sh\n\
        # agent:x:8:8::/:/bin/sh\n\
        agent:x:1000:1001:The Agent,,,:/home/agent:/bin/sh\n\
        agent:x:0:0::/:/bin/sh\n\
        short:x:5\n\
        \xff\xfe:x:12:13::/:\n\
        last:x:9:10";

    #[test]
    fn the_first_line_of_exactly_that_name_counts() {
        assert_eq!(find(FILE, b"agent"), Entry::Found(User { uid: 1000, gid: 1001 }));
        assert_eq!(find(FILE, b"agent2"), Entry::Found(User { uid: 7, gid: 7 }));
        assert_eq!(find(FILE, b"\xff\xfe"), Entry::Found(User { uid: 12, gid: 13 }));
        assert_eq!(find(FILE, b"last"), Entry::Found(User { uid: 9, gid: 10 }));
    }

    #[test]
    fn a_name_that_is_not_there_is_missing() {
        for name in [b"agen".as_slice(), b"nobody", b"x", b"1000", b"# agent", b"root:x", b""] {
            assert_eq!(find(FILE, name), Entry::Missing, "{name:?}");
        }
        assert_eq!(find(b"", b"agent"), Entry::Missing);
    }

    #[test]
    fn a_line_without_two_ids_is_malformed_and_not_missing() {
        assert_eq!(find(FILE, b"short"), Entry::Malformed);
        for ids in
            [":", "a:1", "1:b", "-1:1", "+1:1", " 1:1", "4294967295:1", "1:4294967295", "4294967296:1", "1"]
        {
            let line = format!("agent:x:{ids}");
            assert_eq!(find(line.as_bytes(), b"agent"), Entry::Malformed, "{line}");
        }
    }

    #[test]
    fn the_largest_ids_are_read() {
        let line = b"agent:x:4294967294:4294967294::/:";
        assert_eq!(find(line, b"agent"), Entry::Found(User { uid: u32::MAX - 1, gid: u32::MAX - 1 }));
    }
}
