//! Files that show at more than one path: second mounts of their folder, and mounts of the policy's own.

use std::process::Command;

use kennel_tests::{Scratch, kennel_bin, program, ran, skipped, text};

use crate::replaced::{Inside, exposed, report};

fn yard() -> Scratch {
    let yard = Scratch::new();
    yard.write("home/keys/key", "key-text");
    yard.write("home/keys/deep/key", "deep-text");
    yard.dir("work");
    yard.dir("second");
    yard
}

/// Runs a script with these flags for kennel on a host where `home` shows at `second` too; as an ordinary user, in a
/// mount namespace of the user's own.
fn with_second_mount(yard: &Scratch, kennel: &str) -> Option<kennel_tests::Ran> {
    let unshare = program("unshare")?;
    let (home, second) = (text(&yard.join("home")), text(&yard.join("second")));
    let script = format!("mount --bind {home} {second} && cd {} && {kennel}", text(&yard.join("work")));
    let mut command = Command::new(unshare);
    command.args(["-Urm", "sh", "-c", &script]).env("XDG_CONFIG_HOME", "/nonexistent").env("LC_ALL", "C");
    Some(ran(&mut command))
}

#[test]
#[kennel_claim::claim("files/no-second-mount")]
fn a_second_mount_of_a_denied_folder_is_no_second_door() {
    let yard = yard();
    let (bin, keys) = (text(&kennel_bin()), text(&yard.join("home/keys")));
    let second = text(&yard.join("second/keys"));
    let open = format!("{bin} run -- cat {second}/key");
    let Some(shown) = with_second_mount(&yard, &open) else { return skipped("unshare is not installed") };
    assert_eq!(shown.ok().stdout, "key-text", "without a rule it shows");
    for denied in [&keys, &format!("{keys}/key"), &format!("{keys}/k*")] {
        let kennel = format!("{bin} run --deny-read '{denied}' -- cat {second}/key");
        let ran = with_second_mount(&yard, &kennel).unwrap();
        assert!(ran.code != 0 && !ran.stdout.contains("key-text"), "{denied}: {ran:?}");
    }
    // The other way round: a rule that names the second path.
    let kennel = format!("{bin} run --deny-read {second}/deep -- cat {keys}/deep/key");
    let ran = with_second_mount(&yard, &kennel).unwrap();
    assert!(ran.code != 0 && !ran.stdout.contains("deep-text"), "{ran:?}");
    // And for writing.
    let (home, all) = (text(&yard.join("home")), text(&yard.join("second")));
    let kennel = format!(
        "{bin} run --allow-write {all} --deny-write {home}/keys/key -- sh -c 'echo x > {second}/key; echo y > {second}/new'"
    );
    with_second_mount(&yard, &kennel).unwrap();
    assert_eq!(std::fs::read_to_string(yard.join("home/keys/key")).unwrap(), "key-text");
    assert!(yard.join("home/keys/new").exists(), "what is not denied can be written");
    // One that does not exist yet.
    let kennel = format!(
        "{bin} run --allow-write {all} --deny-write {home}/keys/absent -- sh -c 'echo x > {second}/absent'"
    );
    let ran = with_second_mount(&yard, &kennel).unwrap();
    assert!(ran.stderr.contains("Read-only"), "{ran:?}");
}

#[test]
fn what_is_denied_below_the_source_of_a_mount_stays_denied_when_it_is_replaced() {
    let yard = yard();
    let key = yard.join("home/keys/key");
    let mount = format!("{}:/data:rw", text(&yard.join("home")));
    let mut inside = Inside::run(&yard, &["--mount", &mount, "--deny-read", &text(&key)]);
    std::fs::write(yard.join("home/keys/fresh"), "new-text").unwrap();
    std::fs::rename(yard.join("home/keys/fresh"), &key).unwrap();
    inside.until_without("cat /data/keys/key", "new-text");
    inside.until_without(&format!("cat {}", text(&key)), "new-text");
    inside.end().ok();
    assert!(exposed(&report(&yard), &key).is_some());
}
