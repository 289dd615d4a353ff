//! A root in sandboxes that are prepared ahead, and in sessions.

use kennel::{Sandbox, Zygote};
use kennel_tests::{Scratch, eventually};

use super::tree::small;

#[test]
fn the_commands_of_a_session_share_the_layer_and_nothing_is_left_of_it() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    let before = scratch.listing();
    let sandbox =
        Sandbox::builder().rootfs(&root).deny_read("/etc/shadow").deny_write("/etc/absent").build().unwrap();
    let session = sandbox.session().unwrap();
    assert!(session.run("sh", &["-c", "echo kept > /srv/new"]).unwrap().success());
    assert_eq!(session.run("cat", &["/srv/new"]).unwrap().stdout, "kept\n");
    let denied = session.run("sh", &["-c", "cat /etc/shadow; echo x > /etc/absent; ls /etc/absent"]).unwrap();
    assert!(denied.stdout.is_empty(), "{denied:?}");
    session.end().unwrap();
    assert_eq!(sandbox.run("ls", &["/srv"]).unwrap().stdout, "data\n");
    assert_eq!(scratch.listing(), before);
}

#[test]
#[kennel_claim::claim("zygote/changed-disks-are-noticed")]
fn prepared_sandboxes_have_a_layer_each_and_see_what_changed_in_the_root() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    let zygote = Zygote::start().unwrap();
    let sandbox = Sandbox::builder().rootfs(&root).deny_read("/srv/*/*.key").build().unwrap();
    let pool = zygote.pool(&sandbox, 2).unwrap();
    for _ in 0..3 {
        eventually("a sandbox is prepared", || (pool.ready() > 0).then_some(()));
        let result = pool.run("sh", &["-c", "ls /new; echo x > /new; cat /srv/data/a.key"]).unwrap();
        assert!(result.stdout.is_empty(), "{result:?}");
    }
    // A glob matches more by now, and a hidden file is another.
    eventually("a sandbox is prepared", || (pool.ready() == 2).then_some(()));
    scratch.write("root/srv/data/b.key", "later\n");
    scratch.write("next", "replaced\n");
    std::fs::rename(scratch.join("next"), root.join("srv/data/a.key")).unwrap();
    let result = pool.run("sh", &["-c", "cat /srv/data/a.key /srv/data/b.key"]).unwrap();
    assert!(result.stdout.is_empty(), "{result:?}");
}

/// The role: an init that is a program of its own has fewer capabilities than one that is cloned.
pub fn alone(_: &[std::ffi::OsString]) -> i32 {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return 0 };
    let sandbox = Sandbox::builder().rootfs(&root).build().unwrap();
    let result = sandbox.run("sh", &["-c", "echo x > /new && rm /srv/data/* && cat /new"]).unwrap();
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("x\n", ""));
    0
}

#[test]
fn a_layer_can_be_had_without_a_zygote() {
    kennel_tests::ran_within(std::time::Duration::from_secs(60), &mut kennel_tests::role::play("alone")).ok();
}

#[test]
fn several_users_are_added_to_those_of_the_root() {
    let scratch = Scratch::new();
    let Some(root) = small(&scratch) else { return };
    scratch.write("root/etc/passwd", "root:x:0:0::/:/bin/sh\nofroot:x:77:77::/:/bin/sh\n");
    scratch.write("root/etc/group", "root:x:0:\n");
    let sandbox = Sandbox::builder().rootfs(&root).users(["root", "builder"]).build().unwrap();
    let result = match sandbox.run("cat", &["/etc/passwd"]) {
        Ok(result) => result,
        Err(error) if error.to_string().contains("/etc/subuid") => {
            return kennel_tests::skipped("no subordinate ids");
        }
        Err(error) => panic!("{error}"),
    };
    assert!(result.stdout.contains("ofroot:x:77") && result.stdout.contains("builder:"), "{result:?}");
    assert!(!result.stdout.contains("nobody:"), "the host's: {result:?}");
    // One that is a pipe is not waited for.
    std::fs::remove_file(root.join("etc/passwd")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("etc/passwd"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    assert!(sandbox.run("cat", &["/etc/plain"]).unwrap().success());
}
