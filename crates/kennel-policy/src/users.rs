//! The users of a sandbox that has several: their names as they are written, and their numbers.

use crate::origin::Origin;
use crate::printed::show;
use crate::quantity;

/// A user inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name in `/etc/passwd`, and that of its group in `/etc/group`.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
}

impl User {
    /// Where its home folder is.
    #[must_use]
    pub fn home(&self) -> String {
        format!("/run/home/{}", self.name)
    }
}

/// A user as a setting names it: `NAME`, `NAME:UID` or `NAME:UID:GID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserEntry {
    /// Its name.
    pub name: String,
    /// Its number, if one is given.
    pub uid: Option<u32>,
    /// The number of its group, if one is given.
    pub gid: Option<u32>,
    /// Where it was said.
    pub origin: Origin,
}

/// Why a text names no user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// Not a name with numbers.
    #[error(
        "`{0}` is not a user; write NAME, NAME:UID or NAME:UID:GID, where NAME is up to 32 letters, digits, `-`, `_` \
         and `.` and starts with a letter or `_`"
    )]
    Syntax(String),
    /// `root` with another number.
    #[error("`{0}`: root is user 0 and group 0")]
    Root(String),
}

/// The first number of users that are not root, where none is given.
const FIRST: u32 = 1000;
/// Numbers up to here; the next is the one that means "no change" to the kernel, and -2 is kept off for symmetry.
const LAST: u32 = u32::MAX - 2;

impl UserEntry {
    /// Reads one.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str, origin: Origin) -> Result<UserEntry, UserError> {
        let bad = || UserError::Syntax(show(text.as_bytes()));
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if !starts || name.len() > 32 || !name.bytes().all(plain) {
            return Err(bad());
        }
        let number = |text: Option<&str>| match text {
            None => Ok(None),
            Some(text) => quantity::count(text, 0, LAST).map(Some).map_err(|_| bad()),
        };
        let (uid, gid) = (number(parts.next())?, number(parts.next())?);
        if parts.next().is_some() {
            return Err(bad());
        }
        if name == "root" && (uid.is_some_and(|uid| uid != 0) || gid.is_some_and(|gid| gid != 0)) {
            return Err(UserError::Root(show(text.as_bytes())));
        }
        Ok(UserEntry { name: name.to_owned(), uid, gid, origin })
    }
}

/// Two users that cannot both be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SameNumber {
    /// The one.
    pub one: String,
    /// The other.
    pub other: String,
    /// Their number.
    pub uid: u32,
}

/// Gives each its number: root is 0, the others have those that are given, or count from 1000 past those. Of a name that
/// was said twice the last counts, in the first one's place. A group has its user's number unless one is given.
///
/// # Errors
/// When two have the same number.
pub fn numbered(entries: Vec<UserEntry>) -> Result<Vec<User>, SameNumber> {
    let mut last: Vec<UserEntry> = Vec::with_capacity(entries.len());
    for entry in entries {
        match last.iter_mut().find(|own| own.name == entry.name) {
            Some(own) => *own = entry,
            None => last.push(entry),
        }
    }
    let own = |entry: &UserEntry| entry.uid.or((entry.name == "root").then_some(0));
    let mut taken: Vec<u32> = last.iter().filter_map(own).collect();
    let mut users: Vec<User> = Vec::with_capacity(last.len());
    for entry in last {
        let uid = own(&entry).unwrap_or_else(|| {
            let free = (FIRST..LAST).find(|uid| !taken.contains(uid)).unwrap_or(LAST);
            taken.push(free);
            free
        });
        if let Some(same) = users.iter().find(|user| user.uid == uid) {
            return Err(SameNumber { one: same.name.clone(), other: entry.name, uid });
        }
        users.push(User { name: entry.name, uid, gid: entry.gid.unwrap_or(uid) });
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(texts: &[&str]) -> Result<Vec<(String, u32, u32)>, String> {
        let mut entries = Vec::new();
        for text in texts {
            entries.push(UserEntry::parse(text, Origin::default()).map_err(|error| error.to_string())?);
        }
        let users =
            numbered(entries).map_err(|same| format!("{} and {} are {}", same.one, same.other, same.uid))?;
        Ok(users.into_iter().map(|user| (user.name, user.uid, user.gid)).collect())
    }

    #[test]
    fn root_is_0_and_the_others_count_from_1000() {
        let expected = [("root", 0, 0), ("builder", 1000, 1000), ("web", 33, 33), ("x", 1001, 50)];
        let expected = expected.map(|(name, uid, gid)| (name.to_owned(), uid, gid)).to_vec();
        let mut all = users(&["root", "builder", "web:33"]).unwrap();
        all.extend(users(&["y", "x:1001:50"]).unwrap().pop());
        assert_eq!(all, expected);
        // Numbers that are given come first, also where they are given later.
        assert_eq!(users(&["a", "b:1000"]).unwrap()[0].1, 1001);
        // What was said last counts.
        assert_eq!(users(&["a:5", "b", "a:6"]).unwrap()[0], ("a".to_owned(), 6, 6));
    }

    #[test]
    fn what_is_no_user_is_refused() {
        for text in
            ["", ":1", "a b", "a:", "a:-1", "a:1:2:3", "a:4294967295", "1a", "a/b", "root:1", "root:0:1"]
        {
            assert!(users(&[text]).is_err(), "{text}");
        }
        assert_eq!(users(&["a:7", "b:7"]).unwrap_err(), "a and b are 7");
        assert_eq!(users(&["root", "b:0"]).unwrap_err(), "root and b are 0");
    }
}
