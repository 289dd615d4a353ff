//! `allowNestedUserNamespaces`: namespaces of the command's own, as browsers and container tools make them, in which the
//! sandbox's rules hold all the same.

use kennel_tests::am_root;

use crate::compat::world::{Place, Told, Try, World, installed};

const SETTINGS: &str = r#"{"network": {"allowedDomains": [], "deniedDomains": []}, "allowNestedUserNamespaces": true,
    "filesystem": {"denyRead": ["secret"], "allowWrite": ["."], "denyWrite": ["kept"]}}"#;

const TRIES: &[Try] = &[
    ("a user namespace", "test $(unshare -Ur id -u) = 0"),
    ("a mount in it", "unshare -Urm sh -c 'mount -t tmpfs none open && touch open/x'"),
    ("a root of its own", "unshare -Urm sh -c 'mount --rbind / open && chroot open true'"),
    ("processes of its own", "unshare -Urpfm --mount-proc true"),
    (
        "a container in it",
        "bwrap --ro-bind / / --dev /dev --unshare-user --unshare-pid --unshare-net --unshare-ipc true",
    ),
    ("a container with a view of cgroups", "bwrap --ro-bind / / --dev /dev --unshare-all true"),
    ("the outer one's mounts, taken away", "unshare -Urm umount secret"),
    ("all of them", "unshare -Urm umount -l / && cat secret/x"),
    ("what lies below them", "unshare -Urm sh -c 'mount --bind . open && cat open/secret/x'"),
    ("what is kept, mounted anew", "unshare -Urm sh -c 'mount -o remount,bind,rw kept && touch kept/x'"),
    ("what is kept, by another mount", "unshare -Urm sh -c 'mount --rbind . open && touch open/kept/x'"),
    (
        "what is kept, as a layer",
        "unshare -Urm sh -c 'mount -t overlay none -o lowerdir=open,upperdir=kept,workdir=work open && touch open/x'",
    ),
    (
        "a hook, as a layer",
        "unshare -Urm sh -c 'mount -t overlay none -o lowerdir=open,upperdir=.git,workdir=work open && touch open/hooks/x'",
    ),
    ("a hook, by another mount", "unshare -Urm sh -c 'mount --rbind . open && touch open/.git/hooks/x'"),
    (
        "a name that nobody makes, by another mount",
        "unshare -Urm sh -c 'mount --rbind . open && touch open/.mcp.json'",
    ),
    (
        "the same below another root",
        "unshare -Urm sh -c 'mount --rbind / open && chroot open sh -c \"cd $PWD && touch .mcp.json\"'",
    ),
    ("outside", "unshare -Urm sh -c 'touch ../x'"),
    ("the kernel's settings", "unshare -Ur sh -c 'echo x > /proc/sys/kernel/core_pattern'"),
];

fn make(place: &Place) {
    place.host("git init -q . && mkdir secret kept open work && echo x > secret/x && echo x > kept/file");
}

#[test]
#[kennel_claim::claim("privileges/nested-rules-hold")]
fn the_rules_hold_in_namespaces_of_the_commands_own() {
    if !installed(&["git", "bash", "unshare", "bwrap"]) {
        return;
    }
    let works = [
        ("a user namespace", "ok", "ok"),
        ("a mount in it", "ok", "ok"),
        ("a root of its own", "ok", "ok"),
        ("a container in it", "ok", "ok"),
        // Who has a cgroup namespace can mount the cgroup file system, and lift limits there.
        ("a container with a view of cgroups", "ok", "fails"),
    ];
    let world =
        World { told: Told::Srt(SETTINGS), make, tries: TRIES, differences: &works, disk_differs: &[] };
    if am_root() {
        // Since Linux 5.12 nobody maps user 0 who does not hold CAP_SETFCAP. srt leaves root all capabilities.
        world.nothing_works();
    } else {
        world.compare();
    }
}
