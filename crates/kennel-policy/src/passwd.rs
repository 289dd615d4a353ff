//! The user database, `/etc/passwd`, as far as it tells whose home is where.

use std::path::{Path, PathBuf};

use crate::ostext::of_bytes;

/// The home of a user: the sixth field of the line whose third is the user's number.
#[must_use]
pub fn home_of(user: u32, database: &[u8]) -> Option<PathBuf> {
    let number = user.to_string();
    database.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b':').skip(2);
        let own = fields.next()? == number.as_bytes();
        let home = Path::new(of_bytes(fields.nth(2)?)?);
        (own && home.is_absolute()).then(|| home.to_path_buf())
    })
}

/// The homes of all users from a number on, but for those that cannot sign in.
pub fn homes_from(first: u32, database: &[u8]) -> impl Iterator<Item = PathBuf> {
    database.split(|byte| *byte == b'\n').filter_map(move |line| {
        let mut fields = line.split(|byte| *byte == b':').skip(2);
        let number: u32 = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let home = Path::new(of_bytes(fields.nth(2)?)?);
        let shell = fields.next().unwrap_or_default();
        let signs_in = !shell.ends_with(b"/nologin") && !shell.ends_with(b"/false");
        (number >= first && signs_in && home.is_absolute()).then(|| home.to_path_buf())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_tells_a_home_by_the_users_number() {
        let database = b"root:x:0:0:root:/root:/bin/sh\n# a note\nme:x:1000:1000:Me,,,:/home/me:/bin/sh\n\
                         odd:x:1001:1001::relative:/bin/sh\nbroken:x:1002\n";
        let home = |user| home_of(user, database).map(|home| home.display().to_string());
        assert_eq!(home(1000).as_deref(), Some("/home/me"));
        assert_eq!(home(0).as_deref(), Some("/root"));
        for user in [1001, 1002, 7] {
            assert_eq!(home(user), None);
        }
        let all: Vec<PathBuf> =
            homes_from(1000, b"x:x:1003:1::/x:/usr/sbin/nologin\ny:x:1004:1::/y\n").collect();
        assert_eq!(all, [Path::new("/y")]);
        assert_eq!(homes_from(0, database).count(), 2);
    }
}
