//! `/etc/passwd` and `/etc/group` of a sandbox with several users.

use kennel_policy::users::User;

/// The users' lines, then those of `database` that are about nobody of the same name or number. A line of the sandbox has no
/// password, so that nothing looks for one in `/etc/shadow`, which root inside cannot read.
#[must_use]
pub fn passwd(users: &[User], database: &str) -> String {
    let mut text = String::new();
    for user in users {
        let User { name, uid, gid } = user;
        text.push_str(&format!("{name}:*:{uid}:{gid}:{name}:{}:/bin/sh\n", user.home()));
    }
    let own: Vec<(&str, u32)> = users.iter().map(|user| (user.name.as_str(), user.uid)).collect();
    others(&mut text, database, &own);
    text
}

/// The same for groups.
#[must_use]
pub fn group(users: &[User], database: &str) -> String {
    let mut text = String::new();
    let mut groups: Vec<(&str, u32)> = Vec::new();
    for user in users {
        // Several users may be of one group; it has the name of the first.
        if !groups.iter().any(|(_, gid)| *gid == user.gid) {
            text.push_str(&format!("{}:*:{}:\n", user.name, user.gid));
            groups.push((&user.name, user.gid));
        }
    }
    others(&mut text, database, &groups);
    text
}

fn others(text: &mut String, database: &str, own: &[(&str, u32)]) {
    for line in database.lines() {
        let mut fields = line.split(':');
        let (name, number) =
            (fields.next().unwrap_or_default(), fields.nth(1).and_then(|id| id.parse::<u32>().ok()));
        let Some(number) = number else { continue };
        if !own.iter().any(|(other, id)| *other == name || *id == number) {
            text.push_str(line);
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandboxs_users_come_before_and_in_place_of_the_hosts() {
        let user = |name: &str, uid, gid| User { name: name.into(), uid, gid };
        let users = [user("root", 0, 0), user("builder", 1000, 1000), user("tester", 1001, 1000)];
        let passwd = passwd(
            &users,
            "root:x:0:0:root:/root:/bin/bash\nme:x:1000:1000:Me:/home/me:/bin/zsh\nbuilder:x:77:77::/:/bin/sh\n\
             nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\nnonsense\n",
        );
        assert_eq!(
            passwd,
            "root:*:0:0:root:/run/home/root:/bin/sh\nbuilder:*:1000:1000:builder:/run/home/builder:/bin/sh\n\
             tester:*:1001:1000:tester:/run/home/tester:/bin/sh\n\
             nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        );
        let group = group(&users, "root:x:0:\ndocker:x:999:me\nmygroup:x:1000:\n");
        assert_eq!(group, "root:*:0:\nbuilder:*:1000:\ndocker:x:999:me\n");
    }
}
